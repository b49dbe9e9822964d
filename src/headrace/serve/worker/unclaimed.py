"""What other tasks have sent to a task for steps that nobody has begun there: bounded in time and in bytes.

A value may come before the request to run the part that takes it.  Mostly that is a moment; if the master has died in
between, it would be for good.
Called by: serve.worker.worker, under its lock.
"""

from __future__ import annotations

import time
from typing import Any

from headrace.base.limits import UNCLAIMED_BYTES
from headrace.serve.rpc.limits import LIMITS
from headrace.serve.worker.remote_rendezvous import StepRendezvous, size_of


def forget_old(steps: dict[int, StepRendezvous]) -> None:
    """Drop what was sent for steps that nobody began for long: their masters are gone."""
    oldest = time.monotonic() - LIMITS.unstarted_s
    stale = [
        step_id
        for step_id, rendezvous in steps.items()
        if not rendezvous.started and rendezvous.since < oldest
    ]
    for step_id in stale:
        del steps[step_id]


def count(
    steps: dict[int, StepRendezvous], rendezvous: StepRendezvous, value: Any, task: str
) -> None:
    """`value` has come for a step of `task` that nobody has begun yet.

    Raises ResourceExhausted if all that has come so takes too much.
    """
    rendezvous.unclaimed += size_of(value)
    waiting = [each.unclaimed for each in steps.values() if not each.started]
    UNCLAIMED_BYTES.check(
        sum(waiting),
        f"{task} was sent values for {len(waiting)} steps that nobody has begun there; they would take",
    )
