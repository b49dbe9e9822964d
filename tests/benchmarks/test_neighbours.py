"""The same work on headrace and on what people use where they need no graphs."""

from __future__ import annotations

import pytest

from benchmarks.neighbours import __main__ as command
from benchmarks.neighbours.__main__ import Figures, main, measure, share, shown
from benchmarks.neighbours.stores import STORES
from benchmarks.processes import ProcessFailed

HERE = [
    "headrace",
    "multiprocessing",
    "echo",
    "echo, unix socket",
]  # need nothing that is not installed


def test_every_store_does_each_kind_of_work(capsys: pytest.CaptureFixture[str]) -> None:
    only = [word for store in HERE for word in ("--only", store)]
    assert main(["queue", "large", "--runs", "1", "--seconds", "0", *only]) == 0
    rows = [line for line in capsys.readouterr().out.splitlines() if line.startswith("| ")]
    assert [row.split(" | ")[0] for row in rows[1:]] == ["| put and get", "| read 1 MB"]
    assert all(row.count("/s (") == len(HERE) for row in rows[1:])


def test_an_addition_that_was_lost_is_no_figure(monkeypatch: pytest.MonkeyPatch) -> None:
    counted = command.call
    monkeypatch.setattr(command, "call", lambda *given: (*counted(*given)[:2], [1]))
    with pytest.raises(ProcessFailed, match="has lost"):
        measure(STORES["multiprocessing"], command.WORKS["add"], 0.0)


def test_a_store_that_is_not_installed_is_left_out_and_named(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("PATH", "")
    assert main(["add", "--only", "Redis, TCP", "--runs", "1", "--seconds", "0"]) == 0
    assert "Redis, TCP is left out: there is no redis-server" in capsys.readouterr().out


def test_figures_are_shown_with_the_time_of_both_sides(monkeypatch: pytest.MonkeyPatch) -> None:
    figures = Figures(12_345.0, 40.0, 60.0)
    assert shown(figures) == "12,345/s (40 + 60 µs)"
    monkeypatch.setattr(command.os, "cpu_count", lambda: 2)
    assert share(Figures(10_000.0, 40.0, 60.0)) == "50%"


def test_work_that_there_is_not_is_said(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["multiply"])
    assert "there is no work 'multiply'; there is read, read_8" in capsys.readouterr().err
