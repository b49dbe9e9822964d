"""The matrix: who may be client, master and ps, and what is asked of each combination."""

from __future__ import annotations

import importlib

from tests.interop.clusters import HEADRACE as H
from tests.interop.clusters import TENSORFLOW as T
from tests.interop.scripts.table import AREAS, Case


def kinds(client: str, master: str, ps: str) -> dict[str, str]:
    """By role; the master is the worker's task."""
    return {"client": client, "master": master, "ps": ps}


TOPOLOGIES = {
    "tensorflow alone": kinds(T, T, T),
    "tensorflow client, headrace cluster": kinds(T, H, H),
    "headrace client, tensorflow cluster": kinds(H, T, T),
    "headrace client and master, tensorflow ps": kinds(H, H, T),
    "tensorflow client and master, headrace ps": kinds(T, T, H),
    "tensorflow client, headrace master, tensorflow ps": kinds(T, H, T),
    "headrace client, tensorflow master, headrace ps": kinds(H, T, H),
}
"""TensorFlow alone comes first: a case that it does not pass says something wrong about TensorFlow."""

CASES: dict[str, dict[str, Case]] = {
    area: importlib.import_module(f"tests.interop.scripts.{area}").TABLE.cases for area in AREAS
}

ASKED = [
    (topology, area, name)
    for topology, roles in TOPOLOGIES.items()
    for area, cases in CASES.items()
    for name, case in cases.items()
    if case.is_asked(roles)
]
"""Topology, area and name of every case that is run."""
