"""Ops that headrace does not have: a TensorFlow client's error names op and node, and the cluster goes on."""

from __future__ import annotations

import pytest

from tests.interop.clusters import HEADRACE, TENSORFLOW, Client, Cluster
from tests.interop.conftest import Lab
from tests.interop.scripts import unknown

CLASSES = ("NotFoundError", "UnimplementedError", "InvalidArgumentError")
ASKED = [(kind, program) for kind in (HEADRACE, TENSORFLOW) for program in unknown.OPS]


@pytest.fixture(scope="module")
def where(request: pytest.FixtureRequest, lab: Lab) -> tuple[Client, Cluster]:
    """A TensorFlow client, and a cluster of a headrace ps whose master is of that kind."""
    cluster = lab.cluster({"worker:0": request.param, "ps:0": HEADRACE})
    return lab.client(TENSORFLOW), cluster


@pytest.mark.parametrize(("where", "program"), ASKED, indirect=["where"])
def test_the_op_and_the_node_are_named(where: tuple[Client, Cluster], program: str) -> None:
    client, cluster = where
    targets = {"worker": cluster.target("worker:0"), "ps": cluster.target("ps:0")}
    kind, op_is_named, node_is_named, after = client.run("unknown", program, **targets)
    assert kind in CLASSES
    assert (op_is_named, node_is_named, after) == (True, True, 4.0)
