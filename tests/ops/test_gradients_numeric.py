"""Gradients of every family against differences (the cases are in tests/ops/slopes/); and none is forgotten."""

from __future__ import annotations

import pytest

from headrace.graph.registry import OPS
from tests.ops.places import ops_of
from tests.ops.slopes import Function, collected
from tests.ops.test_math_gradients import FAMILIES

CASES, ELSEWHERE = collected()


@pytest.mark.parametrize("known", [True, False], ids=["static", "dynamic"])
@pytest.mark.parametrize("case", CASES)
def test_a_gradient_is_the_slope(case: str, known: bool, check_gradient: Function) -> None:
    function, inputs = CASES[case]
    check_gradient(function, inputs, known=known)


def test_every_gradient_has_a_case() -> None:
    theirs = ops_of(FAMILIES)
    ours = {name for name, spec in OPS.items() if spec.gradient_fn is not None} - theirs
    assert ours - {case.partition(" ")[0] for case in CASES} == ELSEWHERE
