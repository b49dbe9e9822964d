"""Every op with every attr changed in turn, beside TensorFlow: values, dtypes, errors; and static shapes.

What is asked is made from the registry (tests/ops/variations.py), so a new op is covered when it is registered.  Static
shapes are those of inputs that are known, known in part, or not, and of ranks and sizes that do not fit.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import headrace as hr
from headrace.base import dtypes
from headrace.graph.registry import OPS
from tests.ops.operands import Operands, Recipe, every_op, is_index, recipes
from tests.ops.test_operands import shown
from tests.ops.variations import variations
from tests.oracle.different import different
from tests.oracle.other_shapes import OTHER_SHAPES
from tests.oracle.other_variations import AT_TIMES, OTHER_VALUES
from tests.oracle.static_shapes import static_shapes
from tests.oracle.summary import SUMMARY
from tests.oracle.test_operands import (
    OF_CLIENT,
    OF_GRAPPLER,
    Case,
    Outcome,
    asked,
    asked_of_gradients,
    difference,
    outcome,
)

DRAWN, GOOD, BAD = 12, 3, 1
AT_ONCE = 120  # ops that TensorFlow is asked about while the next ones are tried here
ROUGH = {"float16": (2e-3, 1e-3), "bfloat16": (2e-2, 1e-2)}
"""Relative and absolute: TensorFlow computes some in their own precision."""


def compared_ops() -> list[Any]:
    return [
        spec
        for spec in every_op()
        if spec.name not in OF_CLIENT and not spec.name.startswith(OF_GRAPPLER)
    ]


def source(name: str) -> str:
    return Path(__file__).with_name(name).read_text()


@pytest.fixture(scope="module")
def process(oracle: Any) -> Iterator[Any]:
    """One in which no session has run: it is forked (evaluator.py)."""
    made = type(oracle)(oracle.python)
    yield made
    made.close()


# -- values -------------------------------------------------------------------------------------


def chosen(rows: list[Operands], outcomes: list[Outcome]) -> list[int]:
    """A few that give values, fewer that do not."""
    good = [at for at, each in enumerate(outcomes) if each[0] == "value"]
    bad = [at for at, each in enumerate(outcomes) if each[0] != "value"]
    return good[:GOOD] + bad[:BAD]


def varied(specs: list[Any]) -> tuple[list[tuple[str, Case]], list[str]]:
    """Each with what was changed; and those that no graph can be made of here."""
    found, refused = [], []
    for spec in specs:
        for what, recipe in variations(spec, DRAWN):
            with hr.Graph().as_default():
                try:
                    cases = list(asked(recipe))
                except (ValueError, TypeError, hr.errors.OpError):
                    refused.append(f"{spec.name} {what}")
                    continue
                for case, _, fed, wanted in cases:
                    with hr.Session() as session:
                        outcomes = [outcome(session, fed, wanted, row) for row in recipe.operands]
                    at = chosen(recipe.operands, outcomes)
                    case.rows = [recipe.operands[each] for each in at]
                    case.ours = [outcomes[each] for each in at]
                    found.append((f"{spec.name} {what}", case))
    return found, refused


def varied_gradients(specs: list[Any]) -> list[tuple[str, Case]]:
    """The gradients under the attrs that are no types; those that no graph can be made of are in `varied`."""
    found = []
    for spec in specs:
        for what, recipe in variations(spec, DRAWN) if spec.gradient_fn is not None else ():
            if spec.attrs[what.partition("=")[0]].kind == "type":
                continue
            with hr.Graph().as_default():
                try:
                    cases = list(asked_of_gradients(recipe))
                except (ValueError, TypeError, LookupError, hr.errors.OpError):
                    continue
                for case, _, fed, dxs in cases:
                    with hr.Session() as session:
                        outcomes = [outcome(session, fed, dxs, row) for row in recipe.operands]
                    at = chosen(recipe.operands, outcomes)
                    case.rows = [recipe.operands[each] for each in at]
                    case.ours = [outcomes[each] for each in at]
                    found.append((f"{spec.name} {what}", case))
    return found


def unlike(case: Case, ours: Outcome, theirs: Outcome) -> str | None:
    with np.errstate(all="ignore"):
        said = difference(OPS[case.op], ours, theirs)
    if said is None or ours[0] != "value" or theirs[0] != "value":
        return said
    return None if all(map(rough, ours[1], theirs[1])) else said


def rough(a: Any, b: Any) -> bool:
    if a.dtype != b.dtype or a.shape != b.shape or str(a.dtype) not in ROUGH:
        return bool(
            a.dtype == b.dtype
            and a.shape == b.shape
            and a.dtype.kind in "fc"
            and np.allclose(a, b, rtol=1e-4, atol=1e-5, equal_nan=True)
        ) or (a.dtype.kind not in "fcV" and np.array_equal(a, b))
    relative, least = ROUGH[str(a.dtype)]
    with np.errstate(all="ignore"):
        wide = a.astype(np.float32), b.astype(np.float32)
        return np.allclose(*wide, rtol=relative, atol=least, equal_nan=True)


@pytest.mark.filterwarnings("ignore:the IndexedSlices:UserWarning")
@pytest.mark.timeout(1200)
def test_attrs_in_turn_give_what_tensorflow_gives(
    process: Any, pytestconfig: pytest.Config
) -> None:
    everything, refused, gradients, begun = [], [], [], []
    specs = compared_ops()
    for at in range(0, len(specs), AT_ONCE):
        made, without = varied(specs[at : at + AT_ONCE])
        slopes = varied_gradients(specs[at : at + AT_ONCE])
        everything += made + slopes
        refused += without
        gradients += slopes
        begun.append(
            process.begin(
                f"{source('evaluator.py')}\nresult = evaluated(cases)",
                cases=[case.request() for _, case in made + slopes],
            )
        )
    theirs = [outcomes for each in begun for outcomes in each.result()]
    found, needed = [], set()
    reasons = {f"({op}) .*": why for op, why in different().items()} | OTHER_VALUES
    for (label, case), answers in zip(everything, theirs, strict=True):
        reason = next((each for each in reasons if re.fullmatch(each, label)), None)
        for row, ours, answer in zip(case.rows, case.ours, answers, strict=True):
            if said := unlike(case, ours, answer):
                needed.add(reason)
                if reason is None:
                    found.append(f"{label} of {shown(row)}: {said}")
    varying = {case.op for _, case in everything}
    differing = {
        case.op
        for (label, case), answers in zip(everything, theirs, strict=True)
        if any(unlike(case, *pair) for pair in zip(case.ours, answers, strict=True))
    }
    lines = pytestconfig.stash.setdefault(SUMMARY, [])
    lines.append(
        f"attrs: {len(everything)} values of attrs of {len(varying)} ops tried "
        f"({sum(len(case.rows) for _, case in everything)} rows), {len(refused)} refused when built, "
        f"{len(gradients)} of them with gradients; {len(varying - differing)} ops agree in all"
    )
    assert not found, f"{len(found)} differences:\n" + "\n".join(found)
    unneeded = OTHER_VALUES.keys() - needed
    assert unneeded <= AT_TIMES, f"not needed: {unneeded - AT_TIMES}"


# -- static shapes ------------------------------------------------------------------------------


def knowledge(recipe: Recipe, row: Operands) -> Iterator[dict[str, Any]]:
    """What may be known of a row: see static_shapes.py."""
    sizes = {f"p{at}": list(value.shape) for at, value in enumerate(row)}
    values = {
        f"p{at}": value
        for at, value in enumerate(row)
        if not recipe.held[at] and is_index(recipe, at)
    }
    ranks = {name: [None] * len(known) for name, known in sizes.items()}
    yield from (sizes, ranks)
    if values:
        yield from (sizes | values, ranks | values, values)
    yield {name: [None, *known[1:]] if known else known for name, known in sizes.items()} | values
    yield {name: [*known[:-1], None] if known else known for name, known in sizes.items()} | values
    for name, known in sizes.items():
        if len(sizes) > 1:
            yield {other: each for other, each in (sizes | values).items() if other != name}
        yield sizes | values | {name: [*known, 2]}
        if known:
            yield sizes | values | {name: known[1:]}
            yield sizes | values | {name: [known[0] + 1, *known[1:]]}


Asked = tuple[bytes, list[str], list[dict[str, Any]]]


def shape_cases() -> Iterator[tuple[str, Asked]]:
    for spec in compared_ops():
        plain = [("as it is", recipe, 3) for recipe in recipes(spec, DRAWN)][:1]
        others = [
            (what, recipe, 1)
            for what, recipe in variations(spec, DRAWN)
            if spec.attrs[what.partition("=")[0]].kind != "type"
        ]
        for what, recipe, most in plain + others:
            with hr.Graph().as_default() as graph:
                try:
                    fed, wanted, node = recipe.build()
                except (ValueError, TypeError, hr.errors.OpError):
                    continue
                names = [
                    each.name
                    for each in node.outputs
                    if each.dtype.base_dtype not in (dtypes.resource, dtypes.variant)
                ]
                with hr.Session() as session:
                    rows = [
                        row
                        for row in recipe.operands
                        if outcome(session, fed, wanted or node, row)[0] == "value"
                    ]
            written = graph.as_graph_def().SerializeToString()
            for row in rows[:most] if names else ():
                yield f"{spec.name} ({what})", (written, names, list(knowledge(recipe, row)))


def relation(ours: Any, theirs: Any) -> str:
    """How two answers differ: a word of OTHER_SHAPES; none if they are the same."""
    if isinstance(ours, tuple) or isinstance(theirs, tuple):
        if isinstance(ours, tuple) and isinstance(theirs, tuple):
            if ours[0] != theirs[0]:
                return "other error"
            return "" if phrase(theirs[1]) in ours[1] else "other phrase"
        return "refused here" if isinstance(ours, tuple) else "refused there"
    if ours == theirs:
        return ""
    found = {_known(a, b) for a, b in zip(ours, theirs, strict=True)} - {""}
    return "other shape" if len(found) > 1 else found.pop()


def phrase(message: str) -> str:
    """The words that people match on: up to the first number, shape or name."""
    return re.split(r" for '{{node|,? but |\d|\[|\n", message)[0].strip().rstrip(".")


def _known(ours: list[int | None] | None, theirs: list[int | None] | None) -> str:
    if ours == theirs:
        return ""
    if ours is None or theirs is None:
        return "less known" if ours is None else "more known"
    if len(ours) != len(theirs):
        return "other shape"
    pairs = [(a, b) for a, b in zip(ours, theirs, strict=True) if a != b]
    if all(a is None for a, _ in pairs):
        return "less known"
    return "more known" if all(b is None for _, b in pairs) else "other shape"


@pytest.mark.timeout(1200)
def test_static_shapes_are_tensorflows(process: Any, pytestconfig: pytest.Config) -> None:
    labels, cases = zip(*shape_cases(), strict=True)
    begun = process.begin(
        f"{source('static_shapes.py')}\nresult = static_shapes(tf, cases)", cases=list(cases)
    )
    ours = static_shapes(hr, cases)
    theirs = begun.result()
    found: dict[str, set[str]] = defaultdict(set)
    shown_of: dict[tuple[str, str], str] = {}
    for label, (_, _, known), mine, their in zip(labels, cases, ours, theirs, strict=True):
        for each, a, b in zip(known, mine, their, strict=True):
            if how := relation(a, b):
                op = label.partition(" ")[0]
                found[how].add(op)
                shown_of.setdefault((how, op), f"{label} of {each}: {a} / TensorFlow {b}")
    ops = {label.partition(" ")[0] for label in labels}
    lines = pytestconfig.stash.setdefault(SUMMARY, [])
    agreeing = len(ops - set().union(*found.values()))
    lines.append(
        f"static shapes: {sum(len(each[2]) for each in cases)} of {len(ops)} ops, of which {agreeing} agree in all"
    )
    lines += [f"  {len(names):4} {how}" for how, names in sorted(found.items())]
    listed = {how: set(names.split()) for how, (_, names) in OTHER_SHAPES.items()}
    new = [
        shown_of[how, op] for how, names in found.items() for op in names - listed.get(how, set())
    ]
    assert not new, f"{len(new)} differences:\n" + "\n".join(sorted(new))
    gone = {how: names - found[how] for how, names in listed.items() if names - found[how]}
    assert not gone, f"not needed: {gone}"
