"""The table of commands: a module registers its own, `main` looks them up.

Called by: command modules (`@command`), main.
Threads: the table is filled while modules are imported and only read afterwards.
"""

from __future__ import annotations

import argparse
import difflib
from collections.abc import Callable
from dataclasses import dataclass
from enum import IntEnum
from typing import NoReturn, TextIO


class ExitCode(IntEnum):
    """What the `headrace` command tells its caller."""

    OK = 0
    FAILED = 1
    USAGE = 2
    ADDRESS_IN_USE = 75  # EX_TEMPFAIL of sysexits.h: again with another port may work
    INTERRUPTED = 130  # as a shell reports a command that SIGINT ended


class UsageError(Exception):
    """The arguments make no sense; the text says which and what would."""


class CommandError(Exception):
    """The command could not do its work; `code` becomes the exit code."""

    def __init__(self, message: str, code: int = ExitCode.FAILED) -> None:
        super().__init__(message)
        self.code = code


class Parser(argparse.ArgumentParser):
    """An ArgumentParser that raises UsageError instead of ending the process."""

    def error(self, message: str) -> NoReturn:
        """See `argparse`."""
        raise UsageError(message)


@dataclass(frozen=True)
class Streams:
    """Where a command writes: results to `out`, complaints to `err`."""

    out: TextIO
    err: TextIO


Run = Callable[[argparse.Namespace, Streams], int]


@dataclass(frozen=True)
class Command:
    """One row of the table."""

    name: str
    summary: str
    add_arguments: Callable[[argparse.ArgumentParser], None] | None
    run: Run


TABLE: dict[str, Command] = {}


def command(
    name: str,
    summary: str,
    add_arguments: Callable[[argparse.ArgumentParser], None] | None,
) -> Callable[[Run], Run]:
    """Register the decorated function as `headrace NAME`; it returns the exit code.

    Without `add_arguments` it takes all words after its name as they are, `--help` included, as `arguments.words`.
    Raises ValueError if the name is taken, naming both places.
    """

    def register(run: Run) -> Run:
        if name in TABLE:
            taken = TABLE[name].run
            raise ValueError(
                f"command {name!r} is registered twice: by {taken.__module__}.{taken.__qualname__}"
                f" and by {run.__module__}.{run.__qualname__}"
            )
        TABLE[name] = Command(name, summary, add_arguments, run)
        return run

    return register


def find(name: str) -> Command:
    """The command of that name.  Raises UsageError, which suggests the nearest names."""
    if name in TABLE:
        return TABLE[name]
    near = difflib.get_close_matches(name, TABLE, n=3, cutoff=0.5)
    if near:
        hint = "did you mean " + " or ".join(repr(n) for n in near) + "?"
    else:
        hint = "there are " + ", ".join(sorted(TABLE)) + "."
    raise UsageError(f"there is no command {name!r}; {hint}")
