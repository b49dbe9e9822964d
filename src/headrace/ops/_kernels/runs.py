"""Rows that NumPy's ufuncs take as they lie, though there is something between them, or one is for all.

Called by: kernels that work on such rows.  Threads: any; the setting is the thread's own, and is given back.
Where rows are shorter than a ufunc's buffer they are put into it one by one, and back: at rows of 512 elements that
takes as long as the arithmetic does (`run.exec.float_warnings`).
"""

from __future__ import annotations

from types import TracebackType

import numpy as np

from headrace.run.exec.float_warnings import BUFFER

__all__: list[str] = []

_FEWEST = 256  # elements of a row; shorter ones are better put together
_GRAIN = 16  # of which NumPy wants a multiple


class as_they_lie:
    """``with as_they_lie(elements):``, for rows of as many elements."""

    __slots__ = ("_elements", "_was")

    def __init__(self, elements: int) -> None:
        self._elements = elements - elements % _GRAIN if _FEWEST <= elements < BUFFER else 0

    def __enter__(self) -> None:
        if self._elements:
            self._was = np.setbufsize(self._elements)

    def __exit__(
        self,
        kind: type[BaseException] | None,
        value: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._elements:
            np.setbufsize(self._was)
