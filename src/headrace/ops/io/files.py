"""Files in a graph: read one whole, write one, find those that match a pattern.

Called by: programs.  Threads: kernels run in any step's thread and block for the disk.
Source: TF 1.15 core/ops/io_ops.cc, core/kernels/{whole_file_read_ops,matching_files_op}.cc
"""

from __future__ import annotations

from typing import Any

import numpy as np

from headrace.base import errors
from headrace.base.shapes import Shape, text
from headrace.base.traits import NEVER_FOLDED, POLLS, STATEFUL
from headrace.graph.registry import op
from headrace.graph.shape_fns import ShapeContext
from headrace.ops._kernels.file_globs import matches
from headrace.run.exec.kernel import KernelContext
from headrace.run.readers.files import file_error

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
        raise errors.invalid_argument(
            f"{what} tensor must be scalar, but had shape: {list(box.shape)}"
        )
    name: Any = box[()]
    return bytes(name)


@op(
    "ReadFile",
    inputs="filename: string",
    outputs="contents: string",
    shape=_scalars("filename"),
    traits={NEVER_FOLDED},
    differentiable=False,
)
def read_file(ctx: KernelContext, filename: Array) -> Array:
    """A file's content.

    filename []; contents [].  Raises NotFound, FailedPrecondition (a directory), PermissionDenied,
    InvalidArgument unless it is a scalar.
    """
    path = _name_in(filename, "Input filename")
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
    traits={STATEFUL},
    differentiable=False,
)
def write_file(ctx: KernelContext, filename: Array, contents: Array) -> None:
    """Make or replace a file, and the directories that lead to it.

    filename []; contents [].  Raises NotFound, FailedPrecondition, PermissionDenied,
    InvalidArgument unless it is a scalar.
    """
    path = _name_in(filename, "Filename")
    content = _name_in(contents, "Contents")
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
    traits={POLLS},
    differentiable=False,
)
def matching_files(ctx: KernelContext, pattern: Array) -> Array:
    """Names of the files that match any of the glob patterns, sorted; one per match.

    pattern [] or [n]; filenames [m].  What patterns mean is in `ops._kernels.file_globs`.
    Raises PermissionDenied and other errors of directories, InvalidArgument, and what ends the step meanwhile.
    """
    if pattern.ndim > 1:
        raise errors.invalid_argument(
            f"Input patterns tensor must be scalar or vector, but had shape: {text(pattern.shape)}"
        )
    found = matches(pattern.reshape(-1), ctx.runtime.files)
    names = np.empty(len(found), object)
    names[:] = found
    return names
