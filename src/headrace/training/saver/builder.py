"""The nodes of a saver: those that TensorFlow builds, under its names, so that either side can run the other's.

Called by: training.saver.saver.  Threads: as graph.
Source: TF 1.15 behaviour of tf.train.Saver; nodes checked against the oracle
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from headrace.base.device import canonical
from headrace.codec import protos as pb
from headrace.graph import scopes
from headrace.graph.graph import Operation
from headrace.graph.names import name_scope
from headrace.graph.tensor import Tensor
from headrace.ops.array import constants
from headrace.ops.array.gathering import where
from headrace.ops.array.placeholders import placeholder_with_default
from headrace.ops.flow import identities as flow
from headrace.ops.io import checkpoints as io
from headrace.ops.string.regular_expressions import regex_full_match
from headrace.ops.string.strings import string_join
from headrace.training.saver.saveables import (
    SaveableObject,
    on_cpu,
    restored_shape,
    saveables_of,
)

__all__: list[str] = []

V1, V2 = pb.SaverDef.V1, pb.SaverDef.V2
OneDevice = tuple[str, list[SaveableObject]]


class Builder:
    """Adds a saver's nodes to the default graph."""

    def __init__(self, write_version: int) -> None:
        """write_version: of the files, SaverDef.V1 or V2."""
        self._version = write_version

    def build(
        self,
        names_to_saveables: Any,
        reshape: bool,
        sharded: bool,
        max_to_keep: int,
        keep_checkpoint_every_n_hours: float,
        name: str | None,
        filename: str | None,
        build_save: bool = True,
        build_restore: bool = True,
    ) -> pb.SaverDef:
        """The nodes, and what says their names.  Raises TypeError and ValueError for what cannot be saved."""
        saveables = saveables_of(names_to_saveables)
        with name_scope(name, "save", [each.op for each in saveables]) as scope:
            default = placeholder_with_default(filename or "model", shape=(), name="filename")
            path = placeholder_with_default(default, shape=(), name="Const")
            save_name = restore_name = ""
            if sharded:
                shards = _by_device(saveables)
                if build_save:
                    save_name = self._save_shards(path, shards).name
                if build_restore:
                    restore_name = self._restore_shards(path, shards, reshape).name
            else:
                if build_save:
                    save_name = self._save(path, saveables).name
                if build_restore:
                    restore_name = self._restore(path, saveables, reshape, "restore_all").name
            del scope
        return pb.SaverDef(
            filename_tensor_name=path.name,
            save_tensor_name=save_name,
            restore_op_name=restore_name,
            max_to_keep=max_to_keep,
            sharded=sharded,
            keep_checkpoint_every_n_hours=keep_checkpoint_every_n_hours,
            version=self._version,  # type: ignore[arg-type]
        )

    # -- saving -----------------------------------------------------------------------------------

    def _save(self, path: Tensor, saveables: Sequence[SaveableObject]) -> Tensor:
        specs = [spec for each in saveables for spec in each.specs]
        tensors = [spec.tensor for spec in specs]
        names, slices = [spec.name for spec in specs], [spec.slice_spec for spec in specs]
        if self._version == V2:
            saved = io.save_v2(path, names, slices, tensors, name="SaveV2")
        else:
            saved = io.save_slices(path, names, slices, tensors, name="save")
        made: Tensor = flow.with_dependencies([saved], path)
        return made

    def _save_shards(self, path: Tensor, shards: Sequence[OneDevice]) -> Tensor:
        return self._merged(path, shards) if self._version == V2 else self._listed(path, shards)

    def _merged(self, path: Tensor, shards: Sequence[OneDevice]) -> Tensor:
        """Shards in a directory beside the checkpoint, which the last one's task makes one of."""
        graph = scopes.get_default_graph()
        with graph.device("CPU"):
            suffix = where(
                regex_full_match(path, "^s3://.*"),
                constants.constant(".part"),
                constants.constant("_temp/part"),
            )
            prefix = string_join([path, suffix])
        count = constants.constant(len(shards), name="num_shards")
        prefixes, saved, device = [], [], ""
        for at, (device, saveables) in enumerate(shards):
            with graph.device(on_cpu(device)):
                prefixes.append(io.sharded_filename(prefix, at, count))
                saved.append(self._save(prefixes[-1], saveables))
        with graph.control_dependencies([each.op for each in saved]), graph.device(on_cpu(device)):
            merging = io.merge_v2_checkpoints(prefixes, path, delete_old_dirs=True)
            with graph.control_dependencies([merging]):
                made: Tensor = flow.identity(path)
        return made

    def _listed(self, path: Tensor, shards: Sequence[OneDevice]) -> Tensor:
        graph = scopes.get_default_graph()
        count = constants.constant(len(shards), name="num_shards")
        saved = []
        for at, (device, saveables) in enumerate(shards):
            with graph.device(device):
                saved.append(self._save(io.sharded_filename(path, at, count), saveables))
        with graph.control_dependencies([each.op for each in saved]):
            made: Tensor = io.sharded_filespec(path, count)
        return made

    # -- restoring --------------------------------------------------------------------------------

    def _restore(
        self, path: Tensor, saveables: Sequence[SaveableObject], reshape: bool, name: str
    ) -> Operation:
        specs = [spec for each in saveables for spec in each.specs]
        with scopes.get_default_graph().device("CPU:0"):
            restored = io.restore_v2(
                path,
                [spec.name for spec in specs],
                [spec.slice_spec for spec in specs],
                dtypes=[spec.dtype.base_dtype for spec in specs],
                name="RestoreV2",
            )
        assigned, at = [], 0
        for each in saveables:
            shapes = [restored_shape(spec) for spec in each.specs] if reshape else None
            assigned.append(each.restore(restored[at : at + len(each.specs)], shapes))
            at += len(each.specs)
        return flow.group(*assigned, name=name)

    def _restore_shards(
        self, path: Tensor, shards: Sequence[OneDevice], reshape: bool
    ) -> Operation:
        restored = []
        for device, saveables in shards:
            with scopes.get_default_graph().device(device):
                restored.append(self._restore(path, saveables, reshape, "restore_shard"))
        return flow.group(*restored, name="restore_all")


def _by_device(saveables: Sequence[SaveableObject]) -> list[OneDevice]:
    """In the order of the devices' names.  Raises ValueError for one that lies on several."""
    found: dict[str, list[SaveableObject]] = {}
    for each in saveables:
        places = {canonical(spec.device) for spec in each.specs}
        if len(places) != 1:
            raise ValueError(
                f"All tensors of a saveable object must be on the same device: {each.name} has some on "
                f"{' and '.join(sorted(places))}"
            )
        found.setdefault(places.pop(), []).append(each)
    return sorted(found.items(), key=lambda pair: pair[0])
