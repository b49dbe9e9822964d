"""What the launches of one cluster tell each other: whose tasks have ended, and that all is over.

Each has a server beside those of its tasks, with a queue that takes what the others say, so that neither telling nor
hearing needs a task, and strangers are kept out as they are there.  A launch tells those that wait for the tasks that
decide when one of its own has ended well, and everybody when it fails or is ended by a signal; who was told of the end
tells nobody.
Called by: command (makes it), supervisor.  Threads: one that listens, one for each launch that is being told; `heard`
and `problems` are taken by the supervisor's.
"""

from __future__ import annotations

import json
import threading
from collections import deque
from collections.abc import Callable, Collection, Sequence
from contextlib import suppress
from dataclasses import dataclass

import headrace as tf
from headrace.serve.connect.readiness import within
from headrace.serve.connect.transports import Transports, transports, using
from headrace.tools.commands import CommandError
from headrace.tools.launch.roles import Place, Task

TOLD_WITHIN_S = 10.0
"""Who does not take what is told until then is not told."""

_JOB = "launch"
_CONTAINER, _QUEUE = "headrace_launch", "told"
_MOST_WAITING = 100_000


@dataclass(frozen=True)
class Told:
    """done: names of tasks that have ended well.  code: how all ends; None: it goes on.  why: in words."""

    done: tuple[str, ...] = ()
    code: int | None = None
    why: str = ""

    def text(self) -> str:
        """As it is sent."""
        return json.dumps({"done": self.done, "code": self.code, "why": self.why})

    @classmethod
    def parse(cls, text: str) -> Told:
        """Raises ValueError."""
        try:
            fields = json.loads(text)
            code = fields["code"]
            return cls(
                tuple(map(str, fields["done"])),
                None if code is None else int(code),
                str(fields["why"]),
            )
        except (KeyError, TypeError) as error:
            raise ValueError(f"not what a launch says: {text!r:.80}") from error


class Elsewhere:
    """The launches of other hosts; a context manager."""

    def __init__(self, places: Sequence[Place], own: int) -> None:
        """Listens.  Raises CommandError: the port is taken."""
        self._places, self._own = places, own
        self.waiting_for = {
            each
            for at, place in enumerate(places)
            if at != own
            for each in place.deciding  # by whom it is decided that all is over
        }
        self.wake: Callable[[], None] = lambda: None
        """Called from any thread when there is something to take."""
        self._heard: deque[Told] = deque()
        self._problems: deque[str] = deque()
        self._tellers: set[threading.Thread] = set()
        self._lock = threading.Lock()
        cluster = {_JOB: {own: places[own].address}}
        try:
            with using(Transports(transports().main, None)):  # the lane's port is a task's
                self._server = tf.train.Server(cluster, _JOB, own, file_roots=[])
        except tf.errors.OpError as error:
            raise CommandError(
                f"this launch listens at {places[own].address}, the port after those of its tasks: {error.message}"
            ) from error
        self._listener = threading.Thread(target=self._listen, name="headrace launch listens")

    def __enter__(self) -> Elsewhere:
        self._listener.start()
        return self

    def __exit__(self, *exc: object) -> None:
        self._server.stop()
        self._listener.join()

    @property
    def telling(self) -> bool:
        """Whether somebody has not taken yet what he is told."""
        with self._lock:
            return bool(self._tellers)

    def heard(self) -> list[Told]:
        """What others have said since it was last asked.  Whom they say to be done is waited for no longer."""
        found = []
        while self._heard:
            found.append(self._heard.popleft())
            self.waiting_for.difference_update(found[-1].done)
        return found

    def problems(self) -> list[str]:
        """Who could not be told, since it was last asked."""
        found = []
        while self._problems:
            found.append(self._problems.popleft())
        return found

    def say_done(self, tasks: Collection[Task]) -> None:
        """These, which decide, have ended well.  Whoever has other tasks wants to know; does not wait."""
        told = Told(done=tuple(task.name for task in tasks))
        self._tell(told, [place for place in self._others() if place.waits])

    def say_end(self, code: int, why: str) -> None:
        """All is over; does not wait."""
        told = Told(code=code, why=why)
        self._tell(told, [place for place in self._others() if code or place.waits])

    def _others(self) -> list[Place]:
        """Those that have tasks: where there are none, nobody launches."""
        others = [place for at, place in enumerate(self._places) if at != self._own]
        return [place for place in others if place.deciding or place.waits]

    # -- the threads --------------------------------------------------------------------------------

    def _listen(self) -> None:
        with tf.Graph().as_default(), tf.container(_CONTAINER):
            take = _queue().dequeue()
            with suppress(tf.errors.OpError), tf.Session(self._server.target) as session:
                while True:  # until the server is stopped
                    try:
                        self._heard.append(Told.parse(session.run(take).decode()))
                    except ValueError as error:
                        self._problems.append(str(error))
                    self.wake()

    def _tell(self, told: Told, places: Sequence[Place]) -> None:
        for place in places:
            thread = threading.Thread(
                target=self._tell_one,
                args=(told, place),
                name=f"headrace launch tells {place.address}",
                daemon=True,  # Ctrl-C twice waits for nobody
            )
            with self._lock:
                self._tellers.add(thread)
            thread.start()

    def _tell_one(self, told: Told, place: Place) -> None:
        config = tf.ConfigProto(operation_timeout_in_ms=round(TOLD_WITHIN_S * 1000))
        try:
            with tf.Graph().as_default(), tf.container(_CONTAINER), within(TOLD_WITHIN_S):
                put = _queue().enqueue(told.text())
                with tf.Session(f"grpc://{place.address}", config=config) as session:
                    session.run(put)
        except tf.errors.OpError as error:
            self._problems.append(f"the launch at {place.address} was not told: {error.message}")
        finally:
            with self._lock:
                self._tellers.discard(threading.current_thread())
            self.wake()


def _queue() -> tf.FIFOQueue:
    """Of the server that a session is with."""
    return tf.FIFOQueue(_MOST_WAITING, [tf.string], [[]], shared_name=_QUEUE)
