"""`headrace serve`: one task of a cluster in this process, until it is told to stop.

Stops, with a grace for steps in flight, on SIGTERM, on SIGINT and when the lifeline is cut.
Prints one line when it listens, so that who started it can wait for that.

Called by: main.
Threads: the server's own; the main thread waits; the thread that watches the lifeline.
"""

from __future__ import annotations

import argparse
import contextlib
import errno
import os
import resource
import signal
import socket
import threading
from collections.abc import Iterator
from types import FrameType

import headrace as tf
from headrace.run.scope import wait_until_set
from headrace.serve.cluster import required
from headrace.tools.commands import CommandError, ExitCode, Streams, UsageError, command
from headrace.tools.lifeline import watch
from headrace.tools.settings import add_settings, settle

READY = "serving "
EXTRA_S = 10.0  # beyond the grace, before the process ends itself: more than a stop takes beside silent tasks


def parse_cluster(text: str) -> dict[str, list[str]]:
    """`ps=HOST:PORT;worker=HOST:PORT,HOST:PORT` as {job: addresses}.

    Raises UsageError that names the part it cannot read.
    """
    jobs: dict[str, list[str]] = {}
    for part in filter(None, (p.strip() for p in text.split(";"))):
        job, equals, addresses = part.partition("=")
        job = job.strip()
        if not equals or not job:
            raise UsageError(f"{part!r} in the cluster is not JOB=HOST:PORT[,HOST:PORT...]")
        if job in jobs:
            raise UsageError(f"the cluster names job {job!r} twice; list its tasks with commas")
        jobs[job] = [checked_address(address.strip(), job) for address in addresses.split(",")]
    if not jobs:
        raise UsageError("the cluster is empty; give e.g. ps=127.0.0.1:2222")
    return jobs


def checked_address(address: str, job: str) -> str:
    """`address` if it is HOST:PORT.  Raises UsageError."""
    host, colon, port = address.rpartition(":")
    if not colon or not host or not port.isdecimal() or not 0 < int(port) < 65536:
        raise UsageError(f"{address!r} of job {job!r} is not HOST:PORT (port 1 to 65535)")
    return address


def format_cluster(jobs: dict[str, list[str]]) -> str:
    """The inverse of `parse_cluster`."""
    return ";".join(f"{job}={','.join(addresses)}" for job, addresses in jobs.items())


def _add_arguments(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add(
        "--cluster",
        metavar="SPEC",
        help="ps=HOST:PORT;worker=HOST:PORT,HOST:PORT (default: what TF_CONFIG says)",
    )
    add("--job", help="the job of this task, e.g. worker (default: what TF_CONFIG says)")
    add("--task", type=int, metavar="N", help="its index in the job (default: TF_CONFIG's, or 0)")
    add(
        "--grace",
        type=float,
        default=5.0,
        metavar="SECONDS",
        help="for steps in flight to end after a signal (default 5)",
    )
    add(
        "--dashboard",
        metavar="[ADDRESS:]PORT",
        help="show the cluster in a browser (needs headrace[dashboard]; loopback unless an address is given)",
    )
    add(
        "--watch-fd",
        type=int,
        metavar="N",
        help="lifeline: stop when the other end of this inherited pipe is closed",
    )
    add_settings(parser)


@command("serve", "run one task of a cluster until SIGTERM or Ctrl-C", _add_arguments)
def serve(args: argparse.Namespace, streams: Streams) -> int:
    """Exit codes: 0 after SIGTERM or a cut lifeline, 130 after SIGINT, 75 if the port is taken."""
    settle(args)
    allow_many_connections()
    cluster, job, task = which_task(args.cluster, args.job, args.task)
    address = cluster.task_address(job, task)
    stop = threading.Event()
    received: list[int] = []

    def on_signal(number: int, frame: FrameType | None) -> None:
        if received:  # asked twice: no more grace
            os._exit(128 + number)
        received.append(number)
        stop.set()

    previous = {n: signal.signal(n, on_signal) for n in (signal.SIGTERM, signal.SIGINT)}
    try:
        if args.watch_fd is not None:
            _watch(args.watch_fd, stop)
        try:
            server = tf.train.Server(cluster, job_name=job, task_index=task)
        except tf.errors.OpError as error:
            raise _startup_error(error, address) from error
        streams.out.write(f"{READY}/job:{job}/task:{task} at {server.target}\n")
        if server.metrics_url:
            streams.out.write(f"metrics at {server.metrics_url}\n")
        with server, _page(server.target, args.dashboard, streams):
            streams.out.flush()
            wait_until_set(stop)
            guard = _end_process_after(args.grace + EXTRA_S)
            server.stop(args.grace)
        guard.cancel()
    finally:
        for number, handler in previous.items():
            signal.signal(number, handler)
    return ExitCode.INTERRUPTED if signal.SIGINT in received else ExitCode.OK


@contextlib.contextmanager
def _page(target: str, place: str | None, streams: Streams) -> Iterator[None]:
    """Inside, the cluster's page is served if it is asked for."""
    if place is None:
        yield
        return
    from headrace.tools.dashboard.command import page

    with page(target, place) as served:
        streams.out.write(f"page at {served.url}\n")
        yield


def which_task(
    cluster: str | None, job: str | None, task: int | None
) -> tuple[tf.train.ClusterSpec, str, int]:
    """The cluster, and the task of it to be: as the options say, or TF_CONFIG without --cluster.

    Raises UsageError.
    """
    if cluster is not None:
        if job is None:
            raise UsageError("--cluster needs --job: which of its tasks is this one?")
        jobs = parse_cluster(cluster)
        own_address(jobs, job, task or 0)
        return tf.train.ClusterSpec(jobs), job, task or 0
    try:
        said = required("headrace serve without --cluster")
        job, task = said.task(job, task)
    except (TypeError, ValueError) as error:
        raise UsageError(str(error)) from error
    for each in said.cluster.jobs:
        for index in said.cluster.task_indices(each):
            checked_address(said.cluster.task_address(each, index), each)
    return said.cluster, job, task


def allow_many_connections() -> None:
    """As many open files as the system lets this process have: a client takes two, and shells often give 1,024."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != hard:
        with contextlib.suppress(OSError, ValueError):  # macOS has a limit beside the one it tells
            resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))


def own_address(jobs: dict[str, list[str]], job: str, task: int) -> str:
    """This task's address.  Raises UsageError if the cluster does not have the task."""
    if job not in jobs:
        raise UsageError(f"the cluster has no job {job!r}; it has {', '.join(sorted(jobs))}")
    if not 0 <= task < len(jobs[job]):
        raise UsageError(f"job {job!r} has tasks 0 to {len(jobs[job]) - 1}, not {task}")
    return jobs[job][task]


def _watch(fd: int, stop: threading.Event) -> None:
    try:
        watch(fd, stop.set)
    except OSError as error:
        raise UsageError(f"--watch-fd {fd}: {error.strerror}") from error


def _startup_error(error: tf.errors.OpError, address: str) -> CommandError:
    return CommandError(
        f"cannot serve at {address}: {error}",
        ExitCode.ADDRESS_IN_USE if is_taken(address) else ExitCode.FAILED,
    )


def is_taken(address: str) -> bool:
    """Does somebody listen at HOST:PORT of this machine?  False if it is no address of ours."""
    host, _, port = address.rpartition(":")
    try:
        with socket.create_server((host.strip("[]"), int(port))):
            return False
    except OSError as error:
        return error.errno == errno.EADDRINUSE


def _end_process_after(seconds: float) -> threading.Timer:
    """A last resort against a stop that does not return; a daemon, so it delays no exit."""
    timer = threading.Timer(seconds, os._exit, args=(ExitCode.FAILED,))
    timer.daemon = True
    timer.start()
    return timer
