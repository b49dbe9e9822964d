"""Clusters and clients of both kinds, each started when a test first needs it and kept until the end."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from contextlib import ExitStack

import pytest

from tests.interop.clusters import HEADRACE as H
from tests.interop.clusters import TENSORFLOW as T
from tests.interop.clusters import Client, Cluster

PYTHON = os.environ.get("HEADRACE_ORACLE_PYTHON")

TOPOLOGIES = {
    "tensorflow alone": (T, T, T),
    "tensorflow client, headrace cluster": (T, H, H),
    "headrace client, tensorflow cluster": (H, T, T),
    "headrace client and master, tensorflow ps": (H, H, T),
    "tensorflow client and master, headrace ps": (T, T, H),
    "tensorflow client, headrace master, tensorflow ps": (T, H, T),
    "headrace client, tensorflow master, headrace ps": (H, T, H),
}
"""Client, master (the worker task) and ps.  TensorFlow alone comes first: a case that it does not pass says something
wrong about TensorFlow."""


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


@pytest.fixture(scope="session", params=TOPOLOGIES)
def topology_name(request: pytest.FixtureRequest) -> str:
    """A row of the matrix."""
    return str(request.param)


@pytest.fixture(scope="session")
def topology(topology_name: str, lab: Lab) -> tuple[Client, Cluster]:
    """Who asks, and the cluster of one worker, whose master is asked, and one ps."""
    client, worker, ps = TOPOLOGIES[topology_name]
    cluster = lab.cluster({"worker:0": worker, "ps:0": ps})
    return lab.client(client), cluster


@pytest.fixture(scope="session")
def tensorflow_is_master(topology_name: str) -> bool:
    """Whether the task whose master is asked is TensorFlow's."""
    return TOPOLOGIES[topology_name][1] is T
