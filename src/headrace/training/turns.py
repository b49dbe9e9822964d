"""Turns: of threads that take one short step again and again, one goes on while the others wait.

A step of a tenth of a millisecond is for the most part Python, which one thread runs at a time; within it the threads
hand the interpreter to each other at each file that is read and each array that is computed, and two of them make half
of what one makes alone.  A thread keeps its turn as long as its steps are short.  One whose steps are not, because
they compute long or wait, leaves it, and for a while nobody asks: such steps go side by side.  Nobody waits for a
turn for longer than a moment, so that no step depends on another's thread.
Called by: training.queue_runner.  Threads: each has its own `Turn`.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Final

_LONG_S: Final = 3e-4
"""Steps that take longer are worth a thread each: measured, with pictures of several sizes."""
_LONGEST_S: Final = 1e-3  # that counts: a step that has waited once is one of many that compute
_WEIGHT: Final = 1 / 16  # of the last step in the mean
_PATIENCE_S, _LONGEST_PATIENCE_S = 5e-3, 40e-3
"""Twice as long each time that whose turn it is has gone on meanwhile."""
_SIDE_BY_SIDE, _MOST_SIDE_BY_SIDE = 64, 4096
"""Steps of all that are taken before they ask for turns again, twice as many each time."""


class Turns:
    """What the threads have in common."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.apart = 0  # steps that are taken without asking, by whom it may be; nearly counted
        self.pause = _SIDE_BY_SIDE
        self.taken = 0  # steps of turns

    def of(self, step: Callable[[], object]) -> Turn:
        """For one more thread."""
        return Turn(self, step)


class Turn:
    """A thread's steps: each call takes one, or waits a moment for the thread whose turn it is, so that who calls can
    look whether to go on.  Raises what a step raises; then the thread has left its turn.
    """

    def __init__(self, turns: Turns, step: Callable[[], object]) -> None:
        self._turns, self._step = turns, step
        self._mine = False
        self._mean_s = 0.0  # of its turn's steps
        self._first = 0  # of them, among all
        self._alone = False  # the next step: whose turn it is does not go on
        self._patience_s = _PATIENCE_S

    def __call__(self) -> None:
        turns = self._turns
        if self._alone or turns.apart > 0:
            if not self._alone:
                turns.apart -= 1
            self._alone = False
            self._step()
            return
        if not self._mine and not self._has_turn():
            return
        began = time.perf_counter()
        try:
            self._step()
        except BaseException:
            self._leave()
            raise
        took_s = min(time.perf_counter() - began, _LONGEST_S)
        self._mean_s += (took_s - self._mean_s) * _WEIGHT
        turns.taken += 1
        if self._mean_s > _LONG_S:
            lasted = turns.taken - self._first > turns.pause
            turns.pause = _SIDE_BY_SIDE if lasted else min(2 * turns.pause, _MOST_SIDE_BY_SIDE)
            turns.apart = turns.pause
            self._leave()

    def _has_turn(self) -> bool:
        """Whether it has come without waiting; else a moment has gone by, and it has perhaps come now."""
        turns = self._turns
        self._mine = at_once = turns.lock.acquire(blocking=False)
        if not at_once:
            taken = turns.taken
            self._mine = turns.lock.acquire(timeout=self._patience_s)
            self._alone = not self._mine and turns.taken == taken
            goes_on = turns.taken != taken
            self._patience_s = (
                min(2 * self._patience_s, _LONGEST_PATIENCE_S) if goes_on else _PATIENCE_S
            )
        if self._mine:
            self._mean_s, self._first = 0.0, turns.taken
            if turns.apart > 0:  # the next one need not wait either
                self._leave()
        return at_once

    def _leave(self) -> None:
        self._mine = False
        self._turns.lock.release()
