"""Every op with attrs that it does not take, through `tf.raw_ops`: the class and the phrase of TensorFlow's refusal.

What is asked is made from the registry (tests/ops/operands.py): each attr in turn is of another type, not among those
that are allowed, below its minimum, missing, and each input of a type that the op does not take.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import headrace as hr
from headrace.base import dtypes
from headrace.base.shapes import TensorShape
from headrace.graph.registry import OpSpec
from headrace.graph.schemas import MISSING, AttrDef
from tests.ops.operands import Recipe, recipes
from tests.oracle.bad_attrs import refusals
from tests.oracle.summary import SUMMARY
from tests.oracle.test_variations import compared_ops

BAD: dict[str, list[Any]] = {
    "int": ["x", None, ("type", "float32"), [1]],
    "float": ["x", None, [0.5]],
    "bool": ["x", 1, None],
    "string": [1, None, [b"x"]],
    "type": ["x", 1000, None],
    "shape": ["x", 1.5],
    "list(int)": [1, None, ["x"], [None]],
    "list(float)": [1.0, ["x"]],
    "list(type)": [1, ["x"], [None]],
    "list(string)": [b"x", [1], [None]],
    "list(shape)": [1, ["x"]],
    "list(bool)": [True, [1]],
}
"""Values that no attr of the kind takes."""

OTHERS = ("float32", "int32", "string", "bool", "resource")
Case = tuple[str, list[str], list[int | None], dict[str, Any], list[str]]


OTHER: dict[str, str] = {
    "(AdjustContrast|BatchMatrixBandPart|BatchNormWithGlobalNormalization|GatherTree|RandomPoisson|TopK) .*": (
        "TensorFlow 2.21 has removed them"
    ),
    "Parse(Single|Sequence)?Example(V2)? .*": (
        "lists that do not belong together: another pair is compared first, or by the step"
    ),
    "(SpaceToBatch|BatchToSpace)ND .*": "TensorFlow refuses blocks of unknown rank when the graph is built",
}
"""Patterns of "OP ATTR=VALUE" that are refused otherwise, and why.  What is not needed fails."""


def cases() -> Iterator[tuple[str, Case]]:
    """(op, attr and value), and what is called."""
    for spec in compared_ops():
        recipe = next(iter(recipes(spec, 1)))
        if any(recipe.held):
            continue  # references and handles are not fed
        parameters = [*inspect.signature(getattr(hr.raw_ops, spec.name)).parameters]
        names = parameters[: len(spec.inputs)]
        attrs = {
            name: _told(value)
            for name, value in recipe.attrs.items()
            if name not in _by_inputs(spec) and name in parameters
        }
        types = [kind.name for kind in recipe.types]
        for attr in spec.attrs.values():
            if attr.name in _by_inputs(spec) or attr.name not in parameters:
                continue  # what came after 1.15 is no argument
            for value in _bad(attr):
                yield (
                    f"{spec.name} {attr.name}={value!r}",
                    (spec.name, types, recipe.lists, attrs | {attr.name: value}, names),
                )
            if attr.default is MISSING:
                rest = {name: value for name, value in attrs.items() if name != attr.name}
                yield (
                    f"{spec.name} without {attr.name}",
                    (spec.name, types, recipe.lists, rest, names),
                )
        yield from _of_other_types(spec, recipe, types, attrs, names)


def _of_other_types(
    spec: OpSpec, recipe: Recipe, types: list[str], attrs: dict[str, Any], names: list[str]
) -> Iterator[tuple[str, Case]]:
    for at, kind in enumerate(types):
        other = next(each for each in OTHERS if each != kind)
        for each in (other, "string" if kind != "string" else "bool"):
            changed = [*types[:at], each, *types[at + 1 :]]
            yield f"{spec.name} of {changed}", (spec.name, changed, recipe.lists, attrs, names)


def _by_inputs(spec: OpSpec) -> set[str]:
    told = [
        name for arg in spec.inputs for name in (arg.type_attr, arg.number_attr, arg.type_list_attr)
    ]
    return {name for name in told if name is not None}


def _bad(attr: AttrDef) -> Iterator[Any]:
    yield from BAD.get(attr.kind, [])
    if attr.allowed is not None:
        if attr.kind.endswith("string") or attr.kind == "list(string)":
            yield [b"neither"] if attr.kind.startswith("list") else b"neither"
        else:
            other = next(
                (
                    each
                    for each in ("resource", "string", "float32")
                    if dtypes.as_dtype(each) not in attr.allowed
                ),
                None,
            )
            if other is not None:
                yield [("type", other)] if attr.kind.startswith("list") else ("type", other)
    if attr.minimum is not None:
        yield attr.minimum - 1 if attr.kind == "int" else []


def _told(value: Any) -> Any:
    """An attr's value as bad_attrs.py has it."""
    if isinstance(value, dtypes.DType):
        return "type", value.name
    if isinstance(value, TensorShape):
        return "shape", value.as_list() if value.ndims is not None else None
    return [_told(each) for each in value] if isinstance(value, list) else value


def relation(ours: Any, theirs: Any) -> str:
    """How two answers differ; nothing if they are the same."""
    if ours is None or theirs is None:
        return "" if ours is theirs else "refused here" if theirs is None else "refused there"
    if ours[0] != theirs[0]:
        return "other class"
    return "" if phrase(theirs[1]) in ours[1] else "other phrase"


def phrase(message: str) -> str:
    """What people match on: the message up to where it names a node or lists types."""
    return re.split(" for '{{node|list of allowed values:|(?<=to a TensorShape):", message)[
        0
    ].rstrip(".")


@pytest.mark.timeout(900)
def test_attrs_and_types_are_refused_as_tensorflow_refuses_them(
    oracle: Any, pytestconfig: pytest.Config
) -> None:
    asked = list(cases())
    given = [case for _, case in asked]
    source = Path(__file__).with_name("bad_attrs.py").read_text()
    theirs = oracle.run(f"{source}\nresult = refusals(tf, cases)", cases=given)
    found, needed = [], set()
    for (label, _), mine, their in zip(asked, refusals(hr, given), theirs, strict=True):
        if how := relation(mine, their):
            reason = next((each for each in OTHER if re.fullmatch(each, label)), None)
            needed.add(reason)
            if reason is None:
                found.append(f"{how}: {label}: {mine} / TensorFlow {their}")
    lines = pytestconfig.stash.setdefault(SUMMARY, [])
    refused = sum(their is not None for their in theirs)
    lines.append(
        f"attrs and types through raw_ops: {len(asked)} of {len({each[0] for each in given})} ops, {refused} refused"
    )
    assert not found, f"{len(found)} differences:\n" + "\n".join(found)
    assert OTHER.keys() <= needed, f"not needed: {OTHER.keys() - needed}"
