"""Branches and loops as instructions: blocks of instructions that run under a condition, or again and again.

Called by: plan.compile_flow (makes them), run.exec.program (runs them like any other).
Threads: as instructions; all state is in the registers.
A failing instruction is explained by the innermost block that it is in, which knows its node.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from operator import itemgetter
from typing import Any

import numpy as np

from headrace.base import errors
from headrace.run.exec.kernel import NodeInfo
from headrace.run.exec.outcome import cause, explain
from headrace.run.exec.program import Instruction, Registers
from headrace.run.state.variable import Variable

Conditions = tuple[tuple[int, bool], ...]
"""(register that holds a truth, what it must be), each decided before the next is looked at."""

_POLL_EVERY = 64  # iterations between polls of the scope: an endless loop can be cancelled


@dataclass(slots=True)
class Block:
    """Instructions with, side by side, the node and the input registers of each."""

    instructions: list[Instruction] = field(default_factory=list)
    nodes: list[NodeInfo] = field(default_factory=list)
    inputs: list[tuple[int, ...]] = field(default_factory=list)

    def explained(self, error: Exception, instruction: Instruction, r: Registers) -> errors.OpError:
        """`error` of one of the instructions, with its node's fields."""
        index = self.instructions.index(instruction)
        return explain(error, self.nodes[index], [r[i] for i in self.inputs[index]], r[0])


def guarded(conditions: Conditions, block: Block) -> Instruction:
    """Run `block` if all conditions hold."""
    instructions = block.instructions

    def run(r: Registers) -> None:
        for register, wanted in conditions:
            if r[register] is not wanted:
                return
        instruction = None
        try:
            for instruction in instructions:
                instruction(r)
        except Exception as error:  # every failure of a kernel becomes an error that names its node
            assert instruction is not None
            raise block.explained(error, instruction, r) from cause(error)

    return run


def truth(source: int, target: int) -> Instruction:
    """registers[target] = whether the bool in registers[source] holds, as a Python bool."""

    def decide(r: Registers) -> None:
        value = r[source]
        r[target] = bool(value.require() if isinstance(value, Variable) else value)

    return decide


def select(condition: tuple[int, bool], yes: int, no: int, target: int) -> Instruction:
    """registers[target] = registers[yes] if the condition holds, else registers[no]."""
    register, wanted = condition

    def choose(r: Registers) -> None:
        r[target] = r[yes] if r[register] is wanted else r[no]

    return choose


def which(condition: tuple[int, bool], target: int) -> Instruction:
    """registers[target] = 0 if the condition holds, else 1: a Merge's second output."""
    register, wanted = condition

    def tell(r: Registers) -> None:
        r[target] = np.int32(r[register] is not wanted)

    return tell


def required(conditions: Conditions, name: str) -> Instruction:
    """InvalidArgument unless all conditions hold, under which the fetched tensor `name` has a value."""

    def check(r: Registers) -> None:
        if any(r[register] is not wanted for register, wanted in conditions):
            raise errors.invalid_argument(
                f"the fetched tensor {name} has no value: it is on a branch that was not taken"
            )

    return check


def _several(registers: Sequence[int]) -> Callable[[Registers], Any]:
    """The values of `registers`, as a sequence."""
    if len(registers) == 1:
        (one,) = registers
        return lambda r: (r[one],)
    return itemgetter(*registers)


@dataclass(slots=True)
class Loop:
    """A loop: its variables start as `starts`, are `first` to `first + n` in an iteration, and go on as `nexts`.

    head: runs first in each iteration, and decides `pred`.  body: then, if there is another one.  tail: after the last.
    node: the LoopCond, for errors.
    """

    node: NodeInfo
    pred: int
    first: int
    starts: Sequence[int]
    nexts: Sequence[int]
    head: Block
    body: Block
    tail: Block

    def instruction(self) -> Instruction:
        """The loop as one instruction."""
        start, following = _several(self.starts), _several(self.nexts)
        first, end, pred = self.first, self.first + len(self.starts), self.pred
        head, body, tail = (part.instructions for part in (self.head, self.body, self.tail))

        def run(r: Registers) -> None:
            scope = r[0].scope
            r[first:end] = start(r)
            instruction = None
            part = self.head
            count = 0
            try:
                while True:
                    for instruction in head:
                        instruction(r)
                    if not r[pred]:
                        break
                    part = self.body
                    for instruction in body:
                        instruction(r)
                    part = self.head
                    r[first:end] = following(r)
                    count += 1
                    if not count % _POLL_EVERY:
                        instruction = None
                        scope.check()
                part = self.tail
                for instruction in tail:
                    instruction(r)
            except Exception as error:  # as in `guarded`
                if instruction is None:
                    raise explain(error, self.node, [], r[0]) from cause(error)
                raise part.explained(error, instruction, r) from cause(error)

        return run
