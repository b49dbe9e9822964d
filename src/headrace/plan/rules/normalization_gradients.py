"""Gradients of batch normalization, with what they come from, and with the gradients of the convolution after them.

What is done to each element of the gradient (a sum, the gradient of an activation) is done some pictures at a time, and
their part of the sums for scale and offset is found while they are in the cache.  A gradient that is the same for all
pixels, as that of a mean, is spread no further than that.  When the sums are known, some pictures at a time go back
through the normalization, and into the gradients of the convolution's filter and input: what the convolution made has a
gradient as large as itself, which is never stored where it need not be.  Where the gradient of the input is what
another normalization's gradient comes from, that looks at it at once, too.
Sums are those of units, and parts those of the filter's gradient, so every element has the bits that it has op by op.
Called by: plan.passes.  Threads: any.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from collections.abc import Set as AbstractSet
from typing import Any, Final

import numpy as np

from headrace.ops._kernels.blocks import LARGE
from headrace.ops._kernels.channels import Units
from headrace.ops._kernels.convolving import (
    FilterGradient,
    input_gradient,
)
from headrace.ops._kernels.normalizing import Back
from headrace.ops._kernels.scratch import scratch
from headrace.ops._kernels.windows import Geometry, geometry
from headrace.plan.ir import Facts, Instr
from headrace.plan.rules import spread
from headrace.plan.rules.convolution_gradients import add_shares, users_of_gradient
from headrace.plan.rules.convolutions import match_of, may_join
from headrace.plan.rules.group import Group, Match, Rule
from headrace.plan.rules.normalizations import (
    MOST_STAGES,
    Changes,
    Changing,
    goes_on,
    is_chain,
    made_by,
    normalizes,
    takes_one,
    wanted_outside,
)
from headrace.run.exec.instructions import Kernel

Array = np.ndarray[Any, Any]
_GIVEN = 24  # slot of scratch memory
_AFTER = ("Conv2DBackpropFilter", "Conv2DBackpropInput")
_NORM = "FusedBatchNormGradV3"


def _match(norm: Instr, facts: Facts, taken: AbstractSet[Instr]) -> Match | None:
    """A stage, and as many before it as each make the gradient that the next one begins with."""
    stage = _stage(norm, facts, taken)
    if stage is None:
        return None
    stages = [stage]
    while len(stages) < MOST_STAGES:
        before = _stage_before(stages, facts, taken)
        if before is None:
            break
        stages.insert(0, before)
    return _of(stages, facts)


def _stage(norm: Instr, facts: Facts, taken: AbstractSet[Instr]) -> list[Instr] | None:
    """The most that may run together with a normalization's gradient."""
    for members in _candidates(norm, facts, taken):
        if len(members) > 1 and _of([members], facts) is not None:
            return members
    return None


def _candidates(norm: Instr, facts: Facts, taken: AbstractSet[Instr]) -> Iterator[list[Instr]]:
    """What the gradient comes from, element by element, that, and the two gradients that it goes to; less and less."""
    if not normalizes(norm, taken) or norm.inputs.count(norm.inputs[0]) != 1:
        return
    before = _before(norm, facts, taken)
    spreading = _spread(before, norm, facts, taken)
    after = users_of_gradient(norm.outputs[0], facts, taken)
    if any(user.op.type not in _AFTER for user in after):
        after = []
    for users in (after, []) if after else ([],):
        if spreading:
            yield [*spreading, *before, norm, *users]
        for start in range(len(before) + 1):
            yield [*before[start:], norm, *users]


def _stage_before(
    stages: Sequence[Sequence[Instr]], facts: Facts, taken: AbstractSet[Instr]
) -> list[Instr] | None:
    """The one that makes, with the gradient of a convolution's input, what these begin with, for nobody else."""
    begins = stages[0][0]
    if begins.op.type in spread.SPREADS:
        return None  # of all that is there: what is still to be made cannot be spread
    for maker, norm in _makers(begins, facts):
        for members in _candidates(norm, facts, taken):
            if maker in members and _of([members, *stages], facts) is not None:
                return members
    return None


def _makers(begins: Instr, facts: Facts) -> Iterator[tuple[Instr, Instr]]:
    """Convolutions' gradients that only this node takes, each with the normalization's gradient that goes to it."""
    for value in begins.inputs[:1] if begins.op.type == _NORM else begins.inputs:
        maker = facts.maker(value)
        if maker is None or maker.op.type != "Conv2DBackpropInput" or value in facts.results:
            continue
        norm = facts.maker(maker.inputs[2])
        if norm is not None and norm.op.type == _NORM and facts.uses(value) == [begins]:
            yield maker, norm


def _of(stages: Sequence[Sequence[Instr]], facts: Facts) -> Match | None:
    """The group, if nobody wants what it gives before it runs, and each takes one thing that its stage gives."""
    members = [member for stage in stages for member in stage]
    root = max(members, key=facts.place.__getitem__)
    kept = wanted_outside(members, root, facts)
    if kept is None:
        return None
    for stage in stages:
        at = next(at for at, member in enumerate(stage) if member.op.type == _NORM)
        made = made_by(stage)
        chained = is_chain(stage[: at + 1])
        if not chained or not all(takes_one(user, made) for user in stage[at + 1 :]):
            return None
    return match_of(members, kept, facts, _build)


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


def _spread(
    before: Sequence[Instr], norm: Instr, facts: Facts, taken: AbstractSet[Instr]
) -> list[Instr]:
    """What spreads the gradient that these begin with over the pictures, such as that of a mean; else nothing.

    Nor where that is added to what another stage makes, since these may begin with that.
    """
    if before and any(_makers(before[0], facts)):
        return []
    for value in before[0].inputs if before else norm.inputs[:1]:
        found = spread.ending_at(value, facts, taken)
        if found and all(may_join(each, taken) for each in found):
            return found
    return []


def _build(group: Group) -> Kernel:
    return group.kernel(_Together(group).results, refuses=True)


RULE: Final = Rule("normalization gradients", (_NORM,), _match)


# -- running ----------------------------------------------------------------------------------------------------------


class _Together:
    """A group run some pictures at a time, from one normalization to the next."""

    def __init__(self, group: Group) -> None:
        self._stages = [_Stage(group, members) for members in _stages_of(group)]
        self._places = group.places
        self._wanted = [group.places[value] for value in group.outputs]

    def results(self, values: Sequence[Any]) -> list[Any] | None:
        """The group's outputs, or None where it has to run op by op."""
        room = [*values, *[None] * (len(self._places) - len(values))]
        looking = self._stages[0].looking(room, None)
        if looking is None:
            return None
        looking.all()
        following = [*self._stages[1:], None]
        for stage, after in zip(self._stages, following, strict=True):
            found = stage.run(room, looking, after)
            if found is False or (after is not None and found is None):
                return None
            if isinstance(found, _Looking):
                looking = found
        return [room[place] for place in self._wanted]


def _stages_of(group: Group) -> list[list[Instr]]:
    """Members of each: what a normalization's gradient comes from, that, and the gradients that it goes to."""
    makers = {value: member for member in group.members for value in member.outputs}
    stages = []
    for norm in (each for each in group.members if each.op.type == _NORM):
        stage = [norm]
        while True:
            inputs = stage[0].inputs[:1] if stage[0] is norm else stage[0].inputs
            made = [makers[value] for value in inputs if value in makers]
            if not made or any(each.op.type in _AFTER for each in made):
                break
            stage.insert(0, made[0])
        after = [each for each in group.members if each.op.type in _AFTER]
        stages.append([*stage, *[each for each in after if each.inputs[2] == norm.outputs[0]]])
    return stages


class _Looking:
    """A stage's gradient before it is normalized, of which each unit is made and looked at once.

    dy: lines are there, or are made of what `Changes` take.
    """

    def __init__(
        self, units: Units, back: Back, dy: Array, x: Array, changing: Changing | None
    ) -> None:
        self.units, self.back, self.dy, self.x = units, back, dy, x
        self._lines = units.lines(dy), units.lines(x)
        self._changing = changing

    def all(self) -> None:
        """Look at all of them."""
        self.units.each(self._part)

    def some(self, images: slice) -> None:
        """Look at those of some pictures."""
        each = self.units.in_picture
        self._part(slice(images.start * each, images.stop * each))

    def _part(self, at: slice) -> None:
        dy, x = self._lines
        if self._changing is not None:
            self._changing(at, dy[at])
        self.back.look(at, dy[at], x[at])


class _Stage:
    """What a normalization's gradient comes from, that, and the gradients of a convolution that it goes to."""

    def __init__(self, group: Group, members: Sequence[Instr]) -> None:
        places = group.places
        at = next(at for at, member in enumerate(members) if member.op.type == _NORM)
        norm, before = members[at], members[:at]
        self._epsilon = norm.op.attrs["epsilon"]
        self._given = group.inputs_of(norm)
        self._norm = [places[value] for value in norm.outputs]
        linking = (each for each in group.members if each.op.type in _AFTER)
        inside = {value for member in linking for value in member.outputs}
        begins = before[0].inputs if before else norm.inputs[:1]
        linked = next((value for value in begins if value in inside), None)
        self._changes = Changes(group, before, linked) if before else None
        self._dy = places[norm.inputs[0]]
        after = {member.op.type: member for member in members[at + 1 :]}
        of_filter, of_input = (after.get(name) for name in _AFTER)
        self._attrs = None if of_filter is None else of_filter.op.attrs.copy()
        if of_filter is not None:
            self._of_filter = group.inputs_of(of_filter)[:2]
            self._filter = places[of_filter.outputs[0]]
        self._input = None if of_input is None else places[of_input.outputs[0]]
        if of_input is not None:
            self._of_input = group.inputs_of(of_input)[:2]

    def looking(self, room: Sequence[Any], dy: Array | None) -> _Looking | None:
        """What is to be looked at first; None where it does not fit.

        dy: an array in which elements are that the stage begins with, and where it may change them.
        """
        x, scale, mean, variance = (room[at] for at in self._given[1:5])
        if x.ndim != 4 or math.prod(x.shape) < LARGE or not x.flags.c_contiguous:
            return None
        if any(each.shape != x.shape[-1:] for each in (scale, mean, variance)):
            return None
        units = Units(len(x), math.prod(x.shape[1:3]), x.shape[-1])
        changing = None
        if self._changes is not None:
            changing = self._changes.of(room, x.shape, units)
            if changing is None:
                return None
        if dy is None:
            dy = room[self._given[0]] if self._changes is None else np.empty_like(x)
        if dy.shape != x.shape or not dy.flags.c_contiguous:
            return None
        back = Back(units, scale, mean, variance, self._epsilon)
        return _Looking(units, back, dy, x, changing)

    def run(
        self, room: list[Any], looking: _Looking, after: _Stage | None
    ) -> _Looking | bool | None:
        """Put into the room what it gives, of what has been looked at; what `after` has looked at, in the end.

        False where something does not fit.
        """
        x, units, back = looking.x, looking.units, looking.back
        where = None
        if self._attrs is not None:
            where = self._convolution(room, x.shape)
            if where is None:
                return False
        to_scale, to_offset = back.found()
        room[self._dy] = looking.dy
        nothing = np.empty(0, np.float32)
        given = (to_scale, to_offset, nothing, nothing.copy())
        for place, value in zip(self._norm[1:], given, strict=False):
            room[place] = value
        through = _Through(units, back, looking.dy, x)
        if where is None:
            room[self._norm[0]] = through.all()
            return None
        return self._into_convolution(room, where, through, after)

    def _convolution(self, room: Sequence[Any], shape: tuple[int, ...]) -> Geometry | None:
        """Where its windows lie; None where the gradient of its output has another shape."""
        attrs = self._attrs
        assert attrs is not None
        x, sizes = (room[at] for at in self._of_filter)
        if x.ndim != 4 or len(sizes) != 4 or not x.size:
            return None
        where = geometry(
            x.shape[1:3],
            [int(n) for n in sizes[:2]],
            attrs["strides"],
            attrs["padding"],
            b"NHWC",
            attrs["dilations"],
            attrs["explicit_paddings"],
        )
        if shape != (len(x), *where.out, int(sizes[3])) or sizes[2] != x.shape[3]:
            return None
        if self._input is not None:
            of_input, filters = (room[at] for at in self._of_input)
            if tuple(of_input) != x.shape or filters.shape != tuple(sizes):
                return None
        return where

    def _into_convolution(
        self, room: list[Any], where: Geometry, through: _Through, after: _Stage | None
    ) -> _Looking | bool | None:
        """The gradients of the convolution; see `run`."""
        x, sizes = (room[at] for at in self._of_filter)
        gradient = FilterGradient(where, x.shape[3], int(sizes[3]), len(x), x.dtype)
        looking, looked, multiply = None, False, None
        if self._input is not None:
            dx = room[self._input] = np.empty_like(x)
            if after is not None:
                looking = after.looking(room, dx)
                if looking is None:
                    return False
            filters = room[self._of_input[1]]
            if through.by_pictures:
                looked = looking is not None and looking.units.in_picture > 0
                then = looking.some if looking is not None and looked else None
                multiply = gradient.with_input(x, filters, dx, then)
        if through.by_pictures and (self._input is None or multiply is not None):
            add_shares(gradient, x, through.some, multiply)
        else:
            made, looked = through.all(), False
            if self._input is not None:
                input_gradient(made, filters, where, dx)
            add_shares(gradient, x, made.__getitem__)
        room[self._filter] = gradient.result()
        if looking is not None and not looked:
            looking.all()
        return looking


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
