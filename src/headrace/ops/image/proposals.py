"""Proposals of regions: boxes around anchors, the best of those that do not overlap.

A box is two opposite corners, y1, x1, y2, x2, in pixels.
Called by: programs.  Threads: any.
Source: Ren et al., "Faster R-CNN", 2015; TensorFlow has a kernel for GPUs alone
"""

from __future__ import annotations

import math
from typing import Any, Final

import numpy as np

from headrace.base import errors
from headrace.base.shapes import Shape, text
from headrace.base.traits import ITERATES
from headrace.graph.registry import op
from headrace.graph.shape_fns import ShapeContext
from headrace.graph.tensor import Tensor
from headrace.ops.image.suppression import overlaps, selected

__all__ = ["generate_bounding_box_proposals"]

Array = np.ndarray[Any, Any]
_LARGEST: Final = math.log(1000 / 16)
"""Of logarithms of sizes beside their anchors': more would be of no image."""
_INFO: Final = 5  # numbers for each image, the first of which are height, width and scale


def _proposal_shapes(c: ShapeContext) -> list[Shape]:
    scores = c.with_rank("scores", 4)
    c.with_rank("bbox_deltas", 4)
    c.with_rank("anchors", 3)
    c.with_rank("image_info", 2)
    c.with_size("image_info", _INFO, 1)
    for name in ("nms_threshold", "pre_nms_topn", "min_size"):
        c.with_rank(name, 0)
    assert scores is not None
    count = c.attr("post_nms_topn")
    return [(scores[0], count, 4), (scores[0], count)]


@op(
    "GenerateBoundingBoxProposals",
    inputs="scores: float; bbox_deltas: float; image_info: float; anchors: float; nms_threshold: float; "
    "pre_nms_topn: int32; min_size: float",
    outputs="rois: float; roi_probabilities: float",
    attrs="post_nms_topn: int = 300",
    shape=_proposal_shapes,
    traits={ITERATES},
    differentiable=False,
)
def generate_bounding_box_proposals_op(
    xp: Any,
    scores: Array,
    bbox_deltas: Array,
    image_info: Array,
    anchors: Array,
    nms_threshold: Array,
    pre_nms_topn: Array,
    min_size: Array,
    *,
    post_nms_topn: int,
) -> tuple[Array, Array]:
    """The best boxes of each image [n, post_nms_topn, 4], best first, and their scores; zeros where there are no more.

    scores [n, h, w, a]; bbox_deltas [n, h, w, 4 * a]: for each box how far its centre lies from its anchor's (y, x),
    in heights and widths of that, and the logarithms of its size in those.  anchors [h, w, 4 * a].  image_info [n, 5]:
    height, width, scale, and two numbers that are not looked at.  Of the pre_nms_topn best, boxes are cut at the
    image's edges; those narrower or lower than min_size times scale are left out, and
    those that share more than nms_threshold with a better one.  Raises InvalidArgument (shapes, numbers).
    """
    _check(scores, bbox_deltas, image_info, anchors)
    for name, each in (
        ("nms_threshold", nms_threshold),
        ("pre_nms_topn", pre_nms_topn),
        ("min_size", min_size),
    ):
        if each.ndim:
            raise errors.invalid_argument(f"{name} must be a scalar, and has {text(each.shape)}")
    if not 0 <= nms_threshold <= 1:
        raise errors.invalid_argument(f"nms_threshold must be in [0, 1], and is {nms_threshold}")
    if pre_nms_topn < 1 or post_nms_topn < 1:
        raise errors.invalid_argument(
            f"pre_nms_topn and post_nms_topn must be above 0: they are {pre_nms_topn} and {post_nms_topn}"
        )
    rois = np.zeros((len(scores), post_nms_topn, 4), np.float32)
    probabilities = np.zeros((len(scores), post_nms_topn), np.float32)
    around = anchors.reshape(-1, 4)
    for image, (own, deltas, info) in enumerate(zip(scores, bbox_deltas, image_info, strict=True)):
        best = np.argsort(-own.reshape(-1), kind="stable")[: int(pre_nms_topn)]
        boxes = _boxes(around[best], deltas.reshape(-1, 4)[best])
        edges = np.tile(info[:2], 2)
        boxes = np.clip(boxes, np.float32(0), edges)
        least = float(min_size) * float(info[2])
        large = ((boxes[:, 2:] - boxes[:, :2]) >= least).all(1)
        boxes, own = boxes[large], own.reshape(-1)[best][large]
        kept = selected(overlaps(boxes), own, post_nms_topn, float(nms_threshold), -math.inf)
        rois[image, : len(kept)] = boxes[kept]
        probabilities[image, : len(kept)] = own[kept]
    return rois, probabilities


def _check(scores: Array, deltas: Array, info: Array, anchors: Array) -> None:
    if scores.ndim != 4:
        raise errors.invalid_argument(
            f"`scores` must be rank 4 [n, h, w, a] but is rank {scores.ndim}: {text(scores.shape)}"
        )
    wanted = (*scores.shape[:3], 4 * scores.shape[3])
    if deltas.shape != wanted:
        raise errors.invalid_argument(
            f"`bbox_deltas` must have shape {text(wanted)}, four for each score, and has {text(deltas.shape)}"
        )
    if info.shape != (len(scores), _INFO):
        raise errors.invalid_argument(
            f"`image_info` must have shape {text((len(scores), _INFO))}, and has {text(info.shape)}"
        )
    if anchors.shape != wanted[1:]:
        raise errors.invalid_argument(
            f"`anchors` must have shape {text(wanted[1:])}, four for each score, and have {text(anchors.shape)}"
        )


def _boxes(anchors: Array, deltas: Array) -> Array:
    """Of the anchors [b, 4] and what lies between these and them, [b, 4]."""
    sizes = anchors[:, 2:] - anchors[:, :2]
    centers = anchors[:, :2] + sizes / 2 + deltas[:, :2] * sizes
    halves = sizes * np.exp(np.minimum(deltas[:, 2:], np.float32(_LARGEST))) / 2
    return np.concatenate((centers - halves, centers + halves), 1)


def generate_bounding_box_proposals(
    scores: Any,
    bbox_deltas: Any,
    image_info: Any,
    anchors: Any,
    nms_threshold: Any = 0.7,
    pre_nms_topn: Any = 6000,
    min_size: Any = 16,
    post_nms_topn: int = 300,
    name: str | None = None,
) -> tuple[Tensor, Tensor]:
    """The best boxes of images, and their scores; see the op."""
    made: tuple[Tensor, Tensor] = generate_bounding_box_proposals_op(
        scores,
        bbox_deltas,
        image_info,
        anchors,
        nms_threshold,
        pre_nms_topn,
        min_size,
        post_nms_topn=post_nms_topn,
        name=name,
    )
    return made
