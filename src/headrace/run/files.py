"""Files as kernels see them: an operating-system error becomes the error TensorFlow would raise.

Called by: run.readers, run.record_readers, ops.io_ops, ops.record_files.  Threads: any.
Source: TF 1.15 core/platform/posix/error.cc, for the codes
"""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator
from typing import BinaryIO, Final

from headrace.base import errors

PIECE_BYTES: Final = 1 << 18

_CODES = {
    errno.ENOENT: errors.NOT_FOUND,
    errno.EISDIR: errors.FAILED_PRECONDITION,
    errno.ENOTDIR: errors.FAILED_PRECONDITION,
    errno.ENOTEMPTY: errors.FAILED_PRECONDITION,
    errno.EBUSY: errors.FAILED_PRECONDITION,
    errno.EROFS: errors.FAILED_PRECONDITION,
    errno.EACCES: errors.PERMISSION_DENIED,
    errno.EPERM: errors.PERMISSION_DENIED,
    errno.EEXIST: errors.ALREADY_EXISTS,
    errno.EINVAL: errors.INVALID_ARGUMENT,
    errno.ENAMETOOLONG: errors.INVALID_ARGUMENT,
    errno.ELOOP: errors.INVALID_ARGUMENT,
    errno.ENOSPC: errors.RESOURCE_EXHAUSTED,
    errno.EMFILE: errors.RESOURCE_EXHAUSTED,
    errno.ENFILE: errors.RESOURCE_EXHAUSTED,
    errno.ENOMEM: errors.RESOURCE_EXHAUSTED,
    errno.EDQUOT: errors.RESOURCE_EXHAUSTED,
}


def file_error(path: bytes, error: OSError | ValueError) -> errors.OpError:
    """What to raise when working with `path` failed; a ValueError is a path with a NUL in it."""
    name = os.fsdecode(path)
    if isinstance(error, ValueError):
        return errors.invalid_argument(f"{name!r} is not a file name: {error}")
    number = error.errno or 0
    reason = os.strerror(number) if number else str(error)
    found = errors.make(_CODES.get(number, errors.UNKNOWN), f"{name}; {reason}")
    found.__cause__ = error
    return found


def pieces(file: BinaryIO) -> Iterator[bytes]:
    """What is left of a file.  Raises OSError."""
    while piece := file.read(PIECE_BYTES):
        yield piece
