"""The naive interpreter: what a run means, with nothing clever in it.  Every plan must agree with it.

What a tensor is follows from what its inputs are, each asked for when it is wanted, and once per iteration of the loops
around it.  It knows no devices and no waiting: whatever a node waits for must be there already.
"""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from headrace.base.traits import KEEPS_REFS
from headrace.graph.graph import Operation
from headrace.graph.tensor import Tensor
from headrace.plan.binding import bound_kernel, returns_value, wants_reference
from headrace.run.exec.flow_nodes import DEAD
from headrace.run.exec.kernel import KernelContext, NodeInfo, Runtime, StepState
from headrace.run.pending import Pending
from headrace.run.scope import Scope
from headrace.run.state.variable import Variable

Feeds = Mapping[Tensor, Any]
Place = tuple[int, ...]
"""Iterations of the loops around, of the outermost first."""


class Naive:
    """Variables and queues of its own; `run` as often as you like.  `ran`: how often each node did in the last run."""

    def __init__(self) -> None:
        self.runtime = Runtime("/job:naive/replica:0/task:0/device:CPU:0")
        self.memos: dict[str, dict[str, Any]] = {}
        self.ran: Counter[str] = Counter()

    def run(
        self,
        fetches: Sequence[Tensor],
        feeds: Feeds,
        targets: Sequence[Operation],
        everything: Sequence[Operation] = (),
    ) -> list[Any]:
        """Values of the fetches; DEAD for one on a branch that is not taken.

        everything: run these wherever they can, though nobody asks for all that they give.
        """
        step = _Step(self, feeds)
        for op in sorted(
            {*targets, *(t.op for t in fetches if t not in feeds)}, key=lambda op: op.id
        ):
            step.outputs(op, ())
        step.run_wherever(everything)
        self.ran = step.ran
        values = [step.value(tensor, ()) for tensor in fetches]
        return [value if value is DEAD else np.copy(_array(value)) for value in values]


class _Step:
    def __init__(self, naive: Naive, feeds: Feeds) -> None:
        self._naive = naive
        self._feeds = feeds
        self._state = StepState(naive.runtime, Scope(), 1)
        self._known: dict[tuple[Operation, Place], Sequence[Any]] = {}
        self.ran: Counter[str] = Counter()

    def value(self, tensor: Tensor, place: Place) -> Any:
        """Of `tensor` where it is used: for an Exit outside of its loop, for an Enter inside."""
        if tensor in self._feeds:
            return self._feeds[tensor]
        return self.outputs(tensor.op, place)[tensor.value_index]

    def outputs(self, op: Operation, place: Place) -> Sequence[Any]:
        """Of `op` in the iteration in which they are used."""
        if op.type in ("Enter", "RefEnter"):
            place = (*place[:-1], 0)
        found = self._known.get((op, place))
        if found is None:
            found = self._made(op, place)
            self._known[op, place] = found
            self.ran[op.name] += not all(value is DEAD for value in found or [None])
        return found

    def run_wherever(self, ops: Sequence[Operation]) -> None:
        """Run `ops` in every iteration in which an input of theirs is alive."""
        frames = _frames(ops)
        for op in ops:
            if not op.inputs and not op.control_inputs:
                self.outputs(op, ())
        before = -1
        while before < len(self._known):
            before = len(self._known)
            alive: dict[Operation, list[Place]] = {tensor.op: [()] for tensor in self._feeds}
            begun: dict[tuple[str, ...], set[Place]] = {}
            for (op, place), outputs in self._known.items():
                if not all(value is DEAD for value in outputs or [None]):
                    alive.setdefault(op, []).append(place)
                    if op in frames and "Exit" not in op.type:
                        begun.setdefault(frames[op], set()).add(place)
            for op in ops:
                if op.type in ("Enter", "RefEnter") and op["is_constant"]:  # in all iterations
                    outer = {place[:-1] for place in alive.get(op, ())}
                    alive[op] = [
                        place for place in begun.get(frames[op], ()) if place[:-1] in outer
                    ]
            for op in ops:
                for source in (*(tensor.op for tensor in op.inputs), *op.control_inputs):
                    for place in alive.get(source, ()):
                        self._run_after(op, place)

    def _run_after(self, op: Operation, place: Place) -> None:
        """Run `op`, an input of which is alive at `place`."""
        kind = op.type.removeprefix("Ref")
        if kind == "NextIteration":
            if self.value(op.inputs[0], place) is not DEAD:
                self.outputs(op, (*place[:-1], place[-1] + 1))
        else:
            self.outputs(
                op, (*place, 0) if kind == "Enter" else place[:-1] if kind == "Exit" else place
            )

    def _made(self, op: Operation, place: Place) -> Sequence[Any]:
        kind = op.type.removeprefix("Ref")
        if kind == "Exit":
            return [self._left(op, place)]
        if kind == "NextIteration":
            return [self.value(op.inputs[0], (*place[:-1], place[-1] - 1))]
        if kind == "Merge":
            return self._merged(op, place)
        if kind == "Enter":
            place = place[:-1]
        waits = [c for c in op.control_inputs if not _is_fed_placeholder(c, self._feeds)]
        dead = [all(v is DEAD for v in self.outputs(c, place) or [None]) for c in waits]
        given = [self.value(tensor, place) for tensor in op.inputs]
        if any(value is DEAD for value in given) or (any(dead) and kind != "ControlTrigger"):
            return [DEAD] * len(op.outputs) or [DEAD]
        if kind == "Enter":
            return given
        if kind == "Switch":
            return [DEAD, given[0]] if _array(given[1]) else [given[0], DEAD]
        return self._computed(op, given)

    def _left(self, op: Operation, place: Place) -> Any:
        """What leaves a loop: from the iteration that is the last, unless the loop is not entered."""
        source = op.inputs[0]
        for number in itertools.count():
            inside = (*place, number)
            value = self.value(source, inside)
            if value is not DEAD or self.value(source.op.inputs[1], inside) is DEAD:
                return value
        raise AssertionError("the loop goes on")

    def _merged(self, op: Operation, place: Place) -> Sequence[Any]:
        for control in op.control_inputs:
            self.outputs(control, place)
        of_loop = any(tensor.op.type.endswith("NextIteration") for tensor in op.inputs)
        for index, tensor in enumerate(op.inputs):
            later = tensor.op.type.endswith("NextIteration")
            if of_loop and later != (place[-1] > 0):
                continue
            value = self.value(tensor, place)
            if value is not DEAD:
                return [value, np.int32(index)]
        return [DEAD, DEAD]

    def _computed(self, op: Operation, given: Sequence[Any]) -> Sequence[Any]:
        spec = op.spec
        assert spec is not None
        if KEEPS_REFS in spec.traits and isinstance(given[0], Variable):
            return given  # a reference, passed on
        wanted = wants_reference(op, spec)
        inputs = [g if w else np.copy(_array(g)) for g, w in zip(given, wanted, strict=True)]
        if spec.takes_ctx:
            memo = self._naive.memos.setdefault(op.name, {})
            node = NodeInfo(op.name, op.type, "", op.attrs, None, memo)
            inputs.insert(0, KernelContext(node, self._state))
        result = bound_kernel(op, spec)(*inputs)
        result = result.result() if isinstance(result, Pending) else result
        return [result] if returns_value(spec) else list(result or ())


def _frames(ops: Sequence[Operation]) -> dict[Operation, tuple[str, ...]]:
    """Names of the frames around each node, inputs first."""
    found: dict[Operation, tuple[str, ...]] = {}
    for op in ops:
        sources = [tensor.op for tensor in op.inputs] + list(op.control_inputs)
        around = [
            found[source][:-1] if "Exit" in source.type else found[source]
            for source in sources
            if source in found
        ]
        found[op] = max(around, key=len, default=())
        if op.type in ("Enter", "RefEnter"):
            found[op] = (*found[op], op["frame_name"].decode())
    return found


def _array(value: Any) -> Any:
    return value.require() if isinstance(value, Variable) else value


def _is_fed_placeholder(op: Operation, feeds: Feeds) -> bool:
    return op.type == "Placeholder" and op.outputs[0] in feeds
