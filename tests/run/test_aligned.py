"""Arrays that begin at a cache line."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import headrace as tf
from headrace.run.state.aligned import aligned, aligned_copy
from headrace.run.state.variable import State

LARGE = (300, 200)
INITIALIZERS: dict[str, Callable[[int | None], Any]] = {
    "a constant": lambda seed: tf.constant_initializer(0.5),
    "uniform": lambda seed: tf.random_uniform_initializer(-1, 1, seed),
    "normal": lambda seed: tf.random_normal_initializer(0, 0.1, seed),
    "truncated": lambda seed: tf.truncated_normal_initializer(0, 0.1, seed),
    "glorot": lambda seed: tf.glorot_uniform_initializer(seed),
}


def place(array: np.ndarray) -> int:
    return int(array.__array_interface__["data"][0] % 64)


@pytest.mark.parametrize(
    "dtype", [np.float32, np.float64, np.int8, np.complex128, ml_dtypes.bfloat16]
)
def test_large_arrays_of_numbers_are_aligned(dtype: type) -> None:
    shape = (300, 400)
    for _ in range(5):
        found = aligned(shape, np.dtype(dtype))
        assert (found.shape, found.dtype, place(found)) == (shape, np.dtype(dtype), 0)
        assert found.flags.c_contiguous
        assert found.flags.writeable


@given(st.lists(st.integers(0, 70), max_size=3).map(tuple), st.sampled_from(["f4", "i8", "O"]))
def test_copies_hold_what_was_copied(shape: tuple[int, ...], dtype: str) -> None:
    values = np.arange(np.prod(shape, dtype=int)).reshape(shape).T
    copy = aligned_copy(values, np.dtype(dtype))
    assert copy.flags.c_contiguous
    assert copy.dtype == dtype
    np.testing.assert_array_equal(copy, values)


@pytest.mark.parametrize("use_resource", [False, True], ids=["reference", "resource"])
def test_variables_are_aligned_whatever_they_are_assigned(use_resource: bool) -> None:
    values = np.ones(np.prod(LARGE) + 1, np.float32)[1:].reshape(LARGE)
    with tf.Graph().as_default(), tf.Session() as session:
        variable = tf.get_variable("v", initializer=values, use_resource=use_resource)
        session.run(variable.initializer)
        kept = session._engine._runtime.resources.all()  # type: ignore[attr-defined]
        (state,) = [each for each in kept if isinstance(each, State)]
        assert place(state.array) == 0
        read = state.read()  # so that the next one makes another array
        session.run(variable.assign_add(values))
        assert place(state.array) == 0
        np.testing.assert_array_equal(read, values)
        np.testing.assert_array_equal(state.array, values * 2)


@pytest.mark.parametrize("seed", [None, 3], ids=["no seed", "a seed"])
@pytest.mark.parametrize("initializer", INITIALIZERS)
def test_first_values_are_made_where_they_are_aligned(initializer: str, seed: int | None) -> None:
    with tf.Graph().as_default(), tf.Session() as session:
        tf.get_variable("v", [700, 500], initializer=INITIALIZERS[initializer](seed))
        session.run(tf.global_variables_initializer())
        kept = session._engine._runtime.resources.all()  # type: ignore[attr-defined]
        (state,) = [each for each in kept if isinstance(each, State)]
        assert place(state.array) == 0
