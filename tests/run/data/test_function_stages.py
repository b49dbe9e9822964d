"""Stages that call functions give what plain Python gives: elements that fail, functions that wait, positions."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from itertools import count
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.base import dtypes, errors
from headrace.run.data.batching import BatchOfMapped
from headrace.run.data.chunks import Chunk, Element
from headrace.run.data.functions import Function, SideBySide
from headrace.run.data.grouping import Generated, GroupByReducer, GroupByWindow
from headrace.run.data.iterator import DataIterator
from headrace.run.data.mapping import Filter, Map, ParallelMap, Scan, TakeWhile
from headrace.run.data.nesting import FlatMap, Interleave
from headrace.run.data.positions import decoded, encoded, restore_position, saved_position
from headrace.run.data.stage import Blocked, Dataset, Iteration, Made, Stage
from headrace.run.exec.callback_threads import CallbackThreads
from headrace.run.exec.worker_pool import WorkerPool
from headrace.run.pending import Pending
from headrace.run.scope import Scope
from tests.run.data.stage_numbers import (
    FAILS,
    Whole,
    cycled,
    drained,
    numbers,
    ones,
    over,
    plain,
    some_sizes,
    some_values,
    wait_for,
)

THREADS = CallbackThreads()
THREADS.close()  # none of them waits for another call
ALONE = WorkerPool(1)

BAD = 3
"""A number that functions fail with."""

END = 6
"""A number that ends what `map` gives."""


class Python(Function):
    """A function of numbers, in Python."""

    def __init__(self, call: Callable[..., Any], kind: str = "steady") -> None:
        """kind: "steady", "columns" (of many elements at once), "groups" (the same, and takes long), "keeps",
        "waits" or "lets others run".
        """
        self.name = "python"
        self.remembering = {"Draw"} if kind == "keeps" else set()
        self.steady, self.waits = kind in ("steady", "columns", "groups"), kind == "waits"
        self._call, self._columns = call, kind == "columns"
        self._groups, self._groups_fail = kind == "groups", False
        self._runtime: Any = SimpleNamespace(workers=ALONE)
        self.lets_others_run = kind == "lets others run"

    @property
    def by_columns(self) -> bool:
        return self._columns

    @property
    def in_groups(self) -> bool:
        return self._groups

    def anew(self, run: Iteration) -> Function:
        return self

    def apart(self, call: Callable[[], Any]) -> Pending[Any]:
        return THREADS.call(call, self.name)

    def one(self, element: Element, scope: Scope, apart: bool = False) -> Element:
        scope.check()
        found = self._call(*[each if isinstance(each, Dataset) else int(each) for each in element])
        return tuple(map(number, found if isinstance(found, tuple) else (found,)))

    def many(self, chunk: Chunk, shared: bool = False) -> Chunk | None:
        if not (self._columns or self._groups) or chunk.count == 1 or self._groups_fail:
            return None
        try:
            return Chunk.of([self.one(each, Scope()) for each in chunk.elements()])
        except errors.OpError:
            return None


def number(value: Any) -> Any:
    return value if isinstance(value, (Dataset, bool)) else np.int64(value)


def good(value: int) -> int:
    if value == BAD:
        raise errors.invalid_argument("the function fails")
    return value


def doubled(value: int) -> int:
    if value == END:
        raise errors.out_of_range("the function ends")
    return good(value) * 2


def below(value: int) -> Dataset:
    return numbers([10 * value + each for each in range(good(value))])


class Threads:
    """As those of an iterator."""

    def start(self, target: Callable[..., object], *args: Any, name: str = "") -> Any:
        thread = threading.Thread(target=target, args=args, name=name)
        thread.start()
        return thread


def run_of(kind: str) -> Iteration:
    return Iteration(threads=Threads() if kind == "waits" else None)


def window(run: Iteration, source: Stage, n: int, kind: str) -> Stage:
    return GroupByWindow(
        run,
        source,
        [dtypes.int64],
        [()],
        Python(lambda v: good(v) % 3 - 1, kind),
        Python(lambda key: n + 1, kind),
        Python(lambda key, elements: marked(key, elements), kind),
        lambda held: held,
        lambda held: held,
    )


def marked(key: int, elements: Dataset) -> Dataset:
    return over(elements, lambda run, s: Map(run, s, Python(lambda v: (key, v))))


def reducer(run: Iteration, source: Stage, kind: str) -> Stage:
    calls = (
        lambda v: good(v) % 3 - 1,
        lambda key: 10 * key,
        lambda state, v: state + v,
        lambda state: -good(state),
    )
    return GroupByReducer(run, source, *[Python(call, kind) for call in calls])


MAKE: dict[str, Callable[[Iteration, Stage, int, str], Stage]] = {
    "map": lambda run, s, n, kind: Map(run, s, Python(doubled, kind)),
    "filter": lambda run, s, n, kind: Filter(run, s, Python(lambda v: good(v) % 2 == 0, kind)),
    "take while": lambda run, s, n, kind: TakeWhile(
        run, s, Python(lambda v: good(v) < n + 2, kind)
    ),
    "scan": lambda run, s, n, kind: Scan(
        run, s, Python(lambda state, v: (state + good(v), state), kind), (np.int64(n),)
    ),
    "flat map": lambda run, s, n, kind: FlatMap(run, s, Python(below, kind), lambda held: held),
    "interleave": lambda run, s, n, kind: Interleave(
        run, s, Python(below, kind), lambda held: held, n + 1, 2
    ),
    "windows": window,
    "reductions": lambda run, s, n, kind: reducer(run, s, kind),
}


def dataset(name: str, values: list[int], n: int, kind: str) -> Dataset:
    return over(numbers(values), lambda run, s: MAKE[name](run, s, n, kind))


def mapped(values: list[int], n: int) -> Iterator[Any]:
    for v in values:
        if v == END:
            return
        yield "fails" if v in (BAD, FAILS) else v * 2


def interleaved(values: list[int], n: int) -> Iterator[Any]:
    source, at, given = iter(values), 0, 0
    places: list[list[int] | None] = [None] * (n + 1)
    ended = False
    while not ended or any(each is not None for each in places):
        found = places[at]
        if found is None and not ended:
            v = next(source, None)
            if v is None:
                ended = True
            elif v in (BAD, FAILS):
                yield "fails"
            else:
                places[at] = [10 * v + each for each in range(v)]
            continue
        if found:
            yield found.pop(0)
            given += 1
            if given < 2:
                continue
        else:
            places[at] = None
        at, given = (at + 1) % (n + 1), 0


def windows(values: list[int], n: int) -> Iterator[Any]:
    groups: dict[int, list[int]] = {}
    for v in values:
        if v in (BAD, FAILS):
            yield "fails"
            continue
        group = groups.setdefault(v % 3 - 1, [])
        group.append(v)
        if len(group) == n + 1:
            yield from ((v % 3 - 1, each) for each in groups.pop(v % 3 - 1))
    for key in sorted(groups):
        yield from ((key, each) for each in groups[key])


def scanned(values: list[int], n: int) -> Iterator[Any]:
    for v in values:
        if v in (BAD, FAILS):
            yield "fails"
        else:
            yield n
            n += v


def taken_while(values: list[int], n: int) -> Iterator[Any]:
    for v in values:
        if v in (BAD, FAILS):
            yield "fails"
        elif v < n + 2:
            yield v
        else:
            return


def reductions(values: list[int], n: int) -> Iterator[Any]:
    states: dict[int, int] = {}
    for v in values:
        if v in (BAD, FAILS):
            yield "fails"
        else:
            key = v % 3 - 1
            states[key] = states.get(key, 10 * key) + v
    for _, state in sorted(states.items()):
        yield "fails" if state == BAD else -state


def each_or_failure(values: list[int], found: Callable[[int], list[int]]) -> Iterator[Any]:
    for v in values:
        yield from ["fails"] if v in (BAD, FAILS) else found(v)


MODELS: dict[str, Callable[[list[int], int], Iterator[Any]]] = {
    "map": mapped,
    "filter": lambda values, n: each_or_failure(values, lambda v: [v] * (v % 2 == 0)),
    "take while": taken_while,
    "scan": scanned,
    "flat map": lambda values, n: each_or_failure(
        values, lambda v: [10 * v + each for each in range(v)]
    ),
    "interleave": interleaved,
    "windows": windows,
    "reductions": reductions,
}
KINDS = ["steady", "columns", "groups", "keeps", "waits"]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", MAKE)
@given(values=some_values, n=st.integers(0, 4), sizes=some_sizes)
def test_elements_are_those_of_plain_python(
    name: str, kind: str, values: list[int], n: int, sizes: list[int]
) -> None:
    stage = dataset(name, values, n, kind).stage(run_of(kind))
    assert drained(stage, cycled(sizes)) == [*MODELS[name](values, n)]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", MAKE)
@given(values=some_values, n=st.integers(0, 4), sizes=some_sizes, taken=st.integers(0, 9))
def test_a_saved_position_goes_on_where_it_was(
    name: str, kind: str, values: list[int], n: int, sizes: list[int], taken: int
) -> None:
    made = dataset(name, values, n, kind)
    before, stage = drained_until(made.stage(run_of(kind)), cycled(sizes), taken)
    position = decoded(encoded(saved_position(stage)))
    other = dataset(name, values, n, kind).stage(run_of(kind))
    restore_position(other, position)
    assert before + drained(other, ones()) == [*MODELS[name](values, n)]
    assert before + drained(stage, ones()) == [*MODELS[name](values, n)], "saving changes nothing"


def drained_until(stage: Stage, most: Iterator[int], taken: int) -> tuple[list[Any], Stage]:
    found: list[Any] = []
    while len(found) < taken:
        more = drained(stage, most, 1)
        if not more:
            break
        found += more
    return found, stage


# -- several calls at a time ----------------------------------------------------------------------


def parallel(values: list[int], calls: int, in_order: bool = True, kind: str = "waits") -> Dataset:
    function = Python(doubled, kind)
    return over(
        numbers(values), lambda run, s: ParallelMap(run, s, function, calls, in_order=in_order)
    )


@pytest.mark.parametrize("kind", ["waits", "groups"])
@given(values=some_values, calls=st.integers(1, 5), sizes=some_sizes)
def test_calls_side_by_side_give_what_map_gives(
    kind: str, values: list[int], calls: int, sizes: list[int]
) -> None:
    found = drained(parallel(values, calls, kind=kind).stage(run_of(kind)), cycled(sizes))
    assert found == [*mapped(values, 0)]
    without_ends = [v for v in values if v != END]
    unordered = parallel(without_ends, calls, False, kind).stage(run_of(kind))
    assert sorted(map(str, drained(unordered, cycled(sizes)))) == sorted(
        map(str, mapped(without_ends, 0))
    )


@pytest.mark.parametrize("kind", ["waits", "groups"])
@given(values=some_values, calls=st.integers(1, 5), sizes=some_sizes, taken=st.integers(0, 9))
def test_elements_whose_calls_were_under_way_come_after_the_position(
    kind: str, values: list[int], calls: int, sizes: list[int], taken: int
) -> None:
    def made() -> Stage:
        return parallel(values, calls, kind=kind).stage(run_of(kind))

    before, stage = drained_until(made(), cycled(sizes), taken)
    other = made()
    restore_position(other, decoded(encoded(saved_position(stage))))
    for each in (stage, other):
        assert before + drained(each, ones()) == [*mapped(values, 0)]


def test_as_many_calls_are_under_way_as_are_asked_for() -> None:
    begun, go = threading.Semaphore(0), threading.Event()

    def slow(value: int) -> int:
        begun.release()
        go.wait(60)
        return value

    stage = over(
        numbers([*range(6)]), lambda run, s: ParallelMap(run, s, Python(slow, "waits"), 4)
    ).stage(run_of("waits"))
    threading.Timer(0.2, go.set).start()
    first = drained(stage, ones(), 1)
    assert first == [0]
    assert all(begun.acquire(timeout=60) for _ in range(4))
    assert stage.limit() == 4
    assert drained(stage, ones()) == [1, 2, 3, 4, 5]


@given(values=some_values, size=st.integers(1, 4), sizes=some_sizes, taken=st.integers(0, 5))
def test_a_failure_takes_all_of_its_batch_along(
    values: list[int], size: int, sizes: list[int], taken: int
) -> None:
    def stage() -> Stage:
        return over(numbers(values), lambda run, s: BatchOfMapped(run, s, size, False)).stage(
            Iteration()
        )

    batches = [values[at : at + size] for at in range(0, len(values), size)]
    expected = ["fails" if FAILS in batch else batch for batch in batches]
    assert drained(stage(), cycled(sizes)) == expected
    before, first = drained_until(stage(), ones(), taken)
    second = stage()
    restore_position(second, decoded(encoded(saved_position(first))))
    assert before + drained(second, cycled(sizes)) == expected


@pytest.mark.parametrize("name", ["map", "parallel map", "scan"])
def test_an_end_where_the_count_is_to_be_kept_is_an_error_of_its_element(name: str) -> None:
    function = Python(lambda *v: (*v[:-1], doubled(v[-1])), "waits")

    def make(run: Iteration, source: Stage) -> Stage:
        if name == "map":
            return Map(run, source, function, True)
        if name == "scan":
            return Scan(run, source, function, (np.int64(0),), True)
        return ParallelMap(run, source, function, 2, True)

    found = drained(over(numbers([1, END, 2]), make).stage(run_of("waits")), ones())
    assert found == [2, "fails", 4]


# -- functions that wait, in iterators ----------------------------------------------------------------


class Door:
    """A function that lets numbers through one by one."""

    def __init__(self) -> None:
        self.keys = threading.Semaphore(0)
        self.knocks = threading.Semaphore(0)

    def __call__(self, value: int) -> int:
        self.knocks.release()
        assert self.keys.acquire(timeout=60)
        return good(value)


@pytest.fixture
def door() -> Iterator[tuple[Door, DataIterator]]:
    made, iterator = Door(), DataIterator("it")
    function = Python(made, "waits")
    iterator.initialize(over(numbers([*range(9)]), lambda run, s: Map(run, s, function)))
    yield made, iterator
    for _ in range(9):
        made.keys.release()
    iterator.dropped()


def taken(found: Any) -> int:
    (value,) = found.wait(Scope(60)) if isinstance(found, Pending) else found
    return int(value)


def test_a_thread_that_cannot_be_started_leaves_no_call_behind() -> None:
    class Refusing:
        refuses = True

        def start(self, target: Callable[..., object], *args: Any, name: str = "") -> Any:
            if self.refuses:
                raise RuntimeError("can't start new thread")
            target(*args)

    threads = Refusing()
    calls = SideBySide(Iteration(threads=threads), Python(doubled), 1)
    with pytest.raises(RuntimeError, match="new thread"):
        calls.begin((np.int64(1),))
    threads.refuses = False
    assert calls.begin((np.int64(2),)).result() == (4,)


def test_who_gives_up_while_a_function_runs_leaves_its_element_to_the_next(
    door: tuple[Door, DataIterator],
) -> None:
    made, iterator = door
    for expected in range(3):
        asked = iterator.next()
        assert made.knocks.acquire(timeout=60)
        with pytest.raises(errors.DeadlineExceededError):
            asked.wait(Scope(0.01))
        made.keys.release()
        assert taken(iterator.next()) == expected


def test_a_position_is_saved_while_a_function_runs(door: tuple[Door, DataIterator]) -> None:
    made, iterator = door
    made.keys.release()
    assert taken(iterator.next()) == 0
    asked = iterator.next()
    for _ in range(8):
        made.keys.release()
    assert taken(asked) == 1
    saved = iterator.save()
    position = saved.wait(Scope(60)) if isinstance(saved, Pending) else saved
    other = DataIterator("other")
    other.initialize(over(numbers([*range(9)]), lambda run, s: Map(run, s, Python(lambda v: v))))
    other.restore(position)
    assert taken(other.next()) == taken(iterator.next()) == 2
    other.dropped()


def test_another_dataset_ends_what_the_functions_of_the_old_one_wait_for() -> None:
    ended = threading.Event()

    class Waits(Python):
        def one(self, element: Element, scope: Scope, apart: bool = False) -> Element:
            try:
                Pending[None]().wait(scope)
            finally:
                ended.set()
            raise AssertionError

    iterator = DataIterator("it")
    forever = Waits(lambda v: v, "waits")
    iterator.initialize(over(numbers([1]), lambda run, s: Map(run, s, forever)))
    asked = iterator.next()
    iterator.initialize(numbers([7]))
    assert taken(asked) == 7
    assert ended.wait(60)
    iterator.dropped()


# -- generators -----------------------------------------------------------------------------------


class Counting:
    """What makes numbers, and notes what is asked of it."""

    def __init__(self, most: int) -> None:
        self.most, self.log, self._numbers = most, list[str](), count()

    def begin(self) -> int:
        self.log.append("begin")
        return 7

    def following(self, state: int) -> int:
        assert state == 7
        found = next(self._numbers)
        if found >= self.most:
            raise errors.out_of_range("no more")
        return good(found)

    def finish(self, state: int) -> int:
        self.log.append("end")
        return 0

    def dataset(self, kind: str) -> Dataset:
        functions = [Python(each, kind) for each in (self.begin, self.following, self.finish)]
        return Whole(lambda run: Generated(run, *functions))


@pytest.mark.parametrize("kind", ["keeps", "waits"])
def test_a_generator_is_begun_asked_and_told_of_its_end(kind: str) -> None:
    made = Counting(5)
    stage = made.dataset(kind).stage(run_of(kind))
    assert not made.log, "nothing was pulled yet"
    assert drained(stage, cycled([3])) == [0, 1, 2, "fails", 4]
    stage.close()
    assert made.log == ["begin", "end"]


def test_a_generator_that_nobody_drains_is_told_once() -> None:
    made = Counting(5)
    stage = made.dataset("keeps").stage(Iteration())
    chunk = stage.pull(2)
    assert chunk is not None
    assert plain(chunk) == [0, 1]
    for _ in range(2):
        stage.close()
    assert made.log == ["begin", "end"]
    with pytest.raises(errors.UnimplementedError, match="from_generator"):
        stage.save()


@pytest.mark.parametrize("kind", ["keeps", "waits"])
def test_a_generator_runs_no_further_than_its_consumer_and_fails_where_it_failed(kind: str) -> None:
    made = Counting(9)
    stage = made.dataset(kind).stage(run_of(kind))
    assert drained(stage, cycled([2, 5, 1])) == [0, 1, 2, "fails", *range(4, 9)]
    made = Counting(9)
    stage = made.dataset(kind).stage(run_of(kind))
    found: list[Any] = []
    while len(found) < 3:
        try:
            chunk = stage.pull(2 if not found else 1)
        except Blocked as blocked:
            wait_for(blocked)
            continue
        assert chunk is not None
        found += plain(chunk)
    assert found == [0, 1, 2]
    assert next(made._numbers) == 3


def test_functions_that_keep_something_run_no_further_than_their_consumer() -> None:
    calls: list[int] = []

    def noted(value: int) -> int:
        calls.append(value)
        return value

    inner = over(numbers([*range(50)]), lambda run, s: Map(run, s, Python(noted, "keeps")))
    outer = Python(lambda value: inner)
    iterator = DataIterator("it")
    made = over(numbers([0, 1]), lambda run, s: FlatMap(run, s, outer, lambda held: held))
    iterator.initialize(Made("Flat", [dtypes.int64], [()], lambda run: made.stage(run)))
    for expected in range(20):
        assert taken(iterator.next()) == expected
        assert len(calls) == expected + 1
    iterator.dropped()
