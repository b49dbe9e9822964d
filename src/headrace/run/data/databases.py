"""Entries of LMDB databases, in the order of their keys, one database after the other.

Called by: ops.data.dataset_files.  Threads: as run.data.stage; a database is used by whoever pulls.
Source: TF 1.15 core/kernels/data/experimental/lmdb_dataset_op.cc, for behaviour
"""

from __future__ import annotations

from collections.abc import Sequence

from headrace.run.data.chunks import Chunk, objects
from headrace.run.data.stage import Iteration, Position, Stage
from headrace.run.readers.files import file_error
from headrace.run.readers.reader import Record
from headrace.run.readers.record_readers import LMDBCursor


class Entries(Stage):
    """Keys and values."""

    def __init__(self, run: Iteration, paths: Sequence[bytes]) -> None:
        """Raises Unimplemented where the package lmdb is missing."""
        super().__init__(run)
        self._paths = list(paths)
        self._cursor = LMDBCursor(run.files)
        self._at = 0  # of the paths
        self._given = 0  # of the database
        self._open = False

    def pull(self, most: int) -> Chunk | None:
        """See `Stage`."""
        while self._at < len(self._paths):
            if not self._open:
                self._begin()
            found: list[Record] = []
            while len(found) < most:
                record = self._cursor.next()
                if record is None:
                    break
                found.append(record)
            if found:
                self._given += len(found)
                columns = zip(*found, strict=True)
                return Chunk([objects(values) for values in columns], len(found), True)
            self._end()
            self._at, self._given = self._at + 1, 0
            self.run.check()
        return None

    def _begin(self) -> None:
        path = self._paths[self._at]
        try:
            self._cursor.begin(path)
        except (OSError, ValueError) as error:
            raise file_error(path, error) from None
        self._open = True

    def _end(self) -> None:
        if self._open:
            self._open = False
            self._cursor.end()

    def save(self) -> Position:
        """Which database, and how many of its entries were given."""
        return [self._at, self._given]

    def restore(self, position: Position) -> None:
        """See `save`.  The entries before are read for nothing."""
        self._at, given = position
        while self._given < given and self.pull(given - self._given) is not None:
            pass

    def close(self) -> None:
        """See `Stage`."""
        self._end()
        super().close()
