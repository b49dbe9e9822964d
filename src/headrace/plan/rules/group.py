"""Groups: several nodes that run as one instruction, mostly where their last one stands; how rules find and make them.

A rule says which nodes a group may begin with, which belong to it, and how it runs at once.  The search, what comes in
and goes out, and how the nodes run one by one where they cannot run at once, are the same for all.
Called by: plan.passes, plan.memoization, the rules.  Threads: any.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Container, Iterable, Sequence
from collections.abc import Set as AbstractSet
from typing import Any, NamedTuple

from headrace.base.traits import Trait
from headrace.graph.registry import traits_of
from headrace.plan import check
from headrace.plan.binding import bound_kernel, wants_reference
from headrace.plan.devices import kernel_apart_from
from headrace.plan.infos import Infos
from headrace.plan.ir import BRANCH, FUSED, LOOP, NODE, NOTHING, SIZES, Facts, Instr, Step, Values
from headrace.plan.nesting import closed
from headrace.run.devices.device import HOST
from headrace.run.exec.instructions import CALL, MANY, Instruction, Kernel, dereference, in_context
from headrace.run.exec.kernel import NodeInfo
from headrace.run.exec.straight import FEWEST_INSIDE, Code

Plain = Callable[[Any, Sequence[Any]], Sequence[Any]]
"""(the step, values of a group's inputs) -> its outputs, made by its nodes one by one; raises what names its node."""
AtOnce = Callable[[Sequence[Any]], "Sequence[Any] | None"]
"""Values of a group's inputs -> its outputs, or None where the nodes have to run one by one."""


class Match(NamedTuple):
    """Nodes that are to run as one; the last one in order gives the first output.

    kept: what else others want.  build: (group) -> a kernel of (the step, values of the inputs).  place: the member
    where they run, if it is not the last one: all that comes in is there, and nobody wants what they give before.
    """

    members: Collection[Instr]
    build: Callable[[Group], Kernel]
    kept: Sequence[int] = ()
    place: Instr | None = None


class Having(Container[str]):
    """The types of ops that have a trait."""

    def __init__(self, trait: Trait) -> None:
        self.trait = trait

    def __contains__(self, name: object) -> bool:
        return self.trait in traits_of(str(name))


class Rule(NamedTuple):
    """A row of the table (`plan.rules`).

    begins: the op types of nodes from which a group may be found.  match: the group that it belongs to, of nodes that
    are in none of another (the last argument).  always: also in steps that list every node.
    """

    name: str
    begins: Container[str]
    match: Callable[[Instr, Facts, AbstractSet[Instr]], Match | None]
    always: bool = False


class Group:
    """What a rule's `build` has: the group's instruction, its nodes one by one, and where their values stand.

    places: of each value, by number: the inputs of the group come first, then what the nodes give, in order.  device:
    where they compute.  shapes: values that are the host's wherever that is.
    """

    shapes: AbstractSet[int] = NOTHING

    def __init__(self, instr: Instr, step: Step, infos: Infos) -> None:
        (body,) = instr.body
        self.instr = instr
        self.values = step.values
        self.members = body.code
        self.root = body.code[-1].op
        self.inputs = body.args
        self.outputs = body.results
        self.places = {value: place for place, value in enumerate(body.args)}
        for member in body.code:
            for value in member.outputs:
                self.places[value] = len(self.places)
        self.device = step.request.placed.get(self.root, HOST)
        self._infos = infos

    def inputs_of(self, member: Instr) -> list[int]:
        """Places of what a node takes."""
        return [self.places[value] for value in member.inputs]

    def info(self, member: Instr) -> NodeInfo:
        """The node, as errors name it."""
        return self._infos(member.op)

    def plain(self) -> Plain:
        """How the nodes run one by one."""
        register = {value: place + 1 for value, place in self.places.items()}
        code = Code([self._instruction(member, register) for member in self.members], FEWEST_INSIDE)
        room = [None] * (len(register) - len(self.inputs))
        wanted = [register[value] for value in self.outputs]

        def run(step: Any, values: Sequence[Any]) -> Sequence[Any]:
            registers = [step, *values, *room]
            code.run(registers)
            return [registers[at] for at in wanted]

        return run

    def _instruction(self, member: Instr, register: dict[int, int]) -> Instruction:
        kernel = None
        if self.device is not HOST and self.shapes.isdisjoint(member.outputs):
            told = {self.inputs[place] for place in self.instr.told}
            kernel = kernel_apart_from(member, self.device, self.values, self.shapes | told)
        made = _instruction(member, register, self._infos(member.op), kernel)
        if self.device is HOST and self.instr.what == FUSED:
            made.kernel = _dereferencing(made.kernel, member, self.values)
        return made

    def kernel(self, at_once: AtOnce, refuses: bool = False) -> Kernel:
        """A kernel that runs all at once where that goes, else one by one.  Both give all outputs, or the only one.

        refuses: what fails at once is left to the nodes one by one, since a kernel that refuses says so of whole
        arrays; nothing may have been changed by then.
        """
        plain, single = self.plain(), len(self.outputs) == 1
        if refuses:
            at_once = _careful(at_once, self.root.name)
        confirm = None
        if check.enabled:
            tensors = [self.values.tensor(value) for value in self.outputs]
            confirm = lambda found: [*map(check.check_value, tensors, found)]  # noqa: E731

        def run(step: Any, *values: Any) -> Any:
            found = at_once(values)
            if found is None:
                found = plain(step, values)
            elif confirm is not None:
                confirm(found)
            return found[0] if single else found

        return run


def _careful(at_once: AtOnce, name: str) -> AtOnce:
    """`at_once` that gives None where it fails.  Mistakes in its code are found by whoever checks."""

    def run(values: Sequence[Any]) -> Sequence[Any] | None:
        try:
            return at_once(values)
        except (LookupError, TypeError, AttributeError) as error:
            if check.enabled:
                raise AssertionError(f"{name!r} cannot run at once: {error!r}") from error
        except Exception:
            pass
        return None

    return run


def _instruction(
    member: Instr, register: dict[int, int], node: NodeInfo, kernel: Kernel | None
) -> Instruction:
    op = member.op
    assert op.spec is not None
    single = op.spec.single_output
    if member.what == SIZES:
        assert member.kernel is not None
        places = [register[value] for value in member.inputs]
        return Instruction(member.kernel, tuple(places), (register[member.outputs[0]],), node, CALL)
    elsewhere = kernel is not None
    kernel = kernel or bound_kernel(op, op.spec)
    inputs = tuple([register[value] for value in member.inputs])
    if check.enabled and not elsewhere:
        kernel = check.checked_kernel(kernel, op, single)
    if op.spec.takes_ctx and not elsewhere:
        kernel, inputs = in_context(kernel, node, len(inputs)), (0, *inputs)
    outputs = tuple([register[value] for value in member.outputs])
    return Instruction(kernel, inputs, outputs, node, CALL if single else MANY)


def _dereferencing(kernel: Kernel, member: Instr, values: Values) -> Kernel:
    """`kernel`, which gets what variables hold where it does not ask for references."""
    if values.references.isdisjoint(member.inputs):
        return kernel
    assert member.op.spec is not None
    wanted = wants_reference(member.op, member.op.spec)

    def run(*inputs: Any) -> Any:
        return kernel(
            *[
                value if refers else dereference(value)
                for value, refers in zip(inputs, wanted, strict=True)
            ]
        )

    return run


# -- finding them -----------------------------------------------------------------------------------------------------


def apply(rule: Rule, step: Step) -> Step:
    """The step with the groups that a rule finds, in each branch and loop for itself."""
    return _apply(rule, _within(rule, step) if step.nests else step)


def _within(rule: Rule, step: Step) -> Step:
    """The step with the groups that a rule finds in its branches and loops."""
    code = []
    for instr in step.code:
        if instr.what in (BRANCH, LOOP):
            bodies = tuple([_apply(rule, _within(rule, body)) for body in instr.body])
            if any(new is not old for new, old in zip(bodies, instr.body, strict=True)):
                instr = closed(instr.changed(body=bodies))
        code.append(instr)
    changed = any(new is not old for new, old in zip(code, step.code, strict=True))
    return step.with_code(code) if changed else step


def _apply(rule: Rule, step: Step) -> Step:
    """The step with the groups that a rule finds in its own code, from the last node on."""
    if not any(name in rule.begins for name in step.types):
        return step
    begins = [
        instr
        for instr in step.code
        if instr.op.type in rule.begins
        and instr.what == NODE
        and instr.kernel is None
        and instr.detail is None
        and not instr.body
    ]
    facts = step.facts
    taken: set[Instr] = set()
    found = []
    for instr in reversed(begins):
        if instr not in taken and (match := rule.match(instr, facts, taken)) is not None:
            taken.update(match.members)
            found.append(joined(rule.name, match, step))
    return replaced(step, found, taken) if found else step


def joined(name: str, match: Match, step: Step, by_reference: AbstractSet[int] = NOTHING) -> Instr:
    """The instruction of a group.  by_reference: references that it takes as such, whoever wants them in it."""
    place, references = step.facts.place, step.values.references
    members = list(match.members)
    if name != FUSED:  # whose members stand in order, and some of them for others
        members.sort(key=place.__getitem__)
    root = members[-1]
    stands = root if match.place is None else match.place
    made = {value for member in members for value in member.outputs}
    args: dict[tuple[int, bool], int] = {}  # (value, as a reference) -> what it is inside
    taken: set[int] = set()
    code = []
    for member in members:
        spec = member.op.spec
        wanted: Sequence[bool] = ()
        if spec is not None and spec.takes_ref and not references.isdisjoint(member.inputs):
            wanted = wants_reference(member.op, spec)
        inside = []
        for at, value in enumerate(member.inputs):
            if value in made:
                inside.append(value)
                continue
            refers = value in by_reference or (bool(wanted) and wanted[at])
            inner = args.get((value, refers))
            if inner is None:
                inner = step.values.new(step.values.tensor(value)) if value in taken else value
                taken.add(value)
                args[value, refers] = inner
            inside.append(inner)
        code.append(member.changed(inputs=tuple(inside)))
    results = [*root.outputs, *[value for value in match.kept if value not in root.outputs]]
    return Instr(
        stands.op,
        [op for member in members for op in member.nodes],
        tuple([value for value, _ in args]),
        tuple(results),
        max(member.effects for member in members),
        root.device,
        [control for member in members for control in member.controls],
        stands.after,
        what=name,
        body=(step.nested(code, results, list(args.values())),),
        refers=frozenset([at for at, (_, refers) in enumerate(args) if refers]) or NOTHING,
        detail=match.build,
    )


def replaced(step: Step, groups: Iterable[Instr], gone: AbstractSet[Instr]) -> Step:
    """The step with `groups`, each where its node stood, without the nodes that are gone."""
    at = {group.op: group for group in groups}
    code = []
    for instr in step.code:
        if instr not in gone:
            code.append(instr)
        elif instr.kernel is None and instr.what == NODE and instr.op in at:
            code.append(at[instr.op])
    return step.with_code(code)
