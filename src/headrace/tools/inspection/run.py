"""The commands `headrace inspect` and `headrace top`.

Called by: main, which imports this for every command: what the commands need they import themselves.
Threads: the caller's.
"""

from __future__ import annotations

import argparse
import json
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

from headrace.tools.commands import ExitCode, Streams, UsageError, command
from headrace.tools.settings import add_credentials, settle

_LEAST_S = 0.05


def _add_target(parser: argparse.ArgumentParser, interval_s: float, meaning: str) -> None:
    parser.add_argument(
        "target", metavar="TARGET", help="any server of the cluster, grpc://HOST:PORT"
    )
    parser.add_argument(
        "--interval",
        type=float,
        default=interval_s,
        metavar="SECONDS",
        help=f"{meaning} (default {interval_s:g})",
    )


def _add_inspect(parser: argparse.ArgumentParser) -> None:
    _add_target(parser, 0.5, "rates of queues are taken over this time; 0: no rates")
    parser.add_argument("--json", action="store_true", help="as JSON, with every detail")
    parser.add_argument("--all", action="store_true", help="all rows of long tables")
    add_credentials(parser)


def _add_top(parser: argparse.ArgumentParser) -> None:
    _add_target(parser, 1.0, "time between two looks")
    parser.add_argument("--count", type=int, metavar="N", help="end after N looks")
    add_credentials(parser)


@command("inspect", "show what a cluster has, and which steps are blocked and why", _add_inspect)
def inspect(args: argparse.Namespace, streams: Streams) -> int:
    """Exit code 1 if the server does not answer, or is TensorFlow's and cannot say."""
    from headrace.tools.inspection.screens import screen_on
    from headrace.tools.inspection.snapshot import Observer, as_data
    from headrace.tools.inspection.tables import everything

    settle(args)
    if args.interval < 0:
        raise UsageError(f"--interval {args.interval:g} is negative")
    with Observer(args.target) as observer:
        snapshot = observer.look()
        if args.interval:
            threading.Event().wait(args.interval)
            snapshot = observer.look()
    if args.json:
        json.dump(as_data(snapshot), streams.out, indent=2)
        streams.out.write("\n")
    else:
        screen = screen_on(streams.out)
        width, _ = screen.size
        screen.show(everything(snapshot, width, None if args.all else 40))
    return ExitCode.OK


@command("top", "show live what a cluster does; Ctrl-C ends it", _add_top)
def top(args: argparse.Namespace, streams: Streams) -> int:
    """Ends by Ctrl-C or SIGTERM, or after --count looks; the terminal is then as it was."""
    from headrace.tools.inspection.screens import screen_on
    from headrace.tools.inspection.tables import live
    from headrace.tools.inspection.watching import Watcher

    settle(args)
    if args.interval < _LEAST_S:
        raise UsageError(f"--interval {args.interval:g} is less than {_LEAST_S:g} s")
    screen = screen_on(streams.out)
    looks = 0
    with Watcher(args.target) as watcher, _terminated_like_interrupted():
        view = watcher.look()  # an error is shown on the screen that was there
        with screen.live() as replace:
            try:
                while True:
                    replace(live(view.snapshot, *screen.size, view))
                    looks += 1
                    if args.count is not None and looks >= args.count:
                        break
                    threading.Event().wait(watcher.pause_s(args.interval))
                    view = watcher.look()
            except KeyboardInterrupt:
                pass
    return ExitCode.OK


@contextmanager
def _terminated_like_interrupted() -> Iterator[None]:
    """SIGTERM must not leave the terminal on the other screen."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def interrupt(number: int, frame: FrameType | None) -> None:
        raise KeyboardInterrupt

    previous = signal.signal(signal.SIGTERM, interrupt)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, previous)
