"""The demo's child processes: what they say and how they end, with children made for the test."""

from __future__ import annotations

import os
import signal
import socket
import sys
import threading
from contextlib import suppress
from pathlib import Path
from queue import Empty, SimpleQueue

import pytest

from headrace.tools.commands import CommandError
from headrace.tools.demo import cluster, run
from headrace.tools.demo.cluster import (
    ChildFailed,
    Event,
    Exited,
    Interrupted,
    Line,
    Processes,
    describe_exit,
    failure,
    free_ports,
    start_cluster,
)
from tests.support.until import until

CHILDREN = {
    "talks": "print('one'); print('two')",
    "fails": "import sys; print('why', file=sys.stderr); sys.exit(3)",
    "waits": "import time; print('ready', flush=True); time.sleep(60)",
    "stubborn": (
        "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN);"
        "print('ready', flush=True); time.sleep(60)"
    ),
    "noisy": "import sys; [print(f'line {i}', file=sys.stderr) for i in range(100)]; sys.exit(1)",
    "echoes": "import sys; print(' '.join(sys.argv[1:]))",
}


@pytest.fixture(autouse=True)
def modules(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, source in CHILDREN.items():
        (tmp_path / f"{name}.py").write_text(source)
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(tmp_path), *sys.path]))


def event(processes: Processes) -> Event:
    found = processes.next_event(60)
    assert found is not None
    return found


def test_all_lines_come_before_the_end() -> None:
    with Processes() as processes:
        child = processes.start("talker", "talks")
        assert [event(processes) for _ in range(3)] == [
            Line(child, "one"),
            Line(child, "two"),
            Exited(child, 0),
        ]
        assert processes.running == []


def test_a_child_gets_its_arguments_and_the_lifeline() -> None:
    with Processes() as processes:
        processes.start("echo", "echoes", "--task", "1")
        line = event(processes)
    assert isinstance(line, Line)
    assert line.text.startswith("--task 1 --watch-fd ")


def test_a_failure_names_the_child_and_quotes_it() -> None:
    with Processes() as processes:
        child = processes.start("trainer 1", "fails")
        exited = event(processes)
        assert isinstance(exited, Exited)
        error = failure(exited)
    assert isinstance(error, ChildFailed)
    assert str(error) == (
        f"trainer 1 (pid {child.pid}) ended with exit code 3; its last lines were:\n    why"
    )


def test_only_the_last_lines_are_quoted() -> None:
    with Processes() as processes:
        child = processes.start("noisy", "noisy")
        event(processes)
    assert list(child.tail) == [f"line {i}" for i in range(85, 100)]


class Late:
    """Events of which the end of one child comes when they have been asked for in vain."""

    def __init__(self, events: SimpleQueue[Event], child: str) -> None:
        self._events, self._child = events, child
        self._in_vain = threading.Event()

    def put(self, event: Event) -> None:
        if isinstance(event, Exited) and event.process.name == self._child:
            assert self._in_vain.wait(60)
        self._events.put(event)

    def get(self, timeout: float) -> Event:
        try:
            return self._events.get(timeout=timeout)
        except Empty:
            self._in_vain.set()
            raise


def test_a_server_that_has_ended_explains_the_rest_however_late_that_is_told(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(run, "EXPLAINED_WITHIN_S", 0.0)
    with Processes() as processes:
        processes.events = Late(processes.events, "ps 0")  # type: ignore[assignment]
        server = processes.start("ps 0", "fails")
        trainer = processes.start("trainer 1", "fails")
        exited = event(processes)
        assert exited == Exited(trainer, 3)
        until(server.is_over)
        error = run._explain(processes, {server}, exited)  # type: ignore[arg-type]
    assert str(error).startswith(f"ps 0 (pid {server.pid}) ended with exit code 3")


@pytest.mark.parametrize("module", ["waits", "stubborn"])
def test_leaving_the_block_ends_every_child(module: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cluster, "GRACE_S", -0.9)  # 0.1 s in all
    with Processes() as processes:
        child = processes.start("child", module)
        assert event(processes) == Line(child, "ready")
    assert child.popen.returncode in (-signal.SIGTERM, -signal.SIGKILL)


def test_children_are_ended_when_the_block_raises() -> None:
    children = []

    def interrupted() -> None:
        with Processes() as processes:
            children.append(processes.start("child", "waits"))
            event(processes)
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        interrupted()
    assert [child.popen.returncode for child in children] == [-signal.SIGTERM]


@pytest.mark.parametrize("code", [-signal.SIGINT, 130])
def test_an_interrupted_child_is_no_failure_of_its_own(code: int) -> None:
    with Processes() as processes:
        child = processes.start("talker", "talks")
    assert isinstance(failure(Exited(child, code)), Interrupted)


@pytest.mark.parametrize(
    ("code", "said"),
    [
        (0, "ended with exit code 0"),
        (7, "ended with exit code 7"),
        (-9, "was killed by SIGKILL"),
        (-77, "was killed by signal 77"),
    ],
)
def test_an_exit_is_told_in_words(code: int, said: str) -> None:
    assert describe_exit(code) == said


def test_free_ports_are_free_and_different() -> None:
    def all_free() -> bool:
        ports = free_ports(5)
        assert len(set(ports)) == 5
        with suppress(OSError):  # another program may have taken one just now
            for port in ports:
                with socket.socket() as s:
                    s.bind(("127.0.0.1", port))
            return True
        return False

    until(all_free)


def fake_server(tmp_path: Path, source: str) -> None:
    """Put `source` in the place of `headrace serve`; TRIES is a file that survives between them."""
    package = tmp_path / "headrace" / "tools"
    package.mkdir(parents=True)
    for folder in (package.parent, package):
        (folder / "__init__.py").write_text("")
    counter = f"from pathlib import Path; import sys, time; TRIES = Path({str(tmp_path)!r}, 'n')\n"
    (package / "main.py").write_text(counter + source)


def test_a_port_that_was_taken_means_other_ports(tmp_path: Path) -> None:
    fake_server(
        tmp_path,
        "if '--job ps' in ' '.join(sys.argv) and not TRIES.exists():\n"
        "    TRIES.write_text(sys.argv[3]); sys.exit(75)\n"
        "print('serving here', flush=True); time.sleep(60)\n",
    )
    with Processes() as processes:
        started = start_cluster(processes, {"ps": 1, "worker": 1})
        assert len(processes.running) == 2
    assert started.spec != (tmp_path / "n").read_text()


def test_a_server_that_ends_with_an_error_ends_the_start(tmp_path: Path) -> None:
    fake_server(tmp_path, "print('no memory', file=sys.stderr); sys.exit(1)\n")
    said = r"ps 0 .* exit code 1; its last lines were:\n    no memory"
    with pytest.raises(ChildFailed, match=said), Processes() as processes:
        start_cluster(processes, {"ps": 1})


def test_ports_that_are_always_taken_are_an_error(tmp_path: Path) -> None:
    fake_server(tmp_path, "sys.exit(75)\n")
    with pytest.raises(CommandError, match="5 times a port was taken"), Processes() as processes:
        start_cluster(processes, {"ps": 1})


def test_a_server_that_says_nothing_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fake_server(tmp_path, "time.sleep(60)\n")
    monkeypatch.setattr(cluster, "START_WITHIN_S", 0.2)
    with pytest.raises(CommandError, match="no word of ps 0"), Processes() as processes:
        start_cluster(processes, {"ps": 1})
