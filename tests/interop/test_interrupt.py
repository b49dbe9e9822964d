"""Ctrl-C in a step that is blocked on a TensorFlow server is heard at once, and the session goes on."""

from __future__ import annotations

import pytest

from tests.interop.clusters import TENSORFLOW, Cluster
from tests.interop.conftest import Lab
from tests.serve.test_grpcio_traps import interrupted


@pytest.fixture(scope="module")
def cluster(lab: Lab) -> Cluster:
    return lab.cluster({"worker:0": TENSORFLOW, "ps:0": TENSORFLOW})


def test_ctrl_c_is_heard_at_once(cluster: Cluster) -> None:
    interrupted(cluster.target("worker:0"))
