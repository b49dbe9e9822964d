"""Metrics for Prometheus: what they say of a task, what they cost when nobody asks, and whom they answer."""

from __future__ import annotations

import math
import sys
from collections.abc import Iterator

import pytest
from prometheus_client.parser import text_string_to_metric_families

import headrace as tf
from headrace.base import errors
from headrace.codec import protos as pb
from headrace.serve.connect import local_servers
from headrace.serve.observe.counting import NOW_AND_THEN
from headrace.serve.observe.meter import BUCKETS, Meter
from headrace.serve.observe.metrics import MOST_QUEUES, OTHERS, families
from headrace.serve.rpc.security import Security
from headrace.serve.server import Server
from tests.serve.clusters import Cluster, in_process
from tests.serve.http.asking import ask

Samples = dict[tuple[str, frozenset[tuple[str, str]]], float]


def read(text: str) -> Samples:
    return {
        (sample.name, frozenset(sample.labels.items())): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }


def value(samples: Samples, name: str, **labels: str) -> float:
    return samples[name, frozenset(labels.items())]


@pytest.fixture
def cluster(monkeypatch: pytest.MonkeyPatch) -> Iterator[Cluster]:
    """Whose tasks are reached by sockets, each with its metrics."""
    monkeypatch.setattr(local_servers, "find", lambda address: None)
    monkeypatch.setenv("HEADRACE_METRICS", "0")
    with in_process({"ps": 1, "worker": 1}) as cluster, tf.Graph().as_default():
        yield cluster


def metrics_of(server: Server) -> Samples:
    assert server.metrics_url is not None
    return read(ask(server.metrics_url).text)


def test_a_task_says_what_it_has_and_what_it_has_done(cluster: Cluster) -> None:
    with tf.device("/job:ps/task:0"):
        total = tf.Variable(0.0)
        tf.Variable([1.0, 2.0])
        queue = tf.FIFOQueue(10, tf.float32, shapes=[[]], shared_name="examples")
        private = tf.FIFOQueue(5, tf.float32, shapes=[[]])
        fill = [queue.enqueue_many([[1.0, 2.0, 3.0]]), private.enqueue(1.0)]
        add = total.assign_add(1.0)
        wrong = tf.reciprocal(tf.check_numerics(total / 0.0, "that is"))
    with tf.Session(cluster.target("worker:0")) as session:
        session.run(total.initializer)
        session.run(fill)
        for _ in range(20):
            session.run(add)
        with pytest.raises(tf.errors.InvalidArgumentError):
            session.run(wrong)
        ps, worker = metrics_of(cluster.servers["ps:0"]), metrics_of(cluster.servers["worker:0"])
    assert value(ps, "headrace_variables") == 1
    assert value(ps, "headrace_variables_bytes") == 4
    assert value(ps, "headrace_queue_elements", container="localhost", queue="examples") == 3
    assert value(ps, "headrace_queue_capacity", container="localhost", queue="examples") == 10
    assert value(ps, "headrace_queue_entered_total", container="localhost", queue="examples") == 3
    assert value(ps, "headrace_queue_elements", container=OTHERS, queue=OTHERS) == 1
    assert value(ps, "headrace_task_step_seconds_count") >= 22
    assert value(ps, "headrace_task_step_seconds_bucket", le="+Inf") >= 22
    assert value(ps, "headrace_failed_task_steps_total", code="INVALID_ARGUMENT") == 1
    assert value(worker, "headrace_failed_session_steps_total", code="INVALID_ARGUMENT") == 1
    assert value(worker, "headrace_session_step_seconds_count") >= 3
    assert value(worker, "headrace_sessions") == 1
    assert value(worker, "headrace_sent_bytes_total", peer="/job:ps/replica:0/task:0") > 0
    assert value(worker, "process_resident_memory_bytes") > 1 << 20
    assert value(worker, "process_cpu_seconds_total") > 0


def test_a_restart_that_was_seen_and_bytes_that_came_are_counted(cluster: Cluster) -> None:
    with tf.device("/job:ps/task:0"):
        large = tf.zeros([100_000]) + 1.0
    with tf.device("/job:worker/task:0"):
        whole = tf.reduce_sum(large)
    with tf.Session(cluster.target("worker:0")) as session:
        session.run(whole)
        before = metrics_of(cluster.servers["worker:0"])
        cluster.servers["ps:0"].stop()
        cluster.start("ps:0")
        with pytest.raises((tf.errors.AbortedError, tf.errors.UnavailableError)):
            session.run(whole)
        after = metrics_of(cluster.servers["worker:0"])
    assert value(before, "headrace_received_bytes_total", peer="/job:ps/replica:0/task:0") > 4e5
    assert value(before, "headrace_restarts_seen_total") == 0
    assert value(after, "headrace_restarts_seen_total") == 1


def test_reads_that_are_answered_at_once_are_counted(cluster: Cluster) -> None:
    with tf.device("/job:ps/task:0"):
        number = tf.Variable(1.0)
    with tf.Session(cluster.target("worker:0")) as session:
        session.run(number.initializer)
        before = metrics_of(cluster.servers["ps:0"])
        for _ in range(30):
            session.run(number)
        after = metrics_of(cluster.servers["ps:0"])
    name = "headrace_task_step_seconds_count"
    assert value(after, name) - value(before, name) == 30


def test_scraping_counts_no_step(cluster: Cluster) -> None:
    before = metrics_of(cluster.servers["ps:0"])
    after = metrics_of(cluster.servers["ps:0"])
    assert value(before, "headrace_task_step_seconds_count") == 0
    assert value(after, "headrace_task_step_seconds_count") == 0


def test_nothing_is_counted_where_nobody_asks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("HEADRACE_METRICS", raising=False)
    with in_process({"ps": 1}) as cluster, tf.Graph().as_default():
        worker = cluster.servers["ps:0"].worker
        with tf.Session(cluster.target("ps:0")) as session:
            session.run(tf.constant(1.0) + 1.0)
        assert worker.meter is None
        assert "enter" not in vars(worker)
        assert cluster.servers["ps:0"].metrics_url is None


def test_counting_ends_by_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    with in_process({"ps": 1}) as cluster, tf.Graph().as_default():
        worker = cluster.servers["ps:0"].worker
        sums = tf.constant(1.0) + 1.0
        with tf.Session(cluster.target("ps:0")) as session:
            worker.count_steps(1000.0)
            session.run(sums)
            assert "enter" in vars(worker)
            meter = worker.meter
            assert meter is not None
            assert sum(meter.state().bucket) == 1
            monkeypatch.setattr(meter, "_until_s", 0.0)
            session.run(sums)
            assert worker.count_steps(0.0) is None
            assert "enter" not in vars(worker)


def test_counting_ends_by_itself_where_nobody_asks_any_more() -> None:
    class Task:
        def enter(self) -> bool:
            return True

    now = [0.0]
    task, meter = Task(), Meter(lambda: now[0])
    meter.want(10.0)
    meter.put_in(task, "enter")
    now[0] = 11.0
    for _ in range(5000):
        task.enter()
    assert vars(task) == {}
    assert meter.over


def test_a_meter_has_buckets_of_powers_of_two() -> None:
    meter = Meter()
    for took_s in (0.0, 0.9e-6, 1e-6, 3e-6, 1.0, 1e9):
        meter.add(took_s)
    found = {number: count for number, count in enumerate(meter.state().bucket) if count}
    assert found == {0: 2, 1: 1, 2: 1, 20: 1, BUCKETS - 1: 1}


def test_steps_that_take_no_time_are_counted_as_often_as_somebody_asks() -> None:
    now = [0.0]
    meter = Meter(lambda: now[0])
    meter.want(10.0)
    for asked in range(1, 4):
        assert [meter.tick() & NOW_AND_THEN for _ in range(3)]
        assert meter.state().bucket == [3 * asked]
    meter.add(5e-6)
    assert meter.state().bucket == [9, 0, 0, 1]
    now[0] = 11.0
    meter.check()
    assert meter.over


def test_what_has_done_nothing_is_not_counted() -> None:
    class Task:
        def enter(self, does: bool) -> str | None:
            return "something" if does else None

    task, meter = Task(), Meter()
    meter.want(math.inf)
    meter.put_in(task, "enter")
    assert [task.enter(True), task.enter(False)] == ["something", None]
    assert sum(meter.state().bucket) == 1


def test_many_queues_are_summed_up() -> None:
    state = pb.TaskState(task="/job:ps/replica:0/task:0")
    for number in range(MOST_QUEUES + 7):
        state.resource.add(
            name=f"q{number:04}", container="c", component=[pb.DT_FLOAT], size=1, capacity=2
        )
    (elements,) = (each for each in families(state, 0.0) if each.name == "headrace_queue_elements")
    assert len(elements.samples) == MOST_QUEUES + 1
    assert elements.samples[-1].labels == {"container": OTHERS, "queue": OTHERS}
    assert elements.samples[-1].value == 7


def test_a_token_is_asked_for_where_there_is_a_secret(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HEADRACE_METRICS", "0")
    security = Security("what everybody here knows")
    server = Server({"local": ["localhost:0"]}, security=security)
    try:
        assert server.metrics_url is not None
        assert ask(server.metrics_url).status == 401
        shown = {"Authorization": f"Bearer {security.http_token}"}
        assert "headrace_sessions 0.0" in ask(server.metrics_url, shown).text
    finally:
        server.stop()


@pytest.mark.parametrize(
    ("place", "error", "says"),
    [
        ("nowhere", errors.InvalidArgumentError, r"HEADRACE_METRICS 'nowhere' is not"),
        ("0.0.0.0:0", errors.FailedPreconditionError, "headrace token"),
    ],
)
def test_a_server_whose_metrics_cannot_be_served_does_not_start(
    monkeypatch: pytest.MonkeyPatch, place: str, error: type[errors.OpError], says: str
) -> None:
    monkeypatch.setenv("HEADRACE_METRICS", place)
    with pytest.raises(error, match=says):
        Server({"local": ["localhost:0"]})


def test_without_prometheus_client_the_error_says_what_to_install(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("HEADRACE_METRICS", "0")
    monkeypatch.setitem(sys.modules, "prometheus_client", None)
    with pytest.raises(errors.FailedPreconditionError, match=r"pip install 'headrace\[metrics\]'"):
        Server({"local": ["localhost:0"]})
