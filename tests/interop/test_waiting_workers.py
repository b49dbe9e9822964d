"""A worker of headrace's that waits until variables on TensorFlow's tasks are initialized."""

from __future__ import annotations

import threading
from collections.abc import Iterator

import pytest

import headrace as tf
from headrace.training.initialized import InitializedWait
from tests.interop.clusters import HEADRACE, TENSORFLOW, Cluster
from tests.interop.conftest import PYTHON


@pytest.fixture(params=[(HEADRACE, TENSORFLOW), (TENSORFLOW, HEADRACE)], ids="-".join)
def cluster(request: pytest.FixtureRequest) -> Iterator[Cluster]:
    """Its worker, and its ps."""
    if not PYTHON:
        pytest.skip("HEADRACE_ORACLE_PYTHON names no Python with TensorFlow; `make oracle` sets it")
    worker, ps = request.param
    cluster = Cluster({"worker:0": worker, "ps:0": ps}, PYTHON)
    yield cluster
    cluster.close()


def test_it_asks_again_where_nobody_can_tell(cluster: Cluster) -> None:
    with tf.Graph().as_default():
        with tf.device("/job:ps/task:0"):
            variable = tf.get_variable("v", [])
        ready = tf.report_uninitialized_variables()
        manager = tf.train.SessionManager(ready_op=ready, recovery_wait_secs=0.05)
        with tf.Session(cluster.target("worker:0")) as chief:
            assert not InitializedWait(chief, ["v"]).wait(60)
            initializing = threading.Timer(0.2, chief.run, [variable.initializer])
            initializing.start()
            with manager.wait_for_session(cluster.target("worker:0"), max_wait_secs=60) as session:
                session.run(variable)
            initializing.join()
