"""What a checkpoint of objects says of itself, and how a saver finds variables in it by their names.

Called by: training.saver.saver, training.objects.  Threads: any.  Files are those of the calling process.
Source: TF 1.15 and 2.21 behaviour of tf.train.Saver.restore with such a checkpoint; phrases of errors as of 2.21
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from google.protobuf.message import DecodeError

from headrace.base import errors
from headrace.codec import protos as pb
from headrace.training.saver.checkpoint_readers import NewCheckpointReader
from headrace.training.saver.saveables import SaveableObject

__all__: list[str] = []

GRAPH_KEY: Final = "_CHECKPOINTABLE_OBJECT_GRAPH"
"""The tensor of a checkpoint that describes its objects."""


def objects_in(reader: Any, path: str) -> pb.TrackableObjectGraph | None:
    """What a checkpoint says of its objects; None if it was saved by names.  Raises DataLossError."""
    if not reader.has_tensor(GRAPH_KEY):
        return None
    message = pb.TrackableObjectGraph()
    try:
        message.ParseFromString(reader.get_tensor(GRAPH_KEY))
    except DecodeError as error:
        raise errors.data_loss(
            f"tensor {GRAPH_KEY} of checkpoint {path} is no description of objects: {error}"
        ) from None
    count = len(message.nodes)
    for node in message.nodes:
        numbers = [child.node_id for child in node.children]
        for slot in node.slot_variables:
            numbers += [slot.original_variable_node_id, slot.slot_variable_node_id]
        if not count or any(not 0 <= number < count for number in numbers):
            raise errors.data_loss(
                f"tensor {GRAPH_KEY} of checkpoint {path} speaks of objects {numbers}, and has {count}"
            )
    return message


def keys_by_name(path: str) -> dict[str, str] | None:
    """The key of each variable, by the name that a saver would have saved it under; None if it was saved by names.

    Raises NotFoundError, DataLossError.
    """
    message = objects_in(NewCheckpointReader(path), path)
    if message is None:
        return None
    return {
        each.full_name: each.checkpoint_key for node in message.nodes for each in node.attributes
    }


def under_keys(
    saveables: Sequence[SaveableObject], keys: Mapping[str, str]
) -> list[SaveableObject]:
    """These, to be restored from under the keys of their names.  Raises NotFoundError, naming all that are missing."""
    specs = [spec for each in saveables for spec in each.specs]
    names = {spec.name for spec in specs}
    missing, gone = names - keys.keys(), keys.keys() - names
    if missing:
        raise errors.not_found(
            f"\n\nExisting variables not in the checkpoint: {', '.join(sorted(missing))}\n\nVariables names when this "
            f"checkpoint was written which don't exist now: {', '.join(sorted(gone))}\n\n({len(names) - len(missing)} "
            "variable name(s) did match)\n\nCould not find some variables in the checkpoint (see names above). It is "
            "one of objects, which a saver finds by the names that they had when it was written: give "
            "tf.train.Saver a dict of those names, or restore it by tf.train.Checkpoint"
        )
    for spec in specs:
        spec.name = keys[spec.name]
    return list(saveables)
