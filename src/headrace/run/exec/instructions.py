"""Instructions: closures over registers, one shape per arity because a step is made of them.

Measured per node with a trivial kernel: looking values up by tensor name costs 3 to 4 times a
closure over register numbers; compiling generated source costs 10 ms per 1,000 nodes at first run.
Called by: plan.compile.  Threads: any.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from headrace.run.exec.kernel import KernelContext, NodeInfo
from headrace.run.exec.outcome import stopped
from headrace.run.exec.program import Instruction, Registers
from headrace.run.state.variable import Variable


def call(
    kernel: Callable[..., Any], inputs: tuple[int, ...], outputs: tuple[int, ...], single: bool
) -> Instruction:
    """registers[outputs] = kernel(registers[inputs]); `single` when the kernel returns the value."""
    if not single:
        return _call_many(kernel, inputs, outputs)
    out = outputs[0]
    if len(inputs) == 1:
        (a,) = inputs

        def call1(r: Registers) -> None:
            r[out] = kernel(r[a])

        return call1
    if len(inputs) == 2:
        a, b = inputs

        def call2(r: Registers) -> None:
            r[out] = kernel(r[a], r[b])

        return call2
    if len(inputs) == 3:
        a, b, c = inputs

        def call3(r: Registers) -> None:
            r[out] = kernel(r[a], r[b], r[c])

        return call3

    def call_n(r: Registers) -> None:
        r[out] = kernel(*[r[i] for i in inputs])

    return call_n


def _call_many(
    kernel: Callable[..., Any], inputs: tuple[int, ...], outputs: tuple[int, ...]
) -> Instruction:
    if not outputs:

        def call_none(r: Registers) -> None:
            kernel(*[r[i] for i in inputs])

        return call_none
    store = storing(outputs, single=False)

    def call_many(r: Registers) -> None:
        store(r, kernel(*[r[i] for i in inputs]))

    return call_many


def with_context(
    kernel: Callable[..., Any],
    node: NodeInfo,
    inputs: tuple[int, ...],
    outputs: tuple[int, ...],
    single: bool,
) -> Instruction:
    """As `call`, for kernels that want a KernelContext first."""
    start = starting(kernel, node, inputs)
    store = storing(outputs, single)

    def call_with_context(r: Registers) -> None:
        store(r, start(r))

    return call_with_context


def handle(kernel: Callable[..., Any], node: NodeInfo, out: int) -> Instruction:
    """registers[out] = the node's resource, found once and again after any was deleted."""
    generation = -1
    resource: Any = None

    def get(r: Registers) -> None:
        nonlocal generation, resource
        step = r[0]
        now = step.runtime.resources.generation
        if now != generation:
            resource = kernel(KernelContext(node, step))
            generation = now
        r[out] = resource

    return get


def starting(
    kernel: Callable[..., Any], node: NodeInfo, inputs: tuple[int, ...], takes_ctx: bool = True
) -> Callable[[Registers], Any]:
    """kernel(context, *registers[inputs]), its result not stored."""
    if not takes_ctx:
        if len(inputs) == 1:
            (a,) = inputs
            return lambda r: kernel(r[a])
        if len(inputs) == 2:
            a, b = inputs
            return lambda r: kernel(r[a], r[b])
        return lambda r: kernel(*[r[i] for i in inputs])
    if len(inputs) == 1:
        (a,) = inputs
        return lambda r: kernel(KernelContext(node, r[0]), r[a])
    return lambda r: kernel(KernelContext(node, r[0]), *[r[i] for i in inputs])


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
    first, end = outputs[0], outputs[0] + count
    if count == 1:

        def store_first(r: Registers, values: Sequence[Any]) -> None:
            (r[first],) = values

        return store_first
    if outputs == tuple(range(first, end)):

        def store_run(r: Registers, values: Sequence[Any]) -> None:
            if len(values) != count:
                raise RuntimeError(f"the kernel gave {len(values)} values for {count} outputs")
            r[first:end] = values

        return store_run

    def store_each(r: Registers, values: Sequence[Any]) -> None:
        for out, value in zip(outputs, values, strict=True):
            r[out] = value

    return store_each


def finishing(
    finish: Callable[[Any], Any], store: Callable[[Registers, Any], None]
) -> Callable[[Registers, Any], None]:
    """`store` what `finish` makes of a waiter's result."""
    return lambda r, result: store(r, finish(result))


def dereference(source: int, target: int) -> Instruction:
    """registers[target] = the array of the Variable in registers[source], now."""

    def load(r: Registers) -> None:
        value = r[source]
        r[target] = value.require() if isinstance(value, Variable) else value

    return load


def snapshot(source: int, target: int) -> Instruction:
    """registers[target] = a copy of the Variable in registers[source], never torn."""

    def load(r: Registers) -> None:
        value = r[source]
        r[target] = value.snapshot() if isinstance(value, Variable) else value

    return load


def lent(source: int, target: int) -> Instruction:
    """registers[target] = what the Variable in registers[source] holds now, which no update changes."""

    def load(r: Registers) -> None:
        value = r[source]
        r[target] = value.read() if isinstance(value, Variable) else value

    return load


def copied(source: int, target: int) -> Instruction:
    """As `snapshot`; an array in registers[source], which may alias a variable, is copied too."""

    def load(r: Registers) -> None:
        value = r[source]
        if isinstance(value, Variable):
            value = value.snapshot()
        elif isinstance(value, np.ndarray):
            value = value.copy()
        r[target] = value

    return load


def pass_reference(source: int, target: int) -> Instruction:
    """registers[target] = the reference in registers[source], which must be initialized."""

    def pass_on(r: Registers) -> None:
        value = r[source]
        if isinstance(value, Variable):
            value.require()
        r[target] = value

    return pass_on


def look(node: NodeInfo) -> Instruction:
    """See whether the step is to go on with `node`.  Raises an error of its own like that of the step's scope."""

    def go_on(r: Registers) -> None:
        error = r[0].scope.error
        if error is not None:
            raise stopped(error, node) from error

    return go_on


def release(registers: tuple[int, ...]) -> Instruction:
    """Forget values after their last use."""
    if len(registers) == 1:
        (a,) = registers

        def release1(r: Registers) -> None:
            r[a] = None

        return release1

    def release_n(r: Registers) -> None:
        for register in registers:
            r[register] = None

    return release_n
