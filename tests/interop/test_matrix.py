"""The matrix: every case of every script, under both imports, on clusters of both kinds."""

from __future__ import annotations

import importlib
import math
from pathlib import Path
from typing import Any

import pytest

from tests.interop.clusters import CaseError, Client, Cluster
from tests.interop.scripts.table import About, Raises

AREAS = ("variables", "containers", "queues", "files", "training", "failures", "tracing")
CASES = {
    (area, name): case
    for area in AREAS
    for name, case in importlib.import_module(f"tests.interop.scripts.{area}").TABLE.cases.items()
}


# TensorFlow's master does not wait until a failed step has left every task: what the step waits for may still be taken.
HEADRACE_MASTERS_ONLY = {("failures", "a_failure_on_one_task_ends_what_waits_on_another")}


@pytest.mark.parametrize(("area", "name"), CASES)
def test_it_is_as_with_tensorflow(
    area: str,
    name: str,
    topology: tuple[Client, Cluster],
    tensorflow_is_master: bool,
    tmp_path: Path,
) -> None:
    if tensorflow_is_master and (area, name) in HEADRACE_MASTERS_ONLY:
        return
    client, cluster = topology
    expected = CASES[area, name].expected
    where = {
        "worker": cluster.target("worker:0"),
        "ps": cluster.target("ps:0"),
        "directory": str(tmp_path),
    }
    if isinstance(expected, Raises):
        with pytest.raises(CaseError) as caught:
            client.run(area, name, **where)
        error = caught.value
        assert error.kind == expected.kind, error
        # TensorFlow's master reports the first error to arrive, which may be that of a receiver.
        if expected.node is not None and not tensorflow_is_master:
            assert error.node == expected.node, error
    else:
        assert close(client.run(area, name, **where), expected)


def close(found: Any, expected: Any) -> bool:
    """Equal, floats to a relative 1e-5."""
    if isinstance(expected, dict):
        return isinstance(found, dict) and found.keys() == expected.keys() and all(
            close(found[key], expected[key]) for key in expected
        )  # fmt: skip
    if isinstance(expected, (list, tuple)):
        return (
            isinstance(found, list)
            and len(found) == len(expected)
            and all(map(close, found, expected))
        )
    if isinstance(expected, About):
        return isinstance(found, float) and abs(found - expected.value) <= expected.off
    if isinstance(expected, float):
        return isinstance(found, float) and math.isclose(found, expected, rel_tol=1e-5)
    return type(found) is type(expected) and bool(found == expected)
