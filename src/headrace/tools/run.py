"""`headrace run`: a program written for TensorFlow, with headrace in its place.

Python itself runs the program: this process becomes ``python script.py ARGS``, with an environment in which
`import tensorflow` gives headrace (`unmodified.finder`).  So arguments, paths, exit status, signals and tracebacks are
Python's own.

Called by: main.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
from collections.abc import Sequence

from headrace.tools.commands import ExitCode, Streams, UsageError, command

USAGE = """\
usage: headrace run [--] SCRIPT ARGUMENTS...
       headrace run -m MODULE ARGUMENTS...
       headrace run -c CODE ARGUMENTS...

Runs a Python program in which `import tensorflow` gives headrace, in this process and in those that the
program starts.  SCRIPT is a file, a folder or a zip file with a __main__.py, or - for standard input.
"""


def command_line(words: Sequence[str]) -> list[str]:
    """The Python command for the words after ``headrace run``.  Raises UsageError."""
    if not words:
        raise UsageError("there is nothing to run\n" + USAGE.rstrip())
    first, rest = words[0], list(words[1:])
    if first == "--":
        if not rest:
            raise UsageError("there is no script after --\n" + USAGE.rstrip())
        script = rest.pop(0)
        return [os.path.join(os.curdir, script) if script[0:1] == "-" else script, *rest]
    if first in ("-m", "-c"):
        if not rest:
            raise UsageError(f"{first} needs {'a module' if first == '-m' else 'code'} after it")
        return [first, *rest]
    if first.startswith(("-m", "-c")):
        return [first[:2], first[2:], *rest]
    if first[0:1] == "-" and first != "-":
        raise UsageError(f"{first} is no option of `headrace run`\n" + USAGE.rstrip())
    return [first, *rest]


def _checked_flags() -> list[str]:
    """The options that this Python was started with, for the next.  Raises UsageError."""
    flags = sys.flags
    if flags.isolated or flags.ignore_environment or flags.no_site:
        raise UsageError(
            "this Python was started with -I, -E or -S, and ignores the environment by which `headrace run` works; "
            "start it without"
        )
    found: list[str] = subprocess._args_from_interpreter_flags()  # type: ignore[attr-defined]
    return found


@command("run", "run a program written for TensorFlow 1.x, unmodified", None)
def run(arguments: argparse.Namespace, streams: Streams) -> int:
    """Become the program; returns only to print help."""
    from headrace.unmodified.finder import set_environment

    words = arguments.words
    if words[:1] in (["-h"], ["--help"]):
        streams.out.write(USAGE)
        return ExitCode.OK
    line = [sys.executable, *_checked_flags(), *command_line(words)]
    environment = dict(os.environ)
    set_environment(environment)
    streams.out.flush()
    streams.err.flush()
    return os.execve(line[0], line, environment)
