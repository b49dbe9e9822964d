"""Every optimizer: variables of both kinds on the ps, dense and sparse gradients from the worker."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from tests.interop.scripts.table import PS, WORKER, About, Here, Table

TABLE = Table()
STEPS = 5


def moved(tf: Any, here: Here, make: Callable[[Any, Any], Any]) -> list[float]:
    """How far the variables of each kind are from where they started, and their slots."""
    random = np.random.RandomState(5)

    def start(*shape: int) -> Any:
        return random.uniform(-1, 1, shape).astype(np.float32)

    with tf.device(PS):
        step = tf.train.get_or_create_global_step()
        kinds = []
        for resource in (False, True):
            table = tf.Variable(start(6, 3), name="table", use_resource=resource)
            kinds.append((table, tf.Variable(start(3), name="bias", use_resource=resource)))
    with tf.device(WORKER):
        losses = [
            tf.reduce_mean(tf.tanh(tf.gather(table, [4, 1, 4]) * start(3, 3) + bias) + bias * bias)
            for table, bias in kinds
        ]
        optimizer = make(tf, step)
        train = optimizer.minimize(tf.add_n(losses), global_step=step)
    sums = [
        tf.add_n([
            tf.reduce_sum(tf.abs(held.read_value()))
            for var in pair
            for held in [var, *(optimizer.get_slot(var, name) for name in optimizer.get_slot_names())]
        ])
        for pair in kinds
    ]  # fmt: skip
    with tf.Session(here.worker) as session:
        session.run(tf.global_variables_initializer())
        for _ in range(STEPS):
            session.run(train)
        assert session.run(step) == STEPS
        return [float(total) for total in session.run(sums)]


# The optimizer; the sums of magnitudes, of references and of resource variables.
OPTIMIZERS: dict[str, tuple[Callable[[Any, Any], Any], float, float]] = {
    "adadelta": (lambda tf, step: tf.train.AdadeltaOptimizer(1.0, epsilon=0.01), 10.94358, 11.32388),
    "adagrad": (lambda tf, step: tf.train.AdagradOptimizer(0.2), 13.65113, 17.03120),
    "adagrad_with_dual_averaging": (
        lambda tf, step: tf.train.AdagradDAOptimizer(0.2, step, l1_regularization_strength=0.01),
        15.92678, 17.78140,
    ),
    "adam": (lambda tf, step: tf.train.AdamOptimizer(0.1), 12.56208, 11.44382),
    "centered_rmsprop": (
        lambda tf, step: tf.train.RMSPropOptimizer(0.1, epsilon=0.1, centered=True), 27.05839, 30.39623,
    ),
    "ftrl": (lambda tf, step: tf.train.FtrlOptimizer(0.2, l1_regularization_strength=0.01), 16.53481, 17.54165),
    "ftrl_with_shrinkage": (
        lambda tf, step: tf.train.FtrlOptimizer(0.2, l2_shrinkage_regularization_strength=0.1),
        15.27024, 16.71771,
    ),
    "gradient_descent": (lambda tf, step: tf.train.GradientDescentOptimizer(0.2), 9.23809, 11.32117),
    "nesterov_momentum": (
        lambda tf, step: tf.train.MomentumOptimizer(0.2, 0.9, use_nesterov=True), 14.18404, 16.08288,
    ),
    "proximal_adagrad": (
        lambda tf, step: tf.train.ProximalAdagradOptimizer(0.2, l1_regularization_strength=0.1),
        11.95840, 14.96935,
    ),
    "proximal_gradient_descent": (
        lambda tf, step: tf.train.ProximalGradientDescentOptimizer(0.2, 0.1, 0.1), 8.31139, 10.14104,
    ),
    "rmsprop": (lambda tf, step: tf.train.RMSPropOptimizer(0.1, momentum=0.5), 26.99898, 29.38050),
}  # fmt: skip


def _add(name: str, make: Callable[[Any, Any], Any], references: float, handles: float) -> None:
    def run(tf: Any, here: Here) -> Any:
        return moved(tf, here, make)

    run.__name__ = name
    TABLE.gives([About(references, 1e-4), About(handles, 1e-4)])(run)


for _name, _row in OPTIMIZERS.items():
    _add(_name, *_row)


@TABLE.gives([About(1 - 0.9**3, 1e-6), 1.0])
def moving_averages(tf: Any, here: Here) -> Any:
    with tf.device(PS):
        v = tf.Variable(0.0, name="v")
        ema = tf.train.ExponentialMovingAverage(0.9)
        with tf.control_dependencies([v.assign(1.0)]):
            update = ema.apply([v])
    with tf.Session(here.worker) as session:
        session.run(tf.global_variables_initializer())
        for _ in range(3):
            session.run(update)
        return [float(value) for value in session.run([ema.average(v), v])]
