"""Beside: calls made in order by another thread, or by who waits for them."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from functools import partial

import pytest

from headrace.run.exec.beside import Beside
from headrace.run.exec.worker_pool import WorkerPool

WAIT_S = 60.0


@pytest.fixture
def pool() -> Iterator[WorkerPool]:
    found = WorkerPool(2)
    yield found
    found.close()


def test_calls_are_made_in_order_whoever_makes_them(pool: WorkerPool) -> None:
    with pool:
        for _ in range(50):
            made: list[int] = []
            beside = Beside()
            for number in range(100):
                beside.add(partial(made.append, number))
            beside.finish()
            assert made == list(range(100))


def test_another_thread_makes_them_while_this_one_goes_on(pool: WorkerPool) -> None:
    met = threading.Event()
    makers: list[int] = []
    beside = Beside()
    with pool:
        beside.add(lambda: makers.append(threading.get_ident()))
        beside.add(met.set)
        assert met.wait(WAIT_S)
        beside.finish()
    assert makers != [threading.get_ident()]


def test_without_another_thread_a_call_is_made_at_once() -> None:
    made: list[int] = []
    beside = Beside()
    beside.add(lambda: made.append(1))
    assert made == [1]
    with WorkerPool(1):
        beside.add(lambda: made.append(2))
    assert made == [1, 2]


def test_who_waits_makes_what_a_busy_pool_does_not(pool: WorkerPool) -> None:
    go_on = threading.Event()
    makers: list[int] = []

    class Busy:
        def help(self) -> None:
            go_on.wait(WAIT_S)

    beside = Beside()
    with pool:
        pool.ask(Busy())
        beside.add(lambda: makers.append(threading.get_ident()))
        beside.finish()
        assert makers == [threading.get_ident()]
        go_on.set()


def test_only_so_many_calls_wait(pool: WorkerPool) -> None:
    go_on = threading.Event()
    made: list[int] = []

    class Busy:
        def help(self) -> None:
            go_on.wait(WAIT_S)

    beside = Beside()
    with pool:
        pool.ask(Busy())
        for number in range(100):
            beside.add(partial(made.append, number))
        assert 80 < len(made) < 100
        go_on.set()
        beside.finish()
    assert made == list(range(100))


def test_the_first_failure_is_raised_by_who_waits(pool: WorkerPool) -> None:
    made: list[int] = []

    def fail() -> None:
        raise KeyError("why")

    def add_ten(beside: Beside) -> None:
        for number in range(10):
            beside.add(fail if number == 3 else partial(made.append, number))
        beside.finish()

    beside = Beside()
    with pool:
        with pytest.raises(KeyError, match="why"):
            add_ten(beside)
        beside.add(lambda: made.append(100))
        beside.finish()
    assert made[:3] == [0, 1, 2]
    assert made[-1] == 100
