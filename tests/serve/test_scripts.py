"""The client scripts of the interop matrix on a cluster of headrace alone: no TensorFlow needed.

Each without sockets and over one of the transports that have them; with HEADRACE_TEST_SHELLS=all, which `make soak`
sets, over every transport.
"""

from __future__ import annotations

import importlib
import os
import zlib
from collections.abc import Iterator
from pathlib import Path

import pytest

import headrace as tf
from headrace.base import errors
from headrace.codec import protos as pb
from headrace.training.timeline import Timeline
from tests.interop.scripts.table import AREAS, Here, Raises, close, plain
from tests.serve.clusters import Cluster, in_process
from tests.serve.conftest import TRANSPORTS

CASES = {
    (area, name): case
    for area in AREAS
    for name, case in importlib.import_module(f"tests.interop.scripts.{area}").TABLE.cases.items()
}


SOCKETS = [transport for transport in TRANSPORTS if transport != "direct"]
ALL = os.environ.get("HEADRACE_TEST_SHELLS", "") == "all"


def over(name: str) -> list[str]:
    """The transports over which a script is run."""
    return [*TRANSPORTS] if ALL else ["direct", SOCKETS[zlib.crc32(name.encode()) % len(SOCKETS)]]


@pytest.fixture
def pair(transport: str) -> Iterator[Cluster]:
    """One ps and one worker in this process."""
    with in_process({"ps": 1, "worker": 1}) as cluster:
        yield cluster


@pytest.mark.parametrize(
    ("transport", "area", "name"),
    [(transport, area, name) for area, name in CASES for transport in over(name)],
    indirect=["transport"],
)
def test_it_is_as_the_script_says(area: str, name: str, pair: Cluster, tmp_path: Path) -> None:
    case = CASES[area, name]
    here = Here(
        pair.target("worker:0"),
        pair.target("ps:0"),
        str(tmp_path),
        timeline=Timeline,
        callable_options=pb.CallableOptions,
        attr_value=pb.AttrValue,
    )
    if not isinstance(case.expected, Raises):
        assert close(plain(case.run(tf, here)), case.expected)
        return
    with pytest.raises(errors.OpError) as caught:
        case.run(tf, here)
    assert type(caught.value).__name__ == case.expected.kind
    if case.expected.node is not None:
        assert getattr(caught.value.op, "name", None) == case.expected.node
