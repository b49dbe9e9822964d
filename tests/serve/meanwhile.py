"""Steps that run while a test does something else."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager

import headrace as tf


@contextmanager
def running_again_and_again(session: tf.Session, fetch: object) -> Iterator[None]:
    """Inside, another thread runs one such step after the other."""
    stop = threading.Event()

    def run() -> None:
        while not stop.is_set():
            session.run(fetch)

    thread = threading.Thread(target=run)
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join()
