"""Ctrl-C in a step that is blocked on a TensorFlow server is heard at once, and the session goes on.

A TensorFlow master forgets that a call was cancelled if it hears of it before it has sent all parts of the step and
noted how to cancel them.  A busy machine may let the parts run before that.
"""

from __future__ import annotations

import pytest

from tests.interop.clusters import TENSORFLOW, Cluster
from tests.interop.conftest import Lab
from tests.serve.test_grpcio_traps import interrupted


@pytest.fixture(scope="module")
def cluster(lab: Lab) -> Cluster:
    return lab.cluster({"worker:0": TENSORFLOW, "ps:0": TENSORFLOW})


MISSES = 20


def test_ctrl_c_is_heard_at_once(cluster: Cluster) -> None:
    interrupted(cluster.target("worker:0"), may_miss=MISSES)
