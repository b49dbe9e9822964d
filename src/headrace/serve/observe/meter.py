"""Meters: how many steps have ended, how long they took, and with which errors.

Nothing is counted until somebody wants it: a meter is then put in the place of the functions by which steps enter, and
takes itself out when its time is over.  So what is not counted costs nothing.
Called by: serve.worker.worker, serve.master.master (make them), serve.worker.bound_parts (reads).  Threads: any.
"""

from __future__ import annotations

import itertools
import threading
import time
from collections import deque
from collections.abc import Callable, Collection
from typing import Any

import numpy as np

from headrace.base import errors
from headrace.codec import protos as pb

BUCKETS = 40
"""Number n: what took less than 2^n microseconds, and no less than 2^(n-1); the last one has all above: six days."""

_MOST_ENDED = 1024

Function = Callable[..., Any]


class Meter:
    """See the module header.  Functions are called without keywords; None means that they have done nothing.

    tick: a step that takes no time has ended; gives how many have before, to be followed by `check` now and then
    (`observe.counting`).
    """

    def __init__(self, clock_s: Callable[[], float] = time.perf_counter) -> None:
        self._clock_s = clock_s
        self._lock = threading.Lock()
        self._ended: deque[float] = deque()  # how long steps took that are in no bucket yet
        self._buckets = np.zeros(BUCKETS, np.int64)
        self._sum_s = 0.0
        self._failed: dict[int, int] = {}
        self._since_s = clock_s()
        self._until_s = 0.0
        self._places: list[tuple[Any, tuple[str, ...]]] = []
        self._over = False
        self.tick = itertools.count().__next__  # which no other thread interrupts
        self._ticks = self._read_ticks = 0  # that are in a bucket; those that were none

    def want(self, for_s: float) -> None:
        """Count for so long from now on, at least."""
        self._until_s = max(self._until_s, self._clock_s() + for_s)

    def put_in(self, owner: Any, *names: str) -> None:
        """Have calls of these methods of an object counted, which knows this as its `meter` meanwhile."""
        with self._lock:
            if self._over:
                return
            self._places.append((owner, names))
            owner.meter = self
            for name in names:
                setattr(owner, name, self._around(getattr(owner, name)))

    def keep(self, owners: Collection[Any]) -> None:
        """Hold no others than these: the rest is not used any more."""
        kept = {id(owner) for owner in owners}
        with self._lock:
            self._places = [place for place in self._places if id(place[0]) in kept]

    @property
    def over(self) -> bool:
        """Whether it counts no more.  It is found out by whoever asks, or after some more steps."""
        self.check()
        return self._over

    def check(self) -> None:
        """Count no more if nobody wants it any more."""
        if self._clock_s() > self._until_s:
            self._take_out()

    def _take_out(self) -> None:
        with self._lock:
            self._over = True
            places, self._places = self._places, []
            for owner, names in places:
                for name in ("meter", *names):
                    owner.__dict__.pop(name, None)

    def add(self, took_s: float) -> None:
        """A step has ended after as long."""
        self._ended.append(took_s)
        if len(self._ended) >= _MOST_ENDED:
            self._sum_up()

    def _sum_up(self) -> None:
        """Steps note no more than how long they took, which needs no lock; it is sorted here, for many at once."""
        ended = self._ended
        with self._lock:
            ticks = self.tick() - self._read_ticks
            self._read_ticks += 1
            self._buckets[0] += ticks - self._ticks
            self._ticks = ticks
            took_s = np.array([ended.popleft() for _ in range(len(ended))])
            _, bits = np.frexp(took_s * 1e6)  # of whole microseconds
            np.add.at(self._buckets, np.clip(bits, 0, BUCKETS - 1), 1)
            self._sum_s += float(took_s.sum())
        self.check()

    def _failed_with(self, error: BaseException) -> None:
        """What is none of ours, Ctrl-C say, counts as cancelled."""
        code = error.error_code if isinstance(error, errors.OpError) else errors.CANCELLED
        with self._lock:
            self._failed[code] = self._failed.get(code, 0) + 1

    def _around(self, run: Function) -> Function:
        clock_s, ended = self._clock_s, self._ended
        note, count = ended.append, ended.__len__

        def counted(*args: Any) -> Any:
            began_s = clock_s()
            try:
                found = run(*args)
            except BaseException as error:
                self.add(clock_s() - began_s)
                self._failed_with(error)
                raise
            if found is not None:
                note(clock_s() - began_s)
                if count() >= _MOST_ENDED:
                    self._sum_up()
            return found

        return counted

    def state(self) -> pb.StepCounts:
        """What has been counted."""
        self._sum_up()
        with self._lock:
            buckets = self._buckets.tolist()
            most = max((n for n, count in enumerate(buckets) if count), default=-1)
            return pb.StepCounts(
                bucket=buckets[: most + 1],
                sum_s=self._sum_s,
                failed=self._failed,
                counted_s=max(self._clock_s() - self._since_s, 1e-9),
            )
