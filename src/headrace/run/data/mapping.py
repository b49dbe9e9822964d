"""Stages that apply a function to each element: map, filter, scan, take while.

Called by: ops.data.dataset_functions.  Threads: as run.data.stage.
Source: TF 1.15 core/kernels/data/{map,parallel_map,filter}_dataset_op.cc and
experimental/{scan,take_while}_dataset_op.cc, for behaviour
"""

from __future__ import annotations

import math
import time
from collections import deque
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, Final

import numpy as np

from headrace.base import errors
from headrace.run.data.chunks import Chunk, Element, joined
from headrace.run.data.functions import END, Function, Groups, PerElement, SideBySide, no_end
from headrace.run.data.positions import failure_of, failure_tree
from headrace.run.data.stage import Blocked, Iteration, Position, Stage
from headrace.run.pending import Pending

_QUICK_S: Final = 3e-4
_SHARED_S: Final = 1e-4
_CALLS_OF_MEAN: Final = 16


class Map(PerElement):
    """What the function gives for each element.

    keeps_count: an OutOfRange of the function is a mistake; else it ends the dataset.
    """

    def __init__(
        self, run: Iteration, source: Stage, function: Function, keeps_count: bool = False
    ) -> None:
        super().__init__(run, source, function)
        self._keeps_count = keeps_count

    def pull(self, most: int) -> Chunk | None:
        """See `Stage`."""
        if self._ended:
            return None
        chunk = self._taken(most)
        if chunk is None:
            return None
        together = self._together(chunk)
        if together is not None:
            self._done(chunk.count)
            return together
        made: list[Element] = []

        def use(at: int, result: Element) -> bool:
            made.append(result)
            return True

        self._one_by_one(chunk, use)
        return Chunk.of(made, True) if made else None

    def _ends(self, error: errors.OpError) -> None:
        if self._keeps_count:
            raise errors.invalid_argument(f"{END}: {error.message}") from error
        super()._ends(error)


class Computed(Stage):
    """What an op of the dataset's own makes of each element, one at a time: elements are batches."""

    def __init__(
        self, run: Iteration, source: Stage, compute: Callable[..., Sequence[Any]]
    ) -> None:
        """compute: of an element's components, those of the new one.  Raises OpError."""
        super().__init__(run, source)
        self._compute = compute

    def pull(self, most: int) -> Chunk | None:
        """See `Stage`."""
        chunk = self.inputs[0].pull(1)
        return None if chunk is None else Chunk.of([tuple(self._compute(*chunk.element(0)))], True)


class Filter(PerElement):
    """The elements of which the function is true."""

    def pull(self, most: int) -> Chunk | None:
        """See `Stage`."""
        while not self._ended:
            chunk = self._taken(most)
            if chunk is None:
                return None
            wanted: list[int] = []
            together = self._together(chunk)
            if together is not None:
                column = np.asarray(together.columns[0])
                if column.ndim != 1:
                    raise self._no_truth()
                wanted = np.flatnonzero(column).tolist()
                self._done(chunk.count)
            else:
                self._one_by_one(chunk, partial(self._noted, wanted))
            if wanted:
                return chunk if len(wanted) == chunk.count else chunk.at(np.array(wanted))
            self.run.check()
        return None

    def _ends(self, error: errors.OpError) -> None:
        raise no_end(self, error) from error

    def _noted(self, wanted: list[int], at: int, result: Element) -> bool:
        (truth,) = result
        if np.ndim(truth):
            raise self._no_truth()
        if truth:
            wanted.append(at)
        return True

    def _no_truth(self) -> errors.OpError:
        return errors.invalid_argument(
            "Filter predicate `f` must return a scalar bool: one truth for each element"
        )


class TakeWhile(PerElement):
    """The elements before the first of which the function is false."""

    def pull(self, most: int) -> Chunk | None:
        """See `Stage`."""
        if self._ended:
            return None
        chunk = self._taken(1)
        if chunk is None:
            return None
        wanted = False

        def use(at: int, result: Element) -> bool:
            nonlocal wanted
            wanted = bool(result[0])
            return True

        self._one_by_one(chunk, use)
        if not wanted:
            self._ended = True
        return chunk if wanted else None


class Scan(PerElement):
    """The function of a state and each element, which gives the next state and an element.

    state: what it begins with.
    """

    def __init__(
        self,
        run: Iteration,
        source: Stage,
        function: Function,
        state: Element,
        keeps_count: bool = False,
    ) -> None:
        super().__init__(run, source, function)
        self._state = state
        self._keeps_count = keeps_count

    def pull(self, most: int) -> Chunk | None:
        """See `Stage`."""
        if self._ended:
            return None
        chunk = self._taken(1)
        if chunk is None:
            return None
        made: list[Element] = []
        width = len(self._state)

        def use(at: int, result: Element) -> bool:
            self._state = result[:width]
            made.append(result[width:])
            return True

        state = self._state
        inner = self._call
        self._call = lambda element: inner((*state, *element))  # type: ignore[assignment]
        try:
            self._one_by_one(chunk, use)
        finally:
            self._call = inner
        return Chunk.of(made, True) if made else None

    def _ends(self, error: errors.OpError) -> None:
        if self._keeps_count:
            raise errors.invalid_argument(f"{END}: {error.message}") from error
        super()._ends(error)

    def save(self) -> Position:
        """The state, and what was taken."""
        return [super().save(), list(self._state)]

    def restore(self, position: Position) -> None:
        """See `save`."""
        super().restore(position[0])
        self._state = tuple(position[1])


class ParallelMap(Stage):
    """As `Map`, of a function that takes long: so many calls are under way at once, in threads, in order.

    calls: how many.  One that takes less than `_QUICK_S` is called by whoever pulls: threads would take the
    interpreter's lock from each other more often than they go on (64 x 64 PNGs of 0.26 ms take 0.46 in two).  If it
    takes `_SHARED_S`, and others have the interpreter meanwhile, the task's threads share what is wanted at once.
    One that is made for many elements at once is so made where an element takes less than `Groups.QUICK_S`.
    """

    def __init__(
        self,
        run: Iteration,
        source: Stage,
        function: Function,
        calls: int,
        keeps_count: bool = False,
        in_order: bool = True,
    ) -> None:
        super().__init__(run, source)
        self._function = function.anew(run)
        self._calls = self._most = max(1, calls)
        self._groups = Groups(self._function, calls > 1)
        self._begin = SideBySide(run, self._function, self._calls)
        self._keeps_count = keeps_count
        self._in_order = in_order
        self._under_way: deque[tuple[Element, Pending[Element]]] = deque()
        self._again: deque[Element] = deque()  # taken before the position was restored
        self._ended = False
        self._failure: errors.OpError | None = None  # of the source, behind what is under way
        self._called = 0
        self._took_s = math.inf if function.waits else 0.0  # the mean of late
        self.steady = False

    def pull(self, most: int) -> Chunk | None:
        """See `Stage`."""
        grouped = most > 1 and self._groups.on and self._groups.quick
        together = self._made_together(most) if grouped else None
        if together is not None:
            return together
        if not (grouped and self._under_way):  # no more one by one, so that groups can begin
            self._begin_calls(most)
        made: list[Element] = []
        while self._under_way and len(made) < most:
            number = self._first_done()
            if number is None:
                break
            call = self._under_way[number][1]
            if call.error is not None and made:
                break
            del self._under_way[number]
            try:
                made.append(call.result())
            except errors.OutOfRangeError as error:
                if self._keeps_count:
                    raise errors.invalid_argument(f"{END}: {error.message}") from error
                self._ended, self._failure = True, None
                self._begin.forget()
                self._under_way.clear()
                self._again.clear()
                return None
        if made:
            return Chunk.of(made, True)
        if self._under_way:
            raise Blocked(self._any_done())
        failure, self._failure = self._failure, None
        if failure is not None:
            raise errors.copied(failure)
        return None

    def _made_together(self, most: int) -> Chunk | None:
        """The results for the next elements; None where calls are to be looked at one by one.

        The calls of what was taken are under way then.
        """
        groups = self._groups
        chunk = None if self._under_way or self._again else self._several(groups.some_of(most))
        if chunk is None:
            return None
        elements = [chunk.element(at) for at in range(chunk.count)]
        try:
            found = groups.many(chunk)
            if found is None:
                calls = [(element, Pending[Element]()) for element in elements]
                self._function.settle_all(calls, self.run.scope, self._calls)
                self._under_way.extend(calls)
        except BaseException:
            self._again.extend(elements)
            raise
        return found

    def _several(self, most: int) -> Chunk | None:
        """Elements of the source, `most` if it has so many now; None if it has none."""
        held: list[Chunk] = []
        count = 0
        try:
            while count < most:
                chunk = self._pulled(most - count, bool(held))
                if chunk is None:
                    break
                held.append(chunk)
                count += chunk.count
        except BaseException:
            self._again.extend(c.element(at) for c in held for at in range(c.count))
            raise
        return joined(held) if held else None

    def _begin_calls(self, most: int) -> None:
        """As many as run at once, and as are wanted."""
        self._most = most if self._quick else max(self._calls, most)
        if self._is_shared:
            self._call_together()
            return
        while len(self._under_way) < self._most:
            element = self._again.popleft() if self._again else self._next()
            if element is None:
                return
            call = self._called_here(element) if self._quick else self._begin.begin(element)
            self._under_way.append((element, call))

    @property
    def _is_shared(self) -> bool:
        shares = self._function.lets_others_run and self._calls > 1
        return shares and self._quick and self._took_s > _SHARED_S

    def _call_together(self) -> None:
        """As many as are wanted, side by side; they are done."""
        calls: list[tuple[Element, Pending[Element]]] = []
        try:
            while len(self._under_way) + len(calls) < self._most:
                element = self._again.popleft() if self._again else self._next()
                if element is None:
                    break
                calls.append((element, Pending()))
        except Blocked:
            if not calls:
                raise
        began_s = time.perf_counter()
        try:
            threads = self._function.settle_all(calls, self.run.scope, self._calls)
        except BaseException:
            self._again.extendleft(element for element, _ in reversed(calls))
            raise
        self._under_way.extend(calls)
        if calls:
            self._note((time.perf_counter() - began_s) * threads / len(calls), len(calls))

    @property
    def _quick(self) -> bool:
        return self._took_s < _QUICK_S

    def _called_here(self, element: Element) -> Pending[Element]:
        """A call that is done."""
        began_s = time.perf_counter()
        call: Pending[Element] = Pending()
        self._function.settle(element, call, self.run.scope)
        self._note(time.perf_counter() - began_s)
        return call

    def _note(self, took_s: float, calls: int = 1) -> None:
        """So long took a call of late."""
        self._called += calls
        if self._called > 1:  # the first one plans the function
            share = min(1.0, max(calls / _CALLS_OF_MEAN, calls / (self._called - 1)))
            self._took_s += (took_s - self._took_s) * share

    def _next(self) -> Element | None:
        """The next element of the source; None if there is none, or none now."""
        chunk = self._pulled(1, bool(self._under_way))
        return None if chunk is None else chunk.element(0)

    def _pulled(self, most: int, held: bool) -> Chunk | None:
        """Elements of the source; None if there are none, or, for who has `held` some, none now."""
        if self._ended or self._failure is not None:
            return None
        try:
            chunk = self.inputs[0].pull(most)
        except errors.OpError as error:
            self._failure = errors.detached(error)
            return None
        except Blocked:
            if held:
                return None
            raise
        if chunk is None:
            self._ended = True
        return chunk

    def _first_done(self) -> int | None:
        for number, (_, call) in enumerate(self._under_way):
            if call.done:
                return number
            if self._in_order:
                return None
        return None

    def _any_done(self) -> Pending[Any]:
        if self._in_order or len(self._under_way) == 1:
            return self._under_way[0][1]
        either: Pending[None] = Pending(self._under_way[0][1].wait_info)

        def first(_: Any) -> None:
            if either.settle(None):
                either.announce()

        for _, call in self._under_way:
            call.on_done(first)
        return either

    def buffered(self) -> tuple[int, int] | None:
        """Calls that are under way or done."""
        return len(self._under_way), 0

    def limit(self) -> int | None:
        """See `Stage`."""
        return self._most

    def save(self) -> Position:
        """The elements whose results nobody has taken, and what the source failed with behind them."""
        elements = [*[element for element, _ in self._under_way], *self._again]
        return [
            Chunk.of(elements) if elements else None,
            int(self._ended),
            failure_tree(self._failure),
        ]

    def restore(self, position: Position) -> None:
        """See `save`; their calls are made again."""
        chunk, ended, failure = position
        self._again = deque([] if chunk is None else chunk.elements())
        self._ended = bool(ended)
        self._failure = failure_of(failure)
