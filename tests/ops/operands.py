"""Every op of the registry with every kind of operand: empty, scalar, of one element, of shapes that broadcast.

A `Recipe` is a node of an op whose inputs are placeholders of unknown shape, and a list of operands to feed.  It is
made of the schema alone: a new op is covered when it is registered.  References and variables' handles are variables
of unknown shape which each step assigns first.  Used by tests/ops/test_operands.py, which asks for typed errors, and by
tests/oracle/test_operands.py, which asks for TensorFlow's results.
"""

from __future__ import annotations

import itertools
import math
import random
import zlib
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cache
from typing import Any

import numpy as np

import headrace as tf
from headrace.base import dtypes
from headrace.base.traits import CALLS_FUNCTION, MAY_WAIT
from headrace.graph.registry import OPS, OpSpec, get
from headrace.graph.schemas import MISSING, ArgDef, AttrDef
from tests.ops.places import place
from tests.ops.shaped import shaped

Operands = tuple[Any, ...]

SHAPES: list[tuple[int, ...]] = [
    (), (0,), (1,), (3,), (0, 3), (3, 0), (1, 3), (2, 3), (3, 3), (2, 0, 3), (2, 2, 3), (0, 2, 2, 1), (1, 2, 2, 1),
    (1, 2, 2, 0), (1, 2, 2, 2, 1), (1, 0, 2, 2, 1),
]  # fmt: skip
INDICES: list[Any] = [
    0, 1, 2, -1, -4, 5, [], [0], [1], [-1], [3], [2, 3], [1, 0], [0, 0], [0, 3], [0, 1, 2], [1, 2, 2, 1], [[0, 1]],
    [[0], [1]], [[0, 0], [1, 1]], np.zeros((0, 1)), np.zeros((0, 2)), np.zeros((2, 0)), [[[0]]],
]  # fmt: skip
TEXTS = [b"1", b"", b"2.5", b"a,b", b"x y"]
MOST, MOST_OF_VARIABLES = 60, 20
"""Operands of a recipe."""

# Files of ops which are no functions of what is fed: they start, end, wait, pass on to others or print, and what they
# do with the values is in tests of their own (test_queues, test_staging, test_record_files, ...).
ELSEWHERE = {
    "data/accumulators",
    "data/barriers",
    "data/iterator_ops",
    "flow/primitives",
    "flow/identities",
    "flow/printing",
    "flow/py_functions",
    "io/checkpoints",
    "data/queue_ops",
    "io/readers",
    "io/record_input",
    "sparse/maps",
    "flow/stacks",
    "state/tables",
    "data/staging",
    "state/temporary",
    "flow/tensor_array_ops",
}
NAMES_ELSEWHERE = {
    "WriteFile",
    "DatasetToTFRecord",
    "ExperimentalDatasetToTFRecord",
    "MatchingFiles",
    "_ReadVariablesOp",
    "_Send",
    "_HostSend",
}


@dataclass
class Recipe:
    """A node of `op` and what it is fed: `types` beside the inputs, "ref", "var" or "" in `held`."""

    op: str
    attrs: dict[str, Any]
    types: list[dtypes.DType]
    held: list[str]
    lists: list[int | None]  # of each argument: how many tensors, None for one that is no list
    seed: int = 0
    operands: list[Operands] = field(default_factory=list)

    def build(self) -> tuple[list[tf.Tensor], list[tf.Tensor], tf.Operation]:
        """Add it to the default graph: the placeholders, the values that are wanted, the node."""
        fed = [tf.placeholder(kind, name=f"p{at}") for at, kind in enumerate(self.types)]
        inputs, assigned = [], []
        for at, (tensor, held) in enumerate(zip(fed, self.held, strict=True)):
            given = tensor
            if held == "ref":
                given = get("VariableV2")(
                    shape=tf.TensorShape(None), dtype=tensor.dtype, name=f"v{at}"
                )
                assigned.append(get("Assign")(given, tensor, validate_shape=False, name=f"a{at}"))
            elif held == "var":
                given = get("VarHandleOp")(
                    shape=tf.TensorShape(None),
                    dtype=tensor.dtype,
                    shared_name=f"v{at}",
                    name=f"v{at}",
                )
                assigned.append(get("AssignVariableOp")(given, tensor, name=f"a{at}"))
            elif held == "lock":
                given = get("MutexLock")(get("MutexV2")(shared_name=f"m{at}"))
            elif held == "optional":
                given = get("OptionalFromValue")([tensor])
            elif held == "list":
                given = get("TensorListFromTensor")(tensor, -1)
            elif held == "lists":
                given = get("Pack")([get("TensorListFromTensor")(tensor, -1)] * 2)
            elif held == "ragged":
                given = get("RaggedTensorToVariant")([], tensor, batched_input=True)
            inputs.append(given)
        with tf.control_dependencies(assigned):
            node = self._node(inputs)
        wanted = [
            each
            for each in node.outputs
            if each.dtype.base_dtype not in (dtypes.resource, dtypes.variant)
        ]
        if self.op.startswith("TensorList") or self.op == "EmptyTensorList":
            wanted += [
                get("TensorListLength")(each, name="length")
                for each in node.outputs
                if each.dtype.base_dtype is dtypes.variant and each.shape.rank == 0
            ]
        with tf.control_dependencies([node]):
            for at, held in enumerate(self.held):
                if held == "ref":
                    wanted.append(get("Identity")(inputs[at], name=f"r{at}"))
                elif held == "var":
                    wanted.append(
                        get("ReadVariableOp")(inputs[at], dtype=self.types[at], name=f"r{at}")
                    )
        return fed, wanted, node

    def _node(self, inputs: list[tf.Tensor]) -> tf.Operation:
        rest = iter(inputs)
        given = [next(rest) if n is None else [next(rest) for _ in range(n)] for n in self.lists]
        spec = get(self.op)
        told = {
            getattr(a, k)
            for a in spec.inputs
            for k in ("type_attr", "number_attr", "type_list_attr")
        }
        attrs = {name: value for name, value in self.attrs.items() if name not in told}
        spec(*given, name="it", **attrs)
        return tf.get_default_graph().get_operation_by_name("it")


def recipes(spec: OpSpec, most: int = MOST) -> Iterator[Recipe]:
    """Recipes of an op, for several types."""
    for kind in _variants(spec):
        recipe = recipe_of(spec, kind)
        recipe.operands = drawn_operands(
            recipe, min(most, MOST_OF_VARIABLES) if any(recipe.held) else most
        )
        yield recipe


def every_op() -> list[OpSpec]:
    """Those that are covered, in the order of the registry."""
    return [spec for spec in OPS.values() if covered(spec)]


def covered(spec: OpSpec) -> bool:
    """Whether the op is a function of arrays, variables and attrs."""
    if (
        spec.kernel is None
        or place(spec) in ELSEWHERE
        or spec.name in NAMES_ELSEWHERE
        or not spec.traits.isdisjoint({MAY_WAIT, CALLS_FUNCTION})  # the latter run never
        or not spec.inputs
        or any(attr.kind == "func" for attr in spec.attrs.values())  # no schema says what it does
    ):
        return False
    return not any(arg.is_ref and arg.type is dtypes.string for arg in spec.inputs)


def _variants(spec: OpSpec) -> list[dtypes.DType | None]:
    """The types that its main type attr takes in turn; None if it has none."""
    attr = main_type(spec)
    if attr is None:
        return [None]
    wanted = (dtypes.float32, dtypes.int32, dtypes.string)
    allowed = attr.allowed
    if allowed is None:
        return list(wanted)
    if dtypes.quint8 in allowed and "Quantize" in spec.name + "".join(spec.attrs):
        wanted = (dtypes.quint8, dtypes.qint8, dtypes.qint32)
    return [kind for kind in wanted if kind in allowed] or [allowed[0]]


def main_type(spec: OpSpec) -> AttrDef | None:
    """The type attr of what is computed with; not of indices."""
    names = [arg.type_attr for arg in spec.inputs if arg.type_attr is not None]
    names += [attr.name for attr in spec.attrs.values() if attr.kind == "type"]
    for name in names:
        if not _is_of_indices(spec.attrs[name]):
            return spec.attrs[name]
    return None


def _is_of_indices(attr: AttrDef) -> bool:
    few = {dtypes.int16, dtypes.int32, dtypes.int64, dtypes.uint16}
    return attr.allowed is not None and len(attr.allowed) <= 4 and set(attr.allowed) <= few


_INTS = {
    "num_buckets": 97,
    "window_size": 4,
    "num_split": 2,
    "num": 2,
    "N": 2,
    "range_max": 5,
    "num_partitions": 2,
    "num_sampled": 2,
    "input_ragged_rank": 0,
}
_FLAGS = {"hashed_output": True}
_TEXTS = {
    "equation": b"ij,jk->ik",
    "pattern": b"a+",
    "rewrite": b"b",
    "input_encoding": b"UTF-8",
    "data_format": None,
}


def value_of(spec: OpSpec, attr: AttrDef, kind: dtypes.DType | None) -> Any:
    """A value for an attr without default."""
    if attr.kind == "type":
        if attr.name == "out_type" and kind is not None and kind.is_quantized:
            return dtypes.quint8 if kind is dtypes.qint32 else dtypes.qint32
        if attr is main_type(spec) and kind is not None:
            return kind
        allowed = attr.allowed
        wanted = (kind, dtypes.float32, dtypes.int32)
        likely = [
            each for each in wanted if each is not None and (allowed is None or each in allowed)
        ]
        return likely[0] if likely else (allowed or ())[0]
    if attr.kind == "list(int)":
        return [1] * (attr.minimum or (5 if "3D" in spec.name else 4))
    plain: dict[str, Any] = {
        "int": _INTS.get(attr.name, max(attr.minimum or 1, 1)),
        "bool": _FLAGS.get(attr.name, False),
        "float": 1.0,
        "shape": tf.TensorShape(None),
        "string": attr.allowed[0] if attr.allowed else _TEXTS.get(attr.name, b""),
        "list(type)": [
            dtypes.float32
            if attr.allowed is None or dtypes.float32 in attr.allowed
            else attr.allowed[0]
        ],
        "list(shape)": [tf.TensorShape([])],
        "list(float)": [1.0] * (attr.minimum or 1),
        "list(string)": [b"ROW_SPLITS" if attr.name == "row_partition_types" else b"k"],
    }
    return plain[attr.kind]


def recipe_of(
    spec: OpSpec, kind: dtypes.DType | None, changed: dict[str, Any] | None = None
) -> Recipe:
    """The node's attrs, `changed` among them, and the types of its inputs; no operands yet."""
    attrs: dict[str, Any] = {}
    main = main_type(spec)
    for attr in spec.attrs.values():
        if attr.default is MISSING or (attr is main and kind is not None):
            attrs[attr.name] = value_of(spec, attr, kind)
    attrs.update(changed or {})
    values = {name: attrs.get(name, attr.default) for name, attr in spec.attrs.items()}
    if "num_args" in values:  # as many as it has list inputs' types
        attrs["num_args"] = values["num_args"] = 1
    types: list[dtypes.DType] = []
    held: list[str] = []
    lists: list[int | None] = []
    for arg in spec.inputs:
        found = _types(arg, values)
        kept = {dtypes.resource: "var", dtypes.variant: _variant_of(spec)}.get(arg.type, "")
        if kept:
            names = ("T", "dtype", "element_dtype", "Tvalues")
            held_type = [values[name] for name in names if name in values] or [dtypes.float32]
            found = held_type[:1] * len(found)
        types += found
        held += ["ref" if arg.is_ref else kept] * len(found)
        lists.append(len(found) if arg.is_list else None)
    return Recipe(spec.name, attrs, types, held, lists, zlib.crc32(spec.name.encode()))


def _variant_of(spec: OpSpec) -> str:
    """What a variant is that the op takes."""
    if spec.name == "TensorListPushBackBatch":
        return "lists"
    kinds = {"TensorList": "list", "Optional": "optional", "Ragged": "ragged"}
    return next((kinds[each] for each in kinds if spec.name.startswith(each)), "lock")


def _types(arg: ArgDef, values: dict[str, Any]) -> list[dtypes.DType]:
    if arg.type_list_attr is not None:
        return list(values[arg.type_list_attr])
    kind = arg.type if arg.type is not None else values[arg.type_attr or ""]
    return [kind] * (1 if arg.number_attr is None else values[arg.number_attr])


# -- operands ---------------------------------------------------------------------------------


def array(kind: dtypes.DType, shape: tuple[int, ...]) -> Any:
    """A value of that type and shape, of small numbers, some of them negative, no two alike side by side."""
    return _pattern(kind, shape).copy()


@cache
def _pattern(kind: dtypes.DType, shape: tuple[int, ...]) -> Any:
    count = math.prod(shape)
    pattern = np.arange(count) * 5 % 7
    if kind is dtypes.string:
        made = np.empty(count, object)
        made[:] = [TEXTS[number % len(TEXTS)] for number in pattern]
        return made.reshape(shape)
    if kind is dtypes.bool:
        return (pattern % 2 == 0).reshape(shape)
    if kind.is_integer:
        return np.maximum(pattern - 2, 0 if kind.is_unsigned else -2).astype(kind.np).reshape(shape)
    if kind.is_complex:
        pattern = pattern + 1j * (np.arange(count) * 3 % 5 - 1)
    return ((pattern - 2.5) / 2).astype(kind.np).reshape(shape)


def _pool(recipe: Recipe, at: int) -> list[Any]:
    kind = recipe.types[at]
    if recipe.held[at] or not is_index(recipe, at):
        return [array(kind, shape) for shape in SHAPES]
    return [np.array(value).astype(kind.np) for value in INDICES]


def is_index(recipe: Recipe, at: int) -> bool:
    """Whether input `at` is of indices, sizes or axes, whatever the type of the values."""
    spec, flat = get(recipe.op), 0
    for arg, count in zip(spec.inputs, recipe.lists, strict=True):
        flat += 1 if count is None else count
        if at < flat:
            if arg.type is not None:
                return arg.type in (dtypes.int32, dtypes.int64)
            return arg.type_attr is not None and _is_of_indices(spec.attrs[arg.type_attr])
    raise IndexError(at)


def drawn_operands(recipe: Recipe, most: int) -> list[Operands]:
    """Some that fit; then all combinations where there are few, else a sample with many inputs of one shape."""
    return [*_fitting(recipe), *_drawn(recipe, most)]


def _fitting(recipe: Recipe) -> list[Operands]:
    """See `tests.ops.shaped`; of an update of variables, a gradient of their shape, and small positive numbers."""
    rows: list[tuple[Any, ...]] = [
        row for row in shaped(recipe.op) if len(row) == len(recipe.types)
    ]
    names = [arg.name for arg in get(recipe.op).inputs]
    if "grad" in names and any(recipe.held):
        indexed = "indices" in names
        for rest in ((3,), (0,), (2, 2)):
            shapes = {
                "grad": (2, *rest) if indexed else (3, *rest),
                "indices": [0, 2],
                "global_step": 1,
                "lr_power": -0.5,
            }
            rows.append(tuple(
                (3, *rest) if held else shapes.get(name, 0.5)
                for name, held in zip(names, recipe.held, strict=True)
            ))  # fmt: skip
    return [
        tuple(
            array(kind, entry) if isinstance(entry, tuple) else np.array(entry).astype(kind.np)
            for kind, entry in zip(recipe.types, row, strict=True)
        )
        for row in rows
    ]


def _drawn(recipe: Recipe, most: int) -> list[Operands]:
    pools = [_pool(recipe, at) for at in range(len(recipe.types))]
    if math.prod(len(pool) for pool in pools) <= most:
        return list(itertools.product(*pools))
    chance = random.Random(recipe.seed)
    values = [at for at in range(len(pools)) if recipe.held[at] or not is_index(recipe, at)]
    found: list[Operands] = []
    while len(found) < most:
        shape = SHAPES[len(found) % len(SHAPES)]
        chosen = [chance.choice(pool) for pool in pools]
        scalars = chance.random() < 0.5
        alone = chance.choice(values) if values and chance.random() < 0.5 else -1
        for at in values:
            if at == alone:
                continue
            bare = scalars and any(recipe.held) and not recipe.held[at] and at != values[-1]
            chosen[at] = array(recipe.types[at], () if bare else shape)
        found.append(tuple(chosen))
    return found


# -- hostile values ---------------------------------------------------------------------------


HOSTILE = {
    dtypes.int32: [-(2**31), -7, 2**16, 2**31 - 1],
    dtypes.int64: [-(2**63), -7, 2**31, 2**50, 2**62, 2**63 - 1],
}
"""Sizes, axes, counts and indices that nobody means."""


def hostile(recipe: Recipe, good: Operands) -> Iterator[Operands]:
    """`good` with one element of one index, size or axis in turn replaced by a hostile one."""
    for at, value in enumerate(good):
        if recipe.held[at] or not is_index(recipe, at) or not value.size:
            continue
        for number in HOSTILE.get(recipe.types[at], []):
            changed = value.copy()
            changed.reshape(-1)[-1] = number
            yield (*good[:at], changed, *good[at + 1 :])
