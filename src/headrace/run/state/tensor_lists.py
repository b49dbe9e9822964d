"""TensorList: the value of the TensorList ops, a list of tensors that never changes.

What is made of a list by one change takes its memory over, and the list itself remembers how it differs from what was
made (Baker's persistent arrays), so that a chain of changes, each of the latest list, costs O(1) each: a loop that
pushes, pops or sets.  An older list that somebody still uses is copied once, when it is used.  TensorFlow decides by
counting references whether to copy, which Python cannot be asked for; here nobody need know who else holds a list, and
what only an older list referred to goes with it.  A change of an empty list begins anew, so that a list with which
many loops begin keeps nothing of theirs.

Called by: ops.data, library.  Threads: any; one lock for all lists, held for as long as a copy takes at most.
A change that is interrupted leaves the list as it was: how it differs is written before the memory changes.
Source: TF 1.15 core/kernels/tensor_list.{h,cc}; its messages are TensorFlow's
"""

from __future__ import annotations

import threading
from collections.abc import Iterable
from typing import Any, ClassVar, Final, Self

import numpy as np

from headrace.base import dtypes, errors
from headrace.base import shapes as shape_rules
from headrace.base.dtypes import DType
from headrace.base.shapes import Shape
from headrace.codec import protos as pb
from headrace.codec import varints
from headrace.codec.fields import parse
from headrace.codec.tensors import decode_all, encode, shape_from_proto, shape_to_proto, value_dtype
from headrace.run.devices.there import There, here, zeros_like
from headrace.run.state import variants
from headrace.run.state.variants import Variant, arriving

UNLIMITED: Final = -1
_CHANGING = threading.Lock()
_WORD: Final = 1 << 64


class TensorList(Variant):
    """Elements of one dtype; None for one that was never set.

    element_shape: what each element fits.  max_num_elements: UNLIMITED, or how many may be pushed.
    """

    __slots__ = (
        "_items",
        "_length",
        "_newer",
        "_undo",
        "element_dtype",
        "element_shape",
        "max_num_elements",
    )
    type_name: ClassVar[str] = "tensorflow::TensorList"

    def __init__(
        self,
        element_dtype: DType,
        element_shape: Shape,
        items: list[Any],
        max_num_elements: int = UNLIMITED,
    ) -> None:
        """items: the list's own from now on."""
        self.element_dtype = element_dtype
        self.element_shape = element_shape
        self.max_num_elements = max_num_elements
        self._items: list[Any] | None = items
        self._length = len(items)
        # Without items of its own: the list that took them over, and the place and value that differ there (the place
        # at its end: the value is one more; None: what is beyond this list's length does not belong to it).
        self._newer: TensorList | None = None
        self._undo: tuple[int, Any] | None = None

    @property
    def length(self) -> int:
        """Number of elements."""
        return self._length

    # -- looking --------------------------------------------------------------------------------------------------

    def items(self) -> list[Any]:
        """All elements, as a list of the caller's own."""
        with _CHANGING:
            return self._own().copy()

    def item_at(self, index: int) -> Any:
        """The element at an index from 0 to below the length; None if it was never set."""
        with _CHANGING:
            return self._own()[index]

    def _own(self) -> list[Any]:
        """Its elements in memory that is its own; those of an older list are copied first."""
        items = self._items
        if items is None:
            items = self._items = self._rebuilt()
            self._newer = self._undo = None
        return items

    def _rebuilt(self) -> list[Any]:
        later: list[TensorList] = []
        at = self
        while at._newer is not None:
            later.append(at)
            at = at._newer
        assert at._items is not None
        items = at._items.copy()
        del items[at._length :]
        for each in reversed(later):
            if each._undo is None:
                del items[each._length :]
            elif each._undo[0] < len(items):
                items[each._undo[0]] = each._undo[1]
            else:
                items.append(each._undo[1])
        return items

    # -- changes --------------------------------------------------------------------------------------------------

    def pushed(self, value: Any) -> TensorList:
        """With one more element."""
        if not self._length:
            return self._with([value])
        with _CHANGING:
            items = self._own()
            made = self._superseded(items, self._length + 1, None)
            items.append(value)
        return made

    def popped(self) -> tuple[TensorList, Any]:
        """(without the last element, that element); there is one."""
        with _CHANGING:
            items = self._own()
            last = self._length - 1
            value = items[last]
            made = self._superseded(items, last, (last, value))
            items.pop()
        return made, value

    def changed(self, index: int, value: Any) -> TensorList:
        """With another element at an index from 0 to below the length."""
        with _CHANGING:
            items = self._own()
            made = self._superseded(items, self._length, (index, items[index]))
            items[index] = value
        return made

    def _superseded(
        self, items: list[Any], length: int, undo: tuple[int, Any] | None
    ) -> TensorList:
        """What takes `items` over, which the caller changes next."""
        made = self._with(items)
        made._length = length
        self._undo = undo
        self._newer = made
        self._items = None
        return made

    def resized(self, length: int) -> TensorList:
        """With that many elements: the first ones, or all and then some that were never set."""
        items = self.items()[:length]
        return self._with(items + [None] * (length - len(items)))

    def replaced(self, items: list[Any]) -> TensorList:
        """A list of the same kind with other elements: a list that nobody else has."""
        return self._with(items)

    def _with(self, items: list[Any]) -> TensorList:
        return TensorList(self.element_dtype, self.element_shape, items, self.max_num_elements)

    # -- as a variant ---------------------------------------------------------------------------------------------

    def zeros(self) -> TensorList:
        """A zero for each element.

        Raises InvalidArgument where one was never set and its shape is not known.
        """
        items = self.items()
        shape = self.shape_of_unset(items, self.element_shape)
        if any(item is None for item in items) and not shape_rules.is_fully_defined(shape):
            raise errors.invalid_argument(
                "Tried to stack list which only contains uninitialized tensors and has a non-fully-defined "
                f"element_shape: {shape_rules.text(shape)}; zeros of a list need to know how large they are"
            )
        kind = self.element_dtype
        return self._with(
            [zeros_of(kind, shape if item is None else item.shape, item) for item in items]
        )

    def plus(self, other: TensorList) -> TensorList:
        """The sums of elements at equal places; what was never set counts as zero.

        Raises InvalidArgument (lengths, dtypes or shapes that differ).
        """
        if self.element_dtype is not other.element_dtype:
            raise errors.invalid_argument(
                "Trying to add two lists of tensors of different dtypes. One is "
                f"{self.element_dtype.name} and the other is {other.element_dtype.name}: they must be of one"
            )
        if self.length != other.length:
            raise errors.invalid_argument(
                "Trying to add two lists of tensors with different lengths. One is "
                f"{self.length} and the other is {other.length}: lists that are added are equally long"
            )
        try:
            shape = shape_rules.merge(self.element_shape, other.element_shape)
        except ValueError as error:
            raise errors.invalid_argument(
                "Trying to add two lists of tensors with incompatible element shapes. One is "
                f"{shape_rules.text(self.element_shape)} and the other is {shape_rules.text(other.element_shape)}: "
                f"{error}"
            ) from None
        items = [_sum(a, b) for a, b in zip(self.items(), other.items(), strict=True)]
        return TensorList(self.element_dtype, shape, items, self.max_num_elements)

    @staticmethod
    def shape_of_unset(items: Iterable[Any], known: Shape) -> Shape:
        """What is known of the shape of an element that was never set: that of the others, if they agree."""
        for item in items:
            if shape_rules.is_fully_defined(known):
                break
            if item is not None and shape_rules.compatible(known, item.shape):
                known = shape_rules.merge(known, item.shape)
        return known

    def to_message(self) -> pb.VariantTensorDataProto:
        """As TensorFlow writes it: the elements that are set, and in the metadata which are not, and the rest."""
        message = pb.VariantTensorDataProto(type_name=self.type_name)
        unset = []
        for index, item in enumerate(self.items()):
            if item is None:
                unset.append(index)
            else:
                encode(here(item), self.element_dtype, message.tensors.add())
        numbers = (
            len(unset),
            *unset,
            self.element_dtype.as_datatype_enum,
            self.max_num_elements % _WORD,
        )
        shape = shape_to_proto(self.element_shape).SerializeToString()
        message.metadata = b"".join(map(varints.packed, numbers)) + shape
        return message

    @classmethod
    def from_message(cls, message: pb.VariantTensorDataProto) -> Self:
        """See `Variant`."""
        content = message.metadata
        try:
            count, at = varints.unpacked(content, 0)
            if count > len(content):
                raise ValueError(f"{count} elements without value in {len(content)} bytes")
            unset = []
            for _ in range(count):
                index, at = varints.unpacked(content, at)
                unset.append(index)
            number, at = varints.unpacked(content, at)
            most, at = varints.unpacked(content, at)
            kind = value_dtype(number)
        except ValueError as error:
            raise errors.invalid_argument(f"a message holds no TensorList: {error}") from None
        shape = shape_from_proto(parse(pb.TensorShapeProto, content[at:]))
        if most >= _WORD // 2:
            most -= _WORD
        items = _joined(decode_all(message.tensors), unset, kind)
        return cls(kind, shape, items, int(most))

    def _text(self) -> str:
        return "TensorList"


def _joined(values: list[Any], unset: list[int], kind: DType) -> list[Any]:
    """The elements in order, of which those at `unset` have no value.  Raises InvalidArgument."""
    items = [arriving(value) if kind is dtypes.variant else value for value in values]
    if any(value.dtype != kind.np for value in values):
        raise errors.invalid_argument(
            f"a message of a TensorList of {kind.name} holds elements of other types"
        )
    for index in sorted(unset):
        if index > len(items):
            raise errors.invalid_argument(
                f"a message of a TensorList of {len(items)} elements says that element {index} is not set"
            )
        items.insert(index, None)
    return items


def zeros_of(kind: DType, shape: Any, like: Any = None) -> Any:
    """An element of zeros (empty strings) of a dtype; `like`, for kinds of their own, says zero of what."""
    if like.__class__ is There:
        return zeros_like(like)
    if kind.np.kind != "O":
        return np.zeros(shape, kind.np)
    if like is not None and variants.has_variants(like):
        return variants.zeros_like(like)
    if kind is not dtypes.string:
        raise errors.invalid_argument(
            f"an element of type {kind.name} was never set, and there are no zeros of that type: set it before it is "
            "read"
        )
    return np.full(shape, b"", object)


def _sum(a: Any, b: Any) -> Any:
    """Of two elements; one that was never set counts as zero."""
    if a is None or b is None:
        return b if a is None else a
    return variants.sum_of_two(a, b)
