"""`tf.audio`: sound in files."""

from __future__ import annotations

from typing import TYPE_CHECKING

from headrace.base.lazy import names_of as _names_of

if TYPE_CHECKING:
    from headrace.ops.audio.wav import decode_wav, encode_wav
else:
    __getattr__, __dir__ = _names_of(
        __name__,
        {
            "headrace.ops.audio.wav": "decode_wav encode_wav",
        },
    )

__all__ = [
    "decode_wav",
    "encode_wav",
]
