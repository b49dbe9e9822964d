"""Binding: a node's kernel with its attrs and array namespace, and what its schema says of values.

Called by: plan.compile, plan.compile_dataflow.  Threads: any.
"""

from __future__ import annotations

import functools
import operator
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from headrace.graph.graph import Operation
from headrace.graph.graphdef import input_name
from headrace.graph.registry import OpSpec
from headrace.graph.tensor import Tensor


def bound_kernel(
    op: Operation, spec: OpSpec, planned: Mapping[str, Any] | None = None
) -> Callable[..., Any]:
    """A function of the inputs (after a KernelContext, for kernels that take one), on the host.

    planned: the node's attrs when its step was planned, if that was before.
    """
    kernel = spec.kernel
    assert kernel is not None
    if spec.bare is not None:
        if spec.bare in _OPERATORS and all(_may_be_plain(t) for t in op.inputs):
            return _OPERATORS[spec.bare]
        bound: Callable[..., Any] = getattr(np, spec.bare)
        return bound
    given = op.attrs if planned is None else planned
    attrs = {name: given[name] for name in spec.kernel_attrs}
    if spec.takes_ctx:
        return functools.partial(kernel, **attrs) if attrs else kernel
    return functools.partial(kernel, np, **attrs)


def bound_unread(op: Operation, spec: OpSpec, more: Mapping[str, Any]) -> Callable[..., Any]:
    """As `bound_kernel`, of the kernel for values that are still in their file.  more: attrs that no node has."""
    assert spec.unread_fn is not None
    attrs = {**{name: op.attrs[name] for name in spec.kernel_attrs}, **more}
    if spec.takes_ctx:
        return functools.partial(spec.unread_fn, **attrs)
    return functools.partial(spec.unread_fn, np, **attrs)


SCALAR_KINDS = frozenset("fiu")  # kinds of dtypes that the operators are for

# Of NumPy scalars they take a tenth of the ufuncs' time, of small arrays a tenth more.
_OPERATORS: dict[str, Callable[..., Any]] = {
    "add": operator.add,
    "subtract": operator.sub,
    "multiply": operator.mul,
    "true_divide": operator.truediv,
    "divide": operator.truediv,
    "negative": operator.neg,
    "less": operator.lt,
    "less_equal": operator.le,
    "greater": operator.gt,
    "greater_equal": operator.ge,
}


def quick_scalar(array: Any) -> Any:
    """`array`, or the NumPy scalar that it holds, where the operators are quicker with that."""
    return array if array.ndim or array.dtype.kind not in SCALAR_KINDS else array[()]


def _may_be_plain(tensor: Tensor) -> bool:
    """Whether its value may be a NumPy scalar that the operators are for."""
    return not tensor._raw and tensor._dtype._base.np.kind in SCALAR_KINDS


def wants_reference(op: Operation, spec: OpSpec) -> Sequence[bool]:
    """For each flat input, whether the schema asks for a reference."""
    single = spec.making.references
    if single is not None:
        return single
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
    return spec.single_output


def input_names(op: Operation, controls: Iterable[Operation]) -> tuple[str, ...]:
    """A node's inputs as a NodeDef writes them, `controls` after the tensors."""
    return (
        *(input_name(tensor) for tensor in op.inputs),
        *(f"^{control.name}" for control in controls),
    )
