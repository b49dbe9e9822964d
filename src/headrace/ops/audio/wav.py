"""Sound in a graph: WAV files to samples and back.

Called by: programs.  Threads: kernels any.
Source: behaviour of TF 1.15 (core/kernels/{decode,encode}_wav_op.cc)
"""

from __future__ import annotations

from typing import Any

import numpy as np

from headrace.base import errors
from headrace.base.shapes import Shape, text
from headrace.codec import wav
from headrace.graph.registry import op
from headrace.graph.shape_fns import ShapeContext
from headrace.graph.tensor import Tensor

__all__ = ["decode_wav", "encode_wav"]

Array = np.ndarray[Any, Any]


def _decoded_shapes(c: ShapeContext) -> list[Shape]:
    c.with_rank("contents", 0)
    sizes = []
    for name in ("desired_samples", "desired_channels"):
        wanted = c.attr(name)
        if wanted < -1:
            raise ValueError(f"{name} must be non-negative or -1, got {wanted}")
        sizes.append(None if wanted == -1 else wanted)
    return [(sizes[0], sizes[1]), ()]


@op(
    "DecodeWav",
    inputs="contents: string",
    outputs="audio: float; sample_rate: int32",
    attrs="desired_channels: int = -1; desired_samples: int = -1",
    shape=_decoded_shapes,
)
def decode_wav_op(xp: Any, contents: Array, *, desired_channels: int, desired_samples: int) -> Any:
    """contents []; audio [samples, channels], from -1 to 1; sample_rate [].  Raises InvalidArgument."""
    if contents.ndim:
        raise errors.invalid_argument(
            f"Input contents should be a scalar tensor but has shape: {text(contents.shape)}"
        )
    content: Any = contents[()]
    audio, rate = wav.decode(bytes(content))
    if desired_samples != -1:
        missing = max(desired_samples - len(audio), 0)
        audio = np.pad(audio[:desired_samples], ((0, missing), (0, 0)))
    if desired_channels != -1:
        if desired_channels > audio.shape[1]:
            extra = desired_channels - audio.shape[1]
            audio = np.concatenate((audio, np.repeat(audio[:, -1:], extra, axis=1)), axis=1)
        audio = audio[:, :desired_channels]
    return np.ascontiguousarray(audio), np.array(rate, np.int32)


def _encoded_shape(c: ShapeContext) -> Shape:
    c.with_rank("audio", 2)
    c.with_rank("sample_rate", 0)
    return ()


@op(
    "EncodeWav",
    inputs="audio: float; sample_rate: int32",
    outputs="contents: string",
    shape=_encoded_shape,
)
def encode_wav_op(xp: Any, audio: Array, sample_rate: Array) -> Array:
    """audio [samples, channels], from -1 to 1; sample_rate []; contents [].  Raises InvalidArgument."""
    if audio.ndim != 2:
        raise errors.invalid_argument(
            f"audio must be 2-dimensional but got shape {text(audio.shape)}"
        )
    if sample_rate.ndim:
        raise errors.invalid_argument(
            f"Input sample_rate should be a scalar tensor but has shape: {text(sample_rate.shape)}"
        )
    if sample_rate <= 0 or not 0 < audio.shape[1] <= 1024:
        raise errors.invalid_argument(
            f"Sample rate, samples and channels must be positive: {int(sample_rate)}, {text(audio.shape)}"
        )
    if int(sample_rate) * 2 * audio.shape[1] > 0xFFFFFFFF:
        raise errors.invalid_argument(
            f"a sample rate of {int(sample_rate)} with {audio.shape[1]} channels does not go into a WAV"
        )
    out = np.empty((), object)
    out[()] = wav.encode(audio, int(sample_rate))
    return out


def decode_wav(
    contents: Any, desired_channels: int = -1, desired_samples: int = -1, name: str | None = None
) -> Any:
    """A 16-bit PCM WAV, string []: audio float32 [samples, channels] from -1 to 1, and sample_rate int32 [].

    desired_channels, desired_samples: what is more is cut off; what is less is the last channel again, and zeros.
    """
    return decode_wav_op(
        contents, desired_channels=desired_channels, desired_samples=desired_samples, name=name
    )


def encode_wav(audio: Any, sample_rate: Any, name: str | None = None) -> Tensor:
    """A 16-bit PCM WAV, string [], of audio float32 [samples, channels] from -1 to 1."""
    made: Tensor = encode_wav_op(audio, sample_rate, name=name)
    return made
