"""Connections of gRPC that break, dawdle and pass crumbs at any moment: steps end with an error that names the task,
nothing hangs, and nothing is applied twice.
"""

from __future__ import annotations

import pytest

import headrace as tf
from tests.serve.broken_steps import MOST_BYTES, Program, names_in, seeds
from tests.serve.conftest import TRANSPORTS
from tests.serve.proxies import PROXIED, behind_proxies, seeded


def past_the_proxy(target: str) -> str:
    """The target of the server itself."""
    return target.replace(PROXIED, "127.0.0.1")


@pytest.mark.parametrize("seed", seeds(12))
def test_a_step_whose_connections_break_ends_and_is_not_applied_twice(
    seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    TRANSPORTS["grpc"](monkeypatch)
    program = Program()
    with (
        behind_proxies(
            {"ps": 1, "worker": 2}, lambda number: seeded(100 * seed + number, MOST_BYTES)
        ) as cluster,
        tf.Session(cluster.target("worker:0")) as session,
        tf.Session(past_the_proxy(cluster.target("ps:0"))) as other,
    ):
        other.run(program.init)
        account = program.tried(session)
        account.check(other, program, names_in(cluster))
