"""Labels, predictions and weights, of which one has a last dimension too many or too few.

What is not known while the graph is built, the step looks at.
Called by: library.metrics, library.nn, library.sorting, library.contrib.  Threads: as graph.
"""

from __future__ import annotations

from headrace.base.shapes import Shape
from headrace.graph.tensor import Tensor
from headrace.ops.array.shapes import expand_dims, rank, squeeze
from headrace.ops.flow.control_flow import cond
from headrace.ops.math.comparisons import equal


def without_surplus(labels: Tensor, predictions: Tensor, classes: int = 0) -> tuple[Tensor, Tensor]:
    """Both; the one with a dimension too many is without its last, if that may be of size 1.

    classes: how many dimensions predictions have beyond those of labels, as they should.
    """
    known, wanted = predictions.raw_shape, labels.raw_shape
    if known is not None and wanted is not None:
        surplus = len(known) - len(wanted) - classes
        if surplus == 1 and _may_go(known):
            predictions = squeeze(predictions, [-1])
        elif surplus == -1 and _may_go(wanted):
            labels = squeeze(labels, [-1])
        return labels, predictions
    difference = rank(predictions) - rank(labels)
    given = labels, predictions
    if _may_go(known):
        predictions = cond(
            equal(classes + 1, difference), lambda: squeeze(given[1], [-1]), lambda: given[1]
        )
    if _may_go(wanted):
        labels = cond(
            equal(classes - 1, difference), lambda: squeeze(given[0], [-1]), lambda: given[0]
        )
    return labels, predictions


def _may_go(shape: Shape) -> bool:
    """Whether the last dimension may be of size 1."""
    return shape is None or (len(shape) > 0 and shape[-1] in (None, 1))


def weights_as(weights: Tensor, labels: Tensor) -> Tensor:
    """Weights; if they have one dimension more than labels, without their last."""
    known, wanted = weights.raw_shape, labels.raw_shape
    if known is not None and wanted is not None:
        return squeeze(weights, [-1]) if len(known) - len(wanted) == 1 else weights
    difference = rank(weights) - rank(labels)
    if not _may_go(known):
        return weights
    chosen: Tensor = cond(equal(1, difference), lambda: squeeze(weights, [-1]), lambda: weights)
    return chosen


def weights_of(weights: Tensor, predictions: Tensor) -> Tensor:
    """Weights; with as many dimensions as predictions, if they have one more or one less and are no scalar."""
    known, wanted = weights.raw_shape, predictions.raw_shape
    if known == ():
        return weights
    if known is not None and wanted is not None:
        if len(known) - len(wanted) == 1:
            return squeeze(weights, [-1])
        return expand_dims(weights, [-1]) if len(wanted) - len(known) == 1 else weights
    count = rank(weights)
    difference = count - rank(predictions)

    def with_less() -> Tensor:
        return squeeze(weights, [-1]) if _may_go(known) else weights

    def with_more() -> Tensor:
        made: Tensor = cond(
            equal(difference, -1), lambda: expand_dims(weights, [-1]), lambda: weights
        )
        return made

    chosen: Tensor = cond(
        equal(count, 0),
        lambda: weights,
        lambda: cond(equal(difference, 1), with_less, with_more),
    )
    return chosen
