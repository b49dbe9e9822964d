"""Examples to arrays: what is wrong is named with the example and the feature."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from headrace.base import dtypes, errors
from headrace.codec import examples as codec
from headrace.codec import protos as pb
from headrace.codec.examples import Batch, DenseSpec, ListSpec, SparseSpec

NONE = np.empty(0, np.float32)


def example(**features: list[float]) -> bytes:
    made = pb.Example()
    for key, values in features.items():
        made.features.feature[key].float_list.value.extend(values)
    return made.SerializeToString()


def batch(*serialized: bytes, names: Any = ()) -> tuple[list[Any], Batch]:
    whole = Batch(serialized, names)
    return codec.examples(whole), whole


def test_dense_features_have_their_shape_or_their_default() -> None:
    spec = DenseSpec("x", dtypes.float32, (2,), np.array([8, 9], np.float32))
    assert codec.dense(*_with(spec, *batch(example(x=[1, 2]), example()))).tolist() == [
        [1, 2],
        [8, 9],
    ]


def _with(spec: Any, features: Any, whole: Batch) -> Any:
    return features, spec, whole


def test_rows_are_filled_up_to_the_longest() -> None:
    spec = DenseSpec("x", dtypes.float32, (2,), np.array(7, np.float32), varies=True)
    found = codec.dense(*_with(spec, *batch(example(x=[1, 2, 3, 4]), example(), example(x=[5, 6]))))
    assert found.tolist() == [[[1, 2], [3, 4]], [[7, 7], [7, 7]], [[5, 6], [7, 7]]]


def test_sparse_features_have_any_number_of_values() -> None:
    spec = SparseSpec("x", dtypes.float32)
    indices, values, shape = codec.sparse(
        *_with(spec, *batch(example(x=[1, 2]), example(), example(x=[3])))
    )
    assert indices.tolist() == [[0, 0], [0, 1], [2, 0]]
    assert (values.tolist(), shape.tolist()) == ([1, 2, 3], [3, 2])


@pytest.mark.parametrize("count", [1, 15, 16, 17, 5000])
def test_floats_are_taken_as_they_are_however_many(count: int) -> None:
    wanted = np.random.RandomState(1).randn(count).astype(np.float32)
    spec = DenseSpec("x", dtypes.float32, (count,), NONE)
    found = codec.dense(*_with(spec, *batch(example(x=wanted.tolist()))))
    np.testing.assert_array_equal(found, wanted[None])


@pytest.mark.parametrize(
    ("spec", "says"),
    [
        (DenseSpec("y", dtypes.float32, (1,), NONE), "Feature: y .data type: float. is required .* 'b' has none"),
        (DenseSpec("x", dtypes.float32, (2,), NONE), "Key: x. Number of float values != expected. example 'b' has 1"),
        (DenseSpec("x", dtypes.int64, (2,), NONE), "Data type: float but expected type: int64, in example 'a'"),
        (DenseSpec("x", dtypes.float32, (2,), NONE, True), "float values is not a multiple .* 'b' has 1 values"),
    ],
)  # fmt: skip
def test_what_is_wrong_is_named(spec: DenseSpec, says: str) -> None:
    features, whole = batch(example(x=[1, 2], y=[1]), example(x=[3]), names=[b"a", b"b"])
    with pytest.raises(errors.InvalidArgumentError, match=says):
        codec.dense(features, spec, whole)


def test_what_is_no_example_is_shown() -> None:
    with pytest.raises(
        errors.InvalidArgumentError,
        match=r"Could not parse example input, value: .* example 1, is no serialized tf\.train\.Example",
    ):
        batch(b"", b"\x0a\x7fq")


def test_lists_are_required_or_may_be_missing() -> None:
    made = pb.SequenceExample()
    for values in ([1.0, 2.0], [3.0, 4.0]):
        made.feature_lists.feature_list["x"].feature.add().float_list.value.extend(values)
    whole = Batch([made.SerializeToString(), b""], [])
    _, lists = codec.sequence_examples(whole)
    found, lengths = codec.dense_lists(lists, ListSpec("x", dtypes.float32, (2,), True), whole)
    assert found.tolist() == [[[1, 2], [3, 4]], [[0, 0], [0, 0]]]
    assert lengths.tolist() == [2, 0]
    with pytest.raises(
        errors.InvalidArgumentError,
        match=r"Feature list 'x' is required but could not be found: example 1 .*allow_missing",
    ):
        codec.dense_lists(lists, ListSpec("x", dtypes.float32, (2,)), whole)
    with pytest.raises(
        errors.InvalidArgumentError, match=r"frame 0 has 2 values, and its shape \[3\] has 3"
    ):
        codec.dense_lists(lists, ListSpec("x", dtypes.float32, (3,), True), whole)
