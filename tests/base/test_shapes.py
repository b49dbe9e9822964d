"""Static shapes: the lattice of raw shapes, and TensorShape and Dimension on top of it."""

from __future__ import annotations

import pickle
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.base import shapes
from headrace.base.shapes import Dimension, Shape, TensorShape

SIZES = st.integers(0, 3)
CONCRETE = st.lists(SIZES, max_size=3).map(tuple)
RAW: st.SearchStrategy[Shape] = st.none() | st.lists(st.none() | SIZES, max_size=3).map(tuple)


def describes(shape: Shape, concrete: tuple[int, ...]) -> bool:
    """The meaning of a raw shape, spelled out."""
    if shape is None:
        return True
    return len(shape) == len(concrete) and all(
        s in (None, c) for s, c in zip(shape, concrete, strict=True)
    )


def attempt(function: Callable[..., Any], *args: Any) -> Any:
    try:
        return function(*args)
    except ValueError:
        return ValueError


@given(RAW, RAW, CONCRETE)
def test_merge_describes_exactly_what_both_describe(a, b, concrete):
    merged = attempt(shapes.merge, a, b)
    both = describes(a, concrete) and describes(b, concrete)
    assert both == (merged is not ValueError and describes(merged, concrete))
    assert shapes.compatible(a, b) == (merged is not ValueError)


@given(RAW, RAW, CONCRETE)
def test_common_describes_whatever_either_describes(a, b, concrete):
    if describes(a, concrete) or describes(b, concrete):
        assert describes(shapes.common(a, b), concrete)
    assert shapes.common(a, a) == a


@given(RAW, RAW)
def test_merge_common_and_broadcast_do_not_mind_the_order(a, b):
    for function in (shapes.merge, shapes.common, shapes.broadcast, shapes.compatible):
        assert attempt(function, a, b) == attempt(function, b, a)


@given(CONCRETE, CONCRETE, st.data())
def test_broadcast_of_less_knowledge_never_contradicts_numpy(a, b, data):
    try:
        true = np.broadcast_shapes(a, b)
    except ValueError:
        assert attempt(shapes.broadcast, a, b) is ValueError
        return
    assert shapes.broadcast(a, b) == true
    hide = st.lists(st.booleans(), min_size=3, max_size=3)
    less = [
        tuple(None if h else d for d, h in zip(s, data.draw(hide), strict=False)) for s in (a, b)
    ]
    assert describes(shapes.broadcast(*less), true)


@pytest.mark.parametrize(
    ("a", "b", "want"),
    [
        (None, (2,), None),
        ((None,), (2,), (2,)),
        ((None,), (1,), (None,)),
        ((None,), (0,), (None,)),
        ((1,), (0,), (0,)),
        ((), (None, 3), (None, 3)),
        ((2, None, 1), (5, 4), (2, 5, 4)),
    ],
)
def test_broadcast(a, b, want):
    assert shapes.broadcast(a, b) == want


def test_a_disagreement_names_both_sides_and_the_place():
    with pytest.raises(
        ValueError, match=r"Dimension 0 .* but are 2 and 3\. Shapes are \[2,\?\] and \[3,4\]"
    ):
        shapes.merge((2, None), (3, 4))
    with pytest.raises(ValueError, match=r"equal rank, but are 1 and 2: \[2\] and \[3,4\]"):
        shapes.merge((2,), (3, 4))
    with pytest.raises(
        ValueError, match=r"but are 2 and 3: shapes \[2,5\] and \[3,1\] do not broadcast"
    ):
        shapes.broadcast((2, 5), (3, 1))


@pytest.mark.parametrize(
    ("shape", "text", "count", "defined"),
    [
        (None, "<unknown>", None, False),
        ((), "[]", 1, True),
        ((2, None, 3), "[2,?,3]", None, False),
        ((0, None), "[0,?]", None, False),
        ((2, 0, 3), "[2,0,3]", 0, True),
        ((2**40, 2**40), f"[{2**40},{2**40}]", 2**80, True),
    ],
)
def test_text_and_counts(shape, text, count, defined):
    assert shapes.text(shape) == text
    assert shapes.num_elements(shape) == count == TensorShape(shape).num_elements()
    assert shapes.is_fully_defined(shape) is defined is TensorShape(shape).is_fully_defined()


def message(*sizes: int, unknown_rank: bool = False) -> SimpleNamespace:
    return SimpleNamespace(unknown_rank=unknown_rank, dim=[SimpleNamespace(size=s) for s in sizes])


@pytest.mark.parametrize(
    ("given_", "want"),
    [
        (None, None),
        ([], ()),
        (5, (5,)),
        (Dimension(5), (5,)),
        ([2, None, Dimension(3), Dimension(None), np.int64(4)], (2, None, 3, None, 4)),
        (np.array([1, 2]), (1, 2)),
        ((d for d in (1, None)), (1, None)),
        (range(3), (0, 1, 2)),
        (TensorShape([1, None]), (1, None)),
        (message(2, -1), (2, None)),
        (message(unknown_rank=True), None),
    ],
)
def test_many_things_mean_a_shape(given_, want):
    raw = shapes.as_raw(given_)
    assert raw == want
    assert raw is None or all(d is None or type(d) is int for d in raw)


@pytest.mark.parametrize("given_", ["ab", b"ab", [2.0], ["a"], object(), [[1]], 2.5, ""])
def test_what_is_no_shape_is_refused(given_):
    with pytest.raises(TypeError):
        TensorShape(given_)
    assert TensorShape([1]) != given_


@pytest.mark.parametrize("given_", [[-1], -2, message(-2), [2, np.int32(-3)]])
def test_negative_sizes_are_refused(given_):
    with pytest.raises(ValueError, match="must be >= 0"):
        TensorShape(given_)


def test_dimensions_count_as_indices():
    assert list(range(5))[Dimension(2)] == 2
    assert np.zeros([Dimension(2), Dimension(3)]).shape == (2, 3)
    assert int(Dimension(4)) == 4
    with pytest.raises(TypeError, match="unknown"):
        int(Dimension(None))
    with pytest.raises(TypeError, match="unhashable"):
        hash(Dimension(1))


def test_dimensions_know_what_they_do_not_know():
    assert (Dimension(3) == 3) is True
    assert (Dimension(3) != 3) is False
    assert (Dimension(3) == "a") is False
    assert (Dimension(3) == None) is None  # noqa: E711
    assert (Dimension(None) != 3) is None
    assert (Dimension(None) < 3) is None
    assert (2 * Dimension(3) - 1).value == 5
    assert (Dimension(None) + 1).value is None


def test_shapes_index_to_dimensions_and_slice_to_shapes():
    shape = TensorShape([2, None, 3])
    assert [type(d) for d in shape] == [Dimension] * 3
    assert (shape[0].value, shape[-1].value) == (2, 3)
    assert shape[1:] == [None, 3]
    assert shape[::2] == [2, 3]
    with pytest.raises(IndexError):
        _ = shape[3]
    assert TensorShape(None)[7].value is None
    assert TensorShape(None)[1:3] == [None, None]
    assert TensorShape(None)[3:1] == []
    assert TensorShape(None)[1:].rank is TensorShape(None)[:-1].rank is None


@pytest.mark.parametrize("use", [len, list, TensorShape.as_list, lambda s: s[::2]])
def test_unknown_rank_cannot_be_counted(use):
    with pytest.raises(ValueError, match=r"unknown (rank|TensorShape)|known rank"):
        use(TensorShape(None))


def test_shapes_are_values():
    shape = TensorShape([2, None])
    assert pickle.loads(pickle.dumps(shape)) == shape
    assert {shape: 1}[TensorShape((2, None))] == 1
    assert shape == [2, None]
    assert shape != [2, 3]
    assert shape != None  # noqa: E711
    assert TensorShape(None) == None  # noqa: E711
    assert shapes.as_shape(shape) is shape
    assert bool(TensorShape([])) is True
    assert bool(TensorShape(None)) is False
    assert pickle.loads(pickle.dumps(Dimension(3))).value == 3


def test_asserting_methods_name_both_sides():
    shape = TensorShape([1, None])
    for call, text in [
        (lambda: shape.assert_has_rank(3), r"\(1, \?\) must have rank 3, and has 2"),
        (lambda: shape.with_rank_at_least(3), "rank at least 3, and has 2"),
        (lambda: shape.with_rank_at_most(1), "rank at most 1, and has 2"),
        (lambda: shape.assert_same_rank([1]), "same rank, not 2 and 1"),
        (
            lambda: shape.assert_is_compatible_with([2, 2]),
            r"\(1, \?\) and \[2, 2\] are incompatible: Dimension 0 .* 1 and 2",
        ),
        (shape.assert_is_fully_defined, r"\(1, \?\) is not fully defined"),
        (lambda: Dimension(3).merge_with(4), "3 and 4"),
    ]:
        with pytest.raises(ValueError, match=text):
            call()
    shape.assert_has_rank(2)
    shape.assert_same_rank(None)
    shape.assert_is_compatible_with([None, 5])
    TensorShape([1]).assert_is_fully_defined()
    assert TensorShape(None).with_rank(2) == [None, None]


def test_dimension_helpers():
    assert shapes.dimension_value(Dimension(3)) == shapes.dimension_value(3) == 3
    assert shapes.dimension_value(Dimension(None)) is None
    assert shapes.dimension_at_index(TensorShape([1, 2]), 1).value == 2
    assert shapes.dimension_at_index(TensorShape(None), 1).value is None
