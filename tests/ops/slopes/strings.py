"""Ragged tensors."""

from __future__ import annotations

import numpy as np

from headrace.graph.registry import get
from tests.ops.slopes import Cases

CASES: Cases = {
    "RaggedTensorToSparse": (
        lambda v: get("RaggedTensorToSparse")([np.array([0, 2, 2, 3])], v)[1],
        [np.array([[0.7, -1.9], [2.3, 0.1], [0.4, 1.2]])],
    ),
    "RaggedGather": (
        lambda v: get("RaggedGather")([np.array([0, 2, 2, 3])], v, [2, 0, 0], OUTPUT_RAGGED_RANK=1)[
            1
        ],
        [np.array([[0.7, -1.9], [2.3, 0.1], [0.4, 1.2]])],
    ),
    "RaggedTensorToTensor": (
        lambda v, d: get("RaggedTensorToTensor")(
            [-1, 2, 2], v, d, [np.array([0, 3, 3, 4])], row_partition_types=["ROW_SPLITS"]
        ),
        [np.array([[0.7, -1.9], [2.3, 0.1], [0.4, 1.2], [0.6, 0.2]]), np.array([0.5, -0.5])],
    ),
}

ELSEWHERE: set[str] = set()
