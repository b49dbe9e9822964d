"""Batch normalization in training: with the convolution before it, and with what is done to each element after it.

`plan.rules.normalization_gradients` has the way back.

Some pictures are convolved, and their part of mean and variance is found while they are in the cache; when all are
known, some pictures at a time are normalized and changed (a sum, an activation) where they lie; and go into the next
convolution at once, if that has such a normalization, too.  A mean of the last ones is taken along.  Op by op each of
these results goes out to memory and comes back.  Statistics are those of units (`ops._kernels.normalizing`), so every
element has the bits that it has op by op.
Called by: plan.passes.  Threads: any.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from collections.abc import Set as AbstractSet
from typing import Any, Final

import numpy as np

from headrace.ops._kernels.blocks import BLOCK, LARGE
from headrace.ops._kernels.channels import Units, is_over_places, reduced_over_places
from headrace.ops._kernels.convolving import convolved
from headrace.ops._kernels.normalizing import Moments, Normalizing, is_near
from headrace.ops._kernels.windows import geometry
from headrace.ops.math.reductions import mean_of_sums
from headrace.ops.nn.batch_norm import factor_of, statistics
from headrace.plan.binding import bound_kernel
from headrace.plan.ir import Facts, Instr
from headrace.plan.rules.convolutions import continues, match_of, may_join
from headrace.plan.rules.elementwise import writes_into
from headrace.plan.rules.group import Group, Match, Rule
from headrace.plan.rules.spread import Spreading, beginning
from headrace.run.exec.instructions import Kernel

Array = np.ndarray[Any, Any]
MOST_STAGES = 4  # as long as they run, the step is not asked whether it is to go on
_BESIDE = (0, 4)
"""Dimensions of what an element is changed by: a number for all, or as many as there are elements."""


def _sum(x: Array, y: Array, out: Array) -> None:
    """AddN, which does not broadcast."""
    np.add(x, y, out=out)


def _match(norm: Instr, facts: Facts, taken: AbstractSet[Instr]) -> Match | None:
    """A stage, and as many before it as each make the pictures that the next one convolves."""
    stage = _stage(norm, facts, taken)
    if stage is None:
        return None
    stages = [stage]
    while len(stages) < MOST_STAGES:
        before = _stage_before(stages[0], facts, taken)
        if before is None or _of([before, *stages], facts) is None:
            break
        stages.insert(0, before)
    *others, last = stages
    value = last[-1].outputs[0]
    for user in facts.users(value):
        if user.op.type == "Mean" and user.inputs[0] == value and may_join(user, taken):
            found = _of([*others, [*last, user]], facts)
            if found is not None:
                return found
    return _of(stages, facts)


def _stage(norm: Instr, facts: Facts, taken: AbstractSet[Instr]) -> list[Instr] | None:
    """What makes the pictures, if it is a convolution, and what follows as long as nobody else wants that."""
    if not normalizes(norm, taken):
        return None
    before = _convolution_before(norm, facts, taken)
    after: list[Instr] = []
    value = norm.outputs[0]
    while True:
        users = facts.users(value)
        if len(users) != 1 or value in facts.results:
            break
        if not goes_on(users[0], value, facts, taken):
            break
        after.append(users[0])
        value = users[0].outputs[0]
    while before or after:
        members = [*before, norm, *after]
        if _of([members], facts) is not None:
            return members
        if after:
            after.pop()
        else:
            before.pop()
    return None


def _convolution_before(norm: Instr, facts: Facts, taken: AbstractSet[Instr]) -> list[Instr]:
    """The one that makes what is normalized; none if there is no such."""
    convolution = facts.maker(norm.inputs[0])
    if convolution is None or convolution.op.type != "Conv2D" or not may_join(convolution, taken):
        return []
    return [convolution] if norm.inputs.count(norm.inputs[0]) == 1 else []


def _stage_before(
    stage: Sequence[Instr], facts: Facts, taken: AbstractSet[Instr]
) -> list[Instr] | None:
    """The stage that makes what the convolution of this one takes."""
    convolution = stage[0]
    if convolution.op.type != "Conv2D" or convolution.inputs.count(convolution.inputs[0]) != 1:
        return None
    found: list[Instr] = []
    value = convolution.inputs[0]
    while True:
        maker = facts.maker(value)
        if maker is None or value in facts.results:
            return None
        if maker.op.type == "FusedBatchNormV3":
            if maker.outputs[0] != value or not normalizes(maker, taken):
                return None
            return [*_convolution_before(maker, facts, taken), maker, *found]
        given = [at for at in maker.inputs if goes_on(maker, at, facts, taken)]
        alone = [at for at in given if facts.users(at) == [maker] and facts.maker(at) is not None]
        if not alone:
            return None
        found.insert(0, maker)
        value = alone[0]


def normalizes(norm: Instr, taken: AbstractSet[Instr]) -> bool:
    """Whether it is in training, of float32 with channels last."""
    return may_join(norm, taken) and bool(norm.op.attrs["is_training"])


def _of(stages: Sequence[Sequence[Instr]], facts: Facts) -> Match | None:
    """The group, if nobody wants what it gives before it runs, and each takes one thing that its stage gives."""
    members = [member for stage in stages for member in stage]
    root = members[-1]
    kept = wanted_outside(members, root, facts)
    if kept is None or not all(is_chain(stage) for stage in stages):
        return None
    return match_of(members, kept, facts, _build)


def goes_on(instr: Instr, value: int, facts: Facts, taken: AbstractSet[Instr]) -> bool:
    """Whether it makes of each element of `value`, and of one beside it, one of the same type."""
    if instr.op.type == "AddN":
        return may_join(instr, taken) and len(set(instr.inputs)) == 2 == len(instr.inputs)
    return continues(instr, value, facts, taken, _BESIDE)


def is_chain(members: Sequence[Instr]) -> bool:
    """Whether each but the first takes one thing that members make."""
    made = made_by(members)
    return all(takes_one(member, made) for member in members[1:])


def made_by(members: Sequence[Instr]) -> AbstractSet[int]:
    """The values that they give."""
    return {value for member in members for value in member.outputs}


def takes_one(instr: Instr, made: AbstractSet[int]) -> bool:
    """Whether one of its inputs, and once, is among these."""
    return [value in made for value in instr.inputs].count(True) == 1


def wanted_outside(members: Sequence[Instr], root: Instr, facts: Facts) -> list[int] | None:
    """What members other than `root` give to others; None if that is wanted before `root`."""
    kept = []
    inside, place = {*members}, facts.place
    for member in members:
        for value in () if member is root else member.outputs:
            users = facts.uses(value)
            if not inside.issuperset(users):
                if min(place[user] for user in users if user not in inside) < place[root]:
                    return None
            elif value not in facts.results:
                continue
            kept.append(value)
    return kept


def _build(group: Group) -> Kernel:
    return group.kernel(_Together(group).results, refuses=True)


RULE: Final = Rule("normalization", ("FusedBatchNormV3",), _match)


# -- running ----------------------------------------------------------------------------------------------------------


class Changes:
    """What elementwise nodes do, one after the other, where the pictures lie."""

    def __init__(self, group: Group, members: Sequence[Instr], value: int | None) -> None:
        """value: what the first one takes of what is there; each other one takes what the one before it gives.

        What the first ones spread over the pictures (`plan.rules.spread`) is a thing beside them to the others.
        """
        count = beginning(group, members)
        self._spreading = Spreading(group, members[:count]) if count else None
        self._spread = group.places[members[count - 1].outputs[0]] if count else None
        self._steps = []
        for member in members[count:]:
            function = _sum if member.op.type == "AddN" else writes_into(member.op)
            assert function is not None
            places = zip(member.inputs, group.inputs_of(member), strict=True)
            self._steps.append((function, [None if at == value else place for at, place in places]))
            value = member.outputs[0]
        if count and not self._steps:
            self._steps = [(np.positive, [self._spread])]

    def of(self, room: Sequence[Any], shape: tuple[int, ...], units: Units) -> Changing | None:
        """None where something is neither a number nor of this shape.  room: values of the group, by place."""
        steps = []
        for function, places in self._steps:
            given: list[tuple[Any, bool]] = []
            for at in places:
                value = None if at is None else room[at]
                if at is not None and at == self._spread:
                    lines = self._lines_of_spread(room, shape, units)
                    if lines is None:
                        return None
                    given.append((lines, True))
                elif value is not None and value.shape == shape:
                    given.append((units.lines(value), True))
                elif value is not None and (value.shape != () or function is _sum):
                    return None
                else:
                    given.append((value, False))
            steps.append((function, given))
        return Changing(steps, units)

    def _lines_of_spread(
        self, room: Sequence[Any], shape: tuple[int, ...], units: Units
    ) -> Array | None:
        """What is spread, as lines of units; None where it has another shape."""
        spreading = self._spreading
        assert spreading is not None
        made = spreading.before(room)
        if made is None:
            return None
        alike = made.shape == (shape[0], 1, 1, shape[3]) and units.in_picture > 0
        if alike and spreading.shape(made, room) == shape:
            return units.lines_of_same(made.reshape(shape[0], shape[3]))
        made = spreading.all(room)
        return units.lines(np.ascontiguousarray(made)) if made.shape == shape else None


class Changing:
    """`Changes` of values that are there."""

    def __init__(self, steps: list[tuple[Any, list[tuple[Any, bool]]]], units: Units) -> None:
        self._steps, self._units = steps, units

    def __call__(self, at: slice, into: Array) -> None:
        """into: lines of the units `at`, changed."""
        with self._units.as_they_lie():
            for function, given in self._steps:
                function(
                    *[
                        into if value is None else value[at] if moves else value
                        for value, moves in given
                    ],
                    out=into,
                )


class _Together:
    """A group run some pictures at a time, from one normalization to the next."""

    def __init__(self, group: Group) -> None:
        stages: list[list[Instr]] = []
        for member in group.members:
            begins = member.op.type == "Conv2D" or (
                member.op.type == "FusedBatchNormV3"
                and (not stages or any(each.op.type == member.op.type for each in stages[-1]))
            )
            if begins:
                stages.append([])
            stages[-1].append(member)
        mean = stages[-1].pop() if group.members[-1].op.type == "Mean" else None
        self._mean = None if mean is None else _Mean(group, mean)
        self._stages = [_Stage(group, stage) for stage in stages]
        self._places = group.places
        self._wanted = [group.places[value] for value in group.outputs]

    def results(self, values: Sequence[Any]) -> list[Any] | None:
        """The group's outputs, or None where it has to run op by op."""
        room = [*values, *[None] * (len(self._places) - len(values))]
        last: _Made | None = None
        for stage in self._stages:
            last = stage.run(room, last)
            if last is None:
                return None
        assert last is not None
        if self._mean is None:
            last.all()
        else:
            self._mean.run(room, last)
        return [room[place] for place in self._wanted]


class _Mean:
    """A mean of the pictures that the last stage makes, of each while it is in the cache if it is over its places."""

    def __init__(self, group: Group, member: Instr) -> None:
        self._pictures, self._axes = group.inputs_of(member)
        self._mean = group.places[member.outputs[0]]
        self._keep = member.op.attrs["keep_dims"]
        assert member.op.spec is not None
        self._kernel = bound_kernel(member.op, member.op.spec)

    def run(self, room: list[Any], made: _Made) -> None:
        """Make all pictures, and put the mean into the room."""
        pictures, axes = room[self._pictures], room[self._axes]
        listed = tuple(np.ravel(axes).tolist())
        if made.pictures_at_once and is_over_places(pictures, listed) and len(listed) == 2:
            sums = np.empty((len(pictures), pictures.shape[-1]), pictures.dtype)

            def then(at: slice) -> None:
                sums[at] = reduced_over_places(np.add, pictures[at], listed)

            made.all(then)
            room[self._mean] = mean_of_sums(sums, pictures, listed, self._keep)
        else:
            made.all()
            room[self._mean] = self._kernel(pictures, axes)


class _Made:
    """What a stage gives: pictures of which each unit is still to be made, once.  make: of the units at a slice."""

    def __init__(self, units: Units, make: Callable[[slice], object]) -> None:
        self._units, self._make = units, make
        self.by_pictures = units.in_picture > 0
        self.pictures_at_once = units.in_picture == 1

    def all(self, then: Callable[[slice], object] | None = None) -> None:
        """Make all of them.  then: called with the units that have been made."""
        make = self._make
        if then is None:
            self._units.each(make)
        else:
            self._units.each(lambda at: (make(at), then(at)))

    def some(self, images: slice) -> None:
        """Make those of some pictures."""
        units = self._units
        each, size = units.in_picture, units.pixels * units.channels
        first, end = images.start * each, images.stop * each
        number = max(round((end - first) * size / BLOCK), 1)
        for place in range(number):
            self._make(
                slice(
                    first + (end - first) * place // number,
                    first + (end - first) * (place + 1) // number,
                )
            )


class _Stage:
    """A convolution or none, a normalization, and what changes each element after it."""

    def __init__(self, group: Group, members: list[Instr]) -> None:
        places = group.places
        self._convolve = None
        if members[0].op.type == "Conv2D":
            convolution, *members = members
            attrs = convolution.op.attrs
            self._convolve = (
                attrs["strides"],
                attrs["padding"],
                b"NHWC",
                attrs["dilations"],
                attrs["explicit_paddings"],
            )
            self._given = group.inputs_of(convolution)
            self._convolved = places[convolution.outputs[0]]
        norm, *after = members
        # As planned, whatever a program makes of them later.
        self._attrs = norm.op.attrs.copy()
        self._pictures, *self._parameters = group.inputs_of(norm)
        self._norm = [places[value] for value in norm.outputs]
        self._last = places[members[-1].outputs[0]]
        self._changes = Changes(group, after, norm.outputs[0])

    def run(self, room: list[Any], before: _Made | None) -> _Made | None:
        """Put into the room what it gives, of which the pictures are still to be made; None where it cannot.

        before: what makes the pictures that it begins with, if they are not there.
        """
        shape = self._shape(room)
        if shape is None or len(shape) != 4 or math.prod(shape) < LARGE:
            return None
        scale, offset, mean, variance = (room[at] for at in self._parameters)
        channels = shape[-1]
        if scale.shape != (channels,) or offset.shape != (channels,):
            return None
        units = Units(shape[0], math.prod(shape[1:3]), channels)
        changing = self._changes.of(room, shape, units)
        if changing is None:
            return None
        pictures, moments = self._measured(room, units, before)
        lines = units.lines(pictures)
        new_mean, biased = moments.found()
        factor = factor_of(scale, biased, self._attrs["epsilon"])
        made = np.empty(shape, pictures.dtype)
        into = units.lines(made)
        near = is_near(new_mean, biased, self._attrs["epsilon"])
        normalize = Normalizing(units, new_mean, factor, offset, near)

        def part(at: slice) -> None:
            normalize(lines[at], into[at])
            changing(at, into[at])

        average = self._attrs["exponential_avg_factor"]
        kept = statistics(mean, variance, new_mean, biased, math.prod(shape[:3]), average)
        for place, value in zip(self._norm[1:], kept, strict=False):
            room[place] = value
        room[self._norm[-1]] = np.empty(0, scale.dtype)
        room[self._last] = made
        if self._convolve is not None:
            room[self._convolved] = pictures
        return _Made(units, part)

    def _shape(self, room: Sequence[Any]) -> tuple[int, ...] | None:
        """Of the pictures; None if they cannot be made at once."""
        if self._convolve is None:
            pictures = room[self._pictures]
            return pictures.shape if pictures.flags.c_contiguous else None
        x, filters = (room[at] for at in self._given)
        if x.ndim != 4 or filters.ndim != 4 or not filters.size or x.shape[-1] != filters.shape[2]:
            return None
        out = geometry(x.shape[1:3], filters.shape[:2], *self._convolve).out
        return (len(x), *out, filters.shape[-1])

    def _measured(
        self, room: Sequence[Any], units: Units, before: _Made | None
    ) -> tuple[Array, Moments]:
        """The pictures, and what they have in common."""
        first = None
        if before is not None and before.by_pictures:
            first = before.some
        elif before is not None:
            before.all()
        if self._convolve is None:
            pictures: Array = room[self._pictures]
        else:
            x, filters = (room[at] for at in self._given)
            moments, each = Moments(units, x.dtype), units.in_picture

            def then(images: slice, part: Array) -> None:
                moments.look(slice(images.start * each, images.stop * each), units.lines(part))

            pictures = convolved(
                x, filters, *self._convolve, then=then if each else None, first=first
            )
            if each:
                return pictures, moments
        moments, lines = Moments(units, pictures.dtype), units.lines(pictures)
        units.each(lambda at: moments.look(at, lines[at]))
        return pictures, moments
