"""A run of `headrace demo`: the parent of a small cluster that trains on real data.

Three servers (one ps, two workers), a loader and two trainers, each a process of its own on this
machine.  The parent shows their progress, evaluates the result, and writes trace.json and
report.html; the trainers write events and checkpoints, and a run begins with the last checkpoint of
the one before.  Whatever happens, everything it started is stopped before it returns.

Called by: demo.command.
Threads: the main one takes events from a queue; those of `Processes`; one that samples the depth
of the queue.  rich, if there is one, has one for its display.
"""

from __future__ import annotations

import argparse
import math
import os
import platform
import signal
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from queue import SimpleQueue
from types import FrameType

import headrace as tf
from headrace.run.thread_group import ThreadGroup
from headrace.tools import terminal
from headrace.tools.commands import CommandError, ExitCode, Streams, UsageError
from headrace.tools.demo import data, model
from headrace.tools.demo.cluster import (
    STOPPING,
    Cluster,
    Event,
    Exited,
    Interrupted,
    Line,
    Process,
    Processes,
    Trouble,
    failure,
    start_cluster,
)
from headrace.tools.demo.collect import Collector
from headrace.tools.demo.evaluate import evaluate
from headrace.tools.demo.messages import parse
from headrace.tools.demo.trainer import LOSS_TAG
from headrace.tools.demo.views import View, view_on
from headrace.tools.report.page import render
from headrace.tools.report.record import Client, Queue, Record, Task
from headrace.tools.terminal import Console
from headrace.training.timeline import Timeline

JOBS = {"ps": 1, "worker": 2}
LEARNING_RATE = 0.008
SAMPLE_EVERY_S = 0.1
SILENCE_S = 60.0
EXPLAINED_WITHIN_S = 0.5
TRAINING = "headrace-demo"


@dataclass(frozen=True)
class Plan:
    """What a run will do."""

    digits: data.Digits
    out: Path
    epochs: int
    batch: int
    train_rows: int
    checkpoint: str | None = None  # of an earlier run, with which this one begins
    start: int = 0  # its global step

    @property
    def directory(self) -> Path:
        """Where events and checkpoints are."""
        return self.out / TRAINING

    @property
    def examples(self) -> int:
        """Of all epochs."""
        return self.epochs * self.train_rows

    @property
    def steps(self) -> int:
        """Of all trainers together, if every batch is full."""
        return math.ceil(self.examples / self.batch)

    @property
    def trace_at(self) -> tuple[int, int]:
        """The steps each trainer traces: the second one is free of what tracing sets up."""
        first = max(2, min(60, self.steps // 8))
        return first, first + 1


@dataclass(frozen=True)
class Outcome:
    """A finished run: its record and its trace as JSON."""

    record: Record
    trace: str


def run(args: argparse.Namespace, streams: Streams) -> int:
    """What `demo.command` promises of the exit code."""
    plan = _plan(args)
    console: Console = terminal.rich_console(streams.out) or terminal.PlainConsole(streams.out)
    with _signals_interrupt() as received:
        try:
            outcome = _run(plan, console)
            _write(plan, outcome)
        except (KeyboardInterrupt, Interrupted):
            streams.err.write("headrace demo: interrupted; everything it started is stopped\n")
            return 128 + received[0] if received else ExitCode.INTERRUPTED
    _summarize(plan, outcome.record, console)
    accuracy = outcome.record.results.accuracy
    if accuracy < args.min_accuracy:
        raise CommandError(f"accuracy {accuracy:.3f} is below {args.min_accuracy:g}")
    return ExitCode.OK


def _plan(args: argparse.Namespace) -> Plan:
    if args.epochs < 1 or args.batch < 1:
        raise UsageError("--epochs and --batch must be at least 1")
    digits = data.find(args.data)
    out = args.out.resolve()
    try:
        out.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise CommandError(f"--out {args.out}: {error.strerror}") from error
    if not os.access(out, os.W_OK):
        raise CommandError(f"--out {args.out}: the directory is not writable")
    checkpoint, step = _last_checkpoint(out / TRAINING)
    rows = data.count_rows(digits.train)
    return Plan(digits, out, args.epochs, args.batch, rows, checkpoint, step)


def _last_checkpoint(directory: Path) -> tuple[str | None, int]:
    """The checkpoint that an earlier run left, and its global step."""
    path = tf.train.latest_checkpoint(str(directory))
    if path is None:
        return None, 0
    return path, int(path.rpartition("-")[2])


@contextmanager
def _signals_interrupt() -> Iterator[list[int]]:
    """SIGTERM and SIGHUP raise KeyboardInterrupt like SIGINT; yields the number received.

    Only the first raises: what follows it is stopping, which takes no longer than its grace.
    """
    received: list[int] = []

    def interrupt(number: int, frame: FrameType | None) -> None:
        received.append(number)
        for each in caught:
            signal.signal(each, signal.SIG_IGN)
        raise KeyboardInterrupt

    caught = [
        number
        for number in STOPPING
        if signal.getsignal(number) is not signal.SIG_IGN  # as nohup sets it
    ]
    previous = {number: signal.signal(number, interrupt) for number in caught}
    try:
        yield received
    finally:
        for number, handler in previous.items():
            signal.signal(number, handler)


def _run(plan: Plan, console: Console) -> Outcome:
    started, start = datetime.now().astimezone(), time.monotonic()
    with Processes() as processes:
        console.print("[bold]starting[/] a cluster of three processes on this machine")
        cluster = start_cluster(processes, JOBS)
        for name, server in cluster.servers.items():
            job, task = name.split()
            address = cluster.jobs[job][int(task)]
            task_name = f"/job:{job}/task:{task}"
            console.print(f"  {task_name:<19}  {address}  [dim]pid {server.pid}[/]")
        collector = Collector([f"worker {task}" for task in range(JOBS["worker"])])
        console.print(
            f"[bold]training[/] on {plan.train_rows:,} digits, {plan.epochs} times: "
            "one loader, one queue, two trainers"
        )
        if plan.checkpoint is not None:
            console.print(
                f"[bold]resuming[/] from {plan.checkpoint} [dim](remove {plan.directory} to begin anew)[/]",
                soft_wrap=True,
            )
        clients = _start_programs(processes, cluster, plan)
        for client in clients:
            console.print(
                f"  {client.name:<19}  session on {client.task}  [dim]pid {client.pid}[/]"
            )
        with view_on(console, collector, plan.examples, model.CAPACITY) as view:
            _watch(processes, cluster, collector, view)
        pixels, labels = data.read_digits(plan.digits.test)
        evaluation = evaluate(tf.train.ClusterSpec(cluster.jobs), pixels, labels)
    traced = collector.traced()
    if not traced:
        raise CommandError("no step was traced; train longer: raise --epochs")
    _, metadata = next(iter(traced.values()))
    record = collector.record(
        started=started,
        wall_s=time.monotonic() - start,
        tasks=[
            Task(f"/job:{job}/task:{task}", address, cluster.servers[f"{job} {task}"].pid)
            for job, addresses in cluster.jobs.items()
            for task, address in enumerate(addresses)
        ],
        clients=clients,
        queue=_queue(),
        epochs=plan.epochs,
        train_rows=plan.train_rows,
        evaluation=evaluation,
        parameters=_parameters(plan),
        earlier=_earlier(plan),
    )
    return Outcome(record, Timeline(metadata.step_stats).generate_chrome_trace_format())


def _start_programs(processes: Processes, cluster: Cluster, plan: Plan) -> list[Client]:
    package = "headrace.tools.demo"
    loader = processes.start(
        "loader",
        f"{package}.loader",
        *("--target", f"grpc://{cluster.jobs['ps'][0]}", "--epochs", str(plan.epochs)),
        *(str(path) for path in plan.digits.train),
    )
    clients = [
        Client("loader", loader.pid, model.PS, "reads CSV files into the queue, in five threads")
    ]
    for task in range(JOBS["worker"]):
        trainer = processes.start(
            f"trainer {task}",
            f"{package}.trainer",
            *("--cluster", cluster.spec, "--task", str(task), "--batch", str(plan.batch)),
            *("--learning-rate", str(LEARNING_RATE), "--steps", str(plan.steps)),
            *("--start", str(plan.start), "--directory", str(plan.directory)),
            *(("--restore", plan.checkpoint) if plan.checkpoint else ()),
            *("--trace-at", *map(str, plan.trace_at)),
        )
        begins = "restores" if plan.checkpoint else "initializes"
        does = f"{begins} the variables, then trains" if task == 0 else "trains"
        clients.append(Client(f"trainer {task}", trainer.pid, f"/job:worker/task:{task}", does))
    return clients


def _watch(processes: Processes, cluster: Cluster, collector: Collector, view: View) -> None:
    """Follow the programs until the loader and the trainers have ended well.

    Raises ChildFailed, Interrupted, CommandError (silence, or the depth cannot be read).
    """
    stop = threading.Event()
    with ThreadGroup("demo depth") as group:
        group.start(
            _sample_depth, f"grpc://{cluster.jobs['ps'][0]}", stop, collector, processes.events
        )
        try:
            _follow(processes, cluster, collector, view)
        finally:
            stop.set()


def _follow(processes: Processes, cluster: Cluster, collector: Collector, view: View) -> None:
    servers = set(cluster.servers.values())
    while set(processes.running) - servers:
        event = processes.next_event(SILENCE_S)
        match event:
            case None:
                raise CommandError(_silence(processes, servers, collector))
            case Line(process, text):
                message = parse(text)
                if message is not None:
                    collector.take(process.name.replace("trainer", "worker"), message)
                    view.refresh()
            case Exited(process, code) if code != 0 or process in servers:
                raise _explain(processes, servers, event)
            case Trouble():
                raise _explain(processes, servers, event)


def _explain(processes: Processes, servers: set[Process], first: Exited | Trouble) -> Exception:
    """The failure to report.

    A server that ended explains everything else, a program that ended explains our own trouble.
    """
    deadline = time.monotonic() + EXPLAINED_WITHIN_S
    chosen = first
    while isinstance(chosen, Trouble) or chosen.process not in servers:
        event = processes.next_event(deadline - time.monotonic())
        if event is None and any(each.is_over() for each in servers):
            event = processes.next_event(SILENCE_S)
        if event is None:
            break
        if isinstance(event, Exited) and (
            event.process in servers or (isinstance(chosen, Trouble) and event.code != 0)
        ):
            chosen = event
    return CommandError(chosen.text) if isinstance(chosen, Trouble) else failure(chosen)


def _silence(processes: Processes, servers: set[Process], collector: Collector) -> str:
    waiting = ", ".join(
        f"{process.name} (pid {process.pid})"
        for process in processes.running
        if process not in servers
    )
    depth = f"{collector.depth[-1][1]:,} elements" if collector.depth else "an unknown depth"
    return (
        f"for {SILENCE_S:.0f} s there was no word of {waiting}; "
        f"{collector.examples:,} examples were trained on, the queue has {depth}"
    )


def _sample_depth(
    target: str, stop: threading.Event, collector: Collector, events: SimpleQueue[Event]
) -> None:
    """Read the queue's depth at intervals until `stop`; an error becomes an event."""
    with tf.Graph().as_default() as graph:
        size = model.examples_queue().size()
    config = tf.ConfigProto(operation_timeout_in_ms=30_000)
    try:
        with tf.Session(target, graph=graph, config=config) as session:
            while not stop.wait(SAMPLE_EVERY_S):
                collector.take_depth(time.time(), int(session.run(size)))
    except tf.errors.OpError as error:
        events.put(Trouble(f"the depth of the queue cannot be read: {error}"))


def _queue() -> Queue:
    return Queue(
        name=model.QUEUE,
        kind="RandomShuffleQueue",
        device=model.PS,
        capacity=model.CAPACITY,
        min_after_dequeue=model.MIN_AFTER_DEQUEUE,
        components=(f"float32 [{data.PIXELS}]", "int32 []"),
    )


def _parameters(plan: Plan) -> dict[str, str]:
    layers = "-".join(map(str, (data.PIXELS, *model.HIDDEN, model.CLASSES)))
    return {
        "Network": f"{layers}, ReLU",
        "Optimizer": f"Adam, {LEARNING_RATE:g} falling linearly",
        "Batch": f"{plan.batch}",
        "Epochs": f"{plan.epochs}",
        "Training set": f"{plan.train_rows:,} digits in {len(plan.digits.train)} files",
        "Queue": f"capacity {model.CAPACITY:,}, {model.MIN_AFTER_DEQUEUE:,} kept for shuffling",
        "Machine": f"{os.cpu_count()} cores, {platform.system()} {platform.machine()}",
        "Python": platform.python_version(),
    }


def _earlier(plan: Plan) -> dict[str, list[tuple[int, float]]]:
    """The losses that earlier runs left in event files, up to where this one began: (global step, loss) by trainer."""
    found: dict[str, dict[int, float]] = {}
    for task in range(JOBS["worker"]):
        losses = found.setdefault(f"worker {task}", {})
        for path in sorted((plan.directory / f"worker{task}").glob("*tfevents*")):
            for event in tf.train.summary_iterator(path):
                for value in event.summary.value:
                    if value.tag == LOSS_TAG and event.step <= plan.start:
                        losses[event.step] = value.simple_value
    return {name: sorted(losses.items()) for name, losses in found.items()}


def _write(plan: Plan, outcome: Outcome) -> None:
    (plan.out / "trace.json").write_text(outcome.trace)
    (plan.out / "report.html").write_text(render(outcome.record), encoding="utf-8")


def _summarize(plan: Plan, record: Record, console: Console) -> None:
    results = record.results
    shown: Sequence[str] = (
        f"[bold green]accuracy {results.accuracy:.1%}[/] on {len(results.labels)} test digits "
        f"({results.right} right)",
        f"{record.examples:,} examples in {record.training_s:.1f} s: "
        f"{record.examples_per_s:,.0f} examples/s, {record.steps:,} steps",
        f"[bold]{plan.out / 'report.html'}[/]  what happened, as a page",
        f"[bold]{plan.out / 'trace.json'}[/]  one step, for https://ui.perfetto.dev",
        f"[bold]{plan.directory}[/]  events, for `tensorboard --logdir`, and a checkpoint, with which "
        "the next run begins",
    )
    for line in shown:
        console.print(line, soft_wrap=True)
