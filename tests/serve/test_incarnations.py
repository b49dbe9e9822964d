"""Which start of a task a session uses, who is to tell of a restart, and how long a task is asked which start it is."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from headrace.base import errors
from headrace.codec import protos as pb
from headrace.run.pending import Pending
from headrace.run.scope import Scope
from headrace.serve.connect import restart_check
from headrace.serve.master.incarnations import Incarnations, restarted
from headrace.serve.rpc.status import RestartedError, from_detail, to_detail


def test_a_restart_of_a_task_that_is_used_is_one_callers_to_tell() -> None:
    starts = Incarnations({})
    assert starts.use({"a": 1, "b": 1}, 0)
    assert starts.earlier({"a": 2, "b": 1, "c": 1}) == {"a": 1}
    assert starts.take({"a": 1}) == ["a"]
    assert starts.take({"a": 1}) == []
    assert starts.over({"a": 1, "b": 1}) == ["a"]


def test_two_tasks_may_be_told_of_at_once() -> None:
    starts = Incarnations({"a": 1, "b": 1})
    assert starts.take({"a": 1, "b": 1, "c": 1}) == ["a", "b"]


def test_of_a_task_that_is_not_used_there_is_nothing_to_tell() -> None:
    starts = Incarnations({})
    assert starts.earlier({"a": 1}) == {}
    assert starts.take({"a": 1}) == []


def test_a_task_that_is_restarted_again_before_it_is_used_again_is_nothing_new() -> None:
    starts = Incarnations({"a": 1})
    assert starts.take({"a": 1}) == ["a"]
    assert starts.earlier({"a": 3}) == {}
    assert starts.use({"a": 3}, starts.version)
    assert starts.take({"a": 2}) == []
    assert starts.take({"a": 3}) == ["a"]


def test_a_plan_that_was_begun_before_a_restart_was_told_is_not_used() -> None:
    starts = Incarnations({"a": 1})
    version = starts.version
    starts.take({"a": 1})
    assert not starts.use({"a": 1}, version)
    assert not Incarnations({"a": 1}).use({"a": 2}, 0)  # that is still to be told
    assert starts.over({"a": 1}) == ["a"]


def test_what_is_told_names_the_tasks_in_another_process_too() -> None:
    found = from_detail(to_detail(restarted(["/job:a", "/job:b"])))
    assert isinstance(found, RestartedError)
    assert found.tasks == ("/job:a", "/job:b")
    assert "/job:a was restarted, /job:b was restarted" in str(found)


# -- verdicts -------------------------------------------------------------------------------------


class Server:
    """Answers with its start: at once, when somebody has looked whether it listens, or never."""

    def __init__(self, start: int, answers: str, listens: bool) -> None:
        self.looked = 0
        self._listens = listens
        self._answers = answers
        self._reply: Pending[Any] = Pending()
        device = pb.DeviceAttributes(name="d", incarnation=start)
        self._status = pb.GetStatusResponse(device_attributes=[device])

    def call(self, *asked: Any, **how: Any) -> Pending[Any]:
        if self._answers == "at once":
            self._reply.resolve(self._status)
        return self._reply

    def listens(self, scope: Scope) -> bool:
        self.looked += 1
        if self._answers == "late":
            self._reply.resolve(self._status)
        return self._listens


CASES: dict[str, tuple[Callable[[], Server], list[str], list[str]]] = {
    "another start": (lambda: Server(2, "at once", True), ["it"], []),
    "the same start": (lambda: Server(1, "at once", True), [], []),
    "another start, on a busy machine": (lambda: Server(2, "late", True), ["it"], []),
    "the same start, on a busy machine": (lambda: Server(1, "late", True), [], []),
    "nobody listens": (lambda: Server(2, "never", False), [], ["it"]),
    "it listens and says nothing": (lambda: Server(2, "never", True), [], ["it"]),
}


@pytest.mark.parametrize("case", CASES)
def test_a_server_is_waited_for_if_it_listens(case: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(restart_check, "BACK_WITHIN_S", 0.0)
    monkeypatch.setattr(restart_check, "ANSWERS_WITHIN_S", 0.05 if "nothing" in case else 60.0)
    make, changed, silent = CASES[case]
    server = make()
    peers: Any = {"it": server}
    found = restart_check.check_restarts(peers, {"it": 1}, Scope(), Scope())
    assert (list(found.restarted), found.silent) == (changed, silent)
    assert server.looked <= 1


def test_nobody_is_waited_for_when_one_restart_is_known(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(restart_check, "BACK_WITHIN_S", 0.05)
    peers: Any = {"it": Server(2, "at once", True), "other": Server(1, "never", True)}
    found = restart_check.check_restarts(peers, {"it": 1, "other": 1}, Scope(), Scope())
    assert (list(found.restarted), found.silent) == (["it"], ["other"])
    assert peers["other"].looked == 0


def test_a_session_that_is_closed_ends_the_question() -> None:
    session = Scope()
    session.cancel(errors.cancelled("closed"))
    peers: Any = {"it": Server(2, "never", True)}
    assert restart_check.check_restarts(peers, {"it": 1}, Scope(), session).silent == ["it"]
