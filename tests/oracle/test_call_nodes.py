"""Nodes that each public function and its gradients add, beside TensorFlow's: names, ops, inputs, attrs, shapes.

The rows are the lines of calls/*.txt, one call each (see call_nodes.py).  Each is built of operands whose static shapes
are known, of operands of which nothing is known, and under a name.
"""

from __future__ import annotations

import inspect
import re
from collections import Counter
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import headrace as hr
from tests.oracle.call_nodes import KNOWN, NOTHING, named, nodes_of_calls
from tests.oracle.other_nodes import NO_NODES, OTHER_NODES
from tests.oracle.summary import SUMMARY
from tests.test_public_api import documented

HERE = Path(__file__).parent
PLACEHOLDERS = re.compile(r"\b(SP|[PHIJUBSZQR])\(")
FAMILIES = (
    "tf tf.audio tf.bitwise tf.debugging tf.dtypes tf.image tf.initializers tf.io tf.layers tf.linalg tf.lookup "
    "tf.losses tf.manip tf.math tf.metrics tf.nn tf.nn.rnn_cell tf.quantization tf.queue tf.ragged tf.random tf.sets "
    "tf.signal tf.sparse tf.spectral tf.strings tf.summary tf.train tf.distributions"
).split()


MADE = (
    "TensorArray",
    "Variable",
    "SparseTensor",
    "RaggedTensor",
    "IndexedSlices",
    "FIFOQueue",
    "TFRecordReader",
)
"""Classes that add nodes when they are made; the others are values, messages and what goes around sessions."""


@cache
def rows() -> list[str]:
    return [
        line for path in sorted(HERE.glob("calls/*.txt")) for line in path.read_text().splitlines()
    ]


def asked() -> list[tuple[str, str, tuple[str, str, bool]]]:
    """(the row, how it is built, what `nodes_of_calls` is asked)."""
    found = []
    for row in rows():
        found.append((row, "known", (row, KNOWN, True)))
        if PLACEHOLDERS.search(row):
            found.append((row, "nothing known", (row, NOTHING, True)))
        if (with_name := named(hr, row)) is not None:
            found.append((row, "named", (with_name, KNOWN, False)))
    return found


def difference(ours: dict[str, Any], theirs: dict[str, Any]) -> str | None:
    if "error" in ours or "error" in theirs:
        same = ours.get("error") == theirs.get("error")
        return None if same else f"{_refusal(ours)} / TensorFlow {_refusal(theirs)}"
    if said := _unlike(ours["nodes"], theirs["nodes"]):
        return said
    for name, shape in theirs["shapes"].items():
        if ours["shapes"][name] != shape:
            return f"the shape of {name} is {ours['shapes'][name]} / TensorFlow {shape}"
    if ours["value"] != theirs["value"]:
        return f"it gives {ours['value']} / TensorFlow {theirs['value']}"
    mine, other = ours.get("gradients"), theirs.get("gradients")
    if mine is None or other is None or isinstance(mine[0], str) or isinstance(other[0], str):
        same = mine == other or (mine is not None and other is not None and mine[0] == other[0])
        return None if same else f"gradients: {str(mine)[:200]} / TensorFlow {str(other)[:200]}"
    if said := _unlike(mine[1], other[1]):
        return f"gradients: {said}"
    return None if mine[0] == other[0] else f"gradients: {mine[0]} / TensorFlow {other[0]}"


def _refusal(outcome: dict[str, Any]) -> str:
    return f"{outcome['error']}: {outcome['said']}" if "error" in outcome else "builds it"


def _unlike(ours: list[Any], theirs: list[Any]) -> str | None:
    mine, other = ({node[0]: node[1:] for node in nodes} for nodes in (ours, theirs))
    only = [f"{name} ({mine[name][0]})" for name in mine if name not in other]
    lacking = [f"{name} ({other[name][0]})" for name in other if name not in mine]
    if only or lacking:
        return f"only here: {', '.join(only[:6]) or 'none'} / only in TensorFlow: {', '.join(lacking[:6]) or 'none'}"
    for name, node in mine.items():
        if node != other[name]:
            return f"{name}: {node} / TensorFlow {other[name]}"
    return None


@pytest.mark.timeout(900)
@pytest.mark.filterwarnings("ignore::UserWarning")
def test_calls_add_the_nodes_that_they_add_in_tensorflow(
    oracle: Any, pytestconfig: pytest.Config
) -> None:
    every = asked()
    given = [each for _, _, each in every]
    source = (HERE / "call_nodes.py").read_text()
    begun = oracle.begin(f"{source}\nresult = nodes_of_calls(tf, np, rows)", rows=given)
    ours = nodes_of_calls(hr, np, given)
    theirs = begun.result()
    found, needed, differing = [], Counter[str](), set()
    for (row, how, _), mine, other in zip(every, ours, theirs, strict=True):
        if how == "named" and "unexpected keyword argument 'name'" in str(other.get("said")):
            continue
        if said := difference(mine, other):
            differing.add(row)
            reason = next((each for each in OTHER_NODES if re.fullmatch(each, row)), None)
            if reason is None:
                found.append(f"{row} ({how}): {said}")
            else:
                needed[reason] += 1
    pytestconfig.stash.setdefault(SUMMARY, []).append(
        f"nodes of calls: {len(rows())} calls, built in {len(every)} ways, {len(rows()) - len(differing)} agree in all "
        f"and {len(differing)} differ in some for a reason (tests/oracle/other_nodes.py)"
    )
    assert not found, f"{len(found)} differences:\n" + "\n".join(found)
    assert OTHER_NODES.keys() <= needed.keys(), f"not needed: {OTHER_NODES.keys() - needed.keys()}"


def test_every_public_function_that_adds_nodes_has_a_row() -> None:
    assert sorted(without_rows()) == sorted(NO_NODES), {*without_rows()} ^ {*NO_NODES}


def without_rows() -> list[str]:
    """Public functions and classes that stand in no row."""
    text = "\n".join(rows())
    lacking = []
    seen: dict[int, list[str]] = {}
    for namespace, names in documented().items():
        if namespace.replace("headrace", "tf", 1) in FAMILIES:
            for name in names:
                found = hr
                for part in [*namespace.split(".")[1:], name]:
                    found = getattr(found, part)
                if callable(found) and (not inspect.isclass(found) or found.__name__ in MADE):
                    seen.setdefault(id(found), []).append(
                        f"{namespace.replace('headrace', 'tf', 1)}.{name}"
                    )
    for spellings in seen.values():
        if not any(re.search(rf"{re.escape(each)}\b", text) for each in spellings):
            lacking.append(min(spellings, key=len))
    return lacking
