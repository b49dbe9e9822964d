"""A TensorFlow master sends partitions that its optimizer has rewritten; headrace runs them to the same values."""

from __future__ import annotations

import pytest

from tests.interop.clusters import HEADRACE, TENSORFLOW, Client, Cluster
from tests.interop.conftest import Lab
from tests.interop.scripts import rewritten


@pytest.fixture(scope="module")
def optimized(lab: Lab) -> tuple[Client, Cluster]:
    """A TensorFlow client of a TensorFlow master with a headrace ps."""
    cluster = lab.cluster({"worker:0": TENSORFLOW, "ps:0": HEADRACE})
    return lab.client(TENSORFLOW), cluster


@pytest.mark.parametrize("program", rewritten.OPS)
def test_it_computes_the_same(program: str, optimized: tuple[Client, Cluster]) -> None:
    client, cluster = optimized
    where = {"worker": cluster.target("worker:0"), "ps": cluster.target("ps:0")}
    off, ops = client.run("rewritten", program, **where)
    assert off < 1e-4
    missing = rewritten.OPS[program] - set(ops)
    assert not missing, f"the optimizer made {ops}"
