"""Dataflow: the general executor, for partitions with control flow that wait, or have parts on other tasks.

Switch and Merge make values *dead*; Enter, NextIteration and Exit move them between frames.  A node
runs once per (frame, iteration) in which all its inputs have arrived; with a dead one it does not
run and its outputs are dead.  A Merge takes the first live input; a dead Enter makes a loop variable dead.
An iteration is over when the one before is and nothing in it is left to do; a loop that has as many under way as its
`parallel_iterations` begins the next one then.  A frame is over with its last iteration, when every Enter of it has
arrived; Exits that stayed dead are then dead for its parent.
The thread that calls `run` does all the work, as in `run.exec.program`; nodes that may wait hand over a
Pending.  Straight-line partitions never come here.
Called by: client.local, serve.worker.worker (through plan.compile).  Threads: `run` in any number at once.
Source: the execution rules of TF 1.15's core/common_runtime/executor.cc, restated.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

from headrace.base import errors
from headrace.run.devices.there import here
from headrace.run.exec import polling
from headrace.run.exec.float_warnings import restore_warnings, suppress_warnings
from headrace.run.exec.flow_nodes import DEAD, Kind, Node, Outputs
from headrace.run.exec.kernel import NodeInfo, StepState
from headrace.run.exec.keys import child_frame
from headrace.run.exec.outcome import cause, explain, interrupted, leave, lend_all, stopped
from headrace.run.exec.waiting import Waiting
from headrace.run.pending import Pending
from headrace.run.uninterrupted import takes

POLL_EVERY = 256  # small nodes between polls of the scope


class _Activation:
    """What has arrived for a node in one iteration.  `left`: inputs and controls that have not."""

    __slots__ = ("dead", "inputs", "left")

    def __init__(self, node: Node) -> None:
        self.inputs: list[Any] = [None] * node.sources
        self.left = node.controls + node.sources
        self.dead = False


class _Choice:
    """What has arrived for a Merge in one iteration.  `live`: the first live input."""

    __slots__ = ("controls", "dead_sources", "fired", "live", "value")

    def __init__(self, node: Node) -> None:
        self.controls = node.controls
        self.dead_sources = 0
        self.live = -1
        self.value: Any = None
        self.fired = False


class _Iteration:
    """`outstanding`: nodes ready or waiting, and frames inside.  `following`: the next one, once begun."""

    __slots__ = (
        "activations",
        "children",
        "choices",
        "following",
        "frame",
        "number",
        "outstanding",
        "place",
    )

    def __init__(self, frame: _Frame, number: int) -> None:
        self.frame = frame
        self.number = number
        self.place = (frame.number, number) if frame.parent is not None else None
        self.activations: dict[int, _Activation] = {}
        self.choices: dict[int, _Choice] = {}
        self.outstanding = 0
        self.children: dict[str, _Frame] = {}
        self.following: _Iteration | None = None


class _Frame:
    """`iterations`: those that are not over.  `deferred`: what the next iteration begins with."""

    __slots__ = (
        "deferred",
        "done",
        "enters_left",
        "invariants",
        "iterations",
        "live_exits",
        "name",
        "number",
        "parallel",
        "parent",
    )

    def __init__(self, name: str, parent: _Iteration | None, enters: int, parallel: int) -> None:
        self.name = name
        self.parent = parent
        self.number: int = child_frame(parent.frame.number, parent.number, name) if parent else 0
        self.enters_left = enters
        self.parallel = parallel
        self.iterations: deque[_Iteration] = deque([_Iteration(self, 0)])
        self.deferred: list[tuple[Node, Outputs]] = []
        self.invariants: list[tuple[Node, Outputs, bool]] = []
        self.live_exits: set[int] = set()
        self.done = False


class DataflowProgram:
    """A partition with control flow.  Same use as `run.exec.program.Program`."""

    may_wait = True

    def __init__(
        self,
        nodes: list[Node],
        arguments: list[Node],
        returns: list[tuple[Node, int, str, bool]],
        enters: Mapping[str, int],
    ) -> None:
        """nodes: wired but for what is returned.  enters: number of Enter nodes by frame name.

        returns: (node, output, tensor name, whether it may alias a variable).
        """
        self.nodes = nodes
        self.arguments = arguments
        self.returns = returns
        self.enters = enters
        self.starts = [
            node
            for node in nodes
            if not node.sources and not node.controls and node.kind is not Kind.ARGUMENT
        ]
        self.exits: dict[str, list[Node]] = {}
        for node in nodes:
            node.wired()
            if node.kind is Kind.EXIT:
                self.exits.setdefault(node.frame_name, []).append(node)
        for position, (node, output, *_) in enumerate(returns):
            node.returned.append((output, position))

    @takes
    def run(self, step: StepState, args: Sequence[Any]) -> list[Any]:
        """See `Program.run`.  A dead value cannot leave the step: InvalidArgument."""
        polled = polling.current()
        was = suppress_warnings()
        try:
            polling.use(step.scope)
            with step.runtime.workers:
                return Execution(self, step).run(args)
        except BaseException:
            step.failed()
            raise
        finally:
            polling.use(polled)
            restore_warnings(was)


class Execution(Waiting):
    """One run of a program, node by node as their inputs come."""

    def __init__(self, program: DataflowProgram, step: StepState) -> None:
        super().__init__(step)
        self._program = program
        self._ready: deque[tuple[Node, _Iteration, list[Any], bool]] = deque()
        self._outstanding: dict[int, tuple[Node, _Iteration, Pending[Any], int]] = {}
        self._ended: dict[int, int] = {}  # of traced steps, by ticket
        self._next_ticket = 0
        self._has: list[bool] = [False] * len(program.returns)
        self._returned: list[Any] = [None] * len(program.returns)

    @takes
    def run(self, args: Sequence[Any]) -> list[Any]:
        """What was asked for, given what is fed.  Waits; raises what a node raised, or what ended the step."""
        unregister = self._step.scope.on_cancel(lambda: self._put(-1))
        root = _Frame("", None, 0, 1).iterations[0]
        if self._channels is not None:
            self._channels.holds = True
        try:
            if self._step.stats is not None:
                real = (node for node in self._program.nodes if node.kind is not Kind.ARGUMENT)
                self._step.stats.begin(node.info.device for node in real)
            for node, value in zip(self._program.arguments, args, strict=True):
                self._enqueue(node, root, [value], False)
            for node in self._program.starts:
                self._enqueue(node, root, [], False)
            self._work()
            while self._outstanding:
                self._complete(self._next())
                while self._outstanding and not self._done.empty():
                    self._complete(self._next())
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
            leaving = [(i, live, info) for i, (_, live, info) in enumerate(values)]
            return lend_all([value for value, _, _ in values], leaving, self._step)
        return [leave(value, True, info, self._step) for value, _, info in values]

    def _value(self, index: int) -> Any:
        node, _, name, _ = self._program.returns[index]
        if not self._has[index] or self._returned[index] is DEAD:
            why = (
                "it is on a branch that was not taken"
                if self._has[index]
                else "it is inside a loop or never ran"
            )
            raise errors.invalid_argument(
                f"the fetched tensor {name} has no value: {why}",
                node=node.info.name,
                op_type=node.info.op,
                device=node.info.device,
                step=self._step.step_id or None,
                built_at=node.info.built_at,
            )
        return here(self._returned[index])

    # -- the worklist -------------------------------------------------------------------------

    def _enqueue(self, node: Node, iteration: _Iteration, inputs: list[Any], dead: bool) -> None:
        iteration.outstanding += 1
        self._ready.append((node, iteration, inputs, dead))

    def _work(self) -> None:
        """Run what is ready, and what becomes ready by that."""
        step, channels = self._step, self._channels
        ready, traced = self._ready, step.stats is not None
        deliver = self._deliver
        left = POLL_EVERY
        while ready:
            node, iteration, inputs, dead = ready.popleft()
            left -= node.cost
            if left < 0:
                left = POLL_EVERY - node.cost
                self._poll(node)
            if node.may_take_long and channels is not None:
                channels.flush()
            if dead and node.kind is Kind.SEND:
                inputs = [DEAD]
            if dead and node.kind is not Kind.SEND:
                outputs: Outputs = node.dead
            elif traced or node.blocking:
                found = self._executed(node, iteration, inputs)
                if found is None:
                    continue  # waiting
                outputs = found
                dead = dead or (node.kind is Kind.RECEIVE and outputs[0] is DEAD)
            else:
                try:
                    outputs = node.fire(step, iteration, inputs)
                except (
                    Exception
                ) as error:  # every failure of a kernel becomes an error that names its node
                    raise explain(error, node.info, inputs, step) from cause(error)
            if node.moves:
                self._move(node, iteration, outputs, dead)
            else:
                deliver(node, iteration, outputs, dead)
            iteration.outstanding -= 1
            if not iteration.outstanding and iteration.place is not None:
                self._retire(iteration.frame)

    def _poll(self, node: Node) -> None:
        """Raise the scope's error if it has ended: a loop may have no end of its own."""
        error = self._step.scope.error
        if error is not None:
            raise explain(stopped(error, node.info), node.info, [], self._step) from error

    @takes
    def _executed(self, node: Node, iteration: _Iteration, inputs: list[Any]) -> Outputs | None:
        """The outputs of a node that may wait or is traced, or None when it waits."""
        step = self._step
        stats = step.stats
        start = stats.now() if stats is not None else 0
        try:
            outputs = node.fire(step, iteration, inputs)
            if node.blocking:
                if isinstance(outputs, Pending):
                    if not outputs.done:
                        self._started(node, iteration, outputs, start)
                        return None
                    outputs = outputs.result()
                outputs = node.store(outputs)
        except Exception as error:  # as in `_work`
            raise explain(error, node.info, inputs, step) from cause(error)
        if stats is not None and node.kind is not Kind.ARGUMENT:
            stats.add(node.info, start, stats.now(), _live(outputs), inputs)
        return outputs

    # -- waiting ------------------------------------------------------------------------------

    @takes
    def _started(
        self, node: Node, iteration: _Iteration, pending: Pending[Any], start: int
    ) -> None:
        ticket = self._next_ticket
        self._next_ticket += 1
        self._outstanding[ticket] = (node, iteration, pending, start)
        stats = self._step.stats
        if stats is not None:
            pending.on_done(lambda _: self._ended.__setitem__(ticket, stats.now()))
        pending.on_done(partial(self._put, ticket))

    def waits(self) -> list[tuple[NodeInfo, Pending[Any]]]:
        """See `long_waits.Waiting`."""
        return [(node.info, pending) for node, _, pending, _ in self._outstanding.copy().values()]

    def _given_up(self, error: errors.OpError) -> errors.OpError:
        """The scope's error, naming what this step was waiting for."""
        node, _, pending, _ = next(iter(self._outstanding.values()))
        info = pending.wait_info
        text = f"{interrupted(error, info)}; the step was waiting in {node.info.op} {node.info.name!r} ({info})"
        return explain(errors.make(error.error_code, text), node.info, [], self._step)

    def _complete(self, ticket: int) -> None:
        node, iteration, pending, start = self._outstanding.pop(ticket)
        try:
            outputs = node.store(pending.result())
        except Exception as error:  # as in `_work`
            raise explain(error, node.info, [], self._step) from cause(error)
        stats = self._step.stats
        if stats is not None:
            stats.add(node.info, start, self._ended.pop(ticket), _live(outputs))
        dead = node.kind is Kind.RECEIVE and outputs[0] is DEAD
        self._deliver(node, iteration, outputs, dead)
        iteration.outstanding -= 1
        if not iteration.outstanding and iteration.place is not None:
            self._retire(iteration.frame)

    @takes
    def _abandon(self, error: BaseException) -> None:
        self._abandon_all([pending for _, _, pending, _ in self._outstanding.values()], error)

    # -- moving values ------------------------------------------------------------------------

    def _deliver(self, node: Node, iteration: _Iteration, outputs: Outputs, dead: bool) -> None:
        """Give the outputs to their users in the iteration."""
        for output, position in node.returned:
            if iteration.place is None:
                self._returned[position], self._has[position] = outputs[output], True
        activations = iteration.activations
        for user, slot, output in node.users:
            value = outputs[output]
            if user.at_once:
                iteration.outstanding += 1
                self._ready.append((user, iteration, [value], value is DEAD))
            elif user.is_one_of_two and value is not DEAD:
                iteration.outstanding += 1
                self._ready.append((user, iteration, [value, user.numbers[slot]], False))
            elif user.kind is Kind.MERGE:
                self._offer(user, slot, value, iteration, node.kind is Kind.ENTER)
            else:
                activation = activations.get(user.index)
                if activation is None:
                    activation = activations[user.index] = _Activation(user)
                activation.inputs[slot] = value
                if value is DEAD:
                    activation.dead = True
                activation.left -= 1
                if not activation.left:
                    del activations[user.index]
                    iteration.outstanding += 1
                    self._ready.append((user, iteration, activation.inputs, activation.dead))
        for user in node.control_users:
            self._signal(user, dead, iteration)

    def _signal(self, node: Node, dead: bool, iteration: _Iteration) -> None:
        """A control input has arrived."""
        if node.kind is Kind.MERGE:
            choice = self._choice(node, iteration)
            choice.controls -= 1
            self._decide(node, choice, iteration)
            return
        activation = iteration.activations.get(node.index)
        if activation is None:
            activation = iteration.activations[node.index] = _Activation(node)
        if dead and not node.trigger:
            activation.dead = True
        activation.left -= 1
        if not activation.left:
            del iteration.activations[node.index]
            self._enqueue(node, iteration, activation.inputs, activation.dead)

    # -- merges -------------------------------------------------------------------------------

    def _offer(
        self, node: Node, slot: int, value: Any, iteration: _Iteration, entered: bool
    ) -> None:
        """An input of a Merge has arrived."""
        if node.is_one_of_two:  # live values do not come here
            self._enqueue(node, iteration, node.dead, True)
            return
        choice = self._choice(node, iteration)
        if value is DEAD:
            # A loop that is not entered has one iteration, in which everything is dead: other
            # tasks that have a part of it get dead values instead of none.
            choice.dead_sources += node.sources if node.loop_variable and entered else 1
        elif choice.live < 0:
            choice.live, choice.value = slot, value
        self._decide(node, choice, iteration)

    def _choice(self, node: Node, iteration: _Iteration) -> _Choice:
        choice = iteration.choices.get(node.index)
        if choice is None:
            choice = iteration.choices[node.index] = _Choice(node)
        return choice

    def _decide(self, node: Node, choice: _Choice, iteration: _Iteration) -> None:
        if choice.fired or choice.controls:
            return
        if choice.live >= 0:
            choice.fired = True
            self._enqueue(node, iteration, [choice.value, node.numbers[choice.live]], False)
        elif choice.dead_sources >= node.sources:
            choice.fired = True
            self._enqueue(node, iteration, node.dead, True)

    # -- frames -------------------------------------------------------------------------------

    def _move(self, node: Node, iteration: _Iteration, outputs: Outputs, dead: bool) -> None:
        """Give the outputs of an Enter, Exit or NextIteration to users in another iteration."""
        frame = iteration.frame
        if node.kind is Kind.ENTER:
            child = self._child(iteration, node)
            child.enters_left -= 1
            if node.is_constant:
                child.invariants.append((node, outputs, dead))
                for each in child.iterations:
                    self._deliver(node, each, outputs, dead)
            else:
                self._deliver(node, child.iterations[0], outputs, dead)
            self._retire(child)
        elif dead:
            return  # where the loop ends; what stayed dead is known when all of it is over
        elif node.kind is Kind.EXIT:
            frame.live_exits.add(node.index)
            assert frame.parent is not None
            self._deliver(node, frame.parent, outputs, False)
        elif iteration.following is not None:
            self._deliver(node, iteration.following, outputs, False)
        else:
            frame.deferred.append((node, outputs))
            if len(frame.iterations) < frame.parallel:
                self._begin_next(frame)

    def _child(self, iteration: _Iteration, enter: Node) -> _Frame:
        name = enter.frame_name
        child = iteration.children.get(name)
        if child is None:
            enters = self._program.enters[name]
            child = iteration.children[name] = _Frame(name, iteration, enters, enter.parallel)
            iteration.outstanding += 1
        return child

    def _begin_next(self, frame: _Frame) -> None:
        """Begin the iteration that `deferred` is for."""
        newest = frame.iterations[-1]
        created = newest.following = _Iteration(frame, newest.number + 1)
        frame.iterations.append(created)
        for node, outputs, dead in frame.invariants:
            self._deliver(node, created, outputs, dead)
        deferred, frame.deferred = frame.deferred, []
        for node, outputs in deferred:
            self._deliver(node, created, outputs, False)

    def _retire(self, frame: _Frame) -> None:
        """Forget iterations that are over, begin those that waited for that, and end the frame after its last."""
        iterations = frame.iterations
        if frame.enters_left or frame.done:
            return
        while not iterations[0].outstanding:
            if frame.deferred:
                self._begin_next(frame)
            elif len(iterations) == 1:
                break
            iterations.popleft()
        else:
            return
        frame.done = True
        parent = frame.parent
        assert parent is not None
        del parent.children[frame.name]
        for node in self._program.exits.get(frame.name, ()):
            if node.index not in frame.live_exits:
                self._deliver(node, parent, [DEAD], True)
        parent.outstanding -= 1
        if not parent.outstanding and parent.place is not None:
            self._retire(parent.frame)


def _live(outputs: Outputs) -> list[tuple[int, Any]]:
    """(output, value) of those that have a value, for the statistics."""
    return [(index, value) for index, value in enumerate(outputs) if value is not DEAD]
