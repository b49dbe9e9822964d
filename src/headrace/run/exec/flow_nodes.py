"""Nodes of the general executor: wiring, and what each does when its inputs are there.

`fire` of a node is bound once, when a plan is compiled: what moves a value gives it back, what computes one calls its
kernel, and references are read only where one may arrive.
Called by: plan.compile_dataflow (makes them), run.exec.dataflow (runs them).  Threads: nodes do not change once
compiled.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import Any, Protocol

import numpy as np

from headrace.base.traits import CONTROL_TRIGGER
from headrace.run.exec.kernel import KernelContext, NodeInfo, StepState
from headrace.run.state.variable import Variable


class _Dead:
    def __repr__(self) -> str:
        return "<dead>"


DEAD = _Dead()
"""The value of what is on a branch that is not taken."""


class Kind(Enum):
    """How the executor treats a node."""

    NORMAL = "normal"
    SWITCH = "switch"
    MERGE = "merge"
    ENTER = "enter"
    EXIT = "exit"
    NEXT = "next"
    SEND = "send"
    RECEIVE = "receive"
    ARGUMENT = "argument"


class Place(Protocol):
    """Where a node runs: `place` is number and iteration of its frame, None outside loops."""

    place: tuple[int, int] | None


Outputs = Sequence[Any]
Fire = Callable[[StepState, Place, list[Any]], Outputs]
"""The outputs of a node, given its inputs; of one that may wait, a Pending or its result."""


@dataclass(slots=True, eq=False, repr=False)
class Node:
    """A node, its wiring, and what it does.

    sources: number of data inputs.  controls: number of control inputs.  users: (node, its input, output of this one)
    of each consumer.  control_users: nodes that wait for this one.  returned: (output, position) of what leaves the
    step.  loop_variable: a Merge that a NextIteration feeds.  frame_name and parallel: of an Enter; frame_name: of an
    Exit.
    """

    index: int
    info: NodeInfo
    kind: Kind
    sources: int
    controls: int
    num_outputs: int
    fire: Fire
    blocking: bool = False
    store: Callable[[Any], Outputs] = list
    frame_name: str = ""
    is_constant: bool = False
    parallel: int = 1
    loop_variable: bool = False
    users: list[tuple[Node, int, int]] = field(default_factory=list)
    control_users: list[Node] = field(default_factory=list)
    returned: list[tuple[int, int]] = field(default_factory=list)
    at_once: bool = False
    """One data input is all it waits for."""
    is_one_of_two: bool = False
    """A loop variable's Merge that waits for nothing else: of its inputs one arrives in an iteration."""
    moves: bool = False
    """Its outputs are in another iteration or frame."""
    trigger: bool = False
    """It runs though what it waits for is dead."""
    dead: list[Any] = field(default_factory=list)
    numbers: list[np.int32] = field(default_factory=list)
    cost: int = 1
    """For how many small nodes it counts between two polls of the scope."""
    may_take_long: bool = False
    """What is sent before it should not wait for it."""

    def wired(self) -> None:
        """Users and controls are known."""
        self.at_once = self.sources == 1 and not self.controls and self.kind is not Kind.MERGE
        self.is_one_of_two = self.loop_variable and not self.controls
        self.moves = self.kind in (Kind.ENTER, Kind.EXIT, Kind.NEXT)
        self.trigger = CONTROL_TRIGGER in self.info.traits
        self.dead = [DEAD] * self.num_outputs
        self.numbers = [np.int32(number) for number in range(self.sources)]


# -- what nodes do --------------------------------------------------------------------------------


def hand_on(step: StepState, place: Place, inputs: list[Any]) -> Outputs:
    """The inputs are the outputs."""
    return inputs


def choose(step: StepState, place: Place, inputs: list[Any]) -> Outputs:
    """A Switch."""
    value, pred = inputs
    if isinstance(pred, Variable):
        pred = pred.require()
    return (DEAD, value) if pred else (value, DEAD)


def choose_of(count: int) -> Fire:
    """A Switch with `count` outputs: the last one is taken for what is out of range."""

    def run(step: StepState, place: Place, inputs: list[Any]) -> Outputs:
        value, index = inputs
        if isinstance(index, Variable):
            index = index.require()
        taken = int(index)
        outputs = [DEAD] * count
        outputs[taken if 0 <= taken < count else count - 1] = value
        return outputs

    return run


def always(value: Any) -> Fire:
    """A constant."""
    outputs = (value,)
    return lambda step, place, inputs: outputs


def compute(call: Callable[..., Any], single: bool, num_outputs: int) -> Fire:
    """A kernel of arrays."""
    if single:
        return lambda step, place, inputs: (call(*inputs),)
    if num_outputs:
        return lambda step, place, inputs: list(call(*inputs))

    def run(step: StepState, place: Place, inputs: list[Any]) -> Outputs:
        call(*inputs)
        return ()

    return run


def compute_in(call: Callable[..., Any], info: NodeInfo, single: bool, num_outputs: int) -> Fire:
    """A kernel that wants to know where it runs."""

    def run(step: StepState, place: Place, inputs: list[Any]) -> Outputs:
        result = call(KernelContext(info, step, place.place), *inputs)
        return (result,) if single else list(result) if num_outputs else ()

    return run


def begin(call: Callable[..., Any], info: NodeInfo, takes_ctx: bool) -> Fire:
    """A kernel that may wait."""

    def run(step: StepState, place: Place, inputs: list[Any]) -> Any:
        if takes_ctx:
            return call(KernelContext(info, step, place.place), *inputs)
        return call(*inputs)

    return run


def send(call: Callable[..., Any], info: NodeInfo) -> Fire:
    """A Send, which tells the receiver of a dead value too."""

    def run(step: StepState, place: Place, inputs: list[Any]) -> Outputs:
        context = KernelContext(info, step, place.place)
        dead = bool(inputs) and inputs[0] is DEAD
        call(context, *([None] if dead else inputs), dead=dead)
        return ()

    return run


def loading(fire: Fire, loaded: Sequence[int], copied: Sequence[int], snapshots: bool) -> Fire:
    """`fire` with the values of references, and with copies of what may alias a variable.

    loaded, copied: the inputs where such a thing may arrive.
    """

    def run(step: StepState, place: Place, inputs: list[Any]) -> Outputs:
        values = list(inputs)
        for index in loaded:
            value = values[index]
            if isinstance(value, Variable):
                values[index] = value.snapshot() if snapshots else value.require()
        for index in copied:
            value = values[index]
            if isinstance(value, np.ndarray):
                values[index] = value.copy()
        return fire(step, place, values)

    return run


def keeping(fire: Fire) -> Fire:
    """`fire`, or, of a reference, the reference itself, which must be initialized."""

    def run(step: StepState, place: Place, inputs: list[Any]) -> Outputs:
        value = inputs[0]
        if isinstance(value, Variable):
            value.require_value()
            return (value,)
        return fire(step, place, inputs)

    return run
