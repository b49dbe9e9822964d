"""What the tests of servers and sessions share."""

from __future__ import annotations

import sys
import threading
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest

import headrace as tf
from headrace.client import remote, remote_session
from headrace.plan import check
from headrace.run.pending import Pending
from headrace.run.queues.queue import Queue
from headrace.run.state.wait_queues import WaitingResource
from headrace.serve.connect import local_servers
from headrace.serve.rpc.limits import LIMITS
from tests.serve.clusters import Cluster, in_process
from tests.serve.endings import endings  # noqa: F401  (a fixture)
from tests.serve.ways import ways  # noqa: F401  (a fixture)
from tests.support.memory_transport import Network
from tests.waiting_steps import waiting_steps  # noqa: F401  (a fixture)


@pytest.fixture(autouse=True, scope="module")
def a_task_that_is_slow_is_not_frozen() -> Iterator[None]:
    """The machine may be busy; tests of frozen tasks say what they mean."""
    with pytest.MonkeyPatch.context() as environment:
        environment.setenv("HEADRACE_FROZEN_AFTER_S", "60")
        yield


@pytest.fixture(autouse=True)
def plans_are_checked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(check, "enabled", True)


@pytest.fixture(autouse=True)
def tasks_have_time_to_say_what_they_have(monkeypatch: pytest.MonkeyPatch) -> None:
    """The machine may be busy."""
    monkeypatch.setattr(LIMITS, "task_answers_within_s", 60.0)
    monkeypatch.setattr(LIMITS, "inspect_within_s", 60.0)


@pytest.fixture
def time_to_close(monkeypatch: pytest.MonkeyPatch) -> None:
    """Who closes a session waits until it is closed, however busy the machine is."""
    monkeypatch.setattr(LIMITS, "close_within_s", 60.0)
    for each in (remote, remote_session):
        monkeypatch.setattr(each, "CLOSE_WITHIN_S", 60.0)


@pytest.fixture(autouse=True)
def graph() -> Iterator[tf.Graph]:
    """A graph of the test's own, the default one."""
    with tf.Graph().as_default() as graph:
        yield graph


def use_direct(monkeypatch: pytest.MonkeyPatch) -> None:
    """Servers of this process are found: calls are calls."""


def use_sockets(lane: str) -> Callable[[pytest.MonkeyPatch], None]:
    """No server is known to be in this process: every peer is reached through its port."""

    def use(monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(local_servers, "find", lambda address: None)
        monkeypatch.setenv("HEADRACE_LANE", lane)

    return use


@contextmanager
def over(transport: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Inside, clients, masters and workers talk over the transport of that name."""
    if transport == "memory":
        with Network().used():
            yield
    else:
        TRANSPORTS[transport](monkeypatch)
        yield


JOBS = {"ps": 1, "worker": 2}

TRANSPORTS: dict[str, Callable[[pytest.MonkeyPatch], None]] = {
    "direct": use_direct,
    "grpc": use_sockets("off"),
    "unix": use_sockets("unix"),
    "tcp": use_sockets("tcp"),
}
"""How every peer is reached; the contract holds over each of them."""


@pytest.fixture(params=TRANSPORTS)
def transport(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """Name of the transport over which this test's clients, masters and workers talk."""
    name: str = request.param
    with over(name, monkeypatch):
        yield name


@pytest.fixture
def cluster(transport: str) -> Iterator[Cluster]:
    """One ps and two workers in this process, talking over the transport."""
    with in_process(JOBS) as cluster:
        yield cluster


WITHIN_S = 90.0  # a process that is started on a busy machine takes long


class Blocked:
    """Counts operations of this process, on queues and their relatives, that have to wait."""

    def __init__(self) -> None:
        self._blocked = threading.Semaphore(0)
        self._pendings: list[Pending[Any]] = []
        self._lost: BaseException | None = None

    def wait(self, count: int = 1) -> None:
        """Block until `count` more operations wait in queues."""
        for _ in range(count):
            assert self._blocked.acquire(timeout=WITHIN_S), f"nothing blocked within {WITHIN_S:g} s"
            if self._lost is not None:
                self._blocked.release()
                raise self._lost

    def give_up(self, error: BaseException) -> None:
        """Whoever waits for operations that wait, now or later, gets `error`: there may be none."""
        self._lost = error
        self._blocked.release()

    def seen(self, pending: Pending[Any]) -> Pending[Any]:
        """Count `pending` if it waits."""
        if not pending.done:
            self._pendings.append(pending)
            self._blocked.release()
        return pending

    def wait_until_all_ended(self) -> None:
        """Block until no operation that was seen waits any longer."""
        for pending in self._pendings:
            ended = threading.Event()
            pending.on_done(lambda _, ended=ended: ended.set())  # type: ignore[misc]
            assert ended.wait(WITHIN_S), f"it still waits: {pending.wait_info}"


@pytest.fixture
def blocked(monkeypatch: pytest.MonkeyPatch) -> Blocked:
    """Says when operations of queues in this process have begun to wait."""
    blocked = Blocked()

    def watch(owner: type, name: str) -> None:
        operation = getattr(owner, name)
        monkeypatch.setattr(
            owner,
            name,
            lambda self, *args, **kwargs: blocked.seen(operation(self, *args, **kwargs)),
        )

    for name in ("enqueue", "enqueue_many", "dequeue", "dequeue_many", "dequeue_up_to"):
        watch(Queue, name)
    watch(WaitingResource, "wait_in")
    return blocked


class Background:
    """A call in a thread of its own, with its outcome."""

    def __init__(self, call: Callable[[], Any]) -> None:
        self._call = call
        self._value: Any = None
        self._error: BaseException | None = None
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        try:
            self._value = self._call()
        except BaseException as error:
            self._error = error

    def join(self) -> None:
        """Wait for the end."""
        self._thread.join(60)
        if self._thread.is_alive():
            frames = traceback.extract_stack(sys._current_frames()[self._thread.ident or 0])
            raise AssertionError("still running after 30 s:\n" + "".join(frames.format()))

    @property
    def done(self) -> bool:
        return not self._thread.is_alive()

    def error(self) -> Any:
        """What it raised, after its end."""
        self.join()
        assert self._error is not None, f"it raised nothing and gave {self._value!r}"
        return self._error

    def value(self) -> Any:
        """What it returned, after its end."""
        self.join()
        if self._error is not None:
            raise self._error
        return self._value


@pytest.fixture
def background() -> Iterator[Callable[[Callable[[], Any]], Background]]:
    """background(call) runs it in a thread; all are joined at the end of the test."""
    started: list[Background] = []

    def start(call: Callable[[], Any]) -> Background:
        started.append(Background(call))
        return started[-1]

    yield start
    for each in started:
        each.join()
