"""Scope: deadlines, cancellation, parents."""

from __future__ import annotations

import gc
import threading
import time

import pytest

from headrace.base import errors
from headrace.run.scope import Callback, Scope
from headrace.run.thread_group import ThreadGroup

STOP = errors.cancelled("stop")


def test_a_scope_that_goes_on_has_no_error() -> None:
    scope = Scope(timeout_s=600)
    scope.check()
    assert scope.error is None
    remaining = scope.remaining()
    assert remaining is not None
    assert 500 < remaining <= 600
    assert Scope().remaining() is None


def test_the_first_cancel_wins() -> None:
    scope = Scope()
    assert scope.cancel(STOP)
    assert not scope.cancel(errors.aborted("later"))
    assert scope.error is STOP
    with pytest.raises(errors.CancelledError, match="stop"):
        scope.check()


def test_a_passed_deadline_is_an_error_that_names_the_limit() -> None:
    scope = Scope(timeout_s=0)
    with pytest.raises(errors.DeadlineExceededError, match="limit of 0 s"):
        scope.check()
    assert not scope.cancel(STOP), "the deadline came first"
    assert scope.remaining() == 0.0


def test_callbacks_run_once_and_outside_the_lock() -> None:
    scope = Scope()
    ran: list[object] = []
    scope.on_cancel(lambda: ran.append(scope.on_cancel(lambda: ran.append("inner"))))
    scope.cancel(STOP)
    scope.cancel(STOP)
    assert ran[0] == "inner"
    assert len(ran) == 2


def test_a_callback_registered_too_late_runs_at_once() -> None:
    scope = Scope()
    scope.cancel(STOP)
    ran: list[int] = []
    scope.on_cancel(lambda: ran.append(1))
    assert ran == [1]


def test_an_unregistered_callback_does_not_run() -> None:
    scope = Scope()
    ran: list[int] = []
    unregister = scope.on_cancel(lambda: ran.append(1))
    unregister()
    unregister()
    scope.cancel(STOP)
    assert ran == []


def test_a_child_ends_with_its_parent_and_not_the_other_way() -> None:
    parent = Scope()
    child, other = Scope(parent=parent), Scope(parent=parent)
    ran: list[int] = []
    child.on_cancel(lambda: ran.append(1))
    other.cancel(errors.aborted("mine"))
    assert parent.error is None
    parent.cancel(STOP)
    assert child.error is STOP
    assert ran == [1]
    assert isinstance(other.error, errors.AbortedError)


def test_a_child_of_an_ended_parent_has_ended() -> None:
    parent = Scope()
    parent.cancel(STOP)
    assert Scope(parent=parent).error is STOP


@pytest.mark.parametrize(
    ("own", "of_parent", "shorter"), [(600, 6000, 600), (6000, 600, 600), (None, 600, 600)]
)
def test_the_earlier_deadline_holds(own: float | None, of_parent: float, shorter: float) -> None:
    child = Scope(own, parent=Scope(of_parent))
    remaining = child.remaining()
    assert remaining is not None
    assert shorter - 100 < remaining <= shorter


def test_a_closed_child_no_longer_follows_its_parent() -> None:
    parent = Scope()
    with Scope(parent=parent) as child:
        pass
    parent.cancel(STOP)
    assert child.error is None


def test_a_parent_does_not_keep_its_children_alive() -> None:
    parent = Scope()
    for _ in range(100):
        Scope(parent=parent)
    gc.collect()
    assert len(parent._callbacks) == 0


def test_wait_for_returns_when_the_predicate_comes_true() -> None:
    condition = threading.Condition()
    state: list[str] = []

    def produce() -> None:
        with condition:
            state.append("there")
            condition.notify_all()

    with ThreadGroup("test") as group:
        with condition:
            group.start(produce)
            group.scope.wait_for(condition, lambda: state)
        assert state == ["there"]


def test_wait_for_is_woken_by_cancel() -> None:
    condition, scope = threading.Condition(threading.Lock()), Scope()
    with ThreadGroup("test") as group, condition:
        group.start(scope.cancel, STOP)
        with pytest.raises(errors.CancelledError, match="stop"):
            scope.wait_for(condition, lambda: False)


def test_wait_for_raises_at_once_in_an_ended_scope_but_prefers_the_predicate() -> None:
    condition, scope = threading.Condition(threading.Lock()), Scope()
    scope.cancel(STOP)
    with condition:
        scope.wait_for(condition, lambda: True)
        with pytest.raises(errors.CancelledError):
            scope.wait_for(condition, lambda: False)


def test_wait_for_ends_at_the_deadline_and_says_what_was_awaited() -> None:
    condition, scope = threading.Condition(), Scope(timeout_s=0.01)
    began = time.monotonic()
    with condition, pytest.raises(errors.DeadlineExceededError, match=r"0\.01 s.*the dentist"):
        scope.wait_for(condition, lambda: False, "the dentist")
    assert time.monotonic() - began >= 0.01
    assert isinstance(scope.error, errors.DeadlineExceededError)


@pytest.mark.parametrize("before", [True, False], ids=["before", "after"])
@pytest.mark.parametrize("how", ["on_cancel", "attach", "child"])
def test_a_callback_that_comes_as_the_scope_ends_runs_once(how: str, before: bool) -> None:
    class Meeting(dict[object, Callback]):
        """The scope ends within the registration: just before the callback is there, or just after."""

        def __setitem__(self, key: object, callback: Callback) -> None:
            if before:
                scope.cancel(errors.cancelled("it ends"))
            super().__setitem__(key, callback)
            scope.cancel(errors.cancelled("it ends"))

    scope, ran = Scope(), []
    scope._callbacks = Meeting()
    if how == "on_cancel":
        scope.on_cancel(lambda: ran.append(1))
    elif how == "attach":
        scope.attach("key", lambda: ran.append(1))
    else:
        child = Scope(parent=scope)
        child.on_cancel(lambda: ran.append(1))
    assert ran == [1]
    assert not scope._callbacks
