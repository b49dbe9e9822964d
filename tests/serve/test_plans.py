"""How feeds and fetches of a step are spread over its parts, and put together again."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest

from headrace.base import errors
from headrace.plan.relay import Stages
from headrace.run.pending import Pending
from headrace.run.scope import Scope
from headrace.run.state.variable import Lease
from headrace.serve.connect.cluster_view import OutstandingParts
from headrace.serve.master.plans import BoundPlan, PartitionHandle, Plan
from headrace.serve.master.requests import PartRequests
from headrace.serve.master.step import run_stages
from headrace.serve.rpc import messages as m
from headrace.serve.rpc import methods
from headrace.serve.rpc.step_channel import Caller


def part(
    task: str, feeds: str, fetches: str, taken: Sequence[str] = (), given: Sequence[str] = ()
) -> PartitionHandle:
    names = {n: n for n in feeds}, {n: n for n in fetches}
    return PartitionHandle(task, task, *names, taken=taken, given=given)


ALONE = [part("one", "ab", "xy")]
TWO = [part("one", "a", "x"), part("two", "b", "yz")]
RELAYED = [part("one", "a", "x", given=("r",)), part("two", "b", "yz", taken=("r",))]
OTHER_WAY = [part("one", "a", "x", taken=("r",)), part("two", "b", "yz", given=("r",))]

CASES: list[tuple[list[PartitionHandle], Stages | None, str, bool]] = [
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
    parts: list[PartitionHandle], stages: Stages | None, fetches: str, whole: bool
) -> None:
    bound = BoundPlan(Plan(parts, stages=stages), "ab", fetches)
    replies = [[np.array(name) for name in each.fetches] for each in parts]
    found = bound.fetches(replies)
    assert "".join(map(str, found)) == fetches
    assert any(found is reply for reply in replies) == whole


def test_a_step_without_parts_has_no_fetches() -> None:
    assert BoundPlan(Plan([]), (), ()).fetches([]) == []


@pytest.mark.parametrize("feeds", ["ab", "ba"])
def test_each_part_gets_its_feeds(feeds: str) -> None:
    bound = BoundPlan(Plan(TWO), feeds, "yz")
    values: list[Any] = list(feeds.upper())
    ((alone, stage),) = bound.plan.asks
    assert alone is None
    assert [[values[place] for place in bound.feeds[ask.number]] for ask in stage] == [["A"], ["B"]]


# -- parts that run one after the other --------------------------------------------------------------

Asked = tuple[str, int, list[Any]]
"""A task, the number of its step and what it was fed."""


class Tasks:
    """A cluster whose tasks note what they are asked for, and give leases."""

    def __init__(self, parts: Sequence[PartitionHandle], own: str, failing: str = "") -> None:
        self.parts = {part.graph_handle: part for part in parts}
        self.asked: list[Asked] = []
        self.given: list[Lease] = []
        self.outstanding: OutstandingParts = {}
        self.own_worker = self
        self.own = own
        self._failing = failing

    def worker(self, task: str) -> Tasks:
        return self

    def call_now(
        self, method: methods.Method, request: m.RunPartRequest, scope: Scope
    ) -> m.ValuesReply:
        asked = self.parts[request.graph_handle]
        if asked.task != self.own:
            assert [*self.outstanding[request.step_id][0]] == [asked]
        return self.run_part(request, scope)

    def begin(
        self, method: methods.Method, request: m.RunPartRequest, scope: Scope
    ) -> Pending[Any]:
        return self.call(method, request, scope)

    def call(
        self, method: methods.Method, request: m.RunPartRequest, scope: Scope, watched: bool = True
    ) -> Pending[Any]:
        try:
            return Pending.done_with(self.call_now(method, request, scope))
        except errors.OpError as error:
            return Pending.failed_with(error)

    def run_part(
        self, request: m.RunPartRequest, scope: Scope, caller: Caller | None = None
    ) -> m.ValuesReply:
        handle, step_id, feeds, _ = request
        self.asked.append((handle, step_id, [str(value) for value in feeds]))
        if handle == self._failing:
            raise errors.aborted("for once")
        part = self.parts[handle]
        leases = [
            Lease(np.array(name), set())
            for name in [*part.fetches, *map("<{}>".format, part.given)]
        ]
        self.given += leases
        return m.ValuesReply(leases)


THERE_AND_BACK = [
    PartitionHandle("worker", "worker", {"a": "a"}, {"x": "x"}, taken=("r", "s"), given=("t",)),
    PartitionHandle("ps", "first", {"b": "b"}, {"y": "y"}, given=("r", "s")),
    PartitionHandle("ps", "last", {}, {"z": "z"}, taken=("t",)),
]
LINES: list[tuple[list[PartitionHandle], Stages | None, str]] = [
    (ALONE, None, "one"),
    (ALONE, None, "another"),
    (RELAYED, ((0,), (1,)), "two"),
    (OTHER_WAY, ((1,), (0,)), "one"),
    (OTHER_WAY, ((1,), (0,)), "two"),
    (THERE_AND_BACK, ((1,), (0,), (2,)), "worker"),
]


def without_a_deadline(cluster: Any, bound: BoundPlan) -> list[list[Any]]:
    return run_stages(cluster, cluster.own, PartRequests(bound, 7, ["A", "B"], True), Scope())


def with_a_deadline(cluster: Any, bound: BoundPlan) -> list[list[Any]]:
    return run_stages(cluster, cluster.own, PartRequests(bound, 7, ["A", "B"], True), Scope(60.0))


@pytest.mark.parametrize(("parts", "stages", "own"), LINES)
def test_parts_in_line_are_asked_and_give_as_those_of_other_plans(
    parts: list[PartitionHandle], stages: Stages | None, own: str
) -> None:
    found: list[tuple[list[Asked], list[list[str]]]] = []
    for run in (without_a_deadline, with_a_deadline):
        names = "".join(name for part in parts for name in part.fetches)
        cluster = Tasks(parts, own)
        values = run(cluster, BoundPlan(Plan(parts, stages=stages), "ab", names))
        texts = [[str(value.array) for value in part] for part in values]
        assert [[*part.fetches] for part in parts] == texts
        assert not cluster.outstanding
        found.append((cluster.asked, texts))
    assert found[0] == found[1]
    assert len(found[0][0]) == len(parts)


@pytest.mark.parametrize("run", [without_a_deadline, with_a_deadline])
@pytest.mark.parametrize("failing", ["first", "worker", "last"])
def test_nothing_stays_leased_when_a_part_fails(
    failing: str, run: Callable[[Any, BoundPlan], Any]
) -> None:
    cluster = Tasks(THERE_AND_BACK, "worker", failing)
    bound = BoundPlan(Plan(THERE_AND_BACK, stages=((1,), (0,), (2,))), "ab", "xyz")
    with pytest.raises(errors.AbortedError, match="for once"):
        run(cluster, bound)
    assert [handle for handle, _, _ in cluster.asked][-1] == failing
    assert not cluster.outstanding
    for lease in cluster.given:
        with pytest.raises(RuntimeError, match="released"):
            _ = lease.array


def test_parts_that_run_at_the_same_time_are_a_stage() -> None:
    def stages(plan: Plan) -> list[list[int]]:
        return [[ask.number for ask in stage] for _, stage in plan.asks]

    assert stages(Plan(TWO)) == [[0, 1]]
    assert stages(Plan([*TWO, ALONE[0]], stages=((0, 1), (2,)))) == [[0, 1], [2]]
