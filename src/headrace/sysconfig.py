"""`tf.sysconfig`: how the library was built."""

from __future__ import annotations

from typing import TYPE_CHECKING

from headrace.base.lazy import names_of as _names_of

if TYPE_CHECKING:
    from headrace.base.native_build import get_compile_flags, get_include, get_lib, get_link_flags
    from headrace.base.version import CXX11_ABI_FLAG, MONOLITHIC_BUILD
else:
    __getattr__, __dir__ = _names_of(
        __name__,
        {
            "headrace.base.version": "CXX11_ABI_FLAG MONOLITHIC_BUILD",
            "headrace.base.native_build": "get_compile_flags get_include get_lib get_link_flags",
        },
    )

__all__ = [
    "CXX11_ABI_FLAG",
    "MONOLITHIC_BUILD",
    "get_compile_flags",
    "get_include",
    "get_lib",
    "get_link_flags",
]
