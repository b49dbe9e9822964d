"""The command `headrace demo`.

Called by: main, which imports this for every command: what a run needs is imported when there is one.
Threads: the caller's.
"""

from __future__ import annotations

import argparse
from pathlib import Path

from headrace.tools.commands import Streams, command

EPOCHS = 20
BATCH = 50


def _add_arguments(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("--data", type=Path, metavar="DIR", help="the digits (default: examples/data)")
    add("--out", type=Path, default=Path(), metavar="DIR", help="for the files (default: here)")
    add(
        "--epochs",
        type=int,
        default=EPOCHS,
        metavar="N",
        help=f"how often this run goes through the digits, from where the last one ended (default {EPOCHS})",
    )
    add("--batch", type=int, default=BATCH, metavar="N", help=f"default {BATCH}")
    add(
        "--min-accuracy",
        type=float,
        default=0.95,
        metavar="FRACTION",
        help="a lower accuracy on the test set is a failure (default 0.95)",
    )


@command("demo", "train on real data with a cluster of processes on this machine", _add_arguments)
def demo(args: argparse.Namespace, streams: Streams) -> int:
    """Exit codes: 0, 1 if a child failed or the accuracy is low, 130 when interrupted."""
    from headrace.tools.demo.run import run

    return run(args, streams)
