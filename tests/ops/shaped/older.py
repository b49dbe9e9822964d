"""Operands that fit: ops of earlier versions, and few programs.  (See the package for what a row is.)"""

from __future__ import annotations

from tests.ops.shaped import Row

_IMAGE, _EMPTY = (2, 3, 4, 2), (0, 3, 4, 2)
_C = [0.5, 2.0]
_KSIZE, _STRIDES = [1, 2, 2, 1], [1, 2, 1, 1]
_POOLED = (2, 1, 3, 2)

SHAPED: dict[str, list[Row]] = {
    "FusedBatchNorm(V2)?": [(_IMAGE, _C, [1.0, -1.0], (0,), (0,))],
    "FusedBatchNormGrad(V2)?": [(_IMAGE, _IMAGE, _C, [0.1, 0.2], _C)],
    "BatchNormWithGlobalNormalization": [(_IMAGE, [0.1, 0.2], _C, [1.0, 2.0], [3.0, -1.0])],
    "MaxPoolV2": [(_IMAGE, _KSIZE, _STRIDES), (_IMAGE, [1, 1, 1, 1], [1, 1, 1, 1]), (_EMPTY, _KSIZE, _STRIDES)],
    "MaxPoolGradV2": [(_IMAGE, (2, 2, 4, 2), (2, 2, 4, 2), _KSIZE, _STRIDES)],
    "MaxPoolGradGradV2": [(_IMAGE, (2, 2, 4, 2), _IMAGE, _KSIZE, _STRIDES)],
    "AudioSpectrogram": [((20, 2),), ((3, 0),), ((0, 1),)],
    "Mfcc": [((2, 3, 129), 16000), ((1, 2, 65), 8000), ((1, 0, 129), 16000)],
    "NthElement": [((2, 3), 1), ((4,), 0), ((2, 0, 3), 2)],
    "Inplace(Update|Add|Sub)": [((3, 2), [0, 2], (2, 2)), ((3,), [1, 1, 5], (3,)), ((3, 0), [-1], (1, 0))],
    "Empty": [([2, 3],), ([0],), ([],)],
    "TensorStridedSliceUpdate": [((5,), [1], [4], [2], (2,)), ((3, 4), [0, 1], [3, 3], [1, 1], (3, 2))],
    "DataFormatDimMap": [([-4, -1, 0, 3, 1, 9],)],
    "DataFormatVecPermute": [([1, 2, 3, 4],), ([1, 2],), ([[1, 2], [3, 4], [5, 6], [7, 8]],), ([[1, 2], [3, 4]],)],
}  # fmt: skip
