"""Integers that stand for floats of a range, and back.

Called by: programs.  Threads: any.
Source: behaviour of TF 1.15 (core/kernels/quantize_op.cc, dequantize_op.cc, quantized_concat_op.cc), of 2.21 `axis`,
`narrow_range` and `ensure_minimum_range`
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from headrace.base import dtypes, errors
from headrace.base import shapes as shape_rules
from headrace.base.shapes import Shape, text
from headrace.base.traits import QUANTIZED
from headrace.graph.registry import op
from headrace.graph.shape_fns import ShapeContext
from headrace.graph.tensor import Tensor
from headrace.ops._kernels.blocks import in_parts
from headrace.ops.quantization.levels import TYPES, ends, plain

__all__ = ["dequantize", "quantize", "quantize_v2", "quantized_concat"]

Array = np.ndarray[Any, Any]
F = np.float32
_MODES: Final = "mode: {'MIN_COMBINED', 'MIN_FIRST', 'SCALED'} = 'MIN_COMBINED'"


def _of_range(x: Array, low: Array, high: Array, axis: int) -> tuple[Array, Array]:
    """The ends of the range, each a scalar or as long as x is along axis and broadcast.  Raises InvalidArgument."""
    if axis < -1 or axis >= x.ndim:
        raise errors.invalid_argument(
            f"Axis must be less than input dimension({x.ndim}) and at least -1, and is {axis}"
        )
    wanted: tuple[int, ...] = () if axis == -1 else (x.shape[axis],)
    for name, each in (("min_range", low), ("max_range", high)):
        if (each.size != 1) if axis == -1 else (each.shape != wanted):
            raise errors.invalid_argument(
                f"{name} must have shape {text(() if axis == -1 else wanted)}, and has {text(each.shape)}"
            )
    if axis == -1:
        return low.reshape(()), high.reshape(())
    wide = (-1,) + (1,) * (x.ndim - 1 - axis)
    return low.reshape(wide), high.reshape(wide)


def _rounded(x: Array, mode: bytes) -> Array:
    """Halves away from zero, or to even."""
    if mode == b"HALF_TO_EVEN":
        return np.rint(x)
    moved = np.copysign(F(0.5), x)
    moved += x
    return np.trunc(moved, out=np.asarray(moved))


def _quantize_shapes(c: ShapeContext) -> list[Shape]:
    if c.attr("axis") < -1:
        raise ValueError(
            f"axis should be at least -1, got {c.attr('axis')}: -1 is one range for all"
        )
    return [c.shape("input"), *_range_shapes(c)]


def _range_shapes(c: ShapeContext) -> list[Shape]:
    axis = c.attr("axis")
    if axis == -1:
        c.with_rank("min_range", 0)
        c.with_rank("max_range", 0)
        return [(), ()]
    x = c.with_rank_at_least("input", axis + 1)
    size: Shape = (None if x is None else x[axis],)
    for name in ("min_range", "max_range"):
        size = shape_rules.merge(size, c.with_rank(name, 1))
    return [size, size]


@op(
    "QuantizeV2",
    inputs="input: float; min_range: float; max_range: float",
    outputs="output: T; output_min: float; output_max: float",
    attrs=f"T: {TYPES}; {_MODES}; round_mode: {{'HALF_AWAY_FROM_ZERO', 'HALF_TO_EVEN'}} = 'HALF_AWAY_FROM_ZERO'; "
    "narrow_range: bool = false; axis: int = -1; ensure_minimum_range: float = 0.01",
    shape=_quantize_shapes,
)
def quantize_v2_op(
    xp: Any,
    x: Array,
    min_range: Array,
    max_range: Array,
    *,
    T: dtypes.DType,
    mode: bytes,
    round_mode: bytes,
    narrow_range: bool,
    axis: int,
    ensure_minimum_range: float,
) -> Any:
    """x as integers of type T, of which the lowest is min_range and the highest max_range; and the range that it was.

    x [...]; the ends [], or [x.shape[axis]].  The range takes 0 in, and is not smaller than ensure_minimum_range, or
    that part of its ends.  mode: MIN_COMBINED and MIN_FIRST shift as well, SCALED leaves 0 where it is.
    Raises InvalidArgument (shapes, or a range that ends before it begins), Unimplemented (MIN_FIRST with an axis).
    """
    low, high = _of_range(x, min_range, max_range, axis)
    if (low > high).any():
        raise errors.invalid_argument(
            f"max_range must be larger than min_range: {max_range.tolist()} and {min_range.tolist()}"
        )
    low = np.minimum(F(0), low)
    least = np.maximum(F(1), np.maximum(np.abs(low), np.abs(high))) * F(ensure_minimum_range)
    high = np.maximum(F(0), np.maximum(high, low + least)).astype(F)
    first, last = ends(T)
    stored = plain(T)
    if mode != b"SCALED" and round_mode != b"HALF_AWAY_FROM_ZERO":
        raise errors.invalid_argument(
            f"Round mode must be HALF_AWAY_FROM_ZERO in mode {mode.decode()}; HALF_TO_EVEN is for SCALED"
        )
    if mode == b"SCALED":
        return _scaled(
            x, low, high, T, round_mode, narrow_range, min_range.shape if axis != -1 else ()
        )
    if mode == b"MIN_COMBINED":
        factor = F(last - first) / (high - low)

        def stepped(x: Array) -> Array:
            moved = (np.clip(x, low, high) - low) * factor
            if first < 0:
                moved = moved - F((last - first + 1) / 2)
            moved = _rounded(moved, round_mode)
            wide = moved if stored.itemsize < 4 else moved.astype(np.float64)
            return np.clip(wide, first, last)

        found = (in_parts(stepped, x) if stored.itemsize < 4 and axis == -1 else stepped(x)).astype(
            stored
        )
    elif axis != -1:
        raise errors.unimplemented("MIN_FIRST mode is not implemented for Quantize with axis != -1")
    else:
        found = _min_first(x, low, high, first, last, stored)
    shape = min_range.shape if axis != -1 else ()
    return found.astype(T.np), low.reshape(shape).astype(F), high.reshape(shape)


def _min_first(
    x: Array, low: Array, high: Array, first: int, last: int, stored: np.dtype[Any]
) -> Array:
    if not high > low:
        return np.full(x.shape, first, stored)
    steps = float(2 ** (8 * stored.itemsize))
    scale = F(steps / ((float(high) - float(low)) * (steps / (steps - 1.0))))
    moved = _rounded(np.clip(x, low, high) * scale, b"") - _rounded(low * scale, b"")
    return np.clip(moved.astype(np.float64) + first, first, last).astype(stored)


def _scaled(
    x: Array,
    low: Array,
    high: Array,
    kind: dtypes.DType,
    round_mode: bytes,
    narrow: bool,
    shape: tuple[int, ...],
) -> Any:
    first, last = ends(kind)
    stored = plain(kind)
    if narrow:
        first += 1
    with np.errstate(divide="ignore"):
        below = np.where(first * low > 0, F(first) / low, np.finfo(F).max)
        above = np.where(last * high > 0, F(last) / high, np.finfo(F).max)
    factor = np.minimum(below, above).astype(F)
    low_out, high_out = F(first) / factor, F(last) / factor
    inside = np.clip(x, low_out, high_out)
    moved = _rounded(inside * factor, round_mode)
    found = np.clip(moved.astype(np.float64), first, last).astype(stored)
    return (
        found.astype(kind.np),
        low_out.reshape(shape).astype(F),
        high_out.reshape(shape).astype(F),
    )


@op(
    "Dequantize",
    inputs="input: T; min_range: float; max_range: float",
    outputs="output: dtype",
    attrs=f"T: {TYPES}; {_MODES}; narrow_range: bool = false; axis: int = -1; dtype: {{bfloat16, float}} = float",
    shape=lambda c: (_range_shapes(c), c.shape("input"))[1],
)
def dequantize_op(
    xp: Any,
    x: Array,
    min_range: Array,
    max_range: Array,
    *,
    T: dtypes.DType,
    mode: bytes,
    narrow_range: bool,
    axis: int,
    dtype: dtypes.DType,
) -> Any:
    """The floats that integers of a range stand for: the inverse of QuantizeV2.

    x [...]; the ends [], or [x.shape[axis]].  Raises InvalidArgument (shapes).
    """
    low, high = _of_range(x, min_range, max_range, axis)
    first, last = ends(T)
    numbers = x.astype(plain(T)).astype(F)
    if mode == b"MIN_COMBINED":
        scale = (high - low) / F(last - first)
        half = F((last - first + 1) / 2) if first < 0 else F(0)
        found = (numbers + half) * scale + low
    elif mode == b"MIN_FIRST":
        found = _from_first(numbers, low, high, first, last)
    else:
        if narrow_range:
            first += 1
        if first < 0:
            scale = np.maximum(low / F(first), high / F(last))
        else:
            scale = high / F(last)
        found = numbers * scale
    return np.asarray(found, F).astype(dtype.np, copy=False)


def _concat_shapes(c: ShapeContext) -> list[Shape]:
    count = c.attr("N")
    ranks = {len(shape) for at in range(count) if (shape := c.shape(1 + at)) is not None}
    if len(ranks) > 1:
        raise ValueError(f"Shapes must be equal rank, but are of ranks {sorted(ranks)}")
    axis = c.value("concat_dim")
    known = [c.shape(1 + at) for at in range(count)]
    if axis is None or any(shape is None for shape in known) or not ranks:
        return [(None,) * next(iter(ranks)) if ranks else None, (), ()]
    at = int(axis)
    sizes = [list(shape) for shape in known if shape is not None]
    total = [size[at] for size in sizes]
    made = sizes[0]
    made[at] = None if None in total else sum(n for n in total if n is not None)
    return [tuple(made), (), ()]


@op(
    "QuantizedConcat",
    inputs="concat_dim: int32; values: N * T; input_mins: N * float; input_maxes: N * float",
    outputs="output: T; output_min: float; output_max: float",
    attrs="N: int >= 2; T: type",
    shape=_concat_shapes,
    traits={QUANTIZED},
)
def quantized_concat_op(xp: Any, concat_dim: Array, *given: Array, N: int, T: dtypes.DType) -> Any:
    """Values side by side along concat_dim, in one range that has room for all of theirs; and that range.

    concat_dim []; values of equal shapes but for that dimension; ends [], one for each value.
    Raises InvalidArgument (shapes, ranges), Unimplemented (types but quint8 and qint32).
    """
    values, lows, highs = given[:N], given[N : 2 * N], given[2 * N :]
    if T not in (dtypes.quint8, dtypes.qint32):
        raise errors.unimplemented(
            f"QuantizedConcat has quint8 and qint32, not {T.name}: dequantize, tf.concat, and quantize again"
        )
    if concat_dim.ndim or any(each.ndim for each in (*lows, *highs)):
        raise errors.invalid_argument("Concat dim tensor, and the ends of ranges, must be scalars")
    at = int(concat_dim)
    rank = values[0].ndim
    at += rank if at < 0 else 0
    rests = {(each.ndim, each.shape[:at], each.shape[at + 1 :]) for each in values}
    if not 0 <= at < rank or len(rests) > 1:
        raise errors.invalid_argument(
            f"ConcatOp : Dimensions of inputs should match along axis {int(concat_dim)}: shapes are "
            f"{[list(each.shape) for each in values]}"
        )
    first, last = ends(T)
    low, high = min(F(0), *map(F, lows)), max(map(F, highs))
    if first < 0:  # 0 stands for 0
        high = max(abs(low), abs(high))
        low = -high
    moved = [
        value
        if a == low and b == high
        else _again(value.astype(plain(T)), float(a), float(b), low, high, first, last).astype(T.np)
        for value, a, b in zip(values, lows, highs, strict=True)
    ]
    return np.concatenate(moved, at), np.asarray(low, F), np.asarray(high, F)


def _again(
    x: Array, low: float, high: float, new_low: Any, new_high: Any, first: int, last: int
) -> Array:
    """Integers of one range as those of another."""
    floats = _from_first(x.astype(F), np.asarray(low, F), np.asarray(high, F), first, last)
    return _min_first(floats, np.asarray(new_low), np.asarray(new_high), first, last, x.dtype)


def _from_first(numbers: Array, low: Array, high: Array, first: int, last: int) -> Array:
    """The inverse of `_min_first`, in single precision as there."""
    scale = ((high - low).astype(np.float64) / (last - first)).astype(F)
    with np.errstate(divide="ignore", invalid="ignore"):
        start = np.where(high == low, low, _rounded(low / scale, b"") * scale)
    found: Array = (numbers - F(first)) * scale + start
    return found


# -- as programs call them --------------------------------------------------------------------

Quantized = tuple[Tensor, Tensor, Tensor]


def quantize_v2(
    input: Any,
    min_range: Any,
    max_range: Any,
    T: Any,
    mode: str = "MIN_COMBINED",
    name: str | None = None,
    round_mode: str = "HALF_AWAY_FROM_ZERO",
    narrow_range: bool = False,
    axis: int | None = None,
    ensure_minimum_range: float = 0.01,
) -> Quantized:
    """input as integers of type T; see the op.  axis: along which ranges are given, if not one for all."""
    quantized: Quantized = quantize_v2_op(
        input,
        min_range,
        max_range,
        T=T,
        mode=mode,
        round_mode=round_mode,
        narrow_range=narrow_range,
        axis=-1 if axis is None else axis,
        ensure_minimum_range=ensure_minimum_range,
        name=name,
    )
    return quantized


def quantize(
    input: Any,
    min_range: Any,
    max_range: Any,
    T: Any,
    mode: str = "MIN_COMBINED",
    round_mode: str = "HALF_AWAY_FROM_ZERO",
    name: str | None = None,
    narrow_range: bool = False,
    axis: int | None = None,
    ensure_minimum_range: float = 0.01,
) -> Quantized:
    """`quantize_v2`, its arguments in another order."""
    return quantize_v2(
        input,
        min_range,
        max_range,
        T,
        mode,
        name,
        round_mode,
        narrow_range,
        axis,
        ensure_minimum_range,
    )


def dequantize(
    input: Any,
    min_range: Any,
    max_range: Any,
    mode: str = "MIN_COMBINED",
    name: str | None = None,
    axis: int | None = None,
    narrow_range: bool = False,
    dtype: Any = dtypes.float32,
) -> Tensor:
    """The floats that integers of a range stand for; see the op."""
    made: Tensor = dequantize_op(
        input,
        min_range,
        max_range,
        mode=mode,
        narrow_range=narrow_range,
        axis=-1 if axis is None else axis,
        dtype=dtype,
        name=name,
    )
    return made


def quantized_concat(
    concat_dim: Any, values: Any, input_mins: Any, input_maxes: Any, name: str | None = None
) -> Quantized:
    """Values side by side in one range; see the op."""
    output, low, high = quantized_concat_op(concat_dim, values, input_mins, input_maxes, name=name)
    return output, low, high
