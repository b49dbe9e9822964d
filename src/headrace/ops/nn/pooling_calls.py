"""tf.nn's pooling: arguments as programs write them, made into nodes; the positions of the largest values.

Called by: library.layers.dense, programs.  Threads: as graph.
Source: TF 1.15 and 2.21 behaviour, core/kernels/maxpooling_op.cc; nodes checked against the oracle
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from headrace.base import dtypes, errors
from headrace.base.shapes import Shape, text
from headrace.graph.convert import convert
from headrace.graph.graph import Operation
from headrace.graph.names import name_scope
from headrace.graph.registry import OpSpec, op
from headrace.graph.shape_fns import ShapeContext, unchanged
from headrace.graph.tensor import Tensor
from headrace.ops._kernels.windows import Array, check_gradient, static_out
from headrace.ops.array.shapes import expand_dims, squeeze
from headrace.ops.nn.convolution_calls import either, padding_attrs, per_axis
from headrace.ops.nn.over_space import over_space
from headrace.ops.nn.pooling import (
    avg_pool_3d_op,
    avg_pool_op,
    checked_ksize,
    max_pool_3d_op,
    max_pool_op,
    pool_windows,
)

__all__ = [
    "avg_pool",
    "avg_pool1d",
    "avg_pool2d",
    "avg_pool3d",
    "avg_pool_v2",
    "max_pool",
    "max_pool1d",
    "max_pool2d",
    "max_pool3d",
    "max_pool_v2",
    "max_pool_with_argmax",
    "pool",
]

# -- where the largest is ---------------------------------------------------------------------

_ARGMAX = (
    "ksize: list(int) >= 4; strides: list(int) >= 4; {}padding: {{'SAME', 'VALID'}}; "
    "include_batch_in_index: bool = false; {}T: realnumbertype"
)


def _argmax_shape(c: ShapeContext) -> list[Shape]:
    x = c.with_rank("input", 4)
    assert x is not None
    out = static_out(
        x[1:3], checked_ksize(c, 4)[1:3], c.attr("strides"), c.attr("padding"), b"NHWC", (1,) * 4
    )
    return [(x[0], *out, x[3])] * 2


@op(
    "MaxPoolWithArgmax",
    inputs="input: T",
    outputs="output: T; argmax: Targmax",
    attrs=_ARGMAX.format("Targmax: {int32, int64} = int64; ", ""),
    shape=_argmax_shape,
)
def max_pool_with_argmax_op(
    xp: Any,
    x: Array,
    *,
    ksize: list[int],
    strides: list[int],
    Targmax: dtypes.DType,
    padding: bytes,
    include_batch_in_index: bool,
) -> Any:
    """MaxPool of x [n, h, w, c], and where each value was found: (y · w + x) · c + channel, the first of equal ones.

    With include_batch_in_index counted through the whole batch.  Raises InvalidArgument as MaxPool.
    """
    if x.ndim != 4:
        raise errors.invalid_argument(f"the input must have 4 dimensions, not {text(x.shape)}")
    where = pool_windows(x.shape[1:3], ksize, strides, padding, b"NHWC")
    places = np.arange(math.prod(x.shape[1:]), dtype=np.int64).reshape(1, *x.shape[1:])
    lowest = np.iinfo(x.dtype).min if x.dtype.kind in "iu" else -np.inf
    values, at = where.padded(x, lowest), where.padded(places, 0)
    out = np.full((len(x), *where.out, x.shape[-1]), lowest, x.dtype)
    found = np.zeros(out.shape, np.int64)
    for number, (_, view) in enumerate(where.positions()):
        better = values[view] > out if number else np.ones(out.shape, bool)
        np.copyto(out, values[view], where=better)
        np.copyto(found, np.broadcast_to(at[view], out.shape), where=better)
    if include_batch_in_index:
        found += np.arange(len(x)).reshape(-1, 1, 1, 1) * math.prod(x.shape[1:])
    return out, found.astype(Targmax.np, copy=False)


@op(
    "MaxPoolGradWithArgmax",
    inputs="input: T; grad: T; argmax: Targmax",
    outputs="output: T",
    attrs=_ARGMAX.format("", "Targmax: {int32, int64}; "),
    shape=unchanged,
)
def max_pool_grad_with_argmax_op(
    xp: Any,
    x: Array,
    dy: Array,
    argmax: Array,
    *,
    ksize: list[int],
    strides: list[int],
    padding: bytes,
    include_batch_in_index: bool,
) -> Any:
    """The gradient of MaxPoolWithArgmax with respect to its input.

    Raises InvalidArgument if shapes do not fit or an index is out of range.
    """
    where = pool_windows(x.shape[1:3], ksize, strides, padding, b"NHWC")
    for each in (dy, argmax):
        check_gradient(each, where, len(x), x.shape[-1])
    places = argmax.astype(np.int64)
    if not include_batch_in_index:
        places = places + np.arange(len(x)).reshape(-1, 1, 1, 1) * math.prod(x.shape[1:])
    if places.size and not (places.min() >= 0 and places.max() < x.size):
        raise errors.invalid_argument(
            f"argmax must be in [0, {x.size}) of an input {text(x.shape)}"
        )
    dx = np.zeros(x.size, dy.dtype)
    np.add.at(dx, places.ravel(), dy.ravel())
    return dx.reshape(x.shape)


@max_pool_with_argmax_op.gradient
def _(op: Operation, dout: Any, _: Any) -> Any:
    return max_pool_grad_with_argmax_op(
        op.inputs[0],
        dout,
        op.outputs[1],
        ksize=op["ksize"],
        strides=op["strides"],
        padding=op["padding"],
        include_batch_in_index=op["include_batch_in_index"],
    )


def max_pool_with_argmax(
    input: Any,
    ksize: Any,
    strides: Any,
    padding: str,
    data_format: str = "NHWC",
    Targmax: Any = None,
    name: str | None = None,
    output_dtype: Any = None,
    include_batch_in_index: bool = False,
) -> Any:
    """(largest values, where they are); see the op."""
    if data_format != "NHWC":
        raise ValueError(f"max_pool_with_argmax takes images as NHWC, not {data_format}")
    kind = (
        either(output_dtype, "output_dtype", Targmax, "Targmax")
        if (output_dtype is not None or Targmax is not None)
        else dtypes.int64
    )
    return max_pool_with_argmax_op(
        input,
        ksize=per_axis(ksize, 2, "NHWC", "ksize"),
        Targmax=kind,
        strides=per_axis(strides, 2, "NHWC", "strides"),
        padding=padding,
        include_batch_in_index=include_batch_in_index,
        name=name,
    )


# -- images and volumes -----------------------------------------------------------------------


def max_pool(
    value: Any = None,
    ksize: Any = None,
    strides: Any = None,
    padding: Any = None,
    data_format: str | None = "NHWC",
    name: str | None = None,
    input: Any = None,
) -> Tensor:
    """The largest value under each window of images [n, h, w, c]; NCHW: channels second."""
    value = either(input, "input", value, "value")
    with name_scope(name, "MaxPool", [value]) as scope:
        format_ = data_format or "NHWC"
        window = per_axis(ksize, 2, format_, "ksize")
        if 0 in window:
            raise ValueError(f"`ksize` cannot be zero, and is {ksize}")
        made: Tensor = max_pool_op(
            value,
            ksize=window,
            strides=per_axis(strides, 2, format_, "strides"),
            data_format=format_,
            name=scope,
            **padding_attrs(padding),
        )
        return made


def avg_pool(
    value: Any = None,
    ksize: Any = None,
    strides: Any = None,
    padding: str | None = None,
    data_format: str | None = "NHWC",
    name: str | None = None,
    input: Any = None,
) -> Tensor:
    """The mean under each window of images [n, h, w, c], padding not counted; NCHW: channels second."""
    value = either(input, "input", value, "value")
    with name_scope(name, "AvgPool", [value]) as scope:
        format_ = data_format or "NHWC"
        made: Tensor = avg_pool_op(
            value,
            ksize=per_axis(ksize, 2, format_, "ksize"),
            strides=per_axis(strides, 2, format_, "strides"),
            padding=padding,
            data_format=format_,
            name=scope,
        )
        return made


def max_pool2d(
    input: Any,
    ksize: Any,
    strides: Any,
    padding: Any,
    data_format: str = "NHWC",
    name: str | None = None,
) -> Tensor:
    """`max_pool` of images."""
    with name_scope(name, "MaxPool2d", [input]) as scope:
        return max_pool(input, ksize, strides, padding, data_format, scope)


avg_pool2d = avg_pool


def _of_volumes(
    made_by: OpSpec,
    scope_name: str,
    input: Any,
    ksize: Any,
    strides: Any,
    padding: str,
    data_format: str | None,
    name: str | None,
) -> Tensor:
    with name_scope(name, scope_name, [input]) as scope:
        format_ = data_format or "NDHWC"
        made: Tensor = made_by(
            input,
            ksize=per_axis(ksize, 3, format_, "ksize"),
            strides=per_axis(strides, 3, format_, "strides"),
            padding=padding,
            data_format=format_,
            name=scope,
        )
        return made


def max_pool3d(
    input: Any,
    ksize: Any,
    strides: Any,
    padding: str,
    data_format: str | None = "NDHWC",
    name: str | None = None,
) -> Tensor:
    """`max_pool` of volumes [n, d, h, w, c]."""
    return _of_volumes(
        max_pool_3d_op, "MaxPool3D", input, ksize, strides, padding, data_format, name
    )


def avg_pool3d(
    input: Any,
    ksize: Any,
    strides: Any,
    padding: str,
    data_format: str | None = "NDHWC",
    name: str | None = None,
) -> Tensor:
    """`avg_pool` of volumes [n, d, h, w, c]."""
    return _of_volumes(
        avg_pool_3d_op, "AvgPool3D", input, ksize, strides, padding, data_format, name
    )


def _of_sequences(
    make: Any,
    scope_name: str,
    input: Any,
    ksize: Any,
    strides: Any,
    padding: Any,
    data_format: str | None,
    name: str | None,
) -> Tensor:
    first = data_format == "NCW"
    at, format_ = (2, "NCHW") if first else (1, "NHWC")
    with name_scope(name, scope_name, [input]) as scope:
        rows = expand_dims(input, at)
        window, steps = (_flat(each, first) for each in (ksize, strides))
        made = make(rows, window, steps, padding, format_, scope)
        return squeeze(made, [at])


def _flat(value: Any, first: bool) -> list[int]:
    given = list(value) if isinstance(value, (list, tuple)) else [value]
    if len(given) == 1:
        given = [1, 1, *given] if first else [1, *given, 1]
    if len(given) != 3:
        raise ValueError(f"ksize and strides of sequences have 1 or 3 entries, not {value}")
    return [given[0], given[1], 1, given[2]] if first else [given[0], 1, given[1], given[2]]


def max_pool1d(
    input: Any,
    ksize: Any,
    strides: Any,
    padding: Any,
    data_format: str | None = "NWC",
    name: str | None = None,
) -> Tensor:
    """`max_pool` of sequences [n, w, c]; NCW: channels second."""
    return _of_sequences(max_pool, "MaxPool1d", input, ksize, strides, padding, data_format, name)


def avg_pool1d(
    input: Any,
    ksize: Any,
    strides: Any,
    padding: Any,
    data_format: str | None = "NWC",
    name: str | None = None,
) -> Tensor:
    """`avg_pool` of sequences [n, w, c]; NCW: channels second."""
    return _of_sequences(avg_pool, "AvgPool1D", input, ksize, strides, padding, data_format, name)


def _of_any(
    makes: tuple[Any, Any, Any],
    input: Any,
    ksize: Any,
    strides: Any,
    padding: Any,
    data_format: str | None,
    name: str | None,
) -> Tensor:
    values = convert(input, name="input")
    count = len(data_format) - 2 if data_format else len(values.raw_shape or ()) - 2
    if not 1 <= count <= 3:
        raise ValueError(f"the input must have 3, 4 or 5 dimensions, not {values.shape}")
    formats = ("NWC", "NHWC", "NDHWC")
    made: Tensor = makes[count - 1](
        values, ksize, strides, padding, data_format or formats[count - 1], name=name
    )
    return made


def max_pool_v2(
    input: Any,
    ksize: Any,
    strides: Any,
    padding: Any,
    data_format: str | None = None,
    name: str | None = None,
) -> Tensor:
    """`max_pool` of sequences, images or volumes, as the input's rank says."""
    return _of_any(
        (max_pool1d, max_pool, max_pool3d), input, ksize, strides, padding, data_format, name
    )


def avg_pool_v2(
    input: Any,
    ksize: Any,
    strides: Any,
    padding: Any,
    data_format: str | None = None,
    name: str | None = None,
) -> Tensor:
    """`avg_pool` of sequences, images or volumes, as the input's rank says."""
    return _of_any(
        (avg_pool1d, avg_pool, avg_pool3d), input, ksize, strides, padding, data_format, name
    )


def pool(
    input: Any,
    window_shape: Any,
    pooling_type: str,
    padding: str,
    dilation_rate: Any = None,
    strides: Any = None,
    name: str | None = None,
    data_format: str | None = None,
    dilations: Any = None,
) -> Tensor:
    """Pooling of one to three spatial dimensions; pooling_type: MAX or AVG.

    window_shape, strides, dilation_rate: per spatial dimension.  Raises ValueError for another type, for strides that
    go beyond the window, and for distances within it where strides are not 1 or the padding is SAME.
    """
    if pooling_type not in ("MAX", "AVG"):
        raise ValueError(
            f"{len(list(window_shape))}-D {pooling_type} pooling is not supported: pooling_type is MAX or AVG"
        )
    largest = pooling_type == "MAX"
    rate = dilations if dilation_rate is None else dilation_rate
    if rate is not None and strides is not None and max(rate) > 1 and max(strides) > 1:
        raise ValueError(
            "`strides > 1` not supported in conjunction with `dilation_rate > 1`: they are "
            f"{list(strides)} and {list(rate)}"
        )
    convert(input).shape.with_rank(len(list(window_shape)) + 2)
    window, default = list(window_shape), [1] * len(window_shape)
    makes: Any = (
        {1: max_pool1d, 2: max_pool, 3: max_pool3d}
        if largest
        else {1: avg_pool1d, 2: avg_pool, 3: avg_pool3d}
    )
    last = data_format is None or data_format.endswith("C")
    formats = {1: ("NWC", "NCW"), 2: ("NHWC", "NCHW"), 3: ("NDHWC", "NCDHW")}[len(window)]
    with name_scope(name, f"{pooling_type.lower()}_pool", [input]) as scope:
        values = convert(input, name="input")
        _check_windows(window, list(strides or default), list(rate or default), padding)

        def make(x: Any, pads: str) -> Tensor:
            made: Tensor = makes[len(window)](
                x, window, list(strides or default), pads, formats[0 if last else 1], name=scope
            )
            return made

        return over_space(values, window, list(rate or default), padding, data_format, make)


def _check_windows(window: list[int], steps: list[int], rate: list[int], padding: str) -> None:
    """Raises ValueError: what no pooling is done with."""
    if len(steps) != len(window) or min(steps) < 1:
        raise ValueError(
            f"strides must be a positive number for each of {len(window)} spatial dimensions: {steps}"
        )
    if padding == "SAME" and any(each > 1 for each in rate):
        raise ValueError(
            f"pooling with 'SAME' padding is not implemented for `dilation_rate` > 1: it is {rate}"
        )
    if any(step > size for step, size in zip(steps, window, strict=True)):
        raise ValueError(
            f"`strides` > `window_shape` not supported: they are {steps}, and the window is {window}"
        )
