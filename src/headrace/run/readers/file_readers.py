"""Readers of files with one file open at a time: lines, and records of one length.

They read in blocks, so that most records are in memory before they are asked for (`ahead`).
Called by: ops.io.readers.  Threads: as run.readers.reader.
Source: TF 1.15 core/kernels/{text_line_reader_op,fixed_length_record_reader_op}.cc, for behaviour
"""

from __future__ import annotations

import io
import os
from collections import deque
from collections.abc import Sequence
from typing import BinaryIO, Final

from headrace.base import errors
from headrace.codec import records
from headrace.run.readers.files import ANYWHERE, Files, file_error, pieces
from headrace.run.readers.reader import Reader, Record

BLOCK_BYTES: Final = 1 << 17
_RECORDS: Final = 64  # of a block, so that many are computed together (`offer`), as long as
_LONGEST: Final = 8  # so many times `BLOCK_BYTES` hold them
_REMEMBERED_BYTES: Final = 1 << 18


class FileReader(Reader):
    """A block of records of the file that is open; a subclass fills it."""

    def __init__(self, name: str, container: str = "", files: Files = ANYWHERE) -> None:
        super().__init__(name, container, files)
        self._file: BinaryIO | None = None
        self._prefix = b""
        self._block: Sequence[bytes] = ()
        self._at = 0  # of the block
        self._failure: Exception | None = None  # of who looked ahead; the next read's

    # -- what a kind of reader does, with the lock held ---------------------------------------

    def fill(self) -> Sequence[bytes]:
        """The next records of the file, at least one; none at its end.  Raises OpError, OSError."""
        raise NotImplementedError

    def key(self, at: int) -> bytes:
        """The key of a record by its place in the block."""
        raise NotImplementedError

    # -----------------------------------------------------------------------------------------

    def open(self, work: bytes, block_bytes: int = BLOCK_BYTES) -> BinaryIO:
        """The file, buffered; 0: not.  Raises OpError."""
        try:
            return self._files.open(work, "rb", block_bytes)
        except (OSError, ValueError) as error:
            raise file_error(work, error) from None

    def record(self) -> Record | None:
        """The next of the block, or the first of the next one."""
        at = self._at
        if at >= len(self._block):
            failure, self._failure = self._failure, None
            if failure is not None:
                raise failure
            self._block, self._at = self.fill(), 0
            if not self._block:
                return None
            at = 0
        self._at = at + 1
        return self.key(at), self._block[at]

    def ahead(self, most: int) -> Sequence[bytes]:
        """What is left of the block, or else the next one."""
        if self._at >= len(self._block) and self._failure is None:
            try:
                self._block, self._at = self.fill(), 0
            except errors.OpError as error:
                self._failure = errors.detached(error)
            except OSError as error:
                self._failure = error.with_traceback(None)
        return self._block[self._at : self._at + most]

    def keys_ahead(self, count: int) -> list[bytes]:
        """Of the records that come next; nothing moves."""
        return [self.key(at) for at in range(self._at, self._at + count)]

    def skip(self, count: int) -> None:
        """Have read that many of the block."""
        self._at += count

    def end(self) -> None:
        """Close the file and forget what was not read of it."""
        self._block, self._at, self._failure = (), 0, None
        if self._file is not None:
            self._file.close()
            self._file = None


class TextLineReader(FileReader):
    """Lines without their line ends (LF or CRLF); keys are ``file:line``, counted from 1."""

    def __init__(
        self,
        name: str,
        skip_header_lines: int = 0,
        container: str = "",
        files: Files = ANYWHERE,
    ) -> None:
        """Raises InvalidArgument."""
        super().__init__(name, container, files)
        if skip_header_lines < 0:
            raise errors.invalid_argument(f"skip_header_lines must be >= 0 not {skip_header_lines}")
        self._skip = skip_header_lines
        self._first = 1  # number of the first line of the block
        self._rest: list[bytes] = []  # of the file, behind the block: the beginning of a line
        self._earlier: deque[tuple[bytes, int, Sequence[bytes]]] = deque()  # blocks that were read
        self._earlier_bytes = 0

    def begin(self, work: bytes) -> None:
        """Open the file and pass over its header lines."""
        self._file = self.open(work, 0)
        self._prefix = work + b":"
        self._first = 1
        self._rest = []
        while self._first <= self._skip:
            lines = self.fill()
            if not lines:
                break
            self._block, self._at = lines, min(len(lines), self._skip + 1 - self._first)
            if self._at < len(lines):
                break

    def fill(self) -> Sequence[bytes]:
        """The lines that end in the next piece of the file."""
        assert self._file is not None
        count = len(self._block)
        self._remember()
        self._first += count
        while True:
            piece = self._file.read(BLOCK_BYTES)
            if not piece:
                rest, self._rest = b"".join(self._rest), []
                return (rest.removesuffix(b"\r"),) if rest else ()
            self._rest.append(piece)
            if b"\n" not in piece:
                continue
            piece = b"".join(self._rest)
            lines = piece.split(b"\n")
            rest = lines.pop()
            self._rest = [rest] if rest else []
            if b"\r" in piece:
                lines = [line.removesuffix(b"\r") for line in lines]
            return lines

    def key(self, at: int) -> bytes:
        """Of a record of the block, by its index: what TensorFlow's reader says."""
        return self._prefix + str(self._first + at).encode()

    def end(self) -> None:
        """See `end` of the base."""
        self._remember()
        self._rest = []
        super().end()

    def _remember(self) -> None:
        """Keep what was read of the block, for `origin`."""
        lines = self._block[: self._at]
        if lines:
            self._earlier.append((self._prefix, self._first, lines))
            self._earlier_bytes += _size(lines)
            while self._earlier_bytes > _REMEMBERED_BYTES:
                self._earlier_bytes -= _size(self._earlier.popleft()[2])
        self._block, self._at = (), 0

    def origin(self, value: bytes) -> bytes | None:
        """The key of the last line that was read with such content; None if it is no more known."""
        with self._lock:
            blocks = [*self._earlier, (self._prefix, self._first, self._block[: self._at])]
            for prefix, first, lines in reversed(blocks):
                for at in range(len(lines) - 1, -1, -1):
                    if lines[at] == value:
                        return prefix + str(first + at).encode()
        return None


def _size(lines: Sequence[bytes]) -> int:
    """Bytes of lines with their ends."""
    return sum(map(len, lines)) + len(lines)


class FixedLengthRecordReader(FileReader):
    """Records of `record_bytes`, one every `hop_bytes`, between header and footer.

    Keys are ``file:record``, counted from 0.
    """

    def __init__(
        self,
        name: str,
        record_bytes: int,
        header_bytes: int = 0,
        footer_bytes: int = 0,
        hop_bytes: int = 0,
        encoding: str = "",
        container: str = "",
        files: Files = ANYWHERE,
    ) -> None:
        """hop_bytes 0 means record_bytes; encoding: "", "ZLIB" or "GZIP".  Raises InvalidArgument."""
        super().__init__(name, container, files)
        if record_bytes <= 0:
            raise errors.invalid_argument(
                f"record_bytes must be >= 0 not {record_bytes}, and not 0 either"
            )
        for what, size in (
            ("header_bytes", header_bytes),
            ("footer_bytes", footer_bytes),
            ("hop_bytes", hop_bytes),
        ):
            if size < 0:
                raise errors.invalid_argument(f"{what} must be >= 0 not {size}")
        if encoding not in records.COMPRESSIONS:
            raise errors.invalid_argument(
                f"encoding must be '', 'ZLIB' or 'GZIP' and is {encoding!r}"
            )
        self._sizes = header_bytes, record_bytes, hop_bytes or record_bytes, footer_bytes
        self._encoding = encoding
        self._offset = self._limit = self._first = 0

    def begin(self, work: bytes) -> None:
        """Open the file; of a compressed one, have its whole content."""
        file = self.open(work)
        if self._encoding:
            with file:
                name = os.fsdecode(work)
                file = io.BytesIO(records.inflated_whole(pieces(file), self._encoding, name))
        self._file = file
        size = file.seek(0, io.SEEK_END)
        self._limit = size - self._sizes[3]
        if self._limit < self._sizes[0]:
            raise errors.data_loss(
                f"{os.fsdecode(work)} has {size} bytes, fewer than header_bytes {self._sizes[0]} and "
                f"footer_bytes {self._sizes[3]} together"
            )
        self._offset, self._first = self._sizes[0], 0
        self._prefix = work + b":"

    def fill(self) -> Sequence[bytes]:
        """The records of the next block; one at least, however large."""
        assert self._file is not None
        _, size, hop, _ = self._sizes
        self._first += len(self._block)
        left = self._limit - self._offset - size
        if left < 0:
            return ()
        block = max(BLOCK_BYTES, min(_RECORDS * hop, _LONGEST * BLOCK_BYTES))
        count = min(left // hop, max(0, block - size) // hop) + 1
        self._file.seek(self._offset)
        piece = self._file.read((count - 1) * hop + size)
        self._offset += count * hop
        return [piece[at : at + size] for at in range(0, count * hop, hop)]

    def key(self, at: int) -> bytes:
        """Of a record of the block, by its index: what TensorFlow's reader says."""
        return self._prefix + str(self._first + at).encode()
