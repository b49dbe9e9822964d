"""Kernels that have a short way for what is nearly always given: it gives what the long one does."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from headrace.base.dtypes import int32
from headrace.graph.registry import get
from headrace.ops._kernels.fingerprints import farm

RNG = np.random.default_rng(11)
LOW, HIGH = np.iinfo(np.int64).min, np.iinfo(np.int64).max


def kernel(name: str) -> Any:
    found = get(name).kernel
    assert found is not None
    return found


VECTORS = {
    "few": RNG.integers(-3, 3, 20),
    "close": RNG.integers(-50, 50, 300),
    "close to the lowest": LOW + RNG.integers(0, 50, 300),
    "close to the highest": HIGH - RNG.integers(0, 50, 300),
    "far apart": RNG.integers(LOW, HIGH, 300).repeat(2),
    "from one end to the other": np.array([LOW, HIGH, 0, LOW] * 20),
    "of 32 bits": RNG.integers(-50, 50, 300).astype(np.int32),
    "of 8 bits": RNG.integers(-128, 127, 300).astype(np.int8),
    "unsigned": RNG.integers(0, 9, 300).astype(np.uint64) + np.uint64(HIGH),
    "truths": RNG.integers(0, 2, 10).astype(bool),
    "floats": np.append(RNG.integers(0, 9, 300) / 3, [0.0, -0.0]),
    "none": np.zeros(0, np.int64),
}


@pytest.mark.parametrize("case", VECTORS)
def test_different_elements_come_in_the_order_in_which_they_occur(case: str) -> None:
    x = VECTORS[case]
    y, places, counts = kernel("UniqueWithCounts")(np, x, out_idx=int32)
    wanted = list(dict.fromkeys(x.tolist()))
    assert y.tolist() == wanted
    assert y.dtype == x.dtype
    assert y[places].tolist() == x.tolist()
    assert counts.tolist() == [x.tolist().count(each) for each in wanted]
    found = kernel("Unique")(np, x, out_idx=int32)
    assert [each.tolist() for each in found] == [y.tolist(), places.tolist()]
    assert found[1].dtype == np.int32


def filled(rows: list[int], values: list[int], count: int) -> tuple[list[Any], ...]:
    """What SparseFillEmptyRows gives, by the book; the second index of an element is its place."""
    out: list[tuple[list[int], int]] = []
    places = [0] * len(rows)
    for row in range(count):
        inside = [at for at, each in enumerate(rows) if each == row]
        for at in inside:
            places[at] = len(out)
            out.append(([row, at], values[at]))
        if not inside:
            out.append(([row, 0], -7))
    return [each for each, _ in out], [each for _, each in out], places


@pytest.mark.parametrize("count", [1, 5, 40])
@pytest.mark.parametrize("order", ["one each", "in order", "in any order", "none"])
def test_rows_without_elements_get_one(order: str, count: int) -> None:
    rows = {
        "one each": np.arange(count),
        "in order": np.sort(RNG.integers(0, count, count)),
        "in any order": RNG.integers(0, count, 2 * count),
        "none": np.zeros(0, np.int64),
    }[order]
    values = RNG.integers(0, 99, len(rows))
    indices = np.stack([rows, np.arange(len(rows))], axis=1).astype(np.int64)
    given = indices.copy(), values.copy()
    found = kernel("SparseFillEmptyRows")(np, indices, values, np.array([count, 99]), np.int64(-7))
    wanted, numbers, places = filled(rows.tolist(), values.tolist(), count)
    assert [found[0].tolist(), found[1].tolist(), found[3].tolist()] == [wanted, numbers, places]
    assert found[2].tolist() == [row not in rows.tolist() for row in range(count)]
    for each in found:
        each[...] = 0  # they are the step's own
    assert np.array_equal(indices, given[0])
    assert np.array_equal(values, given[1])


def test_fingerprints_of_strings_that_repeat_are_those_of_each_alone() -> None:
    words = [bytes(RNG.integers(0, 256, size, np.uint8)) for size in (0, 1, 4, 9, 20, 40, 64, 65)]
    wanted = [int(farm([word])[0]) for word in words]
    drawn = RNG.integers(0, len(words), 100)
    for _ in range(2):
        found = farm([words[at] for at in drawn])
        assert found.dtype == np.uint64
        assert found.tolist() == [wanted[at] for at in drawn]
    assert farm([*words, b"another"])[:-1].tolist() == wanted


def test_crosses_of_one_element_a_row_are_those_among_others() -> None:
    count = 30
    ids = RNG.integers(0, 9, count + 2)
    rows = np.append(np.arange(count), [count, count])
    indices = np.stack([rows, np.append(np.zeros(count, int), [0, 1])], axis=1)
    words = np.array([b"w%d" % at for at in range(count + 1)], object).reshape(-1, 1)
    attrs = {"N": 1, "hashed_output": True, "num_buckets": 100, "hash_key": 0xDECAFCAFFE}
    short = kernel("SparseCross")(
        np, indices[:count], ids[:count], np.array([count, 1]), words[:count], **attrs
    )
    long = kernel("SparseCross")(np, indices, ids, np.array([count + 1, 2]), words, **attrs)
    assert short[2].tolist() == [count, 1]
    assert long[2].tolist() == [count + 1, 2]
    for one, other in zip(short[:2], long[:2], strict=True):
        assert np.array_equal(one, other[:count])
        assert one.dtype == np.int64
    texts = kernel("SparseCrossV2")(
        np,
        indices[:count],
        ids[:count],
        np.array([count, 1]),
        words[:count],
        np.array(b"&", object),
        N=1,
    )
    assert texts[1].tolist() == [b"%d&w%d" % (ids[at], at) for at in range(count)]


@pytest.mark.parametrize("name", ["SparseSegmentSum", "SparseSegmentMean", "SparseSegmentSqrtN"])
def test_segments_of_one_row_are_those_among_others(name: str) -> None:
    data = RNG.standard_normal((7, 3)).astype(np.float32)
    chosen = RNG.integers(0, 7, 12)
    segments = np.append(np.arange(11), 10)
    short = kernel(name)(np, data, chosen[:10], segments[:10])
    long = kernel(name)(np, data, chosen, segments)
    assert np.array_equal(short, data[chosen[:10]])
    assert np.array_equal(short, long[:10])
    slopes = RNG.standard_normal((11, 3)).astype(np.float32)
    slopes[10] = 0.0
    gradient = kernel(f"{name}Grad")
    one = gradient(np, slopes[:10], chosen[:10], segments[:10], np.int32(7))
    other = gradient(np, slopes, chosen, segments, np.int32(7))
    assert np.allclose(one, other, rtol=1e-6)
    assert one.dtype == np.float32


@pytest.mark.parametrize("rank", [1, 2, 3])
def test_elements_of_a_sparse_tensor_are_put_where_they_belong(rank: int) -> None:
    sizes = (5, 4, 3)[:rank]
    dense = RNG.integers(0, 3, sizes)
    indices = np.argwhere(dense)
    values = dense[tuple(indices.T)]
    found = kernel("SparseToDense")(
        np, indices, np.array(sizes), values, np.int64(0), validate_indices=True
    )
    assert np.array_equal(found, dense)
    order = RNG.permutation(len(indices))
    found = kernel("SparseToDense")(
        np, indices[order], np.array(sizes), values[order], np.int64(0), validate_indices=False
    )
    assert np.array_equal(found, dense)
