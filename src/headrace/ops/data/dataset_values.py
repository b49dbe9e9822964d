"""Dataset values: what the ops of datasets have in common.

A dataset is a variant whose value is a `run.data.stage.Dataset`, an object that describes it; it becomes stages when an
iterator is initialized with it.
Called by: ops.data (the files with these ops).  Threads: building as graph; kernels any step's.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final

import numpy as np

from headrace.base import errors
from headrace.base.dtypes import DType
from headrace.base.shapes import Shape, TensorShape
from headrace.base.traits import NEVER_FOLDED, STATEFUL
from headrace.graph.registry import OpSpec, op
from headrace.graph.shape_fns import ShapeContext
from headrace.run.data.chunks import boxed
from headrace.run.data.stage import UNKNOWN, Dataset, Iteration, Made, Stage

ELEMENTS: Final = "output_types: list(type) >= 1; output_shapes: list(shape) >= 1"
METADATA: Final = "; metadata: string = ''"


def scalars(c: ShapeContext) -> Shape:
    """The shape of a dataset: a scalar, as all inputs but lists of arrays must be."""
    for number in range(len(c.op.inputs)):
        c.with_rank(number, 0)
    return ()


def dataset_scalar(c: ShapeContext) -> Shape:
    """The shape of a dataset, a scalar, whatever the inputs have."""
    return ()


def dataset_op(
    name: str, inputs: str, attrs: str, *, stateful: bool = False, shape: Any = scalars
) -> Callable[[Callable[..., Any]], OpSpec]:
    """Decorator of the kernel of an op that gives a dataset."""
    return op(
        name,
        inputs=inputs,
        outputs="handle: variant",
        attrs=attrs,
        shape=shape,
        traits={NEVER_FOLDED, STATEFUL} if stateful else {NEVER_FOLDED},
        differentiable=False,
    )


def dataset_of(value: Any) -> Dataset:
    """The dataset that a variant holds.  Raises InvalidArgument."""
    found = value.item() if isinstance(value, np.ndarray) and value.size == 1 else value
    if not isinstance(found, Dataset):
        raise errors.invalid_argument(
            "Tensor must be a Dataset object: expected the variant that a dataset op gives, and not "
            f"{type(found).__name__}"
        )
    return found


def value_of(dataset: Dataset) -> Any:
    """The variant that holds a dataset.  Raises InvalidArgument."""
    return boxed(dataset)


def scalar_of(name: str, value: Any) -> Any:
    """A scalar input as Python has it.  Raises InvalidArgument for anything else."""
    if np.ndim(value):
        raise errors.invalid_argument(f"{name} must be a scalar")
    return value.item() if hasattr(value, "item") else value


def vector_of(name: str, value: Any) -> list[Any]:
    """A vector input as a list.  Raises InvalidArgument for anything else."""
    if np.ndim(value) != 1:
        raise errors.invalid_argument(f"{name} must be a vector")
    found: list[Any] = value.tolist()
    return found


def raw_shapes(shapes: Sequence[TensorShape]) -> list[Shape]:
    """Of an attr."""
    return [shape._raw for shape in shapes]


def made(
    kind: str,
    types: Sequence[DType],
    shapes: Sequence[TensorShape],
    make: Callable[..., Any],
    *inputs: Dataset,
    cardinality: Callable[..., int] | int = UNKNOWN,
) -> Any:
    """The variant of a `Made` dataset.  Raises InvalidArgument."""
    return value_of(Made(kind, types, raw_shapes(shapes), make, inputs, cardinality))


def known(function: Callable[[int], int]) -> Callable[[int], int]:
    """Where the count of the input is a number, what is made of it; else the same."""
    return lambda count: function(count) if count >= 0 else count


class Passes(Dataset):
    """A dataset whose stage iterates its inputs itself: make(run, *inputs)."""

    def __init__(
        self,
        kind: str,
        types: Sequence[DType],
        shapes: Sequence[TensorShape],
        make: Callable[..., Stage],
        inputs: list[Dataset],
        cardinality: Callable[..., int],
    ) -> None:
        super().__init__(types, raw_shapes(shapes), inputs)
        self.kind = kind
        self._make = make
        self._cardinality = cardinality

    def stage(self, run: Iteration) -> Stage:
        """See `Dataset`."""
        stage = self._make(run, *self.inputs)
        stage.label = self.kind
        return stage

    def cardinality(self) -> int:
        """See `Dataset`."""
        return self._cardinality(*[each.cardinality() for each in self.inputs])
