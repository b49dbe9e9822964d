"""Variants: values of a kind of their own, such as lists of tensors, that steps pass on as they are.

A scalar of dtype variant is a `Variant`, as that of float is a NumPy scalar; other shapes are object arrays of them.
They never change, so that steps, queues and tasks of one process share them.  What leaves for another process is the
message that stands for it (the codec asks `to_message`); `arriving` makes the value again.
Called by: ops that make and take them, ops.flow.sendrecv, serve.worker, codec (by `to_message`).  Threads: any.
Source: TF 1.15 core/framework/variant.h, variant_op_registry.h
"""

from __future__ import annotations

from typing import Any, ClassVar, Self, TypeVar

import numpy as np

from headrace.base import errors
from headrace.base.shapes import text
from headrace.codec import protos as pb
from headrace.codec.fields import objects
from headrace.run.devices.there import There

_OBJECT = np.dtype(object)
_KINDS: dict[str, type[Variant]] = {}


class Variant:
    """One value; of arrays it has what a scalar of objects has."""

    __slots__ = ("__weakref__",)

    type_name: ClassVar[str] = ""
    """TensorFlow's name of the kind."""

    dtype = _OBJECT
    shape = ()
    ndim = 0
    size = 1
    nbytes = _OBJECT.itemsize
    itemsize = _OBJECT.itemsize

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        if cls.type_name:
            _KINDS[cls.type_name] = cls

    def __getattr__(self, name: str) -> Any:
        """What it has as an array without dimensions, such as `reshape`."""
        if name.startswith("_"):  # what NumPy and others look for to tell kinds of objects apart
            raise AttributeError(f"{type(self).__name__} has no {name}")
        return getattr(as_array(self), name)

    def item(self) -> Variant:
        """Itself."""
        return self

    def zeros(self) -> Variant:
        """What counts as zero beside it.  Raises Internal for a kind that has none."""
        raise errors.internal(
            "No unary variant unary_op function found for op: ZEROS_LIKE Variant type_name: "
            f"{self.type_name}: nothing of this kind counts as zero"
        )

    def plus(self, other: Any) -> Variant:
        """Their sum; `other` is of the same class.  Raises Internal for a kind that has none."""
        raise errors.internal(
            "No unary variant binary_op function found for binary variant op enum: ADD Variant type_name: "
            f"{self.type_name}: values of this kind cannot be added"
        )

    def to_message(self) -> pb.VariantTensorDataProto:
        """What stands for it elsewhere.  Raises InvalidArgument for what is of use in its own process only."""
        raise errors.invalid_argument(
            f"{self} cannot leave its task: place the ops that use it on the task that makes it"
        )

    @classmethod
    def from_message(cls, message: pb.VariantTensorDataProto) -> Self:
        """What a message stands for, which may come from anybody.  Raises InvalidArgument."""
        raise errors.invalid_argument(
            f"a value of kind {cls.type_name} came in a message, and is of use on its own task only"
        )

    def __str__(self) -> str:
        return f"Variant<type: {self.type_name} value: {self._text()}>"

    def _text(self) -> str:
        """As TensorFlow shows the value."""
        return type(self).__name__


V = TypeVar("V", bound=Variant)


def as_array(value: Variant) -> Any:
    """[] of one object."""
    found = np.empty((), object)
    found[()] = value
    return found


def single(value: Any, kind: type[V], refusal: str, of_shape: str) -> V:
    """The value of an input that has to be a scalar variant of one kind.

    refusal: how the InvalidArgument begins for another kind, before the value.  of_shape: how, for more than a scalar,
    before its shape.
    """
    if isinstance(value, kind):
        return value
    if np.ndim(value):
        sizes = ",".join(map(str, np.shape(value)))
        raise errors.invalid_argument(f"{of_shape}[{sizes}]; take one of them by its index")
    found = _known(value.item() if isinstance(value, np.ndarray) else value)
    if isinstance(found, kind):
        return found
    raise errors.invalid_argument(f"{refusal}{described(found)}")


def described(value: Any) -> str:
    """A variant of any kind, as errors show it."""
    if isinstance(value, pb.VariantTensorDataProto):
        return f"'Variant<type: {value.type_name} value: {len(value.metadata)} bytes>'"
    return f"'{value!s:.200}'"


def each_of(value: Any) -> list[Any]:
    """The variants of a tensor of them, in order."""
    return [_known(each) for each in value.reshape(-1).tolist()]


def alike(value: Any, elements: list[Any]) -> Any:
    """`elements` in the shape of `value`, a tensor of variants."""
    if not np.ndim(value):
        return elements[0]
    return objects(elements).reshape(np.shape(value))


def has_variants(value: Any) -> bool:
    """Whether a tensor of objects is one of variants."""
    if isinstance(value, Variant):
        return True
    return bool(
        isinstance(value, np.ndarray)
        and value.dtype == object
        and value.size
        and isinstance(value.reshape(-1)[0], Variant | pb.VariantTensorDataProto)
    )


def arriving(value: Any) -> Any:
    """A tensor of variants as it is used here: messages of kinds that are known here become values.

    Kinds whose ops nobody has asked for in this process pass as messages.  Raises as `Variant.from_message`.
    """
    if isinstance(value, Variant) or not np.size(value):
        return value
    return alike(value, each_of(value))


def _known(value: Any) -> Any:
    if isinstance(value, pb.VariantTensorDataProto):
        kind = _KINDS.get(value.type_name)
        return value if kind is None else kind.from_message(value)
    return value


def _unless_unknown(value: Any) -> Variant:
    if not isinstance(value, Variant):
        raise errors.internal(
            f"No unary variant unary_op function found for {described(value)}: no op of this process makes such values"
        )
    return value


def zeros_like(value: Any) -> Any:
    """Zero for each of a tensor of variants.  Raises as `Variant.zeros`."""
    if not value.size:
        return value
    return alike(value, [_unless_unknown(each).zeros() for each in each_of(value)])


def total(values: tuple[Any, ...]) -> Any:
    """The sum of tensors of variants, of one shape.  Raises Internal (different kinds), and as `Variant.plus`."""
    rows = [each_of(value) for value in values]
    if not rows[0]:
        return values[0]
    return alike(values[0], [_sum(column) for column in zip(*rows, strict=True)])


def _sum(values: tuple[Any, ...]) -> Any:
    found = _unless_unknown(values[0])
    for other in values[1:]:
        if type(found) is not type(other):
            raise errors.internal(
                "BinaryOpVariants: Variants a and b have different type ids.  Type names: "
                f"{_kind_of(other)} vs. {_kind_of(found)}"
            )
        found = other.plus(found)
    return found


def _kind_of(value: Any) -> str:
    """TensorFlow's name of the kind."""
    return repr(value.type_name)


def sum_of_two(a: Any, b: Any) -> Any:
    """The sum of two tensors that stand in values which are added.  Raises InvalidArgument (shapes that differ)."""
    if a.shape != b.shape:
        raise errors.invalid_argument(
            "Trying to add two tensors with incompatible element shapes. One is "
            f"{text(a.shape)} and the other is {text(b.shape)}: what stands at equal places is added"
        )
    if a.__class__ is There or b.__class__ is There:
        return a + b
    return total((a, b)) if has_variants(a) else np.add(a, b)
