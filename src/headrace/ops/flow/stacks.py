"""Stacks: what a loop remembers for its gradient.

A stack lives as long as a step: each run of its node makes a new one, and what refers to it is gone with the step.
Called by: graph.loop_gradients (through the registry).
Source: TF 1.15 core/kernels/stack.cc
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from headrace.base import errors
from headrace.base.dtypes import DType
from headrace.base.shapes import Shape
from headrace.base.traits import ALIASES, NEVER_FOLDED, SNAPSHOTS, STATEFUL, STORES
from headrace.graph.operation import Operation
from headrace.graph.registry import OpSpec, op
from headrace.graph.shape_fns import ShapeContext, unknown
from headrace.run.devices.there import There, here
from headrace.run.exec.kernel import KernelContext
from headrace.run.state.stacks import Stack


def _stack_of(handle: Any) -> Stack:
    """The stack behind a handle.  Raises InvalidArgument."""
    if isinstance(handle, np.ndarray) and handle.ndim == 0:
        handle = handle[()]
    if not isinstance(handle, Stack):
        raise errors.invalid_argument(
            f"a stack operation was given a {type(handle).__name__} instead of a stack's handle"
        )
    return handle


def _pair(c: ShapeContext) -> Shape:
    return (2,)


def _pushed(c: ShapeContext) -> Shape:
    return c.shape(1)


@op(
    "StackV2",
    inputs="max_size: int32",
    outputs="handle: resource",
    attrs="elem_type: type; stack_name: string = ''",
    traits={STATEFUL, STORES},
    shape=_pair,
    differentiable=False,
)
def stack_op(ctx: KernelContext, max_size: Any, *, elem_type: DType, stack_name: bytes) -> Stack:
    """A new stack; max_size []: of at most that many values, of any number if it is negative."""
    if max_size.ndim:
        raise errors.invalid_argument(
            f"max_size must be a scalar, and has shape {list(max_size.shape)}"
        )
    return Stack(stack_name.decode() or ctx.node.name, elem_type, int(max_size))


@op(
    "StackPushV2",
    inputs="handle: resource; elem: T",
    outputs="output: T",
    attrs="T: type; swap_memory: bool = false",
    traits={STATEFUL, ALIASES, SNAPSHOTS, STORES},
    shape=_pushed,
    differentiable=False,
)
def stack_push_op(xp: Any, handle: Any, elem: Any, *, T: DType) -> Any:
    """elem, which is now on the stack.

    Raises InvalidArgument if the stack is full, closed or of another dtype.
    """
    stack = _stack_of(handle)
    if T is not stack.dtype:
        raise errors.invalid_argument(
            f"stack {stack.name!r} holds {stack.dtype.name}, not {T.name}"
        )
    stack.push(elem)
    return elem


@stack_push_op.knowing
def _push(op: Operation, known: Sequence[Any]) -> Callable[[Any, Any], Any]:
    """A loop pushes in every iteration: the kernel asks only what it has to."""
    kind: DType = op.attrs["T"]

    def push(handle: Any, elem: Any) -> Any:
        if handle.__class__ is not Stack or handle.dtype is not kind:
            return stack_push_op.kernel(np, handle, elem, T=kind)  # type: ignore[misc]
        handle.append(elem)
        return elem

    return push


@op(
    "StackPopV2",
    inputs="handle: resource",
    outputs="elem: elem_type",
    attrs="elem_type: type",
    shape=unknown,
    traits={STATEFUL, ALIASES, STORES},
    differentiable=False,
)
def stack_pop_op(xp: Any, handle: Any, *, elem_type: DType) -> Any:
    """The value that was pushed last, which is gone from the stack.

    Raises InvalidArgument if the stack is empty, closed or of another dtype.
    """
    stack = _stack_of(handle)
    if elem_type is not stack.dtype:
        raise errors.invalid_argument(
            f"stack {stack.name!r} holds {stack.dtype.name}, not {elem_type.name}"
        )
    value = stack.pop()
    return here(value) if xp is np else value


@stack_pop_op.knowing
def _pop(op: Operation, known: Sequence[Any]) -> Callable[[Any], Any]:
    kind: DType = op.attrs["elem_type"]

    def pop(handle: Any) -> Any:
        if handle.__class__ is not Stack or handle.dtype is not kind:
            return stack_pop_op.kernel(np, handle, elem_type=kind)  # type: ignore[misc]
        value = handle.pop()
        return here(value) if value.__class__ is There else value

    return pop


@op("StackCloseV2", inputs="handle: resource", traits={STATEFUL}, differentiable=False)
def stack_close_op(xp: Any, handle: Any) -> None:
    """Nothing; the stack is empty and refuses values."""
    _stack_of(handle).close()


# -- the first generation: handles are string references, and there is no max_size ----------------


@op(
    "Stack",
    outputs="handle: Ref(string)",
    attrs="elem_type: type; stack_name: string = ''",
    traits={STATEFUL},
    shape=_pair,
    differentiable=False,
)
def stack_v1_op(ctx: KernelContext, *, elem_type: DType, stack_name: bytes) -> Stack:
    """A new stack, of any number of values."""
    return Stack(stack_name.decode() or ctx.node.name, elem_type, -1)


def _first_generation(name: str, of: OpSpec, inputs: str = "", **block: Any) -> None:
    """Register op `name` with the kernel of the second generation's `of`; inputs: behind the handle."""
    assert of.kernel is not None
    block["traits"] = {NEVER_FOLDED, *block.get("traits", ())}
    op(name, inputs=f"handle: Ref(string){inputs}", differentiable=False, **block)(of.kernel)


_first_generation(
    "StackPush",
    stack_push_op,
    "; elem: T",
    outputs="output: T",
    attrs="T: type; swap_memory: bool = false",
    traits={ALIASES, SNAPSHOTS},
    shape=_pushed,
)
_first_generation(
    "StackPop",
    stack_pop_op,
    outputs="elem: elem_type",
    attrs="elem_type: type",
    traits={ALIASES},
    shape=unknown,
)
_first_generation("StackClose", stack_close_op)
