"""tf.train.CheckpointManager: a directory of a Checkpoint's files, of which the latest few are kept.

What is there, since when, and which is the latest, is in the directory's file ``checkpoint``, from which a new
manager goes on.
Called by: programs.  Threads: one manager one at a time; a save blocks until it is on the disk.  ``checkpoint`` and
what is deleted are files of the calling process.
Source: TF 1.15 python/training/checkpoint_management.py, for behaviour; nodes and files checked against the oracle
"""

from __future__ import annotations

import os
import time
from typing import Any, Final

import numpy as np

from headrace.base import text
from headrace.codec import protos as pb
from headrace.library.variables.variable_creation import variable_creator_scope
from headrace.training import logging
from headrace.training.global_step import global_step as value_of_step
from headrace.training.objects.checkpoint import Checkpoint
from headrace.training.objects.status import session_or_default
from headrace.training.saver.checkpoint_management import (
    get_checkpoint_state,
    remove_checkpoint,
    write_checkpoint_state,
)

__all__ = ["CheckpointManager"]

_HOUR_S: Final = 3600.0


class CheckpointManager:
    """Saves a Checkpoint into a directory, and deletes old ones."""

    def __init__(
        self,
        checkpoint: Checkpoint,
        directory: Any,
        max_to_keep: int | None,
        keep_checkpoint_every_n_hours: float | None = None,
        checkpoint_name: str = "ckpt",
    ) -> None:
        """max_to_keep: None keeps all.  keep_checkpoint_every_n_hours: one of that time is kept, beside those.

        Raises ValueError.
        """
        if max_to_keep is not None and max_to_keep <= 0:
            raise ValueError(
                f"Expected a positive integer or `None` for `max_to_keep`, got {max_to_keep}."
            )
        self._checkpoint = checkpoint
        self._directory: str = text.path_to_str(directory)
        self._max_to_keep = max_to_keep
        self._keep_every_s = (keep_checkpoint_every_n_hours or 0) * _HOUR_S
        self._prefix = os.path.join(self._directory, checkpoint_name)
        self._counted: Any = None
        self._latest: str | None = None
        self._kept: dict[str, float] = {}
        """When each was written, in seconds since the epoch, the oldest first."""
        now = time.time()
        self._last_preserved = now - 1.0
        state = get_checkpoint_state(self._directory)
        if state is not None:
            self._go_on(state, now)

    def _go_on(self, state: pb.CheckpointState, now: float) -> None:
        self._latest = state.model_checkpoint_path
        self._last_preserved = state.last_preserved_timestamp
        if now < self._last_preserved:
            logging.warning(
                "The checkpoint state in %s is of %s seconds from now: clocks differ, or one went back",
                self._directory,
                self._last_preserved - now,
            )
            self._last_preserved = now
        paths = list(state.all_model_checkpoint_paths)
        times = list(state.all_model_checkpoint_timestamps)
        if len(times) == len(paths):  # else no manager wrote them, and none is to delete them
            self._kept = dict(zip(paths, times, strict=True))

    @property
    def directory(self) -> str:
        """Where the checkpoints are."""
        return self._directory

    @property
    def checkpoint(self) -> Checkpoint:
        """What is saved."""
        return self._checkpoint

    @property
    def latest_checkpoint(self) -> str | None:
        """The prefix of the latest one; None if there is none."""
        return self._latest

    @property
    def checkpoints(self) -> list[str]:
        """Prefixes of those that may be deleted some day, the oldest first; those kept for good are not among them."""
        return list(self._kept)

    def save(self, checkpoint_number: Any = None) -> str:
        """Save, and delete what is too old; gives the prefix.

        checkpoint_number: a number, or a variable or tensor of one; the checkpoint's counter unless given, which counts
        in any case.  Needs a default session.  Raises ValueError (there is none), and what `Checkpoint.write` does.
        """
        session = session_or_default(None)

        def initialized(make: Any, **arguments: Any) -> Any:
            made = make(**arguments)
            session.run(made.initializer)
            return made

        with variable_creator_scope(initialized):
            counter = self._checkpoint.save_counter
        if self._counted is None:
            self._counted = counter.assign_add(1, read_value=False)
        session.run(self._counted)
        number = counter if checkpoint_number is None else checkpoint_number
        if not isinstance(number, (int, np.integer)):
            number = value_of_step(session, number)
        path = self._checkpoint.write(f"{self._prefix}-{number}", session)
        self._kept.pop(path, None)
        self._kept[path] = time.time()
        self._latest = path
        self._record()  # before anything is deleted: whoever is killed meanwhile has the latest
        self._delete_old()
        self._record()
        return path

    def _delete_old(self) -> None:
        while self._max_to_keep is not None and len(self._kept) > self._max_to_keep:
            path = next(iter(self._kept))
            written = self._kept.pop(path)
            if self._keep_every_s and written - self._keep_every_s >= self._last_preserved:
                self._last_preserved = written
                continue
            try:
                remove_checkpoint(path)
            except Exception as error:  # a file that stays is no reason to end a training
                logging.warning("Ignoring: %s", error)

    def _record(self) -> None:
        assert self._latest is not None
        write_checkpoint_state(
            self._directory,
            self._latest,
            list(self._kept),
            None,
            True,
            list(self._kept.values()),
            self._last_preserved,
        )
