"""Spectrograms of sound, and what speech recognition makes of them: mel-frequency cepstral coefficients.

Called by: programs (as contrib's audio ops, raw ops).  Threads: kernels any.
Source: TF 1.15 core/kernels/spectrogram.cc, mfcc.cc, mfcc_dct.cc, mfcc_mel_filterbank.cc
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import numpy as np

from headrace.base import errors
from headrace.base.shapes import Shape, text
from headrace.graph.registry import op
from headrace.graph.shape_fns import ShapeContext

__all__: list[str] = []

Array = np.ndarray[Any, Any]
FLOOR = 1e-12  # energies below are taken for this before the logarithm


def bins_of(window: int) -> int:
    """Of the transform of the power of two that a window fits into."""
    return (1 << (window - 1).bit_length()) // 2 + 1


def _spectrogram_shape(c: ShapeContext) -> Shape:
    samples, channels = c.with_rank("input", 2) or (None, None)
    window, stride = c.attr("window_size"), c.attr("stride")
    if window <= 1:
        raise ValueError(f"window size must be > 1, got {window}")
    if stride <= 0:
        raise ValueError(f"stride must be strictly positive, got {stride}")
    slices = None if samples is None else slices_of(samples, window, stride)
    return (channels, slices, bins_of(window))


def slices_of(samples: int, window: int, stride: int) -> int:
    """How many windows there are, `stride` apart."""
    return 0 if samples < window else 1 + (samples - window) // stride


@op(
    "AudioSpectrogram",
    inputs="input: float",
    outputs="spectrogram: float",
    attrs="window_size: int; stride: int; magnitude_squared: bool = false",
    shape=_spectrogram_shape,
)
def audio_spectrogram_op(
    xp: Any, input: Array, *, window_size: int, stride: int, magnitude_squared: bool
) -> Any:
    """How strong each frequency is in windows of sound, under a periodic Hann window.

    input [samples, channels]; spectrogram [channels, slices, bins].  Raises InvalidArgument (not a matrix).
    """
    if input.ndim != 2:
        raise errors.invalid_argument(f"input must be 2-dimensional{text(input.shape)}")
    samples, channels = input.shape
    slices, width = slices_of(samples, window_size, stride), bins_of(window_size)
    if not slices or not channels:
        return np.zeros((channels, slices, width), np.float32)
    windows = np.lib.stride_tricks.sliding_window_view(input.T, window_size, axis=1)
    found = np.fft.rfft(windows[:, ::stride] * hann(window_size), 2 * (width - 1), axis=-1)
    power = found.real**2 + found.imag**2
    return (power if magnitude_squared else np.sqrt(power)).astype(np.float32)


def hann(window: int) -> Array:
    """float64 [window]: how much each sample counts."""
    made: Array = 0.5 - 0.5 * np.cos(2 * np.pi * np.arange(window) / window)
    return made


def _mfcc_shape(c: ShapeContext) -> Shape:
    channels, slices, _ = c.with_rank("spectrogram", 3) or (None,) * 3
    c.with_rank("sample_rate", 0)
    return (channels, slices, c.attr("dct_coefficient_count"))


@op(
    "Mfcc",
    inputs="spectrogram: float; sample_rate: int32",
    outputs="output: float",
    attrs="upper_frequency_limit: float = 4000.0; lower_frequency_limit: float = 20.0; "
    "filterbank_channel_count: int = 40; dct_coefficient_count: int = 13",
    shape=_mfcc_shape,
)
def mfcc_op(
    xp: Any,
    spectrogram: Array,
    sample_rate: Array,
    *,
    upper_frequency_limit: float,
    lower_frequency_limit: float,
    filterbank_channel_count: int,
    dct_coefficient_count: int,
) -> Any:
    """The cosine transform of the logarithm of what bands of the mel scale hold.

    spectrogram [channels, slices, bins], of squared magnitudes; sample_rate [] in Hz; output [channels, slices,
    dct_coefficient_count], zeros where the upper limit is beyond half the sample rate.  Raises InvalidArgument.
    """
    if spectrogram.ndim != 3:
        raise errors.invalid_argument(f"spectrogram must be 3-dimensional{text(spectrogram.shape)}")
    if sample_rate.ndim:
        raise errors.invalid_argument(
            f"Input sample_rate should be a scalar tensor, got {text(sample_rate.shape)} instead."
        )
    bank, cosines = bands_and_waves(
        spectrogram.shape[2],
        int(sample_rate),
        (lower_frequency_limit, upper_frequency_limit),
        filterbank_channel_count,
        dct_coefficient_count,
    )
    if bank is None:
        return np.zeros((*spectrogram.shape[:2], dct_coefficient_count), np.float32)
    energies = np.sqrt(spectrogram.astype(np.float64)) @ bank
    logs = np.log(np.maximum(energies, FLOOR))
    return (logs @ cosines).astype(np.float32)


def bands_and_waves(
    bins: int, rate: int, limits: tuple[float, float], count: int, coefficients: int
) -> tuple[Array | None, Array]:
    """Weights [bins, count] of bands, None if the upper limit is beyond the last bin; waves [count, coefficients].

    Raises InvalidArgument.
    """
    if (
        min(rate, count, coefficients) < 1
        or coefficients > count
        or bins < 2
        or not 0 <= limits[0] < limits[1]
    ):
        raise errors.invalid_argument(
            f"Mfcc initialization failed for {bins} bins, sample rate {rate}, limits {limits} Hz, {count} bands and "
            f"{coefficients} coefficients: there must be two bins, a band and as many bands as coefficients, and the "
            "upper limit above the lower one"
        )
    return _filterbank(bins, rate, count, *limits), _cosines(count, coefficients)


def _mel(frequency: Any) -> Any:
    return 1127.0 * np.log1p(frequency / 700.0)


@lru_cache(maxsize=16)
def _filterbank(bins: int, rate: int, count: int, lower: float, upper: float) -> Array | None:
    """Weights [bins, count]: triangles whose tops are evenly apart on the mel scale; None if the upper limit is beyond
    the last bin.
    """
    low, high = _mel(lower), _mel(upper)
    centers = low + (high - low) / (count + 1) * np.arange(1, count + 2)
    hertz = 0.5 * rate / (bins - 1)
    start, end = int(1.5 + lower / hertz), int(upper / hertz)
    if end >= bins:
        return None
    weights = np.zeros((bins, count))
    for at in range(start, end + 1):
        mel = _mel(at * hertz)
        below = int(np.searchsorted(centers[:count], mel, side="left")) - 1  # the last center below
        left = low if below < 0 else centers[below]
        share = (centers[below + 1] - mel) / (centers[below + 1] - left)
        if below >= 0:
            weights[at, below] += share
        if below + 1 < count:
            weights[at, below + 1] += 1 - share
    return weights


@lru_cache(maxsize=16)
def _cosines(count: int, coefficients: int) -> Array:
    """[count, coefficients] of a cosine transform."""
    places = np.arange(count) + 0.5
    made: Array = np.sqrt(2 / count) * np.cos(
        np.pi / count * places[:, None] * np.arange(coefficients)
    )
    return made
