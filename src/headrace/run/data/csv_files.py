"""Records of CSV files (RFC 4180), cut into fields.

Text without quotes is split line by line; where there are quotes, one pattern takes a field at a time.  What fits
neither goes character by character, and becomes a record that fails: what comes after it is read.
Called by: ops.data.dataset_csv.  Threads: as run.data.stage.
Source: TF 1.15 core/kernels/data/experimental/csv_dataset_op.cc, for behaviour; compared with the oracle
"""

from __future__ import annotations

import itertools
import os
import re
from collections.abc import Iterator, Sequence
from typing import Any, BinaryIO, Final, NamedTuple, Protocol

from headrace.base import errors
from headrace.run.data.chunks import Chunk
from headrace.run.data.files import Blocks, FileRecords
from headrace.run.data.stage import MANY, Iteration

Fields = list[bytes]


class Fault(NamedTuple):
    """A record that fails.  before: its fields until there, of which one may fail first."""

    message: str
    before: Fields


Row = Fields | Fault


class Values(Protocol):
    """What fields are made of: `ops._kernels.csv_columns.Columns`."""

    types: list[Any]

    def of(self, flat: Fields, count: int, careful: bool) -> list[Any]:
        """The columns of `count` records' fields.  Raises what it likes if one of them is no value."""

    def fault(self, row: Fields, record: str) -> str | None:
        """What is wrong with the first field of a record that is no value."""


class Layout(NamedTuple):
    """How files are cut.  select: the columns that are wanted, rising; exclude: those that are not; both empty: all.

    header: each file begins with a record that is none of the data.
    """

    delim: bytes
    quotes: bool
    select: tuple[int, ...] = ()
    exclude: frozenset[int] = frozenset()
    header: bool = False

    def wanted(self, fields: Fields) -> Fields:
        """Of the fields of a record."""
        if self.select:
            return [fields[at] for at in self.select if at < len(fields)]
        if self.exclude:
            return [field for at, field in enumerate(fields) if at not in self.exclude]
        return fields


class _Field(NamedTuple):
    """A field, where the next one begins, and whether it was its record's last.  fault: why it fails."""

    content: bytes
    at: int
    last: bool
    fault: str = ""


class Scanner:
    """Text, as it comes, to records."""

    def __init__(self, layout: Layout) -> None:
        self._layout = layout
        delim = re.escape(layout.delim)
        end = rb"(" + delim + rb"|\r\n?|\n|\Z)"
        if layout.quotes:
            field = rb'"([^"]*+(?:""[^"]*+)*+)"' + end + rb"|([^" + delim + rb'\r\n"]*+)' + end
        else:
            field = rb"(?!)()()|([^" + delim + rb"\r\n]*+)" + end
        self._field = re.compile(field)
        self._by_lines = layout.delim not in (b"\n", b"\r")
        self._ends = re.compile(rb"[" + delim + rb"\r\n]")

    def records(self, text: bytes, final: bool) -> tuple[list[Row], int]:
        """The records of text, and where the first begins that is not whole.  final: the file ends there."""
        if self._by_lines and not (self._layout.quotes and b'"' in text):
            return self._lines(text, final)
        found: list[Row] = []
        at = 0
        while at < len(text):
            record = self._record(text, at, final)
            if record is None:
                break
            row, at = record
            found.append(row)
        return found, at

    def _lines(self, text: bytes, final: bool) -> tuple[list[Row], int]:
        """Of text without quotes."""
        if not final:
            end = max(text.rfind(b"\n"), text.rfind(b"\r", 0, max(0, len(text) - 1))) + 1
            text = text[:end]
        size = len(text)
        if b"\r" in text:
            text = text.replace(b"\r\n", b"\n").replace(b"\r", b"\n")
        lines = text.split(b"\n")
        if not lines[-1]:
            lines.pop()
        return [line.split(self._layout.delim) for line in lines], size

    def _record(self, text: bytes, at: int, final: bool) -> tuple[Row, int] | None:
        """The one that begins at `at`, and where the next one does; None: it is not whole."""
        fields: Fields = []
        fault: Fault | None = None
        last = False
        while not last:
            field = self._next(text, at, final)
            if field is None:
                return None
            content, at, last, message = field
            if message and fault is None:
                fault = Fault(message, list(fields))
            fields.append(content)
        return (fields if fault is None else fault), at

    def _next(self, text: bytes, at: int, final: bool) -> _Field | None:
        """The field that begins at `at`; None: it is not whole."""
        delim = self._layout.delim
        if at >= len(text):
            return _Field(b"", at, True) if final else None
        match = None if delim == b'"' else self._field.match(text, at)
        if match is None:
            quoted = self._layout.quotes and text[at : at + 1] == b'"'
            return (self._quoted if quoted else self._plain)(text, at, final)
        content, end, plain, plain_end = match.groups()
        if content is None:
            content, end = plain, plain_end
        elif b'"' in content:
            content = content.replace(b'""', b'"')
        if not final and match.end() == len(text) and end in (b"", b"\r") and end != delim:
            return None
        return _Field(content, match.end(), end != delim)

    def _plain(self, text: bytes, at: int, final: bool) -> _Field | None:
        found = self._ends.search(text, at)
        if found is None and not final:
            return None
        field = text[at:] if found is None else text[at : found.start()]
        fault = ""
        if self._layout.quotes and b'"' in field:
            fault = "Unquoted fields cannot have quotes inside"
        if found is None:
            return _Field(field, len(text), True, fault)
        return self._after(text, found.start(), final, field, fault)

    def _quoted(self, text: bytes, at: int, final: bool) -> _Field | None:
        start = at = at + 1
        fault = ""
        while True:
            quote = text.find(b'"', at)
            if quote < 0:
                message = "Reached end of file without closing quoted field in record"
                return _Field(b"", len(text), True, message) if final else None
            follower = text[quote + 1 : quote + 2]
            if follower == b"" and not final:
                return None
            content = text[start:quote]
            if follower == b"":
                return _Field(content.replace(b'""', b'"'), len(text), True, fault)
            if follower in (self._layout.delim, b"\n", b"\r"):
                return self._after(text, quote + 1, final, content.replace(b'""', b'"'), fault)
            if follower != b'"':
                fault = fault or "Quote inside a string has to be escaped by another quote"
            at = quote + 2

    def _after(self, text: bytes, at: int, final: bool, field: bytes, fault: str) -> _Field | None:
        """A field that a delimiter or the end of a line at `at` ends."""
        end = text[at : at + 1]
        if end == self._layout.delim:
            return _Field(field, at + 1, False, fault)
        if end == b"\r":
            if at + 1 == len(text) and not final:
                return None
            if text[at + 1 : at + 2] == b"\n":
                at += 1
        return _Field(field, at + 1, True, fault)


_NO_HEADER: Final = "Can't read header of file"


class CsvRecords(FileRecords):
    """An element for each record: a scalar for each column."""

    passes_over = False

    def __init__(
        self,
        run: Iteration,
        paths: Sequence[bytes],
        compression: str,
        layout: Layout,
        values: Values,
    ) -> None:
        super().__init__(run, paths, compression)
        self._failed: errors.OpError | None = None
        self._layout = layout
        self._values = values
        self._scanner = Scanner(layout)
        self._at_once = MANY  # as many as are tried together, fewer after one that failed

    def blocks(self, file: BinaryIO, path: bytes) -> Blocks:
        """See `FileRecords`.  Once it is open, a file that cannot be read fails again and again."""
        header = self._layout.header
        try:
            for rows in self._rows(file, path):
                if header and rows:
                    header = False
                    rows[:1] = [Fault(_NO_HEADER, [])] if isinstance(rows[0], Fault) else []
                yield rows
        except errors.OpError as error:
            self._failed = errors.detached(error)
            if header:
                yield [Fault(_NO_HEADER, [])]
            raise
        if header:
            yield [Fault(_NO_HEADER, [])]

    def _rows(self, file: BinaryIO, path: bytes) -> Iterator[list[Row]]:
        rest = b""
        more: list[bytes] = []
        waiting = 0
        for piece in self.pieces(file, path):
            more.append(piece)
            waiting += len(piece)
            if waiting < len(
                rest
            ):  # a record that is longer than what was read: do not look at it each time
                continue
            text = b"".join([rest, *more])
            rows, at = self._scanner.records(text, False)
            rest, more, waiting = text[at:], [], 0
            yield rows
        rows, _ = self._scanner.records(b"".join([rest, *more]), True)
        yield rows

    def pull(self, most: int) -> Chunk | None:
        """See `Stage`."""
        while not self._held:
            if self._failed is not None:
                raise errors.copied(self._failed)
            if not self._fill():
                return None
            self.run.check()
        rows = self._held[: min(most, self._at_once)]
        try:
            chunk = self.chunk(rows)
            self._at_once = min(2 * self._at_once, MANY)
        except Exception:  # whatever it was: the first record that fails says it
            good = next((at for at, row in enumerate(rows) if self._fault(row)), len(rows))
            self._at_once = 1
            rows = rows[: max(good, 1)]
            if not good:
                self._held = self._held[1:]
                self._given += 1
                raise self._error(rows[0]) from None
            chunk = self.chunk(rows)
        self._held = self._held[len(rows) :]
        self._given += len(rows)
        return chunk

    def chunk(self, values: Sequence[Any]) -> Chunk:
        """See `FileRecords`.  Raises whatever it meets where one of them fails."""
        if any(type(row) is Fault for row in values):
            raise ValueError
        layout, width = self._layout, len(self._values.types)
        if layout.select or layout.exclude:
            values = [layout.wanted(row) for row in values]
        if any(len(row) != width for row in values):
            raise ValueError
        flat = list(itertools.chain.from_iterable(values))
        return Chunk(self._values.of(flat, len(values), b"_" in b"".join(flat)), len(values), True)

    def _fault(self, row: Row) -> str | None:
        """Why a record fails; None if it does not."""
        width = len(self._values.types)
        fields = self._layout.wanted(row.before if isinstance(row, Fault) else row)
        wrong = self._values.fault(fields[:width], "record")
        if wrong:
            return wrong
        if len(fields) > width:
            return f"Expect {width} fields but have more in record"
        if isinstance(row, Fault):
            return row.message
        if len(fields) < width:
            return f"Expect {width} fields but have {len(fields)} in record"
        return None

    def _error(self, row: Row) -> errors.OpError:
        """Of the record that was given last."""
        where = f"record {self._given} of {os.fsdecode(self._paths[self._at])}"
        return errors.invalid_argument(f"{self._fault(row)} ({where})")
