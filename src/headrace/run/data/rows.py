"""Rows of an SQLite database, as a query gives them.

Called by: ops.data.dataset_files.  Threads: as run.data.stage; the connection is used by whoever pulls.
Source: TF 1.15 core/kernels/data/experimental/sql_dataset_op.cc, for behaviour
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from headrace.base import dtypes, errors
from headrace.base.dtypes import DType
from headrace.run.data.chunks import Chunk, Column, objects
from headrace.run.data.stage import Iteration, Position, Stage
from headrace.run.readers.files import file_error, name_of

if TYPE_CHECKING:
    import sqlite3


class Rows(Stage):
    """See the module header.  The database is opened for reading, through the files that the task may use."""

    def __init__(self, run: Iteration, path: str, query: str, types: Sequence[DType]) -> None:
        super().__init__(run)
        self._path = path
        self._query = query
        self._types = tuple(types)
        self._connection: sqlite3.Connection | None = None
        self._cursor: sqlite3.Cursor | None = None
        self._given = 0
        self._ended = False

    def pull(self, most: int) -> Chunk | None:
        """See `Stage`."""
        import sqlite3  # takes its time to load

        if self._ended:
            return None
        try:
            if self._cursor is None:
                self._open()
            assert self._cursor is not None
            rows = self._cursor.fetchmany(most)
        except sqlite3.Error as error:
            self.close()
            raise errors.unknown(f"Prepare() failed: {error}: {self._query}") from error
        if not rows:
            self._ended = True
            self.close()
            return None
        self._given += len(rows)
        columns = zip(self._types, zip(*rows, strict=True), strict=True)
        return Chunk([_column(dtype, values) for dtype, values in columns], len(rows), True)

    def _open(self) -> None:
        import sqlite3

        path = os.fsencode(self._path)
        try:
            with self.run.files.open(path, "rb", 0) as file:
                self._connection = sqlite3.connect(
                    f"file:{name_of(file)}?mode=ro&immutable=1", uri=True, check_same_thread=False
                )
                self._cursor = self._connection.execute(self._query)
        except (OSError, ValueError) as error:
            raise file_error(path, error) from None
        count = len(self._cursor.description or ())
        if count != len(self._types):
            self.close()
            raise errors.invalid_argument(
                f"The number of columns in query ({count}) must match the number of elements in output_types "
                f"({len(self._types)})."
            )

    def save(self) -> Position:
        """How many were given."""
        return [self._given, int(self._ended)]

    def restore(self, position: Position) -> None:
        """See `save`.  The rows before are read for nothing."""
        given, ended = position
        while self._given < given and self.pull(given - self._given) is not None:
            pass
        self._ended = bool(ended)

    def close(self) -> None:
        """See `Stage`."""
        connection, self._connection, self._cursor = self._connection, None, None
        if connection is not None:
            connection.close()


def _column(dtype: DType, values: Sequence[Any]) -> Column:
    """As SQLite converts what is not of the type that is wanted."""
    if dtype is dtypes.string:
        return objects([_text(value) for value in values])
    if dtype.is_bool:
        return np.array([bool(_number(value)) for value in values], np.bool_)
    if dtype.is_floating:
        return np.array([float(_number(value)) for value in values], dtype.np)
    wide = np.array([int(_number(value)) for value in values], np.int64)
    return wide.astype(dtype.np)


def _text(value: Any) -> bytes:
    if value is None:
        return b""
    return value if isinstance(value, bytes) else str(value).encode()


def _number(value: Any) -> Any:
    if value is None:
        return 0
    if isinstance(value, (int, float)):
        return value
    text = value.decode(errors="replace") if isinstance(value, bytes) else value
    try:
        return float(text)
    except ValueError:
        return 0
