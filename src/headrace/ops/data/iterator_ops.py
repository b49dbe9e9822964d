"""Iterators: make one, initialize it with a dataset, take elements from it, save and restore where it is.

Handles are the `run.data.iterator.DataIterator` itself, on its own task.
Called by: library.data, programs that name these ops.  Threads: building as graph; kernels any step's.
Source: TF 1.15 core/ops/dataset_ops.cc
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Final

import numpy as np
from google.protobuf.message import DecodeError

from headrace.base import errors
from headrace.base import shapes as shape_rules
from headrace.base.dtypes import DType
from headrace.base.shapes import Shape, TensorShape
from headrace.base.traits import HANDLE, MAY_WAIT, NEVER_FOLDED, POLLS, STATEFUL
from headrace.codec import protos as pb
from headrace.codec.fields import objects
from headrace.graph.registry import OpSpec, op
from headrace.graph.shape_fns import ShapeContext, scalar
from headrace.ops.data.dataset_values import (
    ELEMENTS,
    METADATA,
    dataset_of,
    dataset_scalar,
    raw_shapes,
)
from headrace.run.data.chunks import Element, boxed
from headrace.run.data.iterator import DataIterator
from headrace.run.data.stage import Blocked, Dataset, Iteration
from headrace.run.exec import polling
from headrace.run.exec.kernel import KernelContext
from headrace.run.scope import Scope
from headrace.run.state import handles
from headrace.run.state.optionals import Optional

__all__: list[str] = []

_USE: dict[str, Any] = {"differentiable": False}
_ANY_ELEMENTS: Final = "output_types: list(type) = []; output_shapes: list(shape) = []"
_TYPE: Final = "tensorflow::Iterator"


def iterator_of(handle: Any) -> DataIterator:
    """The iterator that a handle is.  Raises InvalidArgument."""
    if isinstance(handle, DataIterator):
        return handle
    raise errors.invalid_argument(
        f"expected the handle of an iterator, and not that of a {type(handle).__name__}"
    )


def _of_elements(c: ShapeContext) -> Shape | list[Shape]:
    found = raw_shapes(c.attr("output_shapes"))
    return found[0] if c.num_outputs == 1 else found


# -- making -------------------------------------------------------------------------------------


def _iterator(
    ctx: KernelContext,
    *,
    shared_name: bytes,
    container: bytes,
    output_types: list[DType],
    output_shapes: list[TensorShape],
) -> DataIterator:
    """The iterator; nodes of one container and shared_name share it.  Raises InvalidArgument (other elements)."""
    shapes = raw_shapes(output_shapes)
    found = ctx.private_resource(
        DataIterator,
        lambda: DataIterator(ctx.node.name, output_types, shapes),
        container,
        shared_name,
    )
    if found is not ctx.memo.get("checked"):
        check_elements(found, output_types, shapes)
        ctx.memo["checked"] = found
    return found


def check_elements(found: DataIterator, types: list[DType], shapes: list[Shape]) -> None:
    """Whether the iterator gives such elements.  Raises InvalidArgument."""
    if not types or not found.types:
        return
    if len(found.types) != len(types):
        raise errors.invalid_argument(
            f"Number of components does not match: expected {len(types)} types but got {len(found.types)}: {found}"
        )
    for number, (mine, its) in enumerate(zip(types, found.types, strict=True)):
        if mine.base_dtype is not its.base_dtype:
            raise errors.invalid_argument(
                f"Data type mismatch at component {number}: expected {mine.name} but got {its.name}: {found}"
            )
    for number, (known, its_shape) in enumerate(zip(shapes, found.shapes, strict=False)):
        if not shape_rules.compatible(known, its_shape):
            raise errors.invalid_argument(
                f"Incompatible shapes at component {number}: expected {shape_rules.text(known)} but got "
                f"{shape_rules.text(its_shape)}: {found}"
            )


for _name in ("Iterator", "IteratorV2"):
    op(
        _name,
        outputs="handle: resource",
        attrs="shared_name: string; container: string; " + ELEMENTS,
        shape=scalar,
        traits={STATEFUL, HANDLE},
        **_USE,
    )(_iterator)


@op(
    "MakeIterator",
    inputs="dataset: variant; iterator: resource",
    shape=lambda c: [],
    traits={STATEFUL},
    **_USE,
)
def make_iterator_op(ctx: KernelContext, dataset: Any, iterator: Any) -> None:
    """Begin an iteration of the dataset.  Raises InvalidArgument (its elements are not the iterator's)."""
    iterator_of(iterator).initialize(dataset_of(dataset), ctx.runtime.files)


@op(
    "DeleteIterator",
    inputs="handle: resource; deleter: variant",
    traits={STATEFUL},
    **_USE,
)
def delete_iterator_op(ctx: KernelContext, handle: Any, deleter: Any) -> None:
    """Forget the iterator, which ends.  Raises InvalidArgument."""
    ctx.runtime.resources.forget(iterator_of(handle))


# -- handles as strings -------------------------------------------------------------------------


@op(
    "IteratorToStringHandle",
    inputs="resource_handle: resource",
    outputs="string_handle: string",
    shape=scalar,
    traits={STATEFUL},
    **_USE,
)
def iterator_to_string_handle_op(ctx: KernelContext, resource_handle: Any) -> Any:
    """The handle as a string [], for IteratorFromStringHandle on the same task.  Raises InvalidArgument."""
    found = handles.leaving(iterator_of(resource_handle), ctx.runtime.device)
    return boxed(found.item().SerializeToString())


def _from_string(
    ctx: KernelContext,
    string_handle: Any,
    *,
    output_types: list[DType],
    output_shapes: list[TensorShape],
) -> DataIterator:
    """The iterator that IteratorToStringHandle named.  Raises InvalidArgument (no handle, other elements), NotFound."""
    if np.ndim(string_handle):
        raise errors.invalid_argument("string_handle must be a scalar")
    try:
        message = pb.ResourceHandleProto.FromString(string_handle.item())
    except DecodeError:
        raise errors.invalid_argument(
            "Could not parse string_handle as a valid ResourceHandle: it is what `string_handle()` of an iterator gives"
        ) from None
    found = iterator_of(handles.arriving(message, ctx.runtime))
    check_elements(found, output_types, raw_shapes(output_shapes))
    return found


for _name in ("IteratorFromStringHandle", "IteratorFromStringHandleV2"):
    op(
        _name,
        inputs="string_handle: string",
        outputs="resource_handle: resource",
        attrs=_ANY_ELEMENTS,
        shape=scalar,
        traits={STATEFUL},
        **_USE,
    )(_from_string)


@op(
    "IteratorGetDevice",
    inputs="resource: resource",
    outputs="device: string",
    shape=scalar,
    traits={STATEFUL},
    **_USE,
)
def iterator_get_device_op(ctx: KernelContext, resource: Any) -> Any:
    """The device that the iterator is on.  Raises InvalidArgument."""
    return boxed(ctx.node.device.encode())


# -- elements -----------------------------------------------------------------------------------


def _get_next(xp: Any, iterator: Any) -> Any:
    """The next element.  Raises OutOfRange at the end, FailedPrecondition (not initialized), the element's error."""
    return iterator_of(iterator).next()


def _next_op(name: str) -> OpSpec:
    made = op(
        name,
        inputs="iterator: resource",
        outputs="components: output_types",
        attrs=ELEMENTS,
        shape=_of_elements,
        traits={STATEFUL, MAY_WAIT, POLLS},
        **_USE,
    )(_get_next)

    @made.prompt
    def _(attrs: dict[str, Any], owned: tuple[bool, ...]) -> Callable[..., Any]:
        def get_next(handle: Any) -> Any:
            return (handle if handle.__class__ is DataIterator else iterator_of(handle)).next()

        return get_next

    return made


iterator_get_next_op = _next_op("IteratorGetNext")
_next_op("IteratorGetNextSync")


@op(
    "DatasetToSingleElement",
    inputs="dataset: variant",
    outputs="components: output_types",
    attrs=ELEMENTS + METADATA,
    shape=_of_elements,
    traits={STATEFUL, POLLS},
    **_USE,
)
def dataset_to_single_element_op(
    ctx: KernelContext,
    dataset: Any,
    *,
    output_types: list[DType],
    output_shapes: list[TensorShape],
) -> Any:
    """The only element of the dataset.  Raises InvalidArgument if there are none or more."""
    with elements_at_once(ctx, dataset_of(dataset)) as elements:
        found = next(elements, None)
        if found is None:
            raise errors.invalid_argument("Dataset was empty. One element is needed, and no more")
        if next(elements, None) is not None:
            raise errors.invalid_argument(
                "Dataset had more than one element. Take the first one with take(1)"
            )
    return found


@contextmanager
def elements_at_once(ctx: KernelContext, dataset: Dataset) -> Iterator[Iterator[Element]]:
    """The elements of a dataset, for a kernel that takes them in its own thread, one pass.

    Raises what they fail with, and the step's error when it is over.
    """
    with Scope(parent=ctx.scope) as scope:
        root = dataset.stage(Iteration(ctx.runtime.files, polling.poll, scope))

        def elements() -> Iterator[Element]:
            while True:
                polling.poll()
                try:
                    chunk = root.pull(1)
                except Blocked as blocked:
                    blocked.pending.wait(scope)
                    continue
                if chunk is None:
                    return
                yield chunk.element(0)

        try:
            yield elements()
        finally:
            root.close()


def _cardinality(xp: Any, input_dataset: Any) -> Any:
    """How many elements there are, as far as it is known without looking; -1: without end, -2: unknown.

    Raises InvalidArgument.
    """
    return np.int64(dataset_of(input_dataset).cardinality())


_COUNT: dict[str, Any] = {
    "inputs": "input_dataset: variant",
    "outputs": "cardinality: int64",
    "shape": scalar,
    "traits": {NEVER_FOLDED},
    **_USE,
}
dataset_cardinality_op = op(
    "DatasetCardinality", attrs="cardinality_options: string = ''", **_COUNT
)(_cardinality)
op("ExperimentalDatasetCardinality", **_COUNT)(_cardinality)


# -- position -----------------------------------------------------------------------------------


@op(
    "SerializeIterator",
    inputs="resource_handle: resource",
    outputs="serialized: variant",
    attrs="external_state_policy: int = 0",
    shape=lambda c: (None,),
    traits={STATEFUL, MAY_WAIT},
    **_USE,
)
def serialize_iterator_op(xp: Any, resource_handle: Any, *, external_state_policy: int) -> Any:
    """Where the iterator is, all that its stages hold included: a variant [1].

    What its functions remember (generators of random numbers, Python's state) is not part of it: external_state_policy
    0 logs a warning, 1 says nothing, 2 raises FailedPrecondition.  Raises FailedPrecondition, Unimplemented.
    """
    return iterator_of(resource_handle).save(external_state_policy)


@serialize_iterator_op.finish
def _variant(position: bytes) -> Any:
    return objects([pb.VariantTensorDataProto(type_name=_TYPE, metadata=position)])


@op(
    "DeserializeIterator",
    inputs="resource_handle: resource; serialized: variant",
    traits={STATEFUL, MAY_WAIT},
    **_USE,
)
def deserialize_iterator_op(xp: Any, resource_handle: Any, serialized: Any) -> Any:
    """Take up what SerializeIterator gave, in an iterator that was initialized with the same dataset.

    Raises InvalidArgument (no position, another dataset's), DataLoss, FailedPrecondition.
    """
    values = list(serialized.reshape(-1)) if isinstance(serialized, np.ndarray) else [serialized]
    value = values[0] if values else None
    if not isinstance(value, pb.VariantTensorDataProto):
        raise errors.invalid_argument(
            f"expected the position of an iterator, as SerializeIterator gives it, and not {value!r:.80}"
        )
    return iterator_of(resource_handle).restore(value.metadata)


# -- an element, or none ------------------------------------------------------------------------


@op(
    "IteratorGetNextAsOptional",
    inputs="iterator: resource",
    outputs="optional: variant",
    attrs=ELEMENTS,
    shape=dataset_scalar,
    traits={STATEFUL, MAY_WAIT, POLLS},
    **_USE,
)
def iterator_get_next_as_optional_op(xp: Any, iterator: Any) -> Any:
    """The next element as an optional, none at the end.  Raises as IteratorGetNext."""
    found = iterator_of(iterator)

    def following() -> Optional:
        element = found.next_or_none()
        if element is None:
            return Optional((), (), has_value=False)
        return Optional(element, found.types)

    return found.do(following)
