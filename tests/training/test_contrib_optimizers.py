"""`tf.contrib.opt` beside the rules of the papers in NumPy: two steps, dense and of two rows."""

from __future__ import annotations

import importlib.util
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import headrace as tf

opt = tf.contrib.opt
Array = np.ndarray[Any, Any]
START = np.array([[1.0, -2.0], [0.5, 4.0], [3.0, -1.0]])
GRADIENTS = [
    np.array([[0.1, -0.2], [0.3, 0.4], [-0.5, 0.6]]),
    np.array([[-0.2, 0.1], [0.0, 0.5], [0.7, -0.6]]),
]
ROWS = np.array([2, 0])


def adam(var: Array, grads: list[Array], rows: Any, how: str) -> Array:
    """Of the rows that have gradients alone, but for Nesterov's, whose moments fade everywhere."""
    m, v, var = np.zeros_like(var), np.zeros_like(var), var.copy()
    for t, g in enumerate(grads, 1):
        if how == "nadam":
            whole = np.zeros_like(var)
            whole[rows] = g
            m, v = 0.9 * m + 0.1 * whole, 0.999 * v + 0.001 * whole**2
            top, rate = 0.9 * m[rows] + 0.1 * g, 0.1 * np.sqrt(1 - 0.999**t) / (1 - 0.9**t)
            bottom = np.sqrt(v[rows])
        else:
            m[rows] = 0.9 * m[rows] + 0.1 * g
            if how == "max":
                v[rows] = np.maximum(0.999 * v[rows], abs(g))
                bottom, rate = v[rows], 0.1 / (1 - 0.9**t)
            else:
                v[rows] = 0.999 * v[rows] + 0.001 * g**2
                bottom, rate = np.sqrt(v[rows]), 0.1 * np.sqrt(1 - 0.999**t) / (1 - 0.9**t)
            top = m[rows]
        if how == "decay":
            var[rows] *= 1 - 0.01
        var[rows] -= rate * top / (bottom + 1e-8)
    return var


def signs(var: Array, grads: list[Array], rows: Any, factor: Callable[[Array], Array]) -> Array:
    m, var = np.zeros_like(var), var.copy()
    for t, g in enumerate(grads):
        whole = np.zeros_like(var)
        whole[rows] = g
        m = 0.9 * m + 0.1 * whole
        var[rows] -= 0.1 * factor((1 - t / 4) * np.sign(g) * np.sign(m[rows])) * g
    return var


def momentum(var: Array, grads: list[Array], rows: Any, decay: float) -> Array:
    a, var = np.zeros_like(var), var.copy()
    for g in grads:
        var[rows] *= 1 - decay
        a[rows] = 0.9 * a[rows] + g
        var[rows] -= 0.1 * a[rows]
    return var


def lars(var: Array, grads: list[Array], rows: Any) -> Array:
    if not isinstance(rows, slice):
        return momentum(var, grads, rows, 0.0)
    a, var = np.zeros_like(var), var.copy()
    for g in grads:
        size, slope = np.linalg.norm(var), np.linalg.norm(g)
        a = 0.9 * a + g + 1e-4 * var
        var = var - 0.1 * 0.001 * size / (slope + 1e-4 * size) * a
    return var


RULES: dict[str, tuple[Callable[[], Any], Callable[[Array, list[Array], Any], Array]]] = {
    "lazy": (lambda: opt.LazyAdamOptimizer(0.1), lambda v, g, r: adam(v, g, r, "lazy")),
    "nadam": (lambda: opt.NadamOptimizer(0.1), lambda v, g, r: adam(v, g, r, "nadam")),
    "max": (lambda: opt.AdaMaxOptimizer(0.1), lambda v, g, r: adam(v, g, r, "max")),
    "add": (
        lambda: opt.AddSignOptimizer(sign_decay_fn=opt.get_linear_decay_fn(4)),
        lambda v, g, r: signs(v, g, r, lambda agrees: 1 + agrees),
    ),
    "power": (
        lambda: opt.PowerSignOptimizer(base=2.0, sign_decay_fn=opt.get_linear_decay_fn(4)),
        lambda v, g, r: signs(v, g, r, lambda agrees: 2.0**agrees),
    ),
    "momentum": (
        lambda: opt.MomentumWOptimizer(0.01, 0.1, 0.9),
        lambda v, g, r: momentum(v, g, r, 0.01),
    ),
    "extended": (
        lambda: opt.extend_with_decoupled_weight_decay(tf.train.MomentumOptimizer)(0.02, 0.1, 0.9),
        lambda v, g, r: momentum(v, g, r, 0.02),
    ),
    "lars": (lambda: opt.LARSOptimizer(0.1), lars),
}


@pytest.mark.parametrize("resource", [False, True])
def test_two_steps_of_each_rule(resource: bool) -> None:
    everything = slice(None)
    with tf.Graph().as_default(), tf.Session() as session:
        fed = tf.placeholder(tf.float64, [3, 2])
        some = tf.IndexedSlices(
            tf.gather(fed, ROWS), tf.constant(ROWS), tf.constant([3, 2], tf.int64)
        )
        trained: dict[str, Any] = {}
        for name, (make, _) in RULES.items():
            for kind, grad in (("dense", fed), ("rows", some)):
                step = tf.Variable(0, trainable=False)
                var = tf.get_variable(f"{name}/{kind}", initializer=START, use_resource=resource)
                trained[var.op.name] = var, make().apply_gradients([(grad, var)], step), step
        adamw = tf.get_variable("adamw", initializer=START, use_resource=resource)
        plain = opt.AdamWOptimizer(0.01, 0.1).apply_gradients([(fed, adamw)])
        session.run(tf.global_variables_initializer())
        for grad in GRADIENTS:
            session.run([plain, *[op for _, op, _ in trained.values()]], {fed: grad})
        found = session.run({name: (var, step) for name, (var, _, step) in trained.items()})
        np.testing.assert_allclose(
            session.run(adamw), adam(START, GRADIENTS, everything, "decay"), rtol=1e-6
        )
    for name, (_, rule) in RULES.items():
        dense = rule(START, GRADIENTS, everything)
        sparse = rule(START, [g[ROWS] for g in GRADIENTS], ROWS)
        np.testing.assert_allclose(found[f"{name}/dense"][0], dense, rtol=1e-5, err_msg=name)
        np.testing.assert_allclose(found[f"{name}/rows"][0], sparse, rtol=1e-5, err_msg=name)
        assert found[f"{name}/rows"][1] == 2


def test_how_signs_fade() -> None:
    with tf.Graph().as_default(), tf.Session() as session:
        steps = [tf.constant(each) for each in (0, 3, 6, 9)]
        decays = (
            opt.get_cosine_decay_fn(8),
            opt.get_cosine_decay_fn(8, num_periods=2, zero_after=1),
            opt.get_restart_decay_fn(8, num_periods=2),
        )
        found = session.run([[decay(step) for step in steps] for decay in decays])
        with pytest.raises(ValueError, match="global_step is required"):
            decays[0](None)
    t = np.array([0, 3, 6, 9])
    half = lambda x: (1 + np.cos(np.pi * x)) / 2  # noqa: E731
    expected = [half(t / 8), np.where(t >= 4, 0, half(t / 2)), half(t / 4 % 1)]
    np.testing.assert_allclose(found, expected, atol=1e-6)


def test_averages_are_saved_as_the_variables(tmp_path: Path) -> None:
    with tf.Graph().as_default(), tf.Session() as session:
        var = tf.get_variable("v", initializer=[1.0, 2.0])
        tf.get_variable("other", initializer=5.0, trainable=False)
        made = opt.MovingAverageOptimizer(tf.train.GradientDescentOptimizer(0.5), 0.75)
        with pytest.raises(RuntimeError, match="Must call apply_gradients"):
            made.swapping_saver()
        train = made.minimize(tf.reduce_sum(var))
        saver = made.swapping_saver()
        with pytest.raises(ValueError, match="v/ExponentialMovingAverage is not among"):
            made.swapping_saver([var])
        session.run(tf.global_variables_initializer())
        session.run(train)
        path = saver.save(session, str(tmp_path / "model"))
        assert session.run(var).tolist() == [0.5, 1.5]
    reader = tf.train.NewCheckpointReader(path)
    assert reader.get_tensor("v").tolist() == [0.875, 1.875]
    assert reader.get_tensor("v/ExponentialMovingAverage").tolist() == [0.5, 1.5]
    assert reader.get_tensor("other") == 5.0


def test_rows_stay_short_and_tasks_take_turns() -> None:
    with tf.Graph().as_default(), tf.Session() as session:
        dense, sparse, free = (tf.Variable(START, dtype=tf.float32) for _ in range(3))
        sgd = tf.train.GradientDescentOptimizer(1.0)
        clipping = opt.VariableClippingOptimizer(sgd, {dense: [1], sparse: [1]}, 2.0)
        rows = tf.IndexedSlices(tf.zeros([1, 2]), tf.constant([1]), tf.constant([3, 2], tf.int64))
        clip = clipping.apply_gradients([(tf.zeros([3, 2]), dense), (rows, sparse), (rows, free)])
        fed = tf.placeholder(tf.float32, [2])
        task = tf.Variable([1.0, 1.0])
        momentum = tf.train.MomentumOptimizer(0.5, 0.5)
        turns = opt.MultitaskOptimizerWrapper(momentum).apply_gradients([(fed, task)])
        pairs = opt.clip_gradients_by_global_norm([(tf.constant([3.0, 4.0]), task)], 1.0)
        session.run(tf.global_variables_initializer())
        session.run(clip)
        for grad in ([1.0, 0.0], [0.0, 0.0], [0.0, 1.0]):
            session.run(turns, {fed: grad})
        found = session.run([dense, sparse, free, task, pairs[0][0]])
    lengths = np.linalg.norm(START, axis=1, keepdims=True)
    clipped = START * np.minimum(1, 2 / lengths)
    np.testing.assert_allclose(found[0], clipped, rtol=1e-5)
    np.testing.assert_allclose(found[1], [START[0], clipped[1], START[2]], rtol=1e-5)
    np.testing.assert_allclose(found[2], START)
    np.testing.assert_allclose(found[3], [0.25, 0.5])
    np.testing.assert_allclose(found[4], [0.6, 0.8], rtol=1e-6)
    with pytest.raises(TypeError, match=r"must be an instance of tf\.train\.Optimizer"):
        opt.MultitaskOptimizerWrapper(3)


class Descending(opt.ExternalOptimizerInterface):  # type: ignore[misc]
    """Twenty steps downhill, within the bounds."""

    def _minimize(
        self, initial_val: Array, loss_grad_func: Any, packed_bounds: Any, **_: Any
    ) -> Array:
        x, bounds = initial_val, np.array(packed_bounds).T
        for _step in range(20):
            x = np.clip(x - 0.25 * loss_grad_func(x)[1], *bounds)
        return x


def test_a_loss_is_minimized_outside_of_the_graph() -> None:
    seen: list[float] = []
    with tf.Graph().as_default(), tf.Session() as session:
        a, b = tf.Variable([[7.0, 7.0]]), tf.Variable(3.0)
        aim = tf.placeholder(tf.float32)
        loss = tf.reduce_sum(tf.square(a - aim)) + tf.square(b)
        outside = Descending(loss, var_to_bounds={a: ([2.0, -5.0], 9.0)})
        session.run(tf.global_variables_initializer())
        outside.minimize(session, {aim: 1.0}, fetches=[loss], loss_callback=seen.append)
        found = session.run([a, b])
        with pytest.raises(NotImplementedError, match="implement the _minimize"):
            opt.ExternalOptimizerInterface(loss).minimize(session, {aim: 1.0})
        if importlib.util.find_spec("scipy") is None:
            with pytest.raises(ImportError, match="pip install scipy"):
                opt.ScipyOptimizerInterface(loss).minimize(session, {aim: 1.0})
    np.testing.assert_allclose(found[0], [[2.0, 1.0]], atol=1e-4)
    np.testing.assert_allclose(found[1], 0.0, atol=1e-4)
    assert len(seen) == 20
    assert seen[0] > 80 > seen[-1]


def shampoo(var: Array, grads: list[Array], largest: int, decay: float) -> Array:
    """The rule of the paper: each dimension has a matrix, or a diagonal if it is too long."""
    sums = [np.zeros((size, size)) for size in var.shape]
    mean, var = np.zeros_like(var), var.copy()
    for g in grads:
        mean = decay * mean + g
        found = mean
        for at, size in enumerate(var.shape):
            rows = np.moveaxis(g, at, 0).reshape(size, -1)
            sums[at] += rows @ rows.T
            total = sums[at] + 1e-4 * np.eye(size)
            if size > largest:
                power = np.diag(np.diag(total) ** (-0.5 / var.ndim))
            else:
                values, vectors = np.linalg.eigh(total)
                power = vectors * np.maximum(values, 1e-4) ** (-0.5 / var.ndim) @ vectors.T
            found = np.moveaxis(np.tensordot(power, found, axes=[[1], [at]]), 0, at)
        var -= 0.1 * found
    return var


@pytest.mark.parametrize("largest", [768, 2])
@pytest.mark.parametrize("decay", [0.0, 0.9])
@pytest.mark.parametrize("resource", [False, True])
def test_shampoo_is_the_papers(largest: int, decay: float, resource: bool) -> None:
    rng = np.random.default_rng(3)
    start, grads = rng.standard_normal((3, 2, 4)), rng.standard_normal((3, 3, 2, 4))
    with tf.Graph().as_default(), tf.Session() as session:
        var = tf.get_variable("v", initializer=start, use_resource=resource)
        fed = tf.placeholder(tf.float64, start.shape)
        made = opt.ShampooOptimizer(learning_rate=0.1, max_matrix_size=largest, gbar_decay=decay)
        train = made.apply_gradients([(fed, var)])
        session.run(tf.global_variables_initializer())
        for each in grads:
            session.run(train, {fed: each})
        found = session.run(var)
    np.testing.assert_allclose(found, shampoo(start, list(grads), largest, decay), rtol=1e-6)


def test_shampoo_keeps_its_roots_between_intervals() -> None:
    with tf.Graph().as_default(), tf.Session() as session:
        step = tf.train.get_or_create_global_step()
        var = tf.get_variable("v", initializer=np.eye(2))
        fed = tf.placeholder(tf.float64, [2, 2])
        made = opt.ShampooOptimizer(step, svd_interval=2, precond_update_interval=2)
        train = made.apply_gradients([(fed, var)], step)
        session.run(tf.global_variables_initializer())
        roots = made.get_slot(var, "precond_0")
        seen = []
        for _ in range(3):
            session.run(train, {fed: [[1.0, 2.0], [3.0, -4.0]]})
            seen.append(session.run(roots))
    assert np.array_equal(seen[0], seen[1])
    assert not np.allclose(seen[1], seen[2])


def test_shampoo_moves_rows_that_have_gradients() -> None:
    with tf.Graph().as_default(), tf.Session() as session:
        var = tf.get_variable("v", initializer=START)
        rows = tf.IndexedSlices(tf.constant(GRADIENTS[0][:2]), tf.constant([2, 0]), [3, 2])
        train = opt.ShampooOptimizer(learning_rate=0.1).apply_gradients([(rows, var)])
        session.run(tf.global_variables_initializer())
        session.run(train)
        found = session.run(var)
    whole = np.zeros_like(START)
    whole[[2, 0]] = GRADIENTS[0][:2]
    np.testing.assert_allclose(found, shampoo(START, [whole], 768, 0.0), rtol=1e-6)
