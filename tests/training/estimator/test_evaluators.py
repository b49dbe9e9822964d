"""Evaluations while a model is trained: when, of which checkpoints, and what exporters do of it."""

from __future__ import annotations

import os
import shutil
import signal
import threading
from pathlib import Path
from typing import Any

import pytest

import headrace as tf
from headrace.training.estimator import evaluator as evaluators
from headrace.training.estimator.evaluator import Evaluator, evaluate_continuously
from tests.training.estimator.models import E, estimator, receiver, rows


class Noted(E.Exporter):  # type: ignore[misc, name-defined]
    """Keeps what it is called with; calls something when it is."""

    def __init__(self, act: Any = lambda: None) -> None:
        self.calls: list[tuple[str, bool]] = []
        self._act = act

    @property
    def name(self) -> str:
        return "noted"

    def export(
        self,
        estimator: Any,
        export_path: str,
        checkpoint_path: str,
        eval_result: Any,
        is_the_final_export: bool,
    ) -> str:
        self.calls.append((os.path.basename(checkpoint_path), is_the_final_export))
        self._act()
        return export_path


def spec(exporters: Any = None, **more: Any) -> Any:
    return E.EvalSpec(
        rows(1), None, exporters=exporters, **{"start_delay_secs": 0, "throttle_secs": 0, **more}
    )


def test_each_checkpoint_is_evaluated_and_the_last_is_final(tmp_path: Path) -> None:
    noted = Noted()
    one = estimator(tmp_path, save_checkpoints_steps=4)
    metrics, exports = E.train_and_evaluate(one, E.TrainSpec(rows(), 10), spec(noted))
    assert noted.calls == [
        ("model.ckpt-4", False),
        ("model.ckpt-8", False),
        ("model.ckpt-10", True),
    ]
    assert metrics["global_step"] == 10
    assert exports == [str(tmp_path / "export" / "noted")]
    assert E.train_and_evaluate(one, E.TrainSpec(rows(), 10), spec(noted)) == (None, None)


def test_the_throttle_puts_evaluations_off_but_for_the_last(tmp_path: Path) -> None:
    noted = Noted()
    one = estimator(tmp_path, save_checkpoints_steps=1)
    E.train_and_evaluate(one, E.TrainSpec(rows(), 5), spec(noted, throttle_secs=1000))
    assert noted.calls == [("model.ckpt-1", False), ("model.ckpt-5", True)]


def test_an_evaluator_waits_for_a_checkpoint_and_takes_none_twice(tmp_path: Path) -> None:
    one = estimator(tmp_path)
    work = Evaluator(one, spec(), 3)
    assert not work.evaluate_and_export()
    one.train(rows(), steps=2)
    assert work.evaluate_and_export()
    assert not work.evaluate_and_export()
    assert not work.is_done()
    one.train(rows(), steps=1)
    assert work.evaluate_and_export()
    assert work.is_done()


def test_a_checkpoint_whose_writer_was_killed_on_the_way_is_not_evaluated(tmp_path: Path) -> None:
    noted = Noted()
    one = estimator(tmp_path).train(rows(), steps=2)
    for name in os.listdir(tmp_path):  # its data is there, its index is not, nor is it listed
        if ".data-" in name and "-2." in name:
            shutil.copy(tmp_path / name, tmp_path / name.replace("-2.", "-9."))
    work = Evaluator(one, spec(noted), None)
    assert work.evaluate_and_export()
    assert noted.calls == [("model.ckpt-2", False)]


def test_a_checkpoint_that_goes_while_it_is_evaluated_is_left(tmp_path: Path) -> None:
    one = estimator(tmp_path).train(rows(), steps=2)
    path = one.latest_checkpoint()

    def input_fn() -> Any:
        tf.train.remove_checkpoint(path)
        return rows(1)()

    work = Evaluator(one, spec()._replace(input_fn=input_fn), None)
    assert not work.evaluate_and_export()
    assert work.metrics is None


def test_a_checkpoint_that_is_written_again_while_it_is_evaluated_is_evaluated_then(
    tmp_path: Path,
) -> None:
    """Its index was read before, its data after: they do not fit together."""
    one = estimator(tmp_path).train(rows(), steps=2)
    path = one.latest_checkpoint()
    (data,) = tmp_path.glob("model.ckpt-2.data-*")
    index, whole = Path(f"{path}.index"), data.read_bytes()
    calls = []

    def replace(file: Path, content: bytes) -> None:
        other = file.with_suffix(".other")
        other.write_bytes(content)
        other.replace(file)

    def input_fn() -> Any:
        calls.append("asked")
        if len(calls) == 1:
            replace(data, bytes(len(whole)))
            replace(index, index.read_bytes())
        else:
            data.write_bytes(whole)
        return rows(1)()

    work = Evaluator(one, spec()._replace(input_fn=input_fn), None)
    assert not work.evaluate_and_export()
    assert work.evaluate_and_export()
    assert calls == ["asked", "asked"]


def test_a_checkpoint_that_is_damaged_is_no_evaluation(tmp_path: Path) -> None:
    one = estimator(tmp_path).train(rows(), steps=2)
    (data,) = tmp_path.glob("model.ckpt-2.data-*")
    data.write_bytes(bytes(data.stat().st_size))
    with pytest.raises(tf.errors.DataLossError):
        Evaluator(one, spec(), None).evaluate_and_export()


def test_an_evaluation_that_fails_is_raised(tmp_path: Path) -> None:
    one = estimator(tmp_path).train(rows(), steps=1)
    failing = spec(Noted(lambda: 1 // 0))
    with pytest.raises(ZeroDivisionError):
        Evaluator(one, failing, None).evaluate_and_export()


def test_sigterm_ends_an_evaluator_with_what_is_new(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """While it evaluates, the training saves once more and SIGTERM comes; then it does at once what it does."""
    one = estimator(tmp_path).train(rows(), steps=1)
    happened: list[str] = []

    def told() -> None:
        if not happened:
            happened.append("told")
            os.kill(os.getpid(), signal.SIGTERM)
            thread = threading.Thread(target=lambda: one.train(rows(), steps=1))
            thread.start()
            thread.join()

    noted = Noted(told)
    before = signal.signal(signal.SIGTERM, lambda number, frame: happened.append("ended"))
    try:
        evaluate_continuously(Evaluator(one, spec(noted), None), spec(noted, throttle_secs=1000))
    finally:
        signal.signal(signal.SIGTERM, before)
    assert noted.calls == [("model.ckpt-1", False), ("model.ckpt-2", False)]
    assert happened == ["told", "ended"]


def test_sigterm_ends_a_wait(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    happened: list[str] = []

    def sleep(seconds: float) -> None:
        happened.append(f"waits {seconds}")
        os.kill(os.getpid(), signal.SIGTERM)
        pytest.fail("the wait goes on")

    monkeypatch.setattr(evaluators.time, "sleep", sleep)
    before = signal.signal(signal.SIGTERM, lambda number, frame: happened.append("ended"))
    try:
        waiting = spec(start_delay_secs=1000)
        evaluate_continuously(Evaluator(estimator(tmp_path), waiting, None), waiting)
    finally:
        signal.signal(signal.SIGTERM, before)
    assert happened == ["waits 1000", "ended"]


def test_a_second_sigterm_kills(tmp_path: Path) -> None:
    one = estimator(tmp_path).train(rows(), steps=1)

    class Ended(BaseException):
        pass

    def end(number: int, frame: Any) -> None:
        raise Ended

    def twice() -> None:
        os.kill(os.getpid(), signal.SIGTERM)
        os.kill(os.getpid(), signal.SIGTERM)
        pytest.fail("it goes on")

    before = signal.signal(signal.SIGTERM, end)
    try:
        with pytest.raises(Ended):
            evaluate_continuously(Evaluator(one, spec(Noted(twice)), None), spec())
    finally:
        signal.signal(signal.SIGTERM, before)


def exports(directory: Path, name: str) -> list[str]:
    return sorted(os.listdir(directory / "export" / name))


def test_the_latest_exporter_keeps_as_many_as_it_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    seconds = iter(range(100, 200))
    monkeypatch.setattr(
        "headrace.training.estimator.estimator.exporting.timestamped_directory",
        lambda base: os.path.join(base, str(next(seconds))),
    )
    one = estimator(tmp_path, save_checkpoints_steps=1)
    both = [
        E.LatestExporter("latest", receiver, exports_to_keep=2),
        E.BestExporter("best", receiver, exports_to_keep=None),
        E.FinalExporter("final", receiver),
    ]
    E.train_and_evaluate(one, E.TrainSpec(rows(), 4), spec(both))
    assert exports(tmp_path, "latest") == ["104", "106"]
    assert exports(tmp_path, "best") == ["101", "103", "105", "107"]
    assert exports(tmp_path, "final") == ["108"]


def test_the_best_result_is_found_in_event_files_though_the_last_is_cut_off(tmp_path: Path) -> None:
    one = estimator(tmp_path)
    for _ in range(2):
        one.train(rows(), steps=1)
        loss = one.evaluate(rows(1))["loss"]
    tf.summary.FileWriterCache.clear()
    (events,) = (tmp_path / "eval").iterdir()
    events.write_bytes(events.read_bytes() + b"\x20\0\0\0\0\0\0\0cut off")
    exporter = E.BestExporter(serving_input_receiver_fn=receiver)
    best = exporter._from_events(str(tmp_path / "eval" / "*.tfevents.*"))
    assert best is not None
    assert best["loss"] == pytest.approx(loss)
