"""Functions of datasets that draw, choose and assert: many elements at once give what one after the other gives."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import headrace as tf
from headrace.plan.columns import ColumnFunction
from headrace.plan.functions import StepFunction

COUNT = 150

Stages = Callable[[Any], Any]


@pytest.fixture(autouse=True)
def graph() -> Iterator[tf.Graph]:
    with tf.Graph().as_default() as fresh:
        yield fresh


@pytest.fixture
def calls(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Of how many elements each call for many was."""
    counts: list[int] = []
    call = ColumnFunction.__call__

    def counted(self: ColumnFunction, arguments: Any, count: int) -> Any:
        counts.append(count)
        return call(self, arguments, count)

    monkeypatch.setattr(ColumnFunction, "__call__", counted)
    return counts


def elements(stages: Stages) -> list[list[Any]]:
    """Of three passes, of which the last one begins in the middle of things."""
    with tf.Graph().as_default(), tf.Session() as session:
        iterator = stages(tf.data.Dataset.range(COUNT)).make_initializable_iterator()
        following = iterator.get_next()
        passes: list[list[Any]] = []
        for length in (COUNT, 40, COUNT):
            session.run(iterator.initializer)
            passes.append([])
            while len(passes[-1]) < length:
                try:
                    made = session.run(following)
                except tf.errors.OutOfRangeError:
                    break
                except tf.errors.InvalidArgumentError as error:
                    made = [error.message]
                passes[-1].append([np.asarray(each).tolist() for each in made])
        return passes


def drawn(n: Any) -> tuple[Any, ...]:
    spread = tf.random_uniform([2], -1, tf.cast(n, tf.int32) + 1, tf.int32, seed=2)
    return n, tf.random_uniform([3], seed=1), spread, tf.random_normal([], seed=3)


def chosen(n: Any) -> tuple[Any, ...]:
    value = tf.random_uniform([], seed=4)
    return (
        n,
        value,
        tf.cond(value < 0.5, lambda: n, lambda: tf.cond(n > 70, lambda: -n, lambda: n * n)),
    )


def drawn_in_branches(n: Any) -> tuple[Any, ...]:
    def inner() -> Any:
        return tf.cond(
            n > 70, lambda: tf.random_normal([], seed=6), lambda: tf.random_uniform([], seed=7)
        )

    value = tf.random_uniform([], seed=8)
    with tf.control_dependencies([tf.Assert(tf.not_equal(n % 60, 41), ["not this one", n])]):
        return n, tf.cond(value < 0.5, inner, lambda: tf.random_uniform([], seed=9) - 1.0)


def asserted(n: Any) -> tuple[Any, ...]:
    value = tf.random_uniform([], seed=5)
    with tf.control_dependencies([tf.Assert(tf.not_equal(n % 60, 31), ["not this one", n])]):
        return tf.identity(n), value


def parts(n: Any) -> tuple[Any, ...]:
    """Of images of several sizes, with objects in several places, one of which is no place."""
    sizes = tf.stack([tf.cast(n % 7, tf.int32) + 9, 12, 3])
    corner = tf.cast(n, tf.float32) / 300.0
    boxes = tf.reshape(
        tf.stack([corner, corner, tf.where(n % 60 > 57, corner + 0.6, corner + 0.4), 0.9]),
        [1, 1, 4],
    )
    sample = tf.image.sample_distorted_bounding_box
    drawn = sample(sizes, boxes, seed=11, min_object_covered=corner, max_attempts=4)
    any_place = sample(sizes, tf.zeros([1, 0, 4]), seed=12, use_image_if_no_bounding_boxes=True)
    return (*drawn, *any_place)


def augmented(n: Any) -> tuple[Any, ...]:
    picture = tf.reshape(tf.range(9 * 8 * 3), [9, 8, 3]) * tf.cast(n % 11 + 1, tf.int32) % 256
    image = tf.image.convert_image_dtype(tf.cast(picture, tf.uint8), tf.float32)
    image = tf.image.resize_image_with_crop_or_pad(image, 12, 6)
    image = tf.image.random_flip_left_right(tf.random_crop(image, [8, 5, 3], seed=21), seed=22)
    image = tf.image.random_contrast(tf.image.random_brightness(image, 0.2, 23), 0.7, 1.3, 24)
    image = tf.image.random_hue(tf.image.random_saturation(image, 0.7, 1.3, 25), 0.2, 26)
    return image, tf.image.rgb_to_grayscale(image), tf.image.per_image_standardization(image)


STAGES: dict[str, Stages] = {
    "parts": lambda source: source.map(parts).batch(5),
    "augmented": lambda source: source.map(augmented).batch(13),
    "augmented beside": lambda source: source.map(augmented, 1).batch(13),
    "drawn": lambda source: source.map(drawn).batch(7),
    "drawn beside": lambda source: source.map(drawn, 1).batch(COUNT),
    "twice": lambda source: source.map(drawn).map(lambda n, x, *_: (*chosen(n), x)).batch(32),
    "chosen": lambda source: source.map(chosen).shuffle(20, seed=1).batch(10),
    "drawn in branches": lambda source: source.map(drawn_in_branches).batch(10),
    "asserted": lambda source: source.map(asserted).batch(4),
    "errors ignored": lambda source: source.map(asserted).apply(tf.data.experimental.ignore_errors()).batch(16),
}  # fmt: skip


@pytest.mark.parametrize("name", STAGES)
def test_many_elements_are_drawn_as_one_after_the_other(
    name: str, calls: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    found = elements(STAGES[name])
    assert any(count > 3 for count in calls)
    calls.clear()
    monkeypatch.setattr(StepFunction, "by_columns", lambda self, varying: None)
    assert elements(STAGES[name]) == found
    assert not calls
    assert found[0] == found[2]


def test_numbers_without_seeds_are_others_in_each_pass(calls: list[int]) -> None:
    def stages(source: Any) -> Any:
        return source.map(lambda n: (n, tf.random_uniform([2]))).batch(25)

    first, _, third = elements(stages)
    assert max(calls) >= 25
    assert [batch[0] for batch in first] == [batch[0] for batch in third]
    values = [value for batch in first + third for pair in batch[1] for value in pair]
    assert len(set(values)) > 4 * COUNT - 10


def test_pictures_are_cropped_flipped_and_made_brighter_together(calls: list[int]) -> None:
    pictures = np.random.default_rng(0).integers(0, 200, (64, 6, 5, 3)).astype(np.uint8)

    def augmented(picture: Any) -> tuple[Any, Any]:
        part = tf.image.random_flip_left_right(tf.random_crop(picture, [4, 4, 3]))
        floats = tf.image.random_brightness(tf.cast(part, tf.float32), 40.0)
        return picture, tf.image.random_contrast(floats, 0.5, 1.5)

    with tf.Session() as session:
        dataset = tf.data.Dataset.from_tensor_slices(pictures).map(augmented, 2).batch(32)
        following = dataset.make_one_shot_iterator().get_next()
        batches = [session.run(following) for _ in range(2)]
    assert 32 in calls
    flips = 0
    for whole, part in zip(*map(np.concatenate, zip(*batches, strict=True)), strict=True):
        scale = (
            np.corrcoef
        )  # brighter and of another contrast: a line through the pixels of each channel
        fits = [
            (turned, y, x)
            for turned in (False, True)
            for y in range(3)
            for x in range(2)
            for cut in [whole[y : y + 4, x : x + 4][:, :: -1 if turned else 1]]
            if all(
                scale(cut[..., c].ravel(), part[..., c].ravel())[0, 1] > 0.9999 for c in range(3)
            )
        ]
        assert len(fits) == 1
        flips += fits[0][0]
    assert 12 < flips < 52
