"""Values of summaries: the buckets of histograms, pixels of any numbers as PNGs, samples as WAV files.

Called by: ops.io.summaries, run.data.stats.  Threads: pure functions; `Counts` one at a time.
Source: TF 1.15 core/lib/histogram, core/kernels/summary_{image,audio}_op.cc, core/lib/wav, for behaviour; compared bit
for bit with the oracle (PNGs: their pixels); the RIFF WAVE format
"""

from __future__ import annotations

import struct
from functools import cache
from typing import Any, Final, NamedTuple

import numpy as np

from headrace.codec import plain_png
from headrace.codec import protos as pb

Array = np.ndarray[Any, Any]

_LARGEST: Final = float(np.finfo(np.float64).max)
_NARROWEST: Final = 1e-12
_WIDEST: Final = 1e20
_GROWTH: Final = 1.1
_AT_ONCE: Final = 1 << 17  # values that are added up before the next are made float64
_BY_HALVES: Final = 1 << 12  # values from which that is quicker than sorting them
_WAV: Final = struct.Struct("<4sI4s4sIHHIIHH4sI")
_FULL_SCALE: Final = 1 << 15
_BLACK: Final = 1e-6
"""Images whose brightest value is less are black."""


@cache
def bucket_limits() -> Array:
    """The upper ends of all buckets, ascending: 0, and on either side ends that grow by a tenth."""
    positive = []
    limit = _NARROWEST
    while limit < _WIDEST:
        positive.append(limit)
        limit *= _GROWTH
    positive.append(_LARGEST)
    found = np.array([*(-end for end in reversed(positive)), 0.0, *positive])
    found.flags.writeable = False
    return found


class _Halves(NamedTuple):
    """Of each number of 16 bits, taken as the upper half of a float32: in which bucket all floats are that begin so
    (`bucket`), and where they are not all in one (`several`).
    """

    bucket: Array
    several: Array


@cache
def _halves() -> _Halves:
    ends = np.arange(1 << 16, dtype=np.uint32) << np.uint32(16)
    with np.errstate(invalid="ignore"):  # the last of them are no numbers
        nearest, farthest = (
            np.searchsorted(bucket_limits(), bits.view(np.float32).astype(np.float64), side="right")
            for bits in (ends, ends | np.uint32(0xFFFF))
        )
    return _Halves(np.minimum(nearest, bucket_limits().size - 1), nearest != farthest)


def _counted(values: Array) -> Array:
    """int64 [buckets]: how many of these are in each.

    Limits are looked up among sorted values, of which there are more.
    """
    below = np.searchsorted(np.sort(values).astype(np.float64, copy=False), bucket_limits())
    found: Array = np.diff(below, prepend=0)
    found[-1] += values.size - below[-1]
    return found


def _counted_by_halves(values: Array) -> Array:
    """As `_counted`, of many float32: buckets are wider than the floats whose upper halves are the same, so that few
    have to be sorted.
    """
    bits = np.ascontiguousarray(values).view(np.uint32) >> np.uint32(16)
    bucket, several = _halves()
    counts = np.bincount(bits)
    at = np.flatnonzero(counts != 0)
    at = at[~several[at]]
    found = _counted(values[several.take(bits)])
    np.add.at(found, bucket[at], counts[at])
    return found


class Counts:
    """How many of some finite values are in which bucket, with their sums in the order in which they come."""

    def __init__(self) -> None:
        self._counts = np.zeros(bucket_limits().size, np.int64)
        self._low, self._high = _LARGEST, -_LARGEST
        self._total = self._squares = 0.0
        self._number = 0

    def add(self, values: Array) -> None:
        """More values, at least one."""
        by_halves = values.dtype == np.float32 and values.size >= _BY_HALVES
        self._counts += _counted_by_halves(values) if by_halves else _counted(values)
        self._low = min(self._low, float(values.min()))
        self._high = max(self._high, float(values.max()))
        # Both sums at once, as the two parts of complex numbers: each waits for its last one, not for the other.
        sums = np.empty(values.size, np.complex128)
        exact = sums.real
        exact[:] = values
        with np.errstate(over="ignore"):
            np.multiply(exact, exact, out=sums.imag)
            sums[0] += complex(self._total, self._squares)
            last = np.add.accumulate(sums, out=sums)[-1]  # np.sum adds in another order
        self._total, self._squares = float(last.real), float(last.imag)
        self._number += values.size

    def histogram(self) -> pb.HistogramProto:
        """Of all so far.  Of empty buckets that follow each other the last one is listed."""
        filled = self._counts > 0
        listed = filled.copy()
        listed[:-1] |= filled[1:]
        listed[-1] = True
        return pb.HistogramProto(
            min=self._low,
            max=self._high,
            num=float(self._number),
            sum=self._total,
            sum_squares=self._squares,
            bucket_limit=bucket_limits()[listed].tolist(),
            bucket=self._counts[listed].astype(np.float64).tolist(),
        )


def histogram(values: Array) -> pb.HistogramProto:
    """How many of `values`, which are finite, are in which bucket; see `Counts`."""
    counts = Counts()
    flat = values.reshape(-1)
    for start in range(0, flat.size, _AT_ONCE):
        counts.add(flat[start : start + _AT_ONCE])
    return counts.histogram()


def png_of(image: Array, bad_color: Array) -> bytes:
    """A PNG of [height, width, 1, 3 or 4 channels].

    uint8 as it is.  Floats: their brightest is 255 if none is negative, else 0 is 128 and what is farthest from 0 is
    127 away; pixels that are not finite take no part in that and have `bad_color`.
    """
    return plain_png.encoded(image if image.dtype == np.uint8 else _scaled(image, bad_color))


def _scaled(image: Array, bad_color: Array) -> Array:
    kind = image.dtype.type
    finite = np.isfinite(image).all(axis=2)
    good = image[finite]
    low, high = (good.min(), good.max()) if good.size else (kind(0), kind(0))
    zero, top = (128, 127) if low < 0 else (0, 255)
    brightest = np.float32(max(abs(low), abs(high)) if low < 0 else high)
    with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
        scale = kind(0 if brightest < _BLACK else np.float32(top) / brightest)
        scaled = good * scale + kind(zero)
    found = np.empty(image.shape, np.uint8)
    found[finite] = np.nan_to_num(scaled, nan=0, posinf=0, neginf=0).astype(np.uint8)
    found[~finite] = bad_color[: image.shape[2]]
    return found


def wav_of(samples: Array, rate: int) -> bytes:
    """A WAV file of 16-bit samples.  samples: [frames, channels] floats in [-1, 1], clipped; rate: in Hz."""
    channels = samples.shape[1]
    scaled = samples.astype(np.float32) * np.float32(_FULL_SCALE)
    rounded = np.trunc(scaled + np.copysign(np.float32(0.5), scaled))  # away from 0
    clipped = np.clip(rounded, -_FULL_SCALE, _FULL_SCALE - 1)
    clipped[np.isnan(clipped)] = -_FULL_SCALE
    data = clipped.astype("<i2").tobytes()
    frame = 2 * channels
    header = _WAV.pack(
        *(b"RIFF", 36 + len(data), b"WAVE"),
        *(b"fmt ", 16, 1, channels, rate, rate * frame, frame, 16),
        *(b"data", len(data)),
    )
    return bytes(header + data)
