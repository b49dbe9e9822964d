"""State kernels in a plan: variables that live on a device are read and changed there.

What the device cannot do (a variable that lives elsewhere or has no value, shapes that do not fit) is done by the
host's kernel on the host's copy of the variable, which says what is wrong if anything is.
Called by: plan.devices.  Threads: any; the variables of one update are locked together.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache, partial
from typing import Any, Final

from headrace.base.dtypes import DType
from headrace.base.traits import READS_VARIABLE
from headrace.graph.graph import Operation
from headrace.ops._portable.table import ASSIGN, READ, StateKernel, check, tracing
from headrace.run.devices.device import Device
from headrace.run.state.on_device import OnDevice
from headrace.run.state.variable import Locked
from headrace.run.uninterrupted import changes

_NOT_THERE: Final = object()
"""What is given where the host is to do it."""


def state_kernel_on(
    op: Operation, kernel: StateKernel, device: Device, here: Callable[..., Any]
) -> Callable[..., Any]:
    """The node's kernel, of variables and of arrays of the device.  here: that of arrays of the host."""
    count, reads = kernel.variables, kernel.does == READ
    there = _kernel(op, kernel, device)
    dtype: DType = (op.attrs.get("T") or op.attrs["dtype"]).base_dtype

    def run(*inputs: Any) -> Any:
        variables, others = inputs[:count], inputs[count:]
        if all(_lives_there(each, device, dtype) for each in variables):
            try:
                found = there(variables, *others)
            except Exception as error:
                if device.is_final(error):
                    raise
                found = _NOT_THERE
            if found is not _NOT_THERE:
                return found
        made = here(
            *variables,
            *[
                each if at in kernel.host else device.get(each)
                for at, each in enumerate(others, count)
            ],
        )
        return device.put(made) if reads else made

    return run


def _lives_there(variable: Any, device: Device, dtype: DType) -> bool:
    return isinstance(variable, OnDevice) and variable.device is device and variable.dtype is dtype


def _kernel(op: Operation, kernel: StateKernel, device: Device) -> Callable[..., Any]:
    """A function of (variables, other inputs…) that gives what the node does, or `_NOT_THERE`."""
    attrs = tuple([(name, op.attrs[name]) for name in kernel.attrs if name in op.attrs])
    if kernel.does == READ:
        return partial(
            _read, None if READS_VARIABLE in op.traits else _bound(kernel, device, attrs)
        )
    if kernel.does == ASSIGN:
        return partial(_assign, op.attrs.get("validate_shape", False), bool(op.outputs))
    program = (_bound if kernel.host else _program)(kernel, device, attrs)
    return partial(_update, program, bool(op.outputs))


def _bound(kernel: StateKernel, device: Device, attrs: Sequence[tuple[str, Any]]) -> Any:
    return device.bound(partial(kernel.function, device.xp, **dict(attrs)))


@lru_cache(maxsize=256)
def _program(kernel: StateKernel, device: Device, attrs: tuple[tuple[str, Any], ...]) -> Any:
    """Compiled once for all nodes that do the same, where the device compiles.  It raises ValueError at misfits."""
    if not device.compiles:
        return _bound(kernel, device, attrs)
    function = partial(kernel.function, **dict(attrs))

    def traced(xp: Any, *values: Any) -> tuple[list[Any], Any]:
        with tracing() as required:
            found = list(function(xp, *values))
        return found, xp.all(xp.stack(required)) if required else None

    compiled = device.compiled(traced)

    def run(*values: Any) -> Sequence[Any]:
        found = compiled(values)
        check(found is not None)
        assert found is not None
        return found

    return run


def _read(compute: Callable[..., Any] | None, variables: Sequence[OnDevice], *others: Any) -> Any:
    (variable,) = variables
    if variable.held() is None:
        return _NOT_THERE
    value = variable.there()
    return value if compute is None else compute(value, *others)


def _assign(
    validate_shape: bool, gives: bool, variables: Sequence[OnDevice], value: Any
) -> OnDevice | None:
    (variable,) = variables
    variable.assign_there(value, validate_shape)
    return variable if gives else None


@changes
def _update(
    program: Callable[..., Any], gives: bool, variables: Sequence[OnDevice], *others: Any
) -> Any:
    with Locked(variables):
        if any(each.held() is None for each in variables):
            return _NOT_THERE
        before = [each.placed() for each in variables]
        after = program(*before, *others)
        for old, new in zip(before, after, strict=True):
            if new.dtype != old.dtype or new.shape != old.shape:
                return _NOT_THERE
        for variable, new in zip(variables, after, strict=True):
            variable.have(new)
            variable.updates += 1
    return variables[0] if gives else None
