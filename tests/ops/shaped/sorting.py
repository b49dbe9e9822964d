"""Operands that fit searching, counting and incomplete functions."""

from __future__ import annotations

from tests.ops.shaped import Row

_SMALL = [[0.5, 1.0, 2.0]]

SHAPED: dict[str, list[Row]] = {
    "LowerBound|UpperBound": [((1, 3), (1, 2)), ((2, 1), (2, 3)), ((0, 3), (0, 2)), ((2, 0), (2, 2)), ((1, 2), (2, 2))],
    "UnravelIndex": [([3, 4], [2, 3]), (5, [2, 3]), ([], [2, 3]), ([6], [2, 3]), ([0], [2, 0]), ([-1], [2, 3])],
    "HistogramFixedWidth": [((2, 3), [-1, 1], 3), ((0,), [0, 1], 2), ((3,), [1, 1], 2), ((3,), [0, 1], 0)],
    "Bincount|DenseBincount": [([1, 2, 2], 3, []), ([1, 2, 2], 2, (3,)), ([], 2, []), ([-1], 2, []), ([1], 0, []), ([1,
    2], 3, (3,))],
    "Igammac?|IgammaGradA|RandomGammaGrad": [(_SMALL, _SMALL), (_SMALL, 1.5), (0.7, (0, 3)), ([-1.0, 0.0], [1.0, 1.0])],
    "Betainc": [(_SMALL, _SMALL, 0.5), (1.0, 2.0, [0.1, 0.9]), ((0,), (0,), (0,)), (1.0, 1.0, [-1.0, 2.0])],
}  # fmt: skip
