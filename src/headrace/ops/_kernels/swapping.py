"""The order that many swaps make, one after the other, found for all of them at once.

Step i swaps what lies at i with what lies at a place t(i) that is not before it, as shuffles do.  What lies at place j
at step i came there with the last step before i whose t was j, from where that step was, or was there from the
beginning.  So what lies at i when its turn comes is found along a chain of steps, and chains are short.
Called by: ops.random.draws.  Threads: pure functions.
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np

__all__: list[str] = []

Array = np.ndarray[Any, Any]
_MANY: Final = 1 << 10  # swaps that are found at once sooner than one by one
_HALF: Final = 32  # bits of a key


def order_of_swaps(targets: Array) -> Array:
    """int64 [n + 1]: 0 … n after swaps of i and targets[i], for i = 0, 1, …; targets [n], i <= targets[i] <= n."""
    if len(targets) < _MANY:
        order = list(range(len(targets) + 1))
        for at, target in enumerate(targets.tolist()):
            order[at], order[target] = order[target], order[at]
        return np.array(order)
    steps = np.arange(len(targets) + 1)
    before, last = _steps_before(targets.astype(np.int64), steps)
    # From which step comes what lies at i at step i: its own number where from none.
    own = np.append(before, -1)
    origin = np.where(last == steps, own, last)
    origin = np.where(origin < 0, steps, origin)
    while True:
        further = origin[origin]
        if np.array_equal(further, origin):
            break
        origin = further
    found = np.append(targets, len(targets)).astype(np.int64)
    known = np.append(before >= 0, False)
    found[known] = origin[own[known]]
    found[-1] = origin[-1]
    return found


def _steps_before(targets: Array, steps: Array) -> tuple[Array, Array]:
    """Of each step [n] the last one before it with the same target, of each place [n + 1] the last to it; else -1."""
    keys = np.sort(targets << _HALF | steps[:-1])
    at, target = keys & ((1 << _HALF) - 1), keys >> _HALF
    same = target[1:] == target[:-1]
    before, last = np.full(len(targets), -1), np.full(len(steps), -1)
    before[at[1:][same]] = at[:-1][same]
    ends = np.append(~same, True)
    last[target[ends]] = at[ends]
    return before, last
