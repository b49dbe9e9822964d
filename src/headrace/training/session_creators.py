"""What makes the sessions of a monitored session, at first and after each failure.

Called by: training.monitored_session.  Threads: the caller's.
"""

from __future__ import annotations

from typing import Any

from headrace.codec import protos as pb
from headrace.graph import scopes
from headrace.training.scaffold import Scaffold
from headrace.training.session_manager import SessionManager

__all__ = ["ChiefSessionCreator", "SessionCreator", "WorkerSessionCreator"]


class SessionCreator:
    """Makes sessions that are ready for training."""

    def create_session(self) -> Any:
        """A `tf.Session`; blocks until it is ready."""
        raise NotImplementedError(
            "create_session is not implemented: a SessionCreator of one's own defines it"
        )


class _ScaffoldSessionCreator(SessionCreator):
    """With a scaffold, finalized before each session."""

    def __init__(
        self, scaffold: Scaffold | None, master: str, config: pb.ConfigProto | None
    ) -> None:
        self._scaffold = scaffold or Scaffold()
        self._session_manager: SessionManager | None = None
        self._master = master
        self._config = config

    def _manager(self) -> SessionManager:
        self._scaffold.finalize()
        if self._session_manager is None:
            self._session_manager = SessionManager(
                local_init_op=self._scaffold.local_init_op,
                local_init_feed_dict=self._scaffold.local_init_feed_dict,
                ready_op=self._scaffold.ready_op,
                ready_for_local_init_op=self._scaffold.ready_for_local_init_op,
                graph=scopes.get_default_graph(),
            )
        return self._session_manager


class ChiefSessionCreator(_ScaffoldSessionCreator):
    """Restores the last checkpoint, or initializes."""

    def __init__(
        self,
        scaffold: Scaffold | None = None,
        master: str = "",
        config: pb.ConfigProto | None = None,
        checkpoint_dir: str | None = None,
        checkpoint_filename_with_path: str | None = None,
    ) -> None:
        """checkpoint_dir: whose last checkpoint is restored; checkpoint_filename_with_path: this one is."""
        super().__init__(scaffold, master, config)
        self._checkpoint_dir = checkpoint_dir
        self._checkpoint_filename_with_path = checkpoint_filename_with_path

    def create_session(self) -> Any:
        """See `SessionManager.prepare_session`."""
        manager = self._manager()
        return manager.prepare_session(
            self._master,
            saver=self._scaffold.saver,
            checkpoint_dir=self._checkpoint_dir,
            checkpoint_filename_with_path=self._checkpoint_filename_with_path,
            config=self._config,
            init_op=self._scaffold.init_op,
            init_feed_dict=self._scaffold.init_feed_dict,
            init_fn=self._scaffold.init_fn,
        )


class WorkerSessionCreator(_ScaffoldSessionCreator):
    """Waits until the chief has."""

    def __init__(
        self,
        scaffold: Scaffold | None = None,
        master: str = "",
        config: pb.ConfigProto | None = None,
        max_wait_secs: float = 30 * 60,
    ) -> None:
        """max_wait_secs: how long one session is waited for."""
        super().__init__(scaffold, master, config)
        self._max_wait_secs = max_wait_secs

    def create_session(self) -> Any:
        """See `SessionManager.wait_for_session`."""
        manager = self._manager()
        return manager.wait_for_session(
            self._master, config=self._config, max_wait_secs=self._max_wait_secs
        )
