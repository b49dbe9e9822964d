"""Real server processes and example programs for the tests of the examples; all of them end with the test."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from headrace.tools.commands import ExitCode
from tests.ports import own_ports

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"
PORT_ATTEMPTS = 5
WITHIN_S = 60.0

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
            )
            stack.callback(process.communicate)
            stack.callback(process.kill)
            return process

        yield start


@pytest.fixture
def served(started: Start) -> Callable[[int], list[str]]:
    """served(n) starts a cluster of n tasks of job `local`, a process each; their targets."""

    def serve(tasks: int) -> list[str]:
        for _ in range(PORT_ATTEMPTS):
            addresses = [f"localhost:{port}" for port in own_ports(tasks)]
            spec = f"local={','.join(addresses)}"
            servers = [
                started("-m", "headrace.tools.main", "serve",
                        "--cluster", spec, "--job", "local", "--task", str(task), "--grace", "0.2")
                for task in range(tasks)
            ]  # fmt: skip
            if all(listens(server) for server in servers):
                return [f"grpc://{address}" for address in addresses]
        raise RuntimeError(f"{PORT_ATTEMPTS} times a port was taken between choosing and using it")

    return serve


def listens(server: subprocess.Popen[str]) -> bool:
    """Wait for it to say so; False if its port is taken."""
    assert server.stdout is not None
    if server.stdout.readline().startswith("serving "):
        return True
    _, err = server.communicate(timeout=WITHIN_S)
    assert server.returncode == ExitCode.ADDRESS_IN_USE, err
    return False


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
