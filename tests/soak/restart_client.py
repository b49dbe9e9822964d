"""A client of `tests.soak.restarts`, a process of its own: python -m tests.soak.restart_client TARGET

It does what its input says, a line at a time, and answers each with a line of JSON.  "block": a step waits in a queue
of the ps.  "read N": the ps has been restarted, and its variable is N; what did its steps, that one too, raise until
all of them have read that?
"""

from __future__ import annotations

import json
import sys
import threading
from collections import Counter
from collections.abc import Callable
from typing import Any

import headrace as tf


class Program:
    """A variable of the ps, ways to read it, and a step that waits there."""

    def __init__(self) -> None:
        with tf.device("/job:ps"):
            self.variable = tf.get_variable("number", [], tf.int32, tf.zeros_initializer())
            self.given = tf.placeholder(tf.int32, [])
            self.init = self.variable.assign(self.given)
            begun = tf.FIFOQueue(9, [tf.int32], [[]], shared_name="begun")
            with tf.control_dependencies([begun.enqueue(1)]):
                self.blocked = tf.FIFOQueue(9, [tf.int32], [[]], shared_name="empty").dequeue()
            self.has_begun = begun.dequeue()
        self.through = []
        for worker in (0, 1):
            with tf.device(f"/job:worker/task:{worker}"):
                self.through.append(self.variable + 0)


class Client:
    """Two sessions, the second of which only uses what lies on the ps."""

    def __init__(self, target: str) -> None:
        self._program = program = Program()
        self._sessions = [tf.Session(target), tf.Session(target)]
        first, second = self._sessions
        called = first.make_callable(program.through[0])
        self._reads: list[list[Callable[[], Any]]] = [
            [
                lambda: first.run(program.through[1]),
                called,
                lambda: first.run(program.variable),
                lambda: first.run([program.variable, *program.through])[0],
            ],
            [lambda: second.run(program.variable)],
        ]
        self._step: threading.Thread | None = None
        self._ended = ""

    def block(self) -> dict[str, Any]:
        """See the module header."""
        session = self._sessions[0]

        def wait() -> None:
            try:
                session.run(self._program.blocked)
            except tf.errors.OpError as error:
                self._ended = type(error).__name__

        self._step = threading.Thread(target=wait)
        self._step.start()
        session.run(self._program.has_begun)
        return {}

    def read(self, number: int) -> dict[str, Any]:
        """By session, how often each kind of error was raised."""
        counts = [Counter[str](), Counter[str]()]
        if self._step is not None:
            self._step.join()
            counts[0]["the blocked step's " + self._ended] += 1
            self._step = None
        for reads, raised in zip(self._reads, counts, strict=True):
            for read in reads * 3:  # from the third time on some take the direct way
                while True:
                    try:
                        found = read()
                    except tf.errors.OpError as error:
                        raised[type(error).__name__] += 1
                        continue
                    assert found == number, f"it has read {found}, not {number}"
                    break
        return {"raised": counts}


def main(target: str) -> None:
    client = Client(target)
    print(json.dumps({}), flush=True)
    for line in sys.stdin:
        word, *number = line.split()
        answer = client.block() if word == "block" else client.read(int(number[0]))
        print(json.dumps(answer), flush=True)


if __name__ == "__main__":
    main(sys.argv[1])
