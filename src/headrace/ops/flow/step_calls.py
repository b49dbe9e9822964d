"""Functions that a step calls while it runs, since no end of nodes would stand for them: those that call themselves.

Where a function is called within its own body `graph.expansion` leaves a PartitionedCall, or, if something in the
function may wait, a HeadraceWaitingCall, which TensorFlow's tasks do not have.  Each call is a step of its own, with
registers of its own, of the function as it was planned once.  It runs in the thread of whoever calls; before Python's
frames become too many, another thread goes on.
Called by: graph.expansion, by its name, ops.flow.functional.  Threads: kernels any.
"""

from __future__ import annotations

from collections.abc import Sequence
from threading import Event
from typing import Any, Final

from headrace.base import dtypes, errors
from headrace.base.traits import MAY_WAIT, STATEFUL
from headrace.codec import protos as pb
from headrace.graph.registry import op
from headrace.graph.shape_fns import unknown
from headrace.run.data.functions import next_step_id
from headrace.run.exec.kernel import CallableFunction, KernelContext, StepState
from headrace.run.exec.outcome import stopped
from headrace.run.exec.rendezvous import Rendezvous
from headrace.run.pending import Pending
from headrace.run.scope import Scope
from headrace.run.state import handles

__all__ = ["waiting_call_op"]

DEEPEST: Final = 2000
"""So many calls inside each other may there be; the memory of each is held until the innermost has ended."""

_PER_THREAD: Final = 16
"""Calls inside each other in one thread: each takes some twenty of the 1,000 frames that Python gives a thread."""


_Functions = dict[bytes | str, CallableFunction]


_ENDS_S: Final = 1.0
"""A call that was given up has this long to end; a kernel that takes longer goes on, and nobody hears of it."""


class _CalledStep(StepState):
    """The step of a call.

    depth: how many calls it is inside of, its own counted.  functions: those that are called, for the outermost call.
    """

    __slots__ = ("depth", "functions")

    depth: int
    functions: _Functions


def _function_of(ctx: KernelContext, f: pb.NameAttrList) -> tuple[CallableFunction, _Functions]:
    """The function that a node names, and all that were called: what they remember is the outermost node's."""
    step = ctx.step
    known: _Functions
    known = step.functions if isinstance(step, _CalledStep) else ctx.memo.setdefault("called", {})
    key = f.SerializeToString(deterministic=True) if f.attr else f.name
    found = known.get(key)
    if found is None:
        found = known.setdefault(key, ctx.function(f).anew())
    return found, known


def _step_within(ctx: KernelContext, name: str, functions: _Functions, scope: Scope) -> _CalledStep:
    """Of a call that the node makes now.  Raises ResourceExhausted (too deep), and what has ended the step."""
    around = ctx.step
    if scope.error is not None:
        raise stopped(scope.error, ctx.node) from scope.error
    depth = (around.depth if isinstance(around, _CalledStep) else 0) + 1
    if depth > DEEPEST:
        raise errors.resource_exhausted(
            f"function {name!r} calls itself more than {DEEPEST} deep, and the innermost call has not ended: "
            "if it is to end, let the branch that ends it depend on an argument that changes from call to call; "
            "tf.while_loop repeats without a limit"
        )
    step = _CalledStep(
        around.runtime, scope, next_step_id(), Rendezvous(), owner=around.owner, apart=around.apart
    )
    step.depth, step.functions = depth, functions
    return step


def _called(
    ctx: KernelContext, function: CallableFunction, given: Sequence[Any], step: _CalledStep
) -> list[Any]:
    """The function's results."""
    found = function(given, step)
    for lock in step.held or ():
        ctx.step.holds(lock)
    arriving = [dtype.base_dtype is dtypes.resource for dtype, _ in function.outputs]
    if not any(arriving):
        return found
    return [
        handles.arriving(value, ctx.runtime) if is_handle else value
        for value, is_handle in zip(found, arriving, strict=True)
    ]


def call(ctx: KernelContext, *args: Any, f: pb.NameAttrList) -> list[Any]:
    """What f gives for args.  Raises ResourceExhausted: so many calls are inside each other."""
    function, functions = _function_of(ctx, f)
    step = _step_within(ctx, function.name, functions, ctx.scope)
    if step.depth % _PER_THREAD:
        return _called(ctx, function, args, step)
    step.apart = True
    goes_on: Pending[list[Any]] = ctx.runtime.workers.callbacks.call(
        lambda: _called(ctx, function, args, step), ctx.node.name
    )
    return goes_on.wait(ctx.scope)


def _ending(under_way: Pending[list[Any]], scope: Scope, ended: Event) -> Pending[list[Any]]:
    """The same; who gives it up ends the scope, and waits until the call has withdrawn what it waits for."""
    gone = errors.cancelled("the step that had called the function has ended")

    def withdraw(_: Pending[Any]) -> bool:
        left = under_way.abandon(gone)
        if left:
            scope.cancel(gone)
            ended.wait(_ENDS_S)
        return left

    found: Pending[list[Any]] = Pending(under_way.wait_info, withdraw)

    def done(_: Pending[Any]) -> None:
        if under_way.error is gone:
            return
        try:
            found.resolve(under_way.result())
        except errors.OpError as error:
            found.reject(error)

    under_way.on_done(done)
    return found


@op(
    "HeadraceWaitingCall",
    inputs="args: Tin",
    outputs="output: Tout",
    attrs="Tin: list(type) >= 0; Tout: list(type) >= 0; f: func",
    shape=unknown,
    traits={STATEFUL, MAY_WAIT},
)
def waiting_call_op(ctx: KernelContext, *args: Any, f: pb.NameAttrList) -> Pending[list[Any]]:
    """What f gives for args, when it has waited; it ends with the step.  Raises as `call`."""
    function, functions = _function_of(ctx, f)
    scope = Scope(parent=ctx.scope)
    step = _step_within(ctx, function.name, functions, scope)
    step.apart = True
    ended = Event()

    def called() -> list[Any]:
        try:
            return _called(ctx, function, args, step)
        finally:
            ended.set()

    return _ending(ctx.runtime.workers.callbacks.call(called, ctx.node.name), scope, ended)
