"""Iterators in checkpoints: where each is, beside the variables.

Called by: programs, training.hooks.input_pipeline.  Threads: as graph.
Source: TF 1.15 behaviour of tf.data.experimental.make_saveable_from_iterator; nodes checked against the oracle
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from headrace.graph.names import colocate_with
from headrace.graph.registry import get
from headrace.graph.tensor import Tensor
from headrace.training.saver.saveables import SaveableObject, SaveSpec

__all__ = ["make_saveable_from_iterator"]

_POLICIES: Final = {"warn": 0, "ignore": 1, "fail": 2}


class IteratorSaveable(SaveableObject):
    """An iterator, which takes up the saved position when it was initialized with the same dataset."""

    def __init__(self, handle: Tensor, external_state_policy: str | None = None) -> None:
        """handle: of the iterator.  Raises ValueError."""
        policy = _POLICIES.get(external_state_policy or "fail")
        if policy is None:
            raise ValueError(
                "Invalid `ExternalStatePolicy.` Supported values include 'warn', 'ignore', and 'fail.' Received "
                f"{external_state_policy}."
            )
        position = get("SerializeIterator")(handle, external_state_policy=policy)
        super().__init__(handle, [SaveSpec(position, "", f"{handle.name}_STATE")], handle.name)

    def restore(self, restored_tensors: Sequence[Tensor], restored_shapes: Any) -> Any:
        """See `SaveableObject`."""
        with colocate_with(self.op):
            return get("DeserializeIterator")(self.op, restored_tensors[0])


def make_saveable_from_iterator(
    iterator: Any, external_state_policy: str | None = None
) -> SaveableObject:
    """What has a `tf.train.Saver` save where the iterator is: give it to one, or add it to SAVEABLE_OBJECTS.

    It is restored into an iterator that was initialized with the same dataset.  external_state_policy: what saving does
    when functions of the dataset remember something, which is not saved: 'fail', 'warn' or 'ignore'.

    Raises ValueError.
    """
    return IteratorSaveable(iterator._iterator_resource, external_state_policy)
