"""Strings into buckets, by their hashes.

Called by: users, library.lookup.  Threads: any.
Source: behaviour of TF 1.15 (core/kernels/string_to_hash_bucket_op.cc); hashes in ops._kernels.fingerprints
"""

from __future__ import annotations

from typing import Any

import numpy as np

from headrace.base import errors
from headrace.base.traits import PER_RECORD
from headrace.graph.ragged import of_ragged
from headrace.graph.registry import op
from headrace.graph.shape_fns import unchanged
from headrace.graph.tensor import Tensor
from headrace.ops._kernels.fingerprints import farm, murmur, sip

__all__ = ["string_to_hash_bucket", "string_to_hash_bucket_fast", "string_to_hash_bucket_strong"]

Array = np.ndarray[Any, Any]


def _buckets(hashes: Array, count: int, like: Any) -> Any:
    found = (hashes % np.uint64(count)).astype(np.int64).reshape(np.shape(like))
    return found if found.ndim else found[()]


def _listed(strings: Any) -> list[bytes]:
    found: list[bytes] = np.reshape(strings, -1).tolist()
    return found


@op(
    "StringToHashBucket",
    inputs="string_tensor: string",
    outputs="output: int64",
    attrs="num_buckets: int >= 1",
    shape=unchanged,
    traits={PER_RECORD},
    differentiable=False,
)
def string_to_hash_bucket_op(xp: Any, string_tensor: Any, *, num_buckets: int) -> Any:
    """MurmurHash64A of each string, modulo num_buckets."""
    return _buckets(murmur(_listed(string_tensor)), num_buckets, string_tensor)


@op(
    "StringToHashBucketFast",
    inputs="input: string",
    outputs="output: int64",
    attrs="num_buckets: int >= 1",
    shape=unchanged,
    traits={PER_RECORD},
    differentiable=False,
)
def string_to_hash_bucket_fast_op(xp: Any, input: Any, *, num_buckets: int) -> Any:
    """FarmHash's Fingerprint64 of each string, modulo num_buckets."""
    return _buckets(farm(_listed(input)), num_buckets, input)


@op(
    "StringToHashBucketStrong",
    inputs="input: string",
    outputs="output: int64",
    attrs="num_buckets: int >= 1; key: list(int)",
    shape=unchanged,
    traits={PER_RECORD},
    differentiable=False,
)
def string_to_hash_bucket_strong_op(
    xp: Any, input: Any, *, num_buckets: int, key: list[int]
) -> Any:
    """SipHash-2-4 of each string under a key of two numbers, modulo num_buckets.

    Raises InvalidArgument for a key of other length.
    """
    if len(key) != 2:
        raise errors.invalid_argument(f"Key must have 2 elements, and has {len(key)}")
    return _buckets(sip(_listed(input), (key[0], key[1])), num_buckets, input)


@of_ragged
def string_to_hash_bucket(
    string_tensor: Any = None, num_buckets: Any = None, name: str | None = None, input: Any = None
) -> Tensor:
    """The bucket of each string, int64 below num_buckets, by a hash that is not fast: use the others."""
    given = string_tensor if input is None else input
    made: Tensor = string_to_hash_bucket_op(given, num_buckets=num_buckets, name=name)
    return made


@of_ragged
def string_to_hash_bucket_fast(input: Any, num_buckets: int, name: str | None = None) -> Tensor:
    """The bucket of each string, int64 below num_buckets; who chooses the strings may make them meet."""
    made: Tensor = string_to_hash_bucket_fast_op(input, num_buckets=num_buckets, name=name)
    return made


@of_ragged
def string_to_hash_bucket_strong(
    input: Any, num_buckets: int, key: Any, name: str | None = None
) -> Tensor:
    """The bucket of each string, int64 below num_buckets, under a secret key of two numbers."""
    made: Tensor = string_to_hash_bucket_strong_op(
        input, num_buckets=num_buckets, key=key, name=name
    )
    return made
