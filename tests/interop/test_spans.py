"""A client that makes spans, and TensorFlow's servers, which hear nothing of them."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.interop.clusters import HEADRACE, TENSORFLOW, Cluster
from tests.interop.conftest import Lab
from tests.serve.test_spans import SPANNED
from tests.support.limits import PROGRAM_WITHIN_S

KINDS = [(TENSORFLOW, TENSORFLOW), (TENSORFLOW, HEADRACE), (HEADRACE, TENSORFLOW)]


@pytest.fixture(scope="module")
def cluster(request: pytest.FixtureRequest, lab: Lab) -> Cluster:
    """Of a master and a ps of these kinds."""
    worker, ps = request.param
    return lab.cluster({"worker:0": worker, "ps:0": ps})


@pytest.mark.parametrize("cluster", KINDS, indirect=True)
def test_steps_are_what_they_are_without_spans(cluster: Cluster, tmp_path: Path) -> None:
    path = tmp_path / "spans"
    subprocess.run(
        [sys.executable, str(SPANNED), str(path), "counts", cluster.target("worker:0")],
        check=True,
        timeout=PROGRAM_WITHIN_S,
    )
    found = [json.loads(line) for line in path.read_text().splitlines()]
    assert [each["name"] for each in found] == ["headrace.step"] * 11
    assert {each["status"]["status_code"] for each in found} == {"UNSET"}
