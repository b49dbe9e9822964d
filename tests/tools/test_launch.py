"""`headrace launch` with real processes: what it starts, restarts, ends, and leaves behind, which is nothing."""

from __future__ import annotations

import os
import pty
import select
import signal
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

import pytest

from headrace.tools.launch import keeper
from headrace.tools.launch.console import Console
from headrace.tools.launch.ports import OwnPorts
from headrace.tools.launch.roles import Task
from headrace.tools.launch.supervisor import Rules, Supervisor
from tests.ports import own_ports_in_a_row

WITHIN_S = 100.0  # a launch is several processes, which take long on a busy machine
TASK = """
import json, os, signal, subprocess, sys, time
said = json.loads(os.environ["TF_CONFIG"])["task"]
name = f"{said['type']} {said['index']}"
def wait():
    print("waits", os.getpid(), os.environ["HEADRACE_LAUNCH"], flush=True)
    signal.pause()
"""

Start = Callable[..., subprocess.Popen[str]]


@contextmanager
def hang_up(disposition: signal.Handlers) -> Iterator[None]:
    """What processes that are started inside do at SIGHUP, whatever the tests themselves were started with."""
    before = signal.signal(signal.SIGHUP, disposition)
    try:
        yield
    finally:
        signal.signal(signal.SIGHUP, before)


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Start]:
    """start(source, option, ...) launches a program whose name and `wait` TASK has; killed if need be."""
    with ExitStack() as stack:
        stack.enter_context(hang_up(signal.SIG_DFL))

        def started(source: str, *options: str, **more: object) -> subprocess.Popen[str]:
            (tmp_path / "task.py").write_text(TASK + source)
            command = [sys.executable, "-m", "headrace.tools.main", "launch", *options, "--"]
            streams = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE} | more
            process: subprocess.Popen[str] = subprocess.Popen(
                [*command, sys.executable, str(tmp_path / "task.py")], text=True, **streams
            )  # type: ignore[call-overload]
            stack.callback(lambda: process.communicate(timeout=WITHIN_S))
            stack.callback(process.kill)
            return process

        yield started


def waiting(process: subprocess.Popen[str], count: int) -> dict[str, int]:
    """Pids by name of tasks, once so many have said that they wait."""
    pids: dict[str, int] = {}
    assert process.stdout is not None
    while len(pids) < count:
        line = process.stdout.readline()
        assert line, process.communicate(timeout=WITHIN_S)
        name, _, text = line.partition("]")
        if " waits " in text:
            pids[name.removeprefix("[")] = int(text.split()[1])
            number = text.split()[2]
    process.number = number  # type: ignore[attr-defined]
    return pids


def nothing_is_left(process: subprocess.Popen[str]) -> bool:
    """Of the launch that `waiting` has seen."""
    number: str = process.number  # type: ignore[attr-defined]
    return not keeper.find(number)


def test_tasks_talk_behind_their_names_and_the_end_of_the_workers_is_the_end(start: Start) -> None:
    process = start(
        "print(name, flush=True)\nprint('why', file=sys.stderr, flush=True)\n"
        "name == 'ps 0' and signal.pause()",
        *("--ps", "1", "--workers", "2"),
    )
    out, err = process.communicate(timeout=WITHIN_S)
    assert process.returncode == 0
    lines = [f"[worker {n}] worker {n}" for n in (0, 1)]
    assert set(lines) <= set(out.splitlines()) <= {*lines, "[ps 0]     ps 0"}
    assert {"[worker 0] why", "[worker 1] why"} <= set(err.splitlines())
    assert "\x1b" not in out + err


def test_the_end_of_the_chief_is_the_end(start: Start) -> None:
    process = start(
        "name == 'chief 0' or wait()\nsys.exit(0)", "--chief", "--workers", "1", "--evaluator"
    )
    process.communicate(timeout=WITHIN_S)
    assert process.returncode == 0


def test_a_program_that_fails_ends_all_with_its_exit_code(start: Start) -> None:
    process = start("sys.exit(7) if name == 'worker 1' else wait()", "--ps", "1", "--workers", "2")
    _, err = process.communicate(timeout=WITHIN_S)
    assert process.returncode == 7
    assert "worker 1 ended with exit code 7: all are ended" in err


def test_a_task_that_is_killed_is_started_again_and_no_more_often_than_asked(start: Start) -> None:
    process = start("wait()", "--workers", "1", "--restarts", "1")
    first = waiting(process, 1)["worker 0"]
    os.kill(first, signal.SIGKILL)
    second = waiting(process, 1)["worker 0"]
    assert second != first
    os.kill(second, signal.SIGKILL)
    _, err = process.communicate(timeout=WITHIN_S)
    assert process.returncode == 128 + signal.SIGKILL
    assert "worker 0 was killed by SIGKILL; restart 1 of 1" in err
    assert "worker 0 was killed by SIGKILL after 1 restarts: all are ended" in err
    assert nothing_is_left(process)


@pytest.mark.parametrize(
    ("signum", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143), (signal.SIGHUP, 129)]
)
def test_a_signal_ends_all(start: Start, signum: signal.Signals, code: int) -> None:
    process = start(
        "signal.signal(signal.SIGTERM, lambda *a: (print('saved', flush=True), sys.exit(0)))\nwait()",
        *("--ps", "1", "--workers", "2", "--grace", "60"),
    )
    waiting(process, 3)
    process.send_signal(signum)
    out, err = process.communicate(timeout=WITHIN_S)
    assert process.returncode == code
    assert out.count("saved") == 3
    assert f"ended by {signum.name}" in err
    assert nothing_is_left(process)


STUBBORN = "signal.signal(signal.SIGTERM, signal.SIG_IGN)\nwait()"


def test_a_task_that_ignores_sigterm_is_killed_after_the_grace(start: Start) -> None:
    process = start(STUBBORN, "--workers", "2", "--grace", "0.2")
    waiting(process, 2)
    process.terminate()
    process.communicate(timeout=WITHIN_S)
    assert process.returncode == 143
    assert nothing_is_left(process)


def test_a_second_ctrl_c_does_not_wait_for_the_grace(start: Start) -> None:
    process = start(
        "signal.signal(signal.SIGTERM, lambda *a: print('deaf', flush=True))\nwait()\nwhile True: signal.pause()",
        *("--workers", "1", "--grace", "1000"),
    )
    waiting(process, 1)
    process.send_signal(signal.SIGINT)
    assert process.stdout is not None
    assert process.stdout.readline() == "[worker 0] deaf\n"
    process.send_signal(signal.SIGINT)
    process.communicate(timeout=WITHIN_S)
    assert process.returncode == 130
    assert nothing_is_left(process)


FAMILY = """
code = "import signal; signal.signal(signal.SIGTERM, signal.SIG_IGN); print('child', flush=True); signal.pause()"
for own in (False, True):  # in a process group, and a session, of its own
    child = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, start_new_session=own)
    child.stdout.readline()
wait()
"""


def test_a_launch_under_nohup_outlives_its_terminal(start: Start) -> None:
    with hang_up(signal.SIG_IGN):
        process = start("wait()", "--ps", "0", "--workers", "1")
    waiting(process, 1)
    process.send_signal(signal.SIGHUP)
    process.send_signal(signal.SIGTERM)
    process.communicate(timeout=WITHIN_S)
    assert process.returncode == 128 + signal.SIGTERM


@pytest.mark.parametrize("signum", [signal.SIGKILL, signal.SIGTERM])
def test_nothing_is_left_of_a_launch_that_is_ended(start: Start, signum: signal.Signals) -> None:
    """Grandchildren that ignore SIGTERM and have left their group included; after kill -9 the keeper sees to it."""
    process = start(FAMILY, "--ps", "1", "--workers", "1", "--grace", "0.1")
    waiting(process, 2)
    number: str = process.number  # type: ignore[attr-defined]
    found = keeper.find(number)
    assert len(found) == 6
    process.send_signal(signum)
    process.communicate(timeout=WITHIN_S)  # their pipes end with the last of them
    handles = []
    for pid in found:
        with suppress(ProcessLookupError):
            handles.append((pid, os.pidfd_open(pid)))
    for pid, handle in handles:
        poll = select.poll()
        poll.register(handle, select.POLLIN)
        assert poll.poll(WITHIN_S * 1000), f"{pid} is left"
        os.close(handle)
    assert not keeper.find(number)


def test_logs_have_what_each_task_wrote_and_are_rotated(start: Start, tmp_path: Path) -> None:
    process = start(
        "[print(f'line {n:04}', flush=True) for n in range(100)]",
        *(
            "--workers",
            "2",
            "--logs",
            str(tmp_path / "logs"),
            "--log-bytes",
            "300",
            "--log-files",
            "1",
        ),
    )
    process.communicate(timeout=WITHIN_S)
    for name in ("worker-0", "worker-1"):
        path = tmp_path / "logs" / f"{name}.log"
        assert path.read_text().endswith("line 0099\n")
    assert {each.name for each in (tmp_path / "logs").iterdir()} <= {
        f"worker-{n}.log{end}" for n in (0, 1) for end in ("", ".1")
    }


def test_a_secret_is_there_while_the_launch_is(start: Start) -> None:
    process = start(
        "path = os.environ['HEADRACE_SECRET_FILE']\n"
        "print(path, oct(os.stat(path).st_mode & 0o777), flush=True)",
        *("--workers", "1", "--secret"),
    )
    out, _ = process.communicate(timeout=WITHIN_S)
    path, mode = out.split()[-2:]
    assert mode == "0o600"
    assert not Path(path).exists()


def test_a_terminal_gets_colours_and_a_table(start: Start, tmp_path: Path) -> None:
    mine, theirs = pty.openpty()
    program = """
import headrace as tf
with tf.train.Server() as server:
    if name == "ps 0":
        server.join()
    with tf.device("/job:ps/task:0"):
        step = tf.train.get_or_create_global_step()
    with tf.Session(server.target) as session:
        session.run(tf.global_variables_initializer())
        change = step.assign_add(1).op
        while True:
            session.run(change)
"""
    process = start(program, "--ps", "1", "--workers", "1", stdout=theirs, stderr=theirs)
    os.close(theirs)
    seen = b""  # of which a letter may be split by a read
    while b"steps/s" not in seen:
        seen += os.read(mine, 65536)
    process.terminate()
    with suppress(OSError):  # EIO: nobody has the other end any more
        while data := os.read(mine, 65536):
            seen += data
    os.close(mine)
    assert process.wait(WITHIN_S) == 143
    for word in ("running", "MB", "global step", "worker 0"):
        assert word in seen.decode()


@pytest.mark.parametrize(
    ("options", "program", "said"),
    [
        (("--ps", "1"), (), "no program to start"),
        ((), ("true",), "no task to start"),
        (("--workers", "-1"), ("true",), "less than none"),
        (("--workers", "1"), ("there-is-none",), "there is no program 'there-is-none'"),
        (("--workers", "1", "--hosts", "f"), ("true",), "go together"),
        (("--slurm",), ("true",), "SLURM_STEP_NODELIST not found"),
        (("--serve-ps", "--ps-program", "x"), ("true",), "give one"),
        (("--workers", "1", "--port", "1"), ("true",), "--port is for"),
        (("--what",), ("true",), "--what"),
        (("--cluster", "ps=h:1"), ("true",), "go together"),
        (
            ("--cluster", "ps=h:1", "--jobs", "ps", "--index", "0", "--ps", "1"),
            ("true",),
            "only --evaluator",
        ),
    ],
)
def test_what_cannot_be_started_is_said(
    options: tuple[str, ...],
    program: tuple[str, ...],
    said: str,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    from headrace.tools.main import main

    monkeypatch.delenv("SLURM_STEP_NODELIST", raising=False)
    assert main(["launch", *options, "--", *program]) == 2
    assert said in capsys.readouterr().err


SHARED = """
import headrace as tf
with tf.train.Server() as server:
    print("listens", os.getpid(), os.environ["HEADRACE_LAUNCH"], flush=True)
    if name == "ps 0":
        server.join()
    with tf.device("/job:ps/task:0"):
        value = tf.Variable(7)
    with tf.Session(server.target) as session:
        session.run(value.initializer)
        print("read", session.run(value), flush=True)
"""


def test_launches_on_two_hosts_are_one_cluster(start: Start, tmp_path: Path) -> None:
    """Over the secret that they share; the end of the worker is the end of the ps."""
    shared = tmp_path / "secret"
    shared.write_text("of the two hosts and nobody else\n")
    shared.chmod(0o600)
    hosts = file_of_hosts(tmp_path, "ps=1", "workers=1")
    options = ("--hosts", str(hosts), "--secret-file", str(shared))
    ps = start(SHARED, *options, "--host-index", "0")
    worker = start(SHARED, *options, "--host-index", "1")
    out, err = worker.communicate(timeout=WITHIN_S)
    assert worker.returncode == 0, err
    assert "[worker 0] read 7" in out
    out, err = ps.communicate(timeout=WITHIN_S)
    assert ps.returncode == 0, err
    assert not keeper.find(out.split()[-1])


def file_of_hosts(folder: Path, *tasks: str) -> Path:
    """Hosts of the loopback with these tasks, one each."""
    path = folder / "hosts"
    path.write_text("".join(f"127.0.0.1:{own_ports_in_a_row(3)} {each}\n" for each in tasks))
    return path


def on_hosts(start: Start, folder: Path, source: str, *tasks: str) -> list[subprocess.Popen[str]]:
    """The launches of hosts with these tasks."""
    hosts = file_of_hosts(folder, *tasks)
    return [
        start(source, "--hosts", str(hosts), "--host-index", str(index))
        for index in range(len(tasks))
    ]


def test_all_hosts_end_with_the_chief(start: Start, tmp_path: Path) -> None:
    go = tmp_path / "go"
    os.mkfifo(go)
    launches = on_hosts(
        start, tmp_path, f"name == 'chief 0' or wait()\nopen({str(go)!r}).read()", "ps=1", "chief", "workers=1"
    )  # fmt: skip
    for each in (launches[0], launches[2]):
        waiting(each, 1)
    go.write_text("the chief may end")
    for each in launches:
        _, err = each.communicate(timeout=WITHIN_S)
        assert each.returncode == 0, err
        assert "was not told" not in err
    assert nothing_is_left(launches[0])
    assert nothing_is_left(launches[2])


def test_without_a_chief_a_ps_waits_for_the_workers_of_all_hosts(
    start: Start, tmp_path: Path
) -> None:
    go = tmp_path / "go"
    os.mkfifo(go)
    source = f"name == 'ps 0' and wait()\nname == 'worker 1' and open({str(go)!r}).read()"
    first, second = on_hosts(start, tmp_path, source, "ps=1 workers=1", "workers=1")
    waiting(first, 1)
    assert first.stderr is not None
    while "worker 0 ended with exit code 0" not in first.stderr.readline():
        assert first.poll() is None
    assert second.poll() is None
    go.write_text("worker 1 may end")
    for each in (second, first):
        _, err = each.communicate(timeout=WITHIN_S)
        assert each.returncode == 0, err
    assert nothing_is_left(first)


def test_what_fails_on_one_host_ends_all(start: Start, tmp_path: Path) -> None:
    go = tmp_path / "go"
    os.mkfifo(go)
    source = f"name == 'worker 1' or wait()\nopen({str(go)!r}).read()\nsys.exit(7)"
    launches = on_hosts(start, tmp_path, source, "ps=1", "workers=2")
    for each in launches:
        waiting(each, 1)
    go.write_text("fail")
    for each in launches:
        _, err = each.communicate(timeout=WITHIN_S)
        assert each.returncode == 7
        assert "was not told" not in err
        assert "worker 1 ended with exit code 7: all are ended" in err


def test_the_tasks_of_a_slurm_step_are_one_cluster(start: Start, tmp_path: Path) -> None:
    """With the variables that srun sets; the secret is in a file that they share, and the ps ends with the worker."""
    port = own_ports_in_a_row(4)
    launches = []
    for rank in (0, 1):
        environment = {
            **os.environ,
            "SLURM_JOB_ID": "7",
            "SLURM_STEP_ID": "0",
            "SLURM_PROCID": str(rank),
            "SLURM_NODEID": "0",
            "SLURM_STEP_NODELIST": "127.0.0.1",
            "SLURM_STEP_TASKS_PER_NODE": "2",
            "SLURM_SUBMIT_DIR": str(tmp_path),
        }
        environment.pop("HEADRACE_SECRET_FILE", None)
        launches.append(start(SHARED, "--slurm", "--port", str(port), env=environment))
    ps, worker = launches
    out, err = worker.communicate(timeout=WITHIN_S)
    assert worker.returncode == 0, err
    assert "[worker 0] read 7" in out
    ps.communicate(timeout=WITHIN_S)
    assert ps.returncode == 0
    assert not (tmp_path / ".headrace-secret-7-0").exists()


def test_parameter_servers_are_served_where_programs_have_none(start: Start) -> None:
    process = start(
        SHARED.replace('name == "ps 0"', "False"), "--ps", "1", "--workers", "1", "--serve-ps"
    )
    out, err = process.communicate(timeout=WITHIN_S)
    assert process.returncode == 0, err
    assert "[ps 0]     serving /job:ps/task:0" in out
    assert "[worker 0] read 7" in out


def test_a_port_of_a_launch_stays_its_own() -> None:
    with OwnPorts(2) as own:
        assert len(set(own.ports)) == 2
        for port in own.ports:
            with socket.socket() as stranger, pytest.raises(OSError, match="in use"):
                stranger.bind(("127.0.0.1", port))
            with socket.create_server(("127.0.0.1", port)):  # with SO_REUSEADDR, as gRPC's
                pass


def test_tasks_end_with_the_launch_even_without_its_keeper(start: Start) -> None:
    """By the system (PR_SET_PDEATHSIG), though they ignore SIGTERM."""
    process = start(STUBBORN, "--ps", "1", "--workers", "1")
    handles = [os.pidfd_open(pid) for pid in waiting(process, 2).values()]
    listed = Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()
    number: str = process.number  # type: ignore[attr-defined]
    (kept,) = {int(pid) for pid in listed} - keeper.find(number)
    os.kill(kept, signal.SIGKILL)
    process.kill()
    for handle in handles:
        poll = select.poll()
        poll.register(handle, select.POLLIN)
        assert poll.poll(WITHIN_S * 1000)
        os.close(handle)
    assert not keeper.find(number)


def test_what_sigkill_does_not_end_is_named_and_left(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """As a process that waits in the kernel for a silent disk; here no signal arrives."""
    tasks = [
        Task("worker", 0, (sys.executable, "-c", "import signal; signal.pause()"), {}, True),
        Task("worker", 1, ("false",), {}, True),
    ]
    monkeypatch.setattr(keeper, "send", lambda *_: None)
    console = Console(sys.stdout, sys.stderr, [task.name for task in tasks])
    supervisor = Supervisor(tasks, Rules(grace_s=0, stay_s=0, leave_s=0), console, [])
    try:
        assert supervisor.run() == 1
    finally:
        supervisor.close()
        left = supervisor.running[0].process
        assert left is not None
        left.kill()
        left.wait()
    err = capsys.readouterr().err
    assert f"after SIGKILL these are still there: {left.pid} (python" in err
    assert "they are left behind" in err


def test_the_keeper_says_so_too(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for name, stub in (("find", lambda _: {os.getpid()}), ("send", id), ("wait_for_any", id)):
        monkeypatch.setattr(keeper, name, lambda *args, stub=stub: stub(args[0]))
    assert keeper.end("a number", stay_s=0, leave_s=0) == 1
    err = capsys.readouterr().err
    assert err.count(f"{os.getpid()} (") == 2
    assert err.endswith("they are left behind\n")
