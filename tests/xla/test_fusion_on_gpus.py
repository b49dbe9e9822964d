"""Groups of nodes on a GPU, compiled to one program each: what they give, where they are, and what they leave alone."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
import pytest

import headrace as tf
from headrace.base import errors
from headrace.run.devices.device import Device
from headrace.run.devices.table import of_name
from headrace.run.exec.fused import FusedKernel, compiler
from headrace.run.exec.tuning import AFTER
from headrace.run.exec.whole_loops import LoopProgram
from tests.xla.test_fusion import COMPILED_WITHIN_S, chain, warm

GPUS = ["/device:GPU:0", "/device:GPU:1"]
ROWS = np.linspace(-1, 1, 12, dtype=np.float32).reshape(4, 3)


@pytest.fixture(autouse=True)
def graph(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setenv("HEADRACE_XLA", "on")
    with tf.Graph().as_default():
        yield


@pytest.fixture
def fused(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The devices on which something compiled has run."""
    original, where = FusedKernel.__call__, []

    def noting(kernel: FusedKernel, values: Sequence[Any]) -> Any:
        found = original(kernel, values)
        if found is not None:
            where.append(kernel._device.name)
        return found

    monkeypatch.setattr(FusedKernel, "__call__", noting)
    of_loops = LoopProgram.run

    def noting_loops(program: LoopProgram, *given: Any) -> Any:
        found = of_loops(program, *given)
        if found is not None:
            where.append(program._device.name)
        return found

    monkeypatch.setattr(LoopProgram, "run", noting_loops)
    return where


def moved(gpu: Device) -> tuple[int, int]:
    return gpu.transfers["put"], gpu.transfers["got"]


def test_a_chain_is_one_program_where_it_is_placed(fused: list[str]) -> None:
    x = tf.placeholder(tf.float32, [None])
    with tf.device(GPUS[0]):
        y = chain(x)
    fed = {x: np.linspace(-1, 1, 50)}
    with tf.Session() as session:
        before = session.run(y, fed)
        warm(session, y, fed)
        put, got = moved(of_name(GPUS[0]))
        fused.clear()
        after = session.run(y, fed)
    assert fused == ["GPU:0"]
    assert moved(of_name(GPUS[0])) == (put + 1, got + 1)
    np.testing.assert_allclose(before, after, 1e-5, 1e-6)
    after[0] = 0.0  # it is the caller's own


def test_groups_of_two_gpus_are_apart(fused: list[str]) -> None:
    x = tf.placeholder(tf.float32, [4, 3])
    found = x
    for device in (*GPUS, GPUS[0]):
        with tf.device(device):
            found = chain(found, 4)
    with tf.Session() as session:
        before = session.run(found, {x: ROWS})
        warm(session, found, {x: ROWS})
        fused.clear()
        np.testing.assert_allclose(session.run(found, {x: ROWS}), before, 1e-5)
    assert fused == ["GPU:0", "GPU:1", "GPU:0"]


@pytest.mark.parametrize("handles", [False, True], ids=["references", "handles"])
def test_a_model_trains_the_same_and_copies_nothing(fused: list[str], handles: bool) -> None:
    def weights_after(device: str) -> Any:
        with tf.Graph().as_default(), tf.device(device):
            weights = tf.Variable(ROWS.T * 0.5, use_resource=handles)
            hidden = tf.tanh(tf.matmul(tf.constant(ROWS), weights)) * 1.5 + 0.25
            loss = tf.reduce_mean(tf.square(hidden - 0.5))
            train = tf.train.AdamOptimizer(0.05).minimize(loss)
            with tf.Session() as session:
                session.run(tf.global_variables_initializer())
                for _ in range(AFTER + 5):
                    session.run(train)
                    assert compiler.wait(COMPILED_WITHIN_S)
                kept = moved(of_name(GPUS[0]))
                for _ in range(3):
                    session.run(train)
                assert moved(of_name(GPUS[0])) == kept
                return session.run(weights)

    there = weights_after(GPUS[0])
    assert "GPU:0" in fused
    np.testing.assert_allclose(there, weights_after("/cpu:0"), 1e-3, 1e-5)


def test_a_variable_is_read_before_and_after_it_changes(fused: list[str]) -> None:
    with tf.device(GPUS[0]):
        variable = tf.Variable(ROWS)
        before = chain(variable, 3)
        with tf.control_dependencies([before]):
            more = variable.assign_add(ROWS)
        with tf.control_dependencies([more]):
            after = chain(variable.read_value(), 3)
    with tf.Session() as session:
        for _ in range(2 * AFTER):
            session.run(variable.initializer)
            found = session.run([before, after])
            assert compiler.wait(COMPILED_WITHIN_S)
            for value, times in zip(found, (1, 2), strict=True):
                wanted = ROWS * times
                for _ in range(3):
                    wanted = np.tanh(wanted * 1.5 + 0.25)
                np.testing.assert_allclose(value, wanted, 1e-5)
    assert "GPU:0" in fused


def test_loops_have_compiled_bodies(fused: list[str]) -> None:
    x = tf.placeholder(tf.float32, [4])
    with tf.device(GPUS[0]):
        _, loop = tf.while_loop(
            lambda i, _: i < 5, lambda i, y: (i + 1, chain(y, 3)), [tf.constant(0), x]
        )
    fed = {x: [0.5, -0.5, 1.0, 2.0]}
    with tf.Session() as session:
        before = session.run(loop, fed)
        warm(session, loop, fed)
        np.testing.assert_allclose(session.run(loop, fed), before, 1e-5)
    assert "GPU:0" in fused


def test_what_fails_names_its_node(fused: list[str]) -> None:
    labels = tf.placeholder(tf.int64, [2])
    logits = tf.placeholder(tf.float32, [2, 3])
    with tf.device(GPUS[0]):
        loss = tf.nn.sparse_softmax_cross_entropy_with_logits(labels=labels, logits=chain(logits))
    fed: dict[Any, Any] = {labels: [0, 2], logits: np.ones((2, 3))}
    with tf.Session() as session:
        warm(session, loss, fed)
        assert fused
        with pytest.raises(errors.InvalidArgumentError, match="label value of 7") as info:
            session.run(loss, {**fed, labels: [0, 7]})
        assert info.value.op.type == "SparseSoftmaxCrossEntropyWithLogits"
        session.run(loss, fed)


def test_a_program_without_memory_is_done_node_by_node(
    fused: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(function: Callable[..., Any]) -> Callable[..., Any]:
        calls = []

        def run(values: Sequence[Any]) -> list[Any]:
            calls.append(values)
            if len(calls) > 1:  # the first is where it is compiled
                raise errors.resource_exhausted("OOM")
            return []

        return run

    x = tf.placeholder(tf.float32, [4, 3])
    with tf.device(GPUS[0]):
        y = chain(x, 4)
    gpu = of_name(GPUS[0])
    with tf.Session() as session:
        before = session.run(y, {x: ROWS})
        monkeypatch.setattr(gpu, "compiled", full)
        warm(session, y, {x: ROWS})
        np.testing.assert_array_equal(session.run(y, {x: ROWS}), before)
    assert not fused
