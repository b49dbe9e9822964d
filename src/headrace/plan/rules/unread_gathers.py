"""Gathers that nobody reads: their indices are checked, and nothing is looked up.

Gradients that a group ties to one that is wanted are run for the errors that they may raise: that of a sparse matrix's
values gathers a row of both factors for each element.
Called by: plan.passes.  Threads: any.
"""

from __future__ import annotations

from collections.abc import Sequence
from collections.abc import Set as AbstractSet
from typing import Any, Final

import numpy as np

from headrace.ops._kernels.places import all_below
from headrace.plan.ir import Facts, Instr
from headrace.plan.rules.group import Group, Match, Rule
from headrace.run.exec.instructions import Kernel


def _match(gather: Instr, facts: Facts, taken: AbstractSet[Instr]) -> Match | None:
    """A gather along one axis whose value is no input and no result."""
    (value,) = gather.outputs
    if facts.uses(value) or value in facts.results or gather.op.attrs["batch_dims"]:
        return None
    return Match((gather,), _build)


RULE: Final = Rule("unread-gather", ("GatherV2",), _match)


def _build(group: Group) -> Kernel:
    params_at, indices_at, axis_at = group.inputs_of(group.members[0])

    def at_once(values: Sequence[Any]) -> Sequence[Any] | None:
        params, indices, axis = values[params_at], np.asarray(values[indices_at]), values[axis_at]
        rank = np.ndim(params)
        if np.ndim(axis) or not -rank <= axis < rank or params.dtype.kind not in "fiubc":
            return None
        at = int(axis) % rank
        if not all_below(indices, params.shape[at]):
            return None  # the node says what is wrong
        shape = params.shape[:at] + indices.shape + params.shape[at + 1 :]
        return (np.broadcast_to(np.zeros((), params.dtype), shape),)

    return group.kernel(at_once)
