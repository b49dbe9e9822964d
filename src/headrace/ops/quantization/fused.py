"""Convolutions and products of quantized numbers with what follows them: a bias, a rectifier, a range of 8 bits.

Graph rewriters for Intel's library make them of the single ops.  Filters are qint8, 0 stands for 0 in both factors, and
a filter may have a range for each channel that it makes.  Sums of whole numbers are made floats, a bias is added to
those, and what comes of it is brought into the levels that are asked for.
Called by: imported graphs, programs.  Threads: any.
Source: behaviour of TF 2.21 (core/kernels/mkl/mkl_conv_ops.cc, mkl_qmatmul_op.cc)
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, NamedTuple

import numpy as np

from headrace.base import dtypes, errors
from headrace.base.dtypes import qint8, qint32, quint8
from headrace.base.shapes import Shape, text
from headrace.base.traits import SHARES
from headrace.graph.registry import OpSpec, op
from headrace.graph.shape_fns import ShapeContext
from headrace.ops._kernels.convolving import convolved
from headrace.ops._kernels.windows import static_out
from headrace.ops.linalg.products import product_shape
from headrace.ops.nn.depthwise import depthwise
from headrace.ops.quantization.levels import (
    TYPES,
    Array,
    F,
    checked_scalars,
    checked_type,
    ends,
    integers,
    quantized,
    range_of_sums,
    scalar_ends,
    value_of_level,
    with_range,
)

__all__: list[str] = []

Result = tuple[Array, Array, Array]
_SIGNED: Final = F(127)
"""Levels above 0 of a filter, and of signed pictures."""
_FREEZED: Final = "min_freezed_output: float; max_freezed_output: float"
_RANGES: Final = "min_input: float; max_input: float; min_filter: float; max_filter: float"


def _levels_of(filters: tuple[Array, Array]) -> Array:
    """float32: what a level of the filter is worth, [] or [channels]."""
    low, high = (each.astype(F) for each in filters)
    found: Array = ((high - low).astype(np.float64) / 254).astype(F)
    return found


def _reach(low: Any, high: Any) -> Any:
    """float32: how far a range reaches from 0."""
    return np.maximum(np.abs(low), np.abs(high)).astype(F)


def _made(
    sums: Array,
    bias: Array | None,
    kind: dtypes.DType | None,
    level: Array,
    reach: tuple[Any, Any],
    asked: Any,
    relu: bool,
    out: dtypes.DType,
    summand: Array | None = None,
) -> Array:
    """Sums of levels, plus a bias, in `asked` levels, of which none is below 0 if they go through a rectifier.

    Every step is rounded to float32.  level: what one of the sums is worth.  reach: how far products of the factors
    reach, and in how many levels.  summand: what is added to the levels that are asked for.
    """
    first, last = ends(out)
    with np.errstate(divide="ignore", over="ignore", invalid="ignore"):
        found = sums.astype(F) * level
        if bias is not None and kind is qint32:
            found = found + integers(bias, qint32).astype(F) * (reach[0] / reach[1]).astype(F)
        elif bias is not None:
            found = found + bias
        found = found * (F(1) / asked).astype(F)
        if summand is not None:
            found = found + summand
        found = np.rint(found).astype(np.float64)
    made = np.clip(np.nan_to_num(found, nan=0.0), 0 if relu else first, last)
    return quantized(made.astype(np.int64), out)


# -- convolutions -----------------------------------------------------------------------------


def _shapes(requantizes: bool, by_channel: bool) -> Callable[[ShapeContext], list[Shape]]:
    def shapes(c: ShapeContext) -> list[Shape]:
        x, filters = c.with_rank("input", 4), c.with_rank("filter", 4)
        assert x is not None
        assert filters is not None
        apart = "Depthwise" in c.op.type
        if None not in (x[3], filters[2]) and x[3] != filters[2]:
            raise ValueError(
                f"Dimensions must be equal, but are {x[3]} and {filters[2]}: channels of input and filter"
            )
        strides, dilations = c.attr("strides"), c.attr("dilations")
        pads = c.op.attrs.get("padding_list") or ()
        padding = b"EXPLICIT" if pads else c.attr("padding")
        out = static_out(x[1:3], filters[:2], strides, padding, b"NHWC", dilations, pads)
        made = filters[3]
        if apart:
            made = None if None in filters[2:] else filters[2] * filters[3]  # type: ignore[operator]
        whole: Shape = (x[0], *out, made)
        if apart:
            return [whole, None, None]
        if "Bias" in c.op.type:
            c.with_rank("bias", 1)
        scalar_ends(c, "min_input", "max_input")
        if not by_channel:
            scalar_ends(c, "min_filter", "max_filter")
        low, high = (c.with_rank_at_most(name, 1) for name in ("min_filter", "max_filter"))
        if requantizes:
            scalar_ends(c, "min_freezed_output", "max_freezed_output")
            return with_range(whole)
        return [whole, high if "WithBias" in c.op.type else low, high]

    return shapes


def _sums(
    x: Array,
    filters: Array,
    kinds: tuple[dtypes.DType, dtypes.DType],
    attrs: dict[str, Any],
    apart: bool,
) -> Array:
    """int64: sums of products of whole numbers, of which those in float64 are exact."""
    if x.ndim != 4 or filters.ndim != 4:
        name, each = ("input", x) if x.ndim != 4 else ("filter", filters)
        raise errors.invalid_argument(f"{name} must be 4-dimensional: {text(each.shape)}")
    if x.shape[3] != filters.shape[2]:
        raise errors.invalid_argument(
            f"input and filter must have the same depth: {x.shape[3]} vs {filters.shape[2]}"
        )
    given, weights = (
        integers(each, kind).astype(np.float64)
        for each, kind in zip((x, filters), kinds, strict=True)
    )
    pads = list(attrs["padding_list"])
    padding = b"EXPLICIT" if pads else attrs["padding"]
    convolve = depthwise if apart else convolved
    made = convolve(given, weights, attrs["strides"], padding, b"NHWC", attrs["dilations"], pads)
    return np.rint(made).astype(np.int64)


def _ranges(channels: int, given: list[Array]) -> None:
    """Raise InvalidArgument unless ends of ranges are scalars, and those of the filter at most one for each channel."""
    checked_scalars(min_input=given[0], max_input=given[1])
    for name, each in zip(("min_filter", "max_filter"), given[2:4], strict=True):
        if each.shape not in ((), (channels,)) or each.shape != given[2].shape:
            raise errors.invalid_argument(
                f"{name} must be a scalar or have {channels} elements, one for each channel, as the other end of "
                f"the range: it has shape {text(each.shape)}"
            )
    if len(given) > 4:
        checked_scalars(min_freezed_output=given[4], max_freezed_output=given[5])


class _Fusion(NamedTuple):
    """An op: a convolution, and what follows it."""

    name: str
    out: dtypes.DType
    """Of 32 bits: it has the range that comes of the factors'; else of the range asked for."""
    bias: bool = False
    relu: bool = False
    signed: bool = False
    """Pictures may be qint8."""
    pads: bool = True
    """It has padding_list."""
    by_channel: bool = True
    summand: dtypes.DType | None = None
    """The type of what is added to the result, if anything is: floats to one of 32 bits, else levels of a range."""

    @property
    def requantizes(self) -> bool:
        return self.out is not qint32

    def made(self, inputs: tuple[Array, ...], given: dict[str, Any]) -> Result:
        """What the kernel gives for inputs and attrs.  Raises InvalidArgument."""
        self._check_types(given)
        x, filters, *rest = inputs
        added = rest.pop(0) if self.bias else None
        many = 6 if self.requantizes else 4
        rest, more = rest[:many], rest[many:]
        kinds = (given["Tinput"], given["Tfilter"])
        sums = _sums(x, filters, kinds, given, "Depthwise" in self.name)
        channels = sums.shape[-1]
        _ranges(channels, rest)
        if added is not None and added.shape != (channels,):
            raise errors.invalid_argument(
                f"bias must have one element for each of the {channels} channels: {text(added.shape)}"
            )
        most = _SIGNED if kinds[0] is qint8 else F(255)
        reach, of_filter = _reach(*rest[:2]), _reach(*rest[2:4])
        level = ((reach / most) * (of_filter / _SIGNED)).astype(F)
        asked = _reach(rest[4], rest[5]) / F(ends(self.out)[1]) if self.requantizes else level.max()
        plus = None
        if self.summand is not None:
            plus = _summand(more, self.summand, sums.shape, asked)
        factors = (reach * of_filter, most * _SIGNED)
        bias_kind = given.get("Tbias")
        whole = _made(sums, added, bias_kind, level, factors, asked, self.relu, self.out, plus)
        if self.requantizes:
            return whole, rest[4], rest[5]
        step = value_of_level(rest[0], rest[1], kinds[0], symmetric=kinds[0] is qint8)
        return whole, *range_of_sums(step * _levels_of((rest[2], rest[3])))

    def _check_types(self, given: dict[str, Any]) -> None:
        checked_type(self.name, given["Tinput"], *((quint8, qint8) if self.signed else (quint8,)))
        checked_type(self.name, given["Tfilter"], qint8)
        checked_type(self.name, given["out_type"], self.out)
        if "Tsummand" in given:
            assert self.summand is not None
            checked_type(self.name, given["Tsummand"], self.summand)

    def says(self) -> str:
        """The docstring of the kernel."""
        steps = [" plus the bias"] * self.bias + [" plus the summand"] * (self.summand is not None)
        steps += [", none below 0"] * self.relu
        made = (
            f"as {self.out.name} of the range asked for; and that range"
            if self.requantizes
            else "as integers of 32 bits; and their range"
        )
        shape = "[fh, fw, c, m]: [n, h', w', m]"
        if "Depthwise" in self.name:
            shape = "[fh, fw, c, m]: [n, h', w', c * m]"
        more = "  summand as the result." if self.summand is not None else ""
        pictures = "quint8 or qint8" if self.signed else "quint8"
        return f"""Images [n, h, w, c] with filters {shape}{"".join(steps)}, {made}.

    input {pictures}, filter qint8; ends of the input's range [], of the filter's [] or [channels that are made].
    padding_list, if it has any, are the pads, two for each dimension.{more}
    Raises InvalidArgument (shapes, types, attrs).
    """


def _summand(given: list[Array], kind: dtypes.DType, shape: tuple[int, ...], asked: Any) -> Array:
    """float32: what is added to levels of which one is worth `asked`.  Raises InvalidArgument (shapes).

    given: floats, or levels and the ends of their range, whose zero is the integer 0.
    """
    if given[0].shape != shape:
        raise errors.invalid_argument(
            f"summand must have the shape of what it is added to, {text(shape)}: it has shape {text(given[0].shape)}"
        )
    with np.errstate(divide="ignore", over="ignore", invalid="ignore"):
        if kind is dtypes.float32:
            floats: Array = np.rint(given[0] * (F(1) / asked).astype(F))
            return floats
        checked_scalars(min_summand=given[1], max_summand=given[2])
        scale = _reach(given[1], given[2]) / (asked * F(ends(kind)[1]))
        levels: Array = integers(given[0], kind).astype(F) * scale
        return levels


def _convolution(fusion: _Fusion) -> OpSpec:
    """The op."""
    typed = fusion.bias and fusion.requantizes
    kernel = _kernel(fusion, typed)
    kernel.__doc__ = fusion.says()
    inputs = "input: Tinput; filter: Tfilter; "
    types = f"Tinput: {TYPES}; Tfilter: {TYPES}; "
    if fusion.bias:
        inputs += f"bias: {'Tbias' if typed else 'float'}; "
        types += "Tbias: {float, qint32}; " if typed else ""
    inputs += f"{_RANGES}; {_FREEZED}" if fusion.requantizes else _RANGES
    if fusion.summand is dtypes.float32:
        inputs += "; summand: float"
    elif fusion.summand is not None:
        inputs += "; summand: Tsummand; min_summand: float; max_summand: float"
        types += f"Tsummand: {TYPES}; "
    return op(
        fusion.name,
        inputs=inputs,
        outputs="output: out_type; min_output: float; max_output: float",
        attrs=f"{types}out_type: {TYPES} = DT_{fusion.out.name.upper()}; strides: list(int); "
        "padding: {'SAME', 'VALID'}; dilations: list(int) = [1, 1, 1, 1]"
        + ("; padding_list: list(int) = []" if fusion.pads else ""),
        shape=_shapes(fusion.requantizes, fusion.by_channel),
        traits={SHARES},
    )(kernel)


def _kernel(fusion: _Fusion, typed: bool) -> Callable[..., Result]:
    """The kernel with the attrs that the op has."""
    made = fusion.made
    if not fusion.pads:

        def without_pads(
            xp: Any,
            *inputs: Array,
            Tinput: dtypes.DType,
            Tfilter: dtypes.DType,
            out_type: dtypes.DType,
            strides: list[int],
            padding: bytes,
            dilations: list[int],
        ) -> Result:
            given = {"Tinput": Tinput, "Tfilter": Tfilter, "out_type": out_type, "strides": strides}
            return made(
                inputs, given | {"padding": padding, "dilations": dilations, "padding_list": []}
            )

        return without_pads

    def padded(
        xp: Any,
        *inputs: Array,
        Tinput: dtypes.DType,
        Tfilter: dtypes.DType,
        out_type: dtypes.DType,
        strides: list[int],
        padding: bytes,
        dilations: list[int],
        padding_list: list[int],
    ) -> Result:
        given = {"Tinput": Tinput, "Tfilter": Tfilter, "out_type": out_type, "strides": strides}
        more = {"padding": padding, "dilations": dilations, "padding_list": padding_list}
        return made(inputs, given | more)

    if not typed:
        return padded
    return _with_bias(made) if fusion.summand is None else _with_summand(made)


def _with_bias(
    made: Callable[[tuple[Array, ...], dict[str, Any]], Result],
) -> Callable[..., Result]:
    def with_bias(
        xp: Any,
        *inputs: Array,
        Tinput: dtypes.DType,
        Tfilter: dtypes.DType,
        Tbias: dtypes.DType,
        out_type: dtypes.DType,
        strides: list[int],
        padding: bytes,
        dilations: list[int],
        padding_list: list[int],
    ) -> Result:
        given = {"Tinput": Tinput, "Tfilter": Tfilter, "Tbias": Tbias, "out_type": out_type}
        more = {"strides": strides, "padding": padding, "dilations": dilations}
        return made(inputs, given | more | {"padding_list": padding_list})

    return with_bias


def _with_summand(
    made: Callable[[tuple[Array, ...], dict[str, Any]], Result],
) -> Callable[..., Result]:
    def with_summand(
        xp: Any,
        *inputs: Array,
        Tinput: dtypes.DType,
        Tfilter: dtypes.DType,
        Tbias: dtypes.DType,
        Tsummand: dtypes.DType,
        out_type: dtypes.DType,
        strides: list[int],
        padding: bytes,
        dilations: list[int],
        padding_list: list[int],
    ) -> Result:
        given = {"Tinput": Tinput, "Tfilter": Tfilter, "Tbias": Tbias, "Tsummand": Tsummand}
        more = {"out_type": out_type, "strides": strides, "padding": padding}
        return made(inputs, given | more | {"dilations": dilations, "padding_list": padding_list})

    return with_summand


for _fusion in (
    _Fusion("QuantizedConv2DPerChannel", qint32, pads=False),
    _Fusion("QuantizedConv2DAndRelu", qint32, relu=True),
    _Fusion("QuantizedConv2DAndRequantize", qint8, by_channel=False),
    _Fusion("QuantizedConv2DAndReluAndRequantize", quint8, relu=True),
    _Fusion("QuantizedConv2DWithBias", qint32, bias=True, signed=True),
    _Fusion("QuantizedConv2DWithBiasAndRelu", qint32, bias=True, relu=True, signed=True),
    _Fusion("QuantizedConv2DWithBiasAndRequantize", qint8, bias=True, signed=True),
    _Fusion(
        "QuantizedConv2DWithBiasAndReluAndRequantize", quint8, bias=True, relu=True, signed=True
    ),
    _Fusion(
        "QuantizedConv2DWithBiasSumAndRelu", qint32, bias=True, relu=True, summand=dtypes.float32
    ),
    _Fusion(
        "QuantizedConv2DWithBiasSumAndReluAndRequantize",
        quint8,
        bias=True,
        relu=True,
        summand=quint8,
    ),
    _Fusion(
        "QuantizedConv2DWithBiasSignedSumAndReluAndRequantize",
        quint8,
        bias=True,
        relu=True,
        summand=qint8,
    ),
    _Fusion("QuantizedDepthwiseConv2D", qint32, pads=False),
    _Fusion("QuantizedDepthwiseConv2DWithBias", qint32, bias=True, pads=False),
    _Fusion("QuantizedDepthwiseConv2DWithBiasAndRelu", qint32, bias=True, relu=True),
    _Fusion("QuantizedDepthwiseConv2DWithBiasAndReluAndRequantize", quint8, bias=True, relu=True),
):
    _convolution(_fusion)


# -- products ---------------------------------------------------------------------------------


def _product_shapes(requantizes: bool) -> Callable[[ShapeContext], list[Shape]]:
    def shapes(c: ShapeContext) -> list[Shape]:
        shape = product_shape(c)
        c.with_rank("bias", 1)
        names = ("min_freezed_output", "max_freezed_output") if requantizes else ()
        scalar_ends(c, "min_a", "max_a", "min_b", "max_b", *names)
        return with_range(shape)

    return shapes


def _factors(a: Array, b: Array, transpose_a: bool, transpose_b: bool) -> tuple[Array, Array]:
    for name, each in (("First", a), ("Second", b)):
        if each.ndim != 2:
            raise errors.invalid_argument(
                f"{name} input must be a matrix: it has shape {text(each.shape)}"
            )
    left, right = integers(a, quint8), integers(b, qint8)
    left, right = left.T if transpose_a else left, right.T if transpose_b else right
    if left.shape[1] != right.shape[0]:
        raise errors.invalid_argument(
            f"Matrix size-incompatible: In[0]: {text(a.shape)}, In[1]: {text(b.shape)}: "
            f"{left.shape[1]} columns, {right.shape[0]} rows"
        )
    return left, right


def _product(name: str, out: dtypes.DType, relu: bool, typed: bool = True) -> OpSpec:
    """An op.  typed: the bias may be qint32."""
    requantizes = out is not qint32

    def made(inputs: tuple[Array, ...], given: dict[str, Any]) -> Result:
        for key, kind in (("T1", quint8), ("T2", qint8), ("Toutput", out)):
            checked_type(name, given[key], kind)
        a, b, bias, *rest = inputs
        names = ("min_a", "max_a", "min_b", "max_b", "min_freezed_output", "max_freezed_output")
        checked_scalars(**dict(zip(names, rest, strict=False)))
        left, right = _factors(a, b, given["transpose_a"], given["transpose_b"])
        if bias.shape != (right.shape[1],):
            raise errors.invalid_argument(
                f"bias must have one element for each of the {right.shape[1]} columns: {text(bias.shape)}"
            )
        sums = (left.astype(np.float64) @ right.astype(np.float64)).astype(np.int64)
        low, high = F(rest[0]), F(rest[1])
        of_a = value_of_level(low, high, quint8)
        of_b = _reach(*rest[2:4])
        level = np.asarray(of_a * (of_b / _SIGNED), F)
        in_float = given.get("Tbias") is not qint32
        if in_float and given["input_quant_mode"] == b"MIN_FIRST" and of_a:
            # What the lowest level stands for, times each column: a bias in integers has it already.
            sums = sums + np.rint(F(low / of_a) * right.sum(0).astype(F)).astype(np.int64)
        asked = _reach(rest[4], rest[5]) / F(ends(out)[1]) if requantizes else level
        reach = ((high - low) * of_b, F(255) * _SIGNED)
        whole = _made(sums, bias, given.get("Tbias"), level, reach, asked, relu, out)
        if requantizes:
            return whole, rest[4], rest[5]
        step = of_a * _levels_of((rest[2], rest[3]))
        return whole, *range_of_sums(F(step))

    kernel = _product_kernel(made, typed)
    kernel.__doc__ = f"""The product of two matrices, each transposed first if asked for, plus a bias, {
        "none below 0, " * relu
    }{
        f"as {out.name} of the range asked for" if requantizes else "as integers of 32 bits"
    }; and the range.

    a [m, k] quint8, b [k, n] qint8, bias [n]: floats{
        ", or integers in levels of the sums that make up for a's lowest level" * typed
    }; ends [].  Raises InvalidArgument (shapes, types).
    """
    bias_type = "Tbias: {float, qint32}; " if typed else ""
    return op(
        name,
        inputs=f"a: T1; b: T2; bias: {'Tbias' if typed else 'float'}; min_a: float; max_a: float; min_b: float; "
        f"max_b: float{f'; {_FREEZED}' if requantizes else ''}",
        outputs="out: Toutput; min_out: float; max_out: float",
        attrs=f"T1: {TYPES}; T2: {TYPES}; {bias_type}Toutput: {TYPES} = DT_{out.name.upper()}; "
        "transpose_a: bool = false; transpose_b: bool = false; input_quant_mode: {'MIN_FIRST', 'SCALED'} = 'MIN_FIRST'",
        shape=_product_shapes(requantizes),
    )(kernel)


def _product_kernel(
    made: Callable[[tuple[Array, ...], dict[str, Any]], Result], typed: bool
) -> Callable[..., Result]:
    """The kernel with the attrs that the op has."""

    def in_floats(
        xp: Any,
        *inputs: Array,
        T1: dtypes.DType,
        T2: dtypes.DType,
        Toutput: dtypes.DType,
        transpose_a: bool,
        transpose_b: bool,
        input_quant_mode: bytes,
    ) -> Result:
        given: dict[str, Any] = {"T1": T1, "T2": T2, "Toutput": Toutput, "transpose_a": transpose_a}
        return made(
            inputs, given | {"transpose_b": transpose_b, "input_quant_mode": input_quant_mode}
        )

    def of_either(
        xp: Any,
        *inputs: Array,
        T1: dtypes.DType,
        T2: dtypes.DType,
        Tbias: dtypes.DType,
        Toutput: dtypes.DType,
        transpose_a: bool,
        transpose_b: bool,
        input_quant_mode: bytes,
    ) -> Result:
        given: dict[str, Any] = {"T1": T1, "T2": T2, "Tbias": Tbias, "Toutput": Toutput}
        more = {"transpose_a": transpose_a, "transpose_b": transpose_b}
        return made(inputs, given | more | {"input_quant_mode": input_quant_mode})

    return of_either if typed else in_floats


_product("QuantizedMatMulWithBias", qint32, relu=False)
_product("QuantizedMatMulWithBiasAndRelu", qint32, relu=True, typed=False)
_product("QuantizedMatMulWithBiasAndReluAndRequantize", quint8, relu=True)
