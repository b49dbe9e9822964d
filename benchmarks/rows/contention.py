"""Many clients at once: threads of one program with a session each, and a server that has other things to do."""

from __future__ import annotations

import tempfile
import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path
from typing import Any

from benchmarks.floors import round_trips
from benchmarks.row import Bench, Unit, row

CLUSTER = {"ps": 1, "worker": 1}
LINES = 1000
RECORDS = 32
WITHIN_S = 60.0


@row("8 sessions updating one variable", unit=Unit.PER_SECOND, cluster=CLUSTER, faster=8)
def sessions_on_one_variable(tf: Any, bench: Bench, clients: int = 8, step: str = "update") -> None:
    """Every session adds to a variable of the parameter server and fetches it; no update may be lost.

    step: what else each of them may run: `read`, the variable, or `const`, a constant of their master.
    """
    with tf.device("/job:ps/task:0"):
        x = tf.Variable(0, dtype=tf.int64)
        count = x.assign_add(1, use_locking=True)
    with tf.device("/job:worker/task:0"):
        answer = tf.constant(42)
    fetch = {"update": count, "read": x, "const": answer}[step]
    with ExitStack() as stack:
        sessions = [stack.enter_context(tf.Session(bench.target("worker"))) for _ in range(clients)]
        sessions[0].run(tf.global_variables_initializer())
        for number, session in enumerate(sessions):
            wanted = {"update": 1 + number, "read": 0, "const": 42}[step]
            bench.expect(session.run(fetch), wanted)
        calls = bench.rate([partial(session.run, fetch) for session in sessions])
        bench.expect(sessions[0].run(x), clients * (1 + calls) if step == "update" else 0)


@row("4 producers and 4 consumers on one queue", unit=Unit.PER_SECOND, cluster=CLUSTER, faster=8)
def producers_and_consumers(tf: Any, bench: Bench, clients: int = 8) -> None:
    """Half of the sessions put elements into a queue of the parameter server, the others take them out."""
    with tf.device("/job:ps/task:0"):
        queue = tf.FIFOQueue(100, [tf.float32], shapes=[[]], shared_name="queue")
        put, get, size = queue.enqueue(42.0), queue.dequeue(), queue.size()
    with ExitStack() as stack:
        pairs = [
            [stack.enter_context(tf.Session(bench.target("worker"))) for _ in range(2)]
            for _ in range(max(1, clients // 2))
        ]
        for producer, consumer in pairs:
            producer.run(put)
            bench.expect(consumer.run(get), 42.0)
        steps = [partial(session.run, put) for session, _ in pairs]
        steps += [partial(session.run, get) for _, session in pairs]
        bench.rate(steps)
        bench.expect(pairs[0][0].run(size), 0)


@row("run(var) on a server busy with CSV", cluster=CLUSTER, faster=3, floors=round_trips(1))
def run_var_while_busy(tf: Any, bench: Bench) -> None:
    """Read a variable of a parameter server that also reads lines of CSV, decodes, shuffles and batches them."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "records.csv"
        path.write_text("".join(f"{n},{n / 2},{n % 10}\n" for n in range(LINES)))
        with tf.device("/job:ps/task:0"):
            x = tf.Variable(42.0)
            batch = _csv_batch(tf, path)
        with tf.Session(bench.target("worker")) as session:
            session.run(tf.global_variables_initializer())
            with _pipeline(tf, session, batch) as batches:
                number, half, digit = next(batches)
                bench.expect(half, number / 2)
                bench.expect(digit, number % 10)
                bench.expect(session.run(x), 42.0)
                bench.time(lambda: session.run(x))
                next(batches)  # it went on meanwhile


def _csv_batch(tf: Any, path: Path) -> Any:
    names = tf.train.string_input_producer([str(path)], capacity=4)
    _, line = tf.TextLineReader().read(names)
    record = tf.decode_csv(line, record_defaults=[[0.0], [0.0], [0.0]])
    return tf.train.shuffle_batch(record, RECORDS, 1000, min_after_dequeue=200, num_threads=2)


@contextmanager
def _pipeline(tf: Any, session: Any, batch: Any) -> Iterator[Iterator[Any]]:
    """Queue runners and a thread that takes batches, as fast as they can; yields batches that it took."""
    coordinator, took, latest = tf.train.Coordinator(), threading.Semaphore(0), [None]

    def take() -> None:
        with coordinator.stop_on_exception():
            while not coordinator.should_stop():
                latest[0] = session.run(batch)
                took.release()

    def fresh() -> Iterator[Any]:
        while True:
            while took.acquire(blocking=False):
                pass
            if not took.acquire(timeout=WITHIN_S):
                raise TimeoutError(f"no batch within {WITHIN_S:.0f} s")
            yield latest[0]

    threads = tf.train.start_queue_runners(session, coordinator)
    threads.append(threading.Thread(target=take, daemon=True))
    threads[-1].start()
    try:
        yield fresh()
    finally:
        coordinator.request_stop()
        coordinator.join(threads, stop_grace_period_secs=WITHIN_S)
