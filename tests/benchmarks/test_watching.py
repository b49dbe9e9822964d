"""What being watched costs: counted from the servers' processor time, in turns."""

from __future__ import annotations

import os
import re
import threading
import time

import pytest

from benchmarks.watching import Found, arguments, cost_of_a_step, cpu_s, main


def test_turns_are_counted_and_so_are_the_looks_of_who_watches(
    capsys: pytest.CaptureFixture[str],
) -> None:
    """For so short a time it is chance; whether it is little is for who measures."""
    short = ["--seconds", "1", "--turn", "0.3", "--settle", "0", "--most", "1000"]
    assert main(["updates", "training", *short]) == 0
    out = capsys.readouterr().out
    for work in ("updates", "training"):
        line = rf"^{work} +[\d,]+ +[\d.]+ µs +-?[\d.]+% +-?[\d.]+% +[+-][\d.]+% ± [\d.]+%$"
        assert re.search(line, out, re.MULTILINE), out


def test_a_cost_is_the_mean_of_pairs_of_which_either_may_have_been_disturbed() -> None:
    """Each of the pairs was disturbed by ten per cent, and pays one for being watched."""
    found = Found(1.0, 1.0, [1.1 * 1.01 - 1, 1.01 / 1.1 - 1], {})
    assert found.cost == pytest.approx(0.01)
    assert found.error == pytest.approx((1.1 - 1 / 1.1) * 1.01 / 2)


def test_looks_are_a_share_of_what_the_steps_take() -> None:
    """Of 1,000 steps a second that take 0.4 ms each."""
    assert Found(1000.0, 4e-4, [0.0], {"top": 0.002}).looks("top") == pytest.approx(0.005)


def test_only_a_watched_turn_looks_and_it_does_once() -> None:
    """What is counted lies between the beginning of a turn and its end."""
    looks = []

    class Looking:
        def look(self, count_for_s: float) -> None:
            looks.append(count_for_s)

    class Working:
        made = 0

        def cpu_s(self) -> float:
            return self.made * 0.5

        def steps(self) -> int:
            self.made += 10
            return self.made

    assert cost_of_a_step(Working(), 0.01, Looking())[0] == 0.5  # type: ignore[arg-type]
    assert looks == [0.01]
    assert cost_of_a_step(Working(), 0.01)[0] == 0.5  # type: ignore[arg-type]
    assert looks == [0.01]


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
