"""Every op of the registry with every attr changed in turn: types, choices, flags, numbers and lists.

A `Recipe` (operands.py) has one value of each attr.  `variations(spec)` are recipes with one of them changed, and a few
operands each; like the recipes they are made of the schema alone, so a new op is covered when it is registered.  Used
by tests/oracle/test_variations.py.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from headrace.base import dtypes
from headrace.graph.registry import OpSpec
from headrace.graph.schemas import MISSING, AttrDef
from tests.ops.operands import (
    MOST_OF_VARIABLES,
    Recipe,
    drawn_operands,
    main_type,
    recipe_of,
    value_of,
)

KINDS = (
    dtypes.float32, dtypes.float64, dtypes.float16, dtypes.bfloat16, dtypes.int32, dtypes.int64, dtypes.int8,
    dtypes.uint8, dtypes.int16, dtypes.uint16, dtypes.uint32, dtypes.uint64, dtypes.bool, dtypes.string,
    dtypes.complex64, dtypes.complex128,
)  # fmt: skip
"""Types that operands can be drawn of."""

# Attrs that are changed by other tests, or that no two values of tell apart.
LEFT = {"container", "shared_name", "seed", "seed2", "shape", "Tlabels", "SrcT", "DstT"}

LISTS: dict[str, list[list[int]]] = {
    "strides": [[1, 2, 2, 1], [1, 2, 1, 1], [1, 1, 2, 1], [1, 2, 1, 2, 1], [2, 1, 1, 1]],
    "rates": [[1, 2, 2, 1], [1, 1, 2, 1]],
    "dilations": [[1, 2, 2, 1], [1, 1, 2, 1], [1, 2, 1, 1, 1]],
    "ksize": [[1, 2, 2, 1], [1, 1, 2, 1], [1, 1, 1, 2], [1, 2, 2, 1, 1]],
    "ksizes": [[1, 2, 2, 1], [1, 2, 1, 1], [1, 2, 2, 1, 1]],
    "explicit_paddings": [[0, 0, 1, 1, 1, 0, 0, 0]],
}
"""Values of lists of numbers; of those that fit the op's, the others are bad inputs."""


def variations(spec: OpSpec, most: int) -> Iterator[tuple[str, Recipe]]:
    """(what is changed, the recipe); at most `most` operands are drawn for each."""
    main = main_type(spec)
    kind = _first_kind(main)
    for attr in spec.attrs.values():
        if attr.name in LEFT:
            continue
        for value in values(spec, attr, kind):
            recipe = recipe_of(spec, value if attr is main else kind, {attr.name: value})
            recipe.operands = drawn_operands(
                recipe, min(most, MOST_OF_VARIABLES) if any(recipe.held) else most
            )
            yield f"{attr.name}={_said(value)}", recipe


def values(spec: OpSpec, attr: AttrDef, kind: dtypes.DType | None) -> list[Any]:
    """Values for the attr, other than the one that its recipes have."""
    usual = value_of(spec, attr, kind) if attr.default is MISSING else attr.default
    if attr.kind == "type":
        if attr.name in _counted(spec):
            return []
        found: list[Any] = [each for each in KINDS if attr.allowed is None or each in attr.allowed]
    elif attr.kind == "bool":
        found = [False, True]
    elif attr.kind == "string":
        found = list(attr.allowed or [b"x"])
    elif attr.kind == "int":
        least = -3 if attr.minimum is None else attr.minimum
        near = range(usual - 1, usual + 3) if isinstance(usual, int) else ()
        found = [] if attr.name in _counted(spec) else [each for each in near if each >= least]
    elif attr.kind == "float":
        found = [0.25, 1.5, -1.0]
    elif attr.kind == "list(int)":
        found = LISTS.get(attr.name, [[], [0], [1], [-1], [0, 1]])
    elif attr.kind == "list(type)" and attr.name not in _counted(spec):
        found = [[each] for each in (dtypes.float32, dtypes.int64, dtypes.string)]
        found = [each for each in found if attr.allowed is None or each[0] in attr.allowed]
    else:
        found = []
    return [each for each in found if each != usual or attr is main_type(spec)]


def _counted(spec: OpSpec) -> set[str]:
    """Attrs that say how many inputs there are; SHAPED has rows for these."""
    return {arg.type_list_attr or "" for arg in spec.inputs if arg.type_list_attr}


def _first_kind(main: AttrDef | None) -> dtypes.DType | None:
    if main is None:
        return None
    return next((each for each in KINDS if main.allowed is None or each in main.allowed), None)


def _said(value: Any) -> str:
    if isinstance(value, list):
        return f"[{', '.join(map(_said, value))}]"
    return value.name if isinstance(value, dtypes.DType) else str(value)
