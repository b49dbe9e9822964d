"""Gradients of ops of earlier versions, and few programs."""

from __future__ import annotations

import numpy as np

from headrace.graph.registry import get
from tests.ops.slopes import Cases, op

_X = np.arange(48.0).reshape(2, 3, 4, 2) * 5 % 47 / 9
_WINDOW = ([1, 2, 2, 1], [1, 2, 1, 1])
_ROWS = np.array([[3.0, 1.5, 2.0], [0.5, 4.0, -1.0]])

CASES: Cases = {
    "MaxPoolV2": (op("MaxPoolV2", *_WINDOW, padding="SAME"), [_X]),
    "NthElement": (op("NthElement", 1), [_ROWS]),
    "NthElement reverse": (op("NthElement", 0, reverse=True), [_ROWS]),
    "BatchNormWithGlobalNormalization": (
        op(
            "BatchNormWithGlobalNormalization", variance_epsilon=0.1, scale_after_normalization=True
        ),
        [
            _X,
            np.array([0.1, 0.2]),
            np.array([0.5, 2.0]),
            np.array([1.0, 2.0]),
            np.array([3.0, -1.0]),
        ],
    ),
    "TensorStridedSliceUpdate": (
        lambda x, value: get("TensorStridedSliceUpdate")(x, [0, 1], [2, 3], [1, 1], value),
        [_ROWS, np.array([[7.0, 8.0]])],
    ),
}
ELSEWHERE = {
    # float32 alone, or of a third order (tests/ops/test_older_ops.py)
    "FusedBatchNorm", "FusedBatchNormV2", "FusedBatchNormGrad", "FusedBatchNormGradV2", "FusedBatchNormGradV3",
    "MaxPoolGradV2", "MaxPoolGradGradV2",
}  # fmt: skip
