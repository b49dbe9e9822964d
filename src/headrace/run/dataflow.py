"""Dataflow: the general executor, for partitions with control flow.

Switch and Merge make values *dead*; Enter, NextIteration and Exit move them between frames.  A node
runs once per (frame, iteration) in which all its inputs have arrived; with a dead one it does not
run and its outputs are dead.  A Merge takes the first live input; a dead Enter makes it dead.  A
frame is over when every Enter of it has arrived and nothing in it is left to do; Exits that stayed
dead are then dead for its parent.
The thread that calls `run` does all the work, as in `run.program`; nodes that may wait hand over a
Pending.  Straight-line partitions never come here.
Called by: client.local, serve.worker (through plan.compile).  Threads: `run` in any number at once.
Source: the execution rules of TF 1.15's core/common_runtime/executor.cc, restated.
"""

from __future__ import annotations

import contextlib
import queue
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import Any

import numpy as np

from headrace.base import errors
from headrace.run.kernel import KernelContext, NodeInfo, StepState
from headrace.run.keys import child_frame
from headrace.run.outcome import explain, leave, lend_all
from headrace.run.pending import Pending
from headrace.run.variable import Variable

_LOOK_EVERY = 256  # nodes between looks at the scope


class _Dead:
    def __repr__(self) -> str:
        return "<dead>"


DEAD = _Dead()


def _live(outputs: Sequence[Any]) -> list[tuple[int, Any]]:
    """(output, value) of those that have a value, for the statistics."""
    return [(index, value) for index, value in enumerate(outputs) if value is not DEAD]


class Kind(Enum):
    """How the executor treats a node."""

    NORMAL = "normal"
    SWITCH = "switch"
    MERGE = "merge"
    ENTER = "enter"
    EXIT = "exit"
    NEXT = "next"
    SEND = "send"
    ARGUMENT = "argument"


@dataclass(slots=True)
class Node:
    """A node, its wiring, and its bound kernel.

    sources: number of data inputs.  controls: number of control inputs.  users[i]: (node, input) of
    each consumer of output i.  control_users: nodes that wait for this one.
    """

    index: int
    info: NodeInfo
    kind: Kind
    sources: int
    controls: int
    num_outputs: int
    call: Callable[..., Any] | None = None
    takes_ctx: bool = False
    single: bool = True
    blocking: bool = False
    finish: Callable[[Any], Any] | None = None
    wants_reference: tuple[bool, ...] = ()
    keeps_refs: bool = False
    snapshots: bool = False
    takes_refs: bool = False
    live: tuple[bool, ...] = ()
    frame_name: str = ""
    is_constant: bool = False
    users: list[list[tuple[Node, int]]] = field(default_factory=list)
    control_users: list[Node] = field(default_factory=list)
    constant: Any = None


class _Activation:
    """What has arrived for a node in one iteration."""

    __slots__ = ("dead", "dead_sources", "fired", "inputs", "left", "live")

    def __init__(self, node: Node) -> None:
        self.inputs: list[Any] = [None] * node.sources
        self.left = node.controls + (node.sources if node.kind is not Kind.MERGE else 0)
        self.dead = False
        self.live = -1
        self.dead_sources = 0
        self.fired = False


class _Iteration:
    __slots__ = ("activations", "children", "frame", "number", "outstanding", "place")

    def __init__(self, frame: _Frame, number: int) -> None:
        self.frame = frame
        self.number = number
        self.place = (frame.number, number) if frame.parent is not None else None
        self.activations: dict[int, _Activation] = {}
        self.outstanding = 0
        self.children: dict[str, _Frame] = {}


class _Frame:
    """`outstanding`: nodes ready or waiting, and frames inside, over all its iterations."""

    __slots__ = (
        "done", "enters_left", "invariants", "iterations", "live_exits", "name", "number", "oldest",
        "outstanding", "parent",
    )  # fmt: skip

    def __init__(self, name: str, parent: _Iteration | None, enters: int) -> None:
        self.name = name
        self.parent = parent
        self.number: int = child_frame(parent.frame.number, parent.number, name) if parent else 0
        self.enters_left = enters
        self.iterations: list[_Iteration | None] = [_Iteration(self, 0)]
        self.oldest = 0
        self.outstanding = 0
        self.invariants: list[tuple[Node, Any]] = []
        self.live_exits: set[int] = set()
        self.done = False


class DataflowProgram:
    """A partition with control flow.  Same use as `run.program.Program`."""

    may_wait = True

    def __init__(
        self,
        nodes: list[Node],
        arguments: list[Node],
        returns: list[tuple[Node, int, str, bool]],
        enters: dict[str, int],
    ) -> None:
        """returns: (node, output, tensor name, whether it may look into a variable).

        enters: number of Enter nodes by frame name.
        """
        self.nodes = nodes
        self.arguments = arguments
        self.returns = returns
        self.enters = enters
        self.exits: dict[str, list[Node]] = {}
        for node in nodes:
            if node.kind is Kind.EXIT:
                self.exits.setdefault(node.frame_name, []).append(node)

    def run(self, step: StepState, args: Sequence[Any]) -> list[Any]:
        """See `Program.run`.  A dead value cannot leave the step: InvalidArgument."""
        with np.errstate(all="ignore"):
            return _Execution(self, step).run(args)


class _Execution:
    def __init__(self, program: DataflowProgram, step: StepState) -> None:
        self._program = program
        self._step = step
        self._root = _Frame("", None, 0)
        self._ready: deque[tuple[Node, _Iteration, list[Any], bool]] = deque()
        self._done: queue.SimpleQueue[int] = queue.SimpleQueue()
        self._outstanding: dict[int, tuple[Node, _Iteration, Pending[Any], int]] = {}
        self._ended: dict[int, int] = {}  # of traced steps, by ticket
        self._next_ticket = 0
        self._wanted = {
            (node.index, output): i for i, (node, output, *_) in enumerate(program.returns)
        }
        self._copies: dict[int, list[int]] = {}
        for i, (node, output, *_) in enumerate(program.returns):
            self._copies.setdefault(self._wanted[node.index, output], []).append(i)
        self._returned: list[Any] = [None] * len(program.returns)
        self._has: list[bool] = [False] * len(program.returns)

    def run(self, args: Sequence[Any]) -> list[Any]:
        unregister = self._step.scope.on_cancel(lambda: self._done.put(-1))
        root = self._root.iterations[0]
        assert root is not None
        try:
            if self._step.stats is not None:
                real = (node for node in self._program.nodes if node.kind is not Kind.ARGUMENT)
                self._step.stats.begin(node.info.device for node in real)
            for node, value in zip(self._program.arguments, args, strict=True):
                node_value = [value]
                self._enqueue(node, root, node_value, False)
            for node in self._program.nodes:
                if not node.sources and not node.controls and node.kind is not Kind.ARGUMENT:
                    self._enqueue(node, root, [], False)
            self._work()
            while self._outstanding:
                self._complete(self._wait())
                self._work()
        except BaseException as error:
            self._abandon(error)
            raise
        finally:
            unregister()
        values = [
            (self._value(i), live, node.info)
            for i, (node, _, _, live) in enumerate(self._program.returns)
        ]
        if self._step.lends:
            return lend_all(values, self._step)
        return [leave(value, True, info, self._step) for value, _, info in values]

    def _value(self, index: int) -> Any:
        if not self._has[index] or self._returned[index] is DEAD:
            node, _, name, _ = self._program.returns[index]
            why = (
                "it is on a branch that was not taken"
                if self._has[index]
                else "it is inside a loop or never ran"
            )
            raise errors.invalid_argument(
                f"the fetched tensor {name} has no value: {why}", node=node.info.name, op_type=node.info.op,
                device=node.info.device, step=self._step.step_id or None, built_at=node.info.built_at,
            )  # fmt: skip
        return self._returned[index]

    # -- the worklist -------------------------------------------------------------------------

    def _enqueue(self, node: Node, iteration: _Iteration, inputs: list[Any], dead: bool) -> None:
        iteration.outstanding += 1
        iteration.frame.outstanding += 1
        self._ready.append((node, iteration, inputs, dead))

    def _work(self) -> None:
        count = 0
        while self._ready:
            node, iteration, inputs, dead = self._ready.popleft()
            self._process(node, iteration, inputs, dead)
            count += 1
            if not count % _LOOK_EVERY:
                self._look(node)

    def _look(self, node: Node) -> None:
        """Raise the scope's error if it has ended: a loop may have no end of its own."""
        error = self._step.scope.error
        if error is not None:
            found = errors.make(error.error_code, error.message)
            raise explain(found, node.info, [], self._step) from error

    def _process(self, node: Node, iteration: _Iteration, inputs: list[Any], dead: bool) -> None:
        if dead and node.kind is not Kind.SEND:
            self._propagate(node, iteration, [DEAD] * node.num_outputs, True)
            return
        stats = self._step.stats
        start = stats.now() if stats is not None else 0
        outputs = self._execute(node, iteration, inputs, dead, start)
        if outputs is None:
            return  # waiting
        if stats is not None and node.kind is not Kind.ARGUMENT:
            stats.add(node.info, start, stats.now(), _live(outputs), inputs)
        self._propagate(node, iteration, outputs, dead)

    def _execute(
        self, node: Node, iteration: _Iteration, inputs: list[Any], dead: bool, start: int
    ) -> list[Any] | None:
        """The outputs, or None when the node waits."""
        kind = node.kind
        if kind in (Kind.ARGUMENT, Kind.ENTER, Kind.EXIT, Kind.NEXT):
            return [inputs[0]]
        if kind is Kind.MERGE:
            return inputs
        if kind is Kind.SWITCH:
            taken, last = int(self._plain(node, inputs[1])), node.num_outputs - 1
            outputs = [DEAD] * node.num_outputs
            outputs[taken if 0 <= taken <= last else last] = inputs[0]
            return outputs
        if node.call is None:
            return [node.constant]
        try:
            if kind is Kind.SEND:
                return self._send(node, iteration, inputs, dead)
            values = self._loaded(node, inputs)
            if node.keeps_refs and values and isinstance(values[0], Variable):
                values[0].require()
                return [values[0]]
            if node.takes_ctx:
                context = KernelContext(node.info, self._step, iteration.place)
                result = node.call(context, *values)
            else:
                result = node.call(*values)
        except Exception as error:  # every failure of a kernel becomes an error that names its node
            raise explain(error, node.info, inputs, self._step) from error.__cause__
        if node.blocking and isinstance(result, Pending):
            return self._started(node, iteration, result, start)
        return self._outputs(node, result)

    def _send(self, node: Node, iteration: _Iteration, inputs: list[Any], dead: bool) -> list[Any]:
        assert node.call is not None
        values = [None] if dead else self._loaded(node, inputs)
        node.call(KernelContext(node.info, self._step, iteration.place), *values, dead=dead)
        return []

    @staticmethod
    def _plain(node: Node, value: Any) -> Any:
        return value.require() if isinstance(value, Variable) else value

    @staticmethod
    def _loaded(node: Node, inputs: list[Any]) -> list[Any]:
        values = list(inputs)
        if node.keeps_refs:
            return values
        for index, value in enumerate(values):
            if isinstance(value, Variable):
                if not (node.wants_reference[index] or node.takes_refs):
                    values[index] = value.snapshot() if node.snapshots else value.require()
            elif node.snapshots and node.live[index] and isinstance(value, np.ndarray):
                values[index] = value.copy()
        return values

    @staticmethod
    def _outputs(node: Node, result: Any) -> list[Any]:
        if node.finish is not None:
            result = node.finish(result)
        if node.single:
            return [result]
        return list(result) if node.num_outputs else []

    # -- waiting ------------------------------------------------------------------------------

    def _started(
        self, node: Node, iteration: _Iteration, pending: Pending[Any], start: int
    ) -> list[Any] | None:
        if pending.done:
            return self._result(node, pending)
        ticket = self._next_ticket
        self._next_ticket += 1
        self._outstanding[ticket] = (node, iteration, pending, start)
        stats = self._step.stats
        if stats is not None:
            pending.on_done(lambda _: self._ended.__setitem__(ticket, stats.now()))
        pending.on_done(lambda _: self._done.put(ticket))
        return None

    def _result(self, node: Node, pending: Pending[Any]) -> list[Any]:
        try:
            result = pending.result()
        except errors.OpError as error:
            raise explain(error, node.info, [], self._step) from error.__cause__
        if node.info.op in ("_Recv", "_HostRecv") and result[1]:
            return [DEAD]
        return self._outputs(node, result)

    def _wait(self) -> int:
        scope = self._step.scope
        while True:
            ticket = -1
            with contextlib.suppress(queue.Empty):
                ticket = self._done.get(timeout=scope.nap())
            if ticket >= 0:
                return ticket
            error = scope.error
            if error is not None:
                node, _, pending, _ = next(iter(self._outstanding.values()))
                info = pending.wait_info
                text = f"{error.message}; the step was waiting in {node.info.op} {node.info.name!r} ({info})"
                found = errors.make(error.error_code, text)
                raise explain(found, node.info, [], self._step) from error

    def _complete(self, ticket: int) -> None:
        node, iteration, pending, start = self._outstanding.pop(ticket)
        outputs = self._result(node, pending)
        stats = self._step.stats
        if stats is not None:
            stats.add(node.info, start, self._ended.pop(ticket), _live(outputs))
        self._propagate(node, iteration, outputs, bool(outputs) and outputs[0] is DEAD)

    def _abandon(self, error: BaseException) -> None:
        reason = (
            error
            if isinstance(error, errors.OpError)
            else errors.cancelled("the step was interrupted")
        )
        for _, _, pending, _ in self._outstanding.values():
            pending.abandon(reason)
        if self._step.rendezvous is not None:
            self._step.rendezvous.abort(reason)

    # -- moving values ------------------------------------------------------------------------

    def _propagate(self, node: Node, iteration: _Iteration, outputs: list[Any], dead: bool) -> None:
        """Give the outputs to their users in the right iteration, then account for the node."""
        target: _Iteration | None = iteration
        frame = iteration.frame
        if node.kind is Kind.ENTER:
            child = self._child(iteration, node.frame_name)
            target = child.iterations[0]
            child.enters_left -= 1
            if node.is_constant and not dead:
                child.invariants.append((node, outputs[0]))
                for later in child.iterations[1:]:
                    if later is not None:
                        self._deliver(node, later, outputs, dead)
        elif node.kind is Kind.EXIT:
            target = None if dead else frame.parent
            if not dead:
                frame.live_exits.add(node.index)
        elif node.kind is Kind.NEXT:
            target = None if dead else self._next_iteration(iteration)
        if target is not None:
            self._deliver(node, target, outputs, dead)
        iteration.outstanding -= 1
        frame.outstanding -= 1
        if node.kind is Kind.ENTER:
            self._retire(child)
        self._retire(frame)

    def _deliver(self, node: Node, iteration: _Iteration, outputs: list[Any], dead: bool) -> None:
        for output, value in enumerate(outputs):
            wanted = self._wanted.get((node.index, output))
            if wanted is not None and iteration.frame is self._root:
                for index in self._copies[wanted]:
                    self._returned[index], self._has[index] = value, True
            for user, slot in node.users[output]:
                self._arrive(user, slot, value, iteration, node.kind is Kind.ENTER)
        for user in node.control_users:
            self._arrive_control(user, dead, iteration)

    def _activation(self, node: Node, iteration: _Iteration) -> _Activation:
        activation = iteration.activations.get(node.index)
        if activation is None:
            activation = iteration.activations[node.index] = _Activation(node)
        return activation

    def _arrive(
        self, node: Node, slot: int, value: Any, iteration: _Iteration, entered: bool
    ) -> None:
        activation = self._activation(node, iteration)
        if node.kind is Kind.MERGE:
            if value is DEAD:
                # A loop that is not entered has one iteration, in which everything is dead: other
                # tasks that have a part of it get dead values instead of none.
                activation.dead_sources += node.sources if entered else 1
            elif activation.live < 0:
                activation.live = slot
                activation.inputs[slot] = value
            self._fire_merge(node, activation, iteration)
            return
        activation.inputs[slot] = value
        activation.dead = activation.dead or value is DEAD
        activation.left -= 1
        if activation.left == 0:
            del iteration.activations[node.index]
            self._enqueue(node, iteration, activation.inputs, activation.dead)

    def _arrive_control(self, node: Node, dead: bool, iteration: _Iteration) -> None:
        activation = self._activation(node, iteration)
        activation.left -= 1
        if node.kind is Kind.MERGE:
            self._fire_merge(node, activation, iteration)
            return
        activation.dead = activation.dead or (dead and node.info.op != "ControlTrigger")
        if activation.left == 0:
            del iteration.activations[node.index]
            self._enqueue(node, iteration, activation.inputs, activation.dead)

    def _fire_merge(self, node: Node, activation: _Activation, iteration: _Iteration) -> None:
        if activation.fired or activation.left:
            return
        if activation.live >= 0:
            activation.fired = True
            value = activation.inputs[activation.live]
            self._enqueue(node, iteration, [value, np.int32(activation.live)], False)
        elif activation.dead_sources >= node.sources:
            activation.fired = True
            self._enqueue(node, iteration, [DEAD, DEAD], True)

    # -- frames -------------------------------------------------------------------------------

    def _child(self, iteration: _Iteration, name: str) -> _Frame:
        child = iteration.children.get(name)
        if child is None:
            child = iteration.children[name] = _Frame(name, iteration, self._program.enters[name])
            iteration.frame.outstanding += 1
        return child

    def _next_iteration(self, iteration: _Iteration) -> _Iteration:
        frame = iteration.frame
        number = iteration.number + 1
        if number == len(frame.iterations):
            created = _Iteration(frame, number)
            frame.iterations.append(created)
            for node, value in frame.invariants:
                self._deliver(node, created, [value], False)
        found = frame.iterations[number]
        assert found is not None, "an iteration that is over got a value"
        return found

    def _retire(self, frame: _Frame) -> None:
        """Free iterations that are over; end the frame when nothing in it is left to do."""
        if frame is self._root or frame.done or frame.enters_left:
            return
        if frame.outstanding:
            while frame.oldest < len(frame.iterations) - 1:
                iteration = frame.iterations[frame.oldest]
                if iteration is not None and (iteration.outstanding or iteration.children):
                    break
                frame.iterations[frame.oldest] = None
                frame.oldest += 1
            return
        frame.done = True
        parent = frame.parent
        assert parent is not None
        del parent.children[frame.name]
        for node in self._program.exits.get(frame.name, ()):
            if node.index not in frame.live_exits:
                self._deliver(node, parent, [DEAD], True)
        parent.frame.outstanding -= 1
        self._retire(parent.frame)
