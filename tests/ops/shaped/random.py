"""Operands that fit random ops."""

from __future__ import annotations

from tests.ops.shaped import Row

_KEY, _COUNTER = [7], [0, 9]

SHAPED: dict[str, list[Row]] = {
    "RandomGamma": [([2], [0.5, 2.0]), ([], 1.0), ([0], [1.0]), ([2], [0.0]), ([2], (0,))],
    "Stateless(RandomUniform|RandomNormal|TruncatedNormal|RandomUniformFullInt)": [
        ([3], [1, 2]), ([], [0, 0]), ([0], [1, 2]), ([2, 2], [-1, 7]), ([3], [1]),
    ],
    "Stateless(RandomUniform|RandomNormal|TruncatedNormal|RandomUniformFullInt)V2": [
        ([3], _KEY, _COUNTER, 1), ([], _KEY, _COUNTER, 3), ([3], _KEY, _COUNTER, 2), ([3], [1, 2], _COUNTER, 1),
    ],
    "StatelessRandomUniformInt": [([3], [1, 2], 0, 9), ([3], [1, 2], 5, 5), ([0], [1, 2], 0, 1)],
    "StatelessRandomUniformIntV2": [([3], _KEY, _COUNTER, 1, 0, 9), ([3], _KEY, _COUNTER, 1, 5, 5)],
    "StatelessRandomGetKeyCounter": [([1, 2],), ([0, 0],), ([1],)],
    "StatelessMultinomial": [((2, 3), 4, [1, 2]), ((2, 3), 0, [1, 2]), ((0, 3), 2, [1, 2]), ((3,), 2, [1, 2])],
}  # fmt: skip
