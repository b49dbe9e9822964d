"""Writing SavedModels.

The directory is made by the client; variables are written by the tasks that have them (docs/checkpoints.md says on
whose disks), assets are copied by the client.  ``saved_model.pb`` comes last and at once, so that a directory which has
it is whole.
Called by: programs.  Threads: as graph.
Source of the format: directories that TensorFlow 2.21 writes.
"""

from __future__ import annotations

import filecmp
import os
from collections.abc import Iterable, Mapping
from typing import Any

from google.protobuf import text_format
from google.protobuf.any_pb2 import Any as Any_

from headrace.base import dtypes
from headrace.base.traits import CONST
from headrace.codec import protos as pb
from headrace.graph import scopes
from headrace.graph.const_value import folded
from headrace.graph.graph import Operation
from headrace.graph.registry import traits_of
from headrace.graph.tensor import Tensor
from headrace.run.checkpoints.writing import write_file
from headrace.run.readers.files import ANYWHERE
from headrace.training import gfile, logging
from headrace.training.saved_model import constants
from headrace.training.saved_model.signatures import predict_signature_def
from headrace.training.saver.saver import Saver, all_saveable_objects

__all__ = ["SavedModelBuilder", "simple_save"]


class SavedModelBuilder:
    """Puts graphs and their variables into a directory that Serving, `tf.saved_model.load` and TensorFlow can load."""

    def __init__(self, export_dir: Any) -> None:
        """export_dir: made if it is not there.

        Raises AssertionError (there is something in it), NotFoundError (a file has its name), and what making it does.
        """
        self._export_dir = os.fsdecode(export_dir)
        self._saved_model = pb.SavedModel(
            saved_model_schema_version=constants.SAVED_MODEL_SCHEMA_VERSION
        )
        self._has_saved_variables = False
        self._assets: dict[str, str] = {}
        if gfile.Exists(self._export_dir) and gfile.ListDirectory(self._export_dir):
            raise AssertionError(
                f"Export directory {self._export_dir} already exists, and isn't empty: choose another one, or delete "
                "what is in it"
            )
        gfile.MakeDirs(self._export_dir)

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
        Raises AssertionError (called before; a signature lacks a name or a dtype), KeyError (the name of a signature is
        reserved), TypeError, ValueError (assets, main_op), FailedPreconditionError (variables without values), and what
        the step does.
        """
        if self._has_saved_variables:
            raise AssertionError(
                "Graph state including variables and assets has already been saved. Please invoke `add_meta_graph()` "
                "instead."
            )
        saver = self._prepared(signature_def_map, assets_collection, legacy_init_op, main_op, saver)
        directory = os.path.join(self._export_dir, constants.VARIABLES_DIRECTORY)
        gfile.MakeDirs(directory)
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
        gfile.MakeDirs(self._export_dir)  # if it was deleted meanwhile
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
        for key, what in constants.RESERVED_SIGNATURES.items():
            if key in (signatures or {}):
                raise KeyError(
                    f'SignatureDef map key "{key}" is reserved for {what}. Please use a different key.'
                )
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
            name = files[path] = self._asset_name(path)
            definition = pb.AssetFileDef(filename=name, tensor_info=pb.TensorInfo(name=tensor.name))
            packed = Any_(type_url=constants.ASSET_TYPE, value=definition.SerializeToString())
            scopes.get_default_graph().add_to_collection(constants.ASSETS_KEY, packed)
        if not files:
            logging.info("No assets to write.")
            return
        directory = os.path.join(self._export_dir, constants.ASSETS_DIRECTORY)
        gfile.MakeDirs(directory)
        for path, name in files.items():
            copied = os.path.join(directory, name)
            if gfile.Exists(path):
                if path != copied:
                    gfile.Copy(path, copied, overwrite=True)
            else:
                logging.warning("The asset %s is no file here; the SavedModel lacks it", path)
        logging.info("Assets written to: %s", directory)

    def _asset_name(self, path: str) -> str:
        """What the file is called in the model: files of one name that are the same are one, also over graphs."""
        if path not in self._assets:
            base = os.path.basename(path)
            others = {name: each for each, name in self._assets.items()}
            other = others.get(base)
            is_there = other is not None and _is_same_file(path, other)
            self._assets[path] = base if is_there else _unused(base, others)
        return self._assets[path]

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
    encoding = info.WhichOneof("encoding")
    if encoding == "composite_tensor":
        for component in info.composite_tensor.components:
            _check_info(component)
        return
    for missing, what in (
        (encoding is None, "one of the 'encoding' fields (e.g., name or coo_sparse)"),
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
    for key in (constants.MAIN_OP_KEY, constants.LEGACY_INIT_OP_KEY):
        if graph.get_collection(key):
            raise ValueError(
                f"Graph already contains one or more main ops under the collection {key}."
            )
    graph.add_to_collection(constants.MAIN_OP_KEY, main_op)


def _asset_path(tensor: Any) -> str:
    """The path that a constant has.  Raises TypeError, ValueError."""
    if not isinstance(tensor, Tensor):
        raise TypeError(f"Asset path tensor {tensor} must be a Tensor.")
    if tensor.dtype != dtypes.string:
        raise TypeError(
            f"Asset path tensor {tensor} must be of dtype string, and is of {tensor.dtype}."
        )
    if CONST not in traits_of(tensor.op.type):
        raise TypeError(
            f"Asset path tensor {tensor} must be of type constant. Has type {tensor.op.type} instead."
        )
    found = folded(tensor)
    if found is None or found.size != 1:
        raise TypeError(
            f"Asset path tensor {tensor} must be a scalar: it has to be the path of one file."
        )
    path = found.reshape(-1)[0]
    if not path:
        raise ValueError(f"Asset filepath tensor {tensor} is invalid: the path is empty.")
    return os.fsdecode(path)


def _is_same_file(one: str, other: str) -> bool:
    """Whether two files have the same content; False where one is missing."""
    try:
        return filecmp.cmp(one, other, shallow=False)
    except OSError:
        return False


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
