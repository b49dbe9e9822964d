"""The secret that the servers of a launch share, where they need one and are given none.

Called by: command.
"""

from __future__ import annotations

import os
import secrets
import tempfile
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path

from headrace.serve.rpc.security import is_loopback
from headrace.tools.commands import UsageError

_SETTINGS = ("HEADRACE_SECRET_FILE", "HEADRACE_SECRET", "HEADRACE_TLS_CERT", "HEADRACE_INSECURE")


def is_settled(environ: Mapping[str, str]) -> bool:
    """Whether the environment says how servers know each other."""
    return any(environ.get(name, "") not in ("", "0") for name in _SETTINGS)


def check(addresses: Iterable[str], environ: Mapping[str, str]) -> None:
    """Raise UsageError for servers that others could reach and nobody keeps strangers from."""
    outside = [address for address in addresses if not _is_here(address)]
    if outside and not is_settled(environ):
        raise UsageError(
            f"the servers would listen where other machines reach them ({outside[0]}), so they need a secret: make one "
            "with (umask 077; openssl rand -hex 32 > secret), copy it to every host, and give --secret-file secret; "
            "docs/security.md says what else there is"
        )


def _is_here(address: str) -> bool:
    host = address.rpartition(":")[0]
    try:
        return host == "localhost" or is_loopback(host)
    except ValueError:
        return False


@contextmanager
def of_this_launch() -> Iterator[Path]:
    """A new secret in a file that only this user reads, which is gone afterwards."""
    with tempfile.TemporaryDirectory(prefix="headrace-launch-") as folder:
        path = Path(folder, "secret")
        _write(path)
        yield path


@contextmanager
def of_slurm_step(folder: Path, job: str, step: str, removes: bool) -> Iterator[Path]:
    """The secret of a job step, in a folder that its hosts share: made by whoever comes first.

    removes: the file is gone afterwards.
    """
    path = folder / f".headrace-secret-{job}-{step}"
    draft = folder / f"{path.name}.{secrets.token_hex(8)}"
    _write(draft)
    try:
        with suppress(FileExistsError):
            os.link(draft, path)
    finally:
        draft.unlink()
    if path.stat().st_uid != os.getuid() or path.stat().st_mode & 0o077:
        raise UsageError(f"{path} can be read by others, or is somebody else's; remove it")
    try:
        yield path
    finally:
        if removes:
            path.unlink(missing_ok=True)


def _write(path: Path) -> None:
    """Raises OSError, also if there is such a file."""
    fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(fd, "w") as file:
        file.write(secrets.token_hex(32) + "\n")
