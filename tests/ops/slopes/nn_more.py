"""Networks' ops that few programs need."""

from __future__ import annotations

import numpy as np

from headrace.graph.registry import get
from tests.ops.slopes import Cases, op

RNG = np.random.default_rng(7)
LOGITS = RNG.normal(size=(5, 2, 4))
LABELS = np.array([[0, 0], [0, 1], [1, 0], [1, 1]])
VALUES = np.array([1, 1, 2, 0], np.int32)
STEPS = np.array([5, 4], np.int32)

CASES: Cases = {
    "FractionalMaxPool": (
        op(
            "FractionalMaxPool",
            pooling_ratio=[1.0, 1.4, 1.6, 1.0],
            deterministic=True,
            seed=3,
            seed2=5,
        ),
        [RNG.permutation(2 * 7 * 8 * 2).reshape(2, 7, 8, 2) / 9.0],
    ),
    "FractionalMaxPool overlapping": (
        op(
            "FractionalMaxPool",
            pooling_ratio=[1.0, 1.4, 1.6, 1.0],
            overlapping=True,
            deterministic=True,
            seed=3,
        ),
        [RNG.permutation(2 * 7 * 8).reshape(1, 7, 8, 2) / 9.0],
    ),
    "FractionalAvgPool": (
        op(
            "FractionalAvgPool",
            pooling_ratio=[1.0, 1.4, 1.6, 1.0],
            deterministic=True,
            seed=3,
            seed2=5,
        ),
        [RNG.normal(size=(2, 7, 8, 2))],
    ),
    "FractionalAvgPool overlapping": (
        op(
            "FractionalAvgPool",
            pooling_ratio=[1.0, 1.4, 1.6, 1.0],
            overlapping=True,
            pseudo_random=True,
            deterministic=True,
            seed=3,
        ),
        [RNG.normal(size=(1, 7, 8, 2))],
    ),
    "Dilation2D": (
        op("Dilation2D", strides=[1, 2, 1, 1], rates=[1, 1, 2, 1], padding="SAME"),
        [RNG.normal(size=(2, 4, 5, 2)), RNG.normal(size=(2, 2, 2))],
    ),
    "CTCLoss": (lambda x: get("CTCLoss")(x, LABELS, VALUES, STEPS)[0], [LOGITS]),
    "CTCLoss of labels that stay apart": (
        lambda x: get("CTCLoss")(x, LABELS, VALUES, STEPS, ctc_merge_repeated=False)[0],
        [LOGITS],
    ),
}
ELSEWHERE: set[str] = set()
