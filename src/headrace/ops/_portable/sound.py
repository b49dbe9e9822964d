"""Array kernels of sound: spectrograms, and what speech recognition makes of them.

Called by: ops._portable.table.  Threads: any.
Source: as ops.audio.spectrograms
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from headrace.ops._portable.images import constant
from headrace.ops._portable.programs import numbered
from headrace.ops._portable.table import arrays, check, device_of, require
from headrace.ops.audio.spectrograms import FLOOR, bands_and_waves, bins_of, hann, slices_of


@arrays("AudioSpectrogram", reals=True)
def _spectrogram(
    xp: Any, input: Any, *, window_size: int, stride: int, magnitude_squared: bool
) -> Any:
    check(input.ndim == 2)
    samples, channels = input.shape
    slices = slices_of(samples, window_size, stride)
    check(slices > 0 and channels > 0)
    require(xp, xp.isfinite(input), "not all finite")  # what spreads how far is the transform's
    sound = xp.permute_dims(xp.astype(input, xp.float64), (1, 0))
    at = numbered(xp, input, slices, 2, 0) * stride + numbered(xp, input, window_size, 2, 1)
    windows = xp.take(sound, xp.reshape(at, (-1,)), axis=1)
    windows = xp.reshape(windows, (channels, slices, window_size))
    windows = windows * constant(xp, input, hann(window_size))
    found = xp.fft.rfft(windows, n=2 * (bins_of(window_size) - 1), axis=-1)
    power = xp.square(xp.real(found)) + xp.square(xp.imag(found))
    return xp.astype(power if magnitude_squared else xp.sqrt(power), xp.float32)


@arrays("Mfcc", host=(1,), reals=True)
def _cepstrum(
    xp: Any,
    spectrogram: Any,
    sample_rate: Any,
    *,
    upper_frequency_limit: float,
    lower_frequency_limit: float,
    filterbank_channel_count: int,
    dct_coefficient_count: int,
) -> Any:
    check(spectrogram.ndim == 3 and np.ndim(sample_rate) == 0)
    check(math.prod(spectrogram.shape) > 0)
    limits = lower_frequency_limit, upper_frequency_limit
    bank, waves = bands_and_waves(
        spectrogram.shape[2],
        int(sample_rate),
        limits,
        filterbank_channel_count,
        dct_coefficient_count,
    )
    if bank is None:
        shape = (*spectrogram.shape[:2], dct_coefficient_count)
        return xp.zeros(shape, dtype=xp.float32, device=device_of(spectrogram))
    magnitudes = xp.sqrt(xp.astype(spectrogram, xp.float64))
    energies = xp.matmul(magnitudes, constant(xp, spectrogram, bank))
    logs = xp.log(xp.maximum(energies, xp.full_like(energies, FLOOR)))
    return xp.astype(xp.matmul(logs, constant(xp, spectrogram, waves)), xp.float32)
