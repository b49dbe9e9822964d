"""Barrier: tuples that are put together from components that come separately, by key.

A key's tuple is incomplete until every component is there; then it is ready, and the key may be used
again.  Ready tuples leave in the order in which their keys first came (keys of one insert_many come
at once), among equals in the order in which they got ready.
What a take waits for: all the tuples it wants.  Takes are served in the order of arrival.  Inserts
never wait.

Closed: no new keys, but those that are there may still be completed; with cancel_pending_enqueues
they are dropped, and every insert is Cancelled.  A take that wants more than can ever come is
OutOfRange, with `allow_small_batch` only if nothing is left (TensorFlow refuses a small batch to a
take that was waiting already when the barrier closed).
An insert_many that fails has inserted nothing.

Called by: ops.data.barriers.  Threads: any, see run.state.wait_queues.
Source: TF 1.15 core/kernels/barrier_ops.cc, for behaviour, as observed of 2.21
"""

from __future__ import annotations

import heapq
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from headrace.base import dtypes, errors
from headrace.base import shapes as shape_rules
from headrace.run.pending import Pending
from headrace.run.queues.columns import Array, own, row
from headrace.run.state.wait_queues import WAIT, WaitingResource, WaitQueue
from headrace.run.uninterrupted import changes

_FIRST_INDEX: Final = -(2**63)
_ABSENT: Final = object()


@dataclass(frozen=True, slots=True)
class BarrierSpec:
    """What a barrier node asks for; nodes that share one must ask for the same."""

    types: tuple[dtypes.DType, ...]
    shapes: tuple[tuple[int, ...], ...]
    """Of the components; scalars where none was given."""

    @classmethod
    def make(
        cls, types: Sequence[dtypes.DType], shapes: Sequence[shape_rules.Shape], capacity: int
    ) -> BarrierSpec:
        """From a node's attrs.  Raises InvalidArgument."""
        if capacity != -1:
            raise errors.invalid_argument(
                f"a barrier takes no capacity but -1, and was given {capacity}; to limit it, let "
                "its inputs come through a queue"
            )
        if shapes and len(shapes) != len(types):
            raise errors.invalid_argument(
                f"a barrier of {len(types)} components was given {len(shapes)} shapes"
            )
        known = []
        for number, shape in enumerate(shapes or [()] * len(types)):
            shape = () if shape is None else shape
            if None in shape:
                raise errors.invalid_argument(
                    f"component {number} of a barrier has shape {shape_rules.text(shape)}, which "
                    "is not fully defined"
                )
            known.append(tuple(size for size in shape if size is not None))
        return cls(tuple(t.base_dtype for t in types), tuple(known))


class _Tuple:
    """A key's components so far, and when the key came."""

    __slots__ = ("index", "values")

    def __init__(self, index: int, values: list[Any]) -> None:
        self.index = index
        self.values = values


Taken = tuple[Array, ...]
"""int64 indices [n], string keys [n], then each component [n, ...]."""


@changes
class Barrier(WaitingResource):
    """See the module header."""

    def __init__(self, name: str, spec: BarrierSpec) -> None:
        self._takes = WaitQueue(strict=True)
        super().__init__(name, self._takes)
        self.spec = spec
        self._incomplete: dict[bytes, _Tuple] = {}
        self._ready: list[tuple[int, int, bytes, list[Any]]] = []  # a heap
        self._next_index = _FIRST_INDEX
        self._completed = 0
        self._closed = False
        self._cancelled = False

    def check_shared_with(self, wanted: BarrierSpec) -> None:
        """Raise InvalidArgument, with both sides, unless a node that asks for that means this."""
        for what, ours, theirs in (
            ("types", [t.name for t in self.spec.types], [t.name for t in wanted.types]),
            ("shapes", self.spec.shapes, wanted.shapes),
        ):
            if ours != theirs:
                raise errors.invalid_argument(
                    f"Shared barrier '{self.label}' has component {what} {ours} but requested component {what} "
                    f"were {theirs} in container {self.container!r}; make them agree, or give the barrier another "
                    "shared_name"
                )

    def insert_many(self, component: int, keys: Array, values: Array) -> None:
        """Give `component` of the tuple of each key: keys [n], values [n, ...].

        Raises InvalidArgument (types, shapes, a component that is there), Cancelled (closed).
        """
        self._check_batch(component, keys, values)
        names: list[bytes] = keys.tolist()
        self.change(lambda: self._insert(component, names, values))

    def _insert(self, component: int, names: list[bytes], values: Array) -> None:
        arity = len(self.spec.types)
        if self._cancelled or (self._closed and not self._incomplete):
            raise errors.cancelled(f"Barrier {self.label} is closed")
        touched: dict[bytes, list[Any]] = {}
        ready: list[tuple[int, bytes, list[Any]]] = []
        known = {name: self._incomplete[name] for name in names if name in self._incomplete}
        fresh = False
        for at, name in enumerate(names):
            found = touched.get(name)
            if found is None:
                old = known.pop(name, None)
                if old is None and self._closed:
                    raise errors.cancelled(
                        f"Barrier {self.label} is closed and takes no new key: {name!r}"
                    )
                fresh = fresh or old is None
                found = [self._next_index, *([_ABSENT] * arity)]
                if old is not None:
                    found = [old.index, *old.values]
            if found[component + 1] is not _ABSENT:
                raise errors.invalid_argument(
                    f"Key {name.decode(errors='replace')} already has a value for component {component} in barrier "
                    f"{self.label}"
                )
            found[component + 1] = own(row(values, at))
            touched[name] = found
            if all(value is not _ABSENT for value in found):
                ready.append((found[0], name, found[1:]))
                del touched[name]
                known.pop(name, None)
        for _, name, _ in ready:
            self._incomplete.pop(name, None)
        for name, found in touched.items():
            self._incomplete[name] = _Tuple(found[0], found[1:])
        for index, name, tuple_ in ready:
            heapq.heappush(self._ready, (index, self._completed, name, tuple_))
            self._completed += 1
        self._next_index += fresh

    def _check_batch(self, component: int, keys: Array, values: Array) -> None:
        arity = len(self.spec.types)
        if not 0 <= component < arity:
            raise errors.invalid_argument(
                f"The component ID is out of range {component} > num_components (= {arity}): insert_many into {self}"
            )
        dtype, shape = self.spec.types[component], self.spec.shapes[component]
        given: Any = getattr(values, "dtype", np.dtype(object))
        if given != dtype.np:
            raise errors.invalid_argument(
                f"insert_many into {self}: component {component} is {given}, "
                f"the barrier holds {dtype.name}"
            )
        if keys.ndim != 1:
            raise errors.invalid_argument(
                f"insert_many into {self}: keys must be a vector, and have shape {list(keys.shape)}"
            )
        wanted = (len(keys), *shape)
        if values.shape != wanted:
            raise errors.invalid_argument(
                f"Shape mismatch in tuple component {component}. Expected {shape_rules.text(wanted)}, got "
                f"{shape_rules.text(values.shape)}: insert_many into {self}"
            )

    def take_many(
        self, count: int, allow_small_batch: bool = False, gives_rest: bool = False
    ) -> Pending[Taken]:
        """Remove `count` ready tuples, as soon as there are so many.

        allow_small_batch: a closed barrier gives what is left, if anything is.  gives_rest: what is incomplete waits
        for what whoever takes does, so a closed barrier never lets a take wait that could get something, or nothing.
        Rejected with: OutOfRange (closed with too few), InvalidArgument (count < 0).
        """
        if count < 0:
            return Pending.failed_with(
                errors.invalid_argument(f"take_many from {self} asks for {count} tuples, under 0")
            )
        waited = False

        def attempt() -> Any:
            nonlocal waited
            wanted, there = count, len(self._ready)
            if self._closed and gives_rest:
                wanted = min(count, max(there, 1)) if allow_small_batch else count
                left = there + len(self._incomplete) if allow_small_batch else there
                self._check_possible(count, left < wanted)
            elif self._closed and allow_small_batch and not (waited and self._incomplete):
                wanted = min(count, there)
                self._check_possible(count, there < 1)
            elif self._closed and not allow_small_batch:
                self._check_possible(count, there + len(self._incomplete) < max(count, 1))
            if there < wanted:
                waited = True
                return WAIT
            return self._taken(wanted)

        return self.wait_in(self._takes, f"take_many({count})", attempt)

    def _check_possible(self, count: int, too_few: bool) -> None:
        if too_few:
            raise errors.out_of_range(
                f"{self} is closed and has insufficient elements (requested {count}, "
                f"ready {len(self._ready)}, incomplete {len(self._incomplete)})"
            )

    def _taken(self, count: int) -> Taken:
        found = [heapq.heappop(self._ready) for _ in range(count)]
        indices = np.array([index for index, _, _, _ in found], np.int64)
        keys = np.empty(count, object)
        keys[:] = [name for _, _, name, _ in found]
        columns = []
        for number, (dtype, shape) in enumerate(
            zip(self.spec.types, self.spec.shapes, strict=True)
        ):
            column = np.empty((count, *shape), dtype.np)
            for at, (_, _, _, values) in enumerate(found):
                value = values[number]
                scalar = not shape and isinstance(value, np.ndarray)
                column[at] = value[()] if scalar else value
            columns.append(column)
        return (indices, keys, *columns)

    def close(self, cancel_pending_enqueues: bool = False) -> None:
        """Take no new keys; cancelling, drop the incomplete tuples and take nothing at all.

        Raises Cancelled (closed already, unless this cancels and the first close did not).
        """

        def action() -> None:
            if self._closed and (self._cancelled or not cancel_pending_enqueues):
                raise errors.cancelled(f"{self} is already closed")
            self._closed = True
            self._cancelled = cancel_pending_enqueues
            if cancel_pending_enqueues:
                self._incomplete.clear()

        self.change(action)

    def ready_size(self) -> int:
        """How many tuples are ready."""
        return len(self._ready)

    def incomplete_size(self) -> int:
        """How many tuples lack components."""
        return len(self._incomplete)

    def state(self) -> str:
        """As `WaitingResource.state`."""
        return (
            f"it has {len(self._ready)} ready and {len(self._incomplete)} incomplete tuples, "
            + ("closed" if self._closed else "open")
        )
