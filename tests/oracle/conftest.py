"""The oracle: TensorFlow in a process of its own, found by HEADRACE_ORACLE_PYTHON.

`oracle.run(source, **inputs)` executes the source there, with `tf` (compat.v1, graph mode, ref variables), `np` and
the inputs as names, in a fresh default graph, and returns what it left in `result`.  Inputs and result travel
pickled: builtins, NumPy values and bytes; a proto goes as its SerializeToString().
"""

from __future__ import annotations

import contextlib
import importlib.util
import os
import pickle
import struct
import subprocess
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.oracle.summary import SUMMARY
from tests.support.renewed import PIDS

PYTHON = os.environ.get("HEADRACE_ORACLE_PYTHON")
PEER = Path(__file__).with_name("peer.py")
LONG = {"test_operands.py", "test_variations.py", "test_call_nodes.py", "test_long_programs.py"}


class OracleError(Exception):
    """The source raised in the oracle's process: `kind` is the class name, `message` its text."""

    def __init__(self, kind: str, message: str, trace: str) -> None:
        super().__init__(f"{kind}: {message}\n{trace}")
        self.kind = kind
        self.message = message


class Crashed(RuntimeError):
    """A signal ended the oracle's process."""


class Begun(threading.Thread):
    """What a thread of its own finds; `result` waits for it."""

    def __init__(self, find: Callable[[], Any]) -> None:
        super().__init__(daemon=True)
        self._find, self._found, self._error = find, None, None
        self.start()

    def run(self) -> None:
        try:
            self._found = self._find()
        except BaseException as error:
            self._error = error

    def result(self) -> Any:
        self.join()
        if self._error is not None:
            raise self._error
        return self._found


class Oracle:
    """One TensorFlow process; requests are length-prefixed pickles on its stdin and stdout."""

    Error = OracleError

    def __init__(self, python: str) -> None:
        self.python = python
        self._one = threading.Lock()
        self._process = self._started()

    def _started(self) -> subprocess.Popen[bytes]:
        env = {**os.environ, "TF_CPP_MIN_LOG_LEVEL": "3", "CUDA_VISIBLE_DEVICES": "-1"}
        return subprocess.Popen(
            [self.python, str(PEER)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=env
        )

    def run(self, source: str, **inputs: Any) -> Any:
        """Value of `result` after the source; raises OracleError with the oracle's error.

        TensorFlow crashes once in a great while, whatever it is asked (seen of `extract_jpeg_shape`): then a new
        process is asked, once.
        """
        request = pickle.dumps((source, inputs))
        with self._one:
            try:
                try:
                    answer = self._asked(request)
                except Crashed:
                    self._renew()
                    answer = self._asked(request)
                ok, value = pickle.loads(answer)
            except BaseException:  # such as a test's time limit: the answer is nobody else's
                self._renew()
                raise
        if not ok:
            raise OracleError(*value)
        return value

    def _renew(self) -> None:
        self._process.kill()
        self._end()
        PIDS.discard(str(self._process.pid))
        self._process = self._started()
        PIDS.add(str(self._process.pid))

    def _asked(self, request: bytes) -> bytes:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(struct.pack("<Q", len(request)) + request)
        self._process.stdin.flush()
        head = self._process.stdout.read(8)
        if len(head) < 8:
            code = self._process.wait()
            kind = Crashed if code < 0 else RuntimeError
            raise kind(f"the oracle's process ended with code {code}")
        return self._process.stdout.read(struct.unpack("<Q", head)[0])

    def begin(self, source: str, **inputs: Any) -> Begun:
        """`run`, beside what the caller does meanwhile; one at a time."""
        return Begun(lambda: self.run(source, **inputs))

    def outcome(self, source: str, **inputs: Any) -> tuple[str, Any]:
        """("value", result) or ("error", class name): for tables that compare both at once."""
        try:
            return "value", self.run(source, **inputs)
        except OracleError as error:
            return "error", error.kind

    def close(self) -> None:
        """End the process; it exits when its stdin closes."""
        self._end()

    def _end(self) -> None:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        with contextlib.suppress(BrokenPipeError):
            self._process.stdin.close()
        self._process.wait()
        self._process.stdout.close()


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Files whose tests take minutes begin first, so that no worker is left with one when the others are done."""
    items.sort(key=lambda item: item.path.name not in LONG)


def pytest_sessionfinish(session: pytest.Session) -> None:
    """A worker of pytest-xdist hands on the lines that its tests left."""
    if (output := getattr(session.config, "workeroutput", None)) is not None:
        output["summary"] = session.config.stash.get(SUMMARY, [])


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node: Any) -> None:
    """The lines of a worker that ended; one that was killed has none."""
    lines = getattr(node, "workeroutput", {}).get("summary", [])
    node.config.stash.setdefault(SUMMARY, []).extend(lines)


def pytest_terminal_summary(terminalreporter: Any, config: pytest.Config) -> None:
    lines = config.stash.get(SUMMARY, [])
    if lines:
        terminalreporter.section("ops beside TensorFlow's")
        for line in lines:
            terminalreporter.write_line(line)


@pytest.fixture(scope="session")
def oracle() -> Iterator[Oracle]:
    if not PYTHON:
        pytest.skip("HEADRACE_ORACLE_PYTHON names no Python with TensorFlow; `make oracle` sets it")
    process = Oracle(PYTHON)
    yield process
    process.close()


@pytest.fixture(scope="session")
def oracle_python() -> str:
    """Path of a Python with TensorFlow, for tests that start programs of their own."""
    if not PYTHON:
        pytest.skip("HEADRACE_ORACLE_PYTHON names no Python with TensorFlow; `make oracle` sets it")
    return PYTHON


@pytest.fixture(scope="session")
def graph_differences() -> Any:
    """graph_differences(ours, theirs): lines on where two GraphDefs differ; see graphdiff.py."""
    path = Path(__file__).with_name("graphdiff.py")
    spec = importlib.util.spec_from_file_location("graphdiff", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.differences
