"""Tuning: a program that runs often is run in other forms, too, and keeps the quickest one.

Called by: run.exec.program.  Threads: any; what several threads count is near enough.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from headrace.run.exec.fused import FusedKernel, compiler
from headrace.run.exec.measured import Measured

AFTER: Final = 16
"""Runs, before another form is made."""
PLAIN: Final = "plain"
"""The name of the form that is there."""
_TRIALS: Final = 15
_MOST_IN_VAIN: Final = 400
_WORTH: Final = 0.9  # of the time of the form that is there

Run = Callable[..., list[Any]]
Made = tuple[Run, Sequence[FusedKernel]]


class Tuner:
    """forms: what makes each, and what in it is compiled while it runs, by name; None if there is none.  One whose
    kernels cannot be compiled is asked for again, and may be another one then.

    measures: whether one is taken only if it is quicker.  kept: where that is kept for other processes.
    """

    def __init__(
        self,
        forms: Mapping[str, Callable[[], Made | None]],
        measures: bool,
        clock_s: Callable[[], float] = time.perf_counter,
        kept: Measured | None = None,
    ) -> None:
        self._left = list(forms.items())
        self._measures, self._clock_s = measures, clock_s
        self._kept = kept
        self._shapes: list[Any] = []  # of arguments
        self._runs = 0
        self._plain: list[float] = []
        self._other: Made | None = None
        self._trials: list[float] = []
        self._in_vain = 0
        self._tried: list[tuple[float, str, Made]] = []
        self.over = False
        self.chosen: Run | None = None

    def run(self, plain: Run, *given: Any) -> list[Any]:
        """Run in one of the forms.  Raises what that does."""
        other = self._other
        if other is not None:
            return self._try(other, *given)
        shapes = []
        if self._runs == AFTER - 1 and len(given) > 1:  # the arguments go while they are used
            shapes = [getattr(each, "shape", ()) for each in given[1]]
        began = self._clock_s()
        found = plain(*given)
        self._plain.append(self._clock_s() - began)
        del self._plain[: -2 * AFTER]
        self._runs += 1
        if self._runs == AFTER:
            if self._kept is not None:
                self._shapes = shapes
            compiler.submit(self._prepare)
        return found

    def _prepare(self) -> None:
        """The first form."""
        known = None
        if self._measures and self._kept is not None:
            known = self._kept.recall(self._shapes)
        if known == PLAIN:
            self._left = []
        elif known is not None and known in dict(self._left):
            self._left = [each for each in self._left if each[0] == known]
            self._measures = False
        self._next()

    def _next(self) -> None:
        """The next form that there is, or the end."""
        while self._left:
            made = self._made(self._left[0][1])
            if made is not None:
                self._trials, self._in_vain = [], 0
                self._other = made
                return
            del self._left[0]
        self._decide()

    def _made(self, make: Callable[[], Made | None]) -> Made | None:
        try:
            return make()
        except Exception as error:  # the form that is there goes on
            import logging  # which few processes need for this

            logging.getLogger("headrace").warning(
                "a step is not fused: %s: %s", type(error).__name__, error
            )
            return None

    def _try(self, other: Made, *given: Any) -> list[Any]:
        run, kernels = other
        before = sum([kernel.fell_back for kernel in kernels])
        began = self._clock_s()
        found = run(*given)
        took = self._clock_s() - began
        if self._other is not other:  # another thread's was the last trial
            return found
        if sum([kernel.fell_back for kernel in kernels]) == before:
            self._trials.append(took)
            if not self._measures or len(self._trials) >= _TRIALS:
                self._end_trial(other)
        else:
            self._in_vain += 1
            if any(kernel.failed for kernel in kernels):
                self._leave(again=True)
            elif self._in_vain > _MOST_IN_VAIN or any(kernel.hopeless for kernel in kernels):
                self._leave()
        return found

    def _end_trial(self, other: Made) -> None:
        self._tried.append((_median(self._trials), self._left[0][0], other))
        if not self._measures:
            self._left = []
            self._decide()
            return
        self._leave()

    def _leave(self, again: bool = False) -> None:
        """The form is not tried any more.  again: it is asked for once more."""
        self._other = None
        if not again:
            del self._left[:1]
        if self._left:
            compiler.submit(self._next)
        else:
            self._decide()

    def _decide(self) -> None:
        """Nothing is left to be tried."""
        took, name, made = min(self._tried, default=(0.0, PLAIN, None), key=lambda each: each[0])
        pays = made is not None
        if pays and self._measures:
            pays = took <= _WORTH * _median(self._plain)
        if self._measures and self._tried and self._kept is not None:
            kept, shapes, taken = self._kept, self._shapes, name if pays else PLAIN
            compiler.submit(lambda: kept.note(shapes, taken))
        self._tried = []
        if not pays or made is None:
            self._give_up()
            return
        for kernel in made[1]:
            kernel.on_hopeless = self._give_up
        self._other = None
        self.chosen = made[0]
        self.over = True

    def _give_up(self) -> None:
        """For good; also of a form that was chosen, and keeps meeting shapes that it is not compiled for."""
        self._other = self.chosen = None
        self.over = True


def _median(times: Sequence[float]) -> float:
    """Without the standard library's module, which takes longer to import than most steps of a program."""
    return sorted(times)[len(times) // 2]
