"""Transforms of real numbers: rfft, irfft and their kin, discrete cosine transforms, shifts of spectra.

Called by: programs, library.signal.frames.  Threads: as graph.
Source: TF 1.15 behaviour; nodes as 2.21 where shapes are known.  Cosine transforms by Fourier transforms of twice the
length: Makhoul, "A fast cosine transform in one and two dimensions", 1980
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from headrace.base import dtypes
from headrace.graph.const_value import constant_value
from headrace.graph.convert import convert
from headrace.graph.names import name_scope
from headrace.graph.registry import OpSpec
from headrace.graph.tensor import Tensor
from headrace.ops.array.constants import constant, zeros, zeros_like
from headrace.ops.array.joining import concat
from headrace.ops.array.packing import stack
from headrace.ops.array.padding import pad
from headrace.ops.array.ranges import range as range_of
from headrace.ops.array.rolling import roll
from headrace.ops.array.shapes import expand_dims, rank, shape
from headrace.ops.math.casting import cast, real
from headrace.ops.signal.fourier import irfft_ops, rfft_ops
from headrace.ops.tables import make

__all__ = [
    "dct",
    "fftshift",
    "idct",
    "ifftshift",
    "irfft",
    "irfft2d",
    "irfft3d",
    "rfft",
    "rfft2d",
    "rfft3d",
]


def _transform(ranks: int, default_name: str, spec: OpSpec, inverse: bool) -> Callable[..., Any]:
    def function(input_tensor: Any, fft_length: Any = None, name: str | None = None) -> Tensor:
        with name_scope(name, default_name, [input_tensor, fft_length]) as scope:
            wanted = dtypes.complex64 if inverse else dtypes.float32
            x = convert(input_tensor, None, "input", wanted)
            if inverse:
                _check_type(x, dtypes.complex64, dtypes.complex128)
            else:
                _check_type(x, dtypes.float32, dtypes.float64)
            x.shape.with_rank_at_least(ranks)
            if fft_length is None:
                length = _inferred(x, ranks, inverse)
            else:
                length = convert(fft_length, dtypes.int32)
            x = _padded(x, ranks, length, inverse)
            known = constant_value(length)
            kind = x.dtype.base_dtype
            attrs = {"Treal": kind.real_dtype} if inverse else {"Tcomplex": _COMPLEX[kind]}
            made: Tensor = spec(x, length if known is None else known, name=scope, **attrs)
            return made

    function.__name__ = function.__qualname__ = default_name
    kinds = "real numbers, from complex ones" if inverse else "complex numbers, from real ones"
    over = "dimension" if ranks == 1 else f"{ranks} dimensions"
    function.__doc__ = (
        f"Fourier transforms over the last {over}: {kinds}.  Longer or shorter with fft_length [{ranks}].  "
        "Raises ValueError, TypeError."
    )
    return function


_COMPLEX = {dtypes.float32: dtypes.complex64, dtypes.float64: dtypes.complex128}


def _check_type(x: Tensor, *allowed: dtypes.DType) -> None:
    if x.dtype.base_dtype not in allowed:
        raise ValueError(
            f"RFFT requires tf.float32 or tf.float64 inputs, got: {x}"
            if allowed[0].is_floating
            else f"IRFFT requires tf.complex64 or tf.complex128 inputs, got: {x}"
        )


def _inferred(x: Tensor, ranks: int, inverse: bool) -> Tensor:
    sizes = None if x.raw_shape is None else x.raw_shape[-ranks:]
    if sizes is not None and None not in sizes:
        known: list[Any] = list(sizes)
        if inverse and known[-1]:
            known[-1] = max(0, 2 * (known[-1] - 1))
        return constant(known, dtypes.int32)
    found = shape(x)[-ranks:]
    if inverse:
        found = concat([found[:-1], make.Maximum(0, 2 * (found[-1:] - 1))], 0)
    return found


def _padded(x: Tensor, ranks: int, length: Tensor, inverse: bool) -> Tensor:
    """x with zeros behind, as far as the transform needs more elements than there are."""
    wanted, sizes = constant_value(length), x.raw_shape
    if wanted is not None:
        needed = [int(each) for each in np.reshape(wanted, -1)]
        if len(needed) != ranks:
            return x  # the transform says so
        if inverse and needed[-1]:
            needed[-1] = needed[-1] // 2 + 1
        if sizes is not None and None not in sizes[-ranks:]:
            inner = [
                [0, max(want - have, 0)]  # type: ignore[operator]
                for want, have in zip(needed, sizes[-ranks:], strict=True)
            ]
            if not any(behind for _, behind in inner):
                return x
            return pad(x, [[0, 0]] * (len(sizes) - ranks) + inner)
    if inverse:
        length = concat([length[:-1], [length[-1] // 2 + 1]], 0)
    missing = length - shape(x)[-ranks:]
    outer = zeros([make.Maximum(0, rank(x) - ranks)], dtypes.int32)
    behind = concat([outer, make.Maximum(0, missing)], 0)
    return pad(x, stack([zeros_like(behind), behind], axis=1))


rfft = _transform(1, "rfft", rfft_ops[1], inverse=False)
rfft2d = _transform(2, "rfft2d", rfft_ops[2], inverse=False)
rfft3d = _transform(3, "rfft3d", rfft_ops[3], inverse=False)
irfft = _transform(1, "irfft", irfft_ops[1], inverse=True)
irfft2d = _transform(2, "irfft2d", irfft_ops[2], inverse=True)
irfft3d = _transform(3, "irfft3d", irfft_ops[3], inverse=True)


# -- cosine transforms ------------------------------------------------------------------------


def _check_dct(input: Any, kind: int, n: Any, axis: int, norm: str | None) -> None:
    if axis != -1:
        raise NotImplementedError(f"axis must be -1. Got: {axis}")
    if n is not None and n < 1:
        raise ValueError("n should be a positive integer or None")
    if kind not in (1, 2, 3, 4):
        raise ValueError(f"Types I, II, III and IV (I)DCT are supported, not {kind}")
    if kind == 1:
        if norm == "ortho":
            raise ValueError("Normalization is not supported for the Type-I DCT.")
        known = isinstance(input, Tensor) and bool(input.shape.ndims)
        if known and (input.shape[-1].value or 2) < 2:
            raise ValueError("Type-I DCT requires the dimension to be greater than one.")
    if norm not in (None, "ortho"):
        raise ValueError(f"Unknown normalization. Expected None or 'ortho', got: {norm}")


def dct(
    input: Any,
    type: int = 2,
    n: int | None = None,
    axis: int = -1,
    norm: str | None = None,
    name: str | None = None,
) -> Tensor:
    """Discrete cosine transforms of type 1 to 4 over the last dimension, cut or filled with zeros to n elements.

    norm: None, or "ortho" for an orthogonal transform.  Raises ValueError, NotImplementedError (another axis).
    """
    with name_scope(name, "dct", [input]):
        x = convert(input, None, "input", dtypes.float32)
        _check_dct(x, type, n, axis, norm)
        return _cosines(x, type, n, norm)


def _cosines(x: Tensor, kind: int, n: int | None, norm: str | None) -> Tensor:
    nothing = constant(0.0, x.dtype.base_dtype)
    if n is not None:
        have = x.shape[-1].value
        x = x[..., 0:n] if have is not None and n <= have else _filled(x, n)
    count: Any = x.shape[-1].value
    if count is None:
        count = shape(x)[-1]
    length = cast(count, x.dtype.base_dtype)
    if kind == 1:
        mirrored = concat([x, x[..., -2:0:-1]], axis=-1)
        return real(rfft(mirrored))
    if kind == 2:
        turns = _turn(nothing, -range_of(length) * math.pi * 0.5 / length)
        spectrum = rfft(x, [2 * count])[..., :count]
        found = real(spectrum * turns)
        if norm == "ortho":
            scale = 0.5 * make.Rsqrt(length)
            found = found * _but_first(scale, scale * math.sqrt(2.0), count)
        return found
    if kind == 3:
        if norm == "ortho":
            scale = make.Sqrt(length)
            x = x * _but_first(scale, scale * math.sqrt(0.5), count)
        else:
            x = x * length
        turns = _turn(nothing, range_of(length) * math.pi * 0.5 / length)
        spectrum = turns * make.Complex(x, nothing, Tout=turns.dtype)
        return irfft(spectrum, [2 * count])[..., :count]  # type: ignore[no-any-return]
    with name_scope("dct"):
        twice = _cosines(x, 2, 2 * count, None)
    found = twice[..., 1::2]
    if norm == "ortho":
        found = found * (math.sqrt(0.5) * make.Rsqrt(length))
    return found


def _filled(x: Tensor, n: Any) -> Tensor:
    ranks = x.shape.ndims
    if ranks is None:
        raise ValueError("dct needs inputs whose rank is known")
    have = x.shape[-1].value
    if have is not None and isinstance(n, int):
        paddings: Any = constant([[0, 0]] * (ranks - 1) + [[0, n - have]])
        return pad(x, paddings)
    x = x[..., :n]
    last = stack([0, n - shape(x)[-1]])
    return pad(x, concat([np.zeros((ranks - 1, 2), np.int32), last[None]], 0))


def _turn(nothing: Tensor, angle: Tensor) -> Tensor:
    """2 exp(i angle).  Raises TypeError."""
    if angle.dtype.base_dtype not in _COMPLEX:
        raise TypeError(
            f"cosine transforms are of float32 or float64, and not of {angle.dtype.base_dtype.name}; tf.cast converts"
        )
    made: Tensor = 2.0 * make.Exp(
        make.Complex(nothing, angle, Tout=_COMPLEX[angle.dtype.base_dtype])
    )
    return made


def _but_first(first: Tensor, others: Tensor, count: Any) -> Tensor:
    """[count]: `others`, but for the first."""
    made: Tensor = make.PadV2(expand_dims(first, 0), [[0, count - 1]], others)
    return made


def idct(
    input: Any,
    type: int = 2,
    n: int | None = None,
    axis: int = -1,
    norm: str | None = None,
    name: str | None = None,
) -> Tensor:
    """What `dct` of that type transforms to the input, times twice its length (of type 1: less one) without "ortho".

    Raises ValueError, NotImplementedError (another axis).
    """
    back = {1: 1, 2: 3, 3: 2, 4: 4}
    _check_dct(input, type, n, axis, norm)
    return dct(input, type=back[type], n=n, axis=axis, norm=norm, name=name)


# -- shifts -----------------------------------------------------------------------------------


def fftshift(x: Any, axes: Any = None, name: str | None = None) -> Tensor:
    """x with what stands for frequency 0 in the middle of `axes` (all)."""
    with name_scope(name, "fftshift") as scope:
        return _shifted(convert(x), axes, lambda sizes: sizes // 2, scope)


def ifftshift(x: Any, axes: Any = None, name: str | None = None) -> Tensor:
    """What `fftshift` makes x of."""
    with name_scope(name, "ifftshift") as scope:
        return _shifted(convert(x), axes, lambda sizes: -(sizes // 2), scope)


def _shifted(x: Tensor, axes: Any, by: Callable[[Any], Any], name: str) -> Tensor:
    if axes is None:
        ranks = x.shape.ndims
        axes = range_of(0, rank(x)) if ranks is None else tuple(range(ranks))
        shift = by(shape(x))
    elif isinstance(axes, int):
        shift = by(shape(x)[axes])
    else:
        count = rank(x)
        axes = make.Select(make.Less(axes, 0), make.AddV2(axes, count, name="add"), axes)
        shift = by(make.GatherV2(shape(x), axes, 0))
    made: Tensor = roll(x, shift, axes, name=name)
    return made
