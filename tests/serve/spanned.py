"""A process with spans: OpenTelemetry takes one tracer provider in a process, so no test may set one.

    spanned.py FILE serve …       headrace's command, with the arguments of tests.serve.clusters
    spanned.py FILE NAME TARGET   one of the programs below, as a client

Spans go to FILE, a line each, as soon as they end.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

from opentelemetry import trace
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import ConsoleSpanExporter, SimpleSpanProcessor
from opentelemetry.sdk.trace.sampling import ALWAYS_OFF, ALWAYS_ON

import headrace as tf
from headrace.client.reaching import Task
from headrace.serve.rpc.limits import LIMITS

WITHIN_S = 60.0


def export_to(path: str, sampled: bool = True) -> None:
    """Have every span written there."""
    file = open(path, "a", buffering=1)  # noqa: SIM115  # as long as the process
    exporter = ConsoleSpanExporter(
        out=file, formatter=lambda span: f"{span.to_json(indent=None)}\n"
    )
    provider = TracerProvider(sampler=ALWAYS_ON if sampled else ALWAYS_OFF)
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    trace.set_tracer_provider(provider)


def waits(target: str) -> None:
    """A step that waits for a queue of the ps, which sends what it takes to the worker."""
    on_ps, on_worker = ("/job:ps/task:0", "/job:worker/task:0") if target else (None, None)
    with tf.device(on_ps):
        examples = tf.FIFOQueue(8, tf.float32, [[]], shared_name="examples")
        batch = examples.dequeue_many(2, name="batch")
        put = examples.enqueue_many([[1.0, 2.0]], name="put")
    with tf.device(on_worker):
        total = tf.reduce_sum(batch * 2.0, name="total")
    with tf.Session(target) as session, ThreadPoolExecutor(1) as pool:
        step = pool.submit(session.run, total)
        while not any(each.node == "batch" for each in session.blocked_steps()):
            if step.done():
                step.result()
        session.run(put)
        assert step.result() == 6.0


def when_looked_for() -> threading.Event:
    """Set when a task has been looked for that the session may ask by itself."""
    reach, looked = Task._reach, threading.Event()

    def reaching(task: Task) -> None:
        reach(task)
        looked.set()

    Task._reach = reaching  # type: ignore[method-assign]
    LIMITS.reach_within_s = WITHIN_S  # the machine may be busy
    return looked


def counts(target: str, may_go_on: Callable[[], object] = lambda: None) -> None:
    """The same step again and again: by names, by number, then without the master, if its task has been found."""
    with tf.device("/job:ps/task:0"):
        count = tf.get_variable("count", initializer=0.0)
        add = count.assign_add(1.0, name="add")
    with tf.Session(target) as session:
        session.run(count.initializer)
        found = [session.run(add) for _ in range(2)]
        may_go_on()
        found += [session.run(add) for _ in range(6)]
        called = session.make_callable(add)
        found += [called(), called()]
    assert found == [float(n) for n in range(1, 11)], found


def counts_directly(target: str) -> None:
    """The same where its task has been found by then."""
    looked = when_looked_for()
    counts(target, lambda: looked.wait(WITHIN_S))


def fails(target: str) -> None:
    """A step that fails on the ps."""
    with tf.device("/job:ps/task:0"):
        unset = tf.get_variable("unset", initializer=0.0)
        read = tf.identity(unset, name="read")
    with tf.Session(target) as session:
        try:
            session.run(read)
        except tf.errors.FailedPreconditionError:
            return
    raise AssertionError("it has not failed")


def within(target: str) -> None:
    """Steps within a span of the program's own."""
    with tf.device("/job:ps/task:0"):
        count = tf.get_variable("count", initializer=0.0)
    tracer = trace.get_tracer("program")
    with tf.Session(target) as session, tracer.start_as_current_span("epoch"):
        session.run(count.initializer)
        session.run(count)


PROGRAMS: dict[str, Callable[[str], None]] = {
    each.__name__: each for each in (waits, counts, counts_directly, fails, within)
}


def main(path: str, what: str, *more: str) -> int:
    """See the module header.  NAME may end with -unsampled."""
    name = what.removesuffix("-unsampled")
    export_to(path, sampled=name == what)
    if what == "serve":
        from headrace.tools.main import main as command

        return command(["serve", *more])
    PROGRAMS[name](more[0])
    return 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
