"""Loops: which frame each node runs in, for loops whose nodes lie on several tasks.

A frame is named by the path of loops that it is inside of.  A task that has a part of a loop, but not all of it, needs
to know how often to run it: it gets a *skeleton*, a loop of its own that counts nothing and goes on as long as the
loop's own condition, received from its task in every iteration, says so.  It begins with the shape of a variable of
the loop, which is dead where the loop is not entered: then no task waits for a condition that is never computed.
What arrives from other tasks inside the loop is received once per iteration, after the skeleton's Merge.
Called by: plan.partition.  Threads: any.
Source: the executor's rules for frames; TensorFlow partitions loops in the same way
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from headrace.base import dtypes, errors
from headrace.base.traits import ENTER, EXIT, LOOP_COND
from headrace.codec import protos as pb
from headrace.graph.graph import Operation
from headrace.graph.tensor import Tensor
from headrace.run.exec.keys import task_of

Frame = tuple[str, ...]
"""Names of the loops around, the outermost first; () outside of all."""

_HANDLES = (dtypes.resource, dtypes.variant)


class LoopFrames:
    """The frames of nodes that are given inputs first (what closes a loop comes after it)."""

    def __init__(self, ops: Sequence[Operation]) -> None:
        self._runs_in: dict[Operation, Frame] = {}
        self._enters: dict[Frame, list[Operation]] = {}
        self._condition: dict[Frame, Operation] = {}
        for op in ops if any(ENTER in op.traits for op in ops) else ():
            sources = [tensor.op for tensor in op.inputs] + list(op.control_inputs)
            frame = max(
                (self.of_outputs(s) for s in sources if s in self._runs_in), key=len, default=()
            )
            if ENTER in op.traits:
                frame = (*frame, op["frame_name"].decode())
                self._enters.setdefault(frame, []).append(op)
            elif LOOP_COND in op.traits:
                self._condition[frame] = op
            self._runs_in[op] = frame

    def __bool__(self) -> bool:
        return bool(self._enters)

    def of_outputs(self, op: Operation) -> Frame:
        """The frame in which the outputs of `op` are: outside the loop for an Exit."""
        frame = self._runs_in.get(op, ())
        return frame[:-1] if EXIT in op.traits else frame

    def divided(
        self, devices: Mapping[Operation, str], part_of: Callable[[str], str] = task_of
    ) -> list[tuple[Frame, str]]:
        """(frame, device) for each task of each frame that has nodes on more than one; inner frames later.

        part_of: what stands for a task, given a device.
        """
        found: dict[Frame, dict[str, str]] = {}
        for op, frame in self._runs_in.items():
            for depth in range(1, len(frame) + 1):
                found.setdefault(frame[:depth], {}).setdefault(part_of(devices[op]), devices[op])
        return [
            (frame, device)
            for frame in sorted(found, key=len)
            for device in found[frame].values()
            if len(found[frame]) > 1
        ]

    def condition(self, frame: Frame) -> Operation:
        """The LoopCond of a frame.  Raises InvalidArgument if it has none."""
        found = self._condition.get(frame)
        if found is None:
            raise self._undivided(frame, "it has no LoopCond")
        return found

    def entered_with(self, frame: Frame) -> Tensor:
        """What the loop begins with: a variable of its own, not a handle.  Raises InvalidArgument if there is none."""
        for op in self._enters[frame]:
            if not op["is_constant"] and op.inputs[0]._dtype.base_dtype not in _HANDLES:
                return op.inputs[0]
        raise self._undivided(frame, "all its variables are handles")

    def _undivided(self, frame: Frame, why: str) -> errors.OpError:
        enter = self._enters[frame][0]
        return errors.invalid_argument(
            f"the loop {frame[-1]!r} has nodes on several tasks, which needs a condition and a variable that can be "
            f"sent, but {why}; put all of it on one task",
            node=enter.name,
            op_type=enter.type,
            built_at=enter.built_at,
        )

    def skeleton(
        self, frame: Frame, name: str, device: str, begins: str, condition: Callable[[str], str]
    ) -> Sequence[pb.NodeDef]:
        """Nodes of a skeleton; their names begin with `name`.

        begins: an int32 vector that is dead where the loop is not entered.  condition: given the name of the
        skeleton's Merge, the name of the loop's condition on this task.
        """
        enter = self._enters[frame][0]
        into = _node("Enter", f"{name}_enter", device, begins)
        into.attr["frame_name"].s = enter["frame_name"]
        into.attr["is_constant"].b = False
        into.attr["parallel_iterations"].i = enter["parallel_iterations"]
        merge = _node("Merge", f"{name}_merge", device, into.name, f"{name}_next")
        merge.attr["N"].i = 2
        switch = _node("Switch", f"{name}_switch", device, merge.name, condition(merge.name))
        following = _node("NextIteration", f"{name}_next", device, f"{switch.name}:1")
        for node in (into, merge, switch, following):
            node.attr["T"].type = pb.DT_INT32
        return into, merge, switch, following


def _node(op: str, name: str, device: str, *inputs: str) -> pb.NodeDef:
    return pb.NodeDef(name=name, op=op, device=device, input=inputs)
