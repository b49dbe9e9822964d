"""Depthwise convolutions by lines are those place by place, to the bit."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from headrace.ops._kernels import depthwise_lines
from headrace.ops.nn import depthwise
from headrace.run.exec.worker_pool import WorkerPool

CASES = [
    (images, channels, each, window, stride, dilation, padding)
    for images, channels, each, window, (stride, dilation), padding in itertools.product(
        (0, 1, 3), (1, 3), (1, 2), (1, 3), ((1, 1), (2, 1), (3, 1), (1, 2)), (b"VALID", b"SAME")
    )
]


@pytest.fixture(params=["a part", "many parts", "threads"])
def sharing(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Of the lines of an image."""
    if request.param == "many parts":
        monkeypatch.setattr(depthwise_lines, "_TOGETHER", 20)
    if request.param != "threads":
        yield
        return
    monkeypatch.setattr(depthwise_lines, "SHARED", 1)
    pool = WorkerPool(2)
    with pool:
        yield
    assert pool.started
    pool.close()


def results(case: tuple[Any, ...], wide: int = 6) -> list[bytes]:
    y, dx = values(case, wide)
    return [str(y.shape).encode(), y.tobytes(), str(dx.shape).encode(), (dx + 0).tobytes()]


def values(case: tuple[Any, ...], wide: int) -> tuple[Any, Any]:
    images, channels, each, window, stride, dilation, padding = case
    random = np.random.default_rng(1)
    x = random.normal(size=(images, 7, wide, channels)).astype(np.float32)
    filters = random.normal(size=(window, 2, channels, each)).astype(np.float32)
    attrs: dict[str, Any] = {
        "strides": [1, stride, stride, 1],
        "padding": padding,
        "explicit_paddings": [],
        "data_format": b"NHWC",
        "dilations": [1, dilation, dilation, 1],
    }
    y = depthwise.depthwise_conv2d_op.kernel(np, x, filters, **attrs)
    dy = random.normal(size=y.shape).astype(np.float32)
    sizes = np.array(x.shape, np.int32)
    dx = depthwise.depthwise_backprop_input_op.kernel(np, sizes, filters, dy, **attrs)
    return y, dx


@pytest.mark.usefixtures("sharing")
def test_lines_give_what_places_give(monkeypatch: pytest.MonkeyPatch) -> None:
    by_lines = [results(case) for case in CASES]
    monkeypatch.setattr(depthwise_lines, "_MOST_WEIGHTS", -1)
    by_places = [results(case) for case in CASES]
    assert len({each[1] for each in by_places}) > len(CASES) // 2
    for case, ours, wanted in zip(CASES, by_lines, by_places, strict=True):
        assert ours == wanted, case


@pytest.mark.usefixtures("sharing")
@pytest.mark.parametrize("wide", [6, 100])
def test_lines_that_are_summed_up_in_one_call_are_too(
    wide: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """But for products and sums that are rounded at once, where NumPy is compiled for such a processor."""
    monkeypatch.setattr(depthwise_lines, "_LONG", 2)
    at_once = [values(case, wide) for case in CASES]
    monkeypatch.setattr(depthwise_lines, "_LONG", 1 << 30)
    one_by_one = [values(case, wide) for case in CASES]
    assert any(found[0].size for found in at_once)
    for case, ours, wanted in zip(CASES, at_once, one_by_one, strict=True):
        for found, other in zip(ours, wanted, strict=True):
            assert found.shape == other.shape, case
            np.testing.assert_allclose(found, other, rtol=1e-5, atol=2e-6, err_msg=str(case))
