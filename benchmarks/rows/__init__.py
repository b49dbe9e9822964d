"""All rows, in the order of the table; importing this registers them."""

from __future__ import annotations

from benchmarks.row import TABLE
from benchmarks.rows import (  # noqa: F401  (they register their rows)
    arithmetic,
    checkpoints,
    contention,
    crowds,
    datasets,
    estimators,
    fanout,
    feature_columns,
    footprint,
    graphs,
    local,
    models,
    pipelines,
    remote,
    sessions,
    summaries,
    training,
    transfer,
)

AREAS = (
    "footprint",
    "local",
    "graphs",
    "arithmetic",
    "pipelines",
    "datasets",
    "remote",
    "fanout",
    "transfer",
    "contention",
    "crowds",
    "training",
    "models",
    "summaries",
    "checkpoints",
    "sessions",
    "estimators",
    "feature_columns",
)
"""The table's sections, in order."""

__all__ = ["AREAS", "TABLE"]
