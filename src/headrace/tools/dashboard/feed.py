"""Feed: what the page gets, by server-sent events.  It looks at the cluster only while somebody has the page open.

Called by: app.  Threads: one of its own, which looks; one a page, which waits for the next look.  `stop` ends all.
Source: HTML's "Server-sent events" (text/event-stream)
"""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from dataclasses import asdict
from typing import Any, Final

from headrace.tools.commands import CommandError
from headrace.tools.dashboard import data
from headrace.tools.inspection.watching import Watcher

_STILL_HERE_S: Final = 10.0  # whoever has left is found out by being told something


class Feed:
    """See the module header."""

    def __init__(self, target: str, interval_s: float = 1.0) -> None:
        """Raises UsageError if `target` is not grpc://HOST:PORT."""
        self._watcher = Watcher(target)
        self.target = self._watcher.target
        self._interval_s = interval_s
        self._changed = threading.Condition()
        self._stop = threading.Event()
        self._nobody = threading.Event()
        self._pages = 0
        self._thread: threading.Thread | None = None
        self._number = 0
        self._latest = b""  # the last message
        self._past: dict[str, Any] = {"points": [], "events": []}

    def messages(self) -> Iterator[bytes]:
        """What has been, and then each look as it comes, until `stop`; for one page."""
        self._join()
        try:
            with self._changed:
                number = self._number
                past = message("past", self._past)
            yield past
            while not self._stop.is_set():
                latest, number = self._next(number)
                yield latest
        finally:
            self._leave()

    def _next(self, number: int) -> tuple[bytes, int]:
        """The message after that number, as soon as there is one, and its own; a comment if there is none for long."""
        with self._changed:
            self._changed.wait_for(
                lambda: self._stop.is_set() or self._number != number, _STILL_HERE_S
            )
            fresh = self._number != number
            return (self._latest if fresh else b": still here\n\n"), self._number

    def now(self) -> dict[str, Any]:
        """One look, for scripts.  Raises CommandError if the server does not answer."""
        with Watcher(self.target) as watcher:
            return data.view(watcher.look())

    def stop(self) -> None:
        """End it."""
        self._stop.set()
        self._nobody.set()
        with self._changed:
            self._changed.notify_all()
            thread, self._thread = self._thread, None
        if thread is not None:
            thread.join()
        self._watcher.__exit__()

    def _join(self) -> None:
        with self._changed:
            self._pages += 1
            if self._thread is None and not self._stop.is_set():
                self._nobody.clear()
                self._thread = threading.Thread(target=self._look_on, name="headrace page")
                self._thread.start()

    def _leave(self) -> None:
        with self._changed:
            self._pages -= 1
            if self._pages == 0:
                self._nobody.set()

    def _look_on(self) -> None:
        while True:
            self._look()
            self._nobody.wait(self._watcher.pause_s(self._interval_s))
            with self._changed:
                if self._stop.is_set():
                    return
                if self._nobody.is_set():
                    if self._pages == 0:
                        self._thread = None
                        return
                    self._nobody.clear()

    def _look(self) -> None:
        try:
            found = message("view", data.view(self._watcher.look()))
        except CommandError as error:
            found = message("lost", {"why": str(error)})
        past = {
            "points": [data.point(each) for each in list(self._watcher.points)],
            "events": [asdict(event) for event in list(self._watcher.events)],
        }
        with self._changed:
            self._latest, self._past = found, past
            self._number += 1
            self._changed.notify_all()


def message(event: str, content: Any) -> bytes:
    """As browsers read it."""
    text = json.dumps(content, separators=(",", ":"), allow_nan=False)
    return f"event: {event}\ndata: {text}\n\n".encode()
