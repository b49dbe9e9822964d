"""Histories of a queue: what its users asked for and were told, and whether a queue can have behaved so.

Moments are numbers that grow.  An operation has happened, if at all, between `begun` and `ended`; one whose end nobody
heard of, because its client was killed or had no more patience, may happen later, or never.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import pairwise

NEVER = 10**9


@dataclass(eq=False)
class Put:
    """Elements that were to go in, in that order.  known: they have."""

    elements: list[int]
    begun: int
    ended: int = NEVER
    known: bool = False


@dataclass(eq=False)
class Take:
    """So many elements were to come out.  known: `elements` have; else nobody knows, unless it has `failed`.

    short: fewer may have come out.
    """

    wanted: int
    begun: int
    short: bool = False
    ended: int = NEVER
    known: bool = False
    failed: bool = False
    elements: list[int] = field(default_factory=list)


def check(puts: list[Put], takes: list[Take], in_order: bool) -> None:
    """Raise AssertionError if an element was lost, came twice or, of a queue that is `in_order`, came out of order.

    The last of the takes have emptied the queue.
    """
    known = [take for take in takes if take.known]
    came = [element for take in known for element in take.elements]
    assert len(came) == len(set(came)), "an element came twice"
    by = {element: put for put in puts for element in put.elements}
    for take in known:
        for element in take.elements:
            assert element in by, f"{element} was never put in"
            assert by[element].begun < take.ended, f"{element} came before it was put in"
    _check_losses(puts, takes, set(came))
    if in_order:
        _check_order(by, known)
        _check_what_was_lost(puts, takes, by)


def _check_losses(puts: list[Put], takes: list[Take], came: set[int]) -> None:
    """What is missing must be what takes without a known end may have taken, all or nothing each."""
    missing = sum(e not in came for put in puts if put.known for e in put.elements)
    spare = sum(e not in came for put in puts if not put.known for e in put.elements)
    may = {0}
    for take in doubtful(takes):
        more = range(take.wanted + 1) if take.short else (0, take.wanted)
        may = {sum_ + each for sum_ in may for each in more}
    assert any(missing <= taken <= missing + spare for taken in may), (
        f"{missing} elements are lost; those that nobody heard of were to take "
        f"{[take.wanted for take in doubtful(takes)]}"
    )


def doubtful(takes: list[Take]) -> list[Take]:
    """Those that may have taken something without anybody's knowledge."""
    return [take for take in takes if not take.known and not take.failed]


def _came_first(by: dict[int, Put], one: int, other: int) -> bool:
    """Whether `one` must have gone in before `other`."""
    a, b = by[one], by[other]
    if a is b:
        return a.elements.index(one) < a.elements.index(other)
    return a.ended < b.begun


def _check_order(by: dict[int, Put], takes: list[Take]) -> None:
    """There must be an order of the takes that agrees with when they were made and with how the elements went in."""
    for take in takes:
        for one, other in pairwise(take.elements):
            assert not _came_first(by, other, one), f"{other} came behind {one}, in one batch"
    before = {
        take: [
            first
            for first in takes
            if first is not take
            and (
                first.ended < take.begun
                or any(_came_first(by, a, b) for a in first.elements for b in take.elements)
            )
        ]
        for take in takes
    }
    done: set[Take] = set()
    while len(done) < len(takes):
        ready = [t for t in takes if t not in done and all(first in done for first in before[t])]
        assert ready, f"no order fits: {[t.elements for t in takes if t not in done]}"
        done.update(ready)


def _check_what_was_lost(puts: list[Put], takes: list[Take], by: dict[int, Put]) -> None:
    """Who took an element without anybody's knowledge began before those behind it were out."""
    known = [take for take in takes if take.known]
    came = {element for take in known for element in take.elements}
    first = min((take.begun for take in doubtful(takes)), default=NEVER)
    for put in puts:
        for lost in put.elements if put.known else ():
            if lost in came:
                continue
            overtaken = [t for t in known if any(_came_first(by, lost, e) for e in t.elements)]
            assert all(first < take.ended for take in overtaken), f"{lost} was overtaken"
