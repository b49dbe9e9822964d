"""Operands that fit: strings as rows and code points, ragged tensors."""

from __future__ import annotations

import numpy as np

from tests.ops.shaped import Row

_TEXTS = np.array(
    [b"a\xc3\xa9", b"", b"\xff\xc3b\xe4\xbd", b"\xf0\x9f\x98\x80x", b"\xed\xa0\x80"], object
)

SHAPED: dict[str, list[Row]] = {
    "UnicodeDecode(WithOffsets)?|UnicodeTranscode": [(_TEXTS,), (_TEXTS[:4].reshape(2, 2),), (_TEXTS[2],)],
    "UnicodeEncode": [([72, 233, 0x4F60], [0, 2, 3]), ([], [0]), ([0xD800, -1, 0x110000], [0, 0, 3]), ([65], [0])],
    "UnicodeScript": [([72, 1080, 0x4F60, -1, 0x110000],), (0,)],
    "StringNGrams": [((4,), [0, 3, 3, 4]), ((0,), [0]), ((0,), []), ((4,), [0, 2]), ((6,), [0, 6])],
    "UnsortedSegmentJoin": [
        ((3,), [1, 0, 1], 3), ((2, 2), [[0, 1], [1, 0]], 2), ((2, 2), [0, 2], 3), ((0, 2), [], 2), ((2, 2), [0], 3),
        ((1,), [3], 3), ((1,), [-1], 3),
    ],
    "StringToHashBucket.*": [(_TEXTS,), (_TEXTS[0],)],
    "RaggedGather": [
        ([0, 2, 2, 3], (3,), [2, 0, 0]), ([0, 2, 2, 3], (3, 2), [1]), ([0], (0,), []), ([0, 1], (1,), [1]),
    ],
    "RaggedTensorToTensor": [
        (-1, (3,), (), [0, 2, 2, 3]), ([-1, -1], (3,), (), [0, 2, 3]), ([2, 1], (3,), (), [0, 2, 3]),
        (-1, (0,), (), [0]), ([5, 4], (3,), (), [0, 3]), (-1, (3, 2), (2,), [0, 1, 3]), (-1, (3, 2), (), [0, 1, 3]),
    ],
    "RaggedTensorToSparse": [([0, 2, 2, 3], (3,)), ([0, 2, 3], (3, 2)), ([0], (0,)), ([0, 2], (3,)), ([1, 3], (3,))],
    "RaggedRange": [([0, 5], [3, 9], [1, 2]), (0, [3, 2], 1), ([], [], []), (0, 3, 0), ([5], [2], [-1])],
}  # fmt: skip
