"""Lets chaos loose on clusters of real processes for a while, starts and stops servers very often, restarts tasks by
the hundred under sessions that use them, makes histories of queues whose clients are killed, has the contract of
servers tested over connections that dawdle and break, and runs the scripts of the interop matrix over every transport.

python -m tests.soak --seconds 7200                  two hours
python -m tests.soak --seed 7 --seconds 0 --only-chaos    one run again
"""

from __future__ import annotations

import argparse
import os
import secrets
import subprocess
import sys
import time
import traceback
from collections import Counter
from pathlib import Path

from tests.serve.failed_steps import FRUGAL
from tests.soak import cycles, restarts
from tests.soak.chaos import Run

SECONDS = 600.0
CYCLES = 1000
RESTARTS = 100
HISTORIES = 200
FAULTS = 10  # of a run
FAILURES = 10


def main() -> int:
    """The exit code: 1 if something was wrong."""
    options = arguments()
    seed = secrets.randbits(32) if options.seed is None else options.seed
    print(f"seed {seed}, {options.seconds:.0f} s of chaos, {options.cycles} cycles", flush=True)
    try:
        chaos(seed, options.seconds, options.faults)
        if options.only_chaos:
            return 0
        if options.cycles:
            cycles.run(options.cycles, show)
        if options.restarts:
            say(f"{options.restarts} restarts of a ps under two clients")
            restarts.run(options.restarts, show_all)
            restarts.generated(seed, max(1, options.restarts // 10), say)
            told_once(seed, options.restarts)
        if options.histories:
            histories(seed, options.histories)
        if options.failures:
            failures(options.failures)
        for number in range(options.contract):
            contract(seed + 100 * number)
        if options.contract:
            scripts()
    except AssertionError:
        traceback.print_exc()
        return 1
    except KeyboardInterrupt:
        print("stopped")
    return 0


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m tests.soak", description=__doc__.split("\n")[0]
    )
    add = parser.add_argument
    add("--seconds", type=float, default=SECONDS, help="of chaos, one run at least (%(default).0f)")
    add("--seed", type=int, help="of the first run; the next one's is one more (a new one)")
    add("--only-chaos", action="store_true", help="nothing of what is below but --faults")
    add("--faults", type=int, default=FAULTS, help="in a run (%(default)d)")
    add(
        "--cycles", type=int, default=CYCLES, help="of a server that starts and stops (%(default)d)"
    )
    add(
        "--restarts",
        type=int,
        default=RESTARTS,
        help="of a ps under two clients, and half as many clusters with restarts out of a seed (%(default)d)",
    )
    add(
        "--histories",
        type=int,
        default=HISTORIES,
        help="of queues whose clients are killed, of each kind (%(default)d)",
    )
    add(
        "--contract",
        type=int,
        default=1,
        help="times the contract, over connections that dawdle and break; 0: no scripts, too (%(default)d)",
    )
    add(
        "--failures",
        type=int,
        default=FAILURES,
        help="times the steps that fail in the tests; 0: none (%(default)d)",
    )
    return parser.parse_args()


def say(line: str) -> None:
    print(line, flush=True)


def chaos(seed: int, seconds: float, faults: int) -> None:
    """Run after run, until the time is over."""
    end = time.monotonic() + seconds
    while True:
        try:
            outcomes: Counter[str] = Run(seed, faults, say)()
        except AssertionError:
            say(f'again: make soak ARGS="--seed {seed} --seconds 0 --faults {faults} --only-chaos"')
            raise
        say("  " + ", ".join(f"{count} {how}" for how, count in outcomes.most_common()))
        seed += 1
        if time.monotonic() >= end:
            return


def contract(seed: int) -> None:
    """All of tests/serve/contract over connections that dawdle, and what is tested over connections that break."""
    say(f"the contract, and connections that break, with seed {seed}")
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-k", "dawdles or break", "tests/serve/contract",
         "tests/serve/test_grpc_cuts.py", "tests/serve/test_lane_cuts.py"],
        env={**os.environ, "HEADRACE_TEST_SEED": str(seed)}, check=False,
    )  # fmt: skip
    assert done.returncode == 0, f"the contract failed with seed {seed}"


def scripts() -> None:
    """All scripts of the interop matrix over every transport, of which the tests take two each."""
    say("scripts over every transport")
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "tests/serve/test_scripts.py"],
        env={**os.environ, "HEADRACE_TEST_SHELLS": "all"}, check=False,
    )  # fmt: skip
    assert done.returncode == 0, "a script failed: HEADRACE_TEST_SHELLS=all"


def failures(times: int) -> None:
    """Steps that fail by the thousand, and what is left of them: ten times what the tests do."""
    files = sorted(Path("tests/serve").glob("test_failed_steps_*.py"))
    say(f"steps that fail, {times} times as many as the tests make")
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", *map(str, files)],
        env={**os.environ, **FRUGAL, "HEADRACE_TEST_FAILURES": str(times)}, check=False,
    )  # fmt: skip
    assert done.returncode == 0, f"something was left: HEADRACE_TEST_FAILURES={times}"


def histories(seed: int, count: int) -> None:
    """More of those that the tests make a few of."""
    say(f"{count} histories of queues of each kind with seed {seed}")
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-k", "killed", "tests/serve/test_queue_histories.py"],
        env={**os.environ, "HEADRACE_TEST_HISTORIES": f"{seed}:{count}"}, check=False,
    )  # fmt: skip
    assert done.returncode == 0, f"a history was wrong: HEADRACE_TEST_HISTORIES={seed}:{count}"


def told_once(seed: int, count: int) -> None:
    """More of those clusters that the tests make a few of."""
    say(f"{count // 2} clusters with restarts, of each kind, with seed {seed}")
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-k", "told_once_and", "tests/serve/test_told_once.py"],
        env={**os.environ, "HEADRACE_TEST_RESTARTS": f"{seed}:{count // 2}"}, check=False,
    )  # fmt: skip
    assert done.returncode == 0, (
        f"a restart was not told once: HEADRACE_TEST_RESTARTS={seed}:{count // 2}"
    )


def show_all(done: int, survivors: dict[str, cycles.Kept]) -> None:
    for name, kept in survivors.items():
        say(
            f"{done} restarts, {name}: {kept.descriptors} descriptors, {kept.all_threads} threads, "
            f"{kept.memory_kb / 1024:.0f} MB"
        )


def show(done: int, kept: cycles.Kept) -> None:
    say(
        f"{done} cycles: {kept.descriptors} descriptors, {kept.all_threads} threads, "
        f"{kept.memory_kb / 1024:.0f} MB"
    )


if __name__ == "__main__":
    sys.exit(main())
