"""The command `headrace launch`.

Called by: main, which imports this for every command: what the command needs it imports itself.
"""

from __future__ import annotations

import argparse
import os
import shlex
import shutil
import sys
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from headrace.tools.commands import CommandError, ExitCode, Parser, Streams, UsageError, command
from headrace.tools.settings import add_settings, settle

if TYPE_CHECKING:
    from headrace.tools.launch.console import Console
    from headrace.tools.launch.elsewhere import Elsewhere
    from headrace.tools.launch.logs import RotatingLog
    from headrace.tools.launch.roles import Host, Layout, Task
    from headrace.tools.launch.supervisor import Supervisor

_NAME = "headrace launch"


def _parser() -> Parser:
    parser = Parser(
        prog=_NAME,
        usage=f"{_NAME} [--ps N] [--workers N] [--chief] [--evaluator] [OPTIONS] -- PROGRAM ARGUMENTS...",
        description="Start the tasks of a cluster, each with TF_CONFIG, and end them together.  {job}, {task}, "
        "{cluster}, {ps_hosts}, {worker_hosts} and {chief_hosts} in arguments are filled in.",
        add_help=False,
    )
    add = parser.add_argument
    add("-h", "--help", action="store_true", help="show this and end")
    for option, text in (("--ps", "parameter servers"), ("--workers", "workers")):
        add(option, type=int, default=0, metavar="N", help=f"number of {text}")
    add("--chief", action="store_true", help="a task of job chief, whose end is the end of all")
    add("--evaluator", action="store_true", help="an evaluator, which is no part of the cluster")
    add("--serve-ps", action="store_true", help="parameter servers run `headrace serve`")
    add("--ps-program", metavar="COMMAND", help="what parameter servers run, in one word")
    add(
        "--restarts",
        type=int,
        default=0,
        metavar="N",
        help="start each task that fails again, N times at most",
    )
    add(
        "--grace",
        type=float,
        default=10.0,
        metavar="SECONDS",
        help="between SIGTERM and SIGKILL at the end (default 10)",
    )
    add("--logs", type=Path, metavar="DIR", help="folder for a log of each task, JOB-INDEX.log")
    add(
        "--log-bytes",
        type=int,
        default=10_000_000,
        metavar="N",
        help="a log of so many bytes is renamed (default 10000000)",
    )
    add(
        "--log-files", type=int, default=5, metavar="N", help="older logs that are kept (default 5)"
    )
    add("--no-table", action="store_true", help="no live table below the output on a terminal")
    add("--secret", action="store_true", help="a secret for this launch, on one machine too")
    add("--hosts", type=Path, metavar="FILE", help="a host a line: HOST[:PORT] [ps=N] [workers=N]")
    add("--host-index", type=int, metavar="N", help="which line of it this host is, from 0")
    add("--slurm", action="store_true", help="be one task of a Slurm step; started by srun")
    add("--cluster", metavar="SPEC", help="be one task of this cluster: ps=HOST:PORT;worker=…")
    add("--jobs", metavar="JOB,JOB", help="of which jobs, with --cluster")
    add("--index", type=int, metavar="N", help="and which of their tasks, counted through")
    add("--port", type=int, metavar="N", help="first port of a host, with --hosts or --slurm")
    add_settings(parser)
    return parser


@command("launch", "start the tasks of a cluster, and restart and end them", None)
def launch(arguments: argparse.Namespace, streams: Streams) -> int:
    """Exit codes: docs/launch.md."""
    words = list(arguments.words)
    at = words.index("--") if "--" in words else len(words)
    parser = _parser()
    try:
        args = parser.parse_args(words[:at])
        if args.help:
            streams.out.write(parser.format_help())
            return ExitCode.OK
        return _launch(args, words[at + 1 :], streams)
    except UsageError as error:
        streams.err.write(f"{parser.format_usage()}{_NAME}: {error}\n")
        return ExitCode.USAGE
    except CommandError as error:
        streams.err.write(f"{_NAME}: {error}\n")
        return error.code


def _launch(args: argparse.Namespace, program: Sequence[str], streams: Streams) -> int:
    from headrace.tools.launch import secret
    from headrace.tools.launch.console import Console
    from headrace.tools.launch.roles import Programs, tasks
    from headrace.tools.launch.supervisor import Rules, Supervisor

    _check(args, program)
    settle(args)
    ps = None if args.ps_program is None else shlex.split(args.ps_program)
    with ExitStack() as stack:
        layout = stack.enter_context(_layout(args))
        started = tasks(layout, Programs(program, ps, args.serve_ps))
        if not started:
            raise UsageError("no task of the cluster is on this host")
        _check_programs(started)
        listening = [*layout.addresses.values(), *(place.address for place in layout.places)]
        secret.check(listening, os.environ)
        console = Console(streams.out, streams.err, [task.name for task in started])
        logs = [stack.enter_context(log) for log in _logs(args, started)]
        elsewhere = _elsewhere(layout, stack)
        rules = Rules(args.restarts, args.grace)
        supervisor = Supervisor(started, rules, console, logs, elsewhere)
        stack.callback(supervisor.close)
        _say_where(layout, console)
        return _run(supervisor, layout, stack, console.is_terminal and not args.no_table)


def _run(supervisor: Supervisor, layout: Layout, stack: ExitStack, with_table: bool) -> int:
    if not with_table:
        return supervisor.run()
    from headrace.tools.launch.table import Watch

    watch = stack.enter_context(Watch(supervisor, list(layout.addresses.values())))
    return supervisor.run(watch.text)


def _elsewhere(layout: Layout, stack: ExitStack) -> Elsewhere | None:
    if not layout.places:
        return None
    from headrace.tools.launch.elsewhere import Elsewhere

    return stack.enter_context(Elsewhere(layout.places, layout.own))


def _say_where(layout: Layout, console: Console) -> None:
    if not layout.addresses:
        return
    shown = ""
    if "HEADRACE_SECRET_FILE" in os.environ:
        shown = f" --secret-file {os.environ['HEADRACE_SECRET_FILE']}"
    first = next(iter(layout.addresses.values()))
    console.say(f"look at it with: headrace top grpc://{first}{shown}")


def _check(args: argparse.Namespace, program: Sequence[str]) -> None:
    """Raise UsageError for options that do not go together."""
    if args.serve_ps and args.ps_program is not None:
        raise UsageError(
            "--serve-ps and --ps-program both say what parameter servers run; give one"
        )
    if args.slurm and args.hosts is not None:
        raise UsageError("--slurm takes the hosts from Slurm; leave out --hosts")
    if (args.hosts is None) != (args.host_index is None):
        raise UsageError("--hosts and --host-index go together")
    if (args.cluster is None) != (args.jobs is None) or (args.jobs is None) != (args.index is None):
        raise UsageError("--cluster, --jobs and --index go together")
    if args.cluster is not None and (
        args.slurm or args.hosts or args.ps or args.workers or args.chief
    ):
        raise UsageError("--cluster says where which tasks are; only --evaluator goes with it")
    if args.port is not None and args.hosts is None and not args.slurm:
        raise UsageError("--port is for --hosts and --slurm; on one machine ports are chosen")
    if args.restarts < 0 or args.grace < 0 or args.log_bytes < 1 or args.log_files < 0:
        raise UsageError("--restarts, --grace, --log-bytes and --log-files are not negative")
    only_ps = args.jobs == "ps" or (
        args.ps and not (args.workers or args.chief or args.evaluator or args.hosts or args.slurm)
    )
    if not program and not (only_ps and (args.serve_ps or args.ps_program)):
        raise UsageError("there is no program to start; give it after --: -- python train.py")


def _check_programs(started: Sequence[Task]) -> None:
    for task in started:
        if shutil.which(task.command[0]) is None:
            hint = f"; this Python is {sys.executable}" if task.command[0] == "python" else ""
            raise UsageError(f"{task.name}: there is no program {task.command[0]!r}{hint}")


@contextmanager
def _layout(args: argparse.Namespace) -> Iterator[Layout]:
    """Where tasks are; inside, what that needs is held: ports, a secret."""
    from headrace.serve import slurm
    from headrace.tools.launch import roles, secret
    from headrace.tools.launch.ports import OwnPorts
    from headrace.tools.serve import parse_cluster

    counts = roles.Counts(args.ps, int(args.chief), args.workers, int(args.evaluator))
    with ExitStack() as stack:
        if args.hosts is not None:
            yield roles.on_hosts(_hosts(args), args.host_index, counts)
        elif args.cluster is not None:
            cluster, jobs = parse_cluster(args.cluster), args.jobs.split(",")
            yield roles.in_cluster(cluster, jobs, args.index, int(args.evaluator))
        elif args.slurm:
            try:
                step = slurm.read()
            except (RuntimeError, ValueError) as error:
                raise UsageError(str(error)) from error
            layout = roles.in_slurm_step(step, counts, args.port)
            if not secret.is_settled(os.environ):
                folder = Path(os.environ.get("SLURM_SUBMIT_DIR", os.curdir)).resolve()
                number = os.environ.get("SLURM_STEP_ID", "0")
                made = secret.of_slurm_step(folder, step.job_id, number, step.rank == 0)
                _tell_secret(stack.enter_context(made), stack)
            yield layout
        else:
            counts.check()
            if args.secret and not secret.is_settled(os.environ):
                _tell_secret(stack.enter_context(secret.of_this_launch()), stack)
            ports = stack.enter_context(OwnPorts(len(counts.tasks()))).ports
            yield roles.on_this_machine(counts, ports)


def _hosts(args: argparse.Namespace) -> list[Host]:
    from headrace.tools.launch import roles

    try:
        text = args.hosts.read_text()
    except OSError as error:
        raise UsageError(f"--hosts {args.hosts}: {error.strerror}") from error
    return roles.parse_hosts(text) if args.port is None else roles.parse_hosts(text, args.port)


def _tell_secret(path: Path, stack: ExitStack) -> None:
    """To the tasks, and to the table, by the environment."""
    os.environ["HEADRACE_SECRET_FILE"] = str(path)
    stack.callback(os.environ.pop, "HEADRACE_SECRET_FILE", None)


def _logs(args: argparse.Namespace, started: Sequence[Task]) -> Iterator[RotatingLog]:
    from headrace.tools.launch.logs import RotatingLog

    if args.logs is None:
        return
    try:
        args.logs.mkdir(parents=True, exist_ok=True)
        for task in started:
            path = args.logs / f"{task.job}-{task.index}.log"
            yield RotatingLog(path, args.log_bytes, args.log_files)
    except OSError as error:
        raise CommandError(f"--logs {args.logs}: {error.strerror}") from error
