"""tensorflow.python.util.tf_inspect and tf_contextlib: Python's own inspection, under its old address.

Called by: programs and libraries, through the table.
"""

from __future__ import annotations

from contextlib import contextmanager
from inspect import (
    currentframe,
    getcallargs,
    getdoc,
    getfile,
    getmembers,
    getmodule,
    getmro,
    getsource,
    getsourcefile,
    getsourcelines,
    isabstract,
    isbuiltin,
    isclass,
    isframe,
    isfunction,
    isgenerator,
    isgeneratorfunction,
    ismethod,
    ismodule,
    isroutine,
    signature,
    stack,
)

__all__ = [
    "contextmanager",
    "currentframe",
    "getcallargs",
    "getdoc",
    "getfile",
    "getmembers",
    "getmodule",
    "getmro",
    "getsource",
    "getsourcefile",
    "getsourcelines",
    "isabstract",
    "isbuiltin",
    "isclass",
    "isframe",
    "isfunction",
    "isgenerator",
    "isgeneratorfunction",
    "ismethod",
    "ismodule",
    "isroutine",
    "signature",
    "stack",
]
