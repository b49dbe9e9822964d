"""The `headrace` command: its table, its help, its errors and its exit codes."""

from __future__ import annotations

import argparse
import io
import os
import re
import runpy
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from headrace.tools import commands
from headrace.tools.commands import CommandError, ExitCode, Streams, UsageError, command
from headrace.tools.lifeline import Lifeline, watch
from headrace.tools.main import main
from headrace.tools.serve import format_cluster, is_taken, own_address, parse_cluster

CLUSTER = "ps=127.0.0.1:2222;worker=127.0.0.1:2223,127.0.0.1:2224"


def run(*argv: str) -> tuple[int, str, str]:
    out, err = io.StringIO(), io.StringIO()
    return main(argv, out, err), out.getvalue(), err.getvalue()


@pytest.fixture
def table() -> Iterator[None]:
    """Takes a test's own commands out of the table again."""
    before = dict(commands.TABLE)
    yield
    commands.TABLE.clear()
    commands.TABLE.update(before)


@pytest.mark.parametrize(
    ("argument", "code"), [("--version", ExitCode.OK), ("sevre", ExitCode.USAGE)]
)
def test_python_dash_m_headrace_is_the_command(
    argument: str, code: int, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "argv", ["headrace", argument])
    with pytest.raises(SystemExit) as ended:
        runpy.run_module("headrace", run_name="__main__")
    printed = capsys.readouterr()
    assert (ended.value.code, printed.out, printed.err) == (code, *run(argument)[1:])


def test_the_version_is_printed() -> None:
    code, out, _ = run("--version")
    assert code == 0
    assert re.fullmatch(r"headrace (\d+(\.\d+)+\S*|unknown)\n", out)


def test_help_lists_every_command() -> None:
    code, out, _ = run("--help")
    assert code == 0
    for name, row in commands.TABLE.items():
        assert re.search(rf"^  {name} +{re.escape(row.summary)}$", out, re.MULTILINE)


def test_without_a_command_the_overview_goes_to_stderr() -> None:
    code, out, err = run()
    assert (code, out) == (ExitCode.USAGE, "")
    assert "commands:" in err


@pytest.mark.parametrize(
    ("typed", "hint"),
    [
        ("sevre", "there is no command 'sevre'; did you mean 'serve'?"),
        ("dmeo", "there is no command 'dmeo'; did you mean 'demo'?"),
        (
            "xyzzy",
            "there is no command 'xyzzy'; there are check, dashboard, demo, explain, health, inspect, "
            "k8s, launch, profile, run, serve, token, top.",
        ),
    ],
)
def test_an_unknown_command_suggests_its_neighbours(typed: str, hint: str) -> None:
    code, _, err = run(typed)
    assert code == ExitCode.USAGE
    assert hint in err


@pytest.mark.parametrize("name", ["serve", "demo"])
def test_each_command_describes_itself(name: str) -> None:
    code, out, _ = run(name, "--help")
    assert code == 0
    assert f"usage: headrace {name}" in out
    assert commands.TABLE[name].summary in " ".join(out.split())


@pytest.mark.parametrize(
    ("argv", "complaint"),
    [
        (["serve"], "takes the cluster from TF_CONFIG, which is not set"),
        (["serve", "--cluster", CLUSTER], "--cluster needs --job"),
        (["serve", "--cluster", "", "--job", "ps"], "the cluster is empty"),
        (["serve", "--cluster", "ps:2222", "--job", "ps"], "'ps:2222' in the cluster is not JOB="),
        (["serve", "--cluster", "ps=h", "--job", "ps"], "'h' of job 'ps' is not HOST:PORT"),
        (["serve", "--cluster", "ps=h:0", "--job", "ps"], "'h:0' of job 'ps' is not HOST:PORT"),
        (["serve", "--cluster", "a=h:1;a=h:2", "--job", "a"], "names job 'a' twice"),
        (["serve", "--cluster", CLUSTER, "--job", "chief"], "no job 'chief'; it has ps, worker"),
        (
            ["serve", "--cluster", CLUSTER, "--job", "worker", "--task", "2"],
            "job 'worker' has tasks 0 to 1, not 2",
        ),
        (["serve", "--cluster", CLUSTER, "--job", "ps", "--watch-fd", "999"], "--watch-fd 999"),
        (["demo", "--epochs", "0"], "--epochs and --batch must be at least 1"),
        (["demo", "--bananas"], "unrecognized arguments: --bananas"),
    ],
)
def test_arguments_that_make_no_sense_are_named(argv: list[str], complaint: str) -> None:
    code, out, err = run(*argv)
    assert (code, out) == (ExitCode.USAGE, "")
    assert complaint in err
    assert err.startswith(f"usage: headrace {argv[0]}")


@pytest.mark.usefixtures("table")
def test_a_command_that_fails_says_so_with_its_code() -> None:
    @command("fail", "fails", lambda parser: None)
    def fail(args: argparse.Namespace, streams: Streams) -> int:
        raise CommandError("the sky is falling", ExitCode.ADDRESS_IN_USE)

    code, _, err = run("fail")
    assert (code, err) == (75, "headrace fail: the sky is falling\n")


@pytest.mark.usefixtures("table")
def test_a_name_registered_twice_is_refused_and_both_places_are_named() -> None:
    with pytest.raises(ValueError, match=r"'serve' is registered twice: by headrace.tools.serve"):

        @command("serve", "again", lambda parser: None)
        def again(args: argparse.Namespace, streams: Streams) -> int:
            return 0


def test_a_cluster_is_written_as_it_is_read() -> None:
    jobs = parse_cluster(CLUSTER)
    assert jobs == {"ps": ["127.0.0.1:2222"], "worker": ["127.0.0.1:2223", "127.0.0.1:2224"]}
    assert format_cluster(jobs) == CLUSTER
    assert parse_cluster(" ps = h:1 ; worker = h:2 , h:3 ; ") == {
        "ps": ["h:1"],
        "worker": ["h:2", "h:3"],
    }


def test_an_ipv6_address_is_an_address() -> None:
    assert parse_cluster("ps=[::1]:2222") == {"ps": ["[::1]:2222"]}


def test_an_address_is_taken_while_somebody_listens_there() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listening:
        address = f"127.0.0.1:{listening.getsockname()[1]}"
        assert is_taken(address)
    assert not is_taken(address)
    assert not is_taken("192.0.2.1:80")  # no address of this machine


def test_a_task_knows_its_address() -> None:
    assert own_address(parse_cluster(CLUSTER), "worker", 1) == "127.0.0.1:2224"
    with pytest.raises(UsageError, match="tasks 0 to 0, not -1"):
        own_address(parse_cluster(CLUSTER), "ps", -1)


def test_digits_that_are_not_there_are_looked_for_by_name(tmp_path: os.PathLike[str]) -> None:
    code, _, err = run("demo", "--data", str(tmp_path))
    assert code == ExitCode.FAILED
    assert "no digits-train-*.csv and digits-test-*.csv in" in err
    assert str(tmp_path) in err
    assert "--data CHECKOUT/examples/data" in err


def test_a_lifeline_tells_when_its_other_end_is_closed() -> None:
    lost = threading.Event()
    with Lifeline() as lifeline:
        mine = os.dup(lifeline.read_fd)
        thread = watch(mine, lost.set)
        assert not lost.is_set()
    thread.join(60)
    assert lost.is_set()
    os.close(mine)


def test_a_lifeline_tells_a_child_whose_parent_was_killed() -> None:
    grandchild = (
        "import sys, threading; from headrace.tools.lifeline import watch;"
        "lost = threading.Event(); watch(int(sys.argv[1]), lost.set);"
        "print('watching', flush=True); lost.wait(60); print('lost', lost.is_set(), flush=True)"
    )
    child = (
        "import subprocess, sys, time; from headrace.tools.lifeline import Lifeline;"
        "fd = Lifeline().read_fd;"
        f"subprocess.Popen([sys.executable, '-c', {grandchild!r}, str(fd)], pass_fds=[fd]);"
        "time.sleep(60)"
    )
    process = subprocess.Popen([sys.executable, "-c", child], stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    assert process.stdout.readline() == "watching\n"
    process.kill()
    assert process.stdout.read() == "lost True\n"  # the end of file: the grandchild has ended too
    process.wait()
    process.stdout.close()


INTERRUPTED_IN_TEXT = """
from headrace.tools import main

def interrupted():
    try:
        exec("raise KeyboardInterrupt")
    except KeyboardInterrupt:
        print("caught")
    return 143

main.main = interrupted
main.process()
"""


def test_a_process_that_was_interrupted_in_executed_text_ends_with_its_own_code(
    tmp_path: Path,
) -> None:
    (tmp_path / "interrupted.py").write_text(INTERRUPTED_IN_TEXT)
    done = subprocess.run(
        [sys.executable, "-m", "interrupted"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert (done.returncode, done.stdout, done.stderr) == (143, "caught\n", "")
