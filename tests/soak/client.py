"""A client of the chaos, a process of its own: python -m tests.soak.client TARGET NUMBER WORKER SEED

It makes one step after the other and writes a line of JSON before and after each: what, its number, when, and how it
ended.  Errors do not end it; the line "stop" on its input does.
"""

from __future__ import annotations

import json
import random
import select
import sys
import threading
import time
from typing import Any

import headrace as tf
from tests.soak.journal import COUNTED
from tests.soak.program import STEPS_PER_CLIENT, Program

LIMIT_S = 60.0
TAKE_LIMIT_S = 0.5  # of a queue that may be empty
PAUSE_S = 0.02  # after an error


def say(**fields: Any) -> None:
    """A line of the journal."""
    sys.stdout.write(json.dumps(fields) + "\n")
    sys.stdout.flush()


def told_to_stop() -> bool:
    """Whether something has come on the input, or its end."""
    return bool(select.select([sys.stdin], [], [], 0)[0])


def main(target: str, client: int, worker: int, seed: int) -> None:
    """Step until told to stop."""
    program = Program(worker)
    dice = random.Random(f"{seed}/{client}")
    pause = threading.Event()
    with tf.Session(target) as session:
        for step in range(STEPS_PER_CLIENT):
            if told_to_stop():
                break
            kind = dice.choice(["train", "count", "put", "take"])
            number = client * STEPS_PER_CLIENT + step
            limit_s = LIMIT_S if kind in COUNTED else TAKE_LIMIT_S
            options = tf.RunOptions(timeout_in_ms=round(limit_s * 1000))
            began = time.monotonic()
            say(client=client, kind=kind, number=number, at=began, limit=limit_s)
            ended: dict[str, Any] = {"client": client, "kind": kind, "number": number}
            try:
                value = session.run(getattr(program, kind), {program.number: number}, options)
            except tf.errors.OpError as error:
                ended |= {"error": type(error).__name__, "message": str(error)}
            else:
                ended["value"] = None if value is None else int(value)
            say(**ended, ended=time.monotonic())
            if "error" in ended:
                pause.wait(PAUSE_S)


if __name__ == "__main__":
    main(sys.argv[1], *map(int, sys.argv[2:]))
