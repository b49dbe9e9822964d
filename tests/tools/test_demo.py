"""`headrace demo` as it is run: it trains and reports, and however it ends, nothing of it is left."""

from __future__ import annotations

import io
import json
import os
import re
import select
import shutil
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

import headrace as tf
from headrace.tools.demo import run
from headrace.tools.demo.trainer import SUMMARY_EVERY
from headrace.tools.main import main
from tests.tools.records import record

DATA = Path(__file__).resolve().parents[2] / "examples" / "data"
GONE_WITHIN_S = 60.0
FOREVER = ("--epochs", "5000")
SERVER = re.compile(r"^  /job:(\w+)/task:(\d)\s+([\d.]+):(\d+)\s+pid (\d+)$")
PROGRAM = re.compile(r"^  (\w+(?: \d)?)\s+session on \S+\s+pid (\d+)$")


@dataclass
class Demo:
    """A running demo, alone in its session, and what it said so far."""

    process: subprocess.Popen[str]
    pids: dict[str, int] = field(default_factory=dict)
    ports: list[int] = field(default_factory=list)

    def wait_for(self, name: str) -> int:
        """Read its output until it has told the pid of `name`: `ps 0`, `trainer 1`, ..."""
        assert self.process.stdout is not None
        while name not in self.pids:
            line = self.process.stdout.readline()
            assert line, f"it ended before {name} was started: {self.rest()}"
            self._take(line.rstrip("\n"))
        return self.pids[name]

    def _take(self, line: str) -> None:
        if match := SERVER.match(line):
            job, task, _, port, pid = match.groups()
            self.pids[f"{job} {task}"] = int(pid)
            self.ports.append(int(port))
        elif match := PROGRAM.match(line):
            self.pids[match[1]] = int(match[2])

    def rest(self) -> tuple[int, str, str]:
        """Wait for its end: exit code, and what it wrote since."""
        out, err = self.process.communicate(timeout=100)
        for line in out.splitlines():
            self._take(line)
        return self.process.returncode, out, err

    def family(self, *, zombies: bool = False) -> list[int]:
        """The pids of everything in its session, the demo included.

        A process whose first thread has ended looks like a zombie while others still run.
        """
        found = []
        for entry in Path("/proc").iterdir():
            if entry.name.isdecimal():
                try:
                    after_name = (entry / "stat").read_text().rpartition(")")[2].split()
                except OSError:
                    continue
                if int(after_name[3]) == self.process.pid and (zombies or after_name[0] != "Z"):
                    found.append(int(entry.name))
        return found

    def assert_gone(self) -> None:
        """All its processes end in time, and its ports are free."""
        for pid in self.family(zombies=True):
            try:
                fd = os.pidfd_open(pid)
            except ProcessLookupError:
                continue
            try:
                ended, _, _ = select.select([fd], [], [], GONE_WITHIN_S)
            finally:
                os.close(fd)
            assert ended, f"process {pid} is still there: {command_line(pid)}"
        assert self.family() == []
        for port in self.ports:
            with socket.socket() as s:
                assert s.connect_ex(("127.0.0.1", port)) != 0, f"port {port} still accepts"


def command_line(pid: int) -> str:
    return Path(f"/proc/{pid}/cmdline").read_text().replace("\0", " ")


def start(out: Path, *arguments: str) -> Demo:
    command = [sys.executable, "-m", "headrace.tools.main", "demo"]
    return Demo(
        subprocess.Popen(
            [*command, "--data", str(DATA), "--out", str(out), *arguments],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
            env={**os.environ, "COLUMNS": "100", "PYTHONPATH": os.pathsep.join(sys.path)},
        )
    )


@pytest.fixture
def endless(tmp_path: Path) -> Iterator[Demo]:
    """A demo that will not end by itself within the test."""
    demo = start(tmp_path, *FOREVER)
    yield demo
    if demo.process.poll() is None:
        os.killpg(demo.process.pid, signal.SIGKILL)
    demo.process.communicate()


@dataclass(frozen=True)
class Finished:
    code: int
    out: str
    err: str
    directory: Path


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Finished:
    """One short run to its end, with nothing of it left."""
    directory = tmp_path_factory.mktemp("demo")
    demo = start(directory, "--epochs", "10")
    code, out, err = demo.rest()
    demo.assert_gone()
    return Finished(code, out, err, directory)


def test_it_trains_to_the_accuracy_it_promises(finished: Finished) -> None:
    assert (finished.code, finished.err) == (0, "")
    match = re.search(r"accuracy ([\d.]+)% on 360 test digits \((\d+) right\)", finished.out)
    assert match
    assert float(match[1]) >= 95.0
    assert int(match[2]) / 360 >= 0.95


def test_every_example_of_every_epoch_was_trained_on(finished: Finished) -> None:
    assert re.search(
        r"^14,370 examples in [\d.]+ s: [\d,]+ examples/s, 28\d steps", finished.out, re.M
    )
    assert "14,370 of 14,370" in finished.out


def test_the_trace_has_a_row_for_each_task_that_took_part(finished: Finished) -> None:
    events = json.loads((finished.directory / "trace.json").read_text())["traceEvents"]
    rows = {e["args"]["name"]: e["pid"] for e in events if e["name"] == "process_name"}
    ran = {
        pid: {e["name"] for e in events if e["ph"] == "X" and e["pid"] == pid}
        for pid in rows.values()
    }
    ps = ran[rows["/job:ps/replica:0/task:0/device:CPU:0 Compute"]]
    workers = [pid for name, pid in rows.items() if re.match(r"/job:worker/.* Compute$", name)]
    assert len(workers) == 1  # each trainer's session knows its own worker and the ps
    assert {"ApplyAdam", "QueueDequeueUpToV2"} <= ps
    assert {"MatMul", "SparseSoftmaxCrossEntropyWithLogits", "RecvTensor"} <= ran[workers[0]]
    assert any(e["ph"] == "s" for e in events)


def test_the_report_tells_of_this_run(finished: Finished) -> None:
    page = (finished.directory / "report.html").read_text()
    right = re.search(r"\((\d+) right\)", finished.out)
    assert right
    assert f"{right[1]} of 360 handwritten digits, read right" in page
    for said in ("worker 0", "worker 1", "hidden1/weights", "RandomShuffleQueue", "14,370 rows"):
        assert said in page


def events_of(directory: Path) -> dict[str, list[Any]]:
    """What each worker has written."""
    workers = sorted((directory / "headrace-demo").glob("worker*"))
    return {
        worker.name: [
            event for path in worker.iterdir() for event in tf.train.summary_iterator(path)
        ]
        for worker in workers
    }


def summaries(events: list[Any]) -> int:
    return sum(event.HasField("summary") for event in events)


def test_it_writes_what_tensorboard_shows(finished: Finished) -> None:
    found = events_of(finished.directory)
    assert set(found) == {"worker0", "worker1"}
    traced_at, _ = run.Plan(None, finished.directory, 10, 50, 1437).trace_at  # type: ignore[arg-type]
    for events in found.values():
        kinds = {event.WhichOneof("what") for event in events}
        wanted = {"graph_def", "session_log"}
        # One of the two may have begun when the other had taken most of the examples.
        wanted |= {"summary"} if summaries(events) else set()
        if (summaries(events) - 1) * SUMMARY_EVERY > traced_at:
            wanted |= {"tagged_run_metadata"}
        assert kinds >= wanted
        if "summary" in kinds:
            tags = {value.tag for event in events for value in event.summary.value}
            assert tags >= {"cross_entropy", "learning_rate", "values/hidden1/weights"}
    assert 280 < SUMMARY_EVERY * sum(map(summaries, found.values())) < 290 + 2 * SUMMARY_EVERY


def test_started_again_it_goes_on_from_its_checkpoint(finished: Finished, tmp_path: Path) -> None:
    shutil.copytree(finished.directory / "headrace-demo", tmp_path / "headrace-demo")
    code, out, err = start(tmp_path, "--epochs", "2").rest()
    assert (code, err) == (0, "")
    match = re.search(r"^resuming from .*-(\d+) \(remove", out, re.M)
    assert match
    first = int(match[1])
    assert 280 <= first <= 290
    last = tf.train.latest_checkpoint(str(tmp_path / "headrace-demo"))
    assert last is not None
    assert int(last.rpartition("-")[2]) > first + 40
    page = (tmp_path / "report.html").read_text()
    assert "This run resumed from a checkpoint" in page
    drawn = [events for events in events_of(finished.directory).values() if summaries(events)]
    assert page.count('class="curve earlier') == len(drawn)


def test_ctrl_c_in_the_terminal_stops_everything(endless: Demo) -> None:
    endless.wait_for("trainer 1")
    os.killpg(endless.process.pid, signal.SIGINT)  # as a terminal does: to all of them
    code, _, err = endless.rest()
    assert (code, err) == (130, "headrace demo: interrupted; everything it started is stopped\n")
    assert endless.family() == []
    endless.assert_gone()


def test_asking_again_and_again_does_not_leave_anything_behind(endless: Demo) -> None:
    endless.wait_for("trainer 1")
    for number in (signal.SIGINT, signal.SIGINT, signal.SIGTERM, signal.SIGINT):
        endless.process.send_signal(number)
    code, _, _ = endless.rest()
    assert code in (130, 143)
    assert endless.family() == []


@pytest.mark.parametrize("started", ["ps 0", "trainer 1"])
def test_when_the_parent_is_killed_nothing_is_left(endless: Demo, started: str) -> None:
    endless.wait_for(started)
    endless.process.kill()
    endless.process.wait()
    endless.assert_gone()


def test_a_terminated_parent_stops_everything(endless: Demo) -> None:
    endless.wait_for("trainer 1")
    endless.process.terminate()
    code, _, _ = endless.rest()
    assert code == 128 + signal.SIGTERM
    assert endless.family() == []


@pytest.mark.parametrize("name", ["trainer 1", "loader", "ps 0"])
def test_a_child_that_dies_is_named_and_the_rest_is_stopped(endless: Demo, name: str) -> None:
    endless.wait_for("trainer 1")
    pid = endless.pids[name]
    os.kill(pid, signal.SIGKILL)
    code, _, err = endless.rest()
    assert code == 1
    assert f"headrace demo: {name} (pid {pid}) was killed by SIGKILL" in err
    endless.assert_gone()


def test_an_accuracy_below_the_bar_is_a_failure_but_is_reported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = record()
    assert made.results.accuracy == 0.75
    monkeypatch.setattr(run, "_run", lambda plan, console: run.Outcome(made, "[]"))
    for bar, code, complaint in [
        ("0.74", 0, ""),
        ("0.76", 1, "headrace demo: accuracy 0.750 is below 0.76\n"),
    ]:
        out, err, directory = io.StringIO(), io.StringIO(), tmp_path / bar
        asked = ["demo", "--data", str(DATA), "--out", str(directory), "--min-accuracy", bar]
        assert (main(asked, out, err), err.getvalue()) == (code, complaint)
        assert "accuracy 75.0% on 4 test digits (3 right)" in out.getvalue()
        assert (directory / "report.html").exists()


def test_an_output_directory_that_is_a_file_is_refused_before_anything_starts(
    tmp_path: Path,
) -> None:
    (tmp_path / "file").write_text("")
    code, out, err = start(tmp_path / "file").rest()
    assert (code, out) == (1, "")
    assert "File exists" in err
