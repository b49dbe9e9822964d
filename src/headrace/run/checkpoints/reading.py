"""Reading checkpoints: of either format, through the `Files` of a task.

Called by: ops.io.checkpoints, run.checkpoints.writing, training (checkpoint readers).  Threads: a checkpoint one at a
time.  Blocks for the disk; polls the step between pieces.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from typing import BinaryIO, Final

import numpy as np

from headrace.base import dtypes, errors
from headrace.codec import bundle_reader, slice_table
from headrace.codec.ordered import Extent
from headrace.codec.sorted_table import Table
from headrace.codec.tensor_bundle import Array, Buffer, index_name, shard_name
from headrace.run.exec.polling import poll
from headrace.run.readers.files import Files, file_error

Matching = Callable[[bytes, Files], Sequence[bytes]]
"""(pattern, files) -> the names of the files that match."""

_PIECE_BYTES: Final = 1 << 24


@contextmanager
def table_of(path: bytes, files: Files) -> Iterator[Table]:
    """A file that is a sorted table.  Raises NotFound and other errors of files, DataLoss."""
    with _opened(path, files) as file:
        number = file.fileno()
        size = os.fstat(number).st_size
        yield Table(lambda at, count: os.pread(number, count, at), size, os.fsdecode(path))


def _opened(path: bytes, files: Files) -> BinaryIO:
    try:
        return files.open(path, "rb", 0)
    except (OSError, ValueError) as error:
        raise file_error(path, error) from None


class Checkpoint:
    """A checkpoint that is read; a context manager, for it keeps files open."""

    def __init__(
        self, prefix: bytes, files: Files, matching: Matching, bundles: bool = True
    ) -> None:
        """prefix: of format V2, or a pattern of files of V1.  bundles: whether V2 will do.

        Raises NotFound (no such files), DataLoss (no checkpoints), PermissionDenied and other errors of files.
        """
        self.prefix = os.fsdecode(prefix)
        self._files, self._shards, self._stack = files, dict[int, BinaryIO](), ExitStack()
        index = os.fsencode(index_name(self.prefix))
        self.bundle: bundle_reader.Reader | None = None
        self.slices: slice_table.Reader | None = None
        with ExitStack() as opened:
            if bundles and files.exists(index):
                table = opened.enter_context(table_of(index, files))
                self.bundle = bundle_reader.Reader(table, self._read_shard, self.prefix)
            else:
                found = matching(prefix, files)
                if not found:
                    raise self._nothing()
                tables = [opened.enter_context(table_of(path, files)) for path in found]
                self.slices = slice_table.Reader(tables, self.prefix)
            self._stack.push(opened.pop_all())

    def _nothing(self) -> errors.OpError:
        return errors.not_found(
            f"Unsuccessful TensorSliceReader constructor: Failed to find any matching files for {self.prefix}: there "
            f"is neither {index_name(self.prefix)!r} nor a file of that name on the disk of the task that restores; "
            "a checkpoint lies where the task that saved it runs"
        )

    def __enter__(self) -> Checkpoint:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

    def close(self) -> None:
        """Close its files."""
        self._stack.close()

    def names(self) -> Iterator[str]:
        """The tensors, in order."""
        return self._reader.names()

    def has(self, name: str) -> bool:
        """Whether there is a tensor of that name."""
        return self._reader.has(name)

    def about(self, name: str) -> tuple[dtypes.DType, tuple[int, ...]]:
        """Type and sizes of a tensor.  Raises NotFound."""
        if self.slices is not None:
            return self.slices.about(name)
        assert self.bundle is not None
        entry = self.bundle.entry(name)
        return dtypes.as_dtype(entry.dtype), tuple(dim.size for dim in entry.shape.dim)

    def tensor(self, name: str) -> Array:
        """The value of a tensor, the caller's own.  Raises NotFound, DataLoss."""
        return self._reader.tensor(name)

    def part(self, name: str, extents: Sequence[Extent]) -> Array:
        """A part of a tensor, however it was cut when it was saved.  Raises NotFound, InvalidArgument, DataLoss."""
        return self._reader.part(name, extents)

    @property
    def _reader(self) -> bundle_reader.Reader | slice_table.Reader:
        if self.bundle is not None:
            return self.bundle
        assert self.slices is not None
        return self.slices

    def _read_shard(self, shard: int, count: int, offset: int, size: int) -> Buffer:
        file = self._shards.get(shard)
        if file is None:
            path = os.fsencode(shard_name(self.prefix, shard, count))
            file = self._shards[shard] = self._stack.enter_context(_opened(path, self._files))
        there = os.fstat(file.fileno()).st_size - offset
        found = np.empty(max(0, min(size, there)), np.uint8)
        at = 0
        while at < found.size:
            poll()
            into = memoryview(found)[at : at + _PIECE_BYTES]  # type: ignore[arg-type]
            got = os.preadv(file.fileno(), [into], offset + at)
            if not got:
                return found[:at]
            at += got
        return found
