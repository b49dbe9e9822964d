"""Writing SavedModels.

The directory is made by the client; variables are written by the tasks that have them (docs/checkpoints.md says on
whose disks), assets are copied by the client.  ``saved_model.pb`` comes last and at once, so that a directory which has
it is whole.
Called by: programs.  Threads: as graph.
Source of the format: directories that TensorFlow 2.21 writes.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterable, Mapping
from typing import Any

from google.protobuf import text_format
from google.protobuf.any_pb2 import Any as Any_

from headrace.base import dtypes
from headrace.codec import protos as pb
from headrace.graph import scopes
from headrace.graph.const_value import folded
from headrace.graph.graph import Operation
from headrace.graph.tensor import Tensor
from headrace.run.checkpoints.writing import write_file
from headrace.run.readers.files import ANYWHERE
from headrace.training import logging
from headrace.training.saved_model import constants
from headrace.training.saved_model.signatures import predict_signature_def
from headrace.training.saver.saver import Saver, all_saveable_objects

__all__ = ["SavedModelBuilder", "simple_save"]


class SavedModelBuilder:
    """Puts graphs and their variables into a directory that Serving, `tf.saved_model.load` and TensorFlow can load."""

    def __init__(self, export_dir: Any) -> None:
        """export_dir: made if it is not there; AssertionError if there is something in it."""
        self._export_dir = os.fsdecode(export_dir)
        self._saved_model = pb.SavedModel(
            saved_model_schema_version=constants.SAVED_MODEL_SCHEMA_VERSION
        )
        self._has_saved_variables = False
        if os.path.isdir(self._export_dir) and os.listdir(self._export_dir):
            raise AssertionError(
                f"Export directory {self._export_dir} already exists, and isn't empty: choose another one, or delete "
                "what is in it"
            )
        os.makedirs(self._export_dir, exist_ok=True)

    def add_meta_graph_and_variables(
        self,
        sess: Any,
        tags: Iterable[str],
        signature_def_map: Mapping[str, pb.SignatureDef] | None = None,
        assets_collection: Iterable[Any] | None = None,
        legacy_init_op: Operation | None = None,
        clear_devices: bool = False,
        main_op: Operation | None = None,
        strip_default_attrs: bool = False,
        saver: Saver | None = None,
    ) -> None:
        """Add the graph of the session, with the values that its variables have.  Once, and before other graphs.

        Blocks until the variables are written.
        tags: what the graph is found by.  assets_collection: constants with the paths of files, which are copied.
        main_op (legacy_init_op is its old name): run when the model is loaded.  saver: instead of one that saves every
        variable.
        Raises AssertionError (called before; a signature lacks a name or a dtype), TypeError, ValueError (assets,
        main_op), FailedPreconditionError (variables without values), and what the step does.
        """
        if self._has_saved_variables:
            raise AssertionError(
                "Graph state including variables and assets has already been saved. Please invoke `add_meta_graph()` "
                "instead."
            )
        saver = self._prepared(signature_def_map, assets_collection, legacy_init_op, main_op, saver)
        directory = os.path.join(self._export_dir, constants.VARIABLES_DIRECTORY)
        os.makedirs(directory, exist_ok=True)
        path = os.path.join(directory, constants.VARIABLES_FILENAME)
        saver.save(sess, path, write_meta_graph=False, write_state=False)
        self._add(saver, tags, signature_def_map, clear_devices, strip_default_attrs)
        self._has_saved_variables = True

    def add_meta_graph(
        self,
        tags: Iterable[str],
        signature_def_map: Mapping[str, pb.SignatureDef] | None = None,
        assets_collection: Iterable[Any] | None = None,
        legacy_init_op: Operation | None = None,
        clear_devices: bool = False,
        main_op: Operation | None = None,
        strip_default_attrs: bool = False,
        saver: Saver | None = None,
    ) -> None:
        """Add the default graph, which uses the variables that were saved already.

        Raises AssertionError (nothing was saved yet), and as `add_meta_graph_and_variables`.
        """
        if not self._has_saved_variables:
            raise AssertionError(
                "Graph state including variables and assets has not been saved yet. Please invoke "
                "`add_meta_graph_and_variables()` first."
            )
        saver = self._prepared(signature_def_map, assets_collection, legacy_init_op, main_op, saver)
        self._add(saver, tags, signature_def_map, clear_devices, strip_default_attrs)

    def save(self, as_text: bool = False) -> bytes:
        """Write ``saved_model.pb``, or ``saved_model.pbtxt``; its path."""
        name, content = constants.SAVED_MODEL_FILENAME_PB, self._saved_model.SerializeToString()
        if as_text:
            name = constants.SAVED_MODEL_FILENAME_PBTXT
            content = text_format.MessageToString(self._saved_model).encode()
        path = os.fsencode(os.path.join(self._export_dir, name))
        write_file(path, [content], ANYWHERE)
        logging.info("SavedModel written to: %s", os.fsdecode(path))
        return path

    def _prepared(
        self,
        signatures: Mapping[str, pb.SignatureDef] | None,
        assets: Iterable[Any] | None,
        legacy_init_op: Operation | None,
        main_op: Operation | None,
        saver: Saver | None,
    ) -> Saver:
        """The saver, after everything that is given was looked at, and files and operations are in collections."""
        for signature in (signatures or {}).values():
            for info in (*signature.inputs.values(), *signature.outputs.values()):
                _check_info(info)
        self._save_assets(assets)
        _add_main_op(main_op if main_op is not None else legacy_init_op)
        if saver is None:
            return Saver(
                all_saveable_objects(), sharded=True, write_version=pb.SaverDef.V2, allow_empty=True
            )
        return saver

    def _save_assets(self, assets: Iterable[Any] | None) -> None:
        """Copy files, and note for every constant the name that its file has got."""
        files: dict[str, str] = {}
        for tensor in assets or ():
            path = _asset_path(tensor)
            name = files.setdefault(path, _unused(os.path.basename(path), files.values()))
            definition = pb.AssetFileDef(filename=name, tensor_info=pb.TensorInfo(name=tensor.name))
            packed = Any_(type_url=constants.ASSET_TYPE, value=definition.SerializeToString())
            scopes.get_default_graph().add_to_collection(constants.ASSETS_KEY, packed)
        if not files:
            logging.info("No assets to write.")
            return
        directory = os.path.join(self._export_dir, constants.ASSETS_DIRECTORY)
        os.makedirs(directory, exist_ok=True)
        for path, name in files.items():
            if os.path.exists(path):
                shutil.copyfile(path, os.path.join(directory, name))
            else:
                logging.warning("The asset %s is no file here; the SavedModel lacks it", path)
        logging.info("Assets written to: %s", directory)

    def _add(
        self,
        saver: Saver,
        tags: Iterable[str],
        signatures: Mapping[str, pb.SignatureDef] | None,
        clear_devices: bool,
        strip_default_attrs: bool,
    ) -> None:
        found = saver.export_meta_graph(
            clear_devices=clear_devices, strip_default_attrs=strip_default_attrs
        )
        found.meta_info_def.tags.extend(tags)
        for key, signature in (signatures or {}).items():
            found.signature_def[key].MergeFromString(signature.SerializeToString())
        self._saved_model.meta_graphs.append(found)


def _check_info(info: pb.TensorInfo) -> None:
    for missing, what in (
        (
            info.WhichOneof("encoding") is None,
            "one of the 'encoding' fields (e.g., name or coo_sparse)",
        ),
        (not info.dtype, "the dtype field"),
    ):
        if missing:
            raise AssertionError(
                f"Invalid `tensor_info`: {info}. All TensorInfo protos used in the SignatureDefs must have {what} set."
            )


def _add_main_op(main_op: Any) -> None:
    if main_op is None:
        return
    if not isinstance(main_op, Operation):
        raise TypeError(
            f"Expected {main_op!r} to be an Operation but got type {type(main_op)} instead."
        )
    graph = scopes.get_default_graph()
    if graph.get_collection(constants.MAIN_OP_KEY):
        raise ValueError(
            f"Graph already contains one or more main ops under the collection {constants.MAIN_OP_KEY}."
        )
    graph.add_to_collection(constants.MAIN_OP_KEY, main_op)


def _asset_path(tensor: Any) -> str:
    """The path that a constant has."""
    if not isinstance(tensor, Tensor):
        raise TypeError(f"Asset path tensor {tensor} must be a Tensor.")
    if tensor.dtype != dtypes.string:
        raise TypeError(
            f"Asset path tensor {tensor} must be of dtype string, and is of {tensor.dtype}."
        )
    found = folded(tensor)
    if found is None:
        raise TypeError(
            f"Asset path tensor {tensor} must be a constant, and is a {tensor.op.type}."
        )
    values = found.reshape(-1)
    if len(values) != 1 or not values[0]:
        raise ValueError(
            f"Asset filepath tensor {tensor} is invalid: it has to be the path of one file."
        )
    return os.fsdecode(values[0])


def _unused(name: str, used: Iterable[str]) -> str:
    """The name, or with a number after it."""
    taken, found, number = {*used}, name, 0
    while found in taken:
        number += 1
        found = f"{name}_{number}"
    return found


def simple_save(
    session: Any,
    export_dir: Any,
    inputs: Mapping[str, Any],
    outputs: Mapping[str, Any],
    legacy_init_op: Operation | None = None,
) -> None:
    """Save a model for Serving: tagged ``serve``, with one signature to predict from `inputs` to `outputs`.

    Raises as SavedModelBuilder, and `predict_signature_def`.
    """
    signature = predict_signature_def(inputs, outputs)
    graph = scopes.get_default_graph()
    builder = SavedModelBuilder(export_dir)
    builder.add_meta_graph_and_variables(
        session,
        [constants.SERVING],
        {constants.DEFAULT_SERVING_SIGNATURE_DEF_KEY: signature},
        graph.get_collection("asset_filepaths"),
        main_op=legacy_init_op,
        clear_devices=True,
    )
    builder.save()
