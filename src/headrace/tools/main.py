"""The `headrace` command: `headrace serve`, `headrace inspect`, `headrace demo`, ….

Called by: the console script, `python -m headrace.tools.main`, tests.
Exit codes: see commands.ExitCode.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import sys
from collections.abc import Sequence
from typing import NoReturn, TextIO

from headrace.tools import explain as _explain  # noqa: F401  (registers its command)
from headrace.tools import health as _health  # noqa: F401  (registers its command)
from headrace.tools import run as _run_program  # noqa: F401  (registers its command)
from headrace.tools import serve as _serve  # noqa: F401  (registers its command)
from headrace.tools import token as _token  # noqa: F401  (registers its command)
from headrace.tools.check import command as _check  # noqa: F401  (registers its command)
from headrace.tools.commands import (
    TABLE,
    Command,
    CommandError,
    ExitCode,
    Parser,
    Streams,
    UsageError,
    find,
)
from headrace.tools.dashboard import command as _dashboard  # noqa: F401  (registers its command)
from headrace.tools.demo import command as _demo  # noqa: F401  (registers its command)
from headrace.tools.inspection import run as _inspection  # noqa: F401  (registers its commands)
from headrace.tools.kubernetes import command as _k8s  # noqa: F401  (registers its command)
from headrace.tools.launch import command as _launch  # noqa: F401  (registers its command)
from headrace.tools.profiling import command as _profile  # noqa: F401  (registers its command)


def version() -> str:
    """The installed version, or "unknown" when run from a tree that is not installed."""
    import importlib.metadata  # which takes as long as a third of NumPy

    try:
        return importlib.metadata.version("headrace")
    except importlib.metadata.PackageNotFoundError:
        return "unknown"


def overview() -> str:
    """What `headrace --help` prints."""
    width = max(map(len, TABLE))
    rows = "\n".join(f"  {c.name:<{width}}  {c.summary}" for _, c in sorted(TABLE.items()))
    return (
        "usage: headrace COMMAND [ARGUMENTS]\n"
        "       headrace --version\n\n"
        f"commands:\n{rows}\n\n"
        "`headrace COMMAND --help` describes one of them.\n"
    )


def main(
    argv: Sequence[str] | None = None, out: TextIO | None = None, err: TextIO | None = None
) -> int:
    """Run one command and return its exit code; `argv` is without the program's name."""
    arguments = list(sys.argv[1:] if argv is None else argv)
    streams = Streams(out or sys.stdout, err or sys.stderr)
    if not arguments:
        streams.err.write(overview())
        return ExitCode.USAGE
    first = arguments[0]
    if first in ("-h", "--help"):
        streams.out.write(overview())
        return ExitCode.OK
    if first in ("-V", "--version"):
        streams.out.write(f"headrace {version()}\n")
        return ExitCode.OK
    try:
        return _run(find(first), arguments[1:], streams)
    except UsageError as error:
        streams.err.write(f"headrace: {error}\n")
        return ExitCode.USAGE
    except KeyboardInterrupt:
        return ExitCode.INTERRUPTED


def _run(command: Command, arguments: list[str], streams: Streams) -> int:
    if command.add_arguments is None:
        return command.run(argparse.Namespace(words=arguments), streams)
    parser = Parser(prog=f"headrace {command.name}", description=command.summary, add_help=False)
    parser.add_argument("-h", "--help", action="store_true", help="show this and end")
    command.add_arguments(parser)
    if "-h" in arguments or "--help" in arguments:
        streams.out.write(parser.format_help())
        return ExitCode.OK
    try:
        return command.run(parser.parse_args(arguments), streams)
    except UsageError as error:
        streams.err.write(f"{parser.format_usage()}headrace {command.name}: {error}\n")
        return ExitCode.USAGE
    except CommandError as error:
        streams.err.write(f"headrace {command.name}: {error}\n")
        return error.code


def process() -> NoReturn:
    """`main` as the whole of a process, which ends with its exit code.

    An interpreter that runs a module (`-m`) ends itself by SIGINT if KeyboardInterrupt has ever come out of text that
    was executed, as where an import makes a dataclass, even if it was caught: so one that was interrupted ends here.
    """
    code = main()
    if code > 128:
        for stream in (sys.stdout, sys.stderr):
            with contextlib.suppress(OSError, ValueError):
                stream.flush()
        os._exit(code)
    sys.exit(code)


if __name__ == "__main__":
    process()
