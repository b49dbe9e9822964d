"""Whatever a session is used for first after a restart, it hears of that once, and then everything works again."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import headrace as tf
from headrace.codec import protos as pb
from headrace.serve.connect import restart_check
from tests.serve.clusters import Cluster

Uses = dict[str, Callable[[], Any]]


class Program:
    """Steps on the ps alone, and through it and the master's task; none of them has a variable."""

    def __init__(self) -> None:
        with tf.device("/job:ps"):
            self.fed, self.fed_late = tf.placeholder(tf.float32, []), tf.placeholder(tf.float32, [])
            self.three = tf.identity(tf.constant(2.0)) + 1.0
            self.nine = self.three * 3.0
            self.doubled = self.fed * 2.0
        with tf.device("/job:worker/task:0"):
            self.four = self.three + 1.0
            self.sum = self.doubled + self.fed_late

    def uses(self, session: tf.Session) -> Uses:
        """Everything that reaches tasks, by name."""
        numbers = itertools.count()
        one = np.float32(1.0)

        def new() -> tf.Tensor:
            with session.graph.as_default(), tf.device("/job:ps"):
                return tf.identity(tf.constant(1.0), name=f"new{next(numbers)}")

        def callable_of(fetch: tf.Tensor, *feeds: tf.Tensor, **more: Any) -> Callable[..., Any]:
            return session._make_callable_from_options(
                pb.CallableOptions(feed=[feed.name for feed in feeds], fetch=[fetch.name], **more)
            )

        def in_pieces() -> None:
            handle = session.partial_run_setup([self.doubled, self.sum], [self.fed, self.fed_late])
            session.partial_run(handle, self.doubled, {self.fed: 1.0})
            session.partial_run(handle, self.sum, {self.fed_late: 1.0})

        made = callable_of(self.four)
        joined = pb.TensorConnection(from_tensor=self.nine.name, to_tensor=self.fed_late.name)
        connected = callable_of(self.sum, self.fed, tensor_connection=[joined])
        return {
            "a step": lambda: session.run(self.four),
            "a step of one task": lambda: session.run(self.nine),
            "a new step": lambda: session.run(new()),
            "a callable": made,
            "a callable with a connection": lambda: connected(one),
            "a partial run": in_pieces,
            "the list of devices": session.list_devices,
        }


USES = [
    "a step", "a step of one task", "a new step", "a callable", "a callable with a connection", "a partial run",
    "the list of devices",
]  # fmt: skip


def heard(use: Callable[[], Any]) -> list[str]:
    """That a task was restarted, if it says so.  It is there: nothing is Unavailable."""
    try:
        use()
    except tf.errors.AbortedError as error:
        return [str(error)]
    return []


@pytest.fixture(autouse=True)
def no_task_answers_soon(monkeypatch: pytest.MonkeyPatch) -> None:
    """The machine is busy."""
    monkeypatch.setattr(restart_check, "BACK_WITHIN_S", 0.0)


def hears_once(
    cluster: Cluster, task: str, first: str, config: tf.ConfigProto | None = None
) -> None:
    """Start the task again under a session that has used everything; use it all again, `first` first."""
    with tf.Graph().as_default(), tf.Session(cluster.target("worker:0"), config=config) as session:
        uses = Program().uses(session)
        assert list(uses) == USES
        for use in uses.values():
            use()
        cluster.servers[task].stop()
        cluster.start(task)
        told = heard(uses[first])
        for use in uses.values():
            told += heard(use)
    assert len(told) == 1, f"{first} first: {told}"
    assert "was restarted" in told[0]


@pytest.mark.parametrize("transport", ["direct", "grpc", "unix"], indirect=True)
@pytest.mark.parametrize("task", ["ps:0", "worker:0"])
def test_a_restart_is_heard_of_once_whatever_comes_first(cluster: Cluster, task: str) -> None:
    """worker:0 is the master."""
    for first in USES:
        hears_once(cluster, task, first)


@pytest.mark.parametrize("transport", ["unix"], indirect=True)
def test_isolated_sessions_hear_of_it_once_as_well(cluster: Cluster) -> None:
    """Tasks do not know them after a restart, and take no new plans for them."""
    for first in USES:
        hears_once(cluster, "ps:0", first, tf.ConfigProto(isolate_session_state=True))
