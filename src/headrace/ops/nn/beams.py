"""Beams of a search as whole sequences.

Called by: library.contrib, programs.  Threads: any.
Source: behaviour of TF 1.15 (contrib/seq2seq/kernels/beam_search_ops.cc)
"""

from __future__ import annotations

from typing import Any

import numpy as np

from headrace.base import shapes as shape_rules
from headrace.base.shapes import text
from headrace.base.traits import ITERATES
from headrace.graph.registry import op
from headrace.ops.nn.recurrent import need

__all__ = ["gather_tree"]

Array = np.ndarray[Any, Any]


@op(
    "GatherTree",
    inputs="step_ids: T; parent_ids: T; max_sequence_lengths: int32; end_token: T",
    outputs="beams: T",
    attrs="T: {int32}",
    shape=lambda c: shape_rules.merge(c.with_rank("step_ids", 3), c.with_rank("parent_ids", 3)),
    traits={ITERATES},
    differentiable=False,
)
def gather_tree(
    xp: Any, step_ids: Array, parent_ids: Array, max_sequence_lengths: Array, end_token: Array
) -> Array:
    """Whole beams out of what each step took and from which beam: [time, batch, beams] like step_ids.

    After a beam's first end_token, and from max_sequence_lengths [batch] on, there is end_token.
    Raises InvalidArgument.
    """
    need(step_ids.ndim == 3, f"step_ids must be a 3-tensor, saw shape: {text(step_ids.shape)}")
    need(
        step_ids.shape == parent_ids.shape,
        f"step_ids and parent_ids must have the same shape: {text(step_ids.shape)} and {text(parent_ids.shape)}",
    )
    time, batch, beams = step_ids.shape
    need(end_token.ndim == 0, f"end_token must be a scalar, saw shape: {text(end_token.shape)}")
    need(
        max_sequence_lengths.shape == (batch,),
        f"max_sequence_lengths must be [{batch}], saw shape: {text(max_sequence_lengths.shape)}",
    )
    made = np.full(step_ids.shape, end_token, step_ids.dtype)
    lengths = np.minimum(max_sequence_lengths, time)
    rows = np.arange(batch)[:, None]
    at = np.broadcast_to(np.arange(beams), (batch, beams))
    for step in reversed(range(time)):
        last = (lengths == step + 1)[:, None]
        inside = (step < lengths)[:, None]
        beam = np.where(last, np.arange(beams), at)
        need(
            not inside.any() or bool(((beam >= 0) & (beam < beams) | ~inside).all()),
            f"parent ids must be from 0 to {beams - 1}: a beam at step {step} has another",
        )
        beam = np.where(inside, beam, 0)
        made[step] = np.where(inside, step_ids[step][rows, beam], end_token)
        at = parent_ids[step][rows, beam]
    ended = np.cumsum(made == end_token, axis=0) - (made == end_token) > 0
    made[ended] = end_token
    return made
