"""`headrace inspect` and `headrace top`: what they show, in tables and as JSON, and to whom."""

from __future__ import annotations

import io
import json
import os
import pty
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from rich.console import Console

import headrace as tf
from headrace.codec import protos as pb
from headrace.serve.connect import local_servers
from headrace.serve.rpc.limits import LIMITS
from headrace.tools.commands import ExitCode
from headrace.tools.inspection import plain_layout, rich_layout
from headrace.tools.inspection.layout import grid, line
from headrace.tools.inspection.snapshot import Rates, Snapshot, _rates, queue_key
from headrace.tools.inspection.tables import everything, live
from headrace.tools.main import main
from tests.serve.authority import Authority
from tests.serve.clusters import Cluster, in_process
from tests.waiting_steps import WaitingSteps, waiting_steps  # noqa: F401  (a fixture)


def run(*argv: str) -> tuple[int, str, str]:
    out, err = io.StringIO(), io.StringIO()
    return main(argv, out, err), out.getvalue(), err.getvalue()


@pytest.fixture(autouse=True)
def tasks_have_time_to_say_what_they_have(monkeypatch: pytest.MonkeyPatch) -> None:
    """The machine may be busy."""
    monkeypatch.setattr(LIMITS, "task_answers_within_s", 50.0)
    monkeypatch.setattr(LIMITS, "server_answers_within_s", 60.0)


@pytest.fixture
def by_sockets(monkeypatch: pytest.MonkeyPatch) -> None:
    """Servers of this process are reached as those of another are."""
    monkeypatch.setattr(local_servers, "find", lambda address: None)


@pytest.fixture
def cluster(by_sockets: None) -> Iterator[Cluster]:
    with in_process({"ps": 1, "worker": 1}) as cluster, tf.Graph().as_default():
        yield cluster


class Running:
    """A session with a variable, some queues and an accumulator, and a step that waits."""

    def __init__(self, cluster: Cluster, waiting_steps: WaitingSteps) -> None:  # noqa: F811
        with tf.device("/job:ps/task:0"):
            weights = tf.Variable(np.zeros([784, 100], np.float32), name="layer1/weights")
            with tf.container("inputs"):
                examples = tf.RandomShuffleQueue(
                    100, 5, [tf.float32], shapes=[[]], shared_name="examples"
                )
            names = tf.FIFOQueue(-1, tf.string, name="names")
            tf.ConditionalAccumulator(tf.float32, shape=[], shared_name="sums").num_accumulated()
            batch = examples.dequeue_many(16, name="batch")
            count = tf.ConditionalAccumulator(tf.float32, shape=[], shared_name="sums")
        self.session = tf.Session(cluster.target("worker:0"))
        self.session.run(weights.initializer)
        self.session.run(examples.enqueue_many([[1.0] * 9]))
        self.session.run([names.size(), count.num_accumulated()])
        self._pool = ThreadPoolExecutor(1)
        self._step = self._pool.submit(self.session.run, batch)
        waiting_steps.until("batch")

    def close(self) -> None:
        self.session.close()
        assert isinstance(self._step.exception(60), tf.errors.OpError)
        self._pool.shutdown()


@pytest.fixture
def running(cluster: Cluster, waiting_steps: WaitingSteps) -> Iterator[Running]:  # noqa: F811
    running = Running(cluster, waiting_steps)
    yield running
    running.close()


def test_json_has_everything(cluster: Cluster, running: Running) -> None:
    code, out, err = run("inspect", cluster.target("ps:0"), "--json", "--interval", "0")
    assert (code, err) == (ExitCode.OK, "")
    found = json.loads(out)
    ps, worker = found["tasks"]
    assert (ps["task"], ps["answers"], ps["pid"]) == ("/job:ps/replica:0/task:0", True, os.getpid())
    assert ps["containers"] == ["inputs", "localhost"]
    (weights,) = ps["variables"]
    assert (weights["name"], weights["dtype"], weights["shape"]) == (
        "layer1/weights", "float32", [784, 100],
    )  # fmt: skip
    assert (weights["bytes"], weights["initialized"]) == (313600, True)
    examples, names = ps["queues"]
    assert (examples["name"], examples["kind"]) == ("examples", "RandomShuffleQueue")
    assert (examples["container"], examples["session"]) == ("inputs", None)
    assert (examples["size"], examples["set_aside"], examples["entered"]) == (5, 4, 9)
    assert (examples["capacity"], examples["min_after_dequeue"]) == (100, 5)
    assert examples["entered_per_s"] is None
    (waiter,) = examples["waiting"]
    assert (waiter["kind"], waiter["wanted"], waiter["so_far"]) == ("dequeue_many", 16, 4)
    assert (names["name"], names["capacity"]) == ("names", None)
    (session,) = worker["sessions"]
    assert names["session"] == session["handle"] == waiter["session"]
    assert f"pid {os.getpid()}" in session["client"]
    (sums,) = ps["others"]
    assert (sums["kind"], sums["name"]) == ("DenseAccumulator", "sums")
    assert "0 gradients" in sums["state"]
    (step,) = found["blocked_steps"]
    assert (step["node"], step["kind"], step["wanted"], step["so_far"]) == (
        "batch", "dequeue_many", 16, 4,
    )  # fmt: skip
    assert step["cause"] == "nobody enqueues"


def test_an_interval_gives_rates(cluster: Cluster, running: Running) -> None:
    code, out, _ = run("inspect", cluster.target("ps:0"), "--json", "--interval", "0.01")
    assert code == ExitCode.OK
    queues = json.loads(out)["tasks"][0]["queues"]
    assert [(queue["entered_per_s"], queue["left_per_s"]) for queue in queues] == [(0.0, 0.0)] * 2


@pytest.mark.parametrize("argument", ["", "grpc://"])
def test_tables_have_every_kind_of_thing(cluster: Cluster, running: Running, argument: str) -> None:
    target = argument + cluster.address("worker:0")
    code, out, err = run("inspect", target, "--interval", "0")
    assert (code, err) == (ExitCode.OK, "")
    for title in ("Tasks", "Sessions", "Containers", "Variables", "Queues", "Others"):
        assert re.search(rf"^{title}\s*$", out, re.MULTILINE), title
    assert re.search(r"^ps:0 +127\.0\.0\.1:\d+ ", out, re.MULTILINE)
    assert re.search(r"^ps:0 +layer1/weights +float32 +\[784, 100\] +306 KiB", out, re.MULTILINE)
    assert re.search(r"^ps:0 +inputs/examples .* 5\+4/100 ", out, re.MULTILINE)


def test_top_looks_as_often_as_it_is_told(cluster: Cluster, running: Running) -> None:
    code, out, err = run("top", cluster.target("ps:0"), "--count", "2", "--interval", "0.05")
    assert (code, err) == (ExitCode.OK, "")
    assert "2 tasks, 1 session, 1 step under way, " in out
    assert "inputs/examples" in out


# -- from snapshots -------------------------------------------------------------------------------


def queue(name: str = "q", **fields: Any) -> pb.ResourceState:
    known = {"kind": "FIFOQueue", "container": "localhost", "capacity": 20, **fields}
    return pb.ResourceState(name=name, component=[pb.DT_INT32], **known)


def task(*resources: pb.ResourceState, **fields: Any) -> pb.TaskState:
    return pb.TaskState(
        task="/job:ps/replica:0/task:0", address="host:2222", pid=7, host="h", incarnation=1,
        resource=resources, **fields,
    )  # fmt: skip


def test_rates_are_elements_per_second_since_the_look_before() -> None:
    earlier = Snapshot("t", 10.0, [task(queue(entered=100, size=10, set_aside=5))])
    now = task(queue(entered=160, size=3, set_aside=0), queue("new", entered=9))
    rates = _rates(earlier, [now], 12.0)
    assert rates == {queue_key(now, now.resource[0]): Rates(30.0, 36.0)}


def test_a_queue_that_was_made_anew_has_no_rates() -> None:
    earlier = Snapshot("t", 10.0, [task(queue(entered=100))])
    assert _rates(earlier, [task(queue(entered=7))], 12.0) == {}
    restarted = task(queue(entered=107))
    restarted.incarnation = 2
    assert _rates(earlier, [restarted], 12.0) == {}


def crowded() -> Snapshot:
    """More than fits, with names longer than there is room for."""
    long = "a_name_that_goes_on_and_on/" * 5
    resources = [queue(f"{long}{n}", size=n, container="c" * 30) for n in range(30)]
    resources += [
        pb.ResourceState(kind="Variable", name=f"{long}{n}", dtype=pb.DT_FLOAT, bytes=n)
        for n in range(50)
    ]
    resources.append(pb.ResourceState(kind="Barrier", name=long, state=f"it has {long}"))
    steps = [
        pb.BlockedStepState(
            session="5c3f0a1b2c3d4e5f", step=n, task="/job:ps/replica:0/task:0", node=long, op="Dequeue",
            kind="dequeue", on=f"FIFOQueue {long!r}", wanted=1, waited_s=12.0 + n, resource=resources[0],
        )
        for n in range(9)
    ]  # fmt: skip
    sessions = [
        pb.SessionState(handle="5c3f0a1b2c3d4e5f", client=f"{long}.py, pid 1 on host", age_s=90000)
    ]
    silent = pb.TaskState(task="/job:worker/replica:0/task:11", address="x:1", silent=f"is {long}")
    return Snapshot("grpc://h:1", 0.0, [task(*resources, blocked=steps, session=sessions), silent])


def rendered(width: int, height: int, what: Any) -> list[str]:
    console = Console(file=io.StringIO(), width=width, height=height, highlight=False)
    console.print(rich_layout.drawn(what))
    return console.file.getvalue().splitlines()  # type: ignore[attr-defined]


@pytest.mark.parametrize("width", [80, 120])
def test_tables_keep_to_the_width(width: int) -> None:
    lines = rendered(width, 50, everything(crowded(), width))
    assert max(map(len, lines)) <= width
    text = "\n".join(lines)
    assert "… and 10 more (--all, --json)" in text  # of 50 variables
    assert sum(line.startswith("ps:0 ") for line in lines) > 70
    assert re.search(r"^worker:11 +x:1 +silent", text, re.MULTILINE)
    assert "20 s Dequeue" in text
    whole = "\n".join(rendered(width, 50, everything(crowded(), width, None)))
    assert "more (--all" not in whole


@pytest.mark.parametrize("width", [80, 120])
def test_plain_tables_keep_to_the_width_too(width: int) -> None:
    text = plain_layout.drawn(everything(crowded(), width), width)
    lines = text.splitlines()
    assert max(map(len, lines)) <= width
    assert "… and 10 more (--all, --json)" in text
    assert sum(line.startswith("ps:0 ") for line in lines) > 70
    assert re.search(r"^worker:11 +x:1 +silent", text, re.MULTILINE)
    assert "20 s Dequeue" in text


def test_plain_tables_align_wide_characters_and_give_way_in_flexible_columns() -> None:
    rows = [["one", "深い川の水車小屋", "7"], ["three", "short", "1,000"]]
    table = grid("Things", ["name", "~what", ">count"], rows, "")
    assert plain_layout.drawn([table], 80).splitlines() == [
        "Things",
        "name   what              count",
        "------------------------------",
        "one    深い川の水車小屋      7",
        "three  short             1,000",
    ]
    assert plain_layout.drawn([table], 22).splitlines()[3:] == [
        "one    深い川…       7",
        "three  short     1,000",
    ]
    assert plain_layout.drawn([line("a b c d", indent=2, wraps=True)], 5) == "  a b\n  c d\n"


@pytest.fixture
def without_rich(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in sys.modules if name.partition(".")[0] == "rich"]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "rich", None)
    monkeypatch.setenv("COLUMNS", "90")


@pytest.mark.usefixtures("without_rich", "running")
def test_the_commands_print_plain_text_without_rich(cluster: Cluster) -> None:
    code, out, err = run("inspect", cluster.target("ps:0"))
    assert (code, err) == (ExitCode.OK, "")
    assert re.search(r"^ps:0 +inputs/examples +·+ +5\+4/100", out, re.MULTILINE)
    code, out, err = run("top", cluster.target("ps:0"), "--count", "2", "--interval", "0.05")
    assert (code, err) == (ExitCode.OK, "")
    assert out.count("2 tasks, 1 session, ") == 2


@pytest.mark.parametrize(("width", "height"), [(80, 24), (120, 40)])
def test_the_live_view_begins_with_what_matters(width: int, height: int) -> None:
    lines = rendered(width, height, live(crowded(), width, height))
    assert max(map(len, lines)) <= width
    assert lines[0].startswith(" grpc://h:1 ")
    assert "9 blocked" in lines[0]
    shown = "\n".join(lines[:height])
    assert "Tasks" in shown
    assert "Queues" in shown
    assert "Blocked steps" in shown


# -- iterators ------------------------------------------------------------------------------------


def inspected(target: str) -> Any:
    code, out, err = run("inspect", target, "--json", "--interval", "0")
    assert (code, err) == (ExitCode.OK, "")
    return json.loads(out)


def stages_of(found: Any) -> list[tuple[Any, ...]]:
    """Of the one iterator there is, on the first task."""
    (shown,) = found["tasks"][0]["others"]
    return [tuple(each.values()) for each in shown["stages"]]


def test_each_stage_of_a_dataset_is_shown_and_what_its_consumer_waits_for(
    cluster: Cluster,
    waiting_steps: WaitingSteps,  # noqa: F811
) -> None:
    with tf.device("/job:ps/task:0"):
        missing = tf.FIFOQueue(9, tf.int64, [[]], name="missing", shared_name="missing")
        added = tf.data.Dataset.range(9).shuffle(5).map(lambda x: x + missing.dequeue("take"), 1)
        dataset = added.batch(2).prefetch(3)
        iterator = tf.data.make_initializable_iterator(dataset, shared_name="training_set")
        element, put = iterator.get_next(name="batch"), missing.enqueue_many([[1] * 9])
    with tf.Session(cluster.target("worker:0")) as session, ThreadPoolExecutor(1) as pool:
        session.run(iterator.initializer)
        step = pool.submit(session.run, element)
        waiting_steps.until("batch")
        waiting_steps.until("take")
        found = inspected(cluster.target("worker:0"))
        while stages_of(found)[2] != ("ParallelMap", 2, 2, 0):  # the second call is just beginning
            found = inspected(cluster.target("worker:0"))
        code, out, _ = run("inspect", cluster.target("ps:0"), "--interval", "0")
        assert code == ExitCode.OK
        session.run(put)
        step.result(60)
    (shown,) = found["tasks"][0]["others"]
    assert stages_of(found) == [
        ("Prefetch", 0, 3, 0),
        ("Batch", 0, 2, 0),
        ("ParallelMap", 2, 2, 0),
        ("Shuffle", 4, 5, 64),
        ("Range", None, None, None),
    ]
    assert [each["node"] for each in shown["waiting"]] == ["batch"]
    assert re.search(
        r"it waits for function \w+ \(it waits in 'take': dequeue on FIFOQueue 'missing'\)$",
        shown["state"],
    )
    assert shown["state"] in found["blocked_steps"][0]["text"]
    assert re.search(r"^ps:0 +training_set +Prefetch +0/3 +0 B +1 out", out, re.MULTILINE)
    assert re.search(r"^ +Shuffle +4/5 +64 B", out, re.MULTILINE)


# -- who may look, and at what --------------------------------------------------------------------


@pytest.mark.parametrize("target", ["nowhere", "grpc://host", "grpc://:1", "http://h:1x"])
def test_a_target_must_be_an_address(target: str) -> None:
    code, out, err = run("inspect", target)
    assert (code, out) == (ExitCode.USAGE, "")
    assert "is not grpc://HOST:PORT" in err


@pytest.mark.parametrize("command", ["inspect", "top"])
def test_a_server_that_does_not_answer_is_named(command: str) -> None:
    with in_process({"ps": 1}) as cluster:
        target = cluster.target("ps:0")
    code, out, err = run(command, target)
    assert (code, out) == (ExitCode.FAILED, "")
    assert f"{target} does not answer: connection refused: nothing listens there" in err


CREDENTIALS = ["HEADRACE_SECRET_FILE", "HEADRACE_TLS_CERT", "HEADRACE_TLS_KEY", "HEADRACE_TLS_CA"]


@pytest.mark.parametrize("how", ["secret", "tls"])
def test_a_cluster_that_asks_for_credentials_is_shown_to_who_has_them(
    how: str, by_sockets: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in CREDENTIALS:
        monkeypatch.setenv(name, "")  # which the command sets
    files = Authority(tmp_path / "tls")
    (tmp_path / "secret").write_text("correct horse battery staple\n")
    with_secret = ["--secret-file", str(tmp_path / "secret")]
    with_tls = ["--tls-cert", files.cert, "--tls-key", files.key, "--tls-ca", files.ca]
    security = (
        tf.train.Security("correct horse battery staple")
        if how == "secret"
        else tf.train.Security(
            certificate=files.cert, key=files.key, authorities=files.ca, clients_too=True
        )
    )
    with tf.train.Server({"ps": ["127.0.0.1:0"]}, security=security) as server:
        monkeypatch.setattr(LIMITS, "server_answers_within_s", 1.0)  # TLS tells strangers nothing
        code, out, err = run("inspect", server.target, "--interval", "0")
        assert (code, out) == (ExitCode.FAILED, ""), err
        assert server.target in err
        monkeypatch.setattr(LIMITS, "server_answers_within_s", 60.0)
        options = with_secret if how == "secret" else with_tls
        code, out, err = run("inspect", server.target, "--json", "--interval", "0", *options)
        assert (code, err) == (ExitCode.OK, "")
        (task,) = json.loads(out)["tasks"]
        assert (task["answers"], task["pid"]) == (True, os.getpid())
        code, out, err = run("top", server.target, "--count", "1", *options)
        assert (code, err) == (ExitCode.OK, "")
        assert "1 task, " in out


@pytest.fixture
def other_server() -> Iterator[str]:
    """host:port of a server that tells its status and has no method of ours, as TensorFlow's."""
    from headrace.serve.grpc.grpcio import grpc

    status = grpc.unary_unary_rpc_method_handler(lambda request, context: b"")
    methods = grpc.method_handlers_generic_handler(
        "tensorflow.WorkerService", {"GetStatus": status}
    )
    with ThreadPoolExecutor(2) as pool:
        server = grpc.server(pool)
        server.add_generic_rpc_handlers((methods,))
        port = server.add_insecure_port("127.0.0.1:0")
        server.start()
        yield f"127.0.0.1:{port}"
        server.stop(None).wait()


@pytest.mark.parametrize("command", ["inspect", "top"])
def test_a_server_that_is_not_headrace_cannot_say(command: str, other_server: str) -> None:
    code, out, err = run(command, other_server)
    assert (code, out) == (ExitCode.FAILED, "")
    assert "is not a headrace server, such as TensorFlow's: it cannot say what it has" in err


def test_a_task_that_is_not_headrace_is_listed_as_such(by_sockets: None, other_server: str) -> None:
    spec = {"ps": ["127.0.0.1:0"], "worker": [other_server]}
    with tf.train.Server(spec, "ps", 0) as server:
        code, out, _ = run("inspect", server.target, "--interval", "0", "--json")
    assert code == ExitCode.OK
    ps, worker = json.loads(out)["tasks"]
    assert (ps["answers"], worker["answers"]) == (True, False)
    assert worker["why_silent"] == "cannot say: it is not a headrace server"


def test_a_secret_has_to_be_shown(
    by_sockets: None, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    secret = tmp_path / "secret"
    secret.write_text("open sesame and more")
    monkeypatch.setenv("HEADRACE_SECRET_FILE", str(secret))
    with in_process({"ps": 1}) as cluster:
        target = cluster.target("ps:0")
        monkeypatch.setenv("HEADRACE_SECRET_FILE", "")
        refused, _, err = run("inspect", target, "--interval", "0")
        let_in, out, _ = run("inspect", target, "--interval", "0", "--secret-file", str(secret))
    assert refused == ExitCode.FAILED
    assert f"{target} does not answer: " in err
    assert "HEADRACE_SECRET" in err
    assert (let_in, "Tasks" in out) == (ExitCode.OK, True)


def test_ctrl_c_ends_top_and_gives_the_terminal_back() -> None:
    with in_process({"ps": 1}) as cluster:
        screen, terminal = pty.openpty()
        command = [sys.executable, "-m", "headrace.tools.main", "top", cluster.target("ps:0")]
        environment = os.environ | {"TERM": "xterm-256color", "COLUMNS": "80", "LINES": "24"}
        child = subprocess.Popen(
            command, stdin=terminal, stdout=terminal, stderr=terminal, env=environment
        )
        os.close(terminal)
        shown = b""
        while b"Tasks" not in shown:
            shown += os.read(screen, 65536)
        child.send_signal(signal.SIGINT)
        try:
            while more := os.read(screen, 65536):
                shown += more
        except OSError:  # its end is closed: the child has ended
            pass
        os.close(screen)
        assert child.wait(60) == ExitCode.OK
    assert shown.index(b"\x1b[?1049h") < shown.index(b"Tasks") < shown.rindex(b"\x1b[?1049l")
    assert shown.rindex(b"\x1b[?25l") < shown.rindex(b"\x1b[?25h")
    assert b"Traceback" not in shown
