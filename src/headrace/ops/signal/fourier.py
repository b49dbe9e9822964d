"""Fourier transforms over the last one, two or three dimensions, of complex and of real numbers.

Called by: programs, library.signal.  Threads: kernels any; gradients as graph.
Source: TF 1.15 core/ops/spectral_ops.cc; nodes as 2.21, but for gradients of real transforms
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from headrace.base import errors
from headrace.base.dtypes import DType
from headrace.base.shapes import Shape, text
from headrace.graph.graph import Operation
from headrace.graph.registry import OpSpec, op
from headrace.graph.shape_fns import ShapeContext
from headrace.graph.tensor import Tensor
from headrace.ops.array.constants import ones
from headrace.ops.array.joining import concat
from headrace.ops.array.packing import stack
from headrace.ops.array.padding import pad
from headrace.ops.array.shapes import rank as rank_of
from headrace.ops.array.shapes import shape
from headrace.ops.math.casting import cast, real
from headrace.ops.math.reductions import reduce_prod
from headrace.ops.tables import make

__all__ = ["fft", "fft2d", "fft3d", "ifft", "ifft2d", "ifft3d"]

Array = np.ndarray[Any, Any]
_SUFFIX = {1: "", 2: "2D", 3: "3D"}
_COMPLEX = "Tcomplex: {complex64, complex128} = complex64"
_REAL = "Treal: {float, double} = float"


def _axes(rank: int) -> tuple[int, ...]:
    return tuple(range(-rank, 0))


def _check_rank(input: Array, rank: int) -> None:
    if input.ndim < rank:
        raise errors.invalid_argument(
            f"Input must have rank of at least {rank} but got: {text(input.shape)}"
        )


def _complex(rank: int, inverse: bool) -> OpSpec:
    name = ("IFFT" if inverse else "FFT") + _SUFFIX[rank]
    other = ("FFT" if inverse else "IFFT") + _SUFFIX[rank]
    function: Callable[..., Array] = np.fft.ifftn if inverse else np.fft.fftn

    def kernel(xp: Any, input: Array) -> Array:
        _check_rank(input, rank)
        if not input.size:
            return input.copy()
        return function(input, axes=_axes(rank)).astype(input.dtype, copy=False)

    kernel.__doc__ = (
        f"{'Inverse ' if inverse else ''}Fourier transforms over the last {rank} dimensions.  "
        "Raises InvalidArgument if there are fewer."
    )

    def unchanged(c: ShapeContext) -> Shape:
        return c.with_rank_at_least("input", rank)

    spec = op(
        name,
        inputs="input: Tcomplex",
        outputs="output: Tcomplex",
        attrs=_COMPLEX,
        shape=unchanged,
    )(kernel)

    def gradient(op: Operation, dout: Tensor) -> Tensor:
        count = reduce_prod(shape(dout)[-rank:])
        back = getattr(make, other)
        if inverse:
            scale = 1.0 / cast(count, _real_of(dout))
            made: Tensor = back(dout) * cast(scale, dout.dtype.base_dtype)
        else:
            factor = cast(count, dout.dtype.base_dtype)
            made = back(dout) * factor
        return made

    spec.gradient(gradient)
    return spec


def _real_of(x: Tensor) -> DType:
    return x.dtype.base_dtype.real_dtype


fft, ifft = _complex(1, False), _complex(1, True)
fft2d, ifft2d = _complex(2, False), _complex(2, True)
fft3d, ifft3d = _complex(3, False), _complex(3, True)


# -- of real numbers --------------------------------------------------------------------------


def _lengths(input: Array, fft_length: Array, rank: int, half: bool) -> tuple[int, ...]:
    """The lengths of the transforms.  Raises InvalidArgument if the input is too short for them."""
    _check_rank(input, rank)
    if fft_length.shape != (rank,):
        raise errors.invalid_argument(
            f"fft_length must have shape [{rank}], but it has {text(fft_length.shape)}"
        )
    found = tuple(int(each) for each in fft_length)
    for at, wanted in zip(_axes(rank), found, strict=True):
        needed = wanted // 2 + 1 if half and at == -1 else wanted
        if wanted < 0:
            raise errors.invalid_argument(f"fft_length[{rank + at}] must >= 0, but got: {wanted}")
        if input.shape[at] < needed and input.size:
            raise errors.invalid_argument(
                f"Input dimension {input.ndim + at} must have length of at least {needed} but got: {input.shape[at]}"
            )
    return found


def _real_shape(rank: int, inverse: bool) -> Callable[[ShapeContext], Shape]:
    def found(c: ShapeContext) -> Shape:
        input = c.with_rank_at_least("input", rank)
        length = c.shape("fft_length")
        if length is not None and len(length) != 1:
            raise ValueError(f"Shape must be rank 1 but is rank {len(length)}: fft_length")
        if length is not None and length[0] not in (rank, None):
            raise ValueError(
                f"Dimension must be {rank} but is {length[0]}: fft_length has one for each of {rank} dimensions"
            )
        if input is None:
            return None
        sizes = c.value("fft_length")
        if sizes is None:
            return (*input[:-rank], *(None,) * rank)
        known = [int(each) for each in sizes]
        if not inverse and known[-1]:
            known[-1] = known[-1] // 2 + 1
        return (*input[:-rank], *known)

    return found


def _of_reals(rank: int) -> OpSpec:
    def kernel(xp: Any, input: Array, fft_length: Array, *, Tcomplex: DType) -> Array:
        sizes = _lengths(input, fft_length, rank, half=False)
        outer = input.shape[:-rank]
        if 0 in sizes or not input.size:
            last = sizes[-1] // 2 + 1 if sizes[-1] else 0
            return np.zeros((*outer, *sizes[:-1], last), Tcomplex.np)
        return np.fft.rfftn(input, sizes, _axes(rank)).astype(Tcomplex.np, copy=False)

    kernel.__doc__ = (
        f"Fourier transforms of real numbers over the last {rank} dimensions, of which fft_length [{rank}] elements "
        "are taken; the last has fft_length // 2 + 1.  Raises InvalidArgument if there are fewer."
    )
    spec = op(
        f"RFFT{_SUFFIX[rank]}",
        inputs="input: Treal; fft_length: int32",
        outputs="output: Tcomplex",
        attrs=f"{_REAL}; {_COMPLEX}",
        shape=_real_shape(rank, inverse=False),
    )(kernel)

    def gradient(op: Operation, dout: Tensor) -> tuple[Tensor, None]:
        """The real part of the transform back of the half that there is, as if the other were 0."""
        lengths = op.inputs[1]
        missing = lengths[-1] - shape(dout)[-1]
        whole = pad(dout, _behind(dout, missing))
        back = getattr(make, f"IFFT{_SUFFIX[rank]}")(whole)
        made: Tensor = real(back) * cast(reduce_prod(lengths), _real_of(dout))
        return _as_long_as(op.inputs[0], made), None

    spec.gradient(gradient)
    return spec


def _behind(x: Tensor, missing: Any) -> Tensor:
    """Paddings of `missing` zeros behind the last dimension."""
    ranks = x.shape.ndims
    last = stack([0, missing])
    before: Any
    if ranks is None:
        before = make.Fill(stack([rank_of(x) - 1, 2]), 0)
    else:
        before = np.zeros((ranks - 1, 2), np.int32)
    return concat([before, last[None]], 0)


def _as_long_as(input: Tensor, found: Tensor) -> Tensor:
    """`found`, with zeros where the transform took no elements of the input."""
    known = input.shape.is_fully_defined() and found.shape.is_fully_defined()
    if known and input.shape.as_list() == found.shape.as_list():
        return found
    behind = shape(input) - shape(found)
    padded = pad(found, stack([make.ZerosLike(behind), behind], axis=1))
    padded.set_shape(input.shape)
    return padded


def _to_reals(rank: int) -> OpSpec:
    def kernel(xp: Any, input: Array, fft_length: Array, *, Treal: DType) -> Array:
        sizes = _lengths(input, fft_length, rank, half=True)
        if 0 in sizes or not input.size:
            return np.zeros((*input.shape[:-rank], *sizes), Treal.np)
        return np.fft.irfftn(input, sizes, _axes(rank)).astype(Treal.np, copy=False)

    kernel.__doc__ = (
        f"What RFFT{_SUFFIX[rank]} transforms to the input: fft_length [{rank}] real numbers, of which the last needs "
        "fft_length // 2 + 1 complex ones.  Raises InvalidArgument if there are fewer."
    )
    spec = op(
        f"IRFFT{_SUFFIX[rank]}",
        inputs="input: Tcomplex; fft_length: int32",
        outputs="output: Treal",
        attrs=f"{_REAL}; {_COMPLEX}",
        shape=_real_shape(rank, inverse=True),
    )(kernel)

    def gradient(op: Operation, dout: Tensor) -> tuple[Tensor, None]:
        """All but the first, and of even lengths the last, stand for two of the whole transform."""
        lengths = op.inputs[1]
        odd = make.FloorMod(lengths[-1], 2)
        bins = lengths[-1] // 2 + 1
        kind = _real_of_input(op)
        twice = 2.0 * ones([bins - 2 + odd], kind)
        weights = concat([[1.0], twice, ones([1 - odd], kind)], 0)
        back = getattr(make, f"RFFT{_SUFFIX[rank]}")(
            dout, lengths, Tcomplex=op.inputs[0].dtype.base_dtype
        )
        scale = weights / cast(reduce_prod(lengths), kind)
        made: Tensor = back * cast(scale, back.dtype.base_dtype)
        return _as_long_as(op.inputs[0], made), None

    spec.gradient(gradient)
    return spec


def _real_of_input(op: Operation) -> DType:
    return op.inputs[0].dtype.base_dtype.real_dtype


rfft_ops = {rank: _of_reals(rank) for rank in (1, 2, 3)}
irfft_ops = {rank: _to_reals(rank) for rank in (1, 2, 3)}
