"""Fingerprint: 64-bit hashes of rows.

Called by: programs.  Threads: kernel any.
Source: TF 1.15 core/ops/array_ops.cc; how rows of strings are hashed found by comparing with the oracle
"""

from __future__ import annotations

from typing import Any

import numpy as np

from headrace.base import errors
from headrace.base.shapes import Shape
from headrace.graph.registry import op
from headrace.graph.shape_fns import ShapeContext
from headrace.graph.tensor import Tensor
from headrace.ops._kernels.fingerprints import farm

__all__ = ["fingerprint"]

_METHOD = b"farmhash64"


def _shape(c: ShapeContext) -> Shape:
    data = c.with_rank_at_least("data", 1)
    c.with_rank("method", 0)
    method = c.value("method")
    if method is not None and bytes(method.item()) != _METHOD:
        raise ValueError(
            f"unsupported method: {bytes(method.item()).decode()}; there is {_METHOD.decode()}"
        )
    return (None if data is None else data[0], 8 if method is not None else None)


@op(
    "Fingerprint",
    inputs="data: T; method: string",
    outputs="fingerprint: uint8",
    attrs="T: type",
    shape=_shape,
)
def fingerprint_op(xp: Any, data: Any, method: Any) -> Any:
    """[rows, 8]: the Farm fingerprints of the rows' bytes, the lowest byte first; of several strings, of theirs.

    Raises InvalidArgument on a scalar, or another method.
    """
    if np.ndim(method):
        raise errors.invalid_argument(
            f"`method` should be a scalar string: it has {np.ndim(method)} dimensions"
        )
    if bytes(method.item()) != _METHOD:
        raise errors.invalid_argument(
            f"Unsupported fingerprint method: {bytes(method.item())!r}; there is {_METHOD.decode()}"
        )
    if data.ndim < 1:
        raise errors.invalid_argument("`data` should have at least one dimension: rows are hashed")
    rows = len(data)
    if not data.size and (not rows or data.dtype == object):
        return np.zeros((rows, 8), np.uint8)
    flat = data.reshape(rows, -1)
    if data.dtype == object and flat.shape[1] > 1:
        each = farm(flat.reshape(-1).tolist()).astype("<u8").reshape(flat.shape)
        texts = [row.tobytes() for row in each]
    elif data.dtype == object:
        texts = flat.reshape(-1).tolist()
    else:
        texts = [row.tobytes() for row in np.ascontiguousarray(flat)]
    return farm(texts).astype("<u8").view(np.uint8).reshape(rows, 8)


def fingerprint(data: Any, method: Any = "farmhash64", name: str | None = None) -> Tensor:
    """[rows, 8] of uint8: fingerprints of the rows of `data`.  method: "farmhash64"."""
    made: Tensor = fingerprint_op(data, method, name=name)
    return made
