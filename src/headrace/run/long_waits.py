"""Long waits: which steps of this process wait for something, and who is told when that takes long.

A step that is about to wait is in `waiting` until it goes on; that is all it pays.  Whoever waits (a
step, a caller for its reply) and wakes after `first_poll_s` with nothing to show for it says so with
`tell`, and again at growing intervals.  That reaches whoever watches over the wait's scope, or over a
parent of it.
Called by: run.exec.program, run.exec.dataflow, run.pending, the transports' clients (they wait); client.session and
serve (they watch).  Threads: any.  What is called back must be short and must not raise.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, Protocol
from weakref import WeakKeyDictionary

from headrace.run.scope import Scope

if TYPE_CHECKING:
    from headrace.run.exec.kernel import NodeInfo, StepState
    from headrace.run.pending import Pending

_DEFAULT_S: Final = 10.0
_FIRST_POLL_S: Final = 5.0


class Waiting(Protocol):
    """A step that waits, on one task."""

    @property
    def step(self) -> StepState:
        """Which step."""

    def waits(self) -> list[tuple[NodeInfo, Pending[Any]]]:
        """The nodes that wait, and for what.  From any thread."""


waiting: dict[Waiting, None] = {}
"""Every step of this process that waits now.  A step enters and leaves it in its own thread."""

Noted = Callable[[Sequence[tuple["NodeInfo", "Pending[Any]"]]], Callable[[], object] | None]

noted: Noted | None = None
"""What is told, when a wait of a step begins, which nodes wait for what, and gives what is called when it is over: who
makes spans of waits (`run.spans`).
"""

Told = Callable[[float], object]
"""told(seconds): how long the wait has lasted."""

_watched: WeakKeyDictionary[Scope, Told] = WeakKeyDictionary()


def watch_over(scope: Scope, told: Told) -> None:
    """Have `told` called for long waits under `scope`, as long as that is there."""
    _watched[scope] = told


def sleep_limit(scope: Scope, poll_s: float) -> float:
    """How long a wait may sleep that says so after `poll_s`: see `Scope.sleep_limit`."""
    sleep = scope.sleep_limit()
    return poll_s if sleep is None or poll_s < sleep else sleep


def tell(scope: Scope, since: float, poll_s: float) -> float:
    """A wait that began at `since` (time.monotonic) has slept in vain; after how long to say so next."""
    waited_s = time.monotonic() - since
    if waited_s < poll_s:
        return poll_s
    above: Scope | None = scope
    while above is not None:
        told = _watched.get(above)
        if told is not None:
            told(waited_s)
            break
        above = above.parent
    return poll_s * 2


def _asked_for(environ: Mapping[str, str]) -> float | None:
    text = environ.get("HEADRACE_BLOCKED_AFTER_S", "").strip()
    try:
        seconds = float(text) if text else _DEFAULT_S
    except ValueError:
        import logging  # takes its time to load

        logging.getLogger("headrace").warning(
            "HEADRACE_BLOCKED_AFTER_S=%r is no number of seconds; 10 is taken", text
        )
        seconds = _DEFAULT_S
    return seconds if seconds > 0 else None


threshold_s: float | None
"""After how long a blocked step is reported; None: never."""

first_poll_s: float
"""After how long a wait is called long."""


def report_after(seconds: float | None) -> None:
    """Set the threshold for waits that begin from now on; None: no blocked step is reported.

    At first it is the environment's HEADRACE_BLOCKED_AFTER_S, else 10; 0 there means never.
    """
    global threshold_s, first_poll_s
    threshold_s = seconds
    first_poll_s = _FIRST_POLL_S if seconds is None else min(seconds / 2, _FIRST_POLL_S)


report_after(_asked_for(os.environ))
