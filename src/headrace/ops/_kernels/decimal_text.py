"""Short decimal numbers in a text, all at once: for NumPy what `float` and `int` do for each.

Digits with a point among them are the quotient of two integers that a float64 holds exactly, so that one division
rounds as it has to.  What is written in another way, or has more digits, is left to `number_text`.
Called by: ops._kernels.csv_columns.  Threads: pure functions.
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np

Array = np.ndarray[Any, Any]

_WIDEST: Final = (
    15  # letters, so that their digits, and 0 for the point, are an integer that a float64 holds
)
_POINT, _MINUS, _ZERO = ord("."), ord("-"), ord("0")
_TENS: Final = 10.0 ** np.arange(_WIDEST + 1)
_BACK: Final = np.arange(_WIDEST, 0, -1)[:, None]  # the last so many letters of a field
_WEIGHTS: Final = _TENS[_WIDEST - 1 :: -1]
_OF_POINTS: Final = np.stack([np.ones(_WIDEST), np.arange(_WIDEST - 1.0, -1.0, -1.0)])
"""What a point counts at each place, and how many letters stand behind it."""


def decimals(
    letters: Array, starts: Array, ends: Array, signed: bool, pointed: bool
) -> Array | None:
    """The numbers, float64, that stand in `letters` (uint8) from each start to each end.

    signed, pointed: whether there may be signs and points at all.  None where one is no plain decimal of few digits.
    """
    widths = ends - starts
    if signed:
        minus = letters.take(starts, mode="clip") == _MINUS  # one of no letters is refused below
        widths -= minus
    width, least = int(widths.max()), int(widths.min())
    if width > _WIDEST or least < 1:
        return None
    at = ends - _BACK[_WIDEST - width :]
    digits = letters.take(at, mode="clip")
    digits -= _ZERO
    if least < width:  # letters of the fields before
        digits *= _BACK[_WIDEST - width :] <= widths
    if pointed:
        points = digits == _POINT - _ZERO + 256
        digits[points] = 0
    if digits.max() > 9:
        return None
    found: Array = _WEIGHTS[_WIDEST - width :] @ digits.astype(np.float64)
    if pointed:
        counts, behind = _OF_POINTS[:, _WIDEST - width :] @ points.astype(np.float64)
        if counts.max() > 1 or (widths - counts).min() < 1:
            return None
        scale = _TENS.take(behind.astype(np.intp))
        # The point took a place: what is before it stands for ten times as much.
        whole = np.floor(found / (scale * 10.0))
        whole *= counts
        whole *= scale * 9.0
        found -= whole
        found /= scale
    if signed:
        found *= 1 - 2 * minus
    return found
