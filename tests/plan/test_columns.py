"""Functions for many elements at once give, to the bit, what they give for each."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import headrace as tf
from headrace.codec import images
from headrace.graph.func_graph import FuncGraph
from headrace.graph.registry import OPS
from headrace.plan.compile import compile_program
from headrace.plan.functions import StepFunction
from headrace.run.exec.kernel import Runtime, StepState
from headrace.run.queues.column_work import OneByOne
from headrace.run.scope import Scope

ROWS = 6
FLOATS = np.random.default_rng(2).normal(size=(ROWS, 3)).astype(np.float32)
WIDE = np.random.default_rng(3).normal(size=(ROWS, 60, 40)).astype(np.float32)
NUMBERS = np.arange(ROWS, dtype=np.int64)
WORDS = np.array([b"1,a", b"2,b", b"3,", b"4,d", b"5,e", b"6,f"], object)

CASES: list[tuple[str, list[Any], Callable[..., Any]]] = [
    ("arithmetic", [FLOATS, NUMBERS], lambda x, n: (x * 2.0 + 1.0, tf.cast(n, tf.float32) / 3.0)),
    ("of both", [FLOATS, FLOATS], lambda x, y: tf.exp(x) - tf.tanh(y)),
    ("parsing", [WORDS], lambda line: tuple(tf.decode_csv(line, [[0], ["none"]]))),
    ("what does not vary", [NUMBERS], lambda n: (n, tf.constant([1.0, 2.0]))),
    ("a sum of each", [FLOATS], lambda x: (tf.reduce_sum(x), tf.reduce_max(x))),
    ("of a shape of its own", [NUMBERS], lambda n: tf.range(n)),
    ("argument as it is", [FLOATS, NUMBERS], lambda x, n: (n, x)),
    ("a sum of what lies across", [WIDE], lambda x: (tf.reduce_sum(tf.transpose(x) * 1.5), tf.reduce_mean(x[3:, 5:]))),
    ("a sum of a part", [WIDE], lambda x: tf.reduce_sum(tf.slice(x, [7, 0], [40, 11]))),
    ("a product", [WIDE], lambda x: tf.matmul(x, tf.constant(WIDE[0].T))),
    ("an element of each", [FLOATS], lambda x: (x[1], tf.expand_dims(x, 0))),
]  # fmt: skip


def planned(columns: list[Any], build: Callable[..., Any]) -> StepFunction:
    made = FuncGraph("f")
    with made.as_default():
        given = [
            made.add_argument(
                tf.as_dtype(column.dtype if column.dtype != object else tf.string),
                tf.TensorShape(column.shape[1:]),
            )
            for column in columns
        ]
        returned = build(*given)
        made.outputs = [
            tf.convert_to_tensor(each)
            for each in (returned if isinstance(returned, tuple) else (returned,))
        ]
    return StepFunction(made.to_function(), "/device:CPU:0", compile_program)


@pytest.fixture(autouse=True)
def graph() -> Any:
    with tf.Graph().as_default() as made:
        yield made


@pytest.mark.parametrize(("name", "columns", "build"), CASES, ids=[case[0] for case in CASES])
def test_together_is_one_by_one(
    name: str, columns: list[Any], build: Callable[..., Any], runtime: Runtime
) -> None:
    function = planned(columns, build)
    together = function.by_columns(len(columns))
    assert together is not None
    found = together(columns, ROWS)
    for at in range(ROWS):
        step = StepState(runtime, Scope())
        alone = function([np.asarray(column[at]) for column in columns], step)
        for mine, wanted in zip([column[at] for column in found], alone, strict=True):
            assert np.shape(mine) == np.shape(wanted)
            assert np.array_equal(np.asarray(mine), np.asarray(wanted))


def test_what_is_captured_does_not_vary(runtime: Runtime) -> None:
    outside = tf.constant([10.0, 20.0, 30.0])
    function = planned([FLOATS], lambda x: x + outside)
    together = function.by_columns(1)
    assert together is not None
    (found,) = together([FLOATS, np.array([10, 20, 30], np.float32)], ROWS)
    assert np.array_equal(found, FLOATS + np.array([10, 20, 30], np.float32))


@pytest.mark.parametrize(
    "build",
    [
        lambda n: tf.random_uniform(tf.fill([1], tf.cast(n, tf.int32))),
        lambda n: tf.while_loop(lambda i: i < n, lambda i: i + 1, [n * 0]),
        lambda n: tf.multinomial([[1.0, 2.0]], 3),
        lambda n: tf.py_func(lambda x: x, [n], tf.int64),
        lambda n: OPS["MatrixInverse"](tf.cast(tf.fill([2, 2], n), tf.float32)),
    ],
    ids=[
        "as many as it says",
        "a loop",
        "other numbers",
        "the user's",
        "long",
    ],
)
def test_what_else_goes_one_by_one(build: Callable[..., Any]) -> None:
    assert planned([NUMBERS], build).by_columns(1) is None


def test_an_element_that_fails_is_found_by_going_one_by_one(runtime: Runtime) -> None:
    function = planned([WORDS], lambda word: tf.string_to_number(word))
    together = function.by_columns(1)
    assert together is not None
    with pytest.raises(Exception, match="StringToNumber"):
        together([WORDS], ROWS)


def test_a_function_that_remembers_may_begin_anew(runtime: Runtime) -> None:
    function = planned([NUMBERS], lambda n: tf.random_uniform([2], seed=5))
    assert function.keeps
    step = StepState(runtime, Scope())
    (first,), (second,) = function([np.int64(0)], step), function([np.int64(0)], step)
    (again,) = function.anew()([np.int64(0)], step)
    assert not np.array_equal(first, second)
    assert np.array_equal(first, again)


def test_a_function_that_only_computes_has_nothing_to_forget() -> None:
    function = planned([NUMBERS], lambda n: n + 1)
    assert not function.keeps
    assert function.anew() is function


# -- what takes long --------------------------------------------------------------------------


def picture(seed: int, *shape: int) -> bytes:
    pixels = np.random.default_rng(seed).integers(0, 256, shape).astype(np.uint8)
    return images.encode_png(pixels, -1)


def strings(values: list[bytes]) -> Any:
    column = np.empty(len(values), object)
    column[:] = values
    return column


def loaded(content: Any) -> Any:
    pixels = tf.cast(tf.image.decode_png(content, channels=3), tf.float32)
    return tf.image.resize_bilinear(tf.expand_dims(pixels, 0), [4, 5])[0] / 255.0


@pytest.mark.parametrize("sizes", [[(6, 7, 3)] * 5, [(6, 7, 3), (6, 7, 1), (3, 3, 3), (6, 7, 3)]])
def test_pictures_are_decoded_and_resized_together(
    sizes: list[tuple[int, ...]], runtime: Runtime
) -> None:
    contents = strings([picture(seed, *size) for seed, size in enumerate(sizes)])
    function = planned([contents], loaded)
    together = function.by_columns(1)
    assert together is not None
    assert together.long
    (found,) = together([contents], len(contents))
    for at, mine in enumerate(found):
        (alone,) = function([contents[at : at + 1].reshape(())], StepState(runtime, Scope()))
        assert mine.tobytes() == alone.tobytes()
        assert mine.shape == alone.shape


@pytest.mark.parametrize("odd", [b"no picture", b"\xff\xd8\xff\xd9", picture(0, 3, 3, 3)[:-40]])
def test_pictures_of_which_one_is_odd_are_for_one_by_one(odd: bytes) -> None:
    contents = strings([picture(1, 3, 3, 3), odd])
    together = planned([contents], loaded).by_columns(1)
    assert together is not None
    with pytest.raises(OneByOne):
        together([contents], 2)


@pytest.mark.parametrize(("size", "goes"), [(203, True), (204, False)])
def test_large_products_go_one_by_one(size: int, goes: bool) -> None:
    """From 2 ** 23 multiplications on."""
    rows = np.ones((2, size, size), np.float32)
    together = planned([rows], lambda x: tf.matmul(x, x)).by_columns(1)
    assert together is not None
    assert together.long
    if goes:
        assert together([rows], 2)[0][1, 1, 1] == size
    else:
        with pytest.raises(OneByOne):
            together([rows], 2)


def test_a_product_of_what_does_not_vary_is_made_in_a_step() -> None:
    outside = tf.placeholder_with_default(np.ones((2, 2), np.float32), [2, 2])
    function = planned([NUMBERS], lambda n: tf.matmul(outside, outside) + tf.cast(n, tf.float32))
    assert function.by_columns(1) is None


def test_products_of_unlike_matrices_go_one_by_one() -> None:
    together = planned([NUMBERS], lambda n: tf.matmul(tf.ones([n, 2]), tf.ones([2, 3]))).by_columns(
        1
    )
    assert together is not None
    with pytest.raises(Exception, match="among"):
        together([NUMBERS], ROWS)


def test_a_function_of_short_work_takes_not_long() -> None:
    together = planned([NUMBERS], lambda n: n + 1).by_columns(1)
    assert together is not None
    assert not together.long
