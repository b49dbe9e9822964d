"""Large products of matrices: parts of them on a pool's threads."""

from __future__ import annotations

import itertools
import sys
import threading
from collections.abc import Iterator
from typing import Any, Literal

import numpy as np
import pytest

from headrace.graph.registry import OPS
from headrace.ops._kernels import product_parts
from headrace.run.exec.worker_pool import WorkerPool

Array = np.ndarray[Any, Any]


def product(x: Array, y: Array) -> Array:
    batch = x.ndim > 2 or y.ndim > 2
    flips = ("adj_x", "adj_y") if batch else ("transpose_a", "transpose_b")
    kernel = OPS["BatchMatMulV2" if batch else "MatMul"].kernel
    assert kernel is not None
    found: Array = kernel(np, x, y, **dict.fromkeys(flips, False))
    return found


@pytest.mark.parametrize(
    ("left", "right", "shared"),
    [
        ((50, 784), (784, 300), True), ((784, 50), (50, 300), True), ((50, 300), (300, 100), False),
        ((1000, 9000), (9000, 1), True), ((90, 30, 60), (90, 60, 70), True), ((2, 400, 100), (2, 100, 300), True),
        ((1, 400, 100), (2, 100, 300), False), ((2, 400, 100), (100, 300), False), ((2, 4, 5), (2, 5, 3), False),
    ],
)  # fmt: skip
def test_products_do_not_depend_on_the_number_of_threads(
    left: tuple[int, ...], right: tuple[int, ...], shared: bool
) -> None:
    rng = np.random.default_rng(0)
    x, y = (rng.standard_normal(shape, np.float32) for shape in (left, right))
    found = []
    for size in (1, 3):
        workers = WorkerPool(size)
        try:
            with workers:
                found.append(product(x, y))
            assert workers.started == (size - 1 if shared else 0)
        finally:
            workers.close()
    np.testing.assert_array_equal(*found)
    np.testing.assert_allclose(found[0], x.astype(np.float64) @ y.astype(np.float64), atol=1e-3)


@pytest.mark.parametrize("order", ["C", "F"])
@pytest.mark.parametrize("near", [1 << 14, 1 << 20])
def test_a_few_rows_times_a_matrix_that_is_read_as_it_lies(
    order: Literal["C", "F"], near: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    rng = np.random.default_rng(0)
    x = rng.standard_normal((45, 709), np.float32)
    y = np.asarray(rng.standard_normal((709, 300), np.float32), order=order)
    plain = product(x, y)
    monkeypatch.setattr(product_parts, "FAR", y.nbytes)
    monkeypatch.setattr(product_parts, "NEAR", near)
    assert not product_parts.is_large_product(x, y)  # what makes it for an update has other parts
    found = []
    for size in (1, 2, 3):
        workers = WorkerPool(size)
        try:
            with workers:
                found.append(product(x, y))
        finally:
            workers.close()
    assert [made.tobytes() for made in found] == [found[0].tobytes()] * 3
    np.testing.assert_allclose(found[0], x.astype(np.float64) @ y.astype(np.float64), atol=1e-3)
    np.testing.assert_allclose(found[0], plain, atol=1e-3)


@pytest.mark.parametrize(
    ("left", "right", "order", "so"),
    [
        ((64, 2000), (2000, 1000), "C", True), ((65, 2000), (2000, 1000), "C", False),
        ((64, 1000), (1000, 2000), "C", False), ((64, 1000), (1000, 2000), "F", True),
        ((64, 1000), (1000, 1000), "F", False), ((64, 40000), (40000, 50), "F", False),
    ],
)  # fmt: skip
def test_it_is_read_so_where_that_is_a_gain(
    left: tuple[int, int], right: tuple[int, int], order: Literal["C", "F"], so: bool
) -> None:
    x, y = np.zeros(left, np.float32), np.zeros(right, np.float32, order=order)
    assert (product_parts._in_order(x, y) is not None) == so
    assert (
        product_parts._in_order(x, np.zeros((right[0], 2 * right[1]), np.float32)[:, ::2]) is None
    )


def test_parts_follow_from_the_size_alone() -> None:
    assert [product_parts.count_of_parts(1 << bits) for bits in (23, 24, 25, 27, 29, 40)] == [
        2,
        2,
        4,
        8,
        16,
        16,
    ]


@pytest.mark.parametrize(
    ("rows", "columns", "across", "by_rows"),
    [
        (512, 512, False, True), (512, 512, True, False), (512, 784, False, False),
        (1024, 512, True, False), (2048, 512, True, True), (784, 512, False, True),
    ],
)  # fmt: skip
def test_a_factor_that_lies_across_is_cut_and_not_laid_out_for_each_part(
    rows: int, columns: int, across: bool, by_rows: bool
) -> None:
    x = np.zeros((rows, 256), np.float32)
    y = np.zeros((columns, 256), np.float32).T if across else np.zeros((256, columns), np.float32)
    parts = product_parts.parts_of_product(x, y, rows * y.size)
    cut, whole = (0, columns) if by_rows else (1, rows)
    assert len(parts) > 1
    assert all(part[1 - cut].indices(whole) == (0, whole, 1) for part in parts)
    covered = [at for part in parts for at in range(*part[cut].indices((rows, columns)[cut]))]
    assert covered == list(range((rows, columns)[cut]))


@pytest.mark.parametrize("kind", [np.float32, np.float64])
@pytest.mark.parametrize("reads", [True, False])
@pytest.mark.parametrize(
    "sides", [(392, 50, 1024), (395, 64, 1030), (50, 128, 1030), (7, 3, 5), (2000, 1, 900)]
)
def test_a_product_of_short_sums_is_the_product(
    sides: tuple[int, int, int], reads: bool, kind: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whether or not it is made of small ones, of rows or of columns, with some left over; and lies across."""
    monkeypatch.setattr(product_parts, "multiplies_as_they_lie", lambda: reads)
    rows, summed, columns = sides
    rng = np.random.default_rng(0)
    for across in (False, True):
        x = rng.integers(-4, 5, (summed, rows)).astype(kind).T
        y = rng.integers(-4, 5, (columns, summed)).astype(kind).T
        if not across:
            x, y = np.ascontiguousarray(x), np.ascontiguousarray(y)
        room = np.full((rows, columns + 6), np.nan, kind)
        product_parts.multiply(x, y, room[:, 3:-3])
        np.testing.assert_array_equal(room[:, 3:-3], x @ y)
        assert np.isnan(room[:, :3]).all()
        assert np.isnan(room[:, -3:]).all()


@pytest.fixture
def no_turns() -> Iterator[None]:
    """A thread that holds the interpreter's lock keeps it until it lets go by itself."""
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1000)
    try:
        yield
    finally:
        sys.setswitchinterval(interval)


@pytest.mark.usefixtures("no_turns")
@pytest.mark.parametrize("shape", [(3, 3), (1, 1), (1, 20), (20, 1), (20, 20)])
@pytest.mark.parametrize("into", [False, True])
def test_another_thread_runs_while_few_long_sums_are_made(
    shape: tuple[int, int], into: bool
) -> None:
    rows, columns = shape
    x, y = np.ones((rows, 1_000_000), np.float32), np.ones((1_000_000, columns), np.float32)
    out = np.empty(shape, np.float32) if into else None
    begins, ran = threading.Event(), False

    def other() -> None:
        nonlocal ran
        begins.wait()
        ran = True

    thread = threading.Thread(target=other)
    thread.start()
    begins.set()
    for _ in range(100):  # each takes some ms, and the other may be slow to wake up
        found = product_parts.multiply_matrices(x, y, out)
        if ran:
            break
    seen = ran
    thread.join()
    assert seen
    assert (found == 1_000_000).all()


def laid(x: Array) -> Iterator[Array]:
    """An array as it may lie in memory."""
    yield x.copy()
    yield np.asfortranarray(x)
    yield np.ascontiguousarray(x[::-1])[::-1]
    apart = np.empty((2 * x.shape[0], 3 * x.shape[1]), x.dtype)[::2, ::3]
    apart[...] = x
    yield apart
    odd = np.frombuffer(bytearray(x.nbytes + 1), np.uint8)[1:].view(x.dtype).reshape(x.shape)
    odd[...] = x
    yield odd


@pytest.mark.parametrize("kind", ["f", "d", "F", "D", "e", "i", ">f4"])
@pytest.mark.parametrize("shape", [(1, 1), (1, 9), (7, 1), (3, 5)])
def test_few_long_sums_of_any_dtype_wherever_they_lie(kind: str, shape: tuple[int, int]) -> None:
    rng = np.random.default_rng(0)
    rows, columns = shape
    x, y = (rng.integers(-4, 5, each).astype(kind) for each in ((rows, 70000), (70000, columns)))
    wanted = np.matmul(x, y)
    kept = np.empty((2 * rows, columns), wanted.dtype)
    for one, other in itertools.product(laid(x), laid(y)):
        outs = (None, np.empty_like(wanted), np.empty_like(wanted, order="F"), kept[::2])
        for out in outs:
            found = product_parts.multiply_matrices(one, other, out)
            assert out is None or found is out
            assert found.dtype == wanted.dtype
            if kind != "e":
                np.testing.assert_array_equal(found, wanted)


def test_few_sums_of_nothing_and_of_what_is_no_number() -> None:
    for rows, inner, columns in ((3, 0, 3), (0, 70000, 3), (3, 70000, 0)):
        made = product_parts.multiply_matrices(np.ones((rows, inner)), np.ones((inner, columns)))
        np.testing.assert_array_equal(made, np.zeros((rows, columns)))
    x, y = np.ones((3, 70000), np.float32), np.ones((70000, 3), np.float32)
    x[0, 5], x[1, 7], y[9, 2] = np.nan, np.inf, -np.inf
    with np.errstate(all="ignore"):
        found = product_parts.multiply_matrices(x, y)
    wanted = [[np.nan] * 3, [np.inf, np.inf, np.nan], [70000, 70000, -np.inf]]
    np.testing.assert_array_equal(found, wanted)
