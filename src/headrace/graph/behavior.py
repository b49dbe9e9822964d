"""The switches by which programs choose between TensorFlow 1.x and 2.x: here it is always 1.x.

Programs written for both begin with `tf.disable_v2_behavior()` and the like: those find what they
ask for.  What would switch to 2.x raises UnimplementedError.
Called by: programs.  Threads: any.
"""

from __future__ import annotations

from typing import Any, Never

from headrace.base import errors
from headrace.graph.indexed_slices import IndexedSlices
from headrace.graph.sparse import SparseTensor
from headrace.graph.tensor import Tensor


def disable_v2_behavior() -> None:
    """Nothing: graphs, sessions and reference variables are what there is."""


disable_eager_execution = disable_v2_behavior
disable_resource_variables = disable_v2_behavior
disable_v2_tensorshape = disable_v2_behavior
disable_control_flow_v2 = disable_v2_behavior
disable_tensor_equality = disable_v2_behavior


def executing_eagerly() -> bool:
    """False: operations build a graph."""
    return False


executing_eagerly_outside_functions = executing_eagerly
resource_variables_enabled = executing_eagerly
control_flow_v2_enabled = executing_eagerly


def enable_eager_execution(
    config: Any = None, device_policy: Any = None, execution_mode: Any = None
) -> Never:
    """Raises UnimplementedError."""
    raise errors.unimplemented(
        "there is no eager execution: build a graph and run it in a tf.Session"
    )


def enable_resource_variables() -> Never:
    """Raises UnimplementedError."""
    raise errors.unimplemented(
        "variables are reference variables here: leave enable_resource_variables() out"
    )


def enable_v2_behavior() -> Never:
    """Raises UnimplementedError."""
    raise errors.unimplemented("TensorFlow 2.x behaviour is not supported: write TF 1.x graphs")


def is_tensor(x: Any) -> bool:
    """Whether x is a tensor, sparse tensor, indexed slices or variable of a graph."""
    if isinstance(x, (Tensor, SparseTensor, IndexedSlices)):
        return True
    return callable(getattr(type(x), "_as_graph_element", None)) and hasattr(x, "dtype")
