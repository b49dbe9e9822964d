"""The nodes that save and restore objects: those that TensorFlow builds, under its names.

Called by: training.objects.  Threads: as graph.
Source: TF 1.15 and 2.21 behaviour of tf.train.Checkpoint in graphs; nodes checked against the oracle
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from headrace.graph import scopes
from headrace.graph.tensor import Tensor
from headrace.ops.array import constants
from headrace.ops.array.gathering import where
from headrace.ops.flow import identities as flow
from headrace.ops.io import checkpoints as io
from headrace.ops.string.regular_expressions import regex_full_match
from headrace.ops.string.strings import string_join
from headrace.training.saver.saveables import CPU, SaveableObject, on_cpu

__all__: list[str] = []


def text_on_cpu(value: str) -> Tensor:
    """A constant that a step is fed instead of."""
    with scopes.get_default_graph().device(CPU):
        return constants.constant(value)


def saving(prefix: Tensor, saveables: Sequence[SaveableObject]) -> Tensor:
    """Gives `prefix` once all is saved: a shard for each task, in the order in which tasks come."""
    graph = scopes.get_default_graph()
    with graph.device("CPU"):
        suffix = where(
            regex_full_match(prefix, "^s3://.*"),
            constants.constant(".part"),
            constants.constant("_temp/part"),
        )
        parts = string_join([prefix, suffix])
    shards: dict[str, list[tuple[str, str, Tensor]]] = {}
    for each in saveables:
        for spec in each.specs:
            shard = shards.setdefault(on_cpu(spec.device), [])
            shard.append((spec.name, spec.slice_spec, spec.tensor))
    count = constants.constant(len(shards), name="num_shards")
    prefixes, saved, device = [], [], CPU
    for at, (device, tensors) in enumerate(shards.items()):
        names, slices, values = zip(*tensors, strict=True)
        with graph.device(device):
            prefixes.append(io.sharded_filename(parts, at, count))
            saved.append(io.save_v2(prefixes[-1], list(names), list(slices), list(values)))
    with graph.control_dependencies(saved), graph.device(device):
        merging = io.merge_v2_checkpoints(prefixes, prefix, delete_old_dirs=True)
    with graph.device(CPU), graph.control_dependencies([merging]):
        made: Tensor = flow.identity(prefix)
    return made


def restoring(prefix: Tensor, saveables: Sequence[SaveableObject]) -> list[Any]:
    """For each of them, in their order, the operation that gives it its values."""
    graph = scopes.get_default_graph()
    shards: dict[str, list[SaveableObject]] = {}
    for each in sorted(saveables, key=lambda saveable: saveable.name):
        shards.setdefault(on_cpu(each.device), []).append(each)
    made: dict[int, Any] = {}
    for device, group in shards.items():
        specs = [spec for each in group for spec in each.specs]
        with graph.device(device):
            restored = io.restore_v2(
                prefix,
                [spec.name for spec in specs],
                [spec.slice_spec for spec in specs],
                dtypes=[spec.dtype.base_dtype for spec in specs],
            )
            at = 0
            for each in group:
                made[id(each)] = each.restore(restored[at : at + len(each.specs)], None)
                at += len(each.specs)
    return [made[id(each)] for each in saveables]
