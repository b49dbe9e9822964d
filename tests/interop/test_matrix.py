"""The matrix: every case of every script, under both imports, on clusters of both kinds."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.interop.clusters import TENSORFLOW, CaseError, Client, Cluster
from tests.interop.matrix import ASKED, CASES
from tests.interop.scripts.table import Raises, close, of_tensorflow


@pytest.mark.parametrize(("topology", "area", "name"), ASKED, indirect=["topology"])
def test_it_is_as_with_tensorflow(
    topology: tuple[Client, Cluster, dict[str, str]], area: str, name: str, tmp_path: Path
) -> None:
    client, cluster, kinds = topology
    expected = CASES[area][name].expected
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
        if expected.node is not None and kinds["master"] != TENSORFLOW:
            assert error.node == expected.node, error
    else:
        if kinds["ps"] == TENSORFLOW:
            expected = of_tensorflow(expected)
        assert close(client.run(area, name, **where), expected)
