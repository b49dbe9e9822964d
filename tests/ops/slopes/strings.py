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
}

ELSEWHERE: set[str] = set()
