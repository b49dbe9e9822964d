"""Gradients of images' ops whose outputs are of single precision; lazy names; what randomness may give."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import headrace as tf

RNG = np.random.default_rng(3)
IMAGES = RNG.normal(size=(2, 5, 6, 3)).astype(np.float32)
BOXES = np.array([[0.13, 0.22, 0.83, 0.91], [0.52, 0.07, 0.97, 0.53]], np.float32)
LINEAR: dict[str, Callable[[Any], Any]] = {
    **{
        f"{function.__name__} {size} {options}": lambda x, f=function, s=size, o=options: f(
            x, s, **o
        )
        for function in (tf.image.resize_bilinear, tf.image.resize_bicubic)
        for size in ([3, 4], [9, 13], [1, 1])
        for options in ({}, {"align_corners": True}, {"half_pixel_centers": True})
    },
    **{
        f"scaled with {kernel}": lambda x, k=kernel: tf.raw_ops.ScaleAndTranslate(
            images=x, size=[4, 9], scale=[0.7, 1.6], translation=[0.3, -0.4], kernel_type=k
        )
        for kernel in ("lanczos3", "gaussian", "box", "mitchellcubic")
    },
    "cropped": lambda x: tf.image.crop_and_resize(x, BOXES, [1, 0], [3, 4]),
    "cropped to the nearest": lambda x: tf.image.crop_and_resize(
        x, BOXES, [1, 1], [2, 4], method="nearest"
    ),
}


@pytest.mark.parametrize("case", LINEAR)
def test_the_gradient_of_what_is_linear_is_its_adjoint(case: str) -> None:
    """y · A x is x · Aᵀ y."""
    with tf.Graph().as_default(), tf.Session() as session:
        x = tf.placeholder(tf.float32, IMAGES.shape)
        made = LINEAR[case](x)
        y = RNG.normal(size=made.shape.as_list()).astype(np.float32)
        (back,) = tf.gradients(made, x, grad_ys=tf.constant(y))
        forward, backward = session.run([made, back], {x: IMAGES})
    assert np.vdot(y, forward) == pytest.approx(np.vdot(IMAGES, backward), rel=1e-4)
    assert np.abs(backward).max() > 0


@pytest.mark.parametrize("size", [[3, 4], [1, 5], [1, 1]])
def test_the_gradient_of_a_crop_with_respect_to_boxes_is_its_slope(size: list[int]) -> None:
    with tf.Graph().as_default(), tf.Session() as session:
        _, rows, columns, channels = np.indices(IMAGES.shape)
        smooth = (rows * columns * channels + 3 * rows - columns).astype(np.float32)
        boxes = tf.placeholder(tf.float32, [2, 4])
        crops = tf.image.crop_and_resize(smooth, boxes, [1, 0], size)
        loss = tf.reduce_sum(crops)
        (slopes,) = session.run(tf.gradients(loss, boxes), {boxes: BOXES})
        step = 2e-3
        for place in np.ndindex(2, 4):
            moved = [BOXES.copy(), BOXES.copy()]
            moved[0][place] += step
            moved[1][place] -= step
            up, down = (session.run(loss, {boxes: each}) for each in moved)
            assert slopes[place] == pytest.approx((up - down) / (2 * step), rel=0.02, abs=0.1)


def test_nothing_of_images_is_imported_before_it_is_used() -> None:
    from tests.test_lazy_imports import python

    said = python(
        "import sys, headrace as tf\n"
        "print('headrace.ops.image.resizing' in sys.modules)\n"
        "tf.image.resize_images\n"
        "print('headrace.ops.image.resizing' in sys.modules, 'headrace.ops.image.boxes' in sys.modules)\n"
    ).split()
    assert said == ["False", "True", "False"]


@pytest.mark.parametrize("noise", ["uniform", "gaussian"])
def test_noise_around_a_glimpse_is_as_high_as_the_image(noise: str) -> None:
    with tf.Graph().as_default(), tf.Session() as session:
        made = session.run(
            tf.raw_ops.ExtractGlimpse(
                input=IMAGES,
                size=[30, 30],
                offsets=[[0.0, 0.0]] * 2,
                uniform_noise=noise == "uniform",
                noise=noise,
            )
        )
    assert made.min() >= IMAGES.min()
    assert made.max() <= IMAGES.max()
    assert np.unique(made).size > 1000


def test_a_distorted_box_covers_an_object() -> None:
    boxes = np.array([[[0.4, 0.4, 0.6, 0.7]]], np.float32)
    with tf.Graph().as_default(), tf.Session() as session:
        made = tf.image.sample_distorted_bounding_box(
            [200, 100, 3], boxes, min_object_covered=0.9, area_range=[0.1, 0.5]
        )
        for _ in range(20):
            begin, size, _ = session.run(list(made))
            rows = min(begin[0] + size[0], 120) - max(begin[0], 80)
            columns = min(begin[1] + size[1], 70) - max(begin[1], 40)
            assert rows * columns >= 0.9 * 40 * 30
            assert begin[2] == 0
            assert size[2] == -1
