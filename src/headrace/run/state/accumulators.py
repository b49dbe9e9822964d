"""Accumulators: gradients add up until enough are there, then one take gets their sum or mean.

A gradient computed at a step older than the accumulator's is dropped.  A take that is served counts
the step up by one, so that gradients from before it come too late.
What a take waits for: as many gradients as it wants.  It gets all that are there, which may be more.
Takes are served in the order of arrival.  Applying never waits.  Who has handed gradients over is remembered, so
that whoever waits can be told whose are missing.

Sparse: gradients are slices of axis 0 by index.  Both sides are taken to be sorted, as in
TensorFlow; the mean of an index is over the gradients that have it.
Called by: ops.data.accumulators.  Threads: any, see run.state.wait_queues.
Source: TF 1.15 core/kernels/conditional_accumulator.h and sparse_conditional_accumulator.h, for
behaviour, as observed of 2.21
"""

from __future__ import annotations

import time
from abc import abstractmethod
from typing import Any, Final

import numpy as np

from headrace.base import dtypes, errors
from headrace.base import shapes as shape_rules
from headrace.base.shapes import Shape
from headrace.run.pending import Pending
from headrace.run.queues.columns import Array
from headrace.run.state.wait_queues import WAIT, WaitingResource, WaitQueue
from headrace.run.uninterrupted import changes

_MOST_REMEMBERED: Final = 256  # of those who give, and who take; those longest silent are forgotten


@changes
class _Accumulator(WaitingResource):
    """What both kinds share: the count, the step, the takes."""

    def __init__(self, name: str, dtype: dtypes.DType, shape: Shape, mean: bool) -> None:
        """`shape` of a gradient as far as it is known; `mean`, else sum."""
        self._takes = WaitQueue(strict=True)
        super().__init__(name, self._takes)
        self.dtype = dtype
        self.shape = shape
        self.mean = mean
        self._count = 0
        self._step = 0
        self._dropped = 0
        self._latest: dict[str, tuple[float, int]] = {}  # when, and after how many takes
        self._taken = 0
        self._takers: dict[str, float] = {}  # when

    def set_global_step(self, step: int) -> None:
        """Gradients of earlier steps are dropped from now on; those that are there stay."""
        with self._lock:
            self._step = step

    def num_accumulated(self) -> int:
        """How many gradients are there."""
        return self._count

    def take(self, count: int, taker: str = "") -> Pending[Any]:
        """Remove the sum or mean of all gradients, once there are `count`, for `taker`.

        Rejected with: InvalidArgument (count < 1).
        """
        if count < 1:
            return Pending.failed_with(
                errors.invalid_argument(
                    f"Argument num_required must be positive, but was {count}: that of a take_grad from {self}"
                )
            )

        with self._lock:
            _remember(self._takers, taker, time.monotonic())

        def attempt() -> Any:
            if self._count < count:
                return WAIT
            found = self._result()
            self._count = 0
            self._step += 1
            self._taken += 1
            return found

        return self.wait_in(self._takes, f"take_grad({count})", attempt)

    def check_type(self, value: Any) -> None:
        """Raise InvalidArgument unless a gradient is of the right type."""
        given = getattr(value, "dtype", np.dtype(object))
        if given != self.dtype.np:
            raise errors.invalid_argument(
                f"a gradient for {self} is {given}, and it accumulates {self.dtype.name}"
            )

    def _mismatch(self, found: Shape, wanted: Shape) -> errors.OpError:
        return errors.invalid_argument(
            f"Shape mismatch: expected {shape_rules.text(wanted)}, got {shape_rules.text(found)}: a gradient for {self}"
        )

    def _count_of(self, giver: str) -> None:
        """Another gradient is there, of `giver`.  Called under the lock."""
        self._count += 1
        self._note(giver, self._taken)

    def _drop_of(self, giver: str) -> None:
        """One of `giver` came too late.  Called under the lock."""
        self._dropped += 1
        self._note(giver, self._latest.get(giver, (0.0, -1))[1])

    def _note(self, giver: str, taken: int) -> None:
        _remember(self._latest, giver, (time.monotonic(), taken))

    def contributors(self) -> list[tuple[str, float, bool]]:
        """As `WaitingResource.contributors`."""
        now = time.monotonic()
        return [
            (giver, now - when, taken == self._taken and self._count > 0)
            for giver, (when, taken) in self._latest.items()
        ]

    def takers(self) -> list[tuple[str, float]]:
        """As `WaitingResource.takers`."""
        now = time.monotonic()
        return [(taker, now - when) for taker, when in self._takers.items()]

    @abstractmethod
    def _result(self) -> Any:
        """Hand over what has been accumulated."""

    def state(self) -> str:
        """As `WaitingResource.state`."""
        dropped = f", and has dropped {self._dropped} of earlier ones" if self._dropped else ""
        return f"it holds {self._count} gradients, at step {self._step}{dropped}"


@changes
class DenseAccumulator(_Accumulator):
    """Of arrays."""

    _sum: Array

    def apply(self, gradient: Any, local_step: int, giver: str = "") -> None:
        """Add a gradient that `giver` computed at `local_step`.  Raises InvalidArgument (type, shape)."""
        self.check_type(gradient)

        def action() -> None:
            if local_step < self._step:
                self._drop_of(giver)
                return
            found = np.shape(gradient)
            if not shape_rules.compatible(found, self.shape):
                raise self._mismatch(found, self.shape)
            if not self._count:
                self._sum = np.array(gradient)
            elif found != self._sum.shape:
                raise self._mismatch(found, self._sum.shape)
            else:
                self._sum += gradient
            self._count_of(giver)

        self.change(action)

    def _result(self) -> Array:
        total = self._sum
        del self._sum
        if not self.mean or self._count == 1:
            return total
        if np.issubdtype(total.dtype, np.inexact):  # nobody else has it
            np.divide(total, total.dtype.type(self._count), out=total)
            return total
        return divided(total, np.int64(self._count))


Slices = tuple[Array, Array, Array]
"""int64 indices [n], values [n, ...], int64 shape [rank]."""


@changes
class SparseAccumulator(_Accumulator):
    """Of slices."""

    def __init__(self, name: str, dtype: dtypes.DType, shape: Shape, mean: bool) -> None:
        """As the base, but [] for a shape says nothing, as in TensorFlow."""
        super().__init__(name, dtype, shape or None, mean)

    _indices: Array
    _values: Array
    _counts: Array  # how many gradients have each index

    def apply(
        self,
        indices: Array,
        values: Array,
        dense_shape: tuple[int, ...] | None,
        local_step: int,
        giver: str = "",
    ) -> None:
        """Add values [n, ...] at indices [n] of axis 0, of `giver`; `dense_shape` of the whole, if known.

        Raises InvalidArgument (types, shapes, an index beyond the shape).
        """
        self.check_type(values)

        def action() -> None:
            if local_step < self._step:
                self._drop_of(giver)
                return
            self._check(indices, values, dense_shape)
            ones = np.ones(len(indices), np.int64)
            if not self._count:
                self._indices, self._values, self._counts = indices.copy(), values.copy(), ones
            elif values.shape[1:] != self._values.shape[1:]:
                raise self._mismatch(values.shape, (None, *self._values.shape[1:]))
            else:
                self._merge(indices, values)
            self._count_of(giver)

        self.change(action)

    def _check(self, indices: Array, values: Array, dense_shape: tuple[int, ...] | None) -> None:
        if indices.ndim != 1 or not values.ndim or len(indices) != len(values):
            what = (
                "Input indices should be vector but received shape: "
                f"{shape_rules.text(indices.shape)}"
                if indices.ndim != 1
                else f"Expected {len(indices)} non-empty input values, got {values.shape[:1]}"
            )
            raise errors.invalid_argument(
                f"{what}: a gradient for {self} has indices of shape {list(indices.shape)} for values of "
                f"shape {list(values.shape)}; there must be one index for each slice of axis 0"
            )
        if dense_shape is not None and not shape_rules.compatible(dense_shape, self.shape):
            raise self._mismatch(dense_shape, self.shape)
        for shape in (self.shape, dense_shape):
            if shape is None:
                continue
            if not shape_rules.compatible(values.shape[1:], shape[1:]):
                raise self._mismatch(values.shape, (None, *shape[1:]))
            limit = shape[0] if shape else 0
            if limit is not None and len(indices) and int(indices.max()) >= limit:
                raise errors.invalid_argument(
                    f"Shape mismatch: index of slice {int(indices.argmax())} exceeded limits of shape; index is "
                    f"{int(indices.max())} exceeded {limit}: a gradient for {self}"
                )

    def _merge(self, indices: Array, values: Array) -> None:
        merged, mine, theirs = merge(self._indices, indices)
        total = np.zeros((len(merged), *values.shape[1:]), values.dtype)
        counts = np.zeros(len(merged), np.int64)
        total[mine] = self._values
        counts[mine] = self._counts
        total[theirs] += values
        counts[theirs] += 1
        self._indices, self._values, self._counts = merged, total, counts

    def _result(self) -> Slices:
        indices, values, counts = self._indices, self._values, self._counts
        del self._indices, self._values, self._counts
        if self.mean:
            values = divided(values, counts.reshape(-1, *[1] * (values.ndim - 1)))
        shape = (None, *values.shape[1:]) if self.shape is None else self.shape
        return indices, values, np.array([-1 if d is None else d for d in shape], np.int64)


def _remember(latest: dict[str, Any], who: str, what: float | tuple[float, int]) -> None:
    """Keep that of the latest; `what` begins with the time."""
    if who not in latest and len(latest) >= _MOST_REMEMBERED:
        del latest[min(latest, key=latest.__getitem__)]
    latest[who] = what


def merge(left: Array, right: Array) -> tuple[Array, Array, Array]:
    """Two sorted vectors as one, and where the elements of each are in it; equal ones once.

    What is not sorted is merged as if it were: the smaller head first, equal heads together.
    """
    if (left[1:] > left[:-1]).all() and (right[1:] > right[:-1]).all():
        merged = np.union1d(left, right)
        return merged, np.searchsorted(merged, left), np.searchsorted(merged, right)
    a, b = left.tolist(), right.tolist()
    out: list[int] = []
    places: tuple[list[int], list[int]] = ([], [])
    i = j = 0
    while i < len(a) or j < len(b):
        from_left = j == len(b) or (i < len(a) and a[i] <= b[j])
        from_right = i == len(a) or (j < len(b) and b[j] <= a[i])
        out.append(a[i] if from_left else b[j])
        if from_left:
            places[0].append(len(out) - 1)
            i += 1
        if from_right:
            places[1].append(len(out) - 1)
            j += 1
    return np.array(out, np.int64), np.array(places[0], np.intp), np.array(places[1], np.intp)


def divided(total: Array, counts: Any) -> Array:
    """The mean in the type of the sum; of integers, rounded towards zero."""
    if np.issubdtype(total.dtype, np.integer):
        rounded: Array = np.abs(total) // counts.astype(total.dtype) * np.sign(total)
        return rounded.astype(total.dtype)
    mean: Array = total / counts.astype(total.dtype)
    return mean
