"""What a launch would start: roles, addresses, templates, and files of hosts; nothing is started here."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from headrace.serve.slurm import Step
from headrace.tools.commands import UsageError
from headrace.tools.launch import secret
from headrace.tools.launch.console import Lines
from headrace.tools.launch.logs import RotatingLog
from headrace.tools.launch.roles import (
    Counts,
    Place,
    Programs,
    fill,
    in_cluster,
    in_slurm_step,
    on_hosts,
    on_this_machine,
    parse_hosts,
    tasks,
)
from headrace.tools.launch.supervisor import restart_delay_s

PROGRAM = Programs(["train", "--job={job}", "{task}", "{worker_hosts}"])


def test_every_task_knows_the_cluster_and_itself() -> None:
    layout = on_this_machine(Counts(ps=1, chief=1, worker=2, evaluator=1), range(10, 20))
    made = tasks(layout, PROGRAM)
    cluster = {
        "ps": ["127.0.0.1:10"],
        "chief": ["127.0.0.1:11"],
        "worker": ["127.0.0.1:12", "127.0.0.1:13"],
    }
    assert [each.name for each in made] == [
        "ps 0",
        "chief 0",
        "worker 0",
        "worker 1",
        "evaluator 0",
    ]
    for each in made:
        said = json.loads(each.environment["TF_CONFIG"])
        assert said == {"cluster": cluster, "task": {"type": each.job, "index": each.index}}
    assert made[3].command == ("train", "--job=worker", "1", "127.0.0.1:12,127.0.0.1:13")
    assert [each.name for each in made if each.decides] == ["chief 0"]


def test_without_a_chief_the_workers_decide() -> None:
    made = tasks(on_this_machine(Counts(ps=1, worker=2), range(10, 20)), PROGRAM)
    assert [each.name for each in made if each.decides] == ["worker 0", "worker 1"]


def test_parameter_servers_may_run_something_else() -> None:
    layout = on_this_machine(Counts(ps=1, worker=1), range(10, 20))
    ps, worker = tasks(layout, Programs(["train"], ["serve", "{job}"]))
    assert (ps.command, worker.command) == (("serve", "ps"), ("train",))
    assert tasks(layout, Programs(["train"], serve_ps=True))[0].command[-1] == "serve"


@pytest.mark.parametrize(
    ("word", "filled"),
    [
        ("{job}-{task}", "worker-1"),
        ("{{job}}", "{job}"),
        ("{other} {}", "{other} {}"),
        ('{"a": {"b": 1}}', '{"a": {"b": 1}}'),
    ],
)
def test_only_templates_are_filled_in(word: str, filled: str) -> None:
    assert fill(word, {"job": "worker", "task": "1"}) == filled


HOSTS = """
node1:4000 ps=1 chief      # the first
node2:5000 workers=2
[fd00::2] workers evaluator
"""


def test_a_file_of_hosts_says_what_is_where() -> None:
    hosts = parse_hosts(HOSTS, 2222)
    layouts = [on_hosts(hosts, index, Counts()) for index in range(3)]
    assert layouts[0].cluster == {
        "ps": ["node1:4000"],
        "chief": ["node1:4001"],
        "worker": ["node2:5000", "node2:5001", "[fd00::2]:2222"],
    }
    assert all(each.cluster == layouts[0].cluster for each in layouts)
    assert [list(each.here) for each in layouts] == [
        [("ps", 0), ("chief", 0)],
        [("worker", 0), ("worker", 1)],
        [("worker", 2), ("evaluator", 0)],
    ]


def test_launches_of_hosts_listen_after_their_tasks() -> None:
    layout = on_hosts(parse_hosts(HOSTS, 2222), 1, Counts())
    assert layout.own == 1
    assert layout.places == [
        Place("node1:4002", ("chief 0",), waits=True),
        Place("node2:5002", (), waits=True),
        Place("[fd00::2]:2223", (), waits=True),
    ]
    two = on_hosts(parse_hosts("a ps=1 workers=1\nb workers=1"), 0, Counts())
    assert [(each.deciding, each.waits) for each in two.places] == [
        (("worker 0",), True),
        (("worker 1",), False),
    ]
    assert on_hosts(parse_hosts("a ps=1"), 0, Counts()).places == []


def test_tasks_are_dealt_round_hosts_that_say_none() -> None:
    hosts = parse_hosts("a\nb")
    layout = on_hosts(hosts, 1, Counts(ps=1, worker=3))
    assert layout.cluster == {"ps": ["a:2222"], "worker": ["a:2223", "b:2222", "a:2224"]}
    assert list(layout.here) == [("worker", 1)]


@pytest.mark.parametrize(
    ("text", "counts", "said"),
    [
        ("", Counts(ps=1), "names none"),
        ("a:0", Counts(ps=1), "HOST:PORT"),
        ("a cats=1", Counts(), "'cats=1'"),
        ("a ps=1 ps=2", Counts(), "twice"),
        ("a ps=1\nb", Counts(), "b does not"),
        ("a ps=1", Counts(worker=1), "leave out"),
        ("a", Counts(), "no task to start"),
        ("a:10 ps=2\na:11 workers=1", Counts(), "further apart"),
        ("a:10 ps=1\na:11 workers=1", Counts(), "the launch of host 0 .* a:11"),
    ],
)
def test_what_is_wrong_with_hosts_is_said(text: str, counts: Counts, said: str) -> None:
    with pytest.raises(UsageError, match=said):
        on_hosts(parse_hosts(text), 0, counts)


CLUSTER = {"ps": ["p:1", "q:1"], "worker": ["w:1", "x:1"]}


@pytest.mark.parametrize(
    ("jobs", "index", "task"),
    [
        (["ps"], 1, ("ps", 1)),
        (["chief", "worker", "evaluator"], 1, ("worker", 1)),
        (["chief", "worker", "evaluator"], 2, ("evaluator", 0)),
    ],
)
def test_a_task_of_a_cluster_is_chosen_by_its_index(
    jobs: list[str], index: int, task: tuple[str, int]
) -> None:
    layout = in_cluster(CLUSTER, jobs, index, 1)
    assert layout.here == [task]
    assert layout.cluster == CLUSTER


@pytest.mark.parametrize(
    ("jobs", "index", "said"), [(["ps"], 2, "have 2 tasks"), (["cats"], 0, "'cats' is none of")]
)
def test_a_task_that_a_cluster_does_not_have_is_said(
    jobs: list[str], index: int, said: str
) -> None:
    with pytest.raises(UsageError, match=said):
        in_cluster(CLUSTER, jobs, index, 0)


def test_a_slurm_step_is_one_task_a_rank() -> None:
    step = Step("700", 2, ["n1", "n2"], [2, 2])
    layout = in_slurm_step(step, Counts(), 4000)
    assert layout.cluster == {"ps": ["n1:4000"], "worker": ["n1:4001", "n2:4000", "n2:4001"]}
    assert list(layout.here) == [("worker", 1)]
    assert [each.address for each in layout.places] == ["n1:4002", "n1:4003", "n2:4002", "n2:4003"]
    ports = {
        int(each.rpartition(":")[2])
        for each in in_slurm_step(step, Counts(), None).addresses.values()
    }
    assert max(ports) < 32768
    with pytest.raises(UsageError, match="has 4 tasks"):
        in_slurm_step(step, Counts(worker=3), None)


def test_a_secret_is_asked_for_where_others_reach_the_servers() -> None:
    secret.check(["127.0.0.1:1", "localhost:2", "[::1]:3"], {})
    secret.check(["node1:1"], {"HEADRACE_SECRET_FILE": "f"})
    with pytest.raises(UsageError, match="--secret-file"):
        secret.check(["127.0.0.1:1", "node1:1"], {"HEADRACE_INSECURE": "0"})


def test_all_tasks_of_a_slurm_step_find_the_same_secret(tmp_path: Path) -> None:
    with (
        secret.of_slurm_step(tmp_path, "7", "0", removes=True) as one,
        secret.of_slurm_step(tmp_path, "7", "0", removes=False) as other,
    ):
        assert one.read_text() == other.read_text()
        assert len(one.read_text()) == 65
        assert one.stat().st_mode & 0o777 == 0o600
    assert os.listdir(tmp_path) == []


def test_a_log_is_renamed_when_it_is_large(tmp_path: Path) -> None:
    path = tmp_path / "a.log"
    with RotatingLog(path, 10, 2) as log:
        for number in range(5):
            log.write(b"%d......\n" % number)
    assert path.read_bytes() == b"4......\n"
    assert (tmp_path / "a.log.1").read_bytes() == b"3......\n"
    assert (tmp_path / "a.log.2").read_bytes() == b"2......\n"
    assert len(os.listdir(tmp_path)) == 3
    with RotatingLog(path, 100, 2) as log:
        log.write(b"more\n")
    assert path.read_bytes() == b"4......\nmore\n"


@pytest.mark.parametrize("cut", range(14))
def test_lines_are_the_same_wherever_they_are_cut(cut: int) -> None:
    data = b"a\nbc\r\n5%\r9%\rd"
    lines = Lines()
    found = [*lines.feed(data[:cut]), *lines.feed(data[cut:]), *lines.end()]
    assert found == ["a", "bc", "5%", "9%", "d"]


def test_restarts_wait_longer_and_longer() -> None:
    assert [restart_delay_s(n) for n in (1, 2, 3, 4, 20)] == [0, 1, 2, 4, 30]
