"""Waiting until somebody else has initialized variables: a step that ends when the last of them has a value.

It runs in a session and a graph of its own, since the caller's graph is finalized: the nodes of the variables, by the
names and on the devices that they have there, are the same variables.  A task that is lost ends the wait with an error.
Called by: training.session_manager.  Threads: the caller's.
"""

from __future__ import annotations

import logging
import math
from typing import Any

from headrace.base import errors
from headrace.base.traits import VAR_HANDLE, VARIABLE
from headrace.client.session import Session
from headrace.codec import protos as pb
from headrace.graph.graph import Graph, Operation
from headrace.graph.graphdef import import_graph_def
from headrace.graph.registry import get as op_spec
from headrace.ops.flow.identities import group

__all__ = ["InitializedWait"]

log = logging.getLogger("headrace")

_NOBODY_TELLS = (
    errors.NotFoundError,
    errors.InvalidArgumentError,
    errors.UnimplementedError,
    errors.InternalError,
)
"""Errors of tasks that do not know the op: TensorFlow's."""


class InitializedWait:
    """For variables of a session's graph, by the names of their nodes."""

    def __init__(self, session: Any, names: list[str]) -> None:
        self._session = session
        self._nodes = _variables(session.graph, names)

    def wait(self, timeout_s: float) -> bool:
        """Block until they are initialized, or the time is up; then True.  False, at once, where nobody can tell:
        in a session that shares its variables with nobody, at TensorFlow's tasks, of what is no variable.

        Raises what loses a task.
        """
        if not self._nodes or not self._session.sess_str:
            return False
        graph = Graph()
        with graph.as_default():
            done = _awaiting(self._nodes)
        options = None
        if math.isfinite(timeout_s):
            options = pb.RunOptions(timeout_in_ms=max(1, int(timeout_s * 1000)))
        with Session(self._session.sess_str, graph=graph, config=self._session._config) as session:
            try:
                session.run(done, options=options)
            except errors.DeadlineExceededError:
                pass
            except _NOBODY_TELLS as error:
                log.debug("nobody tells when variables are initialized: %s", error)
                return False
        return True


def _variables(graph: Graph, names: list[str]) -> list[Operation]:
    """The nodes of that name, [] if one is no variable."""
    found = []
    for name in names:
        try:
            op = graph.get_operation_by_name(name)
        except (KeyError, ValueError):
            return []
        if not op.traits & {VARIABLE, VAR_HANDLE}:
            return []
        found.append(op)
    return found


def _awaiting(nodes: list[Operation]) -> Operation:
    """An op of the default graph that is done when all `nodes`, copied there, are initialized."""
    proto = pb.GraphDef()
    for op in nodes:
        node = proto.node.add()
        node.CopyFrom(op.node_def)
        del node.input[:]
        node.attr.pop("_class", None)  # what it stood beside is not there
    variables = import_graph_def(proto, name="", return_elements=[op.name for op in nodes])
    waits = []
    for variable in variables or ():
        kind = (
            "HeadraceAwaitInitialized"
            if VARIABLE in variable.traits
            else "HeadraceAwaitVarInitialized"
        )
        with variable.graph.colocate_with(variable):
            waits.append(op_spec(kind)(variable.outputs[0]).op)
    return group(*waits)
