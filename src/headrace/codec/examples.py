"""tf.train.Example and SequenceExample messages to arrays, a batch at a time.

A dense feature has as many values as its shape in every example (or, with `varies`, a multiple of it, filled up to the
longest); of a sparse one each example has any number.  A feature without a kind is a missing one.
Called by: ops.io.examples, ops.data.dataset_examples.  Threads: pure functions.
Source: TF 1.15 core/util/example_proto_fast_parsing.cc, for behaviour; compared with the oracle
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from itertools import chain
from operator import attrgetter
from typing import Any, Final, NamedTuple

import numpy as np
from google.protobuf.message import DecodeError

from headrace.base import dtypes, errors
from headrace.codec import protos as pb

Array = np.ndarray[Any, Any]
Sparse = tuple[Array, Array, Array]
"""indices [n, rank] int64, values [n], dense shape [rank] int64."""

_KINDS: Final = {
    "float_list": dtypes.float32,
    "int64_list": dtypes.int64,
    "bytes_list": dtypes.string,
}
_FIELDS: Final = {dtype: kind for kind, dtype in _KINDS.items()}
_VALUES: Final = {dtype: attrgetter(f"{kind}.value") for kind, dtype in _KINDS.items()}
"""What gives the values of a feature."""
_SEVERAL: Final = 6  # of each of many examples
_MANY: Final = 16  # from so many floats on it pays to take them from their serialized form


class DenseSpec(NamedTuple):
    """A feature of fixed shape.  `default`: its values where it is missing; empty: it may not be.

    varies: dimension 0 may have any size, `shape` is that of its rows, and `default` fills up.
    """

    key: str
    dtype: dtypes.DType
    shape: tuple[int, ...]
    default: Array
    varies: bool = False


class SparseSpec(NamedTuple):
    """A feature of any number of values."""

    key: str
    dtype: dtypes.DType


_UNPARSED: Final = {
    "Example": "Could not parse example input, value",
    "SequenceExample": "Invalid protocol message input, example id",
}


class Batch:
    """What messages are parsed into, with the name of each for errors."""

    def __init__(self, serialized: Sequence[bytes], names: Sequence[bytes]) -> None:
        self.serialized = serialized
        self.names = names

    def __len__(self) -> int:
        return len(self.serialized)

    def where(self, number: int) -> str:
        """Which message, for people."""
        if number < len(self.names):
            return f"example {self.names[number].decode(errors='replace')!r}"
        return f"example {number}" if len(self.serialized) > 1 else "the example"

    def parsed(self, kind: Any) -> list[Any]:
        """Raises InvalidArgument."""
        found = []
        for number, content in enumerate(self.serialized):
            try:
                found.append(kind.FromString(content))
            except DecodeError:
                raise errors.invalid_argument(
                    f"{_UNPARSED[kind.DESCRIPTOR.name]}: {content[:80]!r}, {self.where(number)}, is no serialized "
                    f"tf.train.{kind.DESCRIPTOR.name}"
                ) from None
        return found


# -- values of one feature --------------------------------------------------------------------


def _values(feature: Any, dtype: dtypes.DType, key: str, where: str) -> Any:
    """The repeated field; None for a feature without a kind.  Raises InvalidArgument for another type."""
    kind = feature.WhichOneof("kind")
    if kind is None:
        return None
    if _KINDS[kind] is not dtype:
        raise errors.invalid_argument(
            f"Key: {key}. Data types don't match. Data type: {dtypes.spelled(_KINDS[kind])} but expected type: "
            f"{dtypes.spelled(dtype)}, in {where}"
        )
    return getattr(feature, kind).value


def _vector(values: Any, dtype: dtypes.DType, feature: Any = None) -> Array:
    if dtype is dtypes.string:
        found: Array = np.empty(len(values), object)
        found[:] = values[:]
        return found
    if dtype is dtypes.float32 and feature is not None and len(values) >= _MANY:
        packed = feature.float_list.SerializeToString()  # a tag, a length, the floats
        return np.frombuffer(packed, "<f4", offset=len(packed) - 4 * len(values))
    return np.array(values[:], dtype.np)


def _joined(parts: list[Array], dtype: dtypes.DType) -> Array:
    return np.concatenate(parts) if parts else np.empty(0, dtype.np)


# -- examples ---------------------------------------------------------------------------------


def dense(features: Sequence[Mapping[str, Any]], spec: DenseSpec, batch: Batch) -> Array:
    """[batch, *shape], or with `varies` [batch, longest, *shape].  Raises InvalidArgument."""
    size = math.prod(spec.shape)
    if not spec.varies:
        usual = _all_there(features, spec, size)
        if usual is not None:
            return usual.reshape(len(features), *spec.shape)
    parts = []
    for number, feature in enumerate(features):
        part = _dense_part(feature, spec, batch, number)
        if spec.varies and size and len(part) % size:
            raise errors.invalid_argument(
                f"Key: {spec.key}. Number of {dtypes.spelled(spec.dtype)} values is not a multiple of stride length. "
                f"{batch.where(number)} has {len(part)} values, and a row of shape {list(spec.shape)} {size}"
            )
        parts.append(part)
    if not spec.varies:
        return _joined(parts, spec.dtype).reshape(len(parts), *spec.shape)
    longest = max((len(part) for part in parts), default=0)
    filler = spec.default.reshape(-1)[0] if spec.default.size else _zero(spec.dtype)
    out: Array = np.full((len(parts), longest), filler, spec.dtype.np)
    for row, part in zip(out, parts, strict=True):
        row[: len(part)] = part
    return out.reshape(len(parts), longest // size if size else 0, *spec.shape)


def _all_there(features: Sequence[Mapping[str, Any]], spec: DenseSpec, size: int) -> Array | None:
    """All values, flat, if every example has as many as it should; else None, and it has to be looked at."""
    if not size:
        return None
    found: list[Any] = [each.get(spec.key) for each in features]
    try:
        values = list(map(_VALUES[spec.dtype], found))
    except AttributeError:  # of a feature that is missing
        return None
    if not values or set(map(len, values)) != {size}:
        return None
    if spec.dtype is dtypes.float32 and size >= _SEVERAL:
        packed = [each.float_list.SerializeToString()[-4 * size :] for each in found]
        return np.frombuffer(bytearray(b"".join(packed)), "<f4")
    return _vector(list(chain.from_iterable(values)), spec.dtype)


def _zero(dtype: dtypes.DType) -> Any:
    return b"" if dtype is dtypes.string else 0


def _dense_part(features: Mapping[str, Any], spec: DenseSpec, batch: Batch, number: int) -> Array:
    """One example's values, flat."""
    feature = features.get(spec.key)
    values = None
    if feature is not None:
        values = _values(feature, spec.dtype, spec.key, batch.where(number))
    if values is None:
        if spec.varies:
            return np.empty(0, spec.dtype.np)
        if not spec.default.size:
            raise errors.invalid_argument(
                f"Feature: {spec.key} (data type: {dtypes.spelled(spec.dtype)}) is required but could not "
                f"be found: {batch.where(number)} has none; give it a default_value if it may be missing"
            )
        return spec.default.reshape(-1)
    if not spec.varies and len(values) != math.prod(spec.shape):
        raise errors.invalid_argument(
            f"Key: {spec.key}. Number of {dtypes.spelled(spec.dtype)} values != expected. {batch.where(number)} has "
            f"{len(values)} values, and the shape {list(spec.shape)} {math.prod(spec.shape)}"
        )
    return _vector(values, spec.dtype, feature)


def sparse(features: Sequence[Mapping[str, Any]], spec: SparseSpec, batch: Batch) -> Sparse:
    """Of shape [batch, longest].  Raises InvalidArgument."""
    kind = _FIELDS[spec.dtype]
    flat: list[Any] = []
    counts = []
    for number, each in enumerate(features):
        feature = each.get(spec.key)
        values: Any = () if feature is None else getattr(feature, kind).value
        if feature is not None and not values:
            _values(feature, spec.dtype, spec.key, batch.where(number))
        counts.append(len(values))
        flat.extend(values)
    lengths = np.array(counts, np.int64)
    indices = np.empty((int(lengths.sum()), 2), np.int64)
    indices[:, 0] = np.repeat(np.arange(len(counts)), lengths)
    indices[:, 1] = _counted(lengths)
    shape = np.array([len(counts), lengths.max(initial=0)], np.int64)
    return indices, _vector(flat, spec.dtype), shape


def _counted(lengths: Array) -> Array:
    """0..n-1 for each n of `lengths`, one after the other."""
    ends = np.cumsum(lengths)
    found: Array = np.arange(ends[-1] if len(ends) else 0) - np.repeat(ends - lengths, lengths)
    return found


# -- feature lists ----------------------------------------------------------------------------


class ListSpec(NamedTuple):
    """A feature list of frames of fixed shape.  optional: where it is missing it has no frames."""

    key: str
    dtype: dtypes.DType
    shape: tuple[int, ...]
    optional: bool = False


def dense_lists(
    lists: Sequence[Mapping[str, Any]], spec: ListSpec, batch: Batch
) -> tuple[Array, Array]:
    """[batch, longest, *shape] filled up with zeros, and the lengths [batch].  Raises InvalidArgument."""
    size = math.prod(spec.shape)
    rows = []
    for number, each in enumerate(lists):
        if spec.key not in each and not spec.optional:
            raise errors.invalid_argument(
                f"Feature list '{spec.key}' is required but could not be found: "
                f"{batch.where(number)} has none; FixedLenSequenceFeature(allow_missing=True) lets it be empty"
            )
        frames = each[spec.key].feature if spec.key in each else []
        rows.append([_frame(f, t, spec, size, batch.where(number)) for t, f in enumerate(frames)])
    lengths = np.array([len(frames) for frames in rows], np.int64)
    longest = int(lengths.max(initial=0))
    out: Array = np.full((len(rows), longest, size), _zero(spec.dtype), spec.dtype.np)
    for row, frames in zip(out, rows, strict=True):
        for frame, values in zip(row, frames, strict=False):
            frame[:] = values
    return out.reshape(len(rows), longest, *spec.shape), lengths


def _frame(feature: Any, time: int, spec: ListSpec, size: int, where: str) -> Array:
    values = _values(feature, spec.dtype, f"{spec.key}[{time}]", where)
    if values is None or len(values) != size:
        raise errors.invalid_argument(
            f"{where}, feature list {spec.key!r}: frame {time} has {0 if values is None else len(values)} values, and "
            f"its shape {list(spec.shape)} has {size}"
        )
    return _vector(values, spec.dtype, feature)


def sparse_lists(lists: Sequence[Mapping[str, Any]], spec: SparseSpec, batch: Batch) -> Sparse:
    """Of shape [batch, most frames, most values].  Raises InvalidArgument."""
    parts: list[Array] = []
    counts, frames_of = [], []
    for number, each in enumerate(lists):
        frames = each[spec.key].feature if spec.key in each else []
        frames_of.append(len(frames))
        for time, feature in enumerate(frames):
            values = _values(feature, spec.dtype, f"{spec.key}[{time}]", batch.where(number))
            counts.append(0 if values is None else len(values))
            if counts[-1]:
                parts.append(_vector(values, spec.dtype, feature))
    lengths, frames_in = np.array(counts, np.int64), np.array(frames_of, np.int64)
    indices = np.empty((int(lengths.sum()), 3), np.int64)
    indices[:, 0] = np.repeat(np.repeat(np.arange(len(lists)), frames_in), lengths)
    indices[:, 1] = np.repeat(_counted(frames_in), lengths)
    indices[:, 2] = _counted(lengths)
    shape = np.array([len(lists), frames_in.max(initial=0), lengths.max(initial=0)], np.int64)
    return indices, _joined(parts, spec.dtype), shape


def examples(batch: Batch) -> list[Mapping[str, Any]]:
    """The features of each.  Raises InvalidArgument."""
    return [example.features.feature for example in batch.parsed(pb.Example)]


def sequence_examples(
    batch: Batch,
) -> tuple[list[Mapping[str, Any]], list[Mapping[str, Any]]]:
    """The context's features of each, and the feature lists.  Raises InvalidArgument."""
    found = batch.parsed(pb.SequenceExample)
    return (
        [each.context.feature for each in found],
        [each.feature_lists.feature_list for each in found],
    )
