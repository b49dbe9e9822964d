"""Supervisor: a training's session, its threads, checkpoints and summaries, from one object.

What monitored sessions do with hooks it does with threads: each service (summaries, steps a second, checkpoints) has
one and works every so often (training.supervisor_services).
Called by: programs.  Threads: the caller's; services and queue runners have theirs, which `stop` waits for.
"""

from __future__ import annotations

import logging
import os
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, ClassVar

from headrace.base import errors
from headrace.base.traits import VARIABLE
from headrace.codec import protos as pb
from headrace.graph import scopes
from headrace.graph.collections import GraphKeys
from headrace.graph.graph import Graph
from headrace.library.variables.variable_lists import (
    global_variables,
    global_variables_initializer,
    local_variables_initializer,
    report_uninitialized_variables,
    tables_initializer,
)
from headrace.ops.flow.identities import group
from headrace.training.coordinator import Coordinator, LooperThread
from headrace.training.global_step import global_step as value_of_step
from headrace.training.hooks.files import add_graphs, write_graph_text
from headrace.training.session_manager import SessionManager

__all__ = ["Supervisor", "basic_train_loop"]

log = logging.getLogger("headrace")


class Supervisor:
    """See the module."""

    USE_DEFAULT: ClassVar[int] = 0

    def __init__(
        self,
        graph: Graph | None = None,
        ready_op: Any = USE_DEFAULT,
        ready_for_local_init_op: Any = USE_DEFAULT,
        is_chief: bool = True,
        init_op: Any = USE_DEFAULT,
        init_feed_dict: Mapping[Any, Any] | None = None,
        local_init_op: Any = USE_DEFAULT,
        logdir: str | None = None,
        summary_op: Any = USE_DEFAULT,
        saver: Any = USE_DEFAULT,
        global_step: Any = USE_DEFAULT,
        save_summaries_secs: float = 120,
        save_model_secs: float = 600,
        recovery_wait_secs: float = 30,
        stop_grace_secs: float = 120,
        checkpoint_basename: str = "model.ckpt",
        session_manager: SessionManager | None = None,
        summary_writer: Any = USE_DEFAULT,
        init_fn: Callable[[Any], object] | None = None,
        local_init_run_options: pb.RunOptions | None = None,
    ) -> None:
        """Ops that are USE_DEFAULT come from the graph's collections, or are made; the graph is finalized.

        logdir: of checkpoints and summaries, which only a chief has.  0 seconds turn a service off.
        Raises ValueError: a variable without a device, on a worker.
        """
        self._graph = scopes.get_default_graph() if graph is None else graph
        self._is_chief = is_chief
        with self._graph.as_default():
            self._ready_op = self._given_or(ready_op, _default_ready_op)
            self._ready_for_local_init_op = self._given_or(
                ready_for_local_init_op, lambda: _first(GraphKeys.READY_FOR_LOCAL_INIT_OP)
            )
            self._init_op = self._given_or(init_op, _default_init_op)
            self._init_feed_dict = init_feed_dict
            self._local_init_op = self._given_or(local_init_op, _default_local_init_op)
            self._saver = self._given_or(saver, _default_saver)
            self._summary_op = self._given_or(summary_op, _default_summary_op)
            self._global_step = self._given_or(global_step, _default_global_step)
        self._coord = Coordinator()
        self._graph_written = False
        self._recovery_wait_secs = recovery_wait_secs
        self._stop_grace_secs = stop_grace_secs
        self._init_fn = init_fn
        self._local_init_run_options = local_init_run_options
        self._logdir = logdir if is_chief else None
        self._save_path = os.path.join(logdir, checkpoint_basename) if is_chief and logdir else None
        self._save_summaries_secs = save_summaries_secs if is_chief else None
        self._save_model_secs = save_model_secs if is_chief else None
        self._summary_writer = (
            self._given_or(summary_writer, self._default_writer) if is_chief else None
        )
        self._session_manager = session_manager or self._own_manager()
        self._verify()
        self._graph.finalize()

    def _own_manager(self) -> SessionManager:
        return SessionManager(
            local_init_op=self._local_init_op,
            ready_op=self._ready_op,
            ready_for_local_init_op=self._ready_for_local_init_op,
            graph=self._graph,
            recovery_wait_secs=self._recovery_wait_secs,
            local_init_run_options=self._local_init_run_options,
        )

    @staticmethod
    def _given_or(value: Any, default: Callable[[], Any]) -> Any:
        unset = isinstance(value, int) and value == Supervisor.USE_DEFAULT
        return default() if unset else value

    def _default_writer(self) -> Any:
        if not self._logdir:
            return None
        from headrace.training.summary_writer import FileWriter

        return FileWriter(self._logdir)

    def _verify(self) -> None:
        if self._is_chief:
            return
        for op in self._graph.get_operations():
            if VARIABLE in op.traits and not op.device:
                raise ValueError(
                    f"When using replicas, all Variables must have their device set: {op.name!r} has none; "
                    "tf.train.replica_device_setter sets them"
                )

    # -- what it was made of ------------------------------------------------------------------

    @property
    def is_chief(self) -> bool:
        """Whether this process initializes, saves and summarizes."""
        return self._is_chief

    @property
    def session_manager(self) -> SessionManager:
        """What makes its sessions."""
        return self._session_manager

    @property
    def coord(self) -> Coordinator:
        """What stops its threads."""
        return self._coord

    @property
    def init_op(self) -> Any:
        """Run by the chief where there is no checkpoint."""
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
        """As `ready_op`, of what is to be there before local variables are initialized."""
        return self._ready_for_local_init_op

    @property
    def summary_writer(self) -> Any:
        """Of the chief; None without a directory."""
        return self._summary_writer

    @property
    def summary_op(self) -> Any:
        """What the chief's thread runs for summaries; None if nothing is to."""
        return self._summary_op

    @property
    def save_summaries_secs(self) -> Any:
        """Seconds between summaries; 0 for none."""
        return self._save_summaries_secs

    @property
    def global_step(self) -> Any:
        """The tensor or variable; None if there is none."""
        return self._global_step

    @property
    def saver(self) -> Any:
        """None if nothing is saved."""
        return self._saver

    @property
    def save_model_secs(self) -> Any:
        """Seconds between checkpoints; 0 for none."""
        return self._save_model_secs

    @property
    def save_path(self) -> Any:
        """Prefix of the checkpoints; None without a directory."""
        return self._save_path

    # -- sessions and services ----------------------------------------------------------------

    def prepare_or_wait_for_session(
        self,
        master: str = "",
        config: pb.ConfigProto | None = None,
        wait_for_checkpoint: bool = False,
        max_wait_secs: float = 7200,
        start_standard_services: bool = True,
    ) -> Any:
        """A session that is ready: prepared by the chief, waited for by others; then services and queue runners."""
        self._coord.clear_stop()
        if self._summary_writer:
            self._summary_writer.reopen()
        if self._is_chief:
            session = self._session_manager.prepare_session(
                master,
                init_op=self._init_op,
                saver=self._saver,
                checkpoint_dir=self._logdir,
                wait_for_checkpoint=wait_for_checkpoint,
                max_wait_secs=max_wait_secs,
                config=config,
                init_feed_dict=self._init_feed_dict,
                init_fn=self._init_fn,
            )
            self._write_graph()
            if start_standard_services:
                log.info("Starting standard services.")
                self.start_standard_services(session)
        else:
            session = self._session_manager.wait_for_session(
                master, config=config, max_wait_secs=max_wait_secs
            )
        if start_standard_services:
            log.info("Starting queue runners.")
            self.start_queue_runners(session)
        return session

    def _write_graph(self) -> None:
        if self._logdir:
            write_graph_text(self._graph, self._logdir)
        if self._summary_writer and not self._graph_written:
            with self._graph.as_default():
                add_graphs(self._summary_writer, self._graph, self._saver)
            self._graph_written = True

    def start_standard_services(self, sess: Any) -> list[threading.Thread] | None:
        """Start the threads that write summaries, steps a second and checkpoints.

        None without a logdir.  Raises RuntimeError if this is not the chief.
        """
        from headrace.training import supervisor_services as services

        if not self._is_chief:
            raise RuntimeError(
                "Only chief supervisor can start standard services. Because only chief supervisors can write events: "
                "pass is_chief=True to the one that does"
            )
        if not self._logdir:
            log.warning(
                "Standard services need a 'logdir' passed to the Supervisor: none is started"
            )
            return None
        writer, step = self._summary_writer, self._global_step
        if step is not None and writer:
            writer.add_session_log(
                pb.SessionLog(status=pb.SessionLog.START), value_of_step(sess, step)
            )
        threads: list[threading.Thread] = []
        if self._save_summaries_secs and writer:
            if self._summary_op is not None:
                threads.append(services.SummaryThread(self, sess))
            if step is not None:
                threads.append(services.StepCounterThread(self, sess))
        if self._saver and self._save_model_secs:
            threads.append(services.CheckpointThread(self, sess))
        for thread in threads:
            thread.start()
        return threads

    @contextmanager
    def managed_session(
        self,
        master: str = "",
        config: pb.ConfigProto | None = None,
        start_standard_services: bool = True,
        close_summary_writer: bool = True,
    ) -> Iterator[Any]:
        """A session, ready as `prepare_or_wait_for_session` makes it; on leaving, threads are stopped and waited for,
        and their errors and the block's are raised, but for OutOfRangeError.
        """
        session = None
        try:
            session = self.prepare_or_wait_for_session(
                master=master, config=config, start_standard_services=start_standard_services
            )
            yield session
        except Exception as error:
            self.request_stop(error)
        finally:
            try:
                self.stop(close_summary_writer=close_summary_writer)
            finally:
                try:
                    if session is not None:
                        session.close()
                except Exception as error:
                    log.debug("ignored while closing a session: %s", error)

    def start_queue_runners(
        self, sess: Any, queue_runners: Sequence[Any] | None = None
    ) -> list[threading.Thread]:
        """Start the threads of `queue_runners`, of all in the graph's collection if None."""
        if queue_runners is None:
            queue_runners = self._graph.get_collection(GraphKeys.QUEUE_RUNNERS)
        return [
            thread
            for runner in queue_runners
            for thread in runner.create_threads(sess, coord=self._coord, daemon=True, start=True)
        ]

    def loop(
        self,
        timer_interval_secs: float | None,
        target: Callable[..., object],
        args: Sequence[Any] | None = None,
        kwargs: Mapping[str, Any] | None = None,
    ) -> LooperThread:
        """Start a thread that calls `target` every so often until the stop."""
        looper = LooperThread(
            self._coord,
            timer_interval_secs,
            target=target,
            args=args,
            kwargs=None if kwargs is None else dict(kwargs),
        )
        looper.start()
        return looper

    def stop(
        self,
        threads: Sequence[threading.Thread] | None = None,
        close_summary_writer: bool = True,
        ignore_live_threads: bool = False,
    ) -> None:
        """Ask all threads to stop and wait for them; raises what they reported."""
        self._coord.request_stop()
        try:
            self._coord.join(
                threads,
                stop_grace_period_secs=self._stop_grace_secs,
                ignore_live_threads=ignore_live_threads,
            )
        finally:
            if close_summary_writer and self._summary_writer:
                self._summary_writer.add_session_log(pb.SessionLog(status=pb.SessionLog.STOP))
                self._summary_writer.close()
                self._graph_written = False

    def request_stop(self, ex: Any = None) -> None:
        """See `Coordinator.request_stop`."""
        self._coord.request_stop(ex=ex)

    def should_stop(self) -> bool:
        """Whether a stop was asked for."""
        return self._coord.should_stop()

    def stop_on_exception(self) -> Any:
        """See `Coordinator.stop_on_exception`."""
        return self._coord.stop_on_exception()

    def wait_for_stop(self) -> None:
        """Block until a stop is asked for."""
        self._coord.wait_for_stop()

    def summary_computed(self, sess: Any, summary: Any, global_step: int | None = None) -> None:
        """Write a serialized Summary.  Raises TypeError or RuntimeError if there is no writer."""
        if not self._summary_writer:
            raise RuntimeError(
                "Writing a summary requires a summary writer. Give the Supervisor a logdir, and make it the chief"
            )
        if global_step is None and self._global_step is not None:
            global_step = value_of_step(sess, self._global_step)
        self._summary_writer.add_summary(summary, global_step)

    Loop = loop
    PrepareSession = prepare_or_wait_for_session
    RequestStop = request_stop
    ShouldStop = should_stop
    StartQueueRunners = start_queue_runners
    StartStandardServices = start_standard_services
    Stop = stop
    StopOnException = stop_on_exception
    SummaryComputed = summary_computed
    WaitForStop = wait_for_stop


def _first(key: str) -> Any:
    """The first item of a collection, or None."""
    found = scopes.get_default_graph().get_collection(key)
    if len(found) > 1:
        log.info("Found %d %s operations. Returning the first one.", len(found), key)
    return found[0] if found else None


def _first_or(key: str, make: Callable[[], Any]) -> Any:
    found = _first(key)
    if found is None:
        found = make()
        if found is not None:
            scopes.get_default_graph().add_to_collection(key, found)
    return found


def _default_ready_op() -> Any:
    return _first_or(GraphKeys.READY_OP, report_uninitialized_variables)


def _default_init_op() -> Any:
    return _first_or(GraphKeys.INIT_OP, global_variables_initializer)


def _default_local_init_op() -> Any:
    return _first_or(
        GraphKeys.LOCAL_INIT_OP, lambda: group(local_variables_initializer(), tables_initializer())
    )


def _default_saver() -> Any:
    def make() -> Any:
        if not global_variables():
            return None
        from headrace.training.saver.saver import Saver

        return Saver()

    return _first_or(GraphKeys.SAVERS, make)


def _default_summary_op() -> Any:
    def make() -> Any:
        if not scopes.get_default_graph().get_collection(GraphKeys.SUMMARIES):
            return None
        from headrace.ops.io.summaries import merge_all

        return merge_all()

    return _first_or(GraphKeys.SUMMARY_OP, make)


def _default_global_step() -> Any:
    def make() -> Any:
        try:
            step = scopes.get_default_graph().get_tensor_by_name("global_step:0")
        except KeyError:
            return None
        if step.dtype.base_dtype.name in ("int32", "int64"):
            return step
        log.warning("Found 'global_step' is not an int type: %s", step.dtype)
        return None

    return _first_or(GraphKeys.GLOBAL_STEP, make)


def basic_train_loop(
    supervisor: Supervisor,
    train_step_fn: Callable[..., object],
    args: Sequence[Any] | None = None,
    kwargs: Mapping[str, Any] | None = None,
    master: str = "",
) -> None:
    """Call `train_step_fn(session, *args, **kwargs)` until the supervisor stops; anew after an AbortedError."""
    again = True
    while again:
        try:
            again = False
            with supervisor.managed_session(master) as session:
                while not supervisor.should_stop():
                    train_step_fn(session, *(args or ()), **(kwargs or {}))
        except errors.AbortedError as error:
            log.info("a task was lost; the session is made again. Error: %s", error)
            again = True
