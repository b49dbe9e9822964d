"""Vectors as triangular matrices, and matrices of which the diagonal is transformed; percentiles.

Called by: programs.  Threads: as graph.
Source: behaviour of TF 1.15
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from headrace.base import dtypes
from headrace.base.shapes import TensorShape
from headrace.graph.convert import convert
from headrace.graph.names import name_scope
from headrace.graph.registry import get
from headrace.graph.tensor import Tensor
from headrace.library.contrib.distributions.bijector import Bijector, Chain, Identity
from headrace.library.contrib.distributions.bijectors import AffineScalar, Softplus
from headrace.library.sorting import sort
from headrace.ops.array.constants import zeros_like
from headrace.ops.array.gathering import gather
from headrace.ops.array.joining import concat
from headrace.ops.array.shapes import expand_dims, reshape, transpose
from headrace.ops.array.shapes import shape as sizes_of
from headrace.ops.linalg.diagonals import matrix_diag_part as diag_part
from headrace.ops.linalg.diagonals import matrix_set_diag as set_diag
from headrace.ops.math.casting import cast

__all__ = [
    "FillTriangular",
    "ScaleTriL",
    "TransformDiagonal",
    "fill_triangular",
    "fill_triangular_inverse",
    "percentile",
]


def _places(size: int, upper: bool) -> np.ndarray[Any, Any]:
    """[size * size]: which element of the vector stands there; the one behind its last for 0.

    The vector goes around: its tail is the first rows, and the whole of it, backwards, the rest.
    """
    count = size * (size + 1) // 2
    numbers = np.arange(count)
    around = [numbers, numbers[size:][::-1]] if upper else [numbers[size:], numbers[::-1]]
    whole = np.concatenate(around).reshape(size, size)
    keep = np.triu if upper else np.tril
    found: np.ndarray[Any, Any] = np.where(keep(np.ones((size, size), bool)), whole, count)
    return found.reshape(-1)


def _side(count: int | None) -> int:
    """Rows of the triangle that has so many elements.  Raises ValueError."""
    if count is None:
        raise ValueError("the size of the last dimension must be known")
    size = (math.isqrt(1 + 8 * count) - 1) // 2
    if size * (size + 1) // 2 != count:
        raise ValueError(
            f"Input right-most shape ({count}) does not correspond to a triangular matrix."
        )
    return size


def fill_triangular(x: Any, upper: bool = False, name: str | None = None) -> Tensor:
    """x [..., n (n + 1) / 2] as triangular matrices [..., n, n]; [1, …, 6] is [[4, 0, 0], [6, 5, 0], [3, 2, 1]].

    Raises ValueError if the last dimension is not known, or not of a triangle.
    """
    with name_scope(name, "fill_triangular", [x]):
        x = convert(x, name="x")
        size = _side(x.shape[-1].value)
        longer = concat([x, zeros_like(x[..., :1])], -1)
        made = gather(longer, _places(size, upper), axis=-1)
        filled: Tensor = reshape(made, concat([sizes_of(x)[:-1], [size, size]], 0))
        filled.set_shape(TensorShape(x.shape[:-1]).concatenate([size, size]))
        return filled


def fill_triangular_inverse(x: Any, upper: bool = False, name: str | None = None) -> Tensor:
    """The vectors [..., n (n + 1) / 2] of which `fill_triangular` makes x [..., n, n]."""
    with name_scope(name, "fill_triangular_inverse", [x]):
        x = convert(x, name="x")
        size = x.shape[-1].value
        if size is None:
            raise ValueError("the size of the last dimension must be known")
        count = size * (size + 1) // 2
        places = _places(size, upper)
        back = np.zeros(count, np.int32)
        back[places[places < count]] = np.flatnonzero(places < count)
        flat = reshape(x, concat([sizes_of(x)[:-2], [size * size]], 0))
        made: Tensor = gather(flat, back, axis=-1)
        made.set_shape(TensorShape(x.shape[:-2]).concatenate([count]))
        return made


class FillTriangular(Bijector):
    """Vectors of n (n + 1) / 2 numbers as triangular matrices of n rows."""

    def __init__(
        self, upper: bool = False, validate_args: bool = False, name: str = "fill_triangular"
    ) -> None:
        self._upper = upper
        super().__init__((), True, validate_args, None, 1, 2, name)

    def _forward(self, x: Any) -> Any:
        return fill_triangular(x, self._upper)

    def _inverse(self, y: Any) -> Any:
        return fill_triangular_inverse(y, self._upper)

    def _forward_log_det_jacobian(self, x: Any) -> Any:
        return zeros_like(x[..., 0])

    def _inverse_log_det_jacobian(self, y: Any) -> Any:
        return zeros_like(y[..., 0, 0])

    def _forward_event_shape(self, shape: TensorShape) -> Any:
        size = _side(shape[-1].value)
        return TensorShape(shape[:-1]).concatenate([size, size])

    def _inverse_event_shape(self, shape: TensorShape) -> Any:
        size = shape[-1].value
        count = None if size is None else size * (size + 1) // 2
        return TensorShape(shape[:-2]).concatenate([count])


class TransformDiagonal(Bijector):
    """Matrices of which the diagonal is transformed, and the rest stays."""

    def __init__(
        self,
        diag_bijector: Any,
        validate_args: bool = False,
        name: str = "transform_diagonal",
    ) -> None:
        """diag_bijector: of vectors, or of numbers."""
        self._bijector = diag_bijector
        super().__init__(
            diag_bijector.graph_parents,
            diag_bijector.is_constant_jacobian,
            validate_args,
            diag_bijector.dtype,
            2,
            name=name,
        )

    def _forward(self, x: Any) -> Any:
        return set_diag(x, self._bijector.forward(diag_part(x)))

    def _inverse(self, y: Any) -> Any:
        return set_diag(y, self._bijector.inverse(diag_part(y)))

    def _forward_log_det_jacobian(self, x: Any) -> Any:
        return self._bijector.forward_log_det_jacobian(diag_part(x), event_ndims=1)

    def _inverse_log_det_jacobian(self, y: Any) -> Any:
        return self._bijector.inverse_log_det_jacobian(diag_part(y), event_ndims=1)


class ScaleTriL(Chain):
    """Vectors as lower triangular matrices with a positive diagonal: scales of normal distributions."""

    def __init__(
        self,
        diag_bijector: Any = None,
        diag_shift: Any = 1e-5,
        validate_args: bool = False,
        name: str = "scale_tril",
    ) -> None:
        """diag_bijector: of the diagonal, Softplus if None; diag_shift: what is added to it, None for nothing."""
        by = diag_bijector or Softplus(validate_args=validate_args)
        moved = Identity() if diag_shift is None else AffineScalar(shift=diag_shift)
        filled = FillTriangular(validate_args=validate_args)
        both = [TransformDiagonal(moved), TransformDiagonal(by), filled]
        super().__init__(both, validate_args, name)


def percentile(
    x: Any,
    q: Any,
    axis: Any = None,
    interpolation: str | None = None,
    keep_dims: bool = False,
    validate_args: bool = False,
    name: str | None = None,
) -> Tensor:
    """The q-th percentile of x along axis, all dimensions if None: of the elements in order, the one there.

    q: a number in [0, 100].  interpolation: 'nearest' (the default, halves to even), 'lower' or 'higher'.
    Raises ValueError.
    """
    kinds = {"nearest": "Rint", "lower": "Floor", "higher": "Ceil"}
    how = "nearest" if interpolation is None else interpolation
    if how not in kinds:
        raise ValueError(
            f"Argument 'interpolation' must be in {sorted(kinds)}. Found: {interpolation!r}"
        )
    with name_scope(name, "percentile", [x, q]):
        x, q = convert(x, name="x"), convert(q, dtypes.float64, name="q")
        rank = x.shape.rank
        if rank is None or q.shape.rank != 0:
            raise ValueError(f"the rank of x must be known, and q a number: {x.shape}, {q.shape}")
        axes = [*range(rank)] if axis is None else [each % rank for each in np.ravel(axis).tolist()]
        kept = [each for each in range(rank) if each not in axes]
        last = transpose(x, [*kept, *axes])
        ordered = sort(reshape(last, concat([sizes_of(last)[: len(kept)], [-1]], 0)), axis=-1)
        many = cast(sizes_of(ordered)[-1] - 1, dtypes.float64)
        place = cast(get(kinds[how])(many * q / 100.0), dtypes.int32)
        found: Tensor = gather(ordered, place, axis=-1)
        if keep_dims:
            for each in sorted(axes):
                found = expand_dims(found, each)
        return found
