"""Windows that move over images and volumes: where they lie, and views of what they meet.

Shared by convolutions and pooling.  Channels are the last axis here; `to_last` and `from_last` turn others.
Called by: ops.nn.convolution, ops.nn.depthwise, ops.nn.pooling, ops.nn.batch_norm, ops.nn.fused.  Threads: any.
Source: padding as TF 1.15 core/framework/common_shape_fns.cc
"""

from __future__ import annotations

import functools
import itertools
import math
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from numpy.lib.stride_tricks import as_strided

from headrace.base import errors
from headrace.base.shapes import text

__all__: list[str] = []

Array = np.ndarray[Any, Any]
Pads = Sequence[tuple[int, int]]
_PARTS = 8  # of an operation at least, where there are as many images and SMALL allows it
SMALL = 1 << 18  # bytes, below which a part is not worth its calls


def channels_last(data_format: bytes) -> bool:
    """Whether channels are the last axis (NHWC, NDHWC) and not the second (NCHW, NCDHW)."""
    return data_format.endswith(b"C")


def to_last(x: Array, data_format: bytes) -> Array:
    """A view of `x` with the channels last."""
    return x if channels_last(data_format) else np.moveaxis(x, 1, -1)


def laid_last(x: Array, data_format: bytes) -> Array:
    """`x` with the channels last, in memory too: for what reads each element several times."""
    return x if channels_last(data_format) else np.ascontiguousarray(np.moveaxis(x, 1, -1))


def from_last(x: Array, data_format: bytes) -> Array:
    """The inverse of `to_last`."""
    return x if channels_last(data_format) else np.ascontiguousarray(np.moveaxis(x, -1, 1))


def parts(count: int, bytes_each: int, most_bytes: int, least: int = 1) -> list[slice]:
    """Slices of `count` images to be worked on side by side: of `most_bytes`, or less for the sake of _PARTS.

    They differ by one image at most, and are an even number, so that threads have equal shares.  least: images in a
    part, whatever their size, or nearly so.
    """
    each = max(bytes_each, 1)
    return list(_parts(count, most_bytes // each, max(SMALL // each, least, 1)))


@functools.lru_cache(256)
def _parts(count: int, most: int, least: int) -> tuple[slice, ...]:
    size = max(min(most, -(-count // _PARTS)), least)
    number = -(-count // size)
    if 1 < number < count:
        number += number % 2
    cuts = [count * place // max(number, 1) for place in range(number + 1)]
    return tuple(itertools.starmap(slice, itertools.pairwise(cuts)))


class Geometry:
    """Where the positions of a window lie.  All lists are of spatial dimensions.

    size: of the input.  window: of the filter.  out: of the output.
    Raises InvalidArgument where no output is left.
    """

    def __init__(
        self,
        size: Sequence[int],
        window: Sequence[int],
        strides: Sequence[int],
        dilations: Sequence[int],
        pads: Pads,
    ) -> None:
        self.size, self.window, self.pads = tuple(size), tuple(window), tuple(pads)
        self.strides, self.dilations = tuple(strides), tuple(dilations)
        self.padded_size = tuple(n + sum(pad) for n, pad in zip(size, pads, strict=True))
        self.out = tuple(
            (n - (w - 1) * d - 1) // s + 1
            for n, w, s, d in zip(self.padded_size, window, strides, dilations, strict=True)
        )
        self.has_pads = self.padded_size != self.size or any(map(any, pads))
        if any(n < 0 for n in self.out):
            raise errors.invalid_argument(
                f"a window of {list(window)} (dilated by {list(dilations)}) is larger than the padded input, "
                f"{list(self.padded_size)}"
            )

    @property
    def is_pointwise(self) -> bool:
        """Every output is made of the one input of the same place."""
        return not self.has_pads and all(n == 1 for n in (*self.window, *self.strides))

    @property
    def is_tiled(self) -> bool:
        """Every place of the padded input is under exactly one window."""
        each = zip(
            self.window, self.strides, self.out, self.padded_size, self.dilations, strict=True
        )
        return all(w == s and o * s == n and d == 1 for w, s, o, n, d in each)

    def reversed(self) -> Geometry | None:
        """Where the windows of the outputs' gradient lie that make up the inputs' one, for the flipped filter.

        None where strides leave gaps, or padding reaches beyond the window.
        """
        if any(n != 1 for n in self.strides):
            return None
        spans = [(w - 1) * d for w, d in zip(self.window, self.dilations, strict=True)]
        pads = [(span - a, span - b) for span, (a, b) in zip(spans, self.pads, strict=True)]
        if any(min(pad) < 0 for pad in pads) or 0 in self.out:
            return None
        return Geometry(self.out, self.window, self.strides, self.dilations, pads)

    def padded(self, x: Array, value: Any = 0, out: Array | None = None) -> Array:
        """`x` [n, *size, c] with `value` around it; `x` itself if there is no padding.

        out: an array to make it in.
        """
        if not self.has_pads:
            return x
        if out is None:
            out = np.empty((len(x), *self.padded_size, x.shape[-1]), x.dtype)
        for axis, (before, _) in enumerate(self.pads, 1):
            edge = [slice(None)] * out.ndim
            edge[axis] = slice(before)
            out[tuple(edge)] = value
            edge[axis] = slice(before + self.size[axis - 1], None)
            out[tuple(edge)] = value
        self.inside(out)[...] = x
        return out

    def positions(self) -> Iterator[tuple[tuple[int, ...], tuple[slice, ...]]]:
        """Each position in the window, with the slices of a padded [n, *size, c] that it meets."""
        for at in itertools.product(*map(range, self.window)):
            first = [a * d for a, d in zip(at, self.dilations, strict=True)]
            slices = [
                slice(f, f + (o - 1) * s + 1, s) if o else slice(0, 0)
                for f, o, s in zip(first, self.out, self.strides, strict=True)
            ]
            yield at, (slice(None), *slices, slice(None))

    def windows(self, padded: Array) -> Array:
        """A read-only view [n, *out, *window, c] of a padded array."""
        n, *spatial, c = padded.strides
        steps = [stride * s for stride, s in zip(spatial, self.strides, strict=True)]
        spread = [stride * d for stride, d in zip(spatial, self.dilations, strict=True)]
        shape = (len(padded), *self.out, *self.window, padded.shape[-1])
        return as_strided(padded, shape, (n, *steps, *spread, c), writeable=False)

    def lines_at(self, place: int) -> tuple[slice, slice]:
        """Lines of the output, and those of the input that give something to them at this place of the window.

        Along the first dimension, with strides of 1.
        """
        first = place * self.dilations[0] - self.pads[0][0]
        start = min(max(0, -first), self.out[0])
        end = max(min(self.out[0], self.size[0] - first), start)
        return slice(start, end), slice(start + first, end + first)

    def inside(self, padded: Array) -> Array:
        """What of a padded array is not padding."""
        slices = [slice(pad[0], pad[0] + n) for pad, n in zip(self.pads, self.size, strict=True)]
        return padded[(slice(None), *slices, slice(None))]


def geometry(
    size: Sequence[int],
    window: Sequence[int],
    strides: Sequence[int],
    padding: bytes,
    data_format: bytes,
    dilations: Sequence[int],
    explicit: Sequence[int] = (),
) -> Geometry:
    """The Geometry of a node's attrs, which have an entry per axis; kept for the next call.

    Raises InvalidArgument for strides or dilations that are not positive, or of the batch or the channels.
    """
    return _geometry(
        tuple(size),
        tuple(window),
        tuple(strides),
        padding,
        data_format,
        tuple(dilations),
        tuple(explicit),
    )


@functools.lru_cache(256)
def _geometry(
    size: tuple[int, ...],
    window: tuple[int, ...],
    strides: tuple[int, ...],
    padding: bytes,
    data_format: bytes,
    dilations: tuple[int, ...],
    explicit: tuple[int, ...],
) -> Geometry:
    spatial = slice(1, -1) if channels_last(data_format) else slice(2, None)
    for name, attr in (("strides", strides), ("dilations", dilations)):
        if len(attr) != len(size) + 2 or math.prod(attr) != math.prod(attr[spatial]):
            raise errors.invalid_argument(
                f"{name} {list(attr)} must have {len(size) + 2} entries, 1 for the batch and the channels"
            )
        if min(attr) < 1:
            raise errors.invalid_argument(f"{name} {list(attr)} must be positive")
    steps, spread = strides[spatial], dilations[spatial]
    if padding == b"EXPLICIT":
        if len(explicit) != 2 * len(strides) or min(explicit) < 0:
            raise errors.invalid_argument(
                f"explicit_paddings {list(explicit)} must have {2 * len(strides)} entries that are not negative"
            )
        pairs = [(explicit[2 * i], explicit[2 * i + 1]) for i in range(len(explicit) // 2)]
        pads = pairs[spatial]
        if sum(map(sum, pairs)) != sum(map(sum, pads)):
            raise errors.invalid_argument(
                f"explicit_paddings {list(explicit)} must be 0 for the batch and the channels"
            )
    elif padding == b"SAME":
        pads = [_same(*each) for each in zip(size, window, steps, spread, strict=True)]
    else:
        pads = [(0, 0)] * len(size)
    return Geometry(size, window, steps, spread, pads)


def static_out(
    size: Sequence[int | None],
    window: Sequence[int | None],
    strides: Sequence[int],
    padding: bytes,
    data_format: bytes,
    dilations: Sequence[int],
    explicit: Sequence[int] = (),
) -> tuple[int | None, ...]:
    """Sizes of the output, None where those of the input or the window are not known.

    Raises ValueError where a window has no room or an attr does not fit.
    """
    first = 1 if channels_last(data_format) else 2
    found: list[int | None] = []
    if len(strides) != len(size) + 2 or len(dilations) != len(size) + 2:
        raise ValueError(
            f"strides {list(strides)} and dilations {list(dilations)} must have {len(size) + 2} entries"
        )
    if explicit and padding != b"EXPLICIT":
        raise ValueError(
            f"explicit_paddings attribute must be empty if the padding attribute is not EXPLICIT: {list(explicit)}"
        )
    for what, given in (("Stride", strides), ("Dilation rate", dilations)):
        if min(given) < 1:
            raise ValueError(f"{what} must be > 0, but got {min(given)}: they are {list(given)}")
    for axis, (n, w) in enumerate(zip(size, window, strict=True), first):
        if n is None or (w is None and padding != b"SAME"):
            found.append(None)
            continue
        if w is None or padding == b"SAME":  # whatever the window
            found.append(-(-n // strides[axis]))
            continue
        pads = (explicit[2 * axis], explicit[2 * axis + 1]) if padding == b"EXPLICIT" else (0, 0)
        room = n + sum(pads) - (w - 1) * dilations[axis] - 1
        if room < 0:
            raise ValueError(
                f"Negative dimension size caused by subtracting {(w - 1) * dilations[axis] + 1} from {n + sum(pads)}: "
                f"a window of {w}, dilated by {dilations[axis]}, is larger than the padded size {n + sum(pads)}"
            )
        found.append(room // strides[axis] + 1)
    return tuple(found)


def _same(size: int, window: int, stride: int, dilation: int) -> tuple[int, int]:
    """Padding before and after that gives ceil(size / stride) outputs; the odd one goes after."""
    outputs = -(-size // stride)
    total = max((outputs - 1) * stride + (window - 1) * dilation + 1 - size, 0)
    return total // 2, total - total // 2


def check_gradient(dy: Array, where: Geometry, batch: int, channels: int) -> None:
    """Raise InvalidArgument unless dy [n, *out, channels] is what the operation gave for such an input."""
    wanted = (batch, *where.out, channels)
    if dy.shape != wanted:
        raise errors.invalid_argument(
            f"the gradient must have the shape of the output, {text(wanted)} (channels last), not {text(dy.shape)}"
        )
