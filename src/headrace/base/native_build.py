"""What `tf.sysconfig` says of the library's own build, of which there is none: errors that say so.

Called by: programs.  Threads: any.
"""

from __future__ import annotations

from typing import NoReturn

from headrace.base import errors

__all__ = ["get_compile_flags", "get_include", "get_lib", "get_link_flags"]


def _nothing(what: str) -> NoReturn:
    raise errors.unimplemented(
        f"headrace has no {what}: it is written in Python, and kernels compiled for TensorFlow do not run on it; "
        "write the operation with tf.py_func"
    )


def get_include() -> NoReturn:
    """Raises UnimplementedError: there are no C++ headers."""
    _nothing("C++ headers")


def get_lib() -> NoReturn:
    """Raises UnimplementedError: there is no C++ library."""
    _nothing("C++ library")


def get_compile_flags() -> NoReturn:
    """Raises UnimplementedError: there is nothing to compile against."""
    _nothing("C++ headers")


def get_link_flags() -> NoReturn:
    """Raises UnimplementedError: there is nothing to link with."""
    _nothing("C++ library")
