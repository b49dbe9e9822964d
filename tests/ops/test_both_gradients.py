"""Both gradients of a convolution from one layout of the output's gradient: the bits that they have one by one."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest

from headrace.ops._kernels import line_tiles
from headrace.ops._kernels.convolving import FilterGradient, input_gradient
from headrace.ops._kernels.windows import geometry
from headrace.run.exec.blas import multiplies_as_they_lie

Array = np.ndarray[Any, Any]
ONES = (1, 1, 1, 1)


def both(
    x: Array, filters: Array, dy: Array, padding: bytes, together: bool, seen: list[slice]
) -> tuple[Array, Array]:
    """Gradients of input and filters."""
    where = geometry(x.shape[1:3], filters.shape[:2], ONES, padding, b"NHWC", ONES)
    gradient = FilterGradient(where, *filters.shape[2:], len(x), x.dtype)
    dx = np.empty_like(x)
    multiply = gradient.with_input(x, filters, dx, seen.append) if together else None
    assert (multiply is not None) == together
    if multiply is None:
        input_gradient(dy, filters, where, dx)
    for number in range(len(gradient.shares)):
        gradient.add(number, x, lambda images: dy[images], multiply)
    return dx, gradient.result()


def arrays(n: int, size: int, window: int, padding: bytes) -> tuple[Array, Array, Array]:
    """x, filters, dy."""
    rng = np.random.default_rng(size)
    wide, less = 15 * window + 1, 0 if padding == b"SAME" else window - 1
    x = rng.standard_normal((n, size, wide, 16), np.float32)
    filters = rng.standard_normal((window, window, 16, 16), np.float32)
    return x, filters, rng.standard_normal((n, size - less, wide - less, 16), np.float32)


@pytest.mark.parametrize(
    ("n", "size", "window", "padding"),
    [*itertools.product((9, 33), (29, 30, 31, 32), (3, 5), (b"SAME", b"VALID"))],
)
def test_the_same_bits(
    n: int, size: int, window: int, padding: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also at the edges of pictures, where tiles meet fewer lines."""
    made: list[int] = []
    real = line_tiles.BothGradients.gradients

    def counting(self: Any, *args: Any) -> None:
        made.append(1)
        real(self, *args)

    # With kernels that copy nothing it is no gain, and sums may be made in another order.
    packs = not multiplies_as_they_lie()
    monkeypatch.setattr(line_tiles, "multiplies_as_they_lie", lambda: False)
    monkeypatch.setattr(line_tiles.BothGradients, "gradients", counting)
    x, filters, dy = arrays(n, size, window, padding)
    seen: list[slice] = []
    together = both(x, filters, dy, padding, True, seen)
    apart = both(x, filters, dy, padding, False, [])
    for one, other in zip(together, apart, strict=True):
        if packs:
            assert one.tobytes() == other.tobytes()
        else:
            np.testing.assert_allclose(one, other, rtol=2e-4, atol=2e-3)
    assert sorted(i for images in seen for i in range(images.start, images.stop)) == [*range(n)]
    if packs and window == 3 and padding == b"SAME":
        assert made


def test_what_follows_sees_the_gradient_of_the_input() -> None:
    """It is called when the images' part is there, before the filters' gradient uses the scratch memory again."""
    x, filters, dy = arrays(9, 32, 3, b"SAME")
    where = geometry((32, 46), (3, 3), ONES, b"SAME", b"NHWC", ONES)
    expected = np.empty_like(x)
    input_gradient(dy, filters, where, expected)
    gradient = FilterGradient(where, 16, 16, 9, x.dtype)
    dx = np.full_like(x, np.nan)
    seen = []

    def then(images: slice) -> None:
        seen.append(dx[images].tobytes() == expected[images].tobytes())

    multiply = gradient.with_input(x, filters, dx, then)
    assert multiply is not None
    for number in range(len(gradient.shares)):
        gradient.add(number, x, lambda images: dy[images], multiply)
    assert seen
    assert all(seen)
