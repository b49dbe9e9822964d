"""What was measured of steps: kept for other processes, bounded, and of no harm where it cannot be kept."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from headrace.run.exec import measured
from headrace.run.exec.fused import compiler
from headrace.run.exec.measured import Measured, folder
from headrace.run.exec.tuning import AFTER, PLAIN, Tuner

WITHIN_S = 60.0


@pytest.fixture(autouse=True)
def place(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    monkeypatch.setenv(measured.SETTING, str(tmp_path))
    return tmp_path


def test_another_process_is_told_what_one_has_noted() -> None:
    Measured(lambda: "a").note([(2, 3)], "compiled")
    Measured(lambda: "b").note([(2, 3)], PLAIN)
    assert Measured(lambda: "a").recall([(2, 3)]) == "compiled"
    assert Measured(lambda: "b").recall([(2, 3)]) == PLAIN
    assert Measured(lambda: "a").recall([(2, 4)]) is None
    assert Measured(lambda: "c").recall([]) is None


def test_where_it_is_kept(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv(measured.SETTING, "off")
    assert folder() is None
    Measured(lambda: "a").note([], "compiled")
    assert Measured(lambda: "a").recall([]) is None
    monkeypatch.delenv(measured.SETTING)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    found = folder()
    assert found is not None
    assert found.parent == tmp_path / "cache/headrace/measured"
    monkeypatch.setenv("XDG_CACHE_HOME", "")
    monkeypatch.setenv("HOME", "/home/somebody")
    assert str(folder()).startswith("/home/somebody/.cache/headrace/measured/")


def test_a_place_that_cannot_be_written_keeps_nothing(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "file").write_bytes(b"")
    monkeypatch.setenv(measured.SETTING, str(tmp_path / "file"))
    Measured(lambda: "a").note([], "compiled")
    assert Measured(lambda: "a").recall([]) is None


def test_what_is_old_or_damaged_is_measured_again() -> None:
    kept = Measured(lambda: "a")
    kept.note([], "compiled")
    (path,) = Path(str(folder())).iterdir()
    os.utime(path, (0, 0))
    assert kept.recall([]) is None
    path.write_bytes(b"compi")
    assert kept.recall([]) is None


def test_there_are_not_more_and_more(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(measured, "MOST", 8)
    for number in range(30):
        Measured(lambda number=number: str(number)).note([], "compiled")  # type: ignore[misc]
        assert len(os.listdir(str(folder()))) <= 8
    assert Measured(lambda: "29").recall([]) == "compiled"


def test_many_may_write_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(measured, "MOST", 16)

    def work(name: int) -> None:
        kept = Measured(lambda: "step")
        for number in range(40):
            shapes = [((name + number) % 30,)]
            kept.note(shapes, "compiled")
            assert kept.recall(shapes) in ("compiled", None)

    threads = [threading.Thread(target=work, args=(name,)) for name in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not [name for name in os.listdir(str(folder())) if name.startswith(".")]


@pytest.mark.parametrize(("takes_s", "pays"), [(0.5, True), (2.0, False)])
def test_a_step_is_measured_once_a_machine(takes_s: float, pays: bool) -> None:
    now, made = [0.0], []

    def form(seconds: float) -> Callable[..., list[Any]]:
        def run(*given: Any) -> list[Any]:
            now[0] += seconds
            return [seconds]

        return run

    def make() -> Any:
        made.append(1)
        return form(takes_s), ()

    def runs_until_decided() -> int:
        tuner = Tuner({"compiled": make}, True, lambda: now[0], Measured(lambda: "step"))
        for runs in range(10 * AFTER):
            if tuner.over:
                assert (tuner.chosen is not None) == pays
                return runs
            tuner.run(form(1.0), None, [])
            assert compiler.wait(WITHIN_S)
        raise AssertionError("nothing was decided")

    first = runs_until_decided()
    assert compiler.wait(WITHIN_S)
    assert len(made) == 1
    assert runs_until_decided() == (AFTER + 1 if pays else AFTER) < first
    assert len(made) == (2 if pays else 1)  # what does not pay is not even made


def test_a_user_without_a_home_keeps_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in (measured.SETTING, "XDG_CACHE_HOME", "HOME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(
        os.path, "expanduser", lambda path: path
    )  # as where nobody is known by that number
    assert measured.folder() is None


def test_where_processors_cannot_be_asked_for_one_by_one_they_are_counted(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """As on macOS."""
    monkeypatch.setenv(measured.SETTING, str(tmp_path))
    monkeypatch.delattr(os, "sched_getaffinity", raising=False)
    measured._machine.cache_clear()
    try:
        kept = measured.Measured(lambda: "a step")
        kept.note([(2, 3)], "compiled")
        assert kept.recall([(2, 3)]) == "compiled"
    finally:
        measured._machine.cache_clear()
