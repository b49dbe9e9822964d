"""Training ops: the formulas, in place, on every layout; rows that are named twice; bad input."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import headrace.ops  # noqa: F401  registers every op
from headrace.base import dtypes, errors
from headrace.graph.registry import get
from headrace.run.state.variable import ResourceVariable, State, Variable

TOLERANCES = {np.float32: 1e-5, np.float64: 1e-12, np.float16: 0.02, ml_dtypes.bfloat16: 0.1}
BIG = (3, 50001)  # more than one block, and no multiple of it


@pytest.fixture
def rng() -> np.random.Generator:
    """The same numbers whatever ran before."""
    return np.random.default_rng(5)


def variable(value: Any, name: str = "v", kind: type[State] = Variable) -> Any:
    array = np.asarray(value)
    made = kind(name, dtypes.from_numpy(array.dtype), array.shape)
    made.assign(array)
    return made


def run(name: str, *inputs: Any, **attrs: Any) -> Any:
    kernel = get(name).kernel
    assert kernel is not None
    return kernel(np, *inputs, **attrs)


def gd(var: Any, lr: Any, g: Any) -> Any:
    return [var - lr * g]


def momentum(var: Any, acc: Any, lr: Any, g: Any, m: Any) -> Any:
    acc = acc * m + g
    return [var - lr * acc, acc]


def nesterov(var: Any, acc: Any, lr: Any, g: Any, m: Any) -> Any:
    acc = acc * m + g
    return [var - lr * (g + m * acc), acc]


def adagrad(var: Any, acc: Any, lr: Any, g: Any) -> Any:
    acc = acc + g * g
    return [var - lr * g / np.sqrt(acc), acc]


def adagrad_v2(var: Any, acc: Any, lr: Any, eps: Any, g: Any) -> Any:
    acc = acc + g * g
    return [var - lr * g / (np.sqrt(acc) + eps), acc]


def adam(
    var: Any, m: Any, v: Any, p1: Any, p2: Any, lr: Any, b1: Any, b2: Any, e: Any, g: Any
) -> Any:
    m = b1 * m + (1 - b1) * g
    v = b2 * v + (1 - b2) * g * g
    return [var - lr * np.sqrt(1 - p2) / (1 - p1) * m / (np.sqrt(v) + e), m, v]


def adam_nesterov(*a: Any) -> Any:
    var, _, _, p1, p2, lr, b1, _, e, g = a
    _, m, v = adam(*a)
    ahead = b1 * m + (1 - b1) * g
    return [var - lr * np.sqrt(1 - p2) / (1 - p1) * ahead / (np.sqrt(v) + e), m, v]


def amsgrad(
    var: Any, m: Any, v: Any, vhat: Any, p1: Any, p2: Any, lr: Any, b1: Any, b2: Any, e: Any, g: Any
) -> Any:
    m = b1 * m + (1 - b1) * g
    v = b2 * v + (1 - b2) * g * g
    vhat = np.maximum(vhat, v)
    return [var - lr * np.sqrt(1 - p2) / (1 - p1) * m / (np.sqrt(vhat) + e), m, v, vhat]


def ada_max(var: Any, m: Any, v: Any, p1: Any, lr: Any, b1: Any, b2: Any, e: Any, g: Any) -> Any:
    m = b1 * m + (1 - b1) * g
    v = np.maximum(b2 * v, np.abs(g))
    return [var - lr / (1 - p1) * m / (v + e), m, v]


def keras_momentum(var: Any, acc: Any, lr: Any, g: Any, m: Any) -> Any:
    acc = m * acc - lr * g
    return [var + acc, acc]


def keras_nesterov(var: Any, acc: Any, lr: Any, g: Any, m: Any) -> Any:
    acc = m * acc - lr * g
    return [var + m * acc - lr * g, acc]


def adadelta(var: Any, acc: Any, steps: Any, lr: Any, rho: Any, e: Any, g: Any) -> Any:
    acc = rho * acc + (1 - rho) * g * g
    step = np.sqrt((steps + e) / (acc + e)) * g
    return [var - lr * step, acc, rho * steps + (1 - rho) * step * step]


def rms_prop(var: Any, ms: Any, mom: Any, lr: Any, rho: Any, m: Any, e: Any, g: Any) -> Any:
    ms = rho * ms + (1 - rho) * g * g
    mom = m * mom + lr * g / np.sqrt(ms + e)
    return [var - mom, ms, mom]


def centered(
    var: Any, mg: Any, ms: Any, mom: Any, lr: Any, rho: Any, m: Any, e: Any, g: Any
) -> Any:
    mg, ms = rho * mg + (1 - rho) * g, rho * ms + (1 - rho) * g * g
    mom = m * mom + lr * g / np.sqrt(ms - mg * mg + e)
    return [var - mom, mg, ms, mom]


def add_sign(var: Any, m: Any, lr: Any, alpha: Any, decay: Any, b: Any, g: Any) -> Any:
    m = b * m + (1 - b) * g
    return [var - lr * (alpha + decay * np.sign(g) * np.sign(m)) * g, m]


def power_sign(var: Any, m: Any, lr: Any, base: Any, decay: Any, b: Any, g: Any) -> Any:
    m = b * m + (1 - b) * g
    return [var - lr * np.exp(base * decay * np.sign(g) * np.sign(m)) * g, m]


def shrunk(x: Any, by: Any) -> Any:
    return np.sign(x) * np.maximum(np.abs(x) - by, 0)


def proximal(var: Any, lr: Any, l1: Any, l2: Any, g: Any) -> Any:
    return [shrunk(var - lr * g, lr * l1) / (1 + lr * l2)]


def proximal_adagrad(var: Any, acc: Any, lr: Any, l1: Any, l2: Any, g: Any) -> Any:
    acc = acc + g * g
    return [*proximal(var, lr / np.sqrt(acc), l1, l2, g), acc]


def adagrad_da(
    var: Any, total: Any, squares: Any, g: Any, lr: Any, l1: Any, l2: Any, step: Any
) -> Any:
    total, squares = total + g, squares + g * g
    return [-lr * shrunk(total, l1 * step) / (l2 * step * lr + np.sqrt(squares)), total, squares]


def ftrl(
    var: Any, acc: Any, linear: Any, g: Any, lr: Any, l1: Any, l2: Any, power: Any,
    shrinkage: Any = 0.0,
) -> Any:  # fmt: skip
    before, acc = acc**-power, acc + g * g
    linear = linear + g + 2 * shrinkage * var - (acc**-power - before) / lr * var
    return [-shrunk(linear, l1) / (acc**-power / lr + 2 * l2), acc, linear]


def ftrl_v2(*a: Any) -> Any:
    *start, shrinkage, power = a
    return ftrl(*start, power, shrinkage)


# op, attrs, how many variables, the inputs after them ("g" is the gradient), the formula
CASES: dict[str, tuple[str, dict[str, Any], int, list[Any], Callable[..., Any]]] = {
    "GradientDescent": ("ApplyGradientDescent", {}, 1, [0.1, "g"], gd),
    "Momentum": ("ApplyMomentum", {"use_nesterov": False}, 2, [0.1, "g", 0.9], momentum),
    "Nesterov": ("ApplyMomentum", {"use_nesterov": True}, 2, [0.1, "g", 0.9], nesterov),
    "Adagrad": ("ApplyAdagrad", {"update_slots": True}, 2, [0.1, "g"], adagrad),
    "AdagradV2": ("ApplyAdagradV2", {"update_slots": True}, 2, [0.1, 0.2, "g"], adagrad_v2),
    "Adam": (
        "ApplyAdam", {"use_nesterov": False}, 3, [0.9, 0.99, 0.1, 0.9, 0.99, 0.01, "g"], adam,
    ),
    "Adam Nesterov": (
        "ApplyAdam", {"use_nesterov": True}, 3, [0.9, 0.99, 0.1, 0.9, 0.99, 0.01, "g"], adam_nesterov,
    ),
    "Adam with AMSGrad": (
        "ResourceApplyAdamWithAmsgrad", {}, 4, [0.9, 0.99, 0.1, 0.9, 0.99, 0.01, "g"], amsgrad,
    ),
    "AdaMax": ("ApplyAdaMax", {}, 3, [0.9, 0.1, 0.9, 0.99, 0.01, "g"], ada_max),
    "KerasMomentum": (
        "ResourceApplyKerasMomentum", {"use_nesterov": False}, 2, [0.1, "g", 0.9], keras_momentum,
    ),
    "Keras Nesterov": (
        "ResourceApplyKerasMomentum", {"use_nesterov": True}, 2, [0.1, "g", 0.9], keras_nesterov,
    ),
    "Adadelta": ("ApplyAdadelta", {}, 3, [0.1, 0.9, 0.01, "g"], adadelta),
    "RMSProp": ("ApplyRMSProp", {}, 3, [0.1, 0.9, 0.8, 0.01, "g"], rms_prop),
    "RMSProp without momentum": ("ApplyRMSProp", {}, 3, [0.1, 0.9, 0.0, 0.01, "g"], rms_prop),
    "centered RMSProp without it": (
        "ApplyCenteredRMSProp", {}, 4, [0.1, 0.2, 0.0, 5.0, "g"], centered,
    ),
    "centered RMSProp": ("ApplyCenteredRMSProp", {}, 4, [0.1, 0.2, 0.8, 5.0, "g"], centered),
    "AddSign": ("ApplyAddSign", {}, 2, [0.1, 1.0, 0.9, 0.99, "g"], add_sign),
    "PowerSign": ("ApplyPowerSign", {}, 2, [0.1, 0.7, 0.9, 0.99, "g"], power_sign),
    "ProximalGradientDescent": ("ApplyProximalGradientDescent", {}, 1, [0.1, 0.2, 0.3, "g"], proximal),
    "without l1": ("ApplyProximalGradientDescent", {}, 1, [0.1, 0.0, 0.3, "g"], proximal),
    "ProximalAdagrad": ("ApplyProximalAdagrad", {}, 2, [0.1, 0.2, 0.3, "g"], proximal_adagrad),
    "AdagradDA": ("ApplyAdagradDA", {}, 3, ["g", 0.1, 0.2, 0.3, np.int64(4)], adagrad_da),
    "Ftrl": (
        "ApplyFtrl", {"multiply_linear_by_lr": False}, 3, ["g", 0.5, 0.2, 0.3, -0.5], ftrl,
    ),
    "FtrlV2": (
        "ApplyFtrlV2", {"multiply_linear_by_lr": False}, 3, ["g", 0.5, 0.2, 0.3, 0.1, -0.7], ftrl_v2,
    ),
}  # fmt: skip


@pytest.mark.parametrize("dtype", TOLERANCES, ids=lambda d: np.dtype(d).name)
@pytest.mark.parametrize("shape", [(), (4,), BIG], ids=str)
@pytest.mark.parametrize("case", CASES)
def test_an_update_is_its_formula_in_place(
    case: str, shape: Any, dtype: Any, rng: np.random.Generator
) -> None:
    name, attrs, count, after, formula = CASES[case]
    starts = [rng.uniform(0.5, 2, shape).astype(dtype) for _ in range(count)]
    grad = rng.normal(size=shape).astype(dtype)
    resource = name.startswith("Resource")
    kind = ResourceVariable if resource else Variable
    variables = [variable(start, kind=kind) for start in starts]
    arrays = [v.array for v in variables]
    given = {"g": grad}
    scalars = [
        given[x] if isinstance(x, str) else x if isinstance(x, np.integer) else dtype(x)
        for x in after
    ]
    returned = run(name, *variables, *scalars, **attrs)
    wide = [np.asarray(x, np.float64) for x in (*starts, *scalars)]
    tolerance = TOLERANCES[dtype]
    assert returned is (None if resource else variables[0])
    for v, array, want in zip(variables, arrays, formula(*wide), strict=True):
        assert v.array is array, "updated in place"
        assert array is not None
        assert array.dtype == dtype
        np.testing.assert_allclose(array.astype(np.float64), want, rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize("name", ["ApplyRMSProp", "ApplyCenteredRMSProp"])
def test_without_momentum_it_does_not_matter_what_that_was(name: str) -> None:
    """In TensorFlow nothing ever ends a NaN there."""
    slots = CASES["RMSProp" if name == "ApplyRMSProp" else "centered RMSProp"][2] - 2
    found = []
    for before in (0.0, np.nan, np.inf):
        held = [variable(np.array([1.0, 2.0])) for _ in range(1 + slots)]
        mom = variable(np.array([before, 3.0]))
        rates = [np.float64(each) for each in (0.1, 0.9, 0.0, 5.0)]
        run(name, *held, mom, *rates[:4], np.array([0.5, -0.5]))
        found.append([each.snapshot().tolist() for each in (*held, mom)])
    assert found[0] == found[1] == found[2]
    assert np.isfinite(found[0]).all()


def test_any_layout_will_do(rng: np.random.Generator) -> None:
    start = np.asfortranarray(rng.normal(size=(300, 70)))
    v, m = variable(start), variable(np.zeros((300, 70)))
    assert v.array is not None
    grad = rng.normal(size=(70, 300)).T
    run("ApplyMomentum", v, m, np.float64(0.1), grad, np.float64(0.9), use_nesterov=False)
    np.testing.assert_allclose(v.array, start - 0.1 * grad)


# op -> attrs, how many variables, the inputs after them ("g" is the gradient, "i" its rows), the formula
SPARSE: dict[str, tuple[dict[str, Any], int, list[Any], Callable[..., Any]]] = {
    "SparseApplyMomentum": ({"use_nesterov": False}, 2, [0.1, "g", "i", 0.9], momentum),
    "SparseApplyAdagrad": ({"update_slots": True}, 2, [0.1, "g", "i"], adagrad),
    "SparseApplyAdagradV2": ({"update_slots": True}, 2, [0.1, 0.2, "g", "i"], adagrad_v2),
    "SparseApplyAdadelta": ({}, 3, [0.1, 0.9, 0.01, "g", "i"], adadelta),
    "SparseApplyRMSProp": ({}, 3, [0.1, 0.9, 0.8, 0.01, "g", "i"], rms_prop),
    "SparseApplyCenteredRMSProp": ({}, 4, [0.1, 0.2, 0.8, 5.0, "g", "i"], centered),
    "SparseApplyProximalGradientDescent": ({}, 1, [0.1, 0.2, 0.3, "g", "i"], proximal),
    "SparseApplyProximalAdagrad": ({}, 2, [0.1, 0.2, 0.3, "g", "i"], proximal_adagrad),
    "SparseApplyAdagradDA": ({}, 3, ["g", "i", 0.1, 0.2, 0.3, 4], adagrad_da),
    "SparseApplyFtrl": (
        {"multiply_linear_by_lr": False}, 3, ["g", "i", 0.5, 0.2, 0.3, -0.5], ftrl,
    ),
    "SparseApplyFtrlV2": (
        {"multiply_linear_by_lr": False}, 3, ["g", "i", 0.5, 0.2, 0.3, 0.1, -0.7], ftrl_v2,
    ),
}  # fmt: skip


@pytest.mark.parametrize("indices", [[2, 0], [1, 1, 3], [3, 0, 3, 1, 0, 3], [2] * 5, []], ids=str)
@pytest.mark.parametrize("name", SPARSE)
def test_a_sparse_update_moves_the_rows_it_names_once_per_mention(
    name: str, indices: Any, rng: np.random.Generator
) -> None:
    attrs, count, after, formula = SPARSE[name]
    wanted = [rng.uniform(0.5, 2, (4, 3)) for _ in range(count)]
    grad = rng.normal(size=(len(indices), 3))
    variables = [variable(start) for start in wanted]
    given = {"g": grad, "i": np.array(indices, np.int64)}
    scalars = [given[x] if isinstance(x, str) else np.float64(x) for x in after]
    run(name, *variables, *scalars, **attrs)
    for row, g in zip(indices, grad, strict=True):
        rest = [g if x == "g" else x for x in after if x != "i"]
        for array, moved in zip(
            wanted, formula(*[array[row] for array in wanted], *rest), strict=True
        ):
            array[row] = moved
    for v, array in zip(variables, wanted, strict=True):
        np.testing.assert_allclose(v.array, array)


LR = np.float32(0.1)
V3 = np.zeros(3, np.float32)


@pytest.mark.parametrize(
    ("indices", "grad", "text"),
    [
        ([3], [[0, 0]], "Index 3 at offset 0.*3 rows"),
        ([0, -1], [[0, 0], [0, 0]], "Index -1 at offset 1"),
        ([0], [[0, 0, 0]], r"\[1,2\], not \[1,3\]"),
        ([[0]], [[[0, 0]]], "vector of indices"),
    ],
)
def test_bad_rows_are_named(indices: Any, grad: Any, text: str) -> None:
    v, a = variable(np.ones((3, 2), np.float32)), variable(np.ones((3, 2), np.float32))
    with pytest.raises(errors.InvalidArgumentError, match=text):
        run(
            "SparseApplyAdagrad", v, a, LR, np.array(grad, np.float32), np.array(indices),
            update_slots=True,
        )  # fmt: skip
    assert v.array is not None
    assert (v.array == 1).all()


def test_shapes_and_scalars_are_checked_before_anything_moves() -> None:
    v, slot = variable(V3), variable(np.zeros(4, np.float32), "slot")
    with pytest.raises(
        errors.InvalidArgumentError,
        match=r"do not have the same shape\[4\] \[3\]: .* variable slot",
    ):
        run("ApplyAdagrad", v, slot, LR, V3 + 1, update_slots=True)
    with pytest.raises(errors.InvalidArgumentError, match="alpha must be a scalar"):
        run("ApplyGradientDescent", v, V3, V3)
    unset = Variable("unset", dtypes.float32, (3,))
    with pytest.raises(errors.FailedPreconditionError, match="unset"):
        run("ApplyAdagrad", v, unset, LR, V3 + 1, update_slots=True)
    assert v.array is not None
    assert v.array.tolist() == [0, 0, 0]
    with pytest.raises(errors.InvalidArgumentError, match="slot"):
        run("SparseApplyAdagrad", v, slot, LR, V3[:1], np.array([0]), update_slots=True)


def test_a_slot_may_be_left_as_it_is() -> None:
    v, a = variable(np.ones(2)), variable(np.full(2, 4.0))
    run("ApplyAdagrad", v, a, np.float64(1), np.ones(2), update_slots=False)
    assert v.array is not None
    assert v.array.tolist() == [0.5, 0.5]


def test_updates_from_many_threads_are_whole() -> None:
    v, m = variable(np.zeros(50000)), variable(np.zeros(50000))
    grad = np.ones(50000)

    def work(first: Variable, second: Variable) -> None:
        for _ in range(20):  # the two variables change places, so the locks must have one order
            run(
                "ApplyAdagradV2",
                first,
                second,
                np.float64(0),
                np.float64(1),
                grad,
                update_slots=True,
            )

    pairs = [(v, m), (m, v)] * 2
    threads = [threading.Thread(target=work, args=pair) for pair in pairs]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert v.array is not None
    assert m.array is not None
    assert (v.array == 40).all()
    assert (m.array == 40).all()
