"""What was measured of steps, kept on this machine: which form of each was the quickest one.

A folder for each kind of machine (processors, how many, versions), in it a file for each step: its name says which, its
content which form.  A file is written under another name and then renamed, so that processes may write at once, and
whoever reads one finds it whole.  There are some thousands at most; the oldest go first, and none counts for ever.
``HEADRACE_MEASURED`` names another folder than that of the user's cache; off: nothing is kept.
Called by: run.exec.tuning.  Threads: any.  Raises nothing: what cannot be kept is measured again.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import cache
from typing import TYPE_CHECKING, Any, Final

from headrace.run.exec.processors import processors

if TYPE_CHECKING:
    from pathlib import Path  # which takes a while, and few processes come to need

SETTING: Final = "HEADRACE_MEASURED"
MOST: Final = 4096
_OF_USE_S: Final = 30 * 86400.0
_LONGEST: Final = 32  # names of forms


class Measured:
    """Of one step.  identity: what tells it from others, the same in every process."""

    def __init__(self, identity: Callable[[], str]) -> None:
        self._identity = identity

    def recall(self, shapes: Sequence[Any]) -> str | None:
        """The name of its quickest form with arguments of such shapes; None: nobody knows."""
        try:
            path = self._path(shapes)
            if path is None or time.time() - path.stat().st_mtime > _OF_USE_S:
                return None
            found = path.read_bytes()
            if not found.endswith(b"\n") or len(found) > _LONGEST:
                return None
            return found.decode("ascii").strip()
        except (OSError, UnicodeDecodeError):
            return None

    def note(self, shapes: Sequence[Any], form: str) -> None:
        """Remember it."""
        try:
            path = self._path(shapes)
            if path is None:
                return
            path.parent.mkdir(0o700, parents=True, exist_ok=True)
            other = path.with_name(f".{path.name}.{os.getpid()}")
            other.write_bytes(f"{form}\n".encode("ascii"))
            other.replace(path)
            _bound(path.parent)
        except OSError:  # no home, or one that cannot be written
            pass

    def _path(self, shapes: Sequence[Any]) -> Path | None:
        place = folder()
        if place is None:
            return None
        text = f"{self._identity()} {[tuple(each) for each in shapes]}"
        return place / _digest(text)[:32]


def folder() -> Path | None:
    """Where it is kept; None: nowhere."""
    said = os.environ.get(SETTING, "").strip()
    if said.lower() == "off":
        return None
    from pathlib import Path

    if said:
        return Path(said) / _machine()
    cached = os.environ.get("XDG_CACHE_HOME", "")
    root = cached if os.path.isabs(cached) else os.path.expanduser("~/.cache")
    if not os.path.isabs(root):  # a user without a home
        return None
    return Path(root) / "headrace" / "measured" / _machine()


@cache
def _machine() -> str:
    """What figures of one machine depend on."""
    from importlib.metadata import PackageNotFoundError, version  # which few processes need

    known = [_processor(), str(processors())]
    for package in ("headrace", "numpy", "jax", "jaxlib"):
        try:
            known.append(version(package))
        except PackageNotFoundError:
            known.append("")
    return _digest("\n".join(known))[:16]


def _digest(text: str) -> str:
    import hashlib

    return hashlib.sha256(text.encode()).hexdigest()


def _processor() -> str:
    try:
        with open("/proc/cpuinfo", encoding="utf-8", errors="replace") as lines:
            return next((line for line in lines if line.startswith("model name")), "")
    except OSError:
        return ""


def _bound(place: Path) -> None:
    """Let the oldest go where there are too many."""
    with os.scandir(place) as entries:
        names = [entry.path for entry in entries]
    if len(names) <= MOST:
        return
    ages = []
    for name in names:
        try:
            ages.append((os.stat(name).st_mtime, name))
        except FileNotFoundError:  # another process lets it go, too
            continue
    for _, name in sorted(ages)[: len(ages) - MOST * 3 // 4]:
        with suppress(FileNotFoundError):
            os.unlink(name)
