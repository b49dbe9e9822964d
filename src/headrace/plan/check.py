"""Checkers of what each stage hands to the next; on in tests, off in production.

`enabled` is read when a plan is compiled.  A checked kernel's outputs must have the dtypes that the
node declares and shapes that fit its static shapes: a kernel or a shape function that is wrong
fails at the node, not three nodes later.  They must not alias inputs, unless the op says so.
Called by: plan.compile.  Switched on by: the environment variable HEADRACE_CHECK=1, tests.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from headrace.base import shapes as shape_rules
from headrace.base.traits import ALIASES, KEEPS_REFS
from headrace.graph.graph import Operation
from headrace.graph.tensor import Tensor
from headrace.run.queues.columns import row
from headrace.run.state.unread import Unread
from headrace.run.state.variable import State, Variable

if TYPE_CHECKING:
    from headrace.plan.partition import Partition

enabled = os.environ.get("HEADRACE_CHECK", "") == "1"


def checked_kernel(kernel: Callable[..., Any], op: Operation, single: bool) -> Callable[..., Any]:
    """`kernel` with its results checked.  Raises AssertionError from the step."""

    def checked(*inputs: Any) -> Any:
        result = kernel(*inputs)
        check_result(result, op, single)
        check_ownership(result, inputs, op, single)
        return result

    return checked


def checked_rows(together: Callable[..., Any], op: Operation, single: bool) -> Callable[..., Any]:
    """`together`, which computes many elements at once, with the first of its results checked."""

    def checked(*inputs: Any) -> Any:
        result = together(*inputs)
        values = [result] if single else result
        check_result([row(value, 0) for value in values], op, False)
        return result

    return checked


def checked_store(
    store: Callable[[Any, Any], None], op: Operation, single: bool
) -> Callable[[Any, Any], None]:
    """`store` with what it stores checked."""

    def checked(registers: Any, result: Any) -> None:
        check_result(result, op, single)
        store(registers, result)

    return checked


def check_result(result: Any, op: Operation, single: bool) -> None:
    """Raise AssertionError if `result` is not what the node declares."""
    values = [result] if single else list(result or ())
    assert len(values) == len(op.outputs), (
        f"{op.type} {op.name!r} gave {len(values)} values for {len(op.outputs)} outputs"
    )
    for tensor, value in zip(op.outputs, values, strict=True):
        check_value(tensor, value)


def check_ownership(result: Any, inputs: Sequence[Any], op: Operation, single: bool) -> None:
    """Raise AssertionError if an op that does not say that it aliases gives what looks into an input."""
    if op.spec is None or ALIASES in op.traits or KEEPS_REFS in op.traits:
        return
    arrays = [value.here() if isinstance(value, State) else value for value in inputs]
    for given in arrays:
        for value in [result] if single else list(result or ()):
            if isinstance(given, np.ndarray) and isinstance(value, np.ndarray):
                assert not np.may_share_memory(given, value), (
                    f"{op.type} {op.name!r} gives a view of an input: its registration must say traits={{ALIASES}}"
                )


def check_value(tensor: Tensor, value: Any) -> None:
    """Raise AssertionError if `value` is not of the dtype and static shape of `tensor`."""
    if (
        tensor._dtype._is_ref_dtype
        or isinstance(value, Variable)
        or tensor._dtype.base_dtype.name
        in (
            "resource",
            "variant",
        )
    ):
        return
    label = f"{tensor.op.type} {tensor.name!r}"
    assert isinstance(value, (np.ndarray, np.generic, Unread)), (
        f"{label}: got a {type(value).__name__}"
    )
    assert value.dtype == tensor._dtype.np, (
        f"{label}: declared {tensor._dtype.name}, got {value.dtype}"
    )
    assert shape_rules.compatible(tensor._raw, value.shape), (
        f"{label}: static shape {shape_rules.text(tensor._raw)}, got {value.shape}"
    )


def check_partitions(parts: Sequence[Partition]) -> None:
    """Every receive has its send, names are unique, inputs are in the partition."""
    sent = {key for part in parts for key in part.sends}
    for part in parts:
        missing = part.receives - sent
        assert not missing, f"{part.task} waits for {sorted(missing)}, which nobody sends"
        names = [node.name for node in part.graph_def.node]
        assert len(set(names)) == len(names), f"{part.task} has two nodes of one name"
        known = set(names)
        for node in part.graph_def.node:
            for text in node.input:
                source = text.lstrip("^").partition(":")[0]
                assert source in known, (
                    f"{part.task}: {node.name} needs {source}, which is elsewhere"
                )
