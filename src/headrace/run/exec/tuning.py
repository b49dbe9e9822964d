"""Tuning: a program that runs often is run in another form, too, and keeps the quicker one.

To find out costs something: JAX is imported, forms are compiled beside the steps, which are slower meanwhile.  So it
begins when the steps have taken about as long as that: a short program, which would never get it back, pays nothing.
Called by: run.exec.program.  Threads: any; what several threads count is near enough.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Sequence
from typing import Any, Final

from headrace.run.exec.fused import FusedKernel, compiler
from headrace.run.exec.measured import Measured

AFTER: Final = 16
"""Runs, before another form is made."""
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
    """make: the other form, and what in it is compiled while it runs; None if there is none.

    measures: whether it is taken only if it is quicker.  kept: where that is kept for other processes.  spent: of the
    process.
    """

    plain: Run | None = None
    """What runs the form that is there: for who asks for `run`, and kept here."""

    def __init__(
        self,
        make: Callable[[], Made | None],
        measures: bool,
        clock_s: Callable[[], float] = time.perf_counter,
        kept: Measured | None = None,
        spent: Spent = _SPENT,
    ) -> None:
        self._make, self._measures, self._clock_s = make, measures, clock_s
        self._kept, self._spent = kept, spent
        self._own_s = 0.0
        self._limit_s: float | None = None  # of what is spent, while it is waited for
        self._shapes: list[Any] = []  # of arguments
        self._runs = 0
        self._plain: list[float] = []
        self._other: Made | None = None
        self._trials: list[float] = []
        self._in_vain = 0
        self.over = False
        self.chosen: Run | None = None

    def run(self, plain: Run, *given: Any) -> list[Any]:
        """Run in one of the forms.  Raises what that does."""
        other = self._other
        if other is not None:
            if any(kernel.pending for kernel in other[1]):  # which would run node by node
                return plain(*given)
            return self._try(other, *given)
        shapes = []
        if self._runs == AFTER - 1 and len(given) > 1:  # the arguments go while they are used
            shapes = [getattr(each, "shape", ()) for each in given[1]]
        began = self._clock_s()
        found = plain(*given)
        took = self._clock_s() - began
        self._plain.append(took)
        del self._plain[: -2 * AFTER]
        self._runs += 1
        self._own_s += took
        self._spent.seconds += took
        if self._runs == AFTER:
            if self._kept is not None:
                self._shapes = shapes
            compiler.submit(self._recall if self._measures else self._prepare)
        elif self._limit_s is not None and self._is_worth(self._limit_s):
            self._limit_s = None
            compiler.submit(self._prepare)
        return found

    def _is_worth(self, limit_s: float) -> bool:
        """Whether as much has been spent as it costs to find out."""
        if self._own_s < OWN_S:
            return False
        return self._spent.seconds >= limit_s or self._spent.has_jax()

    def _recall(self) -> None:
        """Ask what earlier processes have found, which costs nothing."""
        known = None if self._kept is None else self._kept.recall(self._shapes)
        if known is False:
            self.over = True
            return
        if known:
            self._measures = False
        limit_s = KNOWN_S if known else ALL_S
        if self._is_worth(limit_s):
            self._prepare()
        else:
            self._limit_s = limit_s

    def _prepare(self) -> None:
        try:
            made = self._make()
        except Exception as error:  # the form that is there goes on
            import logging  # which few processes need for this

            logging.getLogger("headrace").warning(
                "a step is not fused: %s: %s", type(error).__name__, error
            )
            made = None
        if made is None:
            self.over = True
        else:
            self._other = made

    def _try(self, other: Made, *given: Any) -> list[Any]:
        run, kernels = other
        before = sum([kernel.fell_back for kernel in kernels])
        began = self._clock_s()
        found = run(*given)
        took = self._clock_s() - began
        if sum([kernel.fell_back for kernel in kernels]) == before:
            self._trials.append(took)
            if not self._measures or len(self._trials) >= _TRIALS:
                self._decide(run)
        else:
            self._in_vain += 1
            if self._in_vain > _MOST_IN_VAIN or any(kernel.hopeless for kernel in kernels):
                self._give_up()
        return found

    def _decide(self, run: Run) -> None:
        if self._measures:
            pays = _median(self._trials) <= _WORTH * _median(self._plain)
            if self._kept is not None:
                kept, shapes = self._kept, self._shapes
                compiler.submit(lambda: kept.note(shapes, pays))
            if not pays:
                self._give_up()
                return
        assert self._other is not None
        for kernel in self._other[1]:
            kernel.on_hopeless = self._give_up
        self.chosen = run
        self.over = True

    def _give_up(self) -> None:
        """For good; also of a form that was chosen, and keeps meeting shapes that it is not compiled for."""
        self._other = self.chosen = None
        self.over = True


def _median(times: Sequence[float]) -> float:
    """Without the standard library's module, which takes longer to import than most steps of a program."""
    return sorted(times)[len(times) // 2]
