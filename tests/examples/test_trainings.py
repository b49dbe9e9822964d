"""Examples that train, are killed, and go on where they were; what their READMEs tell to type is what runs here."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import headrace as tf
from tests.ports import own_ports

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"
pytestmark = pytest.mark.timeout(400)  # a busy machine starts processes slowly
WITHIN_S = 100.0
ENDLESS = 1 << 30  # steps: as many as are made until a test ends the training
FAILS_AT = 300
STEP = re.compile(r"step (\d+): ([\d.]+)% of the test digits")

Start = Callable[..., Any]
Run = Callable[..., list[str]]


class Tasks:
    """A parameter server and two workers, whose processes come and go."""

    def __init__(self, start: Start, logs: Path, *arguments: str) -> None:
        ps, *workers = (f"localhost:{port}" for port in own_ports(3))
        self._target = f"grpc://{ps}"
        self._start = start
        self._arguments = ("--ps", ps, "--workers", ",".join(workers), "--logs", str(logs))
        self._arguments += ("--steps", str(ENDLESS), *arguments)
        self._running: dict[str, Any] = {}

    def start(self, name: str) -> None:
        """name: "ps 0", "worker 1", …"""
        job, task = name.split()
        self._running[name] = self._start(
            "replicated_digits/train", "--job", job, "--task", task, *self._arguments
        )

    def kill(self, name: str) -> None:
        """As kill -9 does."""
        self._running[name].kill()
        self._running[name].wait()

    def lines(self, name: str) -> Iterator[str]:
        """What a task prints, as it comes."""
        for line in self._running[name].stdout:
            yield line.rstrip("\n")

    def step(self, change: int | None = None) -> int:
        """The global step, which is changed first."""
        with tf.Graph().as_default(), tf.Session(self._target) as session:
            with tf.device("/job:ps/task:0"):
                step = tf.train.create_global_step()
            return int(session.run(step if change is None else step.assign(change)))


def saved_step(logs: Path) -> int:
    """Of the last checkpoint; 0 if there is none."""
    return int((tf.train.latest_checkpoint(str(logs)) or "-0").rpartition("-")[2])


def step_and_share_of(line: str) -> tuple[int, float]:
    match = STEP.fullmatch(line)
    assert match, line
    return int(match[1]), float(match[2])


@pytest.mark.parametrize(
    ("killed", "arguments"),
    [("ps 0", ()), ("worker 1", ("--sync",))],
    ids=["the ps, asynchronously", "a worker, synchronously"],
)
def test_two_workers_learn_digits_though_a_task_is_killed(
    tmp_path: Path, start_example: Start, killed: str, arguments: tuple[str, ...]
) -> None:
    logs = tmp_path / "logs"
    tasks = Tasks(start_example, logs, *arguments)
    for name in ("ps 0", "worker 0", "worker 1"):
        tasks.start(name)
    said = tasks.lines("worker 0")
    assert next(said).startswith("begins at step ")
    share = 0.0
    # The other worker alone may have taught it half before there is a checkpoint of more than the beginning.
    while share < 50 or not saved_step(logs):
        _, share = step_and_share_of(next(said))
    tasks.kill(killed)
    if killed == "ps 0":
        tasks.start(killed)
        begun = next(line for line in said if line.startswith("begins"))
        assert int(begun.rpartition(" ")[2]) > 0  # from a checkpoint
        went_on = 0
    else:
        went_on = tasks.step() + 2  # of which one was under way, and the next needs both
        tasks.start(killed)
    while True:
        step, share = step_and_share_of(next(said))
        if step >= went_on and share > 90:
            break
    tasks.step(ENDLESS - 2)  # so that in step nobody ends one earlier than the other
    assert list(said)[-1] == "done"
    assert list(tasks.lines("worker 1"))[-1] == "done"
    assert list(logs.glob("*tfevents*"))


def test_a_supervised_training_goes_on_where_it_was(tmp_path: Path, run_example: Run) -> None:
    for begun in (0, 200):
        first, fitted, last = run_example("supervised/train", str(tmp_path))
        assert first == f"begins at step {begun}"
        assert fitted == f"step {begun + 200}: 3.00 x + -1.00"
        assert last == "done"


def test_a_training_is_the_same_in_one_go_and_in_two(tmp_path: Path, run_example: Run) -> None:
    command = ("handover/train", "headrace")
    assert run_example(*command, str(tmp_path / "two"))[0] == "headrace begins at step 0"
    begun, ended = run_example(*command, str(tmp_path / "two"))
    assert begun == "headrace begins at step 100"
    assert run_example(*command, str(tmp_path / "one"), "200")[1] == ended


@pytest.mark.parametrize("killed", ["worker", "chief"])
def test_a_launch_starts_a_killed_task_again_and_the_training_goes_on(
    tmp_path: Path, started: Start, killed: str
) -> None:
    program = str(EXAMPLES / "launched" / "train.py")
    options = ("--ps", "1", "--chief", "--workers", "1", "--restarts", "1")
    begins = []
    for steps, more in (("1000", ("--fails", killed)), ("1100", ())):
        arguments = (str(tmp_path / "saved"), "--steps", steps, *more)
        launched = started(
            *("-m", "headrace.tools.main", "launch", *options, "--"),
            *(sys.executable, program, *arguments),
        )
        out, err = launched.communicate(timeout=WITHIN_S)
        assert launched.returncode == 0, out + err
        assert ("was killed by SIGKILL; restart 1 of 1" in err) == bool(more)
        assert re.search(r"\[chief 0\] +3\.00 x \+ -1\.00", out)
        begins += [int(n) for n in re.findall(r"\[chief 0\] +begins at step (\d+)", out)]
    if killed == "chief":
        first, again, last = begins
        assert again >= FAILS_AT - 100  # from a checkpoint
    else:
        first, last = begins
    assert first <= FAILS_AT + 1  # who has trained alone has waited there
    assert last >= 1000  # the worker may have been a step ahead


def test_an_estimator_learns_digits_on_four_processes_though_one_is_killed(
    tmp_path: Path, started: Start
) -> None:
    program = str(EXAMPLES / "estimator" / "train.py")
    options = ("--ps", "1", "--chief", "--workers", "1", "--evaluator", "--restarts", "1")
    launched = started(
        *("-m", "headrace.tools.main", "launch", *options, "--no-table", "--grace", "90", "--"),
        *(sys.executable, program, str(tmp_path), "--steps", "600", "--fails", "chief"),
    )
    out, err = launched.communicate(timeout=WITHIN_S)
    assert launched.returncode == 0, out + err
    assert "chief 0 was killed by SIGKILL; restart 1 of 1" in err
    first, again = (int(n) for n in re.findall(r"\[chief 0\] +begins at step (\d+)", out))
    assert first <= FAILS_AT + 1  # the worker, which may have begun, has waited there
    assert again >= FAILS_AT - 110  # from a checkpoint, one of which is made every 100 steps
    shares = re.findall(r"Saving dict for global step (\d+): accuracy = ([\d.]+)", out + err)
    assert int(shares[-1][0]) >= 600
    assert float(shares[-1][1]) > 0.9
    (exported,) = (tmp_path / "export" / "digits").iterdir()
    assert exported.name.isdigit()


def test_a_wide_and_deep_model_learns_a_table_and_its_export_is_served(
    tmp_path: Path, finish: Callable[..., list[str]], started: Start
) -> None:
    folder = EXAMPLES / "wide_and_deep"
    learned, exported = finish(started(str(folder / "train.py"), str(tmp_path), "--steps", "120"))
    found = re.fullmatch(r"step 120: .* (\d+)% are right; .* would be (\d+)%", learned)
    assert found is not None, learned
    assert int(found[1]) > int(found[2]) + 10
    said = finish(started(str(folder / "serve.py"), exported.removeprefix("exported to ")))
    assert [re.sub(r"\d+%", "N%", line) for line in said] == [
        "23 2.5 Delft rain 1 cycles with N%",
        "61 9.0 Porto sun 1 cycles with N%",
        "35 1.2 Graz sun 0 cycles with N%",
    ]


@pytest.mark.parametrize(
    "name", ["replicated_digits", "supervised", "handover", "estimator", "wide_and_deep"]
)
def test_a_readme_types_commands_that_there_are(name: str) -> None:
    text = (EXAMPLES / name / "README.md").read_text()
    commands = re.findall(r"^python\S* (\S+)", text, re.M)
    assert commands
    assert f"examples/{name}/train.py" in commands
    assert all((EXAMPLES.parent / command).is_file() for command in commands)
