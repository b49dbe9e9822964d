"""A TensorFlow master of two headrace tasks: they ask each other for values, as TensorFlow's tasks do."""

from __future__ import annotations

import pytest

from tests.interop.clusters import HEADRACE, TENSORFLOW, Client, Cluster
from tests.interop.conftest import Lab
from tests.interop.scripts.table import close


@pytest.fixture(scope="module")
def where(lab: Lab) -> tuple[Client, Cluster]:
    """A TensorFlow client, and a cluster with a TensorFlow master and two headrace tasks."""
    cluster = lab.cluster({"worker:0": TENSORFLOW, "worker:1": HEADRACE, "ps:0": HEADRACE})
    return lab.client(TENSORFLOW), cluster


CASES = {"both_ways": [1000.0, 1500.0, 2000.0], "branches": [[10.0, 20.0], [1.0, 2.0]]}


@pytest.mark.parametrize("case", CASES)
def test_values_pass_between_them(where: tuple[Client, Cluster], case: str) -> None:
    client, cluster = where
    targets = {"worker": cluster.target("worker:0"), "ps": cluster.target("ps:0")}
    found = client.run("between", case, **targets)
    assert close(found, CASES[case]), found
