"""Loading SavedModels, TensorFlow's and ours, into the graph of a session.

Called by: programs.  Threads: as graph and sessions.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from typing import Any

from google.protobuf import text_format
from google.protobuf.message import DecodeError

from headrace.codec import protos as pb
from headrace.graph.export_scopes import prefixed
from headrace.graph.graph import Graph
from headrace.training import gfile, logging
from headrace.training.saved_model import constants
from headrace.training.saver.imported import import_with_elements
from headrace.training.saver.saver import Saver

__all__ = ["SavedModelLoader", "load", "maybe_saved_model_directory", "parse_saved_model"]


def maybe_saved_model_directory(export_dir: Any) -> bool:
    """Whether a SavedModel may be there: whether one of its two files is."""
    directory = gfile.local(export_dir)
    names = (constants.SAVED_MODEL_FILENAME_PBTXT, constants.SAVED_MODEL_FILENAME_PB)
    return any(os.path.exists(os.path.join(directory, name)) for name in names)


def parse_saved_model(export_dir: Any) -> pb.SavedModel:
    """The SavedModel of a directory.

    Raises OSError (there is none, or its file is damaged), FailedPreconditionError and other errors of files.
    """
    directory = gfile.local(export_dir)
    found = pb.SavedModel()
    binary = os.path.join(directory, constants.SAVED_MODEL_FILENAME_PB)
    as_text = os.path.join(directory, constants.SAVED_MODEL_FILENAME_PBTXT)
    try:
        if os.path.exists(binary):
            path = binary
            with gfile.GFile(binary, "rb") as file:
                found.ParseFromString(file.read())
        elif os.path.exists(as_text):
            path = as_text
            with gfile.GFile(as_text, "rb") as file:
                text_format.Merge(file.read().decode(), found)
        else:
            raise OSError(
                f"SavedModel file does not exist at: {directory}{os.sep}"
                f"{{{constants.SAVED_MODEL_FILENAME_PBTXT}|{constants.SAVED_MODEL_FILENAME_PB}}}"
            )
    except (DecodeError, text_format.ParseError, UnicodeDecodeError) as error:
        raise OSError(f"Cannot parse file {path}: {error}.") from None
    return found


class SavedModelLoader:
    """A SavedModel that was read, to be loaded into graphs and sessions step by step."""

    def __init__(self, export_dir: Any) -> None:
        """Raises OSError (there is none, or its file is damaged)."""
        self._export_dir = os.fsdecode(export_dir)
        self._saved_model = parse_saved_model(export_dir)

    @property
    def export_dir(self) -> str:
        """The directory."""
        return self._export_dir

    @property
    def saved_model(self) -> pb.SavedModel:
        """What its file has."""
        return self._saved_model

    @property
    def variables_path(self) -> bytes:
        """The prefix of the checkpoint."""
        return os.fsencode(
            os.path.join(
                self._export_dir, constants.VARIABLES_DIRECTORY, constants.VARIABLES_FILENAME
            )
        )

    def get_meta_graph_def_from_tags(self, tags: Iterable[str]) -> pb.MetaGraphDef:
        """The graph that has these tags and no others.  Raises RuntimeError (none has, with the tags of all)."""
        wanted, there = {*tags}, []
        for meta_graph in self._saved_model.meta_graphs:
            there.append({*meta_graph.meta_info_def.tags})
            if there[-1] == wanted:
                return meta_graph
        raise RuntimeError(
            f"MetaGraphDef associated with tags {', '.join(repr(t) for t in sorted(wanted)) or '(none)'} could not be "
            f"found in SavedModel {self._export_dir}, with available tags {[sorted(each) for each in there]}"
        )

    def load_graph(
        self,
        graph: Graph,
        tags: Iterable[str],
        import_scope: str | None = None,
        **saver_kwargs: Any,
    ) -> tuple[Saver | None, list[Any] | None]:
        """Add the nodes to `graph`: the saver, None without variables, and what ``return_elements`` asks for."""
        meta_graph = self.get_meta_graph_def_from_tags(tags)
        with graph.as_default():
            return import_with_elements(meta_graph, import_scope=import_scope, **saver_kwargs)

    def restore_variables(
        self, sess: Any, saver: Saver | None, import_scope: str | None = None
    ) -> None:
        """Give the variables the values that were saved.  Raises ValueError (the checkpoint is not there)."""
        with sess.graph.as_default():
            if saver is None:
                logging.info(
                    "The specified SavedModel has no variables; no checkpoints were restored."
                )
            else:
                saver.restore(sess, self.variables_path)

    def run_init_ops(self, sess: Any, tags: Iterable[str], import_scope: str | None = None) -> None:
        """Run the model's main operation, with the paths of its assets."""
        meta_graph = self.get_meta_graph_def_from_tags(tags)
        with sess.graph.as_default():
            name = _main_op_name(meta_graph)
            if name is not None:
                main_op = sess.graph.as_graph_element(prefixed(name, import_scope))
                sess.run(fetches=[main_op], feed_dict=self._assets(meta_graph, import_scope))

    def _assets(self, meta_graph: pb.MetaGraphDef, scope: str | None) -> dict[str, str]:
        """The paths of files here, by the names of the tensors that they are fed to."""
        directory = os.path.join(self._export_dir, constants.ASSETS_DIRECTORY)
        definitions = list(meta_graph.asset_file_def)
        if not definitions and constants.ASSETS_KEY in meta_graph.collection_def:
            for packed in meta_graph.collection_def[constants.ASSETS_KEY].any_list.value:
                if packed.type_url == constants.ASSET_TYPE:
                    definitions.append(pb.AssetFileDef.FromString(packed.value))
        return {
            prefixed(each.tensor_info.name, scope): os.path.join(directory, each.filename)
            for each in definitions
        }

    def load(
        self, sess: Any, tags: Iterable[str], import_scope: str | None = None, **saver_kwargs: Any
    ) -> pb.MetaGraphDef:
        """Graph, variables and main operation: as `load`."""
        saver, _ = self.load_graph(sess.graph, tags, import_scope, **saver_kwargs)
        self.restore_variables(sess, saver, import_scope)
        self.run_init_ops(sess, tags, import_scope)
        return self.get_meta_graph_def_from_tags(tags)


def _main_op_name(meta_graph: pb.MetaGraphDef) -> str | None:
    """What to run after the variables are there: one operation.  Raises RuntimeError (more than one)."""
    key = constants.INIT_SIGNATURE
    if key in meta_graph.signature_def:
        return meta_graph.signature_def[key].outputs[key].name
    for key in (constants.MAIN_OP_KEY, constants.LEGACY_INIT_OP_KEY):
        names = (
            meta_graph.collection_def[key].node_list.value
            if key in meta_graph.collection_def
            else ()
        )
        if len(names) > 1:
            raise RuntimeError(
                f"Expected exactly one op in the collection {key} of the SavedModel: {list(names)}"
            )
        if names:
            return names[0]
    return None


def load(
    sess: Any,
    tags: Iterable[str],
    export_dir: Any,
    import_scope: str | None = None,
    **saver_kwargs: Any,
) -> pb.MetaGraphDef:
    """Load a SavedModel into the graph of a session: the nodes, the values of its variables, what its main op does.

    Blocks until they are there.
    tags: those of the graph wanted, all of them.  import_scope: put before the names of its nodes, not of its
    signatures.  saver_kwargs: for `tf.train.import_meta_graph`.  Returns its MetaGraphDef, which has the signatures.
    Raises OSError (no SavedModel there), RuntimeError (no graph has the tags; the session is closed), and what
    importing and restoring do.
    """
    return SavedModelLoader(export_dir).load(sess, tags, import_scope, **saver_kwargs)
