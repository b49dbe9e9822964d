"""Resources that are no variables: what registers itself for being initialized, and what is not initialized yet.

Called by: training.  Threads: as the graph's.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from headrace.base import dtypes
from headrace.graph import scopes
from headrace.graph.collections import GraphKeys
from headrace.graph.names import name_scope
from headrace.graph.registry import get as op_spec
from headrace.ops.array.constants import constant
from headrace.ops.array.gathering import boolean_mask
from headrace.ops.flow.identities import group, no_op

__all__ = [
    "initialize_resources",
    "local_resources",
    "report_uninitialized_resources",
    "shared_resources",
]


def shared_resources() -> list[Any]:
    """Those of the cluster; each has `handle`, `create` and `is_initialized`."""
    found: list[Any] = scopes.get_default_graph().get_collection(GraphKeys.RESOURCES)
    return found


def local_resources() -> list[Any]:
    """Those of this process."""
    found: list[Any] = scopes.get_default_graph().get_collection(GraphKeys.LOCAL_RESOURCES)
    return found


def initialize_resources(resources: Sequence[Any], name: str = "init") -> Any:
    """An op that creates them all."""
    if resources:
        return group(*[resource.create for resource in resources], name=name)
    return no_op(name=name)


def report_uninitialized_resources(
    resources: Sequence[Any] | None = None, name: str = "report_uninitialized_resources"
) -> Any:
    """The names of those that are not created yet: string [n]; of all of the graph if None are given."""
    if resources is None:
        resources = shared_resources() + local_resources()
    with name_scope(name), scopes.get_default_graph().device("/cpu:0"):
        if not resources:
            return constant([], dtype=dtypes.string)
        names = constant([resource.handle.name for resource in resources])
        missing = op_spec("LogicalNot")(
            op_spec("Pack")([resource.is_initialized for resource in resources], name="stack")
        )
        return boolean_mask(names, missing)
