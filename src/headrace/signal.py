"""`tf.signal`: Fourier transforms, frames and windows."""

from __future__ import annotations

from typing import TYPE_CHECKING

from headrace.base.lazy import names_of as _names_of

if TYPE_CHECKING:
    from headrace.library.signal.frames import (
        frame,
        hamming_window,
        hann_window,
        inverse_stft,
        inverse_stft_window_fn,
        linear_to_mel_weight_matrix,
        mfccs_from_log_mel_spectrograms,
        overlap_and_add,
        stft,
    )
    from headrace.library.signal.real_transforms import (
        dct,
        fftshift,
        idct,
        ifftshift,
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
            "headrace.library.signal.frames": (
                "frame hamming_window hann_window inverse_stft inverse_stft_window_fn "
                "linear_to_mel_weight_matrix mfccs_from_log_mel_spectrograms overlap_and_add "
                "stft"
            ),
            "headrace.library.signal.real_transforms": (
                "dct fftshift idct ifftshift irfft irfft2d irfft3d rfft rfft2d rfft3d"
            ),
            "headrace.ops.signal.fourier": "fft fft2d fft3d ifft ifft2d ifft3d",
        },
    )

__all__ = [
    "dct",
    "fft",
    "fft2d",
    "fft3d",
    "fftshift",
    "frame",
    "hamming_window",
    "hann_window",
    "idct",
    "ifft",
    "ifft2d",
    "ifft3d",
    "ifftshift",
    "inverse_stft",
    "inverse_stft_window_fn",
    "irfft",
    "irfft2d",
    "irfft3d",
    "linear_to_mel_weight_matrix",
    "mfccs_from_log_mel_spectrograms",
    "overlap_and_add",
    "rfft",
    "rfft2d",
    "rfft3d",
    "stft",
]
