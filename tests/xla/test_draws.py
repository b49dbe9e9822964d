"""Random numbers in steps that XLA compiles, and on GPUs: those of the host, however many steps came before."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import headrace as tf
from headrace.plan.explain import explaining
from headrace.run.devices import table
from headrace.run.exec.fused import compiler
from headrace.run.exec.tuning import AFTER
from tests.xla.test_fusion import COMPILED_WITHIN_S

CPU, GPU = "/cpu:0", "/device:GPU:0"
STEPS = AFTER + 6
SOFT = tf.ConfigProto(allow_soft_placement=True)


@pytest.fixture(autouse=True)
def graph(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setenv("HEADRACE_XLA", "on")
    with tf.Graph().as_default():
        yield


def in_steps(device: str, program: Any, steps: int = STEPS) -> list[Any]:
    """What it gives step after step: one by one first, and then compiled, unless that is off."""
    with tf.Graph().as_default(), tf.device(device):
        wanted = program()
        with tf.Session(config=SOFT) as session:
            session.run(tf.global_variables_initializer())
            found = []
            for _ in range(steps):
                found.append(session.run(wanted))
                assert compiler.wait(COMPILED_WITHIN_S)
    return found


def _of_several() -> list[tf.Tensor]:
    """Of each kind, what is computed of it."""
    uniform = tf.random_uniform([33], seed=1)
    wide = tf.random_uniform([5, 7], seed=2, dtype=tf.float64)
    normal = tf.random_normal([40], seed=3)
    whole = tf.random_uniform([9], -5, 2**40, tf.int64, seed=4)
    again = tf.random_uniform([33], seed=1)
    loose = tf.random_uniform([8])
    kept = tf.cast(loose >= 0.0, tf.float32) * tf.cast(loose < 1.0, tf.float32)
    return [uniform + again, wide * 1.0, normal * 1.0, whole + 1, tf.floor(uniform * 8.0), kept]


@pytest.mark.parametrize("device", [CPU, GPU])
def test_groups_draw_what_the_host_does(device: str, monkeypatch: pytest.MonkeyPatch) -> None:
    said: list[str] = []
    with explaining(said.append):
        found = in_steps(device, _of_several)
    groups = [line for line in "".join(said).splitlines() if "= fused [" in line]
    assert any("RandomUniform" in line and "RandomStandardNormal" in line for line in groups)
    monkeypatch.setenv("HEADRACE_XLA", "off")
    for ours, hosts in zip(found, in_steps(CPU, _of_several), strict=True):
        for at, (each, wanted) in enumerate(zip(ours, hosts, strict=True)):
            assert each.dtype == wanted.dtype
            np.testing.assert_array_max_ulp(each, wanted, 4 if at == 2 else 0)


def _of_arrays() -> list[tf.Tensor]:
    rows = tf.tanh(
        tf.constant(np.linspace(-1, 1, 60).reshape(12, 5), tf.float32)
        + tf.random_uniform([5], seed=1)
    )
    orders = tf.random_shuffle(rows * 2.0, seed=5) + 1.0
    return [orders, tf.cast(tf.multinomial(rows, 9, seed=3), tf.float32) * 0.5, tf.tanh(rows)]


@pytest.mark.parametrize("device", [CPU, GPU])
def test_of_what_a_group_makes_shapes_are_enough(
    device: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    said: list[str] = []
    with explaining(said.append):
        found = in_steps(device, _of_arrays)
    groups = [line for line in "".join(said).splitlines() if "= fused [" in line]
    assert any("RandomShuffle" in line and "Multinomial" in line for line in groups)
    monkeypatch.setenv("HEADRACE_XLA", "off")
    for ours, hosts in zip(found, in_steps(CPU, _of_arrays), strict=True):
        for each, wanted in zip(ours, hosts, strict=True):
            np.testing.assert_allclose(each, wanted, 1e-5, 1e-6)


def test_many_normal_numbers_are_the_hosts_to_4_units() -> None:
    gpu = table.of_name(GPU)
    before = gpu.transfers["put bytes"]
    for kind in (tf.float32, tf.float64):

        def draw(kind: Any = kind) -> tf.Tensor:
            return tf.random_normal([50_000], dtype=kind, seed=7)

        (there,), (here,) = in_steps(GPU, draw, 1), in_steps(CPU, draw, 1)
        np.testing.assert_array_max_ulp(there, here, 4)
    assert gpu.transfers["put bytes"] - before < 1000  # what was taken, not the numbers


def _trained_with_dropout() -> list[tf.Tensor]:
    rows = tf.constant(np.linspace(-1, 1, 60).reshape(12, 5), tf.float32)
    weights = tf.get_variable("w", initializer=np.full((5, 8), 0.1, np.float32))
    hidden = tf.nn.dropout(tf.tanh(tf.matmul(rows, weights)) + 0.5, 0.6, seed=11)
    loss = tf.reduce_mean(tf.square(hidden - 0.25))
    return [loss, tf.train.MomentumOptimizer(0.1, 0.9).minimize(loss)]


@pytest.mark.parametrize("device", [CPU, GPU])
def test_dropout_in_a_training_is_the_hosts(device: str, monkeypatch: pytest.MonkeyPatch) -> None:
    said: list[str] = []
    with explaining(said.append):
        found = in_steps(device, _trained_with_dropout)
    groups = [line for line in "".join(said).splitlines() if "= fused [" in line]
    assert any("RandomUniform" in line for line in groups)
    monkeypatch.setenv("HEADRACE_XLA", "off")
    wanted = in_steps(CPU, _trained_with_dropout)
    np.testing.assert_allclose([each[0] for each in found], [each[0] for each in wanted], 1e-4)


def test_narrow_numbers_are_the_hosts() -> None:
    def draw() -> list[tf.Tensor]:
        kinds = (tf.float16, tf.bfloat16)
        drawn = [tf.random_uniform([101], dtype=kind, seed=3) for kind in kinds]
        return [*drawn, tf.random_normal([101], dtype=tf.float16, seed=3)]

    (there,), (here,) = in_steps(GPU, draw, 1), in_steps(CPU, draw, 1)
    for ours, hosts in zip(there, here, strict=True):
        assert ours.dtype == hosts.dtype
        np.testing.assert_allclose(ours.astype(float), hosts.astype(float), rtol=1e-3)
    np.testing.assert_array_equal(there[0], here[0])
    np.testing.assert_array_equal(there[1], here[1])
