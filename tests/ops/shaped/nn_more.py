"""Operands that fit: networks' ops that few programs need.  (See the package for what a row is.)"""

from __future__ import annotations

import numpy as np

from tests.ops.shaped import Row

_LAST = [[[[2, 3], [6, 7]], [[18, 19], [22, 23]]]]  # under each window
_LABELS = [[0, 0], [0, 1], [1, 0]]

SHAPED: dict[str, list[Row]] = {
    "Fractional(Max|Avg)Pool": [((2, 3, 4, 2),), ((0, 3, 4, 2),), ((1, 1, 1, 1),)],
    "FractionalMaxPoolGrad": [
        (np.arange(24.0).reshape(1, 3, 4, 2), _LAST, (1, 2, 2, 2), [0, 1, 3], [0, 2, 4]),
        ((1, 3, 4, 2), (1, 2, 2, 2), (1, 2, 2, 2), [0, 1, 3], [0, 2, 4]),
        ((1, 3, 4, 2), (1, 2, 2, 2), (1, 2, 2, 2), [0, 1, 3], [0, 2, 2, 4]),
    ],
    "FractionalAvgPoolGrad": [
        ([1, 3, 4, 2], (1, 2, 2, 2), [0, 1, 3], [0, 2, 4]), ([1, 3, 4, 2], (1, 2, 1, 2), [0, 2, 3], [0, 4]),
        ([1, 3], (1, 2, 1, 2), [0, 2, 3], [0, 4]),
    ],
    "AllCandidateSampler": [([[0], [0]],), ([[1]],), ([[0, 0]],)],
    "Dilation2D": [((1, 3, 4, 2), (2, 2, 2)), ((0, 3, 4, 2), (2, 2, 2)), ((1, 3, 4, 2), (1, 1, 2))],
    "Dilation2DBackprop(Input|Filter)": [
        ((1, 3, 4, 2), (2, 1, 2), (1, 2, 4, 2)), ((0, 3, 4, 2), (1, 1, 2), (0, 3, 4, 2)),
    ],
    "CTCLoss": [((4, 2, 3), _LABELS, [0, 1, 1], [4, 3]), ((4, 1, 3), [[0, 0]], [1], [0])],
    "CTC(GreedyDecoder|BeamSearchDecoder)": [((4, 2, 3), [4, 3]), ((4, 2, 3), [0, 3]), ((4, 0, 3), [])],
}  # fmt: skip
