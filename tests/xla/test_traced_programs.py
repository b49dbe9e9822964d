"""Operations as parts of programs that XLA compiles, each beside others: they give what the host does."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import partial
from typing import Any

import numpy as np
import pytest

import headrace as tf
from headrace.plan.explain import explaining
from tests.support.device_programs import IMAGES, drawn, fed, raw
from tests.support.device_programs import PROGRAMS as DEVICE_PROGRAMS
from tests.support.picture_and_sound_programs import PROGRAMS
from tests.xla.test_draws import CPU, GPU, in_steps


@pytest.fixture(autouse=True)
def graph(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setenv("HEADRACE_XLA", "on")
    with tf.Graph().as_default():
        yield


TRACED = {
    "images scaled and moved": {"ScaleAndTranslate", "ScaleAndTranslateGrad"},
    "boxes that are drawn": {"DrawBoundingBoxes", "DrawBoundingBoxesV2"},
    "glimpses": {"ExtractGlimpse", "ExtractGlimpseV2"},
    "fractional pooling": {
        "FractionalMaxPool", "FractionalMaxPoolGrad", "FractionalAvgPool", "FractionalAvgPoolGrad",
    },
    "labellings": {"CTCLoss"},
    "sound": {"AudioSpectrogram", "Mfcc"},
}  # fmt: skip


def _beside_others(name: str) -> list[tf.Tensor]:
    """What a program gives, and more that is made of it."""
    made = PROGRAMS[name]()
    floats = [each for each in made if each.dtype.is_floating]
    return [*made, *[each for one in floats for each in (tf.tanh(one * 0.5), tf.abs(one))]]


@pytest.mark.parametrize("device", [CPU, GPU])
@pytest.mark.parametrize("name", PROGRAMS)
def test_a_program_gives_what_the_host_does(
    name: str, device: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    said: list[str] = []
    with explaining(said.append):
        found = in_steps(device, partial(_beside_others, name))
    groups = [line for line in "".join(said).splitlines() if "= fused [" in line]
    for op in TRACED.get(name, ()):
        assert any(re.search(rf"\b{op}\b", line) for line in groups), op
    monkeypatch.setenv("HEADRACE_XLA", "off")
    (wanted,) = in_steps(CPU, partial(_beside_others, name), 1)
    for ours in (found[0], found[-1]):
        for each, hosts in zip(ours, wanted, strict=True):
            assert np.asarray(each).dtype == np.asarray(hosts).dtype
            np.testing.assert_allclose(each, hosts, rtol=2e-5, atol=2e-5)


def _noisy() -> list[tf.Tensor]:
    x = drawn(*IMAGES) * 2.0
    return [
        raw.ExtractGlimpse(
            input=x, size=[9, 9], offsets=[[0.0, 0.0]] * 2, uniform_noise=noise == "uniform", noise=noise
        )
        + 0.0
        for noise in ("uniform", "gaussian")
    ] + [x]  # fmt: skip


@pytest.mark.parametrize("device", [CPU, GPU])
def test_noise_is_another_in_each_step(device: str) -> None:
    found = in_steps(device, _noisy)
    for uniform, gaussian, x in found:
        for made in (uniform, gaussian):
            assert made.min() >= x.min()
            assert made.max() <= x.max()
            np.testing.assert_array_equal(made[:, 2:7, 2:6], x)
    for at in (0, 1):
        edges: Any = np.stack([each[at][:, 0, :, 0] for each in found])
        assert len(np.unique(edges[:, 0, :4])) > len(found)


def test_a_loop_of_a_single_node_is_compiled_once(monkeypatch: pytest.MonkeyPatch) -> None:
    from headrace.ops._portable.programs import _compiled

    monkeypatch.setenv("HEADRACE_XLA", "off")
    _compiled.cache_clear()
    for _ in range(2):
        in_steps(GPU, DEVICE_PROGRAMS["an lstm"], 3)
    found = _compiled.cache_info()
    assert (found.misses, found.hits) == (2, 10)  # forth and back


def _with_one_that_cannot_be() -> list[tf.Tensor]:
    """The standard has no exclusive product."""
    made: Any = drawn(6, 5)
    for _ in range(6):
        made = tf.tanh(made * 1.5)
    made = tf.cumprod(made, axis=1, exclusive=True)
    for _ in range(6):
        made = tf.tanh(made * 1.5)
    return [made]


@pytest.mark.parametrize("device", [CPU, GPU])
def test_what_cannot_be_traced_is_left_out_and_the_rest_is_compiled(device: str) -> None:
    said: list[str] = []
    with explaining(said.append):
        found = in_steps(device, _with_one_that_cannot_be)
    groups = [line for line in "".join(said).splitlines() if "= fused [" in line]
    without = [line for line in groups if "Cumprod" not in line and "Mul Tanh]" in line]
    assert len(without) >= 2
    for ours in found:
        np.testing.assert_allclose(ours[0], found[0][0], 1e-5, 1e-6)


def _whole_numbers() -> list[tf.Tensor]:
    x = fed([-2.9, -0.5, 0.0, 1.5, 127.0, 99.9]) * 1.0
    kinds = (tf.int8, tf.int32, tf.int64, tf.uint8)
    made = [tf.cast(x if kind.min < 0 else tf.abs(x), kind) for kind in kinds]
    wide = tf.cast(tf.cast(x, tf.float64), tf.int64)
    return [tf.tanh(tf.cast(each, tf.float32)) for each in (*made, wide)] + made


@pytest.mark.parametrize("device", [CPU, GPU])
def test_floats_become_whole_numbers_there(device: str, monkeypatch: pytest.MonkeyPatch) -> None:
    said: list[str] = []
    with explaining(said.append):
        found = in_steps(device, _whole_numbers)
    assert any("fused [" in line and "Cast" in line for line in "".join(said).splitlines())
    monkeypatch.setenv("HEADRACE_XLA", "off")
    (wanted,) = in_steps(CPU, _whole_numbers, 1)
    for each, hosts in zip(found[-1], wanted, strict=True):
        assert each.dtype == hosts.dtype
        np.testing.assert_allclose(each, hosts, 1e-6)


@pytest.mark.parametrize("device", [CPU, GPU])
def test_what_does_not_fit_a_whole_number_is_the_hosts(
    device: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def program() -> list[tf.Tensor]:
        x = fed([np.nan, np.inf, -np.inf, 3e9, -3e9, 300.0]) * 1.0
        return [tf.cast(x, kind) for kind in (tf.int32, tf.int64)] + [
            tf.tanh(x * n) for n in range(5)
        ]

    found = in_steps(device, program)
    monkeypatch.setenv("HEADRACE_XLA", "off")
    (wanted,) = in_steps(CPU, program, 1)
    for each, hosts in zip(found[-1], wanted, strict=True):
        np.testing.assert_allclose(each, hosts, 1e-6)


def _of_complex_numbers() -> list[tf.Tensor]:
    z = tf.complex(drawn(3, 4), drawn(4, 3)[:3, :1] + 1.5)
    found: list[Any] = [
        tf.squared_difference(z, z * z),
        tf.tanh(z),
        tf.sigmoid(z),
        tf.sqrt(z),
        tf.rsqrt(z),
        1.0 / z,
    ]
    found.append(tf.reciprocal(z))
    slopes = [tf.gradients(each, z, tf.complex(drawn(3, 4), drawn(3, 4)))[0] for each in found]
    wide = tf.cast(z, tf.complex128)
    narrow = [getattr(raw, name)(input=wide, Tout=tf.float32) for name in ("Real", "Imag", "Angle")]
    parts = tf.cast(drawn(3, 4), tf.float64)
    narrow += [raw.ComplexAbs(x=wide, Tout=tf.float32), raw.Complex(real=parts, imag=-parts)]
    return [*found, *slopes, *narrow]


@pytest.mark.parametrize("device", [CPU, GPU])
def test_complex_numbers_are_the_hosts(device: str, monkeypatch: pytest.MonkeyPatch) -> None:
    found = in_steps(device, _of_complex_numbers)
    monkeypatch.setenv("HEADRACE_XLA", "off")
    (wanted,) = in_steps(CPU, _of_complex_numbers, 1)
    for ours in (found[0], found[-1]):
        for each, hosts in zip(ours, wanted, strict=True):
            assert each.dtype == hosts.dtype
            np.testing.assert_allclose(each, hosts, 2e-5, 1e-5)
