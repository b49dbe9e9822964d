"""Trainings whose tasks are killed: docs/recovery.md, line by line."""

from __future__ import annotations

import re
import signal
from pathlib import Path

import pytest

from tests.training.trainings import Training, training

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
        chief.wait_for("a session", lambda: chief.sessions(seen))
        assert chief.sessions(seen)[0] >= saved
        assert min(chief.wait_for_steps(3, seen)) > saved
        worker.wait_for("a session", lambda: worker.sessions(seen_there))
        worker.wait_for_steps(3, seen_there)
        assert any("a task was lost" in line and "ps" in line for line in chief.log)


def test_the_others_go_on_when_a_worker_was_killed_and_it_joins_them_again(tmp_path: Path) -> None:
    with training(JOBS, tmp_path, **EVERY_STEP) as job:
        chief, worker = job.tasks["worker:0"], job.tasks["worker:1"]
        worker.wait_for_steps(3)
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
                assert min(task.wait_for_steps(2, mark)) > saved


def test_every_test_that_the_page_names_is_there() -> None:
    page = (Path(__file__).parents[2] / "docs" / "recovery.md").read_text()
    named = re.findall(r"`(test_\w+)`", page)
    here = Path(__file__).parent
    files = [here / "test_recovery.py", here / "test_sync_on_clusters.py"]
    there = {
        name for file in files for name in re.findall(r"^def (test_\w+)", file.read_text(), re.M)
    }
    assert len(named) >= 8
    assert {name for name in named if name not in {file.stem for file in here.iterdir()}} <= there


def killed(job: Training, victim: str) -> int:
    """Kill a task; the step of the last checkpoint."""
    job.tasks[victim].kill()
    return job.saved()


def test_a_task_that_does_not_come_back_is_an_error_that_names_it(tmp_path: Path) -> None:
    attempt = {"HEADRACE_CONNECT_TIMEOUT_S": "1"}
    options = {"save_checkpoint_steps": 5, "max_wait_secs": 2}
    with training({"ps": 1, "worker": 1}, tmp_path, attempt, options=options) as job:
        chief = job.tasks["worker:0"]
        chief.wait_for_steps(3)
        job.tasks["ps:0"].kill()
        assert chief.join() == 1
        assert "UnavailableError: /job:ps/replica:0/task:0" in chief.log[-1]


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
