"""Waiting until a variable is initialized: ops of our own, which TensorFlow's tasks do not have.

A worker runs them, in a graph of its own, to be told when the chief has initialized (training.initialized).
Called by: training.  Threads: kernels any.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from headrace.base.traits import ALLOWS_UNINITIALIZED, MAY_WAIT, NEVER_FOLDED, STATEFUL
from headrace.graph.registry import op
from headrace.graph.shape_fns import scalar
from headrace.ops.state.resources import variable_behind
from headrace.run.pending import Pending
from headrace.run.state.variable import Variable

__all__ = ["await_initialized", "await_var_initialized"]


@op(
    "HeadraceAwaitInitialized",
    inputs="ref: Ref(dtype)",
    outputs="is_initialized: bool",
    attrs="dtype: type",
    shape=scalar,
    traits={ALLOWS_UNINITIALIZED, NEVER_FOLDED, MAY_WAIT, STATEFUL},
    differentiable=False,
)
def await_initialized(xp: Any, ref: Variable) -> Pending[np.bool_]:
    """True, as soon as the variable has been assigned."""
    return ref.initialized()


@op(
    "HeadraceAwaitVarInitialized",
    inputs="resource: resource",
    outputs="is_initialized: bool",
    shape=scalar,
    traits={STATEFUL, MAY_WAIT},
    differentiable=False,
)
def await_var_initialized(xp: Any, resource: Any) -> Pending[np.bool_]:
    """True, as soon as the variable has been assigned."""
    return variable_behind(resource).initialized()
