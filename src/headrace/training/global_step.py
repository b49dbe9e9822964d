"""The global step: the variable that counts training steps, found through its collection.

Called by: optimizers' users, sessions under supervision.  Threads: as graph.
Source: TF 1.15 python/training/training_util.py, for behaviour
"""

from __future__ import annotations

from typing import Any

from headrace.base import dtypes
from headrace.graph import scopes
from headrace.graph.collections import GraphKeys
from headrace.graph.graph import Graph
from headrace.graph.tensor import Tensor
from headrace.library.variables.initializers import zeros_initializer
from headrace.library.variables.variable_scope import get_variable
from headrace.library.variables.variables import Variable, VariableAggregation

__all__ = [
    "assert_global_step",
    "create_global_step",
    "get_global_step",
    "get_or_create_global_step",
    "global_step",
]


def global_step(sess: Any, global_step_tensor: Any) -> int:
    """The value of the step in `sess`."""
    return int(sess.run(global_step_tensor))


def get_global_step(graph: Graph | None = None) -> Any:
    """The step of the graph: of its collection, else what is named ``global_step``, else None.

    Raises TypeError if that is no integer scalar.
    """
    graph = scopes.get_default_graph() if graph is None else graph
    found = graph.get_collection(GraphKeys.GLOBAL_STEP)
    if len(found) > 1:
        raise ValueError(
            f"the collection {GraphKeys.GLOBAL_STEP!r} must hold one step, and holds {len(found)}: "
            f"{[item.name for item in found]}"
        )
    if found:
        step = found[0]
    else:
        try:
            step = graph.get_tensor_by_name("global_step:0")
        except KeyError:
            return None
    assert_global_step(step)
    return step


def create_global_step(graph: Graph | None = None) -> Any:
    """Make the step, at 0.  Raises ValueError if there is one."""
    graph = scopes.get_default_graph() if graph is None else graph
    if get_global_step(graph) is not None:
        raise ValueError('"global_step" already exists: get_or_create_global_step() finds it')
    with graph.as_default(), graph.name_scope(None):
        return get_variable(
            GraphKeys.GLOBAL_STEP,
            shape=[],
            dtype=dtypes.int64,
            initializer=zeros_initializer(),
            trainable=False,
            aggregation=VariableAggregation.ONLY_FIRST_REPLICA,
            collections=[GraphKeys.GLOBAL_VARIABLES, GraphKeys.GLOBAL_STEP],
        )


def get_or_create_global_step(graph: Graph | None = None) -> Any:
    """The step, made at 0 if there is none."""
    graph = scopes.get_default_graph() if graph is None else graph
    found = get_global_step(graph)
    return create_global_step(graph) if found is None else found


def assert_global_step(global_step_tensor: Any) -> None:
    """Raise TypeError unless it is an integer scalar, a variable or a tensor."""
    if not isinstance(global_step_tensor, (Variable, Tensor)):
        raise TypeError(
            f'Existing "global_step" must be a Variable or Tensor, not {global_step_tensor!r}'
        )
    if not global_step_tensor.dtype.base_dtype.is_integer:
        raise TypeError(
            f'Existing "global_step" does not have integer type: {global_step_tensor.dtype}; '
            "it counts steps"
        )
    shape = global_step_tensor.get_shape()
    if shape.ndims != 0 and shape.is_fully_defined():
        raise TypeError(f'Existing "global_step" is not scalar: {shape} is its shape')
