"""Loops on a GPU: what they carry and keep stays there, and passes to the host where somebody wants it there."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import headrace as tf
from headrace.library.functions.calls import While
from headrace.library.functions.defun import Defun
from headrace.run.devices.device import Device
from headrace.run.devices.table import of_name
from tests.xla.test_fusion import chain, warm

GPU, OTHER, CPU = "/device:GPU:0", "/device:GPU:1", "/device:CPU:0"
ROWS = np.linspace(-1, 1, 6, dtype=np.float32).reshape(2, 3)
SOFT = tf.ConfigProto(allow_soft_placement=True)


@pytest.fixture(autouse=True)
def gpu(monkeypatch: pytest.MonkeyPatch) -> Iterator[Device]:
    monkeypatch.setenv("HEADRACE_XLA", "off")
    with tf.Graph().as_default():
        yield of_name(GPU)


Make = Callable[[], tuple[Any, dict[Any, Any]]]
"""(what is fetched, what is fed), of nodes in the default graph."""


def found(make: Make, device: str, steps: int = 3) -> tuple[list[Any], tuple[int, int]]:
    """What each step gives, and how many arrays the last one put on the GPU and got from there."""
    gpu = of_name(GPU)
    with tf.Graph().as_default():
        with tf.device(device):
            fetched, fed = make()
        with tf.Session(config=SOFT) as session:
            session.run(tf.global_variables_initializer())
            values = []
            for _ in range(steps):
                before = gpu.transfers["put"], gpu.transfers["got"]
                values.append(session.run(fetched, fed))
            after = gpu.transfers["put"], gpu.transfers["got"]
    return values, (after[0] - before[0], after[1] - before[1])


def agree(make: Make) -> tuple[int, int]:
    """What a step moves on the GPU, where it gives what it gives on the host."""
    there, moved = found(make, GPU)
    here, _ = found(make, CPU)
    for one, other in zip(tf.nest.flatten(there), tf.nest.flatten(here), strict=True):
        if one is not None:
            np.testing.assert_allclose(one, other, 1e-4, 1e-5)
    return moved


def recurrent(time: int, trains: bool, lengths: bool) -> Make:
    def make() -> tuple[Any, dict[Any, Any]]:
        x = tf.placeholder(tf.float32, [None, time, 3])
        fed: dict[Any, Any] = {x: np.linspace(-1, 1, 12 * time).reshape(4, time, 3)}
        ends = None
        if lengths:
            ends = tf.placeholder(tf.int32, [None])
            fed[ends] = np.arange(1, 5) * time // 4
        cell = tf.nn.rnn_cell.LSTMCell(4, initializer=tf.constant_initializer(0.3))
        outputs, state = tf.nn.dynamic_rnn(cell, x, ends, dtype=tf.float32)
        loss = tf.reduce_mean(tf.square(outputs)) + tf.reduce_sum(state.c)
        if not trains:
            return loss, fed
        return [loss, tf.train.GradientDescentOptimizer(0.1).minimize(loss)], fed

    return make


@pytest.mark.parametrize("trains", [False, True], ids=["runs", "trains"])
def test_a_recurrent_network_moves_what_is_fed_and_fetched(trains: bool) -> None:
    moved = [agree(recurrent(time, trains, False)) for time in (3, 20)]
    assert moved[0] == moved[1]
    assert moved[0] <= (2, 1)


def test_of_sequences_that_end_it_is_told_which_have_ended() -> None:
    moved = [agree(recurrent(time, True, True)) for time in (4, 8)]
    assert moved[1][0] - moved[0][0] == 4  # the truths of each iteration
    assert moved[1][1] == moved[0][1]


def test_a_condition_that_is_computed_there_is_got_in_each_iteration() -> None:
    def make() -> tuple[Any, dict[Any, Any]]:
        x = tf.placeholder(tf.float32, [3])
        y = tf.while_loop(lambda y: tf.reduce_sum(y) < 100.0, lambda y: y * 2.0 + 1.0, [x])
        return y, {x: [0.5, 1.0, 1.5]}

    value, times = np.array([0.5, 1.0, 1.5]), 0
    while value.sum() < 100.0:
        value, times = value * 2.0 + 1.0, times + 1
    assert agree(make) == (1, times + 2)


def test_what_the_host_wants_in_a_loop_it_gets() -> None:
    def make() -> tuple[Any, dict[Any, Any]]:
        x = tf.placeholder(tf.float32, [3])

        def body(i: Any, y: Any, told: Any) -> Any:
            with tf.device(CPU):
                told = told + tf.reduce_max(y) * tf.cast(i, tf.float32)
            return i + 1, tf.tanh(y) * 1.5 + told * 0.001, told

        return tf.while_loop(lambda i, *_: i < 6, body, [0, x, 0.0]), {x: [0.5, 1.0, 1.5]}

    agree(make)


def test_what_is_fed_is_put_once_for_all_iterations() -> None:
    def make() -> tuple[Any, dict[Any, Any]]:
        x, w = tf.placeholder(tf.float32, [2, 3]), tf.placeholder(tf.float32, [3, 3])
        y = tf.while_loop(
            lambda i, _: i < 7, lambda i, y: (i + 1, tf.tanh(tf.matmul(y, w))), [tf.constant(0), x]
        )
        return y[1], {x: ROWS, w: np.linspace(-1, 1, 9).reshape(3, 3)}

    assert agree(make) == (2, 1)


def test_branches_in_a_loop_hand_on_what_is_there() -> None:
    def make() -> tuple[Any, dict[Any, Any]]:
        x = tf.placeholder(tf.float32, [3])

        def body(i: Any, y: Any) -> Any:
            z = tf.cond(
                tf.equal(i % 2, 0),
                lambda: y * 2.0,
                lambda: tf.cond(i > 3, lambda: y - 1.0, lambda: y),
            )
            return i + 1, z

        total = tf.while_loop(lambda i, _: i < 8, body, [tf.constant(0), x])[1]
        return [total, tf.gradients(total, x)[0]], {x: [0.5, 1.0, 1.5]}

    agree(make)


def test_a_branch_gives_what_one_device_or_the_other_has() -> None:
    flag = tf.placeholder(tf.bool, [])
    x = tf.placeholder(tf.float32, [3])

    def on(device: str, factor: float) -> Callable[[], Any]:
        def way() -> Any:
            with tf.device(device):
                return tf.exp(x) * factor

        return way

    pairs = [(GPU, CPU), (CPU, GPU), (GPU, OTHER), (GPU, GPU)]
    made = [tf.cond(flag, on(one, 2.0), on(other, 3.0)) for one, other in pairs]
    with tf.device(GPU):
        made = [tf.square(each) for each in made]
    fed = [0.5, 1.0, 1.5]
    with tf.Session() as session:
        for way, factor in ((True, 2.0), (False, 3.0)):
            for each in session.run(made, {flag: way, x: fed}):
                np.testing.assert_allclose(each, np.square(np.exp(fed) * factor), 1e-5)


def test_a_loop_goes_from_one_device_to_another() -> None:
    x = tf.placeholder(tf.float32, [3])

    def body(i: Any, y: Any, z: Any) -> Any:
        with tf.device(GPU):
            more = y * 1.5 + 0.25 * z
        with tf.device(OTHER):
            other = tf.tanh(more) + z
        return i + 1, more, other

    loop = tf.while_loop(lambda i, *_: i < 5, body, [tf.constant(0), x, x])
    y = z = fed = np.array([0.5, 1.0, 1.5])
    for _ in range(5):
        y = y * 1.5 + 0.25 * z
        z = np.tanh(y) + z
    with tf.Session() as session:
        for one, other in zip(session.run(loop, {x: fed})[1:], (y, z), strict=True):
            np.testing.assert_allclose(one, other, 1e-5)


def test_loops_in_loops_stay_there() -> None:
    def make() -> tuple[Any, dict[Any, Any]]:
        x = tf.placeholder(tf.float32, [3])

        def outer(i: Any, y: Any) -> Any:
            inner = tf.while_loop(
                lambda j, _: j < 3, lambda j, z: (j + 1, z * 1.1 + y * 0.1), [tf.constant(0), y]
            )
            return i + 1, tf.tanh(inner[1])

        y = tf.while_loop(lambda i, _: i < 4, outer, [tf.constant(0), x])[1]
        return [y, tf.gradients(y, x)[0]], {x: [0.5, 1.0, 1.5]}

    assert agree(make) <= (2, 2)


def test_a_function_is_a_body_too() -> None:
    def make() -> tuple[Any, dict[Any, Any]]:
        x = tf.placeholder(tf.float32, [3])

        @Defun(tf.int32, tf.float32)
        def going(i: Any, y: Any) -> Any:
            return i < 6

        @Defun(tf.int32, tf.float32)
        def body(i: Any, y: Any) -> Any:
            return i + 1, tf.tanh(y * 1.5)

        return While([tf.constant(0), x], going, body)[1], {x: [0.5, 1.0, 1.5]}

    assert agree(make) == (1, 1)


def test_arrays_of_tensors_are_read_and_joined_there() -> None:
    def made(size: int) -> tuple[Any, dict[Any, Any]]:
        x = tf.placeholder(tf.float32, [size, 3])
        array = tf.TensorArray(tf.float32, size, clear_after_read=False).unstack(x)

        def body(i: Any, total: Any, out: Any) -> Any:
            # each element is read twice, so that its gradients add up
            value = array.read(i) * array.read(size - 1 - i)
            return i + 1, total + value, out.write(i, value[:2])

        start = [tf.constant(0), tf.zeros([3]), tf.TensorArray(tf.float32, size, infer_shape=False)]
        _, total, out = tf.while_loop(lambda i, *_: i < size, body, start)
        joined = out.concat()
        loss = tf.reduce_sum(total) + tf.reduce_sum(tf.square(joined))
        rows = np.linspace(-1, 1, 3 * size).reshape(size, 3)
        return [loss, joined, tf.gradients(loss, x)[0]], {x: rows}

    moved = [agree(lambda size=size: made(size)) for size in (4, 7)]  # type: ignore[misc]
    assert moved[0] == moved[1]


def test_bodies_are_compiled_as_they_are() -> None:
    x = tf.placeholder(tf.float32, [4])
    with tf.device(GPU):
        y = tf.while_loop(
            lambda i, _: i < 9, lambda i, y: (i + 1, chain(y, 3)), [tf.constant(0), x]
        )[1]
    fed, gpu = {x: [0.5, -0.5, 1.0, 2.0]}, of_name(GPU)
    with pytest.MonkeyPatch.context() as patch, tf.Session() as session:
        patch.setenv("HEADRACE_XLA", "on")
        before = session.run(y, fed)
        warm(session, y, fed)
        put, got = gpu.transfers["put"], gpu.transfers["got"]
        np.testing.assert_allclose(session.run(y, fed), before, 1e-5)
        assert (gpu.transfers["put"] - put, gpu.transfers["got"] - got) == (1, 1)
