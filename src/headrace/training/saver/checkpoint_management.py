"""The files beside checkpoints: which is the latest, which are kept, and what belongs to one.

``checkpoint`` (or another name) is a `CheckpointState` in text; it is replaced in one moment, after the checkpoint
that it names is whole.  All files here are those of the calling process.
Called by: training.saver.saver, sessions, hooks, programs.  Threads: any.
Source: TF 1.15 python/training/checkpoint_management.py, for behaviour
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Sequence
from typing import Any

from google.protobuf import text_format

from headrace.base import errors, text
from headrace.codec import protos as pb
from headrace.run.checkpoints.deleting import delete
from headrace.run.checkpoints.writing import write_file
from headrace.run.readers.files import ANYWHERE, file_error
from headrace.training import gfile, logging

__all__ = [
    "checkpoint_exists",
    "generate_checkpoint_state_proto",
    "get_checkpoint_mtimes",
    "get_checkpoint_state",
    "latest_checkpoint",
    "remove_checkpoint",
    "update_checkpoint_state",
]

V1, V2 = pb.SaverDef.V1, pb.SaverDef.V2


# -- the state ------------------------------------------------------------------------------------


def _state_file(directory: Any, latest_filename: Any) -> str:
    return os.path.join(text.path_to_str(directory), latest_filename or "checkpoint")


def generate_checkpoint_state_proto(
    save_dir: Any,
    model_checkpoint_path: Any,
    all_model_checkpoint_paths: Sequence[Any] | None = None,
    all_model_checkpoint_timestamps: Sequence[float] | None = None,
    last_preserved_timestamp: float | None = None,
) -> pb.CheckpointState:
    """The message that says which checkpoint is the latest and which others there are.

    Paths are relative to `save_dir`, unless that or they are absolute.  Times are in seconds since the epoch.
    Raises ValueError if there are not as many times as paths.
    """
    save_dir = text.path_to_str(save_dir)
    latest = text.path_to_str(model_checkpoint_path)
    paths = [text.path_to_str(path) for path in all_model_checkpoint_paths or []]
    times = all_model_checkpoint_timestamps
    if times is not None and len(times) != len(paths):
        raise ValueError(
            "Checkpoint timestamps, if provided, must match checkpoint paths (got paths "
            f"{paths} and timestamps {list(times)})"
        )
    if not paths or paths[-1] != latest:
        paths.append(latest)
        times = None if times is None else [*times, 0.0]
    if not os.path.isabs(save_dir):
        paths = [_relative(path, save_dir) for path in paths]
        latest = _relative(latest, save_dir)
    return pb.CheckpointState(
        model_checkpoint_path=latest,
        all_model_checkpoint_paths=paths,
        all_model_checkpoint_timestamps=times,
        last_preserved_timestamp=last_preserved_timestamp,
    )


def _relative(path: str, directory: str) -> str:
    return path if os.path.isabs(path) else os.path.relpath(path, directory)


def update_checkpoint_state(
    save_dir: Any,
    model_checkpoint_path: Any,
    all_model_checkpoint_paths: Sequence[Any] | None = None,
    latest_filename: str | None = None,
    all_model_checkpoint_timestamps: Sequence[float] | None = None,
    last_preserved_timestamp: float | None = None,
) -> None:
    """Write which checkpoint is the latest, and which others there are.

    Raises RuntimeError if that file would be the checkpoint itself, ValueError, NotFoundError (no such directory) and
    other errors of files.
    """
    write_checkpoint_state(
        save_dir,
        model_checkpoint_path,
        all_model_checkpoint_paths,
        latest_filename,
        False,
        all_model_checkpoint_timestamps,
        last_preserved_timestamp,
    )


def write_checkpoint_state(
    save_dir: Any,
    model_checkpoint_path: Any,
    all_model_checkpoint_paths: Sequence[Any] | None = None,
    latest_filename: str | None = None,
    save_relative_paths: bool = False,
    all_model_checkpoint_timestamps: Sequence[float] | None = None,
    last_preserved_timestamp: float | None = None,
) -> None:
    """As `update_checkpoint_state`.  save_relative_paths: absolute paths become relative to `save_dir` too."""
    latest, paths = model_checkpoint_path, all_model_checkpoint_paths
    if save_relative_paths:
        if os.path.isabs(latest):
            latest = os.path.relpath(latest, save_dir)
        if paths is not None:
            paths = [os.path.relpath(p, save_dir) if os.path.isabs(p) else p for p in paths]
    state = generate_checkpoint_state_proto(
        save_dir, latest, paths, all_model_checkpoint_timestamps, last_preserved_timestamp
    )
    file = _state_file(save_dir, latest_filename)
    if file == state.model_checkpoint_path:
        raise RuntimeError(
            f"Save path '{model_checkpoint_path}' conflicts with path used for checkpoint state.  Please use a "
            "different save path: the file that names the latest checkpoint would replace it"
        )
    content = text_format.MessageToString(state).encode()
    write_file(os.fsencode(file), [content], ANYWHERE)


def get_checkpoint_state(
    checkpoint_dir: Any, latest_filename: str | None = None
) -> pb.CheckpointState | None:
    """What the directory's file says, with paths that lead there from here; None if there is none that can be read.

    Raises ValueError if it names no checkpoint.
    """
    directory = text.path_to_str(checkpoint_dir)
    file = _state_file(directory, latest_filename)
    if not gfile.Exists(file):
        return None
    state = pb.CheckpointState()
    try:
        with gfile.GFile(file, "rb") as content:
            text_format.Merge(content.read(), state)
    except (errors.OpError, text_format.ParseError, UnicodeDecodeError) as error:
        logging.warning("%s: %s", type(error).__name__, error)
        logging.warning("%s: Checkpoint ignored", file)
        return None
    if not state.model_checkpoint_path:
        raise ValueError(
            f"Invalid checkpoint state loaded from {directory}: {file} names no checkpoint"
        )
    state.model_checkpoint_path = _led_to(directory, state.model_checkpoint_path)
    for at, path in enumerate(state.all_model_checkpoint_paths):
        state.all_model_checkpoint_paths[at] = _led_to(directory, path)
    return state


def _led_to(directory: str, path: str) -> str:
    return path if os.path.isabs(path) else os.path.join(directory, path)


def latest_checkpoint(checkpoint_dir: Any, latest_filename: str | None = None) -> str | None:
    """The prefix of the latest checkpoint in a directory; None if there is none.

    Raises ValueError if the directory's file names no checkpoint.
    """
    state = get_checkpoint_state(checkpoint_dir, latest_filename)
    if state is None or not state.model_checkpoint_path:
        return None
    path: str = state.model_checkpoint_path
    if checkpoint_exists(path):
        return path
    logging.error("Couldn't match files for checkpoint %s", path)
    return None


# -- the files of one -----------------------------------------------------------------------------


def _index(prefix: str) -> str:
    return f"{prefix}.index"


def checkpoint_exists(checkpoint_prefix: Any) -> bool:
    """Whether there is a checkpoint of that prefix, of either format, on this process's disk."""
    prefix = text.path_to_str(checkpoint_prefix)
    return bool(gfile.Glob(_index(prefix)) or gfile.Glob(prefix))


def get_checkpoint_mtimes(checkpoint_prefixes: Iterable[Any]) -> list[float]:
    """When each checkpoint was written, in seconds since the epoch; those that are not there are left out."""
    found = []
    for prefix in map(text.path_to_str, checkpoint_prefixes):
        files = gfile.Glob(_index(prefix)) or gfile.Glob(prefix)
        if files:
            found.append(gfile.Stat(files[0]).mtime_nsec / 1e9)
    return found


def remove_checkpoint(
    checkpoint_prefix: Any,
    checkpoint_format_version: int = V2,
    meta_graph_suffix: str = "meta",
) -> None:
    """Delete a checkpoint's files and its meta graph, as far as they are there.  Raises errors of files."""
    prefix = text.path_to_str(checkpoint_prefix)
    _remove(meta_graph_filename(prefix, meta_graph_suffix))
    if checkpoint_format_version == V2:
        _remove(_index(prefix))  # first: without it the others are no checkpoint
        _remove(f"{prefix}.data-?????-of-?????")
    else:
        _remove(prefix)


def _remove(pattern: str) -> None:
    for path in gfile.Glob(pattern):
        name = os.fsencode(path)
        try:
            delete(name, ANYWHERE)
        except (OSError, ValueError) as error:
            raise file_error(name, error) from None


def meta_graph_filename(checkpoint_filename: str, meta_graph_suffix: str = "meta") -> str:
    """The file of the graph beside a checkpoint, whose name may be that of a shard, or of all."""
    base = re.sub(r"-[\d\?]+-of-\d+$", "", checkpoint_filename)
    return f"{base}.{meta_graph_suffix}"
