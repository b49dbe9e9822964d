"""Every row of the benchmark table runs: its program is right, and its processes end with it."""

from __future__ import annotations

import json
import os
import re
import select
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

import headrace as tf
from benchmarks.child import measure
from benchmarks.compare import floor_name
from benchmarks.libraries import HEADRACE
from benchmarks.row import Bench, Unit
from benchmarks.rows import AREAS, TABLE
from headrace.serve.connect import local_servers
from tests.serve.clusters import in_process

ROOT = Path(__file__).resolve().parents[2]
GONE_WITHIN_S = 60.0

OF_PROCESSES = [
    row.name for row in TABLE.values() if row.area == "footprint" or row.unit is Unit.BYTES
]
"""What they measure is a process."""

ONE_OF_THE_OTHERS = ["remote_run_var"]  # with servers


def command(*arguments: str) -> list[str]:
    return [sys.executable, "-m", "benchmarks", *arguments]


@pytest.mark.parametrize("name", OF_PROCESSES + ONE_OF_THE_OTHERS)
def test_a_row_measured_from_the_command_line_yields_a_figure(name: str) -> None:
    ended = subprocess.run(
        command("--quick", "--only", "headrace", name), cwd=ROOT, capture_output=True, text=True
    )
    assert (ended.returncode, ended.stderr) == (0, ""), ended.stdout + ended.stderr
    *_, line = ended.stdout.splitlines()
    assert re.match(rf"{name}\s+[\d.,]+ (ns|µs|ms|s|B|kB|MB|GB|/s)\s", line)


MOST = {"nbytes": 1_000_000, "tasks": 4, "many": 60}


@pytest.mark.parametrize("name", [name for name in TABLE if name not in OF_PROCESSES])
def test_a_row_verifies_its_result_and_yields_a_figure(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    row = TABLE[name]
    monkeypatch.setattr(
        local_servers, "find", lambda address: None
    )  # through sockets, as in the table
    jobs = {job: min(tasks, MOST["tasks"]) for job, tasks in row.cluster.items()}
    with in_process(jobs) as cluster, tf.Graph().as_default():
        assert measure(row, HEADRACE.name, Bench(0.0, cluster.spec), row.smaller(MOST)) > 0


# Of floors that differ in the number of their processes alone the one with the fewest.
FLOORS: dict[str, tuple[str, int]] = {}
for _row in TABLE.values():
    for _index, _floor in enumerate(_row.floors):
        FLOORS.setdefault(re.sub(r"\d+ at once", "many at once", _floor.text), (_row.name, _index))


@pytest.mark.parametrize("text", FLOORS)
def test_a_floor_yields_a_figure(text: str) -> None:
    name, index = FLOORS[text]
    assert measure(TABLE[name], floor_name(index), Bench(0.0)) > 0


def test_every_row_explains_itself_and_stands_in_an_area_of_the_table() -> None:
    for row in TABLE.values():
        assert row.function.__doc__, row.name
        assert row.area in AREAS, row.name


@contextmanager
def measuring(name: str) -> Iterator[subprocess.Popen[bytes]]:
    """`python -m benchmarks` in a session of its own, at work on one row at full length."""
    process = subprocess.Popen(
        command("--only", "headrace", name),
        cwd=ROOT,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        start_new_session=True,
    )
    try:
        yield process
    finally:
        process.kill()
        process.communicate()


def session_of(leader: int) -> set[int]:
    """The pids of the session, but for the leader and what has ended."""
    found = set()
    for entry in Path("/proc").iterdir():
        if entry.name.isdecimal() and int(entry.name) != leader:
            try:
                stat = (entry / "stat").read_text().rpartition(")")[2].split()
            except OSError:
                continue
            if int(stat[3]) == leader and stat[0] != "Z":
                found.add(int(entry.name))
    return found


def wait_for_end(pids: set[int]) -> None:
    for pid in pids:
        try:
            fd = os.pidfd_open(pid)
        except ProcessLookupError:
            continue
        try:
            ended, _, _ = select.select([fd], [], [], GONE_WITHIN_S)
        finally:
            os.close(fd)
        assert ended, f"process {pid} is still there"


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGKILL])
def test_its_servers_end_with_it_however_it_ends(
    number: signal.Signals, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # A Python for the servers that tells on a pipe that it runs: then both are there.
    told = tmp_path / "told"
    os.mkfifo(told)
    (tmp_path / "sitecustomize.py").write_text(
        "import json, os, sys\n"
        "if 'serve' in sys.orig_argv:\n"
        f"    with open({str(told)!r}, 'w') as pipe:\n"
        "        pipe.write(json.dumps(os.getpid()) + '\\n')\n"
    )
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    with measuring("remote_run_const") as process:
        servers: set[int] = set()
        # Also open for writing here: else what is written while nobody reads, between two openings, is lost.
        with open(os.open(told, os.O_RDWR)) as pipe:
            while len(servers) < 2:
                servers.add(json.loads(pipe.readline()))
        assert servers <= session_of(process.pid)
        process.send_signal(number)
        process.wait(GONE_WITHIN_S)
        wait_for_end(servers | session_of(process.pid))
        assert session_of(process.pid) == set()
