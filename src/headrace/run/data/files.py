"""Stages that read files: lines, TFRecords, records of one length, CSV.  One file after the other, block by block.

A file that cannot be read fails again and again, since what comes after it is not known to be wanted.  What comes
behind a corrupt record of a file is not read: the next file is.
Called by: ops.data (datasets).  Threads: as run.data.stage.
Source: TF 1.15 core/kernels/data/{text_line,tf_record,fixed_length_record}_dataset_op.cc, for behaviour
"""

from __future__ import annotations

import io
import os
from collections.abc import Iterator, Sequence
from typing import Any, BinaryIO, Final

from headrace.base import errors
from headrace.codec import records
from headrace.run.data.chunks import Chunk, objects
from headrace.run.data.stage import Iteration, Position, Stage
from headrace.run.readers.files import file_error, pieces

BLOCK_BYTES: Final = 1 << 17

Blocks = Iterator[Sequence[Any]]


class FileRecords(Stage):
    """The records of files.  A kind says how a file becomes blocks of them.

    passes_over: whether a corrupt file is left for the next one.
    """

    passes_over = True

    def __init__(self, run: Iteration, paths: Sequence[bytes], compression: str = "") -> None:
        super().__init__(run)
        self._paths = list(paths)
        self._compression = compression
        self._at = 0  # of the paths
        self._given = 0  # of the file
        self._file: BinaryIO | None = None
        self._blocks: Blocks | None = None
        self._held: Sequence[Any] = ()

    def blocks(self, file: BinaryIO, path: bytes) -> Blocks:
        """The records of an open file, some at a time.  Raises OpError, OSError."""
        raise NotImplementedError

    def chunk(self, values: Sequence[Any]) -> Chunk:
        """Of records, at least one."""
        return Chunk([objects(values)], len(values), True)

    def pull(self, most: int) -> Chunk | None:
        """See `Stage`."""
        while not self._held:
            if not self._fill():
                return None
            self.run.check()
        values, self._held = self._held[:most], self._held[most:]
        self._given += len(values)
        return self.chunk(values)

    def _fill(self) -> bool:
        """The next block, or the next file; False if there is none."""
        if self._at >= len(self._paths):
            return False
        path = self._paths[self._at]
        try:
            if self._blocks is None:
                self._file = self.run.files.open(path, "rb")
                self._blocks = self.blocks(self._file, path)
            block = next(self._blocks, None)
        except (OSError, ValueError) as error:
            self._end_file()
            raise file_error(path, error) from None
        except errors.DataLossError:
            self._end_file()
            self._at += self.passes_over
            self._given = 0
            raise
        except errors.OpError:
            self._end_file()
            raise
        if block is None:
            self._end_file()
            self._at += 1
            self._given = 0
        else:
            self._held = block
        return True

    def _end_file(self) -> None:
        file, self._file, self._blocks = self._file, None, None
        if file is not None:
            file.close()

    def pieces(self, file: BinaryIO, path: bytes) -> Iterator[bytes]:
        """The content of a file, inflated."""
        return records.inflated(pieces(file), self._compression, os.fsdecode(path))

    def save(self) -> Position:
        """Which file, and how many of its records were given."""
        return [self._at, self._given]

    def restore(self, position: Position) -> None:
        """See `save`.  The records before are read for nothing."""
        self._at, given = position
        while self._given < given:
            if not self._held and not self._fill():
                return
            some = min(len(self._held), given - self._given)
            self._held = self._held[some:]
            self._given += some

    def close(self) -> None:
        """See `Stage`."""
        self._end_file()
        super().close()


class Lines(FileRecords):
    """Lines without their ends (LF or CRLF)."""

    passes_over = False

    def blocks(self, file: BinaryIO, path: bytes) -> Blocks:
        """See `FileRecords`."""
        rest = b""
        for piece in self.pieces(file, path):
            if b"\n" not in piece:
                rest += piece
                continue
            lines = (rest + piece).split(b"\n")
            rest = lines.pop()
            yield (
                [line.removesuffix(b"\r") for line in lines]
                if b"\r" in piece or b"\r" in lines[0]
                else lines
            )
        if rest:
            yield [rest.removesuffix(b"\r")]


class TFRecords(FileRecords):
    """Records of TFRecord files."""

    def blocks(self, file: BinaryIO, path: bytes) -> Blocks:
        """See `FileRecords`."""
        for _, values in records.runs(pieces(file), os.fsdecode(path), self._compression):
            yield values


class FixedLength(FileRecords):
    """Records of one length between a header and a footer."""

    def __init__(
        self, run: Iteration, paths: Sequence[bytes], sizes: Sequence[int], compression: str
    ) -> None:
        """sizes: of header, record and footer, in bytes."""
        super().__init__(run, paths, compression)
        self._sizes = tuple(sizes)

    def blocks(self, file: BinaryIO, path: bytes) -> Blocks:
        """See `FileRecords`."""
        source: BinaryIO = file
        if self._compression:
            source = io.BytesIO(
                records.inflated_whole(pieces(file), self._compression, os.fsdecode(path))
            )
        header, size, footer = self._sizes
        body = source.seek(0, io.SEEK_END) - header - footer
        if not self._compression and (body < 0 or body % size):
            raise errors.invalid_argument(
                f"Excluding the header ({header} bytes) and footer ({footer} bytes), input file "
                f'"{os.fsdecode(path)}" has body length {body} bytes, which is not an exact multiple of the record '
                f"length ({size} bytes)."
            )
        source.seek(header)
        many = max(1, BLOCK_BYTES // size)
        left = max(0, body) // size
        while left:
            count = min(many, left)
            piece = source.read(count * size)
            left -= count
            yield [piece[at : at + size] for at in range(0, count * size, size)]
        if body < 0 or body % size:
            raise errors.data_loss(
                f"{os.fsdecode(path)} ends within a record: without the header ({header} bytes) and the footer "
                f"({footer} bytes) it inflates to {body} bytes, and a record has {size}"
            )
