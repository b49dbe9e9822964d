"""The command `headrace profile`.

Called by: main, which imports this for every command: what the command needs it imports itself.
Threads: the caller's.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING

from headrace.tools.commands import CommandError, ExitCode, Streams, UsageError, command
from headrace.tools.settings import add_credentials, settle

if TYPE_CHECKING:
    from headrace.tools.profiling.recording import Recording


def _add_arguments(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("target", metavar="TARGET", help="any server of the cluster, grpc://HOST:PORT")
    add("--steps", type=int, default=10, metavar="N", help="how many steps to trace (default 10)")
    add(
        "--within",
        type=float,
        default=60.0,
        metavar="SECONDS",
        help="how long to look for them (default 60)",
    )
    add("-o", "--output", metavar="FILE", help="Chrome trace, for https://ui.perfetto.dev")
    add_credentials(parser)


@command("profile", "trace steps of a running cluster; say where their time goes", _add_arguments)
def profile(args: argparse.Namespace, streams: Streams) -> int:
    """Exit code 1 if the server does not answer, or no step has ended in time.

    The steps are the next N of those that run the same and take the most time together; others that end
    meanwhile are traced too.
    """
    from headrace.tools.profiling.advice import report
    from headrace.tools.profiling.recording import record

    settle(args)
    if args.steps < 1:
        raise UsageError(f"--steps {args.steps} is not above 0")
    if not args.within > 0:
        raise UsageError(f"--within {args.within:g} is not above 0")
    recording = record(args.target, args.steps, args.within)
    for line in report(recording):
        streams.out.write(f"{line}\n")
    if args.output is not None and recording.steps:
        _write(recording, args.output)
        streams.out.write(
            f"\n{len(recording.steps)} steps are in {args.output}: open it at https://ui.perfetto.dev\n"
        )
    return ExitCode.OK if recording.steps else ExitCode.FAILED


def _write(recording: Recording, path: str) -> None:
    from headrace.tools.profiling.trace import chrome_trace

    try:
        Path(path).write_text(chrome_trace(recording.steps))
    except OSError as error:
        raise CommandError(f"{path} cannot be written: {error.strerror}") from error
