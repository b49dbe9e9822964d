"""Thread group: threads are joined, the first failure ends the rest and is raised."""
# ruff: noqa: PT012 -- it is leaving the block that raises

from __future__ import annotations

import threading

import pytest

from headrace.base import errors
from headrace.run.pending import Pending
from headrace.run.scope import Scope
from headrace.run.thread_group import ThreadGroup
from tests.support.ctrl_c import ctrl_c_when


def fail(error: BaseException) -> None:
    raise error


def test_leaving_joins_the_threads() -> None:
    gate: Pending[int] = Pending()
    ended: list[str] = []
    with ThreadGroup("c") as group:
        thread = group.start(lambda: ended.append(f"{gate.wait(group.scope)}"), name="waiter")
        assert thread.name == "c/waiter"
        assert thread.daemon
        gate.resolve(1)
    assert ended == ["1"]
    assert not thread.is_alive()


def test_arguments_are_passed_and_the_name_defaults_to_the_functions() -> None:
    got: list[tuple[int, str]] = []

    def work(a: int, b: str) -> None:
        got.append((a, b))

    with ThreadGroup("c") as group:
        assert group.start(work, 1, "x").name == "c/work"
    assert got == [(1, "x")]


def test_the_first_failure_ends_the_rest_and_is_raised() -> None:
    ended: list[errors.OpError | None] = []

    def wait(group: ThreadGroup) -> None:
        pending: Pending[int] = Pending()
        try:
            pending.wait(group.scope)
        finally:
            ended.append(pending.error)

    with pytest.raises(errors.NotFoundError, match="first"), ThreadGroup("c") as group:
        group.start(wait, group)
        group.start(wait, group)
        group.start(fail, errors.not_found("first"))
    assert [type(e) for e in ended] == [errors.NotFoundError] * 2


def test_a_failure_that_is_no_op_error_cancels_with_its_text_and_is_raised_itself() -> None:
    with pytest.raises(ZeroDivisionError, match="oops"), ThreadGroup("c") as group:
        group.start(fail, ZeroDivisionError("oops"))
        Pending[int]().on_done(lambda _: None)
        with pytest.raises(errors.CancelledError, match="ZeroDivisionError: oops"):
            Pending[int]().wait(group.scope)


def test_a_later_failure_is_noted_on_the_first() -> None:
    both = threading.Barrier(2)
    first_is_in = Scope()

    def second(group: ThreadGroup) -> None:
        both.wait()
        group.scope.on_cancel(lambda: first_is_in.cancel(errors.cancelled("go")))
        with pytest.raises(errors.CancelledError):
            Pending[int]().wait(first_is_in)
        raise ValueError("two")

    def first() -> None:
        both.wait()
        raise KeyError("one")

    with pytest.raises(KeyError) as raised, ThreadGroup("c") as group:
        group.start(second, group)
        group.start(first)
    assert any("ValueError: two" in note for note in raised.value.__notes__)


def test_a_failing_block_ends_the_threads_and_keeps_its_error() -> None:
    pending: Pending[int] = Pending()
    with pytest.raises(ValueError, match="in the block"), ThreadGroup("c") as group:
        group.start(pending.wait, group.scope)
        raise ValueError("in the block")
    assert isinstance(pending.error, errors.CancelledError)


def test_a_cancelled_crew_leaves_quietly() -> None:
    pending: Pending[int] = Pending()
    with ThreadGroup("c") as group:
        group.start(pending.wait, group.scope)
        group.scope.cancel(errors.cancelled("we are done here"))
    assert pending.error is group.scope.error


def test_a_crew_ends_with_its_parent_scope() -> None:
    parent = Scope()
    pending: Pending[int] = Pending()
    with ThreadGroup("c", parent) as group:
        group.start(pending.wait, group.scope)
        parent.cancel(errors.aborted("the server stops"))
    assert isinstance(pending.error, errors.AbortedError)
    assert parent._callbacks == {}


def test_joining_ends_the_scope_at_its_deadline() -> None:
    released = threading.Event()
    with ThreadGroup("c", Scope(timeout_s=0.01)) as group:
        group.scope.on_cancel(released.set)
        group.start(released.wait)  # knows nothing of the scope
    assert isinstance(group.scope.error, errors.DeadlineExceededError)


def test_a_thread_may_start_another() -> None:
    ended: list[str] = []
    with ThreadGroup("c") as group:
        group.start(lambda: group.start(lambda: ended.append("grandchild")))
    assert ended == ["grandchild"]


def test_a_crew_that_was_left_starts_nothing() -> None:
    with ThreadGroup("c") as group:
        pass
    with pytest.raises(RuntimeError, match="thread group 'c' has been left"):
        group.start(print)


def test_ended_threads_are_forgotten_while_the_crew_lives() -> None:
    with ThreadGroup("c") as group:
        for _ in range(20):
            group.start(lambda: None).join()
        assert not group._running
        assert len(group._ending) <= 1


def test_ctrl_c_while_joining_stops_the_threads_and_goes_on() -> None:
    pending: Pending[int] = Pending()
    main_joins = threading.Event()

    class Watched(Scope):
        def sleep_limit(self) -> float | None:
            if threading.current_thread() is threading.main_thread():
                main_joins.set()
            return super().sleep_limit()

    with ctrl_c_when(main_joins.wait), ThreadGroup("c") as group:
        group.scope = Watched()
        group.start(pending.wait, group.scope)
    assert isinstance(pending.error, errors.CancelledError)
