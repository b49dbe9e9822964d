"""Connections of the lane that break at any moment: calls end with an error that names the peer, nothing hangs, and
nothing is applied twice.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

import numpy as np
import pytest

import headrace as tf
from headrace.base import errors
from headrace.codec import protos as pb
from headrace.run.exec.keys import key
from headrace.run.pending import Pending
from headrace.run.scope import Scope
from headrace.serve.connect.liveness import OutstandingRpcs
from headrace.serve.connect.routed import RoutedPeer
from headrace.serve.lane.client import LanePeer
from headrace.serve.lane.connection import Told
from headrace.serve.rpc import messages as m
from headrace.serve.rpc import methods
from headrace.serve.rpc.security import Security
from tests.serve.broken_steps import HUNG_AFTER_S, MOST_BYTES, Program, names_in, seeds
from tests.serve.clusters import Cluster, in_process
from tests.serve.conftest import TRANSPORTS
from tests.serve.proxies import Fate, before, seeded

PS, WORKER = "/job:ps/replica:0/task:0", "/job:worker/replica:0/task:0"
KEY = key(f"{PS}/device:CPU:0", 1, f"{WORKER}/device:CPU:0", "edge")


@pytest.fixture
def cluster(monkeypatch: pytest.MonkeyPatch) -> Iterator[Cluster]:
    TRANSPORTS["tcp"](monkeypatch)
    with in_process({"ps": 1, "worker": 2}) as cluster:
        yield cluster


@contextmanager
def broken(cluster: Cluster, seed: int) -> Iterator[None]:
    """Connections that are made from now on pass through proxies with fates of their own."""
    with ExitStack() as stack:
        for number, server in enumerate(cluster.servers.values()):
            proxy = stack.enter_context(before(server, seeded(100 * seed + number, MOST_BYTES)))
            proxy.stand_before(server)
        yield


@pytest.mark.parametrize("seed", seeds(24))
def test_a_step_whose_connections_break_ends_and_is_not_applied_twice(
    cluster: Cluster, seed: int
) -> None:
    program = Program()
    with tf.Session(cluster.target("worker:1")) as other:
        other.run(program.init)
        with broken(cluster, seed), tf.Session(cluster.target("worker:0")) as session:
            account = program.tried(session)
        account.check(other, program, names_in(cluster))


# -- what was pushed and may not have arrived -----------------------------------------------------


@pytest.fixture
def lost() -> list[Told]:
    return []


@pytest.fixture
def connect(cluster: Cluster, lost: list[Told]) -> Iterator[Callable[[Fate], LanePeer]]:
    """connect(fate) is a peer for the worker over a proxy; `lost` gets what it reports."""
    with ExitStack() as stack:

        def made(fate: Fate) -> LanePeer:
            server = cluster.servers["worker:0"]
            proxy = stack.enter_context(before(server, lambda: fate))
            proxy.stand_before(server)
            rpcs = OutstandingRpcs(WORKER, pytest.fail)
            stack.callback(rpcs.close)
            peer = LanePeer(
                server.worker.lane,
                "127.0.0.1",
                WORKER,
                1 << 30,
                rpcs,
                Security(),
                lost.append,
            )
            stack.callback(peer.close)
            return peer

        yield made


def pushed(step_id: int, elements: int = 1) -> m.SendTensorRequest:
    return m.SendTensorRequest(step_id, KEY, np.zeros(elements))


def tell(peer: LanePeer, step_id: int, elements: int = 1) -> None:
    peer.tell(methods.SEND_TENSOR, pushed(step_id, elements), Scope(HUNG_AFTER_S))


def ask(peer: LanePeer) -> None:
    peer.call_now(methods.GET_STATUS, pb.GetStatusRequest(), Scope(HUNG_AFTER_S))


def test_pushes_before_a_call_that_was_answered_have_arrived(
    connect: Callable[[Fate], LanePeer], lost: list[Told]
) -> None:
    peer = connect(Fate(cut_up=600))
    for step_id in (1, 2):
        tell(peer, step_id)
    ask(peer)
    tell(peer, 3)
    with pytest.raises(tf.errors.UnavailableError, match=WORKER):
        ask_too_much(peer)
    assert lost == [{3: KEY}]


def test_pushes_over_a_connection_that_broke_are_reported_once(
    connect: Callable[[Fate], LanePeer], lost: list[Told]
) -> None:
    peer = connect(Fate(cut_up=400))
    for step_id in (1, 2):
        tell(peer, step_id)
    with pytest.raises(tf.errors.UnavailableError):
        ask_too_much(peer)
    assert lost == [{1: KEY, 2: KEY}]


def ask_too_much(peer: LanePeer) -> None:
    """A call larger than what passes through."""
    request = m.RunGraphRequest("none", 1, [("x", np.zeros(1000))], [])
    peer.call_now(methods.RUN_GRAPH, request, Scope(HUNG_AFTER_S))


def test_a_push_that_was_cancelled_does_not_cost_the_steps_before_it(
    connect: Callable[[Fate], LanePeer], lost: list[Told]
) -> None:
    peer = connect(Fate())
    tell(peer, 1)
    scope = Scope()
    scope.cancel(errors.cancelled("changed my mind"))
    with pytest.raises(tf.errors.CancelledError):
        peer.call_now(methods.SEND_TENSOR, pushed(2), scope)
    ask(peer)
    assert lost == []


class BreaksOnce:
    """In place of a GrpcPeer: the first call is lost with its connection."""

    def __init__(self) -> None:
        self.requests: list[pb.PushesLostRequest] = []

    def call(self, method: methods.Method, request: Any, scope: Scope, **how: bool) -> Pending[Any]:
        assert method is methods.PUSHES_LOST
        self.requests.append(request)
        if len(self.requests) == 1:
            return Pending.failed_with(errors.unavailable("it broke"))
        return Pending.done_with(pb.PushesLostResponse())

    def close(self) -> None: ...


def test_what_was_lost_is_reported_again_if_the_connection_for_that_breaks_too() -> None:
    """Or the step would wait for ever."""
    peer = RoutedPeer("127.0.0.1:1", WORKER)
    peer._slow.close()
    peer._main_channel = grpc = BreaksOnce()  # type: ignore[assignment]
    peer._lost({1: KEY, 2: KEY})
    peer.close()
    assert [(each.source, list(each.step_id)) for each in grpc.requests] == [(PS, [1, 2])] * 2
