"""Tensors that stay on their task between steps of a session: kept, read and deleted by handle.

Called by: library.session_handles.  Threads: kernels any.
Source: TF 1.15 core/ops/data_flow_ops.cc (schemas)
"""

from __future__ import annotations

from typing import Any

import numpy as np

from headrace.base import errors
from headrace.base.traits import ALIASES, SESSION_HANDLE, STATEFUL
from headrace.graph.registry import op
from headrace.graph.shape_fns import scalar, unknown
from headrace.run.exec.kernel import KernelContext
from headrace.run.state.resources import private_name
from headrace.run.state.session_tensors import SessionTensor, SessionTensors

__all__ = ["delete_session_tensor_op", "get_session_handle_op", "get_session_tensor_op"]


def _store(ctx: KernelContext) -> SessionTensors:
    name = private_name(ctx.step.owner, "session tensors")
    return ctx.runtime.resources.lookup_or_create(
        "", name, SessionTensors, lambda: SessionTensors(name)
    )


def _text(handle: Any) -> str:
    if np.ndim(handle):
        raise errors.invalid_argument(
            f"the handle of a session's tensor is a scalar, and this has shape {list(np.shape(handle))}"
        )
    found: bytes = np.asarray(handle).item()
    return found.decode(errors="backslashreplace")


@op(
    "GetSessionHandle",
    inputs="value: T",
    outputs="handle: string",
    attrs="T: type",
    shape=scalar,
    traits={STATEFUL, SESSION_HANDLE},
    differentiable=False,
)
def get_session_handle_op(ctx: KernelContext, value: Any) -> Any:
    """Keep value on this task until the session ends or it is deleted; its handle: []."""
    handle = _store(ctx).keep(ctx.node.name, ctx.node.device, np.array(value))
    found = np.empty((), object)
    found[()] = handle.encode()
    return found


@op(
    "GetSessionHandleV2",
    inputs="value: T",
    outputs="handle: resource",
    attrs="T: type",
    shape=scalar,
    traits={STATEFUL, SESSION_HANDLE},
    differentiable=False,
)
def get_session_handle_v2(ctx: KernelContext, value: Any) -> SessionTensor:
    """As GetSessionHandle, but the handle [] is a resource, whose name is what stands for the tensor."""
    name = _store(ctx).keep(ctx.node.name, ctx.node.device, np.array(value))
    return SessionTensor(name, ctx.node.device)


@op(
    "GetSessionTensor",
    inputs="handle: string",
    outputs="value: dtype",
    attrs="dtype: type",
    shape=unknown,
    traits={STATEFUL, ALIASES},
    differentiable=False,
)
def get_session_tensor_op(ctx: KernelContext, handle: Any, *, dtype: Any) -> Any:
    """What handle [] stands for.  Raises InvalidArgument if there is no such tensor, or it is of another dtype."""
    value = _store(ctx).value(_text(handle))
    if value.dtype != dtype.np:
        raise errors.invalid_argument(
            f"the tensor with handle {_text(handle)!r} is {value.dtype}, and {dtype.name} was asked for"
        )
    view = value.view()
    view.flags.writeable = False
    return view


@op(
    "DeleteSessionTensor",
    inputs="handle: string",
    traits={STATEFUL},
    differentiable=False,
)
def delete_session_tensor_op(ctx: KernelContext, handle: Any) -> None:
    """Forget what handle [] stands for.  Raises InvalidArgument if there is no such tensor."""
    _store(ctx).delete(_text(handle))
