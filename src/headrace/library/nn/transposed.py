"""tf.nn's transposed convolutions: what a convolution turns into `input`, of the shape that is asked for.

Called by: library.layers.convolutions, programs.  Threads: as graph.
Source: TF 1.15 and 2.21 behaviour; nodes checked against the oracle
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from headrace.base import dtypes
from headrace.graph.const_value import constant_value
from headrace.graph.convert import convert
from headrace.graph.names import name_scope
from headrace.graph.tensor import Tensor
from headrace.ops.array.joining import concat
from headrace.ops.array.shapes import expand_dims, squeeze
from headrace.ops.array.space_batch import batch_to_space, space_to_batch
from headrace.ops.nn.convolution import conv2d_backprop_input_op, conv3d_backprop_input_op
from headrace.ops.nn.convolution_calls import FORMATS, either, one_of_lines, padding_attrs, per_axis

__all__ = [
    "atrous_conv2d_transpose",
    "conv1d_transpose",
    "conv2d_transpose",
    "conv3d_transpose",
    "conv_transpose",
]


def _transpose(spatial: int, says: str) -> Callable[..., Tensor]:
    op = {2: conv2d_backprop_input_op, 3: conv3d_backprop_input_op}[spatial]
    usual, function_name = FORMATS[spatial][0], f"conv{spatial}d_transpose"

    def function(
        value: Any = None,
        filter: Any = None,
        output_shape: Any = None,
        strides: Any = None,
        padding: Any = "SAME",
        data_format: str | None = usual,
        name: str | None = None,
        input: Any = None,
        filters: Any = None,
        dilations: Any = None,
    ) -> Tensor:
        value = either(input, "input", value, "value")
        filter = either(filters, "filters", filter, "filter")
        format_ = data_format or usual
        with name_scope(name, function_name, [value, filter, output_shape]) as scope:
            attrs = padding_attrs(padding) if spatial == 2 else {"padding": padding}
            made: Tensor = op(
                output_shape,
                filter,
                value,
                strides=per_axis(strides, spatial, format_, "strides"),
                data_format=format_,
                dilations=per_axis(dilations, spatial, format_, "dilations"),
                name=scope,
                **attrs,
            )
            return made

    function.__name__ = function.__qualname__ = function_name
    function.__doc__ = says
    return function


conv2d_transpose = _transpose(
    2,
    """What `conv2d` with this filter [fh, fw, m, c] turns into `value` [n, h, w, c]: of shape output_shape [4].""",
)
conv3d_transpose = _transpose(3, """As `conv2d_transpose`, for volumes [n, d, h, w, c].""")


def conv1d_transpose(
    input: Any,
    filters: Any,
    output_shape: Any,
    strides: Any,
    padding: str = "SAME",
    data_format: str | None = "NWC",
    dilations: Any = None,
    name: str | None = None,
) -> Tensor:
    """As `conv2d_transpose`, for sequences [n, w, c] and filters [fw, m, c]; NCW: channels second.

    Raises ValueError for another data_format.
    """
    with name_scope(name, "conv1d_transpose", [input, filters, output_shape]) as scope:
        format_ = data_format or "NWC"
        if format_ not in ("NWC", "NCW"):
            raise ValueError(f"data_format is NWC or NCW, not {data_format}")
        at, of_lines = (1, "NHWC") if format_ == "NWC" else (2, "NCHW")
        steps, spread = ([1, *one_of_lines(each, at == 2)] for each in (strides, dilations))
        lines = expand_dims(input, at)
        weights = expand_dims(filters, 0)
        sizes = output_shape if isinstance(output_shape, Tensor) else list(output_shape)
        made: Tensor = conv2d_backprop_input_op(
            concat([sizes[:at], [1], sizes[at:]], 0),
            weights,
            lines,
            strides=steps,
            data_format=of_lines,
            dilations=spread,
            name=scope,
            **padding_attrs(padding),
        )
        return squeeze(made, [at])


def conv_transpose(
    input: Any,
    filters: Any,
    output_shape: Any,
    strides: Any,
    padding: str = "SAME",
    data_format: str | None = None,
    dilations: Any = None,
    name: str | None = None,
) -> Tensor:
    """`conv1d_transpose`, `conv2d_transpose` or `conv3d_transpose`, as the sizes of output_shape say.

    Raises ValueError for another number of them.
    """
    with name_scope(name, "conv_transpose", [input, filters, output_shape]) as scope:
        raw = convert(output_shape).raw_shape if isinstance(output_shape, Tensor) else None
        count = (len(output_shape) if raw is None else raw[0] or 0) - 2
        makes: Any = {1: conv1d_transpose, 2: conv2d_transpose, 3: conv3d_transpose}
        if count not in makes:
            raise ValueError(f"output_shape has 3, 4 or 5 entries, not {output_shape}")
        usual = {1: "NWC", 2: "NHWC", 3: "NDHWC"}[count]
        made: Tensor = makes[count](
            input,
            filters,
            output_shape,
            strides,
            padding,
            data_format or usual,
            dilations=dilations,
            name=scope,
        )
        return made


def atrous_conv2d_transpose(
    value: Any, filters: Any, output_shape: Any, rate: int, padding: str, name: str | None = None
) -> Tensor:
    """What `atrous_conv2d` turns into `value` [n, h, w, c]: of shape output_shape [4].

    Raises ValueError if the filter's sizes are not known.
    """
    with name_scope(name, "atrous_conv2d_transpose", [value, filters, output_shape]):
        values, weights = convert(value, name="value"), convert(filters, name="filters")
        if rate == 1:
            return conv2d_transpose(values, weights, output_shape, [1, 1, 1, 1], padding)
        raw = weights.raw_shape
        if raw is None or None in raw[:2]:
            raise ValueError(f"the filter's sizes must be known, not {weights.shape}")
        if padding not in ("SAME", "VALID"):
            raise ValueError(f"padding is SAME or VALID, not {padding}")
        wanted = convert(output_shape, dtypes.int32, name="output_shape")
        known = constant_value(wanted)
        sizes: Any = wanted if known is None else [int(n) for n in known]
        spans = [(int(w or 0) - 1) * rate if padding == "SAME" else 0 for w in raw[:2]]
        over = [-(sizes[1 + at] + span) % rate for at, span in enumerate(spans)]
        cuts = [
            [span // 2, span - span // 2 + more] for span, more in zip(spans, over, strict=True)
        ]
        moved = space_to_batch(values, [[0, more] for more in over], rate)
        inner = [(sizes[1 + at] + spans[at] + over[at]) // rate for at in range(2)]
        made = conv2d_backprop_input_op(
            [rate * rate * sizes[0], *inner, sizes[3]],
            weights,
            moved,
            strides=[1, 1, 1, 1],
            padding="VALID",
        )
        return batch_to_space(made, cuts, rate)
