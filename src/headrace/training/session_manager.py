"""SessionManager: a session in which training can begin: restored, initialized, or waited for.

The chief restores the last checkpoint or initializes (`prepare_session`); others wait until the chief has
(`wait_for_session`).  Where the tasks are ours a waiting worker is told as soon as the last variable is initialized
(training.initialized); elsewhere it asks again every `recovery_wait_secs`.
Called by: session creators, supervisors, programs.  Threads: the caller's; Ctrl-C ends a wait.
"""

from __future__ import annotations

import logging
import math
import threading
import time
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from headrace.base import errors
from headrace.client.session import Session
from headrace.codec import protos as pb
from headrace.graph import scopes
from headrace.graph.graph import Graph
from headrace.run.scope import sleep_limit
from headrace.serve.connect.readiness import within
from headrace.training.initialized import InitializedWait

__all__ = ["SessionManager"]

log = logging.getLogger("headrace")


class SessionManager:
    """See the module; one may make any number of sessions, one after another."""

    def __init__(
        self,
        local_init_op: Any = None,
        ready_op: Any = None,
        ready_for_local_init_op: Any = None,
        graph: Graph | None = None,
        recovery_wait_secs: float = 30,
        local_init_run_options: pb.RunOptions | None = None,
        local_init_feed_dict: Mapping[Any, Any] | None = None,
    ) -> None:
        """ready_op, ready_for_local_init_op: see `Scaffold`; without them everything is ready.

        local_init_op: run in every session, restored ones too.  graph: the default one if None.
        recovery_wait_secs: the pause between two questions where nobody tells.  Raises ValueError.
        """
        if ready_for_local_init_op is not None and local_init_op is None:
            raise ValueError(
                "If you pass a ready_for_local_init_op you must also pass a local_init_op , "
                f"ready_for_local_init_op [{ready_for_local_init_op}]"
            )
        self._local_init_op = local_init_op
        self._ready_op = ready_op
        self._ready_for_local_init_op = ready_for_local_init_op
        self._graph = scopes.get_default_graph() if graph is None else graph
        self._recovery_wait_secs = recovery_wait_secs
        self._local_init_run_options = local_init_run_options
        self._local_init_feed_dict = local_init_feed_dict

    # -- the chief ----------------------------------------------------------------------------

    def prepare_session(
        self,
        master: str,
        init_op: Any = None,
        saver: Any = None,
        checkpoint_dir: str | None = None,
        checkpoint_filename_with_path: str | None = None,
        wait_for_checkpoint: bool = False,
        max_wait_secs: float = 7200,
        config: pb.ConfigProto | None = None,
        init_feed_dict: Mapping[Any, Any] | None = None,
        init_fn: Callable[[Any], object] | None = None,
    ) -> Any:
        """A session at `master`, restored by `saver` if there is a checkpoint, else initialized.

        wait_for_checkpoint: for one to appear, `max_wait_secs` at most.  init_fn(session) runs after init_op.
        Raises RuntimeError (nothing to initialize with; something is not initialized after all), ValueError, and
        what the steps raise.
        """
        session, restored = self._restored_session(
            master,
            saver,
            checkpoint_dir,
            checkpoint_filename_with_path,
            wait_for_checkpoint,
            max_wait_secs,
            config,
        )
        try:
            if not restored:
                if init_op is None and not init_fn and self._local_init_op is None:
                    raise RuntimeError(
                        "Model is not initialized and no init_op or init_fn or local_init_op was given"
                    )
                if init_op is not None:
                    session.run(init_op, feed_dict=init_feed_dict)
                if init_fn:
                    init_fn(session)
            ready, why = self._try_local_init(session)
            if not ready:
                raise self._not_ready("model ready for local_init.", init_op, init_fn, why)
            ready, why = self._model_ready(session)
            if not ready:
                raise self._not_ready("model ready. ", init_op, init_fn, why)
        except BaseException:
            _close_quietly(session)
            raise
        return session

    def _not_ready(self, what: str, init_op: Any, init_fn: Any, why: str | None) -> RuntimeError:
        return RuntimeError(
            f"Init operations did not make {what} Init op: {_shown(init_op)}, init fn: {init_fn}, "
            f"local_init_op: {_shown(self._local_init_op)}, error: {why}"
        )

    def recover_session(
        self,
        master: str,
        saver: Any = None,
        checkpoint_dir: str | None = None,
        checkpoint_filename_with_path: str | None = None,
        wait_for_checkpoint: bool = False,
        max_wait_secs: float = 7200,
        config: pb.ConfigProto | None = None,
    ) -> tuple[Any, bool]:
        """A session, and whether a checkpoint was restored and made it ready.  Runs local_init_op, not init_op."""
        session, restored = self._restored_session(
            master,
            saver,
            checkpoint_dir,
            checkpoint_filename_with_path,
            wait_for_checkpoint,
            max_wait_secs,
            config,
        )
        ready, why = self._try_local_init(session)
        if not restored:
            return session, False
        source = checkpoint_dir or checkpoint_filename_with_path
        if not ready:
            log.info(
                "Restoring model from %s did not make model ready for local init: %s", source, why
            )
            return session, False
        ready, why = self._model_ready(session)
        if not ready:
            log.info("Restoring model from %s did not make model ready: %s", source, why)
            return session, False
        log.info("Restored model from %s", source)
        return session, True

    def _restored_session(
        self,
        master: str,
        saver: Any,
        directory: str | None,
        file: str | None,
        wait_for_checkpoint: bool,
        max_wait_secs: float,
        config: Any,
    ) -> tuple[Any, bool]:
        """A new session, and whether a checkpoint was restored into it."""
        session = Session(master, graph=self._graph, config=config)
        if directory and file:
            raise ValueError(
                "Can not provide both checkpoint_dir and checkpoint_filename_with_path. They are "
                f"{directory!r} and {file!r}"
            )
        if not saver or not (directory or file):
            return session, False
        if file:
            saver.restore(session, file)
            return session, True
        from headrace.training.saver.checkpoint_management import get_checkpoint_state

        waited = 0.0
        while True:
            state = get_checkpoint_state(directory)
            if state is not None and state.model_checkpoint_path:
                break
            if not wait_for_checkpoint or waited >= max_wait_secs:
                return session, False
            log.info("Waiting for checkpoint to be available.")
            _pause(self._recovery_wait_secs)
            waited += self._recovery_wait_secs
        saver.restore(session, state.model_checkpoint_path)
        saver.recover_last_checkpoints(state.all_model_checkpoint_paths)
        return session, True

    # -- the others ---------------------------------------------------------------------------

    def wait_for_session(
        self,
        master: str,
        config: pb.ConfigProto | None = None,
        max_wait_secs: float | None = math.inf,
    ) -> Any:
        """A session at `master` once everything is initialized there; runs local_init_op.

        Raises DeadlineExceededError after `max_wait_secs`, naming what is not initialized, and what the steps raise.
        """
        limit_s = math.inf if max_wait_secs is None else max_wait_secs
        until = time.monotonic() + limit_s
        before: _Missing | None = None
        while True:
            session = Session(master, graph=self._graph, config=config)
            try:
                try:
                    with within(until - time.monotonic()):
                        missing = self._missing(session)
                except errors.DeadlineExceededError as error:
                    if before is None or time.monotonic() < until:
                        raise
                    # The last question had too little time for an answer: what the one before it found is why.
                    raise _not_ready_in_time(max_wait_secs, before, master) from error
                if missing is None:
                    return session
                log.info("Waiting for model to be ready: %s", missing.why)
                told = InitializedWait(session, missing.names).wait(until - time.monotonic())
            except BaseException:
                _close_quietly(session)
                raise
            _close_quietly(session)
            left = until - time.monotonic()
            if not told:
                left -= self._recovery_wait_secs
            if left < 0:
                raise _not_ready_in_time(max_wait_secs, missing, master)
            before = missing
            if not told:
                _pause(self._recovery_wait_secs)

    def _missing(self, session: Any) -> _Missing | None:
        """What is not initialized in `session`; None after local_init_op if nothing is."""
        value, why = _not_ready_yet(session, self._ready_for_local_init_op)
        if why is None:
            if self._local_init_op is not None:
                self._run_local_init(session)
            value, why = _not_ready_yet(session, self._ready_op)
        return None if why is None else _Missing(value, why)

    # -- both ---------------------------------------------------------------------------------

    def _model_ready(self, session: Any) -> tuple[bool, str | None]:
        _, why = _not_ready_yet(session, self._ready_op)
        return why is None, why

    def _model_ready_for_local_init(self, session: Any) -> tuple[bool, str | None]:
        _, why = _not_ready_yet(session, self._ready_for_local_init_op)
        return why is None, why

    def _try_local_init(self, session: Any) -> tuple[bool, str | None]:
        """Run local_init_op, if the session is ready for it."""
        if self._local_init_op is None:
            return True, None
        ready, why = self._model_ready_for_local_init(session)
        if ready:
            self._run_local_init(session)
        return ready, why

    def _run_local_init(self, session: Any) -> None:
        log.info("Running local_init_op.")
        session.run(
            self._local_init_op,
            feed_dict=self._local_init_feed_dict,
            options=self._local_init_run_options,
        )
        log.info("Done running local_init_op.")


class _Missing:
    """names: of variables that are not initialized, as far as the ready op says."""

    def __init__(self, names: list[str], why: str) -> None:
        self.names = names
        self.why = why


def _not_ready_in_time(waited_s: float | None, missing: _Missing, master: str) -> errors.OpError:
    return errors.deadline_exceeded(
        f"Session was not ready after waiting {waited_s:g} secs. {missing.why}; the chief, which "
        f"initializes or restores them, has not done so at {master or 'this process'}"
    )


def _not_ready_yet(session: Any, op: Any) -> tuple[list[str], str | None]:
    """What `op` reports in `session`: names, and a sentence; None if all is ready."""
    if op is None:
        return [], None
    try:
        value = session.run(op)
    except errors.FailedPreconditionError as error:
        if "uninitialized" not in str(error):
            log.warning("the ready op failed: %s", error)
            raise
        return [], str(error)
    if value is None or (isinstance(value, np.ndarray) and value.size == 0):
        return [], None
    if np.asarray(value).dtype == np.int32:  # TensorFlow takes any number for: ready
        return [], None
    names = [
        name.decode() if isinstance(name, bytes) else str(name) for name in np.ravel(value).tolist()
    ]
    return names, "Variables not initialized: " + ", ".join(names)


def _shown(op: Any) -> str | None:
    return None if op is None else str(getattr(op, "name", op))


def _pause(seconds: float) -> None:
    """Wait; Ctrl-C ends it."""
    until = time.monotonic() + seconds
    never = threading.Event()
    while (left := until - time.monotonic()) > 0:
        never.wait(min(left, sleep_limit(left) or left))


def _close_quietly(session: Any) -> None:
    try:
        session.close()
    except Exception as error:
        log.debug("ignored while closing a session that was not ready: %s", error)
