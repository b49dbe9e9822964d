"""Tuning: a program that runs often is run in other forms, too, and keeps the quickest one.

To find out costs something: JAX is imported, forms are compiled beside the steps, which are slower meanwhile.  So it
begins when the steps have taken about as long as that: a short program, which would never get it back, pays nothing.
A form and the one that is there take turns while they are timed, so that what else the machine does counts for both.
Called by: run.exec.program.  Threads: any; what several threads count is near enough.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from headrace.run.exec.fused import FusedKernel, compiler
from headrace.run.exec.measured import Measured

AFTER: Final = 16
"""Runs, before another form is made."""
PLAIN: Final = "plain"
"""The name of the form that is there."""
OWN_S: Final = 0.25
"""What a program has taken in all, before it is compiled to find out whether that pays."""
ALL_S: Final = 2.0
"""What all such programs of the process have taken, before JAX is imported for it."""
KNOWN_S: Final = 0.5
"""The same where an earlier process has found that it pays."""
_TRIALS: Final = 15
_MOST_IN_VAIN: Final = 400
_WORTH: Final = 0.9  # of the time of the form that is there

Run = Callable[..., list[Any]]
Made = tuple[Run, Sequence[FusedKernel]]


class Spent:
    """seconds: what programs have taken of which nobody knows yet whether it pays to compile them."""

    def __init__(self) -> None:
        self.seconds = 0.0

    def has_jax(self) -> bool:
        """Whether JAX is there anyway, so that it costs nothing more."""
        return "jax" in sys.modules


_SPENT: Final = Spent()


class Tuner:
    """forms: what makes each, and what in it is compiled while it runs, by name; None if there is none.  One whose
    kernels cannot be compiled is asked for again, and may be another one then.

    measures: whether one is taken only if it is quicker.  kept: where that is kept for other processes.  spent: of the
    process.
    """

    plain: Run | None = None
    """What runs the form that is there: for who asks for `run`, and kept here."""

    def __init__(
        self,
        forms: Mapping[str, Callable[[], Made | None]],
        measures: bool,
        clock_s: Callable[[], float] = time.perf_counter,
        kept: Measured | None = None,
        spent: Spent = _SPENT,
    ) -> None:
        self._left = list(forms.items())
        self._measures, self._clock_s = measures, clock_s
        self._kept, self._spent = kept, spent
        self._own_s = 0.0
        self._limit_s: float | None = None  # of what is spent, while it is waited for
        self._shapes: list[Any] = []  # of arguments
        self._runs = 0
        self._other: Made | None = None
        self._trials: list[float] = []
        self._turns: list[float] = []  # of the form that is there
        self._in_vain = 0
        self._tried: list[tuple[float, str, Made]] = []  # times the form that is there
        self.over = False
        self.chosen: Run | None = None

    def run(self, plain: Run, *given: Any) -> list[Any]:
        """Run in one of the forms.  Raises what that does."""
        other = self._other
        if other is not None:
            if any(kernel.pending for kernel in other[1]):  # which would run node by node
                return plain(*given)
            if self._measures and len(self._turns) < len(self._trials):
                found, took = self._timed(plain, *given)
                self._turns.append(took)
                return found
            return self._try(other, *given)
        shapes = []
        if self._runs == AFTER - 1 and len(given) > 1:  # the arguments go while they are used
            shapes = [getattr(each, "shape", ()) for each in given[1]]
        found, took = self._timed(plain, *given)
        self._runs += 1
        self._own_s += took
        self._spent.seconds += took
        if self._runs == AFTER:
            if self._kept is not None:
                self._shapes = shapes
            compiler.submit(self._recall if self._measures else self._next)
        elif self._limit_s is not None and self._is_worth(self._limit_s):
            self._limit_s = None
            compiler.submit(self._next)
        return found

    def _timed(self, run: Run, *given: Any) -> tuple[list[Any], float]:
        began = self._clock_s()
        found = run(*given)
        return found, self._clock_s() - began

    # -- forms ----------------------------------------------------------------------------------------------------

    def _is_worth(self, limit_s: float) -> bool:
        """Whether as much has been spent as it costs to find out."""
        if self._own_s < OWN_S:
            return False
        return self._spent.seconds >= limit_s or self._spent.has_jax()

    def _recall(self) -> None:
        """Ask what earlier processes have found, which costs nothing."""
        known = None if self._kept is None else self._kept.recall(self._shapes)
        if known == PLAIN:
            self.over = True
            return
        named = [each for each in self._left if each[0] == known]
        if named:
            self._left, self._measures = named, False
        limit_s = KNOWN_S if named else ALL_S
        if self._is_worth(limit_s):
            self._next()
        else:
            self._limit_s = limit_s

    def _next(self) -> None:
        """The next form that there is, or the end."""
        while self._left:
            made = self._made(self._left[0][1])
            if made is not None:
                self._trials, self._turns, self._in_vain = [], [], 0
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

    # -- trials ---------------------------------------------------------------------------------------------------

    def _try(self, other: Made, *given: Any) -> list[Any]:
        run, kernels = other
        before = _times_fallen_back(kernels)
        found, took = self._timed(run, *given)
        if self._other is not other:  # another thread's was the last trial
            return found
        if _times_fallen_back(kernels) == before:
            self._trials.append(took)
            if not self._measures or len(self._trials) >= _TRIALS:
                self._end_trial(other)
        else:
            self._in_vain += 1
            if any(kernel.failed for kernel in kernels):
                self._leave(again=True)
            elif self._in_vain > _MOST_IN_VAIN or _are_hopeless(kernels):
                self._leave()
        return found

    def _end_trial(self, other: Made) -> None:
        name, ratio = self._left[0][0], 0.0
        if self._measures:
            ratio = _median(self._trials) / (_median(self._turns) or 1.0)
        self._tried.append((ratio, name, other))
        if not self._measures:
            self._left = []
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
        ratio, name, made = min(self._tried, default=(0.0, PLAIN, None), key=lambda each: each[0])
        pays = made is not None and (ratio <= _WORTH or not self._measures)
        if self._measures and self._tried and self._kept is not None:
            kept, shapes, taken = self._kept, self._shapes, name if pays else PLAIN
            compiler.submit(lambda: kept.note(shapes, taken))
        self._tried = []
        if not pays or made is None:
            self._give_up()
            return
        kernels = made[1]
        for kernel in kernels:
            kernel.on_hopeless = lambda: self._give_up_if_hopeless(kernels)
        self.chosen = made[0]
        self.over = True

    def _give_up_if_hopeless(self, kernels: Sequence[FusedKernel]) -> None:
        """The form that was chosen keeps meeting shapes that it is not compiled for."""
        if compiler.forked or _are_hopeless(kernels):
            self._give_up()

    def _give_up(self) -> None:
        """For good."""
        self._other = self.chosen = None
        self.over = True


def _times_fallen_back(kernels: Sequence[FusedKernel]) -> int:
    """How often, but for those without which the form may still be worth it."""
    alone = any(kernel.stands_alone for kernel in kernels)
    counted = [each for each in kernels if each.stands_alone or not (alone and each.hopeless)]
    return sum([kernel.fell_back for kernel in counted])


def _are_hopeless(kernels: Sequence[FusedKernel]) -> bool:
    """Whether a form with these is not worth it, since they keep meeting other shapes."""
    alone = [kernel.hopeless for kernel in kernels if kernel.stands_alone]
    return all(alone) if alone else any(kernel.hopeless for kernel in kernels)


def _median(times: Sequence[float]) -> float:
    """Without the standard library's module, which takes longer to import than most steps of a program."""
    return sorted(times)[len(times) // 2]
