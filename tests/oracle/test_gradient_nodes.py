"""Gradients of every op: whether there is one, and the nodes that it adds, beside TensorFlow's.

What is asked is made from the registry (tests/ops/operands.py), with operands of which nothing is known, and of known
shapes.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import headrace as hr
from headrace.graph.registry import OPS, OpSpec
from headrace.graph.schemas import ArgDef
from tests.ops.operands import recipes
from tests.oracle.gradient_nodes import gradient_nodes
from tests.oracle.other_gradients import OTHER_NODES, OTHER_REGISTRATIONS
from tests.oracle.summary import SUMMARY
from tests.oracle.test_operands import asked, asked_of_gradients, outcome
from tests.oracle.test_variations import compared_ops

DRAWN = 8
Case = tuple[bytes, list[str], list[str], dict[str, list[int]]]

REGISTERED = """
from tensorflow.python.framework import ops
def kind(name):
    try:
        return "none" if ops.gradient_registry.lookup(name) is None else "function"
    except LookupError:
        return "not registered"
result = [kind(name) for name in names]
"""


def cases() -> Iterator[tuple[str, Case]]:
    """(op, how much is known of its operands), and the graph."""
    for spec in compared_ops():
        if spec.gradient_fn is None or not callable(spec.gradient_fn):
            continue
        recipe = next(iter(recipes(spec, DRAWN)))
        with hr.Graph().as_default():
            for case, _, _, _ in asked_of_gradients(recipe):
                yield f"{spec.name} unknown", (case.graph, case.fetches, case.xs, {})
                row = _good(recipe)
                if row is not None:
                    shapes = {f"p{at}": list(np.shape(value)) for at, value in enumerate(row)}
                    yield f"{spec.name} known", (case.graph, case.fetches, case.xs, shapes)


def _good(recipe: Any) -> Any:
    """The first operands that give a value."""
    with hr.Graph().as_default():
        for _, session, fed, wanted in asked(recipe):
            for row in recipe.operands:
                if outcome(session, fed, wanted, row)[0] == "value":
                    return row
    return None


def difference(ours: Any, theirs: Any) -> str | None:
    if isinstance(ours[0], str) or isinstance(theirs[0], str):
        return None if ours[0] == theirs[0] else f"{ours} / TensorFlow {theirs}"[:400]
    mine, other = ({node[0]: node[1:] for node in nodes} for _, nodes in (ours, theirs))
    only = [f"{name} ({mine[name][0]})" for name in mine if name not in other]
    lacking = [f"{name} ({other[name][0]})" for name in other if name not in mine]
    if only or lacking:
        return f"only here: {', '.join(only[:5]) or 'none'} / only in TensorFlow: {', '.join(lacking[:5]) or 'none'}"
    for name, node in mine.items():
        if node != other[name]:
            return f"{name}: {node} / TensorFlow {other[name]}"
    return None if ours[0] == theirs[0] else f"gradients {ours[0]} / TensorFlow {theirs[0]}"


@pytest.mark.timeout(900)
@pytest.mark.filterwarnings("ignore::UserWarning")
def test_gradients_add_the_nodes_that_they_add_in_tensorflow(
    oracle: Any, pytestconfig: pytest.Config
) -> None:
    labels, given = zip(*cases(), strict=True)
    source = Path(__file__).with_name("gradient_nodes.py").read_text()
    theirs = oracle.run(f"{source}\nresult = gradient_nodes(tf, cases)", cases=list(given))
    found, needed, differing = [], Counter[str](), set()
    for label, mine, other in zip(labels, gradient_nodes(hr, given), theirs, strict=True):
        if said := difference(mine, other):
            differing.add(label.partition(" ")[0])
            reason = next((each for each in OTHER_NODES if re.fullmatch(each, label)), None)
            if reason is None:
                found.append(f"{label}: {said}")
            else:
                needed[reason] += 1
    count = len({label.partition(" ")[0] for label in labels})
    pytestconfig.stash.setdefault(SUMMARY, []).append(
        f"nodes of gradients: {len(labels)} graphs of {count} ops, of which {count - len(differing)} agree in all and "
        f"{len(differing)} differ in some for a reason (tests/oracle/other_gradients.py)"
    )
    assert not found, f"{len(found)} differences:\n" + "\n".join(found)
    assert OTHER_NODES.keys() <= needed.keys(), f"not needed: {OTHER_NODES.keys() - needed.keys()}"


def _may_be_floats(spec: OpSpec, args: tuple[ArgDef, ...]) -> bool:
    """Whether some of them may be what gradients are of."""
    for arg in args:
        attr = arg.type_attr or arg.type_list_attr
        allowed = (arg.type,) if attr is None else spec.attrs[attr].allowed
        if allowed is None or any(each.is_floating or each.is_complex for each in allowed):
            return True
    return False


def test_ops_have_gradients_where_they_have_them_in_tensorflow(oracle: Any) -> None:
    names = [
        name
        for name, spec in OPS.items()
        if not name.startswith("_")
        and all(_may_be_floats(spec, args) for args in (spec.inputs, spec.outputs))
    ]
    theirs = oracle.run(REGISTERED, names=names)
    found, needed = [], set()
    for name, their in zip(names, theirs, strict=True):
        spec = OPS[name]
        mine = (
            "function"
            if spec.gradient_fn is not None
            else "not registered"
            if spec.differentiable
            else "none"
        )
        if mine != their:
            reason = next(
                (each for each in OTHER_REGISTRATIONS if re.fullmatch(each, f"{name} {mine}")), None
            )
            needed.add(reason)
            if reason is None:
                found.append(f"{name}: {mine} / TensorFlow {their}")
    assert not found, f"{len(found)} differences:\n" + "\n".join(found)
    assert OTHER_REGISTRATIONS.keys() <= needed, (
        f"not needed: {OTHER_REGISTRATIONS.keys() - needed}"
    )
