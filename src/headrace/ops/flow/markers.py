"""GuaranteeConst, Timestamp: a promise, and the time.

Called by: programs.  Threads: kernels any.
Source: TF 1.15 core/ops/array_ops.cc, logging_ops.cc
"""

from __future__ import annotations

import time
from typing import Any

import numpy as np

from headrace.base.traits import ALIASES, KEEPS_NOTHING, STATEFUL
from headrace.graph.registry import op
from headrace.graph.shape_fns import scalar, unchanged

__all__ = ["guarantee_const", "timestamp"]


@op(
    "GuaranteeConst",
    inputs="input: T",
    outputs="output: T",
    attrs="T: type",
    shape=unchanged,
    traits={STATEFUL, ALIASES},
)
def guarantee_const(xp: Any, input: Any) -> Any:
    """The input itself, which is promised never to change."""
    return input


@op(
    "Timestamp",
    outputs="ts: double",
    shape=scalar,
    traits={STATEFUL, KEEPS_NOTHING},
    differentiable=False,
)
def timestamp(xp: Any) -> Any:
    """Seconds since 1970, of the task that it runs on."""
    return np.float64(time.time())
