"""`tf.contrib.framework`: shapes that a tensor must have, sums of sums, placeholders of a graph.

Called by: programs.  Threads: as graph.
Source: behaviour of TensorFlow 1.15's contrib
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from headrace.base import dtypes
from headrace.base.shapes import TensorShape
from headrace.base.traits import PLACEHOLDER
from headrace.graph.const_value import as_shape
from headrace.graph.convert import convert
from headrace.graph.names import control_dependencies, name_scope
from headrace.graph.tensor import Tensor
from headrace.library.checks.ranks import assert_scalar
from headrace.library.surplus import without_surplus
from headrace.library.variables.assigning import assign
from headrace.ops.array.constants import constant, zeros_like
from headrace.ops.array.shapes import shape as shape_of
from headrace.ops.flow.asserts import Assert
from headrace.ops.flow.identities import identity
from headrace.ops.math.casting import cast
from headrace.ops.math.comparisons import equal, less, logical_or
from headrace.ops.math.reductions import reduce_all, reduce_sum
from headrace.ops.math.sums import add_n

__all__ = [
    "assert_scalar_int",
    "get_placeholders",
    "reduce_sum_n",
    "remove_squeezable_dimensions",
    "with_same_shape",
    "with_shape",
    "zero_initializer",
]


def assert_scalar_int(tensor: Any, name: str | None = None) -> Tensor:
    """The tensor, if it is an int32 or int64 scalar.  Raises ValueError."""
    with name_scope(name, "assert_scalar_int", [tensor]) as scope:
        found = convert(tensor)
        if found.dtype.base_dtype not in (dtypes.int32, dtypes.int64):
            raise ValueError(f"Expected an integer scalar for {found.name}, not {found.dtype.name}")
        checked: Tensor = assert_scalar(found, name=scope)
        return checked


def reduce_sum_n(tensors: Sequence[Any], name: str | None = None) -> Tensor:
    """The sum of all elements of all tensors, a scalar.  Raises ValueError without tensors."""
    if not tensors:
        raise ValueError("No tensors provided.")
    with name_scope(name, "reduce_sum_n", tensors) as scope:
        sums = [
            reduce_sum(each, name=f"{convert(each).op.name.rpartition('/')[2]}/sum")
            for each in tensors
        ]
        total: Tensor = sums[0] if len(sums) == 1 else add_n(sums, name=scope)
        return total


def remove_squeezable_dimensions(
    predictions: Any, labels: Any, name: str | None = None
) -> tuple[Tensor, Tensor]:
    """Both; the one that has one dimension more than the other is without its last, of size 1."""
    with name_scope(name, "remove_squeezable_dimensions", [predictions, labels]):
        guesses, truth = convert(predictions), convert(labels)
        truth, guesses = without_surplus(truth, guesses)
        return guesses, truth


def with_shape(expected_shape: Any, tensor: Any) -> Tensor:
    """The tensor, of this shape: checked now as far as shapes are known, and when it is computed where they are not.

    expected_shape: a list of ints, a TensorShape, or an int tensor [rank].  Raises ValueError; in the step
    InvalidArgumentError.
    """
    found: Tensor = convert(tensor)
    if isinstance(expected_shape, Tensor):
        wanted = TensorShape(as_shape(expected_shape))
    else:
        wanted = TensorShape(expected_shape)
    if wanted.is_fully_defined() and found.shape.is_fully_defined():
        found.shape.assert_is_compatible_with(wanted)
        return found
    merged = found.shape.merge_with(wanted)
    needed = expected_shape
    if not isinstance(needed, Tensor):
        needed = constant([-1 if n is None else n for n in wanted.as_list()], dtypes.int32)
    actual = shape_of(found, out_type=needed.dtype)
    fits = reduce_all(logical_or(equal(actual, needed), less(needed, cast(0, needed.dtype))))
    said = [f"Wrong shape for {found.name} [expected] [actual].", needed, actual]
    with control_dependencies([Assert(fits, said)]):
        checked: Tensor = identity(found)
    checked.set_shape(merged)
    return checked


def with_same_shape(expected_tensor: Any, tensor: Any) -> Tensor:
    """The tensor, checked to have the shape of another as in `with_shape`."""
    expected = convert(expected_tensor)
    with name_scope(f"{convert(tensor).op.name.rpartition('/')[2]}/", values=[expected, tensor]):
        if expected.shape.is_fully_defined():
            return with_shape(expected.shape, tensor)
        return with_shape(shape_of(expected), tensor)


def zero_initializer(ref: Any, use_locking: bool = True, name: str = "zero_initializer") -> Tensor:
    """The variable, whose first value is zeros; the op that makes it so."""
    made: Tensor = assign(ref, zeros_like(ref.initial_value), use_locking=use_locking, name=name)
    return made


def get_placeholders(graph: Any) -> list[Tensor]:
    """The tensors of a graph that are fed: outputs of its placeholders, in the order they were made."""
    return [node.outputs[0] for node in graph.get_operations() if PLACEHOLDER in node.traits]
