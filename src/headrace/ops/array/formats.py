"""Which dimension is which: numbers of dimensions and what belongs to each, from one data format to another.

Called by: programs (as raw ops), graphs that TensorFlow rewrote.  Threads: kernels any.
Source: TF 1.15 core/kernels/data_format_ops.cc
"""

from __future__ import annotations

from typing import Any

import numpy as np

from headrace.base import errors
from headrace.base.shapes import text
from headrace.base.traits import OF_COUNTS
from headrace.graph.registry import op
from headrace.graph.shape_fns import unchanged

__all__: list[str] = []

Array = np.ndarray[Any, Any]
_ATTRS = "T: {int32, int64} = int32; src_format: string = 'NHWC'; dst_format: string = 'NCHW'"


def _formats(source: bytes, target: bytes) -> tuple[str, str]:
    """As text.  Raises InvalidArgument."""
    one, other = source.decode(errors="replace"), target.decode(errors="replace")
    for name, each in (("Source", one), ("Destination", other)):
        if len(each) not in (4, 5):
            raise errors.invalid_argument(
                f"{name} format must be of length 4 or 5, received {name.lower()} format = {each!r}"
            )
    if sorted(one) != sorted(other) or len(set(one)) != len(one):
        raise errors.invalid_argument(
            f"Destination format {other!r} must be a permutation of source format {one!r}"
        )
    return one, other


@op(
    "DataFormatDimMap",
    inputs="x: T",
    outputs="y: T",
    attrs=_ATTRS,
    shape=unchanged,
    traits={OF_COUNTS},
    differentiable=False,
)
def data_format_dim_map_op(xp: Any, x: Array, *, src_format: bytes, dst_format: bytes) -> Any:
    """For each number of a dimension of src_format, counted around, its number in dst_format.

    Raises InvalidArgument (formats).
    """
    source, target = _formats(src_format, dst_format)
    places = np.array([target.index(each) for each in source], x.dtype)
    return places[x % len(source)]


@op(
    "DataFormatVecPermute",
    inputs="x: T",
    outputs="y: T",
    attrs=_ATTRS,
    shape=unchanged,
    traits={OF_COUNTS},
    differentiable=False,
)
def data_format_vec_permute_op(xp: Any, x: Array, *, src_format: bytes, dst_format: bytes) -> Any:
    """x [n] or [n, 2], an entry a dimension of src_format (or of its spatial ones), in the order of dst_format.

    Raises InvalidArgument (formats, sizes).
    """
    source, target = _formats(src_format, dst_format)
    if x.ndim not in (1, 2):
        raise errors.invalid_argument(
            f"input must be a vector or 2D tensor, but got shape {text(x.shape)}"
        )
    whole = len(source)
    if len(x) not in (whole, whole - 2):
        raise errors.invalid_argument(
            f"{x.ndim}D input must be of size {whole - 2} or {whole}, but got shape {text(x.shape)}"
        )
    if x.ndim == 2 and x.shape[1] != 2:
        raise errors.invalid_argument(
            f"Second dimension of 2D input must be of size 2, but got shape {text(x.shape)}"
        )
    if len(x) == whole - 2:
        source = "".join(each for each in source if each not in "NC")
        target = "".join(each for each in target if each not in "NC")
        if len(source) != len(x):
            raise errors.invalid_argument(f"{src_format!r} names no batch and channels")
    return x[[source.index(each) for each in target]]
