"""Passes: the one table of what happens to a step between the graph and the program, in order.

A pass makes the next version of a step, or gives back the one that it got.  Under HEADRACE_CHECK=1 each version is
checked by what stands beside its pass; with HEADRACE_EXPLAIN=1 it is written to stderr (`plan.explain`).
Called by: plan.compile.  Threads: any; a step belongs to who compiles it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache, partial
from typing import Final, NamedTuple

from headrace.plan import check, explain, invariants
from headrace.plan.copies import copy_between
from headrace.plan.draws import draw_ahead
from headrace.plan.folding import fold
from headrace.plan.fusion import fuse
from headrace.plan.idle import leave_idle
from headrace.plan.ir import Request, Step
from headrace.plan.kernels import bind
from headrace.plan.lifting import lift
from headrace.plan.memoization import memoize_in_loops, memoize_shapes
from headrace.plan.merging import merge
from headrace.plan.nesting import nest
from headrace.plan.reading import read_initialized
from headrace.plan.registers import allot
from headrace.plan.rules.checkpoints import leave_unread, save_at_once
from headrace.plan.rules.group import apply
from headrace.plan.rules.loop_factors import turn_factors
from headrace.plan.rules.loop_stacks import drop_stacked_shapes
from headrace.plan.rules.loop_sums import sum_beside
from headrace.plan.rules.table import EARLY, RULES
from headrace.plan.scheduling import load, poll, schedule
from headrace.plan.sizes import resolve


class Kind(NamedTuple):
    """What there are several sets of passes for.

    optimize: nodes may be left out or run together.  host: all compute there.  nests: there are branches or loops.
    fuses: see `plan.fusion`.  whole: see `plan.whole_loops`.  joins: see `plan.joined_loops`.
    """

    optimize: bool
    host: bool
    nests: bool
    fuses: bool
    whole: bool
    joins: bool = False


When = Callable[[Kind], bool]
"""Whether a pass applies."""
Check = Callable[[Step, Step], None]
"""(the version before, the version after) -> AssertionError if the pass has done what it must not."""


class Pass(NamedTuple):
    """A row of the table.  when: for which steps."""

    name: str
    run: Callable[[Step], Step]
    check: Check
    when: When


def _always(kind: Kind) -> bool:
    return True


def _nests(kind: Kind) -> bool:
    return kind.nests


def _optimized(kind: Kind) -> bool:
    """Traced steps list every node; what runs in a branch or a loop is not to leave it."""
    return kind.optimize and not kind.nests


def _outside(kind: Kind) -> bool:
    """As `_optimized`, once it is known what runs in a branch or a loop."""
    return kind.optimize and kind.nests


def _improved(kind: Kind) -> bool:
    return kind.optimize


def _straight(kind: Kind) -> bool:
    """On the host, where all nodes of the step run."""
    return kind.optimize and kind.host and not kind.nests


def _mixed(kind: Kind) -> bool:
    """Where something computes elsewhere than on the host."""
    return not kind.host


def _nests_together(kind: Kind) -> bool:
    return kind.nests and _together(kind)


def _fuses(kind: Kind) -> bool:
    return kind.optimize and kind.fuses


def _compiles_loops(kind: Kind) -> bool:
    return _fuses(kind) and kind.nests and kind.whole


def _joins(kind: Kind) -> bool:
    return _compiles_loops(kind) and kind.host and kind.joins


def _draws_elsewhere(kind: Kind) -> bool:
    """Where random numbers may be made by others than the host's kernels."""
    return _mixed(kind) or _fuses(kind)


def _together(kind: Kind) -> bool:
    """Nodes that run as one do so on the host, within a branch or the body of a loop too; what follows from shapes is
    remembered outside of them.
    """
    return kind.optimize and kind.host


def _unfused(kind: Kind) -> bool:
    return _together(kind) and not kind.fuses


def _beside_fused(kind: Kind) -> bool:
    """What XLA can have of a step that it compiles comes first."""
    return _together(kind) and kind.fuses


def _early(when: When) -> list[Pass]:
    return [Pass(rule.name, partial(apply, rule), invariants.check_groups, when) for rule in EARLY]


def _compile_loops(step: Step) -> Step:
    from headrace.plan.whole_loops import compile_loops  # few programs compile any

    return compile_loops(step)


def _join_loops(step: Step) -> Step:
    from headrace.plan.joined_loops import join_loops

    return join_loops(step)


PASSES: Final[tuple[Pass, ...]] = (
    Pass("merge", merge, invariants.check_values, _optimized),
    Pass("fold", fold, invariants.check_values, _always),
    Pass("nest", nest, invariants.check_nested, _nests),
    Pass("merge outside", merge, invariants.check_values, _outside),
    Pass("idle", leave_idle, invariants.check_values, _unfused),
    *_early(_unfused),
    Pass("sizes", resolve, invariants.check_values, _improved),
    Pass("stacks", drop_stacked_shapes, invariants.check_values, _outside),
    Pass("idle then", leave_idle, invariants.check_values, _improved),
    Pass("unread", leave_unread, invariants.check_values, _straight),
    Pass("saves", save_at_once, invariants.check_values, _always),
    Pass("draws", draw_ahead, invariants.check_values, _draws_elsewhere),
    Pass("loops", _compile_loops, invariants.check_values, _compiles_loops),
    Pass("join", _join_loops, invariants.check_values, _joins),
    Pass("fuse", fuse, invariants.check_groups, _fuses),
    *_early(_beside_fused),
    Pass("shapes", memoize_shapes, invariants.check_values, _together),
    Pass("sums", sum_beside, invariants.check_groups, _nests_together),
    Pass("factors", turn_factors, invariants.check_groups, _nests_together),
    *[
        Pass(
            rule.name,
            partial(apply, rule),
            invariants.check_groups,
            _always if rule.always else _together,
        )
        for rule in RULES
    ],
    Pass("memos", memoize_in_loops, invariants.check_values, _nests_together),
    Pass("load", load, invariants.check_loaded, _always),
    Pass("copies", copy_between, invariants.check_copies, _mixed),
    Pass("schedule", schedule, invariants.check_order, _always),
    Pass("poll", poll, invariants.check_order, _always),
    Pass("kernels", bind, invariants.check_kernels, _always),
    Pass("registers", allot, invariants.check_registers, _always),
)


@cache
def _of(kind: Kind) -> Sequence[Pass]:
    """The passes for steps of a kind."""
    return [each for each in PASSES if each.when(kind)]


def versions(request: Request, nests: bool) -> tuple[Step, Step]:
    """The step as it was before the last pass, with what is known of its values, and after it.

    nests: there are branches or loops.  Raises Unstructured (for the general executor), Unimplemented.
    """
    before = step = lift(request, nests)
    if explain.enabled:
        explain.begin(step)
    if check.enabled:
        invariants.check_values(step, step)
    if request.optimize and nests:  # with which there may be none any more
        before, step = step, read_initialized(step)
        if check.enabled:
            invariants.check_values(before, step)
        if explain.enabled:
            explain.after("read", before, step)
    kind = Kind(
        request.optimize,
        not request.placed,
        step.nests,
        request.fuses,
        request.whole,
        request.joins,
    )
    for each in _of(kind):
        before, step = step, each.run(step)
        if check.enabled:
            each.check(before, step)
        if explain.enabled:
            explain.after(each.name, before, step)
    return before, step
