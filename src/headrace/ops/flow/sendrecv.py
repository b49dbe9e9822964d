"""Send and Recv: edges between devices, as the master's partitions carry them.

`_Send` leaves a value in the step's rendezvous; `_Recv` takes it, here or from the task that
produces it.  Those with client_terminated stand for feeds and fetches and never run: the worker
turns them into arguments and results.
Source: TF 1.15 core/kernels/sendrecv_ops.cc
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from headrace.base import dtypes, errors
from headrace.base.traits import MAY_WAIT, RECEIVE, SEND, SNAPSHOTS, STATEFUL, TAKES_REFS
from headrace.graph.registry import OpSpec, op
from headrace.run.exec.kernel import KernelContext, NodeInfo, Runtime
from headrace.run.exec.keys import in_frame, key, task_of
from headrace.run.pending import Pending
from headrace.run.state import handles, variants
from headrace.run.state.resources import Resource
from headrace.run.state.variable import Lease, Variable, release

_ATTRS = (
    "{type}: type; tensor_name: string; send_device: string; send_device_incarnation: int; "
    "recv_device: string; client_terminated: bool = false"
)


Arriving = Callable[[Any, Runtime], Any]


def _known(node: NodeInfo) -> tuple[dict[str, Any], str, Arriving | None]:
    """(the node's attrs, its key outside loops, what makes values of what arrives, if anything): found once."""
    attrs = node.attrs
    known: tuple[dict[str, Any], str, Arriving | None] | None = node.memo.get("rendezvous_key")
    if known is None or known[0] is not attrs:  # plans of one session may use one name for several
        text = key(
            attrs["send_device"].decode(),
            attrs["send_device_incarnation"],
            attrs["recv_device"].decode(),
            attrs["tensor_name"].decode(),
        )
        dtype = attrs.get("tensor_type") or attrs["T"]
        known = node.memo["rendezvous_key"] = (attrs, text, _ARRIVING.get(dtype.base_dtype))
    return known


_ARRIVING: dict[dtypes.DType, Arriving] = {
    dtypes.resource: handles.arriving,
    dtypes.variant: lambda value, _: variants.arriving(value),
}


def _send(ctx: KernelContext, tensor: Any, dead: bool = False) -> None:
    """Leave `tensor` for its receiver: a variable as a copy, or for another task as a lease."""
    if isinstance(tensor, Variable):
        tensor = tensor.lend() if _leaves(ctx, to_client=False) else tensor.snapshot()
    elif isinstance(tensor, Resource) and _leaves(ctx):
        tensor = handles.leaving(tensor, ctx.runtime.device)
    assert ctx.step.rendezvous is not None
    text = _known(ctx.node)[1]
    try:
        ctx.step.rendezvous.send(
            text if ctx.frame is None else in_frame(text, *ctx.frame), tensor, dead
        )
    except BaseException:
        release((tensor,))
        raise


def _leaves(ctx: KernelContext, to_client: bool = True) -> bool:
    """Whether the receiver is a node on another task; `to_client`, where it is the session's client."""
    attrs = ctx.node.attrs
    if attrs["client_terminated"]:
        return to_client
    return task_of(attrs["recv_device"].decode()) != task_of(attrs["send_device"].decode())


def _recv(ctx: KernelContext) -> Pending[Any]:
    """The value, when its sender has left it."""
    assert ctx.step.rendezvous is not None
    _, text, arriving = _known(ctx.node)
    delivery = ctx.step.rendezvous.recv(text if ctx.frame is None else in_frame(text, *ctx.frame))
    if arriving is None:
        return delivery
    return _made_of(delivery, arriving, ctx)


def _made_of(delivery: Pending[Any], arriving: Arriving, ctx: KernelContext) -> Pending[Any]:
    """`delivery`, with what `arriving` makes of the value: of the handle of a resource of this task the resource."""

    gone = errors.cancelled("the receiver gave up")

    def withdraw(_: Pending[Any]) -> bool:
        return delivery.abandon(gone)

    found: Pending[Any] = Pending(delivery.wait_info, withdraw)

    def arrived(_: Pending[Any]) -> None:
        if delivery.error is gone:
            return  # who gives up says so with an error of their own
        try:
            value, dead = delivery.result()
            found.resolve((value if dead else arriving(value, ctx.runtime), dead))
        except errors.OpError as error:
            found.reject(error)

    delivery.on_done(arrived)
    return found


def _value(delivery: Any) -> Any:
    value, _dead = delivery
    return value.detach() if isinstance(value, Lease) else value  # one task under two names


def _register(send: str, recv: str) -> tuple[OpSpec, OpSpec]:
    send_spec = op(
        send,
        inputs="tensor: T",
        attrs=_ATTRS.format(type="T"),
        traits={SEND, STATEFUL, SNAPSHOTS, TAKES_REFS},
    )(_send)
    recv_spec = op(
        recv,
        outputs="tensor: tensor_type",
        attrs=_ATTRS.format(type="tensor_type"),
        traits={RECEIVE, STATEFUL, MAY_WAIT},
    )(_recv)
    recv_spec.finish(_value)
    return send_spec, recv_spec


send_op, recv_op = _register("_Send", "_Recv")
host_send_op, host_recv_op = _register("_HostSend", "_HostRecv")
