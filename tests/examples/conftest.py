"""Servers, and example programs in processes of their own, for the tests of the examples; all end with the test."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.serve.clusters import in_process

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"
WITHIN_S = 100.0

Start = Callable[..., subprocess.Popen[str]]


@pytest.fixture
def started() -> Iterator[Callable[..., subprocess.Popen[str]]]:
    """started(argument, ...) runs this Python with the arguments; killed after the test if need be."""
    with ExitStack() as stack:

        def start(*arguments: str) -> subprocess.Popen[str]:
            process = subprocess.Popen(
                [sys.executable, *arguments],
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                text=True,
                env={
                    **os.environ,
                    "HEADRACE_BLOCKED_AFTER_S": "0",
                },  # a busy machine is slow, not wrong
            )
            stack.callback(process.communicate)
            stack.callback(process.kill)
            return process

        yield start


@pytest.fixture
def served() -> Iterator[Callable[[int], list[str]]]:
    """served(n) starts a cluster of n tasks of job `local` in this process, for programs in theirs; the targets."""
    with ExitStack() as stack:

        def serve(tasks: int) -> list[str]:
            cluster = stack.enter_context(in_process({"local": tasks}))
            return [cluster.target(task) for task in cluster.servers]

        yield serve


@pytest.fixture
def start_example(started: Start) -> Start:
    """start_example("loader", argument, ...) runs examples/loader.py."""
    return lambda name, *arguments: started(str(EXAMPLES / f"{name}.py"), *arguments)


@pytest.fixture
def run_example(start_example: Start) -> Callable[..., list[str]]:
    """run_example("loader", argument, ...) gives the lines that it prints; it must end well."""
    return lambda name, *arguments: finished(start_example(name, *arguments))


@pytest.fixture
def finish() -> Callable[[subprocess.Popen[str]], list[str]]:
    """finish(process) waits for a program that was started, and gives the lines that it prints."""
    return finished


def finished(process: subprocess.Popen[str]) -> list[str]:
    out, err = process.communicate(timeout=WITHIN_S)
    assert (process.returncode, err) == (0, "")
    return out.splitlines()
