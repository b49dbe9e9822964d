"""Groups: several nodes that run as one instruction, mostly where their last one stands; how rules find and make them.

A rule says which nodes a group may begin with, which belong to it, and how it runs at once.  The search, what comes in
and goes out, and how the nodes run one by one where they cannot run at once, are the same for all.
Called by: plan.passes, plan.memoization, the rules.  Threads: any.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from functools import partial
from typing import Any, NamedTuple

from headrace.base.traits import Trait
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


class Having(NamedTuple):
    """The types of ops that have a trait."""

    trait: Trait


class Rule(NamedTuple):
    """A row of the table (`plan.rules`).

    begins: the op types of nodes from which a group may be found; None: all.  match: the group that it belongs to, of
    nodes that are in none of another (the last argument).  always: also in steps that list every node.
    """

    name: str
    begins: Collection[str] | Having | None
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
        values = [*body.args, *[value for member in body.code for value in member.outputs]]
        self.places = dict(zip(values, range(len(values)), strict=True))
        self.device = step.request.placed.get(self.root, HOST)
        self._infos = infos

    def inputs_of(self, member: Instr) -> list[int]:
        """Places of what a node takes."""
        return [*map(self.places.__getitem__, member.inputs)]

    def info(self, member: Instr) -> NodeInfo:
        """The node, as errors name it."""
        return self._infos(member.op)

    def plain(self) -> Plain:
        """How the nodes run one by one.  On the host, what that takes is made when they first do."""
        register = dict(zip(self.places, range(1, len(self.places) + 1), strict=True))
        room = [None] * (len(register) - len(self.inputs))
        wanted = [register[value] for value in self.outputs]
        nodes = [self._infos(member.op) for member in self.members]
        # As planned, whatever a program makes of them later.
        attrs = [member.op.attrs.copy() for member in self.members]
        code: Code | partial[Code] = partial(_one_by_one, self.members, nodes, attrs, register)
        if self.device is not HOST or self.instr.what == FUSED:
            code = Code([*map(partial(self._instruction, register), self.members)], FEWEST_INSIDE)

        def run(step: Any, values: Sequence[Any]) -> Sequence[Any]:
            nonlocal code
            ready = code
            if isinstance(ready, partial):  # several steps at once may each make it
                ready = code = ready()
            registers = [step, *values, *room]
            ready.run(registers)
            return [registers[at] for at in wanted]

        return run

    def _instruction(self, register: dict[int, int], member: Instr) -> Instruction:
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


def _one_by_one(
    members: Sequence[Instr],
    nodes: Sequence[NodeInfo],
    attrs: Sequence[Mapping[str, Any]],
    register: dict[int, int],
) -> Code:
    """attrs: of the nodes, when the step was planned."""
    each = zip(members, nodes, attrs, strict=True)
    code = [_instruction(member, register, node, None, given) for member, node, given in each]
    return Code(code, FEWEST_INSIDE)


def _instruction(
    member: Instr,
    register: dict[int, int],
    node: NodeInfo,
    kernel: Kernel | None,
    planned: Mapping[str, Any] | None = None,
) -> Instruction:
    op = member.op
    assert op.spec is not None
    single = op.spec.single_output
    if member.what == SIZES:
        assert member.kernel is not None
        places = tuple(map(register.__getitem__, member.inputs))
        return Instruction(member.kernel, places, (register[member.outputs[0]],), node, CALL)
    elsewhere = kernel is not None
    kernel = kernel or bound_kernel(op, op.spec, planned)
    inputs = tuple(map(register.__getitem__, member.inputs))
    if check.enabled and not elsewhere:
        kernel = check.checked_kernel(kernel, op, single)
    if op.spec.takes_ctx and not elsewhere:
        kernel, inputs = in_context(kernel, node, len(inputs)), (0, *inputs)
    outputs = tuple(map(register.__getitem__, member.outputs))
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
    return _everywhere(rule, step) if step.nests else _apply(rule, step)


def _everywhere(rule: Rule, step: Step) -> Step:
    """The step with the groups that a rule finds in its code, its branches and loops."""
    if not _occurs(rule, step):
        return step
    code, changed = [], False
    for instr in step.code:
        if instr.what in (BRANCH, LOOP):
            bodies = tuple([_everywhere(rule, body) for body in instr.body])
            if any(new is not old for new, old in zip(bodies, instr.body, strict=True)):
                instr, changed = closed(instr.changed(body=bodies)), True
        code.append(instr)
    return _apply(rule, step.with_code(code) if changed else step)


def _occurs(rule: Rule, step: Step) -> bool:
    """Whether a group may begin anywhere in the step."""
    begins, types = rule.begins, step.types
    if isinstance(begins, Having):
        return any(begins.trait in traits for traits in types.values())
    return begins is None or any(name in types for name in begins)


def _apply(rule: Rule, step: Step) -> Step:
    """The step with the groups that a rule finds in its own code, from the last node on."""
    begins = _begins(rule, step)
    if not begins:
        return step
    facts = step.facts
    taken: set[Instr] = set()
    found = []
    for instr in reversed(begins):
        if instr not in taken and (match := rule.match(instr, facts, taken)) is not None:
            taken.update(match.members)
            found.append(joined(rule.name, match, step))
    return replaced(step, found, taken) if found else step


def _begins(rule: Rule, step: Step) -> list[Instr]:
    """The nodes from which a group may be found, in order."""
    begins, by_type = rule.begins, step.by_type
    if begins is None:
        lists: Sequence[Sequence[Instr]] = (step.code,)
    elif isinstance(begins, Having):
        lists = [found for found in by_type.values() if begins.trait in found[0].op.traits]
    else:
        lists = [by_type[name] for name in begins if name in by_type]
    plain = [
        instr
        for found in lists
        for instr in found
        if instr.what == NODE and instr.kernel is None and instr.detail is None and not instr.body
    ]
    return sorted(plain, key=step.facts.place.__getitem__) if len(lists) > 1 else plain


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
        inside = member.inputs
        for at, value in enumerate(member.inputs):
            if value in made:
                continue
            refers = value in by_reference or (bool(wanted) and wanted[at])
            inner = args.get((value, refers))
            if inner is None:
                inner = step.values.new(step.values.tensor(value)) if value in taken else value
                taken.add(value)
                args[value, refers] = inner
            if inner != value:
                inside = (*inside[:at], inner, *inside[at + 1 :])
        code.append(member if inside is member.inputs else member.changed(inputs=inside))
    results = [*root.outputs, *[value for value in match.kept if value not in root.outputs]]
    return Instr(
        stands.op,
        [op for member in members for op in member.nodes],
        tuple([value for value, _ in args]),
        tuple(results),
        max([member.effects for member in members]),
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
    stands, place = {group.op: group for group in groups}, step.facts.place
    code: list[Instr | None] = [*step.code]
    for instr in gone:
        plain = instr.kernel is None and instr.what == NODE
        code[place[instr]] = stands.get(instr.op) if plain else None
    return step.with_code([instr for instr in code if instr is not None])
