"""Rows of tests/ops/operands.py that no change to a kernel can break: they show nothing, and do not count.

    python -m tests.mutation [--ops 60] [--mutants 40] [--seed 0] [--only PATTERN] [--verbose]

Draws ops, changes their kernels in one place at a time (mutants.py), runs the rows again, and reports how many rows
some mutant breaks, and which ops have none.  Exit status 1 if an op that has mutants has no row that breaks.
"""

from __future__ import annotations

import argparse
import contextlib
import random
import re
import signal
import sys
import warnings
from collections.abc import Iterator
from typing import Any

import numpy as np

import headrace as tf
from headrace.graph.registry import OPS, OpSpec
from tests.mutation.mutants import Mutant, mutants
from tests.ops.operands import Operands, every_op, recipes
from tests.ops.test_operands import little_memory

ROWS = 24  # of a recipe
LIMIT_S = 2.0


class Late(BaseException):
    """A mutant that goes on and on."""


@contextlib.contextmanager
def limited() -> Iterator[None]:
    def late(*_: Any) -> None:
        raise Late

    before = signal.signal(signal.SIGALRM, late)
    signal.setitimer(signal.ITIMER_REAL, LIMIT_S)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def answer(kernel: Any, operands: Operands, attrs: dict[str, Any]) -> Any:
    """What a kernel makes of copies of the operands, as what can be compared."""
    copies = [np.array(each) for each in operands]
    try:
        with limited(), np.errstate(all="ignore"):
            made = kernel(np, *copies, **attrs)
    except Late:
        return "late"
    except Exception as error:
        return type(error).__name__
    values = made if isinstance(made, (list, tuple)) else [made]
    return [
        (str(each.dtype), each.shape, each.tolist() if each.dtype == object else each.tobytes())
        for each in map(np.asarray, values)
    ]


def rows_of(spec: OpSpec) -> list[tuple[Operands, dict[str, Any]]]:
    """Rows that its kernel can be called with as it is: no variables, no runtime."""
    found = []
    for recipe in recipes(spec):
        if any(recipe.held):
            return []
        with tf.Graph().as_default():
            _, _, node = recipe.build()
            attrs = {name: node.attrs[name] for name in spec.kernel_attrs}
        found += [(operands, attrs) for operands in recipe.operands[:ROWS]]
    return found


def broken(spec: OpSpec, chosen: list[Mutant], rows: Any) -> tuple[set[int], list[str]]:
    """Rows that some mutant breaks; mutants that break none."""
    before = [answer(spec.kernel, *row) for row in rows]
    found: set[int] = set()
    harmless = []
    for mutant in chosen:
        with mutant.put():
            hit = {at for at, row in enumerate(rows) if answer(spec.kernel, *row) != before[at]}
        found |= hit
        if not hit:
            harmless.append(mutant.says)
    return found, harmless


def mutants_of(spec: OpSpec) -> list[Mutant]:
    def use(function: Any) -> Any:
        before, spec.kernel = spec.kernel, function
        return before

    return list(mutants(spec.kernel, use)) if spec.kernel is not None else []


def chosen_of(spec: OpSpec, most: int, draw: random.Random) -> list[Mutant]:
    every = mutants_of(spec)
    return draw.sample(every, most) if len(every) > most else every


def arguments(words: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.mutation", description=__doc__)
    parser.add_argument("--ops", type=int, default=60)
    parser.add_argument("--mutants", type=int, default=40)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--only", default=".*", help="pattern of names")
    parser.add_argument("--verbose", action="store_true", help="mutants that broke nothing")
    return parser.parse_args(words)


def main(words: list[str]) -> int:
    options = arguments(words)
    draw = random.Random(options.seed)
    OPS.complete()
    specs = [
        spec
        for spec in every_op()
        if re.fullmatch(options.only, spec.name) and not spec.takes_ctx and spec.kernel is not None
    ]
    unbroken, rows_seen, rows_broken, tried, harmless_seen = [], 0, 0, 0, 0
    for spec in draw.sample(specs, min(options.ops, len(specs))):
        chosen, rows = chosen_of(spec, options.mutants, draw), rows_of(spec)
        if not chosen or not rows:
            continue
        with little_memory():
            hit, harmless = broken(spec, chosen, rows)
            if not hit and len(chosen) == options.mutants:  # those that were not drawn may
                chosen = mutants_of(spec)
                hit, harmless = broken(spec, chosen, rows)
        rows_seen += len(rows)
        rows_broken += len(hit)
        tried += len(chosen)
        harmless_seen += len(harmless)
        if not hit:
            unbroken.append(spec.name)
        print(
            f"{spec.name}: {len(hit)} of {len(rows)} rows break, under {len(chosen) - len(harmless)} of "
            f"{len(chosen)} mutants",
            flush=True,
        )
        if options.verbose:
            for says in harmless:
                print(f"    nothing breaks by {says}")
    print(
        f"{rows_broken} of {rows_seen} rows break under some of {tried} mutants, and so count; {harmless_seen} mutants "
        f"break nothing; ops without a row that breaks: {', '.join(unbroken) or 'none'}"
    )
    return 1 if unbroken else 0


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    sys.exit(main(sys.argv[1:]))
