"""A headrace session on a TensorFlow master that is killed and started again."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

import headrace as tf
from tests.interop.clusters import HEADRACE, TENSORFLOW, Cluster
from tests.interop.conftest import PYTHON
from tests.serve.clusters import aborted


@pytest.fixture
def cluster() -> Iterator[Cluster]:
    if not PYTHON:
        pytest.skip("HEADRACE_ORACLE_PYTHON names no Python with TensorFlow; `make oracle` sets it")
    cluster = Cluster({"worker:0": TENSORFLOW, "ps:0": HEADRACE}, PYTHON)
    yield cluster
    cluster.close()


def test_the_session_is_made_anew(cluster: Cluster) -> None:
    with tf.Graph().as_default():
        with tf.device("/job:ps/task:0"):
            variable = tf.Variable(1.0)
        with tf.device("/job:worker/task:0"):
            total = variable + 1.0
        init = tf.global_variables_initializer()
        with tf.Session(cluster.target("worker:0")) as session:
            session.run(init)
            assert session.run(total) == 2.0
            cluster.tasks["worker:0"].kill()
            with pytest.raises(tf.errors.UnavailableError):
                session.run(total)
            cluster.tasks["worker:0"].close()
            cluster.begin("worker:0")
            cluster.wait("worker:0")
            assert "was restarted" in str(aborted(lambda: session.run(total)))
            assert session.run(total) == 2.0  # the ps has kept its state
