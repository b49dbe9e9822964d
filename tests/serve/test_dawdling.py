"""Connections that dawdle, or pass everything in crumbs, cost time and nothing else."""

from __future__ import annotations

import pytest

import headrace as tf
from headrace.codec import protos as pb
from headrace.run.scope import Scope
from headrace.serve.grpc.client import GrpcPeer
from headrace.serve.rpc.methods import GET_STATUS
from tests.serve.broken_steps import STEPS, Program, names_in
from tests.serve.conftest import JOBS, TRANSPORTS
from tests.serve.proxies import Fate, dawdling, proxied


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("transport", ["grpc", "tcp"])
def test_every_step_is_done_over_connections_that_dawdle(
    transport: str, seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    TRANSPORTS[transport](monkeypatch)
    monkeypatch.setenv("HEADRACE_FROZEN_AFTER_S", "0")  # they are slow, on a busy machine very slow
    program = Program()
    with (
        proxied(transport, JOBS, lambda number: dawdling(100 * seed + number)) as cluster,
        tf.Session(cluster.target("worker:0")) as session,
    ):
        session.run(program.init)
        account = program.tried(session)
        assert account.failures == []
        assert account.done == STEPS
        account.check(session, program, names_in(cluster))


def test_a_connection_may_take_its_time_to_come_up(monkeypatch: pytest.MonkeyPatch) -> None:
    """As to a host that is far away, and over TLS, which takes more ways there and back."""
    TRANSPORTS["grpc"](monkeypatch)
    with proxied("grpc", {"local": 1}, lambda number: lambda: Fate(delay_s=0.3)) as cluster:
        peer = GrpcPeer(cluster.address("local:0"))
        scope = Scope(30.0)
        peer.call(GET_STATUS, pb.GetStatusRequest(), scope, wait_for_ready=True).wait(scope)
        peer.close()
