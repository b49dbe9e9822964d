"""Kernels of groups that XLA compiles: a function of arrays of all their nodes, and what stands in for it.

Called by: plan.fusion, by way of the groups that it makes.  Threads: any.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from functools import partial
from typing import Any, Final, NamedTuple

import numpy as np

from headrace.base import dtypes, errors
from headrace.base.dtypes import DType
from headrace.graph.graph import Operation
from headrace.ops._portable.table import ASSIGN, READ, ArrayKernel, StateKernel, check, tracing
from headrace.plan.binding import bound_kernel
from headrace.plan.devices import kernel_of
from headrace.plan.ir import SIZES
from headrace.plan.rules.group import Group
from headrace.plan.variables import Variables
from headrace.run.exec.fused import FusedKernel, Untraced
from headrace.run.exec.instructions import Kernel
from headrace.run.exec.updating import Held, UpdatingKernel

_LARGEST_SHAPE: Final = 1 << 16
"""Elements of what follows from shapes, which are constants of the program."""


class _Part(NamedTuple):
    """A node of a group.  inputs: (place, whether it is a constant of the host's) of each.

    kernel: one of the host's, if it follows from shapes.
    """

    op: Operation
    kernel: ArrayKernel | StateKernel | Callable[..., Any]
    attrs: dict[str, Any]
    inputs: Sequence[tuple[int, bool]]
    outputs: int
    single: bool


def build(shapes: AbstractSet[int], group: Group) -> Kernel:
    """The kernel of a group that only computes: (step, what it is given) -> its results.

    shapes: values that follow from shapes, which are known when it is traced.
    """
    group.shapes = shapes
    known = _known(group)
    wanted = [group.places[value] for value in group.outputs]
    told = sorted(group.instr.told)
    given = [
        place
        for place in range(len(group.inputs))
        if place not in known and place not in group.instr.told
    ]
    traced = partial(_traced, _parts(group), wanted, known, given, told)
    fused = FusedKernel(traced, given, group.device, told)
    return _kernel(group, fused, [])


def build_updating(variables: Variables, shapes: AbstractSet[int], group: Group) -> Kernel:
    """As `build`, of a group that reads variables, and changes some."""
    group.shapes = shapes
    known, states, held = _known(group), _States(group, variables), list[Held]()
    for root, place in states.order:
        tensor = group.values.tensor(group.inputs[place])
        kind: DType = (
            group.values.tensor(root).op.attrs["dtype"]
            if tensor._dtype is dtypes.resource
            else tensor._dtype._base
        )
        held.append(Held(place, kind, states.changes[root]))
    given = [
        place
        for place in range(len(group.inputs))
        if place not in known and place not in states.number and place not in group.instr.told
    ]
    told = sorted(group.instr.told)
    wanted = [group.places[value] for value in group.outputs]
    computed = [place for place in wanted if place not in states.number]
    traced = partial(
        _traced_updates,
        _parts(group),
        computed,
        known,
        given,
        told,
        states.number,
        len(group.inputs),
    )
    fused = UpdatingKernel(traced, given, held, group.device, told)
    passed = [
        held[states.number[place]].place if place in states.number else -1 for place in wanted
    ]
    return _kernel(group, fused, passed)


class _States:
    """The variables of a group.  number: of that at each place that stands for one; order: the value that stands for
    each, and a place of it, those that change first; changes: how often each does.
    """

    def __init__(self, group: Group, variables: Variables) -> None:
        place_of: dict[int, int] = {}
        roots: dict[int, int] = {}
        for place, value in enumerate(group.inputs):
            tensor = group.values.tensors[value]
            is_handle = tensor is not None and tensor._dtype is dtypes.resource
            if place in group.instr.refers or is_handle:
                roots[place] = root = variables.of(value)
                place_of.setdefault(root, place)
        self.changes = dict.fromkeys(place_of, 0)
        for member in group.members:
            kernel = kernel_of(member.op)
            if isinstance(kernel, StateKernel) and kernel.does != READ:
                for value in member.inputs[: kernel.variables]:
                    self.changes[variables.of(value)] += 1
                for value in member.outputs:
                    roots[group.places[value]] = variables.of(member.inputs[0])
        ordered = sorted(place_of, key=lambda root: not self.changes[root])
        self.order = [(root, place_of[root]) for root in ordered]
        numbered = {root: at for at, root in enumerate(ordered)}
        self.number = {place: numbered[root] for place, root in roots.items()}


def _known(group: Group) -> dict[int, Any]:
    constants = group.values.constants
    return {
        place: constants[value] for place, value in enumerate(group.inputs) if value in constants
    }


def _parts(group: Group) -> list[_Part]:
    found = []
    for member in group.members:
        kernel, outputs = kernel_of(member.op), len(member.outputs)
        assert member.op.spec is not None
        single = outputs == 1 and member.op.spec.single_output
        if not group.shapes.isdisjoint(member.outputs):
            places = [(place, True) for place in group.inputs_of(member)]
            of_sizes = member.what == SIZES
            host = member.kernel if of_sizes else bound_kernel(member.op, member.op.spec)
            assert host is not None
            found.append(_Part(member.op, host, {}, places, outputs, of_sizes or single))
            continue
        assert kernel is not None
        attrs = {name: member.op.attrs[name] for name in kernel.attrs if name in member.op.attrs}
        stays = [kernel.on_host(place, len(member.inputs)) for place in range(len(member.inputs))]
        inputs = list(zip(group.inputs_of(member), stays, strict=True))
        found.append(_Part(member.op, kernel, attrs, inputs, outputs, single))
    return found


def _kernel(group: Group, fused: FusedKernel, passed: Sequence[int]) -> Kernel:
    """passed: for each result, the place of what is given that it is; -1: it is computed."""
    plain, single = group.plain(), len(group.outputs) == 1
    hands_on = any(place >= 0 for place in passed)

    def run(step: Any, *values: Any) -> Any:
        found: Sequence[Any] | None = None
        try:
            found = fused(values)
        except errors.ResourceExhaustedError:  # one by one they may take less, or say which it is
            fused.fell_back += 1
        if found is None:
            found = plain(step, values)
        elif hands_on:
            computed = iter(found)
            found = [next(computed) if place < 0 else values[place] for place in passed]
        return found[0] if single else found

    run.fused = fused  # type: ignore[attr-defined]  # for `run.exec.tuning`
    return run


# -- traced -----------------------------------------------------------------------------------------------------------


def _traced(
    parts: Sequence[_Part],
    wanted: Sequence[int],
    known: Mapping[int, Any],
    given: Sequence[int],
    told_at: Sequence[int],
    xp: Any,
    *arrays: Any,
    told: Sequence[Any] = (),
) -> tuple[list[Any], Any]:
    """The results of a group, and whether all holds that its kernels require; None if they require nothing.

    told: numbers that stand at `told_at`.
    """
    known = {**known, **dict(zip(told_at, told, strict=True))}
    values = _Values(xp, known, dict(zip(given, arrays, strict=True)), {}, [])
    holds = values.run(parts, len(given) + len(known))
    return [values[place] for place in wanted], holds


def _traced_updates(
    parts: Sequence[_Part],
    wanted: Sequence[int],
    known: Mapping[int, Any],
    given: Sequence[int],
    told_at: Sequence[int],
    states: Mapping[int, int],
    inputs: int,
    xp: Any,
    changed: Sequence[Any],
    others: Sequence[Any],
    told: Sequence[Any] = (),
) -> tuple[list[Any], list[Any], Any]:
    """What variables become, results, and whether all holds that its kernels require: else no variable changes.

    states: the number of the variable at each place that stands for one.  inputs: how many there are of the group.
    told: as of `_traced`.
    """
    known = {**known, **dict(zip(told_at, told, strict=True))}
    read = len(others) - len(given)
    before = [*changed, *others[:read]]
    arrays = dict(zip(given, others[read:], strict=True))
    values = _Values(xp, known, arrays, states, [*before])
    holds = values.run(parts, inputs)
    after = values.held[: len(changed)]
    if holds is not None:
        after = [xp.where(holds, new, old) for new, old in zip(after, before, strict=False)]
    return after, [values[place] for place in wanted], holds


class _Values:
    """Values of a group while it is traced, by place.  held: what its variables have, as far as it has come."""

    def __init__(
        self,
        xp: Any,
        known: Mapping[int, Any],
        arrays: dict[int, Any],
        states: Mapping[int, int],
        held: list[Any],
    ) -> None:
        self._xp, self._known, self._arrays, self._states = xp, {**known}, arrays, states
        self.held = held

    def __getitem__(self, place: int) -> Any:
        state = self._states.get(place)
        if state is not None:
            return self.held[state]
        found = self._arrays.get(place)
        if found is None:
            found = self._arrays[place] = self._xp.asarray(self._known[place])
        return found

    def run(self, parts: Sequence[_Part], count: int) -> Any:
        """Compute all, the first result of which stands at `count`; whether it holds."""
        with tracing() as required:
            for part in parts:
                try:
                    found = self._found(part)
                except Exception as error:
                    raise Untraced(part.op) from error
                if found is not None:
                    of_host = not isinstance(part.kernel, (ArrayKernel, StateKernel))
                    made = self._known if of_host else self._arrays
                    made.update(enumerate([found] if part.single else found, count))
                count += part.outputs
            holds = None
            for condition in required:
                holds = condition if holds is None else self._xp.logical_and(holds, condition)
        return holds

    def _found(self, part: _Part) -> Any:
        """What a node gives; None if that is no array."""
        kernel, xp = part.kernel, self._xp
        if isinstance(kernel, StateKernel):
            return self._found_of_state(kernel, part)
        taken = [self._given(each) for each in part.inputs]
        if not isinstance(kernel, ArrayKernel):
            found = kernel(*taken)
            check(
                all(np.size(each) <= _LARGEST_SHAPE for each in ([found] if part.single else found))
            )
            return found
        function = kernel.function_for(xp)
        assert function is not None
        return function(xp, *taken, **part.attrs)

    def _given(self, given: tuple[int, bool]) -> Any:
        """An input: the host's, if it stays there."""
        place, stays = given
        return self._known[place] if stays and place in self._known else self[place]

    def _found_of_state(self, kernel: StateKernel, part: _Part) -> Any:
        states = [self._states[place] for place, _ in part.inputs[: kernel.variables]]
        others = [self._given(each) for each in part.inputs[kernel.variables :]]
        if kernel.does == ASSIGN:
            after = [kernel.function(self._xp, *others)]
        else:
            before = [self.held[state] for state in states]
            after = kernel.function(self._xp, *before, *others, **part.attrs)
        if kernel.does == READ:
            return after
        for state, new in zip(states, after, strict=True):
            check(new.shape == self.held[state].shape and new.dtype == self.held[state].dtype)
            self.held[state] = new
        return None
