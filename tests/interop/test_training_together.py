"""A TensorFlow worker and a headrace worker train one model on one ps, of either kind, asynchronously."""

from __future__ import annotations

import threading
from typing import Any

import pytest

from tests.interop.clusters import HEADRACE, TENSORFLOW, Cluster
from tests.interop.conftest import Lab
from tests.interop.scripts import training
from tests.interop.scripts.table import Updates, close, of_tensorflow

WORKERS = (TENSORFLOW, HEADRACE)


@pytest.fixture(scope="module", params=[HEADRACE, TENSORFLOW])
def ps(request: pytest.FixtureRequest) -> str:
    """The kind of the ps."""
    return str(request.param)


@pytest.fixture(scope="module")
def cluster(ps: str, lab: Lab) -> Cluster:
    """A ps of that kind, a worker of each."""
    for kind in WORKERS:
        lab.client(kind)
    workers = {f"worker:{number}": kind for number, kind in enumerate(WORKERS)}
    return lab.cluster({"ps:0": ps, **workers})


@pytest.mark.parametrize("chief", WORKERS)
def test_both_learn_the_same_model(chief: str, ps: str, cluster: Cluster, lab: Lab) -> None:
    made: dict[str, Any] = {}

    def run(kind: str, part: str) -> Any:
        number = WORKERS.index(kind)
        target = cluster.target(f"worker:{number}")
        made[kind] = lab.client(kind).run(
            "training", part, worker=target, ps=cluster.target("ps:0"), number=number
        )
        return made[kind]

    assert run(chief, "initialize") < 0.5
    threads = [threading.Thread(target=run, args=(kind, "train")) for kind in WORKERS]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert made == dict.fromkeys(WORKERS, training.STEPS)
    expected = Updates(training.STEPS * len(WORKERS))
    if ps == TENSORFLOW:
        expected = of_tensorflow(expected)
    for kind in WORKERS:
        steps, accuracy = run(kind, "measure")
        assert close(steps, expected), (steps, expected)
        assert close(accuracy, training.LEARNED), accuracy
