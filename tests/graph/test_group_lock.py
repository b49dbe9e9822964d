"""Sessions against builders: deadline, cancellation and Ctrl-C end the wait for the other, and nothing is held then."""

from __future__ import annotations

import gc
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from types import FrameType
from typing import Any

import pytest

import headrace as tf
from headrace.base import errors
from headrace.codec import protos as pb
from headrace.graph import group_lock
from headrace.graph.group_lock import GroupLock
from headrace.run import interrupts
from headrace.run.scope import Scope
from headrace.run.uninterrupted import takes
from tests.support.ctrl_c import ctrl_c_when
from tests.support.limits import deadline_that_says
from tests.support.until import until

WITHIN_S = 60.0
SOON_S = 0.05  # a deadline that a test waits for
BUILDERS, SESSIONS = 0, 1
HERE = __file__


@pytest.fixture
def lock() -> GroupLock:
    return GroupLock("a house", ("builds", "moves in"))


def free(lock: GroupLock) -> bool:
    """Whether another thread could hold it for either group."""
    found: list[bool] = []

    def look() -> None:
        for number in (BUILDERS, SESSIONS):
            waiter = lock.take(number)
            found.append(waiter is None)
            if waiter is None:
                lock.leave()
            else:
                waiter.abandon(errors.cancelled("it was only a question"))

    thread = threading.Thread(target=look)
    thread.start()
    thread.join(WITHIN_S)
    return found == [True, True]


@contextmanager
def held_elsewhere(take: Callable[[], Any], name: str = "holder") -> Iterator[None]:
    """`with take():` in a thread of that name, meanwhile."""
    inside, enough = threading.Event(), threading.Event()

    def hold() -> None:
        with take():
            _ = inside.set(), enough.wait(WITHIN_S)  # where the holder is

    thread = threading.Thread(target=hold, name=name)
    thread.start()
    try:
        assert inside.wait(WITHIN_S)
        yield
    finally:
        enough.set()
        thread.join(WITHIN_S)


def line_of(text: str) -> int:
    """The line of this file that ends with it."""
    with open(HERE) as file:
        return next(n for n, line in enumerate(file, 1) if line.rstrip().endswith(text))


# -- the lock itself ------------------------------------------------------------------------------


def test_threads_of_one_group_hold_the_lock_together_and_those_of_two_never(
    lock: GroupLock,
) -> None:
    together = threading.Barrier(2)
    inside = {0: 0, 1: 0}
    wrong: list[dict[int, int]] = []

    def hold(group: int) -> None:
        for _ in range(200):
            with lock.group(group), lock.group(1 - group):  # the second waits for nobody
                inside[group] += 1
                if inside[1 - group]:
                    wrong.append(dict(inside))
                inside[group] -= 1

    def meet() -> None:
        with lock.group(0):
            together.wait(WITHIN_S)

    for works in ([meet, meet], [lambda: hold(0), lambda: hold(1)]):
        threads = [threading.Thread(target=work) for work in works]
        for each in threads:
            each.start()
        for each in threads:
            each.join(WITHIN_S)
            assert not each.is_alive()
    assert wrong == []
    assert free(lock)


def test_it_is_held_until_the_outermost_block_of_a_thread_ends(lock: GroupLock) -> None:
    with lock.group(BUILDERS):
        with lock.group(SESSIONS), lock.group(BUILDERS):
            assert not free(lock)
        assert not free(lock)
    assert free(lock)


def test_an_error_inside_leaves_it(lock: GroupLock) -> None:
    with pytest.raises(ZeroDivisionError), lock.group(SESSIONS), lock.group(BUILDERS):
        _ = 1 / 0
    assert free(lock)


@pytest.mark.parametrize(("waiting", "does"), [(SESSIONS, "builds"), (BUILDERS, "moves in")])
def test_a_deadline_ends_the_wait_and_says_who_holds_it_and_where(
    lock: GroupLock, waiting: int, does: str
) -> None:
    with held_elsewhere(lambda: lock.group(1 - waiting), "the one"):
        with (
            pytest.raises(tf.errors.DeadlineExceededError) as told,
            lock.group(waiting, Scope(SOON_S)),
        ):
            pytest.fail("two groups hold it")
        assert told.value.message.startswith("Timed out waiting for notification")
        where = f"{HERE}:{line_of('# where the holder is')}"
        assert told.value.message.endswith(f"(thread 'the one' at {where} {does})")
    assert free(lock)


def test_cancellation_ends_the_wait_with_its_error_and_who_holds_it(lock: GroupLock) -> None:
    scope = ServerReadiness()

    def cancel() -> None:
        assert scope.begun.wait(WITHIN_S)
        scope.cancel(errors.aborted("the reason."))

    with held_elsewhere(lambda: lock.group(BUILDERS)):
        other = threading.Thread(target=cancel)
        other.start()
        with pytest.raises(tf.errors.AbortedError) as told, lock.group(SESSIONS, scope):
            pytest.fail("two groups hold it")
        other.join()
    assert told.value.message.startswith(
        "the reason; it came while waiting for a turn on a house, for "
    )
    assert "(thread 'holder' at " in told.value.message
    assert scope.error is not None
    assert scope.error.message == "the reason."
    assert free(lock)


def test_who_waits_goes_on_when_the_last_of_the_others_has_left(lock: GroupLock) -> None:
    went_on = threading.Event()

    def build() -> None:
        with lock.group(BUILDERS, Scope(WITHIN_S)):
            went_on.set()

    builder = threading.Thread(target=build)
    with held_elsewhere(lambda: lock.group(SESSIONS)):
        with held_elsewhere(lambda: lock.group(SESSIONS)):
            builder.start()
            assert not went_on.wait(SOON_S)
        assert not went_on.is_set()
    builder.join(WITHIN_S)
    assert went_on.is_set()


# -- Ctrl-C ---------------------------------------------------------------------------------------


@pytest.fixture
def ctrl_c(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """As in a program that has no handler of its own."""
    monkeypatch.setattr(signal, "default_int_handler", interrupts.PYTHONS_OWN)
    before = signal.signal(signal.SIGINT, interrupts.PYTHONS_OWN)
    interrupts.install()
    yield
    signal.signal(signal.SIGINT, before)


def interrupted_at(count: int, call: Callable[[], object]) -> bool:
    """Call it with a Ctrl-C at that instruction of group_lock.py that it comes to; whether it came to as many."""
    left = [count]

    @takes  # what is put off and comes at once is not to land in that frame, by way of this
    def trace(frame: FrameType, event: str, _: Any) -> Any:
        if frame.f_code.co_filename != group_lock.__file__:
            return None
        frame.f_trace_opcodes = True
        if event == "opcode":
            left[0] -= 1
            if left[0] == 0:
                handle = signal.getsignal(signal.SIGINT)
                assert callable(handle)
                handle(signal.SIGINT, frame)
        return trace

    before = sys.gettrace()
    gc.disable()  # what Python raises in its callbacks (hypothesis has one) is told to nobody
    try:
        sys.settrace(trace)
        try:
            call()
        finally:
            sys.settrace(before)
        if left[0] <= 0:  # it was put off
            assert not threading.Event().wait(WITHIN_S)
            pytest.fail(f"nobody was interrupted at instruction {count}")
    except KeyboardInterrupt:
        assert left[0] <= 0
    finally:
        gc.enable()
    return left[0] <= 0


def test_ctrl_c_at_any_instruction_leaves_it_free(ctrl_c: None, lock: GroupLock) -> None:
    def use() -> None:
        with lock.group(SESSIONS), lock.group(BUILDERS):
            pass

    count = 1
    while interrupted_at(count, use):
        assert free(lock), f"held for ever after an interrupt at instruction {count}"
        count += 1
    assert count > 100
    assert free(lock)


def test_ctrl_c_at_any_instruction_of_a_wait_leaves_it_free(ctrl_c: None, lock: GroupLock) -> None:
    def use() -> None:
        with pytest.raises(tf.errors.DeadlineExceededError), lock.group(SESSIONS, Scope(1e-6)):
            pytest.fail("two groups hold it")

    count = 1
    with held_elsewhere(lambda: lock.group(BUILDERS)):
        while interrupted_at(count, use):
            count += 1
        assert count > 100
        assert not free(lock)
    assert free(lock)


class ServerReadiness(Scope):
    """Tells when somebody waits with it."""

    __slots__ = ("begun",)

    def __init__(self) -> None:
        super().__init__()
        self.begun = threading.Event()

    def on_cancel(self, callback: Callable[[], object]) -> Callable[[], object]:
        self.begun.set()
        return super().on_cancel(callback)


def test_ctrl_c_ends_a_wait_without_a_deadline(ctrl_c: None, lock: GroupLock) -> None:
    scope = ServerReadiness()
    with (
        held_elsewhere(lambda: lock.group(BUILDERS)),
        ctrl_c_when(scope.begun.wait),
        lock.group(SESSIONS, scope),
    ):
        pytest.fail("two groups hold it")
    assert free(lock)


# -- of a graph, under sessions -------------------------------------------------------------------


@pytest.fixture(params=["in this process", "on a server"])
def target(request: pytest.FixtureRequest) -> Iterator[str]:
    if request.param == "in this process":
        yield ""
        return
    with tf.train.Server.create_local_server() as server:
        yield server.target


@contextmanager
def being_built(graph: tf.Graph) -> Iterator[None]:
    """Another thread is inside a branch of a cond, and does not come out of it meanwhile."""
    inside, enough = threading.Event(), threading.Event()

    def branch() -> tf.Tensor:
        inside.set()
        enough.wait(WITHIN_S)
        return tf.constant(1)

    def build() -> None:
        with graph.as_default():
            tf.cond(tf.constant(True), branch, lambda: tf.constant(2))

    builder = threading.Thread(target=build, name="builder")
    builder.start()
    try:
        assert inside.wait(WITHIN_S)
        yield
    finally:
        enough.set()
        builder.join(WITHIN_S)


BUILDS = r"thread 'builder' at .*test_group_lock.py:\d+ changes its nodes"


Way = Callable[[tf.Session, tf.Tensor], object]


def traced(session: tf.Session, x: tf.Tensor, limited: tf.RunOptions) -> object:
    limited.trace_level = tf.RunOptions.FULL_TRACE
    return session.run(x, options=limited, run_metadata=tf.RunMetadata())


OF_A_STEP: dict[str, Callable[[tf.Session, tf.Tensor, tf.RunOptions], object]] = {
    "run": lambda session, x, limited: session.run(x, options=limited),
    "traced": traced,
}
OF_A_SESSION: dict[str, Way] = {
    "run": lambda session, x: session.run(x),
    "make_callable": lambda session, x: session.make_callable(x)(),
    "partial_run_setup": lambda session, x: session.partial_run_setup([x]),
    "options": lambda session, x: session._make_callable_from_options(
        pb.CallableOptions(fetch=[x.name])
    ),
}


def test_time_limits_of_steps_hold_while_another_thread_builds(target: str) -> None:
    graph = tf.Graph()
    with graph.as_default():
        tensor = tf.constant(3)
    with tf.Session(target, graph=graph) as session:
        with being_built(graph):
            for way in OF_A_STEP.values():
                deadline_that_says(partial(way, session, tensor), BUILDS)
        assert session.run(tensor) == 3


def test_a_sessions_time_limit_holds_while_another_thread_builds(target: str) -> None:
    graph = tf.Graph()
    with graph.as_default():
        tensor = tf.constant(3)

    def in_a_session(way: Way, limited: tf.RunOptions) -> None:
        config = tf.ConfigProto(operation_timeout_in_ms=limited.timeout_in_ms)
        with tf.Session(target, graph=graph, config=config) as session:
            way(session, tensor)

    with being_built(graph):
        for way in OF_A_SESSION.values():
            deadline_that_says(partial(in_a_session, way), BUILDS)


def test_close_ends_a_step_that_waits_for_a_builder(target: str) -> None:
    graph = tf.Graph()
    with graph.as_default():
        tensor = tf.constant(3)
    session = tf.Session(target, graph=graph)

    def close() -> None:
        until(lambda: graph._group_lock._waiters)
        session.close()

    with being_built(graph):
        closing = threading.Thread(target=close)
        closing.start()
        with pytest.raises(tf.errors.CancelledError, match=BUILDS):
            session.run(tensor)
        closing.join()


def test_who_builds_may_run_steps_meanwhile(target: str) -> None:
    with tf.Graph().as_default() as graph, tf.Session(target, graph=graph) as session:
        known = tf.constant(3)

        def branch() -> tf.Tensor:
            return tf.constant(session.run(known) + 1)

        chosen = tf.cond(tf.constant(True), branch, lambda: known)
        assert session.run(chosen) == 4
