"""What was measured of steps: kept for other processes, bounded, and of no harm where it cannot be kept."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from headrace.run.exec import measured
from headrace.run.exec.fused import FusedKernel, compiler
from headrace.run.exec.measured import Measured, folder
from headrace.run.exec.tuning import AFTER, ALL_S, KNOWN_S, OWN_S, PLAIN, Spent, Tuner

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


class _Process(Spent):
    """One that has JAX, or has not."""

    def __init__(self, jax: bool) -> None:
        super().__init__()
        self.jax = jax

    def has_jax(self) -> bool:
        return self.jax


@pytest.mark.parametrize(("jax", "known"), [(False, False), (False, True), (True, False)])
def test_nothing_is_tried_before_it_could_pay(jax: bool, known: bool) -> None:
    """Only what has taken as long as it costs to try, in all steps; less where it is known to pay, or JAX is there."""
    if known:
        Measured(lambda: "step").note([], "compiled")
    process, now, made = _Process(jax), [0.0], list[int]()
    step_s = 0.01

    def plain(*given: Any) -> list[Any]:
        now[0] += step_s
        return []

    def make() -> Any:
        made.append(1)

    def tuner() -> Tuner:
        return Tuner({"compiled": make}, True, lambda: now[0], Measured(lambda: "step"), process)

    another, one = tuner(), tuner()
    for _ in range(20):  # a step of another kind, which is not worth it by itself
        another.run(plain, None, [])
        assert compiler.wait(WITHIN_S)
    assert not made
    runs = 0
    while not one.over:
        one.run(plain, None, [])
        assert compiler.wait(WITHIN_S)
        runs += 1
    limit_s = OWN_S if jax else max(OWN_S, (KNOWN_S if known else ALL_S) - 20 * step_s)
    assert made == [1]
    assert runs == pytest.approx(limit_s / step_s, abs=1)


def test_a_short_program_tries_nothing() -> None:
    made: list[int] = []
    now = [0.0]

    def plain(*given: Any) -> list[Any]:
        now[0] += 1e-4
        return []

    def make() -> Any:
        made.append(1)

    tuner = Tuner({"compiled": make}, True, lambda: now[0], spent=_Process(False))
    for _ in range(1000):
        tuner.run(plain)
    assert compiler.wait(WITHIN_S)
    assert not made


def test_while_it_is_compiled_the_form_that_is_there_runs() -> None:
    kernel = FusedKernel(lambda xp, *given: ([], None), ())
    ran: list[str] = []

    def other(*given: Any) -> list[Any]:
        ran.append("other")
        kernel.fell_back += 1
        kernel._compiling.add("a shape")
        return []

    tuner = Tuner({"compiled": lambda: (other, [kernel])}, False)
    for _ in range(AFTER):
        tuner.run(list)
    assert compiler.wait(WITHIN_S)
    for _ in range(5):
        tuner.run(lambda: ran.append("plain") or [])  # type: ignore[func-returns-value]
    assert ran == ["other", *["plain"] * 4]
    kernel._compiling.clear()
    tuner.run(list)
    assert ran[-1] == "other"


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
