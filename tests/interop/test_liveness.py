"""TensorFlow's servers are asked whether they live: as often as it takes, and they do not mind."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import pytest

import headrace as tf
from headrace.serve.connect.liveness import OutstandingRpcs
from headrace.serve.rpc.limits import LIMITS
from tests.interop.clusters import TENSORFLOW, Cluster
from tests.interop.conftest import Lab
from tests.serve.conftest import Background, background  # noqa: F401

QUESTIONS = 100
WITHIN_S = 60.0


@pytest.fixture(scope="module")
def cluster(lab: Lab) -> Cluster:
    return lab.cluster({"worker:0": TENSORFLOW, "ps:0": TENSORFLOW})


def test_a_step_that_waits_long_outlasts_many_questions(
    cluster: Cluster,
    monkeypatch: pytest.MonkeyPatch,
    background: Callable[[Callable[[], Any]], Background],  # noqa: F811
) -> None:
    """A server that counts pings ends the connection after a few too many: ENHANCE_YOUR_CALM, too_many_pings."""
    monkeypatch.setenv("HEADRACE_FROZEN_AFTER_S", "60")
    monkeypatch.setattr(LIMITS, "ask_after", 1 / 3000)  # a question every 20 ms
    answered = threading.Semaphore(0)
    hear, silence = OutstandingRpcs.answered, OutstandingRpcs._silence
    lost: list[BaseException] = []

    def hearing(self: OutstandingRpcs) -> None:
        hear(self)
        answered.release()

    def silent(self: OutstandingRpcs, asked_at: float, error: Any) -> None:
        lost.append(error)
        silence(self, asked_at, error)

    monkeypatch.setattr(OutstandingRpcs, "answered", hearing)
    monkeypatch.setattr(OutstandingRpcs, "_silence", silent)
    with tf.Graph().as_default(), tf.device("/job:ps/task:0"):
        queue = tf.FIFOQueue(1, [tf.int32], [[]], shared_name="waited for")
        put, take, size = queue.enqueue(7), queue.dequeue(), queue.size()
        with tf.Session(cluster.target("worker:0")) as session:
            assert session.run(size) == 0
            step = background(lambda: session.run(take))
            for _ in range(QUESTIONS):
                assert answered.acquire(timeout=WITHIN_S)
            assert not step.done
            assert not lost
            session.run(put)
            assert step.value() == 7
