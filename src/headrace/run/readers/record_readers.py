"""Readers of record files: TFRecord files, and LMDB databases through the package `lmdb`.

Called by: ops.io.readers.  Threads: as run.readers.reader; `_OPEN_LOCK` guards the databases that are open.
Source: TF 1.15 core/kernels/{tf_record_reader_op,lmdb_reader_op}.cc, for behaviour
"""

from __future__ import annotations

import importlib
import os
import threading
from collections.abc import Iterator, Sequence
from typing import Any

from headrace.base import errors
from headrace.codec import records
from headrace.run.readers.file_readers import FileReader
from headrace.run.readers.files import ANYWHERE, Files, name_of, pieces
from headrace.run.readers.reader import Reader, Record


class TFRecordReader(FileReader):
    """Records of TFRecord files; keys are ``file:offset``, the offset that of the uncompressed content.

    A corrupt or truncated record is DataLoss, and the rest of its file is given up.
    """

    def __init__(
        self,
        name: str,
        compression: str = records.NONE,
        container: str = "",
        files: Files = ANYWHERE,
    ) -> None:
        """Raises InvalidArgument."""
        super().__init__(name, container, files)
        if compression not in records.COMPRESSIONS:
            raise errors.invalid_argument(
                f"compression_type must be '', 'ZLIB' or 'GZIP' and is {compression!r}"
            )
        self._compression = compression
        self._runs: Iterator[tuple[list[int], list[bytes]]] = iter(())
        self._offsets: Sequence[int] = ()

    def begin(self, work: bytes) -> None:
        """Open the file; nothing is read before the first record is asked for."""
        self._file = self.open(work)
        path = os.fsdecode(work)
        self._runs = records.runs(pieces(self._file), path, self._compression)
        self._prefix = work + b":"

    def fill(self) -> Sequence[bytes]:
        """The records of the next piece of the file."""
        self._offsets, values = next(self._runs, ((), ()))
        return values

    def key(self, at: int) -> bytes:
        """Of a record of the block: the file and the byte at which it begins."""
        return self._prefix + str(self._offsets[at]).encode()

    def end(self) -> None:
        """Close what was opened."""
        self._runs, self._offsets = iter(()), ()
        super().end()


# -- LMDB -------------------------------------------------------------------------------------

_OPEN_LOCK = threading.Lock()
_OPEN: dict[_Identity, _Database] = {}
_Identity = tuple[int, int]
"""Of the file that a database is in: device and inode."""


class _Database:
    """A database that is open, once in a process, and how many readers use it."""

    __slots__ = ("environment", "users")

    def __init__(self, environment: Any) -> None:
        self.environment = environment
        self.users = 0


def lmdb_package() -> Any:
    """The module.  Raises Unimplemented where it is not installed."""
    try:
        return importlib.import_module("lmdb")
    except ImportError as error:
        raise errors.unimplemented(
            "an LMDB database is read by the package lmdb, which is missing in the process of the task that reads: "
            "pip install 'headrace[lmdb]' there, or write the records to TFRecord files"
        ) from error


class LMDBCursor:
    """The entries of an LMDB database, a directory or a file, in the order of their keys; then those of another."""

    def __init__(self, files: Files = ANYWHERE) -> None:
        """Raises Unimplemented."""
        self._files = files
        self._lmdb = lmdb_package()
        self._path = b""
        self._identity: _Identity | None = None
        self._transaction: Any = None
        self._entries: Iterator[Record] = iter(())

    def begin(self, path: bytes) -> None:
        """Open the database.  Raises NotFound, DataLoss and other errors of files."""
        self._path = path
        inside = os.path.join(path, b"data.mdb") if self._files.is_directory(path) else path
        try:
            with self._files.open(inside, "rb", 0) as file, _OPEN_LOCK:
                found = os.fstat(file.fileno())
                identity = found.st_dev, found.st_ino
                database = _OPEN.get(identity)
                if database is None:
                    database = _OPEN[identity] = _Database(self._open(name_of(file)))
                database.users += 1
            self._identity = identity
            self._transaction = database.environment.begin()
            self._entries = iter(self._transaction.cursor())
        except self._lmdb.Error as error:
            raise self._failed(error) from error

    def _open(self, path: str) -> Any:
        return self._lmdb.open(path, subdir=False, readonly=True, lock=False, create=False)

    def next(self) -> Record | None:
        """The next entry; None at the end.  Raises DataLoss."""
        try:
            return next(self._entries, None)
        except self._lmdb.Error as error:
            raise self._failed(error) from error

    def _failed(self, error: Any) -> errors.OpError:
        return errors.data_loss(
            f"{os.fsdecode(self._path)} cannot be read as an LMDB database: {error}"
        )

    def end(self) -> None:
        """Close what was opened."""
        self._entries = iter(())
        if self._transaction is not None:
            self._transaction.abort()
            self._transaction = None
        identity, self._identity = self._identity, None
        if identity is None:
            return
        with _OPEN_LOCK:
            database = _OPEN[identity]
            database.users -= 1
            if database.users == 0:
                del _OPEN[identity]
                database.environment.close()


class LMDBReader(Reader):
    """Entries of LMDB databases; a work item is a database's directory or file."""

    def __init__(self, name: str, container: str = "", files: Files = ANYWHERE) -> None:
        """Raises Unimplemented."""
        super().__init__(name, container, files)
        self._cursor = LMDBCursor(files)

    def begin(self, work: bytes) -> None:
        """See `LMDBCursor`."""
        self._cursor.begin(work)

    def record(self) -> Record | None:
        """The next entry, in the order of keys; None at the end.  Raises DataLoss."""
        return self._cursor.next()

    def end(self) -> None:
        """Close what was opened."""
        self._cursor.end()
