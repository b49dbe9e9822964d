"""The command `headrace dashboard`.

Called by: main, which imports this for every command: what the command needs it imports itself; tools.serve.
Threads: the caller's waits.
"""

from __future__ import annotations

import argparse
import signal
import threading
from types import FrameType
from typing import TYPE_CHECKING

from headrace.tools.commands import CommandError, ExitCode, Streams, UsageError, command
from headrace.tools.settings import add_credentials, settle

if TYPE_CHECKING:
    from headrace.tools.dashboard.app import Dashboard

PORT = "6064"
_LEAST_S = 0.2


def _add_arguments(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("target", metavar="TARGET", help="any server of the cluster, grpc://HOST:PORT")
    add(
        "--port",
        default=PORT,
        metavar="[ADDRESS:]PORT",
        help=f"where the page is; loopback unless an address is given, 0: any port (default {PORT})",
    )
    add(
        "--interval",
        type=float,
        default=1.0,
        metavar="SECONDS",
        help="time between two looks, while a page is open (default 1)",
    )
    add_credentials(parser)
    parser.add_argument(
        "--insecure",
        dest="HEADRACE_INSECURE",
        action="store_const",
        const="1",
        help="let everybody look who reaches the port [HEADRACE_INSECURE=1]",
    )


@command("dashboard", "show live in a browser what a cluster does", _add_arguments)
def dashboard(args: argparse.Namespace, streams: Streams) -> int:
    """Serves the page until SIGTERM or Ctrl-C.  Exit codes: 0 after SIGTERM, 130 after Ctrl-C."""
    settle(args)
    if args.interval < _LEAST_S:
        raise UsageError(f"--interval {args.interval:g} is less than {_LEAST_S:g} s")
    stop = threading.Event()
    received: list[int] = []

    def on_signal(number: int, frame: FrameType | None) -> None:
        received.append(number)
        stop.set()

    previous = {n: signal.signal(n, on_signal) for n in (signal.SIGTERM, signal.SIGINT)}
    try:
        with page(args.target, args.port, args.interval) as served:
            streams.out.write(f"the page of {args.target} is at {served.url}\n")
            streams.out.flush()
            stop.wait()
    finally:
        for number, handler in previous.items():
            signal.signal(number, handler)
    return ExitCode.INTERRUPTED if signal.SIGINT in received else ExitCode.OK


def page(target: str, place: str, interval_s: float = 1.0) -> Dashboard:
    """The page of a cluster, served at `[ADDRESS:]PORT`.  Raises CommandError, UsageError."""
    from headrace.base import errors
    from headrace.serve.http.server import parse_place
    from headrace.serve.rpc.security import security
    from headrace.tools.dashboard.app import Dashboard

    try:
        where = parse_place(place, "the page's port")
    except errors.OpError as error:
        raise UsageError(error.message) from None
    try:
        return Dashboard(target, where, security(), interval_s)
    except errors.OpError as error:
        taken = isinstance(error, errors.UnknownError)
        code = ExitCode.ADDRESS_IN_USE if taken else ExitCode.FAILED
        raise CommandError(error.message, code) from error
