"""What ragged tensors are to sessions: values and where each row of them begins, nested.

`ops.array.ragged` has the class that programs use.
Called by: client (feeds and fetches), ops.  Threads: as graph.
"""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np


class Ragged:
    """Values in rows: row i is values[row_splits[i]:row_splits[i + 1]]; the values may be ragged themselves."""

    _values: Any
    _row_splits: Any

    @property
    def values(self) -> Any:
        """The rows end to end: a tensor, or a ragged one."""
        return self._values

    @property
    def row_splits(self) -> Any:
        """Where each row begins, and where the last one ends, [rows + 1]."""
        return self._row_splits

    @property
    def flat_values(self) -> Any:
        """The innermost values."""
        return self._values.flat_values if isinstance(self._values, Ragged) else self._values

    @property
    def nested_row_splits(self) -> tuple[Any, ...]:
        """row_splits of this and of the values within, from the outermost on."""
        inner = self._values.nested_row_splits if isinstance(self._values, Ragged) else ()
        return (self._row_splits, *inner)

    @property
    def ragged_rank(self) -> int:
        """How many dimensions are ragged, one within the other."""
        return len(self.nested_row_splits)


class RaggedTensorValue(Ragged):
    """A ragged tensor as arrays: what a session returns for one, and what one is fed."""

    def __init__(self, values: Any, row_splits: Any) -> None:
        """Raises TypeError, ValueError unless row_splits is a vector of int32 or int64."""
        splits = row_splits
        if not isinstance(splits, np.ndarray | np.generic) or splits.dtype not in (
            np.int64,
            np.int32,
        ):
            raise TypeError("row_splits must be a numpy array with dtype int32 or int64")
        if np.ndim(splits) != 1:
            raise ValueError(f"row_splits must be a vector, and has shape {np.shape(splits)}")
        if not isinstance(values, np.ndarray | np.generic | RaggedTensorValue):
            raise TypeError("values must be a numpy array or a RaggedTensorValue")
        self._values = values
        self._row_splits = splits

    @classmethod
    def from_nested(cls, flat_values: Any, splits: Any) -> Any:
        """Of innermost values and the row_splits of every dimension, from the outermost on."""
        found = flat_values
        for each in reversed(list(splits)):
            found = cls(found, each)
        return found

    @property
    def dtype(self) -> Any:
        """NumPy's, of the values."""
        return self._values.dtype

    @property
    def shape(self) -> tuple[int | None, ...]:
        """None for a ragged dimension."""
        return (len(self._row_splits) - 1, None, *self._values.shape[1:])

    def to_list(self) -> list[Any]:
        """The rows as lists."""
        ends = self._row_splits.tolist()
        whole = (
            self._values.to_list()
            if isinstance(self._values, RaggedTensorValue)
            else self._values.tolist()
        )
        return [whole[a:b] for a, b in itertools.pairwise(ends)]

    def __repr__(self) -> str:
        return f"tf.RaggedTensorValue(values={self._values!r}, row_splits={self._row_splits!r})"
