"""The matrix: every case of every script, under both imports, on clusters of both kinds."""

from __future__ import annotations

import importlib
from pathlib import Path

import pytest

from tests.interop.clusters import CaseError, Client, Cluster
from tests.interop.scripts.table import AREAS, Raises, close

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
