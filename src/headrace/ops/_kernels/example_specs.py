"""Examples and their features, as ops name them, as the codec takes them.

Called by: ops.io.examples, ops.data.dataset_examples.  Threads: pure functions.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from headrace.base import errors
from headrace.base.dtypes import DType
from headrace.base.shapes import TensorShape
from headrace.codec.examples import Batch, DenseSpec, SparseSpec

Array = np.ndarray[Any, Any]


def batch_of(serialized: Array, names: Array) -> Batch:
    """Serialized messages, with names for errors [n] or [0].  Raises InvalidArgument."""
    if serialized.ndim > 1:
        raise errors.invalid_argument(
            f"serialized must be a scalar or a vector, and has shape {list(serialized.shape)}"
        )
    if names.size and names.size != serialized.size:
        raise errors.invalid_argument(
            f"Expected names have the same shape as serialized: name.shape=[{names.size}], "
            f"serialized.shape=[{serialized.size}]; give each message a name, or none"
        )
    return Batch(serialized.reshape(-1).tolist(), names.reshape(-1).tolist())


def checked_counts(what: str, first: Sequence[Any], *others: Sequence[Any]) -> None:
    """Raises InvalidArgument unless there is as much of each."""
    counts = [len(first), *map(len, others)]
    if len(set(counts)) > 1:
        raise errors.invalid_argument(
            f"{what} features need a key, a type and whatever else is said of each; there are {counts} of them"
        )


def texts(keys: Any) -> list[str]:
    """Keys of features, as messages have them."""
    return [bytes(key).decode(errors="surrogateescape") for key in keys]


def dense_specs(
    keys: Sequence[str],
    types: Sequence[DType],
    shapes: Sequence[TensorShape],
    defaults: Sequence[Array],
) -> list[DenseSpec]:
    """Features as the codec takes them.  Raises InvalidArgument for defaults of another size."""
    found = []
    checked_counts("dense", keys, types, shapes, defaults)
    for key, kind, shape, default in zip(keys, types, shapes, defaults, strict=True):
        raw = shape._raw or ()
        varies = bool(raw) and raw[0] is None
        sizes = tuple(size or 0 for size in (raw[1:] if varies else raw))
        spec = DenseSpec(key, kind, sizes, np.asarray(default), varies)
        if varies and spec.default.size > 1:
            raise errors.invalid_argument(
                f"feature {key!r} varies in length, so its default_value must be one value to fill up with, and has "
                f"shape {list(spec.default.shape)}"
            )
        if not varies and spec.default.size and spec.default.shape != sizes:
            raise errors.invalid_argument(
                f"feature {key!r}: its default_value has shape {list(spec.default.shape)}, and it has {list(sizes)}"
            )
        found.append(spec)
    return found


def sparse_specs(keys: Sequence[str], types: Sequence[DType]) -> list[SparseSpec]:
    """Features as the codec takes them.  Raises InvalidArgument."""
    checked_counts("sparse", keys, types)
    return [SparseSpec(key, kind) for key, kind in zip(keys, types, strict=True)]


def no_ragged(*keys: Array) -> None:
    """Raises Unimplemented for keys of ragged features."""
    for each in keys:
        if each.size:
            raise errors.unimplemented(
                f"ragged features ({texts(each.reshape(-1))}) are not supported; use VarLenFeature, which gives "
                "sparse tensors"
            )
