"""Checkpoints of format V1: a sorted table of parts of tensors, each a message with typed fields.

Under the empty key is a `SavedTensorSlices` that lists tensors, shapes, types and parts; under the key of a part
(`codec.ordered`) one with its values.  A checkpoint may be several files, each of which lists what it has.
No I/O here: `written` gives pieces, a `Reader` has tables.
Called by: run.checkpoints.  Threads: any, one at a time.
Source: TF 1.15 core/util/{tensor_slice_writer,tensor_slice_reader,saved_tensor_slice.proto}, for the format; phrases of
errors as of 2.21
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from google.protobuf.message import DecodeError

from headrace.base import dtypes, errors
from headrace.base.shapes import text
from headrace.codec import protos as pb
from headrace.codec import sorted_table
from headrace.codec.fields import FIELDS, get_typed, put_typed
from headrace.codec.ordered import WHOLE, Extent, slice_key
from headrace.codec.parts import (
    Array,
    assembled,
    check_described,
    check_extents,
    extents_of,
    ranges,
    sizes_of,
    slice_proto,
)
from headrace.codec.sorted_table import Table
from headrace.codec.tensors import shape_to_proto

_VERSION = 1
_META_KEY = b""


@dataclass(frozen=True, slots=True)
class Part:
    """A tensor, or a part of one, to be written."""

    name: str
    sizes: tuple[int, ...]
    extents: tuple[Extent, ...]
    value: Array
    dtype: dtypes.DType


def written(parts: Sequence[Part]) -> Iterator[bytes]:
    """The table of `parts`, in pieces; of two that are the same the first is kept.

    Raises Internal: parts of a tensor that do not agree on its shape or type; Unimplemented for types that are no data.
    """
    listed: dict[str, pb.SavedSliceMeta] = {}
    keyed: dict[bytes, Part] = {}
    for part in parts:
        shape, number = shape_to_proto(part.sizes), _checked(part.dtype).as_datatype_enum
        meta = listed.get(part.name)
        if meta is None:
            meta = listed[part.name] = pb.SavedSliceMeta(
                name=part.name, shape=shape, type=_number(number)
            )
        elif meta.shape != shape or meta.type != number:
            there = text(tuple(dim.size for dim in meta.shape.dim))
            what = "shapes" if meta.shape != shape else "types"
            raise errors.make(
                errors.INTERNAL,
                f"Mismatching {what}: existing tensor = {there}, trying to add name {part.name}, shape = "
                f"{text(part.sizes)} {part.dtype.name}",
            )
        key = slice_key(part.name, part.extents)
        if key not in keyed:
            keyed[key] = part
            meta.slice.append(slice_proto(part.extents))
    about = pb.SavedTensorSliceMeta(
        tensor=[listed[name] for name in sorted(listed)], versions=pb.VersionDef(producer=_VERSION)
    )
    return sorted_table.written(_rows(pb.SavedTensorSlices(meta=about), keyed))


def _rows(about: pb.SavedTensorSlices, keyed: dict[bytes, Part]) -> Iterator[tuple[bytes, bytes]]:
    yield _META_KEY, about.SerializeToString()
    for key in sorted(keyed):
        part = keyed[key]
        data = pb.SavedSlice(name=part.name, slice=slice_proto(part.extents))
        data.data.SetInParent()
        put_typed(data.data, np.asarray(part.value), part.dtype)
        yield key, pb.SavedTensorSlices(data=data).SerializeToString()


def _checked(dtype: dtypes.DType) -> dtypes.DType:
    if dtype in (dtypes.resource, dtypes.variant) or dtype not in FIELDS:
        raise errors.unimplemented(
            f"tensors of type {dtype.name} have no place in a checkpoint; save what they stand for"
        )
    return dtype


def _number(number: Any) -> Any:
    return number


class Reader:
    """A checkpoint of format V1, which may be several files."""

    def __init__(self, tables: Sequence[Table], pattern: str) -> None:
        """pattern: what errors call it.  Raises DataLoss; Internal for files that do not agree."""
        self.prefix = pattern
        self._tables = tables
        self._listed: dict[str, pb.SavedSliceMeta] = {}
        self._at: dict[bytes, int] = {}
        for place, table in enumerate(tables):
            about = _parsed(table, _META_KEY).meta
            for each in about.tensor:
                self._check(table, each)
                self._join(each)
                for stored in each.slice:
                    extents = extents_of(stored) or ((0, WHOLE),) * len(each.shape.dim)
                    self._at.setdefault(slice_key(each.name, extents), place)

    def _check(self, table: Table, each: pb.SavedSliceMeta) -> None:
        """Raise DataLoss, or Unimplemented, for what cannot be a tensor and its parts."""
        sizes = sizes_of(each.shape)
        try:
            check_described(each.type, each.shape)
            for stored in each.slice:
                if stored.extent:
                    check_extents(extents_of(stored), sizes)
        except ValueError as error:
            raise errors.data_loss(
                f"{table.name}: {each.name!r}: {error}; restore from another checkpoint"
            ) from None

    def _join(self, each: pb.SavedSliceMeta) -> None:
        there = self._listed.get(each.name)
        if there is None:
            self._listed[each.name] = pb.SavedSliceMeta.FromString(each.SerializeToString())
            return
        if there.shape != each.shape:
            raise errors.make(
                errors.INTERNAL,
                f"Incompatible tensor shapes detected for tensor {each.name}: existing = {_text(there)}, new = "
                f"{_text(each)}, in the files of {self.prefix}",
            )
        if there.type != each.type:
            raise errors.make(
                errors.INTERNAL,
                f"Incompatible tensor types detected for tensor {each.name}: existing = "
                f"{dtypes.as_dtype(there.type).name}, new = {dtypes.as_dtype(each.type).name}, in the files of "
                f"{self.prefix}",
            )
        there.slice.extend(each.slice)

    def names(self) -> Iterator[str]:
        """The tensors, in order."""
        return iter(sorted(self._listed))

    def has(self, name: str) -> bool:
        """Whether there is a tensor of that name."""
        return name in self._listed

    def about(self, name: str) -> tuple[dtypes.DType, tuple[int, ...]]:
        """Type and sizes.  Raises NotFound."""
        meta = self._meta(name)
        return dtypes.as_dtype(meta.type), tuple(dim.size for dim in meta.shape.dim)

    def parts_of(self, name: str) -> int:
        """In how many parts a tensor was saved.  Raises NotFound."""
        return len(self._meta(name).slice)

    def _meta(self, name: str) -> pb.SavedSliceMeta:
        found = self._listed.get(name)
        if found is None:
            raise errors.not_found(
                f'Tensor name "{name}" not found in checkpoint files {self.prefix}: it was saved by a graph without a '
                "variable of that name; see tf.train.list_variables"
            )
        return found

    def tensor(self, name: str) -> Array:
        """The value of a tensor, all of it."""
        return self.part(name, [(0, WHOLE)] * len(self._meta(name).shape.dim))

    def part(self, name: str, extents: Sequence[Extent]) -> Array:
        """A part of a tensor, however it was cut when it was saved.  Raises InvalidArgument, DataLoss."""
        dtype, sizes = self.about(name)
        try:
            check_extents(extents, sizes)
        except ValueError as error:
            raise errors.invalid_argument(f"{name} of checkpoint {self.prefix}: {error}") from None
        parts = [extents_of(each) or ((0, WHOLE),) * len(sizes) for each in self._meta(name).slice]

        def read(part: tuple[Extent, ...]) -> Array:
            return self._stored(name, part, dtype, ranges(part, sizes))

        return assembled(f"{name} of checkpoint {self.prefix}", dtype, sizes, extents, parts, read)

    def _stored(
        self,
        name: str,
        extents: Sequence[Extent],
        dtype: dtypes.DType,
        there: Sequence[slice],
    ) -> Array:
        key = slice_key(name, extents)
        table = self._tables[self._at[key]]
        try:
            values = get_typed(_parsed(table, key).data.data, dtype)
        except ValueError as error:
            raise errors.data_loss(
                f"{table.name}: values of {name}: {error}; restore from another checkpoint"
            ) from error
        sizes = [each.stop - each.start for each in there]
        if values.size != math.prod(sizes):
            raise errors.data_loss(
                f"{table.name} has {values.size} values of the part {list(extents)} of {name}, which is of {sizes}; "
                "restore from another checkpoint"
            )
        return values.reshape(sizes)


def _text(meta: pb.SavedSliceMeta) -> str:
    return text(tuple(dim.size for dim in meta.shape.dim))


def _parsed(table: Table, key: bytes) -> pb.SavedTensorSlices:
    content = table.get(key)
    if content is None:
        raise errors.data_loss(
            f"{table.name} has no entry under the key {key!r} that it should have; restore from another checkpoint"
        )
    try:
        return pb.SavedTensorSlices.FromString(content)
    except DecodeError as error:
        raise errors.data_loss(
            f"{table.name}: the entry under {key!r} cannot be read: {error}"
        ) from error
