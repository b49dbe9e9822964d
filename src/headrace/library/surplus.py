"""Labels and predictions, of which one has a last dimension too many.

Called by: library.metrics, library.nn, library.sorting.  Threads: as graph.
"""

from __future__ import annotations

from headrace.graph.tensor import Tensor
from headrace.ops.array.shapes import squeeze


def without_surplus(labels: Tensor, predictions: Tensor, classes: int = 0) -> tuple[Tensor, Tensor]:
    """Both; the one with a dimension too many is without its last, if that may be of size 1.

    classes: how many dimensions predictions have beyond those of labels, as they should.
    """
    known, wanted = predictions.raw_shape, labels.raw_shape
    if known is not None and wanted is not None:
        surplus = len(known) - len(wanted) - classes
        if surplus == 1 and known[-1] in (None, 1):
            predictions = squeeze(predictions, [-1])
        elif surplus == -1 and wanted[-1] in (None, 1):
            labels = squeeze(labels, [-1])
    return labels, predictions
