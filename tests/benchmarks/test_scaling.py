"""Plots of how cost grows: the rows take the arguments, all that was measured is written, a failure writes nothing."""

from __future__ import annotations

import ast
import inspect
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from benchmarks import compare, report, scaling
from benchmarks.processes import ProcessFailed
from benchmarks.row import Row
from benchmarks.rows import TABLE

PLOTS = scaling.plots([1, 2], [4], [10], [1, 2])
README = "before\n" + "\n".join(f"{plot.begin}\nold {plot.name}\n{plot.end}" for plot in PLOTS)


@pytest.fixture
def readme(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(scaling, "draw", lambda plot, medians, libraries, path: path.touch())
    path = tmp_path / "README.md"
    path.write_text(README)
    return path


def run(readme: Path, *plots: str) -> int:
    return scaling.main(
        [*plots, "--quick", "--only", "headrace", "--clients", "1", "4", "--bytes", "4", "1048576",
         "--nodes", "10", "1000", "--tasks", "1", "2", "--readme", str(readme)]
    )  # fmt: skip


def test_every_series_gives_its_row_arguments_that_it_takes() -> None:
    series = [each for plot in PLOTS for each in plot.series]
    assert len({each.title for each in series}) == len(series)
    for each in series:
        taken = inspect.signature(each.row.function).parameters
        assert {each.argument, *each.given} <= {*taken}


def test_the_page_has_a_place_for_every_plot() -> None:
    text = report.README.read_text()
    for plot in PLOTS:
        assert text.count(plot.begin) == text.count(plot.end) == 1


def by_value(
    row: Row, subject: str, effort: Any, arguments: Sequence[dict[str, int]]
) -> list[float]:
    return [next(iter(given.values())) / 1e6 for given in arguments]


def test_figures_and_plots_stand_between_their_markers(
    readme: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(scaling, "run_series", by_value)
    assert run(readme) == 0
    text = readme.read_text()
    assert text.startswith("before\n")
    assert "old" not in text
    assert "| fetched | 4 B | 4.00 µs |" in text
    assert "| fetched | 1 MiB | 1.05 s |" in text
    assert "| half put into a queue, half take out | 4 clients |" in text
    assert "| fed and summed, 2 threads | 1 MiB | 1.05 s |" in text
    assert "| run for the first time | 1,000 nodes | 1.00 ms |" in text
    for plot in PLOTS:
        assert f"]({plot.file})" in text
        assert readme.with_name(plot.file).exists()


def test_a_plot_by_itself_leaves_the_others_as_they_are(
    readme: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(scaling, "run_series", by_value)
    assert run(readme, "nodes") == 0
    text = readme.read_text()
    assert "| built | 10 nodes |" in text
    assert [name for name in ("clients", "bytes", "arrays") if f"old {name}" not in text] == []
    assert not readme.with_name("scaling-bytes.svg").exists()


def test_a_row_is_measured_with_each_of_its_arguments_in_turn() -> None:
    figures = compare.run_series(
        TABLE["chain"], "headrace", compare.QUICK, [{"nodes": 1}, {"nodes": 300}]
    )
    assert len({*figures}) == 2
    assert min(figures) > 0


def test_nothing_is_written_if_a_measurement_failed(
    readme: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def once(*arguments: Any) -> float:
        raise ProcessFailed("it ended with exit code 3")

    monkeypatch.setattr(scaling, "run_series", once)
    assert run(readme) == 1
    assert readme.read_text() == README
    assert "exit code 3" in capsys.readouterr().err


@pytest.mark.parametrize(
    "wrong", [["--bytes", "5"], ["--clients", "0"], ["--runs", "x"], ["edges"]]
)
def test_arguments_that_no_row_can_take_are_refused(wrong: list[str]) -> None:
    with pytest.raises(SystemExit):
        scaling.arguments(wrong)


@pytest.mark.parametrize(
    ("values", "marked"),
    [
        (scaling.SIZES, [4, 1 << 14, 1 << 20, 1 << 28]),
        (scaling.NODES, [10, 100, 1000, 10_000]),
        ([7], [7]),
    ],
)
def test_both_ends_of_an_axis_are_named(values: list[int], marked: list[int]) -> None:
    assert scaling.marked(values) == marked


def test_what_measures_both_libraries_imports_neither() -> None:
    """The Python that has the one need not have the other."""
    folder = report.README.parent
    found = [
        f"{path.name}:{node.lineno}"
        for path in [*folder.glob("*.py"), *folder.glob("rows/*.py")]
        for node in ast.parse(path.read_text()).body
        if isinstance(node, (ast.Import, ast.ImportFrom))
        for name in [getattr(node, "module", None) or node.names[0].name]
        if name.split(".")[0] in ("headrace", "tensorflow") and path.name != "tensorflow_server.py"
    ]
    assert found == []
