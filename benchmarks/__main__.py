"""`python -m benchmarks [ROW ...]`: measure rows and print them; all of them, at full length, also into README.md.

Exit code: 0, 1 if a row failed, 2 on wrong arguments, 130 after Ctrl-C.  A missed target is no failure.
"""

from __future__ import annotations

import argparse
import datetime
import difflib
import os
import platform
import sys
from collections.abc import Sequence
from dataclasses import replace

from benchmarks import kernels, machine, report
from benchmarks.compare import FULL, QUICK, Effort, Outcome, run
from benchmarks.libraries import LIBRARIES, Library
from benchmarks.row import Row
from benchmarks.rows import AREAS, TABLE


def arguments(argv: Sequence[str] | None = None) -> argparse.Namespace:
    """Parsed and checked; ends the process on an error, as argparse does."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    add = parser.add_argument
    add("rows", nargs="*", metavar="ROW", help="names from --list; all without")
    add("--list", action="store_true", help="say which rows there are, and end")
    add(
        "--quick",
        action="store_true",
        help="one run of a few calls, of at most 1 MB: does it work?",
    )
    add("--runs", type=int, metavar="N", help=f"instead of {FULL.runs}")
    add("--only", choices=list(LIBRARIES), help="leave the other library out")
    add("--isa", choices=list(kernels.LIMITS), help="limit both sides to these instructions")
    found = parser.parse_args(argv)
    if found.isa is not None and platform.machine() not in ("x86_64", "AMD64"):
        parser.error(f"--isa {found.isa} is for processors of x86-64, not {platform.machine()}")
    if found.runs is not None and found.runs < 1:
        parser.error("--runs must be 1 or more")
    for name in found.rows:
        if name not in TABLE:
            near = difflib.get_close_matches(name, TABLE, n=3) or sorted(TABLE)
            parser.error(f"there is no row {name!r}; there is {', '.join(near)}")
    return found


def main(argv: Sequence[str] | None = None) -> int:
    """As the module says."""
    args = arguments(argv)
    rows = [row for row in by_area(list(TABLE.values())) if not args.rows or row.name in args.rows]
    if args.list:
        for row in rows:
            moves = f"  Moves: {row.moves}." if row.moves else ""
            print(f"{row.name:<24} {row.title}: {(row.function.__doc__ or '').strip()}{moves}")
        return 0
    libraries = [lib for lib in LIBRARIES.values() if args.only in (None, lib.name)]
    os.environ.pop(kernels.ISA_VARIABLE, None)
    if args.isa is not None:
        os.environ[kernels.ISA_VARIABLE] = args.isa
    try:
        about = [machine.hardware(), *map(machine.versions, libraries)]
        about += [*map(machine.kernels, libraries), *kernels.about()]
    except LookupError as error:
        print(error, file=sys.stderr)
        return 2
    effort = QUICK if args.quick else FULL
    if args.runs:
        effort = replace(effort, runs=args.runs)
    print("\n".join(about))
    if warning := machine.busy():
        print(warning)
    outcomes = measure(rows, libraries, effort)
    if any(outcome.failures for outcome in outcomes):
        return 1
    if not args.rows and not args.quick and not args.only and not args.isa:
        write(outcomes, about, effort)
    return 0


def by_area(rows: list[Row]) -> list[Row]:
    """In the order of the table."""
    return sorted(rows, key=lambda row: AREAS.index(row.area))


def measure(rows: Sequence[Row], libraries: Sequence[Library], effort: Effort) -> list[Outcome]:
    """Measure and print one row after another."""
    outcomes = []
    print(f"\n{report.heading()}")
    for row in rows:
        print(report.name(row), end="", flush=True)
        outcomes.append(run(row, libraries, effort))
        print(report.line(outcomes[-1]), flush=True)
    return outcomes


def write(outcomes: Sequence[Outcome], about: Sequence[str], effort: Effort) -> None:
    """The table into README.md."""
    areas = {area: [o for o in outcomes if o.row.area == area] for area in AREAS}
    today = datetime.date.today().isoformat()
    report.write(report.markdown(areas, about, effort, today))
    print(f"\nwritten to benchmarks/{report.README.name}")


if __name__ == "__main__":
    try:
        sys.exit(main())
    except KeyboardInterrupt:
        sys.exit(130)
