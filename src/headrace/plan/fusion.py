"""Fusion: nodes that only compute, one after the other, become one program of XLA's.

A group is what comes in a row on one device and depends on nothing outside that depends on it; what it is given are
arrays of that device, and shapes and axes that are known when the step is planned.  Each branch and loop is looked at
for itself.  What reads and changes variables of that device is in it, in the order of the step: what would read or
change one of them out of turn ends the group.  On the host that goes for small variables whose update is made of what
the group has computed; of large ones the host's own updates are quicker.
Whether a fused step pays is measured (`run.exec.tuning`): this is how it is made.
Called by: plan.passes, plan.compile.  Threads: any.
"""

from __future__ import annotations

import importlib.util
import math
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from functools import cache, partial
from typing import Any, Final

from headrace.base import dtypes, errors
from headrace.base.dtypes import DType
from headrace.base.traits import (
    CONST,
    DRAWS,
    LOOP_COND,
    MAY_WAIT,
    READS_VARIABLE,
    SIZED_BY_VALUES,
    STORES,
)
from headrace.graph.graph import Operation
from headrace.graph.tensor import Tensor
from headrace.ops._portable.table import READ, ArrayKernel, StateKernel, array_kernels
from headrace.plan.copies import asks_for_shapes
from headrace.plan.devices import Placed, kernel_of
from headrace.plan.draws import is_whole
from headrace.plan.fused_kernels import build, build_updating
from headrace.plan.ir import AHEAD, BRANCH, FUSED, LOOP, NODE, Instr, Request, Step, instrs
from headrace.plan.nesting import closed
from headrace.plan.rules.group import Match, joined
from headrace.plan.variables import Variables
from headrace.run.devices.device import HOST, NUMBERS, Device

FEWEST: Final = 6
"""Nodes; fewer cost less than calling a program of XLA's."""
_FEWEST_THERE: Final = 2
"""On another device, where each node by itself is such a call."""
_LARGEST_HERE: Final = 1 << 14
"""Elements of a variable of the host's that a group updates: what it becomes is copied there."""
SETTING: Final = "HEADRACE_XLA"


def setting() -> str:
    """How steps are fused: "off", "on", or "auto", where that is measured to pay.  Raises InvalidArgument."""
    said = os.environ.get(SETTING, "").strip().lower() or "auto"
    if said not in ("on", "off", "auto"):
        raise errors.invalid_argument(f"{SETTING}={said!r}: it is on, off or auto")
    return said if said == "off" or _has_jax() else "off"


@cache
def _has_jax() -> bool:
    return importlib.util.find_spec("jax") is not None


def may_pay(ops: Iterable[Operation], placed: Placed) -> bool:
    """Whether there are nodes enough that a group may be made of.  placed: see `Request`."""
    ops = list(ops)
    if sum([op in placed and MAY_WAIT not in op.traits for op in ops]) >= _FEWEST_THERE:
        return True
    kernels = array_kernels()
    if (
        any(LOOP_COND in op.traits for op in ops)
        and sum([op.type in kernels for op in ops]) >= FEWEST
    ):
        return True  # a loop may be one by itself
    return sum([_may_join(kernels.get(op.type), op) for op in ops]) >= FEWEST


def _may_join(kernel: ArrayKernel | None, op: Operation) -> bool:
    return kernel is not None and not kernel.alone and CONST not in op.traits


def identity(request: Request) -> str:
    """What tells a step from others, whatever its nodes are called; the same in every process."""
    import hashlib  # which takes a while, and few processes come to need

    ops = request.pruned.ops
    number = {tensor: f"a{at}" for at, tensor in enumerate(request.args)}
    hashed = hashlib.sha256()
    for at, op in enumerate(ops):
        device = request.placed.get(op, HOST)
        made = [(tensor._dtype.name, tensor._raw) for tensor in op.outputs]
        taken = [number.get(tensor, "") for tensor in op.inputs]
        for tensor in op.outputs:
            number.setdefault(tensor, f"{at}:{tensor.value_index}")
        texts = _says_how(op)
        attrs = [
            (name, repr(value)) for name, value in op.attrs.items() if _is_plain(name, value, texts)
        ]
        said = (op.type, device.description, taken, made, sorted(attrs))
        hashed.update(repr(said).encode())
    hashed.update(repr([number.get(tensor, "") for tensor in request.returns]).encode())
    return hashed.hexdigest()


def _says_how(op: Operation) -> set[str]:
    """Names of attrs that are text and say how something is computed, not what it is called."""
    return set() if op.spec is None or op.spec.takes_ctx else {*op.spec.kernel_attrs}


def _is_plain(name: str, value: Any, texts: AbstractSet[str]) -> bool:
    """Whether an attr says how something is computed, not what it is called.  texts: those that may be text."""
    if isinstance(value, list):
        return all(_is_plain(name, each, texts) for each in value)
    if isinstance(value, bytes):
        return name in texts
    return isinstance(value, (bool, int, float, DType)) and not name.startswith("_")


def fuse(step: Step) -> Step:
    """The pass."""
    return _fused(step, Variables(step), of_shapes(step))


def of_shapes(step: Step) -> set[int]:
    """Values, in branches and loops, too, that are numbers made of nothing but shapes."""
    found: set[int] = set()
    for instr in instrs(step.code):
        if instr.what == AHEAD:  # numbers that are others in each step
            continue
        if asks_for_shapes(instr) or _only_counts(instr, found, step.values.constants):
            found.update(instr.outputs)
    return found


def _only_counts(instr: Instr, numbers: AbstractSet[int], constants: Mapping[int, Any]) -> bool:
    """Whether it makes numbers of numbers, some of which are among these."""
    spec = instr.op.spec
    if instr.what != NODE or instr.body or instr.kernel is not None or instr.detail is not None:
        return False
    if spec is None or spec.kernel is None or spec.takes_ctx or not spec.foldable:
        return False
    if instr.effects or numbers.isdisjoint(instr.inputs):
        return False
    return all(map(_is_like_a_shape, instr.op.outputs)) and all(
        value in numbers or value in constants for value in instr.inputs
    )


def _fused(step: Step, variables: Variables, numbers: AbstractSet[int]) -> Step:
    code = []
    for instr in step.code:
        if instr.what == BRANCH or (instr.what == LOOP and instr.detail.whole is None):
            bodies = tuple([_fused(body, variables, numbers) for body in instr.body])
            instr = closed(instr.changed(body=bodies))
        code.append(instr)
    return _Fusing(step.with_code(code), variables, numbers).done()


class _Fusing:
    """members: of the group that is being made; late: what depends on them and is to come after them.

    reads, writes: variables that members read and change, as `Variables.of` has them; None: one of which nobody knows
    which.  shapes: values that follow from the shapes of what members give, which is known when the program is made.
    numbers: values of the step that are made of shapes: where members do not make them, a program is made for what they
    are.  where: the device of all.
    """

    def __init__(self, step: Step, variables: Variables, numbers: AbstractSet[int]) -> None:
        self._step, self._facts = step, step.facts
        self._values, self._variables, self._numbers = step.values, variables, numbers
        self._code: list[Instr] = []
        self._begin()

    def _begin(self) -> None:
        self._members: list[Instr] = []
        self._late: list[Instr] = []
        self._made: set[int] = set()
        self._made_late: set[int] = set()
        self._ops: set[Operation] = set()
        self._late_ops: set[Operation] = set()
        self._reads: set[int | None] = set()
        self._writes: set[int | None] = set()
        self._shapes: set[int] = set()
        self._late_stores: set[int] = set()
        self._late_reads = False
        self._of_state = False
        self._where: Device = HOST

    def done(self) -> Step:
        for instr in self._step.code:
            self._add(instr)
        self._finish()
        return self._step.with_code(self._code)

    def _add(self, instr: Instr, joins: bool = True) -> None:
        """joins: it may be in a group."""
        device = self._device(instr)
        while self._members and device not in (HOST, self._where) and self._fits(instr):
            self._end()  # another device's begins; the host's beside a device's wait, or come before
        late = not self._made_late.isdisjoint(instr.inputs)
        late = late or not self._late_ops.isdisjoint(instr.controls)
        depends = late or not self._made.isdisjoint(instr.inputs)
        depends = depends or not self._ops.isdisjoint(instr.controls)
        if not late and self._follows_from_shapes(instr):
            self._join(instr)
            self._shapes.update(instr.outputs)
        elif joins and not late and self._joins(instr):
            if self._is_out_of_turn(instr):
                self._end()
                self._add(instr)
            else:
                self._join(instr)
        elif self._members and self._may_store_later(instr):
            if depends or not self._late_stores.isdisjoint(instr.inputs[:1]):
                self._come_later(instr)
                self._late_stores.update(instr.inputs[:1])
            else:
                self._code.append(instr)
        elif _acts(instr) and not self._only_reads_others(instr, depends):
            if depends or self._late or self._reads or self._writes:
                self._finish()
            self._code.append(instr)
        elif depends:
            self._come_later(instr)
        else:
            if self._writes and not self._writes.isdisjoint(self._seen(instr)):
                self._finish()
            self._code.append(instr)

    def _come_later(self, instr: Instr) -> None:
        self._late.append(instr)
        self._made_late.update(instr.outputs)
        self._late_ops.update((instr.op, *instr.nodes))
        self._late_reads = self._late_reads or any(True for _ in self._variables.seen_by(instr))

    def _may_store_later(self, instr: Instr) -> bool:
        """Whether it only keeps a value, which may as well be done after a group of the host's."""
        if any(self._facts.uses(value) for value in instr.outputs):
            return False
        if instr.what != NODE or instr.body or STORES not in instr.op.traits:
            return False
        if self._where is not HOST or self._device(instr) is not HOST or self._of_state:
            return False
        return instr.waiter < 0 and self._values.changing.isdisjoint(instr.inputs)

    def _join(self, instr: Instr) -> None:
        if self._device(instr) is not HOST or not self._members:
            self._where = self._device(instr)
        self._members.append(instr)
        self._made.update(instr.outputs)
        self._ops.update((instr.op, *instr.nodes))
        self._reads.update(self._variables.seen_by(instr))
        self._writes.update(self._changed_by(instr))
        self._of_state = self._of_state or isinstance(kernel_of(instr.op), StateKernel)

    def _end(self) -> None:
        """The group is as large as it can be; what waited for it may begin another."""
        late, where = self._late, self._where
        inside, outside = self._shapes_apart()
        kept = [
            value
            for member in self._members
            for value in member.outputs
            if self._shapes.isdisjoint(member.outputs)
            and (
                value in self._facts.results
                or not inside.issuperset(self._facts.uses(value))
                or not outside.isdisjoint(self._facts.uses(value))
            )
        ]
        fewest = FEWEST if where is HOST else _FEWEST_THERE
        count = sum([self._shapes.isdisjoint(member.outputs) for member in self._members])
        if count >= fewest and (kept or self._writes):
            self._code.append(self._group(self._members_of(inside, outside), kept))
            self._code += [member for member in self._members if member in outside]
        else:
            self._code += self._members
        self._begin()
        for instr in late:
            self._add(instr, where is not HOST and self._device(instr) is where)

    def _shapes_apart(self) -> tuple[set[Instr], set[Instr]]:
        """The members that run in the group, and those that run outside: what follows from shapes may do both."""
        inside, outside = set(self._members), set[Instr]()
        if not self._shapes:
            return inside, outside
        everything = frozenset(inside)
        for member in reversed(self._members):
            if self._shapes.isdisjoint(member.outputs):
                continue
            users = {user for value in member.outputs for user in self._facts.uses(value)}
            if inside.isdisjoint(users):
                inside.discard(member)
            is_result = not self._facts.results.isdisjoint(member.outputs)
            if is_result or not users <= everything or not users.isdisjoint(outside):
                outside.add(member)
        return inside, outside

    def _members_of(self, inside: set[Instr], outside: set[Instr]) -> list[Instr]:
        """Those that run in the group; what runs outside, too, gives other values here."""
        other: dict[int, int] = {}
        members = []
        for member in self._members:
            if member not in inside:
                continue
            inputs = tuple([other.get(value, value) for value in member.inputs])
            if member in outside:
                for value in member.outputs:
                    other[value] = self._values.new(self._values.tensors[value])
                outputs = tuple([other[value] for value in member.outputs])
                member = member.changed(inputs=inputs, outputs=outputs, nodes=())
            elif inputs != member.inputs:
                member = member.changed(inputs=inputs)
            members.append(member)
        self._shapes = {other.get(value, value) for value in self._shapes}
        return members

    def _finish(self) -> None:
        """No group goes on after this."""
        while self._members:
            self._end()

    def _group(self, members: Sequence[Instr], kept: Sequence[int]) -> Instr:
        told = self._told(members)
        if not self._of_state:
            match = Match(members, partial(build, self._shapes), kept)
            made = joined(FUSED, match, self._step)
            return made.changed(told=_places_of(told, made))
        references = {
            value
            for member in members
            for value in member.inputs
            if value in self._values.references and self._variables.lives_on(value) is self._where
        }
        match = Match(members, partial(build_updating, self._variables, self._shapes), kept)
        made = joined(FUSED, match, self._step, references)
        return made.changed(told=_places_of(told, made))

    def _told(self, members: Sequence[Instr]) -> set[int]:
        """Numbers that come from outside, and have to be known when the program is made."""
        found = set[int]()
        for member in members:
            if asks_for_shapes(member):
                continue
            kernel, count = kernel_of(member.op), len(member.inputs)
            counts = not self._shapes.isdisjoint(member.outputs)
            for place, value in enumerate(member.inputs):
                here = counts or (kernel is not None and kernel.on_host(place, count))
                if here and self._is_told(value):
                    found.add(value)
        return found

    def _is_told(self, value: int) -> bool:
        return value in self._numbers and value not in self._made and not self._is_known(value)

    def _is_known(self, value: int) -> bool:
        return value in self._values.constants or value in self._shapes

    # -- what may be in it ----------------------------------------------------------------------------------------

    def _joins(self, instr: Instr) -> bool:
        if not self._fits(instr) or (self._members and not self._is_beside(instr)):
            return False
        if self._changes(instr) and self._device(instr) is HOST:
            return not self._made.isdisjoint(instr.inputs)
        return True

    def _fits(self, instr: Instr) -> bool:
        """Whether it may be in a group."""
        if instr.what != NODE or instr.body or instr.kernel is not None or instr.detail is not None:
            return False
        op, values = instr.op, self._values
        kernel = kernel_of(op)
        if kernel is None or MAY_WAIT in op.traits or not self._device(instr).compiles:
            return False
        if is_whole(instr) or op in self._step.request.without:
            return False
        if isinstance(kernel, StateKernel):
            return self._fits_of_state(instr, kernel)
        if SIZED_BY_VALUES in op.traits or (kernel.alone and self._device(instr) is HOST):
            return False
        if not _numeric((*op.inputs, *op.outputs)):
            return False
        if kernel.passes and not values.references.isdisjoint(instr.outputs):
            return False
        count = len(instr.inputs)
        return self._are_known(
            [value for at, value in enumerate(instr.inputs) if kernel.on_host(at, count)]
        )

    def _are_known(self, given: Iterable[int]) -> bool:
        """Whether values are known when the program is made."""
        return all(self._is_known(value) or self._is_told(value) for value in given)

    def _follows_from_shapes(self, instr: Instr) -> bool:
        """Whether it is computed when the program is made."""
        if not self._members or instr.after != self._members[0].after or instr.what == AHEAD:
            return False
        if asks_for_shapes(instr):
            if self._where is HOST:
                return not self._made.isdisjoint(instr.inputs)
            return self._made.issuperset(instr.inputs)
        if self._shapes.isdisjoint(instr.inputs):
            return False
        told = {value for value in instr.inputs if self._is_told(value)}
        return _only_counts(instr, self._shapes | told, self._values.constants)

    def _fits_of_state(self, instr: Instr, kernel: StateKernel) -> bool:
        device, variables = self._device(instr), instr.inputs[: kernel.variables]
        if any(self._variables.lives_on(value) is not device for value in variables):
            return False
        if len({*map(self._variables.of, variables)}) < kernel.variables:
            return False
        tensors = [each for each in (*instr.op.inputs, *instr.op.outputs) if not _is_handle(each)]
        if not _numeric(tensors) or not self._are_known([instr.inputs[at] for at in kernel.host]):
            return False
        if device is not HOST:
            return True
        return kernel.does != READ and all(map(self._is_small, variables))

    def _is_small(self, value: int) -> bool:
        """Whether a variable of the host's is so small that copying what it becomes costs little."""
        shape = self._values.tensor(self._variables.of(value)).op.attrs["shape"]._raw
        return shape is not None and None not in shape and math.prod(shape) <= _LARGEST_HERE

    def _is_beside(self, instr: Instr) -> bool:
        """Whether it runs when and where the others do."""
        return instr.after == self._members[0].after and self._device(instr) is self._where

    def _is_out_of_turn(self, instr: Instr) -> bool:
        """Whether the group has to end before it, since variables are read and changed in the order of the step."""
        if self._changes(instr) and (self._late_reads or None in self._reads):
            return True
        return bool(self._writes) and None in self._seen(instr)

    def _changed_by(self, instr: Instr) -> Iterator[int]:
        """The variables that a node changes which may be in a group."""
        kernel = kernel_of(instr.op)
        if isinstance(kernel, StateKernel) and kernel.does != READ:
            yield from map(self._variables.of, instr.inputs[: kernel.variables])

    def _changes(self, instr: Instr) -> bool:
        return any(True for _ in self._changed_by(instr))

    def _seen(self, instr: Instr) -> set[int | None]:
        """The variables that it looks at: all, if nobody knows which."""
        found = set(self._variables.seen_by(instr))
        return found | self._writes | {None} if None in found else found

    def _only_reads_others(self, instr: Instr, depends: bool) -> bool:
        """Whether an instruction that counts as acting may as well run before the group, or after it."""
        if instr.what != NODE or instr.waiter >= 0:
            return False
        if DRAWS in instr.op.traits:
            return True
        if depends or READS_VARIABLE not in instr.op.traits:
            return False
        return self._writes.isdisjoint(self._seen(instr))

    def _device(self, instr: Instr) -> Device:
        return self._step.request.placed.get(instr.op, HOST)


def _places_of(values: AbstractSet[int], instr: Instr) -> frozenset[int]:
    return frozenset([place for place, value in enumerate(instr.inputs) if value in values])


def _acts(instr: Instr) -> bool:
    return bool(instr.effects) or instr.waiter >= 0 or instr.what in (BRANCH, LOOP)


def _is_like_a_shape(tensor: Tensor) -> bool:
    return (
        tensor._dtype.name in ("int32", "int64")
        and tensor._raw is not None
        and len(tensor._raw) < 2
    )


def _is_handle(tensor: Tensor) -> bool:
    return tensor._dtype is dtypes.resource


def _numeric(tensors: Iterable[Tensor]) -> bool:
    return all(tensor._dtype._base.name in NUMBERS for tensor in tensors)
