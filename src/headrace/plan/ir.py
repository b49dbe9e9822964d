"""The step IR: what is to be done in a step on one task, between the graph and the program that runs.

A `Step` is a list of `Instr`, inputs before users.  Values are numbers: 0 is the step itself (what a kernel may ask of
the runtime), then come the arguments, then constants and results, each made once.  What is known of a value whatever
happens to the instructions is in `Values`: it goes from version to version.  `Facts` are of one version, computed once
and only if somebody asks.
Branches, loops and groups have nested steps (`Instr.body`), whose values are numbered as those around them.
Called by: plan.passes and all that it lists.  Threads: a step belongs to who compiles it.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field
from functools import cached_property
from itertools import accumulate
from operator import attrgetter
from typing import Any, Final

from headrace.base.traits import HANDLE, MAY_WAIT, STATEFUL, Trait
from headrace.graph.graph import Operation
from headrace.graph.tensor import Tensor
from headrace.plan.infos import Infos
from headrace.plan.prune import Pruned
from headrace.run.devices.device import Device
from headrace.run.exec.kernel import Memos

STEP: Final = 0
"""The value that is the step."""

WAITS: Final = 1
"""It may have to wait."""
WRITES: Final = 2
"""It may change a variable, or lets others do so meanwhile."""

NODE: Final = "node"
LOAD: Final = "load"
POLL: Final = "poll"
RELEASE: Final = "release"
BRANCH: Final = "branch"
LOOP: Final = "loop"
SHAPES: Final = "shapes"
FUSED: Final = "fused"
"""nodes that XLA compiles (`plan.fusion`)"""
COPY: Final = "copy"
"""from one device to another"""
AHEAD: Final = "ahead"
"""what a node takes of the runtime, which computes elsewhere or later (`plan.draws`)"""
SIZES: Final = "sizes"
"""numbers that follow from the shapes of its inputs, and are the host's (`plan.sizes`)"""
DECIDE: Final = "decide"
"""truths, Merges and what else branches need"""

NOTHING: frozenset[int] = frozenset()


@dataclass(slots=True, eq=False, repr=False)
class Instr:
    """outputs = kernel(*inputs).

    op: the node whose result it gives, or whose errors it raises; nodes: all that it stands for.  after: the waiters
    that it comes after, by number; waiter: its own number, if it is one.  controls: nodes that it was told to wait for.
    what: `NODE` or the name of its rule, or what else it is; `kernel` is known from the pass `kernels` on, but for what
    is no node.  body: nested steps; a group's is its nodes one by one.  over: an input whose memory takes the result.
    refers: which inputs, by place, a group wants as references.  detail: what its kind knows beside (`plan.nesting`,
    `plan.rules`).  told: which inputs, by place, are numbers of the host's that a program of XLA's is made for.
    """

    op: Operation
    nodes: Sequence[Operation]
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]
    effects: int = 0
    device: str = ""
    controls: Sequence[Operation] = ()
    after: frozenset[int] = NOTHING
    waiter: int = -1
    what: str = NODE
    kernel: Callable[..., Any] | None = None
    body: tuple[Step, ...] = ()
    over: int = -1
    refers: frozenset[int] = NOTHING
    detail: Any = None
    told: frozenset[int] = NOTHING

    def changed(self, **fields: Any) -> Instr:
        """A copy with other fields."""
        copy = Instr(*_all_of(self))
        for name, value in fields.items():
            setattr(copy, name, value)
        return copy


_all_of = attrgetter(*Instr.__slots__)


class Values:
    """What is known of each value; its number is its place.

    tensors: what it is in the graph.  constants: arrays, by number.  references: values that are variables themselves;
    aliases: arrays that may be a variable's own, or a view of it, so that an update shows in them.  number: of each
    tensor.
    """

    def __init__(self, args: Sequence[Tensor]) -> None:
        self.tensors: list[Tensor | None] = [None, *args]
        self.number: dict[Tensor, int] = {tensor: at for at, tensor in enumerate(args, 1)}
        self.num_args = len(args)
        self.constants: dict[int, Any] = {}
        self.references: set[int] = set()
        self.aliases: set[int] = set()

    def new(self, tensor: Tensor | None) -> int:
        """The number of one more."""
        self.tensors.append(tensor)
        return len(self.tensors) - 1

    def tensor(self, value: int) -> Tensor:
        """What it is in the graph."""
        found = self.tensors[value]
        assert found is not None, f"value {value} is no tensor"
        return found

    def is_fed(self, value: int) -> bool:
        """Whether it is an argument."""
        return 0 < value <= self.num_args

    @cached_property
    def changing(self) -> frozenset[int]:
        """Values that depend on when one looks.  Not before they are all known."""
        return frozenset(self.references | self.aliases)


@dataclass(eq=False, repr=False)
class Request:
    """What a step is wanted for, the same for all of its versions.

    devices: full device name of each node.  memos: what nodes remember between steps, by node name.  optimize: not for
    traced steps, which list every node.  functions: see `Infos`.  placed: where nodes compute that do not on the host.
    fuses: see `plan.fusion`; whole: see `plan.whole_loops`; joins: see `plan.joined_loops`; not of those loops and
    nodes that are in `without`.
    """

    pruned: Pruned
    args: Sequence[Tensor]
    returns: Sequence[Tensor]
    devices: Mapping[Operation, str]
    memos: Memos
    optimize: bool = True
    functions: Callable[[Operation, str], Any] = lambda op, device: None
    placed: Mapping[Operation, Device] = field(default_factory=dict)
    fuses: bool = False
    whole: bool = False
    joins: bool = False
    without: frozenset[Operation] = frozenset()

    @cached_property
    def infos(self) -> Infos:
        """Of its nodes."""
        return Infos(self.pruned, self.devices, self.memos, self.functions)


@dataclass(eq=False, repr=False)
class Step:
    """One version.  results: the values that leave it, as `request.returns`; of a nested step what is wanted of it.

    args: of a group's nested step, the values that stand there for the inputs of the group.  loaded: nodes that are
    constants, with their values.  registers: from the pass `registers` on, where each value stands; template: what is
    in them at first.
    """

    request: Request
    values: Values
    code: list[Instr]
    results: list[int]
    args: Sequence[int] = ()
    loaded: list[tuple[Operation, tuple[int, ...]]] = field(default_factory=list)
    nests: bool = False
    registers: dict[int, int] = field(default_factory=dict)
    template: Sequence[Any] = ()

    def with_code(self, code: list[Instr], results: list[int] | None = None) -> Step:
        """The next version."""
        return Step(
            self.request,
            self.values,
            code,
            self.results if results is None else results,
            self.args,
            self.loaded,
            self.nests,
        )

    def nested(self, code: list[Instr], results: Sequence[int], args: Sequence[int] = ()) -> Step:
        """A step inside."""
        return Step(self.request, self.values, code, list(results), args)

    @cached_property
    def everything(self) -> Sequence[Instr]:
        """All instructions, as `instrs` gives them; not asked of nested steps."""
        return instrs(self.code) if self.nests else self.code

    @cached_property
    def by_type(self) -> Mapping[str, Sequence[Instr]]:
        """Instructions by the type of their node, in order."""
        found = defaultdict[str, list[Instr]](list)
        for instr in self.code:
            found[instr.op.type].append(instr)
        return dict(found)

    @cached_property
    def types(self) -> Mapping[str, frozenset[Trait]]:
        """Types of all nodes, those in branches and loops too, with their traits."""
        found = {name: instrs[0].op.traits for name, instrs in self.by_type.items()}
        for instr in self.code:
            if instr.what in (BRANCH, LOOP):
                for body in instr.body:
                    found.update(body.types)
        return found

    @cached_property
    def facts(self) -> Facts:
        """Of this version."""
        return Facts(self)


class Facts:
    """Who makes and uses what in one version of a step: the one thing that rules search.

    results: as a set.  What takes a walk over all instructions is found when it is first asked for.
    """

    def __init__(self, step: Step) -> None:
        self.step = step
        self.values = step.values
        self.results = frozenset(step.results)

    @cached_property
    def place(self) -> Mapping[Instr, int]:
        """Of each instruction."""
        code = self.step.code
        return dict(zip(code, range(len(code)), strict=True))

    @cached_property
    def writers(self) -> Sequence[int]:
        """How many that write come before each, and before the end."""
        return [*accumulate([instr.effects != 0 for instr in self.step.code], initial=0)]

    @cached_property
    def awaited(self) -> AbstractSet[Operation]:
        """Nodes that others were told to wait for."""
        return {control for instr in self.step.code for control in instr.controls}

    @cached_property
    def _maker(self) -> Mapping[int, Instr]:
        return {value: instr for instr in self.step.code for value in instr.outputs}

    @cached_property
    def _users(self) -> Mapping[int, list[Instr]]:
        users = defaultdict[int, list[Instr]](list)
        for instr in self.step.code:
            for value in instr.inputs:
                users[value].append(instr)
        return users

    def maker(self, value: int) -> Instr | None:
        """The instruction that gives it; None for arguments and constants."""
        return self._maker.get(value)

    def uses(self, value: int) -> Sequence[Instr]:
        """The instructions that take it, each as often as it does."""
        return self._users.get(value, ())

    def users(self, value: int) -> list[Instr]:
        """The instructions that take it, each once."""
        return list(dict.fromkeys(self._users.get(value, ())))

    def is_for_one(self, value: int) -> bool:
        """Whether it is one input or one result, and nothing else."""
        count = len(self._users.get(value, ()))
        if value in self.results:
            count += self.step.results.count(value)
        return count == 1

    @cached_property
    def waits(self) -> Mapping[Instr, frozenset[int]]:
        """The waiters that each instruction comes after, by itself or because of what it takes."""
        if not any(instr.after or instr.waiter >= 0 for instr in self.step.code):
            return dict.fromkeys(self.step.code, NOTHING)
        of_value: dict[int, frozenset[int]] = {}
        found = {}
        for instr in self.step.code:
            after = instr.after.union(*[of_value.get(value, NOTHING) for value in instr.inputs])
            found[instr] = after
            made = after if instr.waiter < 0 else after | {instr.waiter}
            of_value.update(dict.fromkeys(instr.outputs, made))
        return found

    def may_run_at(self, instr: Instr, root: Instr) -> bool:
        """Whether what it reads is the same where `root`, which comes later, stands."""
        apart = self.writers[self.place[instr]] != self.writers[self.place[root]]
        return not apart or self.values.changing.isdisjoint(instr.inputs)


def effects_of(op: Operation) -> int:
    """What a node does beside giving results; one that only names a variable or queue does nothing."""
    spec = op.spec
    if spec is None:
        return WRITES
    if HANDLE in spec.traits and not op.inputs:
        return 0
    if MAY_WAIT in spec.traits:
        return WAITS | WRITES
    return WRITES if STATEFUL in spec.traits or spec.takes_ref else 0


def instrs(code: Iterable[Instr]) -> list[Instr]:
    """All of them, those of branches and loops after what they are in; not those of groups."""
    found = []
    for instr in code:
        found.append(instr)
        if instr.what in (BRANCH, LOOP):
            for step in instr.body:
                found += instrs(step.code)
    return found
