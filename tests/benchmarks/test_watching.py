"""What being watched costs: counted from the servers' processor time, of both clusters alike."""

from __future__ import annotations

import os
import re
import threading
import time

import pytest

from benchmarks.watching import Found, arguments, cpu_s, main


def test_both_halves_are_counted_and_the_mean_is_the_cost(
    capsys: pytest.CaptureFixture[str],
) -> None:
    """For so short a time it is chance; whether it is little is for who measures."""
    short = ["--seconds", "1", "--settle", "0", "--most", "1000"]
    assert main(["updates", "training", "--by", "top", *short]) == 0
    assert main(["updates", "--by", "page", *short]) == 0
    out = capsys.readouterr().out
    for work, watcher in (("updates", "top"), ("training", "top"), ("updates", "page")):
        line = rf"^{work} +{watcher} +[\d,]+ +[\d.]+ µs +-?[\d.]+% +[+-][\d.]+%  [+-][\d.]+%, [+-][\d.]+%$"
        assert re.search(line, out, re.MULTILINE), out


def test_a_cost_is_the_mean_of_a_cluster_that_is_slower_anyway_and_one_that_is_faster() -> None:
    """Of two that differ by ten per cent, and pay one for being watched."""
    found = Found(1.0, 1.0, [1.1 * 1.01 - 1, 1.01 / 1.1 - 1], 0.0)
    assert found.cost == pytest.approx(0.01)


def test_looks_are_a_share_of_what_the_steps_take() -> None:
    """Of 1,000 steps a second that take 0.4 ms each."""
    assert Found(1000.0, 4e-4, [0.0], 0.002).looks == pytest.approx(0.005)


def test_processor_time_is_that_of_all_threads() -> None:
    before, stop = cpu_s(os.getpid()), threading.Event()

    def work() -> None:
        while not stop.is_set():
            sum(range(1000))

    thread = threading.Thread(target=work)
    own = time.process_time()
    thread.start()
    while time.process_time() - own < 0.2:
        pass
    stop.set()
    thread.join()
    assert cpu_s(os.getpid()) - before >= 0.1


def test_work_that_there_is_not_is_said(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        arguments(["sleep"])
    assert "there is no work 'sleep'; there is updates, training" in capsys.readouterr().err
