"""Structure: what cond and while_loop left as Switch, Merge and frames, as branches and loops again.

Every node of a frame gets a *guard*: the decisions (a predicate, and which way) under which it is alive.  A Switch adds
one, a Merge of both ways takes it away.  Where the nodes of a graph do not fit this, as in graphs that were not built
by cond and while_loop, `Unstructured` is raised, and the general executor runs them.
Called by: plan.nesting, serve.master.master_session.  Threads: any.
"""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from headrace.base.traits import (
    CONTROL_FLOW,
    CONTROL_TRIGGER,
    ENTER,
    EXIT,
    IDENTITY,
    LOOP_COND,
    MERGE,
    NEXT_ITERATION,
    SWITCH,
    SWITCH_N,
)
from headrace.graph.graph import Operation
from headrace.graph.tensor import Tensor
from headrace.plan.prune import Pruned
from headrace.run.exec.keys import task_of

Literal = tuple[Tensor, bool]
Guard = frozenset[Literal]
ALWAYS: Guard = frozenset()


class Unstructured(Exception):
    """These nodes are not branches and loops inside one another."""


@dataclass(eq=False, repr=False)
class Frame:
    """A loop, or, as the outermost, everything.

    units: nodes and loops inside, in an order in which they can run.  guard: of the loop, in its parent; known:
    all that holds whenever the loop runs, which the guards inside do not repeat.
    """

    name: str
    parent: Frame | None
    guard: Guard = ALWAYS
    known: Guard = ALWAYS
    units: list[Unit] = field(default_factory=list)
    enters: list[Operation] = field(default_factory=list)
    exits: list[Operation] = field(default_factory=list)
    merges: list[Operation] = field(default_factory=list)
    pred: Tensor | None = None

    def start_of(self, merge: Operation) -> Tensor:
        """What the loop variable `merge` starts from, as a tensor of the parent."""
        return next(t.op for t in merge.inputs if ENTER in t.op.traits).inputs[0]

    def next_of(self, merge: Operation) -> Tensor:
        """What the loop variable `merge` goes on as."""
        return next(t.op for t in merge.inputs if NEXT_ITERATION in t.op.traits).inputs[0]


Unit = Operation | Frame


class Structure:
    """The frames of what was pruned, and the guards of its nodes."""

    def __init__(self, pruned: Pruned, fed: Iterable[Tensor]) -> None:
        """Raises Unstructured."""
        if any(SWITCH_N in op.traits for op in pruned.ops):
            raise Unstructured
        self.ops = pruned.ops
        self._fed = set(fed)
        known = set(pruned.ops)
        self._controls = {
            op: [control for control in pruned.controls[op] if control in known]
            for op in pruned.ops
        }
        self.root = Frame("", None)
        self.frame_of: dict[Operation, Frame] = {}
        self.guards: dict[Operation, Guard] = {}
        self._around: dict[Frame, dict[Frame, Unit]] = {}
        self._find_frames()
        self._sources = self._sources_by_frame()
        self._analyze(self.root)

    def tensor_guard(self, tensor: Tensor) -> Guard:
        """When `tensor` is alive, in the frame where it can be used."""
        if tensor in self._fed:
            return ALWAYS
        guard = self.guards[tensor.op]
        if SWITCH not in tensor.op.traits:
            return guard
        way = (self.root_of(tensor.op.inputs[1]), bool(tensor.value_index))
        return guard if way in self.frame_of[tensor.op].known else guard | {way}

    def root_of(self, pred: Tensor) -> Tensor:
        """The tensor that `pred` is another name for."""
        found = pred
        while found not in self._fed:
            op = found.op
            if (
                SWITCH not in op.traits
                and IDENTITY not in op.traits
                and not (ENTER in op.traits and op["is_constant"])
            ):
                break
            found = op.inputs[0]
        return found

    def made_in(self, op: Operation) -> Frame:
        """The frame in which the outputs of `op` can be used."""
        return self._output_frame(op)

    def never_both(self, unit: Unit, other: Unit) -> bool:
        """Whether the branches that they are in exclude each other, where both are in the same loop or in none."""
        (frame, guard), (theirs, their_guard) = map(self._home, (unit, other))
        return frame is theirs and any((pred, not way) in their_guard for pred, way in guard)

    def _home(self, unit: Unit) -> tuple[Frame | None, Guard]:
        if isinstance(unit, Frame):
            return unit.parent, unit.guard
        return self.frame_of[unit], self.guards[unit]

    def controls(self, op: Operation) -> Sequence[Operation]:
        """The control inputs of `op`."""
        return self._controls[op]

    # -- frames ---------------------------------------------------------------------------------

    def _find_frames(self) -> None:
        frames: dict[str, Frame] = {}
        for op in self.ops:
            around = self._frame_around(op)
            if ENTER in op.traits:
                name = op["frame_name"].decode()
                inner = frames.get(name)
                if inner is None:
                    inner = frames[name] = Frame(name, around)
                if inner.parent is not around:
                    raise Unstructured(f"the frame {name!r} is entered from two others")
                inner.enters.append(op)
                around = inner
            elif EXIT in op.traits:
                around.exits.append(op)
            elif MERGE in op.traits and _is_loop_merge(op):
                around.merges.append(op)
            self.frame_of[op] = around
        if self.root.exits or self.root.merges:
            raise Unstructured("an Exit or a loop's Merge is in no frame")

    def _frame_around(self, op: Operation) -> Frame:
        """The frame that `op`'s inputs are in; of an Exit and what is in a loop, that loop."""
        found: Frame | None = None
        for tensor in op.inputs:
            if NEXT_ITERATION in tensor.op.traits and MERGE in op.traits:
                continue
            frame = self.root if tensor in self._fed else self._output_frame(tensor.op)
            if found is not None and frame is not found:
                raise Unstructured(f"{op.name!r} takes inputs from two frames")
            found = frame
        for control in self.controls(op):
            frame = self._output_frame(control)
            if found is not None and frame is not found:
                raise Unstructured(f"{op.name!r} waits for a node of another frame")
            found = frame
        return self.root if found is None else found

    def _output_frame(self, op: Operation) -> Frame:
        frame = self.frame_of[op]
        if EXIT in op.traits:
            assert frame.parent is not None
            return frame.parent
        return frame

    # -- order and guards -----------------------------------------------------------------------

    def _analyze(self, frame: Frame) -> None:
        """Order the frame's units, find their guards, and do the same for the loops inside."""
        sources = self._sources[frame]
        plain = list(_ordered(sources, lambda unit: ALWAYS))
        if frame.parent is not None:
            for merge in frame.merges:
                self.guards[merge] = ALWAYS
        for unit in plain:
            if isinstance(unit, Frame):
                self._enter(unit)
                self._analyze(unit)
                self._leave(unit)
            elif unit not in self.guards:
                self.guards[unit] = self._guard(unit)
        frame.units = list(_ordered(sources, self._group))

    def _group(self, unit: Unit) -> Guard:
        return unit.guard if isinstance(unit, Frame) else self.guards[unit]

    def _sources_by_frame(self) -> Mapping[Frame, dict[Unit, list[Unit]]]:
        """The units of each frame in pruned order, each with those that it has to run after."""
        found = defaultdict[Frame, dict[Unit, list[Unit]]](dict)
        fed, frame_of = self._fed, self.frame_of
        for op in self.ops:
            here = frame_of[op]
            units = self._units(op)
            for frame, unit in units.items():
                if unit not in found[frame]:
                    found[frame][unit] = []
            own = None if ENTER in op.traits else found[here][op]
            tensors = [] if MERGE in op.traits and _is_loop_merge(op) else op.inputs
            for source in (*[t.op for t in tensors if t not in fed], *self._controls[op]):
                if own is not None and frame_of[source] is here:
                    if source not in own and ENTER not in source.traits:
                        own.append(source)
                    continue
                for frame, other in self._units(source).items():
                    unit = units.get(frame, other)
                    if unit is not other and other not in found[frame][unit]:
                        found[frame][unit].append(other)
        return found

    def _units(self, op: Operation) -> Mapping[Frame, Unit]:
        """What stands for `op` in the frame that it is in, and those around it: itself, then the loop that it is in."""
        frame = self.frame_of[op]
        around = self._around.get(frame)
        if around is None:
            around = self._around[frame] = {}
            inner = frame
            while inner.parent is not None:
                around[inner.parent] = inner
                inner = inner.parent
        return around if ENTER in op.traits else {frame: op, **around}

    def _guard(self, op: Operation) -> Guard:
        if CONTROL_TRIGGER in op.traits:
            return ALWAYS  # runs whatever it waits for
        parts = [self.tensor_guard(tensor) for tensor in op.inputs]
        if MERGE in op.traits:
            return self._merge_guard(op, parts)
        parts.extend(self._control_guard(control) for control in self.controls(op))
        return ALWAYS.union(*parts)

    def _control_guard(self, control: Operation) -> Guard:
        return self.guards[control]

    def _merge_guard(self, op: Operation, parts: list[Guard]) -> Guard:
        """Of a Merge of both branches of a cond: what both have in common.

        One of them may be alive in any case, as what gradients know of a shape: it is taken where the other is dead.
        """
        if len(parts) != 2 or any(self._control_guard(control) for control in self.controls(op)):
            raise Unstructured(f"{op.name!r} is not the Merge of a cond")
        shared = parts[0] & parts[1]
        one, other = (part - shared for part in parts)
        decided = one or other
        fits = not one or not other or other == {(pred, not way) for pred, way in one}
        if len(decided) != 1 or not fits:
            raise Unstructured(f"{op.name!r} is not the Merge of a cond")
        ((pred, _),) = decided
        if LOOP_COND in pred.op.traits:
            raise Unstructured(f"{op.name!r} merges what is inside a loop with what comes after it")
        return shared

    def _enter(self, frame: Frame) -> None:
        """The guard of a loop is that of what it starts from."""
        assert frame.parent is not None
        starts = [self._entered_guard(op) for op in frame.enters if not op["is_constant"]]
        frame.guard = max(starts, key=len, default=ALWAYS)
        frame.known = frame.parent.known | frame.guard
        for op in frame.enters:
            if not self._entered_guard(op) <= frame.guard:
                raise Unstructured(f"{op.name!r} may be dead when its loop {frame.name!r} is alive")
        if len(set(starts)) > 1 and not self._depends_on_strictest(frame):
            raise Unstructured(
                f"the loop {frame.name!r} may run while some of its variables are dead"
            )
        for op in frame.enters:
            self.guards[op] = ALWAYS

    def _depends_on_strictest(self, frame: Frame) -> bool:
        """Whether the loop is certain not to run where not all of its variables are alive."""
        stack = [self._pred(frame).op]
        seen = set(stack)
        while stack:
            op = stack.pop()
            if ENTER in op.traits:
                if self._entered_guard(op) == frame.guard:
                    return True
                continue
            for tensor in op.inputs:
                if NEXT_ITERATION not in tensor.op.traits and tensor.op not in seen:
                    seen.add(tensor.op)
                    stack.append(tensor.op)
        return False

    def _pred(self, frame: Frame) -> Tensor:
        """The LoopCond by which the loop's variables are switched."""
        if frame.pred is None:
            preds = {
                user.inputs[1]
                for merge in frame.merges
                for user in merge.outputs[0]._consumers
                if SWITCH in user.traits and self.frame_of.get(user) is frame
            }
            if len(preds) != 1:
                raise Unstructured(f"the loop {frame.name!r} has {len(preds)} predicates")
            (frame.pred,) = preds
            if LOOP_COND not in frame.pred.op.traits:
                raise Unstructured(f"the predicate of the loop {frame.name!r} is no LoopCond")
        return frame.pred

    def _entered_guard(self, op: Operation) -> Guard:
        return self.tensor_guard(op.inputs[0]).union(*map(self._control_guard, self.controls(op)))

    def _leave(self, frame: Frame) -> None:
        """Check that the loop goes on where its predicate holds and ends where not; its Exits are alive after it."""
        pred = self._pred(frame)
        if self.guards[pred.op]:
            raise Unstructured(f"the predicate of the loop {frame.name!r} may be dead")
        for merge in frame.merges:
            back = next((t.op for t in merge.inputs if NEXT_ITERATION in t.op.traits), None)
            if back is None or self.guards[back] != {(pred, True)}:
                raise Unstructured(
                    f"the loop variable {merge.name!r} does not go on in every iteration"
                )
        for op in frame.exits:
            if self.guards[op] != {(pred, False)}:
                raise Unstructured(f"{op.name!r} may be dead after its loop")
            self.guards[op] = frame.guard
        for unit in frame.units:
            if isinstance(unit, Frame) or NEXT_ITERATION in unit.traits:
                continue
            if any(CONTROL_TRIGGER in control.traits for control in self.controls(unit)):
                raise Unstructured(f"{unit.name!r} waits for a ControlTrigger inside a loop")


def all_alive(pruned: Pruned, fed: Sequence[Tensor], devices: Mapping[Operation, str]) -> bool:
    """Whether all that passes between tasks is outside of branches and loops: it is never dead, and sent once."""
    if not any(CONTROL_FLOW in op.traits for op in pruned.ops):
        return True
    try:
        structure = Structure(pruned, fed)
    except Unstructured:
        return False
    given = set(fed)
    for op in pruned.ops:
        task = task_of(devices[op])
        for tensor in op.inputs:
            if tensor in given or task_of(devices[tensor.op]) == task:
                continue
            if structure.made_in(tensor.op) is not structure.root or structure.tensor_guard(tensor):
                return False
        for control in structure.controls(op):
            if task_of(devices[control]) == task:
                continue
            if structure.made_in(control) is not structure.root or structure.guards[control]:
                return False
    return True


def _is_loop_merge(op: Operation) -> bool:
    return any(NEXT_ITERATION in tensor.op.traits for tensor in op.inputs)


def _ordered(
    sources: Mapping[Unit, Sequence[Unit]], group: Callable[[Unit], Guard]
) -> Iterator[Unit]:
    """The units, each after its sources; units of one group together where that can be, and loops after all else
    that can run: what does not need a loop does not wait for its end.

    Raises Unstructured if there is no such order.
    """
    left = {unit: len(before) for unit, before in sources.items()}
    users: dict[Unit, list[Unit]] = {}
    for unit, before in sources.items():
        for source in before:
            users.setdefault(source, []).append(unit)
    ready: dict[tuple[bool, Guard], deque[Unit]] = {}

    def add(unit: Unit) -> None:
        ready.setdefault((isinstance(unit, Frame), group(unit)), deque()).append(unit)

    for unit in sources:
        if not left[unit]:
            add(unit)
    current = True, ALWAYS
    done = 0
    while ready:
        if current not in ready or current[0]:
            current = next((key for key in ready if not key[0]), next(iter(ready)))
        queue = ready[current]
        unit = queue.popleft()
        if not queue:
            del ready[current]
        yield unit
        done += 1
        for user in users.get(unit, ()):
            left[user] -= 1
            if not left[user]:
                add(user)
    if done < len(sources):
        raise Unstructured("a loop has to run before what it waits for")
