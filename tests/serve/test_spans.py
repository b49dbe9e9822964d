"""Spans by OpenTelemetry's SDK, in real processes: what a step makes on each, and how they are joined."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

import headrace as tf
from headrace.client.local import LocalEngine
from headrace.client.remote import RemoteEngine
from headrace.run import spans
from headrace.serve.master.master import Master
from headrace.serve.worker.worker import Worker
from tests.serve.clusters import ProcessCluster, in_process, processes

SPANNED = Path(__file__).with_name("spanned.py")
Span = dict[str, Any]


@dataclass
class Traced:
    """A ps and a worker whose spans are in files, by ``job:task``, and so are those of clients."""

    cluster: ProcessCluster
    folder: Path

    def run(self, program: str, target: str = "worker:0") -> None:
        """Run one of the programs to its end, as a client."""
        address = self.cluster.target(target)
        subprocess.run(
            [sys.executable, str(SPANNED), str(self.folder / "client"), program, address],
            check=True,
            timeout=100,
        )

    def spans(self, process: str) -> list[Span]:
        """Those that ended in a process, in the order in which they did."""
        return read(self.folder / process)


def read(path: Path) -> list[Span]:
    lines = path.read_text().splitlines() if path.exists() else []
    return [json.loads(line) for line in lines]


@pytest.fixture
def traced(tmp_path: Path) -> Iterator[Traced]:
    def program(task: str) -> tuple[str, str]:
        return str(SPANNED), str(tmp_path / task)

    with processes({"ps": 1, "worker": 1}, program) as cluster:
        yield Traced(cluster, tmp_path)


def named(found: list[Span], name: str, **attributes: object) -> list[Span]:
    """The spans of a name that have such attributes of headrace's."""
    return [
        span
        for span in found
        if span["name"] == name
        and all(span["attributes"].get(f"headrace.{n}") == v for n, v in attributes.items())
    ]


def trace_of(span: Span) -> str:
    trace: str = span["context"]["trace_id"]
    return trace


def is_within(span: Span, outer: Span) -> bool:
    """Whether it is a child of the other, and lasted no longer."""
    return (
        span["parent_id"] == outer["context"]["span_id"]
        and trace_of(span) == trace_of(outer)
        and outer["start_time"] <= span["start_time"] <= span["end_time"] <= outer["end_time"]
    )


def test_a_step_is_one_trace_over_all_processes(traced: Traced) -> None:
    traced.run("waits")
    client, worker, ps = (traced.spans(each) for each in ("client", "worker:0", "ps:0"))
    (step,) = named(client, spans.STEP, fetches=["total:0"])
    assert (step["kind"], step["parent_id"]) == ("SpanKind.CLIENT", None)
    assert step["attributes"]["headrace.target"] == traced.cluster.target("worker:0")
    mine = [[each for each in found if trace_of(each) == trace_of(step)] for found in (worker, ps)]
    (master,) = named(mine[0], spans.MASTER_STEP)
    assert is_within(master, step)
    assert master["kind"] == "SpanKind.SERVER"
    (own,) = named(mine[0], spans.PARTITION)
    (other,) = named(mine[1], spans.PARTITION)
    assert is_within(own, master)
    assert is_within(other, master)
    assert (own["kind"], other["kind"]) == ("SpanKind.INTERNAL", "SpanKind.SERVER")
    assert other["attributes"]["headrace.task"] == "/job:ps/replica:0/task:0"
    assert own["attributes"]["headrace.step_id"] == other["attributes"]["headrace.step_id"]
    (wait,) = named(mine[1], spans.WAIT)
    assert is_within(wait, other)
    assert wait["attributes"]["headrace.node"] == "batch"
    assert wait["attributes"]["headrace.kind"] == "dequeue_many"
    assert wait["attributes"]["headrace.on"] == "FIFOQueue 'examples'"
    (send,) = named(mine[1], spans.SEND)
    assert is_within(send, other)
    assert send["kind"] == "SpanKind.PRODUCER"
    assert send["attributes"]["headrace.to"] == "/job:worker/replica:0/task:0"
    assert send["attributes"]["headrace.bytes"] == 8
    assert all(is_within(each, own) for each in named(mine[0], spans.WAIT))


def test_steps_that_come_again_are_traced_each(traced: Traced) -> None:
    """By names, by number, without the master, by callables: requests that servers know by their bytes."""
    traced.run("counts_directly")
    client, worker, ps = (traced.spans(each) for each in ("client", "worker:0", "ps:0"))
    steps = named(client, spans.STEP, fetches=["add:0"])
    assert len(steps) == 10
    for step in steps:
        (part,) = [each for each in named(ps, spans.PARTITION) if trace_of(each) == trace_of(step)]
        masters = [
            each for each in named(worker, spans.MASTER_STEP) if trace_of(each) == trace_of(step)
        ]
        if masters:
            assert is_within(masters[0], step)
        assert is_within(part, masters[0] if masters else step)
    assert len({trace_of(step) for step in steps}) == 10
    direct = [s for s in steps if trace_of(s) not in {trace_of(each) for each in worker}]
    assert direct, "no step went to the ps without its master"


def test_an_error_is_told_wherever_it_passes(traced: Traced) -> None:
    traced.run("fails")
    for process, name in (
        ("client", spans.STEP),
        ("worker:0", spans.MASTER_STEP),
        ("ps:0", spans.PARTITION),
    ):
        failed = [
            each
            for each in named(traced.spans(process), name)
            if each["status"]["status_code"] == "ERROR"
        ]
        (span,) = failed
        assert "uninitialized value unset" in span["status"]["description"]
        assert span["events"][0]["name"] == "exception"


def test_steps_lie_within_spans_of_the_program(traced: Traced) -> None:
    traced.run("within")
    client = traced.spans("client")
    (epoch,) = named(client, "epoch")
    steps = named(client, spans.STEP)
    assert len(steps) == 2
    assert all(is_within(step, epoch) for step in steps)
    assert {trace_of(each) for each in traced.spans("ps:0")} == {trace_of(epoch)}


def test_what_a_client_does_not_record_no_server_does(traced: Traced) -> None:
    traced.run("counts-unsampled")
    with tf.Graph().as_default(), tf.device("/job:ps/task:0"):
        total = tf.get_variable("total", initializer=1.0)
        with tf.Session(traced.cluster.target("worker:0")) as session:  # without a provider
            session.run(total.initializer)
            assert session.run(total) == 1.0
    assert [traced.spans(each) for each in ("client", "worker:0", "ps:0")] == [[], [], []]


def test_a_cluster_without_spans_runs_the_steps_of_clients_with_some(tmp_path: Path) -> None:
    with processes({"ps": 1, "worker": 1}) as cluster:
        traced = Traced(cluster, tmp_path)
        for program in ("counts", "waits"):
            traced.run(program)
    assert {each["name"] for each in traced.spans("client")} == {spans.STEP}


def test_a_local_step_says_for_how_long_it_waited(tmp_path: Path) -> None:
    path = tmp_path / "local"
    subprocess.run([sys.executable, str(SPANNED), str(path), "waits", ""], check=True, timeout=100)
    found = read(path)
    (step,) = named(found, spans.STEP, fetches=["total:0"])
    assert (step["kind"], step["attributes"]["headrace.target"]) == ("SpanKind.INTERNAL", "local")
    (wait,) = named(found, spans.WAIT)
    assert is_within(wait, step)
    assert wait["attributes"]["headrace.node"] == "batch"


def test_who_sets_no_provider_has_none_of_it() -> None:
    """Engines, masters, workers and peers are those that know nothing of spans."""
    import opentelemetry.trace  # noqa: F401  # without a provider it is not wanted either

    assert not spans.wanted()
    with in_process({"ps": 1}) as cluster, tf.Graph().as_default(), tf.device("/job:ps/task:0"):
        tf.constant(1.0)
        with tf.Session(cluster.target("ps:0")) as session, tf.Session() as local:
            assert type(session._engine) is RemoteEngine
            assert type(local._engine) is LocalEngine
        server = cluster.servers["ps:0"]
        assert (type(server.worker), type(server.master)) == (Worker, Master)


@pytest.mark.parametrize(
    "context", [b"", b"\xff", b"[1]", b"{}", b'{"traceparent": 1}', b"[" * 10_000]
)
def test_a_context_that_cannot_be_read_is_none(
    context: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    import opentelemetry.trace

    monkeypatch.setattr(spans, "_api", opentelemetry.trace)
    with spans.within(context):
        assert not spans.recorded()


def test_a_context_of_another_process_is_this_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    import opentelemetry.trace

    monkeypatch.setattr(spans, "_api", opentelemetry.trace)
    recorded, not_recorded = ("00-" + "ab" * 16 + "-" + "cd" * 8 + f"-0{flag}" for flag in (1, 0))
    with spans.within(json.dumps({"traceparent": recorded}).encode()):
        assert spans.recorded()
        assert json.loads(spans.outgoing())["traceparent"] == recorded
    with spans.within(json.dumps({"traceparent": not_recorded}).encode()):
        assert not spans.recorded()
        assert spans.outgoing() == b""
    assert spans.outgoing() == b""
