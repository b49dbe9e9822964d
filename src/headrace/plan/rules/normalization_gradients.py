"""Gradients of batch normalization, with what they come from, and with the gradients of the convolution after them.

What is done to each element of the gradient (a sum, the gradient of an activation) is done some pictures at a time, and
their part of the sums for scale and offset is found while they are in the cache.  When those are known, some pictures
at a time go back through the normalization, and into the gradients of the convolution's filter and input: what the
convolution made has a gradient as large as itself, which is never stored where it need not be.
Sums are those of units, and parts those of the filter's gradient, so every element has the bits that it has op by op.
Called by: plan.passes.  Threads: any.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from collections.abc import Set as AbstractSet
from typing import Any, Final

import numpy as np

from headrace.ops._kernels.blocks import LARGE
from headrace.ops._kernels.channels import Units
from headrace.ops._kernels.convolving import (
    FilterGradient,
    input_gradient,
    part_of_input_gradient,
)
from headrace.ops._kernels.normalizing import Back
from headrace.ops._kernels.scratch import scratch
from headrace.ops._kernels.windows import Geometry, geometry
from headrace.plan.ir import Facts, Instr
from headrace.plan.rules.convolution_gradients import add_shares, users_of_gradient
from headrace.plan.rules.convolutions import match_of
from headrace.plan.rules.group import Group, Match, Rule
from headrace.plan.rules.normalizations import (
    Changes,
    goes_on,
    is_chain,
    normalizes,
    takes_one,
    wanted_outside,
)
from headrace.run.exec.instructions import Kernel

Array = np.ndarray[Any, Any]
_GIVEN = 24  # slot of scratch memory
_AFTER = ("Conv2DBackpropFilter", "Conv2DBackpropInput")


def _match(norm: Instr, facts: Facts, taken: AbstractSet[Instr]) -> Match | None:
    """What the gradient comes from, element by element, and the two gradients that it goes to."""
    if not normalizes(norm, taken) or norm.inputs.count(norm.inputs[0]) != 1:
        return None
    before = _before(norm, facts, taken)
    after = users_of_gradient(norm.outputs[0], facts, taken)
    if any(user.op.type not in _AFTER for user in after):
        after = []
    for users in (after, []) if after else ([],):
        for start in range(len(before) + 1):
            chain = [*before[start:], norm]
            members = [*chain, *users]
            root = max(members, key=facts.place.__getitem__)
            kept = wanted_outside(members, root, facts)
            chained = is_chain(chain, facts) and all(
                takes_one(user, members, facts) for user in users
            )
            if len(members) > 1 and kept is not None and chained:
                found = match_of(members, kept, facts, _build)
                if found is not None:
                    return found
    return None


def _before(norm: Instr, facts: Facts, taken: AbstractSet[Instr]) -> list[Instr]:
    """Nodes that make the gradient, each of an element that the one before it makes for nobody else."""
    found: list[Instr] = []
    value, user = norm.inputs[0], norm
    while True:
        maker = facts.maker(value)
        if maker is None or (found and facts.users(value) != [user]):
            return found
        if found and value in facts.results:
            return found
        given = [at for at in maker.inputs if goes_on(maker, at, facts, taken)]
        if not given:
            return found
        found.insert(0, maker)
        made = [at for at in given if facts.maker(at) is not None]
        if not made:
            return found
        value, user = made[0], maker


def _build(group: Group) -> Kernel:
    return group.kernel(_Together(group).results, refuses=True)


RULE: Final = Rule("normalization gradients", ("FusedBatchNormGradV3",), _match)


# -- running ----------------------------------------------------------------------------------------------------------


class _Together:
    """A group run some pictures at a time."""

    def __init__(self, group: Group) -> None:
        kinds = [member.op.type for member in group.members]
        at = kinds.index("FusedBatchNormGradV3")
        self._norm = group.members[at]
        before = group.members[:at]
        self._epsilon = self._norm.op.attrs["epsilon"]
        self._given = group.inputs_of(self._norm)
        self._changes = Changes(group, before, None) if before else None
        self._dy = self._norm.inputs[0]
        after = {member.op.type: member for member in group.members[at + 1 :]}
        self._filter = after.get("Conv2DBackpropFilter")
        self._input = after.get("Conv2DBackpropInput")
        if self._filter is not None:
            self._of_filter = group.inputs_of(self._filter)[:2]
        if self._input is not None:
            self._of_input = group.inputs_of(self._input)[:2]
        self._wanted = group.outputs

    def results(self, values: Sequence[Any]) -> list[Any] | None:
        """The group's outputs, or None where it has to run op by op."""
        x, scale, mean, variance = (values[at] for at in self._given[1:5])
        if x.ndim != 4 or math.prod(x.shape) < LARGE or not x.flags.c_contiguous:
            return None
        if any(each.shape != x.shape[-1:] for each in (scale, mean, variance)):
            return None
        convolution = self._convolution(values, x.shape) if self._filter is not None else None
        if self._filter is not None and convolution is None:
            return None
        units = Units(len(x), math.prod(x.shape[1:3]), x.shape[-1])
        back = Back(units, scale, mean, variance, self._epsilon)
        dy = self._looked_at(values, x, units, back)
        if dy is None:
            return None
        to_scale, to_offset = back.found()
        found: dict[int, Any] = {self._dy: dy}
        nothing = np.empty(0, np.float32)
        found |= dict(zip(self._norm.outputs[1:], (to_scale, to_offset), strict=False))
        found |= {value: nothing.copy() for value in self._norm.outputs[3:]}
        through = _Through(units, back, dy, x)
        if convolution is None:
            found[self._norm.outputs[0]] = through.all()
        else:
            found |= self._into_convolution(values, convolution, through)
        return [found[value] for value in self._wanted]

    def _looked_at(self, values: Sequence[Any], x: Array, units: Units, back: Back) -> Array | None:
        """The gradient, whose sums are found; None where it does not fit."""
        lines = units.lines(x)
        if self._changes is None:
            dy: Array = values[self._given[0]]
            if dy.shape != x.shape or not dy.flags.c_contiguous:
                return None
            given = units.lines(dy)
            units.each(lambda at: back.look(at, given[at], lines[at]))
            return dy
        changing = self._changes.of(values, x.shape, units)
        if changing is None:
            return None
        dy = np.empty_like(x)
        into = units.lines(dy)

        def part(at: slice) -> None:
            changing(at, into[at])
            back.look(at, into[at], lines[at])

        units.each(part)
        return dy

    def _convolution(self, values: Sequence[Any], shape: tuple[int, ...]) -> Geometry | None:
        """Where its windows lie; None where the gradient of its output has another shape."""
        assert self._filter is not None
        x, sizes = (values[at] for at in self._of_filter)
        if x.ndim != 4 or len(sizes) != 4 or not x.size:
            return None
        attrs = self._filter.op.attrs
        where = geometry(
            x.shape[1:3],
            sizes[:2],
            attrs["strides"],
            attrs["padding"],
            b"NHWC",
            attrs["dilations"],
            attrs["explicit_paddings"],
        )
        if shape != (len(x), *where.out, int(sizes[3])) or sizes[2] != x.shape[3]:
            return None
        if self._input is not None:
            of_input, filters = (values[at] for at in self._of_input)
            if tuple(of_input) != x.shape or filters.shape != tuple(sizes):
                return None
        return where

    def _into_convolution(
        self, values: Sequence[Any], where: Geometry, through: _Through
    ) -> dict[int, Any]:
        """The gradients of the convolution, by value."""
        assert self._filter is not None
        x, sizes = (values[at] for at in self._of_filter)
        gradient = FilterGradient(where, x.shape[3], int(sizes[3]), len(x), x.dtype)
        found: dict[int, Any] = {}
        give: Callable[[slice], Array] = through.some
        if self._input is not None:
            filters = values[self._of_input[1]]
            dx = found[self._input.outputs[0]] = np.empty_like(x)
            part = part_of_input_gradient(filters, where, len(x), x.dtype)
            if part is not None and through.by_pictures:
                give = lambda images: _both(through.some(images), part, dx[images])  # noqa: E731
            else:
                made = through.all()
                give = lambda images: made[images]  # noqa: E731
                input_gradient(made, filters, where, dx)
        elif not through.by_pictures:
            made = through.all()
            give = lambda images: made[images]  # noqa: E731
        add_shares(gradient, x, give)
        found[self._filter.outputs[0]] = gradient.result()
        return found


def _both(dy: Array, part: Callable[[Array, Array], None], dx: Array) -> Array:
    part(dy, dx)
    return dy


class _Through:
    """The gradient of what was normalized."""

    def __init__(self, units: Units, back: Back, dy: Array, x: Array) -> None:
        self._units, self._back, self._dy, self._x = units, back, dy, x
        self.by_pictures = units.in_picture > 0

    def some(self, images: slice) -> Array:
        """Of some pictures, in scratch memory."""
        dy, x = self._dy[images], self._x[images]
        made = scratch(_GIVEN, dy.shape, dy.dtype)
        lines = self._units.lines
        self._back.through(lines(dy), lines(x), lines(made))
        return made

    def all(self) -> Array:
        """Of all."""
        made = np.empty_like(self._x)
        dy, x, into = map(self._units.lines, (self._dy, self._x, made))
        self._units.each(lambda at: self._back.through(dy[at], x[at], into[at]))
        return made
