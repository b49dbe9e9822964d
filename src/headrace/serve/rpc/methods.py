"""The methods of both services: their names on the wire and their bytes.

A transport loops over the methods; adding one means a row here and a handler of that name in `Master`
or `Worker`.  Messages without tensors are protobuf messages; the others are converted.  Where their
tensors go is the transport's choice: into the message (`INLINE`), or out of band.
Called by: the transports.  Source: TensorFlow's master_service and worker_service (wire facts), field
numbers in codec/protos/service.proto.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Protocol

from google.protobuf.message import DecodeError, EncodeError

from headrace.base import dtypes, errors
from headrace.codec import protos as pb
from headrace.codec import tensors
from headrace.run.state.variable import Lease
from headrace.serve.rpc import messages as m
from headrace.serve.rpc import status

_MOST_INLINE = (1 << 31) - 1
_DIRECT = 1  # in the place of a request's number, which such a request has not


class Tensors(Protocol):
    """Where the tensors of a message are: `put` and `get` are called in the same order."""

    def put(self, value: Any, into: pb.TensorProto) -> None:
        """Send `value`, an array or a Lease of one, for which `into` has a place in the message."""

    def get(self, protos: Sequence[pb.TensorProto], writable: bool = False) -> list[Any]:
        """The values that were put for `protos`.  writable: they are to belong to the caller."""


class _Inline:
    """Tensors in the message itself, as TensorFlow has them."""

    def put(self, value: Any, into: pb.TensorProto) -> None:
        if isinstance(value, Lease):
            value = value.array
        if value.nbytes > _MOST_INLINE:  # found before gigabytes are copied for nothing
            raise _too_large(f"a tensor of {value.nbytes} bytes")
        kind = dtypes.from_numpy(value.dtype)
        if (
            kind is dtypes.string
            and value.ndim == 0
            and isinstance(value[()], pb.ResourceHandleProto)
        ):
            kind = dtypes.resource
        tensors.encode(value, kind, into)

    def get(self, protos: Sequence[pb.TensorProto], writable: bool = False) -> list[Any]:
        return tensors.decode_all(protos, writable=writable)


INLINE: Tensors = _Inline()


@dataclass(frozen=True, eq=False)
class Method:
    """A method of a service: `handler` is the name of the method of Master or Worker that serves it.

    plain: the classes of the messages, where the protobuf ones are handled as they are.
    lasting: its calls last as long as their callers like and return a Pending; a transport keeps no thread for one.
    """

    service: str
    name: str
    handler: str
    encode_request: Callable[[Any, Tensors], bytes]
    decode_request: Callable[[bytes, Tensors], Any]
    encode_reply: Callable[[Any, Tensors], bytes]
    decode_reply: Callable[[bytes, Tensors], Any]
    error_in_reply: Callable[[errors.OpError], bytes] | None = None
    plain: tuple[Any, Any] | None = None
    lasting: bool = False

    @cached_property
    def path(self) -> str:
        """The gRPC method path."""
        return f"/tensorflow.{self.service}/{self.name}"


def _put_named(values: m.Named, into: Any, t: Tensors) -> None:
    for name, value in values:
        t.put(value, into.add(name=name).tensor)


def _unnamed(protos: Any, t: Tensors, writable: bool = False) -> m.Named:
    values = t.get([item.tensor for item in protos], writable)
    return [(item.name, value) for item, value in zip(protos, values, strict=True)]


def parse(kind: Any, data: bytes) -> Any:
    """A protobuf message of that kind.  Raises InvalidArgument."""
    try:
        return kind.FromString(data)
    except DecodeError as error:
        raise errors.invalid_argument(
            f"the bytes are not a {kind.DESCRIPTOR.name} message: {error}"
        ) from None


def serialized(message: Any) -> bytes:
    """Its bytes.  Raises ResourceExhausted for more than protobuf can have."""
    try:
        data: bytes = message.SerializeToString()
    except EncodeError:
        raise _too_large(f"a {message.DESCRIPTOR.name} message") from None
    return data


def _too_large(what: str) -> errors.OpError:
    return errors.resource_exhausted(
        f"{what} has more than the 2 GiB that gRPC and protobuf can carry. Between processes of headrace tensors go "
        "over the lane, which has no such limit (see HEADRACE_LANE); in graphs use variables instead of large constants"
    )


def _encode_run_step(r: m.RunStepRequest, t: Tensors) -> bytes:
    proto = pb.RunStepRequest(
        session_handle=r.session_handle, fetch=r.fetches, target=r.targets,
        partial_run_handle=r.partial_run_handle, request_id=r.request_id,
        store_errors_in_response_body=r.store_errors_in_response_body,
    )  # fmt: skip
    _put_named(r.feeds, proto.feed, t)
    if r.options is not None:
        proto.options.CopyFrom(r.options)
    return serialized(proto)


def _decode_run_step(data: bytes, t: Tensors) -> m.RunStepRequest:
    proto = parse(pb.RunStepRequest, data)
    return m.RunStepRequest(
        proto.session_handle, _unnamed(proto.feed, t), list(proto.fetch), list(proto.target),
        proto.options if proto.HasField("options") else None,
        proto.partial_run_handle, proto.store_errors_in_response_body, proto.request_id,
        takes_leases=True,
    )  # fmt: skip


def _encode_run_step_reply(r: m.RunStepReply, t: Tensors) -> bytes:
    proto = pb.RunStepResponse(headrace_signature=r.signature, headrace_starts=r.starts)
    _put_named(r.tensors, proto.tensor, t)
    if r.metadata is not None:
        proto.metadata.CopyFrom(r.metadata)
    if r.direct is not None:
        proto.headrace_direct.CopyFrom(r.direct)
    return serialized(proto)


def _decode_run_step_reply(data: bytes, t: Tensors) -> m.RunStepReply:
    proto = parse(pb.RunStepResponse, data)
    _raise_stored(proto)
    # Fetched arrays are the caller's own and writable, so these are copied out of the message.
    values = _unnamed(proto.tensor, t, writable=True)
    metadata = proto.metadata if proto.HasField("metadata") else None
    direct = proto.headrace_direct if proto.HasField("headrace_direct") else None
    starts = dict(proto.headrace_starts)
    return m.RunStepReply(values, metadata, proto.headrace_signature, direct, starts)


def _raise_stored(proto: Any) -> None:
    """The error that a RunStep or RunGraph reply carries in its body, if any."""
    if proto.HasField("headrace_error"):
        raise status.from_detail(proto.headrace_error)
    if proto.status_code:
        raise status.from_text(proto.status_code, proto.status_error_message)


def _run_step_error(error: errors.OpError) -> bytes:
    return serialized(pb.RunStepResponse(
        status_code=error.error_code, status_error_message=status.text_of(error),  # type: ignore[arg-type]
        headrace_error=status.to_detail(error),
    ))  # fmt: skip


def _run_graph_error(error: errors.OpError) -> bytes:
    return serialized(pb.RunGraphResponse(
        status_code=error.error_code, status_error_message=status.text_of(error),  # type: ignore[arg-type]
        headrace_error=status.to_detail(error),
    ))  # fmt: skip


def _encode_run_graph(r: m.RunGraphRequest, t: Tensors) -> bytes:
    proto = pb.RunGraphRequest(
        graph_handle=r.graph_handle, step_id=r.step_id, recv_key=r.recv_keys,
        session_handle=r.session_handle,
        exec_opts=pb.ExecutorOpts(
            record_timeline=r.record_timeline, record_partition_graphs=r.record_partition_graphs
        ),
        create_worker_session_called=r.create_worker_session_called, is_partial=r.is_partial,
        is_last_partial_run=r.is_last_partial_run, request_id=r.request_id,
        store_errors_in_response_body=r.store_errors_in_response_body,
        headrace_ends_step=r.ends_step, headrace_close_reason=r.close_reason,
    )  # fmt: skip
    _put_named(r.send, proto.send, t)
    return serialized(proto)


def _decode_run_graph(data: bytes, t: Tensors) -> m.RunGraphRequest:
    proto = parse(pb.RunGraphRequest, data)
    return m.RunGraphRequest(
        proto.graph_handle, proto.step_id, _unnamed(proto.send, t), list(proto.recv_key),
        proto.session_handle, proto.exec_opts.record_timeline, proto.create_worker_session_called,
        proto.is_partial, proto.is_last_partial_run, proto.store_errors_in_response_body, proto.request_id,
        proto.exec_opts.record_partition_graphs, takes_leases=True, ends_step=proto.headrace_ends_step,
        close_reason=proto.headrace_close_reason,
    )  # fmt: skip


def _encode_run_graph_reply(r: m.RunGraphReply, t: Tensors) -> bytes:
    proto = pb.RunGraphResponse(partition_graph=r.partition_graphs)
    _put_named(r.recv, proto.recv, t)
    if r.step_stats is not None:
        proto.step_stats.CopyFrom(r.step_stats)
    return serialized(proto)


def _decode_run_graph_reply(data: bytes, t: Tensors) -> m.RunGraphReply:
    proto = parse(pb.RunGraphResponse, data)
    _raise_stored(proto)
    return m.RunGraphReply(
        _unnamed(proto.recv, t), proto.step_stats if proto.HasField("step_stats") else None,
        proto.partition_graph,
    )  # fmt: skip


def _encode_recv_tensor(r: m.RecvTensorRequest, _: Tensors) -> bytes:
    return serialized(
        pb.RecvTensorRequest(
            step_id=r.step_id, rendezvous_key=r.rendezvous_key, request_id=r.request_id
        )
    )


def _decode_recv_tensor(data: bytes, _: Tensors) -> m.RecvTensorRequest:
    proto = parse(pb.RecvTensorRequest, data)
    return m.RecvTensorRequest(
        proto.step_id, proto.rendezvous_key, proto.request_id, takes_leases=True
    )


def _encode_recv_tensor_reply(r: m.RecvTensorReply, t: Tensors) -> bytes:
    proto = pb.RecvTensorResponse(is_dead=r.is_dead, send_start_micros=r.send_start_micros)
    if r.value is not None:
        t.put(r.value, proto.tensor)
    return serialized(proto)


def _decode_recv_tensor_reply(data: bytes, t: Tensors) -> m.RecvTensorReply:
    proto = parse(pb.RecvTensorResponse, data)
    value = None if proto.is_dead else t.get([proto.tensor])[0]
    return m.RecvTensorReply(value, proto.is_dead, proto.send_start_micros)


def _encode_send_tensor(r: m.SendTensorRequest, t: Tensors) -> bytes:
    proto = pb.SendTensorRequest(
        step_id=r.step_id, rendezvous_key=r.rendezvous_key, is_dead=r.is_dead
    )
    if not r.is_dead:
        t.put(r.value, proto.tensor)
    return serialized(proto)


def _decode_send_tensor(data: bytes, t: Tensors) -> m.SendTensorRequest:
    proto = parse(pb.SendTensorRequest, data)
    value = None if proto.is_dead else t.get([proto.tensor])[0]
    return m.SendTensorRequest(proto.step_id, proto.rendezvous_key, value, proto.is_dead)


def _encode_run_callable(r: m.RunCallableRequest, t: Tensors) -> bytes:
    proto = pb.RunCallableRequest(
        session_handle=r.session_handle, handle=r.handle, request_id=r.request_id
    )
    for value in r.feeds:
        t.put(value, proto.feed.add())
    return serialized(proto)


def _decode_run_callable(data: bytes, t: Tensors) -> m.RunCallableRequest:
    proto = parse(pb.RunCallableRequest, data)
    feeds = t.get(proto.feed)
    return m.RunCallableRequest(
        proto.session_handle, proto.handle, feeds, proto.request_id, takes_leases=True
    )


def _encode_run_callable_reply(r: m.RunCallableReply, t: Tensors) -> bytes:
    proto = pb.RunCallableResponse(headrace_starts=r.starts)
    for value in r.fetches:
        t.put(value, proto.fetch.add())
    if r.metadata is not None:
        proto.metadata.CopyFrom(r.metadata)
    return serialized(proto)


def _decode_run_callable_reply(data: bytes, t: Tensors) -> m.RunCallableReply:
    proto = parse(pb.RunCallableResponse, data)
    return m.RunCallableReply(
        t.get(proto.fetch, writable=True),
        proto.metadata if proto.HasField("metadata") else None,
        dict(proto.headrace_starts),
    )


def _encode_run_known(r: m.RunKnownRequest, t: Tensors) -> bytes:
    return _encode_brief(r.session_handle, r.signature, r.feeds, t)


def _decode_run_known(data: bytes, t: Tensors) -> m.RunKnownRequest:
    return m.RunKnownRequest(*_decode_brief(data, t), takes_leases=True)


def _encode_run_part(r: m.RunPartRequest, t: Tensors) -> bytes:
    return _encode_brief(r.graph_handle, r.step_id, r.feeds, t, r.direct)


def _decode_run_part(data: bytes, t: Tensors) -> m.RunPartRequest:
    proto = parse(pb.RunCallableRequest, data)
    return m.RunPartRequest(
        proto.session_handle, proto.handle, t.get(proto.feed), proto.request_id == _DIRECT
    )


def _encode_brief(
    handle: str, number: int, feeds: list[Any], t: Tensors, direct: bool = False
) -> bytes:
    proto = pb.RunCallableRequest(
        session_handle=handle, handle=number, request_id=_DIRECT if direct else 0
    )
    for value in feeds:
        t.put(value, proto.feed.add())
    return serialized(proto)


def _decode_brief(data: bytes, t: Tensors) -> tuple[str, int, list[Any]]:
    proto = parse(pb.RunCallableRequest, data)
    return proto.session_handle, proto.handle, t.get(proto.feed)


def _encode_values(r: m.ValuesReply, t: Tensors) -> bytes:
    proto = pb.RunCallableResponse()
    for value in r:
        t.put(value, proto.fetch.add())
    return serialized(proto)


def _decode_values(data: bytes, t: Tensors) -> m.ValuesReply:
    return m.ValuesReply(t.get(parse(pb.RunCallableResponse, data).fetch, True))


def _plain(
    service: str, name: str, handler: str, request: Any, reply: Any, lasting: bool = False
) -> Method:
    """A method whose messages are the protobuf ones."""
    return Method(
        service, name, handler,
        lambda message, _: serialized(message), lambda data, _: parse(request, data),
        lambda message, _: serialized(message), lambda data, _: parse(reply, data),
        plain=(request, reply), lasting=lasting,
    )  # fmt: skip


def _unread(data: bytes, _: Tensors) -> bytes:
    """The message of a method that is refused."""
    return data


_MASTER, _WORKER = "MasterService", "WorkerService"

CREATE_SESSION = _plain(
    _MASTER, "CreateSession", "create_session", pb.CreateSessionRequest, pb.CreateSessionResponse
)
EXTEND_SESSION = _plain(
    _MASTER, "ExtendSession", "extend_session", pb.ExtendSessionRequest, pb.ExtendSessionResponse
)
CLOSE_SESSION = _plain(
    _MASTER, "CloseSession", "close_session", pb.CloseSessionRequest, pb.CloseSessionResponse
)
CHECK_TASK = _plain(_MASTER, "CheckTask", "check_task", pb.CheckTaskRequest, pb.CheckTaskResponse)
ATTEND_SESSION = _plain(
    _MASTER, "AttendSession", "attend_session", pb.AttendSessionRequest, pb.AttendSessionResponse,
    lasting=True,
)  # fmt: skip
LIST_DEVICES = _plain(
    _MASTER, "ListDevices", "list_devices", pb.ListDevicesRequest, pb.ListDevicesResponse
)
PARTIAL_RUN_SETUP = _plain(
    _MASTER, "PartialRunSetup", "partial_run_setup",
    pb.PartialRunSetupRequest, pb.PartialRunSetupResponse,
)  # fmt: skip
MAKE_CALLABLE = _plain(
    _MASTER, "MakeCallable", "make_callable", pb.MakeCallableRequest, pb.MakeCallableResponse
)
RUN_CALLABLE = Method(
    _MASTER, "RunCallable", "run_callable", _encode_run_callable, _decode_run_callable,
    _encode_run_callable_reply, _decode_run_callable_reply,
)  # fmt: skip
RELEASE_CALLABLE = _plain(
    _MASTER, "ReleaseCallable", "release_callable",
    pb.ReleaseCallableRequest, pb.ReleaseCallableResponse,
)  # fmt: skip
RESET = _plain(_MASTER, "Reset", "reset", pb.ResetRequest, pb.ResetResponse)
RUN_STEP = Method(
    _MASTER, "RunStep", "run_step", _encode_run_step, _decode_run_step,
    _encode_run_step_reply, _decode_run_step_reply, _run_step_error,
)  # fmt: skip
RUN_KNOWN = Method(
    _MASTER, "RunKnown", "run_known", _encode_run_known, _decode_run_known,
    _encode_values, _decode_values,
)  # fmt: skip
GET_STATUS = _plain(_WORKER, "GetStatus", "get_status", pb.GetStatusRequest, pb.GetStatusResponse)
CREATE_WORKER_SESSION = _plain(
    _WORKER, "CreateWorkerSession", "create_worker_session",
    pb.CreateWorkerSessionRequest, pb.CreateWorkerSessionResponse,
)  # fmt: skip
DELETE_WORKER_SESSION = _plain(
    _WORKER, "DeleteWorkerSession", "delete_worker_session",
    pb.DeleteWorkerSessionRequest, pb.DeleteWorkerSessionResponse,
)  # fmt: skip
REGISTER_GRAPH = _plain(
    _WORKER, "RegisterGraph", "register_graph", pb.RegisterGraphRequest, pb.RegisterGraphResponse
)
DEREGISTER_GRAPH = _plain(
    _WORKER,
    "DeregisterGraph",
    "deregister_graph",
    pb.DeregisterGraphRequest,
    pb.DeregisterGraphResponse,
)
RUN_GRAPH = Method(
    _WORKER, "RunGraph", "run_graph", _encode_run_graph, _decode_run_graph,
    _encode_run_graph_reply, _decode_run_graph_reply, _run_graph_error,
)  # fmt: skip
CLEANUP_GRAPH = _plain(
    _WORKER, "CleanupGraph", "cleanup_graph", pb.CleanupGraphRequest, pb.CleanupGraphResponse
)
CLEANUP_ALL = _plain(
    _WORKER, "CleanupAll", "cleanup_all", pb.CleanupAllRequest, pb.CleanupAllResponse
)
RECV_TENSOR = Method(
    _WORKER, "RecvTensor", "recv_tensor", _encode_recv_tensor, _decode_recv_tensor,
    _encode_recv_tensor_reply, _decode_recv_tensor_reply,
)  # fmt: skip
SEND_TENSOR = Method(
    _WORKER, "SendTensor", "send_tensor", _encode_send_tensor, _decode_send_tensor,
    lambda message, _: serialized(message), lambda data, _: parse(pb.SendTensorResponse, data),
)  # fmt: skip
RUN_PART = Method(
    _WORKER, "RunPart", "run_part", _encode_run_part, _decode_run_part,
    _encode_values, _decode_values,
)  # fmt: skip
END_DIRECT = _plain(_WORKER, "EndDirect", "end_direct", pb.EndDirectRequest, pb.EndDirectResponse)
GIVE_UP = _plain(_WORKER, "GiveUp", "give_up", pb.GiveUpRequest, pb.GiveUpResponse)
GIVE_UP_ELSEWHERE = _plain(
    _MASTER, "GiveUpElsewhere", "give_up_elsewhere",
    pb.GiveUpElsewhereRequest, pb.GiveUpElsewhereResponse,
)  # fmt: skip
PUSHES_LOST = _plain(
    _WORKER, "PushesLost", "pushes_lost", pb.PushesLostRequest, pb.PushesLostResponse
)
MARK_RECV_FINISHED = _plain(
    _WORKER, "MarkRecvFinished", "mark_recv_finished",
    pb.MarkRecvFinishedRequest, pb.MarkRecvFinishedResponse,
)  # fmt: skip
LOGGING = _plain(_WORKER, "Logging", "logging", pb.LoggingRequest, pb.LoggingResponse)
TRACING = _plain(_WORKER, "Tracing", "tracing", pb.TracingRequest, pb.TracingResponse)
RECV_BUF, GET_STEP_SEQUENCE, COMPLETE_GROUP, COMPLETE_INSTANCE = (
    Method(_WORKER, name, handler, _unread, _unread, _unread, _unread)
    for name, handler in (
        ("RecvBuf", "recv_buf"),
        ("GetStepSequence", "get_step_sequence"),
        ("CompleteGroup", "complete_group"),
        ("CompleteInstance", "complete_instance"),
    )
)

INSPECT_CLUSTER, INSPECT_TASK = (
    _plain(service, name, "inspect", pb.InspectRequest, pb.InspectResponse)
    for service, name in ((_MASTER, "InspectCluster"), (_WORKER, "InspectTask"))
)

MASTER_METHODS = (
    CREATE_SESSION, EXTEND_SESSION, PARTIAL_RUN_SETUP, RUN_STEP, CLOSE_SESSION, LIST_DEVICES, RESET,
    MAKE_CALLABLE, RUN_CALLABLE, RELEASE_CALLABLE, RUN_KNOWN, ATTEND_SESSION, INSPECT_CLUSTER,
    CHECK_TASK,
    GIVE_UP_ELSEWHERE,
)  # fmt: skip
WORKER_METHODS = (
    GET_STATUS, CREATE_WORKER_SESSION, DELETE_WORKER_SESSION, REGISTER_GRAPH, DEREGISTER_GRAPH, RUN_GRAPH,
    CLEANUP_GRAPH, CLEANUP_ALL, RECV_TENSOR, MARK_RECV_FINISHED, LOGGING, TRACING, RECV_BUF,
    GET_STEP_SEQUENCE, COMPLETE_GROUP, COMPLETE_INSTANCE, SEND_TENSOR, PUSHES_LOST, RUN_PART, INSPECT_TASK,
    END_DIRECT, GIVE_UP,
)  # fmt: skip
