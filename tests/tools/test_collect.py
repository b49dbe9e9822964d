"""What the demo's programs say becomes live figures and one record; where the digits are found."""

from __future__ import annotations

import base64
import io
from datetime import UTC, datetime
from pathlib import Path

import numpy as np
import pytest
from rich.console import Console

from headrace.codec import protos as pb
from headrace.tools.commands import CommandError
from headrace.tools.demo import data
from headrace.tools.demo.collect import Collector, Live
from headrace.tools.demo.evaluate import Evaluation
from headrace.tools.demo.messages import Message, emit, parse
from headrace.tools.demo.plain_view import PlainView
from headrace.tools.demo.rich_view import RichView, sparkline, trainer_text
from headrace.tools.report.record import Queue, Record
from headrace.tools.terminal import PlainConsole

HEADER = ",".join([f"pixel_{i}" for i in range(64)] + ["label"])
ROW = ",".join(["1"] * 64)


def step(time: float, global_step: int, loss: float = 1.0, count: int = 50) -> Message:
    return {
        "event": "step",
        "time": time,
        "loss": loss,
        "count": count,
        "global_step": global_step,
    }


def trace(time: float, global_step: int, device: str) -> Message:
    metadata = pb.RunMetadata()
    metadata.step_stats.dev_stats.add(device=device)
    text = base64.b64encode(metadata.SerializeToString()).decode()
    return {"event": "trace", "time": time, "global_step": global_step, "metadata": text}


def record_of(collector: Collector) -> Record:
    return collector.record(
        started=datetime(2026, 1, 1, tzinfo=UTC),
        wall_s=3.0,
        tasks=[],
        clients=[],
        queue=Queue("q", "RandomShuffleQueue", "/job:ps/task:0", 10, 5, ()),
        epochs=1,
        train_rows=100,
        evaluation=Evaluation(np.zeros((2, 64)), np.array([1, 2]), np.array([1, 3]), 2),
        parameters={},
        earlier={"worker 0": [(1, 0.5)]},
    )


@pytest.fixture
def collector() -> Collector:
    return Collector(["worker 0", "worker 1"])


def test_a_message_is_one_line_that_comes_back(capsys: pytest.CaptureFixture[str]) -> None:
    emit("step", loss=0.5, count=3)
    line = capsys.readouterr().out
    assert line.count("\n") == 1
    message = parse(line)
    assert message is not None
    assert (message["event"], message["loss"], message["count"]) == ("step", 0.5, 3)
    assert message["time"] > 1.7e9


@pytest.mark.parametrize("line", ["", "a warning", "[1, 2]", '{"no": "event"}', '"event"', "{"])
def test_a_line_that_is_no_message_is_none(line: str) -> None:
    assert parse(line) is None


def test_times_of_all_programs_count_from_the_first_thing_that_happened(
    collector: Collector,
) -> None:
    for time, depth in [(100.0, 0), (100.1, 0), (100.2, 40), (100.3, 90)]:
        collector.take_depth(time, depth)
    collector.take("worker 0", step(101.0, 1))
    collector.take("worker 1", step(100.6, 2))
    collector.take("loader", {"event": "loaded", "time": 100.9, "records": [50, 50]})
    record = record_of(collector)
    assert collector.origin() == 100.1  # the last moment at which the queue was empty
    assert [p.time_s for t in record.trainers for p in t.points] == pytest.approx([0.9, 0.5])
    assert [(round(p.time_s, 3), p.depth) for p in record.depth] == [(0, 0), (0.1, 40), (0.2, 90)]
    assert record.loaded_s == pytest.approx(0.8)
    assert record.records == [50, 50]


def test_examples_and_steps_add_up_over_trainers(collector: Collector) -> None:
    for i in range(10):
        collector.take("worker 0", step(100 + i, 2 * i))
    collector.take("worker 1", step(105.0, 3, count=7))
    record = record_of(collector)
    assert (collector.examples, record.examples, record.steps) == (507, 507, 11)
    assert record.examples_per_s == pytest.approx(507 / 9)
    assert record.results.accuracy == 0.5


def test_the_second_trace_of_each_trainer_is_kept(collector: Collector) -> None:
    collector.take("worker 1", trace(1, 30, "late"))
    collector.take("worker 0", trace(2, 31, "warming up"))
    collector.take("worker 0", trace(3, 33, "kept"))
    assert [(t.trainer, t.global_step, t.rows[0].device) for t in record_of(collector).traced] == [
        ("worker 0", 33, "kept"),
        ("worker 1", 30, "late"),
    ]


def test_variables_keep_their_places(collector: Collector) -> None:
    fields = {
        "name": "w",
        "dtype": "float32",
        "shape": [2, 3],
        "bytes": 24,
        "device": "/job:ps/task:0",
        "trainable": True,
    }
    collector.take("worker 0", {"event": "variables", "time": 0.0, "variables": [fields]})
    (variable,) = record_of(collector).variables
    assert (variable.name, variable.shape, variable.num_bytes) == ("w", (2, 3), 24)


def test_an_event_that_nobody_asked_for_changes_nothing(collector: Collector) -> None:
    collector.take("worker 0", {"event": "news", "time": 1.0})
    assert (collector.examples, collector.origin()) == (0, 0.0)


def test_the_rate_is_that_of_the_last_two_seconds() -> None:
    live = Live()
    for i in range(40):
        live.add(10 + i * 0.1, 1.0, 5, i)
    for i in range(30):
        live.add(14 + i * 0.1, 1.0, 50, 40 + i)
    assert live.examples_per_s == pytest.approx(500)


def test_one_step_makes_no_rate() -> None:
    live = Live()
    live.add(1.0, 2.0, 50, 1)
    assert live.examples_per_s == 0.0
    assert "loss [bold]2.0000[/]" in trainer_text(live)
    assert trainer_text(Live()) == "waiting for examples"


@pytest.mark.parametrize(
    ("values", "width", "shown"),
    [
        ([], 4, ""),
        ([0.0, 0.0], 4, "▁▁"),
        ([8.0, 4.0, 2.0, 0.0], 4, "█▅▃▁"),
        (list(range(100)), 4, "▂▄▆█"),
    ],
)
def test_a_sparkline_ends_with_the_latest_value(
    values: list[float], width: int, shown: str
) -> None:
    assert sparkline(values, width) == shown


def test_the_display_fits_a_terminal_of_80_columns(collector: Collector) -> None:
    out = io.StringIO()
    console = Console(file=out, width=80, highlight=False)
    with RichView(console, collector, total=50_000, capacity=2000) as view:
        for i in range(2000):
            collector.take("worker 0", step(100 + i * 0.01, i, loss=2.5))
        collector.take_depth(101.0, 2000)
        view.refresh()
    lines = out.getvalue().splitlines()
    assert all(len(line) <= 80 for line in lines)
    assert "2,000 waiting" in out.getvalue()
    assert "step 2,000" in next(line for line in lines if "worker 0" in line)


def test_without_rich_there_is_a_line_for_each_tenth(collector: Collector) -> None:
    out = io.StringIO()
    view = PlainView(PlainConsole(out), collector, total=100_000)
    for i in range(2000):
        collector.take("worker 0", step(100 + i * 0.01, i, loss=2.5))
        view.refresh()
    lines = out.getvalue().splitlines()
    assert len(lines) == 10
    assert lines[0] == "  10,000 of 100,000 examples; worker 0 loss 2.5000"


def shards(directory: Path) -> None:
    for name in ("digits-train-1.csv", "digits-train-0.csv", "digits-test-0.csv"):
        (directory / name).write_text(f"{HEADER}\n{ROW},7\n{ROW.replace('1', '', 3)},2\n")


def test_digits_are_found_in_name_order_and_read_with_gaps_as_zero(tmp_path: Path) -> None:
    shards(tmp_path)
    digits = data.find(tmp_path)
    assert [path.name for path in digits.train] == ["digits-train-0.csv", "digits-train-1.csv"]
    assert data.count_rows(digits.train) == 4
    pixels, labels = data.read_digits(digits.test)
    assert labels.tolist() == [7, 2]
    assert pixels.sum(axis=1).tolist() == [64, 61]


def test_digits_are_found_from_a_checkout_and_below_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "examples" / "data").mkdir(parents=True)
    shards(tmp_path / "examples" / "data")
    monkeypatch.chdir(tmp_path)
    assert data.find().test[0].parent == (tmp_path / "examples" / "data")


def test_a_short_row_is_named_by_file_and_line(tmp_path: Path) -> None:
    (tmp_path / "digits-test-0.csv").write_text(f"{HEADER}\n{ROW},7\n1,2,3\n")
    with pytest.raises(CommandError, match=r"digits-test-0\.csv:3 has 3 cells, not 65"):
        data.read_digits([tmp_path / "digits-test-0.csv"])
