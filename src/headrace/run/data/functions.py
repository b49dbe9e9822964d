"""Functions of the graph, as stages call them: for an element, or for all elements of a chunk.

Called by: ops.data (datasets with functions), run.data.mapping and its kin.  Threads: whoever pulls the stage;
functions that may wait run in a callback thread, so that a step which gives up leaves no element half done.
"""

from __future__ import annotations

import itertools
import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from typing import Any, Final, TypeVar

import numpy as np

from headrace.base import dtypes, errors
from headrace.run import long_waits
from headrace.run.data.chunks import Chunk, Element, column_of
from headrace.run.data.stage import Blocked, Dataset, Iteration, Origin, Stage, typed
from headrace.run.exec.kernel import CallableFunction, Runtime, StepState
from headrace.run.exec.rendezvous import Rendezvous
from headrace.run.pending import Pending, WaitInfo
from headrace.run.scope import Scope

T = TypeVar("T")
_Several = tuple[list[Element], errors.OpError | None]

next_step_id = itertools.count(1 << 62).__next__  # beyond those of sessions


class Function:
    """A function and what it has captured, ready to be called.

    name: what people read.  steady: it depends on nothing but its arguments and what it has drawn before, and nobody
    else sees that it was called.  waits: it may wait, or run what is the user's.
    lets_others_run: see `CallableFunction`.
    """

    def __init__(
        self,
        function: CallableFunction,
        captured: Sequence[Any],
        runtime: Runtime,
        owner: str,
    ) -> None:
        """captured: the last arguments.  owner: see `StepState`."""
        self.name = function.name
        self.waits = function.waits
        self.lets_others_run = function.lets_others_run
        self.remembering = function.remembering
        self._function, self._captured = function, tuple(map(_kept, captured))
        self._runtime, self._owner = runtime, owner
        self._under_way: dict[StepState, None] = {}  # of calls that may wait
        self._gives_datasets = any(dtype is dtypes.variant for dtype, _ in function.outputs)
        self._together = (
            function.by_columns(len(function.inputs) - len(self._captured))
            if not self.waits
            else None
        )
        self.steady = not function.keeps or self._together is not None

    @property
    def by_columns(self) -> bool:
        """Whether it is cheap, and done for many elements at once."""
        return self._together is not None and not self._together.long

    @property
    def in_groups(self) -> bool:
        """Whether it takes long, and less for many elements at once."""
        return self._together is not None and self._together.long

    def anew(self, run: Iteration) -> Function:
        """One that remembers what calls in this pass have drawn, and nothing else."""
        function = run.remembering.get(self._function)
        if function is None:
            function = run.remembering[self._function] = self._function.anew()
        if function is self._function:
            return self
        return Function(function, self._captured, self._runtime, self._owner)

    def one(self, element: Element, scope: Scope, apart: bool = False) -> Element:
        """Of one element.  Raises OpError, which says of which function and element it is.  apart: see `StepState`."""
        step = StepState(
            self._runtime, scope, next_step_id(), Rendezvous(), owner=self._owner, apart=apart
        )
        arguments = [*element, *self._captured]
        if self.waits:
            self._under_way[step] = None
        try:
            if len(arguments) != len(self._function.inputs):
                raise self._of_other_arguments(len(arguments))
            found = tuple(self._function(arguments, step))
            if self._gives_datasets:
                self._note_origin(found, element)
            return found
        except Exception as error:
            raise _of_element(typed(error, self.name), self.name, element) from error
        finally:
            self._under_way.pop(step, None)

    def settle(self, element: Element, call: Pending[Element], scope: Scope) -> None:
        """As `one`; `call` gets what comes of it."""
        try:
            call.settle(self.one(element, scope))
        except errors.OpError as error:
            call.settle_error(error)

    def settle_all(
        self, calls: Sequence[tuple[Element, Pending[Element]]], scope: Scope, most: int
    ) -> int:
        """As `settle` for each, by this thread and the task's free ones, `most` in all; how many there were."""
        workers = self._runtime.workers
        threads = min(most, workers.size, len(calls))
        left = iter(calls)

        def some(_: int) -> None:
            for element, call in left:
                self.settle(element, call, scope)

        workers.parallel_for(some, range(threads))
        return threads

    def _note_origin(self, results: Element, element: Element) -> None:
        given = set(map(_dataset_in, element))
        for at, dataset in enumerate(map(_dataset_in, results)):
            if dataset is not None and dataset.origin is None and dataset not in given:
                dataset.origin = Origin(self.name, at, element)
                dataset.note_parts()

    def _of_other_arguments(self, given: int) -> errors.OpError:
        return errors.invalid_argument(
            f"function {self.name} takes {len(self._function.inputs)} arguments and was given {given}: an element's "
            "components, and what it has captured"
        )

    def apart(self, call: Callable[[], T]) -> Pending[T]:
        """What `call` gives or raises (OpError), in a callback thread; it calls the function."""
        return self._runtime.workers.callbacks.call(call, self.name, self.running())

    def running(self) -> WaitInfo:
        """What people read of who waits for a call."""
        return WaitInfo("call", f"function {self.name}", self._doing)

    def _doing(self) -> str:
        """What a call waits for, as far as that is known."""
        for each in list(long_waits.waiting):
            if each.step in self._under_way:
                for node, pending in each.waits():
                    info = pending.wait_info
                    if info is not None and not pending.done:
                        return f"it waits in {node.name!r}: {info.kind} on {info.on}"
        return "it is running"

    def many(self, chunk: Chunk, shared: bool = False) -> Chunk | None:
        """Of all elements of a chunk; None: one by one, since one of them fails or their shapes are no columns.

        shared: kernels may use the task's threads, as in a step.
        """
        if self._together is None or chunk.count == 1:
            return None
        try:
            with self._runtime.workers if shared else nullcontext():
                columns = self._together([*chunk.columns, *self._captured], chunk.count)
        except Exception:  # whatever it was: who goes one by one will see it
            return None
        made = [_uniform(column) for column in columns]
        fresh = self.in_groups and _is_own(made, [*chunk.columns, *self._captured])
        return Chunk(made, chunk.count, fresh)


def _dataset_in(value: Any) -> Dataset | None:
    held = value.item() if isinstance(value, np.ndarray) and not value.ndim else value
    return held if isinstance(held, Dataset) else None


def _of_element(error: errors.OpError, name: str, element: Element) -> errors.OpError:
    """The same, with the function and the element in its message."""
    if isinstance(error, errors.OutOfRangeError):  # as a rule the end, and no failure
        return error
    found = errors.copied(error)
    values = ", ".join(map(_shown, element))
    found.message = f"{error.message}\n  in function {name} of a dataset, for ({values})"
    return found


def _shown(value: Any) -> str:
    """A scalar itself, and of others what they are."""
    array = np.asarray(value)
    if array.ndim:
        kind = "string" if array.dtype == object else array.dtype.name
        return f"{kind} of shape {list(array.shape)}"
    plain = array.item()
    return f"{plain!r:.40}" if isinstance(plain, (bool, int, float, complex, bytes)) else "…"


def _kept(value: Any) -> Any:
    """A value as nobody else can change it."""
    return value.copy() if isinstance(value, np.ndarray) else value


def _is_own(made: Sequence[Any], given: Sequence[Any]) -> bool:
    """Whether what was made of `given` are arrays that share memory with nothing."""
    if not all(isinstance(each, np.ndarray) and each.flags.writeable for each in made):
        return False
    others = [each for each in given if isinstance(each, np.ndarray)]
    return not any(
        np.may_share_memory(each, other)
        for at, each in enumerate(made)
        for other in (*made[:at], *others)
    )


def _uniform(column: Any) -> Any:
    return column_of(column) if isinstance(column, list) else column


class Groups:
    """How many elements at once a function gets that takes long (`Function.in_groups`), by what they took."""

    MOST: Final = 64
    MOST_S: Final = 1e-2
    QUICK_S: Final = 1e-3
    VAIN: Final = 4
    """Groups in a row that could not be made; then there are no more."""

    def __init__(self, function: Function, shared: bool = False) -> None:
        """shared: see `Function.many`."""
        self._function, self._shared = function, shared
        self._left = self.VAIN if function.in_groups else 0
        self.size = 1
        self._slow = 0

    @property
    def on(self) -> bool:
        """Whether there are any."""
        return self._left > 0

    @property
    def quick(self) -> bool:
        """Whether an element of late has not taken long; the first ones may have imported what they need."""
        return self._slow < self.VAIN

    def some_of(self, most: int) -> int:
        """How many of `most` elements to take first: a few large groups and a small one take longer than equal ones."""
        return -(-most // -(-most // self.size))

    def many(self, chunk: Chunk) -> Chunk | None:
        """See `Function.many`."""
        began_s = time.thread_time()
        found = self._function.many(chunk, self._shared)
        each_s = (time.thread_time() - began_s) / chunk.count
        self._slow = self._slow + 1 if each_s > self.QUICK_S else 0
        fits = int(self.MOST_S / max(each_s, 1e-9))
        self.size = max(1, min(self.MOST, 2 * self.size, fits))
        if found is not None:
            self._left = self.VAIN
        elif chunk.count > 1:
            self._left -= 1
        return found


class Calling:
    """Calls of one stage, one after the other; each is for one element until it was taken."""

    def __init__(self, run: Iteration, function: Function) -> None:
        self._run, self._function = run, function
        _note(run, function)
        self._under_way: Pending[Element] | None = None

    def __call__(self, element: Element) -> Element:
        """What the function gives.  Raises OpError, and Blocked while it waits: then call again with the same."""
        if not self._function.waits or self._run.threads is None:
            return self._function.one(element, self._run.scope)
        call = self._under_way
        if call is None:
            call = self._under_way = self._function.apart(
                lambda: self._function.one(element, self._run.scope, True)
            )
        if not call.done:
            raise Blocked(call)
        self._under_way = None
        return call.result()


class Repeating:
    """Calls of one stage with the same arguments, again and again."""

    def __init__(self, run: Iteration, function: Function) -> None:
        self._run, self._function = run, function
        _note(run, function)
        self._under_way: Pending[_Several] | None = None
        self._rest: list[Element] = []  # more than was asked for the last time
        self._failed: errors.OpError | None = None  # behind all those

    def __call__(self, arguments: Element, most: int) -> list[Element]:
        """What 1 to `most` calls give.  Raises OpError when all before it were given, and Blocked while a call waits:
        then call again with the same.
        """
        if not self._rest:
            failed, self._failed = self._failed, None
            if failed is not None:
                raise failed
            self._rest, self._failed = self._called(arguments, most)
        found, self._rest = self._rest[:most], self._rest[most:]
        return found

    def _called(self, arguments: Element, most: int) -> _Several:
        if not self._function.waits or self._run.threads is None:
            return self._several(arguments, most)
        call = self._under_way
        if call is None:
            call = self._under_way = self._function.apart(
                lambda: self._several(arguments, most, True)
            )
        if not call.done:
            raise Blocked(call)
        self._under_way = None
        return call.result()

    def _several(self, arguments: Element, most: int, apart: bool = False) -> _Several:
        """At least one, less than `most` if one fails or the iteration ends; and the failure.  Raises the first's."""
        one, scope = self._function.one, self._run.scope
        found = [one(arguments, scope, apart)]
        while len(found) < most and scope.error is None:
            try:
                found.append(one(arguments, scope, apart))
            except errors.OpError as error:
                return found, errors.detached(error)
        return found, None


class SideBySide:
    """So many calls at once, the next when one has ended, in threads that end when there is nothing left to do."""

    def __init__(self, run: Iteration, function: Function, calls: int) -> None:
        self._run, self._function, self._calls = run, function, calls
        _note(run, function)
        self._lock = threading.Lock()
        self._left: deque[tuple[Element, Pending[Element]]] = deque()
        self._threads = 0

    def begin(self, element: Element) -> Pending[Element]:
        """A call in its turn: in a thread of the iterator's, or, of a function that may wait, in a callback thread."""
        call: Pending[Element] = Pending(self._function.running())
        with self._lock:
            self._left.append((element, call))
            if self._threads == self._calls:
                return call
            self._threads += 1
        try:
            if self._function.waits or self._run.threads is None:
                self._function.apart(lambda: self._work(True))
            else:
                self._run.threads.start(self._work, False, name=self._function.name)
        except BaseException:  # no more threads are to be had, or the iterator has ended
            with self._lock:
                self._threads -= 1
                self._left = deque(each for each in self._left if each[1] is not call)
            raise
        return call

    def forget(self) -> None:
        """Begin no more of those that have not begun."""
        with self._lock:
            self._left.clear()

    def _work(self, apart: bool) -> None:
        while True:
            with self._lock:
                if not self._left:
                    self._threads -= 1
                    return
                element, call = self._left.popleft()
            try:
                found = self._function.one(element, self._run.scope, apart)
            except errors.OpError as error:
                call.reject(error)
            else:
                call.resolve(found)


def _note(run: Iteration, function: Function) -> None:
    run.functions[function.name] = function
    for kind in function.remembering:
        run.stateful.add(f"{kind} in {function.name}")


END: Final = "Function invocation produced OutOfRangeError"


def no_end(stage: Stage, error: errors.OpError) -> errors.OpError:
    """For an end of a function that cannot be that of its dataset."""
    return errors.internal(
        f'Iterator "{stage.label}" returned `OutOfRange`. This indicates an implementation error as `OutOfRange` '
        f"errors are not expected to be returned here. Original message: {error.message}. Only functions of map and "
        "scan may end their dataset so"
    )


class PerElement(Stage):
    """A stage that calls a function with each element.  The base of most."""

    def __init__(self, run: Iteration, source: Stage, function: Function) -> None:
        super().__init__(run, source)
        self._function = function.anew(run)
        self._call = Calling(run, self._function)
        self._rest: Chunk | None = None  # elements that were taken, and not done
        self._failure: errors.OpError | None = None  # of the first of them, which was tried
        self.steady = function.steady
        self._ended = False
        self._groups = Groups(self._function)

    def _taken(self, most: int) -> Chunk | None:
        """Elements to be done: at least one."""
        if self._failure is not None:
            most = 1
        if self._groups.on:
            most = self._groups.some_of(most)
        rest = self._rest
        if rest is None:
            rest = self.inputs[0].pull(most if self.steady and not self._function.waits else 1)
        if rest is None or rest.count <= most:
            self._rest = rest
            return rest
        self._rest = rest
        return rest.part(0, most)

    def _together(self, chunk: Chunk) -> Chunk | None:
        """See `Function.many`."""
        if self._groups.on:
            return self._groups.many(chunk)
        return None if self._function.in_groups else self._function.many(chunk)

    def _done(self, count: int) -> None:
        """The first `count` of them are."""
        rest = self._rest
        assert rest is not None
        self._rest = rest.part(count, rest.count) if count < rest.count else None

    def _one_by_one(self, chunk: Chunk, use: Callable[[int, Element], bool]) -> None:
        """Call for each, until one fails or waits; `use` takes place and result, and says whether to go on.

        The failure is raised only if it is the first, and then that element is done.
        """
        for at in range(chunk.count):
            try:
                failure, self._failure = self._failure, None
                if failure is not None:
                    raise errors.copied(failure)
                result = self._call(chunk.element(at))
            except Blocked:
                if at:
                    self._done(at)
                    return
                raise
            except errors.OpError as error:
                self._done(at or 1)
                if at:  # whose turn comes next
                    self._failure = errors.detached(error)
                    return
                if not isinstance(error, errors.OutOfRangeError):
                    raise
                self._ends(error)
                return
            if not use(at, result):
                self._done(at + 1)
                return
        self._done(chunk.count)

    def _ends(self, error: errors.OpError) -> None:
        """The function has come to an end, and with it the dataset; or it must not."""
        self._ended = True

    def save(self) -> Any:
        """What was taken and not done."""
        return [self._rest, int(self._ended)]

    def restore(self, position: Any) -> None:
        """See `save`."""
        self._rest, self._ended, self._failure = position[0], bool(position[1]), None
