"""Special functions of several numbers."""

from __future__ import annotations

import numpy as np

import headrace as tf
from headrace.graph.registry import get
from tests.ops.slopes import Cases, op

A = np.array([[0.6, 1.7, 5.2], [0.9, 3.1, 11.0]])
X = np.array([0.4, 1.9, 7.5])
SIGNED = np.array([-4.0, -0.7, 0.3, 9.1])

CASES: Cases = {
    "Igamma": (op("Igamma"), [A, X]),
    "Igammac": (op("Igammac"), [A, X]),
    "Betainc": (lambda x: get("Betainc")(tf.constant(A), tf.constant(A[::-1].copy()), x), [A / 12]),
    **{name: (op(name), [SIGNED]) for name in ("BesselI0", "BesselI1", "BesselI0e", "BesselI1e")},
}

ELSEWHERE: set[str] = set()
