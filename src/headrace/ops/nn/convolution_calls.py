"""tf.nn's convolutions and pooling: arguments as programs write them, made into nodes.

`strides`, `ksize` and `dilations` are a number, one for each spatial dimension, or one for each dimension; `padding` is
"SAME", "VALID" or, where TensorFlow takes it, a list of pairs.
Called by: library.layers.dense, programs.  Threads: as graph.
Source: TF 1.15 and 2.21 behaviour; nodes checked against the oracle
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from headrace.graph.convert import convert
from headrace.graph.names import name_scope
from headrace.graph.tensor import Tensor
from headrace.ops.array.shapes import expand_dims, squeeze
from headrace.ops.array.shapes import shape as shape_of
from headrace.ops.nn.convolution import (
    conv2d_backprop_filter_op,
    conv2d_backprop_input_op,
    conv2d_op,
    conv3d_backprop_filter_op,
    conv3d_op,
)
from headrace.ops.nn.depthwise import (
    depthwise_backprop_filter_op,
    depthwise_backprop_input_op,
    depthwise_conv2d_op,
)
from headrace.ops.nn.over_space import over_space

__all__ = [
    "atrous_conv2d",
    "conv1d",
    "conv2d",
    "conv2d_backprop_filter",
    "conv2d_backprop_input",
    "conv3d",
    "conv3d_backprop_filter_v2",
    "convolution",
    "depthwise_conv2d",
    "depthwise_conv2d_backprop_filter",
    "depthwise_conv2d_backprop_input",
    "depthwise_conv2d_native",
    "depthwise_conv2d_native_backprop_filter",
    "depthwise_conv2d_native_backprop_input",
    "separable_conv2d",
]

FORMATS = {1: ("NHWC", "NCHW"), 2: ("NHWC", "NCHW"), 3: ("NDHWC", "NCDHW")}


def either(new: Any, new_name: str, old: Any, old_name: str) -> Any:
    """The one that was given.  Raises ValueError if both or none are."""
    if (new is None) == (old is None):
        if new is not None:
            raise ValueError(
                f"Cannot specify both '{old_name}' and '{new_name}': the first is the old name of the second"
            )
        raise ValueError(
            f"Tried to convert '{old_name}' to a tensor and failed: {new_name} ({old_name} is its old name) is None"
        )
    return old if new is None else new


def per_axis(value: Any, spatial: int, data_format: str, name: str) -> list[int]:
    """An entry for each axis, from a number, one for each spatial dimension, or one for each axis.

    Raises ValueError for another count.
    """
    given = (
        list(value)
        if isinstance(value, (list, tuple, np.ndarray))
        else [1 if value is None else value]
    )
    if len(given) == spatial + 2:
        return given
    if len(given) == 1:
        given = given * spatial
    if len(given) != spatial:
        raise ValueError(
            f"{name} should be of length 1, {spatial} or {spatial + 2}, and is {value}"
        )
    return [1, *given, 1] if data_format.endswith("C") else [1, 1, *given]


def padding_attrs(padding: Any, pairs: int = 4) -> dict[str, Any]:
    """Attrs padding and explicit_paddings.  Raises ValueError unless it is a string or `pairs` pairs."""
    if isinstance(padding, (str, bytes)):
        name = padding if isinstance(padding, str) else padding.decode()
        if name == "EXPLICIT":
            raise ValueError('padding "EXPLICIT" is written as a list of pairs')
        return {"padding": name, "explicit_paddings": []}
    try:
        listed = [[int(n) for n in pair] for pair in padding]
    except TypeError:
        raise TypeError(
            f"Expected string for argument 'padding' not {padding!r}: it is 'SAME', 'VALID' or a list of pairs"
        ) from None
    if len(listed) != pairs or any(len(pair) != 2 for pair in listed):
        raise ValueError(f"explicit padding has {pairs} pairs, not {padding}")
    return {"padding": "EXPLICIT", "explicit_paddings": [n for pair in listed for n in pair]}


def window_attrs(strides: Any, padding: Any, data_format: str, dilations: Any) -> dict[str, Any]:
    """Attrs of an op that takes strides and dilations of all axes.  Raises as `padding_attrs`; TypeError."""
    steps, spread = list(strides), None if dilations is None else list(dilations)
    return {
        "strides": steps,
        "data_format": data_format,
        "dilations": spread,
        **padding_attrs(padding),
    }


# -- convolutions -----------------------------------------------------------------------------


def conv2d(
    input: Any,
    filter: Any = None,
    strides: Any = None,
    padding: Any = None,
    use_cudnn_on_gpu: bool = True,
    data_format: str | None = "NHWC",
    dilations: Any = (1, 1, 1, 1),
    name: str | None = None,
    filters: Any = None,
) -> Tensor:
    """Images [n, h, w, c] with filters [fh, fw, c, m]: [n, h', w', m]; NCHW: channels second."""
    format_ = data_format or "NHWC"
    made: Tensor = conv2d_op(
        input,
        either(filters, "filters", filter, "filter"),
        strides=per_axis(strides, 2, format_, "strides"),
        use_cudnn_on_gpu=use_cudnn_on_gpu,
        data_format=format_,
        dilations=per_axis(dilations, 2, format_, "dilations"),
        name=name,
        **padding_attrs(padding),
    )
    return made


def conv2d_backprop_input(
    input_sizes: Any,
    filter: Any = None,
    out_backprop: Any = None,
    strides: Any = None,
    padding: Any = None,
    use_cudnn_on_gpu: bool = True,
    data_format: str = "NHWC",
    dilations: Any = (1, 1, 1, 1),
    name: str | None = None,
    filters: Any = None,
) -> Tensor:
    """The gradient of `conv2d` with respect to its input, of shape input_sizes [4]."""
    made: Tensor = conv2d_backprop_input_op(
        input_sizes,
        either(filters, "filters", filter, "filter"),
        out_backprop,
        use_cudnn_on_gpu=use_cudnn_on_gpu,
        name=name,
        **window_attrs(strides, padding, data_format, dilations),
    )
    return made


def conv2d_backprop_filter(
    input: Any,
    filter_sizes: Any,
    out_backprop: Any,
    strides: Any,
    padding: Any,
    use_cudnn_on_gpu: bool = True,
    data_format: str = "NHWC",
    dilations: Any = (1, 1, 1, 1),
    name: str | None = None,
) -> Tensor:
    """The gradient of `conv2d` with respect to its filter, of shape filter_sizes [4]."""
    made: Tensor = conv2d_backprop_filter_op(
        input,
        filter_sizes,
        out_backprop,
        use_cudnn_on_gpu=use_cudnn_on_gpu,
        name=name,
        **window_attrs(strides, padding, data_format, dilations),
    )
    return made


def conv1d(
    value: Any = None,
    filters: Any = None,
    stride: Any = None,
    padding: Any = None,
    use_cudnn_on_gpu: bool | None = None,
    data_format: str | None = None,
    name: str | None = None,
    input: Any = None,
    dilations: Any = None,
) -> Tensor:
    """Sequences [n, w, c] with filters [fw, c, m]: [n, w', m]; NCW: channels second.

    Raises ValueError for another data_format.
    """
    value = either(input, "input", value, "value")
    if data_format not in (None, "NWC", "NHWC", "NCW", "NCHW"):
        raise ValueError(f"`data_format` must be 'NWC' or 'NCW', not {data_format!r}")
    first = data_format in ("NCW", "NCHW")
    format_, at = ("NCHW", -2) if first else ("NHWC", -3)
    steps, spread = ([1, *one_of_lines(each, first)] for each in (stride, dilations))
    with name_scope(name, "conv1d", [value, filters]) as scope:
        rows = expand_dims(value, at)
        made: Tensor = conv2d_op(
            rows,
            expand_dims(filters, 0),
            strides=steps,
            use_cudnn_on_gpu=True if use_cudnn_on_gpu is None else use_cudnn_on_gpu,
            data_format=format_,
            dilations=spread,
            name=scope,
            **padding_attrs(padding),
        )
        return squeeze(made, [at])


def one_of_lines(value: Any, last: bool) -> list[int]:
    """[1, n, 1], or [1, 1, n] if `last`, from n, [n] or an entry per axis of a sequence."""
    given = list(value) if isinstance(value, (list, tuple)) else [1 if value is None else value]
    if len(given) == 3:
        given = given[2:] if last else given[1:2]
    if len(given) != 1:
        raise ValueError(f"a stride or dilation of sequences has 1 or 3 entries, not {value}")
    return [1, 1, given[0]] if last else [1, given[0], 1]


def conv3d(
    input: Any,
    filter: Any = None,
    strides: Any = None,
    padding: Any = None,
    data_format: str = "NDHWC",
    dilations: Any = (1, 1, 1, 1, 1),
    name: str | None = None,
    filters: Any = None,
) -> Tensor:
    """Volumes [n, d, h, w, c] with filters [fd, fh, fw, c, m]: [n, d', h', w', m]."""
    made: Tensor = conv3d_op(
        input,
        either(filters, "filters", filter, "filter"),
        strides=list(strides),
        padding=padding,
        data_format=data_format,
        dilations=None if dilations is None else list(dilations),
        name=name,
    )
    return made


def conv3d_backprop_filter_v2(
    input: Any,
    filter_sizes: Any,
    out_backprop: Any,
    strides: Any,
    padding: str,
    data_format: str = "NDHWC",
    dilations: Any = (1, 1, 1, 1, 1),
    name: str | None = None,
) -> Tensor:
    """The gradient of `conv3d` with respect to its filter, of shape filter_sizes [5]."""
    made: Tensor = conv3d_backprop_filter_op(
        input,
        filter_sizes,
        out_backprop,
        strides=list(strides),
        padding=padding,
        data_format=data_format,
        dilations=None if dilations is None else list(dilations),
        name=name,
    )
    return made


def _spatial(filter: Tensor, count: int) -> Sequence[int | None] | None:
    raw = filter.raw_shape
    return None if raw is None else raw[:count]


def _check_one(strides: Sequence[int], rate: Sequence[int]) -> None:
    if any(n != 1 for n in strides) and any(n != 1 for n in rate):
        raise ValueError(
            "`strides > 1` not supported in conjunction with `dilation_rate > 1`: they are "
            f"{list(strides)} and {list(rate)}"
        )


def depthwise_conv2d(
    input: Any,
    filter: Any,
    strides: Any,
    padding: Any,
    rate: Any = None,
    name: str | None = None,
    data_format: str | None = None,
    dilations: Any = None,
) -> Tensor:
    """Each channel of images [n, h, w, c] with its own filters [fh, fw, c, m]: [n, h', w', c * m].

    rate (dilations): distance of a filter's places.  Where it is not 1, an image is divided into as many as it has
    places apart, and strides go over these.
    """
    rate = dilations if rate is None else rate
    with name_scope(name, "depthwise", [input, filter]) as scope:
        return _depthwise(
            convert(input, name="tensor_in"),
            convert(filter, name="filter_in"),
            strides,
            padding,
            rate,
            data_format,
            scope,
        )


def _depthwise(
    input: Tensor,
    filter: Tensor,
    strides: Any,
    padding: Any,
    rate: Any,
    data_format: str | None,
    name: str,
) -> Tensor:
    rate = (
        [1, 1] if rate is None else list(rate) if isinstance(rate, (list, tuple)) else [rate, rate]
    )
    shape_of(filter)

    def make(x: Any, pads: Any) -> Tensor:
        made: Tensor = depthwise_conv2d_op(
            x,
            filter,
            strides=list(strides),
            data_format=data_format or "NHWC",
            name=name,
            **padding_attrs(pads),
        )
        return made

    return over_space(input, _spatial(filter, 2), rate, padding, data_format, make)


def depthwise_conv2d_native(
    input: Any,
    filter: Any,
    strides: Any,
    padding: Any,
    data_format: str = "NHWC",
    dilations: Any = (1, 1, 1, 1),
    name: str | None = None,
) -> Tensor:
    """`depthwise_conv2d` as one op, with an entry for each axis in strides and dilations."""
    made: Tensor = depthwise_conv2d_op(
        input,
        filter,
        name=name,
        **window_attrs(strides, padding, data_format, dilations),
    )
    return made


def depthwise_conv2d_native_backprop_input(
    input_sizes: Any,
    filter: Any,
    out_backprop: Any,
    strides: Any,
    padding: Any,
    data_format: str = "NHWC",
    dilations: Any = (1, 1, 1, 1),
    name: str | None = None,
) -> Tensor:
    """The gradient of `depthwise_conv2d_native` with respect to its input, of shape input_sizes [4]."""
    made: Tensor = depthwise_backprop_input_op(
        input_sizes,
        filter,
        out_backprop,
        name=name,
        **window_attrs(strides, padding, data_format, dilations),
    )
    return made


def depthwise_conv2d_native_backprop_filter(
    input: Any,
    filter_sizes: Any,
    out_backprop: Any,
    strides: Any,
    padding: Any,
    data_format: str = "NHWC",
    dilations: Any = (1, 1, 1, 1),
    name: str | None = None,
) -> Tensor:
    """The gradient of `depthwise_conv2d_native` with respect to its filter, of shape filter_sizes [4]."""
    made: Tensor = depthwise_backprop_filter_op(
        input,
        filter_sizes,
        out_backprop,
        name=name,
        **window_attrs(strides, padding, data_format, dilations),
    )
    return made


depthwise_conv2d_backprop_input = depthwise_conv2d_native_backprop_input
depthwise_conv2d_backprop_filter = depthwise_conv2d_native_backprop_filter


def separable_conv2d(
    input: Any,
    depthwise_filter: Any,
    pointwise_filter: Any,
    strides: Any,
    padding: Any,
    rate: Any = None,
    name: str | None = None,
    data_format: str | None = None,
    dilations: Any = None,
) -> Tensor:
    """`depthwise_conv2d`, then a convolution of single places with pointwise_filter [1, 1, c * m, k]."""
    rate = dilations if rate is None else rate
    with name_scope(name, "separable_conv2d", [input, depthwise_filter, pointwise_filter]) as scope:
        input = convert(input, name="tensor_in")
        channels = convert(depthwise_filter, name="depthwise_filter")
        points = convert(pointwise_filter, name="pointwise_filter")
        raw = points.raw_shape
        points.shape.with_rank(4)
        for n in raw[:2] if raw is not None else ():
            if n not in (None, 1):
                raise ValueError(
                    f"Dimensions {n} and 1 are not compatible: pointwise_filter is [1, 1, channels, out], "
                    f"not {points.shape}"
                )
        apart = _depthwise(input, channels, strides, padding, rate, data_format, "depthwise")
        made: Tensor = conv2d_op(
            apart,
            points,
            strides=[1, 1, 1, 1],
            padding="VALID",
            data_format=data_format or "NHWC",
            name=scope,
        )
        return made


def convolution(
    input: Any,
    filter: Any = None,
    padding: str | None = None,
    strides: Any = None,
    dilation_rate: Any = None,
    name: str | None = None,
    data_format: str | None = None,
    filters: Any = None,
    dilations: Any = None,
) -> Tensor:
    """`conv1d`, `conv2d` or `conv3d`, as the filter's rank says; strides and dilation_rate per spatial dimension.

    Raises ValueError if ranks do not fit, or neither strides nor dilations are 1.
    """
    filter = either(filters, "filters", filter, "filter")
    rate = dilations if dilation_rate is None else dilation_rate
    input, filter = _inside(input, "input"), _inside(filter, "filters")
    with name_scope(name, "convolution", [input, filter]) as scope:
        values, weights = convert(input, name="input"), convert(filter, name="filter")
        raw = weights.raw_shape
        if raw is None or not 3 <= len(raw) <= 5:
            raise ValueError(f"the filter must have 3, 4 or 5 dimensions, not {weights.shape}")
        return convolved_over_space(
            values,
            weights,
            "VALID" if padding is None else padding,
            strides,
            rate,
            data_format,
            scope,
        )


def _inside(value: Any, name: str) -> Any:
    """An array, number or list as a constant in a scope of its own; variables are converted where they are used."""
    if not isinstance(value, (np.ndarray, np.generic, list, tuple)):
        return value
    with name_scope(None, "convolution_internal", [value]):
        return convert(value, name=name)


def convolved_over_space(
    input: Tensor,
    filter: Tensor,
    padding: str,
    strides: Any,
    rate: Any,
    data_format: str | None,
    name: str,
) -> Tensor:
    """`convolution` within a scope; `name` is that of the op."""
    assert filter.raw_shape is not None
    count = len(filter.raw_shape) - 2
    steps = [1] * count if strides is None else _each(strides, count)
    spread = [1] * count if rate is None else _each(rate, count)
    _check_one(steps, spread)
    last = data_format is None or data_format.endswith("C")
    format_ = FORMATS[count][0 if last else 1]
    whole = [1, *steps, 1] if last else [1, 1, *steps]

    def make(x: Any, pads: str) -> Tensor:
        if count == 1:
            return conv1d(
                x, filter, steps[0], pads, data_format="NWC" if last else "NCW", name=name
            )
        op = conv2d_op if count == 2 else conv3d_op
        made: Tensor = op(x, filter, strides=whole, padding=pads, data_format=format_, name=name)
        return made

    if all(n == 1 for n in spread):
        return make(input, padding)
    return over_space(
        input, _spatial(filter, count), spread, padding, data_format, make, filter.raw_shape
    )


def _each(value: Any, count: int) -> list[int]:
    listed = list(value) if isinstance(value, (list, tuple, np.ndarray)) else [value] * count
    if len(listed) != count:
        raise ValueError(
            f"one number for each of {count} spatial dimensions is wanted, not {value}"
        )
    return listed


def atrous_conv2d(
    value: Any, filters: Any, rate: int, padding: str, name: str | None = None
) -> Tensor:
    """`conv2d` with filters whose places are `rate` apart."""
    return convolution(value, filters, padding, dilation_rate=[rate, rate], name=name)
