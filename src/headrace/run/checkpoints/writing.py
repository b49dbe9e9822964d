"""Writing checkpoints, so that whatever happens meanwhile the last one that was whole stays whole and can be found.

Every file is written under a name of its own, forced to the disk and renamed; the index comes last, for a checkpoint is
what its index says.  Of a part that savers merge at once only the data is forced to the disk.  Where one is written
over another, both use the same names: the new data gets names for another number of shards, its index takes the old
one's place in one moment, and only then does the data move to the usual names (as links, so that both indexes are true
meanwhile).
Called by: ops.io.checkpoints, training.saver.  Threads: any; writes of one prefix at the same time are the callers'
mistake.  A large file has a thread of its own that flushes, and that ends with it.  Blocks for the disk; polls the step
between pieces.
"""

from __future__ import annotations

import contextlib
import itertools
import os
import re
import threading
from collections.abc import Iterable, Mapping, Sequence
from types import TracebackType
from typing import BinaryIO, Final

from headrace.base import errors
from headrace.codec import protos as pb
from headrace.codec import tensor_bundle
from headrace.codec.checksums import Buffer, crc32c
from headrace.codec.tensor_bundle import shard_name
from headrace.run.checkpoints.reading import table_of
from headrace.run.exec.polling import poll
from headrace.run.exec.worker_pool import parallel_for
from headrace.run.readers.files import Files, file_error

Entries = Mapping[bytes, pb.BundleEntryProto]

_PIECE_BYTES: Final = 1 << 22
_FLUSHED_BYTES: Final = 1 << 25
_KEEP_SIZE: Final = 1
_SHARED_BYTES: Final = 1 << 24
_LEAST_SHARED_BYTES: Final = 1 << 19


def directory_of(path: bytes) -> bytes:
    """The directory of a file, as `Files` takes it."""
    return os.path.dirname(path) or b"."


def ensure_directory(path: bytes, files: Files) -> None:
    """Make the directory of `path`, if the one that it is in is there.  Raises NotFound and other errors of files."""
    directory = os.path.dirname(path)
    if directory and not files.is_directory(directory):
        try:
            files.make_directory(directory)
        except (OSError, ValueError) as error:
            raise file_error(directory, error) from None


def _allocate(number: int, nbytes: int) -> None:
    """fallocate(2), without what the C library does where a file system cannot: write zeros.  Never mind if it fails:
    what is written then says so.
    """
    import ctypes

    with contextlib.suppress(OSError, AttributeError):
        allocate = ctypes.CDLL(None).fallocate
        allocate.argtypes = (ctypes.c_int, ctypes.c_int, ctypes.c_int64, ctypes.c_int64)
        allocate(number, _KEEP_SIZE, 0, nbytes)


class _Flusher:
    """A thread that has what was written so far on the disk while more is written; one fsync at the end waits long."""

    def __init__(self, number: int) -> None:
        """number: the file's descriptor, open until `end`."""
        self._number = number
        self._wanted = threading.Semaphore(0)
        self._ending = False
        self.error: OSError | None = None
        self._thread = threading.Thread(target=self._run, name="checkpoint-flusher", daemon=True)
        self._thread.start()

    def _run(self) -> None:
        while True:
            self._wanted.acquire()
            if self._ending:
                return
            try:
                os.fdatasync(self._number)
            except OSError as error:  # it is told once, and not to the fsync that follows
                self.error = error
                return

    def more(self) -> None:
        """There is more to be written."""
        self._wanted.release()

    def end(self) -> None:
        """Wait for the thread, for as long as one flush takes."""
        self._ending = True
        self._wanted.release()
        self._thread.join()


class TemporaryFile:
    """A file that has a name of its own until it is whole; gone if its block ends before `publish`."""

    def __init__(self, final: bytes, files: Files) -> None:
        """final: the name that it shall have.  Raises NotFound and other errors of files."""
        self.final, self._files = final, files
        self.path = final + b".tempstate" + os.urandom(8).hex().encode()
        self._file: BinaryIO | None = None
        self._flusher: _Flusher | None = None
        self._since = 0  # bytes written since the flusher was told
        try:
            self._file = files.open(self.path, "wb", 0)
        except (OSError, ValueError) as error:
            raise file_error(final, error) from None
        self._is_there = True

    def __enter__(self) -> TemporaryFile:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._close()
        if self._is_there:
            with contextlib.suppress(OSError, errors.OpError):
                self._files.remove(self.path)

    def reserve(self, nbytes: int) -> None:
        """Have room for so many bytes, where the file system can say so at once: blocks found one by one take long."""
        if nbytes >= _FLUSHED_BYTES:
            assert self._file is not None
            _allocate(self._file.fileno(), nbytes)

    def write(self, content: Buffer) -> None:
        """Append.  Raises ResourceExhausted (no room) and other errors of files, and what ended the step."""
        assert self._file is not None
        view = memoryview(content)  # type: ignore[arg-type]  # arrays have buffers
        try:
            while len(view):
                poll()
                count = self._file.write(view[:_PIECE_BYTES])
                view = view[count:]
                self._flush_after(count)
        except OSError as error:
            raise file_error(self.final, error) from None

    def write_checked(self, content: Buffer, crc: int) -> int:
        """Append, and give the CRC-32C of what had `crc` and `content` behind it; both at once where that is worth it.

        Raises as `write`.
        """
        found = [crc]

        def check(piece: Buffer) -> None:
            found[0] = crc32c(piece, found[0])

        for at in range(0, len(content), _SHARED_BYTES):
            piece = content[at : at + _SHARED_BYTES]
            if len(piece) < _LEAST_SHARED_BYTES:
                self.write(piece)
                check(piece)
            else:
                parallel_for(lambda do: do(piece), (self.write, check))  # noqa: B023  # called before it returns
        return found[0]

    def _flush_after(self, count: int) -> None:
        """Have large files written to the disk meanwhile."""
        assert self._file is not None
        self._since += count
        if self._since >= _FLUSHED_BYTES:
            self._since = 0
            if self._flusher is None:
                self._flusher = _Flusher(self._file.fileno())
            self._flusher.more()

    def sync(self, lasting: bool = True) -> None:
        """Have what was written on the disk, and close; just close where it need not last."""
        assert self._file is not None
        try:
            if self._flusher is not None:
                self._flusher.end()
                if self._flusher.error is not None:
                    raise self._flusher.error
            if lasting:
                os.fsync(self._file.fileno())
            self._close()
        except OSError as error:
            raise file_error(self.final, error) from None

    def _close(self) -> None:
        file, self._file = self._file, None
        flusher, self._flusher = self._flusher, None
        if flusher is not None:
            flusher.end()
        if file is not None:
            file.close()

    def publish(self, path: bytes | None = None, lasting: bool = True) -> None:
        """Have the final name, or `path`; what had it is gone.  lasting: be on the disk before."""
        if self._file is not None:
            self.sync(lasting)
        rename(self.path, path or self.final, self._files)
        self._is_there = False


def rename(old: bytes, new: bytes, files: Files) -> None:
    """Rename a file over whatever has the new name.  Raises errors of files."""
    try:
        files.replace(old, new)
    except (OSError, ValueError) as error:
        raise file_error(new, error) from None


def write_file(path: bytes, pieces: Iterable[Buffer], files: Files, lasting: bool = True) -> None:
    """Make or replace a file: in one moment, and, if it is lasting, so that it survives a loss of power."""
    with TemporaryFile(path, files) as file:
        for piece in pieces:
            file.write(piece)
        file.publish(lasting=lasting)
    if lasting:
        sync_directory(path, files)


def sync_directory(path: bytes, files: Files) -> None:
    """Have the names in the directory of `path` survive a loss of power, where the file system can."""
    with contextlib.suppress(OSError):
        files.sync_directory(directory_of(path))


# -- bundles --------------------------------------------------------------------------------------


class Bundle:
    """A checkpoint of one shard, as it is written: `writer` takes tensors, `publish` makes it one."""

    def __init__(self, prefix: bytes, files: Files, nbytes: int = 0) -> None:
        """nbytes: how many it will have, or fewer.

        Raises NotFound (no such directory, nor the one it would be in) and other errors of files.
        """
        files.exists(
            _shard(prefix, 0, 1)
        )  # beneath the roots?  Asked first: the error names the file
        ensure_directory(prefix, files)
        self._prefix, self._files = prefix, files
        self._data = TemporaryFile(_shard(prefix, 0, 1), files)
        self._data.reserve(nbytes)
        self.writer = tensor_bundle.Writer(self._data.write, self._data.write_checked)

    def __enter__(self) -> Bundle:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._data.__exit__(kind, error, trace)

    def publish(self) -> None:
        """Be the checkpoint of that prefix."""
        self._data.sync()
        publish(self._prefix, [self._data.path], self.writer.entries, self._files)


def publish(prefix: bytes, shards: Sequence[bytes], entries: Entries, files: Files) -> None:
    """Have the checkpoint at `prefix` be `entries`, whose data is in the files `shards`, which are renamed.

    shards: on the disk already.  The checkpoint that was there stays until the new one is whole.
    Raises errors of files.
    """
    count, before = len(shards), _shards_of(prefix, files)
    usual = [_shard(prefix, at, count) for at in range(count)]
    if before != count:
        _move(shards, usual, prefix, entries, files)
        _tidy(prefix, usual, files)
        return
    other = next(
        more
        for more in itertools.count(count + 1)
        if not any(files.exists(_shard(prefix, at, more)) for at in range(count))
    )
    names = [_shard(prefix, at, other) for at in range(count)]
    _move(shards, names, prefix, entries, files, other)
    with contextlib.suppress(OSError, errors.OpError):  # it is whole under the other names too
        for name, wanted in zip(names, usual, strict=True):
            link = name + b".tempstate" + os.urandom(8).hex().encode()
            files.link(name, link)
            files.replace(link, wanted)
        sync_directory(prefix, files)
        _write_index(prefix, entries, count, files)
        names = usual
    _tidy(prefix, names, files)


def _move(
    shards: Sequence[bytes],
    names: Sequence[bytes],
    prefix: bytes,
    entries: Entries,
    files: Files,
    count: int = 0,
) -> None:
    for shard, name in zip(shards, names, strict=True):
        rename(shard, name, files)
    if not _PART.match(prefix):
        sync_directory(prefix, files)
    _write_index(prefix, entries, count or len(shards), files)


_PART: Final = re.compile(rb".*_temp/part-\d{5}-of-\d{5}\Z", re.DOTALL)
"""Checkpoints that are only there until savers have merged them.  Their data is on the disk by then, as that of all; of
their names and indexes nothing need survive a loss of power.
"""


def _write_index(prefix: bytes, entries: Entries, count: int, files: Files) -> None:
    index = tensor_bundle.index_name(os.fsdecode(prefix))
    content = tensor_bundle.written(dict(entries), count)
    write_file(os.fsencode(index), content, files, lasting=not _PART.match(prefix))


def _tidy(prefix: bytes, shards: Sequence[bytes], files: Files) -> None:
    """Delete what other saves of that prefix have left: shards that no index names, files that were not finished."""
    directory, name = os.path.split(prefix)
    kept = {os.path.basename(shard) for shard in shards}
    with contextlib.suppress(OSError, errors.OpError):
        found = [each for each in files.entries(directory or b".") if each not in kept]
        begins = (name + b".data-", name + b".index.tempstate")
        _forget([os.path.join(directory, each) for each in found if each.startswith(begins)], files)


def _forget(names: Iterable[bytes], files: Files) -> None:
    """Delete what no index names any more."""
    for name in names:
        with contextlib.suppress(OSError):
            files.remove(name)


def _shard(prefix: bytes, at: int, count: int) -> bytes:
    return os.fsencode(shard_name(os.fsdecode(prefix), at, count))


def _shards_of(prefix: bytes, files: Files) -> int | None:
    """How many shards the checkpoint at `prefix` has; None if there is none that can be read."""
    index = os.fsencode(tensor_bundle.index_name(os.fsdecode(prefix)))
    if not files.exists(index):
        return None
    try:
        with table_of(index, files) as table:
            header = pb.BundleHeaderProto.FromString(table.get(tensor_bundle.HEADER_KEY) or b"")
            return header.num_shards
    except (errors.OpError, ValueError):
        return None


def merge(
    prefixes: Sequence[bytes],
    destination: bytes,
    delete_old_dirs: bool,
    allow_missing_files: bool,
    files: Files,
) -> tuple[int, int]:
    """Make one checkpoint of several, whose data files are renamed and whose indexes are deleted; how many tensors it
    has, and of how many bytes.

    Raises InvalidArgument: one is missing, or two have the same tensor.
    """
    from headrace.codec.bundle_reader import merged

    rows, there = [], []
    for prefix in prefixes:
        index = os.fsencode(tensor_bundle.index_name(os.fsdecode(prefix)))
        if not files.exists(index):
            if allow_missing_files:
                continue
            raise errors.invalid_argument(
                f"allow_missing_files was set to false and {os.fsdecode(prefix)} did not exist: what is to be merged "
                f"lies on other disks, perhaps; tasks that save shards need one file system ({os.fsdecode(index)} is "
                "looked for on this task's)"
            )
        with table_of(index, files) as table:
            rows.append(list(table.items()))
        there.append(prefix)
    if not there:
        raise errors.invalid_argument(
            f"At least one prefix checkpoint file must exist, but none existed: {[os.fsdecode(p) for p in prefixes]}"
        )
    entries, begins = merged(rows)
    ensure_directory(destination, files)
    shards = [
        _shard(prefix, at, end - begin)
        for prefix, begin, end in zip(there, begins, begins[1:], strict=False)
        for at in range(end - begin)
    ]
    publish(destination, shards, entries, files)
    for prefix in there:
        _forget([os.fsencode(tensor_bundle.index_name(os.fsdecode(prefix)))], files)
    if delete_old_dirs:
        for directory in sorted({directory_of(prefix) for prefix in prefixes}):
            with contextlib.suppress(OSError):
                files.remove_directory(directory)
    names = sum(not key.startswith(b"\0") for key in entries)  # but for those of parts
    return names, sum(entry.size for entry in entries.values())
