"""Clusters and clients of both kinds, each started when a test first needs it and kept until the end."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from contextlib import ExitStack

import pytest

from tests.interop.clusters import Client, Cluster
from tests.interop.matrix import TOPOLOGIES

PYTHON = os.environ.get("HEADRACE_ORACLE_PYTHON")


class Lab:
    """Processes that tests share."""

    def __init__(self, python: str) -> None:
        self._python = python
        self._stack = ExitStack()
        self._clusters: dict[tuple[tuple[str, str], ...], Cluster] = {}
        self._clients: dict[str, Client] = {}

    def client(self, kind: str) -> Client:
        """The client process of a kind."""
        if kind not in self._clients:
            self._clients[kind] = Client(kind, self._python)
            self._stack.callback(self._clients[kind].close)
        return self._clients[kind]

    def cluster(self, kinds: Mapping[str, str]) -> Cluster:
        """The cluster whose tasks, ``job:index``, are of these kinds."""
        key = tuple(sorted(kinds.items()))
        if key not in self._clusters:
            self._clusters[key] = Cluster(kinds, self._python)
            self._stack.callback(self._clusters[key].close)
        return self._clusters[key]

    def close(self) -> None:
        """End every process."""
        self._stack.close()


@pytest.fixture(scope="session")
def lab() -> Iterator[Lab]:
    if not PYTHON:
        pytest.skip("HEADRACE_ORACLE_PYTHON names no Python with TensorFlow; `make oracle` sets it")
    lab = Lab(PYTHON)
    yield lab
    lab.close()


@pytest.fixture(scope="session")
def topology(request: pytest.FixtureRequest, lab: Lab) -> tuple[Client, Cluster, dict[str, str]]:
    """Of a name in the matrix: who asks, the cluster of one worker and one ps, the kinds by role."""
    roles = TOPOLOGIES[request.param]
    cluster = lab.cluster({"worker:0": roles["master"], "ps:0": roles["ps"]})
    return lab.client(roles["client"]), cluster, roles
