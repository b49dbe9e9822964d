"""Staging areas: values put aside for a later step, by turns (StagingArea) or by key (StagingMap).

What puts wait for: room, when `capacity` (tuples) or `memory_limit` (bytes) is positive; the limits
hold for what is there, so they cost nothing.  Gets wait for what they want.  Puts are served in the
order of arrival, gets too, except that one for a key that is not there lets others pass.

A map's tuple may be put in parts and taken in parts.  Until every component is there it is
incomplete: nobody can get it, and it does not count towards the capacity (nor does completing it
wait for room, as in TensorFlow).  A tuple for a key that is there already is dropped, as in
TensorFlow.
Values are copied on the way in; what a get gives is the taker's own.

Called by: ops.data.staging.  Threads: any, see run.state.wait_queues.
Source: TF 1.15 core/kernels/stage_op.cc and map_stage_op.cc, for behaviour, as observed of 2.21
"""

from __future__ import annotations

import heapq
from collections import OrderedDict, deque
from collections.abc import Sequence
from itertools import pairwise
from typing import Any, Final

import numpy as np

from headrace.base import errors
from headrace.base.dtypes import DType
from headrace.run.devices.there import There
from headrace.run.pending import Pending
from headrace.run.queues.columns import own
from headrace.run.state.wait_queues import WAIT, WaitingResource, WaitQueue
from headrace.run.uninterrupted import changes

STRING_BYTES: Final = 24
"""What TensorFlow counts for a string besides its content."""


def bytes_of(value: Any) -> int:
    """How much of a memory limit a value takes."""
    if isinstance(value, There):
        return value.nbytes
    if not isinstance(value, (np.ndarray, np.generic)):
        return STRING_BYTES
    if value.dtype.hasobject:
        return sum(STRING_BYTES + len(v) for v in np.ravel(value) if isinstance(v, bytes))
    return int(value.nbytes)


@changes
class _Area(WaitingResource):
    """What both kinds share: limits, and the two wait queues."""

    def __init__(self, name: str, capacity: int, memory_limit: int) -> None:
        self._puts, self._gets, self._peeks = (
            WaitQueue(strict=True),
            WaitQueue(strict=False),
            WaitQueue(False),
        )
        super().__init__(name, self._puts, self._gets, self._peeks)
        self.capacity = capacity
        self.memory_limit = memory_limit
        self._bytes = 0

    def _check_size(self, size: int) -> None:
        if 0 < self.memory_limit < size:
            raise errors.resource_exhausted(
                f"Attempted to insert tensors with combined size of '{size}' bytes into {self}, "
                f"which takes none: its memory limit is {self.memory_limit}"
            )

    def _has_room(self, size: int, tuples: int) -> bool:
        if 0 < self.capacity <= tuples:
            return False
        return not 0 < self.memory_limit < self._bytes + size


@changes
class StagingArea(_Area):
    """Tuples, first in, first out."""

    def __init__(self, name: str, capacity: int = 0, memory_limit: int = 0) -> None:
        """Limits of 0 mean none."""
        super().__init__(name, capacity, memory_limit)
        self._tuples: deque[tuple[Any, ...]] = deque()

    def put(self, values: Sequence[Any]) -> Pending[None]:
        """Add a tuple.  Rejected with: ResourceExhausted (above the memory limit alone)."""
        mine = tuple([own(value) for value in values])
        size = sum(map(bytes_of, mine))
        try:
            self._check_size(size)
        except errors.OpError as error:
            return Pending.failed_with(error)

        def attempt() -> Any:
            if not self._has_room(size, len(self._tuples)):
                return WAIT
            self._tuples.append(mine)
            self._bytes += size
            return None

        return self.wait_in(self._puts, "put", attempt)

    def get(self, types: Sequence[DType]) -> Pending[tuple[Any, ...]]:
        """Remove the oldest tuple.  Rejected with: InvalidArgument (other types)."""

        def attempt() -> Any:
            if not self._tuples:
                return WAIT
            self._check_types(self._tuples[0], types)
            found = self._tuples.popleft()
            self._bytes -= sum(map(bytes_of, found))
            return found

        return self.wait_in(self._gets, "get", attempt)

    def peek(self, index: int, types: Sequence[DType]) -> Pending[tuple[Any, ...]]:
        """A copy of the tuple at `index`, 0 being the oldest.

        Rejected with: InvalidArgument (below 0, other types).
        """

        def attempt() -> Any:
            if index < 0:
                raise errors.invalid_argument(f"peek({index}) on {self}: the index must be >= 0")
            if index >= len(self._tuples):
                return WAIT
            self._check_types(self._tuples[index], types)
            return tuple([own(value) for value in self._tuples[index]])

        return self.wait_in(self._peeks, f"peek({index})", attempt)

    def _check_types(self, values: Sequence[Any], types: Sequence[DType]) -> None:
        if len(values) != len(types):
            raise errors.invalid_argument(
                f"{self} holds tuples of {len(values)} components, and the node expects {len(types)}"
            )
        for number, (value, dtype) in enumerate(zip(values, types, strict=True)):
            check_type(self, number, value, dtype)

    def clear(self) -> None:
        """Remove all; puts that wait go on."""

        def action() -> None:
            self._tuples.clear()
            self._bytes = 0

        self.change(action)

    def size(self) -> int:
        """How many tuples are there."""
        return len(self._tuples)

    def state(self) -> str:
        """As `WaitingResource.state`."""
        limit = f" of at most {self.capacity}" if self.capacity else ""
        return f"it holds {len(self._tuples)}{limit} tuples, {self._bytes} bytes"


def check_type(area: WaitingResource, number: int, value: Any, dtype: DType) -> None:
    """Raise InvalidArgument unless component `number` is of that type."""
    given = getattr(value, "dtype", np.dtype(object))
    if given != dtype.np:
        raise errors.invalid_argument(
            f"component {number} of {area} is {given}, and the node expects {dtype.name}"
        )


class _Absent:
    """A component that was not put yet, or was taken."""


_ABSENT: Final = _Absent()


@changes
class StagingMap(_Area):
    """Tuples by key, int64; `ordered`: a get without key takes the smallest, else the oldest."""

    def __init__(
        self, name: str, capacity: int = 0, memory_limit: int = 0, ordered: bool = False
    ) -> None:
        super().__init__(name, capacity, memory_limit)
        self.ordered = ordered
        self._complete: OrderedDict[int, list[Any]] = OrderedDict()
        self._incomplete: dict[int, list[Any]] = {}
        self._keys: list[int] = []  # a heap, of ordered ones; some may be gone

    def put(
        self, key: int, indices: Sequence[int], values: Sequence[Any], arity: int
    ) -> Pending[None]:
        """Add the components `indices` of the tuple of `arity` components under `key`.

        Rejected with: InvalidArgument (indices; a component that is there), ResourceExhausted.
        """
        mine = [own(value) for value in values]
        size = sum(map(bytes_of, mine))
        try:
            self._check_indices(indices, arity)
            if len(indices) != len(values):
                raise errors.invalid_argument(
                    f"put into {self}: {len(indices)} indices for {len(values)} values"
                )
            self._check_size(size)
        except errors.OpError as error:
            return Pending.failed_with(error)
        whole = len(indices) == arity

        def attempt() -> Any:
            if not self._has_room(size, len(self._complete) if whole else -1):
                return WAIT
            if whole:
                self._add(key, mine)
            else:
                self._add_part(key, indices, mine, arity)
            return None

        return self.wait_in(self._puts, f"put({key})", attempt)

    def _add(self, key: int, values: list[Any]) -> None:
        if key not in self._complete:
            self._complete[key] = values
            self._bytes += sum(map(bytes_of, values))
            if self.ordered:
                heapq.heappush(self._keys, key)
                if len(self._keys) > 2 * len(self._complete) + 64:
                    self._keys = sorted(self._complete)

    def _add_part(self, key: int, indices: Sequence[int], values: list[Any], arity: int) -> None:
        found = self._incomplete.get(key)
        if found is None:
            found = [_ABSENT] * arity
        for index in indices:
            if found[index] is not _ABSENT:
                raise errors.invalid_argument(
                    f"The tensor for index '{index}' for key '{key}' was already initialized: put({key}) into {self}"
                )
        for index, value in zip(indices, values, strict=True):
            found[index] = value
            self._bytes += bytes_of(value)
        if any(value is _ABSENT for value in found):
            self._incomplete[key] = found
            return
        self._incomplete.pop(key, None)
        self._bytes -= sum(map(bytes_of, found))
        self._add(key, found)

    def get(
        self, key: int | None, indices: Sequence[int], types: Sequence[DType]
    ) -> Pending[tuple[Any, ...]]:
        """Remove components of the tuple under `key`; the last removes the tuple.

        Without a key, of the first tuple, and its key comes before the values.
        Rejected with: InvalidArgument (indices, types, taken already).
        """

        def attempt() -> Any:
            at = self._first() if key is None else key
            if at is None or at not in self._complete:
                return WAIT
            values = self._values(at, indices, types)
            found = self._complete[at]
            for index in indices:
                found[index] = _ABSENT
            if all(value is _ABSENT for value in found):
                del self._complete[at]
            self._bytes -= sum(map(bytes_of, values))
            return tuple(values) if key is not None else (np.int64(at), *values)

        return self.wait_in(self._gets, "get" if key is None else f"get({key})", attempt)

    def peek(
        self, key: int, indices: Sequence[int], types: Sequence[DType]
    ) -> Pending[tuple[Any, ...]]:
        """Copies of components of the tuple under `key`.  Rejected as `get`."""

        def attempt() -> Any:
            if key not in self._complete:
                return WAIT
            return tuple([own(value) for value in self._values(key, indices, types)])

        return self.wait_in(self._peeks, f"peek({key})", attempt)

    def _first(self) -> int | None:
        if not self.ordered:
            return next(iter(self._complete), None)
        while self._keys and self._keys[0] not in self._complete:
            heapq.heappop(self._keys)
        return self._keys[0] if self._keys else None

    def _values(self, key: int, indices: Sequence[int], types: Sequence[DType]) -> list[Any]:
        found = self._complete[key]
        self._check_indices(indices, len(found))
        if len(indices) != len(types):
            raise errors.invalid_argument(
                f"get({key}) from {self}: {len(indices)} indices for {len(types)} values"
            )
        values = [found[index] for index in indices]
        for index, value, dtype in zip(indices, values, types, strict=True):
            if value is _ABSENT:
                raise errors.invalid_argument(
                    f"Tensor at index '{index}' for key '{key}' has already been removed from {self}"
                )
            check_type(self, index, value, dtype)
        return values

    def _check_indices(self, indices: Sequence[int], arity: int) -> None:
        rising = all(a < b for a, b in pairwise(indices))
        if not rising or (indices and not 0 <= indices[0] <= indices[-1] < arity):
            raise errors.invalid_argument(
                f"the indices {list(indices)} for {self} must rise strictly and be in [0, {arity})"
            )

    def clear(self) -> None:
        """Remove all, the incomplete too; puts that wait go on."""

        def action() -> None:
            self._complete.clear()
            self._incomplete.clear()
            self._keys.clear()
            self._bytes = 0

        self.change(action)

    def size(self) -> int:
        """How many complete tuples are there."""
        return len(self._complete)

    def incomplete_size(self) -> int:
        """How many incomplete tuples are there."""
        return len(self._incomplete)

    def state(self) -> str:
        """As `WaitingResource.state`."""
        limit = f" of at most {self.capacity}" if self.capacity else ""
        return (
            f"it holds {len(self._complete)}{limit} complete tuples and {len(self._incomplete)} "
            f"incomplete ones, {self._bytes} bytes"
        )
