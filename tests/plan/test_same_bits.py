"""Every element of a result has the same bits whatever the number of threads and whatever runs together.

That is no matter of course: a product of which BLAS makes a few rows at a time has other bits than one that it makes at
once, with one kernel here and with another there.  So what is made in parts is made in the same ones everywhere.  The
table is made with every kernel that OpenBLAS has for this processor, each in a process of its own.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import headrace as tf
from tests.blas_kernels import KERNELS, why_not

ROOT = Path(__file__).resolve().parents[2]
Array = np.ndarray[Any, Any]
Make = Callable[[np.random.Generator], list[Any]]
"""The fetches of a program that has been made in the default graph; its variables are initialized before."""


def product(rows: int, inner: int, columns: int, flips: str = "", kind: type = np.float32) -> Make:
    def make(random: np.random.Generator) -> list[Any]:
        a = random.standard_normal((inner, rows) if "a" in flips else (rows, inner)).astype(kind)
        b = random.standard_normal((columns, inner) if "b" in flips else (inner, columns))
        made = tf.matmul(
            tf.Variable(a), tf.Variable(b.astype(kind)), transpose_a="a" in flips,
            transpose_b="b" in flips,
        )  # fmt: skip
        return [made]

    return make


def batch(count: int, rows: int, inner: int, columns: int) -> Make:
    def make(random: np.random.Generator) -> list[Any]:
        a = random.standard_normal((count, rows, inner), np.float32)
        b = random.standard_normal((count, inner, columns), np.float32)
        return [tf.matmul(tf.Variable(a), tf.Variable(b))]

    return make


def layer(images: int, taken: int, made: int, optimizer: Callable[[], Any]) -> Make:
    """A dense layer, and one step of its training."""

    def make(random: np.random.Generator) -> list[Any]:
        x = tf.Variable(random.standard_normal((images, taken), np.float32), trainable=False)
        w = tf.Variable(random.standard_normal((taken, made), np.float32))
        b = tf.Variable(random.standard_normal(made, np.float32))
        y = tf.nn.relu(tf.matmul(x, w) + b)
        train = optimizer().minimize(tf.reduce_mean(tf.square(y)))
        with tf.control_dependencies([train]):
            return [y, w.read_value(), b.read_value()]

    return make


def convolution(images: int, size: int, channels: int, made: int, window: int) -> Make:
    """With a bias, relu and pooling; the gradient of the bias comes last."""

    def make(random: np.random.Generator) -> list[Any]:
        given = random.standard_normal((images, size, size, channels), np.float32)
        x = tf.Variable(given, trainable=False)
        w = tf.Variable(random.standard_normal((window, window, channels, made), np.float32))
        b = tf.Variable(random.standard_normal(made, np.float32))
        y = tf.nn.relu(tf.nn.bias_add(tf.nn.conv2d(x, w, [1, 1, 1, 1], "SAME"), b))
        pooled = tf.nn.max_pool(y, [1, 2, 2, 1], [1, 2, 2, 1], "SAME")
        return [pooled, *tf.gradients(tf.reduce_sum(tf.square(pooled)), [w, x, b])]

    return make


def recurrent(batch: int, taken: int, units: int, kind: type = np.float32) -> Make:
    """Outputs of an LSTM, and the gradients of its weights and of what it reads."""

    def make(random: np.random.Generator) -> list[Any]:
        x = tf.Variable(random.standard_normal((batch, 9, taken)).astype(kind))
        kernel = random.standard_normal((taken + units, 4 * units)).astype(kind) * kind(0.1)
        with tf.variable_scope("cell", initializer=tf.constant_initializer(kernel)):
            cell = tf.nn.rnn_cell.BasicLSTMCell(units)
            outputs, _ = tf.nn.dynamic_rnn(cell, x, dtype=x.dtype.base_dtype)
        total = tf.reduce_sum(tf.square(outputs))
        return [outputs, *tf.gradients(total, tf.trainable_variables())]

    return make


def descent() -> Any:
    return tf.train.GradientDescentOptimizer(0.1)


TABLE: dict[str, Make] = {
    "a square product": product(300, 300, 300),
    "a product with odd sides": product(431, 203, 517),
    "a product of transposed matrices": product(517, 203, 431, "ab"),
    "a product of doubles": product(257, 309, 401, "a", np.float64),
    "a product of long rows": product(130, 130, 1030),
    "a product of short sums": product(1001, 40, 517),
    "few rows of a large matrix": product(7, 1200, 1100),
    "few rows of a large transposed matrix": product(7, 1200, 1100, "b"),
    "many products": batch(37, 61, 67, 71),
    "a layer": layer(100, 784, 500, lambda: tf.train.AdamOptimizer(0.1)),
    "a narrow layer": layer(64, 1030, 130, descent),
    "a wide layer": layer(77, 131, 2050, lambda: tf.train.MomentumOptimizer(0.1, 0.9)),
    "a high layer": layer(33, 2500, 150, descent),
    "a convolution": convolution(19, 28, 1, 32, 5),
    "a deeper convolution": convolution(11, 14, 32, 61, 5),
    "a recurrent layer": recurrent(32, 128, 128),
    "a recurrent layer with odd sides": recurrent(37, 61, 77),
    "a recurrent layer of doubles": recurrent(19, 130, 150, np.float64),
    "a convolution by tiles of lines": convolution(9, 30, 33, 35, 3),
    "a convolution by tiles": convolution(3, 26, 96, 110, 3),
}


def found(make: Make, fused: bool, threads: int) -> list[Array]:
    """What a program gives."""
    level = tf.OptimizerOptions.L1 if fused else tf.OptimizerOptions.L0
    options = tf.GraphOptions(optimizer_options=tf.OptimizerOptions(opt_level=level))
    config = tf.ConfigProto(graph_options=options, intra_op_parallelism_threads=threads)
    with tf.Graph().as_default(), tf.Session(config=config) as session:
        fetches = make(np.random.default_rng(7))
        session.run(tf.global_variables_initializer())
        values: list[Array] = session.run(fetches)
    return values


def check(name: str) -> None:
    """The gradient of a convolution's bias is a sum of other parts where it is made with the rest: see docs."""
    apart, alone, together = (
        found(TABLE[name], fused, threads) for fused, threads in ((False, 1), (True, 1), (True, 3))
    )
    for value, other in zip(alone, together, strict=True):
        np.testing.assert_array_equal(value, other, f"{name}, on one thread and on three")
    same = -1 if "convolution" in name else None
    for value, other in zip(apart[:same], alone[:same], strict=True):
        np.testing.assert_array_equal(value, other, f"{name}, op by op and not")


@pytest.mark.parametrize("name", TABLE)
def test_neither_threads_nor_what_runs_together_change_a_bit(name: str) -> None:
    check(name)


@pytest.mark.parametrize("kernel", KERNELS)
def test_nor_do_they_with_another_kernel(kernel: str) -> None:
    if why_not(kernel):
        pytest.skip(why_not(kernel))
    ran = subprocess.run(
        [sys.executable, "-m", "tests.plan.test_same_bits"], cwd=ROOT, capture_output=True,
        env={**os.environ, "OPENBLAS_CORETYPE": kernel}, text=True, check=False,
    )  # fmt: skip
    assert ran.returncode == 0, ran.stderr[-3000:]


if __name__ == "__main__":
    for each in TABLE:
        check(each)
