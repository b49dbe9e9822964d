"""Binding: a node's kernel with its attrs and array namespace, and what its schema says of values.

Called by: plan.compile, plan.compile_dataflow.  Threads: any.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable
from typing import Any

from headrace.graph.graph import Operation
from headrace.graph.graphdef import input_name
from headrace.graph.registry import OpSpec


def bound_kernel(op: Operation, spec: OpSpec, xp: Any) -> Callable[..., Any]:
    """A function of the inputs (after a KernelContext, for kernels that take one)."""
    kernel = spec.kernel
    assert kernel is not None
    if spec.bare is not None:
        bound: Callable[..., Any] = getattr(xp, spec.bare)
        return bound
    attrs = {name: op.attrs[name] for name in spec.kernel_attrs}
    if spec.takes_ctx:
        return functools.partial(kernel, **attrs) if attrs else kernel
    return functools.partial(kernel, xp, **attrs)


def wants_reference(op: Operation, spec: OpSpec) -> list[bool]:
    """For each flat input, whether the schema asks for a reference."""
    wanted: list[bool] = []
    for definition in spec.inputs:
        count = 1
        if definition.number_attr is not None:
            count = op.attrs[definition.number_attr]
        elif definition.type_list_attr is not None:
            count = len(op.attrs[definition.type_list_attr])
        wanted.extend([definition.is_ref] * count)
    return wanted


def returns_value(spec: OpSpec) -> bool:
    """Whether the kernel returns the output itself, not a sequence of outputs."""
    return len(spec.outputs) == 1 and not spec.outputs[0].is_list


def input_names(op: Operation, controls: Iterable[Operation]) -> tuple[str, ...]:
    """A node's inputs as a NodeDef writes them, `controls` after the tensors."""
    return (
        *(input_name(tensor) for tensor in op.inputs),
        *(f"^{control.name}" for control in controls),
    )
