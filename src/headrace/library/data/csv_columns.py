"""What CSV files say of their columns: names, and types that all records looked at have.

Called by: library.data.record_batches, when a program makes a dataset of them.  Threads: as graph.
Source: TF 1.15 python/data/experimental/ops/readers.py, for behaviour; compared with the oracle
"""

from __future__ import annotations

import csv
import gzip
import itertools
import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import IO, Any, Final

import numpy as np

from headrace.base import dtypes
from headrace.base.dtypes import DType
from headrace.graph.convert import convert
from headrace.graph.tensor import Tensor
from headrace.run.readers.files import file_error, local_path


class Opener:
    """How files are opened to look at them."""

    def __init__(self, compression_type: Any, encoding: str) -> None:
        self._compression, self._encoding = compression_type, encoding

    def check(self) -> None:
        """Raises ValueError: such files cannot be looked at."""
        given = self._compression
        if isinstance(given, str) and given == "ZLIB":
            raise ValueError(f"`compression_type` {given} is not supported for probing columns.")
        if given is not None and (not isinstance(given, str) or given not in ("", "GZIP")):
            raise ValueError(
                f"Received unknown `compression_type` {given}. Expected: GZIP, ZLIB or  (empty string)."
            )

    def open(self, name: str) -> IO[str]:
        """A file.  Raises OpError."""
        path = local_path(os.fsencode(name))
        try:
            if self._compression == "GZIP":
                return gzip.open(path, "rt", encoding=self._encoding)
            return open(path, encoding=self._encoding, newline="\n")
        except OSError as error:
            raise file_error(os.fsencode(name), error) from None

    def rows(
        self, names: Iterable[str], width: int, delim: str, quotes: bool, header: bool
    ) -> Iterator[list[str]]:
        """The records of the files.  Raises ValueError: one has not `width` fields."""
        for name in names:
            with self.open(name) as file:
                reader = _reader(file, delim, quotes)
                if header:
                    next(reader)
                for number, row in enumerate(reader, 1 + bool(header)):
                    if len(row) != width:
                        raise ValueError(
                            f"Problem inferring types: CSV row {number} has {len(row)} number of fields. Expected: "
                            f"{width}. It is in {name}"
                        )
                    yield row


def _reader(file: IO[str], delim: str, quotes: bool) -> Any:
    return csv.reader(
        file, delimiter=delim, quoting=csv.QUOTE_MINIMAL if quotes else csv.QUOTE_NONE
    )


def column_names_of(names: Sequence[str], delim: str, quotes: bool, opened: Opener) -> list[str]:
    """What the first lines say, which must be the same.  Raises ValueError."""
    found: list[str] | None = None
    for name in names:
        with opened.open(name) as file:
            row = next(_reader(file, delim, quotes), None)
        if row is None:
            raise ValueError(f"Failed when reading the header line of {name}. Is it an empty file?")
        found = row if found is None else found
        if row != found:
            raise ValueError(
                f"All input CSV files should have the same column names in the header row. File {name} has different "
                f"column names: {row}, and {names[0]} has {found}"
            )
    assert found is not None
    return found


def repeated(names: Iterable[Any]) -> set[Any]:
    """Those that come more than once."""
    ordered = sorted(names)
    return {a for a, b in itertools.pairwise(ordered) if a == b}


def columns_chosen(chosen: Sequence[Any], names: Sequence[str]) -> list[int]:
    """The numbers of columns given by names or numbers, rising.  Raises ValueError."""
    numbers = {name: number for number, name in enumerate(names)}
    found: list[int] = []
    for each in chosen:
        if isinstance(each, int):
            if not 0 <= each < len(names):
                raise ValueError(
                    f"Column index {each} specified in `select_columns` should be > 0  and <= {len(names)}, which is "
                    "the number of columns. The first one is 0"
                )
            found.append(int(each))
        elif each in numbers:
            found.append(numbers[each])
        else:
            raise ValueError(
                f"Column {each} specified in `select_columns` must be of one of the columns: {numbers.keys()}."
            )
    twice = repeated(found)
    if twice:
        raise ValueError(
            f"The `select_columns` argument contains duplicate columns: { {names[at] for at in twice} }."
        )
    return sorted(found)


def _fits_int32(field: str) -> bool:
    return bool(np.int32(field) == np.int64(field))


def _fits_int64(field: str) -> bool:
    np.int64(field)
    return True


_FITS: Final[list[tuple[DType, Callable[[str], Any]]]] = [
    (dtypes.int32, _fits_int32),
    (dtypes.int64, _fits_int64),
    (dtypes.float32, lambda field: np.float32(field) < np.inf),
    (dtypes.float64, lambda field: np.float64(field) < np.inf),
    (dtypes.string, lambda field: True),
]
"""Types, each of which holds more fields than the one before, and whether a field is such a one."""


def _fits(place: int, field: str) -> bool:
    try:
        with np.errstate(over="ignore"):
            return bool(_FITS[place][1](field))
    except (ValueError, OverflowError):
        return False


def defaults_of(
    rows: Iterable[list[str]], wanted: Sequence[int], na_value: str, most: int | None
) -> list[Tensor]:
    """The defaults [1] of columns, of the first type that all their fields are: 0, or the empty string.

    rows: of which the first `most` are looked at.  Missing fields say nothing; a column without others is of strings.
    """
    places: list[int | None] = [None] * len(wanted)
    for number, row in enumerate(rows):
        if most is not None and number >= most:
            break
        for at, column in enumerate(wanted):
            field = row[column]
            if field in ("", na_value):
                continue
            least = places[at] or 0
            places[at] = next(place for place in range(least, len(_FITS)) if _fits(place, field))
    found = [dtypes.string if place is None else _FITS[place][0] for place in places]
    return [convert(["" if each is dtypes.string else 0], each, "Const") for each in found]
