"""Trainings on clusters of processes that tests kill and start again; see training_task."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import headrace as tf
from tests.serve.clusters import Jobs, addresses

WITHIN_S = 100.0
TASK = "tests.training.training_task"


class Task:
    """A process, and what it has printed so far."""

    def __init__(self, settings: dict[str, Any], env: dict[str, str]) -> None:
        self.settings = settings
        self.lines: list[str] = []
        self.log: list[str] = []
        self._changed = threading.Condition()
        self.process = subprocess.Popen(
            [sys.executable, "-m", settings.get("module", TASK), json.dumps(settings)],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env={**os.environ, **env},
        )  # fmt: skip
        self._readers = [
            threading.Thread(target=self._read, args=(self.process.stdout, self.lines)),
            threading.Thread(target=self._read, args=(self.process.stderr, self.log)),
        ]
        for reader in self._readers:
            reader.start()

    def _read(self, stream: Any, lines: list[str]) -> None:
        for line in stream:
            with self._changed:
                lines.append(line.rstrip("\n"))
                self._changed.notify_all()

    def wait_for(self, what: str, found: Callable[[], Any]) -> Any:
        """What `found()` gives, as soon as it is true."""
        with self._changed:
            if not self._changed.wait_for(
                lambda: found() or self.process.poll() is not None, WITHIN_S
            ):
                raise AssertionError(
                    f"{what} did not come: {self.lines[-5:]}\n" + "\n".join(self.log[-40:])
                )
            got = found()
        if not got:
            self.join()
            got = found()
        assert got, f"{what} did not come; it ended: {self.lines[-5:]}\n" + "\n".join(
            self.log[-40:]
        )
        return got

    def steps(self, since: int = 0) -> list[int]:
        """The steps that it has made, from a line on."""
        return [int(line.split()[1]) for line in self.lines[since:] if line.startswith("step ")]

    def sessions(self, since: int = 0) -> list[int]:
        """The global steps at which its sessions began."""
        return [int(line.split()[1]) for line in self.lines[since:] if line.startswith("session ")]

    def wait_for_steps(self, count: int, since: int = 0) -> list[int]:
        """Its next `count` steps."""
        self.wait_for(f"{count} steps", lambda: len(self.steps(since)) >= count)
        return self.steps(since)

    def wait_for_session(self, since: int = 0) -> int:
        """Block until a session begins, behind a line; the number of its line.

        What the task has printed before it may come to be read much later.
        """

        def found() -> list[int]:
            return [
                number + 1
                for number, line in enumerate(self.lines[since:], since)
                if line.startswith("session ")
            ]

        return int(self.wait_for("a session", found)[0]) - 1

    def wait_for_log(self, *words: str) -> None:
        """Block until it has logged a line with these words, which may come to be read later than what it prints."""
        self.wait_for(
            f"a line with {words} in the log",
            lambda: any(all(word in line for word in words) for line in self.log),
        )

    def kill(self) -> None:
        """kill -9."""
        self.process.send_signal(signal.SIGKILL)
        self.join()

    def join(self) -> int:
        """Wait for its end; the exit code."""
        try:
            code = self.process.wait(WITHIN_S)
        except subprocess.TimeoutExpired:
            raise AssertionError("it does not end:\n" + "\n".join(self.log[-40:])) from None
        for reader in self._readers:
            reader.join()
        for stream in (self.process.stdin, self.process.stdout, self.process.stderr):
            if stream is not None:
                stream.close()
        return code


class Training:
    """A cluster that trains."""

    def __init__(
        self, jobs: Jobs, directory: Path, env: dict[str, str], settings: dict[str, Any]
    ) -> None:
        self.directory = str(directory)
        self.cluster = addresses(jobs)
        self._env = {"HEADRACE_CONNECT_TIMEOUT_S": "60", **env}
        self._settings = settings
        self.tasks: dict[str, Task] = {}

    def start(self, name: str, **changed: Any) -> Task:
        """Start a task, again or for the first time, and wait until it serves."""
        job, _, index = name.partition(":")
        settings = {
            "cluster": self.cluster, "job": job, "index": int(index), "directory": self.directory,
            **self._settings, **changed,
        }  # fmt: skip
        task = self.tasks[name] = Task(settings, self._env)
        task.wait_for("serving", lambda: "serving" in task.lines)
        return task

    def saved(self) -> int:
        """The step of the last checkpoint."""
        path = tf.train.latest_checkpoint(self.directory)
        assert path is not None
        found = re.search(r"-(\d+)$", path)
        assert found is not None
        return int(found[1])

    def stop(self) -> None:
        """End what is left."""
        for task in self.tasks.values():
            if task.process.poll() is None:
                task.process.kill()
            task.join()


@contextmanager
def training(
    jobs: Jobs,
    directory: Path,
    env: dict[str, str] | None = None,
    start: bool = True,
    **settings: Any,
) -> Iterator[Training]:
    """A training all of whose tasks run, if they are to be started: workers from task 0 on."""
    made = Training(jobs, directory, env or {}, settings)
    try:
        for job, count in jobs.items() if start else ():
            for index in range(count):
                made.start(f"{job}:{index}")
        yield made
    finally:
        made.stop()


def seconds_of(act: Callable[[], object]) -> float:
    """How long it took."""
    began = time.monotonic()
    act()
    return time.monotonic() - began
