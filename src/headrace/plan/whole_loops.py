"""Whole loops: a loop of nodes that compute becomes one program of XLA's, with the branches and loops inside.

So does one that reads variables, draws random numbers, asserts, and keeps things in TensorArrays, on stacks or in lists
of tensors; and one that updates variables of the host's, which it carries along and which have what they have become
when it is over.  What is wanted in the host's memory (shapes, axes) has to follow from shapes and from what is outside
the loop: that is a constant of the program.  The loop stays in the step as it is, for when the program is not ready or
does not hold (`run.exec.whole_loops`); whether that pays is measured, as it is of other groups (`run.exec.tuning`).

What is no program says why (`nesting.Loop.apart`, which `plan.explain` shows): what waits, calls Python or is of text;
sizes that depend on values; draws whose numbers decide how many more there are (truncated normal, Poisson, gamma), and
shuffles; TensorArrays, stacks and optionals that are made inside, since each iteration has others; updates of variables
on devices other than the host, or of which nobody knows which they are.  A loop ends the group before it, and begins
another after it: to be inside of one would save two calls of programs in a step, some tens of microseconds.
Called by: plan.passes, plan.compile, plan.emit.  Threads: any.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, NamedTuple

from headrace.base import dtypes
from headrace.base.traits import ASSERTS, IDENTITY, MAY_WAIT, OF_SHAPE, TAKES_BLOCKS
from headrace.graph.graph import Operation
from headrace.ops._kernels.random_streams import Stream, Streams
from headrace.ops._portable.loop_state import (
    COUNTS,
    GRADIENT,
    GROWING,
    LISTS,
    MAKES,
    ONLY_READ,
    POPS,
    POPS_OF_LIST,
    STORES,
    TELLS,
)
from headrace.ops._portable.table import READ, ArrayKernel, StateKernel
from headrace.ops.random.draws import stream_of
from headrace.plan.devices import array_kernel, kernel_of
from headrace.plan.infos import Infos
from headrace.plan.ir import AHEAD, BRANCH, DECIDE, LOOP, NODE, SIZES, Instr, Step, instrs
from headrace.plan.loop_tracing import Slot, Traced, changing, program
from headrace.plan.nesting import Loop, Select, closed
from headrace.plan.variables import Variables
from headrace.run.devices.device import HOST, NUMBERS, Device
from headrace.run.exec import branches
from headrace.run.exec.whole_loops import LoopProgram, Taken

_RESIZES = "resize_if_index_out_of_bounds"


class Whole(NamedTuple):
    """What a loop has that is one program (`nesting.Loop.whole`).

    given: what it takes beside the starts of its variables.  rest: see `run.exec.whole_loops.kernel`.  there: which
    variables are on the device.
    """

    program: LoopProgram
    given: Sequence[int]
    rest: bool
    there: Sequence[bool]


class Refused(Exception):
    """The loop is none, for a reason."""


def compile_loops(step: Step) -> Step:
    """The pass: loops that are one program have one, the outermost that can be."""
    return _within(step, Variables(step))


def programs(step: Step) -> dict[Operation, LoopProgram]:
    """Those of a step, by the node that stands for their loop."""
    return {
        each.op: each.detail.whole.program
        for each in instrs(step.code)
        if each.what == LOOP and each.detail.whole is not None
    }


def _within(step: Step, variables: Variables) -> Step:
    code = []
    for instr in step.code:
        if instr.what == LOOP and instr.op not in step.request.without:
            try:
                instr = Deciding(instr, step, variables).done()
            except Refused as why:
                detail = instr.detail._replace(apart=str(why))
                instr = _inside(instr.changed(detail=detail), variables)
        elif instr.what == LOOP:
            detail = instr.detail._replace(apart="XLA has not compiled it")
            instr = _inside(instr.changed(detail=detail), variables)
        elif instr.what == BRANCH:
            instr = _inside(instr, variables)
        code.append(instr)
    return step.with_code(code)


def _inside(instr: Instr, variables: Variables) -> Instr:
    return closed(instr.changed(body=tuple([_within(each, variables) for each in instr.body])))


def _refusing(instr: Instr, why: str) -> Refused:
    return Refused(f"{instr.op.type} {instr.op.name} {why}")


class Deciding:
    """reads, makes: values of the loop.  known: values that are to be known when the program is made.

    updated: variables that it changes, as `Variables.of` has them, with one of the nodes.
    """

    def __init__(self, loop: Instr, step: Step, variables: Variables) -> None:
        self._loop, self._step, self._values = loop, step, step.values
        self._detail: Loop = loop.detail
        self._variables = variables
        self._makers: dict[int, Instr] = {}
        self._starts: dict[int, int] = {}  # of variables that stay what they are
        self._changing: set[int] = set()
        self._handles: dict[int, Slot] = {}
        self._filled: set[Slot] = set()
        self._reads: dict[int, None] = {}
        self._known: dict[int, None] = {}
        self._alike: set[int] = set()  # stacks whose elements are to be known
        self._told: dict[int, int] = {}  # of what is popped from lists and to be known, the list
        self._same: dict[int, int] = {}  # of lists
        self._growing: set[int] = set()
        self._draws: dict[Operation, None] = {}
        self._updated: dict[int, Instr] = {}
        self._numbers: dict[int, int] = {}  # of what stands for them
        self._standing: set[int] = set()  # values that stand for variables
        self._device: Device = HOST
        self._computes = False

    def done(self) -> Instr:
        """The loop with its program.  Raises Refused."""
        loop, detail = self._loop, self._detail
        more, outside = self._has_more(), self._looked_at()
        traced = self._traced(outside)
        taken = self._taken(outside, [more or self._is_wanted(each) for each in detail.variables])
        whole = Whole(
            LoopProgram(partial(program, traced), taken, self._device),
            outside,
            more,
            [False] * len(detail.variables),
        )
        return closed(loop.changed(detail=detail._replace(whole=whole)))

    def _looked_at(self) -> list[int]:
        """What it takes from outside, once each instruction has been looked at.  Raises Refused."""
        self._collect(self._loop)
        for instr in instrs([self._loop]):
            self._look(instr)
        if not self._computes:
            raise Refused("nothing in it computes")
        self._numbers = self._states()
        return [value for value in self._read_outside() if value not in self._values.constants]

    def _split(self, outside: Sequence[int]) -> tuple[list[int], list[int], list[Slot]]:
        """What is given as arrays, what is known when the program is made, and the stores.  Raises Refused."""
        slots = list(dict.fromkeys(self._handles.values()))
        known = [value for value in outside if value in self._known]
        apart = {*[root for root, _ in slots], *self._known, *self._numbers}
        rest = [value for value in outside if value not in apart]
        self._check_given(rest)
        return rest, known, slots

    def _traced(self, outside: Sequence[int]) -> Traced:
        rest, known, slots = self._split(outside)
        told = self._told_places()[1]
        return Traced(
            _copied(self._loop),
            rest,
            known,
            self._handles,
            slots,
            self._filled,
            told,
            {**self._values.constants},
            [*self._draws],
            self._numbers,
        )

    def _taken(self, outside: Sequence[int], wanted: Sequence[bool]) -> Taken:
        detail = self._detail
        rest, known, slots = self._split(outside)
        values = [*detail.starts, *outside]
        place = {value: at for at, value in enumerate(outside, len(detail.starts))}
        return Taken(
            changing(detail),
            [place[value] for value in rest],
            [place[value] for value in known],
            [(place[root], sources) for root, sources in slots],
            self._growing_places(),
            frozenset([at for at, slot in enumerate(slots) if slot not in self._filled]),
            frozenset([slots.index(self._handles[value]) for value in self._alike]),
            self._told_places()[0],
            wanted,
            [self._dtype(value) for value in values],
            Streams([_stream(op, self._step.request.infos) for op in self._draws]),
            [place[root] for root in self._updated],
        )

    def _collect(self, loop: Instr) -> None:
        for instr in instrs([loop]):
            if instr.what == LOOP:
                inner: Loop = instr.detail
                for variable, start, following in zip(
                    inner.variables, inner.starts, inner.nexts, strict=True
                ):
                    if following == variable:
                        self._starts[variable] = start
                    else:
                        self._changing.add(variable)
                    if self._is_list(variable):
                        self._join(variable, start, following)
            elif instr.what != BRANCH:
                for value in instr.outputs:
                    self._makers[value] = instr

    def _read_outside(self) -> list[int]:
        """Values that the loop takes beside its variables' starts, or of variables that stay what they are."""
        found = dict.fromkeys(self._reads)
        own = {*self._makers, *self._changing, *self._starts}
        resolved = dict.fromkeys(self._outer(value) for value in found)
        return [value for value in resolved if value not in own]

    def _outer(self, value: int) -> int:
        while value in self._starts:
            value = self._starts[value]
        return value

    def _has_more(self) -> bool:
        """Whether others want what the head or the tail gives, or the head, once more, does more than compute."""
        head, _, tail = self._loop.body
        made = {value for each in head.code for value in each.outputs}
        acts = any(each.effects or each.what == AHEAD for each in instrs(head.code))
        return bool(tail.code) or acts or any(map(self._is_wanted, made))

    def _is_wanted(self, value: int) -> bool:
        """Whether anything but the loop wants a value."""
        facts = self._step.facts
        return value in facts.results or any(each is not self._loop for each in facts.uses(value))

    def _growing_places(self) -> frozenset[int]:
        """Which variables are lists that change their length."""
        growing = set(map(self._root, self._growing))
        variables = enumerate(self._detail.variables)
        return frozenset([at for at, each in variables if self._root(each) in growing])

    def _told_places(self) -> tuple[list[int], dict[int, int]]:
        """Places of variables that are lists whose elements are to be known; of each such element, which of these."""
        roots = {self._root(each): at for at, each in enumerate(self._detail.variables)}
        found: dict[int, int] = {}
        numbers = {}
        for value, items in self._told.items():
            place = roots.get(self._root(items))
            if place is None:
                raise _refusing(self._makers[value], "gives a size of a list from outside")
            numbers[value] = found.setdefault(place, len(found))
        return list(found), numbers

    # -- each instruction -----------------------------------------------------------------------------------------

    def _look(self, instr: Instr) -> None:
        if instr.what == LOOP:
            inner: Loop = instr.detail
            self._read(*inner.nexts, inner.pred)
            self._refuse_references(instr, inner.nexts)
            if instr is not self._loop:
                self._read(*inner.starts)
        elif instr.what == BRANCH:
            self._read_truths(*[value for value, _ in instr.detail])
        elif instr.what == DECIDE:
            if isinstance(instr.detail, Select):
                self._read_truths(instr.inputs[0])
                self._read(*instr.inputs[1:])
                self._refuse_references(instr, instr.inputs)
                return
            self._read(*instr.inputs)
            if instr.kernel is not branches.truth:
                raise _refusing(instr, "is asked which branch was taken")
        elif instr.what == AHEAD:
            self._look_at_draw(instr)
        elif instr.what == SIZES:
            self._read(*instr.inputs)
        elif instr.what != NODE or instr.body or instr.kernel is not None:
            raise _refusing(instr, "is one with others")
        elif instr.waiter >= 0:
            raise _refusing(instr, "may wait")
        else:
            self._look_at_node(instr)

    def _read(self, *values: int) -> None:
        self._reads.update(dict.fromkeys(values))

    def _refuse_references(self, instr: Instr, values: Sequence[int]) -> None:
        """What is kept is a value, not a variable."""
        if not self._values.references.isdisjoint(values):
            raise _refusing(instr, "keeps a reference")

    def _read_truths(self, *values: int) -> None:
        """What is decided outside is known."""
        self._read(*values)
        outside = [value for value in values if value not in self._makers]
        self._known.update(dict.fromkeys(outside))

    def _look_at_node(self, instr: Instr) -> None:
        op, spec = instr.op, instr.op.spec
        if spec is None or spec.kernel is None or MAY_WAIT in op.traits:
            raise _refusing(instr, "may wait")
        if instr.detail is not None:
            raise _refusing(instr, "is the host's")
        if not instr.outputs and not instr.effects:
            return
        if ASSERTS in op.traits:
            self._read(instr.inputs[0])
            return
        self._place(instr)
        if op.type in STORES or op.type == GRADIENT:
            self._look_at_store(instr)
            return
        self._read(*instr.inputs)
        if IDENTITY in op.traits:
            self._standing.update(self._values.references.intersection(instr.outputs))
            return
        if self._is_of_list(instr):
            self._look_at_list(instr)
        else:
            self._look_at_kernel(instr, kernel_of(op))

    def _look_at_kernel(self, instr: Instr, kernel: ArrayKernel | StateKernel | None) -> None:
        op, spec = instr.op, instr.op.spec
        assert spec is not None
        if not _numeric(op):
            raise _refusing(instr, "is not of numbers alone")
        if isinstance(kernel, StateKernel):
            self._look_at_state(instr, kernel)
            return
        if OF_SHAPE in op.traits:
            return
        if kernel is None and op.type in COUNTS:
            self._computes = True
            return
        if kernel is None:
            if any(each._dtype is dtypes.resource for each in op.outputs):
                raise _refusing(instr, "is made in the loop")
            if not spec.foldable or spec.takes_ctx or instr.effects:
                raise _refusing(instr, "has no kernel for arrays of XLA")
            self._demand(*instr.inputs)
            return
        if spec.ahead_fn is not None and len(instr.inputs) == len(op.inputs):
            self._look_at_draw(instr)
        self._demand_on_host(instr, kernel, len(instr.inputs))
        if not self._values.references.isdisjoint(instr.outputs):
            raise _refusing(instr, "gives a reference")
        self._computes = True

    def _demand_on_host(self, instr: Instr, kernel: ArrayKernel, count: int) -> None:
        here = [each for at, each in enumerate(instr.inputs) if kernel.on_host(at, count)]
        self._demand(*here)

    def _place(self, instr: Instr) -> None:
        device = self._step.request.placed.get(instr.op, HOST)
        if device is HOST:
            return
        if not device.compiles or self._device not in (HOST, device):
            raise _refusing(instr, "is on another device")
        self._device = device

    def _demand(self, *values: int) -> None:
        """Have them known when the program is made."""
        for value in values:
            value = self._outer(value)
            maker = self._makers.get(value)
            if value in self._values.constants:
                continue
            if value in self._changing:
                name = self._values.tensor(value).name
                raise Refused(f"a size or an axis is made of what {name} holds")
            if maker is None:
                self._known[value] = None
            elif maker.what == SIZES:
                continue
            elif maker.what != NODE:
                raise _refusing(maker, "gives a size or an axis")
            elif maker.op.type == POPS:
                self._alike.add(maker.inputs[0])
            elif maker.op.type == POPS_OF_LIST:
                self._told[value] = maker.inputs[0]
            elif OF_SHAPE not in maker.op.traits and maker.op.type not in TELLS:
                spec = maker.op.spec
                if spec is None or not spec.foldable or spec.takes_ctx or maker.effects:
                    raise _refusing(maker, "gives a size or an axis")
                self._demand(*maker.inputs)

    # -- what it draws, keeps and changes -------------------------------------------------------------------------

    def _look_at_draw(self, instr: Instr) -> None:
        """What a node takes of its stream."""
        op, kernel = instr.op, array_kernel(instr.op)
        if TAKES_BLOCKS not in op.traits or kernel is None:
            raise _refusing(instr, "draws what only the host can")
        self._read(*instr.inputs)
        self._demand_on_host(instr, kernel, len(op.inputs) + 1)
        self._draws[op] = None

    def _look_at_store(self, instr: Instr) -> None:
        handle, *others = instr.inputs
        self._read(handle, *others)
        slot = self._handles.get(handle)
        if slot is None:
            root = self._outer(handle)
            if root in self._makers or root in self._changing:
                raise _refusing(instr, "is of what is made in the loop")
            slot = root, ()
        if instr.op.type == GRADIENT:
            root, sources = slot
            self._handles[instr.outputs[0]] = root, (*sources, instr.op.attrs["source"])
            return
        self._handles[handle] = slot
        if instr.op.type not in ONLY_READ:
            self._filled.add(slot)
        self._computes = True

    def _look_at_state(self, instr: Instr, kernel: StateKernel) -> None:
        """A node that reads or changes variables."""
        variables = instr.inputs[: kernel.variables]
        self._standing.update(variables)
        if kernel.host:
            self._demand(*[instr.inputs[at] for at in kernel.host])
        self._computes = True
        if kernel.does == READ:
            return
        roots = dict.fromkeys(map(self._variable, variables))
        if len(roots) < len(variables):
            raise _refusing(instr, "updates a variable twice")
        for root in roots:
            self._updated.setdefault(root, instr)
        self._standing.update(instr.outputs)

    def _variable(self, value: int) -> int:
        """The variable that a value stands for, as `Variables.of` has it, whatever hands it on."""
        while True:
            found = self._variables.of(self._outer(value))
            if found == value:
                return value
            value = found

    def _states(self) -> dict[int, int]:
        """Of each value that stands for a variable which the loop updates, the number of that."""
        if not self._updated:
            return {}
        self._standing.update(self._values.references.intersection(self._reads))
        number = {root: at for at, root in enumerate(self._updated)}
        for root, instr in self._updated.items():
            if self._device is not HOST or self._variables.lives_on(root) is not HOST:
                raise _refusing(instr, "updates what is not the host's alone")
        found: dict[int, int] = {}
        for value in self._standing:
            root = self._variable(value)
            if self._variables.lives_on(root) is None:
                raise Refused(f"{self._values.tensor(value).name} is some variable")
            if root in number:
                found[value] = number[root]
        self._read(*number)
        return {**found, **number}

    # -- lists ----------------------------------------------------------------------------------------------------

    def _is_of_list(self, instr: Instr) -> bool:
        op = instr.op
        of_list = any(each._dtype is dtypes.variant for each in (*op.inputs, *op.outputs))
        if of_list and op.type not in LISTS:
            raise _refusing(instr, "is of a variant that is no list, or makes a list")
        return of_list

    def _look_at_list(self, instr: Instr) -> None:
        op = instr.op
        lists = [value for value in (*instr.inputs, *instr.outputs) if self._is_list(value)]
        self._join(*lists)
        if op.type in GROWING or op.attrs.get(_RESIZES, False):
            self._growing.update(lists)
        if op.type == MAKES:
            self._demand(*instr.inputs)
        self._computes = True

    def _is_list(self, value: int) -> bool:
        tensor = self._values.tensors[value]
        return tensor is not None and tensor._dtype is dtypes.variant

    def _join(self, first: int, *others: int) -> None:
        for value in others:
            self._same[self._root(value)] = self._root(first)

    def _root(self, value: int) -> int:
        while self._same.get(value, value) != value:
            value = self._same[value]
        return value

    # -- what is given --------------------------------------------------------------------------------------------

    def _check_given(self, values: Sequence[int]) -> None:
        for value in (*values, *self._detail.starts):
            tensor = self._values.tensors[value]
            if value in self._values.constants:
                continue
            if tensor is None or tensor._dtype._base.name not in NUMBERS | {"resource", "variant"}:
                name = "what a node takes" if tensor is None else tensor.name
                raise Refused(f"{name}, which it is given, is not of numbers")

    def _dtype(self, value: int) -> Any:
        tensor = self._values.tensors[value]
        if tensor is None or tensor._dtype._base.name not in NUMBERS:
            known = self._values.constants.get(value)
            return None if known is None else known.dtype
        return tensor._dtype._base.np


def _numeric(op: Operation) -> bool:
    return all(
        each._dtype._base.name in NUMBERS or each._dtype is dtypes.resource
        for each in (*op.inputs, *op.outputs)
    )


def _copied(instr: Instr) -> Instr:
    """An instruction that later passes do not change, with those inside."""
    bodies = [body.with_code([_copied(each) for each in body.code]) for body in instr.body]
    return instr.changed(body=tuple(bodies))


def _stream(op: Operation, infos: Infos) -> Callable[[], Stream]:
    """What finds the stream of a node."""
    node: Any = infos(op)  # which remembers it
    return partial(stream_of, node, op.attrs["seed"], op.attrs["seed2"])
