"""The methods of both services: their names on the wire, their bytes, and what transports must know of them.

Adding a method means a row here and a handler of that name in `Master` or `Worker`; transports loop over the table.
Messages without tensors are protobuf messages; the others are converted, by functions above their row.  Where their
tensors go is the transport's choice: into the message (`encoding.INLINE`), or out of band.
Called by: the transports.  Source: TensorFlow's master_service and worker_service (wire facts), field
numbers in codec/protos/service.proto.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Final

from headrace.base import errors
from headrace.codec import protos as pb
from headrace.serve.rpc import brief, status
from headrace.serve.rpc import messages as m
from headrace.serve.rpc.encoding import Tensors, parse, put_named, serialized, unnamed


@dataclass(frozen=True, eq=False)
class Method:
    """A method of a service: `handler` is the name of the method of Master or Worker that serves it.

    error_in_reply: the reply that says an error, if the request wants it there.
    plain: the classes of the messages, where the protobuf ones are handled as they are.
    lasting: its calls last as long as their callers like and return a Pending; a transport keeps no thread for one.
    runs_steps: what was given up of it is kept, and told ahead of the next of these, see serve.rpc.cancelled_calls.
    repeats: a request without feeds is the same object each time, so that its bytes may be kept.
    brief: its messages where tensors go out of band, without protobuf, which would take longer than all the rest.
    binder: the name of the service's function that binds requests that come again, see serve.rpc.again.
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
    runs_steps: bool = False
    repeats: bool = False
    brief: brief.Brief | None = None
    binder: str = ""

    @cached_property
    def path(self) -> str:
        """The gRPC method path."""
        return f"/tensorflow.{self.service}/{self.name}"


_Codecs = tuple[
    Callable[[Any, Tensors], bytes],
    Callable[[bytes, Tensors], Any],
    Callable[[Any, Tensors], bytes],
    Callable[[bytes, Tensors], Any],
]
"""What encodes and decodes a request, and a reply."""


class _Service:
    """The table of a service's methods; each `row` returns what it adds."""

    def __init__(self, name: str) -> None:
        self._name = name
        self.methods: list[Method] = []

    def row(self, name: str, codecs: _Codecs, handler: str = "", **more: Any) -> Method:
        """handler: called as the method, if it does not say."""
        made = Method(self._name, name, handler or _with_underscores(name), *codecs, **more)
        self.methods.append(made)
        return made

    def plain(
        self, name: str, messages: str = "", handler: str = "", lasting: bool = False
    ) -> Method:
        """A method whose messages are the protobuf ones, called as it is, or as `messages`."""
        messages = messages or name
        request, reply = getattr(pb, f"{messages}Request"), getattr(pb, f"{messages}Response")
        codecs = _serialized, _parsed(request), _serialized, _parsed(reply)
        return self.row(name, codecs, handler, plain=(request, reply), lasting=lasting)

    def refused(self, name: str) -> Method:
        """A method whose handler says why there is none; its messages are not read."""
        return self.row(name, (_unread, _unread, _unread, _unread))


def _with_underscores(name: str) -> str:
    return re.sub(r"(?<!^)(?=[A-Z])", "_", name).lower()


def _serialized(message: Any, _: Tensors) -> bytes:
    return serialized(message)


def _parsed(kind: Any) -> Callable[[bytes, Tensors], Any]:
    return lambda data, _: parse(kind, data)


def _unread(data: bytes, _: Tensors) -> bytes:
    return data


_MASTER: Final = _Service("MasterService")
_WORKER: Final = _Service("WorkerService")

CREATE_SESSION: Final = _MASTER.plain("CreateSession")
EXTEND_SESSION: Final = _MASTER.plain("ExtendSession")
PARTIAL_RUN_SETUP: Final = _MASTER.plain("PartialRunSetup")
CLOSE_SESSION: Final = _MASTER.plain("CloseSession")
LIST_DEVICES: Final = _MASTER.plain("ListDevices")
RESET: Final = _MASTER.plain("Reset")
MAKE_CALLABLE: Final = _MASTER.plain("MakeCallable")
RELEASE_CALLABLE: Final = _MASTER.plain("ReleaseCallable")
ATTEND_SESSION: Final = _MASTER.plain("AttendSession", lasting=True)
CHECK_TASKS: Final = _MASTER.plain("CheckTasks")
GIVE_UP_ELSEWHERE: Final = _MASTER.plain("GiveUpElsewhere")
INSPECT_CLUSTER: Final = _MASTER.plain("InspectCluster", "Inspect", "inspect")

GET_STATUS: Final = _WORKER.plain("GetStatus")
CREATE_WORKER_SESSION: Final = _WORKER.plain("CreateWorkerSession")
DELETE_WORKER_SESSION: Final = _WORKER.plain("DeleteWorkerSession")
REGISTER_GRAPH: Final = _WORKER.plain("RegisterGraph")
DEREGISTER_GRAPH: Final = _WORKER.plain("DeregisterGraph")
CLEANUP_GRAPH: Final = _WORKER.plain("CleanupGraph")
CLEANUP_ALL: Final = _WORKER.plain("CleanupAll")
MARK_RECV_FINISHED: Final = _WORKER.plain("MarkRecvFinished")
LOGGING: Final = _WORKER.plain("Logging")
TRACING: Final = _WORKER.plain("Tracing")
PUSHES_LOST: Final = _WORKER.plain("PushesLost")
END_DIRECT: Final = _WORKER.plain("EndDirect")
GIVE_UP: Final = _WORKER.plain("GiveUp")
INSPECT_TASK: Final = _WORKER.plain("InspectTask", "Inspect", "inspect")
RECV_BUF: Final = _WORKER.refused("RecvBuf")
GET_STEP_SEQUENCE: Final = _WORKER.refused("GetStepSequence")
COMPLETE_GROUP: Final = _WORKER.refused("CompleteGroup")
COMPLETE_INSTANCE: Final = _WORKER.refused("CompleteInstance")


# -- methods whose messages carry tensors ------------------------------------------------------------


def _raise_stored(proto: Any) -> None:
    """The error that a RunStep or RunGraph reply carries in its body, if any."""
    if proto.HasField("headrace_error"):
        raise status.from_detail(proto.headrace_error)
    if proto.status_code:
        raise status.from_text(proto.status_code, proto.status_error_message)


def _encode_run_step(r: m.RunStepRequest, t: Tensors) -> bytes:
    proto = pb.RunStepRequest(
        session_handle=r.session_handle,
        fetch=r.fetches,
        target=r.targets,
        partial_run_handle=r.partial_run_handle,
        request_id=r.request_id,
        store_errors_in_response_body=r.store_errors_in_response_body,
    )
    put_named(r.feeds, proto.feed, t)
    if r.options is not None:
        proto.options.CopyFrom(r.options)
    return serialized(proto)


def _decode_run_step(data: bytes, t: Tensors) -> m.RunStepRequest:
    proto = parse(pb.RunStepRequest, data)
    return m.RunStepRequest(
        proto.session_handle,
        unnamed(proto.feed, t),
        list(proto.fetch),
        list(proto.target),
        proto.options if proto.HasField("options") else None,
        proto.partial_run_handle,
        proto.store_errors_in_response_body,
        proto.request_id,
        takes_leases=True,
    )


def _encode_run_step_reply(r: m.RunStepReply, t: Tensors) -> bytes:
    proto = pb.RunStepResponse(headrace_signature=r.signature, headrace_starts=r.starts)
    put_named(r.tensors, proto.tensor, t)
    if r.metadata is not None:
        proto.metadata.CopyFrom(r.metadata)
    if r.direct is not None:
        proto.headrace_direct.CopyFrom(r.direct)
    return serialized(proto)


def _decode_run_step_reply(data: bytes, t: Tensors) -> m.RunStepReply:
    proto = parse(pb.RunStepResponse, data)
    _raise_stored(proto)
    # Fetched arrays are the caller's own and writable, so these are copied out of the message.
    values = unnamed(proto.tensor, t, writable=True)
    metadata = proto.metadata if proto.HasField("metadata") else None
    direct = proto.headrace_direct if proto.HasField("headrace_direct") else None
    starts = dict(proto.headrace_starts)
    return m.RunStepReply(values, metadata, proto.headrace_signature, direct, starts)


def _stored(error: errors.OpError) -> dict[str, Any]:
    """The fields of a response that say how a step failed."""
    return {
        "status_code": error.error_code,
        "status_error_message": status.text_of(error),
        "headrace_error": status.to_detail(error),
    }


def _run_step_error(error: errors.OpError) -> bytes:
    return serialized(pb.RunStepResponse(**_stored(error)))


RUN_STEP: Final = _MASTER.row(
    "RunStep",
    (_encode_run_step, _decode_run_step, _encode_run_step_reply, _decode_run_step_reply),
    error_in_reply=_run_step_error,
    runs_steps=True,
)


def _encode_run_graph(r: m.RunGraphRequest, t: Tensors) -> bytes:
    proto = pb.RunGraphRequest(
        graph_handle=r.graph_handle,
        step_id=r.step_id,
        recv_key=r.recv_keys,
        session_handle=r.session_handle,
        exec_opts=pb.ExecutorOpts(
            record_timeline=r.record_timeline, record_partition_graphs=r.record_partition_graphs
        ),
        create_worker_session_called=r.create_worker_session_called,
        is_partial=r.is_partial,
        is_last_partial_run=r.is_last_partial_run,
        request_id=r.request_id,
        store_errors_in_response_body=r.store_errors_in_response_body,
        headrace_ends_step=r.ends_step,
        headrace_close_reason=r.close_reason,
    )
    put_named(r.send, proto.send, t)
    return serialized(proto)


def _decode_run_graph(data: bytes, t: Tensors) -> m.RunGraphRequest:
    proto = parse(pb.RunGraphRequest, data)
    return m.RunGraphRequest(
        proto.graph_handle,
        proto.step_id,
        unnamed(proto.send, t),
        list(proto.recv_key),
        proto.session_handle,
        proto.exec_opts.record_timeline,
        proto.create_worker_session_called,
        proto.is_partial,
        proto.is_last_partial_run,
        proto.store_errors_in_response_body,
        proto.request_id,
        proto.exec_opts.record_partition_graphs,
        takes_leases=True,
        ends_step=proto.headrace_ends_step,
        close_reason=proto.headrace_close_reason,
    )


def _encode_run_graph_reply(r: m.RunGraphReply, t: Tensors) -> bytes:
    proto = pb.RunGraphResponse(partition_graph=r.partition_graphs)
    put_named(r.recv, proto.recv, t)
    if r.step_stats is not None:
        proto.step_stats.CopyFrom(r.step_stats)
    return serialized(proto)


def _decode_run_graph_reply(data: bytes, t: Tensors) -> m.RunGraphReply:
    proto = parse(pb.RunGraphResponse, data)
    _raise_stored(proto)
    return m.RunGraphReply(
        unnamed(proto.recv, t),
        proto.step_stats if proto.HasField("step_stats") else None,
        proto.partition_graph,
    )


def _run_graph_error(error: errors.OpError) -> bytes:
    return serialized(pb.RunGraphResponse(**_stored(error)))


RUN_GRAPH: Final = _WORKER.row(
    "RunGraph",
    (_encode_run_graph, _decode_run_graph, _encode_run_graph_reply, _decode_run_graph_reply),
    error_in_reply=_run_graph_error,
    runs_steps=True,
)


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


RECV_TENSOR: Final = _WORKER.row(
    "RecvTensor",
    (
        _encode_recv_tensor,
        _decode_recv_tensor,
        _encode_recv_tensor_reply,
        _decode_recv_tensor_reply,
    ),
)


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


SEND_TENSOR: Final = _WORKER.row(
    "SendTensor",
    (_encode_send_tensor, _decode_send_tensor, _serialized, _parsed(pb.SendTensorResponse)),
    brief=brief.SEND_TENSOR,
)


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


RUN_CALLABLE: Final = _MASTER.row(
    "RunCallable",
    (
        _encode_run_callable,
        _decode_run_callable,
        _encode_run_callable_reply,
        _decode_run_callable_reply,
    ),
    runs_steps=True,
)


def _encode_brief(handle: str, number: int, feeds: list[Any], t: Tensors, direct: int = 0) -> bytes:
    """direct: in the place of a request's number, which such a request has not."""
    proto = pb.RunCallableRequest(session_handle=handle, handle=number, request_id=direct)
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


def _encode_run_known(r: m.RunKnownRequest, t: Tensors) -> bytes:
    return _encode_brief(r.session_handle, r.signature, r.feeds, t)


def _decode_run_known(data: bytes, t: Tensors) -> m.RunKnownRequest:
    return m.RunKnownRequest(*_decode_brief(data, t), takes_leases=True)


RUN_KNOWN: Final = _MASTER.row(
    "RunKnown",
    (_encode_run_known, _decode_run_known, _encode_values, _decode_values),
    brief=brief.RUN_KNOWN,
    runs_steps=True,
    repeats=True,
    binder="bind_known",
)


def _encode_run_part(r: m.RunPartRequest, t: Tensors) -> bytes:
    return _encode_brief(r.graph_handle, r.step_id, r.feeds, t, r.direct)


def _decode_run_part(data: bytes, t: Tensors) -> m.RunPartRequest:
    proto = parse(pb.RunCallableRequest, data)
    feeds = t.get(proto.feed)
    return m.RunPartRequest(proto.session_handle, proto.handle, feeds, proto.request_id)


RUN_PART: Final = _WORKER.row(
    "RunPart",
    (_encode_run_part, _decode_run_part, _encode_values, _decode_values),
    brief=brief.RUN_PART,
    runs_steps=True,
    binder="bind_part",
)


MASTER_METHODS: Final = tuple(_MASTER.methods)
WORKER_METHODS: Final = tuple(_WORKER.methods)
