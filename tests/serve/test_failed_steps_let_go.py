"""What a failed step had goes when the step ends, not when the interpreter looks for cycles; what survives a failed
step on purpose, an error say, holds nothing of it.
"""

from __future__ import annotations

import contextlib
import dataclasses
import gc
import os
import tracemalloc
import types
from collections.abc import Iterator
from typing import Any

import pytest

from headrace.base import errors
from headrace.codec.frame_parser import Parser
from headrace.run.pending import Pending
from headrace.run.scope import Scope
from headrace.serve.rpc.limits import LIMITS
from headrace.serve.worker.ended_steps import EndedSteps, over
from tests.serve.clusters import Cluster, in_process
from tests.serve.endings import WITHIN_S, Endings
from tests.serve.failed_steps import (
    HUGE,
    KILL_NOBODY,
    TIMES,
    Has,
    at_rest,
    check,
    client,
    taking_begun,
)  # fmt: skip
from tests.serve.failing_client import KINDS, Program

OF_A_STEP = (types.FrameType, types.TracebackType, Parser)

NEW_SESSIONS = ("closed", "cancelled")  # in every step; sessions are cycles, with their graphs
CLIENTS = 6 * TIMES


@pytest.fixture
def cluster(transport: str) -> Iterator[Cluster]:
    with in_process({"ps": 1, "worker": 1}) as cluster:
        yield cluster


@contextlib.contextmanager
def without_collections() -> Iterator[list[Any]]:
    """What only a collection of cycles would have freed, after the block."""
    garbage: list[Any] = []
    gc.collect()
    gc.disable()
    try:
        yield garbage
        gc.set_debug(gc.DEBUG_SAVEALL)
        gc.collect()
        garbage += gc.garbage
    finally:
        gc.set_debug(0)
        gc.garbage.clear()
        gc.enable()


@pytest.mark.parametrize("kind", KILL_NOBODY)
def test_a_failed_step_leaves_no_cycles(cluster: Cluster, kind: str) -> None:
    program = Program(cluster.target("worker:0"), 1000)
    program.run(program.tripled)
    step = KINDS[kind](program)
    for _ in range(2):
        step()
    with without_collections() as garbage:
        for _ in range(3):
            step()
        at_rest({})
    program.close()
    left = [thing for thing in garbage if isinstance(thing, OF_A_STEP) or raised(thing)]
    if kind not in NEW_SESSIONS:
        left += [thing for thing in garbage if isinstance(thing, (Scope, Pending))]
    assert not left


def raised(thing: object) -> bool:
    """Is it an error that holds where it was raised?"""
    return isinstance(thing, BaseException) and thing.__traceback__ is not None


def test_an_error_that_is_kept_holds_nothing_of_where_it_was_raised() -> None:
    scope, pending = Scope(), Pending[int]()

    def fail() -> None:
        try:
            raise ValueError("first")
        except ValueError as error:
            raise errors.internal("then", node="n") from error

    with pytest.raises(errors.InternalError) as caught:
        fail()
    scope.cancel(caught.value)
    pending.reject(caught.value)
    for again in (scope.check, pending.result, pending.result):
        with pytest.raises(errors.InternalError, match="then") as more:
            again()
        assert more.value is not caught.value
        assert more.value.node == "n"
        assert str(more.value.__cause__) == "ValueError: first"
    for detached in (scope.error, pending.error):
        while detached is not None:
            assert detached.__traceback__ is None
            assert detached.__context__ is None
            detached = detached.__cause__


def test_of_steps_that_have_ended_the_last_are_remembered_and_for_fewer_why() -> None:
    ended = EndedSteps()
    for step in range(10_000):
        ended.add(step, errors.internal("x" * 100_000) if step % 2 else None)
    assert 9_999 in ended
    assert 10 not in ended
    assert isinstance(ended.error(9_999), errors.InternalError)
    assert len(ended.error(9_999).message) < 10_000
    assert isinstance(ended.error(9_998), errors.AbortedError)
    assert ended.error(9_001).message == over(9_001).message  # why is not known any more
    ended.add(9_998, errors.internal("late"))
    assert isinstance(ended.error(9_998), errors.AbortedError)


@contextlib.contextmanager
def traced_memory() -> Iterator[None]:
    """Arrays and objects are counted."""
    tracemalloc.start()
    try:
        yield
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("transport", ["unix", "tcp", "grpc"], indirect=True)
def test_nobody_keeps_anything_of_clients_that_are_killed(
    transport: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(LIMITS, "close_within_s", WITHIN_S)
    endings = Endings(monkeypatch)
    samples: list[Has] = []
    with traced_memory(), in_process({"ps": 1, "worker": 1}) as cluster:
        target = cluster.target("worker:0")
        with taking_begun(target) as wait_for_a_step:
            for _ in range(CLIENTS):
                monkeypatch.setattr(LIMITS, "client_gone_after_s", WITHIN_S)
                with client(target, "blocked", HUGE, 1):
                    wait_for_a_step()
                    for _ in range(1 if samples else 2):  # at first, of this process too
                        endings.wait_for_keep_alive()
                    monkeypatch.setattr(LIMITS, "client_gone_after_s", 0.05)
                assert "its client" in endings.wait()
                gc.collect()  # the session's graph
                has = at_rest({"servers": os.getpid()})["servers"]
                in_use, _ = tracemalloc.get_traced_memory()  # malloc keeps what is free
                samples.append(dataclasses.replace(has, memory_kb=in_use // 1024))
    check("the servers' process", samples)
