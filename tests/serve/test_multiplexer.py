"""Connections that ask steadily for what is answered at once: one thread reads them while there are several."""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest

import headrace as tf
from headrace.serve.connect import local_servers
from headrace.serve.lane.multiplexer import STEADY, Member, Multiplexer
from headrace.serve.lane.socket import LaneSocket
from headrace.serve.rpc.limits import LIMITS
from tests.serve.clusters import Cluster, in_process
from tests.serve.raw_lane import shell_of

CLIENTS = 4
OFTEN = 10 * STEADY
WITHIN_S = 60.0
ATTEMPTS = 20

pytestmark = pytest.mark.timeout(120)


# -- by itself --------------------------------------------------------------------------------


class Echo(Member):
    """Answers a byte by the same byte, but leaves on `x`."""

    def __init__(self) -> None:
        self.here, self.there = socket.socketpair()
        self.there.settimeout(WITHIN_S)
        self.readers: set[str] = set()
        self.gone_on, self.rested = threading.Event(), threading.Event()

    def fileno(self) -> int:
        return self.here.fileno()

    def answer_available(self) -> bool:
        self.readers.add(threading.current_thread().name)
        data = self.here.recv(1)
        if data in (b"x", b""):
            return False
        self.here.send(data)
        return True

    def answer_due(self) -> bool:
        return True

    def go_on(self) -> None:
        self.gone_on.set()

    def rest(self) -> None:
        self.rested.set()

    def asked(self, data: bytes) -> bytes:
        self.there.send(data)
        return self.there.recv(1)

    def close(self) -> None:
        self.here.close()
        self.there.close()


@pytest.fixture
def echoes(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[Echo]]:
    """Three that do not rest, however late a busy machine asks them."""
    monkeypatch.setattr(LIMITS, "multiplexed_idle_s", WITHIN_S)
    made = [Echo() for _ in range(3)]
    yield made
    for each in made:
        each.close()


def handed_over(together: Multiplexer, members: list[Echo]) -> threading.Thread:
    """The thread that reads them all."""
    for _ in members:
        together.steadies(1)
    assert together.several
    reader = threading.Thread(target=together.take, args=(members[0],), name="reader")
    together_later = members[1:]
    for (
        each
    ) in together_later:  # there before the first is looked at: one alone would be given back
        each.there.send(b"-")
    members[0].there.send(b"-")
    started = threading.Event()
    answer = members[0].answer_available

    def first() -> bool:
        if not started.is_set():
            for each in together_later:
                together.take(each)
            started.set()
        return answer()

    members[0].answer_available = first  # type: ignore[method-assign]
    reader.start()
    assert started.wait(WITHIN_S)
    assert [each.there.recv(1) for each in members] == [b"-"] * len(members)
    return reader


def test_one_thread_answers_all(echoes: list[Echo]) -> None:
    together = Multiplexer()
    reader = handed_over(together, echoes)
    for data in (b"a", b"b"):
        assert [each.asked(data) for each in echoes] == [data] * 3
    assert {name for each in echoes for name in each.readers} == {"reader"}
    for each in echoes[:2]:
        each.there.send(b"x")
        assert each.gone_on.wait(WITHIN_S)
    reader.join(WITHIN_S)
    assert not reader.is_alive()
    assert echoes[2].gone_on.is_set()  # alone, it needs nobody
    assert not together.several


def test_when_nothing_comes_all_rest(echoes: list[Echo], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(LIMITS, "multiplexed_idle_s", 0.01)
    together = Multiplexer()
    reader = handed_over(together, echoes)
    reader.join(WITHIN_S)
    assert all(each.rested.is_set() and not each.gone_on.is_set() for each in echoes)
    assert not together.several


def test_who_is_closed_leaves_and_the_others_stay(echoes: list[Echo]) -> None:
    reader = handed_over(Multiplexer(), echoes)
    echoes[1].there.close()
    assert echoes[1].gone_on.wait(WITHIN_S)
    assert [each.asked(b"a") for each in (echoes[0], echoes[2])] == [b"a"] * 2
    echoes[0].there.close()
    reader.join(WITHIN_S)
    assert not reader.is_alive()


def test_who_does_not_read_its_replies_is_not_waited_for() -> None:
    here, there = socket.socketpair()
    there.settimeout(WITHIN_S)
    request, reply, sent = b"12345678", bytes(range(250)) * 400, 0
    with here, there:
        lane = LaneSocket(here, 1 << 20)
        there.sendall(request)
        while lane.answer_available({b"": lambda data: reply}):
            sent += 1
            there.sendall(request)
        assert sent
        flushing = threading.Thread(target=lane.flush)
        flushing.start()
        left, read = (sent + 1) * len(reply), b""
        while left:
            some = there.recv(left)
            read, left = read + some, left - len(some)
        flushing.join(WITHIN_S)
        assert read == reply * (sent + 1)


# -- in a server ------------------------------------------------------------------------------


@pytest.fixture
def taken(monkeypatch: pytest.MonkeyPatch) -> list[Member]:
    """The connections that were handed over."""
    found: list[Member] = []
    original = Multiplexer.take

    def take(self: Multiplexer, member: Member) -> None:
        found.append(member)
        original(self, member)

    monkeypatch.setattr(Multiplexer, "take", take)
    return found


@pytest.fixture
def cluster(monkeypatch: pytest.MonkeyPatch, taken: list[Member]) -> Iterator[Cluster]:
    monkeypatch.setattr(local_servers, "find", lambda address: None)  # through sockets
    with in_process({"ps": 1, "worker": 1}) as cluster, tf.Graph().as_default():
        yield cluster


def in_threads(*clients: Callable[[], object]) -> None:
    failures: list[BaseException] = []

    def run(client: Callable[[], object]) -> None:
        try:
            client()
        except BaseException as failure:
            failures.append(failure)

    threads = [threading.Thread(target=run, args=(client,)) for client in clients]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if failures:
        raise failures[0]


def until_several(taken: list[Member], client: Callable[[], object]) -> int:
    """Have CLIENTS of them ask until connections were handed over, as they are when several ask at the same time; how
    often that was.  On a busy machine they may ask one after the other, or not steadily.
    """
    for rounds in range(1, ATTEMPTS + 1):
        in_threads(*[client] * CLIENTS)
        if len(set(taken)) > 1:
            return rounds
    raise AssertionError(f"{len(set(taken))} connections were handed over")


def a_variable() -> tuple[tf.Variable, Any]:
    with tf.device("/job:ps/task:0"):
        variable = tf.Variable(0, dtype=tf.int64)
        return variable, variable.assign_add(1)


def test_no_update_of_clients_that_were_handed_over_is_lost(
    cluster: Cluster, taken: list[Member]
) -> None:
    variable, more = a_variable()
    graph, target = tf.get_default_graph(), cluster.target("worker:0")
    together = threading.Barrier(CLIENTS)

    def client() -> None:
        with tf.Session(target, graph=graph) as session:
            together.wait(WITHIN_S)
            last = 0
            for _ in range(OFTEN):
                now = session.run(more)
                assert now > last
                assert session.run(variable) >= now
                last = now

    with tf.Session(target) as session:
        session.run(variable.initializer)
        rounds = until_several(taken, client)
        assert session.run(variable) == rounds * CLIENTS * OFTEN


def test_one_thread_answers_the_steps_of_a_master(cluster: Cluster, taken: list[Member]) -> None:
    variable, more = a_variable()
    with tf.device("/job:ps/task:0"):
        answer = tf.constant([1.5, 2.5])
    graph, target = tf.get_default_graph(), cluster.target("ps:0")
    together = threading.Barrier(CLIENTS)

    def client() -> None:
        with tf.Session(target, graph=graph) as session:
            together.wait(WITHIN_S)
            last = 0
            for _ in range(OFTEN):
                now = session.run(more)
                assert now > last
                assert session.run(variable) >= now
                assert session.run(answer).tolist() == [1.5, 2.5]
                last = now

    with tf.Session(target) as session:
        session.run(variable.initializer)
        rounds = until_several(taken, client)
        assert session.run(variable) == rounds * CLIENTS * OFTEN


def test_what_is_asked_beside_is_answered_too(cluster: Cluster, taken: list[Member]) -> None:
    variable, more = a_variable()
    with tf.device("/job:ps/task:0"):
        fed = tf.placeholder(tf.int64, [])
        product = variable * 0 + fed * 2
    graph, target = tf.get_default_graph(), cluster.target("worker:0")
    together = threading.Barrier(2)

    def client(number: int) -> None:
        with tf.Session(target, graph=graph) as session:
            for turn in range(4):
                together.wait(WITHIN_S)
                for _ in range(2 * STEADY):
                    session.run(more)
                assert session.run(product, {fed: turn + number}) == 2 * (turn + number)

    with tf.Session(target) as session:
        session.run(variable.initializer)
        in_threads(lambda: client(1), lambda: client(10))
        assert session.run(variable) == 2 * 4 * 2 * STEADY


def test_a_server_that_stops_ends_those_that_were_handed_over(
    cluster: Cluster, taken: list[Member]
) -> None:
    variable, more = a_variable()
    graph, target = tf.get_default_graph(), cluster.target("worker:0")
    with tf.Session(target) as session:
        session.run(variable.initializer)
    several = threading.Event()
    multiplexer = shell_of(cluster).multiplexer

    def steps(session: tf.Session) -> None:
        while True:
            session.run(more)
            if len(taken) > 1:
                several.set()

    def client() -> None:
        with tf.Session(target, graph=graph) as session, pytest.raises(tf.errors.OpError):
            steps(session)

    def stop() -> None:
        assert several.wait(WITHIN_S)
        cluster.servers["ps:0"].stop()

    in_threads(client, client, stop)
    assert not multiplexer.several
