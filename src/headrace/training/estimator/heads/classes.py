"""What heads of classes share: labels by name, predictions of classes, exports.

Called by: training.estimator.heads.  Threads: as graph.
Source: TF 1.15 behaviour; checked against the oracle
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cache
from typing import Any

from headrace.base import dtypes
from headrace.graph.tensor import Tensor
from headrace.library.vocabularies import (
    index_table_from_tensor,
    index_to_string_table_from_tensor,
)
from headrace.ops.array.constants import constant
from headrace.ops.array.packing import stack
from headrace.ops.array.padding import tile
from headrace.ops.array.ranges import range as range_of
from headrace.ops.array.shapes import expand_dims
from headrace.ops.array.shapes import shape as shape_of
from headrace.ops.math.scans import argmax
from headrace.ops.nn.softmax import softmax
from headrace.ops.string.strings import as_string
from headrace.training.estimator.export_outputs import (
    ClassificationOutput,
    ExportOutput,
    PredictOutput,
)
from headrace.training.estimator.heads.head import CLASSIFY, DEFAULT, PREDICT

__all__ = ["class_exports", "class_names", "class_predictions", "looked_up", "tiled"]


def looked_up(labels: Any, vocabulary: Any) -> Any:
    """The places of labels in the vocabulary, int64; -1 where one is not in it.  Raises ValueError: no strings."""
    if labels.dtype != dtypes.string:
        raise ValueError(
            f"Labels dtype should be string if there is a vocabulary. Instead got {labels.dtype}"
        )
    return index_table_from_tensor(tuple(vocabulary), name="class_id_lookup").lookup(labels)


def tiled(row: Tensor, logits: Tensor) -> Tensor:
    """A row [classes] for each example: [batch, classes]."""
    found: Tensor = tile(expand_dims(row, 0), stack([shape_of(logits)[0], 1]))
    return found


def class_names(n_classes: int, vocabulary: Any) -> Tensor:
    """The names of the classes, [classes]: their numbers, where there is no vocabulary."""
    found: Tensor = (
        as_string(range_of(n_classes)) if vocabulary is None else constant(list(vocabulary))
    )
    return found


def class_predictions(
    scores: Callable[[], Tensor], logits: Tensor, n_classes: int, vocabulary: Any
) -> dict[str, Callable[[], Tensor]]:
    """What is predicted of classes of which each example has one.

    scores: [batch, …, classes], of which the highest is the class.
    """
    two = cache(scores)

    @cache
    def ids() -> Tensor:
        found: Tensor = expand_dims(argmax(two(), axis=-1, name="class_ids"), -1)
        return found

    def names() -> Tensor:
        if vocabulary is None:
            found: Tensor = as_string(ids(), name="str_classes")
            return found
        table = index_to_string_table_from_tensor(tuple(vocabulary), name="class_string_lookup")
        looked: Tensor = table.lookup(ids())
        return looked

    return {
        "probabilities": lambda: softmax(two(), name="probabilities"),
        "class_ids": ids,
        "classes": names,
        "all_class_ids": lambda: tiled(range_of(n_classes), logits),
        "all_classes": lambda: tiled(class_names(n_classes, vocabulary), logits),
    }


def class_exports(
    predictions: Mapping[Any, Tensor], n_classes: int, vocabulary: Any
) -> dict[str, ExportOutput]:
    """Classes and probabilities of them, for serving; and all that is predicted."""
    scores = predictions["probabilities"]
    output = ClassificationOutput(scores, tiled(class_names(n_classes, vocabulary), scores))
    return {DEFAULT: output, CLASSIFY: output, PREDICT: PredictOutput(predictions)}
