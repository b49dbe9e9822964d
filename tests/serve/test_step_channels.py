"""Values of a step on the connection on which its master asked for a partition."""

from __future__ import annotations

import contextlib
import gc
import itertools
import queue
import socket
import threading
import weakref
from collections.abc import Callable, Iterator
from typing import Any, cast

import numpy as np
import pytest

import headrace as tf
from headrace.codec import frames
from headrace.codec.frames import Kind
from headrace.run.exec import program
from headrace.run.scope import Scope
from headrace.run.state.variable import Variable
from headrace.serve.lane import client as lane_client
from headrace.serve.lane import served
from headrace.serve.lane.channels import LaneChannel
from headrace.serve.lane.client import LanePeer
from headrace.serve.lane.socket import LaneSocket
from headrace.serve.lane.wire import NUMBERS
from headrace.serve.rpc import messages as m
from headrace.serve.rpc.brief import decode_sent, encode_sent
from headrace.serve.rpc.methods import RUN_PART, SEND_TENSOR
from headrace.serve.rpc.step_channel import StepChannels
from tests.serve.clusters import Cluster, in_process
from tests.serve.conftest import use_sockets
from tests.support.until import until

TASK = "/job:ps/replica:0/task:0"
WITHIN_S = 60.0


class End(LaneChannel):
    """A channel that hands on what comes, and notes its end."""

    ended = False

    def receive(self) -> None:
        try:
            frame = self._socket.read_available()
            while frame is not None:
                self.take(frame)
                frame = self._socket.read_ahead()
        except EOFError:
            self.ended = True
            raise


@pytest.fixture
def ends() -> Iterator[tuple[End, LaneSocket]]:
    """A channel, and the socket at the other end."""
    ours, theirs = (LaneSocket(sock, 1 << 20) for sock in socket.socketpair())
    yield End(ours), theirs
    ours.close()
    theirs.close()


def value(key: str, content: Any = 1.0) -> m.SendTensorRequest:
    return m.SendTensorRequest(5, key, np.asarray(content))


def sent(theirs: LaneSocket) -> list[str]:
    """The keys that have come so far."""
    found = []
    while (frame := theirs.read_available()) is not None:
        found.append(decode_sent(frame.header, frame.values).rendezvous_key)
    return found


def put(theirs: LaneSocket, request: m.SendTensorRequest) -> None:
    header, values = encode_sent(request)
    theirs.send_frame(Kind.ONE_WAY, NUMBERS[SEND_TENSOR.path], header, values)


def test_a_value_is_sent_at_once_or_held_until_something_else_is(
    ends: tuple[End, LaneSocket],
) -> None:
    ours, theirs = ends
    channels = StepChannels({TASK: ours})
    assert channels.send(TASK, value("a"))
    assert sent(theirs) == ["a"]
    channels.holds = True
    assert channels.send(TASK, value("b"))
    assert sent(theirs) == []
    channels.flush()
    assert sent(theirs) == ["b"]
    channels.send(TASK, value("c"))
    ours._socket.send_frame(Kind.ONE_WAY, NUMBERS[SEND_TENSOR.path], bytes(8) + b"\1\0\0\0\0d")
    assert sent(theirs) == ["c", "d"]


@pytest.mark.parametrize(
    "content", [np.zeros(1 << 15, np.uint16), np.full((), b"x" * (1 << 16), object)]
)
def test_a_large_value_is_left_to_be_pushed(ends: tuple[End, LaneSocket], content: Any) -> None:
    assert not ends[0].send(value("a", content), hold=False)
    assert sent(ends[1]) == []


def test_a_link_takes_no_more_than_the_system_holds_for_a_reader_that_does_not_read(
    ends: tuple[End, LaneSocket],
) -> None:
    ours, theirs = ends
    count = 0
    while ours.send(value(str(count), np.zeros(1000, np.uint8)), hold=False):
        count += 1
    assert 20 < count < 60
    assert len(sent(theirs)) == count
    ours.renew()
    assert ours.send(value("again"), hold=False)


def test_nothing_is_lent_that_a_link_has_no_room_for(
    ends: tuple[End, LaneSocket], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nobody would give it back."""
    ours, _ = ends
    large, lent = np.ones(1 << 16), list[str]()

    def lend(socket: LaneSocket, array: Any) -> frames.ExternalTensor:
        lent.append("once more")
        return frames.ExternalTensor(len(lent), array.dtype, array.shape)

    monkeypatch.setattr(LaneSocket, "lend", lend)
    passed = [ours.send(value("k" * 400, large), hold=True) for _ in range(100)]
    assert True in passed
    assert passed[-1] is False
    assert len(lent) == passed.count(True)
    widest = np.ones((1 << 16, *[1] * 63))
    assert len(b"".join(frames.pack(Kind.ONE_WAY, 1, 0, b"", [lend(ours._socket, widest)]))) < 2048


@pytest.mark.parametrize("hold", [False, True])
@pytest.mark.parametrize("size", [0, 1, 1000, 1 << 15])
def test_what_is_on_its_way_over_a_link_is_counted(
    ends: tuple[End, LaneSocket], hold: bool, size: int
) -> None:
    """Bytes that are held, and bytes in the system: both would be memory of the sender."""
    ours, theirs = ends
    count = 0
    while ours.send(value(str(count), np.zeros(size, np.uint8)), hold):
        count += 1
    held = sum(map(len, ours._socket._held))
    assert bool(held) == hold
    ours.flush()
    under_way = 0
    with contextlib.suppress(BlockingIOError):
        while True:
            under_way += len(theirs._sock.recv(1 << 20, socket.MSG_DONTWAIT))
    assert count >= 1
    assert max(held, under_way) <= 48 << 10


def test_there_is_room_again_for_as_much_as_the_other_side_has_taken(
    ends: tuple[End, LaneSocket],
) -> None:
    ours, theirs = ends
    there = End(theirs)
    large = np.zeros(10_000, np.uint8)
    there.deliver_to(lambda request: None)
    ours.deliver_to(lambda request: None)
    for _ in range(5):
        assert [ours.send(value("a", large), hold=False) for _ in range(5)] == [True] * 4 + [False]
        there.receive()
        assert not ours.send(value("b", large), hold=False)  # nobody has said so yet
        assert there.send(value("back"), hold=False)
        ours.receive()


def test_nothing_goes_to_a_task_without_a_link(ends: tuple[End, LaneSocket]) -> None:
    assert not StepChannels({TASK: ends[0]}).send("/job:ps/replica:0/task:1", value("a"))


def test_what_comes_before_anybody_takes_it_is_kept(ends: tuple[End, LaneSocket]) -> None:
    ours, theirs = ends
    put(theirs, value("a"))
    ours.receive()
    found: list[m.SendTensorRequest] = []
    ours.deliver_to(found.append)
    assert [request.rendezvous_key for request in found] == ["a"]


def test_values_that_come_in_one_piece_with_the_request_are_not_left_lying(
    ends: tuple[End, LaneSocket],
) -> None:
    called, theirs = ends[0]._socket, ends[1]
    theirs.hold(b"".join(frames.pack(Kind.REQUEST, NUMBERS[RUN_PART.path], 0, b"request")))
    put(theirs, value("a"))
    request = called.read(WITHIN_S)
    assert request is not None
    assert request.header == b"request"
    found: list[m.SendTensorRequest] = []
    served._CalledChannel(cast(Any, None), called).deliver_to(found.append)
    assert [request.rendezvous_key for request in found] == ["a"]


def test_a_waiting_step_takes_what_comes_over_its_links(ends: tuple[End, LaneSocket]) -> None:
    ours, theirs = ends
    channels, done = StepChannels({TASK: ours}), queue.SimpleQueue[int]()
    channels.deliver_to(lambda request: done.put(int(request.rendezvous_key)))
    for key in ("3", "4"):
        put(theirs, value(key))
    assert [channels.get(done, WITHIN_S) for _ in range(2)] == [3, 4]


def test_a_waiting_step_is_woken_by_other_threads(ends: tuple[End, LaneSocket]) -> None:
    channels, done = StepChannels({TASK: ends[0]}), queue.SimpleQueue[int]()

    def wake() -> None:
        done.put(7)
        channels.wake()

    for _ in range(50):
        thread = threading.Thread(target=wake)
        thread.start()
        assert channels.get(done, WITHIN_S) == 7
        thread.join()


def test_a_waiting_step_gives_up_in_time(ends: tuple[End, LaneSocket]) -> None:
    with pytest.raises(queue.Empty):
        StepChannels({TASK: ends[0]}).get(queue.SimpleQueue[int](), 0.01)


@pytest.mark.parametrize(
    "frame",
    [
        frames.pack(Kind.REQUEST, NUMBERS[SEND_TENSOR.path], 0, bytes(9)),
        frames.pack(Kind.ONE_WAY, NUMBERS[RUN_PART.path], 0, bytes(9)),
        frames.pack(Kind.ONE_WAY, NUMBERS[SEND_TENSOR.path], 0, bytes(8)),
        frames.pack(Kind.ONE_WAY, NUMBERS[SEND_TENSOR.path], 0, bytes(13)),
        frames.pack(Kind.ONE_WAY, NUMBERS[SEND_TENSOR.path], 0, bytes(13), [np.zeros(1)] * 2),
        frames.pack(Kind.ONE_WAY, NUMBERS[SEND_TENSOR.path], 0, bytes(8) + b"\2" + bytes(4)),
        frames.pack(
            Kind.ONE_WAY, NUMBERS[SEND_TENSOR.path], 0, bytes(9) + b"\1\0\0\0", [np.zeros(1)]
        ),
    ],
)
def test_what_is_no_value_is_refused(ends: tuple[End, LaneSocket], frame: list[Any]) -> None:
    ours, theirs = ends
    theirs.send(frame)
    with pytest.raises(tf.errors.InvalidArgumentError):
        ours.receive()


# -- whole steps ----------------------------------------------------------------------------------


@pytest.fixture(params=["unix", "tcp"])
def cluster(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[Cluster]:
    use_sockets(request.param)(monkeypatch)
    with in_process({"ps": 2, "worker": 1}) as cluster:
        yield cluster


class Values:
    """How those pass that one task sends to another in a step: the keys of what is pushed, and of what links take."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.pushed: list[str] = []
        self.linked: list[str] = []
        tell, send = LanePeer.tell, LaneChannel.send

        def telling(
            peer: LanePeer, method: Any, request: m.SendTensorRequest, scope: Scope
        ) -> bool:
            self.pushed.append(request.rendezvous_key)
            return tell(peer, method, request, scope)

        def sending(channel: LaneChannel, request: m.SendTensorRequest, hold: bool) -> bool:
            taken = send(channel, request, hold)
            self.linked += [request.rendezvous_key] * taken
            return taken

        monkeypatch.setattr(LanePeer, "tell", telling)
        monkeypatch.setattr(LaneChannel, "send", sending)

    def settle(self, steps: Callable[[], object], pushed: bool = False) -> None:
        """Run steps until some are pushed, or none and links take them: tasks learn of each other's lanes, and of sizes
        that come again.
        """

        def as_it_is_to_be() -> bool:
            self.pushed.clear()
            self.linked.clear()
            steps()
            return bool(self.pushed) if pushed else bool(self.linked) and not self.pushed

        until(as_it_is_to_be)


@pytest.fixture
def values(monkeypatch: pytest.MonkeyPatch) -> Values:
    return Values(monkeypatch)


def back_and_forth(elements: int) -> tuple[Any, Any]:
    """A value that goes ps → worker → other ps → worker → ps; and where it begins."""
    fed = tf.placeholder(tf.float32, [elements])
    x = fed
    for device in ("ps/task:0", "worker/task:0", "ps/task:1", "worker/task:0", "ps/task:0"):
        with tf.device(f"/job:{device}"):
            x = x + 1.0
    return fed, x


def test_values_pass_over_links_if_they_are_small_or_memory_is_shared(
    cluster: Cluster, values: Values, request: pytest.FixtureRequest
) -> None:
    shares = request.node.callspec.params["cluster"] == "unix"
    small, large = back_and_forth(10), back_and_forth(100_000)
    with tf.Session(cluster.target("worker:0")) as session:
        for fed, fetch in (small, large):
            content = np.zeros(fed.shape.as_list(), np.float32)

            def run(fed: Any = fed, fetch: Any = fetch, content: Any = content) -> None:
                for number in range(20):
                    assert (session.run(fetch, {fed: content + number}) == number + 5.0).all()

            values.settle(run, pushed=fetch is large[1] and not shares)


def test_variables_pass_over_links_and_what_was_leased_is_given_back(
    cluster: Cluster, values: Values, request: pytest.FixtureRequest
) -> None:
    shares = request.node.callspec.params["cluster"] == "unix"
    with tf.device("/job:ps/task:0"):
        v = tf.Variable(tf.zeros([100_000]), name="v")
        add = v.assign_add(tf.ones([100_000]))
    with tf.device("/job:worker/task:0"):
        total = tf.reduce_max(v) + tf.random_uniform([]) * 0.0
    numbers = itertools.count(1)
    with tf.Session(cluster.target("worker:0")) as session:

        def run() -> None:
            for _ in range(4):
                session.run(add.op)
                assert session.run(total) == next(numbers)

        session.run(v.initializer)
        values.settle(run, pushed=not shares)
        held = cluster.servers["ps:0"].worker.runtime.resources.lookup("", "v", Variable)
        until(lambda: not held._readers)


def test_what_a_step_held_goes_when_it_ends(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Not some time later, when cycles are collected: shared memory that it received would pile up until then."""
    made: list[weakref.ref[Any]] = []

    class Noted(program.Execution):
        def __init__(self, *args: Any) -> None:
            super().__init__(*args)
            made.append(weakref.ref(self))

    monkeypatch.setattr(program, "Execution", Noted)
    fed, fetch = back_and_forth(10)
    with tf.Session(cluster.target("worker:0")) as session:
        gc.disable()
        try:
            for _ in range(3):
                session.run(fetch, {fed: np.zeros(10)})
            assert made
            # A thread that has made a step go on may not have left it yet.
            until(lambda: not any(reference() is not None for reference in made))
        finally:
            gc.enable()


def test_values_of_loops_and_branches_pass_over_links_however_often(
    cluster: Cluster, values: Values
) -> None:
    limit = tf.placeholder(tf.int32, [])

    def body(i: Any) -> Any:
        with tf.device("/job:ps/task:0"):
            return tf.cond(i < 5, lambda: i + 1, lambda: i + 2)

    with tf.device("/job:worker/task:0"):
        count = tf.while_loop(lambda i: i < limit, body, [tf.constant(0)])
    with tf.Session(cluster.target("worker:0")) as session:

        def run() -> None:
            assert session.run(count, {limit: 0}) == 0
            assert session.run(count, {limit: 105}) == 105

        values.settle(run)


def test_more_values_than_a_link_takes_arrive_all_the_same(cluster: Cluster) -> None:
    with tf.device("/job:ps/task:0"):
        ones = [tf.random_uniform([500], 1.0, 1.0) for _ in range(80)]
    with tf.device("/job:worker/task:0"):
        total = tf.add_n([tf.reduce_sum(one) for one in ones]) + tf.random_uniform([]) * 0.0
    with tf.Session(cluster.target("worker:0")) as session:
        for _ in range(5):
            assert session.run(total) == 40_000.0


def test_an_error_of_a_linked_part_ends_the_step_with_its_name(cluster: Cluster) -> None:
    fed, fetch = back_and_forth(2)
    with tf.device("/job:ps/task:1"):
        bad = tf.check_numerics(fetch, "not a number", name="checked")
    with tf.device("/job:worker/task:0"):
        after = bad + fetch
    with tf.Session(cluster.target("worker:0")) as session:
        for _ in range(3):
            with pytest.raises(tf.errors.InvalidArgumentError, match="not a number"):
                session.run(after, {fed: [np.nan, 1.0]})
            assert (session.run(after, {fed: [1.0, 1.0]}) == 12.0).all()


def test_a_linked_step_that_waits_is_ended_by_its_deadline_and_leaves_nothing(
    cluster: Cluster,
) -> None:
    fed, fetch = back_and_forth(1)
    with tf.device("/job:ps/task:1"):
        jobs = tf.FIFOQueue(10, [tf.float32], shapes=[[1]])
        more, size, put = jobs.dequeue() + fetch, jobs.size(), jobs.enqueue([fed])
    with tf.device("/job:worker/task:0"):
        after = more + fetch
    with tf.Session(cluster.target("worker:0")) as session:
        feed = {fed: [0.0]}
        session.run(put, feed)
        assert session.run(after, feed) == 10.0
        for _ in range(2):
            with pytest.raises(tf.errors.DeadlineExceededError):
                session.run(after, feed, options=tf.RunOptions(timeout_in_ms=200))
        session.run(put, feed)
        assert session.run(size) == 1
        assert session.run(after, feed) == 10.0


def test_a_value_that_comes_with_a_reply_before_there_is_a_link_is_not_lost(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The event loop may be the one that reads, when the other side hangs up after its reply."""
    with tf.device("/job:ps/task:0"):
        x = tf.random_uniform([], 1.0, 1.0)
    with tf.device("/job:worker/task:0"):
        y = x + tf.random_uniform([])
    calls: list[Any] = []
    original = lane_client.Call.channel

    def late(call: Any) -> LaneChannel:
        calls.append(call)
        while not call.done:  # as if it had been armed for input
            call.event()
        return original(call)

    with tf.Session(cluster.target("worker:0")) as session:
        session.run(y)
        session.run(y)
        monkeypatch.setattr(lane_client.Call, "channel", late)
        assert 1.0 <= session.run(y, options=tf.RunOptions(timeout_in_ms=20_000)) <= 2.0
    assert calls
