"""The page's server: what it says of a cluster, as JSON and as events, and to whom."""

from __future__ import annotations

import contextlib
import http.client
import io
import json
import re
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest

import headrace as tf
from headrace.base import errors
from headrace.serve.connect import local_servers
from headrace.serve.rpc.security import Security
from headrace.tools.commands import CommandError, ExitCode, UsageError
from headrace.tools.dashboard.app import ASKS, STATIC, Dashboard
from headrace.tools.dashboard.command import page
from headrace.tools.dashboard.data import MOST_ROWS, _shown
from headrace.tools.main import main
from tests.ports import own_ports
from tests.serve.clusters import Cluster, in_process
from tests.serve.http.asking import ask
from tests.serve.meanwhile import running_again_and_again
from tests.waiting_steps import WaitingSteps, waiting_steps  # noqa: F401  (a fixture)

OPEN = Security()
ANY = ("127.0.0.1", 0)


@pytest.fixture
def cluster(monkeypatch: pytest.MonkeyPatch) -> Iterator[Cluster]:
    monkeypatch.setattr(local_servers, "find", lambda address: None)
    with in_process({"ps": 1, "worker": 1}) as cluster, tf.Graph().as_default():
        yield cluster


@pytest.fixture
def dashboard(cluster: Cluster) -> Iterator[Dashboard]:
    with Dashboard(cluster.target("ps:0"), ANY, OPEN, interval_s=0.05) as dashboard:
        yield dashboard


class Events:
    """An open page: reads one event after the other."""

    def __init__(self, url: str) -> None:
        parts = urlsplit(url)
        self._connection = http.client.HTTPConnection(str(parts.hostname), parts.port, timeout=60)
        self._connection.request("GET", "/events")
        self._reply = self._connection.getresponse()
        assert self._reply.headers["Content-Type"].startswith("text/event-stream")

    def next(self) -> tuple[str, Any]:
        kind = ""
        for raw in self._reply:
            line = raw.decode().rstrip("\n")
            if line.startswith("event: "):
                kind = line.removeprefix("event: ")
            elif line.startswith("data: "):
                return kind, json.loads(line.removeprefix("data: "))
        return "", None

    def close(self) -> None:
        self._reply.close()
        self._connection.close()


@pytest.fixture
def opened(dashboard: Dashboard) -> Iterator[Events]:
    events = Events(dashboard.url)
    yield events
    events.close()


def test_the_page_and_its_files_are_served_and_nothing_else(dashboard: Dashboard) -> None:
    page = ask(dashboard.url)
    assert page.status == 200
    assert '<html lang="en">' in page.text
    for path in STATIC.iterdir():
        answer = ask(f"{dashboard.url}static/{path.name}")
        assert (answer.status, answer.text) == (200, path.read_text())
    for name in ("static/../app.py", "static/%2e%2e/app.py", "static/nothing", "etc/passwd"):
        assert ask(dashboard.url + name).status == 404


def test_the_page_needs_nothing_from_elsewhere_and_has_no_script_of_its_own() -> None:
    for path in STATIC.iterdir():
        if path.name.startswith("uplot"):
            continue
        text = path.read_text().replace("http://www.w3.org/2000/svg", "")
        assert "http:" not in text, path
        assert "https:" not in text, path
        assert "innerHTML" not in text, path
    html = (STATIC / "index.html").read_text()
    assert "style=" not in html
    assert re.search(r"\son\w+=", html) is None
    assert html.count("<script") == html.count("<script src=")


def test_guarded_as_everything_over_http_is(dashboard: Dashboard) -> None:
    answer = ask(f"{dashboard.url}state.json", {"Host": "evil.example"})
    assert answer.status == 421
    assert ask(dashboard.url, method="POST").status == 405
    assert "default-src 'none'" in ask(dashboard.url).headers["Content-Security-Policy"]


def test_a_state_has_tasks_queues_variables_and_why_a_step_waits(
    cluster: Cluster,
    dashboard: Dashboard,
    waiting_steps: WaitingSteps,  # noqa: F811
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("headrace.tools.dashboard.data.LONG_S", 0.0)
    with tf.device("/job:ps/task:0"):
        tf.get_variable("weights", [3, 2], initializer=tf.zeros_initializer())
        queue = tf.FIFOQueue(10, tf.float32, shapes=[[]], shared_name="examples")
        batch = queue.dequeue_many(4, name="batch")
    with tf.Session(cluster.target("worker:0")) as session:
        session.run(tf.global_variables_initializer())
        session.run(queue.enqueue(1.0))

        def wait() -> None:
            with contextlib.suppress(tf.errors.OpError):
                session.run(batch)

        thread = threading.Thread(target=wait)
        thread.start()
        waiting_steps.until("batch")
        found = json.loads(ask(f"{dashboard.url}state.json").text)
        session.close()
        thread.join()
    ps, worker = found["tasks"]
    assert (ps["name"], ps["state"], ps["address"]) == ("ps:0", "up", cluster.address("ps:0"))
    assert ps["memory_bytes"] > 1 << 20
    assert worker["sessions"] == 1
    (weights,) = found["variables"]
    assert (weights["task"], weights["name"], weights["bytes"]) == ("ps:0", "weights", 24)
    assert (weights["updates"], weights["updates_per_s"]) == (1, None)
    (examples,) = found["queues"]
    assert (examples["name"], examples["task"], examples["takes"]) == ("examples", "ps:0", 1)
    (step,) = found["blocked"]
    assert (step["node"], step["cause"]) == ("batch", "nobody enqueues")
    assert found["counts"] == {
        "queues": 1, "variables": 1, "others": 0, "sessions": 1, "blocked": 1,
    }  # fmt: skip


def test_a_state_has_the_checkpoints_that_were_written(
    cluster: Cluster, dashboard: Dashboard, tmp_path: Path
) -> None:
    with tf.device("/job:ps/task:0"):
        tf.get_variable("weights", [3, 2], initializer=tf.zeros_initializer())
    saver = tf.train.Saver(sharded=True)
    with tf.Session(cluster.target("worker:0")) as session:
        session.run(tf.global_variables_initializer())
        path = saver.save(session, str(tmp_path / "model"))
        found = json.loads(ask(f"{dashboard.url}state.json").text)
    merged, saved = found["checkpoints"]
    assert (merged["kind"], merged["prefix"], merged["tensors"]) == ("merged", path, 1)
    assert (saved["kind"], saved["task"], saved["bytes"]) == ("saved", "ps:0", 24)
    assert saved["at_s"] <= merged["at_s"] <= found["at_s"]
    assert merged["took_s"] > 0


def variable(name: str, size: int, per_s: float) -> dict[str, Any]:
    return {"name": name, "bytes": size, "updates_per_s": per_s}


def test_of_too_many_variables_the_largest_and_the_busiest_are_shown() -> None:
    many = [variable(f"large{n}", 1000 + n, 0.0) for n in range(MOST_ROWS)]
    step = variable("global_step", 8, 90.0)
    shown = _shown([step, *many])
    assert len(shown) == MOST_ROWS
    assert shown[0]["name"] == f"large{MOST_ROWS - 1}"
    assert shown[-1] is step
    assert _shown([step, *many[:3]])[-1] is step


def test_a_page_gets_what_has_been_and_then_each_look(opened: Events) -> None:
    kind, past = opened.next()
    assert kind == "past"
    assert set(past) == {"points", "events"}
    looks = [opened.next() for _ in range(3)]
    assert [kind for kind, _ in looks] == ["view"] * 3
    times = [view["point"]["at_s"] for _, view in looks]
    assert times == sorted(set(times))
    assert looks[-1][1]["steps"] is not None


def test_steps_are_counted_while_a_page_is_open(cluster: Cluster, opened: Events) -> None:
    opened.next()
    opened.next()
    with tf.device("/job:ps/task:0"):
        sums = tf.Variable(1.0).initializer
    rates = 0.0
    with tf.Session(cluster.target("worker:0")) as session:
        while not rates:  # looks of before may not have been read yet, any number of them
            session.run(sums)
            _, view = opened.next()
            rates += view["point"]["parts_per_s"] or 0.0


def test_nobody_looks_when_no_page_is_open(cluster: Cluster, dashboard: Dashboard) -> None:
    feed = dashboard._feed
    assert feed._thread is None
    pages = [feed.messages() for _ in range(2)]
    for each in pages:
        next(each)
    thread = feed._thread
    assert thread is not None
    for each in pages:
        each.close()  # type: ignore[attr-defined]
    thread.join(60)
    assert feed._thread is None
    again = feed.messages()
    next(again)
    assert next(again).startswith(b"event: view")
    again.close()  # type: ignore[attr-defined]


def test_a_page_that_was_closed_is_not_looked_for(dashboard: Dashboard) -> None:
    events = Events(dashboard.url)
    assert [events.next()[0] for _ in range(2)] == ["past", "view"]
    thread = dashboard._feed._thread
    assert thread is not None
    events.close()
    thread.join(60)
    assert not thread.is_alive()


def test_a_cluster_that_is_gone_is_told_and_looked_for_again(
    cluster: Cluster, opened: Events
) -> None:
    opened.next()
    assert opened.next()[0] == "view"
    cluster.servers["ps:0"].stop()
    seen = [opened.next()]
    while seen[-1][0] != "lost":
        seen.append(opened.next())
    assert "does not answer" in seen[-1][1]["why"]
    cluster.start("ps:0")
    while seen[-1][0] != "view" or seen[-1][1]["tasks"][0]["state"] != "up":
        seen.append(opened.next())
    assert seen[-1][1]["tasks"][0]["restarts"] == 1


def test_a_trace_is_asked_for_on_purpose(cluster: Cluster, dashboard: Dashboard) -> None:
    assert ask(f"{dashboard.url}trace.json").status == 204
    assert ask(f"{dashboard.url}chrome-trace.json").status == 404
    assert ask(f"{dashboard.url}trace.json?steps=3").status == 403
    assert ask(f"{dashboard.url}trace.json?steps=x", {ASKS: "1"}).status == 400
    with tf.device("/job:ps/task:0"):
        total = tf.Variable(tf.zeros([50]))
        step = total.assign_add(tf.ones([50]), name="train")
    with tf.Session(cluster.target("worker:0")) as session:
        session.run(total.initializer)
        with running_again_and_again(session, step):
            answer = ask(f"{dashboard.url}trace.json?steps=2", {ASKS: "1"})
    found = json.loads(answer.text)
    assert found["traced"] >= 2
    assert "that end with 'train'" in "\n".join(found["report"])
    assert found["steps"][-1]["devices"][0]["device"] == "/job:ps/replica:0/task:0/device:CPU:0"
    again = json.loads(ask(f"{dashboard.url}trace.json").text)
    assert again == found
    assert "traceEvents" in json.loads(ask(f"{dashboard.url}chrome-trace.json").text)


def test_with_a_secret_the_page_asks_for_the_token(cluster: Cluster) -> None:
    security = Security("what everybody here knows")
    with Dashboard(cluster.target("ps:0"), ANY, security) as dashboard:
        assert ask(dashboard.url).status == 401
        assert ask(f"{dashboard.url}events").status == 401
        cookie = ask(f"{dashboard.url}?token={security.http_token}").headers["Set-Cookie"]
        assert ask(dashboard.url, {"Cookie": cookie.partition(";")[0]}).status == 200


def test_a_server_that_is_not_there_is_said_where_a_state_is_asked_for() -> None:
    (port,) = own_ports(1)
    with Dashboard(f"grpc://127.0.0.1:{port}", ANY, OPEN) as dashboard:
        answer = ask(f"{dashboard.url}state.json")
    assert answer.status == 503
    assert "does not answer" in answer.text


def test_without_bottle_the_error_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "bottle", None)
    with pytest.raises(CommandError, match=r"pip install 'headrace\[dashboard\]'"):
        page("grpc://127.0.0.1:1", "0")


def test_what_makes_no_sense_is_said() -> None:
    with pytest.raises(UsageError, match="the page's port 'x' is not"):
        page("grpc://127.0.0.1:1", "x")
    with pytest.raises(UsageError, match="'nowhere' is not grpc://HOST:PORT"):
        page("nowhere", "0")
    with pytest.raises(CommandError, match="headrace token"):
        page("grpc://127.0.0.1:1", "0.0.0.0:0")
    err = io.StringIO()
    assert main(["dashboard", "grpc://h:1", "--interval", "0"], None, err) == ExitCode.USAGE
    assert "--interval 0 is less than" in err.getvalue()


def test_a_taken_port_has_its_own_exit_code() -> None:
    with Dashboard("grpc://127.0.0.1:1", ANY, OPEN) as dashboard:
        place = dashboard.url.removeprefix("http://").rstrip("/")
        with pytest.raises(CommandError) as caught:
            page("grpc://127.0.0.1:1", place)
    assert caught.value.code == ExitCode.ADDRESS_IN_USE
    assert isinstance(caught.value.__cause__, errors.UnknownError)


@pytest.mark.parametrize(("number", "status"), [(signal.SIGTERM, 0), (signal.SIGINT, 130)])
def test_the_command_serves_until_a_signal(number: signal.Signals, status: int) -> None:
    process = subprocess.Popen(
        [sys.executable, "-m", "headrace.tools.main", "dashboard", "grpc://127.0.0.1:1", "--port", "0"],
        stdout=subprocess.PIPE,
        text=True,
    )  # fmt: skip
    try:
        assert process.stdout is not None
        url = process.stdout.readline().split()[-1]
        assert ask(url).status == 200
        process.send_signal(number)
        assert process.wait(60) == status
    finally:
        process.kill()
        process.communicate()
