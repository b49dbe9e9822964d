"""CSV fields as values: the columns of records that were cut into fields, one type at a time.

Called by: ops.io.csv (records of text), ops.data.dataset_csv (files).  Threads: any.
Source: TF 1.15 core/kernels/decode_csv_op.cc, for behaviour; compared with the oracle
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from headrace.base import dtypes
from headrace.base.dtypes import DType
from headrace.ops._kernels.decimal_text import decimals
from headrace.ops._kernels.number_text import doubles, parse_int, singles
from headrace.ops._kernels.short_fields import Lines, Words, short_numbers

Array = np.ndarray[Any, Any]
Fields = Sequence[bytes]


class Malformed(Exception):
    """A record that cannot be decoded; the text says why."""


# -- fields of one type -----------------------------------------------------------------------


def _integers(fields: Fields, careful: bool, dtype: DType) -> Array:
    numbers = map(parse_int if careful else int, fields)
    wide = np.fromiter(numbers, np.int64, len(fields))  # raises OverflowError
    if dtype is dtypes.int32 and wide.size:
        narrow = wide.astype(np.int32)
        if not np.array_equal(narrow, wide):
            raise OverflowError
        return narrow
    return wide.astype(dtype.np, copy=False)


def _strings(fields: Fields, careful: bool) -> Array:
    column = np.empty(len(fields), object)
    column[:] = fields
    return column


_Converter = Callable[[Fields, bool], Array]
_CONVERTERS: dict[DType, _Converter] = {
    dtypes.float32: singles,
    dtypes.float64: doubles,
    dtypes.int32: lambda fields, careful: _integers(fields, careful, dtypes.int32),
    dtypes.int64: lambda fields, careful: _integers(fields, careful, dtypes.int64),
    dtypes.string: _strings,
}
_INT32_MAX = 2**31 - 1
_OF_NUMBERS = frozenset(b"%c" % letter for letter in b"0123456789.-")
_NEUTRAL: dict[DType, bytes] = {dtypes.string: b""}  # for missing fields; 0 for numbers


# -- fields to columns ------------------------------------------------------------------------


class _Group:
    """The columns of one type."""

    def __init__(self, kind: DType, members: list[int]) -> None:
        self.kind = kind
        self.members = members

    def fields(self, flat: list[bytes], width: int) -> list[bytes]:
        """Their fields, column by column, of all fields row by row."""
        if len(self.members) == 1:
            return flat[self.members[0] :: width]
        return list(itertools.chain.from_iterable([flat[at::width] for at in self.members]))


class Columns:
    """What columns of such types are made of.

    na_value: a field that counts as missing, as an empty one does.  defaults: what a missing field is, an array of one
    element for each column; an empty one: it may not be missing.
    """

    def __init__(self, types: Sequence[DType], na_value: bytes, defaults: Sequence[Any]) -> None:
        self.types = list(types)
        self.na_value = na_value
        self.defaults = [default.reshape(-1) for default in defaults]
        self.groups = [
            _Group(kind, [at for at, other in enumerate(types) if other is kind])
            for kind in dict.fromkeys(types)
        ]
        self._whole = self._members(dtypes.int32, dtypes.int64)
        self._pointed = self._members(dtypes.float32, dtypes.float64)
        self._numbers = np.array([*self._whole, *self._pointed], np.intp)
        self._words = {at: Words() for at in self._members(dtypes.string)}

    def _members(self, *kinds: DType) -> list[int]:
        """The columns of these types."""
        return [at for at, kind in enumerate(self.types) if kind in kinds]

    def of(self, flat: list[bytes], count: int, careful: bool, single: bool = False) -> list[Any]:
        """One vector per column, or with `single` one value of the only record.

        flat: the fields of `count` records, row by row.  careful: there are underscores.
        Raises Malformed, ValueError, OverflowError.
        """
        width = len(self.types)
        found: list[Any] = [None] * width
        for group in self.groups:
            values = self._converted(group, group.fields(flat, width), careful)
            if not single:
                by_column = values.reshape(len(group.members), count)
                for at, column in zip(group.members, by_column, strict=True):
                    found[at] = column
            elif group.kind is dtypes.string:
                for number, at in enumerate(group.members):
                    found[at] = values[number : number + 1].reshape(())
            else:
                for at, value in zip(group.members, values, strict=True):
                    found[at] = value
        return found

    def of_lines(self, lines: Lines) -> list[Any] | None:
        """As `of`, of lines in which every delimiter ends a field; None where `of` has to look closer."""
        if self.na_value[:1] in _OF_NUMBERS:  # it may be a number
            return None
        found: list[Any] = [None] * len(self.types)
        if self._numbers.size and not self._short(lines, found):
            signed, pointed = b"-" in lines.text, b"." in lines.text
            for members, has_points in ((self._whole, False), (self._pointed, pointed)):
                if not members:
                    continue
                starts, ends = (each[members].ravel() for each in (lines.starts, lines.ends))
                numbers = decimals(lines.letters, starts, ends, signed, has_points)
                if numbers is None:
                    return None
                for at, column in zip(members, numbers.reshape(len(members), -1), strict=True):
                    kind = self.types[at]
                    if kind is dtypes.int32 and max(column.max(), -column.min()) > _INT32_MAX:
                        return None
                    found[at] = column.astype(kind.np, copy=False)
        for at, words in self._words.items():
            known = None if self.na_value else words.of(lines, at)
            found[at] = self._texts(lines, at) if known is None else known
        return found

    def _short(self, lines: Lines, found: list[Any]) -> bool:
        """Fill in the columns of numbers, if all are short ones."""
        numbers = short_numbers(lines, self._numbers, b"." in lines.text)
        if numbers is None:
            return False
        values, points = numbers
        if points is not None and points[: len(self._whole)].any():
            return False
        for at, column in zip(self._numbers.tolist(), values, strict=True):
            found[at] = column.astype(self.types[at].np)
        return True

    def _texts(self, lines: Lines, at: int) -> Array:
        """The fields of a column, one by one."""
        text = lines.text
        places = zip(lines.starts[at].tolist(), lines.ends[at].tolist(), strict=True)
        fields = [text[start:end] for start, end in places]
        return self._converted(_Group(dtypes.string, [at]), fields, False)

    def _converted(self, group: _Group, fields: list[bytes], careful: bool) -> Array:
        """The fields, column by column, as values of one type, defaults in place of missing ones."""
        missing = []
        if b"" in fields or (self.na_value and self.na_value in fields):
            missing = [at for at, field in enumerate(fields) if self._is_missing(field)]
            for at in missing:
                fields[at] = _NEUTRAL.get(group.kind, b"0")
        values = _CONVERTERS[group.kind](fields, careful)
        for at in missing:
            column = at * len(group.members) // len(fields)
            default = self.defaults[group.members[column]]
            if not default.size:
                raise Malformed
            values[at] = default[0]
        return values

    def _is_missing(self, field: bytes) -> bool:
        return not field or field == self.na_value

    def fault(self, row: Fields, record: str) -> str | None:
        """What is wrong with the first field that is no value of its column; None if all are.

        record: what it is called.  row: no more fields than there are columns.
        """
        for at, (field, kind) in enumerate(zip(row, self.types, strict=False)):
            if self._is_missing(field):
                if not self.defaults[at].size:
                    return f"Field {at} is required but missing in {record}!"
                continue
            try:
                _CONVERTERS[kind]([field], True)
            except (ValueError, OverflowError):
                shown = field.decode(errors="backslashreplace")
                return f"Field {at} in {record} is not a valid {dtypes.spelled(kind)}: {shown}"
        return None
