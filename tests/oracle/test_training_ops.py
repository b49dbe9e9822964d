"""Every training op, on references and on handles, moves its variables as TensorFlow's does: three updates in a row."""

from __future__ import annotations

from itertools import product
from typing import Any

import numpy as np
import pytest

import headrace as hr
from headrace.graph import registry

OPS = sorted(
    spec.name
    for spec in registry.specs()
    if spec.name.removeprefix("Resource").removeprefix("Sparse").startswith("Apply")
)
TOLERANCE = {"float64": 1e-12, "float32": 3e-6, "float16": 4e-3, "bfloat16": 4e-2}
ROWS = [[2, 0], [], [1, 3, 1]]
# inputs and attrs beside the defaults, for the ops that have them
VARIANTS: list[dict[str, Any]] = [
    {},
    {"l1": 0.0},
    {"momentum": 0.0},
    {"lr_power": -0.7},
    {"lr_power": 0.0},
    {"use_nesterov": True, "use_locking": True},
    {"update_slots": False},
    {"multiply_linear_by_lr": True},
]
SCALARS = {
    "lr": 0.3, "alpha": 0.3, "rho": 0.8, "momentum": 0.7, "epsilon": 0.05, "beta1_power": 0.6,
    "beta2_power": 0.7, "beta1": 0.8, "beta2": 0.9, "l1": 0.2, "l2": 0.1, "l2_shrinkage": 0.15,
    "lr_power": -0.5, "global_step": 5, "sign_decay": 0.9, "logbase": 0.7, "beta": 0.8,
}  # fmt: skip

SOURCE = """
def outcomes(name, slots, cases):
    runs = []
    for case in cases:
        kind = getattr(tf, case["kind"])
        variables = {
            slot: tf.Variable(tf.cast(value, kind), use_resource=name.startswith("Resource"))
            for slot, value in case["variables"].items()
        }
        inputs = {slot: v.handle if hasattr(v, "handle") else v._ref() for slot, v in variables.items()}
        for key, value in case["inputs"].items():
            plain = key in ("global_step", "indices")
            inputs[key] = tf.constant(value, tf.int64) if plain else tf.cast(value, kind)
        op = call(name, inputs, case["attrs"])
        runs.append((getattr(op, "op", op), [tf.cast(variables[slot], tf.float64) for slot in slots]))
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        for _ in range(3):
            session.run([op for op, _ in runs])
        return session.run([values for _, values in runs])
"""
THEIRS = """
def call(name, inputs, attrs):
    return getattr(tf.raw_ops, name)(**inputs, **attrs)

def outcome(cases):
    tf.reset_default_graph()
    try:
        return outcomes(name, slots, cases)
    except tf.errors.InvalidArgumentError as error:
        if "No OpKernel was registered" not in error.message:
            raise
        return "no kernel"

result = {kind: outcome(cases) for kind, cases in by_kind.items()}
"""


def ours(name: str, slots: list[str], cases: list[dict[str, Any]]) -> list[Any]:
    spec = registry.get(name)

    def call(_: str, inputs: dict[str, Any], attrs: dict[str, Any]) -> Any:
        return spec(*[inputs[arg.name] for arg in spec.inputs], **attrs)

    names: dict[str, Any] = {"tf": hr, "np": np, "call": call}
    exec(SOURCE, names)
    with hr.Graph().as_default():
        found: list[Any] = names["outcomes"](name, slots, cases)
        return found


def cases_of(name: str) -> tuple[list[str], dict[str, list[dict[str, Any]]]]:
    """Names of the variables of an op, and what to give it, by type."""
    spec = registry.get(name)
    args = [arg.name for arg in spec.inputs]
    slots = [arg for arg in args if arg not in SCALARS and arg not in ("grad", "delta", "indices")]
    known = {*args, *spec.attrs}
    variants = [v for v in VARIANTS if known.issuperset(v)]
    rows = ROWS if "indices" in args else [None]
    random = np.random.RandomState(len(name))
    by_kind = {}
    for kind in TOLERANCE:
        # All of it in one type; in the others the formula as such.
        chosen = product(rows, variants) if kind == "float64" else [(rows[-1], {})]
        by_kind[kind] = [_case(args, slots, random, kind, *choice) for choice in chosen]
    return slots, by_kind


def _case(
    args: list[str], slots: list[str], random: Any, kind: str, rows: Any, variant: dict[str, Any]
) -> dict[str, Any]:
    inputs: dict[str, Any] = {}
    for arg in args:
        if arg in SCALARS:
            inputs[arg] = variant.get(arg, SCALARS[arg])
        elif arg == "indices":
            inputs[arg] = rows
        elif arg not in slots:
            inputs[arg] = random.uniform(-1, 1, (4 if rows is None else len(rows), 3))
    attrs = {key: value for key, value in variant.items() if key not in SCALARS}
    # Averages of squares and of gradients must not contradict each other.
    values = {slot: random.uniform(0.1, 0.3, (4, 3)) for slot in slots}
    values.update({slot: values[slot] + 0.5 for slot in ("ms", "v", "vhat") if slot in values})
    values["var"] = random.uniform(-1, 1, (4, 3))
    return {"kind": kind, "variables": values, "inputs": inputs, "attrs": attrs}


def described(case: dict[str, Any]) -> str:
    scalars = {k: v for k, v in case["inputs"].items() if not isinstance(v, np.ndarray)}
    return f"{case['kind']} {scalars} {case['attrs']}"


@pytest.mark.parametrize("name", OPS)
def test_updates_are_tensorflows(name: str, oracle: Any) -> None:
    slots, by_kind = cases_of(name)
    theirs = oracle.run(SOURCE + THEIRS, name=name, slots=slots, by_kind=by_kind)
    assert theirs["float64"] != "no kernel"
    for kind, cases in by_kind.items():
        mine = ours(name, slots, cases)
        if theirs[kind] == "no kernel":
            continue
        tolerance = TOLERANCE[kind]
        for case, want, got in zip(cases, theirs[kind], mine, strict=True):
            for slot, other, value in zip(slots, want, got, strict=True):
                np.testing.assert_allclose(
                    value, other, rtol=tolerance, atol=tolerance,
                    err_msg=f"{slot} after {described(case)}",
                )  # fmt: skip
