"""Which of several forms of a program stays: the quickest, if it is worth it, of those that can be made."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from headrace.run.exec.fused import MOST_FORMS, FusedKernel, compiler
from headrace.run.exec.tuning import AFTER, PLAIN, Run, Tuner

WITHIN_S = 60.0


class _Clock:
    def __init__(self) -> None:
        self.now_s = 0.0

    def form(self, seconds: float) -> Run:
        def run(*given: Any) -> list[Any]:
            self.now_s += seconds
            return [seconds]

        return run


class _Kept:
    """What was measured, in memory."""

    def __init__(self, known: str | None = None) -> None:
        self.known = known

    def recall(self, shapes: Any) -> str | None:
        return self.known

    def note(self, shapes: Any, form: str) -> None:
        self.known = form


def decided(tuner: Tuner, plain: Run) -> None:
    for _ in range(20 * AFTER):
        if tuner.over:
            return
        tuner.run(plain)
        assert compiler.wait(WITHIN_S)
    raise AssertionError("nothing was decided")


@pytest.mark.parametrize(
    ("loops_s", "compiled_s", "stays"),
    [(0.3, 0.5, "loops"), (0.5, 0.3, "compiled"), (0.95, 2.0, PLAIN), (None, 0.5, "compiled")],
)
def test_the_quickest_form_stays(loops_s: float | None, compiled_s: float, stays: str) -> None:
    clock, kept = _Clock(), _Kept()
    loops = None if loops_s is None else clock.form(loops_s)
    compiled = clock.form(compiled_s)
    tuner = Tuner(
        {"loops": lambda: loops and (loops, ()), "compiled": lambda: (compiled, ())},
        True,
        lambda: clock.now_s,
        kept,  # type: ignore[arg-type]
    )
    decided(tuner, clock.form(1.0))
    assert tuner.chosen is {"loops": loops, "compiled": compiled, PLAIN: None}[stays]
    assert compiler.wait(WITHIN_S)
    assert kept.known == stays


def test_what_was_the_quickest_is_taken_at_once() -> None:
    clock, asked = _Clock(), list[str]()

    def make(name: str) -> Callable[[], Any]:
        def form() -> Any:
            asked.append(name)
            return clock.form(0.5), ()

        return form

    forms = {name: make(name) for name in ("loops", "compiled")}
    tuner = Tuner(forms, True, lambda: clock.now_s, _Kept("compiled"))  # type: ignore[arg-type]
    decided(tuner, clock.form(1.0))
    assert tuner.chosen is not None
    assert asked == ["compiled"]


def test_a_form_that_fails_is_asked_for_again() -> None:
    clock = _Clock()
    broken = FusedKernel(lambda xp: [], ())

    def failing(*given: Any) -> list[Any]:
        broken.fell_back += 1
        broken.failed = True
        return [2.0]

    found = [(failing, [broken]), (clock.form(0.5), ())]
    tuner = Tuner({"loops": lambda: found.pop(0) if found else None}, True, lambda: clock.now_s)
    decided(tuner, clock.form(1.0))
    assert tuner.chosen is not None
    assert not found


class _Alone(FusedKernel):
    stands_alone = True


def test_loops_are_worth_it_though_groups_keep_meeting_other_shapes() -> None:
    clock = _Clock()
    alone, group = _Alone(lambda xp: [], ()), FusedKernel(lambda xp: [], ())
    quick = clock.form(0.5)

    def run(*given: Any) -> list[Any]:
        if len(group._forms) < MOST_FORMS:
            group._forms[len(group._forms)] = None
        group.fell_back += 1
        return quick(*given)

    tuner = Tuner({"loops": lambda: (run, [alone, group])}, True, lambda: clock.now_s)
    decided(tuner, clock.form(1.0))
    group.on_hopeless()
    assert tuner.chosen is run
    alone._forms.update(dict.fromkeys(range(MOST_FORMS)))
    alone.on_hopeless()
    assert tuner.chosen is None
