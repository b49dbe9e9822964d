"""Steps that XLA compiles: what they give, when they are, and that they are left alone where it does not pay."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
import pytest

import headrace as tf
from headrace.base import errors
from headrace.run.exec.fused import MOST_FORMS, FusedKernel, compiler
from headrace.run.exec.tuning import AFTER, Tuner
from headrace.run.exec.whole_loops import LoopProgram

COMPILED_WITHIN_S = 120.0
Fed = dict[tf.Tensor, Any]


@pytest.fixture(autouse=True)
def graph(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setenv("HEADRACE_XLA", "on")
    monkeypatch.setenv("HEADRACE_GPUS", "")
    with tf.Graph().as_default():
        yield


@pytest.fixture
def fused(monkeypatch: pytest.MonkeyPatch) -> Callable[[], int]:
    """How often something compiled has run."""
    original, times = FusedKernel.__call__, []

    def counting(kernel: FusedKernel, values: Sequence[Any]) -> Any:
        found = original(kernel, values)
        if found is not None:
            times.append(1)
        return found

    monkeypatch.setattr(FusedKernel, "__call__", counting)
    of_loops = LoopProgram.run

    def counting_loops(program: LoopProgram, *given: Any) -> Any:
        found = of_loops(program, *given)
        if found is not None:
            times.append(1)
        return found

    monkeypatch.setattr(LoopProgram, "run", counting_loops)
    return lambda: len(times)


def warm(session: tf.Session, fetches: Any, fed: Fed | None = None) -> None:
    """Run so often that what can be compiled is."""
    for _ in range(AFTER):
        session.run(fetches, fed)
    for _ in range(3):
        assert compiler.wait(COMPILED_WITHIN_S)
        session.run(fetches, fed)


def chain(x: tf.Tensor, links: int = 20) -> tf.Tensor:
    for _ in range(links):
        x = tf.tanh(x * 1.5 + 0.25)
    return x


def test_a_compiled_step_gives_the_same_to_rounding(fused: Callable[[], int]) -> None:
    x = tf.placeholder(tf.float32, [None])
    y, z = chain(x), tf.reduce_sum(chain(x, 3))
    fed = {x: np.linspace(-1, 1, 50)}
    with tf.Session() as session:
        before = session.run([y, z], fed)
        warm(session, [y, z], fed)
        assert fused() > 0
        after = session.run([y, z], fed)
    for a, b in zip(before, after, strict=True):
        np.testing.assert_allclose(a, b, 1e-5, 1e-6)
        assert type(a) is type(b)
    after[0][:] = 0.0  # it is the caller's own


def test_a_model_trains_the_same(monkeypatch: pytest.MonkeyPatch, fused: Callable[[], int]) -> None:
    def losses(how: str) -> list[float]:
        monkeypatch.setenv("HEADRACE_XLA", how)
        with tf.Graph().as_default():
            tf.set_random_seed(1)
            x = tf.constant(np.linspace(-1, 1, 60).reshape(12, 5), tf.float32)
            labels = tf.constant(np.arange(12) % 3)
            hidden = tf.layers.dense(x, 8, tf.nn.relu)
            logits = tf.layers.dense(hidden, 3)
            loss = tf.reduce_mean(
                tf.nn.sparse_softmax_cross_entropy_with_logits(labels=labels, logits=logits)
            )
            train = tf.train.AdamOptimizer(0.05).minimize(loss)
            with tf.Session() as session:
                session.run(tf.global_variables_initializer())
                found = []
                for _ in range(2 * AFTER):
                    found.append(session.run([loss, train])[0])
                    assert compiler.wait(COMPILED_WITHIN_S)
                return found

    np.testing.assert_allclose(losses("on"), losses("off"), 1e-4)
    assert fused() > 0


def test_branches_and_loops_have_compiled_bodies(fused: Callable[[], int]) -> None:
    x = tf.placeholder(tf.float32, [4])
    branch = tf.cond(x[0] > 0.0, lambda: chain(x), lambda: chain(-x, 10))
    _, loop = tf.while_loop(lambda i, _: i < 5, lambda i, y: (i + 1, chain(y)), [tf.constant(0), x])
    fed = {x: [0.5, -0.5, 1.0, 2.0]}
    with tf.Session() as session:
        before = session.run([branch, loop], fed)
        warm(session, [branch, loop], fed)
        assert fused() > 0
        for a, b in zip(before, session.run([branch, loop], fed), strict=True):
            np.testing.assert_allclose(a, b, 1e-5)


def test_a_recurrent_network_is_the_same(fused: Callable[[], int]) -> None:
    inputs = tf.placeholder(tf.float32, [2, 6, 3])
    cell = tf.nn.rnn_cell.LSTMCell(4)
    outputs, _ = tf.nn.dynamic_rnn(cell, inputs, dtype=tf.float32)
    gradient = tf.gradients(outputs, inputs)[0]
    fed = {inputs: np.linspace(-1, 1, 36).reshape(2, 6, 3)}
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        before = session.run([outputs, gradient], fed)
        warm(session, [outputs, gradient], fed)
        assert fused() > 0
        for a, b in zip(before, session.run([outputs, gradient], fed), strict=True):
            np.testing.assert_allclose(a, b, 1e-4, 1e-6)


def test_a_variable_is_read_before_and_after_it_changes(fused: Callable[[], int]) -> None:
    variable = tf.Variable([1.0, 2.0])
    before = chain(variable)
    with tf.control_dependencies([before]):
        more = variable.assign_add([1.0, 1.0])
    with tf.control_dependencies([more]):
        after = chain(variable.read_value())
    reset = variable.initializer
    with tf.Session() as session:
        session.run(reset)
        wanted = session.run([before, after])
        for _ in range(2 * AFTER):
            session.run(reset)
            found = session.run([before, after])
            assert compiler.wait(COMPILED_WITHIN_S)
            np.testing.assert_allclose(found, wanted, 1e-5)
    assert fused() > 0


def test_what_fails_says_what_it_says_node_by_node(fused: Callable[[], int]) -> None:
    labels = tf.placeholder(tf.int64, [2])
    logits = tf.placeholder(tf.float32, [2, 3])
    loss = tf.nn.sparse_softmax_cross_entropy_with_logits(labels=labels, logits=chain(logits))
    fed = {labels: [0, 2], logits: np.ones((2, 3))}
    with tf.Session() as session:
        warm(session, loss, fed)
        assert fused() > 0
        with pytest.raises(errors.InvalidArgumentError, match="label value of 7") as info:
            session.run(loss, {**fed, labels: [0, 7]})
        assert info.value.op.type == "SparseSoftmaxCrossEntropyWithLogits"
        session.run(loss, fed)


def test_shapes_that_keep_changing_are_not_compiled_for_ever(fused: Callable[[], int]) -> None:
    x = tf.placeholder(tf.float32, [None])
    y = chain(x, 4)
    with tf.Session() as session:
        warm(session, y, {x: [1.0]})
        for size in range(1, 3 * MOST_FORMS):
            found = session.run(y, {x: np.full(size, 0.5)})
            assert compiler.wait(COMPILED_WITHIN_S)
            assert found.shape == (size,)
            np.testing.assert_allclose(found, found[0])


def test_a_form_that_was_chosen_is_left_when_shapes_keep_changing(fused: Callable[[], int]) -> None:
    x = tf.placeholder(tf.float32, [None])
    y = chain(x, 4)
    with tf.Session() as session:
        warm(session, y, {x: [1.0]})
        assert fused() > 0
        for size in range(2, 2 + MOST_FORMS):
            session.run(y, {x: np.ones(size)})
            assert compiler.wait(COMPILED_WITHIN_S)
        before = fused()
        for _ in range(3):
            session.run(y, {x: [1.0]})
        assert fused() == before


def test_a_traced_step_lists_every_node() -> None:
    x = tf.placeholder(tf.float32, [])
    y = chain(x, 5)
    metadata = tf.RunMetadata()
    with tf.Session() as session:
        warm(session, y, {x: 1.0})
        options = tf.RunOptions(trace_level=tf.RunOptions.FULL_TRACE)
        session.run(y, {x: 1.0}, options=options, run_metadata=metadata)
    names = {n.node_name for d in metadata.step_stats.dev_stats for n in d.node_stats}
    assert {"Tanh", "Tanh_1", "Tanh_2", "Tanh_3", "Tanh_4"} <= names


def test_a_setting_that_is_none_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HEADRACE_XLA", "maybe")
    with (
        tf.Session() as session,
        pytest.raises(errors.InvalidArgumentError, match="HEADRACE_XLA='maybe'"),
    ):
        session.run(chain(tf.constant([1.0])))


def test_off_is_bit_equal(monkeypatch: pytest.MonkeyPatch, fused: Callable[[], int]) -> None:
    monkeypatch.setenv("HEADRACE_XLA", "off")
    x = tf.placeholder(tf.float32, [9])
    y = chain(x)
    fed = {x: np.linspace(-1, 1, 9)}
    with tf.Session() as session:
        before = session.run(y, fed)
        warm(session, y, fed)
        np.testing.assert_array_equal(before, session.run(y, fed))
    assert fused() == 0


# -- choosing -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(("takes_s", "chosen"), [(0.5, True), (0.95, False), (2.0, False)])
def test_the_quicker_form_stays(takes_s: float, chosen: bool) -> None:
    now = [0.0]

    def form(seconds: float) -> Callable[..., list[Any]]:
        def run(*given: Any) -> list[Any]:
            now[0] += seconds
            return [seconds]

        return run

    other = form(takes_s)
    tuner = Tuner({"compiled": lambda: (other, ())}, True, lambda: now[0])
    for _ in range(AFTER):
        assert tuner.run(form(1.0)) == [1.0]
    assert compiler.wait(COMPILED_WITHIN_S)
    turns: list[float] = []
    while not tuner.over:
        turns += tuner.run(form(1.0))
    assert turns == [(takes_s, 1.0)[at % 2] for at in range(len(turns))]
    assert (tuner.chosen is other) == chosen
