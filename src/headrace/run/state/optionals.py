"""Optional: the value of the Optional ops, some tensors or none.  And a row of a ragged tensor, as one value.

Called by: ops.data.optionals, ops.array.ragged_variants.  Threads: any; values never change.
Source: TF 1.15 core/kernels/data/optional_ops.h; 2.21 core/kernels/ragged_tensor_variant.h
"""

from __future__ import annotations

from typing import Any, ClassVar, Self

from headrace.base import dtypes, errors
from headrace.base.dtypes import DType
from headrace.codec import protos as pb
from headrace.codec.tensors import decode_all, encode, value_dtype
from headrace.run.state import variants
from headrace.run.state.tensor_lists import zeros_of
from headrace.run.state.variants import Variant, arriving


class Tensors(Variant):
    """A variant that is some tensors, which a message has one after another."""

    __slots__ = ("kinds", "values")

    def __init__(self, values: tuple[Any, ...], kinds: tuple[DType, ...]) -> None:
        """values: arrays that nobody will change; kinds: their dtypes."""
        self.values = values
        self.kinds = kinds

    def to_message(self) -> pb.VariantTensorDataProto:
        """See `Variant`."""
        message = pb.VariantTensorDataProto(type_name=self.type_name)
        for value, kind in zip(self.values, self.kinds, strict=True):
            encode(value, kind, message.tensors.add())
        return message

    @classmethod
    def from_message(cls, message: pb.VariantTensorDataProto) -> Self:
        """See `Variant`."""
        kinds = tuple(value_dtype(each.dtype) for each in message.tensors)
        values = [
            arriving(value) if kind is dtypes.variant else value
            for value, kind in zip(decode_all(message.tensors), kinds, strict=True)
        ]
        return cls(tuple(values), kinds)


class Optional(Tensors):
    """Tensors, or none: then it has no value."""

    __slots__ = ("has_value",)
    type_name: ClassVar[str] = "tensorflow::data::Optional"

    def __init__(
        self, values: tuple[Any, ...], kinds: tuple[DType, ...], has_value: bool = True
    ) -> None:
        super().__init__(values, kinds)
        self.has_value = has_value

    def zeros(self) -> Optional:
        """Of zeros, if it has a value."""
        made = [
            zeros_of(kind, value.shape, value)
            for value, kind in zip(self.values, self.kinds, strict=True)
        ]
        return Optional(tuple(made), self.kinds, self.has_value)

    def plus(self, other: Optional) -> Optional:
        """Of the sums.  Raises InvalidArgument (one has no value, other types or shapes)."""
        if self.has_value is not other.has_value:
            raise errors.invalid_argument(
                "Cannot add optionals because one has a value and the other doesn't."
            )
        if self.kinds != other.kinds:
            raise errors.invalid_argument(
                f"Cannot add optionals because they have different numbers or types of components: "
                f"{_names(self.kinds)} and {_names(other.kinds)}"
            )
        return Optional(
            tuple(map(variants.sum_of_two, self.values, other.values)), self.kinds, self.has_value
        )

    def to_message(self) -> pb.VariantTensorDataProto:
        """See `Variant`."""
        message = super().to_message()
        message.metadata = bytes([self.has_value])
        return message

    @classmethod
    def from_message(cls, message: pb.VariantTensorDataProto) -> Self:
        """See `Variant`."""
        found = super().from_message(message)
        found.has_value = message.metadata[:1] not in (b"", b"\0")
        return found

    def _text(self) -> str:
        return "OptionalVariant<...>" if self.has_value else "OptionalVariant<None>"


class RaggedRow(Tensors):
    """A ragged tensor as one value: row splits from the outermost on, then values."""

    __slots__ = ()
    type_name: ClassVar[str] = "RaggedTensorVariant"

    def zeros(self) -> RaggedRow:
        """With the same rows, of zeros."""
        zero = zeros_of(self.kinds[-1], self.values[-1].shape)
        return RaggedRow((*self.values[:-1], zero), self.kinds)

    def plus(self, other: RaggedRow) -> RaggedRow:
        """The values' sum; the rows are alike.  Raises InvalidArgument (other types or shapes)."""
        if self.kinds != other.kinds:
            raise errors.invalid_argument(
                f"Cannot add RaggedTensorVariants of {_names(self.kinds)} and {_names(other.kinds)}"
            )
        summed = variants.sum_of_two(self.values[-1], other.values[-1])
        return RaggedRow((*self.values[:-1], summed), self.kinds)

    def _text(self) -> str:
        return "RaggedTensorVariant"


def _names(kinds: tuple[DType, ...]) -> str:
    return f"[{', '.join(kind.name for kind in kinds)}]"
