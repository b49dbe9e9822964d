"""Casts of pictures that are resized."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import headrace as tf
from headrace.plan.explain import explaining
from headrace.plan.rules.resized_casts import uncast
from headrace.run.exec.kernel import Runtime
from tests.plan.programs import together_and_apart

PICTURE = np.random.RandomState(0).randint(0, 256, (2, 14, 17, 3))


def both(
    runtime: Runtime, kind: Any, to: list[int], **more: bool
) -> tuple[list[Any], list[Any], bool]:
    """The values together and apart, and whether the rule was applied."""
    said: list[str] = []
    with tf.Graph().as_default(), explaining(said.append):
        picture = tf.placeholder(kind, [None, None, None, 3])
        resized = tf.image.resize_bilinear(tf.cast(picture, tf.float32), to, **more)
        found, wanted, _ = together_and_apart([resized], {picture: PICTURE.astype(kind)}, runtime)
    return found, wanted, "resized-cast: no change" not in "".join(said)


@pytest.mark.parametrize("kind", [np.uint8, np.int8, np.uint16, np.int16])
@pytest.mark.parametrize("to", [[7, 17], [5, 9], [30, 40]])
@pytest.mark.parametrize(
    "more", [{}, {"align_corners": True}, {"half_pixel_centers": True}], ids=str
)
def test_only_what_is_resized_is_cast(
    runtime: Runtime, kind: Any, to: list[int], more: dict[str, bool]
) -> None:
    found, wanted, applied = both(runtime, kind, to, **more)
    assert applied
    assert np.array_equal(found[0], wanted[0])


def test_numbers_that_float32_may_round_are_cast_first(runtime: Runtime) -> None:
    found, wanted, applied = both(runtime, np.int32, [7, 9])
    assert not applied
    assert np.array_equal(found[0], wanted[0])


def test_a_size_that_is_refused_names_the_resize() -> None:
    with tf.Graph().as_default(), tf.Session() as session:
        picture, size = tf.placeholder(tf.uint8, [1, 4, 4, 3]), tf.placeholder(tf.int32, [2])
        resized = tf.image.resize_bilinear(tf.cast(picture, tf.float32), size)
        with pytest.raises(tf.errors.InvalidArgumentError, match="must be positive") as caught:
            session.run(resized, {picture: PICTURE[:1, :4, :4], size: [0, 9]})
    assert caught.value.op is not None
    assert caught.value.op.type == "ResizeBilinear"


def resized(pixels: Any) -> Any:
    return tf.image.resize_bilinear(tf.expand_dims(tf.identity(pixels), 0), [3, 3])


def as_float(pixels: Any) -> Any:
    return tf.cast(pixels, tf.float32)


@pytest.mark.parametrize(
    ("build", "kinds"),
    [
        (lambda x: [resized(as_float(x))], ["Cast", "Identity", "ExpandDims"]),
        (
            lambda x: [resized(tf.reshape(as_float(x), [2, 8, 1]))],
            ["Cast", "Reshape", "Identity", "ExpandDims"],
        ),
        (lambda x: [resized(as_float(x)), resized(x)], ["Cast", "Identity", "ExpandDims"]),
        (lambda x: (lambda cast: [resized(cast), cast])(as_float(x)), []),
        (lambda x: (lambda cast: [resized(cast), cast + 1])(as_float(x)), []),
        (lambda x: [resized(as_float(tf.cast(x, tf.int32)))], []),
        (lambda x: [resized(tf.cast(x, tf.float64))], []),
    ],
    ids=["views", "views 2", "beside others", "wanted", "used", "32 bits", "doubles"],
)
def test_what_need_not_be_cast_in_a_function_of_many(build: Any, kinds: list[str]) -> None:
    with tf.Graph().as_default() as graph:
        pixels = tf.placeholder(tf.uint8, [4, 4, 1])
        before = len(graph.get_operations())
        fetched = build(pixels)
        found = uncast(graph.get_operations()[before:], fetched)
    assert sorted(tensor.op.type for tensor in found) == sorted(kinds)
