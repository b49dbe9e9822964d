"""Connections that dawdle, or pass everything in crumbs, cost time and nothing else."""

from __future__ import annotations

import pytest

import headrace as tf
from tests.serve.broken_steps import STEPS, Program, names_in
from tests.serve.conftest import JOBS, SHELLS
from tests.serve.proxies import dawdling, proxied


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("shell", ["grpc", "tcp"])
def test_every_step_is_done_over_connections_that_dawdle(
    shell: str, seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    SHELLS[shell](monkeypatch)
    monkeypatch.setenv("HEADRACE_FROZEN_AFTER_S", "0")  # they are slow, on a busy machine very slow
    program = Program()
    with (
        proxied(shell, JOBS, lambda number: dawdling(100 * seed + number)) as cluster,
        tf.Session(cluster.target("worker:0")) as session,
    ):
        session.run(program.init)
        account = program.tried(session)
        assert account.failures == []
        assert account.done == STEPS
        account.check(session, program, names_in(cluster))
