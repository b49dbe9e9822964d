"""`tf.io.gfile`: files, by the names of TensorFlow 2.

Called by: programs.  Threads: any; the calling one waits for the disk.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from headrace.base import errors
from headrace.training.gfile import Copy as copy
from headrace.training.gfile import DeleteRecursively as rmtree
from headrace.training.gfile import Exists as exists
from headrace.training.gfile import GFile, Walk
from headrace.training.gfile import Glob as glob
from headrace.training.gfile import IsDirectory as isdir
from headrace.training.gfile import ListDirectory as listdir
from headrace.training.gfile import MakeDirs as makedirs
from headrace.training.gfile import MkDir as mkdir
from headrace.training.gfile import Remove as remove
from headrace.training.gfile import Rename as rename
from headrace.training.gfile import Stat as stat

__all__ = [
    "GFile",
    "copy",
    "exists",
    "glob",
    "isdir",
    "listdir",
    "makedirs",
    "mkdir",
    "remove",
    "rename",
    "rmtree",
    "stat",
    "walk",
]


def walk(
    top: Any, topdown: bool = True, onerror: Callable[[errors.OpError], object] | None = None
) -> Iterator[tuple[str, list[str], list[str]]]:
    """Each directory beneath `top`, with its directories and files; those above first if topdown.

    onerror: called with the error of a directory that cannot be listed.
    """
    try:
        yield from Walk(top, topdown)
    except errors.OpError as error:
        if onerror is not None:
            onerror(error)
