"""WAV files: 16-bit PCM bytes to arrays and back, no I/O.

Called by: ops.audio.wav.  Threads: pure functions.
Source: Microsoft and IBM, "Multimedia Programming Interface and Data Specifications 1.0", 1991; which files are refused
is TF 1.15's (core/lib/wav/wav_io.cc)
"""

from __future__ import annotations

import struct
from typing import Any, Final

import numpy as np

from headrace.base import errors

Array = np.ndarray[Any, Any]
_PCM: Final = 1
_HEAD: Final = struct.Struct("<4sI4s4sIHHIIHH4sI")
_FULL: Final = 32768.0


def decode(content: bytes) -> tuple[Array, int]:
    """float32 [samples, channels] from -1 to 1, and samples a second.  Raises InvalidArgument."""
    if content[:4] != b"RIFF" or content[8:12] != b"WAVE":
        raise errors.invalid_argument(
            f"Header mismatch: Expected RIFF and WAVE but found {content[:4]!r} and {content[8:12]!r}"
        )
    at, found = 12, None
    channels = rate = 0
    while at + 8 <= len(content):
        name, size = content[at : at + 4], struct.unpack_from("<I", content, at + 4)[0]
        at += 8
        if name == b"fmt ":
            channels, rate = _format(content, at, size)
        elif name == b"data" and found is None:
            if not channels:
                raise errors.invalid_argument(
                    "Header mismatch: the data of the WAV come before their format"
                )
            found = _samples(content, at, size, channels)
        at += size + size % 2
    if found is None:
        raise errors.invalid_argument("Expected a data chunk in the WAV, and there is none")
    return found, rate


def _format(content: bytes, at: int, size: int) -> tuple[int, int]:
    if size not in (16, 18, 40) or at + size > len(content):
        raise errors.invalid_argument(
            f"Bad file size for WAV: expected 16, 18 or 40 bytes of format, but got {size}"
        )
    kind, channels, rate, per_second, per_sample, bits = struct.unpack_from("<HHIIHH", content, at)
    if kind not in (_PCM, 0xFFFE):
        raise errors.invalid_argument(f"Bad audio format for WAV: Expected 1 (PCM), but got {kind}")
    if bits != 16:
        raise errors.invalid_argument(
            f"Can only read 16-bit WAV files, but received {bits} bits a sample"
        )
    if not channels or per_sample != 2 * channels or per_second != rate * per_sample:
        raise errors.invalid_argument(
            f"Bad bytes per sample in WAV header: {per_sample} of {channels} channels, {per_second} a second at {rate}"
        )
    return channels, rate


def _samples(content: bytes, at: int, size: int, channels: int) -> Array:
    if at + size > len(content):
        raise errors.invalid_argument(
            f"Data too short when trying to read the WAV's samples: {size} bytes are promised, and "
            f"{len(content) - at} left"
        )
    count = size // (2 * channels)
    numbers = np.frombuffer(content, "<i2", count * channels, at)
    return (numbers.astype(np.float32) / np.float32(_FULL)).reshape(count, channels)


def encode(samples: Array, rate: int) -> bytes:
    """float32 [samples, channels], of which what is above 1 or below -1 is cut off.  Raises InvalidArgument."""
    count, channels = samples.shape
    size = 2 * count * channels
    if size > 0xFFFFFFFF - _HEAD.size:
        raise errors.invalid_argument(f"a WAV cannot hold {size} bytes of samples")
    head = _HEAD.pack(
        b"RIFF",
        _HEAD.size - 8 + size,
        b"WAVE",
        b"fmt ",
        16,
        _PCM,
        channels,
        rate,
        rate * 2 * channels,
        2 * channels,
        16,
        b"data",
        size,
    )
    scaled = np.clip(samples.astype(np.float32) * np.float32(_FULL), -_FULL, _FULL - 1)
    made: bytes = (
        head + np.trunc(scaled + np.copysign(np.float32(0.5), scaled)).astype("<i2").tobytes()
    )
    return made
