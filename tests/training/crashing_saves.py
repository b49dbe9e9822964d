"""Saves that are killed, or that the disk fails, at every step of theirs on files; run as a program of its own.

    python crashing_saves.py KILL|ENOSPC|EROFS|... EVERY SEED WAY...

Ends every so many of them, beginning with SEED.  Prints a line for each: how the save was done, where it ended, and
what a new process then found.
"""

from __future__ import annotations

import errno
import os
import signal
import sys
from collections.abc import Callable
from typing import Any

import headrace as tf
from headrace.run.checkpoints.writing import TemporaryFile
from headrace.run.readers.files import Files

SIZE = 1 << 12
STEPS = (
    "open",
    "replace",
    "link",
    "remove",
    "unlink",
    "make_directory",
    "remove_directory",
    "sync_directory",
)


def on_each_step(act: Callable[[str], None], fails: bool) -> None:
    """Call `act` before all that is done to files; unless it fails then, in the middle of what is written, too."""

    def before(kind: Any, name: str) -> None:
        plain = getattr(kind, name)

        def first(self: Any, *arguments: Any, **named: Any) -> Any:
            if name != "open" or arguments[1] != "rb":
                act(name)
            return plain(self, *arguments, **named)

        setattr(kind, name, first)

    for name in STEPS:
        before(Files, name)
    if fails:
        return
    before(TemporaryFile, "sync")
    write = TemporaryFile.write

    def halves(self: TemporaryFile, content: Any) -> None:
        view = memoryview(content)
        write(self, bytes(view[: len(view) // 2]))
        act("write")
        write(self, bytes(view[len(view) // 2 :]))

    TemporaryFile.write = halves  # type: ignore[method-assign]


class Program:
    """Variables that are all `value`, and a saver of them."""

    def __init__(self, way: str) -> None:
        tf.reset_default_graph()
        for at, device in enumerate(("/cpu:0", "")):
            with tf.device(device):
                tf.Variable(tf.fill([SIZE], 0.0), name=f"x{at}")
        self.way = way
        version = tf.train.SaverDef.V1 if way == "V1" else tf.train.SaverDef.V2
        self.saver = tf.train.Saver(sharded=way == "shards", write_version=version, max_to_keep=1)

    def save(self, value: float) -> None:
        with tf.Session() as session:
            session.run([each.assign(tf.fill([SIZE], value)) for each in tf.global_variables()])
            if value > 1.0:
                self.saver.recover_last_checkpoints(["./m-1"])
            step = int(value) if self.way == "steps" else None
            self.saver.save(session, "./m", global_step=step)

    def found(self) -> str:
        path = tf.train.latest_checkpoint(".")
        if path is None:
            return "nothing"
        with tf.Session() as session:
            self.saver.restore(session, path)
            values = {float(n) for x in session.run(tf.global_variables()) for n in x}
        return f"{path} {sorted(values)}"


def in_a_process(act: Callable[[], Any]) -> int:
    """Its exit code; -9 if it was killed."""
    sys.stdout.flush()
    child = os.fork()
    if not child:
        code = 1
        try:
            code = act() or 0
        finally:
            sys.stdout.flush()
            os._exit(code)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def run(way: str, number: int, every: int, seed: int) -> None:
    """number: 0 kills; otherwise an error of the system."""

    def good() -> None:
        Program(way).save(1.0)

    def bad(limit: int) -> int:
        left = [limit]

        def act(name: str) -> None:
            left[0] -= 1
            if left[0] == 0:
                print(f"{way} at {limit} {name}:", end=" ", flush=True)
                if not number:
                    os.kill(os.getpid(), signal.SIGKILL)
                raise OSError(number, os.strerror(number))

        on_each_step(act, number != 0)
        try:
            Program(way).save(2.0)
        except tf.errors.OpError as error:
            print(type(error).__name__, end=" ", flush=True)
        return 3 if left[0] > 0 else 0

    for name in os.listdir("."):
        os.remove(name)
    in_a_process(good)
    for limit in range(1 + seed % every, 1000, every):
        if in_a_process(lambda limit=limit: bad(limit)) == 3:  # type: ignore[misc]
            break
        in_a_process(lambda: print(Program(way).found(), end=" "))
        left_over = [name for name in os.listdir(".") if ".tempstate" in name]
        print(f"and {len(left_over)} left over")
        for name in left_over:
            os.remove(name)
        in_a_process(good)


if __name__ == "__main__":
    tf.logging.set_verbosity(tf.logging.FATAL)
    kind, every, seed, *ways = sys.argv[1:]
    for each in ways:
        run(each, getattr(errno, kind, 0), int(every), int(seed))
