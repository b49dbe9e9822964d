"""Looking into checkpoints without a graph: what they hold, values by name, and waiting for the next one.

Called by: programs, training.saver.warm_starting.  Threads: a reader any, one call at a time; `checkpoints_iterator`
waits in the caller's thread.  Files are those of the calling process.
Source: TF 1.15 python/training/checkpoint_utils.py, for behaviour
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any, Final

from headrace.base import dtypes, text
from headrace.codec import protos as pb
from headrace.codec.ordered import slice_key
from headrace.codec.parts import extents_of
from headrace.ops._kernels.file_globs import matches
from headrace.run.checkpoints.reading import Checkpoint
from headrace.run.readers.files import ANYWHERE, Files
from headrace.training import gfile, logging
from headrace.training.saver.checkpoint_management import latest_checkpoint

__all__ = [
    "NewCheckpointReader",
    "checkpoints_iterator",
    "list_variables",
    "load_checkpoint",
    "load_variable",
]


def _path(given: Any) -> Any:
    if given is None:
        raise ValueError(
            "Couldn't find a checkpoint: its path is None, which is what tf.train.latest_checkpoint gives for a "
            "directory without one"
        )
    return text.path_to_str(given)


class CheckpointReader:
    """The tensors of a checkpoint, of either format."""

    def __init__(self, filepattern: Any) -> None:
        """filepattern: the prefix of a checkpoint, or a pattern of files of format V1.

        Raises NotFoundError, DataLossError and other errors of files.
        """
        self._path = os.fsencode(_path(filepattern))
        self._lock = threading.Lock()
        with self._opened() as checkpoint:
            self._about = {name: checkpoint.about(name) for name in checkpoint.names()}
            self._lines = list(_described(checkpoint))

    def _opened(self) -> Checkpoint:
        return Checkpoint(self._path, ANYWHERE, _files)

    def get_variable_to_shape_map(self) -> dict[str, list[int]]:
        """The shape of each tensor, by name."""
        return {name: list(sizes) for name, (_, sizes) in self._about.items()}

    def get_variable_to_dtype_map(self) -> dict[str, dtypes.DType]:
        """The type of each tensor, by name."""
        return {name: dtype for name, (dtype, _) in self._about.items()}

    def has_tensor(self, tensor_str: str) -> bool:
        """Whether there is a tensor of that name."""
        return text.as_str_any(tensor_str) in self._about

    def get_tensor(self, tensor_str: str) -> Any:
        """A tensor's value, an array; of a scalar a NumPy value or bytes.

        Raises NotFoundError, DataLossError, TypeError.
        """
        if not isinstance(tensor_str, (str, bytes)):
            raise TypeError(f"Expected binary or unicode string, got {tensor_str!r}")
        with self._lock, self._opened() as checkpoint:
            value = checkpoint.tensor(text.as_str_any(tensor_str))
        return value if value.ndim else value[()]

    def debug_string(self) -> bytes:
        """A line for each entry."""
        return "".join(f"{line}\n" for line in self._lines).encode("latin-1", "replace")


_TYPE_NAMES: Final = {number: name for name, number in pb.DataType.items()}


def _described(checkpoint: Checkpoint) -> Iterator[str]:
    parts, wholes = [], []
    for name in checkpoint.names():
        dtype, sizes = checkpoint.about(name)
        kind = _TYPE_NAMES[dtype.as_datatype_enum]
        shown = ",".join(map(str, sizes))
        slices = () if checkpoint.bundle is None else checkpoint.bundle.entry(name).slices
        for proto in slices:
            extents = extents_of(proto)
            lengths = [n if n >= 0 else size for (_, n), size in zip(extents, sizes, strict=True)]
            key = slice_key(name, extents).decode("latin-1")
            parts.append(f"{key} ({kind}) [{','.join(map(str, lengths))}]")
        if not slices:  # of format V1 all are
            count = 1 if checkpoint.slices is None else checkpoint.slices.parts_of(name)
            more = f", {count} slices" if count > 1 else ""
            wholes.append(f"{name} ({kind}) [{shown}]{more}")
    return iter([*parts, *wholes])


def _files(pattern: bytes, files: Files) -> list[bytes]:
    return matches([pattern], files)


def NewCheckpointReader(filepattern: Any) -> CheckpointReader:
    """A reader of a checkpoint; see `CheckpointReader`."""
    return CheckpointReader(filepattern)


def checkpoint_file(ckpt_dir_or_file: Any) -> str:
    """The prefix of a checkpoint: the latest one of a directory.  Raises ValueError if that has none."""
    path: str = _path(ckpt_dir_or_file)
    if not gfile.IsDirectory(path):
        return path
    found = latest_checkpoint(path)
    if found is None:
        raise ValueError(
            f"Couldn't find 'checkpoint' file or checkpoints in given directory {path}"
        )
    return found


def load_checkpoint(ckpt_dir_or_file: Any) -> CheckpointReader:
    """A reader of a checkpoint, or of the latest one of a directory.

    Raises ValueError, NotFoundError, DataLossError.
    """
    return CheckpointReader(checkpoint_file(ckpt_dir_or_file))


def load_variable(ckpt_dir_or_file: Any, name: str) -> Any:
    """The value of a variable in a checkpoint; ``x:0`` is ``x``.

    Raises ValueError, NotFoundError, DataLossError.
    """
    return load_checkpoint(ckpt_dir_or_file).get_tensor(name.removesuffix(":0"))


def list_variables(ckpt_dir_or_file: Any) -> list[tuple[str, list[int]]]:
    """(name, shape) of every variable in a checkpoint, sorted.  Raises ValueError, NotFoundError, DataLossError."""
    return sorted(load_checkpoint(ckpt_dir_or_file).get_variable_to_shape_map().items())


# -- the next one ---------------------------------------------------------------------------------

_LOOKS_EVERY_S: Final = 1.0


def _next_checkpoint(directory: Any, last: str | None, timeout_s: float | None) -> str | None:
    """A checkpoint that is not `last`, waited for; None after `timeout_s`."""
    logging.info("Waiting for new checkpoint at %s", directory)
    ends = None if timeout_s is None else time.monotonic() + timeout_s
    never = threading.Event()
    while True:
        found = latest_checkpoint(directory)
        if found is not None and found != last:
            logging.info("Found new checkpoint at %s", found)
            return found
        left = _LOOKS_EVERY_S if ends is None else min(_LOOKS_EVERY_S, ends - time.monotonic())
        if left <= 0:
            return None
        never.wait(left)  # the system tells nobody of files that other hosts write


def checkpoints_iterator(
    checkpoint_dir: Any,
    min_interval_secs: float = 0,
    timeout: float | None = None,
    timeout_fn: Callable[[], bool] | None = None,
) -> Iterator[str]:
    """The latest checkpoint of a directory, and then each new one; those that come in between two looks are left out.

    min_interval_secs: between two.  timeout: seconds after which, without a new one, it ends; unless timeout_fn is
    given and returns False.  The directory is looked at once a second.
    """
    last = None
    while True:
        found = _next_checkpoint(checkpoint_dir, last, timeout)
        if found is None:
            if timeout_fn is None:
                logging.info("Timed-out waiting for a checkpoint.")
                return
            if timeout_fn():
                return
            continue
        began = time.monotonic()
        last = found
        yield found
        left = began + min_interval_secs - time.monotonic()
        if left > 0:
            time.sleep(left)
