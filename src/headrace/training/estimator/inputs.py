"""numpy_input_fn and pandas_input_fn: batches of what is in memory, as an input_fn gives them.

Called by: programs.  Threads: as graph.
Source: TF 1.15 behaviour; batches, nodes and messages are compared with the oracle
"""

from __future__ import annotations

import importlib.util
import logging
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from headrace.training.estimator.feeding import filled_queue

__all__ = ["numpy_input_fn", "pandas_input_fn"]

log = logging.getLogger("headrace")

InputFn = Callable[[], Any]


def _check_shuffle(shuffle: Any) -> None:
    if not isinstance(shuffle, bool):
        raise ValueError(
            "shuffle must be provided and explicitly set as boolean (it is recommended to set it as True for "
            f"training); got {shuffle}"
        )


def _batches(
    columns: Sequence[Any],
    batch_size: int,
    num_epochs: int | None,
    shuffle: bool,
    queue_capacity: int,
    num_threads: int,
) -> list[Any]:
    """A tensor of a batch for each column; the last batch of all epochs may be smaller."""
    if num_threads > 1 and num_epochs is not None:
        log.warning("each of the %d threads hands out all rows %d times", num_threads, num_epochs)
    queue = filled_queue(
        [np.asarray(each) for each in columns],
        queue_capacity,
        shuffle,
        num_threads,
        max(1, int(batch_size / num_threads)) if num_threads else 1,
        num_epochs,
    )
    dequeue = queue.dequeue_many if num_epochs is None else queue.dequeue_up_to
    return list(dequeue(batch_size)[1:])


def numpy_input_fn(
    x: Any,
    y: Any = None,
    batch_size: int = 128,
    num_epochs: int | None = 1,
    shuffle: bool | None = None,
    queue_capacity: int = 1000,
    num_threads: int = 1,
) -> InputFn:
    """An input_fn of arrays whose first dimension is the example.

    x: an array, or arrays by feature; y: labels, an array or arrays by name, or None: then it gives features only.
    num_epochs: how often each example comes; None: without end.  shuffle: has to be said.  queue_capacity: of examples;
    a quarter of it is kept to be shuffled.  num_threads: fill the queue; without shuffling, only one keeps the order.
    Raises ValueError (shuffle is not said); what it gives raises ValueError, TypeError (x, y).
    """
    _check_shuffle(shuffle)

    def input_fn() -> Any:
        features = _features(x)
        labels = _labels(y)
        if isinstance(labels, Mapping) and (shared := {*features} & {*labels}):
            raise ValueError(f"{len(shared)} duplicate keys are found in both x and y: {shared}")
        _check_lengths(features, labels)
        columns = [*features.values()]
        if labels is not None:
            columns += labels.values() if isinstance(labels, Mapping) else [labels]
        found = _batches(
            columns, batch_size, num_epochs, bool(shuffle), queue_capacity, num_threads
        )
        count = len(features)
        batch: Any = dict(zip(features, found, strict=False))
        if not isinstance(x, Mapping):
            (batch,) = batch.values()
        if labels is None:
            return batch
        if isinstance(labels, Mapping):
            return batch, dict(zip(labels, found[count:], strict=True))
        return batch, found[count]

    return input_fn


def _features(x: Any) -> dict[str, Any]:
    """Arrays by sorted names.  Raises TypeError, ValueError."""
    if not isinstance(x, (Mapping, np.ndarray)):
        raise TypeError(f"x must be a dict or array; got {type(x).__name__}")
    if isinstance(x, np.ndarray):
        return {"": x}
    if not x:
        raise ValueError("x cannot be an empty dict")
    return dict(sorted(x.items()))


def _labels(y: Any) -> Any:
    """None, an array, or arrays by sorted names.  Raises ValueError."""
    if not isinstance(y, Mapping):
        return y
    if not y:
        raise ValueError("y cannot be empty dict, use None instead.")
    return dict(sorted(y.items()))


def _check_lengths(features: Mapping[str, Any], labels: Any) -> None:
    """Raise ValueError if there are more of one than of another."""
    shapes = {name: each.shape for name, each in features.items()}
    of_labels: Any = None
    lengths = [shape[0] for shape in shapes.values()]
    if isinstance(labels, Mapping):
        of_labels = {name: each.shape for name, each in labels.items()}
        lengths += [shape[0] for shape in of_labels.values()]
    elif labels is not None:
        of_labels = labels.shape
        lengths.append(of_labels[0])
    if len(set(lengths)) > 1:
        raise ValueError(
            "Length of tensors in x and y is mismatched. All elements in x and y must have the same length.\n"
            f"Shapes in x: {shapes}\nShapes in y: {of_labels}\n"
        )


def pandas_input_fn(
    x: Any,
    y: Any = None,
    batch_size: int = 128,
    num_epochs: int | None = 1,
    shuffle: bool | None = None,
    queue_capacity: int = 1000,
    num_threads: int = 1,
    target_column: str = "target",
) -> InputFn:
    """An input_fn of a pandas DataFrame, whose columns are features; see `numpy_input_fn`.

    y: a Series of labels of the same index, or a DataFrame, which gives labels by name; or None.
    target_column: what the labels are called among the columns, none of which may have that name.
    Raises TypeError (pandas is not installed), ValueError.
    """
    if importlib.util.find_spec("pandas") is None:
        raise TypeError(
            "pandas_input_fn should not be called without pandas installed: `pip install pandas`, or give arrays to "
            "numpy_input_fn"
        )
    _check_shuffle(shuffle)
    names = list(getattr(y, "columns", ()))  # of the labels; a Series has none
    if y is not None and not names and target_column in getattr(x, "columns", ()):
        raise ValueError(
            f"Cannot use name {target_column} for target column: DataFrame already has a column with that name: "
            f"{x.columns}"
        )

    def input_fn() -> Any:
        table = x.copy()
        if y is not None and not np.array_equal(x.index, y.index):
            raise ValueError(
                f"Index for x and y are mismatched.\nIndex for x: {x.index}\nIndex for y: {y.index}\n"
            )
        columns = [table[name] for name in table.columns]
        count = len(columns)
        if y is not None:
            columns += [y[name] for name in names] or [y]
        found = _batches(
            columns, batch_size, num_epochs, bool(shuffle), queue_capacity, num_threads
        )
        features = dict(zip(table.columns, found, strict=False))
        if y is None:
            return features
        return features, dict(zip(names, found[count:], strict=True)) if names else found[count]

    return input_fn
