"""Files as kernels see them: within the roots that a task's owner named, and with TensorFlow's errors.

Every kernel that works with files of the host does so through the `Files` of its task (`ctx.runtime.files`);
nothing else in `run` and `ops` opens any.  What a path means is resolved first, links and ``..`` included; then
it is opened from its root downwards, one directory at a time and through no link, so that whoever swaps a
directory for a link meanwhile gains nothing.  A hard link beneath a root is a file beneath the root.
Called by: run.readers.reader, run.readers.record_readers, run.readers.record_yielder, run.checkpoints, ops (files,
printing, records), training (gfile, checkpoints).
Threads: any.
Source: TF 1.15 core/platform/posix/error.cc, for the codes
"""

from __future__ import annotations

import contextlib
import errno
import os
import re
import stat
from collections.abc import Iterable, Iterator, Mapping
from typing import BinaryIO, Final

from headrace.base import errors

_SCHEME: Final = re.compile(rb"([a-zA-Z][0-9a-zA-Z.]*)://[^/]*(.*)", re.DOTALL)
PIECE_BYTES: Final = 1 << 18
ROOTS_VARIABLE: Final = "HEADRACE_FILE_ROOTS"

_CODES = {
    errno.ENOENT: errors.NOT_FOUND,
    errno.EISDIR: errors.FAILED_PRECONDITION,
    errno.ENOTDIR: errors.FAILED_PRECONDITION,
    errno.ENOTEMPTY: errors.FAILED_PRECONDITION,
    errno.EBUSY: errors.FAILED_PRECONDITION,
    errno.EROFS: errors.FAILED_PRECONDITION,
    errno.EACCES: errors.PERMISSION_DENIED,
    errno.EPERM: errors.PERMISSION_DENIED,
    errno.EEXIST: errors.ALREADY_EXISTS,
    errno.EINVAL: errors.INVALID_ARGUMENT,
    errno.ENAMETOOLONG: errors.INVALID_ARGUMENT,
    errno.ELOOP: errors.INVALID_ARGUMENT,
    errno.ENOSPC: errors.RESOURCE_EXHAUSTED,
    errno.EFBIG: errors.RESOURCE_EXHAUSTED,  # a limit; OutOfRange, as TensorFlow has it, would end a training
    errno.EMFILE: errors.RESOURCE_EXHAUSTED,
    errno.ENFILE: errors.RESOURCE_EXHAUSTED,
    errno.ENOMEM: errors.RESOURCE_EXHAUSTED,
    errno.EDQUOT: errors.RESOURCE_EXHAUSTED,
}

# A directory on the way is only passed through; where there is no O_PATH it must be readable too.
_PASS: Final = os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC | getattr(os, "O_PATH", os.O_RDONLY)
_KEEP: Final = os.O_NOFOLLOW | os.O_CLOEXEC | getattr(os, "O_PATH", os.O_RDONLY)
_DESCRIPTORS: Final = "/proc/self/fd" if os.path.isdir("/proc/self/fd") else "/dev/fd"


def file_error(path: bytes, error: OSError | ValueError) -> errors.OpError:
    """What to raise when working with `path` failed; a ValueError is a path with a NUL in it."""
    name = os.fsdecode(path)
    if isinstance(error, ValueError):
        return errors.invalid_argument(f"{name!r} is not a file name: {error}")
    number = error.errno or 0
    reason = os.strerror(number) if number else str(error)
    found = errors.make(_CODES.get(number, errors.UNKNOWN), f"{name}; {reason}")
    found.__cause__ = error
    return found


def local_path(path: bytes) -> bytes:
    """The path on this host: what follows ``file://`` and a host's name.

    Raises Unimplemented: it is of a file system that is not the host's, such as ``gs://``.
    """
    found = _SCHEME.match(path) if b"://" in path else None
    if found is None:
        return path
    scheme, rest = found.groups()
    if scheme != b"file":
        raise errors.unimplemented(
            f"File system scheme {os.fsdecode(scheme)!r} not implemented (file: {os.fsdecode(path)!r}): only the files "
            "of the host are read and written; mount what is elsewhere, or copy it"
        )
    return rest or b"/"


def pieces(file: BinaryIO) -> Iterator[bytes]:
    """What is left of a file.  Raises OSError."""
    while piece := file.read(PIECE_BYTES):
        yield piece


def named_roots(environ: Mapping[str, str] = os.environ) -> list[str] | None:
    """The roots that the environment names; None if it names none."""
    text = environ.get(ROOTS_VARIABLE, "")
    return list(filter(None, text.split(os.pathsep))) or None


class Files:
    """The files that the graphs of one task may use.

    Its methods raise OSError and ValueError as the system does (see `file_error`), PermissionDenied for a path outside
    the roots, whether or not there is such a file, and Unimplemented for one of another file system (`local_path`).
    """

    def __init__(
        self, roots: Iterable[str | os.PathLike[str]] | None = None, task: str = ""
    ) -> None:
        """roots: directories; [] allows no file, None every one.  task: what errors call the task.

        Raises InvalidArgument: a root that is no directory.
        """
        self._task = task
        self.roots: tuple[bytes, ...] | None = None
        if roots is not None:
            self.roots = tuple(os.path.realpath(os.fsencode(root)) for root in roots)
            for root in self.roots:
                if not os.path.isdir(root):
                    raise errors.invalid_argument(
                        f"the file root {os.fsdecode(root)!r} of {task} is no directory; see {ROOTS_VARIABLE}"
                    )

    def open(
        self, path: bytes, mode: str, buffering: int = -1, make_directories: bool = False
    ) -> BinaryIO:
        """The file, as the built-in `open` opens it.

        mode: with "b".  make_directories: those that lead there are made where they are missing.
        """
        path = local_path(path)
        if self.roots is None:
            directory = os.path.dirname(path) if make_directories else b""
            if directory and not os.path.exists(directory):
                os.makedirs(directory, exist_ok=True)
            return open(path, mode, buffering)  # type: ignore[return-value]

        def opener(_: str, flags: int) -> int:
            with self._parent(path, make_directories) as (folder, name):
                return os.open(name, flags | os.O_NOFOLLOW | os.O_CLOEXEC, 0o666, dir_fd=folder)

        return open(path, mode, buffering, opener=opener)  # type: ignore[return-value]

    def exists(self, path: bytes) -> bool:
        """Whether there is something at the end of `path`."""
        return self._mode(path) != 0

    def is_directory(self, path: bytes) -> bool:
        """Whether there is a directory at the end of `path`."""
        return stat.S_ISDIR(self._mode(path))

    def is_regular(self, path: bytes) -> bool:
        """Whether there is a file of bytes at the end of `path`: no directory, pipe or device."""
        return stat.S_ISREG(self._mode(path))

    def _mode(self, path: bytes) -> int:
        """Of what is at the end of `path`; 0 if there is nothing."""
        path = local_path(path)
        try:
            if self.roots is None:
                return os.stat(path).st_mode
            with self._parent(path) as (folder, name):
                return os.stat(name, dir_fd=folder, follow_symlinks=False).st_mode
        except (OSError, ValueError):
            return 0

    def entries(self, directory: bytes) -> list[bytes]:
        """Names in a directory, in no order."""
        directory = local_path(directory)
        if self.roots is None:
            return os.listdir(directory)
        with self._parent(directory) as (folder, name):
            flags = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
            found = os.open(name, flags, dir_fd=folder)
        try:
            return [os.fsencode(entry) for entry in os.listdir(found)]
        finally:
            os.close(found)

    def status(self, path: bytes) -> os.stat_result:
        """Size and times of a file."""
        with self._place(path) as (folder, name):
            return os.stat(name, dir_fd=folder, follow_symlinks=folder is None)

    def replace(self, old: bytes, new: bytes) -> None:
        """Rename a file; one that has the new name is gone, in the same moment."""
        with self._place(old) as (out_of, name), self._place(new) as (into, new_name):
            os.replace(name, new_name, src_dir_fd=out_of, dst_dir_fd=into)

    def link(self, old: bytes, new: bytes) -> None:
        """Give a file one more name, which nothing has."""
        with self._place(old) as (out_of, name), self._place(new) as (into, new_name):
            os.link(name, new_name, src_dir_fd=out_of, dst_dir_fd=into)

    def remove(self, path: bytes) -> None:
        """Delete a file."""
        with self._place(path) as (folder, name):
            os.remove(name, dir_fd=folder)

    def unlink(self, path: bytes) -> int:
        """Delete a file's name.  Its blocks stay as long as the descriptor is open that is given; it reads nothing."""
        with self._place(path) as (folder, name):
            number = os.open(name, _KEEP, dir_fd=folder)
            try:
                os.remove(name, dir_fd=folder)
            except BaseException:
                os.close(number)
                raise
        return number

    def make_directory(self, path: bytes) -> None:
        """Make a directory, if there is none, in one that is there."""
        with contextlib.suppress(FileExistsError), self._place(path) as (folder, name):
            os.mkdir(name, dir_fd=folder)

    def remove_directory(self, path: bytes) -> None:
        """Delete an empty directory."""
        with self._place(path) as (folder, name):
            os.rmdir(name, dir_fd=folder)

    def sync_directory(self, path: bytes) -> None:
        """Have what was made, renamed or deleted in a directory survive a loss of power."""
        with self._place(path or b".") as (folder, name):
            found = os.open(name, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC, dir_fd=folder)
        try:
            os.fsync(found)
        finally:
            os.close(found)

    @contextlib.contextmanager
    def _place(self, path: bytes) -> Iterator[tuple[int | None, bytes]]:
        """As `_parent`; without roots the path itself, as the system reads it."""
        path = local_path(path)
        if self.roots is None:
            yield None, path
            return
        with self._parent(path) as found:
            yield found

    @contextlib.contextmanager
    def _parent(self, path: bytes, make: bool = False) -> Iterator[tuple[int, bytes]]:
        """(descriptor of the directory, name in it) of what `path` leads to."""
        root, parts = self._beneath(path)
        folder = os.open(root, _PASS)
        try:
            for part in parts[:-1]:
                if make:
                    with contextlib.suppress(FileExistsError):
                        os.mkdir(part, dir_fd=folder)
                inner = os.open(part, _PASS, dir_fd=folder)
                os.close(folder)
                folder = inner
            yield folder, parts[-1]
        finally:
            os.close(folder)

    def _beneath(self, path: bytes) -> tuple[bytes, list[bytes]]:
        """(root, names from there) of what `path` leads to.  Raises PermissionDenied."""
        real = os.path.realpath(path)
        for root in self.roots or ():
            if real == root:
                return root, [b"."]
            inside = root.rstrip(b"/") + b"/"
            if real.startswith(inside):
                return root, real[len(inside) :].split(b"/")
        shown = os.pathsep.join(os.fsdecode(root) for root in self.roots or ()) or "(none)"
        raise errors.permission_denied(
            f"{os.fsdecode(path)!r} does not lie beneath the file roots of {self._task}, which are {shown}: graphs of "
            f"other processes may use no other files there. Whoever runs the task may name more: {ROOTS_VARIABLE}, "
            "`headrace serve --file-roots` or tf.train.Server(file_roots=[...])"
        )


def name_of(file: BinaryIO) -> str:
    """A path by which `file`, which is open, and no other can be opened again in this process."""
    return f"{_DESCRIPTORS}/{file.fileno()}"


ANYWHERE: Final = Files()
"""Every file that this process may use."""
