"""The table of rules, in the order in which they are applied.

Called by: plan.passes.  Threads: any.
"""

from __future__ import annotations

from typing import Final

from headrace.plan.rules import (
    assignments,
    convolution_gradients,
    convolutions,
    distinct_rows,
    elementwise,
    embedding_ids,
    joint_updates,
    logistic_losses,
    normalization_gradients,
    normalizations,
    one_element_rows,
    padded_sums,
    products,
    resized_casts,
    row_views,
    safe_lookups,
    send_buffers,
    spread,
    unread_gathers,
    unstretched,
    unstretched_pairs,
    updates,
    updates_together,
)
from headrace.plan.rules.group import Rule

EARLY: Final[tuple[Rule, ...]] = (joint_updates.RULE, safe_lookups.RULE)
"""Rules whose groups have nodes in them that follow from shapes: these are not remembered by themselves then."""

RULES: Final[tuple[Rule, ...]] = (
    normalization_gradients.RULE,
    normalizations.RULE,
    convolution_gradients.RULE,
    convolutions.RULE,
    unstretched_pairs.RULE,
    unstretched.RULE,
    embedding_ids.RULE,
    one_element_rows.SPARSE_INPUTS,
    one_element_rows.INDICATORS,
    distinct_rows.RULE,
    padded_sums.RULE,
    logistic_losses.GRADIENT,
    logistic_losses.LOSS,
    assignments.RULE,
    resized_casts.RULE,
    spread.RULE,
    products.RULE,
    elementwise.RULE,
    updates_together.RULE,
    updates.RULE,
    send_buffers.RULE,
    unread_gathers.RULE,
    row_views.RULE,
)

OF_BLOCKS: Final = frozenset((assignments.RULE.name, elementwise.RULE.name))
"""Groups that look at their inputs by blocks."""
