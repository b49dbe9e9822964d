"""Hooks that save checkpoints: every so often, at the end, and when the process is told to go.

Called by: programs, monitored sessions.
Threads: the caller's; with `in_background` one thread of the hook's own saves while steps go on, never more than one
checkpoint at a time.  What it raises is raised by the next step.
"""

from __future__ import annotations

import logging
import os
import signal
import threading
import weakref
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from headrace.codec import protos as pb
from headrace.graph import scopes
from headrace.training.hooks.files import add_graphs, the_saver, write_graph_text, writer_of
from headrace.training.hooks.protocol import SessionRunArgs, SessionRunHook
from headrace.training.hooks.resting import Rest
from headrace.training.hooks.steps import SecondOrStepTimer, next_due, step_read_for

if TYPE_CHECKING:
    from headrace.training.scaffold import Scaffold

__all__ = ["CheckpointSaverHook", "CheckpointSaverListener", "SaveOnSigtermHook"]

log = logging.getLogger("headrace")


class CheckpointSaverListener:
    """Is told of a CheckpointSaverHook's saves; override what is needed."""

    def begin(self) -> None:
        """Called by the hook's `begin`."""

    def before_save(self, session: Any, global_step_value: int) -> None:
        """A checkpoint is about to be saved."""

    def after_save(self, session: Any, global_step_value: int) -> bool | None:
        """It was saved; True asks for the end of the training."""
        return None

    def end(self, session: Any, global_step_value: int) -> None:
        """The last checkpoint is there."""


class CheckpointSaverHook(SessionRunHook):
    """Saves when a session begins, every `save_steps` steps or `save_secs` seconds, and at the end."""

    def __init__(
        self,
        checkpoint_dir: str,
        save_secs: float | None = None,
        save_steps: int | None = None,
        saver: Any = None,
        checkpoint_basename: str = "model.ckpt",
        scaffold: Scaffold | None = None,
        listeners: Sequence[CheckpointSaverListener] | None = None,
        save_graph_def: bool = True,
        *,
        in_background: bool = False,
    ) -> None:
        """saver, scaffold: what saves; without either, the saver of the graph's collection.

        save_graph_def: write graph.pbtxt, the meta graph of each checkpoint too.
        in_background: steps go on while a checkpoint is written, so it may hold the effects of steps later than its
        number; what is due meanwhile waits until it is there.  The first and the last are waited for.
        Raises ValueError.
        """
        log.info("Create CheckpointSaverHook.")
        if saver is not None and scaffold is not None:
            raise ValueError("You cannot provide both saver and scaffold. The scaffold has its own")
        self._saver = saver
        self._checkpoint_dir = checkpoint_dir
        self._save_path = os.path.join(checkpoint_dir, checkpoint_basename)
        self._scaffold = scaffold
        self._timer = SecondOrStepTimer(every_secs=save_secs, every_steps=save_steps)
        self._listeners = list(listeners or ())
        self._steps_per_run = 1
        self._save_graph_def = save_graph_def
        self._background = _Background() if in_background else None
        self._writer: Any = None
        self._read: Any = None
        self._args: SessionRunArgs | None = None

    def _set_steps_per_run(self, steps_per_run: int) -> None:
        """By how much a call of `run` raises the step."""
        self._steps_per_run = steps_per_run

    def begin(self) -> None:
        """Raises RuntimeError if there is no global step."""
        self._writer = writer_of(self._checkpoint_dir)
        self._read = step_read_for("CheckpointSaverHook")
        self._args = SessionRunArgs(self._read)
        for listener in self._listeners:
            listener.begin()

    def after_create_session(self, session: Any, coord: Any) -> None:
        """Write the graph, and the first checkpoint: what the session begins with."""
        if self._background is not None:
            self._background.forget()
        step = session.run(self._read)
        graph = scopes.get_default_graph()
        if self._save_graph_def:
            write_graph_text(graph, self._checkpoint_dir)
        add_graphs(self._writer, graph, self._get_saver())
        self._save(session, step)
        self._timer.update_last_triggered_step(step)

    def before_run(self, run_context: Any) -> SessionRunArgs | None:
        """Fetch the step."""
        return self._args

    def after_run(self, run_context: Any, run_values: Any) -> None:
        """Save if it is due.  Raises what the saver raises; in the background, what the last save raised."""
        background = self._background
        if background is not None and background.ended() and background.result():
            run_context.request_stop()
        if not self._timer.should_trigger_for_step(run_values.results + self._steps_per_run):
            return
        if background is not None and background.busy():
            return
        step = run_context.session.run(self._read)
        if not self._timer.should_trigger_for_step(step):
            return
        self._timer.update_last_triggered_step(step)
        if background is not None:
            background.start(lambda: self._save(run_context.session, step))
        elif self._save(run_context.session, step):
            run_context.request_stop()

    _rests_from = (before_run, after_run)

    def _rest(self) -> Rest | None:
        due = next_due(self._timer)
        if due is None or (self._background is not None and self._background.begun()):
            return None
        return Rest(self._args, self._read, due[0] - self._steps_per_run, after_s=due[1])

    def _rested(self, runs: int, stale: Any) -> None:
        """Nothing is counted."""

    def end(self, session: Any) -> None:
        """Save what was not saved yet."""
        if self._background is not None:
            self._background.result()
        step = session.run(self._read)
        if step != self._timer.last_triggered_step():
            self._save(session, step)
        for listener in self._listeners:
            listener.end(session, step)

    def _save(self, session: Any, step: int) -> bool:
        """Save; whether a listener asks for the end."""
        log.info("Calling checkpoint listeners before saving checkpoint %d...", step)
        for listener in self._listeners:
            listener.before_save(session, step)
        log.info("Saving checkpoints for %d into %s.", step, self._save_path)
        self._get_saver().save(
            session, self._save_path, global_step=step, write_meta_graph=self._save_graph_def
        )
        self._writer.add_session_log(
            pb.SessionLog(status=pb.SessionLog.CHECKPOINT, checkpoint_path=self._save_path), step
        )
        log.info("Calling checkpoint listeners after saving checkpoint %d...", step)
        stop = False
        for listener in self._listeners:
            if listener.after_save(session, step):
                log.info(
                    "A CheckpointSaverListener requested that training be stopped. listener: %s",
                    listener,
                )
                stop = True
        return stop

    def _get_saver(self) -> Any:
        if self._saver is None:
            self._saver = (
                self._scaffold.saver
                if self._scaffold is not None
                else the_saver("CheckpointSaverHook")
            )
        return self._saver


class _Background:
    """One save at a time, in a thread that ends with it."""

    def __init__(self) -> None:
        self._thread: threading.Thread | None = None
        self._stop = False
        self._error: BaseException | None = None

    def start(self, save: Any) -> None:
        """Begin; nothing may be under way."""
        self._stop, self._error = False, None
        self._thread = threading.Thread(
            target=self._run, args=(save, scopes.get_default_graph()), name="CheckpointSaverHook"
        )
        self._thread.start()

    def _run(self, save: Any, graph: Any) -> None:
        try:
            with graph.as_default():
                self._stop = save()
        except BaseException as error:  # the boundary of the thread: `result` raises it
            self._error = error

    def begun(self) -> bool:
        """Whether there is a save, or the result of one that nobody has taken."""
        return self._thread is not None

    def busy(self) -> bool:
        return self._thread is not None and self._thread.is_alive()

    def ended(self) -> bool:
        """Whether there is a result that nobody has taken."""
        return self._thread is not None and not self._thread.is_alive()

    def result(self) -> bool:
        """Wait for the save and say what it gave, False if there is none; raises what it raised."""
        thread, self._thread = self._thread, None
        if thread is None:
            return False
        while thread.is_alive():
            thread.join(0.1)  # so that Ctrl-C ends the wait
        error, self._error = self._error, None
        if error is not None:
            raise error
        return self._stop

    def forget(self) -> None:
        """Wait for what is under way in a session that has gone; it fails there."""
        try:
            self.result()
        except Exception as error:
            log.info(
                "a checkpoint that was being written when its session ended is not there: %s", error
            )


class SaveOnSigtermHook(SessionRunHook):
    """SIGTERM ends the training after the step that runs, with a checkpoint; on any task.

    The first SIGTERM does; a second one is as if the hook were not there, and so is one before the first session, when
    there is nothing to save.  Made for the main thread: it is where Python handles signals.
    """

    def __init__(
        self,
        checkpoint_dir: str,
        saver: Any = None,
        checkpoint_basename: str = "model.ckpt",
        scaffold: Scaffold | None = None,
        *,
        save: bool = True,
    ) -> None:
        """save: False where a CheckpointSaverHook saves at the end anyway."""
        self._checkpoint_dir = checkpoint_dir
        self._save_path = os.path.join(checkpoint_dir, checkpoint_basename)
        self._saver = saver
        self._scaffold = scaffold
        self._save = save
        self._read: Any = None
        self._has_session = False
        self._told = threading.Event()
        self._before: Any = None
        self._installed: Any = None

    def begin(self) -> None:
        """Raises RuntimeError without a global step, ValueError outside the main thread."""
        self._read = step_read_for("SaveOnSigtermHook")
        self._before = signal.getsignal(signal.SIGTERM)
        self._installed = _handler(weakref.ref(self), self._before)
        signal.signal(signal.SIGTERM, self._installed)

    def after_create_session(self, session: Any, coord: Any) -> None:
        """From now on steps are lost that are not saved."""
        self._has_session = True

    def after_run(self, run_context: Any, run_values: Any) -> None:
        """Save and ask for the end, if told to."""
        if not self._told.is_set():
            return
        log.warning("SIGTERM: the training ends here")
        if self._save:
            self._save_now(run_context.session)
        self._uninstall()
        run_context.request_stop()

    def end(self, session: Any) -> None:
        """Leave SIGTERM to whom it belonged."""
        self._uninstall()

    def _save_now(self, session: Any) -> None:
        from headrace.training.saver.checkpoint_management import get_checkpoint_state

        saver = self._saver or (self._scaffold.saver if self._scaffold else None)
        if saver is None:
            saver = the_saver("SaveOnSigtermHook")
        state = get_checkpoint_state(self._checkpoint_dir)
        if state is not None:  # of another task: its checkpoints stay listed
            saver.recover_last_checkpoints(state.all_model_checkpoint_paths)
        step = session.run(self._read)
        path = saver.save(session, self._save_path, global_step=step)
        log.warning("SIGTERM: step %d is saved in %s", step, path)

    def _uninstall(self) -> None:
        if self._installed is not None and signal.getsignal(signal.SIGTERM) is self._installed:
            signal.signal(signal.SIGTERM, self._before)
        self._installed = None


def _handler(hook: weakref.ref[SaveOnSigtermHook], before: Any) -> Any:
    def told(number: int, frame: Any) -> None:
        there = hook()
        if there is not None and there._has_session and not there._told.is_set():
            there._told.set()
        else:
            signal.signal(signal.SIGTERM, before if before is not None else signal.SIG_DFL)
            os.kill(os.getpid(), signal.SIGTERM)

    return told
