"""The switches by which programs choose between TensorFlow 1.x and 2.x: here it is always 1.x.

Programs written for both begin with `tf.disable_v2_behavior()` and the like: those find what they
ask for.  What would switch to 2.x raises UnimplementedError; whether variables are resource variables unless told
otherwise, and whether branches and loops are functions of the graph, can be chosen, as in 1.x.
Called by: programs, library.variables.variables, ops.flow.  Threads: any; the choice is the process's.
"""

from __future__ import annotations

from typing import Any, Never

from headrace.base import errors
from headrace.graph import scopes
from headrace.graph.indexed_slices import IndexedSlices
from headrace.graph.sparse import SparseTensor
from headrace.graph.tensor import Tensor


class _Default:
    """What a variable, a branch or a loop is made as if nobody says."""

    resource = False
    functional_flow = False


def enable_resource_variables() -> None:
    """Variables made from here on are resource variables unless use_resource=False."""
    _Default.resource = True


def disable_resource_variables() -> None:
    """Variables made from here on are reference variables unless use_resource=True: so it is at the start."""
    _Default.resource = False


def resource_variables_enabled() -> bool:
    """Which of the two was called last."""
    return _Default.resource


def enable_control_flow_v2() -> None:
    """Branches and loops made from here on are functions of the graph: If, While and Case nodes."""
    _Default.functional_flow = True


def disable_control_flow_v2() -> None:
    """Branches and loops made from here on are of Switch, Merge and Enter nodes: so it is at the start."""
    _Default.functional_flow = False


def control_flow_v2_enabled() -> bool:
    """Which of the two was called last."""
    return _Default.functional_flow


def is_flow_functional() -> bool:
    """Whether a branch or loop that is made now is one of functions: so it is in functions' bodies, too."""
    function = scopes.function_being_built()
    return _Default.functional_flow or (function is not None and function.functional_flow)


def disable_v2_behavior() -> None:
    """Reference variables, branches and loops of nodes; graphs and sessions are what there is."""
    disable_resource_variables()
    disable_control_flow_v2()


def disable_eager_execution() -> None:
    """Nothing: graphs and sessions are what there is."""


disable_v2_tensorshape = disable_eager_execution
disable_tensor_equality = disable_eager_execution


def executing_eagerly() -> bool:
    """False: operations build a graph."""
    return False


executing_eagerly_outside_functions = executing_eagerly


def enable_eager_execution(
    config: Any = None, device_policy: Any = None, execution_mode: Any = None
) -> Never:
    """Raises UnimplementedError."""
    raise errors.unimplemented(
        "there is no eager execution: build a graph and run it in a tf.Session"
    )


def enable_v2_behavior() -> Never:
    """Raises UnimplementedError."""
    raise errors.unimplemented("TensorFlow 2.x behaviour is not supported: write TF 1.x graphs")


def is_tensor(x: Any) -> bool:
    """Whether x is a tensor, sparse tensor, indexed slices or variable of a graph."""
    if isinstance(x, (Tensor, SparseTensor, IndexedSlices)):
        return True
    return callable(getattr(type(x), "_as_graph_element", None)) and hasattr(x, "dtype")
