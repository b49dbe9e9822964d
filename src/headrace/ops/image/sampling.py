"""Parts of images, drawn at random: crops that cover objects, glimpses.

Called by: library.image, programs.  Threads: any.
Source: behaviour of TF 1.15 (core/kernels/sample_distorted_bounding_box_op.cc, attention_ops.cc); the same numbers from
the same seeds
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from itertools import chain
from typing import Any, NamedTuple

import numpy as np

from headrace.base import errors
from headrace.base.shapes import Shape, merge_sizes, text
from headrace.base.traits import DRAWS_BY_SHAPE, NEVER_FOLDED, STATEFUL
from headrace.graph.graph import Operation
from headrace.graph.names import name_scope
from headrace.graph.registry import op
from headrace.graph.shape_fns import ShapeContext
from headrace.graph.tensor import Tensor
from headrace.ops._kernels.random_streams import Stream, normal, uniform
from headrace.ops.random.draws import stream_of
from headrace.run.exec.kernel import KernelContext

__all__ = ["extract_glimpse", "sample_distorted_bounding_box"]

Array = np.ndarray[Any, Any]
F = np.float32
_LEAST = 1.0  # pixels of an object that counts
_BLOCKS_AHEAD, _BLOCKS_FIRST = 64, 4


class Numbers:
    """Single numbers, one after the other."""

    def __init__(self, words: Iterator[int]) -> None:
        """words: see `_words`."""
        self._words = words

    def below(self, limit: int) -> int:
        """A whole number from 0 on."""
        if limit & (limit - 1) == 0:
            return next(self._words) & (limit - 1)
        unfair = (2**32 - 1) % limit + 1
        while (word := next(self._words)) < unfair:
            pass
        return word % limit

    def share(self) -> np.float32:
        """In [0, 1)."""
        bits = np.uint32(next(self._words) & 0x7FFFFF | 127 << 23)
        return F(bits.view(F) - F(1))


def _words(stream: Stream, first: int) -> Iterator[int]:
    """Of a stream, from block `first` on; what is drawn beyond those that were reserved may be drawn again."""
    while True:
        yield from stream.words(first, _BLOCKS_AHEAD).ravel().tolist()
        first += _BLOCKS_AHEAD


class _Part(NamedTuple):
    """Of an image, in pixels: top and left are within, bottom and right outside."""

    top: int
    left: int
    bottom: int
    right: int

    @property
    def area(self) -> int:
        return (self.bottom - self.top) * (self.right - self.left)

    def shared(self, other: _Part) -> int:
        rows = min(self.bottom, other.bottom) - max(self.top, other.top)
        columns = min(self.right, other.right) - max(self.left, other.left)
        return rows * columns if rows > 0 and columns > 0 else 0


def _rounded(x: Any) -> int:
    return int(np.rint(F(x)))


def _random_part(
    height: int, width: int, areas: tuple[Any, Any], aspect: Any, numbers: Numbers
) -> _Part | None:
    """One of that aspect ratio, whose share of the image is in `areas`; None if that cannot be."""
    least, most = (F(F(share) * F(width)) * F(height) for share in areas)
    tall = _rounded(np.sqrt(F(least / aspect)))
    tallest = _rounded(np.sqrt(F(most / aspect)))
    if _rounded(F(tallest) * aspect) > width:
        tallest = int((width + 0.5 - 1e-7) / float(aspect))
        if _rounded(F(tallest) * aspect) > width:
            tallest -= 1
    tallest = min(tallest, height)
    tall = min(tall, tallest)
    if tall < tallest:
        tall += numbers.below(tallest - tall + 1)
    wide = _rounded(F(tall) * aspect)
    for step in (1, -1):  # rounding alone should not make an attempt fail
        area = F(wide * tall)
        if (area < least) if step > 0 else (area > most):
            tall += step
            wide = _rounded(F(tall) * aspect)
    area = F(wide * tall)
    if area < least or area > most or not 0 < wide <= width or not 0 < tall <= height:
        return None
    top = numbers.below(height - tall) if tall < height else 0
    left = numbers.below(width - wide) if wide < width else 0
    return _Part(top, left, top + tall, left + wide)


def _covers(part: _Part, objects: list[_Part], share: float) -> bool:
    """Whether `part` has that share of one of the objects."""
    if part.area < _LEAST:
        return False
    return any(
        F(part.shared(each)) / F(each.area) >= share for each in objects if each.area >= _LEAST
    )


def _objects(boxes: Array, height: int, width: int, whole: bool) -> list[_Part]:
    if boxes.ndim != 3 or boxes.shape[-1] != 4:
        raise errors.invalid_argument(
            f"input boxes must be 3-dimensional [batch, num_boxes, coords]: {text(boxes.shape)}"
        )
    if boxes.shape[0] != 1:
        raise errors.invalid_argument(
            f"boxes are those of one image, [1, boxes, 4], and their shape is {text(boxes.shape)}"
        )
    if boxes.size and not ((boxes >= 0) & (boxes <= 1)).all():
        raise errors.invalid_argument(
            "All bounding box coordinates must be in [0.0, 1.0]: they are shares of height and width"
        )
    if not boxes.size:
        if not whole:
            raise errors.invalid_argument(
                "No bounding boxes provided as input. One must enable use_image_if_no_bounding_boxes if you wish to "
                "not provide any bounding boxes"
            )
        return [_Part(0, 0, height, width)]
    sides = np.array([height, width, height, width], F)
    found = (boxes[0] * sides).astype(np.int64).tolist()
    for number, (top, left, bottom, right) in enumerate(found):
        if bottom < top or right < left:
            raise errors.invalid_argument(
                f"box {number} ends before it begins: {boxes[0, number].tolist()} (y1, x1, y2, x2)"
            )
    return [_Part(*each) for each in found]


class _Wanted(NamedTuple):
    """What a node's attrs say of the parts it draws."""

    aspects: list[float]
    areas: list[float]
    attempts: int
    whole: bool

    def checked(self) -> _Wanted:
        """Itself.  Raises InvalidArgument."""
        _check_ranges(self.aspects, self.areas, self.attempts)
        return self

    def sampled(
        self, image_size: Array, boxes: Array, covered: float, numbers: Callable[[], Numbers]
    ) -> tuple[Array, Array, Array]:
        """Of one image.  numbers: asked for once all is as it should be.  Raises InvalidArgument."""
        if image_size.shape != (3,):
            raise errors.invalid_argument(
                f"image_size must be 1-D, of height, width and channels: {text(image_size.shape)}"
            )
        height, width = (int(each) for each in image_size[:2])
        if height <= 0 or width <= 0:
            raise errors.invalid_argument(
                f"image height and width must be positive: {height}, {width}"
            )
        if not 0 <= covered <= 1:
            raise errors.invalid_argument(
                f"Min object covered must be in [0.0, 1.0], got: {covered}"
            )
        objects = _objects(boxes, height, width, self.whole)
        part = self._part(height, width, objects, covered, numbers())
        kind = image_size.dtype
        begin = np.array([part.top, part.left, 0]).astype(kind)
        size = np.array([part.bottom - part.top, part.right - part.left, -1]).astype(kind)
        edges = np.array(part, F) / np.array([height, width, height, width], F)
        return begin, size, edges.reshape(1, 1, 4)

    def _part(
        self, height: int, width: int, objects: list[_Part], covered: float, numbers: Numbers
    ) -> _Part:
        low, high = F(self.aspects[0]), F(self.aspects[1])
        areas = self.areas[0], self.areas[1]
        for _ in range(self.attempts):
            aspect = numbers.share() * (high - low) + low
            found = _random_part(height, width, areas, aspect, numbers)
            if found is not None and _covers(found, objects, covered):
                return found
        return _Part(0, 0, height, width)


def _wanted(attrs: Mapping[str, Any]) -> _Wanted:
    return _Wanted(
        attrs["aspect_ratio_range"],
        attrs["area_range"],
        attrs["max_attempts"],
        attrs["use_image_if_no_bounding_boxes"],
    )


def sampled_rows(op: Operation, rows: Sequence[bool]) -> Callable[..., list[Array]]:
    """(stream, count, *inputs) -> what the op draws of its stream for `count` elements: see ops.random.drawn_rows."""
    wanted, blocks = _wanted(op.attrs), op.attrs["max_attempts"]

    def parts(stream: Stream, count: int, *inputs: Array) -> list[Array]:
        given = [
            each if varies else np.broadcast_to(each, (count, *each.shape))
            for each, varies in zip(inputs, rows, strict=True)
        ]
        wanted.checked()
        starts = stream.reserve(count * blocks) + np.arange(count) * blocks
        some = (starts[:, None] + np.arange(_BLOCKS_FIRST)).astype(np.uint64)
        first = stream.words_at(some.reshape(-1)).reshape(count, -1).tolist()
        found = []
        for at, (size, boxes) in enumerate(zip(*given[:2], strict=True)):
            words = chain(first[at], _words(stream, int(starts[at]) + _BLOCKS_FIRST))
            covered = _covered(given[2][at]) if len(given) > 2 else op.attrs["min_object_covered"]
            found.append(wanted.sampled(size, boxes, covered, partial(Numbers, words)))
        return [np.stack(column) for column in zip(*found, strict=True)]

    return parts


def _check_ranges(aspects: list[float], areas: list[float], attempts: int) -> None:
    for name, values, most in (("aspect ratio", aspects, math.inf), ("area", areas, 1.0)):
        if len(values) != 2 or not 0 < values[0] <= values[1] <= most:
            raise errors.invalid_argument(
                f"{name} range must be two numbers above 0, the lower one first"
                f"{', 1 at most' if most == 1 else ''}: {values}"
            )
    if attempts <= 0:
        raise errors.invalid_argument(f"max_attempts must be positive: {attempts}")


def _sampled_shape(c: ShapeContext) -> list[Shape]:
    c.with_rank("image_size", 1)
    c.with_size("image_size", 3)
    c.with_rank("bounding_boxes", 3)
    c.with_size("bounding_boxes", 4, 2)
    if len(c.op.inputs) > 2:
        c.with_rank("min_object_covered", 0)
    return [(3,), (3,), (1, 1, 4)]


_RANGES = (
    "aspect_ratio_range: list(float) = [0.75, 1.33]; area_range: list(float) = [0.05, 1.0]; max_attempts: int = 100; "
    "use_image_if_no_bounding_boxes: bool = false"
)
_SIZES = "T: {uint8, int8, int16, int32, int64}; seed: int = 0; seed2: int = 0"


@op(
    "SampleDistortedBoundingBox",
    inputs="image_size: T; bounding_boxes: float",
    outputs="begin: T; size: T; bboxes: float",
    attrs=f"{_SIZES}; min_object_covered: float = 0.1; {_RANGES}",
    shape=_sampled_shape,
    traits={STATEFUL},
    differentiable=False,
)
def sample_distorted_bounding_box_v1(
    ctx: KernelContext,
    image_size: Array,
    bounding_boxes: Array,
    *,
    min_object_covered: float,
    aspect_ratio_range: list[float],
    area_range: list[float],
    max_attempts: int,
    use_image_if_no_bounding_boxes: bool,
    seed: int,
    seed2: int,
) -> Any:
    """As SampleDistortedBoundingBoxV2.  Raises InvalidArgument."""
    wanted = _Wanted(
        aspect_ratio_range, area_range, max_attempts, use_image_if_no_bounding_boxes
    ).checked()
    return wanted.sampled(
        image_size,
        bounding_boxes,
        min_object_covered,
        lambda: _numbers_of(ctx, max_attempts, seed, seed2),
    )


def _numbers_of(ctx: KernelContext, blocks: int, seed: int, seed2: int) -> Numbers:
    stream = stream_of(ctx, seed, seed2)
    return Numbers(_words(stream, stream.reserve(blocks)))


def _covered(share: Array) -> float:
    """Raises InvalidArgument."""
    if share.ndim:
        raise errors.invalid_argument(
            f"min_object_covered must be 0-D, got shape {text(share.shape)}"
        )
    return float(share)


@op(
    "SampleDistortedBoundingBoxV2",
    inputs="image_size: T; bounding_boxes: float; min_object_covered: float",
    outputs="begin: T; size: T; bboxes: float",
    attrs=f"{_SIZES}; {_RANGES}",
    shape=_sampled_shape,
    traits={STATEFUL},
    differentiable=False,
)
def sample_distorted_bounding_box_v2(
    ctx: KernelContext,
    image_size: Array,
    bounding_boxes: Array,
    min_object_covered: Array,
    *,
    aspect_ratio_range: list[float],
    area_range: list[float],
    max_attempts: int,
    use_image_if_no_bounding_boxes: bool,
    seed: int,
    seed2: int,
) -> Any:
    """A part of an image of image_size [3] that has min_object_covered of one of its boxes [1, boxes, 4].

    begin [3], size [3]: as `tf.slice` takes them; bboxes float32 [1, 1, 4]: as boxes are drawn.  All of the image if
    no attempt gives one.  Raises InvalidArgument.
    """
    covered = _covered(min_object_covered)
    wanted = _Wanted(
        aspect_ratio_range, area_range, max_attempts, use_image_if_no_bounding_boxes
    ).checked()
    return wanted.sampled(
        image_size,
        bounding_boxes,
        covered,
        lambda: _numbers_of(ctx, max_attempts, seed, seed2),
    )


class SampleDistortedBoundingBoxV2(NamedTuple):
    """What `sample_distorted_bounding_box` gives."""

    begin: Any
    size: Any
    bboxes: Any


def sample_distorted_bounding_box(
    image_size: Any,
    bounding_boxes: Any,
    seed: int | None = None,
    seed2: int | None = None,
    min_object_covered: Any = 0.1,
    aspect_ratio_range: list[float] | None = None,
    area_range: list[float] | None = None,
    max_attempts: int | None = None,
    use_image_if_no_bounding_boxes: bool | None = None,
    name: str | None = None,
) -> SampleDistortedBoundingBoxV2:
    """A part of an image of image_size [3] that has min_object_covered of one of its boxes [1, boxes, 4].

    aspect_ratio_range: of width to height.  area_range: as shares of the image.  Returns begin and size, as `tf.slice`
    takes them, and the part as a box [1, 1, 4]; all of the image where no attempt gives one that fits.
    """
    told = {
        "aspect_ratio_range": aspect_ratio_range,
        "area_range": area_range,
        "max_attempts": max_attempts,
        "use_image_if_no_bounding_boxes": use_image_if_no_bounding_boxes,
        "seed": seed,
        "seed2": seed2,
    }
    attrs = {key: value for key, value in told.items() if value is not None}
    with name_scope(name, "sample_distorted_bounding_box"):
        made = sample_distorted_bounding_box_v2(
            image_size, bounding_boxes, min_object_covered, name=name, **attrs
        )
    return SampleDistortedBoundingBoxV2(*made)


# -- glimpses ---------------------------------------------------------------------------------


def _glimpse_shape(c: ShapeContext) -> Shape:
    images = c.with_rank("input", 4)
    offsets = c.with_rank("offsets", 2)
    assert images is not None
    assert offsets is not None
    if offsets[1] not in (None, 2):
        raise ValueError(
            f"Dimension must be 2 but is {offsets[1]}: offsets are of rows and columns"
        )
    c.with_rank("size", 1)
    c.with_size("size", 2)
    size = c.value("size")
    sides = (None, None) if size is None else tuple(int(each) for each in size)
    batch = merge_sizes(images[0], offsets[0], "images and offsets")
    return (batch, *sides, images[3])


NOISES = (b"uniform", b"gaussian", b"zero")


def _glimpses(
    ctx: KernelContext,
    images: Array,
    size: Array,
    offsets: Array,
    older: bool,
    centered: bool,
    normalized: bool,
    uniform: bool,
    noise: bytes,
    taken: Array | None,
) -> Array:
    if noise not in NOISES or (uniform and noise != b"uniform"):
        raise errors.invalid_argument(
            f"The uniform_noise and noise should not be specified at the same time: noise is {noise.decode()!r}, one "
            "of 'uniform', 'gaussian' and 'zero', the last two with uniform_noise=False"
        )
    if images.ndim != 4:
        raise errors.invalid_argument(
            f"input must be 4-dimensional (batch_size, height, width, depth){text(images.shape)}"
        )
    if size.shape != (2,):
        raise errors.invalid_argument(
            f"input must be a vector of size 2 (height, width){text(size.shape)}"
        )
    if offsets.shape != (len(images), 2):
        raise errors.invalid_argument(
            f"input must be a matrix of size {len(images)} by 2 (y, x){text(offsets.shape)}"
        )
    high, wide = (int(each) for each in size)
    if high < 0 or wide < 0:
        raise errors.invalid_argument(f"size must not be negative: {high}, {wide}")
    shape = len(images), high, wide, images.shape[3]
    made = _noise(lambda: _stream(ctx, taken), shape, noise, images)
    sides = np.array(images.shape[1:3], F)
    at = offsets * sides if normalized else offsets.astype(F)
    if centered:
        at = at / F(2) + sides / F(2) if older or normalized else at + sides / F(2)
    if older or (centered and normalized):
        at = at - np.array([high, wide], F) / F(2)
    with np.errstate(invalid="ignore"):
        first = np.trunc(np.clip(np.nan_to_num(at), -(2.0**31), 2.0**31)).astype(np.int64)
    for number, (top, left) in enumerate(first.tolist()):
        rows = slice(max(top, 0), min(top + high, images.shape[1]))
        columns = slice(max(left, 0), min(left + wide, images.shape[2]))
        if rows.start < rows.stop and columns.start < columns.stop:
            made[
                number,
                rows.start - top : rows.stop - top,
                columns.start - left : columns.stop - left,
            ] = images[number, rows, columns]
    return made


def _stream(ctx: KernelContext, taken: Array | None) -> Stream:
    return stream_of(ctx, 0, 0) if taken is None else Stream.of_taken(taken)


def _noise(
    stream: Callable[[], Stream], shape: tuple[int, ...], noise: bytes, images: Array
) -> Array:
    """As high as the numbers of each image; of each channel, if it is gaussian."""
    if noise == b"zero" or not images.size:
        return np.zeros(shape, F)
    draw = normal if noise == b"gaussian" else uniform
    made = draw(stream(), math.prod(shape), np.dtype(F)).reshape(shape)
    if noise == b"gaussian":
        axes: tuple[int, ...] = (1, 2)
        made *= images.std(axis=axes, keepdims=True)
        made += images.mean(axis=axes, keepdims=True)
    else:
        axes = (1, 2, 3)
    low, high = images.min(axis=axes, keepdims=True), images.max(axis=axes, keepdims=True)
    if noise != b"gaussian":
        made = made * (high - low) + low
    return np.clip(made, low, high, out=made)


_GLIMPSE = "centered: bool = true; normalized: bool = true; uniform_noise: bool = true; noise: string = 'uniform'"


@op(
    "ExtractGlimpse",
    inputs="input: float; size: int32; offsets: float",
    outputs="glimpse: float",
    attrs=_GLIMPSE,
    shape=_glimpse_shape,
    traits={NEVER_FOLDED, DRAWS_BY_SHAPE},
    differentiable=False,
)
def extract_glimpse_v1(
    ctx: KernelContext,
    input: Array,
    size: Array,
    offsets: Array,
    taken: Array | None = None,
    *,
    centered: bool,
    normalized: bool,
    uniform_noise: bool,
    noise: bytes,
) -> Any:
    """A window of `size` [2] of each image [n, h, w, c] around offsets [n, 2], noise where it leaves the image.

    Raises InvalidArgument.
    """
    return _glimpses(
        ctx, input, size, offsets, True, centered, normalized, uniform_noise, noise, taken
    )


@op(
    "ExtractGlimpseV2",
    inputs="input: float; size: int32; offsets: float",
    outputs="glimpse: float",
    attrs=_GLIMPSE,
    shape=_glimpse_shape,
    traits={NEVER_FOLDED, DRAWS_BY_SHAPE},
)
def extract_glimpse_v2(
    ctx: KernelContext,
    input: Array,
    size: Array,
    offsets: Array,
    taken: Array | None = None,
    *,
    centered: bool,
    normalized: bool,
    uniform_noise: bool,
    noise: bytes,
) -> Any:
    """As ExtractGlimpse, but offsets in pixels, or from the corner, are where windows begin.

    Raises InvalidArgument.
    """
    return _glimpses(
        ctx, input, size, offsets, False, centered, normalized, uniform_noise, noise, taken
    )


@extract_glimpse_v1.takes_ahead
@extract_glimpse_v2.takes_ahead
def _taken(ctx: KernelContext, input: Any, size: Array, offsets: Any) -> Array:
    """What the noise is made of, if there is any."""
    sizes = [int(each) for each in size.ravel()]
    return stream_of(ctx, 0, 0).taken(
        max(math.prod([*input.shape[:1], *input.shape[3:], *sizes]), 0)
    )


def extract_glimpse(
    input: Any,
    size: Any,
    offsets: Any,
    centered: bool = True,
    normalized: bool = True,
    uniform_noise: bool = True,
    name: str | None = None,
) -> Tensor:
    """A window of `size` [2] of each image [n, h, w, c] around offsets [n, 2] (y, x): [n, *size, c].

    centered: offsets count from the middle, else from the top left corner.  normalized: -1 (or 0) to 1 is all of the
    image, else they are pixels.  What lies outside is noise.
    """
    made: Tensor = extract_glimpse_v1(
        input,
        size,
        offsets,
        centered=centered,
        normalized=normalized,
        uniform_noise=uniform_noise,
        name=name,
    )
    return made
