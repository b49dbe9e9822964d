"""Instructions: what a step is made of, and the kernels that are the runtime's own.

An instruction is a kernel, the registers that it reads and those that it writes.  Register 0 holds the StepState, a
value like any other: a kernel that wants the step, or a KernelContext, has 0 as its first input.  A list of them runs
as rows of a few numbers (`row_of`), which one loop executes (`run.straight`).

Measured per node with a trivial kernel: looking values up by tensor name costs 3 to 4 times as much.
Called by: plan.emit (makes them), run.straight, run.program, run.branches.  Threads: any; they do not change.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from operator import itemgetter
from typing import Any, Final

import numpy as np

from headrace.run.exec.kernel import KernelContext, NodeInfo, StepState
from headrace.run.exec.outcome import stopped
from headrace.run.state.variable import Variable

Registers = list[Any]
Kernel = Callable[..., Any]
Pick = Callable[[Registers], Sequence[Any]]

CALL: Final = 0
"""A kernel of the inputs that gives the one output."""
MANY: Final = 1
"""A kernel of the inputs that gives a sequence of outputs, or None for none."""
WHOLE: Final = 2
"""A function of all registers, which reads its inputs and writes its outputs there."""
RELEASE: Final = 3
"""As WHOLE: its outputs are values that nobody wants any more."""
NESTED: Final = 4
"""As WHOLE: a branch or a loop, which may write less than its outputs."""


@dataclass(slots=True, eq=False, repr=False)
class Instruction:
    """registers[outputs] = kernel(*registers[inputs]), or as its `kind` says.

    over: register of an input whose memory the kernel, a ufunc, may take for the result; -1: none.
    """

    kernel: Kernel
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]
    node: NodeInfo
    kind: int = CALL
    over: int = -1

    def given(self, r: Registers) -> list[Any]:
        """The values of its inputs, but for the step."""
        return [r[register] for register in self.inputs if register]


Row = tuple[Kernel, Any, Any, Any]
"""(kernel, input register, another one or None, output register), or (what is called with all registers, 3 x None)"""


def row_of(instruction: Instruction) -> Row:
    """What the loop executes."""
    kernel, inputs = instruction.kernel, instruction.inputs
    kind, count = instruction.kind, len(inputs)
    if kind == CALL:
        if count == 2:
            return kernel, inputs[0], inputs[1], instruction.outputs[0]
        if count == 1:
            return kernel, inputs[0], None, instruction.outputs[0]
    if kind <= MANY:
        kernel = _spread(kernel, inputs, instruction.outputs, kind == CALL)
    return kernel, None, None, None


def _spread(
    kernel: Kernel, inputs: tuple[int, ...], outputs: tuple[int, ...], single: bool
) -> Kernel:
    """A function of all registers, for any number of inputs and outputs."""
    pick = picking(inputs)
    if single:
        (out,) = outputs

        def call(r: Registers) -> None:
            r[out] = kernel(*pick(r))

        return call
    store = storing(outputs, single=False)

    def call_many(r: Registers) -> None:
        store(r, kernel(*pick(r)))

    return call_many


def picking(inputs: Sequence[int]) -> Pick:
    """A function that takes the values of `inputs` from the registers."""
    if not inputs:
        return lambda r: ()
    if len(inputs) == 1:
        return itemgetter(slice(inputs[0], inputs[0] + 1))
    return itemgetter(*inputs)


def storing(outputs: tuple[int, ...], single: bool) -> Callable[[Registers, Any], None]:
    """Put a kernel's result into its output registers."""
    if single:
        out = outputs[0]

        def store_one(r: Registers, value: Any) -> None:
            r[out] = value

        return store_one
    count = len(outputs)
    if not count:
        return lambda r, values: None
    if count == 1:
        (first,) = outputs

        def store_first(r: Registers, values: Sequence[Any]) -> None:
            (r[first],) = values

        return store_first

    def store_each(r: Registers, values: Sequence[Any]) -> None:
        if len(values) != count:
            raise RuntimeError(f"the kernel gave {len(values)} values for {count} outputs")
        for out, value in zip(outputs, values):  # noqa: B905 - as many, and quicker
            r[out] = value

    return store_each


def finishing(
    finish: Callable[[Any], Any], store: Callable[[Registers, Any], None]
) -> Callable[[Registers, Any], None]:
    """`store` what `finish` makes of a waiter's result."""
    return lambda r, result: store(r, finish(result))


# -- kernels of the runtime's own -----------------------------------------------------------------


def in_context(kernel: Kernel, node: NodeInfo, count: int) -> Kernel:
    """A kernel of (step, as many inputs), for one that wants a KernelContext first."""

    def call(step: StepState, *inputs: Any) -> Any:
        return kernel(KernelContext(node, step), *inputs)

    def call_with_one(step: StepState, value: Any) -> Any:
        return kernel(KernelContext(node, step), value)

    return call_with_one if count == 1 else call


def handle(kernel: Kernel, node: NodeInfo) -> Kernel:
    """A kernel of the step: the node's resource, found once and again after any was deleted."""
    generation = -1
    resource: Any = None

    def get(step: StepState) -> Any:
        nonlocal generation, resource
        now = step.runtime.resources.generation
        if now != generation:
            resource = kernel(KernelContext(node, step))
            generation = now
        return resource

    return get


def dereference(value: Any) -> Any:
    """The array of a Variable, now."""
    return value.require() if isinstance(value, Variable) else value


def snapshot(value: Any) -> Any:
    """A copy of what a Variable holds, never torn."""
    return value.snapshot() if isinstance(value, Variable) else value


def lent(value: Any) -> Any:
    """What a Variable holds now, which no update changes."""
    return value.read() if isinstance(value, Variable) else value


def copied(value: Any) -> Any:
    """As `snapshot`; an array, which may alias a variable, is copied too."""
    if isinstance(value, Variable):
        return value.snapshot()
    return value.copy() if isinstance(value, np.ndarray) else value


def pass_reference(value: Any) -> Any:
    """The reference, which must be initialized."""
    if isinstance(value, Variable):
        value.require_value()
    return value


CONTENTS: Final = frozenset({dereference, snapshot, lent, copied, pass_reference})
"""Kernels that give what a variable holds, and look at nothing else of it."""


def poll(node: NodeInfo) -> Kernel:
    """See whether the step is to go on with `node`.  Raises an error of its own like that of the step's scope."""

    def go_on(r: Registers) -> None:
        error = r[0].scope.error
        if error is not None:
            raise stopped(error, node) from error

    return go_on


def release(registers: tuple[int, ...]) -> Kernel:
    """Forget values after their last use."""

    def forget(r: Registers) -> None:
        for register in registers:
            r[register] = None

    return forget
