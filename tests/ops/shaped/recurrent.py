"""Operands that fit: recurrent cells.  (See the package for what a row is.)"""

from __future__ import annotations

from tests.ops.shaped import Row

_STATES = ((2, 4), (2, 4), (7, 16), (4,), (4,), (4,), (16,))
_GRU = ((2, 3), (2, 4), (7, 8), (7, 4), (8,), (4,))
_STEP = ((2, 4),) * 6
_STEPS = ((3, 2, 4),) * 7

SHAPED: dict[str, list[Row]] = {
    "LSTMBlockCell": [((2, 3), *_STATES), ((0, 3), (0, 4), (0, 4), *_STATES[2:]), ((1, 3), *_STATES)],
    "LSTMBlockCellGrad": [((2, 3), *_STATES, *_STEP, (2, 4), (2, 4)), ((2, 3), *_STATES, *_STEP, (2, 4), (2, 3))],
    "BlockLSTM(V2)?": [
        (3, (3, 2, 3), *_STATES), (0, (0, 2, 3), *_STATES), (2, (2, 0, 3), (0, 4), (0, 4), *_STATES[2:]),
        (1, (1, 2, 3), (2, 4), (1, 4), *_STATES[2:]), (1, (1, 2, 2), *_STATES),
    ],
    "BlockLSTMGrad(V2)?": [
        (3, (3, 2, 3), *_STATES, *_STEPS, (3, 2, 4), (3, 2, 4)),
        (2, (3, 2, 3), *_STATES, *_STEPS, (3, 2, 4), (3, 2, 4)),
    ],
    "GRUBlockCell": [_GRU, ((0, 3), (0, 4), *_GRU[2:]), ((2, 2), *_GRU[1:]), (*_GRU[:4], (4,), (4,))],
    "GRUBlockCellGrad": [(*_GRU, (2, 4), (2, 4), (2, 4), (2, 4)), (*_GRU, (2, 4), (2, 4), (2, 4), (2, 3))],
    "GatherTree": [
        ([[[1, 2]], [[3, 4]], [[5, 6]]], [[[0, 0]], [[0, 1]], [[1, 0]]], [3], 9),
        ([[[1, 2]], [[3, 9]], [[5, 6]]], [[[0, 0]], [[0, 1]], [[1, 5]]], [2], 9), ((0, 1, 2), (0, 1, 2), [0], 1),
    ],
}  # fmt: skip
