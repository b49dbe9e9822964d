"""Numbers as text: read as C's strtod and strtol read them, and rounded once.

Called by: ops._kernels.csv_columns, ops.string.strings.  Threads: pure functions.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]
Fields = Sequence[bytes]

# Written so that a string can be read in one way only: else one that is no number takes the square of its length.
_DECIMAL = re.compile(rb"[+-]?(\d+(\.\d*)?|\.\d+)([eE][+-]?\d+)?\Z")
_HEX = re.compile(rb"[+-]?0[xX]([0-9a-fA-F]+(\.[0-9a-fA-F]*)?|\.[0-9a-fA-F]+)([pP][+-]?\d+)?\Z")
_SAFE_DIGITS = 17  # a float64 tells decimals of so many digits apart
_WORD = re.compile(rb"[+-]?(inf|infinity|nan(\(\w*\))?)\Z", re.IGNORECASE)


def parse_float(field: bytes) -> float:
    """A float as C's strtod reads it, blanks around it allowed.  Raises ValueError."""
    word = field.strip()
    if _DECIMAL.match(word):
        return float(word)
    if _HEX.match(word):
        return float.fromhex(word.decode())
    if _WORD.match(word):
        return float(word.partition(b"(")[0])
    raise ValueError(field)


def parse_int(field: bytes) -> int:
    """A decimal integer, blanks around it allowed.  Raises ValueError."""
    if b"_" in field:
        raise ValueError(field)
    return int(field)


def has_underscores(fields: Fields) -> bool:
    """Whether there may be numbers that Python reads and C does not."""
    return b"_" in b"".join(fields)


def doubles(fields: Fields, careful: bool) -> Array:
    """float64; with `careful` underscores are no part of a number.  Raises ValueError."""
    if not (careful and has_underscores(fields)):
        try:
            return np.fromiter(map(float, fields), np.float64, len(fields))
        except ValueError:
            pass  # a hexadecimal number perhaps, which Python's float does not read
    return np.array([parse_float(field) for field in fields], np.float64)


def singles(fields: Fields, careful: bool) -> Array:
    """float32, rounded once: through float64 and then again would differ where that lands on a tie.

    Raises ValueError.
    """
    wide = doubles(fields, careful)
    with np.errstate(over="ignore"):
        narrow: Array = wide.astype(np.float32)
    ties = (wide.view(np.int64) & 0x1FFFFFFF) == 0x10000000
    if ties.any() and max(map(len, fields)) > _SAFE_DIGITS:
        for at in np.flatnonzero(ties & np.isfinite(wide)).tolist():
            word = fields[at].strip()
            if _DECIMAL.match(word):
                narrow[at] = _rounded(word, wide[at])
    return narrow


def _rounded(word: bytes, double: Any) -> np.float32:
    """The float32 nearest to a decimal whose float64 lies exactly between two of them."""
    from fractions import Fraction  # takes its time to load

    exact = Fraction(word.decode())
    side = (exact > Fraction(float(double))) - (exact < Fraction(float(double)))
    if side == 0:
        return np.float32(double)
    return np.float32(np.nextafter(double, np.inf if side > 0 else -np.inf))
