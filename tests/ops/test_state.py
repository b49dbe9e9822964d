"""State ops: assigning, updating in place, scattering, counting; and what refuses to."""

from __future__ import annotations

import operator
import threading
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

import headrace as tf
from headrace.base import dtypes, errors
from headrace.ops.state import references as state
from headrace.run.state.variable import Variable

TYPES = [
    "float32",
    "float64",
    "float16",
    "bfloat16",
    "int8",
    "int32",
    "uint16",
    "int64",
    "complex64",
]


def holding(values: Any, dtype: str = "float32") -> Variable:
    kind = dtypes.as_dtype(dtype)
    array = np.array(values).astype(kind.np)
    variable = Variable("v", kind, array.shape)
    variable.assign(array)
    return variable


def apply(spec: Any, variable: Variable, *inputs: Any, **attrs: Any) -> Any:
    arrays = [
        np.asarray(x) if np.asarray(x).dtype.kind in "iu" and index == 0 and len(inputs) == 2
        else np.asarray(x).astype(variable.dtype.np)
        for index, x in enumerate(inputs)
    ]  # fmt: skip
    assert spec.kernel(np, variable, *arrays, **attrs) is variable
    assert variable.array is not None
    assert variable.array.dtype == variable.dtype.np
    return variable.array.astype(complex).real.tolist()


NUMBERS = [
    "float32",
    "float64",
    "float16",
    "complex64",
    "int8",
    "uint8",
    "int32",
    "uint64",
    "int64",
]


@pytest.mark.parametrize("dtype", NUMBERS)
@given(data=st.data())
def test_a_number_becomes_what_numpy_makes_of_both(dtype: str, data: st.DataObject) -> None:
    numbers = st.tuples(*[arrays(dtype, ()) for _ in range(2)])
    before, value = data.draw(numbers)
    for spec, ufunc, sign in (
        (state.assign_add_op, np.add, operator.add),
        (state.assign_sub_op, np.subtract, operator.sub),
    ):
        with np.errstate(all="ignore"):
            expected = ufunc(before[...], value[...])
            for given_value in (value, value[()], value.item()):
                if isinstance(given_value, complex):
                    continue
                variable = holding(before, dtype)
                spec.kernel(np, variable, given_value)
                assert variable.array is not None
                np.testing.assert_array_equal(variable.array, expected, strict=True)
            by_constant = state.by_constant(value, ufunc, "a change", sign)
            if by_constant is not None:
                variable = holding(before, dtype)
                variable.as_number()
                assert by_constant(variable, value) is variable
                assert variable.array is not None
                np.testing.assert_array_equal(variable.array, expected, strict=True)


def test_a_number_is_not_added_to_what_has_another_shape() -> None:
    for value in (1.0, np.float32(1)):
        with pytest.raises(tf.errors.InvalidArgumentError, match=r"same size.*\[2\].*\[\]"):
            state.assign_add_op.kernel(np, holding([1, 2]), value)


# op, indices, updates -> [1, 2, 6, 8] afterwards
SCATTERS = [
    (state.scatter_update_op, [3, 0], [5, 4], [4, 2, 6, 5]),
    (state.scatter_update_op, [1, 1], [5, 4], [1, 4, 6, 8]),
    (state.scatter_update_op, [0, 2], 7, [7, 2, 7, 8]),
    (state.scatter_add_op, [0, 0, 2], [1, 2, 3], [4, 2, 9, 8]),
    (state.scatter_sub_op, [3, 3], [1, 2], [1, 2, 6, 5]),
    (state.scatter_mul_op, [[1], [1]], [[2], [3]], [1, 12, 6, 8]),
    (state.scatter_div_op, [2, 3, 3], [3, 2, 2], [1, 2, 2, 2]),
    (state.scatter_nd_update_op, [[3], [0]], [5, 4], [4, 2, 6, 5]),
    (state.scatter_nd_add_op, [[1], [1]], [5, 4], [1, 11, 6, 8]),
    (state.scatter_nd_sub_op, [[1]], [1], [1, 1, 6, 8]),
]


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize(("spec", "indices", "updates", "after"), SCATTERS)
def test_scatters(spec: Any, indices: Any, updates: Any, after: Any, dtype: str) -> None:
    variable = holding([1, 2, 6, 8], dtype)
    assert apply(spec, variable, np.array(indices), updates) == after


def test_scatter_min_and_max_keep_the_smaller_and_the_larger() -> None:
    assert apply(state.scatter_min_op, holding([4, 5]), np.array([0, 0, 1]), [3, 9, 7]) == [3, 5]
    assert apply(state.scatter_max_op, holding([4, 5]), np.array([0, 0, 1]), [3, 9, 7]) == [9, 7]


def test_integers_divide_towards_zero_as_in_c() -> None:
    assert apply(state.scatter_div_op, holding([-7, 7], "int32"), np.array([0, 1]), [2, -2]) == [
        -3,
        -3,
    ]


def test_rows_scatter_whole() -> None:
    variable = holding([[1, 2], [3, 4]])
    apply(state.scatter_add_op, variable, np.array([1]), [[10, 20]])
    assert variable.require().tolist() == [[1, 2], [13, 24]]


def test_coordinates_without_axes_mean_the_whole_variable() -> None:
    variable = holding([1, 2])
    apply(state.scatter_nd_add_op, variable, np.zeros((2, 0), np.int32), [[1, 1], [10, 10]])
    assert variable.require().tolist() == [12, 13]


REFUSED = [
    (state.assign_add_op, ([1.0],), "shape"),
    (state.scatter_add_op, (np.array([2]), np.float32([1])), "[0, 2)"),
    (state.scatter_add_op, (np.array([-1]), np.float32([1])), "[0, 2)"),
    (state.scatter_add_op, (np.array([0]), np.float32([1, 2])), "indices.shape"),
    (state.scatter_nd_add_op, (np.array([[2]]), np.float32([1])), "does not index"),
    (state.scatter_nd_add_op, (np.array([[0, 0]]), np.float32([1])), "do not address"),
    (state.scatter_nd_add_op, (np.array([[0]]), np.float32([[1]])), "updates"),
]


@pytest.mark.parametrize(("spec", "inputs", "says"), REFUSED)
def test_updates_that_do_not_fit_change_nothing(spec: Any, inputs: Any, says: str) -> None:
    variable = holding([1, 2])
    with pytest.raises(errors.InvalidArgumentError) as caught:
        spec.kernel(np, variable, *(np.asarray(x) for x in inputs))
    assert says in str(caught.value)
    assert variable.require().tolist() == [1, 2]


def test_integer_division_by_zero_is_an_error() -> None:
    variable = holding([1, 2], "int32")
    with pytest.raises(errors.InvalidArgumentError, match="zero"):
        state.scatter_div_op.kernel(np, variable, np.array([0]), np.array([0], np.int32))


def test_nothing_but_assign_takes_an_uninitialized_variable() -> None:
    variable = Variable("v", dtypes.float32, (2,))
    assert not state.is_variable_initialized_op.kernel(np, variable)
    for spec, inputs in [
        (state.assign_add_op, [np.float32([1, 2])]),
        (state.scatter_add_op, [np.array([0]), np.float32([1])]),
    ]:
        with pytest.raises(errors.FailedPreconditionError, match="uninitialized value v"):
            spec.kernel(np, variable, *inputs)
    state.assign_op.kernel(np, variable, np.float32([1, 2]), validate_shape=True)
    assert state.is_variable_initialized_op.kernel(np, variable)


def test_count_up_to_gives_what_it_was_and_stops_at_the_limit() -> None:
    variable = holding(0, "int64")
    counts = [int(state.count_up_to_op.kernel(np, variable, limit=2)) for _ in range(2)]
    assert counts == [0, 1]
    with pytest.raises(errors.OutOfRangeError, match="limit of 2"):
        state.count_up_to_op.kernel(np, variable, limit=2)
    assert variable.require() == 2


def test_updates_from_many_threads_all_count() -> None:
    variable = holding(np.zeros(100))
    one, rows = np.ones(100, np.float32), np.arange(100).repeat(2)

    def update() -> None:
        for _ in range(200):
            state.assign_add_op.kernel(np, variable, one)
            state.scatter_add_op.kernel(np, variable, rows, np.ones(200, np.float32))

    threads = [threading.Thread(target=update) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert set(variable.require().tolist()) == {4 * 200 * 3}


def test_updates_happen_in_place() -> None:
    variable = holding([1, 2])
    array = variable.array
    apply(state.assign_add_op, variable, [1, 1])
    apply(state.scatter_add_op, variable, np.array([0]), [1])
    assert variable.array is array


def test_a_value_that_is_the_variable_itself_is_no_trap() -> None:
    variable = holding([1, 2, 3])
    array = variable.require()
    state.assign_op.kernel(np, variable, array[::-1], validate_shape=True)
    state.assign_add_op.kernel(np, variable, array[::-1])
    assert variable.require().tolist() == [4, 4, 4]


def test_variables_of_one_container_and_name_are_one() -> None:
    with tf.Graph().as_default(), tf.Session() as session:
        first = state.variable_v2(shape=[], dtype=tf.float32, shared_name="s", container="c")
        again = state.variable_v2(shape=[], dtype=tf.float32, shared_name="s", container="c")
        apart = state.variable_v2(shape=[], dtype=tf.float32, shared_name="s")
        session.run(tf.assign(first, 3.0))
        assert session.run(again) == 3.0
        with pytest.raises(errors.FailedPreconditionError):
            session.run(apart)


def test_one_name_for_two_types_is_refused() -> None:
    with tf.Graph().as_default(), tf.Session() as session:
        first = state.variable_v2(shape=[], dtype=tf.float32, shared_name="s")
        other = state.variable_v2(shape=[], dtype=tf.int32, shared_name="s")
        session.run(tf.assign(first, 3.0))
        with pytest.raises(errors.InvalidArgumentError, match=r"float32.*int32"):
            session.run(tf.assign(other, 3))


def test_bfloat16_keeps_its_type() -> None:
    variable = holding([1, 2], "bfloat16")
    apply(state.assign_sub_op, variable, [1, 1])
    assert variable.require().dtype == ml_dtypes.bfloat16


CHANGES = {
    "float": (np.float32(1.5), np.float32(0.1)),
    "double": (np.float64(1.5), np.float64(1e300)),
    "half": (np.float16(60_000), np.float16(60_000)),
    "bytes that wrap": (np.int8(100), np.int8(100)),
    "unsigned, below zero": (np.uint8(1), np.uint8(2)),
    "large integers": (np.int64(2**63 - 1), np.int64(1)),
    "complex": (np.complex64(1j), np.complex64(2)),
    "not a number": (np.float32(1), np.float32("nan")),
}


@pytest.mark.parametrize("use_resource", [False, True], ids=["reference", "resource"])
@pytest.mark.parametrize("kind", CHANGES)
def test_a_constant_changes_a_number_as_what_is_fed_does(kind: str, use_resource: bool) -> None:
    first, more = CHANGES[kind]
    with tf.Graph().as_default(), tf.Session() as session:
        ours, theirs = (tf.Variable(first, use_resource=use_resource) for _ in range(2))
        fed = tf.placeholder(ours.dtype.base_dtype, [])
        for change in ("assign_add", "assign_sub", "assign_sub"):
            session.run(tf.global_variables_initializer())
            by_constant = getattr(ours, change)(more)
            by_what_is_fed = getattr(theirs, change)(fed)
            before = session.run(ours)
            for _ in range(3):
                found, wanted = session.run([by_constant, by_what_is_fed], {fed: more})
                np.testing.assert_array_equal(found, wanted)
                assert found.dtype == wanted.dtype
            assert before == first


def test_a_constant_changes_no_variable_without_a_value_or_of_another_shape() -> None:
    with tf.Graph().as_default(), tf.Session() as session:
        variable = tf.Variable(1.0, validate_shape=False)
        more = tf.assign_add(variable, 1.0)
        for _ in range(2):
            with pytest.raises(errors.FailedPreconditionError, match="uninitialized value"):
                session.run(more)
        session.run(tf.assign(variable, [1.0, 2.0], validate_shape=False))
        for _ in range(2):
            with pytest.raises(errors.InvalidArgumentError, match="must be the same size"):
                session.run(more)
        session.run(variable.initializer)
        assert [session.run(more) for _ in range(2)] == [2.0, 3.0]
