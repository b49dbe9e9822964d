"""Runs cases until the time is over or one fails.  A case is its seed, target and number, and nothing else."""

from __future__ import annotations

import time
import tracemalloc
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from random import Random

from tests.fuzz.mutate import mutated
from tests.fuzz.targets import CAP, Target

INTACT = 8  # one in so many cases is not mutated and must be accepted
BATCH = 20  # cases of a target before it is the next one's turn
SLOW_S = 10.0
ROOM = 4 * CAP
"""Memory that a case may take: messages are checked in several ways, and valid ones made."""


class Failed(Exception):
    """A case failed; its cause says how."""

    def __init__(self, target: str, number: int, data: bytes) -> None:
        super().__init__(f"{target} case {number}")
        self.target, self.number, self.data = target, number, data


@dataclass(slots=True)
class Tally:
    """What has been run."""

    cases: dict[str, int] = field(default_factory=dict)
    accepted: dict[str, int] = field(default_factory=dict)


def run_case(seed: int, target: Target, number: int) -> bool:
    """Whether the bytes were accepted.  Raises Failed."""
    rng = Random(f"{seed}/{target.name}/{number}")
    data = b""
    intact = number % INTACT == 0
    began = time.thread_time()  # of this thread: the machine may be busy
    try:
        data = target.valid(rng)
        if not intact:
            data = mutated(rng, data, target.valid(rng))
        tracemalloc.start()
        accepted = target.check(rng, data)
        taken = tracemalloc.get_traced_memory()[1]
        assert accepted or not intact, "a valid message was refused"
        assert taken < ROOM, f"{len(data)} bytes made their reader allocate {taken}"
        assert time.thread_time() - began < SLOW_S, "took too long"
    except Exception as error:
        raise Failed(target.name, number, data) from error
    finally:
        tracemalloc.stop()
    return accepted


def run(
    seed: int, targets: Mapping[str, Target], seconds: float, progress: Callable[[Tally], None]
) -> Tally:
    """Go round the targets for so long, once at least.  Raises Failed at the first case that fails."""
    tally = Tally(dict.fromkeys(targets, 0), dict.fromkeys(targets, 0))
    end = time.monotonic() + seconds
    while True:
        for name, target in targets.items():
            for _ in range(BATCH):
                tally.accepted[name] += run_case(seed, target, tally.cases[name])
                tally.cases[name] += 1
        progress(tally)
        if time.monotonic() >= end:
            return tally
