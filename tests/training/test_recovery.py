"""Trainings whose tasks are killed: most lines of docs/recovery.md."""

from __future__ import annotations

import re
import signal
import time
from pathlib import Path

import pytest

from tests.training.trainings import Task, Training, training

pytestmark = pytest.mark.timeout(400)  # a busy machine starts processes slowly
JOBS = {"ps": 1, "worker": 2}
EVERY_STEP = {"options": {"save_checkpoint_steps": 5}}


def test_a_training_goes_on_from_the_last_checkpoint_when_the_ps_was_killed(tmp_path: Path) -> None:
    with training(JOBS, tmp_path, **EVERY_STEP) as job:
        chief, worker = job.tasks["worker:0"], job.tasks["worker:1"]
        chief.wait_for_steps(12)
        worker.wait_for_steps(3)
        job.tasks["ps:0"].kill()
        saved = job.saved()
        seen, seen_there = len(chief.lines), len(worker.lines)
        job.start("ps:0")
        again = chief.wait_for_session(seen)
        assert chief.sessions(again)[0] >= saved
        # It may have been about to read the step that it had made.
        assert min(chief.wait_for_steps(3, again)) >= saved
        worker.wait_for_steps(3, worker.wait_for_session(seen_there))
        chief.wait_for_log("a task was lost", "ps")


def test_the_others_go_on_when_a_worker_was_killed_and_it_joins_them_again(tmp_path: Path) -> None:
    with training(JOBS, tmp_path, **EVERY_STEP) as job:
        chief, worker = job.tasks["worker:0"], job.tasks["worker:1"]
        worker.wait_for_steps(3)
        chief.wait_for_steps(1)
        worker.kill()
        last = chief.steps()[-1]
        seen = len(chief.lines)
        assert chief.wait_for_steps(5, seen)[0] >= last
        again = job.start("worker:1")
        assert again.wait_for_steps(2)[0] > last
        assert not chief.sessions(seen)


def test_the_others_go_on_when_the_chief_was_killed_and_it_restores_the_last_checkpoint(
    tmp_path: Path,
) -> None:
    """As in TensorFlow: the ps goes back to what the chief restores, which is at most a checkpoint old."""
    with training(JOBS, tmp_path, **EVERY_STEP) as job:
        chief, worker = job.tasks["worker:0"], job.tasks["worker:1"]
        chief.wait_for_steps(12)
        worker.wait_for_steps(1)
        chief.kill()
        seen = len(worker.lines)
        worker.wait_for_steps(3, seen)
        saved = job.saved()
        again = job.start("worker:0")
        assert min(again.wait_for_steps(3)) > saved
        assert again.sessions()[0] >= saved
        worker.wait_for_steps(3, len(worker.lines))
        assert not worker.sessions(seen)


def test_every_task_may_be_killed_in_turn_and_again(tmp_path: Path) -> None:
    with training(JOBS, tmp_path, **EVERY_STEP) as job:
        for victim in ["ps:0", "worker:1", "worker:0", "ps:0", "worker:0", "worker:1"]:
            since = {name: len(task.lines) for name, task in job.tasks.items()}
            for name in ("worker:0", "worker:1"):
                job.tasks[name].wait_for_steps(3, since[name])
            saved = killed(job, victim)
            job.start(victim)
            for name in ("worker:0", "worker:1"):
                task = job.tasks[name]
                mark = 0 if name == victim else len(task.lines)
                told = first_beyond(task, saved, mark)
                assert min(told) >= saved
                assert name != victim or told == task.steps()[: len(told)]


def first_beyond(task: Task, saved: int, since: int) -> list[int]:
    """The steps of a task from the first one on that is beyond a checkpoint: what it told before may be read late."""

    def found() -> list[int]:
        steps = task.steps(since)
        first = next((at for at, step in enumerate(steps) if step > saved), len(steps))
        return steps[first:] if len(steps) > first + 1 else []

    told: list[int] = task.wait_for("steps beyond the checkpoint", found)
    return told


@pytest.mark.parametrize("victim", ["ps:0", "worker:0"])
def test_a_supervised_training_goes_on_though_the_ps_or_the_chief_was_killed(
    tmp_path: Path, victim: str
) -> None:
    """The program makes a new managed session; a chief that is started again begins with its checkpoint."""
    with training(JOBS, tmp_path, supervised=True) as job:
        chief, worker = job.tasks["worker:0"], job.tasks["worker:1"]
        worker.wait_for_steps(3)
        chief.wait_for_steps(3)
        chief.wait_for("a checkpoint", (tmp_path / "checkpoint").exists)
        seen, seen_there = len(chief.lines), len(worker.lines)
        saved = killed(job, victim)
        again = job.start(victim)
        if victim == "ps:0":
            begun = chief.wait_for_session(seen)
            assert chief.sessions(begun)[0] >= saved
            assert chief.wait_for_steps(3, begun)
            worker.wait_for_session(seen_there)
        else:
            assert again.wait_for_steps(3)[0] > saved
            assert again.sessions()[0] >= saved
        worker.wait_for_steps(3, len(worker.lines))


def test_every_line_of_the_page_names_a_test_that_is_there() -> None:
    tests = Path(__file__).parents[1]
    page = (tests.parent / "docs" / "recovery.md").read_text()
    there = {
        name
        for file in tests.rglob("test_*.py")
        for name in re.findall(r"^def (test_\w+)", file.read_text(), re.M)
    }
    _, *parts = re.split(r"\n(?:\n|(?=\|))", page.partition("## ")[2])
    for part in parts:
        if part.startswith("#") or re.match(r"\|[-|]+$|.*\| test \|$", part):
            continue
        named = re.findall(r"`(test_\w+)`", part)
        assert named or part.endswith("| the same |"), part
        assert set(named) <= there, part
    assert len(parts) > 30


def killed(job: Training, victim: str) -> int:
    """Kill a task; the step of the last checkpoint."""
    job.tasks[victim].kill()
    return job.saved()


@pytest.mark.parametrize("connecting", ["1", "90"])
def test_a_task_that_does_not_come_back_is_an_error_that_names_it(
    tmp_path: Path, connecting: str
) -> None:
    """Within the user's limit, however long connecting may take."""
    # Of the first session it is the limit, which a busy machine may need.
    later = {"HEADRACE_CONNECT_TIMEOUT_S": connecting}
    options = {"save_checkpoint_steps": 5, "max_wait_secs": 60, "max_recovery_secs": 3}
    jobs = {"ps": 1, "worker": 2}
    with training(jobs, tmp_path, later=later, options=options) as job:
        trainers = [job.tasks["worker:0"], job.tasks["worker:1"]]
        for each in trainers:
            each.wait_for_steps(3)
        job.tasks["ps:0"].kill()
        began = time.monotonic()
        for each in trainers:
            assert each.join() == 1
            assert "UnavailableError: /job:ps/replica:0/task:0" in each.log[-1]
        assert time.monotonic() - began < 60


@pytest.mark.parametrize("task", ["worker:0", "worker:1"])
def test_a_task_that_never_comes_is_an_error_that_names_it(tmp_path: Path, task: str) -> None:
    """The first session is waited for no longer than the user says, either."""
    said = []
    with training(JOBS, tmp_path, start=False) as job:
        for wait_s in (2, 6, 20):  # its own server may be too slow to say whom it lacks
            assert job.start(task, options={"max_wait_secs": wait_s}).join() == 1
            said.append(job.tasks[task].log[-1])
            if "/job:ps/replica:0/task:0" in said[-1]:
                return
    raise AssertionError(said)


@pytest.mark.parametrize("task", ["worker:0", "worker:1"])
def test_sigterm_saves_where_it_was_asked_to(tmp_path: Path, task: str) -> None:
    options = {"save_checkpoint_secs": 1000, "save_on_sigterm": True}
    with training(JOBS, tmp_path, options=options) as job:
        told = job.tasks[task]
        told.wait_for_steps(5)
        made = told.steps()[-1]
        told.process.send_signal(signal.SIGTERM)
        told.wait_for("done", lambda: [x for x in told.lines if x.startswith("done")])
        assert told.join() == 0
        assert job.saved() >= made
