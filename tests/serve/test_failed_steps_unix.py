"""Steps fail over unix sockets, however many and in whichever way: no process that lives through it keeps anything."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.serve.clusters import ProcessCluster
from tests.serve.failed_steps import (
    KILL_NOBODY,
    LARGE,
    SMALL,
    TIMES,
    frugal_processes,
    keeps_nothing,
    keeps_nothing_of_killed,
)

pytestmark = pytest.mark.timeout(400 * TIMES)


@pytest.fixture(scope="module", params=[SMALL, LARGE])
def fed(request: pytest.FixtureRequest) -> Iterator[tuple[ProcessCluster, int]]:
    """A cluster, and how many floats each step is fed."""
    with frugal_processes("unix") as cluster:
        yield cluster, request.param


@pytest.mark.parametrize("kind", KILL_NOBODY)
def test_nobody_keeps_anything_of_steps_that_fail(
    fed: tuple[ProcessCluster, int], kind: str
) -> None:
    cluster, elements = fed
    keeps_nothing(cluster, kind, elements)


def test_nobody_keeps_anything_of_steps_whose_tasks_are_killed() -> None:
    keeps_nothing_of_killed("unix")
