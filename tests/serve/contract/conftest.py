"""The contract over connections that dawdle or break: a share of the tests is run behind proxies, too.

Where connections dawdle, each is slow, or what it carries comes in crumbs; nothing else changes.  Where they break,
they end at moments out of a seed, in the middle of a message mostly; tests.serve.trials says what may come of a test.
With a number in HEADRACE_TEST_SEED every test is run so, over gRPC and TCP, with that seed; `make soak` does that.
"""

from __future__ import annotations

import os
import zlib
from collections.abc import Callable, Iterator
from contextlib import ExitStack, nullcontext
from typing import Any

import pytest

from tests.serve.clusters import Cluster, Jobs, in_process
from tests.serve.conftest import JOBS, TRANSPORTS, over
from tests.serve.proxies import Faults, breaking, dawdling, proxied
from tests.serve.trials import Trial

SEED = os.environ.get("HEADRACE_TEST_SEED", "")
SHARE = 3  # every so many'th test dawdles, and another one breaks, over one of the transports
DAWDLING, BREAKING = (
    [f"{transport} {how}" for transport in ("grpc", "tcp")] for how in ("dawdles", "breaks")
)
ABOUT_TIME = ("test_deadlines", "test_time_limits")
EXACT = "test_deadlines"  # to some milliseconds
AT_ONCE = {  # look at what a session left the moment it closed; where connections broke, that goes a little later
    "test_closing_a_session_leaves_nothing_of_it_on_the_cluster",
    "test_isolated_sessions_share_no_state",
    "test_a_session_may_bring_a_cluster_in_which_tasks_have_other_names",
    "test_a_session_with_a_cluster_of_its_own_has_state_of_its_own",
    "test_a_task_has_another_name_in_the_cluster_that_a_session_brings",
}
MOST_BYTES_APART = {"grpc": 8_000, "tcp": 5_000}
TRIAL = pytest.StashKey[Trial]()


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Over which transports a test is run."""
    fixtures, module = metafunc.fixturenames, metafunc.module.__name__
    if "transport" not in fixtures:
        return
    transports = [*TRANSPORTS, "memory"]
    if "target" in fixtures:
        transports = ["local", "direct", "grpc", "memory"]
    elif "session" in fixtures:
        transports = ["local", *TRANSPORTS, "memory"]
    if "cluster_of" in fixtures:
        number = zlib.crc32(metafunc.function.__name__.encode())
        dawdles, breaks = not module.endswith(ABOUT_TIME), not module.endswith(EXACT)
        breaks = breaks and metafunc.function.__name__ not in AT_ONCE
        if SEED:
            transports = [*(DAWDLING if dawdles else []), *(BREAKING if breaks else [])]
        else:
            if dawdles and number % SHARE == 0:
                transports.append(DAWDLING[number // SHARE % 2])
            if dawdles and breaks and number % SHARE == 1:
                transports.append(BREAKING[number // SHARE % 2])
    metafunc.parametrize("transport", transports, indirect=True)


@pytest.fixture
def transport(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """Name of the transport over which this test's clients, masters and workers talk; "local": there is no cluster."""
    name: str = request.param.partition(" ")[0]
    with nullcontext() if name == "local" else over(name, monkeypatch):
        yield name


@pytest.fixture
def cluster_of(
    transport: str, request: pytest.FixtureRequest
) -> Iterator[Callable[[Jobs], Cluster]]:
    """cluster_of(jobs) is a cluster in this process, talking over the transport; one a test."""
    how = request.node.callspec.params["transport"].partition(" ")[2]
    seed = zlib.crc32(f"{SEED or 0} {request.node.name}".encode())
    with ExitStack() as stack:

        def made(jobs: Jobs) -> Cluster:
            if not how:
                return stack.enter_context(in_process(jobs))
            if how == "dawdles":
                return stack.enter_context(
                    proxied(transport, jobs, lambda number: dawdling(seed + number))
                )
            faults = Faults(seed, MOST_BYTES_APART[transport])
            cluster = stack.enter_context(breaking(transport, jobs, faults, seed))
            again = f"HEADRACE_TEST_SEED={SEED or 0} pytest '{request.node.nodeid}'"
            request.node.stash[TRIAL] = Trial(cluster, faults, again)
            return cluster

        yield made


@pytest.fixture
def cluster(cluster_of: Callable[[Jobs], Cluster]) -> Cluster:
    """One ps and two workers in this process, talking over the transport."""
    return cluster_of(JOBS)


@pytest.hookimpl(wrapper=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> Any:
    """Run the test as a trial, if its connections break."""
    trial = pyfuncitem.stash.get(TRIAL, None)
    if trial is None:
        return (yield)
    with trial.of(pyfuncitem):
        yield
    return True
