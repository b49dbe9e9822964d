"""Files by TensorFlow's names for them: `tf.gfile`, on the local file system.

Failures are those of `tf.errors`: NotFoundError, AlreadyExistsError, FailedPreconditionError,
PermissionDeniedError; UnimplementedError for the names of other file systems (``gs://``).
Called by: programs, training.  Threads: functions any; a GFile one at a time.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import IO, Any

from headrace.base import errors, text
from headrace.ops._kernels.file_globs import matches
from headrace.run.readers.files import ANYWHERE, file_error, local_path

_MODES = ("r", "w", "a", "r+", "w+", "a+")
_FAILS = (OSError, ValueError)


def _failed(path: str, error: OSError | ValueError) -> errors.OpError:
    return file_error(os.fsencode(path), error)


def local(name: Any) -> str:
    """The path of a name on this host.

    Raises UnimplementedError: it is of another file system, such as ``gs://``; TypeError: it is no text.
    """
    return os.fsdecode(local_path(os.fsencode(text.path_to_str(name))))


class GFile:
    """A file; opened by the first read or write, so that a missing one fails there, and is made there.

    mode: r, w, a, r+, w+, a+, and with a b for bytes instead of text (UTF-8).  Offsets and sizes are
    in bytes either way.
    """

    def __init__(self, name: Any, mode: str = "r") -> None:
        """Raises InvalidArgumentError for another mode."""
        self._name: str = text.path_to_str(name)
        self._mode = mode
        self._plain = mode.replace("b", "")
        if self._plain not in _MODES:
            raise errors.invalid_argument(
                f"mode is not {' or '.join(map(repr, _MODES))}, with or without a b, but {mode!r}"
            )
        self._file: IO[bytes] | None = None

    @property
    def name(self) -> str:
        """The path, as it was given."""
        return self._name

    @property
    def mode(self) -> str:
        """As it was given: r, w, a, with + or b."""
        return self._mode

    def _open(self) -> IO[bytes]:
        if self._file is None:
            try:
                self._file = open(local(self._name), self._plain + "b")  # noqa: SIM115
            except _FAILS as error:
                raise _failed(self._name, error) from None
        return self._file

    def _readable(self) -> IO[bytes]:
        if self._plain in ("w", "a"):
            raise errors.permission_denied(
                f"File isn't open for reading: {self._name} is open for writing"
            )
        return self._open()

    def _writable(self) -> IO[bytes]:
        if self._plain == "r":
            raise errors.permission_denied(
                f"File isn't open for writing: {self._name} is open for reading"
            )
        return self._open()

    def _given(self, data: bytes) -> Any:
        return data if "b" in self._mode else text.as_text(data)

    def read(self, n: int = -1) -> Any:
        """Up to n bytes, or all that is left.  Raises NotFoundError, PermissionDeniedError."""
        file = self._readable()
        try:
            return self._given(file.read(n))
        except OSError as error:
            raise _failed(self._name, error) from None

    def readline(self) -> Any:
        """The next line with its newline, without carriage returns; empty at the end."""
        line = self._readable().readline()
        return self._given(line.replace(b"\r", b"") if b"\r" in line else line)

    def readlines(self) -> list[Any]:
        """The lines that are left."""
        return list(self)

    def __iter__(self) -> Iterator[Any]:
        return self

    def __next__(self) -> Any:
        line = self.readline()
        if not line:
            raise StopIteration
        return line

    next = __next__

    def write(self, file_content: Any) -> None:
        """Append at the file's position; text is written as UTF-8."""
        file = self._writable()
        try:
            file.write(text.as_bytes(file_content))
        except OSError as error:
            raise _failed(self._name, error) from None

    def seek(self, offset: int | None = None, whence: int = 0, position: int | None = None) -> None:
        """Go to a byte offset from the start (whence 0), the position (1) or the end (2).

        position: older name of offset.  Raises TypeError (neither is given, or both), PermissionDeniedError,
        InvalidArgumentError.
        """
        if (offset is None) == (position is None):
            raise TypeError("seek() needs an offset, and takes it by one name")
        offset = position if offset is None else offset
        assert offset is not None
        try:
            self._readable().seek(offset, whence)
        except _FAILS as error:
            raise errors.invalid_argument(
                f"{'Seeking to a negative position' if offset < 0 else 'Cannot seek'}: {offset} (whence {whence}) in "
                f"{self._name}: {error}"
            ) from None

    def seekable(self) -> bool:
        """Whether `seek` works: yes."""
        return True

    def tell(self) -> int:
        """The position in bytes."""
        return self._open().tell()

    def size(self) -> int:
        """Of the file, in bytes."""
        return Stat(self._name).length

    def flush(self) -> None:
        """Hand what was written to the operating system."""
        if self._file is not None:
            self._file.flush()

    def close(self) -> None:
        """Close; where nothing was written there is no new file, and an old one stays.  Again it does nothing."""
        if self._file is not None:
            self._file.close()
            self._file = None

    def __del__(self) -> None:
        # `GFile(name).read()` is how programs read a file: no warning that nobody closed it.
        if getattr(self, "_file", None) is not None:
            self.close()

    def __enter__(self) -> GFile:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()


FastGFile = GFile
Open = GFile


@dataclass(frozen=True)
class FileStatistics:
    """length: bytes.  mtime_nsec: since the epoch."""

    length: int
    mtime_nsec: int
    is_directory: bool


def Exists(filename: Any) -> bool:
    """Whether there is a file or directory of this name."""
    return os.path.exists(local(filename))


def IsDirectory(dirname: Any) -> bool:
    """Whether there is a directory of this name."""
    return os.path.isdir(local(dirname))


def Glob(filename: Any) -> list[str]:
    """What matches a glob pattern or any of a list of them, sorted within each pattern."""
    patterns = filename if isinstance(filename, (list, tuple)) else [filename]
    found: list[str] = []
    for pattern in patterns:
        glob = os.fsencode(text.path_to_str(pattern))
        found += [os.fsdecode(name) for name in matches([glob], ANYWHERE)]
    return found


def ListDirectory(dirname: Any) -> list[str]:
    """Names in a directory, sorted.  Raises NotFoundError if it is none."""
    path = local(dirname)
    try:
        return sorted(os.listdir(path))
    except (FileNotFoundError, NotADirectoryError):
        raise errors.not_found(f"Could not find directory {path}") from None
    except _FAILS as error:
        raise _failed(path, error) from None


def Walk(
    top: Any, in_order: bool = True, onerror: Callable[[errors.OpError], object] | None = None
) -> Iterator[tuple[str, list[str], list[str]]]:
    """(directory, its directories, its files) from `top` down, or from the bottom up.

    onerror: called with the error of a directory that cannot be listed; such are left out.
    """

    def failed(error: OSError) -> None:
        if onerror is not None:
            onerror(_failed(str(error.filename), error))

    given = text.as_str_any(text.path_to_str(top))
    here = local(top)
    for path, directories, files in os.walk(here, in_order, failed):
        directories.sort()
        yield given + path[len(here) :], directories, sorted(files)


def Stat(filename: Any) -> FileStatistics:
    """Size, time and kind.  Raises NotFoundError."""
    path = local(filename)
    try:
        found = os.stat(path)
    except _FAILS as error:
        raise _failed(path, error) from None
    return FileStatistics(found.st_size, found.st_mtime_ns, os.path.isdir(path))


def MkDir(dirname: Any) -> None:
    """Make a directory, if it is not there.  Raises NotFoundError (no parent), FailedPreconditionError (a file)."""
    path = local(dirname)
    if path and not os.path.isdir(path):
        try:
            os.mkdir(path)
        except FileExistsError:
            raise errors.failed_precondition(f"{path} is a file, not a directory") from None
        except _FAILS as error:
            raise _failed(path, error) from None


def MakeDirs(dirname: Any) -> None:
    """Make a directory and what leads to it, as far as they are not there; "" is here."""
    path = local(dirname)
    try:
        os.makedirs(path or ".", exist_ok=True)
    except FileExistsError:
        raise errors.failed_precondition(f"{path} is a file, not a directory") from None
    except _FAILS as error:
        raise _failed(path, error) from None


def Remove(filename: Any) -> None:
    """Delete a file.  Raises NotFoundError, FailedPreconditionError (a directory)."""
    path = local(filename)
    try:
        os.remove(path)
    except _FAILS as error:
        raise _failed(path, error) from None


def DeleteRecursively(dirname: Any) -> None:
    """Delete a directory and all in it, or a file.  Raises NotFoundError."""
    path = local(dirname)
    try:
        if os.path.isdir(path) and not os.path.islink(path):
            shutil.rmtree(path)
        else:
            os.remove(path)
    except _FAILS as error:
        raise _failed(path, error) from None


def Copy(oldpath: Any, newpath: Any, overwrite: bool = False) -> None:
    """Copy a file; to itself it stays as it is.  Raises NotFoundError, AlreadyExistsError unless `overwrite`."""
    old, new = local(oldpath), local(newpath)
    _refuse_to_replace(new, overwrite)
    try:
        shutil.copyfile(old, new)
    except shutil.SameFileError:
        pass
    except _FAILS as error:
        raise _failed(old, error) from None


def Rename(oldname: Any, newname: Any, overwrite: bool = False) -> None:
    """Rename or move.  Raises NotFoundError, AlreadyExistsError unless `overwrite`."""
    old, new = local(oldname), local(newname)
    _refuse_to_replace(new, overwrite)
    try:
        os.replace(old, new)
    except _FAILS as error:
        raise _failed(old, error) from None


def _refuse_to_replace(path: str, overwrite: bool) -> None:
    if not overwrite and os.path.exists(path):
        raise errors.already_exists(
            f"file already exists: {path}; pass overwrite=True to replace it"
        )
