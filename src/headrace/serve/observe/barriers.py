"""Barriers: whose gradients an accumulator lacks that several tasks bring theirs to.

It knows the sessions that ever brought one or took them out, and their masters' tasks.  A task of the same job that
does not answer is taken for one that brings some.
Called by: serve.observe.causes, serve.observe.blocked, client.blocked.  Pure.
"""

from __future__ import annotations

from collections.abc import Mapping

from headrace.codec import protos as pb

_MOST_NAMED = 3


def who_is_missing(accumulator: pb.ResourceState, silent: Mapping[str, str]) -> str:
    """Who has brought nothing since the last take, and why as far as that is known; "" if nobody ever brought anything.

    silent: tasks that say nothing, and why.
    """
    absent = _absent(accumulator, silent)
    if not absent:
        return ""
    gone = [who for who in absent if who in silent] or list(absent)
    texts = [_about(who, absent[who], silent) for who in gone[:_MOST_NAMED]]
    more = len(gone) - len(texts)
    return "; ".join(texts) + (f"; and {more} more" if more else "")


def missing(accumulator: pb.ResourceState, silent: Mapping[str, str]) -> tuple[str, ...]:
    """The tasks for which all others wait; none as long as one that answers has not brought what it is to."""
    absent = _absent(accumulator, silent)
    return tuple(absent) if all(who in silent for who in absent) else ()


def who_took(accumulator: pb.ResourceState, silent: Mapping[str, str]) -> str:
    """Why nobody takes gradients out any more, as far as that is known; "" if somebody may."""
    return "; ".join(
        f"nobody takes gradients out any more: that was up to {who}, which {silent[who]}"
        for who in missing_takers(accumulator, silent)
    )


def missing_takers(accumulator: pb.ResourceState, silent: Mapping[str, str]) -> tuple[str, ...]:
    """The tasks that took gradients out, if none of them answers."""
    takers = {each.task or f"session {each.session}" for each in accumulator.taker}
    return tuple(sorted(takers)) if takers <= silent.keys() else ()


def _absent(accumulator: pb.ResourceState, silent: Mapping[str, str]) -> dict[str, float | None]:
    """Tasks (or sessions of masters that do not say theirs), and seconds since their latest; None: never."""
    latest: dict[str, tuple[float, bool]] = {}
    for each in accumulator.contributor:
        who = each.task or f"session {each.session}"
        if who not in latest or each.ago_s < latest[who][0]:
            latest[who] = each.ago_s, each.there
    jobs = {_job(who) for who in latest}
    found: dict[str, float | None] = {
        task: None for task in silent if _job(task) in jobs and task not in latest
    }
    found.update((who, ago_s) for who, (ago_s, there) in latest.items() if not there)
    return dict(sorted(found.items()))


def _job(task: str) -> str:
    return task.partition("/replica:")[0]


def _about(who: str, ago_s: float | None, silent: Mapping[str, str]) -> str:
    came = "it never brought one" if ago_s is None else f"its latest came {ago_s:.1f} s ago"
    if who in silent:
        return f"there is no gradient of {who}, which {silent[who]}; {came}"
    return f"there is no gradient of {who} yet; {came}"
