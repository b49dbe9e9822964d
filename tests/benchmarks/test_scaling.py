"""Plots of how cost grows: the rows take the arguments, all that was measured is written, a failure writes nothing."""

from __future__ import annotations

import inspect
from pathlib import Path
from typing import Any

import pytest

from benchmarks import scaling
from benchmarks.processes import ProcessFailed
from benchmarks.row import Row

README = f"before\n{scaling.BEGIN}\nold\n{scaling.END}\nafter\n"


@pytest.fixture
def readme(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(scaling, "draw", lambda plot, medians, libraries, path: path.touch())
    path = tmp_path / "README.md"
    path.write_text(README)
    return path


def run(readme: Path) -> int:
    return scaling.main(
        ["--quick", "--only", "headrace", "--clients", "1", "4", "--bytes", "4", "1048576",
         "--nodes", "10", "1000",
         "--readme", str(readme)]
    )  # fmt: skip


def test_every_series_gives_its_row_an_argument_that_it_takes() -> None:
    series = [each for plot in scaling.plots([1, 2], [4], [10]) for each in plot.series]
    assert len(series) == 8
    for each in series:
        assert each.argument in inspect.signature(each.row.function).parameters


def test_figures_and_plots_stand_between_the_markers(
    readme: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def once(row: Row, subject: str, effort: Any, arguments: dict[str, int]) -> float:
        (value,) = arguments.values()
        return value / 1e6

    monkeypatch.setattr(scaling, "run_once", once)
    assert run(readme) == 0
    text = readme.read_text()
    assert text.startswith(f"before\n{scaling.BEGIN}\n")
    assert text.endswith(f"{scaling.END}\nafter\n")
    assert "old" not in text
    assert "| fetch | 4.00 B | 4.00 µs |" in text
    assert "| fetch | 1.05 MB | 1.05 s |" in text
    assert "| producers and consumers on one queue | 4 clients |" in text
    assert "| first run | 1,000 nodes | 1.00 ms |" in text
    for plot in ("scaling-clients.svg", "scaling-bytes.svg", "scaling-nodes.svg"):
        assert f"]({plot})" in text
        assert readme.with_name(plot).exists()


def test_nothing_is_written_if_a_measurement_failed(
    readme: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def once(*arguments: Any) -> float:
        raise ProcessFailed("it ended with exit code 3")

    monkeypatch.setattr(scaling, "run_once", once)
    assert run(readme) == 1
    assert readme.read_text() == README
    assert "exit code 3" in capsys.readouterr().err


@pytest.mark.parametrize("wrong", [["--bytes", "5"], ["--clients", "0"], ["--runs", "x"]])
def test_arguments_that_no_row_can_take_are_refused(wrong: list[str]) -> None:
    with pytest.raises(SystemExit):
        scaling.arguments(wrong)
