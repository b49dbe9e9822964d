"""Numbers reach kernels as NumPy scalars and Python's operators: the same bits and no warning, whatever the type."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import headrace as tf
from headrace.run.exec.float_warnings import restore_warnings, suppress_warnings

FLOATS = [0.0, -0.0, 1.5, -3.0, 1e-7, 6e4, 3e38, np.inf, -np.inf, np.nan]
INTS = [0, 1, -1, 7, 100, 127, -128, 255, 32767, 2**31 - 1, -(2**31), 2**63 - 1]
TYPES = "float16 float32 float64 int8 int16 int32 int64 uint8 uint16".split()
OPERATIONS = {
    "+": lambda x, y: x + y,
    "-": lambda x, y: x - y,
    "*": lambda x, y: x * y,
    "/": lambda x, y: x / y,
    "neg": lambda x, y: -x,
    "<": lambda x, y: x < y,
    "<=": lambda x, y: x <= y,
    ">": lambda x, y: x > y,
    ">=": lambda x, y: x >= y,
}


def values(kind: str) -> Any:
    with np.errstate(all="ignore"):
        return np.array(FLOATS if kind.startswith("float") else INTS).astype(kind)


@pytest.mark.parametrize("kind", TYPES)
def test_scalars_give_what_arrays_give(kind: str) -> None:
    held = values(kind)
    pairs = [(a, b) for a in held for b in held]
    xs, ys = (np.array(column) for column in zip(*pairs, strict=True))
    with tf.Graph().as_default(), tf.Session() as session:
        x, y = tf.placeholder(kind, []), tf.placeholder(kind, [])
        many = [tf.placeholder(kind, [None]) for _ in range(2)]
        wanted = {n: f for n, f in OPERATIONS.items() if n != "/" or kind.startswith("float")}
        if kind.startswith("u"):
            del wanted["neg"]
        one = {name: function(x, y) for name, function in wanted.items()}
        all_of_them = {name: function(*many) for name, function in wanted.items()}
        theirs = session.run(all_of_them, dict(zip(many, (xs, ys), strict=True)))
        run = session.make_callable(one, [x, y])
        for index, pair in enumerate(pairs):
            ours = run(*pair)
            for name in wanted:
                expected = theirs[name][index]
                assert ours[name].dtype == expected.dtype, name
                assert ours[name].tobytes() == expected.tobytes() or (
                    np.isnan(ours[name]) and np.isnan(expected)
                ), (name, pair)


@pytest.mark.parametrize("kind", ["float32", "float64", "int32", "int64", "float16"])
@pytest.mark.parametrize("use_resource", [False, True])
def test_scalar_variables_are_updated_as_arrays_are(kind: str, use_resource: bool) -> None:
    held = values(kind)
    with tf.Graph().as_default(), tf.Session() as session:
        one = tf.Variable(np.array(1, kind), use_resource=use_resource)
        row = tf.Variable(np.array([1], kind), use_resource=use_resource)
        by = tf.placeholder(kind, [])
        steps = [
            one.assign_add(by),
            row.assign_add([by]),
            one.assign_sub(by / by if kind[0] == "f" else by),
        ]
        session.run(tf.global_variables_initializer())
        for value in held[:6]:
            a, b = session.run(steps[:2], {by: value})
            assert np.asarray(a).tobytes() == b.tobytes()
            assert a.dtype == kind
        session.run(steps[2], {by: held[2]})


def test_a_fetched_number_is_not_changed_by_a_later_update() -> None:
    for use_resource in (False, True):
        with tf.Graph().as_default(), tf.Session() as session:
            v = tf.Variable(1.0, use_resource=use_resource)
            session.run(tf.global_variables_initializer())
            before = session.run(v)
            after = session.run(v.assign_add(1.0))
            assert (before, after, session.run(v)) == (1.0, 2.0, 2.0)


def test_the_callers_own_settings_are_there_again_after_a_step() -> None:
    with tf.Graph().as_default(), tf.Session() as session, np.errstate(over="raise", divide="warn"):
        was = np.geterr()
        x = tf.placeholder(tf.float32, [])
        assert session.run(1.0 / x, {x: 0.0}) == np.inf
        assert np.geterr() == was
        with pytest.raises(tf.errors.InvalidArgumentError):
            session.run(tf.gather([1.0, 2.0], tf.cast(x, tf.int32)), {x: 9.0})
        assert np.geterr() == was


def test_hushing_may_be_nested() -> None:
    before = np.geterr()
    first = suppress_warnings()
    second = suppress_warnings()
    assert set(np.geterr().values()) == {"ignore"}
    restore_warnings(second)
    assert set(np.geterr().values()) == {"ignore"}
    restore_warnings(first)
    assert np.geterr() == before
