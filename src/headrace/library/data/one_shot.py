"""Iterators that begin by themselves: the dataset's nodes are copied into a function that the iterator calls.

Called by: library.data.datasets.  Threads: building as graph.
Source: TF 1.15 python/data/ops/dataset_ops.py and framework/function.py, for behaviour; nodes compared with the oracle
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from headrace.base import dtypes
from headrace.base.traits import PLACEHOLDER, STATEFUL
from headrace.codec import protos as pb
from headrace.graph import scopes
from headrace.graph.func_graph import FuncGraph
from headrace.graph.names import colocate_with
from headrace.graph.operation import Operation
from headrace.graph.registry import get
from headrace.graph.tensor import Tensor
from headrace.library.data.iterators import Iterator
from headrace.library.data.structures import flat_shapes, flat_types

if TYPE_CHECKING:
    from headrace.library.data.datasets import Dataset


class CopyingGraph(FuncGraph):
    """A function that takes nothing: what it uses of the graph around is computed again inside.

    As TensorFlow's, it waits for nothing there: what is only checked is not.
    """

    def capture(self, tensor: Tensor, name: str | None = None) -> Tensor:
        """The copy of a tensor.  Raises ValueError for what cannot be computed again."""
        if tensor.graph is self:
            return tensor
        return self._copied(tensor.op).outputs[tensor.value_index]

    def _copied(self, op: Operation) -> Operation:
        found = self._ops.get(op.name)
        if found is not None:
            return found
        if PLACEHOLDER in op.traits:
            raise ValueError(
                f"Cannot capture a placeholder (name:{op.name}, type:{op.type}) by value."
            )
        if STATEFUL in op.traits and not _makes_dataset(op):
            raise ValueError(
                f"Cannot capture a stateful node (name:{op.name}, type:{op.type}) by value."
            )
        inputs = [self.capture(tensor) for tensor in op.inputs]
        copy = self.add_operation(
            op.name,
            op.type,
            op.spec,
            inputs,
            dict(op.attrs),
            [tensor.dtype for tensor in op.outputs],
            device=op.device,
            apply_scopes=False,
        )
        copy._where = op._where
        return copy


def _makes_dataset(op: Operation) -> bool:
    return [tensor.dtype.base_dtype for tensor in op.outputs] == [dtypes.variant]


def one_shot_iterator(dataset: Dataset) -> Iterator:
    """See `Dataset.make_one_shot_iterator`."""
    outer = scopes.get_default_graph()
    graph = CopyingGraph("_make_dataset", outer)
    try:
        with graph.as_default():
            graph.outputs = [graph.capture(dataset._iterated())]
    except ValueError as error:
        raise ValueError(
            f"{error}: Failed to create a one-shot iterator for a dataset. "
            "`Dataset.make_one_shot_iterator()` does not support datasets that capture stateful objects, such as a "
            "`Variable` or `LookupTable`. In these cases, use `Dataset.make_initializable_iterator()`."
        ) from error
    name = outer.library.free_name("_make_dataset")
    graph.to_function(name, attrs={"_disable_call_shape_inference": True})
    attrs: dict[str, Any] = {
        "output_types": flat_types(dataset._structure),
        "output_shapes": flat_shapes(dataset._structure),
    }
    with colocate_with(dataset._variant_tensor):
        handle = get("OneShotIterator")(dataset_factory=pb.NameAttrList(name=name), **attrs)
        return Iterator(handle, None, dataset._structure)
