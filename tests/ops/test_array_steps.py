"""Array ops in steps: placeholders, printing, slices that are assigned to, gates, conversions."""

from __future__ import annotations

import logging
import sys
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import headrace as tf
from headrace.base import errors
from headrace.graph.tensor import OperatorNotAllowedInGraphError


@pytest.fixture(autouse=True)
def graph() -> Iterator[Any]:
    with tf.Graph().as_default() as made:
        yield made


@pytest.fixture
def session() -> Iterator[Any]:
    with tf.Session() as made:
        yield made


def test_an_unfed_placeholder_says_what_to_feed(session: Any) -> None:
    x = tf.placeholder(tf.float32, [None, 3], name="images")
    with pytest.raises(errors.InvalidArgumentError) as caught:
        session.run(x + 1)
    for part in ("'images'", "dtype float ", "[?,3]", "feed"):
        assert part in caught.value.message
    assert caught.value.node == "images"


def test_a_placeholder_with_default_gives_it_or_what_is_fed(session: Any) -> None:
    x = tf.placeholder_with_default([1, 2], [None])
    assert session.run(x).tolist() == [1, 2]
    assert session.run(x, {x: [7, 8, 9]}).tolist() == [7, 8, 9]


def test_a_constant_index_is_compared_with_each_value_that_is_fed(session: Any) -> None:
    x, at = tf.placeholder(tf.float32), tf.placeholder(tf.int32, [])
    known, given = x[-1, 1:], x[at, 1:]
    for rows in (1, 3):
        value = np.arange(rows * 2, dtype=np.float32).reshape(rows, 2)
        assert session.run(known, {x: value}).tolist() == [2 * rows - 1]
        assert session.run(given, {x: value, at: rows - 1}).tolist() == [2 * rows - 1]
    for feed in ({x: np.zeros((0, 2), np.float32)}, {x: np.zeros((0, 2), np.float32), at: -1}):
        with pytest.raises(errors.InvalidArgumentError, match=r"-1 of dimension 0 .* size is 0"):
            session.run(given if at in feed else known, feed)


def test_a_constant_keeps_its_value_when_the_array_it_came_from_changes(session: Any) -> None:
    source = np.array([1.0, 2.0])
    x = tf.constant(source)
    source[:] = 9
    fetched = session.run(x)
    assert fetched.tolist() == [1, 2]
    fetched[:] = 5
    assert session.run(x).tolist() == [1, 2]


def test_print_writes_to_stderr_as_often_as_asked(
    session: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    x = tf.placeholder(tf.float32, [None])
    y = tf.Print(x, [x, "and", tf.shape(x)], "x is ", first_n=2, summarize=2)
    for _ in range(3):
        assert session.run(y, {x: [1, 2.5, 3]}).tolist() == [1, 2.5, 3]
    assert capsys.readouterr().err == "x is [1 2.5...][and][3]\n" * 2


PRINTS: list[tuple[tuple[Any, ...], dict[str, Any], str]] = [
    (("plain",), {}, "plain\n"),
    (("a", 1, 2.5, None), {"sep": "|", "end": "!"}, "a|1|2.5|None!"),
    (({"k": (1, [2])},), {}, "{'k': (1, [2])}\n"),
    (("{} is not a placeholder",), {}, "{} is not a placeholder\n"),
]


@pytest.mark.parametrize(("inputs", "attrs", "expected"), PRINTS)
def test_print_shows_plain_values(
    inputs: Any, attrs: Any, expected: str, session: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    session.run(tf.print(*inputs, **attrs))
    assert capsys.readouterr().err == expected


def test_print_shows_tensors_inside_structures(
    session: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    x = tf.constant(np.arange(9))
    sparse = tf.SparseTensor([[0, 1]], ["v"], [2, 2])
    session.run(tf.print("x:", {"b": [x], "a": tf.constant("t")}, sparse, output_stream=sys.stdout))
    assert capsys.readouterr().out == (
        "x: {'a': \"t\", 'b': [[0 1 2 ... 6 7 8]]} "
        "'SparseTensor(indices=[[0 1]], values=[\"v\"], shape=[2 2])'\n"
    )


def test_print_of_one_string_tensor_writes_it_bare(
    session: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    session.run(tf.print(tf.constant("as it is")))
    assert capsys.readouterr().err == "as it is\n"


def test_print_appends_to_files_and_writes_logs(
    session: Any, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    target = tmp_path / "log.txt"
    step = tf.print(tf.constant([1, 2]), output_stream=f"file://{target}")
    session.run(step)
    session.run(step)
    assert target.read_text() == "[1 2]\n[1 2]\n"
    with caplog.at_level(logging.WARNING, "headrace"):
        session.run(tf.print("look", output_stream="log(warning)"))
    assert [record.getMessage() for record in caplog.records] == ["look"]


def test_print_refuses_streams_and_keywords_that_it_does_not_know() -> None:
    with pytest.raises(ValueError, match="output_stream"):
        tf.print("a", output_stream="lpt1")
    with pytest.raises(TypeError, match="colour"):
        tf.print("a", colour="red")


def test_a_slice_of_a_variable_can_be_assigned_to(session: Any) -> None:
    v = tf.Variable(np.zeros((2, 3), np.float32))
    session.run(v.initializer)
    assert session.run(v[1].assign([1.0, 2.0, 3.0])).tolist() == [[0, 0, 0], [1, 2, 3]]
    assert session.run(v[:, ::2].assign(tf.ones([2, 2]))).tolist() == [[1, 0, 1], [1, 2, 1]]
    assert session.run(v[0, 1].assign(5.0)).tolist() == [[1, 5, 1], [1, 2, 1]]
    assert session.run(v[0].assign(7.0)).tolist() == [[7, 7, 7], [1, 2, 1]]
    with pytest.raises(
        errors.InvalidArgumentError,
        match=r"Cannot broadcast input shape \[2\] into final shape \[3\]",
    ):
        session.run(v[0].assign(tf.placeholder_with_default([1.0, 2.0], None)))


def test_assigning_to_a_slice_of_an_unset_variable_fails(session: Any) -> None:
    v = tf.Variable([1.0, 2.0])
    with pytest.raises(errors.FailedPreconditionError, match="uninitialized"):
        session.run(v[0].assign(5.0))


def test_nothing_of_a_tuple_is_there_before_all_of_it(session: Any) -> None:
    v = tf.Variable(1.0)
    session.run(v.initializer)
    bumped = v.assign_add(1.0)
    x, nothing, y = tf.tuple([tf.constant(3.0), None, tf.constant(4.0)], control_inputs=[bumped])
    assert nothing is None
    assert session.run(x) == 3
    assert session.run(v) == 2
    assert session.run(y) == 4
    assert session.run(v) == 3


def test_a_group_runs_its_members(session: Any) -> None:
    v, w = tf.Variable(1), tf.Variable(1)
    session.run([v.initializer, w.initializer])
    session.run(tf.group(v.assign_add(1), [w.assign_add(2)]))
    assert session.run([v, w]) == [2, 3]


def test_lists_of_tensors_and_variables_become_tensors(session: Any) -> None:
    v = tf.Variable([1.0, 2.0])
    session.run(v.initializer)
    x = tf.constant([3.0, 4.0])
    assert session.run(tf.convert_to_tensor([v, x])).tolist() == [[1, 2], [3, 4]]
    assert session.run(tf.reshape(x, [tf.size(x), 1])).tolist() == [[3], [4]]
    assert session.run(tf.convert_to_tensor([x[0], 1], tf.float64)).tolist() == [3, 1]
    with pytest.raises(TypeError, match="int32"):
        tf.convert_to_tensor([x[0], tf.constant(1)])


PYTHON_ASKS = [
    (bool, OperatorNotAllowedInGraphError, "as a Python `bool`"),
    (list, OperatorNotAllowedInGraphError, r"Iterating over .*tf\.unstack"),
    (len, TypeError, "len is not well defined"),
    (lambda x: 1 in x, TypeError, "not iterable"),
    (np.array, NotImplementedError, "symbolic"),
]


@pytest.mark.parametrize("make", [lambda: tf.constant([5, 6]), lambda: tf.placeholder(tf.float32)])
@pytest.mark.parametrize(("ask", "error", "says"), PYTHON_ASKS)
def test_python_is_refused_what_only_a_step_knows(
    ask: Any, error: type[Exception], says: str, make: Any
) -> None:
    with tf.Graph().as_default(), pytest.raises(error, match=says):
        ask(make())


def test_programs_keep_what_they_like_on_tensors_and_operations() -> None:
    x = tf.identity(1.0)
    x.note, x.op.note = "of the tensor", "of the operation"
    same = x.graph.get_tensor_by_name(x.name)
    assert (same.note, same.op.note) == ("of the tensor", "of the operation")
    assert not hasattr(tf.identity(2.0), "note")


def test_indexed_slices_become_dense_and_rows_of_one_index_add_up(session: Any) -> None:
    rows = tf.IndexedSlices(
        tf.constant([[1.0], [2.0], [4.0]]), tf.constant([2, 0, 2]), tf.constant([3, 1])
    )
    assert session.run(tf.convert_to_tensor(rows)).tolist() == [[2], [0], [5]]
    assert rows.shape.as_list() == [3, 1]
    value = session.run(rows)
    assert value.indices.tolist() == [2, 0, 2]
    negated = session.run(tf.convert_to_tensor(-rows))
    assert negated.tolist() == [[-2], [0], [-5]]
    with pytest.raises(ValueError, match="dense_shape"):
        tf.convert_to_tensor(tf.IndexedSlices(tf.constant([1.0]), tf.constant([0])))
    with pytest.raises(ValueError, match="float32"):
        tf.convert_to_tensor(rows, tf.float64)


def test_indexed_slices_of_unknown_size_warn_before_they_become_dense() -> None:
    sizes = tf.placeholder(tf.int32, [2])
    rows = tf.IndexedSlices(tf.constant([[1.0]]), tf.constant([0]), sizes)
    with pytest.warns(UserWarning, match="unknown shape"):
        tf.convert_to_tensor(rows)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        tf.reshape(tf.convert_to_tensor(tf.constant(1.0)), [1])


def test_the_parts_of_a_sparse_tensor_must_fit_each_other() -> None:
    with pytest.raises(ValueError, match="not compatible"):
        tf.SparseTensor([[0, 1]], [1, 2], [2, 2])
    with pytest.raises(ValueError, match="not compatible"):
        tf.SparseTensor([[0, 1]], [1], [2, 2, 2])
    sparse = tf.SparseTensor([[0, 1]], [1.5], [2, 3])
    assert (sparse.shape.as_list(), sparse.dtype) == ([2, 3], tf.float32)


def test_the_public_shape_size_and_rank_know_sparse_tensors(session: Any) -> None:
    sparse = tf.SparseTensor([[0, 1]], [1.5], [2, 3])
    assert session.run(tf.shape(sparse)).tolist() == [2, 3]
    assert session.run([tf.size(sparse), tf.rank(sparse)]) == [6, 2]


SHAPES: list[tuple[str, Any]] = [
    ("tf.reshape(x, [tf.shape(x)[0], -1])", [None, None]),
    ("tf.reshape(x, [-1, tf.shape(x)[1] * 2])", [None, 6]),
    ("tf.ones([tf.shape(x)[1], 2])", [3, 2]),
    ("tf.concat([x, x], 0)", [None, 3]),
    ("tf.tile(x, [2, tf.shape(x)[1]])", [None, 9]),
    ("x[:, tf.newaxis, 1:]", [None, 1, 2]),
    ("tf.gather(x, [0, 1])", [2, 3]),
    ("tf.boolean_mask(x, [True, False])", [None, 3]),
    ("tf.pad(x, [[0, 0], [1, tf.shape(x)[1]]])", [None, 7]),
    ("tf.one_hot(tf.cast(x[:, 0], tf.int32), 4)", [None, 4]),
    ("tf.stack([x, x], -1)", [None, 3, 2]),
    ("tf.unsorted_segment_sum(x, tf.zeros([2], tf.int32), tf.shape(x)[1])", [3, 3]),
    ("tf.broadcast_to(x[:, :1], [5, 2, 4])", [5, 2, 4]),
    ("tf.transpose(x)", [3, None]),
    ("tf.linspace(0.0, 1.0, tf.shape(x)[1])", [3]),
]


@pytest.mark.parametrize(("source", "expected"), SHAPES)
def test_static_shapes_know_what_can_be_known(source: str, expected: Any) -> None:
    x = tf.placeholder(tf.float32, [None, 3])
    made = eval(source, {"tf": tf, "x": x})
    assert made.shape.as_list() == expected


@pytest.mark.parametrize("wrong", ["end", "strides"])
def test_a_scalar_is_no_vector_after_a_slice_of_the_same_numbers(session: Any, wrong: str) -> None:
    fed = {
        name: tf.placeholder(tf.int32, shape=tf.TensorShape(None))
        for name in ("begin", "end", "strides")
    }
    cut = tf.strided_slice([1.0, 2.0, 3.0], *fed.values())
    good = {tensor: [1] if name != "end" else [3] for name, tensor in fed.items()}
    assert session.run(cut, good).tolist() == [2, 3]
    with pytest.raises(errors.InvalidArgumentError, match="1D equal size"):
        session.run(cut, {**good, fed[wrong]: good[fed[wrong]][0]})
