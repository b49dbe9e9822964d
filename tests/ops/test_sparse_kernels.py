"""Sparse tensors, sets and fingerprints beside plain Python and dense arrays, on operands drawn at random."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import headrace as tf
from headrace.ops._kernels.fingerprints import farm, murmur, sip
from headrace.ops._kernels.sparse_keys import common_keys, row_keys

RNG = np.random.default_rng(5)
SHAPES = [(3, 4), (1, 5), (2, 3, 4), (4, 1, 3)]


def drawn(shape: tuple[int, ...]) -> Any:
    """A dense array of small integers, half of them 0."""
    return (RNG.integers(-3, 4, shape) * RNG.integers(0, 2, shape)).astype(np.int64)


def sparse(dense: Any) -> tf.SparseTensor:
    places = np.argwhere(dense)
    return tf.SparseTensor(
        tf.placeholder_with_default(places, [None, dense.ndim]),
        dense[tuple(places.T)],
        np.array(dense.shape),
    )


def value(of: Any) -> Any:
    with tf.Session() as session:
        found = session.run(of)
    if not isinstance(found, tf.SparseTensorValue):
        return found
    dense = np.zeros(found.dense_shape, found.values.dtype)
    dense[tuple(found.indices.T)] = found.values
    return dense


@pytest.mark.parametrize("shape", SHAPES)
def test_what_is_done_to_a_sparse_tensor_is_done_to_its_dense_one(shape: tuple[int, ...]) -> None:
    x, y, rank = drawn(shape), drawn(shape), len(shape)
    with tf.Graph().as_default():
        a, b = sparse(x), sparse(y)
        pairs: list[tuple[Any, Any]] = [
            (tf.sparse.transpose(a), x.T),
            (tf.sparse.reshape(a, [-1]), x.reshape(-1)),
            (tf.sparse.maximum(a, b), np.maximum(x, y)),
            (tf.sparse.minimum(a, b), np.minimum(x, y)),
            (a * tf.constant(y), x * y),
            (tf.sparse.expand_dims(a, 1), np.expand_dims(x, 1)),
            (tf.sparse.slice(a, [0, 1] + [0] * (rank - 2), [2] * rank), x[:2, 1:3, ...][..., :2]
             if rank == 3 else x[:2, 1:3]),
            (tf.sparse.from_dense(tf.constant(x)), x),
        ]  # fmt: skip
        for axis in range(-rank, rank):
            pairs += [
                (tf.sparse.reduce_sum(a, axis), x.sum(axis)),
                (tf.sparse.reduce_sum_sparse(a, axis, keepdims=True), x.sum(axis, keepdims=True)),
                (tf.sparse.concat(axis, [a, b]), np.concatenate([x, y], axis)),
                (tf.sparse.split(sp_input=a, num_split=1, axis=axis)[0], x),
            ]
        parts = tf.sparse.split(sp_input=a, num_split=shape[-1], axis=-1)
        pairs += list(zip(parts, np.split(x, shape[-1], -1), strict=True))
        for made, wanted in pairs:
            np.testing.assert_array_equal(value(made), wanted)


def test_rows_compare_as_their_keys_do_whatever_their_numbers() -> None:
    small = RNG.integers(-3, 3, (40, 3))
    for rows in (small, small * (1 << 61), small[:, :0]):
        keys = row_keys(rows).tolist()
        listed = [tuple(row) for row in rows.tolist()]
        assert [(a < b, a == b) for a in keys for b in keys] == [
            (a < b, a == b) for a in listed for b in listed
        ]
    one, other = common_keys(small[:20], small[20:])
    assert np.array_equal(np.concatenate([one, other]), row_keys(small))


def distance(a: list[int], b: list[int]) -> int:
    row = list(range(len(b) + 1))
    for i, x in enumerate(a, 1):
        last, row[0] = row[0], i
        for j, y in enumerate(b, 1):
            last, row[j] = row[j], min(row[j] + 1, row[j - 1] + 1, last + (x != y))
    return row[-1]


def sequences(count: int) -> tuple[list[list[int]], tf.SparseTensorValue]:
    rows = [RNG.integers(0, 3, RNG.integers(0, 7)).tolist() for _ in range(count)]
    places = [(i, j) for i, row in enumerate(rows) for j in range(len(row))]
    flat = [each for row in rows for each in row]
    return rows, tf.SparseTensorValue(np.array(places), np.array(flat), np.array([count, 9]))


def test_edit_distances_are_those_of_the_textbook() -> None:
    one, hypothesis = sequences(60)
    other, truth = sequences(60)
    with tf.Graph().as_default(), tf.Session() as session:
        found = session.run(tf.edit_distance(hypothesis, truth, normalize=False))
    assert found.tolist() == [distance(a, b) for a, b in zip(one, other, strict=True)]


@pytest.mark.parametrize("kind", ["union", "intersection", "difference"])
def test_sets_are_pythons(kind: str) -> None:
    x, y = RNG.integers(0, 6, (30, 4)), RNG.integers(0, 6, (30, 5))
    with tf.Graph().as_default(), tf.Session() as session:
        made = getattr(tf.sets, kind)(x, y)
        found, sizes = session.run([made, tf.sets.size(made)])
    wanted = [sorted(getattr(set(a), kind)(b)) for a, b in zip(x.tolist(), y.tolist(), strict=True)]
    assert found.values.tolist() == [each for row in wanted for each in row]
    assert sizes.tolist() == [len(row) for row in wanted]
    assert found.dense_shape.tolist() == [30, max(map(len, wanted))]


FINGERPRINTS = [
    # string, FarmHash Fingerprint64, MurmurHash64A with TensorFlow's seed, SipHash-2-4 under (1, 2)
    (b"", 11160318154034397263, 9328806548029283899, 9667169246107117435),
    (b"a", 12917804110809363939, 2996632905371535868, 5158252350249958646),
    (b"abcdefg", 4341691227789030229, 12183717948363976256, 957890530879302020),
    (b"headrace, in 22 bytes!", 11833712888471811535, 110636043265800223, 9631717538829600038),
    (bytes(range(50)), 12334112670463347188, 16788591304704037495, 4514325737721609060),
    (bytes(range(200)), 525935771297148851, 18020596627998144042, 17953581463497131710),
]


def test_fingerprints_have_the_bits_of_their_definitions() -> None:
    strings = [row[0] for row in FINGERPRINTS]
    found = [farm(strings), murmur(strings), sip(strings, (1, 2))]
    assert [tuple(column.tolist()) for column in found] == list(
        zip(*[row[1:] for row in FINGERPRINTS], strict=True)
    )
