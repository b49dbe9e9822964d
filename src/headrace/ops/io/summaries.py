"""Summaries: values of a step as serialized Summary messages, for event files.

Called by: training's input producers, programs.  Threads: kernels in any step's thread.
Source: TF 1.15 core/ops/logging_ops.cc, core/kernels/summary_op.cc
"""

from __future__ import annotations

from typing import Any

import numpy as np

from headrace.base import errors
from headrace.codec import protos as pb
from headrace.graph import scopes
from headrace.graph.collections import GraphKeys
from headrace.graph.names import name_scope
from headrace.graph.registry import op
from headrace.graph.shape_fns import scalar
from headrace.graph.tensor import Tensor

__all__: list[str] = []


@op(
    "ScalarSummary",
    inputs="tags: string; values: T",
    outputs="summary: string",
    attrs="T: realnumbertype",
    shape=scalar,
    differentiable=False,
)
def scalar_summary(xp: Any, tags: Any, values: Any) -> Any:
    """A Summary with one simple value per tag.

    tags [...]; values [...], of the same shape; summary [].  Raises InvalidArgument.
    """
    if tags.shape != values.shape:
        raise errors.invalid_argument(
            f"tags and values must have one shape, and have {list(tags.shape)} and "
            f"{list(values.shape)}"
        )
    summary = pb.Summary()
    for tag, value in zip(tags.reshape(-1), values.reshape(-1), strict=True):
        summary.value.add(tag=tag.decode(errors="replace"), simple_value=float(value))
    box = np.empty((), object)
    box[()] = summary.SerializeToString()
    return box


def add_scalar(name: str, value: Any) -> Tensor:
    """A summary of `value` in the graph's collection, tagged with its full name."""
    with name_scope(name) as scope:
        summary: Tensor = scalar_summary(scope.rstrip("/"), value, name=scope)
    scopes.get_default_graph().add_to_collection(GraphKeys.SUMMARIES, summary)
    return summary
