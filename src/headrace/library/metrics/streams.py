"""What all metrics are made of: their variables, what is returned, shapes that fit.

A metric is a pair: `value`, what the variables say, and `update_op`, which adds a batch and is the value after it.  Its
variables are local ones, and in the collection METRIC_VARIABLES.
Called by: library.metrics, training, programs.  Threads: as graph.
Source: TF 1.15 behaviour; nodes are the oracle's where shapes are known.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from headrace.base import dtypes
from headrace.graph import scopes
from headrace.graph.collections import GraphKeys
from headrace.graph.convert import convert
from headrace.graph.names import name_scope
from headrace.graph.tensor import Tensor
from headrace.library.surplus import weights_of, without_surplus
from headrace.library.variables.assigning import assign_add
from headrace.library.variables.variables import Variable
from headrace.ops.array.constants import zeros
from headrace.ops.array.shapes import reshape
from headrace.ops.math.casting import cast
from headrace.ops.math.reductions import reduce_sum
from headrace.ops.tables import make

Metric = tuple[Any, Any]
"""(value, update_op)"""


def metric_variable(
    shape: Any, dtype: Any, validate_shape: bool = True, name: str | None = None
) -> Any:
    """A local variable of a metric, which starts with zeros."""
    return Variable(
        initial_value=lambda: zeros(shape, dtype),
        trainable=False,
        collections=[GraphKeys.LOCAL_VARIABLES, GraphKeys.METRIC_VARIABLES],
        validate_shape=validate_shape,
        name=name,
    )


def collected(metric: Metric, values: Any, updates: Any) -> Metric:
    """The metric, which is put into these collections (names of several, of one, or None)."""
    graph = scopes.get_default_graph()
    for names, member in ((values, metric[0]), (updates, metric[1])):
        if names:
            graph.add_to_collections(names, member)
    return metric


def fitting(predictions: Any, labels: Any = None, weights: Any = None) -> tuple[Tensor, Any, Any]:
    """The three with as many dimensions as the predictions: a last one of size 1 goes, weights may get one.

    Raises ValueError: shapes of predictions and labels do not fit.
    """
    predictions = convert(predictions)
    if labels is not None:
        labels, predictions = squeezed(labels, predictions)
        predictions.shape.assert_is_compatible_with(labels.shape)
    if weights is None:
        return predictions, labels, None
    return predictions, labels, weights_of(convert(weights), predictions)


def squeezed(labels: Any, predictions: Any) -> tuple[Tensor, Tensor]:
    """Both; the one that has one dimension more than the other is without its last, of size 1."""
    with name_scope(None, "remove_squeezable_dimensions", [labels, predictions]):
        predictions, labels = convert(predictions), convert(labels)
        return without_surplus(labels, predictions)


def ratio(total: Any, count: Any, name: str | None = None) -> Tensor:
    """total / count; 0 where the count is 0 or less."""
    found: Tensor = make.DivNoNan(total, make.Maximum(count, 0.0), name=name)
    return found


def flat(tensor: Tensor) -> Tensor:
    """A vector of the elements, the tensor itself if it may be one."""
    return reshape(tensor, [-1]) if (tensor.shape.ndims or 0) > 1 else tensor


def added(variable: Any, values: Any, axis: Any = None) -> Any:
    """The variable after the sum of the values was added to it."""
    return assign_add(variable, reduce_sum(values, axis))


def as_floats(values: Any) -> Tensor:
    """The values as float32."""
    found: Tensor = cast(values, dtypes.float32)
    return found


Names = Sequence[str] | str | None
"""Of collections."""
