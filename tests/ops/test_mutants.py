"""Mutants of kernels (tests/mutation): what is changed, that rows notice, and that all is as before."""

from __future__ import annotations

import random
from typing import Any

import numpy as np

from headrace.graph.registry import OPS
from tests.mutation.__main__ import broken, chosen_of, main, rows_of
from tests.mutation.mutants import mutants


def twice_above(x: Any, least: int = 2) -> Any:
    """Twice what is above, else 0."""
    if x < least:
        return 0
    return 2 * x


def test_every_place_of_a_function_is_changed_once() -> None:
    kept: list[Any] = [twice_above]

    def use(function: Any) -> Any:
        before, kept[0] = kept[0], function
        return before

    found = {}
    for mutant in mutants(twice_above, use):
        with mutant.put():
            found[mutant.says.partition(": ")[2]] = [kept[0](x) for x in (1, 2, 3)]
    assert kept == [twice_above]
    assert found == {
        "the other branch": [2, 0, 0],
        "Lt to LtE": [0, 0, 6],
        "0 to 1": [1, 4, 6],
        "Mult to Add": [0, 4, 5],
        "2 to 3": [0, 6, 9],
    }


def test_rows_that_no_mutant_breaks_are_found(capsys: Any) -> None:
    spec = OPS["BiasAddGrad"]
    rows = rows_of(spec)
    hit, harmless = broken(spec, chosen_of(spec, 20, random.Random(0)), rows)
    assert 0 < len(hit) <= len(rows)
    assert len(harmless) < 20
    nothing = [((np.zeros((0, 3), np.float32), np.zeros(3, np.float32)), {"data_format": b"NHWC"})]
    spec = OPS["BiasAdd"]
    same, _ = broken(spec, [], nothing)
    assert same == set()
    assert main(["--only", "BiasAddGrad", "--mutants", "6"]) == 0
    assert "rows break" in capsys.readouterr().out
