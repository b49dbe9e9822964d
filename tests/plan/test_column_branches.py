"""Branches, assertions and random numbers of functions that are run for many elements at once."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import headrace as tf
from headrace.graph.registry import OPS
from headrace.plan.functions import StepFunction
from headrace.run.exec.kernel import Runtime, StepState
from headrace.run.exec.worker_pool import WorkerPool
from headrace.run.queues.column_work import OneByOne
from headrace.run.scope import Scope
from tests.plan.programs import DEVICE
from tests.plan.test_columns import planned, strings

NUMBERS = np.array([3, -1, 0, 7, 2, -5, 4], np.int64)
PICTURES = np.random.default_rng(0).integers(0, 256, (7, 6, 5, 3)).astype(np.uint8)
K = tf.constant
WORDS = strings([b"a", b"bc", b"", b"def", b"g", b"hi", b"j"])


@pytest.fixture(autouse=True)
def graph() -> Any:
    with tf.Graph().as_default() as made:
        yield made


def alone(function: StepFunction, columns: list[Any], at: int, runtime: Runtime) -> list[Any]:
    arguments = [column[at : at + 1].reshape(column.shape[1:]) for column in columns]
    return function(arguments, StepState(runtime, Scope()))


def check(function: StepFunction, columns: list[Any], runtime: Runtime) -> None:
    """All together is one by one, and some of them too, so that branches are taken by all or none."""
    together = function.by_columns(len(columns))
    assert together is not None
    count = len(columns[0])
    wanted = [alone(function, columns, at, runtime) for at in range(count)]
    for some in ([*range(count)], *[[at] for at in range(count)], [0, 3], [1, 5]):
        found = together([column[some] for column in columns], len(some))
        for mine, theirs in zip(found, zip(*[wanted[at] for at in some], strict=True), strict=True):
            assert len(mine) == len(theirs)
            for one, other in zip(mine, theirs, strict=True):
                assert np.shape(one) == np.shape(other)
                assert np.array_equal(np.asarray(one, other.dtype), other)
                assert other.dtype == object or one.dtype == other.dtype


def nested(n: Any) -> Any:
    def even() -> Any:
        return tf.cond(n > 3, lambda: n * 100, lambda: tf.constant(7, tf.int64))

    return tf.cond(tf.equal(n % 2, 0), even, lambda: tf.cond(n < 0, lambda: -n, lambda: n + 1))


def sure(n: Any) -> Any:
    """The assertion is in a branch of its own, since it shows a number."""
    with tf.control_dependencies([tf.Assert(n < 9, ["large", n]), tf.Assert(n > -9, ["small"])]):
        return n + 1


CASES: list[tuple[str, list[Any], Callable[..., Any]]] = [
    ("of numbers", [NUMBERS], lambda n: tf.cond(n > 2, lambda: n, lambda: -n)),
    ("one gives what is known", [NUMBERS], lambda n: tf.cond(n > 2, lambda: n, lambda: K(9, tf.int64))),
    ("both give what is known", [NUMBERS], lambda n: tf.cond(n > 2, lambda: K("x"), lambda: K("y"))),
    ("of several", [NUMBERS, PICTURES], lambda n, p: tf.cond(n > 2, lambda: (p[0], n), lambda: (p[1] * 2, n * n))),
    ("nested", [NUMBERS], nested),
    ("one after the other", [NUMBERS], lambda n: nested(nested(n))),
    ("side by side", [NUMBERS, NUMBERS[::-1].copy()], lambda n, m: tf.cond(n > m, lambda: n, lambda: m) - nested(n)),
    ("of words", [WORDS], lambda w: tf.cond(tf.equal(tf.strings.length(w), 1), lambda: w + "!", lambda: w)),
    ("other shapes", [NUMBERS], lambda n: tf.cond(n > 2, lambda: tf.range(n), lambda: tf.range(2, dtype=tf.int64))),
    ("turned over", [NUMBERS, PICTURES], lambda n, p: tf.cond(n > 2, lambda: tf.reverse(p, [1]), lambda: p)),
    ("what others must not do", [NUMBERS], lambda n: tf.cond(tf.not_equal(n, 0), lambda: 60 // n, lambda: n)),
    ("asserted", [NUMBERS], lambda n: sure(n)),
]  # fmt: skip


@pytest.mark.parametrize(("name", "columns", "build"), CASES, ids=[case[0] for case in CASES])
def test_each_element_takes_its_branch(
    name: str, columns: list[Any], build: Callable[..., Any], runtime: Runtime
) -> None:
    check(planned(columns, build), columns, runtime)


@pytest.mark.parametrize("holds", [True, False])
def test_what_does_not_vary_may_be_the_condition(holds: bool) -> None:
    outside = tf.placeholder_with_default(False, [])

    def build(n: Any) -> Any:
        return tf.cond(outside, lambda: n * 2, lambda: tf.constant(5, tf.int64))

    together = planned([NUMBERS], build).by_columns(1)
    assert together is not None
    (found,) = together([NUMBERS, np.bool_(holds)], 7)
    assert found.tolist() == ((NUMBERS * 2).tolist() if holds else [5] * 7)


def test_which_branch_it_was(runtime: Runtime) -> None:
    def build(n: Any) -> Any:
        fails, holds = OPS["Switch"](n, n > 2)
        return tuple(OPS["Merge"]([tf.negative(holds), tf.identity(fails)]))

    check(planned([NUMBERS], build), [NUMBERS], runtime)


Expression = Callable[[Any, Any], Any]


def expressions() -> st.SearchStrategy[Expression]:
    """Functions of two numbers, with conditions within conditions."""
    leaves: list[Expression] = [
        lambda n, m: n,
        lambda n, m: m,
        lambda n, m: tf.constant(3, tf.int64),
    ]

    def more(inner: st.SearchStrategy[Expression]) -> st.SearchStrategy[Expression]:
        def branches(test: Expression, one: Expression, other: Expression) -> Expression:
            return lambda n, m: tf.cond(test(n, m) > 1, lambda: one(n, m), lambda: other(n, m))

        def product(one: Expression, other: Expression) -> Expression:
            return lambda n, m: one(n, m) * other(n, m) - 1

        def inside(one: Expression, other: Expression) -> Expression:
            """What a condition has chosen goes into another one."""
            return lambda n, m: other(one(n, m), n)

        return st.one_of(
            st.builds(branches, inner, inner, inner),
            st.builds(product, inner, inner),
            st.builds(inside, inner, inner),
        )

    return st.recursive(st.sampled_from(leaves), more, max_leaves=8)


@settings(max_examples=60, deadline=None)
@given(build=expressions())
def test_conditions_in_conditions(build: Expression) -> None:
    columns = [NUMBERS, np.array([1, 1, 2, 0, 5, 3, -2], np.int64)]
    runtime = Runtime(DEVICE, workers=WorkerPool(1))
    try:
        with tf.Graph().as_default():
            check(planned(columns, build), columns, runtime)
    finally:
        runtime.workers.close()


def test_an_assertion_is_for_one_by_one_if_it_fails_for_some() -> None:
    def build(n: Any) -> Any:
        with tf.control_dependencies([tf.Assert(n < 7, ["large", n])]):
            return tf.identity(n)

    together = planned([NUMBERS], build).by_columns(1)
    assert together is not None
    assert together([NUMBERS[:3]], 3)[0].tolist() == NUMBERS[:3].tolist()
    with pytest.raises(OneByOne):
        together([NUMBERS], 7)


def test_an_assertion_of_more_than_one_bool_is_for_one_by_one() -> None:
    def build(n: Any) -> Any:
        with tf.control_dependencies([OPS["Assert"](tf.stack([n > -9, n < 9]), ["no scalar"])]):
            return tf.identity(n)

    together = planned([NUMBERS], build).by_columns(1)
    assert together is not None
    with pytest.raises(OneByOne):
        together([NUMBERS], 7)


def test_an_assertion_of_a_branch_is_asked_of_those_that_take_it() -> None:
    def build(n: Any) -> Any:
        def checked() -> Any:
            with tf.control_dependencies([tf.Assert(n < 7, ["large"])]):
                return tf.identity(n)

        return tf.cond(n > 3, checked, lambda: n)

    together = planned([NUMBERS], build).by_columns(1)
    assert together is not None
    assert together([NUMBERS[4:]], 3)[0].tolist() == NUMBERS[4:].tolist()
    with pytest.raises(OneByOne):
        together([NUMBERS], 7)


# -- random numbers ---------------------------------------------------------------------------

MANY = 4000


@pytest.mark.parametrize(
    ("build", "shape", "low", "high", "mean"),
    [
        (lambda n: tf.random_uniform([2, 3]), (2, 3), 0, 1, 0.5),
        (lambda n: tf.random_uniform([], -2.0, 4.0, tf.float64), (), -2, 4, 1),
        (lambda n: tf.random_uniform([3], 5, 8, tf.int32), (3,), 5, 7, 6),
        (lambda n: tf.random_normal([4], 2.0), (4,), -8, 12, 2),
        (lambda n: tf.truncated_normal([4], stddev=0.5), (4,), -1, 1, 0),
        (lambda n: tf.cond(n < 5, lambda: tf.random_uniform([2]), lambda: tf.random_uniform([2])), (2,), 0, 1, 0.5),
    ],
)  # fmt: skip
def test_numbers_without_seeds_are_others_for_each(
    build: Callable[..., Any], shape: tuple[int, ...], low: float, high: float, mean: float
) -> None:
    numbers = np.arange(MANY) % 10
    function = planned([numbers], build)
    together = function.by_columns(1)
    assert together is not None
    (found,) = together([numbers], MANY)
    assert isinstance(found, np.ndarray)
    assert found.shape == (MANY, *shape)
    assert found.dtype == function.outputs[0][0].np
    assert low <= found.min()
    assert found.max() <= high
    assert found.mean() == pytest.approx(mean, abs=0.1)
    different = len(np.unique(found.reshape(MANY, -1)[:, 0]))
    assert different == 3 if found.dtype.kind == "i" else different > MANY - 10
    (again,) = together([numbers], MANY)
    assert not np.array_equal(found, again)


def test_limits_that_vary(runtime: Runtime) -> None:
    high = np.arange(1, 301, dtype=np.int32)
    together = planned([high], lambda n: tf.random_uniform([4], -n, n, tf.int32)).by_columns(1)
    assert together is not None
    (found,) = together([high], 300)
    assert (np.abs(found + 0.5) < high[:, None]).all()
    assert np.abs(found[200:]).max() > 100
    high[7] = -1
    with pytest.raises(Exception, match="minval"):
        together([high], 300)


def test_what_is_cut_out_at_random_is_a_part_of_each() -> None:
    together = planned([PICTURES], lambda p: tf.random_crop(p, [2, 4, 3])).by_columns(1)
    assert together is not None
    for _ in range(20):
        (found,) = together([PICTURES], 7)
        for part, picture in zip(found, PICTURES, strict=True):
            places = [picture[y : y + 2, x : x + 4] for y in range(5) for x in range(2)]
            assert any(np.array_equal(part, each) for each in places)


def test_more_than_there_is_cannot_be_cut_out() -> None:
    def build(p: Any, at: Any) -> Any:
        return tf.slice(p, at, [2, 4, 3])

    starts = np.zeros((7, 3), np.int32)
    together = planned([PICTURES, starts], build).by_columns(2)
    assert together is not None
    starts[:, :2] = [(n % 5, n % 2) for n in range(7)]
    (found,) = together([PICTURES, starts], 7)
    for part, picture, (y, x, _) in zip(found, PICTURES, starts, strict=True):
        assert np.array_equal(part, picture[y : y + 2, x : x + 4])
    for bad in ([5, 0, 0], [0, 0, -1]):
        starts[3] = bad
        with pytest.raises(tf.errors.InvalidArgumentError):
            together([PICTURES, starts], 7)
    starts[3] = 0


def test_what_is_turned_over_at_random_is_one_or_the_other() -> None:
    together = planned([PICTURES], tf.image.random_flip_left_right).by_columns(1)
    assert together is not None
    turned = 0
    for _ in range(40):
        (found,) = together([PICTURES], 7)
        for one, picture in zip(found, PICTURES, strict=True):
            turned += np.array_equal(one, picture[:, ::-1])
            assert np.array_equal(one, picture) or np.array_equal(one, picture[:, ::-1])
    assert 90 < turned < 190


def drawn_within(n: Any) -> Any:
    def inner() -> Any:
        drawn = tf.random_uniform([], seed=1)
        return tf.cond(n > 2, lambda: drawn + tf.random_normal([], seed=2), lambda: -drawn)

    return tf.cond(n > -2, inner, lambda: tf.random_uniform([], 5.0, 6.0, seed=3))


@pytest.mark.parametrize("used", range(8))
def test_elements_that_go_nowhere_give_back_what_their_branches_drew(
    used: int, runtime: Runtime
) -> None:
    function = planned([NUMBERS], drawn_within)
    one_by_one = function.anew()
    wanted = [alone(one_by_one, [NUMBERS], at, runtime)[0] for at in range(7)]
    together = function.by_columns(1)
    assert together is not None
    registers = list(together._template)
    registers[together._arguments[0]] = NUMBERS
    for work in together._work:
        work.run(registers, 7)
    assert np.array_equal(registers[together._results[0][0]], wanted)
    for draw in together._draws:
        draw.give_back(registers, used)
    for at in range(used, 7):
        assert alone(function, [NUMBERS], at, runtime)[0] == wanted[at]
