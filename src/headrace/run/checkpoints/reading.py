"""Reading checkpoints: of either format, through the `Files` of a task.

A value that goes to a variable can be left in its file when it has been checked, to be read a second time into the
variable's own memory: a copy of all values would need as much memory again, to be looked at twice.
Called by: ops.io.checkpoints, run.checkpoints.writing, training (checkpoint readers).  Threads: a checkpoint one at a
time; those of the worker pool help.  Blocks for the disk; polls the step between pieces.
"""

from __future__ import annotations

import os
import weakref
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from typing import Any, BinaryIO, Final

import numpy as np

from headrace.base import dtypes, errors
from headrace.codec import bundle_reader, slice_table
from headrace.codec.bundle_reader import Stored
from headrace.codec.checksums import crc32c
from headrace.codec.ordered import Extent
from headrace.codec.records import masked
from headrace.codec.sorted_table import Table
from headrace.codec.tensor_bundle import CHECKED_APART, Array, index_name, shard_name
from headrace.run.exec import polling
from headrace.run.exec.polling import poll_for
from headrace.run.exec.worker_pool import parallel_for
from headrace.run.readers.files import Files, file_error
from headrace.run.scope import Scope
from headrace.run.state.unread import Unread

Matching = Callable[[bytes, Files], Sequence[bytes]]
"""(pattern, files) -> the names of the files that match."""

_PIECE_BYTES: Final = 1 << 20
"""What is looked at while it is in the cache."""
_SHARED_BYTES: Final = 1 << 22


@contextmanager
def table_of(path: bytes, files: Files) -> Iterator[Table]:
    """A file that is a sorted table.  Raises NotFound and other errors of files, DataLoss."""
    with _opened(path, files) as file:
        number = file.fileno()
        size = os.fstat(number).st_size
        yield Table(lambda at, count: os.pread(number, count, at), size, os.fsdecode(path))


def _opened(path: bytes, files: Files) -> BinaryIO:
    try:
        if files.exists(path) and not files.is_regular(path):  # a pipe would wait for who writes
            raise errors.failed_precondition(f"{os.fsdecode(path)} is no regular file")
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
        self._files, self._shards, self._stack = files, dict[int, Shard](), ExitStack()
        index = os.fsencode(index_name(self.prefix))
        self.bundle: bundle_reader.Reader | None = None
        self.slices: slice_table.Reader | None = None
        with ExitStack() as opened:
            if bundles and files.exists(index):
                table = opened.enter_context(table_of(index, files))
                self.bundle = bundle_reader.Reader(table, self._read_stored, self.prefix)
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
        """Close its files; those of values that were left in them when they are read."""
        self._stack.close()
        self._shards.clear()

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

    def values(
        self, wanted: Sequence[tuple[str, Sequence[Extent] | None]], left: Sequence[bool]
    ) -> list[Array | Unread]:
        """Tensors, or parts of them, all checked before any is given; where `left` allows it they stay in the file.

        Raises as `tensor` and `part`.  Threads of the current worker pool help.
        """
        found: list[Any] = [None] * len(wanted)
        together = []
        for at, ((name, extents), leave) in enumerate(zip(wanted, left, strict=True)):
            stored = self._stored(name, extents)
            if stored is None:
                found[at] = self.tensor(name) if extents is None else self.part(name, extents)
            else:
                together.append((at, stored, self._shard(stored), leave))
        scope = polling.current()

        def take(job: tuple[int, Stored, Shard, bool]) -> None:
            at, stored, shard, leave = job
            if leave and stored.dtype not in (dtypes.bool, dtypes.variant):
                shard.check(stored, scope)
                found[at] = LeftInFile(stored, shard)
            else:
                found[at] = shard.read(stored, scope)

        parallel_for(take, together)
        return found

    def _stored(self, name: str, extents: Sequence[Extent] | None) -> Stored | None:
        return None if self.bundle is None else self.bundle.stored(name, extents)

    def _shard(self, stored: Stored) -> Shard:
        assert self.bundle is not None
        number = stored.entry.shard_id
        shard = self._shards.get(number)
        if shard is None:
            path = os.fsencode(shard_name(self.prefix, number, self.bundle.header.num_shards))
            shard = self._shards[number] = Shard(_opened(path, self._files))
        return shard

    def _read_stored(self, stored: Stored) -> Array:
        return self._shard(stored).read(stored, polling.current())


class Shard:
    """A data file, which is open as long as somebody has it."""

    def __init__(self, file: BinaryIO) -> None:
        self._number = file.fileno()
        self._about = self._status()
        weakref.finalize(self, file.close)

    def _status(self) -> tuple[int, int]:
        about = os.fstat(self._number)
        return about.st_size, about.st_mtime_ns

    def read(self, stored: Stored, scope: Scope | None) -> Array:
        """A tensor, checked.  scope: polled.  Raises DataLoss, ResourceExhausted (memory)."""
        entry = stored.entry
        self._check_size(stored)
        try:
            content = np.empty(entry.size, np.uint8)
        except MemoryError:
            raise errors.resource_exhausted(
                f"no memory for the {entry.size} bytes of {stored.where}"
            ) from None
        crc = 0
        for at in range(0, entry.size, _PIECE_BYTES):
            poll_for(scope)
            piece = content[at : at + _PIECE_BYTES]
            self._fill(piece, stored, at)
            crc = crc32c(piece, crc)
        return stored.decoded(content, None if entry.dtype in CHECKED_APART else masked(crc))

    def check(self, stored: Stored, scope: Scope | None) -> None:
        """Look at the checksum of a tensor of numbers.  Raises DataLoss."""
        size = stored.entry.size
        self._check_size(stored)
        room = np.empty(min(size, _PIECE_BYTES), np.uint8)
        crc = 0
        for at in range(0, size, _PIECE_BYTES):
            poll_for(scope)
            piece = room[: size - at]
            self._fill(piece, stored, at)
            crc = crc32c(piece, crc)
        stored.check(masked(crc))

    def read_again(self, stored: Stored, into: Array) -> None:
        """Read a tensor that was checked.  Raises DataLoss if the file has changed since."""
        content = into.reshape(-1).view(np.uint8)
        parts = range(0, content.size, _SHARED_BYTES)
        parallel_for(lambda at: self._fill(content[at : at + _SHARED_BYTES], stored, at), parts)
        if self._status() != self._about:
            raise errors.data_loss(
                f"{stored.where}: the file was changed while it was restored; restore again"
            )

    def _check_size(self, stored: Stored) -> None:
        stored.check_size(max(0, min(stored.entry.size, self._about[0] - stored.entry.offset)))

    def _fill(self, into: Array, stored: Stored, begin: int) -> None:
        """The bytes of a tensor from `begin` on."""
        view, at = memoryview(into), 0  # type: ignore[arg-type]  # arrays have buffers
        while at < len(view):
            got = os.preadv(self._number, [view[at:]], stored.entry.offset + begin + at)
            if not got:
                stored.check_size(begin + at)
            at += got


class LeftInFile(Unread):
    """A tensor of a shard, which has been checked."""

    __slots__ = ("_shard", "_stored")

    def __init__(self, stored: Stored, shard: Shard) -> None:
        super().__init__(np.dtype(stored.dtype.as_numpy_dtype), stored.sizes)
        self._stored, self._shard = stored, shard

    def read_into(self, array: Array) -> None:
        """See `Unread`."""
        self._shard.read_again(self._stored, array)
