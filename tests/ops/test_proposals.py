"""Proposals of regions, beside a reference of loops: TensorFlow has a kernel for GPUs alone."""

from __future__ import annotations

import math

import numpy as np
import pytest

import headrace as tf

RNG = np.random.default_rng(5)
SCORES = RNG.uniform(size=(2, 3, 4, 2)).astype(np.float32)
DELTAS = RNG.normal(scale=0.4, size=(2, 3, 4, 8)).astype(np.float32)
INFO = np.array([[40, 50, 1.0, 0, 0], [35, 45, 0.5, 0, 0]], np.float32)
CORNERS = RNG.uniform(0, 30, size=(3, 4, 2, 2))
ANCHORS = np.concatenate((CORNERS, CORNERS + RNG.uniform(4, 20, size=(3, 4, 2, 2))), 3)
ANCHORS = ANCHORS.reshape(3, 4, 8).astype(np.float32)

Box = tuple[float, float, float, float]


def area(box: Box) -> float:
    return max(box[2] - box[0], 0) * max(box[3] - box[1], 0)


def shared(a: Box, b: Box) -> float:
    inside = (max(a[0], b[0]), max(a[1], b[1]), min(a[2], b[2]), min(a[3], b[3]))
    both = area(inside)
    return both / (area(a) + area(b) - both) if both else 0.0


def wanted(
    image: int, before: int, after: int, most: float, least: float
) -> list[tuple[Box, float]]:
    height, width, scale = INFO[image, :3].tolist()
    found = []
    for place in np.ndindex(3, 4, 2):
        y, x, a = place
        y1, x1, y2, x2 = ANCHORS[y, x, 4 * a : 4 * a + 4].tolist()
        dy, dx, dh, dw = DELTAS[image, y, x, 4 * a : 4 * a + 4].tolist()
        cy, cx = (y1 + y2) / 2 + dy * (y2 - y1), (x1 + x2) / 2 + dx * (x2 - x1)
        h, w = (y2 - y1) * math.exp(dh), (x2 - x1) * math.exp(dw)
        box = (
            min(max(cy - h / 2, 0), height),
            min(max(cx - w / 2, 0), width),
            min(max(cy + h / 2, 0), height),
            min(max(cx + w / 2, 0), width),
        )
        found.append((box, float(SCORES[(image, *place)])))
    found = sorted(found, key=lambda each: -each[1])[:before]
    kept: list[tuple[Box, float]] = []
    for box, score in found:
        large = min(box[2] - box[0], box[3] - box[1]) >= least * scale
        if large and all(shared(box, other) <= most for other, _ in kept):
            kept.append((box, score))
    return kept[:after]


@pytest.mark.parametrize(("before", "after"), [(6000, 300), (10, 300), (24, 3)])
@pytest.mark.parametrize(("most", "least"), [(0.7, 0.0), (0.3, 6.0), (0.0, 0.0)])
def test_the_best_boxes_that_do_not_overlap(
    before: int, after: int, most: float, least: float
) -> None:
    with tf.Graph().as_default(), tf.Session() as session:
        made = tf.image.generate_bounding_box_proposals(
            SCORES, DELTAS, INFO, ANCHORS, most, before, least, after
        )
        assert made.rois.shape == (2, after, 4)
        boxes, scores = session.run(made)
    for image in range(2):
        kept = wanted(image, before, after, most, least)
        assert kept
        np.testing.assert_allclose(boxes[image, : len(kept)], [b for b, _ in kept], atol=1e-4)
        np.testing.assert_array_equal(scores[image, : len(kept)], [np.float32(s) for _, s in kept])
        assert not boxes[image, len(kept) :].any()
        assert not scores[image, len(kept) :].any()


def test_sizes_beside_their_anchors_have_a_limit() -> None:
    with tf.Graph().as_default(), tf.Session() as session:
        boxes, _ = session.run(
            tf.image.generate_bounding_box_proposals(
                [[[[1.0]]]],
                [[[[0.0, 0.0, 1e3, 0.0]]]],
                [[1e6, 1e6, 1.0, 0.0, 0.0]],
                [[[1e5, 1e5, 1e5 + 16, 1e5 + 16]]],
                post_nms_topn=1,
            )
        )
    assert boxes[0, 0, 2] - boxes[0, 0, 0] == pytest.approx(1000, rel=1e-3)


@pytest.mark.parametrize(
    ("place", "shape", "phrase"),
    [
        (1, (2, 3, 4, 4), "`bbox_deltas` must have shape"),
        (2, (1, 5), "`image_info` must have shape"),
        (3, (3, 4, 4), "`anchors` must have shape"),
    ],
)
def test_shapes_that_do_not_fit_are_refused(
    place: int, shape: tuple[int, ...], phrase: str
) -> None:
    given = [SCORES, DELTAS, INFO, ANCHORS]
    given[place] = np.zeros(shape, np.float32)
    with tf.Graph().as_default(), tf.Session() as session:
        fed = [tf.placeholder(tf.float32) for _ in given]
        made = tf.image.generate_bounding_box_proposals(*fed)
        with pytest.raises(tf.errors.InvalidArgumentError, match=phrase):
            session.run(made, dict(zip(fed, given, strict=True)))
