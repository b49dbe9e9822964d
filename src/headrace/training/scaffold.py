"""Scaffold: the ops that begin a training, and who saves it; what is not given is made when it is finalized.

Called by: session creators, hooks.  Threads: as the graph's.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from typing import Any

from headrace.graph import scopes
from headrace.graph.collections import GraphKeys
from headrace.library.variables.resource_lists import (
    initialize_resources,
    local_resources,
    report_uninitialized_resources,
    shared_resources,
)
from headrace.library.variables.variable_lists import (
    global_variables,
    global_variables_initializer,
    local_variables_initializer,
    report_uninitialized_variables,
    tables_initializer,
)
from headrace.ops.array.joining import concat
from headrace.ops.flow.identities import group

__all__ = ["Scaffold"]

log = logging.getLogger("headrace")


class Scaffold:
    """What a session needs to begin: see the arguments.  After `finalize` each is there."""

    def __init__(
        self,
        init_op: Any = None,
        init_feed_dict: Mapping[Any, Any] | None = None,
        init_fn: Callable[[Scaffold, Any], object] | None = None,
        ready_op: Any = None,
        ready_for_local_init_op: Any = None,
        local_init_op: Any = None,
        summary_op: Any = None,
        saver: Any = None,
        copy_from_scaffold: Scaffold | None = None,
        local_init_feed_dict: Mapping[Any, Any] | None = None,
    ) -> None:
        """init_op, init_feed_dict, init_fn(scaffold, session): run by a chief that finds no checkpoint.

        ready_op: gives the names of what is not initialized; none means that training can begin.
        ready_for_local_init_op: likewise, of what local_init_op (with local_init_feed_dict) needs.
        summary_op, saver: what hooks write.  copy_from_scaffold: what gives what is None here.  Raises TypeError.
        """
        if copy_from_scaffold is not None and not isinstance(copy_from_scaffold, Scaffold):
            raise TypeError(
                f"copy_from_scaffold is not a Scaffold instance: it is a {type(copy_from_scaffold).__name__}"
            )
        other = copy_from_scaffold

        def chosen(given: Any, name: str) -> Any:
            return getattr(other, name) if given is None and other is not None else given

        self._init_op = chosen(init_op, "init_op")
        self._init_feed_dict = chosen(init_feed_dict, "init_feed_dict")
        self._user_init_fn = chosen(init_fn, "_user_init_fn")
        self._ready_op = chosen(ready_op, "ready_op")
        self._ready_for_local_init_op = chosen(ready_for_local_init_op, "ready_for_local_init_op")
        self._local_init_op = chosen(local_init_op, "local_init_op")
        self._local_init_feed_dict = chosen(local_init_feed_dict, "local_init_feed_dict")
        self._summary_op = chosen(summary_op, "summary_op")
        self._saver = chosen(saver, "saver")

    def finalize(self) -> Scaffold:
        """Make what is missing, have the saver make its nodes, and finalize the graph.

        Raises RuntimeError if a collection has several of what is missing.
        """
        default = Scaffold.get_or_default
        if self._init_op is None:
            self._init_op = default("init_op", GraphKeys.INIT_OP, _default_init_op)
        if self._ready_op is None:
            self._ready_op = default("ready_op", GraphKeys.READY_OP, _default_ready_op)
        if self._ready_for_local_init_op is None:
            self._ready_for_local_init_op = default(
                "ready_for_local_init_op",
                GraphKeys.READY_FOR_LOCAL_INIT_OP,
                _default_ready_for_local_init_op,
            )
        if self._local_init_op is None:
            self._local_init_op = default(
                "local_init_op", GraphKeys.LOCAL_INIT_OP, Scaffold.default_local_init_op
            )
        if self._summary_op is None:
            self._summary_op = default("summary_op", GraphKeys.SUMMARY_OP, _merged_summaries)
        if self._saver is None:
            self._saver = default("saver", GraphKeys.SAVERS, _default_saver)
        self._saver.build()
        scopes.get_default_graph().finalize()
        log.info("Graph was finalized.")
        return self

    @property
    def init_fn(self) -> Callable[[Any], object] | None:
        """Of a session."""
        function = self._user_init_fn
        return None if function is None else lambda session: function(self, session)

    @property
    def init_op(self) -> Any:
        """Run where there is no checkpoint; None until `finalize`, if it was not given."""
        return self._init_op

    @property
    def init_feed_dict(self) -> Any:
        """What `init_op` is fed."""
        return self._init_feed_dict

    @property
    def ready_op(self) -> Any:
        """Gives the names of variables that have no value yet."""
        return self._ready_op

    @property
    def ready_for_local_init_op(self) -> Any:
        """As `ready_op`, of what `local_init_op` needs."""
        return self._ready_for_local_init_op

    @property
    def local_init_op(self) -> Any:
        """Run in every session, after a checkpoint has been restored, too."""
        return self._local_init_op

    @property
    def local_init_feed_dict(self) -> Any:
        """What `local_init_op` is fed."""
        return self._local_init_feed_dict

    @property
    def summary_op(self) -> Any:
        """The merged summaries, a serialized Summary; None if there are none."""
        return self._summary_op

    @property
    def saver(self) -> Any:
        """Of all that is saved, also used for restoring."""
        return self._saver

    @staticmethod
    def get_or_default(
        arg_name: str, collection_key: str, default_constructor: Callable[[], Any]
    ) -> Any:
        """The collection's only item; made and added if it is empty.  Raises RuntimeError if it has several."""
        graph = scopes.get_default_graph()
        found = graph.get_collection(collection_key)
        if len(found) > 1:
            raise RuntimeError(
                f'More than one item in the collection "{collection_key}". Please indicate which one to use by '
                f"passing it to the tf.Scaffold constructor: tf.train.Scaffold({arg_name}=item to use)"
            )
        if found:
            return found[0]
        made = default_constructor()
        if made is not None:
            graph.add_to_collection(collection_key, made)
        return made

    @staticmethod
    def default_local_init_op() -> Any:
        """An op that initializes local variables, tables and local resources."""
        return group(
            local_variables_initializer(),
            tables_initializer(),
            initialize_resources(local_resources()),
        )


def _default_init_op() -> Any:
    initializers = scopes.get_default_graph().get_collection("saved_model_initializers")
    return group(
        global_variables_initializer(), initialize_resources(shared_resources()), *initializers
    )


def _default_ready_op() -> Any:
    return concat([report_uninitialized_variables(), report_uninitialized_resources()], 0)


def _default_ready_for_local_init_op() -> Any:
    return concat(
        [
            report_uninitialized_variables(global_variables()),
            report_uninitialized_resources(shared_resources()),
        ],
        0,
    )


def _merged_summaries() -> Any:
    if not scopes.get_default_graph().get_collection(GraphKeys.SUMMARIES):
        return None
    from headrace.ops.io.summaries import merge_all

    return merge_all()


def _default_saver() -> Any:
    from headrace.training.saver.saver import Saver

    return Saver(sharded=True, allow_empty=True)
