"""What may be fetched, and in which form it comes back."""

from __future__ import annotations

import collections
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import pytest

import headrace as tf
from headrace.client.fetches import (
    Fetches,
    InaccessibleTensorError,
    cache_key,
    register_fetch_conversion,
)


class Both(NamedTuple):
    first: Any
    second: Any


class Attributes:
    """As the attrs package makes them."""

    class _Field(NamedTuple):
        name: str

    __attrs_attrs__ = (_Field("left"), _Field("right"))

    def __init__(self, left: Any, right: Any) -> None:
        self.left, self.right = left, right

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Attributes) and vars(self) == vars(other)


class Row(list[Any]):
    """A list of somebody's own."""


NESTS: dict[str, Callable[[Any, Any], Any]] = {
    "one": lambda a, b: a,
    "a list": lambda a, b: [a, b],
    "a tuple": lambda a, b: (b, a),
    "nothing": lambda a, b: [],
    "a dict": lambda a, b: {"a": a, "b": [b]},
    "an ordered dict": lambda a, b: collections.OrderedDict([("z", a), ("a", b)]),
    "a dict with a default": lambda a, b: collections.defaultdict(list, {"a": a, "b": [b]}),
    "a named tuple": lambda a, b: Both(a, Both(b, a)),
    "attributes": lambda a, b: Attributes(a, {"x": b}),
    "somebody's list": lambda a, b: Row([a, b]),
    "one thing often": lambda a, b: [a, a, {"again": (a, b, b)}],
    "deep": lambda a, b: [[[[(a,)], b]], ()],
}


@pytest.mark.parametrize("nest", NESTS.values(), ids=NESTS)
def test_a_nest_comes_back_with_values_in_the_places_of_tensors(
    session: tf.Session, nest: Callable[[Any, Any], Any]
) -> None:
    a, b = tf.constant(3, name="a"), tf.constant("text", name="b")
    expected = nest(3, b"text")
    for _ in range(2):  # the second one is known
        found = session.run(nest(a, b))
        assert found == expected
        assert type(found) is type(expected) or not isinstance(found, (list, tuple, dict))
    assert session.run(nest("a:0", "b:0")) == expected
    assert session.run(nest(b"a:0", b"b:0")) == expected


@pytest.mark.parametrize("kind", [tf.qint8, tf.quint8, tf.qint16, tf.quint16, tf.qint32])
def test_quantized_values_come_back_as_numbers(session: tf.Session, kind: tf.DType) -> None:
    plain = np.dtype(kind.name.replace("q", "", 1))
    x = tf.placeholder(kind)
    y = tf.identity(x)
    for given in (np.array([1, 2], plain), np.array(3, plain), [[4]]):
        found = session.run(y, {x: given})
        assert found.dtype == plain
        assert found.tolist() == np.asarray(given).tolist()
    assert session.run({"y": [y]}, {x: session.run(y, {x: [5]})})["y"][0].tolist() == [5]


def test_operations_give_none_and_run_once_each(session: tf.Session) -> None:
    counter = tf.Variable(0)
    session.run(counter.initializer)
    add = tf.assign_add(counter, 1)
    assert session.run([add.op, (add.op, {"x": add.op})]) == [None, (None, {"x": None})]
    assert session.run(counter) == 1
    assert session.run(add.op) is None
    assert session.run("AssignAdd") is None
    assert session.run(counter) == 3


def test_each_tensor_is_fetched_once_and_each_operation_run_once(graph: tf.Graph) -> None:
    a, b = tf.constant(1), tf.constant(2)
    fetches = Fetches(graph, [a, (b, a), a.op, b.op, a.op, "Const:0"])
    assert fetches.tensors == [a, b]
    assert fetches.targets == [a.op, b.op]
    assert not fetches.single
    assert fetches.build([10, 20]) == [10, (20, 10), None, None, None, 10]
    assert Fetches(graph, a).single
    assert Fetches(graph, a.op).single
    assert not Fetches(graph, [a]).single


def test_values_are_the_callers_own_and_of_numpys_kinds(session: tf.Session) -> None:
    matrix = tf.constant(np.arange(4.0).reshape(2, 2))
    found = session.run(matrix)
    found[:] = -1.0
    assert session.run(matrix).tolist() == [[0.0, 1.0], [2.0, 3.0]]
    assert type(session.run(tf.constant(1.5))) is np.float32
    assert type(session.run(tf.constant(True))) is np.bool_
    assert session.run(tf.constant(["a", "é"])).tolist() == [b"a", "é".encode()]


def test_bundles_come_back_as_their_values(session: tf.Session) -> None:
    sparse = session.run(tf.SparseTensor([[0, 1]], [2.0], [1, 3]))
    assert type(sparse) is tf.SparseTensorValue
    assert [part.tolist() for part in sparse] == [[[0, 1]], [2.0], [1, 3]]
    slices = session.run(tf.IndexedSlices(tf.constant([[1.0]]), tf.constant([4])))
    assert slices.values.tolist() == [[1.0]]
    assert slices.indices.tolist() == [4]
    assert slices.dense_shape is None


def test_a_variable_stands_for_its_value(session: tf.Session) -> None:
    variable = tf.Variable([1, 2])
    session.run(variable.initializer)
    assert session.run({"v": variable})["v"].tolist() == [1, 2]


REFUSED: list[tuple[Any, type[Exception], str]] = [
    (None, TypeError, 'Argument `fetch` = None has invalid type "NoneType"'),
    ([["a:0", None]], TypeError, "Cannot be None"),
    (3, TypeError, r'Argument `fetch` = 3 has invalid type "int" must be a string or Tensor'),
    ({"x": 1.5}, TypeError, "Can not convert a float into a Tensor or Operation"),
    ("nowhere", ValueError, "cannot be interpreted as a Tensor. .*not in the graph"),
    ("a:1", ValueError, r"cannot be interpreted as a Tensor. .*'a' \(Const\) has 1 outputs"),
    ("a:x", ValueError, "not a valid one"),
]


@pytest.mark.parametrize(("fetches", "error", "phrase"), REFUSED)
def test_what_cannot_be_fetched_is_refused(
    session: tf.Session, fetches: Any, error: type[Exception], phrase: str
) -> None:
    tf.constant(1, name="a")
    with pytest.raises(error, match=phrase):
        session.run(fetches)


def test_what_belongs_to_another_graph_or_to_a_branch_cannot_be_had(session: tf.Session) -> None:
    with tf.Graph().as_default():
        other = tf.constant(1)
    mine = tf.constant(1)
    with pytest.raises(ValueError, match="is not an element of this graph"):
        session.run([mine, other])
    inside: list[tf.Tensor] = []

    def branch() -> tf.Tensor:
        inside.append(tf.constant(1) + 1)
        return inside[0]

    chosen = tf.cond(tf.constant(True), branch, lambda: tf.constant(2))
    with pytest.raises(InaccessibleTensorError, match="marked as not fetchable"):
        session.run([chosen, inside[0]])
    assert session.run(chosen) == 2


def test_other_kinds_of_things_can_be_taught_to_be_fetched_once(session: tf.Session) -> None:
    class Fraction:
        def __init__(self, over: tf.Tensor, under: tf.Tensor) -> None:
            self.parts = [over, under]

    register_fetch_conversion(Fraction, lambda f: (f.parts, lambda v: f"{v[0]}/{v[1]}"))
    fraction = Fraction(tf.constant(3), tf.constant(4))
    assert session.run([fraction, fraction.parts[1]]) == ["3/4", 4]
    with pytest.raises(ValueError, match="Fraction has a fetch conversion already"):
        register_fetch_conversion(Fraction, lambda f: ([], lambda v: None))


@pytest.mark.parametrize(
    ("one", "other"),
    [("a list", "a tuple"), ("a dict", "an ordered dict"), ("a list", "somebody's list")],
)
def test_nests_of_different_forms_have_different_keys(
    graph: tf.Graph, one: str, other: str
) -> None:
    a, b = tf.constant(1), tf.constant(2)
    assert cache_key(NESTS[one](a, b)) == cache_key(NESTS[one](a, b))
    assert cache_key(NESTS[one](a, b)) != cache_key(NESTS[other](a, b))
    assert cache_key(NESTS[one](a, b)) != cache_key(NESTS[one](b, a))
    with pytest.raises(TypeError, match="unhashable"):
        cache_key([a, {1, 2}])
