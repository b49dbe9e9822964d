"""Elements chosen by bits are those that NumPy's `where` gives."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest

import headrace as tf
from headrace.graph.registry import OPS
from headrace.ops._kernels import choosing

COUNT = 3 * choosing._TOGETHER + 5
FEW = choosing._TOGETHER - 3
KINDS = [*"?bBhHiIlLefdFD", ml_dtypes.bfloat16, object]


def made(kind: Any, seed: int, count: int) -> np.ndarray[Any, Any]:
    return (1 + np.random.default_rng(seed).random(count) * 100).astype(kind)


@pytest.mark.parametrize("count", [choosing._LEAST - 1, choosing._LEAST, FEW, COUNT])
@pytest.mark.parametrize("kind", KINDS)
def test_all_types_are_chosen_as_where_does(kind: Any, count: int) -> None:
    condition = np.random.default_rng(0).random(count) > 0.5
    x, y = made(kind, 1, count), made(kind, 2, count)
    for one, other in ((x, y), (x[7], y), (x, y[7]), (x[7], y[7])):
        a, b = np.asarray(one, x.dtype), np.asarray(other, x.dtype)
        found, wanted = choosing.where(condition, a, b), np.where(condition, a, b)
        assert found.dtype == wanted.dtype
        assert found.tobytes() == wanted.tobytes()


@pytest.mark.parametrize("count", [FEW, COUNT])
def test_bits_of_infinities_zeros_and_nan_stay(count: int) -> None:
    odd = np.array([np.nan, -np.nan, np.inf, -np.inf, 0.0, -0.0, 1e-45], np.float32)
    x, y = np.resize(odd, count), np.resize(odd[::-1], count)
    condition = np.random.default_rng(0).random(count) > 0.5
    assert choosing.where(condition, x, y).tobytes() == np.where(condition, x, y).tobytes()


@pytest.mark.parametrize(
    ("condition", "x", "y"),
    [
        ((200, 100), (200, 100), (200, 100)),
        ((200, 100), (100,), (200, 1)),
        ((200, 1), (200, 100), (200, 100)),
        ((200, 100), (), (200, 100)),
        ((3, 200, 100), (200, 100), ()),
        ((), (200, 100), (200, 100)),
        ((0, 100), (0, 100), ()),
    ],
)
def test_shapes_that_broadcast_and_arrays_with_gaps(
    condition: tuple[int, ...], x: tuple[int, ...], y: tuple[int, ...]
) -> None:
    random = np.random.default_rng(3)
    holds, ones, others = (random.random(shape) for shape in (condition, x, y))
    for turn in (np.asarray, np.transpose, lambda each: each[..., ::2] if each.ndim > 1 else each):
        try:
            wanted = np.where(turn(holds > 0.5), turn(ones), turn(others))
        except ValueError:
            continue
        found = choosing.where(np.asarray(turn(holds > 0.5)), turn(ones), turn(others))
        assert found.shape == wanted.shape
        assert found.tolist() == wanted.tolist()


@pytest.mark.parametrize("count", [FEW, COUNT])
def test_the_result_is_nobody_elses(count: int) -> None:
    x, y = made("f", 1, count), made("f", 2, count)
    holds = np.ones(count, bool)
    found = choosing.where(holds, x, y)
    found[:] = 0
    assert x.all()
    assert y.all()
    assert holds.all()


def test_large_ones_in_a_graph_beside_small_ones() -> None:
    x = tf.placeholder(tf.float32, [None])
    fetches = [
        tf.where(x > 0, x, -2 * x),
        tf.where_v2(x > 0, x, 1.0),
        tf.nn.leaky_relu(x),
        tf.nn.elu(x),
        tf.nn.selu(x),
        *[tf.gradients(f(x), x)[0] for f in (tf.nn.leaky_relu, tf.nn.elu, tf.nn.selu)],
    ]
    fed = np.random.default_rng(4).normal(size=COUNT).astype(np.float32)
    with tf.Session() as session:
        whole = session.run(fetches, {x: fed})
        parts = [session.run(fetches, {x: part}) for part in np.array_split(fed, 40)]
    for at, each in enumerate(whole):
        assert each.tobytes() == np.concatenate([part[at] for part in parts]).tobytes()


@pytest.mark.parametrize("alpha", [0.2, 1.0, 1.5, 0.0, -0.3])
@pytest.mark.parametrize("kind", [np.float32, np.float64, np.float16, ml_dtypes.bfloat16])
def test_leaky_relus_are_what_they_say_of_any_size(kind: Any, alpha: float) -> None:
    odd = [np.nan, np.inf, -np.inf, 0.0, -0.0, 1e-7, -1e-7]
    x = np.concatenate([odd, np.random.default_rng(6).normal(size=300_000)]).astype(kind)
    dy = x[::-1].copy()
    with np.errstate(all="ignore"):
        wanted = np.where(x > kind(0), x, x * kind(alpha))
        slopes = np.where(x > kind(0), dy, dy * kind(alpha))
        for each in (x, x[:50]):
            found = OPS["LeakyRelu"].kernel(np, each, alpha=alpha)  # type: ignore[misc]
            assert found.tobytes() == wanted[: len(each)].tobytes()
            found = OPS["LeakyReluGrad"].kernel(np, dy[: len(each)], each, alpha=alpha)  # type: ignore[misc]
            assert found.tobytes() == slopes[: len(each)].tobytes()
