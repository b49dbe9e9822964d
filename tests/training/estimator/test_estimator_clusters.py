"""`train_and_evaluate` on processes that know their part by TF_CONFIG: killed, told to go, failing, and done."""

from __future__ import annotations

import re
import signal
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import pytest

from tests.training.trainings import Task, Training, training

pytestmark = pytest.mark.timeout(400)  # a busy machine starts processes slowly
JOBS = {"ps": 1, "chief": 1, "worker": 1}


def begun(directory: Path, **settings: Any) -> AbstractContextManager[Training]:
    """The tasks of the cluster."""
    return training(JOBS, directory, module="tests.training.estimator.estimator_task", **settings)


def evaluations(task: Task) -> list[int]:
    """The steps that an evaluator told of."""
    found = (re.fullmatch(r"(?:evaluated|final) (\d+)", line) for line in task.lines)
    return [int(each[1]) for each in found if each]


def test_a_task_that_was_killed_comes_back_and_all_go_on_until_sigterm(tmp_path: Path) -> None:
    with begun(tmp_path) as job:
        job.start("evaluator:0")
        for victim in ("ps:0", "worker:0", "chief:0", "evaluator:0"):
            for name in ("chief:0", "worker:0"):
                job.tasks[name].wait_for_steps(3, len(job.tasks[name].lines))
            evaluator = job.tasks["evaluator:0"]
            evaluator.wait_for("an evaluation", lambda: evaluations(evaluator))  # noqa: B023
            job.tasks[victim].kill()
            saved = job.saved()
            seen = {name: len(task.lines) for name, task in job.tasks.items()}
            again = job.start(victim)
            seen[victim] = 0
            if victim in ("ps:0", "chief:0"):
                chief = job.tasks["chief:0"]
                seen["chief:0"] = chief.wait_for_session(seen["chief:0"])
                assert chief.sessions(seen["chief:0"])[0] >= saved
            for name in ("chief:0", "worker:0"):
                job.tasks[name].wait_for_steps(2, seen[name])
            if victim == "evaluator:0":
                again.wait_for("an evaluation", lambda: evaluations(again))  # noqa: B023
                assert evaluations(again)[0] >= saved
        for name in ("worker:0", "chief:0", "ps:0", "evaluator:0"):
            task = job.tasks[name]
            task.process.send_signal(signal.SIGTERM)
            assert task.join() == -signal.SIGTERM, (name, task.log[-20:])
        # It was told to go, and evaluated what the chief saved last before that.
        assert evaluations(job.tasks["evaluator:0"])[-1] >= job.saved()


def test_all_end_at_max_steps_though_the_chief_fails_at_first(tmp_path: Path) -> None:
    with begun(tmp_path, start=False, last_step=40) as job:
        ps = job.start("ps:0")
        failing = job.start("chief:0", raise_at=0)
        worker, evaluator = job.start("worker:0"), job.start("evaluator:0")
        assert failing.join() == 1
        assert any("the task is told to fail" in line for line in failing.log)
        chief = job.start("chief:0")
        for task in (chief, worker, evaluator):
            assert task.join() == 0, task.log[-20:]
            assert task.lines[-1] == "done"
        assert re.fullmatch(r"final 4\d", evaluator.lines[-2])
        assert ps.process.poll() is None


def test_tasks_that_were_all_killed_at_once_go_on_in_whatever_order_they_come_back(
    tmp_path: Path,
) -> None:
    with begun(tmp_path) as job:
        job.start("evaluator:0")
        for order, more in (
            (["worker:0", "evaluator:0", "chief:0", "ps:0"], None),
            (["evaluator:0", "ps:0", "worker:0", "chief:0"], 40),
        ):
            for name in ("chief:0", "worker:0"):
                job.tasks[name].wait_for_steps(8)
            for task in job.tasks.values():
                task.process.send_signal(signal.SIGKILL)
            for task in job.tasks.values():
                task.join()
            saved = job.saved()
            for name in order:
                # Only now there is an end: one alone may make any number of steps before the other begins.
                job.start(name, last_step=None if more is None else saved + more)
            job.tasks["chief:0"].wait_for_steps(1)
            assert job.tasks["chief:0"].sessions()[0] >= saved
        for name in ("chief:0", "worker:0", "evaluator:0"):
            task = job.tasks[name]
            assert task.join() == 0, task.log[-20:]
            assert task.lines[-1] == "done"
