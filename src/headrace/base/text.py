"""Bytes and text, and the kinds of numbers: `tf.compat`.

Called by: programs, training.  Threads: any.
"""

from __future__ import annotations

import numbers
import os
import re
from typing import Any, Final

import numpy as np

bytes_or_text_types: Final = (bytes, str)
integral_types: Final = (numbers.Integral, np.integer)
real_types: Final = (numbers.Real, np.integer, np.floating)
complex_types: Final = (numbers.Complex, np.number)


def as_bytes(bytes_or_text: Any, encoding: str = "utf-8") -> bytes:
    """Raises TypeError for what is neither text nor bytes."""
    if isinstance(bytes_or_text, str):
        return bytes_or_text.encode(encoding)
    if isinstance(bytes_or_text, (bytes, bytearray)):
        return bytes(bytes_or_text)
    raise _neither(bytes_or_text)


def as_text(bytes_or_text: Any, encoding: str = "utf-8") -> str:
    """Raises TypeError for what is neither text nor bytes, UnicodeDecodeError for bytes that are no text."""
    if isinstance(bytes_or_text, str):
        return bytes_or_text
    if isinstance(bytes_or_text, bytes):
        return bytes_or_text.decode(encoding)
    raise _neither(bytes_or_text)


as_str = as_text


def as_str_any(value: Any, encoding: str = "utf-8") -> str:
    """Bytes decoded, anything else by `str`."""
    return as_text(value, encoding) if isinstance(value, bytes) else str(value)


def path_to_str(path: Any) -> Any:
    """What `__fspath__` gives as text; anything else as it is."""
    return as_str_any(path.__fspath__()) if isinstance(path, os.PathLike) else path


def _neither(value: object) -> TypeError:
    return TypeError(
        f"Expected binary or unicode string, got {value!r:.100}, which is neither but {type(value).__name__}"
    )


def snake(op: str) -> str:
    """What TensorFlow calls the function of an op: MatMul -> mat_mul, Conv2D -> conv2d."""
    return re.sub("(?<=[a-z])(?=[A-Z])|(?<=.)(?=[A-Z][a-z])", "_", op).lower()
