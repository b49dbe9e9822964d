"""decode_csv: records of text to one tensor per column (RFC 4180, as TensorFlow reads it).

Records without quotes or line ends are split by `bytes.split`; the fields of all columns of one
type are converted in one go.  Anything unexpected sends the call through `_Table.diagnose`, which
goes record by record and raises the first error, as TensorFlow would; where a reader of this task
remembers having read the record, the error names file and line.
Called by: programs.  Threads: kernels run in any step's thread.
Source: TF 1.15 core/kernels/decode_csv_op.cc, for behaviour; compared with the oracle
"""

from __future__ import annotations

import itertools
import operator
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from headrace.base import errors
from headrace.base.dtypes import DType
from headrace.base.shapes import Shape, text
from headrace.base.traits import PER_RECORD
from headrace.graph.graph import Operation
from headrace.graph.registry import op
from headrace.graph.shape_fns import ShapeContext
from headrace.graph.tensor import Tensor
from headrace.ops._kernels.csv_columns import Columns, Fields, Malformed
from headrace.ops._kernels.short_fields import LETTERS, Lines, words_of
from headrace.ops.io.readers import origin_of
from headrace.run.exec.kernel import KernelContext

__all__ = ["decode_csv"]

Array = np.ndarray[Any, Any]


# -- records to fields ------------------------------------------------------------------------

_MANY = 32  # records whose delimiters are counted by an array
_LINE_END = ord("\n")
_END = bytes(LETTERS)  # after the lines of a text


class _Splitter:
    """How records are cut into fields."""

    def __init__(self, delim: bytes, quotes: bool, select: Sequence[int]) -> None:
        self.delim = delim
        self.quotes = quotes
        self.select = list(select)
        self._pick: Callable[[Fields], Any] | None = None
        if len(self.select) > 1:
            self._pick = operator.itemgetter(*self.select)
        elif self.select:
            only = self.select[0]
            self._pick = lambda fields: (fields[only],)
        self._strange = delim in (b"\n", b"\r") or (quotes and delim == b'"')

    def split(self, record: bytes) -> Fields:
        """The (selected) fields; fewer if the record has fewer.  Raises Malformed."""
        if (
            not record
            or b"\n" in record
            or b"\r" in record
            or (self.quotes and b'"' in record)
            or self._strange
        ):
            return self._scan(record)
        fields = record.split(self.delim)
        if self._pick is None:
            return fields
        if len(fields) > self.select[-1]:
            picked: Fields = self._pick(fields)
            return picked
        return [fields[index] for index in self.select if index < len(fields)]

    def split_all(self, records: list[bytes], width: int) -> list[bytes]:
        """The fields of all records, `width` of each.  Raises Malformed."""
        text = b"\n".join(records)
        if not self.select and self._is_plain(text, records):
            if not self._have(text, records, width):
                raise Malformed
            return text.replace(b"\n", self.delim).split(self.delim)
        rows = list(map(self.split, records))
        for row in rows:
            if len(row) != width:
                raise Malformed
        return list(itertools.chain.from_iterable(rows))

    def lines(self, records: list[bytes], width: int) -> Lines | None:
        """Plain records of `width` fields as lines of a text.

        None for what `split_all` has to look at, and for what has zeros in it.
        """
        if self.select or width < 2 or len(records) < _MANY:
            return None
        records.append(_END)  # with a line end before it, as all others
        text = b"\n".join(records)
        records.pop()
        size, count = len(text) - len(_END), len(records)
        if self._strange or text.count(b"\n") != count or text.find(0) != size:
            return None
        if b"\r" in text or (self.quotes and b'"' in text):
            return None
        letters = np.frombuffer(text, np.uint8, size)
        found = letters == self.delim[0]
        found |= letters == _LINE_END
        (marks,) = found.nonzero()
        if len(marks) != count * width:
            return None
        ends = marks.reshape(count, width)
        if letters.take(ends[:, -1]).tobytes() != b"\n" * count:
            return None
        places = np.empty((2, width, count), marks.dtype)  # starts and ends, column by column
        places[1] = ends.T
        places[0, 1:] = ends[:, :-1].T
        places[0, 0, 1:] = ends[:-1, -1]
        places[0] += 1
        places[0, 0, 0] = 0
        return Lines(text, letters, words_of(text), places[0], places[1])

    def _have(self, text: bytes, records: list[bytes], width: int) -> bool:
        """Whether each of the plain records, which are lines in `text`, has so many fields."""
        if len(records) < _MANY:
            return [record.count(self.delim) for record in records].count(width - 1) == len(records)
        letters = np.frombuffer(text, np.uint8)
        marks = letters[(letters == self.delim[0]) | (letters == _LINE_END)]
        # There is a line end less than there are records, and each has to come after as many delimiters.
        expected = len(marks) == len(records) * width - 1
        return expected and bool((marks[width - 1 :: width] == _LINE_END).all())

    def _is_plain(self, text: bytes, records: list[bytes]) -> bool:
        """Whether records that are joined to lines in `text` can be split at every delimiter."""
        return not (
            self._strange
            or b"" in records
            or b"\r" in text
            or (self.quotes and b'"' in text)
            or text.count(b"\n") != len(records) - 1
        )

    def _scan(self, record: bytes) -> Fields:
        """Character by character where it must be; line ends before a field are passed over."""
        found: list[bytes] = []
        number = at = 0
        last = self.select[-1] if self.select else None
        while at < len(record) and (last is None or number <= last):
            if record[at : at + 1] in (b"\n", b"\r"):
                at += 1
                continue
            if self.quotes and record[at : at + 1] == b'"':
                field, at = self._quoted(record, at + 1)
            else:
                field, at = self._plain(record, at)
            if last is None or number in self.select:
                found.append(field)
            number += 1
        if record.endswith(self.delim) and (last is None or number in self.select):
            found.append(b"")
        return found

    def _plain(self, record: bytes, at: int) -> tuple[bytes, int]:
        end = record.find(self.delim, at)
        field = record[at:] if end < 0 else record[at:end]
        if b"\n" in field or b"\r" in field or (self.quotes and b'"' in field):
            raise Malformed("Unquoted fields cannot have quotes/CRLFs inside")
        return field, len(record) if end < 0 else end + 1

    def _quoted(self, record: bytes, at: int) -> tuple[bytes, int]:
        """A field that starts after its opening quote, and where the next one starts."""
        pieces = []
        while True:
            quote = record.find(b'"', at)
            if quote < 0:
                break
            follower = record[quote + 1 : quote + 2]
            if not follower or follower == self.delim:
                pieces.append(record[at:quote])
                return b"".join(pieces), quote + 2
            if follower != b'"':
                raise Malformed("Quote inside a string has to be escaped by another quote")
            pieces.append(record[at : quote + 1])
            at = quote + 2
        raise Malformed("Quoted field has to end with quote followed by delim or end")


# -- fields to columns ------------------------------------------------------------------------


class _Table:
    """The columns that one node wants."""

    def __init__(
        self, splitter: _Splitter, types: Sequence[DType], na_value: bytes, defaults: Sequence[Any]
    ) -> None:
        self.splitter = splitter
        self.values = Columns(types, na_value, defaults)

    def columns(self, records: list[bytes], single: bool) -> list[Any]:
        """One vector per column, or with `single` one value of the only record.

        Raises Malformed, ValueError, OverflowError.
        """
        lines = None if single else self.splitter.lines(records, len(self.values.types))
        if lines is not None:
            found = self.values.of_lines(lines)
            if found is not None:
                return found
        flat = self.splitter.split_all(records, len(self.values.types))
        return self.values.of(flat, len(records), b"_" in b"".join(records), single)

    def diagnose(self, record: bytes, number: int) -> None:
        """Raise the first error of one record, if it has one."""
        try:
            row = self.splitter.split(record)
        except Malformed as malformed:
            raise Malformed(f"{malformed} in record {number}") from None
        width = len(self.values.types)
        if len(row) != width:
            raise Malformed(f"Expect {width} fields but have {len(row)} in record {number}")
        fault = self.values.fault(row, f"record {number}")
        if fault:
            raise Malformed(fault)


# -- the op -----------------------------------------------------------------------------------


def _csv_shape(c: ShapeContext) -> list[Shape]:
    for tensor in c.op.inputs[1:]:
        raw = tensor.raw_shape
        if raw is not None and (len(raw) > 1 or (raw and raw[0] is not None and raw[0] > 1)):
            raise ValueError(
                "Shape of a default must be a length-0 or length-1 vector, or a scalar; "
                f"{tensor.name} has shape {text(raw)}"
            )
    return [c.shape("records")] * c.num_outputs


@op(
    "DecodeCSV",
    inputs="records: string; record_defaults: OUT_TYPE",
    outputs="output: OUT_TYPE",
    attrs="OUT_TYPE: list({float, double, int32, int64, string}) >= 1; field_delim: string = ','; "
    "use_quote_delim: bool = true; na_value: string = ''; select_cols: list(int) = []",
    shape=_csv_shape,
    traits={PER_RECORD},
    differentiable=False,
)
def decode_csv_op(
    ctx: KernelContext,
    records: Array,
    *record_defaults: Any,
    OUT_TYPE: list[DType],
    field_delim: bytes,
    use_quote_delim: bool,
    na_value: bytes,
    select_cols: list[int],
) -> list[Any]:
    """One value per record and column.

    records [...]; record_defaults [] or [1] (what a missing field is) or [0] (it may not be
    missing); outputs [...] each.
    Raises InvalidArgument, naming record and field (and file and line if a reader of the task
    remembers them).
    """
    table = ctx.memo.get("table")  # defaults are constants: the very same arrays in every step
    if table is None or not all(map(operator.is_, table[0], record_defaults)):
        made = _table(
            OUT_TYPE, record_defaults, field_delim, use_quote_delim, na_value, select_cols
        )
        table = ctx.memo["table"] = (record_defaults, made)
    decoder: _Table = table[1]
    flat: list[bytes] = records.reshape(-1).tolist()
    try:
        columns = decoder.columns(flat, records.ndim == 0)
    except (Malformed, ValueError, OverflowError):
        raise _first_error(ctx, decoder, flat) from None
    return columns if records.ndim < 2 else [column.reshape(records.shape) for column in columns]


def decode_csv_rows(op: Operation, defaults: Sequence[Any]) -> Callable[..., list[Any]] | None:
    """The kernel of a node whose defaults are known, for records [n]: see plan.rules.batching_rules.

    It raises whatever it meets first and asks no reader where that stands.
    """
    try:
        table = _table(
            op.attrs["OUT_TYPE"],
            defaults,
            op.attrs["field_delim"],
            op.attrs["use_quote_delim"],
            op.attrs["na_value"],
            op.attrs["select_cols"],
        )
    except errors.OpError:  # for the step to report
        return None
    return lambda records, *_: table.columns(records.tolist(), False)


def _table(
    types: list[DType],
    defaults: Sequence[Any],
    delim: bytes,
    quotes: bool,
    na_value: bytes,
    select: list[int],
) -> _Table:
    if len(delim) != 1:
        raise errors.invalid_argument(f"field_delim should be only 1 char, and is {delim!r}")
    if select:
        _check_selection(select, len(types), errors.invalid_argument)
    for at, default in enumerate(defaults):
        if default.ndim > 1 or default.size > 1:
            raise errors.invalid_argument(
                f"there should be at most 1 default per field, and field {at} has one of shape "
                f"{list(default.shape)}"
            )
    return _Table(_Splitter(delim, quotes, select), types, na_value, defaults)


def _check_selection(
    select: Sequence[int], columns: int, error: Callable[[str], Exception]
) -> None:
    if len(select) != columns:
        raise error(
            f"Length of select_cols and record_defaults do not match: {len(select)} columns, and {columns} defaults; "
            "give one default for each selected column"
        )
    if any(index < 0 for index in select):
        raise error(f"select_cols contains negative values: {list(select)}")
    if any(a >= b for a, b in itertools.pairwise(select)):
        raise error(f"select_cols is not strictly increasing: {list(select)}")


def _first_error(ctx: KernelContext, table: _Table, records: list[bytes]) -> errors.OpError:
    for number, record in enumerate(records):
        try:
            table.diagnose(record, number)
        except Malformed as malformed:
            where = origin_of(ctx.runtime.resources, record)
            line = f" ({where})" if where else ""
            return errors.invalid_argument(f"{malformed}{line}; the record is {record[:200]!r}")
    return errors.internal(f"{len(records)} CSV records could not be decoded for no known reason")


def decode_csv(
    records: Any,
    record_defaults: Any,
    field_delim: str = ",",
    use_quote_delim: bool = True,
    name: str | None = None,
    na_value: str = "",
    select_cols: Sequence[int] | None = None,
) -> list[Tensor]:
    """Columns of CSV records: a tensor of the shape of `records` for each of `record_defaults`.

    A default is a scalar or one-element list: its type is the column's, its value that of missing
    fields; an empty list or tensor makes the field required.
    Raises ValueError (select_cols), TypeError (types).
    """
    if not isinstance(record_defaults, (list, tuple)):
        raise TypeError(f"record_defaults must be a list, not {record_defaults!r:.80}")
    if select_cols is not None:
        _check_selection(select_cols, len(record_defaults), ValueError)
    columns: list[Tensor] = decode_csv_op(
        records,
        list(record_defaults),
        field_delim=field_delim,
        use_quote_delim=use_quote_delim,
        na_value=na_value,
        select_cols=list(select_cols or []),
        name=name,
    )
    return columns
