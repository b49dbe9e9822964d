"""Mutexes: ops of `tf.CriticalSection`.

Handles are the `run.state.mutexes.Mutex` itself, locks are variants that hold a `MutexLock`.
Called by: library.critical_sections.  Threads: building as graph; kernels any step's.
Source: TF 1.15 core/ops/resource_variable_ops.cc
"""

from __future__ import annotations

from typing import Any

from headrace.base import errors
from headrace.base.traits import HANDLE, MAY_WAIT, STATEFUL
from headrace.graph.registry import op
from headrace.graph.shape_fns import scalar
from headrace.run.exec.kernel import KernelContext
from headrace.run.pending import Pending
from headrace.run.state.mutexes import Mutex, MutexLock
from headrace.run.state.variants import single

_USE: dict[str, Any] = {"differentiable": False}


@op(
    "MutexV2",
    outputs="resource: resource",
    attrs="container: string = ''; shared_name: string = ''",
    shape=scalar,
    traits={STATEFUL, HANDLE},
    **_USE,
)
def mutex_op(ctx: KernelContext, *, container: bytes, shared_name: bytes) -> Mutex:
    """The mutex; nodes of one container and shared_name share it."""
    return ctx.resource(Mutex, lambda: Mutex(ctx.node.name), container, shared_name)


@op(
    "MutexLock",
    inputs="mutex: resource",
    outputs="mutex_lock: variant",
    shape=scalar,
    traits={STATEFUL, MAY_WAIT},
    **_USE,
)
def mutex_lock_op(ctx: KernelContext, mutex: Any) -> Pending[Any]:
    """The lock; waits until nobody else has it.  Raises InvalidArgument (no mutex), Cancelled (removed)."""
    if not isinstance(mutex, Mutex):
        raise errors.invalid_argument(
            f"the handle of a mutex is needed, not that of a {type(mutex).__name__}"
        )
    step = ctx.step
    whose = f" of session {step.owner}" if step.owner else ""
    found = mutex.lock(f"{ctx.node.name!r} in step {step.step_id}{whose}")
    found.on_done(lambda done: None if done.error else step.holds(done.result()))
    return found


@op("ConsumeMutexLock", inputs="mutex_lock: variant", traits={STATEFUL}, **_USE)
def consume_mutex_lock_op(xp: Any, mutex_lock: Any) -> None:
    """Give the mutex back.  Raises InvalidArgument (no lock)."""
    refusal = "Expected input to be a MutexLock, as the op of that name gives it, and not "
    single(mutex_lock, MutexLock, refusal, "a lock is a scalar, and has shape ").release()
