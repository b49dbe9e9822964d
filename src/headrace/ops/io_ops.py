"""Files in a graph: read one whole, write one, find those that match a pattern.

Called by: programs.  Threads: kernels run in any step's thread and block for the disk.
Source: TF 1.15 core/ops/io_ops.cc, core/kernels/{whole_file_read_ops,matching_files_op}.cc
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any

import numpy as np

from headrace.base import errors
from headrace.base.shapes import Shape
from headrace.graph.registry import op
from headrace.graph.shape_fns import ShapeContext
from headrace.run.files import Files, file_error
from headrace.run.kernel import KernelContext

__all__ = ["matching_files", "read_file", "write_file"]

Array = np.ndarray[Any, Any]


def _scalars(*names: str) -> Any:
    def shape(c: ShapeContext) -> Shape | list[Shape]:
        for name in names:
            c.with_rank(name, 0)
        return [()] * c.num_outputs

    return shape


def _name_in(box: Array, what: str) -> bytes:
    if box.ndim:
        raise errors.invalid_argument(f"{what} must be a scalar, and has shape {list(box.shape)}")
    name: Any = box[()]
    return bytes(name)


@op(
    "ReadFile",
    inputs="filename: string",
    outputs="contents: string",
    shape=_scalars("filename"),
    foldable=False,
    differentiable=False,
)
def read_file(ctx: KernelContext, filename: Array) -> Array:
    """A file's content.

    filename []; contents [].  Raises NotFound, FailedPrecondition (a directory), PermissionDenied.
    """
    path = _name_in(filename, "filename")
    contents = np.empty((), object)
    try:
        with ctx.runtime.files.open(path, "rb") as file:
            contents[()] = file.read()
    except (OSError, ValueError) as error:
        raise file_error(path, error) from None
    return contents


@op(
    "WriteFile",
    inputs="filename: string; contents: string",
    shape=_scalars("filename", "contents"),
    stateful=True,
    differentiable=False,
)
def write_file(ctx: KernelContext, filename: Array, contents: Array) -> None:
    """Make or replace a file, and the directories that lead to it.

    filename []; contents [].  Raises NotFound, FailedPrecondition, PermissionDenied.
    """
    path = _name_in(filename, "filename")
    content = _name_in(contents, "contents")
    try:
        with ctx.runtime.files.open(path, "wb", make_directories=True) as file:
            file.write(content)
    except (OSError, ValueError) as error:
        raise file_error(path, error) from None


def _matching_shape(c: ShapeContext) -> Shape:
    pattern = c.shape("pattern")
    if pattern is not None and len(pattern) > 1:
        raise ValueError(f"pattern must be of rank 0 or 1, and has shape {list(pattern)}")
    return (None,)


@op(
    "MatchingFiles",
    inputs="pattern: string",
    outputs="filenames: string",
    shape=_matching_shape,
    foldable=False,
    differentiable=False,
)
def matching_files(ctx: KernelContext, pattern: Array) -> Array:
    """Names of the files that match any of the glob patterns, sorted; one per match.

    pattern [] or [n]; filenames [m].  ``*`` and ``?`` match within one directory, names that begin
    with a dot too; ``[a-z]`` and ``[!a-z]`` one character of a set; a backslash quotes.
    Raises PermissionDenied and other errors of directories, InvalidArgument.
    """
    if pattern.ndim > 1:
        raise errors.invalid_argument(
            f"pattern must be a scalar or a vector, and has shape {list(pattern.shape)}"
        )
    found = matches(pattern.reshape(-1), ctx.runtime.files)
    names = np.empty(len(found), object)
    names[:] = found
    return names


def matches(globs: Iterable[bytes], files: Files) -> list[bytes]:
    """Names of the files that match any of the patterns; see `matching_files`.

    Raises PermissionDenied and other errors of directories, InvalidArgument.
    """
    return sorted(path for glob in globs for path in _expanded(glob, files))


_SPECIAL = re.compile(rb"[*?\[\\]")


def _expanded(glob: bytes, files: Files) -> list[bytes]:
    """What exists under a pattern, directory by directory."""
    fixed = _SPECIAL.search(glob)
    if fixed is None:
        return [glob] if glob and files.exists(glob) else []
    start = glob.rfind(b"/", 0, fixed.start()) + 1
    prefixes = [glob[:start]]
    for part in glob[start:].split(b"/"):
        if not part:
            continue  # a slash at the end or a doubled one
        expression = _translated(part)
        prefixes = [
            prefix + name + b"/"
            for prefix in prefixes
            for name in _entries(prefix, files)
            if expression.fullmatch(name)
        ]
    return [path[:-1] for path in prefixes]


def _entries(directory: bytes, files: Files) -> list[bytes]:
    try:
        return files.entries(directory or b".")
    except (FileNotFoundError, NotADirectoryError):
        return []
    except (OSError, ValueError) as error:
        raise file_error(directory, error) from None


def _translated(glob: bytes) -> re.Pattern[bytes]:
    """One path component of a glob as a regular expression."""
    out = b""
    at = 0
    while at < len(glob):
        char = glob[at : at + 1]
        at += 1
        if char == b"*":
            out += b".*"
        elif char == b"?":
            out += b"."
        elif char == b"\\" and at < len(glob):
            out += re.escape(glob[at : at + 1])
            at += 1
        elif char == b"[" and (end := glob.find(b"]", at + 1 + (glob[at : at + 1] in b"!^"))) > 0:
            body = glob[at:end].replace(b"\\", b"\\\\").replace(b"[", b"\\[")
            negated = body[:1] in (b"!", b"^")
            out += b"[" + (b"^" + body[1:] if negated else body) + b"]"
            at = end + 1
        else:
            out += re.escape(char)
    return re.compile(out, re.S)
