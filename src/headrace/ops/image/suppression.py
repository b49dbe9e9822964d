"""Non-maximum suppression: of boxes that overlap, the one with the highest score.

A box is two opposite corners, y1, x1, y2, x2.
Called by: programs.  Threads: any.
Source: behaviour of TF 1.15 (core/kernels/non_max_suppression_op.cc); Bodla et al., "Soft-NMS", 2017
"""

from __future__ import annotations

import heapq
import math
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from headrace.base import dtypes, errors
from headrace.base import shapes as shape_rules
from headrace.base.shapes import Shape, text
from headrace.base.traits import ITERATES, SIZED_BY_VALUES
from headrace.graph.convert import convert_to_tensor
from headrace.graph.names import name_scope
from headrace.graph.registry import op
from headrace.graph.shape_fns import ShapeContext
from headrace.graph.tensor import Tensor

__all__ = [
    "combined_non_max_suppression",
    "non_max_suppression",
    "non_max_suppression_overlaps",
    "non_max_suppression_padded",
    "non_max_suppression_with_scores",
]

Array = np.ndarray[Any, Any]
Overlaps = Callable[[Array, Array], Array]
"""How much boxes of those numbers share with others: [boxes, others]."""
_TOGETHER = 64  # candidates that are looked at at once
_BEFORE = 4096  # boxes that they are compared with at once


def overlaps(boxes: Array) -> Overlaps:
    """Intersections over unions."""
    kind = boxes.dtype if boxes.dtype == np.float64 else np.dtype(np.float32)
    wide = boxes.astype(kind)
    top, bottom = np.minimum(wide[:, 0], wide[:, 2]), np.maximum(wide[:, 0], wide[:, 2])
    left, right = np.minimum(wide[:, 1], wide[:, 3]), np.maximum(wide[:, 1], wide[:, 3])
    areas = (bottom - top) * (right - left)

    def of(numbers: Array, others: Array) -> Array:
        at = numbers[:, None]
        rows = np.minimum(bottom[others], bottom[at]) - np.maximum(top[others], top[at])
        columns = np.minimum(right[others], right[at]) - np.maximum(left[others], left[at])
        shared = np.maximum(rows, 0) * np.maximum(columns, 0)
        whole = areas[others] + areas[at] - shared
        some = (areas[others] > 0) & (areas[at] > 0)
        found: Array = np.divide(shared, whole, out=np.zeros_like(shared), where=some)
        return found

    return of


def selected(
    shared: Overlaps, scores: Array, most: int, threshold: float, least: float
) -> list[int]:
    """Numbers of boxes, best first: none that shares more than `threshold` with a better one."""
    good = np.flatnonzero(scores > least)
    order = good[np.argsort(-scores[good], kind="stable")]
    found: list[int] = []
    for first in range(0, len(order), _TOGETHER):
        some = order[first : first + _TOGETHER]
        for at in range(0, len(found), _BEFORE):
            better = np.array(found[at : at + _BEFORE])
            some = some[~(shared(better, some) > threshold).any(axis=0)]
        too_near = shared(some, some) > threshold
        left = np.ones(len(some), bool)
        for number, (box, near) in enumerate(zip(some.tolist(), too_near, strict=True)):
            if len(found) >= most:
                return found
            if left[number]:
                found.append(box)
                left &= ~near
    return found


def _softly(
    shared: Overlaps, scores: Array, most: int, least: float, sigma: float
) -> tuple[list[int], list[float]]:
    """Numbers and scores of boxes, best first; what a box shares with better ones makes its score less."""
    kind = scores.dtype.type
    scale = kind(-0.5) / kind(sigma)
    queue = [(-score, at, 0) for at, score in enumerate(scores) if score > least]
    heapq.heapify(queue)
    found: list[int] = []
    made: list[float] = []
    shares: list[Array] = []
    everything = np.arange(len(scores))
    while queue and len(found) < most:
        negative, at, seen = heapq.heappop(queue)
        score = before = -negative
        for better in reversed(range(seen, len(found))):
            share = kind(shares[better][at])
            score = kind(score * np.exp(kind(scale * share * share)))
            if score <= least:
                break
        if score == before:
            found.append(at)
            made.append(score)
            shares.append(shared(np.array([at]), everything)[0])
        elif score > least:
            heapq.heappush(queue, (-score, at, len(found)))
    return found, made


# -- checks -----------------------------------------------------------------------------------


def _scalar(name: str, value: Array) -> float:
    if value.ndim:
        raise errors.invalid_argument(f"{name} must be 0-D, got shape {text(value.shape)}")
    return float(value)


def _count(value: Array) -> int:
    count = int(_scalar("max_output_size", value))
    if count < 0:
        raise errors.invalid_argument(f"output size must be non-negative, and is {count}")
    return count


def _threshold(value: Array) -> float:
    found = _scalar("iou_threshold", value)
    if not 0 <= found <= 1:
        raise errors.invalid_argument(f"iou_threshold must be in [0, 1], and is {found}")
    return found


def _check(boxes: Array, scores: Array) -> None:
    if boxes.ndim != 2:
        raise errors.invalid_argument(f"boxes must be 2-D{text(boxes.shape)}")
    if boxes.shape[1] != 4:
        raise errors.invalid_argument(f"boxes must have 4 columns{text(boxes.shape)}")
    if scores.ndim != 1:
        raise errors.invalid_argument(f"scores must be 1-D{text(scores.shape)}")
    if len(scores) != len(boxes):
        raise errors.invalid_argument(
            f"scores has incompatible shape: {text(scores.shape)}, and boxes {text(boxes.shape)}"
        )


def _as_indices(found: list[int]) -> Array:
    return np.array(found, np.int32)


def _static_check(c: ShapeContext) -> None:
    boxes = c.with_rank(0, 2)
    scores = c.with_rank(1, 1)
    for arg in range(2, len(c.shapes)):
        c.with_rank(arg, 0)
    shape_rules.merge((boxes or (None,))[:1], scores)
    if c.op.spec is not None and c.op.spec.inputs[0].name == "boxes":
        shape_rules.merge(boxes, (None, 4))


def _some(c: ShapeContext) -> Shape:
    _static_check(c)
    return (None,)


def _padded_size(c: ShapeContext) -> int | None:
    if not c.attr("pad_to_max_output_size"):
        return None
    return c.size_value("max_output_size")


# -- ops --------------------------------------------------------------------------------------


@op(
    "NonMaxSuppression",
    inputs="boxes: float; scores: float; max_output_size: int32",
    outputs="selected_indices: int32",
    attrs="iou_threshold: float = 0.5",
    shape=_some,
    traits={SIZED_BY_VALUES},
    differentiable=False,
)
def non_max_suppression_v1(
    xp: Any, boxes: Array, scores: Array, max_output_size: Array, *, iou_threshold: float
) -> Array:
    """As NonMaxSuppressionV3, of any score.  Raises InvalidArgument."""
    _check(boxes, scores)
    threshold = _threshold(np.array(iou_threshold))
    found = selected(overlaps(boxes), scores, _count(max_output_size), threshold, -math.inf)
    return _as_indices(found)


_KINDS = "T: {half, float} = float; T_threshold: {half, float} = float"


@op(
    "NonMaxSuppressionV2",
    inputs="boxes: T; scores: T; max_output_size: int32; iou_threshold: T_threshold",
    outputs="selected_indices: int32",
    attrs=_KINDS,
    shape=_some,
    traits={SIZED_BY_VALUES},
    differentiable=False,
)
def non_max_suppression_v2(
    xp: Any, boxes: Array, scores: Array, max_output_size: Array, iou_threshold: Array
) -> Array:
    """As NonMaxSuppressionV3, of any score.  Raises InvalidArgument."""
    _check(boxes, scores)
    threshold = _threshold(iou_threshold)
    found = selected(overlaps(boxes), scores, _count(max_output_size), threshold, -math.inf)
    return _as_indices(found)


@op(
    "NonMaxSuppressionV3",
    inputs="boxes: T; scores: T; max_output_size: int32; iou_threshold: T_threshold; score_threshold: T_threshold",
    outputs="selected_indices: int32",
    attrs=_KINDS,
    shape=_some,
    traits={SIZED_BY_VALUES},
)
def non_max_suppression_v3(
    xp: Any,
    boxes: Array,
    scores: Array,
    max_output_size: Array,
    iou_threshold: Array,
    score_threshold: Array,
) -> Array:
    """Numbers of boxes [boxes, 4], highest of scores [boxes] first: int32 [max_output_size] or fewer.

    None shares more than iou_threshold with a better one; scores are above score_threshold.  Raises InvalidArgument.
    """
    _check(boxes, scores)
    threshold, least = _threshold(iou_threshold), _scalar("score_threshold", score_threshold)
    found = selected(overlaps(boxes), scores, _count(max_output_size), threshold, least)
    return _as_indices(found)


def _v4_shapes(c: ShapeContext) -> list[Shape]:
    _static_check(c)
    return [(_padded_size(c),), ()]


def _padded(found: list[int], most: int, pad: bool) -> tuple[Array, Array]:
    indices = _as_indices(found)
    if pad:
        indices = np.concatenate((indices, np.zeros(most - len(found), np.int32)))
    return indices, np.array(len(found), np.int32)


@op(
    "NonMaxSuppressionV4",
    inputs="boxes: T; scores: T; max_output_size: int32; iou_threshold: T_threshold; score_threshold: T_threshold",
    outputs="selected_indices: int32; valid_outputs: int32",
    attrs=f"{_KINDS}; pad_to_max_output_size: bool = false",
    shape=_v4_shapes,
    traits={SIZED_BY_VALUES},
)
def non_max_suppression_v4(
    xp: Any,
    boxes: Array,
    scores: Array,
    max_output_size: Array,
    iou_threshold: Array,
    score_threshold: Array,
    *,
    pad_to_max_output_size: bool,
) -> Any:
    """As NonMaxSuppressionV3, and how many there are; with zeros after them if padded.  Raises InvalidArgument."""
    _check(boxes, scores)
    threshold, least = _threshold(iou_threshold), _scalar("score_threshold", score_threshold)
    most = _count(max_output_size)
    found = selected(overlaps(boxes), scores, most, threshold, least)
    return _padded(found, most, pad_to_max_output_size)


def _v5_shapes(c: ShapeContext) -> list[Shape]:
    _static_check(c)
    size = _padded_size(c)
    return [(size,), (size,), ()]


@op(
    "NonMaxSuppressionV5",
    inputs="boxes: T; scores: T; max_output_size: int32; iou_threshold: T; score_threshold: T; soft_nms_sigma: T",
    outputs="selected_indices: int32; selected_scores: T; valid_outputs: int32",
    attrs="T: {half, float} = float; pad_to_max_output_size: bool = false",
    shape=_v5_shapes,
    traits={SIZED_BY_VALUES},
)
def non_max_suppression_v5(
    xp: Any,
    boxes: Array,
    scores: Array,
    max_output_size: Array,
    iou_threshold: Array,
    score_threshold: Array,
    soft_nms_sigma: Array,
    *,
    pad_to_max_output_size: bool,
) -> Any:
    """As NonMaxSuppressionV4, and the scores; a sigma above 0 makes scores less instead.  Raises InvalidArgument."""
    _check(boxes, scores)
    threshold, least = _threshold(iou_threshold), _scalar("score_threshold", score_threshold)
    sigma = _scalar("soft_nms_sigma", soft_nms_sigma)
    if not sigma >= 0:
        raise errors.invalid_argument(f"soft_nms_sigma_val must be 0 or more, and is {sigma}")
    most = _count(max_output_size)
    if sigma > 0:
        found, values = _softly(overlaps(boxes), scores, most, least, sigma)
        made = np.array(values, scores.dtype)
    else:
        found = selected(overlaps(boxes), scores, most, threshold, least)
        made = scores[found] if found else np.zeros(0, scores.dtype)
    if pad_to_max_output_size:
        made = np.concatenate((made, np.zeros(most - len(found), scores.dtype)))
    indices, count = _padded(found, most, pad_to_max_output_size)
    return indices, made, count


@op(
    "NonMaxSuppressionWithOverlaps",
    inputs="overlaps: float; scores: float; max_output_size: int32; overlap_threshold: float; score_threshold: float",
    outputs="selected_indices: int32",
    shape=_some,
    traits={SIZED_BY_VALUES},
    differentiable=False,
)
def non_max_suppression_with_overlaps(
    xp: Any,
    overlaps: Array,
    scores: Array,
    max_output_size: Array,
    overlap_threshold: Array,
    score_threshold: Array,
) -> Array:
    """As NonMaxSuppressionV3, of boxes whose overlaps [boxes, boxes] are known.  Raises InvalidArgument."""
    if overlaps.ndim != 2 or overlaps.shape[0] != overlaps.shape[1]:
        raise errors.invalid_argument(f"overlaps must be square{text(overlaps.shape)}")
    if scores.shape != overlaps.shape[:1]:
        raise errors.invalid_argument(
            f"scores has incompatible shape: {text(scores.shape)}, and overlaps {text(overlaps.shape)}"
        )
    threshold = _scalar("overlap_threshold", overlap_threshold)
    least = _scalar("score_threshold", score_threshold)
    most = _count(max_output_size)

    def shared(numbers: Array, others: Array) -> Array:
        found: Array = overlaps[others, numbers[:, None]]
        return found

    return _as_indices(selected(shared, scores, most, threshold, least))


# -- of many classes --------------------------------------------------------------------------


class CombinedNonMaxSuppression(NamedTuple):
    """What `combined_non_max_suppression` gives."""

    nmsed_boxes: Any
    nmsed_scores: Any
    nmsed_classes: Any
    valid_detections: Any


def _combined_shapes(c: ShapeContext) -> list[Shape]:
    boxes = c.with_rank("boxes", 4)
    scores = c.with_rank("scores", 3)
    assert boxes is not None
    assert scores is not None
    for arg in range(2, 6):
        c.with_rank(arg, 0)
    shape_rules.merge(boxes[:2], scores[:2])
    if boxes[3] not in (None, 4):
        raise ValueError(f"Dimension must be 4 but is {boxes[3]}: boxes are y1, x1, y2, x2")
    if None not in (boxes[2], scores[2]) and boxes[2] not in (1, scores[2]):
        raise ValueError(
            f"third dimension of boxes must be either 1 or equal to the third dimension of scores, {scores[2]}, and is "
            f"{boxes[2]}"
        )
    total, each = c.size_value("max_total_size"), c.size_value("max_output_size_per_class")
    if total is not None and total <= 0:
        raise ValueError(f"max_total_size should be > 0 and is {total}")
    if c.attr("pad_per_class"):
        known = None not in (total, each, scores[2])
        total = min(total, each * scores[2]) if known else None  # type: ignore[type-var,operator]
    return [(boxes[0], total, 4), (boxes[0], total), (boxes[0], total), (boxes[0],)]


@op(
    "CombinedNonMaxSuppression",
    inputs="boxes: float; scores: float; max_output_size_per_class: int32; max_total_size: int32; iou_threshold: "
    "float; score_threshold: float",
    outputs="nmsed_boxes: float; nmsed_scores: float; nmsed_classes: float; valid_detections: int32",
    attrs="pad_per_class: bool = false; clip_boxes: bool = true",
    shape=_combined_shapes,
    traits={ITERATES},
)
def combined_non_max_suppression_op(
    xp: Any,
    boxes: Array,
    scores: Array,
    max_output_size_per_class: Array,
    max_total_size: Array,
    iou_threshold: Array,
    score_threshold: Array,
    *,
    pad_per_class: bool,
    clip_boxes: bool,
) -> Any:
    """NonMaxSuppressionV3 of each class of each image, then the best of all classes.

    boxes [n, boxes, 1 or classes, 4]; scores [n, boxes, classes].  Raises InvalidArgument.
    """
    per_class, total = _combined_sizes(boxes, scores, max_output_size_per_class, max_total_size)
    threshold, least = _threshold(iou_threshold), _scalar("score_threshold", score_threshold)
    count, _, classes = scores.shape
    if pad_per_class:
        total = min(total, per_class * classes)
    found = np.zeros((count, total, 4), np.float32)
    values, kinds = np.zeros((2, count, total), np.float32)
    valid = np.zeros(count, np.int32)
    for image in range(count):
        chosen: list[tuple[float, int, int]] = []
        for kind in range(classes):
            own = boxes[image, :, kind if boxes.shape[2] > 1 else 0]
            of_kind = scores[image, :, kind]
            best = selected(overlaps(own), of_kind, min(per_class, len(own)), threshold, least)
            chosen += [(-float(of_kind[at]), kind, at) for at in best]
        chosen.sort(key=lambda each: each[0])
        valid[image] = min(len(chosen), total)
        for place, (negative, kind, at) in enumerate(chosen[:total]):
            box = boxes[image, at, kind if boxes.shape[2] > 1 else 0]
            found[image, place] = np.clip(box, 0, 1) if clip_boxes else box
            values[image, place] = -negative
            kinds[image, place] = kind
    return found, values, kinds, valid


def _combined_sizes(boxes: Array, scores: Array, per_class: Array, total: Array) -> tuple[int, int]:
    if boxes.ndim != 4 or boxes.shape[3] != 4:
        raise errors.invalid_argument(f"boxes must be 4-D, of 4 columns{text(boxes.shape)}")
    if scores.ndim != 3 or scores.shape[:2] != boxes.shape[:2]:
        raise errors.invalid_argument(
            f"scores must be 3-D, of as many images and boxes as boxes: {text(scores.shape)}, {text(boxes.shape)}"
        )
    if boxes.shape[2] not in (1, scores.shape[2]):
        raise errors.invalid_argument(
            f"third dimension of boxes must be either 1 or equal to the third dimension of scores: "
            f"{text(boxes.shape)}, {text(scores.shape)}"
        )
    each = int(_scalar("max_size_per_class", per_class))
    if each <= 0:
        raise errors.invalid_argument(f"max_size_per_class must be positive, and is {each}")
    most = int(_scalar("max_total_size", total))
    if most <= 0:
        raise errors.invalid_argument(f"max_total_size must be positive, and is {most}")
    return each, most


# -- functions --------------------------------------------------------------------------------


def _as_scalar(value: Any, name: str | None) -> Tensor:
    made: Tensor = convert_to_tensor(value, dtype=dtypes.float32, name=name)
    return made


def non_max_suppression(
    boxes: Any,
    scores: Any,
    max_output_size: Any,
    iou_threshold: Any = 0.5,
    score_threshold: Any = -math.inf,
    name: str | None = None,
) -> Tensor:
    """Numbers of boxes [boxes, 4] (two corners), highest of scores [boxes] first: int32, max_output_size at most.

    None shares more than iou_threshold (intersection over union) with a better one; scores are above score_threshold.
    """
    with name_scope(name, "non_max_suppression"):
        iou, least = (
            _as_scalar(iou_threshold, "iou_threshold"),
            _as_scalar(score_threshold, "score_threshold"),
        )
        made: Tensor = non_max_suppression_v3(boxes, scores, max_output_size, iou, least)
        return made


def non_max_suppression_with_scores(
    boxes: Any,
    scores: Any,
    max_output_size: Any,
    iou_threshold: Any = 0.5,
    score_threshold: Any = -math.inf,
    soft_nms_sigma: Any = 0.0,
    name: str | None = None,
) -> tuple[Tensor, Tensor]:
    """As `non_max_suppression`, and the scores.  soft_nms_sigma > 0: boxes that overlap stay, with lower scores."""
    with name_scope(name, "non_max_suppression_with_scores"):
        iou, least, sigma = (
            _as_scalar(iou_threshold, "iou_threshold"),
            _as_scalar(score_threshold, "score_threshold"),
            _as_scalar(soft_nms_sigma, "soft_nms_sigma"),
        )
        indices, values, _ = non_max_suppression_v5(
            boxes, scores, max_output_size, iou, least, sigma, pad_to_max_output_size=False
        )
        return indices, values


def non_max_suppression_padded(
    boxes: Any,
    scores: Any,
    max_output_size: Any,
    iou_threshold: Any = 0.5,
    score_threshold: Any = -math.inf,
    pad_to_max_output_size: bool = False,
    name: str | None = None,
) -> tuple[Tensor, Tensor]:
    """As `non_max_suppression`, with zeros up to max_output_size if told, and how many boxes there are, int32 []."""
    with name_scope(name, "non_max_suppression_padded"):
        iou, least = (
            _as_scalar(iou_threshold, "iou_threshold"),
            _as_scalar(score_threshold, "score_threshold"),
        )
        indices, count = non_max_suppression_v4(
            boxes,
            scores,
            max_output_size,
            iou,
            least,
            pad_to_max_output_size=pad_to_max_output_size,
        )
        return indices, count


def non_max_suppression_overlaps(
    overlaps: Any,
    scores: Any,
    max_output_size: Any,
    overlap_threshold: Any = 0.5,
    score_threshold: Any = -math.inf,
    name: str | None = None,
) -> Tensor:
    """As `non_max_suppression`, of boxes whose overlaps [boxes, boxes] are known."""
    with name_scope(name, "non_max_suppression_overlaps"):
        most = _as_scalar(overlap_threshold, "overlap_threshold")
        made: Tensor = non_max_suppression_with_overlaps(
            overlaps, scores, max_output_size, most, score_threshold
        )
        return made


def combined_non_max_suppression(
    boxes: Any,
    scores: Any,
    max_output_size_per_class: Any,
    max_total_size: Any,
    iou_threshold: Any = 0.5,
    score_threshold: Any = -math.inf,
    pad_per_class: bool = False,
    clip_boxes: bool = True,
    name: str | None = None,
) -> CombinedNonMaxSuppression:
    """`non_max_suppression` of each class of each image, then the best max_total_size of all classes.

    boxes [n, boxes, classes or 1, 4]; scores [n, boxes, classes].  Returns boxes [n, total, 4], scores and classes
    [n, total], and how many of each image are valid, int32 [n]; the others are zeros.
    """
    with name_scope(name, "combined_non_max_suppression"):
        iou, least = (
            _as_scalar(iou_threshold, "iou_threshold"),
            _as_scalar(score_threshold, "score_threshold"),
        )
        total = convert_to_tensor(max_total_size)
        made = combined_non_max_suppression_op(
            boxes,
            scores,
            max_output_size_per_class,
            total,
            iou,
            least,
            pad_per_class=pad_per_class,
            clip_boxes=clip_boxes,
        )
        return CombinedNonMaxSuppression(*made)
