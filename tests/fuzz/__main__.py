"""Feeds mutated messages to everything that reads bytes from other processes, until stopped.

python -m tests.fuzz --seconds 3600 --only frames     an hour of frames
python -m tests.fuzz --seed 7 --only frames --case 12     one case again
"""

from __future__ import annotations

import argparse
import math
import secrets
import signal
import sys
import time
import traceback

from tests.fuzz import runner
from tests.fuzz.targets import TARGETS

EVERY_S = 10.0
STUCK_S = 60.0  # a round of all targets takes a few
SHOWN = 400


def main() -> int:
    """The exit code: 1 if a case failed."""
    options = arguments()
    seed = secrets.randbits(32) if options.seed is None else options.seed
    targets = {name: target for name, target in TARGETS.items() if options.only in name}
    if options.only in TARGETS:
        targets = {options.only: TARGETS[options.only]}
    if not targets:
        print(f"no target has {options.only!r} in its name; there are {', '.join(TARGETS)}")
        return 2
    print(f"seed {seed}, {len(targets)} targets, Ctrl-C to stop", flush=True)
    try:
        if options.case is not None:
            for target in targets.values():
                runner.run_case(seed, target, options.case)
            print("passed")
        else:
            show(runner.run(seed, targets, options.seconds, Progress()))
    except runner.Failed as failed:
        report(seed, failed)
        return 1
    except KeyboardInterrupt:
        print("stopped")
    return 0


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m tests.fuzz", description=__doc__.split("\n")[0]
    )
    parser.add_argument("--seconds", type=float, default=math.inf, help="how long (until stopped)")
    parser.add_argument("--seed", type=int, help="an earlier run's (a new one)")
    parser.add_argument("--only", default="", help="targets with this in their name (all)")
    parser.add_argument("--case", type=int, help="this case of the target only")
    return parser.parse_args()


def stuck(number: int, frame: object) -> None:
    """The case that is running fails."""
    raise TimeoutError(f"no end within {STUCK_S} s")


class Progress:
    """Called after each round: a line every ten seconds, and an alarm for cases that do not end."""

    def __init__(self) -> None:
        self._next = time.monotonic() + EVERY_S
        signal.signal(signal.SIGALRM, stuck)
        signal.setitimer(signal.ITIMER_REAL, STUCK_S)

    def __call__(self, tally: runner.Tally) -> None:
        signal.setitimer(signal.ITIMER_REAL, STUCK_S)
        if time.monotonic() >= self._next:
            self._next += EVERY_S
            show(tally)


def show(tally: runner.Tally) -> None:
    cases, accepted = sum(tally.cases.values()), sum(tally.accepted.values())
    print(f"{cases:,} cases, {accepted / max(cases, 1):.0%} accepted", flush=True)


def report(seed: int, failed: runner.Failed) -> None:
    traceback.print_exception(failed.__cause__)
    print(f"\nfailed on {len(failed.data)} bytes: {failed.data[:SHOWN]!r}")
    print(f'again: make fuzz ARGS="--seed {seed} --only {failed.target} --case {failed.number}"')


if __name__ == "__main__":
    sys.exit(main())
