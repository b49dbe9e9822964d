"""The contract over connections that dawdle: a share of the tests is run behind proxies, too.

Each of their connections is slow, or what it carries comes in crumbs; nothing else changes.  With a number in
HEADRACE_TEST_SEED every test is run so, over gRPC and TCP, with that seed; `make soak` does that.
"""

from __future__ import annotations

import os
import zlib
from collections.abc import Iterator

import pytest

from tests.serve.clusters import Cluster, in_process
from tests.serve.conftest import JOBS, SHELLS
from tests.serve.proxies import dawdling, proxied

SEED = os.environ.get("HEADRACE_TEST_SEED", "")
SHARE = 3  # every so many'th test, over one of the shells
SHELLS_THAT_DAWDLE = ["grpc dawdles", "tcp dawdles"]
ABOUT_TIME = ("test_deadlines", "test_time_limits")


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "shell" not in metafunc.fixturenames:
        return
    shells = list(SHELLS)
    number = zlib.crc32(metafunc.function.__name__.encode())
    if "cluster" in metafunc.fixturenames and not metafunc.module.__name__.endswith(ABOUT_TIME):
        if SEED:
            shells = SHELLS_THAT_DAWDLE
        elif number % SHARE == 0:
            shells.append(SHELLS_THAT_DAWDLE[number // SHARE % 2])
    metafunc.parametrize("shell", shells, indirect=True)


@pytest.fixture
def shell(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """Name of the shell over which this test's clients, masters and workers talk."""
    name: str = request.param.partition(" ")[0]
    SHELLS[name](monkeypatch)
    return name


@pytest.fixture
def cluster(shell: str, request: pytest.FixtureRequest) -> Iterator[Cluster]:
    """One ps and two workers in this process, talking over the shell."""
    if " " not in request.node.callspec.params["shell"]:
        with in_process(JOBS) as cluster:
            yield cluster
        return
    seed = zlib.crc32(f"{SEED} {request.node.name}".encode())
    with proxied(shell, JOBS, lambda number: dawdling(seed + number)) as cluster:
        yield cluster
