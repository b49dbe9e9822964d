"""Bad input: each a typed error that says what to do, over every kind of session, and the session goes on."""

from __future__ import annotations

import re
import socket
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from google.protobuf.message import EncodeError

import headrace as tf
from headrace.codec import protos as pb
from headrace.run.scope import Scope
from headrace.serve.connect.peers import connect
from headrace.serve.rpc import encoding, methods
from headrace.serve.rpc.pool import GrowingPool
from tests.serve.clusters import Cluster, addresses, in_process
from tests.serve.conftest import TRANSPORTS
from tests.support.limits import LIMITS_MS

KINDS = ["local", *TRANSPORTS]


@pytest.fixture(params=KINDS)
def session(
    request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> Iterator[tf.Session]:
    """A local session, or one on a cluster over each transport; it must still work at the end."""
    kind: str = request.param
    if kind == "local":
        with tf.Session() as session:
            yield session
            goes_on(session)
        return
    TRANSPORTS[kind](monkeypatch)
    with (
        in_process({"ps": 1, "worker": 1}) as cluster,
        tf.Session(cluster.target("worker:0")) as session,
    ):
        yield session
        goes_on(session)


def goes_on(session: tf.Session) -> None:
    with session.graph.as_default(), tf.device(None):
        assert session.run(tf.constant(20) + 22) == 42


def test_a_missing_feed(session: tf.Session) -> None:
    x = tf.placeholder(tf.float32, [2], name="x")
    y = x + 1.0
    with pytest.raises(
        tf.errors.InvalidArgumentError, match=r"You must feed a value.*'x'.*float"
    ) as caught:
        session.run(y)
    assert caught.value.node == "x"
    assert session.run(y, {x: [1.0, 2.0]}).tolist() == [2.0, 3.0]


FEEDS: list[tuple[str, Any, Any, type[Exception], str]] = [
    ("a word for a number", tf.float32, "word", ValueError, "x:0"),
    ("a fraction for an integer", tf.int32, None, TypeError, "x:0"),
    ("too large a number", tf.int8, 1000, (TypeError, OverflowError), "x:0"),  # type: ignore[list-item]
    (
        "a wrong shape",
        tf.float32,
        [[1.0, 2.0]],
        ValueError,
        r"Cannot feed value of shape \(1, 2\) for Tensor x:0, .*\(2,\)",
    ),
    ("a ragged list", tf.float32, [[1.0], [1.0, 2.0]], ValueError, "x:0"),
    ("a number for a string", tf.string, [1, 2], TypeError, "x:0"),
]


@pytest.mark.parametrize(
    ("kind", "value", "error", "said"), [row[1:] for row in FEEDS], ids=[row[0] for row in FEEDS]
)
def test_a_feed_of_the_wrong_type_or_shape(
    session: tf.Session, kind: Any, value: Any, error: type[Exception], said: str
) -> None:
    x = tf.placeholder(kind, [2], name="x")
    y = tf.identity(x)
    with pytest.raises(error, match=said):
        session.run(y, {x: value})


def test_a_feed_that_is_a_tensor(session: tf.Session) -> None:
    x = tf.placeholder(tf.float32)
    with pytest.raises(TypeError, match=r"session\.run the tensor first"):
        session.run(x + 1.0, {x: tf.constant(1.0)})


def test_a_fetch_from_another_graph(session: tf.Session) -> None:
    with tf.Graph().as_default():
        other = tf.constant(1, name="elsewhere")
    tf.constant(1, name="here")
    with pytest.raises(ValueError, match="elsewhere"):
        session.run(other)


@pytest.mark.parametrize(
    ("fetch", "error"), [("nobody:0", ValueError), (None, TypeError), (3, TypeError)]
)
def test_a_fetch_that_is_none(session: tf.Session, fetch: Any, error: type[Exception]) -> None:
    tf.constant(1)
    with pytest.raises(error, match=r"Argument `fetch`"):
        session.run(fetch)


def test_an_uninitialized_variable(session: tf.Session) -> None:
    v = tf.Variable([1.0], name="weights")
    with pytest.raises(tf.errors.FailedPreconditionError, match=r"weights.*initializer"):
        session.run(v + 1.0)
    session.run(v.initializer)
    assert session.run(v + 1.0).tolist() == [2.0]


def test_a_malformed_csv_line_is_named_by_file_and_line(
    session: tf.Session, tmp_path: Path
) -> None:
    path = tmp_path / "data.csv"
    path.write_text("1,2\n3,oops\n5,6\n")
    names = tf.FIFOQueue(1, [tf.string], [[]])
    fill = names.enqueue([str(path)])
    key, line = tf.TextLineReader().read(names)
    with tf.control_dependencies([key]):
        record = tf.decode_csv(line, [[0], [0]])
    session.run(fill)
    assert session.run([key, record[1]])[1] == 2
    with pytest.raises(tf.errors.InvalidArgumentError, match="oops") as caught:
        session.run([key, record[1]])
    assert f"{path}:2" in str(caught.value)
    assert session.run([key, record[1]])[1] == 6


def test_a_device_that_does_not_exist(session: tf.Session) -> None:
    with tf.device("/job:nobody/task:7"):
        nowhere = tf.constant(1, name="lost")
    with pytest.raises(tf.errors.InvalidArgumentError, match="/job:nobody/task:7") as caught:
        session.run(nowhere)
    assert caught.value.node == "lost"
    assert "/replica:0/task:0/device:CPU:0" in str(caught.value)  # what there is


# -- what only servers are asked ------------------------------------------------------------------


def test_an_unknown_op_in_a_received_graph(cluster: Cluster) -> None:
    pool = GrowingPool("test")
    master = connect(cluster.address("ps:0"), "master", pool)
    worker = connect(cluster.address("ps:0"), "worker", pool)
    bad = pb.GraphDef(node=[pb.NodeDef(name="n", op="NobodyKnowsThis")])
    for peer, method, request in (
        (master, methods.CREATE_SESSION, pb.CreateSessionRequest(graph_def=bad)),
        (worker, methods.REGISTER_GRAPH, pb.RegisterGraphRequest(graph_def=bad)),
    ):
        with pytest.raises(tf.errors.NotFoundError, match=r"NobodyKnowsThis.*'n'"):
            peer.call_now(method, request, Scope(30.0))
    with tf.Session(cluster.target("ps:0")) as session:
        goes_on(session)
    for each in (master, worker):
        each.close()
    pool.shutdown()


GRAPHS = {
    "an input that is not there": pb.NodeDef(name="n", op="Identity", input=["nobody"]),
    "an output that is not there": pb.NodeDef(name="n", op="Identity", input=["n:3"]),
    "an attr that is missing": pb.NodeDef(name="n", op="Placeholder"),
}


@pytest.mark.parametrize("what", GRAPHS)
def test_a_received_graph_with(cluster: Cluster, what: str) -> None:
    pool = GrowingPool("test")
    master = connect(cluster.address("ps:0"), "master", pool)
    request = pb.CreateSessionRequest(graph_def=pb.GraphDef(node=[GRAPHS[what]]))
    with pytest.raises(tf.errors.InvalidArgumentError, match=r"'n'|through n"):
        master.call_now(methods.CREATE_SESSION, request, Scope(30.0))
    with tf.Session(cluster.target("ps:0")) as session:
        goes_on(session)
    master.close()
    pool.shutdown()


def test_bytes_that_are_no_message_are_refused_and_the_server_goes_on(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    from headrace.serve.grpc.grpcio import grpc

    TRANSPORTS["grpc"](monkeypatch)
    with in_process({"local": 1}) as cluster:
        with grpc.insecure_channel(cluster.address("local:0")) as channel:
            for method in (*methods.MASTER_METHODS, *methods.WORKER_METHODS):
                with pytest.raises(grpc.RpcError) as caught:
                    channel.unary_unary(method.path)(b"\xff\xff\xff", timeout=30)
                refused = (grpc.StatusCode.INVALID_ARGUMENT, grpc.StatusCode.UNIMPLEMENTED)
                assert caught.value.code() in refused, method.name
            with pytest.raises(grpc.RpcError) as caught:
                channel.unary_unary("/tensorflow.MasterService/Nothing")(b"", timeout=30)
            assert caught.value.code() == grpc.StatusCode.UNIMPLEMENTED
        with tf.Session(cluster.target("local:0")) as session:
            goes_on(session)


# -- targets --------------------------------------------------------------------------------------


def unanswered(step: Callable[[tf.ConfigProto], object]) -> str:
    """step(config) finds no server within its limit; what it says when that was long enough to look for one."""
    for limit_ms in LIMITS_MS[1:]:
        began = time.monotonic()
        try:
            step(tf.ConfigProto(operation_timeout_in_ms=limit_ms))
        except tf.errors.UnavailableError as error:
            assert time.monotonic() - began < limit_ms / 1000 + 30
            return str(error)
        except tf.errors.DeadlineExceededError:
            continue  # the machine was too busy to look
        raise AssertionError("somebody has answered")
    raise AssertionError("nobody has looked for the server")


def test_a_target_where_nobody_listens_is_named_within_the_deadline() -> None:
    (address,) = addresses({"local": 1})["local"]
    one = tf.constant(1)

    def run(config: tf.ConfigProto) -> None:
        with tf.Session(f"grpc://{address}", config=config) as session:
            session.run(one)

    assert re.search(f"{address}.*check the address", unanswered(run))
    reset = partial(tf.Session.reset, f"grpc://{address}")
    assert address in unanswered(lambda config: reset(config=config))


def test_a_target_that_accepts_and_never_answers_is_named_within_the_deadline() -> None:
    one = tf.constant(1)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        address = f"127.0.0.1:{silent.getsockname()[1]}"

        def run(config: tf.ConfigProto) -> None:
            with tf.Session(f"grpc://{address}", config=config) as session:
                session.run(one)

        assert address in unanswered(run)


def test_without_a_deadline_the_connect_timeout_holds(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HEADRACE_CONNECT_TIMEOUT_S", "0.1")
    (address,) = addresses({"local": 1})["local"]
    one = tf.constant(1)
    with (
        tf.Session(f"grpc://{address}") as session,
        pytest.raises(tf.errors.UnavailableError, match=address),
    ):
        session.run(one)


def test_a_server_that_comes_up_later_is_used(monkeypatch: pytest.MonkeyPatch) -> None:
    TRANSPORTS["grpc"](monkeypatch)
    spec = addresses({"local": 1})
    one = tf.constant(1)
    with tf.Session(f"grpc://{spec['local'][0]}") as session:

        def run(config: tf.ConfigProto) -> None:
            limited = tf.RunOptions(timeout_in_ms=config.operation_timeout_in_ms)
            session.run(one, options=limited)

        assert spec["local"][0] in unanswered(run)
        with tf.train.Server(spec):
            assert session.run(one, options=tf.RunOptions(timeout_in_ms=60_000)) == 1
            session.close()


@pytest.mark.parametrize("target", ["localhost:2222", "http://localhost:2222"])
def test_a_target_that_is_none(target: str) -> None:
    with pytest.raises(tf.errors.NotFoundError, match="grpc://host:port"):
        tf.Session(target).run(tf.constant(1))


@pytest.mark.parametrize("address", ["", "nowhere"])
def test_a_target_that_lacks_the_port(address: str) -> None:
    with pytest.raises(tf.errors.InvalidArgumentError, match=f'"{address}" as a host-port pair'):
        tf.Session(f"grpc://{address}").run(tf.constant(1))


def test_a_fetched_array_of_numpy_is_what_it_says(session: tf.Session) -> None:
    value = session.run(tf.constant([1.5], tf.float64))
    assert isinstance(value, np.ndarray)
    assert value.dtype == np.float64


def test_a_tensor_too_large_for_a_message_says_what_can_carry_it() -> None:
    """Before anything of it is copied: this one has no memory of its own."""
    large = np.broadcast_to(np.float32(1.0), (1 << 29,))
    with pytest.raises(tf.errors.ResourceExhaustedError, match=r"2147483648 bytes.*the lane"):
        encoding.INLINE.put(large, pb.TensorProto())
    encoding.INLINE.put(large[:10], pb.TensorProto())


def test_a_message_too_large_is_a_typed_error() -> None:
    """Of several tensors, or of a graph."""

    class TooLarge:
        DESCRIPTOR = pb.RunStepRequest.DESCRIPTOR

        def SerializeToString(self) -> bytes:
            raise EncodeError("Failed to serialize proto")

    with pytest.raises(tf.errors.ResourceExhaustedError, match=r"a RunStepRequest message.*2 GiB"):
        methods.CREATE_SESSION.encode_request(TooLarge(), encoding.INLINE)
