"""RecordYielder: records of many files, mixed, over and over again.

An epoch gives every record once.  The files' order is drawn anew for each, and a buffer of records
is kept to draw from; seeds make both repeatable.  Reading happens in the thread that asks.

Called by: ops.io.record_input.  Threads: any; one lock.  Ends by: dropped (closes the file).
Source: TF 1.15 core/kernels/record_yielder.cc, for behaviour; the order is not TensorFlow's, which
depends on its threads
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Generator, Iterator
from typing import TYPE_CHECKING

from headrace.base import errors
from headrace.codec import records
from headrace.run.readers.files import ANYWHERE, Files, file_error, pieces
from headrace.run.state.resources import Resource

if TYPE_CHECKING:
    import random


class RecordYielder(Resource):
    """See the module header."""

    def __init__(
        self,
        name: str,
        paths: Callable[[], list[bytes]],
        seed: int = 0,
        shift_ratio: float = 0.0,
        buffer_size: int = 1,
        compression: str = records.NONE,
        files: Files = ANYWHERE,
    ) -> None:
        """`paths` is asked at each epoch; its list is turned by `shift_ratio` of its length more each
        time.  Raises InvalidArgument (buffer_size, compression).
        """
        super().__init__(name)
        if buffer_size < 1:
            raise errors.invalid_argument(f"file_buffer_size {buffer_size} must be at least 1")
        if compression not in records.COMPRESSIONS:
            raise errors.invalid_argument(
                f"compression_type must be '', 'ZLIB' or 'GZIP' and is {compression!r}"
            )
        self._paths = paths
        self._files = files
        self._seed = seed
        self._shift_ratio = shift_ratio
        self._buffer_size = buffer_size
        self._compression = compression
        self._lock = threading.Lock()
        self._source = self._forever()

    def take(self, count: int) -> list[bytes]:
        """The next `count` records.

        Raises NotFound (no file), DataLoss (corrupt), OutOfRange (an epoch without any record).
        """
        with self._lock:
            try:
                return [next(self._source) for _ in range(count)]
            except errors.OpError:
                self._source = self._forever()  # an ended generator would say nothing the next time
                raise

    def close(self) -> None:
        """Close the file that is being read."""
        with self._lock:
            self._source.close()

    def _forever(self) -> Generator[bytes, None, None]:
        import random  # takes its time to load

        epoch = 0
        while True:
            dice = random.Random(self._seed + epoch)
            paths = self._paths()
            if not paths:
                raise errors.not_found("no file matches the file_pattern")
            dice.shuffle(paths)
            turn = int(self._shift_ratio * epoch * len(paths)) % len(paths)
            empty = True
            for record in self._mixed(paths[turn:] + paths[:turn], dice):
                empty = False
                yield record
            if empty:
                raise errors.out_of_range(f"the {len(paths)} files hold no record")
            epoch += 1

    def _mixed(self, paths: list[bytes], dice: random.Random) -> Iterator[bytes]:
        """All records, each drawn from as many as the buffer holds."""
        buffer: list[bytes] = []
        for path in paths:
            for record in self._records(path):
                buffer.append(record)
                if len(buffer) >= self._buffer_size:
                    yield _drawn(buffer, dice)
        while buffer:
            yield _drawn(buffer, dice)

    def _records(self, path: bytes) -> Iterator[bytes]:
        name = os.fsdecode(path)
        try:
            with self._files.open(path, "rb") as file:
                for _, record in records.records(pieces(file), name, self._compression):
                    yield record
        except (OSError, ValueError) as error:
            raise file_error(path, error) from None


def _drawn(buffer: list[bytes], dice: random.Random) -> bytes:
    """One at random; the last takes its place."""
    at = dice.randrange(len(buffer))
    buffer[at], buffer[-1] = buffer[-1], buffer[at]
    return buffer.pop()
