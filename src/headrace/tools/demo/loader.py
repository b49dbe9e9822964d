"""The loader: a TF 1.x program that keeps the shared queue full from CSV files.

File names -> one queue of names -> five readers, each with its own enqueue op, run by the five
threads of a QueueRunner under a Coordinator.  When the epochs are over the QueueRunner closes the
queue, and the trainers see its end.  Readers and queue sit together on the parameter server, so
that no example crosses a process boundary before a trainer takes it.

Run as: python -m headrace.tools.demo.loader (by `headrace demo`).
Writes: messages `loading` (records so far), `loaded`.
"""

from __future__ import annotations

import argparse
import signal
import sys
from collections.abc import Sequence
from typing import Any

import headrace as tf
from headrace.tools.demo.data import PIXELS
from headrace.tools.demo.messages import emit
from headrace.tools.demo.model import PS, examples_queue
from headrace.tools.lifeline import end_process_when_lost

READERS = 5
READ_AT_ONCE = 16
REPORT_EVERY_S = 0.25


def pipeline(files: Sequence[str], epochs: int) -> tuple[Any, list[Any]]:
    """The QueueRunner that fills the shared queue, and each reader's count of records."""
    with tf.device(PS):
        names = tf.train.string_input_producer(
            list(files), num_epochs=epochs, shuffle=True, name="filenames"
        )
        queue = examples_queue()
        enqueues, produced = [], []
        for number in range(READERS):
            with tf.name_scope(f"reader{number}"):
                reader = tf.TextLineReader(skip_header_lines=1)
                _, lines = reader.read_up_to(names, READ_AT_ONCE)
                # A missing pixel is 0; the label has no default: a missing one is an error.
                defaults = [[0.0]] * PIXELS + [tf.constant([], dtype=tf.int32)]
                *pixels, labels = tf.decode_csv(lines, record_defaults=defaults)
                enqueues.append(queue.enqueue_many([tf.stack(pixels, axis=1), labels]))
                produced.append(reader.num_records_produced())
        runner = tf.train.QueueRunner(queue, enqueues)
        tf.train.add_queue_runner(runner)
        return runner, produced


def load(target: str, files: Sequence[str], epochs: int) -> None:
    """Fill the queue until the epochs are over; raises what a reader raised."""
    runner, produced = pipeline(files, epochs)
    with tf.Session(target) as session:
        session.run(tf.local_variables_initializer())
        coordinator = tf.train.Coordinator()
        threads = [
            thread
            for other in tf.get_collection(tf.GraphKeys.QUEUE_RUNNERS)
            if other is not runner
            for thread in other.create_threads(session, coord=coordinator, daemon=True, start=True)
        ]
        # One thread per enqueue op comes first, then the one that waits to cancel them.
        filling = runner.create_threads(session, coord=coordinator, daemon=True, start=True)
        while any(thread.is_alive() for thread in filling[:READERS]):
            if coordinator.wait_for_stop(REPORT_EVERY_S):
                break
            emit("loading", records=[int(n) for n in session.run(produced)])
        coordinator.request_stop()
        coordinator.join(threads + filling)
        emit("loaded", records=[int(n) for n in session.run(produced)])


def main(argv: Sequence[str] | None = None) -> int:
    """The program."""
    parser = argparse.ArgumentParser(prog="loader")
    parser.add_argument("--target", required=True)
    parser.add_argument("--epochs", type=int, required=True)
    parser.add_argument("--watch-fd", type=int)
    parser.add_argument("files", nargs="+")
    args = parser.parse_args(argv)
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    if args.watch_fd is not None:
        end_process_when_lost(args.watch_fd)
    load(args.target, args.files, args.epochs)
    return 0


if __name__ == "__main__":
    sys.exit(main())
