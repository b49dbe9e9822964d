"""`tf.io.gfile`: files, by the names and arguments of TensorFlow 2.

Called by: programs.  Threads: any; the calling one waits for the disk.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from headrace.base import errors
from headrace.training import gfile
from headrace.training.gfile import FileStatistics, GFile

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


def exists(path: Any) -> bool:
    """Whether there is a file or directory of this name."""
    return gfile.Exists(path)


def isdir(path: Any) -> bool:
    """Whether there is a directory of this name."""
    return gfile.IsDirectory(path)


def glob(pattern: Any) -> list[str]:
    """What matches a glob pattern or any of a list of them."""
    return gfile.Glob(pattern)


def listdir(path: Any) -> list[str]:
    """Names in a directory.  Raises NotFoundError."""
    return gfile.ListDirectory(path)


def stat(path: Any) -> FileStatistics:
    """Size, time and kind.  Raises NotFoundError."""
    return gfile.Stat(path)


def mkdir(path: Any) -> None:
    """Make a directory, if it is not there.  Raises NotFoundError, FailedPreconditionError."""
    gfile.MkDir(path)


def makedirs(path: Any) -> None:
    """Make a directory and what leads to it.  Raises FailedPreconditionError."""
    gfile.MakeDirs(path)


def remove(path: Any) -> None:
    """Delete a file.  Raises NotFoundError, FailedPreconditionError (a directory)."""
    gfile.Remove(path)


def rmtree(path: Any) -> None:
    """Delete a directory and all in it.  Raises NotFoundError."""
    gfile.DeleteRecursively(path)


def copy(src: Any, dst: Any, overwrite: bool = False) -> None:
    """Copy a file.  Raises NotFoundError, AlreadyExistsError unless `overwrite`."""
    gfile.Copy(src, dst, overwrite)


def rename(src: Any, dst: Any, overwrite: bool = False) -> None:
    """Rename or move.  Raises NotFoundError, AlreadyExistsError unless `overwrite`."""
    gfile.Rename(src, dst, overwrite)


def walk(
    top: Any, topdown: bool = True, onerror: Callable[[errors.OpError], object] | None = None
) -> Iterator[tuple[str, list[str], list[str]]]:
    """Each directory beneath `top`, with its directories and files; those above first if topdown.

    onerror: called with the error of a directory that cannot be listed.
    """
    return gfile.Walk(top, topdown, onerror)
