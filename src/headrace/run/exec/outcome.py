"""What leaves a step: values that belong to the caller or are lent to it, and errors that name their node.

Called by: run.exec.program, run.exec.dataflow, run.exec.trace.  Threads: any.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Final

import numpy as np

from headrace.base import errors
from headrace.base import shapes as shape_rules
from headrace.run.exec.kernel import NodeInfo, StepState
from headrace.run.pending import WaitInfo
from headrace.run.state import handles
from headrace.run.state.resources import Resource
from headrace.run.state.variable import Variable, release


def leave(value: Any, shared: bool, node: NodeInfo, step: StepState) -> Any:
    """`value`, made by `node`, as its new owner may keep it: copied if it is `shared` or a variable.

    Raises FailedPrecondition for an uninitialized variable.
    """
    if type(value) is np.ndarray:
        return _copied(value, node, step) if shared or not value.flags.writeable else value
    if isinstance(value, np.generic):
        return value
    if isinstance(value, Variable):
        try:
            return value.fetched()
        except (errors.OpError, MemoryError) as error:
            raise explain(error, node, (), step) from cause(error)
    if isinstance(value, Resource):
        return handles.leaving(value, step.runtime.device)
    return value


def _copied(value: Any, node: NodeInfo, step: StepState) -> Any:
    try:
        return value.copy()
    except MemoryError as error:
        raise explain(error, node, (value,), step) from error


def lend(value: Any, live: bool, node: NodeInfo, step: StepState) -> Any:
    """`value`, made by `node`, for one who only reads it and then releases it: a Lease of a variable.

    live: it may alias a variable, and is copied.  Raises FailedPrecondition for an uninitialized variable.
    """
    if isinstance(value, Variable):
        try:
            return value.lend()
        except (errors.OpError, MemoryError) as error:
            raise explain(error, node, (), step) from cause(error)
    if isinstance(value, np.generic):
        return value
    if isinstance(value, np.ndarray):
        return _copied(value, node, step) if live else value
    if isinstance(value, Resource):
        return handles.leaving(value, step.runtime.device)
    return value


def lend_all(
    registers: Sequence[Any], leaving: Iterable[tuple[int, bool, NodeInfo]], step: StepState
) -> list[Any]:
    """For each (register, live, node) its value as `lend` gives it; nothing stays leased if one fails."""
    lent: list[Any] = []
    try:
        for register, live, node in leaving:
            lent.append(lend(registers[register], live, node, step))
    except BaseException:
        release(lent)
        raise
    return lent


def explain(
    error: Exception, node: NodeInfo, inputs: Sequence[Any], step: StepState
) -> errors.OpError:
    """`error` as an OpError that says which node, where, when, and with which inputs; raise it from `cause(error)`.

    Kernels raise OpErrors for what their inputs have wrong.  What else comes out of one is typed here: an allocation
    that failed, what NumPy says to shapes and values that it cannot take, and bugs.
    """
    if isinstance(error, errors.OpError):
        if error.node is not None:
            return error
        found = error
    else:
        found = _typed(error, node, inputs)
        found.__cause__ = error
    return found.with_context(
        node=node.name,
        op_type=node.op,
        device=node.device,
        step=step.step_id or None,
        built_at=node.built_at,
    )


def cause(error: Exception) -> BaseException | None:
    """What the explained `error` is raised from: its own cause if it was an OpError before, else itself."""
    return error.__cause__ if isinstance(error, errors.OpError) else error


_TOO_LARGE: Final = ("array is too big", "Maximum allowed")
"""How NumPy's ValueErrors begin where more is wanted than there are addresses."""
_NO_THREAD: Final = "can't start new thread"
"""What Python's RuntimeError says where the system gives none."""
_NO_LOOP: Final = ("ufunc ", "Cannot cast ufunc ")
"""How NumPy's TypeErrors begin where a function is not for a type."""


_NO_BROADCAST: Final = (
    "operands could not be broadcast together",
    "objects cannot be broadcast to a single shape",
    "non-broadcastable output operand",
)


def _typed(error: Exception, node: NodeInfo, inputs: Sequence[Any]) -> errors.OpError:
    shown = ", ".join(_describe(value) for value in inputs) or "none"
    if isinstance(error, ValueError) and (found := _misfit(str(error), node, inputs, shown)):
        return found
    text = f"{node.op} {node.name!r}: {error or type(error).__name__}; its inputs were {shown}"
    if isinstance(error, MemoryError) or str(error).startswith(_TOO_LARGE):
        return errors.resource_exhausted(f"out of memory in {text}")
    if isinstance(error, RuntimeError) and str(error) == _NO_THREAD:
        return errors.resource_exhausted(f"too many threads, or no memory for one, in {text}")
    if isinstance(error, ValueError):  # NumPy's for shapes that do not fit
        return errors.invalid_argument(text)
    if isinstance(error, TypeError) and (
        str(error).startswith(_NO_LOOP) or any(map(_is_text, inputs))
    ):
        return errors.invalid_argument(
            f"{node.op} {node.name!r} has no kernel for inputs of these types: {shown} ({error})"
        )
    return errors.internal(
        f"{text} ({type(error).__name__}): this is a bug of headrace; please report it with this text"
    )


def _misfit(said: str, node: NodeInfo, inputs: Sequence[Any], shown: str) -> errors.OpError | None:
    """For what NumPy says of shapes that do not broadcast, and of arrays as conditions; None for all else."""
    if said.startswith("The truth value of an array"):
        what = "The second input must be a scalar: a condition, or a switch's, has more elements"
    elif not any(words in said for words in _NO_BROADCAST):
        return None
    else:
        shapes = [
            shape_rules.text(getattr(v.held() if isinstance(v, Variable) else v, "shape", ()))
            for v in inputs
        ]
        what = f"Incompatible shapes: {' vs. '.join(shapes)}"
        if node.op == "SelectV2" and len(shapes) == 3:
            what = "condition {}, then {}, and else {} must be broadcastable".format(*shapes)
        if node.op.startswith("BatchMatMul") and len(shapes) == 2:
            what = f"In[0] and In[1] must have compatible batch dimensions: {shapes[0]} vs. {shapes[1]}"
    return errors.invalid_argument(
        f"{what}: {node.op} {node.name!r} ({said}); its inputs were {shown}"
    )


def _is_text(value: Any) -> bool:
    if isinstance(value, Variable):
        value = value.held()
    return isinstance(value, np.ndarray) and value.dtype == object


def stopped(error: errors.OpError, node: NodeInfo) -> errors.OpError:
    """What a step raises that goes no further than to `node`, because its scope has ended with `error`."""
    return errors.make(
        error.error_code, f"{error.message}; the step had come to {node.op} {node.name!r}"
    )


def interrupted(error: errors.OpError, info: WaitInfo | None) -> str:
    """How the message begins of a step that `error` ended while it waited for what `info` says."""
    queued = info is not None and info.kind.startswith(("enqueue", "dequeue"))
    if info is None or not queued or error.error_code != errors.CANCELLED:
        return error.message
    return f"{info.kind[:7].capitalize()} operation was cancelled. {error.message}"


def _describe(value: Any) -> str:
    if isinstance(value, Variable):
        value = value.held()
    is_array = hasattr(value, "dtype") and hasattr(value, "shape")  # of whichever device
    if is_array and not isinstance(value, Resource):
        kind = "string" if value.dtype == object else str(value.dtype).rpartition(".")[2]
        return f"{kind}[{','.join(map(str, value.shape))}]"
    return type(value).__name__
