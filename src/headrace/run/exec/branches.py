"""Branches and loops: kernels that run other code under a condition, or again and again.

They take all registers, since what is inside reads and writes there (`NESTED`).
Called by: plan.emit (makes them), run.exec.straight (runs them like any other).
Threads: any; all state is in the registers.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from operator import itemgetter
from typing import Any

import numpy as np

from headrace.base import errors
from headrace.run.exec.beside import settled
from headrace.run.exec.instructions import Kernel, Pick, Registers
from headrace.run.exec.kernel import NodeInfo
from headrace.run.exec.outcome import cause, explain
from headrace.run.exec.straight import Code
from headrace.run.state.variable import Variable

Conditions = tuple[tuple[int, bool], ...]
"""(register that holds a truth, what it must be), each decided before the next is looked at."""

_POLL_EVERY = 64  # iterations between polls of the scope: an endless loop can be cancelled


def guarded(conditions: Conditions, code: Code) -> Kernel:
    """Run `code` if all conditions hold."""
    if len(conditions) == 1:
        ((register, wanted),) = conditions

        def run_if(r: Registers) -> None:
            if r[register] is wanted:
                code.run(r)

        return run_if

    def run(r: Registers) -> None:
        for register, wanted in conditions:
            if r[register] is not wanted:
                return
        code.run(r)

    return run


def truth(value: Any) -> bool:
    """Whether a bool holds, as a Python bool."""
    return bool(value.require() if isinstance(value, Variable) else value)


def select(condition: tuple[int, bool], yes: int, no: int, target: int) -> Kernel:
    """registers[target] = registers[yes] if the condition holds, else registers[no]."""
    register, wanted = condition

    def choose(r: Registers) -> None:
        r[target] = r[yes] if r[register] is wanted else r[no]

    return choose


def which(wanted: bool) -> Kernel:
    """A kernel of a truth: 0 if it is as wanted, else 1: a Merge's second output."""

    def tell(truth: bool) -> Any:
        return np.int32(truth is not wanted)

    return tell


def required(conditions: Conditions, name: str) -> Kernel:
    """InvalidArgument unless all conditions hold, under which the fetched tensor `name` has a value."""

    def check(r: Registers) -> None:
        if any(r[register] is not wanted for register, wanted in conditions):
            raise errors.invalid_argument(
                f"the fetched tensor {name} has no value: it is on a branch that was not taken"
            )

    return check


def several(registers: Sequence[int]) -> Pick:
    """The values of `registers`, as a sequence."""
    if len(registers) == 1:
        (one,) = registers
        return lambda r: (r[one],)
    return itemgetter(*registers)


@dataclass(slots=True, eq=False, repr=False)
class Loop:
    """A loop: its variables start as `starts`, are `first` to `first + n` in an iteration, and go on as `nexts`.

    head: runs first in each iteration, and decides `pred`.  body: then, if there is another one.  tail: after the last.
    node: the LoopCond, for errors.  sums: registers of variables that may be there only after the last iteration.
    """

    node: NodeInfo
    pred: int
    first: int
    starts: Sequence[int]
    nexts: Sequence[int]
    head: Code
    body: Code
    tail: Code
    sums: Sequence[int] = ()

    def kernel(self) -> Kernel:
        """The loop as one kernel."""
        start, following = several(self.starts), several(self.nexts)
        first, end, pred = self.first, self.first + len(self.starts), self.pred
        head, body, tail, node = self.head, self.body, self.tail, self.node
        sums = self.sums

        def run(r: Registers) -> None:
            scope = r[0].scope
            r[first:end] = start(r)
            count = 0
            while True:
                head.run(r)
                if not r[pred]:
                    break
                body.run(r)
                r[first:end] = following(r)
                count += 1
                if not count % _POLL_EVERY:
                    try:
                        scope.check()
                    except Exception as error:  # as if the LoopCond had failed
                        raise explain(error, node, [], r[0]) from cause(error)
            if sums:
                _settle(sums, r, node)
            tail.run(r)

        return run


def _settle(sums: Sequence[int], r: Registers, node: NodeInfo) -> None:
    """Have these registers hold the values themselves."""
    for register in sums:
        try:
            r[register] = settled(r[register])
        except Exception as error:  # as if the LoopCond had failed
            raise explain(error, node, [], r[0]) from cause(error)
