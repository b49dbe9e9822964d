"""Steps whose batch the graph does not know: what XLA compiles of them, and that it is right for any batch."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import pytest

import headrace as tf
from headrace.plan import whole_loops
from headrace.plan.explain import explaining
from headrace.run.exec.fused import compiler
from headrace.run.exec.tuning import AFTER
from tests.xla.test_draws import CPU, GPU, SOFT
from tests.xla.test_fusion import COMPILED_WITHIN_S


@pytest.fixture(autouse=True)
def graph(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setenv("HEADRACE_XLA", "on")
    with tf.Graph().as_default():
        yield


def in_steps(device: str, program: Any, batches: Sequence[int]) -> tuple[list[Any], list[str]]:
    """What it gives for batch after batch, and the groups that are made of it."""
    said: list[str] = []
    with tf.Graph().as_default(), tf.device(device), explaining(said.append):
        wanted, feed = program()
        with tf.Session(config=SOFT) as session:
            session.run(tf.global_variables_initializer())
            found = []
            for rows in batches:
                found.append(session.run(wanted, feed(rows)))
                assert compiler.wait(COMPILED_WITHIN_S)
    text = "".join(said).split("\nfuse: ")[-1].split("\nshapes: ")[0].split("\nload: ")[0]
    return found, [line for line in text.splitlines() if "= fused [" in line]


BATCHES = [4] * (AFTER + 4) + [1, 1, 3, 3, 4, 4]


def _with_dropout() -> tuple[Any, Any]:
    x, labels = tf.placeholder(tf.float32, [None, 5]), tf.placeholder(tf.int64, [None])
    hidden = x
    for at in range(2):
        weights = tf.get_variable(f"w{at}", initializer=np.full((5, 5), 0.1 + at, np.float32))
        hidden = tf.nn.dropout(tf.nn.relu(tf.matmul(hidden, weights) + 0.5), 0.6, seed=at + 1)
    losses = tf.nn.sparse_softmax_cross_entropy_with_logits(labels=labels, logits=hidden)
    loss = tf.reduce_mean(losses)
    train = tf.train.MomentumOptimizer(0.1, 0.9).minimize(loss)

    def feed(rows: int) -> Any:
        numbers = np.linspace(-1, 1, 5 * rows, dtype=np.float32).reshape(rows, 5)
        return {x: numbers, labels: np.arange(rows) % 5}

    return [loss, train], feed


@pytest.mark.parametrize("device", [CPU, GPU])
def test_a_step_with_dropout_is_one_program(device: str, monkeypatch: pytest.MonkeyPatch) -> None:
    found, groups = in_steps(device, _with_dropout, BATCHES)
    assert len([line for line in groups if "Relu" in line]) == 1
    assert sum(line.count("RandomUniform ") for line in groups) == 2
    monkeypatch.setenv("HEADRACE_XLA", "off")
    wanted, _ = in_steps(CPU, _with_dropout, BATCHES)
    np.testing.assert_allclose([each[0] for each in found], [each[0] for each in wanted], 1e-4)


def _recurrent() -> tuple[Any, Any]:
    x, lengths = tf.placeholder(tf.float32, [None, 4, 3]), tf.placeholder(tf.int32, [None])
    cell = tf.nn.rnn_cell.LSTMCell(6, initializer=tf.constant_initializer(0.2))
    outputs, _ = tf.nn.dynamic_rnn(cell, x, lengths, dtype=tf.float32)
    loss = tf.reduce_mean(outputs * outputs)
    gradients = tf.gradients(loss, [x, *tf.trainable_variables()])

    def feed(rows: int) -> Any:
        numbers = np.linspace(-1, 1, 12 * rows, dtype=np.float32).reshape(rows, 4, 3)
        return {x: numbers, lengths: np.arange(rows) % 5}

    return [loss, *gradients], feed


def test_bodies_of_a_recurrent_network_are_a_program_each(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(whole_loops, "programs", lambda step: {})  # nor are loops one as a whole
    found, groups = in_steps(CPU, _recurrent, BATCHES)
    forward = [line for line in groups if " Sigmoid " in line]
    backward = [line for line in groups if " SigmoidGrad " in line]
    assert (len(forward), len(backward)) == (1, 1)
    assert "Tanh Mul" in forward[0] or "Tanh Select Mul" in forward[0]
    assert "MatMul" in backward[0]
    monkeypatch.setenv("HEADRACE_XLA", "off")
    wanted, _ = in_steps(CPU, _recurrent, BATCHES)
    for ours, theirs in zip(found, wanted, strict=True):
        for one, other in zip(ours, theirs, strict=True):
            np.testing.assert_allclose(one, other, 1e-4, 1e-6)


def _of_another_feed() -> tuple[Any, Any]:
    x, other = tf.placeholder(tf.float32, [1, 3]), tf.placeholder(tf.float32, [None, 3])
    made = x
    for _ in range(4):
        made = tf.tanh(made * 1.5 + 0.25)
    rows = tf.fill([tf.shape(other)[0], 1], 2.0)
    return tf.reduce_sum(made * rows, 1), lambda n: {
        x: np.ones((1, 3), np.float32),
        other: np.ones((n, 3), np.float32),
    }


@pytest.mark.parametrize("device", [CPU, GPU])
def test_a_program_is_made_for_each_shape_that_it_is_told(
    device: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is given has one shape all the time; how often it is repeated follows from another."""
    batches = [2] * (AFTER + 3) + [5, 5, 5, 1, 1, 0, 0, 2]
    found, groups = in_steps(device, _of_another_feed, batches)
    assert any("Fill" in line and "Tanh" in line for line in groups)
    monkeypatch.setenv("HEADRACE_XLA", "off")
    wanted, _ = in_steps(CPU, _of_another_feed, batches)
    for rows, one, other in zip(batches, found, wanted, strict=True):
        assert one.shape == (rows,)
        np.testing.assert_allclose(one, other, 1e-5)


def _of_what_is_made() -> tuple[Any, Any]:
    """The shape of what a group makes is known while it is traced."""
    x, y = tf.placeholder(tf.float32, [None, 3]), tf.placeholder(tf.float32, [None, 3])
    made = tf.tanh(tf.tanh(x * 1.5) + tf.sigmoid(y)) * 2.0
    counted = tf.reduce_sum(made) / tf.cast(tf.size(made), tf.float32)
    gradients = tf.gradients(counted, [x, y])
    return [counted, *gradients], lambda n: {
        x: np.linspace(-1, 1, 3 * n, dtype=np.float32).reshape(n, 3),
        y: np.full((1, 3), 0.5, np.float32),
    }


@pytest.mark.parametrize("device", [CPU, GPU])
def test_shapes_of_what_is_made_are_known(device: str, monkeypatch: pytest.MonkeyPatch) -> None:
    found, groups = in_steps(device, _of_what_is_made, BATCHES)
    assert len(groups) == 1
    monkeypatch.setenv("HEADRACE_XLA", "off")
    wanted, _ = in_steps(CPU, _of_what_is_made, BATCHES)
    for ours, theirs in zip(found, wanted, strict=True):
        for one, other in zip(ours, theirs, strict=True):
            np.testing.assert_allclose(one, other, 1e-4, 1e-6)
