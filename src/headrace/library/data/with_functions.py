"""The part of `Dataset` that takes Python functions: map, filter, flat_map, interleave, reduce, generators.

Called by: library.data.datasets (of whose class this is a part).  Threads: building as graph.
Source: TF 1.15 python/data/ops/dataset_ops.py, for behaviour; nodes compared with the oracle
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, cast

from headrace.base import dtypes
from headrace.graph.convert import convert
from headrace.graph.names import name_scope
from headrace.graph.registry import get
from headrace.library.data import nest
from headrace.library.data.structured_functions import (
    StateFunction,
    StructuredFunction,
    dataset_given,
    scalar_of,
)
from headrace.library.data.structures import (
    element_of,
    flat_shapes,
    flat_types,
    normalized,
    spec_of,
    tensors_of,
)

if TYPE_CHECKING:
    from headrace.library.data.datasets import Dataset


class WithFunctions:
    """See the module header."""

    if TYPE_CHECKING:
        _structure: Any
        _variant_tensor: Any

    @property
    def _whole(self) -> Dataset:
        return cast("Dataset", self)

    def _made(
        self,
        op: str,
        function: StructuredFunction,
        *inputs: Any,
        structure: Any = None,
        **attrs: Any,
    ) -> Dataset:
        """A dataset of a node whose elements are the function's results, or of `structure`."""
        from headrace.library.data.datasets import Dataset

        structure = function.structure if structure is None else structure
        made = get(op)(
            self._variant_tensor,
            list(function.captured),
            *inputs,
            output_types=flat_types(structure),
            output_shapes=flat_shapes(structure),
            **attrs,
        )
        return Dataset(made, structure, [self._whole])

    def map(
        self,
        map_func: Callable[..., Any],
        num_parallel_calls: Any = None,
        deterministic: bool | None = None,
    ) -> Dataset:
        """map_func of each element: of its tensors, or of the parts of a tuple; gives a structure of tensors.

        num_parallel_calls: so many calls at a time, if they take long; AUTOTUNE (-1): as many as there are threads.
        deterministic: False lets elements come in another order.  Raises TypeError: no tensors came back.
        """
        function = StructuredFunction(map_func, "Dataset.map()", self._structure)
        return self._mapped(function, num_parallel_calls, deterministic)

    def _mapped(
        self, function: StructuredFunction, num_parallel_calls: Any, deterministic: bool | None
    ) -> Dataset:
        if num_parallel_calls is None:
            return self._made("MapDataset", function, f=function.reference)
        calls = convert(num_parallel_calls, dtypes.int64, "num_parallel_calls")
        order = "default" if deterministic is None else str(deterministic).lower()
        return self._made(
            "ParallelMapDatasetV2", function, calls, f=function.reference, deterministic=order
        )

    def map_with_legacy_function(
        self,
        map_func: Callable[..., Any],
        num_parallel_calls: Any = None,
        deterministic: bool | None = None,
    ) -> Dataset:
        """As `map`; headrace builds all functions in one way."""
        return self.map(map_func, num_parallel_calls, deterministic)

    def flat_map(self, map_func: Callable[..., Any]) -> Dataset:
        """The elements of the datasets that map_func gives for each element, one dataset after the other.

        Raises TypeError: map_func gives no dataset.
        """
        function = StructuredFunction(map_func, "Dataset.flat_map()", self._structure)
        return self._nested("FlatMapDataset", function, ())

    def interleave(
        self,
        map_func: Callable[..., Any],
        cycle_length: Any = None,
        block_length: Any = None,
        num_parallel_calls: Any = None,
        deterministic: bool | None = None,
    ) -> Dataset:
        """As `flat_map`, block_length elements of each of cycle_length datasets in turn.

        num_parallel_calls: elements of the datasets are made ahead by threads.  Raises TypeError.
        """
        cycle = 1 if cycle_length is None and num_parallel_calls is None else cycle_length
        function = StructuredFunction(map_func, "Dataset.interleave()", self._structure)
        numbers = [
            convert(-1 if cycle is None else cycle, dtypes.int64, "cycle_length"),
            convert(1 if block_length is None else block_length, dtypes.int64, "block_length"),
        ]
        if num_parallel_calls is None:
            return self._nested("InterleaveDataset", function, numbers)
        numbers += [
            convert(-1, dtypes.int64, "buffer_output_elements"),
            convert(-1, dtypes.int64, "prefetch_input_elements"),
            convert(num_parallel_calls, dtypes.int64, "num_parallel_calls"),
        ]
        order = "default" if deterministic is None else str(deterministic).lower()
        return self._nested("ParallelInterleaveDatasetV4", function, numbers, deterministic=order)

    def _nested(self, op: str, function: StructuredFunction, numbers: Any, **attrs: Any) -> Dataset:
        from headrace.library.data.datasets import Dataset

        inner = dataset_given(function, "map_func").elements
        made = get(op)(
            self._variant_tensor,
            list(function.captured),
            *numbers,
            f=function.reference,
            output_types=flat_types(inner),
            output_shapes=flat_shapes(inner),
            **attrs,
        )
        return Dataset(made, inner, [self._whole])

    def filter(self, predicate: Callable[..., Any]) -> Dataset:
        """The elements of which the predicate, a scalar tf.bool, is true.  Raises ValueError."""
        return self._some("FilterDataset", "Dataset.filter()", predicate)

    def filter_with_legacy_function(self, predicate: Callable[..., Any]) -> Dataset:
        """As `filter`."""
        return self.filter(predicate)

    def _some(self, op: str, user: str, predicate: Callable[..., Any]) -> Dataset:
        function = StructuredFunction(predicate, user, self._structure)
        if not scalar_of(function, dtypes.bool):
            raise ValueError(
                f"Invalid `predicate`. `predicate` must return a `tf.bool` scalar tensor, but its return type is "
                f"{function.structure!r}."
            )
        structure = self._structure
        return self._made(
            op,
            function,
            structure=structure,
            predicate=function.reference,
        )

    def reduce(self, initial_state: Any, reduce_func: Callable[..., Any]) -> Any:
        """The state after all elements: reduce_func(state, element) gives the next one.

        initial_state: a structure of tensors.  Raises TypeError: reduce_func gives another structure.
        """
        with name_scope("initial_state"):
            first = normalized(initial_state)
        function = StateFunction(reduce_func, "reduce()", spec_of(first), self._structure, False)
        made = get("ReduceDataset")(
            self._variant_tensor,
            tensors_of(function.state, first),
            list(function.captured),
            f=function.reference,
            output_types=flat_types(function.state),
            output_shapes=flat_shapes(function.state),
        )
        if len(nest.flatten(function.state)) == 1 and not isinstance(made, (list, tuple)):
            made = [made]
        return element_of(function.state, made)

    def scan(
        self, initial_state: Any, scan_func: Callable[..., Any], name: str | None = None
    ) -> Dataset:
        """scan_func(state, element) gives (the next state, an element) each time.  Raises TypeError."""
        from headrace.library.data.datasets import Dataset

        first = normalized(initial_state)
        function = StateFunction(scan_func, "Dataset.scan()", spec_of(first), self._structure, True)
        made = get("ScanDataset")(
            self._variant_tensor,
            tensors_of(function.state, first),
            list(function.captured),
            f=function.reference,
            preserve_cardinality=True,
            output_types=flat_types(function.results),
            output_shapes=flat_shapes(function.results),
        )
        return Dataset(made, function.results, [self._whole])

    def take_while(self, predicate: Callable[..., Any], name: str | None = None) -> Dataset:
        """The elements before the first of which the predicate, a scalar tf.bool, is false.  Raises ValueError."""
        return self._some("TakeWhileDataset", "Dataset.take_while()", predicate)
