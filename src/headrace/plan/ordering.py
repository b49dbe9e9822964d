"""Ordering: segments and waiters of a program in the order in which they run while nothing has to wait.

Called by: plan.compile.  Threads: any.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from headrace.run.exec.program import Item, Segment, Waiter


def items_in_order(
    segments: Mapping[frozenset[int], Segment],
    waiters: Sequence[tuple[Waiter, frozenset[int]]],
) -> list[Item]:
    """In dependency order: fewer waiters before, segments before waiters.

    segments: by the numbers of the waiters that they come after; waiters: each with those that it comes after.
    """
    pending: list[tuple[int, int, frozenset[int], Segment | Waiter, int]] = []
    for after, segment in segments.items():
        pending.append((len(after), 0, after, segment, -1))
    for number, (waiter, after) in enumerate(waiters):
        pending.append((len(after), 1, after, waiter, number))
    pending.sort(key=lambda entry: entry[:2])
    items = [Item(work, len(after)) for _, _, after, work, _ in pending]
    position = {number: i for i, (*_, number) in enumerate(pending) if number >= 0}
    for index, (_, _, after, _, _) in enumerate(pending):
        for number in after:
            items[position[number]].wakes.append(index)
    return items
