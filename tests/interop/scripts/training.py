"""Training: variables and their updates on the ps, gradients on the worker."""

from __future__ import annotations

import threading
from typing import Any

import numpy as np

from tests.interop.scripts.table import PS, WORKER, About, Here, Table, Updates

TABLE = Table()
FEATURES, HIDDEN, CLASSES, BATCH = 16, 32, 4, 50
RATE = 0.2
STEPS = 150


def samples() -> tuple[Any, Any]:
    """1,000 points in four clouds that overlap, and which cloud each is of; the same everywhere."""
    random = np.random.RandomState(7)
    centers = random.randn(CLASSES, FEATURES) * 0.5
    labels = random.randint(0, CLASSES, 1000)
    points = centers[labels] + random.randn(1000, FEATURES)
    return points.astype(np.float32), labels.astype(np.int64)


class Model:
    """A perceptron with one hidden layer; its graph is the default one."""

    def __init__(self, tf: Any, optimizer: Any, worker: str = WORKER) -> None:
        random = np.random.RandomState(3)

        def weights(name: str, *shape: int) -> Any:
            return tf.Variable(random.randn(*shape).astype(np.float32) * 0.3, name=name)

        with tf.device(PS):
            w1, b1 = weights("w1", FEATURES, HIDDEN), tf.Variable(tf.zeros([HIDDEN]), name="b1")
            w2, b2 = weights("w2", HIDDEN, CLASSES), tf.Variable(tf.zeros([CLASSES]), name="b2")
            self.step = tf.Variable(0, name="step", trainable=False)
        with tf.device(worker):
            self.points = tf.placeholder(tf.float32, [None, FEATURES])
            self.labels = tf.placeholder(tf.int64, [None])
            hidden = tf.nn.relu(tf.nn.bias_add(tf.matmul(self.points, w1), b1))
            logits = tf.nn.bias_add(tf.matmul(hidden, w2), b2)
            losses = tf.nn.sparse_softmax_cross_entropy_with_logits(
                labels=self.labels, logits=logits
            )
            self.loss = tf.reduce_mean(losses)
            right = tf.equal(tf.argmax(logits, 1), self.labels)
            self.accuracy = tf.reduce_mean(tf.cast(right, tf.float32))
            self.train = optimizer.minimize(self.loss, global_step=self.step)
        self.init = tf.global_variables_initializer()

    def fed(self, chosen: Any) -> dict[Any, Any]:
        """The samples at these places."""
        points, labels = samples()
        return {self.points: points[chosen], self.labels: labels[chosen]}


def batches(seed: int, count: int) -> list[Any]:
    random = np.random.RandomState(seed)
    return [random.randint(0, 1000, BATCH) for _ in range(count)]


def descent(tf: Any) -> Any:
    return tf.train.GradientDescentOptimizer(RATE)


def losses_of(tf: Any, here: Here, optimizer: Any) -> list[float]:
    model = Model(tf, optimizer)
    with tf.Session(here.worker) as session:
        session.run(model.init)
        seen = []
        for chosen in batches(1, 20):
            _, loss = session.run([model.train, model.loss], model.fed(chosen))
            seen.append(float(loss))
        return [seen[0], seen[9], seen[19], int(session.run(model.step))]


def same_path(first: float, tenth: float, last: float, steps: int) -> list[Any]:
    """Losses, of which later ones carry the roundings of earlier steps, and the number of steps."""
    return [About(first, 1e-5), About(tenth, 1e-4), About(last, 1e-3), steps]


@TABLE.gives(same_path(1.888393, 0.492896, 0.451920, 20))
def gradient_descent_takes_the_same_path(tf: Any, here: Here) -> Any:
    return losses_of(tf, here, descent(tf))


@TABLE.gives(same_path(1.888393, 0.455019, 0.282350, 20))
def momentum_takes_the_same_path(tf: Any, here: Here) -> Any:
    return losses_of(tf, here, tf.train.MomentumOptimizer(0.05, 0.9))


@TABLE.gives(same_path(1.888393, 0.411965, 0.389781, 20))
def adagrad_takes_the_same_path(tf: Any, here: Here) -> Any:
    return losses_of(tf, here, tf.train.AdagradOptimizer(0.1))


@TABLE.gives(same_path(1.888393, 0.554343, 0.440724, 20))
def adam_takes_the_same_path(tf: Any, here: Here) -> Any:
    return losses_of(tf, here, tf.train.AdamOptimizer(0.01))


LEARNED = About(0.91, 0.03)
"""The accuracy of two workers that learn at once: 0.886 to 0.923 as their steps fall, some updates lost."""


@TABLE.gives([Updates(2 * STEPS), LEARNED])
def two_asynchronous_workers_learn_it(tf: Any, here: Here) -> Any:
    """Two sessions on two masters train one model; returns the steps made and the accuracy."""
    model = Model(tf, descent(tf))
    failures = []

    def work(target: str, seed: int) -> None:
        try:
            with tf.Session(target, graph=model.loss.graph) as session:
                for chosen in batches(seed, STEPS):
                    session.run(model.train, model.fed(chosen))
        except Exception as error:
            failures.append(error)

    with tf.Session(here.worker) as session:
        session.run(model.init)
        threads = [
            threading.Thread(target=work, args=a) for a in ((here.worker, 11), (here.ps, 12))
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        if failures:
            raise failures[0]
        accuracy = session.run(model.accuracy, model.fed(np.arange(1000)))
        return [int(session.run(model.step)), float(accuracy)]


def initialize(tf: Any, here: Here) -> Any:
    """The chief's part when workers are processes: see test_training_together."""
    model = Model(tf, descent(tf))
    with tf.Session(here.worker) as session:
        session.run(model.init)
        return float(session.run(model.accuracy, model.fed(np.arange(1000))))


def train(tf: Any, here: Here) -> Any:
    """One worker's part: its own STEPS batches, gradients on its own task."""
    number = here.number
    model = Model(tf, descent(tf), worker=f"/job:worker/task:{number}")
    with tf.Session(here.worker) as session:
        for chosen in batches(20 + number, STEPS):
            session.run(model.train, model.fed(chosen))
    return STEPS


def measure(tf: Any, here: Here) -> Any:
    """Steps made and accuracy."""
    model = Model(tf, descent(tf))
    with tf.Session(here.worker) as session:
        accuracy = session.run(model.accuracy, model.fed(np.arange(1000)))
        return [int(session.run(model.step)), float(accuracy)]


for part in (initialize, train, measure):
    TABLE.parts[part.__name__] = part
