"""Cache: elements are kept when they come for the first time, and given from there in later passes.

What was kept counts as soon as a pass has come to its end.  One kind keeps in memory, as long as the dataset lives;
the other in files, a record of all components for each element, written beside and renamed at the end.
Called by: ops.data (datasets).  Threads: as run.data.stage; `Cache` any.
Source: TF 1.15 core/kernels/data/cache_dataset_ops.cc, for behaviour; the files are of a format of our own
"""

from __future__ import annotations

import contextlib
import os
import threading
from collections.abc import Iterator, Sequence
from typing import BinaryIO, Final

from headrace.base import errors
from headrace.base.dtypes import DType
from headrace.codec.records import framed, runs
from headrace.run.data.chunks import Chunk, total_bytes
from headrace.run.data.positions import decoded, encoded
from headrace.run.data.stage import Dataset, Iteration, Position, Stage
from headrace.run.readers.files import file_error, pieces

_NEW: Final = b".writing"


class Cache:
    """What a dataset keeps in memory."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._kept: tuple[Chunk, ...] | None = None

    @property
    def kept(self) -> tuple[Chunk, ...] | None:
        """All elements; None as long as no pass has come to the end."""
        with self._lock:
            return self._kept

    def complete(self, chunks: tuple[Chunk, ...]) -> None:
        """A pass has come to the end; the first one counts."""
        with self._lock:
            if self._kept is None:
                self._kept = chunks


class MemoryCache(Stage):
    """See the module header."""

    def __init__(self, run: Iteration, source: Dataset, cache: Cache) -> None:
        super().__init__(run)
        self._source = source
        self._cache = cache
        self._new: list[Chunk] = []
        self._bytes = 0
        self._kept = cache.kept
        self._at = self._within = self._given = 0
        self._ended = False

    def pull(self, most: int) -> Chunk | None:
        """See `Stage`."""
        if self._kept is not None:
            return self._again(most)
        if self._ended:
            return None
        if not self.inputs:
            self.inputs = (self.run.stage_of(self._source, 0, self.place),)
        chunk = self.inputs[0].pull(most)
        if chunk is None:
            self._ended = True
            self._cache.complete(tuple(self._new))
            return None
        kept = Chunk(chunk.columns, chunk.count)
        self._new.append(kept)
        self._bytes += kept.size
        return kept

    def _again(self, most: int) -> Chunk | None:
        assert self._kept is not None
        if self._at >= len(self._kept):
            return None
        chunk = self._kept[self._at]
        start = self._within
        stop = min(chunk.count, start + most)
        self._at, self._within = (self._at + 1, 0) if stop == chunk.count else (self._at, stop)
        self._given += stop - start
        return chunk.part(start, stop)

    def buffered(self) -> tuple[int, int] | None:
        """What is kept."""
        kept = self._kept
        if kept is not None:
            return sum(chunk.count for chunk in kept), total_bytes(kept)
        return sum(chunk.count for chunk in list(self._new)), self._bytes

    def save(self) -> Position:
        """All that is kept, and how many of it were given."""
        kept = self._kept
        return {
            "kept": int(kept is not None),
            "chunks": list(self._new if kept is None else kept),
            "given": self._given,
            "ended": int(self._ended),
            "made": len(self.inputs),
        }

    def restore(self, position: Position) -> None:
        """See `save`."""
        chunks = [Chunk(chunk.columns, chunk.count) for chunk in position["chunks"]]
        self._ended = bool(position["ended"])
        if position["kept"] or self._ended:
            self._cache.complete(tuple(chunks))
        if position["kept"]:
            self._kept = tuple(chunks)
            left = self._given = position["given"]
            while self._at < len(chunks) and left >= chunks[self._at].count:
                left -= chunks[self._at].count
                self._at += 1
            self._within = left
            return
        self._kept = None
        self._new, self._bytes = chunks, total_bytes(chunks)
        self.inputs = (self.run.stage_of(self._source, 0, self.place),) if position["made"] else ()


class FileCache(Stage):
    """See the module header.  Two iterators that write at the same time are one too many: AlreadyExists."""

    def __init__(
        self, run: Iteration, source: Dataset, name: bytes, types: Sequence[DType]
    ) -> None:
        super().__init__(run)
        self._source = source
        self._path = name + b".headrace"
        self._types = tuple(types)
        self._file: BinaryIO | None = None
        self._records: Iterator[tuple[list[int], list[bytes]]] | None = None
        self._read: list[bytes] = []
        self._given = 0
        self._ended = False

    def pull(self, most: int) -> Chunk | None:
        """See `Stage`."""
        if self._ended:
            return None
        if self._file is None:
            self._open()
        if self._records is not None:
            return self._again(most)
        chunk = self.inputs[0].pull(most)
        if chunk is None:
            self._complete()
            return None
        assert self._file is not None
        for element in chunk.elements():
            self._file.write(framed(encoded(list(element))))
        self._given += chunk.count
        return Chunk(chunk.columns, chunk.count)

    def _open(self) -> None:
        files, path = self.run.files, self._path
        try:
            if files.is_regular(path):
                self._file = files.open(path, "rb")
                self._records = runs(pieces(self._file), os.fsdecode(path))
                return
            self._file = files.open(path + _NEW, "xb")
        except FileExistsError:
            raise errors.already_exists(
                f"There appears to be a concurrent caching iterator running - cache lockfile already exists "
                f"('{os.fsdecode(path + _NEW)}'). If you are sure no other running TF computations are using this "
                "cache prefix, delete the lockfile and re-initialize the iterator."
            ) from None
        except (OSError, ValueError) as error:
            raise file_error(path, error) from None
        if not self.inputs:
            self.inputs = (self.run.stage_of(self._source, 0, self.place),)

    def _again(self, most: int) -> Chunk | None:
        assert self._records is not None
        while not self._read:
            _, self._read = next(self._records, ([], []))
            if not self._read:
                self._ended = True
                self._close_file()
                return None
        some, self._read = self._read[:most], self._read[most:]
        self._given += len(some)
        return Chunk.of([tuple(decoded(each)) for each in some], True)

    def _complete(self) -> None:
        self._ended = True
        self._close_file()
        try:
            self.run.files.replace(self._path + _NEW, self._path)
        except OSError as error:
            raise file_error(self._path, error) from None

    def _close_file(self) -> None:
        file, self._file = self._file, None
        if file is not None:
            file.close()

    def save(self) -> Position:
        """How many were given, and whether from the file."""
        if self._records is None and self._file is not None:
            raise errors.unimplemented(
                "an iterator cannot be saved while it writes a cache file: save it after the first pass, or cache in "
                "memory"
            )
        return [self._given, int(self._ended), int(self._records is not None)]

    def restore(self, position: Position) -> None:
        """See `save`."""
        given, ended, reads = position
        self._ended = bool(ended)
        if reads and not ended:
            self._open()
            while self._given < given and self._again(given - self._given) is not None:
                pass
        self._given = given

    def close(self) -> None:
        """A file that was not written to its end is gone."""
        writing = self._records is None and self._file is not None
        self._close_file()
        if writing:
            with contextlib.suppress(OSError, errors.OpError):
                self.run.files.remove(self._path + _NEW)
        super().close()
