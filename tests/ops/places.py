"""Where ops are registered: of which file of which family each is."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from headrace.graph.registry import OPS, OpSpec


def place(spec: OpSpec) -> str:
    """The file in which the op's block stands, as "math/scans"."""
    path = Path(spec.where.rpartition(":")[0])
    return f"{path.parent.name}/{path.stem}"


def ops_of(places: Iterable[str]) -> set[str]:
    """The names of the ops that are registered there; every place has some."""
    wanted = set(places)
    assert wanted <= {place(spec) for spec in OPS.values()}
    return {name for name, spec in OPS.items() if place(spec) in wanted}
