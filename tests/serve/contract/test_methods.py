"""Every method of both services, asked through a Peer, over every transport."""

from __future__ import annotations

import os
import re
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import headrace as tf
from headrace.base import errors
from headrace.codec import protos as pb
from headrace.library.functions.calls import If, partitioned_call
from headrace.library.functions.defun import Defun
from headrace.run.exec.keys import key
from headrace.run.scope import Scope
from headrace.serve.connect.peers import connect
from headrace.serve.connect.routed import RoutedPeer
from headrace.serve.master.session_reaper import SessionReaper
from headrace.serve.rpc import messages as m
from headrace.serve.rpc import methods
from headrace.serve.rpc.limits import LIMITS
from headrace.serve.rpc.peer import Peer
from headrace.serve.rpc.pool import GrowingPool
from headrace.serve.rpc.status import ForgottenStepError, RestartedError
from headrace.serve.worker.worker import Worker
from tests.serve.clusters import Cluster
from tests.support.limits import LIMITS_MS
from tests.support.until import until

DEVICE = "/job:ps/replica:0/task:0/device:CPU:0"


class Asker:
    """Calls methods of one task's services."""

    def __init__(self, cluster: Cluster, task: str, pool: GrowingPool) -> None:
        self.master = connect(cluster.address(task), "master", pool, task)
        self.worker = connect(cluster.address(task), "worker", pool, task)
        for peer in (self.master, self.worker):
            if isinstance(peer, RoutedPeer):  # which learns of a lane by that
                peer.call_now(methods.GET_STATUS, pb.GetStatusRequest(), Scope(30.0))

    def __call__(self, method: methods.Method, request: Any, **scope: Any) -> Any:
        peer: Peer = self.master if method in methods.MASTER_METHODS else self.worker
        return peer.call_now(method, request, Scope(scope.get("timeout_s", 30.0)))


@pytest.fixture
def ask(cluster: Cluster) -> Iterator[Asker]:
    """ask(method, request) is the reply of ps:0."""
    pool = GrowingPool("test")
    asker = Asker(cluster, "ps:0", pool)
    yield asker
    asker.master.close()
    asker.worker.close()
    pool.shutdown()


def new_session(ask: Asker, graph: tf.Graph) -> tuple[str, int]:
    reply = ask(methods.CREATE_SESSION, pb.CreateSessionRequest(graph_def=graph.as_graph_def()))
    return reply.session_handle, reply.graph_version


def run(ask: Asker, handle: str, *fetches: str, **feeds: Any) -> list[Any]:
    sent = [(name, np.asarray(value, np.float32)) for name, value in feeds.items()]
    reply = ask(methods.RUN_STEP, m.RunStepRequest(handle, sent, list(fetches), []))
    assert [name for name, _ in reply.tensors] == list(fetches)
    return [value for _, value in reply.tensors]


def part(*nodes: pb.NodeDef) -> pb.RegisterGraphRequest:
    return pb.RegisterGraphRequest(session_handle="s", graph_def=pb.GraphDef(node=nodes))


def transfer(op: str, name: str, *inputs: str, client: bool) -> pb.NodeDef:
    """A _Send or _Recv of a float under the tensor name `name`."""
    node = pb.NodeDef(name=f"{op}_{name}", op=op, input=inputs, device=DEVICE)
    node.attr["T" if op == "_Send" else "tensor_type"].type = pb.DT_FLOAT
    node.attr["tensor_name"].s = name.encode()
    node.attr["send_device"].s = node.attr["recv_device"].s = DEVICE.encode()
    node.attr["send_device_incarnation"].i = 1
    node.attr["client_terminated"].b = client
    return node


def on_host_memory(request: pb.RegisterGraphRequest) -> pb.RegisterGraphRequest:
    """The partition with _HostSend and _HostRecv, which TensorFlow makes where values are kept off GPUs."""
    for node in request.graph_def.node:
        node.op = node.op.replace("_Send", "_HostSend").replace("_Recv", "_HostRecv")
    return request


def the_key(name: str) -> str:
    return key(DEVICE, 1, DEVICE, name)


def double() -> pb.RegisterGraphRequest:
    """A partition that takes `in` from its caller, gives back the sum, and sends it as `edge`."""
    add = pb.NodeDef(name="add", op="Add", input=["_Recv_in", "_Recv_in"], device=DEVICE)
    add.attr["T"].type = pb.DT_FLOAT
    return part(
        transfer("_Recv", "in", client=True), add, transfer("_Send", "out", "add", client=True),
        transfer("_Send", "edge", "add", client=False),
    )  # fmt: skip


def calling() -> pb.RegisterGraphRequest:
    """As `double`, by a call of a function and a branch, as TensorFlow's masters leave them to workers."""
    with tf.Graph().as_default() as graph:
        twice = Defun(tf.float32, func_name="twice")(lambda x: x + x)
        same = Defun(tf.float32, func_name="same")(lambda x: x)
        (called,) = partitioned_call([tf.constant(0.0, name="x")], twice)
        If(tf.constant(True), [called], same, twice, name="add")
        proto = graph.as_graph_def()
    for node in proto.node:
        node.device = DEVICE
        node.input[:] = ["_Recv_in" if each == "x" else each for each in node.input]
    request = part(
        transfer("_Recv", "in", client=True), *[each for each in proto.node if each.name != "x"],
        transfer("_Send", "out", "add", client=True), transfer("_Send", "edge", "add", client=False),
    )  # fmt: skip
    request.graph_def.library.CopyFrom(proto.library)
    return request


# -- master ---------------------------------------------------------------------------------------


def test_a_step_fetches_by_names_with_or_without_output_numbers(
    ask: Asker, graph: tf.Graph
) -> None:
    x = tf.placeholder(tf.float32, [], name="x")
    tf.add(x, 1.0, name="y")
    handle, _ = new_session(ask, graph)
    assert run(ask, handle, "y", "y:0", x=2.0) == [3.0, 3.0]
    assert run(ask, handle, "y:0", **{"x:0": 3.0}) == [4.0]


def test_extending_needs_the_current_version(ask: Asker, graph: tf.Graph) -> None:
    tf.constant(1.0, name="a")
    handle, version = new_session(ask, graph)
    with tf.Graph().as_default() as more:
        tf.constant(2.0, name="b")
    extension = pb.ExtendSessionRequest(
        session_handle=handle, graph_def=more.as_graph_def(), current_graph_version=version
    )
    newer = ask(methods.EXTEND_SESSION, extension).new_graph_version
    assert newer > version
    assert run(ask, handle, "a", "b") == [1.0, 2.0]
    with pytest.raises(errors.AbortedError, match=f"at version {newer}"):
        ask(methods.EXTEND_SESSION, extension)
    assert run(ask, handle, "b") == [2.0]


def test_an_extension_that_fails_adds_nothing(ask: Asker, graph: tf.Graph) -> None:
    tf.constant(1.0, name="a")
    handle, version = new_session(ask, graph)
    with tf.Graph().as_default() as more:
        tf.constant(2.0, name="b")
    good = more.as_graph_def()
    bad = pb.GraphDef()
    bad.CopyFrom(good)
    bad.node.add(name="c", op="NobodyKnowsThis")

    def extend(graph_def: pb.GraphDef) -> Any:
        return ask(
            methods.EXTEND_SESSION,
            pb.ExtendSessionRequest(
                session_handle=handle, graph_def=graph_def, current_graph_version=version
            ),
        )

    with pytest.raises(errors.NotFoundError, match="NobodyKnowsThis"):
        extend(bad)
    with pytest.raises(errors.NotFoundError, match="'b'"):
        run(ask, handle, "b")
    extend(good)
    assert run(ask, handle, "a", "b") == [1.0, 2.0]


def test_a_closed_session_is_not_known_any_more(ask: Asker, graph: tf.Graph) -> None:
    tf.constant(1.0, name="a")
    handle, _version = new_session(ask, graph)
    closing = pb.CloseSessionRequest(session_handle=handle)
    assert ask(methods.CLOSE_SESSION, closing) == pb.CloseSessionResponse()
    for method, request in [
        (methods.CLOSE_SESSION, closing),
        (methods.RUN_STEP, m.RunStepRequest(handle, [], ["a"], [])),
        (methods.EXTEND_SESSION, pb.ExtendSessionRequest(session_handle=handle)),
        (methods.LIST_DEVICES, pb.ListDevicesRequest(session_handle=handle)),
    ]:
        with pytest.raises(errors.AbortedError, match=handle):
            ask(method, request)


def test_devices_are_listed_without_a_session(ask: Asker) -> None:
    reply = ask(methods.LIST_DEVICES, pb.ListDevicesRequest())
    assert [device.name for device in reply.local_device] == [DEVICE]
    assert len(reply.remote_device) == 2
    assert {device.device_type for device in reply.remote_device} == {"CPU"}
    assert all(device.incarnation for device in reply.remote_device)


def test_reset_reaches_every_task(ask: Asker, cluster: Cluster) -> None:
    assert ask(methods.RESET, pb.ResetRequest(container=["c"])) == pb.ResetResponse()


def sums(graph: tf.Graph) -> None:
    """y = x + 1, z = y * w."""
    x, w = (tf.placeholder(tf.float32, [], name=name) for name in "xw")
    tf.multiply(tf.add(x, 1.0, name="y"), w, name="z")


def piece(ask: Asker, session: str, handle: str, *fetches: str, **feeds: float) -> list[Any]:
    sent = [(name, np.float32(value)) for name, value in feeds.items()]
    request = m.RunStepRequest(session, sent, list(fetches), [], partial_run_handle=handle)
    reply = ask(methods.RUN_STEP, request)
    assert [name for name, _ in reply.tensors] == list(fetches)
    return [value for _, value in reply.tensors]


def test_a_partial_run_is_fed_and_fetched_piece_by_piece(ask: Asker, graph: tf.Graph) -> None:
    sums(graph)
    session, _ = new_session(ask, graph)
    setup = pb.PartialRunSetupRequest(session_handle=session, feed=["x", "w:0"], fetch=["y:0", "z"])
    first = ask(methods.PARTIAL_RUN_SETUP, setup).partial_run_handle
    second = ask(methods.PARTIAL_RUN_SETUP, setup).partial_run_handle
    assert piece(ask, session, first, "y", x=1.0) == [2.0]
    assert piece(ask, session, second, "y:0", x=2.0) == [3.0]
    assert piece(ask, session, first, "z", w=10.0) == [20.0]
    assert piece(ask, session, second, w=10.0) == []
    assert piece(ask, session, second, "z") == [30.0]
    with pytest.raises(errors.InvalidArgumentError, match="partial_run_setup"):
        piece(ask, session, first, "z")


def test_a_callable_is_run_by_number_until_it_is_released(ask: Asker, graph: tf.Graph) -> None:
    sums(graph)
    session, _ = new_session(ask, graph)
    options = pb.CallableOptions(feed=["w", "x:0"], fetch=["z:0", "y", "z"])
    making = pb.MakeCallableRequest(session_handle=session, options=options)
    number = ask(methods.MAKE_CALLABLE, making).handle
    feeds = [np.float32(10.0), np.float32(1.0)]
    running = m.RunCallableRequest(session, number, feeds)
    for _ in range(2):
        reply = ask(methods.RUN_CALLABLE, running)
        assert (reply.fetches, reply.metadata) == ([20.0, 2.0, 20.0], None)
    with pytest.raises(errors.InvalidArgumentError, match="takes 2 feeds, w:0, x:0; 1 were"):
        ask(methods.RUN_CALLABLE, m.RunCallableRequest(session, number, feeds[:1]))
    release = pb.ReleaseCallableRequest(session_handle=session, handle=number)
    assert ask(methods.RELEASE_CALLABLE, release) == pb.ReleaseCallableResponse()
    for method, request in [(methods.RUN_CALLABLE, running), (methods.RELEASE_CALLABLE, release)]:
        with pytest.raises(errors.InvalidArgumentError, match="released"):
            ask(method, request)


def test_a_callable_gives_the_metadata_that_its_options_ask_for(
    ask: Asker, graph: tf.Graph
) -> None:
    sums(graph)
    session, _ = new_session(ask, graph)
    options = pb.CallableOptions(feed=["x"], fetch=["y"])
    options.run_options.output_partition_graphs = True
    options.run_options.trace_level = pb.RunOptions.FULL_TRACE
    making = pb.MakeCallableRequest(session_handle=session, options=options)
    number = ask(methods.MAKE_CALLABLE, making).handle
    metadata = ask(
        methods.RUN_CALLABLE, m.RunCallableRequest(session, number, [np.float32(1)])
    ).metadata
    assert "y" in {node.name for node in metadata.partition_graphs[0].node}
    assert len(metadata.step_stats.dev_stats) == 1


# -- worker ---------------------------------------------------------------------------------------


def test_status_is_the_tasks_device(ask: Asker, cluster: Cluster) -> None:
    (device,) = ask(methods.GET_STATUS, pb.GetStatusRequest()).device_attributes
    assert (device.name, device.device_type) == (DEVICE, "CPU")
    assert device.incarnation == cluster.servers["ps:0"].worker.incarnation


@pytest.mark.parametrize("how", ["plain", "on the host", "by functions"])
def test_a_partition_takes_feeds_gives_fetches_and_sends_edges(ask: Asker, how: str) -> None:
    request = calling() if how == "by functions" else double()
    if how == "on the host":
        request = on_host_memory(request)
    handle = ask(methods.REGISTER_GRAPH, request).graph_handle
    step = 77
    sent = [(the_key("in"), np.float32(3.0))]
    reply = ask(methods.RUN_GRAPH, m.RunGraphRequest(handle, step, sent, [the_key("out")]))
    assert reply.recv == [(the_key("out"), 6.0)]
    edge = m.RecvTensorRequest(step, the_key("edge"))
    received = ask(methods.RECV_TENSOR, edge)
    assert (received.value, received.is_dead) == (6.0, False)
    with pytest.raises(errors.AlreadyExistsError):
        ask(methods.RECV_TENSOR, edge)
    ask(methods.CLEANUP_GRAPH, pb.CleanupGraphRequest(step_id=step))
    with pytest.raises(errors.AbortedError, match="has ended"):
        ask(methods.RECV_TENSOR, edge)


def test_who_asks_before_the_partition_runs_gets_the_value_when_it_does(ask: Asker) -> None:
    handle = ask(methods.REGISTER_GRAPH, double()).graph_handle
    scope = Scope(30.0)
    waiting = ask.worker.call(methods.RECV_TENSOR, m.RecvTensorRequest(5, the_key("edge")), scope)
    ask(methods.RUN_GRAPH, m.RunGraphRequest(handle, 5, [(the_key("in"), np.float32(1))], []))
    assert waiting.wait(scope).value == 2.0


def test_statistics_are_collected_if_asked_for(ask: Asker) -> None:
    handle = ask(methods.REGISTER_GRAPH, double()).graph_handle
    sent = [(the_key("in"), np.float32(3.0))]
    reply = ask(methods.RUN_GRAPH, m.RunGraphRequest(handle, 1, sent, [], record_timeline=True))
    (device,) = reply.step_stats.dev_stats
    assert device.device == DEVICE
    assert "add" in {stats.node_name for stats in device.node_stats}


BAD_RUNS = [
    ({"send": []}, "needs a value for the feed"),
    ({"send": [(the_key("other"), np.float32(1))]}, "no feed with the key"),
    ({"send": [(the_key("in"), np.int32(1))]}, "in is int32, the tensor float32"),
    ({"recv_keys": [the_key("other")]}, "no fetch with the key"),
]


@pytest.mark.parametrize(("change", "said"), BAD_RUNS, ids=[said for _, said in BAD_RUNS])
def test_a_run_that_does_not_fit_its_partition(
    ask: Asker, change: dict[str, Any], said: str
) -> None:
    handle = ask(methods.REGISTER_GRAPH, double()).graph_handle
    given = {"send": [(the_key("in"), np.float32(1))], "recv_keys": [], **change}
    with pytest.raises(errors.InvalidArgumentError, match=said):
        ask(methods.RUN_GRAPH, m.RunGraphRequest(handle, 1, **given))


def test_an_unknown_or_deregistered_partition_cannot_run(ask: Asker) -> None:
    handle = ask(methods.REGISTER_GRAPH, double()).graph_handle
    gone = pb.DeregisterGraphRequest(graph_handle=handle)
    assert ask(methods.DEREGISTER_GRAPH, gone) == pb.DeregisterGraphResponse()
    for method, request in [
        (methods.DEREGISTER_GRAPH, gone),
        (methods.RUN_GRAPH, m.RunGraphRequest(handle, 1, [], [])),
    ]:
        with pytest.raises(errors.AbortedError, match="/job:ps/replica:0/task:0"):
            ask(method, request)


def test_a_value_is_asked_of_the_task_that_sends_it(ask: Asker) -> None:
    elsewhere = key(DEVICE.replace("ps", "worker"), 1, DEVICE, "edge")
    for text in (elsewhere, "not a key"):
        with pytest.raises(errors.InvalidArgumentError):
            ask(methods.RECV_TENSOR, m.RecvTensorRequest(1, text))


def test_cleanup_wakes_those_who_wait_in_the_step(ask: Asker) -> None:
    scope = Scope(30.0)
    edge = m.RecvTensorRequest(9, the_key("edge"))
    waiting = ask.worker.call(methods.RECV_TENSOR, edge, scope)
    ask(methods.CLEANUP_GRAPH, pb.CleanupGraphRequest(step_id=9))
    with pytest.raises(errors.AbortedError, match="step 9 has ended"):
        waiting.wait(scope)


def receiving() -> pb.RegisterGraphRequest:
    """A partition that is sent `edge` by the worker, and fetches it."""
    receive = transfer("_Recv", "edge", client=False)
    receive.attr["send_device"].s = WORKER_DEVICE.encode()
    request = part(receive, transfer("_Send", "out", receive.name, client=True))
    request.headrace_pushed_by.append("/job:worker/replica:0/task:0")
    request.headrace_all_alive = True
    return request


WORKER_DEVICE = DEVICE.replace("ps", "worker")
PUSHED = key(WORKER_DEVICE, 1, DEVICE, "edge")


@pytest.mark.parametrize("host", [False, True])
def test_an_edge_from_another_task_is_received(ask: Asker, cluster: Cluster, host: bool) -> None:
    pool = GrowingPool("test")
    worker = Asker(cluster, "worker:0", pool)
    send = transfer("_Send", "edge", "x", client=False)
    receive = transfer("_Recv", "edge", client=False)
    for node in (send, receive):
        node.attr["send_device"].s = WORKER_DEVICE.encode()
    constant = pb.NodeDef(name="x", op="Const", device=WORKER_DEVICE)
    constant.attr["dtype"].type = pb.DT_FLOAT
    constant.attr["value"].tensor.CopyFrom(tf.make_tensor_proto(5.0))
    sending = part(constant, send)
    taking = part(receive, transfer("_Send", "out", receive.name, client=True))
    for request, asked in ((sending, worker), (taking, ask)):
        handle = asked(
            methods.REGISTER_GRAPH, on_host_memory(request) if host else request
        ).graph_handle
        wanted = [] if asked is worker else [the_key("out")]
        reply = asked(methods.RUN_GRAPH, m.RunGraphRequest(handle, 24, [], wanted))
    assert reply.recv == [(the_key("out"), 5.0)]
    for asked in (worker, ask):
        asked(methods.CLEANUP_GRAPH, pb.CleanupGraphRequest(step_id=24))
    worker.master.close()
    worker.worker.close()
    pool.shutdown()


def test_a_value_may_be_sent_before_its_partition_is_started(ask: Asker) -> None:
    handle = ask(methods.REGISTER_GRAPH, receiving()).graph_handle
    sent = m.SendTensorRequest(21, PUSHED, np.float32(5))
    assert ask(methods.SEND_TENSOR, sent) == pb.SendTensorResponse()
    reply = ask(methods.RUN_GRAPH, m.RunGraphRequest(handle, 21, [], [the_key("out")]))
    assert reply.recv == [(the_key("out"), 5.0)]


def test_a_value_that_is_sent_reaches_the_partition_that_waits_for_it(ask: Asker) -> None:
    handle = ask(methods.REGISTER_GRAPH, receiving()).graph_handle
    running = m.RunGraphRequest(handle, 22, [], [the_key("out")], ends_step=True)
    scope = Scope(30.0)
    waiting = ask.worker.call(methods.RUN_GRAPH, running, scope)
    large = np.full((1000, 100), 7, np.float32)
    request = m.SendTensorRequest(22, PUSHED, large)
    if not ask.worker.tell(methods.SEND_TENSOR, request, scope):
        ask(methods.SEND_TENSOR, request)
    ((_, value),) = waiting.wait(scope).recv
    np.testing.assert_array_equal(value, large)


def test_a_value_for_a_step_that_is_over_is_dropped(ask: Asker, cluster: Cluster) -> None:
    ask(methods.CLEANUP_GRAPH, pb.CleanupGraphRequest(step_id=23))
    ask(methods.SEND_TENSOR, m.SendTensorRequest(23, PUSHED, np.float32(5)))
    assert 23 not in cluster.servers["ps:0"].worker._steps


def test_steps_that_wait_for_what_was_lost_end_and_others_go_on(
    ask: Asker, cluster: Cluster
) -> None:
    handle = ask(methods.REGISTER_GRAPH, receiving()).graph_handle
    scope = Scope(30.0)
    lost, fine = (
        ask.worker.call(
            methods.RUN_GRAPH, m.RunGraphRequest(handle, step, [], [the_key("out")]), scope
        )
        for step in (31, 32)
    )
    source = "/job:worker/replica:0/task:1"
    ask(methods.PUSHES_LOST, pb.PushesLostRequest(source=source, step_id=[31, 33]))
    for wait in (
        lambda: lost.wait(scope),
        lambda: ask(methods.RUN_GRAPH, m.RunGraphRequest(handle, 33, [], [the_key("out")])),
    ):
        with pytest.raises(errors.UnavailableError, match=f"connection from {source}.* broke"):
            wait()
    ask(methods.SEND_TENSOR, m.SendTensorRequest(32, PUSHED, np.float32(5)))
    assert fine.wait(scope).recv == [(the_key("out"), 5.0)]


def test_a_value_is_sent_once(ask: Asker) -> None:
    ask(methods.SEND_TENSOR, m.SendTensorRequest(24, PUSHED, np.float32(5)))
    with pytest.raises(errors.AlreadyExistsError, match="twice"):
        ask(methods.SEND_TENSOR, m.SendTensorRequest(24, PUSHED, np.float32(5)))
    ask(methods.CLEANUP_GRAPH, pb.CleanupGraphRequest(step_id=24))


def test_values_for_steps_that_never_begin_are_forgotten(
    ask: Asker, cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(LIMITS, "unstarted_s", 0.0)
    for step in (25, 26):
        ask(methods.SEND_TENSOR, m.SendTensorRequest(step, PUSHED, np.float32(5)))
    assert list(cluster.servers["ps:0"].worker._steps) == [26]


def test_values_for_steps_that_nobody_has_begun_are_bounded(
    ask: Asker, cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HEADRACE_MAX_UNCLAIMED_BYTES", "10000")
    for step in (41, 42):
        ask(methods.SEND_TENSOR, m.SendTensorRequest(step, PUSHED, np.zeros(1000, np.float32)))
    with pytest.raises(errors.ResourceExhaustedError, match=r"3 steps .* 12000 bytes.*UNCLAIMED"):
        ask(methods.SEND_TENSOR, m.SendTensorRequest(43, PUSHED, np.zeros(1000, np.float32)))
    assert list(cluster.servers["ps:0"].worker._steps) == [41, 42]
    handle = ask(methods.REGISTER_GRAPH, receiving()).graph_handle
    with pytest.raises(errors.ResourceExhaustedError, match="UNCLAIMED"):
        ask(methods.RUN_GRAPH, m.RunGraphRequest(handle, 43, [], [the_key("out")]))
    for step in (41, 42):
        ask(methods.CLEANUP_GRAPH, pb.CleanupGraphRequest(step_id=step))


def test_a_step_is_forgotten_with_its_last_partition_if_that_ends_it(
    ask: Asker, cluster: Cluster
) -> None:
    handle = ask(methods.REGISTER_GRAPH, double()).graph_handle
    sent = [(the_key("in"), np.float32(3.0))]
    ask(methods.RUN_GRAPH, m.RunGraphRequest(handle, 27, sent, [], ends_step=True))
    assert not cluster.servers["ps:0"].worker._steps


def test_who_gives_up_waiting_for_a_step_that_never_comes_leaves_nothing(
    ask: Asker, cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    begun: list[int] = []
    rendezvous = Worker._rendezvous

    def beginning(self: Worker, step_id: int) -> Any:
        found = rendezvous(self, step_id)
        begun.append(step_id)
        return found

    monkeypatch.setattr(Worker, "_rendezvous", beginning)
    for step_id, limit_ms in enumerate(LIMITS_MS, 9):
        waiting = m.RecvTensorRequest(step_id, the_key("edge"))
        with pytest.raises(errors.DeadlineExceededError):
            ask(methods.RECV_TENSOR, waiting, timeout_s=limit_ms / 1000)
        if begun:  # else its time was over before the task had been asked
            break
    assert begun
    until(lambda: not cluster.servers["ps:0"].worker._steps)


def test_cleanup_of_containers(ask: Asker, cluster: Cluster, graph: tf.Graph) -> None:
    with tf.container("c"):
        tf.Variable(1.0, name="v")
    handle, _ = new_session(ask, graph)
    ask(methods.RUN_STEP, m.RunStepRequest(handle, [], [], ["v/Assign"]))
    resources = cluster.servers["ps:0"].worker.runtime.resources
    assert [r.name for r in resources.all()] == ["v"]
    ask(methods.CLEANUP_ALL, pb.CleanupAllRequest(container=["c"]))
    assert resources.all() == []


def test_worker_sessions_come_and_go(ask: Asker) -> None:
    create = pb.CreateWorkerSessionRequest(session_handle="s")
    assert ask(methods.CREATE_WORKER_SESSION, create) == pb.CreateWorkerSessionResponse()
    delete = pb.DeleteWorkerSessionRequest(session_handle="s")
    assert ask(methods.DELETE_WORKER_SESSION, delete) == pb.DeleteWorkerSessionResponse()
    graph = double()
    graph.create_worker_session_called = True
    with pytest.raises(errors.AbortedError, match="'s' is not known"):
        ask(methods.REGISTER_GRAPH, graph)
    ask(methods.CREATE_WORKER_SESSION, create)
    with pytest.raises(errors.AlreadyExistsError):
        ask(methods.CREATE_WORKER_SESSION, create)
    ask(methods.REGISTER_GRAPH, graph)
    with pytest.raises(errors.InvalidArgumentError, match="session_handle"):
        ask(methods.CREATE_WORKER_SESSION, pb.CreateWorkerSessionRequest())
    strange = pb.CreateWorkerSessionRequest(session_handle="t")
    strange.server_def.cluster.job.add(name="ps").tasks[0] = "localhost:1"
    strange.server_def.job_name = "worker"
    with pytest.raises(errors.InvalidArgumentError, match="/job:worker/replica:0/task:0"):
        ask(methods.CREATE_WORKER_SESSION, strange)


def test_a_partition_may_take_its_feeds_and_give_its_fetches_piece_by_piece(ask: Asker) -> None:
    nodes = []
    for name in "ab":
        add = pb.NodeDef(name=f"add_{name}", op="Add", input=[f"_Recv_{name}"] * 2, device=DEVICE)
        add.attr["T"].type = pb.DT_FLOAT
        out = transfer("_Send", f"{name}2", add.name, client=True)
        nodes += [transfer("_Recv", name, client=True), add, out]
    handle = ask(methods.REGISTER_GRAPH, part(*nodes)).graph_handle

    def some(step: int, last: bool, *fetches: str, **feeds: float) -> list[Any]:
        sent = [(the_key(name), np.float32(value)) for name, value in feeds.items()]
        keys = [the_key(name) for name in fetches]
        request = m.RunGraphRequest(
            handle, step, sent, keys, is_partial=True, is_last_partial_run=last
        )
        reply = ask(methods.RUN_GRAPH, request)
        assert [name for name, _ in reply.recv] == keys
        return [value for _, value in reply.recv]

    for step in (11, 12):
        assert some(step, False, "a2", a=1.0) == [2.0]
        assert some(step, False, b=2.0) == []
        assert some(step, True, "b2") == [4.0]
        ask(methods.CLEANUP_GRAPH, pb.CleanupGraphRequest(step_id=step))
    with pytest.raises(errors.AbortedError, match="has ended"):
        some(12, False, "a2")
    assert some(13, False, "a2", a=1.0) == [2.0]
    ask(methods.CLEANUP_GRAPH, pb.CleanupGraphRequest(step_id=13))  # ends what still waits for b


def test_a_partition_is_given_back_if_asked_for(ask: Asker) -> None:
    handle = ask(methods.REGISTER_GRAPH, double()).graph_handle
    sent = [(the_key("in"), np.float32(3.0))]
    request = m.RunGraphRequest(handle, 1, sent, [], record_partition_graphs=True)
    (graph_def,) = ask(methods.RUN_GRAPH, request).partition_graphs
    given = {(node.name, node.op, node.device) for node in graph_def.node}
    assert given == {(node.name, node.op, node.device) for node in double().graph_def.node}


def logged_steps(ask: Asker, request: pb.LoggingRequest) -> dict[int, set[str]]:
    """Names of the nodes of each step that the task tells of."""
    reply = ask(methods.LOGGING, request)
    return {
        step.step_id: {
            node.node_name for device in step.step_stats.dev_stats for node in device.node_stats
        }
        for step in reply.step
    }


def test_a_task_logs_steps_while_it_is_told_to(ask: Asker) -> None:
    handle = ask(methods.REGISTER_GRAPH, double()).graph_handle

    def step(number: int) -> None:
        sent = [(the_key("in"), np.float32(3.0))]
        reply = ask(methods.RUN_GRAPH, m.RunGraphRequest(handle, number, sent, [the_key("out")]))
        assert reply.step_stats is None  # which this caller did not ask for
        ask(methods.CLEANUP_GRAPH, pb.CleanupGraphRequest(step_id=number))

    step(21)
    assert logged_steps(ask, pb.LoggingRequest(enable_rpc_logging=True)) == {}
    for number in (22, 23, 24):
        step(number)
    ask(methods.LOGGING, pb.LoggingRequest(disable_rpc_logging=True))
    step(25)
    found = logged_steps(ask, pb.LoggingRequest(fetch_step_id=[21, 23]))
    assert found.keys() == {23}
    assert "add" in found[23]
    assert logged_steps(ask, pb.LoggingRequest(fetch_step_id=[23])) == {}  # told once
    assert logged_steps(ask, pb.LoggingRequest()).keys() == {22, 24}
    step(26)
    ask(methods.LOGGING, pb.LoggingRequest(enable_rpc_logging=True))
    step(27)
    ask(methods.LOGGING, pb.LoggingRequest(clear=True, disable_rpc_logging=True))
    assert logged_steps(ask, pb.LoggingRequest()) == {}


def test_tracing_logs_steps_for_some_time(ask: Asker) -> None:
    handle = ask(methods.REGISTER_GRAPH, double()).graph_handle
    with pytest.raises(errors.InvalidArgumentError, match="duration"):
        ask(methods.TRACING, pb.TracingRequest())
    ask(methods.TRACING, pb.TracingRequest(options=pb.TraceOpts(duration=600.0)))
    sent = [(the_key("in"), np.float32(3.0))]
    ask(methods.RUN_GRAPH, m.RunGraphRequest(handle, 31, sent, []))
    assert logged_steps(ask, pb.LoggingRequest(fetch_step_id=[31])).keys() == {31}


def test_a_failed_step_is_logged_too(ask: Asker) -> None:
    bad = pb.NodeDef(name="bad", op="MatMul", input=["_Recv_in", "_Recv_in"], device=DEVICE)
    bad.attr["T"].type = pb.DT_FLOAT
    handle = ask(
        methods.REGISTER_GRAPH, part(transfer("_Recv", "in", client=True), bad)
    ).graph_handle
    ask(methods.LOGGING, pb.LoggingRequest(enable_rpc_logging=True))
    with pytest.raises(errors.InvalidArgumentError):
        ask(
            methods.RUN_GRAPH, m.RunGraphRequest(handle, 41, [(the_key("in"), np.float32(3.0))], [])
        )
    assert logged_steps(ask, pb.LoggingRequest()).keys() == {41}


def test_nothing_needs_to_be_told_that_a_value_has_arrived(ask: Asker) -> None:
    request = pb.MarkRecvFinishedRequest(request_id=7)
    assert ask(methods.MARK_RECV_FINISHED, request) == pb.MarkRecvFinishedResponse()


def test_collective_ops_are_refused_with_a_way_out(ask: Asker) -> None:
    def refused(method: methods.Method, request: bytes) -> str:
        with pytest.raises(errors.UnimplementedError, match="on a ps instead") as caught:
            ask(method, request)
        return caught.value.message.split()[0]

    assert refused(methods.RECV_BUF, b"any bytes") == "RecvBuf"
    assert refused(methods.GET_STEP_SEQUENCE, b"") == "GetStepSequence"
    assert refused(methods.COMPLETE_GROUP, b"") == "CompleteGroup"
    assert refused(methods.COMPLETE_INSTANCE, b"") == "CompleteInstance"


def test_a_session_that_ends_takes_its_partitions_with_it(ask: Asker) -> None:
    graph = double()
    graph.create_worker_session_called = True
    ask(methods.CREATE_WORKER_SESSION, pb.CreateWorkerSessionRequest(session_handle="s"))
    handle = ask(methods.REGISTER_GRAPH, graph).graph_handle
    ask(methods.DELETE_WORKER_SESSION, pb.DeleteWorkerSessionRequest(session_handle="s"))
    with pytest.raises(errors.AbortedError, match="not registered"):
        ask(methods.RUN_GRAPH, m.RunGraphRequest(handle, 51, [], []))


def test_a_step_that_has_been_named_is_run_by_number(ask: Asker, graph: tf.Graph) -> None:
    x = tf.placeholder(tf.float32, [], name="x")
    tf.add(x, 1.0, name="y")
    handle, _ = new_session(ask, graph)
    one = [("x:0", np.float32(1))]
    named = m.RunStepRequest(handle, one, ["y:0", "x:0", "y:0"], [])
    number = ask(methods.RUN_STEP, named).signature
    assert ask(methods.RUN_STEP, named).signature == number
    known = m.RunKnownRequest(handle, number, [np.float32(2)])
    assert ask(methods.RUN_KNOWN, known) == [3.0, 2.0, 3.0]


@pytest.mark.parametrize("feeds", [[], [1.0, 2.0]])
def test_a_number_with_too_few_or_too_many_feeds(
    ask: Asker, graph: tf.Graph, feeds: list[float]
) -> None:
    tf.placeholder(tf.float32, [], name="x")
    handle, _ = new_session(ask, graph)
    ask(methods.RUN_STEP, m.RunStepRequest(handle, [("x:0", np.float32(1))], ["x:0"], []))
    values = [np.float32(value) for value in feeds]
    with pytest.raises(errors.InvalidArgumentError, match=f"takes 1 feeds; {len(feeds)} came"):
        ask(methods.RUN_KNOWN, m.RunKnownRequest(handle, 1, values))


def test_a_number_that_stands_for_nothing_any_more(ask: Asker, graph: tf.Graph) -> None:
    handle, _ = new_session(ask, graph)
    with pytest.raises(ForgottenStepError, match="has the number 99 any more"):
        ask(methods.RUN_KNOWN, m.RunKnownRequest(handle, 99, []))


def test_who_attends_a_session_hears_of_its_end(
    ask: Asker, graph: tf.Graph, background: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    original, kept_alive = SessionReaper.keep_alive, threading.Event()

    def noted(session_reaper: SessionReaper, handle: str) -> Any:
        keep_alive = original(session_reaper, handle)
        kept_alive.set()
        return keep_alive

    monkeypatch.setattr(SessionReaper, "keep_alive", noted)
    handle, _ = new_session(ask, graph)
    request = pb.AttendSessionRequest(session_handle=handle)

    def asks() -> Any:
        try:
            return ask(methods.ATTEND_SESSION, request)
        finally:
            kept_alive.set()  # or it failed

    attending = background(asks)
    assert kept_alive.wait(60)
    ask(methods.CLOSE_SESSION, pb.CloseSessionRequest(session_handle=handle))
    reason = attending.value().reason
    assert (reason.code, reason.message) == (errors.CANCELLED, errors.session_closed().message)
    for only_asks in (False, True):
        request.only_asks = only_asks
        with pytest.raises(errors.AbortedError, match="not found"):
            ask(methods.ATTEND_SESSION, request)


def test_who_only_asks_whether_there_is_a_session_is_told_at_once(
    ask: Asker, graph: tf.Graph
) -> None:
    handle, _ = new_session(ask, graph)
    request = pb.AttendSessionRequest(session_handle=handle, only_asks=True)
    assert ask(methods.ATTEND_SESSION, request) == pb.AttendSessionResponse()


def in_order() -> pb.RegisterGraphRequest:
    request = double()
    request.headrace_feed_keys.append(the_key("in"))
    request.headrace_fetch_keys.append(the_key("out"))
    return request


def test_a_partition_is_run_for_the_whole_of_a_step(ask: Asker, cluster: Cluster) -> None:
    handle = ask(methods.REGISTER_GRAPH, in_order()).graph_handle
    reply = ask(methods.RUN_PART, m.RunPartRequest(handle, 31, [np.float32(3)]))
    assert reply == [6.0]
    assert not cluster.servers["ps:0"].worker._steps


def test_a_partition_gets_as_many_feeds_as_it_takes(ask: Asker) -> None:
    handle = ask(methods.REGISTER_GRAPH, in_order()).graph_handle
    with pytest.raises(errors.InvalidArgumentError, match="takes 1 feeds; 2 came"):
        ask(methods.RUN_PART, m.RunPartRequest(handle, 32, [np.float32(3)] * 2))
    with pytest.raises(errors.AbortedError, match="not registered"):
        ask(methods.RUN_PART, m.RunPartRequest("nothing", 33, []))


def test_a_step_is_run_for_the_sessions_client(ask: Asker, cluster: Cluster) -> None:
    handle = ask(methods.REGISTER_GRAPH, in_order()).graph_handle
    assert ask(methods.RUN_PART, m.RunPartRequest(handle, 41, [np.float32(3)], m.DIRECT)) == [6.0]
    ask(methods.LOGGING, pb.LoggingRequest(enable_rpc_logging=True))
    assert ask(methods.RUN_PART, m.RunPartRequest(handle, 42, [np.float32(3)], m.DIRECT)) == [6.0]
    assert logged_steps(ask, pb.LoggingRequest(disable_rpc_logging=True, fetch_step_id=[42]))
    worker = cluster.servers["ps:0"].worker
    assert not worker._steps
    assert not worker._running
    with pytest.raises(errors.InvalidArgumentError, match="takes 1 feeds; 0 came"):
        ask(methods.RUN_PART, m.RunPartRequest(handle, 43, [], m.DIRECT))
    with pytest.raises(ForgottenStepError, match="does not know the step any more"):
        ask(methods.RUN_PART, m.RunPartRequest("nothing", 44, [], m.DIRECT))


def test_a_partition_for_another_start_of_the_task_is_refused(ask: Asker) -> None:
    (device,) = ask(methods.GET_STATUS, pb.GetStatusRequest()).device_attributes
    request = in_order()
    request.headrace_starts["/job:ps/replica:0/task:0"] = device.incarnation
    handle = ask(methods.REGISTER_GRAPH, request).graph_handle
    assert ask(methods.RUN_PART, m.RunPartRequest(handle, 61, [np.float32(3)])) == [6.0]
    request.headrace_starts["/job:ps/replica:0/task:0"] = device.incarnation - 1
    with pytest.raises(errors.AbortedError, match="another start of /job:ps/replica:0/task:0"):
        ask(methods.REGISTER_GRAPH, request)


def test_a_master_says_once_that_a_task_was_restarted_since_a_session_used_it(
    ask: Asker, graph: tf.Graph, cluster: Cluster
) -> None:
    with tf.device("/job:worker/task:1"):
        tf.identity(tf.constant(1.0), name="one")
    making = pb.CreateSessionRequest(graph_def=graph.as_graph_def(), headrace_client="a test")
    handle = ask(methods.CREATE_SESSION, making).session_handle
    task = "/job:worker/replica:0/task:1"
    starts = ask(methods.RUN_STEP, m.RunStepRequest(handle, [], ["one"], [])).starts
    assert list(starts) == [task]
    checking = pb.CheckTasksRequest(session_handle=handle, starts={task: starts[task]})
    assert ask(methods.CHECK_TASKS, checking) == pb.CheckTasksResponse()
    cluster.servers["worker:1"].stop()
    cluster.start("worker:1")
    with pytest.raises(RestartedError, match=f"{task} was restarted") as raised:
        ask(methods.CHECK_TASKS, checking)
    assert raised.value.tasks == (task,)
    assert ask(methods.CHECK_TASKS, checking) == pb.CheckTasksResponse()
    assert run(ask, handle, "one") == [1.0]


def test_a_session_is_told_of_tasks_that_an_earlier_one_of_its_client_has_used(
    ask: Asker, graph: tf.Graph
) -> None:
    with tf.device("/job:worker/task:1"):
        tf.identity(tf.constant(1.0), name="one")
    making = pb.CreateSessionRequest(graph_def=graph.as_graph_def())
    making.headrace_starts["/job:worker/replica:0/task:1"] = 5
    handle = ask(methods.CREATE_SESSION, making).session_handle
    with pytest.raises(RestartedError, match="/job:worker/replica:0/task:1 was restarted"):
        run(ask, handle, "one")
    assert run(ask, handle, "one") == [1.0]


def test_steps_of_a_session_that_ends_are_refused_with_the_reason(ask: Asker) -> None:
    handle = ask(methods.REGISTER_GRAPH, in_order()).graph_handle
    reason = pb.ErrorDetail(code=errors.UNAVAILABLE, message="the server was stopped")
    for session in ("s", "another"):
        ending = pb.EndDirectRequest(session_handle=session, reason=reason)
        assert ask(methods.END_DIRECT, ending) == pb.EndDirectResponse()
    with pytest.raises(errors.UnavailableError, match="the server was stopped"):
        ask(methods.RUN_PART, m.RunPartRequest(handle, 51, [np.float32(3)], m.DIRECT))
    reply = ask(methods.RUN_PART, m.RunPartRequest(handle, 52, [np.float32(3)]))
    assert reply == [6.0]  # their master still may


def test_what_was_given_up_ends_and_is_refused_if_it_comes_later(
    ask: Asker, cluster: Cluster
) -> None:
    handle = ask(methods.REGISTER_GRAPH, receiving()).graph_handle
    scope = Scope(30.0)
    request = m.RunGraphRequest(handle, 61, [], [the_key("out")])
    step = ask.worker.call(methods.RUN_GRAPH, request, scope)
    assert ask(methods.GIVE_UP, pb.GiveUpRequest(call=[1, 2], step=[61])) == pb.GiveUpResponse()
    with pytest.raises(errors.AbortedError, match="61"):
        step.wait(scope)
    calls = cluster.servers["ps:0"].worker.calls
    assert not calls.add(2, lambda: True)  # it comes now
    assert calls.add(3, lambda: True)


def test_what_a_client_gave_up_of_a_task_its_master_tells_the_task(
    ask: Asker, cluster: Cluster, graph: tf.Graph
) -> None:
    tf.constant(1.0, name="c")
    handle, _ = new_session(ask, graph)
    task = "/job:worker/replica:0/task:0"
    telling = pb.GiveUpElsewhereRequest(session_handle=handle, task=task, call=[7])
    assert ask(methods.GIVE_UP_ELSEWHERE, telling) == pb.GiveUpElsewhereResponse()
    assert 7 in cluster.servers["ps:0"].worker.peers.get(task).cancelled_calls.request().call
    telling.session_handle = "none"
    with pytest.raises(errors.AbortedError, match="Session none is not found"):
        ask(methods.GIVE_UP_ELSEWHERE, telling)


def test_a_task_tells_what_it_has(ask: Asker, graph: tf.Graph, cluster: Cluster) -> None:
    with tf.device("/job:ps/task:0"):
        tf.Variable(np.zeros([3, 4], np.float32), name="w")
        with tf.container("inputs"):
            queue = tf.FIFOQueue(7, tf.int32, shapes=[[]], shared_name="numbers")
        filled = queue.enqueue_many([[1, 2, 3]])
    with tf.Session(cluster.target("worker:1")) as session:
        session.run([tf.global_variables_initializer(), filled])
        (task,) = ask(methods.INSPECT_TASK, pb.InspectRequest()).task
        (elsewhere,) = cluster.servers["worker:1"].worker.inspect(pb.InspectRequest(), Scope()).task
    assert task.task == "/job:ps/replica:0/task:0"
    assert task.pid == os.getpid()
    found = {resource.name: resource for resource in task.resource}
    assert (found["w"].kind, found["w"].bytes, found["w"].initialized) == ("Variable", 48, True)
    assert [dim.size for dim in found["w"].shape.dim] == [3, 4]
    numbers = found["numbers"]
    assert (numbers.container, numbers.size, numbers.capacity) == ("inputs", 3, 7)
    assert (numbers.entered, list(numbers.component)) == (3, [pb.DT_INT32])
    assert not task.session
    (theirs,) = elsewhere.session
    assert theirs.client.endswith(f"pid {os.getpid()} on {task.host}")
    assert theirs.nodes == len(graph.get_operations())


def test_a_master_tells_what_every_task_has(ask: Asker, cluster: Cluster) -> None:
    cluster.servers["worker:0"].stop()
    reply = ask(methods.INSPECT_CLUSTER, pb.InspectRequest())
    ps, gone, worker = reply.task
    assert [task.task[5:] for task in reply.task] == [
        "ps/replica:0/task:0", "worker/replica:0/task:0", "worker/replica:0/task:1",
    ]  # fmt: skip
    assert worker.address == cluster.address("worker:1")
    assert not ps.silent
    assert gone.silent.startswith("does not answer: ")
    with pytest.raises(errors.AbortedError, match="Session none is not found"):
        ask(methods.INSPECT_CLUSTER, pb.InspectRequest(session_handle="none"))


def test_every_method_is_asked_here() -> None:
    source = Path(__file__).read_text()
    for method in (*methods.MASTER_METHODS, *methods.WORKER_METHODS):
        constant = re.sub(r"(?<!^)(?=[A-Z])", "_", method.name).upper()
        assert f"ask(methods.{constant}," in source or f"(methods.{constant}," in source, (
            method.name
        )
