"""A task that is started again elsewhere under the same name is found: names are looked up at every connection."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.hosts import NAMESPACES, kind

WITHIN_S = 600.0  # four processes are started one after the other, on a machine that may be busy
WITHIN = """
mount --bind "$1" /etc/resolv.conf || exit
ip link set lo up
exec "$2" -m tests.serve.moving "$3"
"""


@pytest.mark.timeout(WITHIN_S + 10)
@pytest.mark.skipif(kind() != NAMESPACES, reason="needs namespaces, for a name server of its own")
@pytest.mark.parametrize("lane", ["tcp", "off"])  # by unix sockets it would be one host
def test_a_ps_that_moves_is_one_aborted_error_and_training_goes_on(
    lane: str, tmp_path: Path
) -> None:
    servers = tmp_path / "resolv.conf"
    servers.write_text("nameserver 127.0.0.1\n")
    ended = subprocess.run(
        ["unshare", "-rmn", "sh", "-c", WITHIN, "sh", str(servers), sys.executable, str(tmp_path)],
        env={**os.environ, "HEADRACE_LANE": lane, "HEADRACE_FROZEN_AFTER_S": "7.5"},
        capture_output=True,
        text=True,
        timeout=WITHIN_S,
        check=False,
    )
    assert ended.stdout == "AbortedError, goes on, from 25 to 21\n", ended.stderr
