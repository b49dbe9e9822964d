"""tf.train.Saver: saves variables and restores them, and keeps the latest few checkpoints.

`save` returns when the checkpoint is whole; steps of other sessions go on meanwhile.  The checkpoint's files are
written by the tasks that hold the variables, on their disks; its graph, and the file that says which checkpoint is the
latest, by the caller's process, on its own.
Called by: programs, sessions, hooks.  Threads: any; saves of one saver wait for each other, so that the latest
checkpoint is of the latest step: a supervisor's thread and its program may both save.
Source: TF 1.15 python/training/saver.py, for behaviour; phrases of errors as of 2.21
"""

from __future__ import annotations

import math
import os
import threading
import time
from collections.abc import Iterable, Mapping
from typing import Any, Final

import numpy as np

from headrace.base import errors, text
from headrace.codec import protos as pb
from headrace.graph import scopes
from headrace.graph.collections import GraphKeys
from headrace.graph.export_scopes import prefixed, without_prefix
from headrace.graph.graph import Graph
from headrace.run.checkpoints.deleting import make_room
from headrace.training import gfile, logging
from headrace.training.global_step import global_step as value_of_step
from headrace.training.meta_graph import export_meta_graph, register_proto_function
from headrace.training.saver.builder import Builder
from headrace.training.saver.checkpoint_management import (
    checkpoint_exists,
    get_checkpoint_mtimes,
    meta_graph_filename,
    remove_checkpoint,
    write_checkpoint_state,
)
from headrace.training.saver.saveables import saveables_of
from headrace.training.saver.saved_objects import keys_by_name, under_keys

__all__ = ["Saver"]

V1, V2 = pb.SaverDef.V1, pb.SaverDef.V2
_HOUR_S: Final = 3600.0

_NODES: Final = ("filename_tensor_name", "save_tensor_name", "restore_op_name")
"""Fields of a SaverDef that name nodes."""


class Saver:
    """Saves and restores variables."""

    def __init__(
        self,
        var_list: Any = None,
        reshape: bool = False,
        sharded: bool = False,
        max_to_keep: int | None = 5,
        keep_checkpoint_every_n_hours: float = 10000.0,
        name: str | None = None,
        restore_sequentially: bool = False,
        saver_def: pb.SaverDef | None = None,
        builder: Any = None,
        defer_build: bool = False,
        allow_empty: bool = False,
        write_version: int = V2,
        pad_step_number: bool = False,
        save_relative_paths: bool = False,
        filename: str | None = None,
    ) -> None:
        """var_list: variables, saveable objects, or a dict of them by name; None is all that the graph has.

        reshape: a value of another shape is restored, if it has as many elements.  sharded: a shard for each device.
        max_to_keep: older checkpoints are deleted, 0 or None keeps all; but one every keep_checkpoint_every_n_hours.
        saver_def: of nodes that are there already.  builder: makes the nodes, instead of `Builder`.
        defer_build: `build` makes the nodes.  allow_empty: without variables the saver does nothing.
        pad_step_number: steps are written with 8 digits.  save_relative_paths: the file that names the latest
        checkpoint can be moved together with it.  filename: unless another is given.  restore_sequentially is taken and
        changes nothing, as in TensorFlow: one node reads all values.
        Raises TypeError, ValueError.
        """
        if defer_build and var_list:
            raise ValueError(
                "If `var_list` is provided then build cannot be deferred. Either set defer_build=False or "
                "var_list=None."
            )
        self._var_list, self._reshape, self._sharded = var_list, reshape, sharded
        self._max_to_keep = max_to_keep
        self._keep_checkpoint_every_n_hours = keep_checkpoint_every_n_hours
        self._name, self._filename = name, filename
        self._restore_sequentially = restore_sequentially
        self.saver_def: Any = saver_def
        self._builder = builder
        self._is_built, self._is_empty = False, False
        self._allow_empty = allow_empty
        self._write_version = write_version
        self._pad_step_number = pad_step_number
        self._save_relative_paths = save_relative_paths
        self._graph: Graph | None = None
        self._last_checkpoints: list[tuple[str, float]] = []
        self._checkpoints_to_be_deleted: list[tuple[str, float]] = []
        self._of_objects: tuple[Mapping[str, str], Saver] | None = None
        self._saving = threading.RLock()  # a handler of a signal may save within a save
        if not defer_build:
            self.build()
        if self.saver_def:
            self._check_saver_def()
            self._write_version = self.saver_def.version

    # -- building ---------------------------------------------------------------------------------

    def build(self) -> None:
        """Make the nodes, unless they are there.  Raises ValueError (nothing to save), TypeError."""
        if self._is_built:
            return
        self._is_built = True
        if not self.saver_def:
            var_list = self._var_list
            if var_list is None:
                var_list = all_saveable_objects()
            if not var_list:
                if not self._allow_empty:
                    raise ValueError(
                        "No variables to save: make them before the saver, or give allow_empty=True"
                    )
                self._is_empty = True
                return
            self._var_list = var_list
            make = Builder(self._write_version) if self._builder is None else self._builder
            self.saver_def = make.build(
                var_list,
                reshape=self._reshape,
                sharded=self._sharded,
                max_to_keep=self._max_to_keep or 0,
                keep_checkpoint_every_n_hours=self._keep_checkpoint_every_n_hours,
                name=self._name,
                filename=self._filename,
            )
        elif self._name:
            given, self.saver_def = self.saver_def, pb.SaverDef()
            self.saver_def.CopyFrom(given)
            for field in _NODES:
                setattr(self.saver_def, field, prefixed(getattr(given, field), self._name))
        self._check_saver_def()
        self._next_checkpoint_time = (
            time.time() + self.saver_def.keep_checkpoint_every_n_hours * _HOUR_S
        )
        self._graph = scopes.get_default_graph()

    def _check_saver_def(self) -> None:
        given = self.saver_def
        if not isinstance(given, pb.SaverDef):
            raise ValueError(f"saver_def must be a saver_pb2.SaverDef: {given}")
        for field in ("save_tensor_name", "restore_op_name"):
            if not getattr(given, field):
                raise ValueError(f"saver_def must specify the {field}: {given}")

    # -- what it knows ----------------------------------------------------------------------------

    def as_saver_def(self) -> pb.SaverDef:
        """What says the names of its nodes."""
        return self.saver_def  # type: ignore[no-any-return]

    def to_proto(self, export_scope: str | None = None) -> pb.SaverDef | None:
        """What says the names of its nodes; as seen from inside `export_scope`, None if they are not all in it."""
        if export_scope is None:
            return self.as_saver_def()
        names = {field: getattr(self.saver_def, field) for field in _NODES}
        if not all(name.startswith(export_scope) for name in names.values()):
            return None
        found = pb.SaverDef()
        found.CopyFrom(self.saver_def)
        for field, name in names.items():
            setattr(found, field, without_prefix(name, export_scope))
        return found

    @staticmethod
    def from_proto(saver_def: pb.SaverDef, import_scope: str | None = None) -> Saver:
        """The saver whose nodes `saver_def` names, inside `import_scope`."""
        return Saver(saver_def=saver_def, name=import_scope)

    @property
    def last_checkpoints(self) -> list[str]:
        """The checkpoints that were not deleted, the oldest first."""
        return [path for path, _ in self._last_checkpoints]

    def set_last_checkpoints(self, last_checkpoints: list[str]) -> None:
        """Have these been the last ones, of unknown times: none of them is kept for its age."""
        self._last_checkpoints = [(path, math.inf) for path in _listed(last_checkpoints)]

    def set_last_checkpoints_with_time(
        self, last_checkpoints_with_time: list[tuple[str, float]]
    ) -> None:
        """Have these been the last ones: (path, when it was written in seconds since the epoch)."""
        self._last_checkpoints = _listed(last_checkpoints_with_time)

    def recover_last_checkpoints(self, checkpoint_paths: Iterable[str]) -> None:
        """Have those that are there been the last ones, written when their files were."""
        found = [(path, get_checkpoint_mtimes([path])) for path in checkpoint_paths]
        self.set_last_checkpoints_with_time([(path, times[0]) for path, times in found if times])

    # -- saving -----------------------------------------------------------------------------------

    def save(
        self,
        sess: Any,
        save_path: Any,
        global_step: Any = None,
        latest_filename: str | None = None,
        meta_graph_suffix: str = "meta",
        write_meta_graph: bool = True,
        write_state: bool = True,
        strip_default_attrs: bool = False,
        save_debug_info: bool = False,
    ) -> str | None:
        """Save, and delete what is too old; gives the prefix of the checkpoint, None if there is nothing to save.

        global_step: a number, or a variable or tensor of one, that is added to the name.  Blocks until all is on the
        disk.  Raises ValueError (names, no such directory), TypeError, RuntimeError (not built), and what the step
        does.
        """
        if not self._is_built and not self._is_empty:
            raise RuntimeError("`build()` should be called before save if defer_build==True")
        latest_filename = latest_filename or "checkpoint"
        if self._write_version != V2:
            logging.warning(_V1_IS_OLD)
        if os.path.split(latest_filename)[0]:
            raise ValueError("'latest_filename' must not contain path components")
        save_path = text.path_to_str(save_path)
        if not hasattr(sess, "run") or not hasattr(sess, "graph"):
            raise TypeError(f"'sess' must be a Session; {sess}")
        with self._saving:
            file = self._named(sess, save_path, global_step, latest_filename)
            if not self._is_empty:
                file_saved = self._save(sess, file, save_path)
                if write_state:
                    try:
                        self._note(file_saved, os.path.dirname(save_path), latest_filename)
                    except errors.NotFoundError as error:
                        raise errors.not_found(f"{error.message}{_why(sess)}") from error
                    self._delete_old(meta_graph_suffix)
            if write_meta_graph:
                with sess.graph.as_default():
                    self.export_meta_graph(
                        meta_graph_filename(file, meta_graph_suffix),
                        strip_default_attrs=strip_default_attrs,
                        save_debug_info=save_debug_info,
                    )
        return None if self._is_empty else file_saved

    def _named(self, sess: Any, save_path: str, global_step: Any, latest_filename: str) -> str:
        """The checkpoint's prefix."""
        if global_step is not None:
            if not isinstance(global_step, (int, np.integer)):
                global_step = value_of_step(sess, global_step)
            digits = "08d" if self._pad_step_number else "d"
            return f"{save_path}-{global_step:{digits}}"
        sharded = self.saver_def is not None and self.saver_def.sharded
        if os.path.basename(save_path) == latest_filename and not sharded:
            raise ValueError(
                f"'latest_filename' collides with 'save_path': '{latest_filename}' and '{save_path}'"
            )
        return save_path

    def _save(self, sess: Any, file: str, save_path: str) -> str:
        nodes = self.saver_def
        make_room(os.path.dirname(save_path))
        try:
            found = sess.run(nodes.save_tensor_name, {nodes.filename_tensor_name: file})
        except (errors.FailedPreconditionError, errors.NotFoundError) as error:
            parent = os.path.dirname(save_path)
            if parent and not gfile.IsDirectory(parent) and not _is_remote(sess):
                raise ValueError(
                    f"Parent directory of {save_path} doesn't exist, can't save."
                ) from error
            raise
        return str(text.as_str_any(found))

    def _note(self, path: str, directory: str, latest_filename: str) -> None:
        """Remember the checkpoint, and say on the disk that it is the latest."""
        keep = self.saver_def.max_to_keep
        if keep > 0:
            kept = [pair for pair in self._last_checkpoints if pair[0] != path]
            kept.append((path, time.time()))
            if len(kept) > keep:
                self._checkpoints_to_be_deleted.append(kept.pop(0))
            self._last_checkpoints = kept
        write_checkpoint_state(
            directory,
            path,
            self.last_checkpoints,
            latest_filename,
            self._save_relative_paths,
        )

    def _delete_old(self, meta_graph_suffix: str) -> None:
        if not self._checkpoints_to_be_deleted:
            return
        path, when = self._checkpoints_to_be_deleted.pop(0)
        if when > self._next_checkpoint_time:
            self._next_checkpoint_time += self.saver_def.keep_checkpoint_every_n_hours * _HOUR_S
            return
        try:
            remove_checkpoint(path, self.saver_def.version, meta_graph_suffix)
        except Exception as error:  # a file that stays is no reason to end a training
            logging.warning("Ignoring: %s", error)

    def export_meta_graph(
        self,
        filename: Any = None,
        collection_list: Any = None,
        as_text: bool = False,
        export_scope: str | None = None,
        clear_devices: bool = False,
        clear_extraneous_savers: bool = False,
        strip_default_attrs: bool = False,
        save_debug_info: bool = False,
    ) -> Any:
        """The MetaGraphDef of the default graph and this saver, written to `filename` if one is given."""
        return export_meta_graph(
            filename=filename,
            graph_def=scopes.get_default_graph().as_graph_def(add_shapes=True),
            saver_def=self.saver_def,
            collection_list=collection_list,
            as_text=as_text,
            export_scope=export_scope,
            clear_devices=clear_devices,
            clear_extraneous_savers=clear_extraneous_savers,
            strip_default_attrs=strip_default_attrs,
            save_debug_info=save_debug_info,
        )

    # -- restoring --------------------------------------------------------------------------------

    def restore(self, sess: Any, save_path: Any) -> None:
        """Give the variables the values of a checkpoint, `save_path` as `save` gave it; they need no initializer.

        Raises ValueError (no such checkpoint), NotFoundError (it lacks variables), InvalidArgumentError (shapes,
        types), DataLossError, and what the step does.
        """
        if self._is_empty:
            return
        if save_path is None:
            raise ValueError("Can't load save_path when it is None.")
        path = os.fsdecode(save_path)
        if not checkpoint_exists(path):
            raise ValueError(f"The passed save_path is not a valid checkpoint: {path}{_why(sess)}")
        logging.info("Restoring parameters from %s", path)
        nodes = self.saver_def
        try:
            sess.run(nodes.restore_op_name, {nodes.filename_tensor_name: path})
        except errors.NotFoundError as error:
            names = keys_by_name(path)
            if names is not None:
                self._restore_objects(sess, path, names)
                return
            raise _explained(
                error, "a Variable name or other graph key that is missing from the checkpoint"
            ) from error
        except errors.InvalidArgumentError as error:
            raise _explained(
                error, "a mismatch between the current graph and the graph from the checkpoint"
            ) from error

    def _restore_objects(self, sess: Any, path: str, names: Mapping[str, str]) -> None:
        """Restore from a checkpoint of objects, by the names that variables had; see `keys_by_name`."""
        logging.warning(
            "Restoring an object-based checkpoint using a name-based saver. This may be somewhat fragile, and will "
            "re-build the Saver. Instead, consider loading object-based checkpoints using tf.train.Checkpoint()."
        )
        if self._of_objects is None or self._of_objects[0] != names:
            var_list = self._var_list
            saveables = saveables_of(all_saveable_objects() if var_list is None else var_list)
            self._of_objects = names, Saver(under_keys(saveables, names))
        self._of_objects[1].restore(sess, path)


_V1_IS_OLD: Final = (
    "TensorFlow's V1 checkpoint format has been deprecated: it is written as one table, and slower; "
    "`tf.train.Saver(write_version=tf.train.SaverDef.V2)`, which is the default, writes the other one"
)


def _listed(given: Any) -> list[Any]:
    if not isinstance(given, list):
        raise AssertionError(f"the last checkpoints are a list, not {given!r:.80}")
    return list(given)


def _is_remote(sess: Any) -> bool:
    return bool(getattr(sess, "sess_str", ""))


def _why(sess: Any) -> str:
    """Why files of a cluster may not be found here."""
    if not _is_remote(sess):
        return ""
    return (
        f": this process finds no such files on its own disk.  The checkpoints of a session on {sess.sess_str} lie "
        "on the disks of the tasks that hold the variables; save to a directory that they and this process share"
    )


def _explained(error: errors.OpError, likely: str) -> errors.OpError:
    found = errors.copied(error)
    found.message = (
        f"Restoring from checkpoint failed. This is most likely due to {likely}. Please ensure that you have not "
        f"altered the graph expected based on the checkpoint. Original error:\n\n{error.message}"
    )
    return found


def all_saveable_objects(scope: str | None = None) -> list[Any]:
    """What a saver saves unless told otherwise: global variables and the objects that graphs list as saveable."""
    graph = scopes.get_default_graph()
    return [
        *graph.get_collection(GraphKeys.GLOBAL_VARIABLES, scope),
        *graph.get_collection(GraphKeys.SAVEABLE_OBJECTS, scope),
    ]


register_proto_function(GraphKeys.SAVERS, pb.SaverDef, Saver.to_proto, Saver.from_proto)
