"""How feeds and fetches of a step are spread over its parts, and put together again."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

from headrace.plan.relay import Stages
from headrace.serve import messages as m
from headrace.serve.plans import Fitted, Part, Plan


def part(
    task: str, feeds: str, fetches: str, taken: Sequence[str] = (), given: Sequence[str] = ()
) -> Part:
    names = {n: n for n in feeds}, {n: n for n in fetches}
    return Part(task, task, *names, taken=taken, given=given)


ALONE = [part("one", "ab", "xy")]
TWO = [part("one", "a", "x"), part("two", "b", "yz")]
RELAYED = [part("one", "a", "x", given=("r",)), part("two", "b", "yz", taken=("r",))]
OTHER_WAY = [part("one", "a", "x", taken=("r",)), part("two", "b", "yz", given=("r",))]

CASES: list[tuple[list[Part], Stages | None, str, bool]] = [
    (ALONE, None, "xy", True),
    (ALONE, None, "yx", False),
    (ALONE, None, "x", False),
    (ALONE, None, "xx", False),
    (TWO, None, "x", True),
    (TWO, None, "yz", True),
    (TWO, None, "zy", False),
    (TWO, None, "xyz", False),
    (RELAYED, ((0,), (1,)), "yz", True),
    (RELAYED, ((0,), (1,)), "x", True),
    (RELAYED, ((0,), (1,)), "zx", False),
    (OTHER_WAY, ((1,), (0,)), "x", True),
    (OTHER_WAY, ((1,), (0,)), "yz", True),
    (OTHER_WAY, ((1,), (0,)), "yzx", False),
    (TWO, None, "", False),
]


@pytest.mark.parametrize(("parts", "stages", "fetches", "whole"), CASES)
def test_fetches_come_in_the_order_in_which_they_were_named(
    parts: list[Part], stages: Stages | None, fetches: str, whole: bool
) -> None:
    fitted = Fitted(Plan(parts, stages=stages), "ab", fetches)
    requests = fitted.requests(1, ["A", "B"], True)
    replies = []
    for each in parts:
        made = [np.array(name) for name in each.fetches]
        replies.append(m.ValuesReply([*made, *(np.array("relayed") for _ in each.given)]))
    if stages is not None:
        before, now = stages
        fitted.pass_on(before, replies, now, requests)
        assert "".join(map(str, requests[now[0]].feeds[1:])) == "relayed"
    found = fitted.reply(replies)
    assert "".join(map(str, found.fetches)) == fetches
    assert any(found is reply for reply in replies) == whole


def test_a_step_without_parts_has_no_fetches() -> None:
    assert Fitted(Plan([]), (), ()).reply([]).fetches == []


@pytest.mark.parametrize("feeds", ["ab", "ba"])
def test_each_part_gets_its_feeds(feeds: str) -> None:
    fitted = Fitted(Plan(TWO), feeds, "yz")
    values: list[Any] = list(feeds.upper())
    first, second = fitted.requests(7, values, True)
    assert (first.feeds, second.feeds) == (["A"], ["B"])
    assert (first.step_id, second.step_id) == (7, 7)
