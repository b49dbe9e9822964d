"""The receiving side of `codec.frames`: frames out of a stream of bytes.

A `Parser` says where the next bytes want to be received, which for a large tensor is the array that will hold it.  What
arrives is distrusted: lengths and shapes are checked, against each other and against the cap, before anything is
allocated for them.  After an error the stream is lost.  Most frames are small, come alone and have the form of one that
came before: those are taken out in one go.
Does no I/O.  Called by: serve's sockets.  Threads: a Parser belongs to the thread that reads.
"""

from __future__ import annotations

import contextlib
import math
from collections.abc import Callable, Generator
from functools import partial
from struct import Struct
from typing import Any, Final, TypeAlias

import numpy as np

from headrace.base import dtypes, errors
from headrace.codec.contents import bad_bools, memory, to_objects, unplain
from headrace.codec.fields import FIELDS, Array
from headrace.codec.frames import (
    BUFFER,
    ENTRY,
    KINDS,
    LARGE,
    MAGIC,
    MAX_RANK,
    PREFIX,
    REMEMBERED,
    SIZES,
    VERSION,
    Frame,
    Kind,
    frame_of,
)

TABLE_WEIGHT: Final = 16
"""An array takes more memory than its line in the table, about this many times as much."""

_BYTES: Final = np.dtype(np.uint8)
_BRISK: Final = BUFFER * 64
_KEPT_TABLE: Final = 2048  # bytes
_PREFIX: Final = PREFIX.size
_SAME: Final = 256  # bytes of a frame that is known by all of them

_Type: TypeAlias = tuple[dtypes.DType, np.dtype[Any], int, bool]
"""With NumPy's, bytes per element or 0, and whether any bytes will do."""
_TYPES: Final[dict[int, _Type]] = {
    dtype.as_datatype_enum: (dtype, dtype.np, dtype.size, dtype.np.kind not in "Ob")
    for dtype in FIELDS
}
_Entry: TypeAlias = tuple[_Type, tuple[int, ...], int, int]  # type, shape, nbytes, elsewhere
_Wait: TypeAlias = Generator[None, None, None]


_NO_ROOM: Final = memoryview(b"")

_Form: TypeAlias = tuple[
    tuple[Kind, int, int, int],
    int,
    bytes,
    Callable[[memoryview, int], tuple[bytes, bytes]],
    list[Array],
    list[tuple[tuple[int, ...], np.dtype[Any], int]],
]
"""Of a frame with a known prefix: its kind, numbers and timeout, where the next one begins, its table, what takes
header and table out of the bytes behind a prefix; of its tensors, if all are plain, the arrays over the room that they
are copied from if the frame begins there; and shape, dtype and place of each behind its beginning, or less than 0 the
number of one elsewhere.  Most frames have the form of one that came before.
"""

_Elsewhere: TypeAlias = tuple[tuple[Kind, int, int, int], list[Callable[[], Array]]]
"""Of a frame without a header, of which all tensors are elsewhere: as of a form, and what gives them."""

_first: Final = Struct(f"{_PREFIX}s").unpack_from
_lengths: Final = Struct("<II").unpack_from  # of header and table, at the end of a prefix
_copy: Final[Callable[[Array], Array]] = np.ndarray.copy


class Parser:
    """Frames out of a stream.

        while (frame := parser.next()) is None:
            count = sock.recv_into(parser.buffer())
            if not count: ...  # the end, a clean one if parser.at_boundary
            parser.received(count)

    `max_bytes` limits the memory that one frame may take, what it takes on the way included: the header and the bytes
    of elements without a fixed size count twice.

    room: where to receive while no more than whole frames has come, for recvmsg; then `take` what has been received.
    None: ask `buffer`.
    """

    def __init__(
        self,
        max_bytes: int,
        elsewhere: Callable[[int, np.dtype[Any], tuple[int, ...]], Array] | None = None,
    ) -> None:
        """elsewhere: gives the array for a number; may raise OpError.  None: all bytes must be in the stream."""
        self._max_bytes = max_bytes
        self._external = elsewhere
        self._ahead = memoryview(bytearray(BUFFER))
        self._start = self._end = 0  # of what is in `_ahead` and not yet used
        self._target: memoryview | None = None  # where bytes go instead
        self._filled = 0
        self._inside = False
        self._brisk = max_bytes >= _BRISK  # then whatever fits into `_ahead` is allowed
        self._tables: dict[bytes, tuple[list[_Entry], int]] = {}
        self._forms: dict[bytes, _Form] = {}  # by prefix
        self._others: dict[bytes, _Form] = {}  # by prefix and table: see `_other`
        self._elsewhere: dict[bytes, _Elsewhere] = {}  # by all their bytes
        self._room = [self._ahead]
        self.room = self._room if self._brisk else None
        self._frames = self._all()
        self._error: errors.OpError | None = None

    def trust(
        self,
        max_bytes: int,
        elsewhere: Callable[[int, np.dtype[Any], tuple[int, ...]], Array] | None = None,
    ) -> None:
        """From the next frame on: see `__init__`."""
        self._max_bytes = max_bytes
        self._elsewhere.clear()
        self._external = elsewhere
        self._brisk = max_bytes >= _BRISK
        self.room = None
        if self.at_boundary and self._ahead:
            self._start = self._end = 0
            self.room = self._room if self._brisk else None

    @property
    def at_boundary(self) -> bool:
        """Whether all that was received was whole frames, and `next` has returned them."""
        return not self._inside and self._start == self._end

    def buffer(self) -> memoryview:
        """Where to receive the next bytes, at least one.  Ask anew for each read, after `next` returned None."""
        if self._target is not None:
            return self._target[self._filled :]
        if self._start == self._end:
            self._start = self._end = 0
            if not self._ahead:
                self._ahead = memoryview(bytearray(BUFFER))
                self._room = [self._ahead]
            return self._ahead
        if self._start:
            rest = self._end - self._start
            self._ahead[:rest] = self._ahead[self._start : self._end]
            self._start, self._end = 0, rest
        return self._ahead[self._end :]

    def rest(self) -> None:
        """Give back the room for reading ahead, until there is more to read.  Nothing happens within a frame."""
        if self.at_boundary:
            self._ahead = _NO_ROOM
            self._room.clear()
            self.room = None
            self._forms.clear()
            self._tables.clear()
            self._elsewhere.clear()
            self._others.clear()

    def close(self) -> None:
        """Nothing more will come: keep nothing of what has."""
        with contextlib.suppress(ValueError):  # a thread is still at it
            self._frames.close()
        self._target = None
        self._start = self._end = 0
        self._inside = False
        self.rest()
        if self._error is None:
            self._error = errors.cancelled("the connection was closed")

    def received(self, count: int) -> None:
        """`count` bytes have been written to the beginning of `buffer()`."""
        if self._target is not None:
            self._filled += count
        else:
            self._end += count

    def put(self, data: bytes) -> None:
        """As `received`, of bytes that came elsewhere: no more than `BUFFER`, and between two frames."""
        self.buffer()[: len(data)] = data
        self._end += len(data)
        self.room = None

    def take(self, count: int) -> Frame | None:
        """As `received`, then `next`."""
        if self.room is not None:
            ahead = self._ahead
            form = self._forms.get(_first(ahead)[0])
            if form is not None:
                begins, end, entries, split, views, _ = form
                if end == count:
                    header, table = split(ahead, _PREFIX)
                    if table == entries:
                        return frame_of((*begins, header, [*map(_copy, views)]))
            if self._elsewhere and count <= _SAME:
                same = self._elsewhere.get(bytes(ahead[:count]))
                if same is not None:
                    begins, tensors = same
                    try:  # `suppress` would be two calls more
                        return frame_of((*begins, b"", [each() for each in tensors]))
                    except errors.OpError:  # told by who looks closer
                        pass
        self.received(count)
        return self.next()

    def next(self) -> Frame | None:
        """The next complete frame, None if there is none yet.

        Raises InvalidArgument for bytes that are no frame, ResourceExhausted for a frame beyond the cap or the
        machine's memory; the same again each time from then on.
        """
        if self._error is not None:
            raise errors.copied(self._error)
        self.room = None
        try:
            found: Frame | None = None
            if self._brisk and not self._inside and self._end - self._start >= _PREFIX:
                found = self._whole()
            if found is None and (self._inside or self._start != self._end):
                found = next(self._frames)
            if self._brisk and self._start == self._end and not self._inside and self._ahead:
                self._start = self._end = 0
                self.room = self._room
            return found
        except errors.OpError as error:
            self._error = errors.detached(error)
        except (MemoryError, ValueError) as error:  # what NumPy says to more than there is
            self._error = errors.resource_exhausted(
                f"a frame came for which there is no memory: {error}"
            )
        except KeyboardInterrupt:
            self._error = errors.cancelled("reading was interrupted within a frame")
            raise
        self._start = self._end = 0
        self._brisk = False
        raise errors.copied(self._error)

    def _whole(self) -> Frame | None:
        """A frame that is here already, with nothing but numbers, bools and what is elsewhere.  None: look closer."""
        ahead, start = self._ahead, self._start
        (prefix,) = _first(ahead, start)
        form = self._forms.get(prefix)
        if form is not None:
            begins, end, entries, split, _, arrays = form
            if start + end <= self._end:
                header, table = split(ahead, start + _PREFIX)
                if table == entries:
                    self._start = start + end
                    values: list[Array] = []
                    for shape, dtype, place in arrays:
                        values.append(np.ndarray(shape, dtype, ahead, start + place).copy())
                    return frame_of((*begins, header, values))
        return self._other(prefix, start)

    def _other(self, prefix: bytes, start: int) -> Frame | None:
        """As `_whole`, of a frame with bools or tensors elsewhere, with another table than the last of that prefix, or
        of a new form.
        """
        ahead = self._ahead
        header_length, table_length = _lengths(prefix, _PREFIX - 8)
        table = start + _PREFIX + header_length
        if table + table_length > self._end:
            return None
        known = prefix + bytes(ahead[table : table + table_length])
        form = self._others.get(known)
        if form is None:
            form = self._look(start)
            if form is None:
                return None
            if not form[0][3]:  # a time limit is hardly ever the same
                if len(self._others) >= REMEMBERED:
                    self._others.clear()
                    self._forms.clear()
                self._others[known] = form
        begins, end, _, split, views, arrays = form
        if start + end > self._end:
            return None
        header, _ = split(ahead, start + _PREFIX)
        values: list[Array] = []
        for shape, dtype, place in arrays:
            if place < 0:
                assert self._external is not None
                values.append(self._external(-place, dtype, shape))
                continue
            array = np.ndarray(shape, dtype, ahead, start + place).copy()
            if dtype.kind == "b" and array.tobytes().translate(None, b"\0\1"):
                raise bad_bools()
            values.append(array)
        self._start = start + end
        if len(views) == len(arrays) and not begins[3]:
            self._forms[prefix] = form
        elif not (header or begins[3]) and end <= _SAME and all(place < 0 for *_, place in arrays):
            assert self._external is not None
            if len(self._elsewhere) >= REMEMBERED:
                self._elsewhere.clear()
            found: list[Callable[[], Array]] = [
                partial(self._external, -place, dtype, shape) for shape, dtype, place in arrays
            ]
            self._elsewhere[bytes(ahead[start : start + end])] = begins, found
        return frame_of((*begins, header, values))

    def _look(self, start: int) -> _Form | None:
        """The form of the frame that begins there, if it can be told from what is here."""
        ahead = self._ahead
        magic, version, kind, method, zero, call, count, timeout_us, header_length, table_length = (
            PREFIX.unpack_from(ahead, start)
        )
        table = start + _PREFIX + header_length
        data = end = table + table_length
        if magic != MAGIC or version != VERSION or kind >= len(KINDS) or zero or data > self._end:
            return None
        arrays = []
        plain, away = True, _BRISK  # bytes elsewhere, and any that may be here
        entry = table
        for _ in range(count):
            if entry + ENTRY.size > data:
                return None
            number, rank, zero, elsewhere, nbytes = ENTRY.unpack_from(ahead, entry)
            entry += ENTRY.size
            element = _TYPES.get(number)
            if element is None or zero or rank > MAX_RANK or element[1].kind == "O":
                return None
            shape: tuple[int, ...] = ()
            size = element[2]
            if rank:
                if entry + 8 * rank > data:
                    return None
                shape = SIZES[rank].unpack_from(ahead, entry)
                entry += 8 * rank
                size *= math.prod(shape)
            if not size or size != nbytes:
                return None
            if elsewhere:
                away += size
                if self._external is None or not element[3] or away > self._max_bytes:
                    return None
                arrays.append((shape, element[1], -elsewhere))
                plain = False
                continue
            if end + size > self._end:
                return None
            arrays.append((shape, element[1], end - start))
            plain = plain and element[3]
            end += size
        if entry != data:
            return None
        views = []
        if plain:
            views = [np.ndarray(shape, dtype, ahead, place) for shape, dtype, place in arrays]
        split = Struct(f"{header_length}s{table_length}s").unpack_from
        begins = KINDS[kind], method, call, timeout_us
        return begins, end - start, bytes(ahead[table:data]), split, views, arrays

    def _all(self) -> Generator[Frame | None, None, None]:
        """A frame at a time; None stands for: more bytes are needed."""
        while True:
            # Finished before it is handed over, so that nothing here keeps a frame alive.
            yield (yield from self._frame())

    def _frame(self) -> Generator[None, None, Frame]:
        while self._end - self._start < _PREFIX:
            yield
        kind, method, call, count, timeout_us, header_length, table_length = self._prefix()
        self._start += _PREFIX
        self._inside = True
        length = header_length + table_length
        if _PREFIX + length <= BUFFER:
            while self._end - self._start < length:
                yield
            content, at = self._ahead, self._start
            self._start = at + length
        else:
            content, at = np.empty((length,), _BYTES).data, 0
            yield from self._fill(content)
        header = content[at : at + header_length].tobytes()
        entries: list[_Entry] = []
        if count:
            entries = self._table(content, at + header_length, at + length, count, header_length)
        del content
        values: list[Array] = []
        for element, shape, nbytes, number in entries:
            dtype, np_dtype, _, plain = element
            if number:
                values.append(self._from_elsewhere(number, element, shape))
                continue
            if self._end - self._start < nbytes:
                if nbytes >= LARGE:
                    values.append((yield from self._large(element, shape, nbytes)))
                    continue
                while self._end - self._start < nbytes:
                    yield
            at = self._start
            self._start = at + nbytes
            if plain:
                values.append(np.ndarray(shape, np_dtype, self._ahead, at).copy())
            else:
                values.append(unplain(self._ahead[at : at + nbytes], dtype, shape))
        self._inside = False
        return Frame(KINDS[kind], method, call, timeout_us, header, values)

    def _prefix(self) -> tuple[int, int, int, int, int, int, int]:
        """(kind, method, call, tensors, timeout, length of the header, length of the table)."""
        magic, version, kind, method, zero, call, count, timeout_us, header_length, table_length = (
            PREFIX.unpack_from(self._ahead, self._start)
        )
        if magic != MAGIC:
            raise errors.invalid_argument(
                f"what came is not a frame: it begins with {bytes(self._ahead[self._start : self._start + 8])!r}; "
                "is the peer a headrace process?"
            )
        if version != VERSION:
            raise errors.invalid_argument(
                f"a frame came in version {version} of the format, this process reads {VERSION}; "
                "use the same version of headrace on both sides"
            )
        if kind >= len(KINDS) or zero:
            raise errors.invalid_argument(f"a frame came with kind {kind} and zero field {zero}")
        if not count * ENTRY.size <= table_length <= count * (ENTRY.size + 8 * MAX_RANK):
            raise errors.invalid_argument(
                f"a frame's table of {table_length} bytes cannot be that of {count} tensors"
            )
        self._check_size(2 * header_length + TABLE_WEIGHT * table_length)
        return kind, method, call, count, timeout_us, header_length, table_length

    def _check_size(self, needed: int) -> None:
        if needed > self._max_bytes:
            raise errors.resource_exhausted(
                f"a frame came that takes {needed} bytes of memory or more; the limit is {self._max_bytes}"
            )

    def _table(
        self, content: memoryview, at: int, end: int, count: int, header_length: int
    ) -> list[_Entry]:
        """What content[at:end] announces, checked; known if the same came before, as of variables that take turns."""
        text = bytes(content[at:end]) if end - at <= _KEPT_TABLE else b""
        known = self._tables.get(text)
        if known is None or len(known[0]) != count:
            known = self._new_table(content, at, end, count)
            if text:
                if len(self._tables) >= REMEMBERED:
                    self._tables.clear()
                self._tables[text] = known
        entries, needed = known
        self._check_size(2 * header_length + needed)
        return entries

    def _new_table(
        self, content: memoryview, at: int, end: int, count: int
    ) -> tuple[list[_Entry], int]:
        """The same, and how much memory the tensors and the table take."""
        needed = TABLE_WEIGHT * (end - at)
        entries = []
        for _ in range(count):
            if at + ENTRY.size > end:
                raise errors.invalid_argument(f"a frame's table ends before its {count} tensors do")
            number, rank, zero, elsewhere, nbytes = ENTRY.unpack_from(content, at)
            at += ENTRY.size
            element = _TYPES.get(number)
            if element is None or zero:
                raise errors.invalid_argument(
                    f"a tensor came with dtype number {number} and zero field {zero}"
                )
            if not rank:
                shape: tuple[int, ...] = ()
            elif rank > MAX_RANK or at + 8 * rank > end:
                raise errors.invalid_argument(
                    f"a tensor came with {rank} dimensions, {(end - at) // 8} of which are in the table; "
                    f"{MAX_RANK} is the limit"
                )
            else:
                shape = SIZES[rank].unpack_from(content, at)
                at += 8 * rank
            needed += memory(element[0], element[2], shape, nbytes)
            entries.append((element, shape, nbytes, elsewhere))
        if at != end:
            raise errors.invalid_argument(
                f"a frame's table has {end - at} bytes behind its {count} tensors"
            )
        return entries, needed

    def _from_elsewhere(self, number: int, element: _Type, shape: tuple[int, ...]) -> Array:
        dtype, np_dtype, _, plain = element
        if self._external is None or not plain:
            raise errors.invalid_argument(
                f"a {dtype.name} tensor is said to be elsewhere, by number {number}, where none can be"
            )
        return self._external(number, np_dtype, shape)

    def _large(
        self, element: _Type, shape: tuple[int, ...], nbytes: int
    ) -> Generator[None, None, Array]:
        """A tensor that goes on beyond what has been read ahead."""
        dtype, np_dtype, itemsize, _ = element
        if not itemsize:
            content = np.empty((nbytes,), _BYTES).data
            yield from self._fill(content)
            return to_objects(content, dtype, shape)
        array = np.empty(shape, np_dtype)
        flat = array.reshape(-1).view(_BYTES)
        yield from self._fill(flat.data)
        if dtype is dtypes.bool and flat.max() > 1:
            raise bad_bools()
        return array

    def _fill(self, target: memoryview) -> _Wait:
        """Wait until `target` is full of the stream's next bytes; it is longer than what has been read ahead."""
        ready = self._end - self._start
        target[:ready] = self._ahead[self._start : self._end]
        self._start = self._end = 0
        self._target, self._filled = target, ready
        while self._filled < len(target):
            yield
        self._target = None
