"""Rendezvous: each key is sent once and taken once, in either order."""

from __future__ import annotations

from typing import Any

import pytest

from headrace.base import errors
from headrace.run.exec.rendezvous import Rendezvous
from headrace.run.pending import Pending
from headrace.run.scope import Scope
from headrace.run.thread_group import ThreadGroup

STEP_ENDED = errors.aborted("the step ended")


def error_of(pending: Pending[Any]) -> type[errors.OpError]:
    assert pending.error is not None
    return type(pending.error)


@pytest.mark.parametrize("dead", [False, True])
def test_a_value_sent_before_it_is_wanted(dead: bool) -> None:
    rendezvous, value = Rendezvous(), object()
    rendezvous.send("k", value, dead)
    pending = rendezvous.recv("k")
    assert pending.done
    assert pending.result()[0] is value
    assert pending.result()[1] is dead


@pytest.mark.parametrize("dead", [False, True])
def test_a_value_wanted_before_it_is_sent(dead: bool) -> None:
    rendezvous, value = Rendezvous(), object()
    pending = rendezvous.recv("k")
    assert not pending.done
    assert [str(w.on) for w in rendezvous.waiting()] == ["k"]
    rendezvous.send("other", 1)
    assert not pending.done
    rendezvous.send("k", value, dead)
    assert pending.result() == (value, dead)
    assert rendezvous.waiting() == []


@pytest.mark.parametrize("taken", [False, True])
def test_sending_a_key_twice_is_an_internal_error(taken: bool) -> None:
    rendezvous = Rendezvous()
    rendezvous.send("k", 1)
    if taken:
        rendezvous.recv("k")
    with pytest.raises(errors.AlreadyExistsError, match="'k' was sent twice"):
        rendezvous.send("k", 2)


def test_a_long_loop_leaves_little_behind() -> None:
    rendezvous = Rendezvous()
    rendezvous.send("a;1;b;outside;0:0", 0)
    assert rendezvous.recv("a;1;b;outside;0:0").done

    def held() -> int:
        return len(rendezvous._slots)

    for iteration in range(20_000):
        key = f"a;1;b;inside;77:{iteration}"
        if iteration % 2:
            rendezvous.send(key, iteration)
        pending = rendezvous.recv(key)
        if not iteration % 2:
            rendezvous.send(key, iteration)
        assert pending.result() == (iteration, False)
    assert held() < 10_000
    for again in ("a;1;b;outside;0:0", "a;1;b;inside;77:19999"):
        with pytest.raises(errors.AlreadyExistsError, match="sent twice"):
            rendezvous.send(again, 0)


@pytest.mark.parametrize("sent", [False, True])
def test_a_second_taker_is_refused(sent: bool) -> None:
    rendezvous = Rendezvous()
    if sent:
        rendezvous.send("k", 1)
    first = rendezvous.recv("k")
    assert error_of(rendezvous.recv("k")) is errors.AlreadyExistsError
    if not sent:
        rendezvous.send("k", 1)
    assert first.result() == (1, False)


def test_a_taker_who_gives_up_leaves_the_key_to_another() -> None:
    rendezvous = Rendezvous()
    with pytest.raises(errors.DeadlineExceededError, match="recv on k"):
        rendezvous.recv("k").wait(Scope(timeout_s=0))
    again = rendezvous.recv("k")
    rendezvous.send("k", 1)
    assert again.result() == (1, False)


def test_a_taker_cannot_give_up_what_has_come() -> None:
    rendezvous = Rendezvous()
    pending = rendezvous.recv("k")
    rendezvous.send("k", 1)
    assert not pending.abandon(STEP_ENDED)
    assert pending.result() == (1, False)


def test_abort_ends_every_wait_and_everything_later() -> None:
    rendezvous = Rendezvous()
    waiting = [rendezvous.recv(k) for k in "abc"]
    rendezvous.send("d", 1)
    assert rendezvous.abort(STEP_ENDED)
    assert [p.error for p in waiting] == [STEP_ENDED] * 3
    assert rendezvous.recv("d").error is STEP_ENDED, "values nobody took are gone"
    with pytest.raises(errors.AbortedError, match="the step ended"):
        rendezvous.send("e", 1)


def test_the_first_abort_wins() -> None:
    rendezvous = Rendezvous()
    rendezvous.abort(STEP_ENDED)
    assert not rendezvous.abort(errors.cancelled("later"))
    assert rendezvous.error is STEP_ENDED


def test_callbacks_may_use_the_rendezvous() -> None:
    rendezvous = Rendezvous()
    rendezvous.recv("a").on_done(lambda _: rendezvous.send("b", 2))
    rendezvous.send("a", 1)
    assert rendezvous.recv("b").result() == (2, False)


def test_many_senders_and_takers_meet() -> None:
    rendezvous = Rendezvous()
    keys = [f"k{i}" for i in range(500)]
    got: dict[str, object] = {}

    def send() -> None:
        for key in keys:
            rendezvous.send(key, key.upper())

    def take(group: ThreadGroup) -> None:
        for key in reversed(keys):
            got[key] = rendezvous.recv(key).wait(group.scope)[0]

    with ThreadGroup("step", Scope(timeout_s=60)) as group:
        group.start(take, group)
        group.start(send)
    assert got == {key: key.upper() for key in keys}
