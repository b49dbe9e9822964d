"""What `headrace k8s` prints, by Kubernetes' and JobSet's schemas, and with a kubelet that is played: `make k8s`."""

from __future__ import annotations

import io
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import kubernetes_validate
import pytest
import yaml
from kubeflow_trainer_api import models

from headrace.tools.main import main
from tests.engines.kubelet import DOMAIN
from tests.hosts import NAMESPACES, kind

VERSIONS = ["1.31", "1.33", kubernetes_validate.latest_version()]
WITHIN_S = 120.0
WITHIN = """
mount --bind "$1" /etc/resolv.conf || exit
ip link set lo up
exec "$2" -m tests.engines.kubelet "$3"
"""

FORMS = [
    ("--ps", "2", "--workers", "3", "--chief", "--evaluator", "--gpu", "1", "--serve-ps"),
    ("--ps", "1", "--workers", "1", "--cpu", "500m", "--memory", "2Gi", "--env", "A=b", "--namespace", "n"),
    ("--workers", "2", "--claim", "c", "--secret-name", "s", "--storage-class", "fast"),
]  # fmt: skip


def printed(*words: str) -> list[dict[str, Any]]:
    """The documents that the command prints, as YAML is read elsewhere."""
    out, err = io.StringIO(), io.StringIO()
    program = ("python", "train.py", "--name", "yes", "it's: $(HOME)")
    assert main(["k8s", "--image", "me/train:1", *words, "--", *program], out, err) == 0, err
    return list(yaml.safe_load_all(out.getvalue()))


def lost(said: Any, read: Any, at: str = "") -> list[str]:
    """Where something was said that was not read as it was said."""
    if isinstance(said, dict) and isinstance(read, dict):
        return [
            each
            for key, value in said.items()
            for each in lost(value, read.get(key), f"{at}.{key}")
        ]
    if isinstance(said, list) and isinstance(read, list) and len(said) == len(read):
        pairs = enumerate(zip(said, read, strict=True))
        return [each for n, (one, other) in pairs for each in lost(one, other, f"{at}[{n}]")]
    return [] if said == read else [at]


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("words", FORMS)
def test_kubernetes_takes_it(words: tuple[str, ...], version: str) -> None:
    for each in printed(*words):
        kubernetes_validate.validate(each, version, strict=True)


@pytest.mark.parametrize("words", FORMS)
def test_job_set_takes_it(words: tuple[str, ...]) -> None:
    """Its classes are made of the published schema, and drop what that does not have."""
    *others, made = printed(*words, "--jobset")
    read = models.JobsetV1alpha2JobSet.from_dict(made)
    assert read is not None
    assert lost(made, read.to_dict()) == []
    for each in others:
        kubernetes_validate.validate(each, VERSIONS[0], strict=True)
    for each in made["spec"]["replicatedJobs"]:
        job = {"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "x"}}
        kubernetes_validate.validate(job | each["template"], VERSIONS[0], strict=True)


@pytest.mark.skipif(kind() != NAMESPACES, reason="needs namespaces, for a name server of its own")
def test_pods_are_a_training_that_goes_on_when_they_come_back_elsewhere(tmp_path: Path) -> None:
    servers = tmp_path / "resolv.conf"
    servers.write_text(f"nameserver 127.0.0.1\nsearch {DOMAIN}\noptions ndots:5\n")
    folder = Path(sys.executable).parent
    ended = subprocess.run(
        ["unshare", "-rmn", "sh", "-c", WITHIN, "sh", str(servers), sys.executable, str(tmp_path)],
        env={**os.environ, "PATH": f"{folder}:{os.environ['PATH']}"},
        capture_output=True,
        text=True,
        timeout=WITHIN_S,
        check=False,
    )
    assert ended.stdout.splitlines() == [
        "[chief 0] trains True",
        "[worker 0] joins True",
        "the ps is ready: True",
        "the worker ends with 143, the ps with 143",
        "the ps is ready: False",
        "[chief 0] goes on True",
        "[worker 0] joins True",
        "[chief 0] goes on True",
        "the one that was silent ends with 143",
        "the chief ends with 0",
        "the worker ends with 143, the ps with 143",
    ], ended.stderr
