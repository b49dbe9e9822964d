"""Copies: where a value is made on one device and wanted on another.

Each value has a home.  That of what a node computes is the node's device; what a loop carries from one iteration to the
next has that of what the iteration makes of it, and what comes out of branches that of what one of them makes.  So a
recurrent network on a device stays there: what passes between device and host are values that somebody wants elsewhere.
A value's number stands for it in the host's memory; on a device it has another number.  A copy to the host is made
where the value is, once; one to a device before the first who wants it there, before the loop if that is in one.
Called by: plan.passes.  Threads: any.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from headrace.base import dtypes
from headrace.base.traits import DRAWS_BY_SHAPE, OF_SHAPE
from headrace.plan.devices import Placed, gives_here, kernel_of, value_on
from headrace.plan.ir import (
    AHEAD,
    BRANCH,
    COPY,
    FUSED,
    LOAD,
    LOOP,
    NODE,
    SIZES,
    Instr,
    Step,
    Values,
    instrs,
)
from headrace.plan.nesting import Loop, Select, closed
from headrace.plan.staged import KEEPS_ASIDE, kept
from headrace.run.devices.device import HOST, Device
from headrace.run.devices.memory import naming
from headrace.run.exec.instructions import dereference, pass_reference
from headrace.run.state.variable import Variable

Path = tuple[int, ...]
"""Of a list of instructions: what is made in one whose path this path begins with is there."""
Here = dict[tuple[int, Device], int]
"""Numbers of copies on devices, by the value and the device."""


def copy_between(step: Step) -> Step:
    """The pass: copies stand where a value is made on one device and wanted on another."""
    if not step.request.placed:
        return step
    homes = _Homes(step)
    return _Copying(step, homes).done(step, {})


class _Where:
    """Where instructions compute, and where they want their inputs."""

    def __init__(self, values: Values, placed: Placed) -> None:
        self.values = values
        self._placed = placed

    def device(self, instr: Instr) -> Device:
        """Where it computes."""
        passes = instr.kernel is pass_reference
        computes = instr.what == FUSED or (instr.what == NODE and not instr.body and not passes)
        return self._placed.get(instr.op, HOST) if computes else HOST

    def stays(self, instr: Instr, place: int) -> bool:
        """Whether what computes on a device wants an input in the host's memory."""
        if instr.what == FUSED:  # whose program is made for them, or they are variables
            value = instr.inputs[place]
            tensor = self.values.tensors[value]
            is_handle = tensor is not None and tensor._dtype is dtypes.resource
            known = value in self.values.constants or place in instr.told
            return known or place in instr.refers or is_handle
        if KEEPS_ASIDE & instr.op.traits:
            return not kept(instr.op, instr.op.inputs, self.device(instr))[place]
        kernel = kernel_of(instr.op)
        assert kernel is not None
        return kernel.on_host(place, len(instr.inputs))

    def wants(self, instr: Instr) -> Iterator[tuple[int, Device]]:
        """Its inputs, and where it wants each; not of what wants them wherever they are."""
        if asks_for_shapes(instr):
            return
        device = self.device(instr)
        for place, value in enumerate(instr.inputs):
            yield value, HOST if device is HOST or self.stays(instr, place) else device


def asks_for_shapes(instr: Instr) -> bool:
    """Whether it looks at nothing but the shapes of its inputs."""
    if instr.what == SIZES:
        return True
    if instr.what == AHEAD:
        return DRAWS_BY_SHAPE in instr.op.traits
    return instr.what == NODE and not instr.body and OF_SHAPE in instr.op.traits


class _Homes(_Where):
    """Where each value is made, of a step and all that is in it.

    home: of values that are not the host's.  wanted_here: those of them that the host wants, or another device.
    wanted_inside: of these the variables of loops that are wanted within their loop.
    """

    def __init__(self, step: Step) -> None:
        super().__init__(step.values, step.request.placed)
        self.home: dict[int, Device] = {}
        self.path_of: dict[int, Path] = {}  # of lists, by the id of their step
        self._paths: dict[int, Path] = {}  # where each value is made
        self._joints: dict[int, tuple[Sequence[int], Path]] = {}
        self._kept: list[int] = []  # variables of loops that stay what they are
        self._wanted_on: dict[int, set[Device]] = {}
        self._number = 0
        self._look(step, ())
        self._settle()
        self.wanted_inside: set[int] = set()
        self.wanted_here = {*step.results, *self._wanted(step)}

    def is_sure(self, value: int, path: Path) -> bool:
        """Whether it is there, wherever it is, for who is in a list with this path."""
        made = self._paths.get(value)
        return made is None or path[: len(made)] == made

    # -- where values are made ------------------------------------------------------------------------------------

    def _look(self, step: Step, path: Path) -> None:
        self.path_of[id(step)] = path
        for instr in step.code:
            if instr.what == BRANCH:
                self._look(instr.body[0], self._new(path))
            elif instr.what == LOOP:
                self._look_at_loop(instr, path)
            else:
                self._paths.update(dict.fromkeys(instr.outputs, path))
                for value, device in self.wants(instr):
                    self._wanted_on.setdefault(value, set()).add(device)
                device = self.device(instr)
                if device is not HOST:
                    for place, value in enumerate(instr.outputs):
                        if not gives_here(instr, place, device):
                            self.home[value] = device
                elif isinstance(instr.detail, Select):
                    self._joints[instr.outputs[0]] = instr.inputs[1:], path

    def _look_at_loop(self, instr: Instr, path: Path) -> None:
        detail: Loop = instr.detail
        head, body, tail = instr.body
        inside = self._new(path)
        self._look(head, inside)
        self._look(body, self._new(inside))
        self._look(tail, self._new(inside))
        for variable, start, following in zip(
            detail.variables, detail.starts, detail.nexts, strict=True
        ):
            self._paths[variable] = path
            stays = following == variable or following in self.values.constants
            self._joints[variable] = ((start if stays else following,), ())
            if following == variable:
                self._kept.append(variable)

    def _new(self, path: Path) -> Path:
        self._number += 1
        return (*path, self._number)

    def _settle(self) -> None:
        """What loops carry and what comes out of branches is where it is made."""
        self._follow()
        for variable in self._kept:  # it is put once
            devices = self._wanted_on.get(variable, ())
            if variable not in self.home and len(devices) == 1:
                (device,) = devices
                if device is not HOST and self._may_be(variable, device):
                    self.home[variable] = device
        self._follow()

    def _follow(self) -> None:
        going = True
        while going:
            going = False
            for joint, (sources, path) in self._joints.items():
                found = {self.home[source] for source in sources if source in self.home}
                if joint in self.home or len(found) != 1:
                    continue
                (device,) = found
                others = [source for source in sources if source not in self.home]
                if self._may_be(joint, device) and all(
                    self.is_sure(each, path) and self._may_be(each, device) for each in others
                ):
                    self.home[joint] = device
                    going = True

    def _may_be(self, value: int, device: Device) -> bool:
        tensor = self.values.tensors[value]
        if tensor is None or value in self.values.references:
            return False
        return not tensor._dtype._is_ref_dtype and device.keeps(tensor._dtype.name)

    # -- where they are wanted ------------------------------------------------------------------------------------

    def _wanted(self, step: Step) -> set[int]:
        """Values that are wanted elsewhere than at home, by what is in a list."""
        found: set[int] = set()
        for instr in step.code:
            if instr.what == LOOP:
                found |= self._wanted_by_loop(instr)
            elif instr.what == BRANCH:
                found.update(truth for truth, _ in instr.detail)
                found |= self._wanted(instr.body[0])
            elif isinstance(instr.detail, Select):
                (joint,) = instr.outputs
                found |= self._apart(instr.inputs[1:], self.home.get(joint, HOST))
            else:
                for value, device in self.wants(instr):
                    found |= self._apart((value,), device)
        return found

    def _wanted_by_loop(self, instr: Instr) -> set[int]:
        detail: Loop = instr.detail
        inside = {detail.pred}
        for part in instr.body:
            inside |= self._wanted(part)
        found = set()
        for variable, start, following in zip(
            detail.variables, detail.starts, detail.nexts, strict=True
        ):
            home = self.home.get(variable, HOST)
            inside |= self._apart((following,), home)
            found |= self._apart((start,), home)
        self.wanted_inside |= inside.intersection(detail.variables)
        return found | inside

    def _apart(self, values: Sequence[int], device: Device) -> set[int]:
        return {value for value in values if self.home.get(value, HOST) is not device}


class _Copying:
    """there: numbers of what is made on devices; a list's own copies there are in `here`."""

    def __init__(self, step: Step, homes: _Homes) -> None:
        self._values, self._homes = step.values, homes
        self._constants: Here = {}
        self._there: Here = {}

    def done(self, step: Step, here: Here) -> Step:
        """The list with copies.  here: what has been copied before; what is copied in it comes to that."""
        loads = self._loads_elsewhere(step)
        path = self._homes.path_of[id(step)]
        code: list[Instr] = []
        for instr in step.code:
            if instr in loads:
                code.append(self._load(instr, loads[instr], here))
            elif instr.what == LOAD and all(map(asks_for_shapes, self._users(instr, step))):
                code.append(instr.changed(kernel=_held))
            elif instr.what == LOOP:
                self._loop(instr, path, here, code)
            elif instr.what == BRANCH:
                body = self.done(instr.body[0], dict(here))
                code.append(closed(instr.changed(body=(body,))))
            elif isinstance(instr.detail, Select) and instr.outputs[0] in self._homes.home:
                self._select(instr, here, code)
            elif asks_for_shapes(instr):
                code.append(instr.changed(inputs=tuple(map(self._wherever, instr.inputs))))
            elif (device := self._homes.device(instr)) is not HOST:
                self._moved(instr, device, here, code)
            else:
                code.append(instr)
        return step.with_code(code)

    # -- nodes ----------------------------------------------------------------------------------------------------

    def _loads_elsewhere(self, step: Step) -> dict[Instr, Device]:
        """What reads a variable for a node that computes elsewhere: it is read there."""
        found: dict[Instr, Device] = {}
        for instr in step.code:
            if instr.what != LOAD or instr.kernel is not dereference:
                continue
            (value,) = instr.outputs
            for user in step.facts.users(value):
                for wanted, device in self._homes.wants(user):
                    if wanted == value and device is not HOST:
                        found[instr] = device
        return found

    def _load(self, instr: Instr, device: Device, here: Here) -> Instr:
        (value,) = instr.outputs
        there = here[value, device] = self._values.new(None)
        return instr.changed(
            outputs=(there,),
            kernel=naming(
                f"the value for {instr.op.type} {instr.op.name!r} was to be put",
                device,
                functools.partial(value_on, device),
            ),
            detail=device,
        )

    def _users(self, load: Instr, step: Step) -> Sequence[Instr]:
        """Who takes what is loaded, if that is a variable's value as it is."""
        return step.facts.users(load.outputs[0]) if load.kernel is dereference else (load,)

    def _wherever(self, value: int) -> int:
        """The value where it is, for who wants its shape."""
        home = self._homes.home.get(value)
        return value if home is None else self._there[value, home]

    def _where(self, value: int, here: Here) -> int:
        """The value, or what it is on a device, if it is there anyway."""
        if value in self._homes.home:
            return self._wherever(value)
        return next((there for (each, _), there in here.items() if each == value), value)

    def _moved(self, instr: Instr, device: Device, here: Here, code: list[Instr]) -> None:
        """The instruction with arrays of its device, and copies of what others want of it."""
        inputs = [
            value if at is HOST else self._on(value, device, instr, here, code)
            for value, at in self._homes.wants(instr)
        ]
        outputs: list[int] = []
        copies: list[Instr] = []
        for place, value in enumerate(instr.outputs):
            if gives_here(instr, place, device):
                outputs.append(value)
                continue
            there = self._new_there(value, device)
            outputs.append(there)
            if value in self._homes.wanted_here:
                copies.append(_copy(instr, there, value, device.get))
        code.append(instr.changed(inputs=tuple(inputs), outputs=tuple(outputs)))
        code += copies

    def _new_there(self, value: int, device: Device) -> int:
        there = self._there[value, device] = self._values.new(self._values.tensors[value])
        return there

    def _on(self, value: int, device: Device, instr: Instr, here: Here, code: list[Instr]) -> int:
        """The value on the device, where `instr` wants it."""
        values, key = self._values, (value, device)
        known = self._there.get(key) or here.get(key) or self._constants.get(key)
        if known is not None:
            return known
        there = values.new(values.tensors[value])
        if value in values.constants:
            values.constants[there] = device.put(values.constants[value])
            self._constants[key] = there
            return there
        if value not in values.changing:
            here[key] = there
        what = f"the value for {instr.op.type} {instr.op.name!r} was to be put"
        code.append(_copy(instr, value, there, naming(what, device, device.put), device))
        return there

    # -- branches and loops ---------------------------------------------------------------------------------------

    def _select(self, instr: Instr, here: Here, code: list[Instr]) -> None:
        """A Merge whose value is on a device."""
        (joint,) = instr.outputs
        device = self._homes.home[joint]
        ways = [self._on(value, device, instr, here, code) for value in instr.inputs[1:]]
        there = self._new_there(joint, device)
        code.append(instr.changed(inputs=(instr.inputs[0], *ways), outputs=(there,)))
        if joint in self._homes.wanted_here:
            code.append(_copy(instr, there, joint, device.get))

    def _loop(self, instr: Instr, path: Path, here: Here, code: list[Instr]) -> None:
        detail: Loop = instr.detail
        homes, values = self._homes.home, self._values
        for value, device in self._wanted_inside(instr):
            if (
                value not in homes
                and value not in values.changing
                and value not in detail.variables
                and self._homes.is_sure(value, path)
            ):
                self._on(value, device, instr, here, code)
        variables, starts = list(detail.variables), list(detail.starts)
        copied, after = list[Instr](), list[Instr]()
        for at, variable in enumerate(detail.variables):
            home = homes.get(variable)
            if home is None:
                continue
            starts[at] = self._on(starts[at], home, instr, here, code)
            variables[at] = there = self._new_there(variable, home)
            if variable in self._homes.wanted_here:
                inside = variable in self._homes.wanted_inside
                (copied if inside else after).append(_copy(instr, there, variable, home.get))
        inside_here = dict(here)
        head = self.done(instr.body[0], inside_here)
        body_here = dict(inside_here)
        body = self.done(instr.body[1], body_here)
        ends = list(body.code)
        nexts = [
            value if home is None else self._on(value, home, instr, body_here, ends)
            for value, home in zip(detail.nexts, map(homes.get, detail.variables), strict=True)
        ]
        tail = self.done(instr.body[2], dict(inside_here))
        bodies = head.with_code([*copied, *head.code]), body.with_code(ends), tail
        whole = detail.whole
        if whole is not None:
            whole = whole._replace(
                given=[self._where(value, here) for value in whole.given],
                rest=whole.rest or bool(copied),
                there=[variable in homes for variable in detail.variables],
            )
        changed = detail._replace(variables=variables, starts=starts, nexts=nexts, whole=whole)
        code.append(closed(instr.changed(body=bodies, detail=changed)))
        code += after

    def _wanted_inside(self, loop: Instr) -> Iterator[tuple[int, Device]]:
        """Values that are wanted on devices in a loop, and where."""
        for part in loop.body:
            for instr in instrs(part.code):
                if instr.what == LOOP:
                    inner: Loop = instr.detail
                    yield from self._for_joints(inner.variables, inner.starts)
                    yield from self._for_joints(inner.variables, inner.nexts)
                elif isinstance(instr.detail, Select):
                    yield from self._for_joints(instr.outputs * 2, instr.inputs[1:])
                elif instr.what != BRANCH:
                    for value, device in self._homes.wants(instr):
                        if device is not HOST:
                            yield value, device
        detail: Loop = loop.detail
        yield from self._for_joints(detail.variables, detail.nexts)

    def _for_joints(
        self, joints: Sequence[int], sources: Sequence[int]
    ) -> Iterator[tuple[int, Device]]:
        for joint, source in zip(joints, sources, strict=True):
            home = self._homes.home.get(joint)
            if home is not None:
                yield source, home


def _held(value: Any) -> Any:
    """What has the shape of what a Variable holds."""
    if isinstance(value, Variable):
        value.require_value()
        return value.held()
    return value


def _copy(
    instr: Instr, given: int, made: int, kernel: Callable[[Any], Any], to: Device | None = None
) -> Instr:
    """to: the device, if it is none to the host."""
    return Instr(
        instr.op,
        (),
        (given,),
        (made,),
        device=instr.device,
        after=instr.after,
        what=COPY,
        kernel=kernel,
        detail=to,
    )
