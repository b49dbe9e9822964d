"""`tf.spectral`: Fourier and cosine transforms."""

from __future__ import annotations

from typing import TYPE_CHECKING

from headrace.base.lazy import names_of as _names_of

if TYPE_CHECKING:
    from headrace.library.signal.real_transforms import (
        dct,
        idct,
        irfft,
        irfft2d,
        irfft3d,
        rfft,
        rfft2d,
        rfft3d,
    )
    from headrace.ops.signal.fourier import fft, fft2d, fft3d, ifft, ifft2d, ifft3d
else:
    __getattr__, __dir__ = _names_of(
        __name__,
        {
            "headrace.library.signal.real_transforms": "dct idct irfft irfft2d irfft3d rfft rfft2d rfft3d",
            "headrace.ops.signal.fourier": "fft fft2d fft3d ifft ifft2d ifft3d",
        },
    )

__all__ = [
    "dct",
    "fft",
    "fft2d",
    "fft3d",
    "idct",
    "ifft",
    "ifft2d",
    "ifft3d",
    "irfft",
    "irfft2d",
    "irfft3d",
    "rfft",
    "rfft2d",
    "rfft3d",
]
