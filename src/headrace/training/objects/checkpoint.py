"""tf.train.Checkpoint: saves objects, and restores them by the names that they have in each other.

Called by: programs, training.objects.manager.  Threads: one checkpoint one at a time; a save blocks until it is on the
disk.  Files are those of the tasks that hold the variables, and of the calling process, as with a saver.
Source: TF 1.15 and 2.21 behaviour of tf.train.Checkpoint in graphs; nodes and files checked against the oracle
"""

from __future__ import annotations

import os
from typing import Any

from headrace.base import dtypes, text
from headrace.codec import protos as pb
from headrace.graph import scopes
from headrace.graph.convert import convert
from headrace.graph.graph import Graph
from headrace.graph.tensor import Tensor
from headrace.library.tracking.containers import AutoTrackable, wrapped
from headrace.library.tracking.trackable import Trackable
from headrace.library.variables.variables import Variable
from headrace.training import gfile
from headrace.training.objects.nodes import saving, text_on_cpu
from headrace.training.objects.object_graph import ObjectGraph
from headrace.training.objects.restoring import LoadedCheckpoint, Made, Position
from headrace.training.objects.status import (
    CheckpointLoadStatus,
    InitializationOnlyStatus,
    NameBasedSaverStatus,
    Status,
    session_or_default,
)
from headrace.training.saver.checkpoint_management import write_checkpoint_state
from headrace.training.saver.checkpoint_readers import NewCheckpointReader
from headrace.training.saver.saveables import CPU, SaveableObject, SaveSpec
from headrace.training.saver.saved_objects import GRAPH_KEY, objects_in

__all__ = ["Checkpoint"]


class _Nodes:
    """What a checkpoint has built in one graph."""

    def __init__(self, graph: Graph) -> None:
        self.graph = graph
        self.objects: Tensor | None = None  # fed the description of the objects
        self.save_prefix: Tensor | None = None
        self.saved: Tensor | None = None
        self.saved_as: pb.TrackableObjectGraph | None = None
        self.restore_prefix: Tensor | None = None
        self.restored: Made = {}


class Checkpoint(AutoTrackable):
    """A group of objects; those that are set as its attributes, and what they are made of, are saved."""

    def __init__(self, **kwargs: Any) -> None:
        """Sets attributes.  Raises ValueError for what cannot be saved."""
        super().__init__()
        self._self_nodes: _Nodes | None = None
        self._self_counter: Variable | None = None
        self._self_counted: Any = None
        for name, value in sorted(kwargs.items()):
            child = wrapped(value)
            if not isinstance(child, Trackable):
                raise ValueError(
                    f"`Checkpoint` was expecting a trackable object (an object derived from `Trackable`), got {value}: "
                    "variables, optimizers, layers, other checkpoints, lists and dicts of them are; a tensor is not"
                )
            setattr(self, name, child)

    @property
    def save_counter(self) -> Variable:
        """How often `save` was called: a variable, made when it is first asked for, and saved with the others."""
        if self._self_counter is None:
            with scopes.get_default_graph().device(CPU):
                counter = Variable(
                    lambda: convert(0, dtypes.int64, "initial_value"),
                    trainable=False,
                    name="save_counter",
                    dtype=dtypes.int64,
                    use_resource=True,
                )
            self._self_counter = counter
            self._track_trackable(counter, "save_counter")
        return self._self_counter

    def _nodes(self) -> _Nodes:
        graph = scopes.get_default_graph()
        if self._self_nodes is None or self._self_nodes.graph is not graph:
            self._self_nodes = _Nodes(graph)
        return self._self_nodes

    # -- saving -----------------------------------------------------------------------------------

    def write(self, file_prefix: Any, session: Any = None) -> str:
        """Save to ``file_prefix``, without a number; gives that name.

        session: the default one unless given.  Directories are made where they are missing.
        Raises TypeError, ValueError (no session, objects that cannot be saved), RuntimeError (nodes are to be added to
        a graph that is final), and what the step does.
        """
        session = session_or_default(session)
        path = os.fsdecode(file_prefix)
        directory = os.path.dirname(path)
        if directory:
            gfile.MakeDirs(directory)
        nodes = self._nodes()
        if nodes.objects is None or nodes.save_prefix is None:
            nodes.objects, nodes.save_prefix = text_on_cpu(""), text_on_cpu("")
        message, saveables = ObjectGraph(self).described()
        if nodes.saved is None or nodes.saved_as != message:
            described = SaveSpec(nodes.objects, "", GRAPH_KEY, dtypes.string, CPU)
            whole = SaveableObject(nodes.objects, [described], GRAPH_KEY)
            nodes.saved, nodes.saved_as = saving(nodes.save_prefix, [*saveables, whole]), message
        fed = {
            nodes.save_prefix: path,
            nodes.objects: message.SerializeToString(deterministic=True),
        }
        return str(text.as_str_any(session.run(nodes.saved, fed)))

    def save(self, file_prefix: Any, session: Any = None) -> str:
        """Save to ``file_prefix-N``, N counting the saves, and note it as the latest; gives that name.

        Raises what `write` does.
        """
        session = session_or_default(session)
        path = os.fsdecode(file_prefix)
        if self._self_counter is None:
            session.run(self.save_counter.initializer)
        if self._self_counted is None:
            counter = self.save_counter
            with counter.graph.colocate_with(counter.op):
                self._self_counted = counter.assign_add(1)
        number = session.run(self._self_counted)
        written = self.write(f"{path}-{number}", session)
        write_checkpoint_state(os.path.dirname(path), written, [written], None, True)
        return written

    # -- restoring --------------------------------------------------------------------------------

    def restore(self, save_path: Any) -> Status:
        """Have objects take the values of a checkpoint, those that come later too; what is given says how it went.

        Nothing is changed before `run_restore_ops` or `initialize_or_restore` of that is called.  save_path: as `save`
        gave it; None to only initialize.  A checkpoint that a saver wrote is restored by the variables' names.
        Raises NotFoundError (no such checkpoint), DataLossError.
        """
        status = self._restored(save_path)
        counter = self.save_counter
        if isinstance(status, NameBasedSaverStatus):
            status.add_to_optionally_restored(counter)
        return status

    def _restored(self, save_path: Any) -> Status:
        if save_path is None:
            return InitializationOnlyStatus(self)
        path = text.path_to_str(save_path)
        reader = NewCheckpointReader(path)
        objects = objects_in(reader, path)
        if objects is None:
            return NameBasedSaverStatus(path, set(reader.get_variable_to_shape_map()), self)
        nodes = self._nodes()
        if nodes.restore_prefix is None:
            nodes.restore_prefix = text_on_cpu("model")
        checkpoint = LoadedCheckpoint(objects, path, nodes.restore_prefix, nodes.restored)
        Position(checkpoint, 0).restore(self)
        return CheckpointLoadStatus(checkpoint, self)
