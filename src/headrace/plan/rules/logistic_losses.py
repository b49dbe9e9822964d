"""Logistic losses: the nodes of `sigmoid_cross_entropy_with_logits` run together, and those of its gradient.

One by one they go over the logits eighteen times, four of which choose by a condition, for which NumPy's loops take six
times as long as for arithmetic.
Called by: plan.passes.  Threads: any.
"""

from __future__ import annotations

from collections.abc import Sequence
from collections.abc import Set as AbstractSet
from typing import Any, Final, NamedTuple

import numpy as np

from headrace.ops._kernels import logistic
from headrace.plan.ir import NODE, Facts, Instr
from headrace.plan.rules.convolutions import match_of
from headrace.plan.rules.group import Group, Match, Rule
from headrace.run.exec.instructions import Kernel

_KINDS = frozenset((np.dtype(np.float32), np.dtype(np.float64)))
_SUMS = frozenset(("Add", "AddV2"))
_GIVEN: Final = ("GreaterEqual", "Neg", "Exp")
"""Of the loss, what its gradient wants."""


class _Search(NamedTuple):
    """What the two matches ask of a step."""

    facts: Facts
    taken: AbstractSet[Instr]

    def made(self, value: int, kind: str) -> Instr | None:
        """The node of that type which makes `value`, if it may be in a group."""
        maker = self.facts.maker(value)
        if maker is None or maker.op.type != kind or not self.joins(maker):
            return None
        return maker

    def joins(self, instr: Instr) -> bool:
        plain = instr.what == NODE and not instr.body and instr.kernel is None
        return plain and instr not in self.taken and instr.op not in self.facts.awaited

    def is_zeros(self, value: int) -> bool:
        """Whether all elements of it are 0, and not -0."""
        known = self.facts.values.constants.get(value)
        if known is not None:
            return known.dtype in _KINDS and not known.view(f"u{known.itemsize}").any()
        maker = self.facts.maker(value)
        return maker is not None and maker.op.type == "ZerosLike"

    def is_one(self, value: int) -> bool:
        known = self.facts.values.constants.get(value)
        return known is not None and known.size == 1 and not known.ndim and bool(known == 1)

    def is_wanted(self, value: int, members: Sequence[Instr]) -> bool:
        """Whether others than these want it."""
        return value in self.facts.results or not set(members).issuperset(self.facts.uses(value))

    def may_wait(self, value: int, members: Sequence[Instr]) -> bool:
        """Whether others than these want it after the last of them only."""
        place = self.facts.place
        others = set(self.facts.uses(value)).difference(members)
        return all(place[user] > place[members[-1]] for user in others)

    def is_float(self, value: int) -> bool:
        return self.facts.values.tensor(value)._dtype._base.np in _KINDS


# -- the loss ---------------------------------------------------------------------------------------------------------


class _Falling(NamedTuple):
    """The nodes of exp(-|x|): of x chosen with another sign where it is at least 0."""

    holds: Instr
    negative: Instr
    lower: Instr
    exponential: Instr


def _falling_of(exponential: Instr, search: _Search) -> _Falling | None:
    """The nodes before an exponential."""
    lower = search.made(exponential.inputs[0], "Select")
    holds = search.made(lower.inputs[0], "GreaterEqual") if lower else None
    negative = search.made(lower.inputs[1], "Neg") if lower else None
    if lower is None or holds is None or negative is None:
        return None
    x, zeros = holds.inputs
    if negative.inputs != (x,) or lower.inputs[2] != x or not search.is_float(x):
        return None
    return _Falling(holds, negative, lower, exponential) if search.is_zeros(zeros) else None


def _loss_of(logarithm: Instr, search: _Search) -> list[Instr] | None:
    """The nodes around a logarithm; the last one gives the sum."""
    exponential = search.made(logarithm.inputs[0], "Exp")
    falling = _falling_of(exponential, search) if exponential else None
    users = search.facts.users(logarithm.outputs[0])
    if falling is None or len(users) != 1:
        return None
    (total,) = users
    if total.op.type not in _SUMS or not search.joins(total) or len(total.inputs) != 2:
        return None
    difference = search.made(total.inputs[0], "Sub")
    if difference is None or total.inputs[1] != logarithm.outputs[0]:
        return None
    upper = search.made(difference.inputs[0], "Select")
    product = search.made(difference.inputs[1], "Mul")
    x, zeros = falling.holds.inputs
    if upper is None or product is None or upper.inputs != (falling.holds.outputs[0], x, zeros):
        return None
    return [*falling, logarithm, upper, product, difference, total] if x in product.inputs else None


def _match_loss(last: Instr, facts: Facts, taken: AbstractSet[Instr]) -> Match | None:
    """The loss whose logarithm or, if nobody wants that, whose exponential this is, for the gradient."""
    search = _Search(facts, taken)
    of = _falling_of if last.op.type == "Exp" else _loss_of
    members = of(last, search) if search.joins(last) else None
    if members is None:
        return None
    kept = [each.outputs[0] for each in members[:-1] if search.is_wanted(each.outputs[0], members)]
    given = {each.outputs[0] for each in members if each.op.type in _GIVEN}
    if not given.issuperset(kept) or not all(search.may_wait(value, members) for value in kept):
        return None
    return match_of(members, kept, facts, _build_loss)


def _build_loss(group: Group) -> Kernel:
    by_type = {member.op.type: member for member in group.members}
    x, zeros = group.inputs_of(by_type["GreaterEqual"])
    holds, negative, exponential = (by_type[name].outputs[0] for name in _GIVEN)
    labels = None
    if "Mul" in by_type:
        factors = group.inputs_of(by_type["Mul"])
        labels = factors[1] if factors[0] == x else factors[0]
    outputs = group.outputs

    def at_once(values: Sequence[Any]) -> Sequence[Any] | None:
        logits, nothing = values[x], values[zeros]
        given = nothing if labels is None else values[labels]
        if not logits.ndim or not logits.shape == given.shape == nothing.shape:
            return None
        if not logits.flags.c_contiguous:
            return None
        found = {}
        if labels is None:
            if holds in outputs:
                found[holds] = np.greater_equal(logits, nothing)
            found[exponential] = logistic.falling(logits, np.empty(logits.shape, logits.dtype))
        else:
            made = logistic.loss(logits, given, nothing, holds in outputs)
            found = dict(zip((outputs[0], holds, exponential), made, strict=True))
        if negative in outputs:
            found[negative] = np.negative(logits)
        return [found[value] for value in outputs]

    return group.kernel(at_once)


LOSS: Final = Rule("logistic-loss", ("Log1p", "Exp"), _match_loss)

# -- its gradient -----------------------------------------------------------------------------------------------------


class _Gradient(NamedTuple):
    """Its nodes.  The last one gives the sum."""

    above: Instr
    one_more: Instr
    inverse: Instr
    slope: Instr
    by_exponential: Instr
    below: Instr
    subtracted: Instr
    negative: Instr
    total: Instr


def _gradient_of(total: Instr, search: _Search) -> _Gradient | None:
    """The nodes whose sum this is."""
    if len(total.inputs) != 4 or not search.is_float(total.inputs[0]):
        return None
    above, below = (search.made(total.inputs[at], "Select") for at in (0, 2))
    negative = search.made(total.inputs[3], "Neg")
    subtracted = search.made(negative.inputs[0], "Select") if negative else None
    if above is None or below is None or negative is None or subtracted is None:
        return None
    holds, value = above.inputs[0], below.inputs[2]
    if below.inputs[0] != holds or subtracted.inputs[:2] != (holds, value):
        return None
    if not all(
        search.is_zeros(zeros) for zeros in (above.inputs[2], below.inputs[1], subtracted.inputs[2])
    ):
        return None
    by_exponential = search.made(value, "Mul")
    slope = search.made(by_exponential.inputs[0], "Mul") if by_exponential else None
    inverse = search.made(slope.inputs[1], "Reciprocal") if slope else None
    one_more = search.made(inverse.inputs[0], "AddV2") if inverse else None
    if by_exponential is None or slope is None or inverse is None or one_more is None:
        return None
    if not search.is_one(one_more.inputs[0]) or one_more.inputs[1] != by_exponential.inputs[1]:
        return None
    return _Gradient(
        above, one_more, inverse, slope, by_exponential, below, subtracted, negative, total
    )


def _match_gradient(total: Instr, facts: Facts, taken: AbstractSet[Instr]) -> Match | None:
    """The gradient that is made by this sum, if nobody else wants what it is made of."""
    search = _Search(facts, taken)
    found = _gradient_of(total, search) if search.joins(total) else None
    if found is None:
        return None
    if any(search.is_wanted(member.outputs[0], found) for member in found[:-1]):
        return None
    return match_of(found, [], facts, _build_gradient)


def _build_gradient(group: Group) -> Kernel:
    total = group.members[-1]
    above, by_label, below, _ = total.inputs
    makers = {member.outputs[0]: member for member in group.members}
    holds, given = group.inputs_of(makers[above])[:2]
    slope, exps = makers[makers[below].inputs[2]].inputs
    places = [given, group.inputs_of(makers[slope])[0], group.places[by_label]]
    places += [holds, group.places[exps]]

    def at_once(values: Sequence[Any]) -> Sequence[Any] | None:
        taken = [values[place] for place in places]
        shape = taken[0].shape
        if not shape or not all(each.shape == shape and each.flags.c_contiguous for each in taken):
            return None
        return (logistic.gradient(*taken),)

    return group.kernel(at_once)


GRADIENT: Final = Rule("logistic-gradient", ("AddN",), _match_gradient)
