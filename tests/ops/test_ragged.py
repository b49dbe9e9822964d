"""Ragged tensors, and strings cut into rows of them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import headrace as tf
from headrace.graph.registry import get
from headrace.ops.array.ragged_calls import ragged_gather

LISTS: list[Any] = [
    [[1, 2], [], [3]],
    [[]],
    [[[1], [2, 3]], [], [[4, 5, 6]]],
    [["a", "bc"], ["d"], []],
]


def lists(of: Any) -> Any:
    with tf.Session() as session:
        found = session.run(of)
    return found.to_list() if isinstance(found, tf.ragged.RaggedTensorValue) else found.tolist()


def encoded(rows: Any) -> Any:
    if isinstance(rows, list):
        return [encoded(each) for each in rows]
    return rows.encode() if isinstance(rows, str) else rows


@pytest.mark.parametrize("rows", LISTS)
def test_lists_come_back_as_they_were(rows: Any) -> None:
    with tf.Graph().as_default():
        made = tf.ragged.constant(rows)
        assert lists(made) == encoded(rows)
        fed = tf.ragged.placeholder(made.dtype, made.ragged_rank)
        with tf.Session() as session:
            value = session.run(made)
            again = session.run(fed, {fed: value})
        assert again.to_list() == encoded(rows)
        assert lists(made.nrows()) == len(rows)
        assert lists(made.row_lengths()) == [len(row) for row in rows]
        ids = [at for at, row in enumerate(rows) for _ in row]
        assert lists(made.value_rowids()) == ids


MADE: list[tuple[str, Any]] = [
    ("row_splits", [0, 2, 2, 3]),
    ("value_rowids", [0, 0, 2]),
    ("row_lengths", [2, 0, 1]),
    ("row_starts", [0, 2, 2]),
    ("row_limits", [2, 2, 3]),
]


@pytest.mark.parametrize(("how", "what"), MADE)
def test_rows_are_told_in_five_ways(how: str, what: Any) -> None:
    with tf.Graph().as_default():
        make = getattr(tf.RaggedTensor, f"from_{how}")
        made = make([7, 8, 9], what)
        assert lists(made) == [[7, 8], [], [9]]
        assert lists(make(tf.constant([7, 8, 9]), tf.constant(what, tf.int32)).to_tensor(-1)) == [
            [7, 8], [-1, -1], [9, -1],
        ]  # fmt: skip


def test_dense_and_sparse_tensors_become_ragged_and_back() -> None:
    with tf.Graph().as_default():
        dense = tf.constant([[1, 2, 0], [0, 0, 0], [3, 0, 0]])
        assert lists(tf.RaggedTensor.from_tensor(dense, padding=0)) == [[1, 2], [], [3]]
        assert lists(tf.RaggedTensor.from_tensor(dense, lengths=[1, 0, 2])) == [[1], [], [3, 0]]
        assert (
            lists(tf.RaggedTensor.from_tensor(tf.zeros([2, 1, 2]), ragged_rank=2)) == [[[0, 0]]] * 2
        )
        ragged = tf.ragged.constant([[1, 2], [], [3]])
        back = tf.RaggedTensor.from_sparse(ragged.to_sparse())
        assert lists(back) == [[1, 2], [], [3]]
        assert lists(ragged.to_tensor(shape=[2, 1])) == [[1], [0]]
        assert ragged.shape.as_list() == [3, None]
        assert lists(ragged.bounding_shape()) == [3, 2]
        assert lists(ragged[0]) == [1, 2]
        with pytest.raises(
            ValueError, match=r"Cannot index into an inner ragged dimension.*to_tensor"
        ):
            ragged[:, 0]


def test_rows_are_gathered_and_ranges_are_rows() -> None:
    with tf.Graph().as_default():
        deep = tf.ragged.constant([[[1], [2, 3]], [], [[4, 5, 6]]])
        assert lists(ragged_gather(deep, [2, 0, 0])) == [[[4, 5, 6]], [[1], [2, 3]], [[1], [2, 3]]]
        assert lists(ragged_gather(deep, [[1], [2]])) == [[[]], [[[4, 5, 6]]]]
        assert lists(tf.ragged.range([3, 0, 2])) == [[0, 1, 2], [], [0, 1]]
        assert lists(tf.ragged.range([5, 0], [2, 5], [-1, 2])) == [[5, 4, 3], [0, 2, 4]]
        doubled = tf.ragged.map_flat_values(tf.add, deep, 10)
        assert lists(doubled) == [[[11], [12, 13]], [], [[14, 15, 16]]]


def _sum(x: Any, y: Any) -> Any:
    """Of nested lists, of which the one is as deep as the other, and rows of one element are repeated."""
    if not isinstance(x, list):
        return x + y
    many = max(len(x), len(y)) if len(x) and len(y) else 0
    x, y = (each * many if len(each) == 1 else each for each in (x, y))
    return [_sum(a, b) for a, b in zip(x, y, strict=True)]


ROWS = [[1, 2, 3], [], [4, 5]]
DEEP = [[[1, 2, 3], [], [4, 5]], [[6, 7, 8], [], [9, 10]]]
UNLIKE: list[tuple[Any, Any, Any, Any]] = [
    (tf.ragged.constant, DEEP, tf.ragged.constant, ROWS),
    (tf.ragged.constant, DEEP, tf.constant, [[100], [200], [300]]),
    (tf.ragged.constant, DEEP, tf.constant, [[[100]], [[200]]]),
    (tf.ragged.constant, ROWS, tf.constant, [[[100]], [[200]]]),
    (tf.ragged.constant, ROWS, tf.RaggedTensor.from_tensor, [[10], [20], [30]]),
    (tf.ragged.constant, DEEP, tf.RaggedTensor.from_tensor, [[10], [20], [30]]),
    (tf.ragged.constant, [ROWS], tf.ragged.constant, DEEP),
    (tf.ragged.constant, [[7, 8]], tf.constant, [[1], [2], [3]]),
    (tf.ragged.constant, [], tf.ragged.constant, [[7, 8]]),
]


@pytest.mark.parametrize("fed", [False, True])
@pytest.mark.parametrize(("first", "x", "second", "y"), UNLIKE)
def test_what_has_fewer_dimensions_is_repeated(
    first: Any, x: Any, second: Any, y: Any, fed: bool
) -> None:
    """Rows of several elements, too, that fit ragged ones of a higher rank: TensorFlow 2.21 loses some of these."""

    def depth(given: Any) -> int:
        return 1 + depth(given[0]) if isinstance(given, list) and given else 0

    deepest = max(depth(x), depth(y))
    if not x:
        wanted: Any = []
    else:
        a, b = x, y
        for _ in range(deepest - depth(x)):
            a = [a]
        for _ in range(deepest - depth(y)):
            b = [b]
        wanted = _sum(a, b)

    def made(make: Any, given: Any) -> Any:
        found = make(given) if given else tf.ragged.constant([], tf.int32, ragged_rank=1)
        if not fed or not isinstance(found, tf.RaggedTensor):
            return found
        splits = [tf.placeholder_with_default(each, [None]) for each in found.nested_row_splits]
        if found.uniform_row_length is not None:
            return found
        values = tf.placeholder_with_default(found.flat_values, [None])
        return tf.RaggedTensor.from_nested_row_splits(values, splits, validate=False)

    with tf.Graph().as_default():
        assert lists(made(first, x) + made(second, y)) == wanted
        assert lists(tf.add(made(second, y), made(first, x))) == wanted


def test_rows_that_do_not_fit_are_refused() -> None:
    with tf.Graph().as_default():
        rows = tf.ragged.constant(ROWS)
        for other in (tf.ragged.constant([[1], [2], [3]]), [[1, 2, 3]] * 3, [[1], [2]]):
            with pytest.raises(
                tf.errors.InvalidArgumentError,
                match=r"Unable to broadcast: dimension size mismatch in dimension",
            ):
                rows + other
        fed = tf.placeholder_with_default(np.array([0, 1, 2, 5], np.int64), [None])
        told = tf.RaggedTensor.from_row_splits(rows.values, fed, validate=False)
        made = rows + told
        with pytest.raises(tf.errors.InvalidArgumentError, match="rows are not the same"):
            lists(made)
        with pytest.raises(
            ValueError, match=r"mismatched row_splits dtypes.*with_row_splits_dtype"
        ):
            rows + rows.with_row_splits_dtype(tf.int32)
        with pytest.raises(ValueError, match="unknown rank"):
            rows + tf.placeholder(tf.int32)
        assert lists(np.array([[1], [2], [3]], np.int32) * rows) == [[1, 2, 3], [], [12, 15]]


def test_a_session_refuses_what_is_no_ragged_value() -> None:
    with tf.Graph().as_default(), tf.Session() as session:
        fed = tf.ragged.placeholder(tf.int32, 1)
        with pytest.raises(TypeError, match="RaggedTensorValue"):
            session.run(fed.row_lengths(), {fed: [[1], [2]]})


TEXT = "Gödel 你 \U0001f600"


@pytest.mark.parametrize("encoding", ["UTF-8", "UTF-16-BE", "UTF-32-BE"])
def test_text_is_cut_into_characters_and_put_together(encoding: str) -> None:
    data = TEXT.encode(encoding.lower())
    with tf.Graph().as_default():
        points, offsets = tf.strings.unicode_decode_with_offsets([data, b""], encoding)
        assert lists(points) == [[ord(each) for each in TEXT], []]
        starts = [len(TEXT[:at].encode(encoding.lower())) for at in range(len(TEXT))]
        assert lists(offsets) == [starts, []]
        assert lists(tf.strings.unicode_encode(points, encoding)) == [data, b""]
        split = tf.strings.unicode_split([[data]], encoding)
        assert lists(split) == [[[each.encode(encoding.lower()) for each in TEXT]]]
        assert lists(tf.strings.unicode_split(data, encoding)) == lists(split)[0][0]


def test_bytes_and_neighbours() -> None:
    with tf.Graph().as_default():
        assert lists(tf.strings.bytes_split(["ab", "", "c"])) == [[b"a", b"b"], [], [b"c"]]
        assert lists(tf.strings.bytes_split("ab")) == [b"a", b"b"]
        words = tf.ragged.constant([["a", "b", "c"], ["d"]])
        assert lists(tf.strings.ngrams(words, 2)) == [[b"a b", b"b c"], []]
        padded = tf.strings.ngrams(words, 2, pad_values=("<", ">"))
        assert lists(padded) == [[b"< a", b"a b", b"b c", b"c >"], [b"< d", b"d >"]]
        assert lists(tf.strings.ngrams([["a", "b"], ["c", "d"]], [1, 2])) == [
            [b"a", b"b", b"a b"], [b"c", b"d", b"c d"],
        ]  # fmt: skip
        assert lists(tf.strings.split(["a b", "c"], result_type="RaggedTensor")) == [
            [b"a", b"b"],
            [b"c"],
        ]


ENCODINGS = [
    ("latin1", b"\xe9", [233]), ("ISO-8859-1", b"\xe9", [233]), ("windows-1252", b"\x80", [0x20AC]),
    ("shift_jis", b"\x82\xa0", [0x3042]), ("US-ASCII", b"a\x80", [97, 0xFFFD]), ("UTF-16", b"\xff\xfea\x00", [97]),
    ("UTF-16", b"\x00a", [97]), ("UTF-16LE", b"a\x00", [97]), ("koi8-r", b"\xc1", [0x430]),
]  # fmt: skip


@pytest.mark.parametrize(("encoding", "data", "points"), ENCODINGS)
def test_many_encodings_are_known(encoding: str, data: bytes, points: list[int]) -> None:
    with tf.Graph().as_default():
        assert lists(tf.strings.unicode_decode(data, encoding)) == points


@pytest.mark.parametrize("encoding", ["UTF-9", "base64", "idna", "unicode_escape", "rot13", ""])
def test_what_is_no_encoding_of_text_is_refused(encoding: str) -> None:
    with (
        tf.Graph().as_default(),
        pytest.raises(
            tf.errors.InvalidArgumentError, match="Could not create converter for input encoding"
        ),
    ):
        lists(tf.strings.unicode_decode("a", encoding))


@pytest.mark.parametrize("kind", ["RaggedTensorToTensor", "RaggedTensorToSparse"])
def test_row_splits_that_do_not_fit_are_refused(kind: str) -> None:
    for splits in ([0, 2], [1, 3], [0, 2, 1, 3], []):
        with tf.Graph().as_default(), tf.Session() as session:
            given = tf.placeholder(tf.int64)
            ragged = tf.RaggedTensor(tf.constant([1, 2, 3]), given)
            made = ragged.to_tensor() if kind.endswith("Tensor") else ragged.to_sparse().values
            with pytest.raises(tf.errors.InvalidArgumentError, match="splits"):
                session.run(made, {given: np.array(splits, np.int64)})


def test_partitions_by_rows_of_values() -> None:
    with tf.Graph().as_default():
        made = get("RaggedTensorToTensor")(
            tf.constant(-1), tf.constant([1, 2, 3]), tf.constant(0), [tf.constant(3), tf.constant([0, 0, 2])],
            row_partition_types=["FIRST_DIM_SIZE", "VALUE_ROWIDS"],
        )  # fmt: skip
        assert lists(made) == [[1, 2], [0, 0], [3, 0]]
