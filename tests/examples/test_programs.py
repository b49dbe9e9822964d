"""The classic programs in examples/, run against servers, print what they say they print."""

from __future__ import annotations

import ast
import re
import runpy
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import headrace as tf
from tests.ports import own_ports

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"

Run = Callable[..., list[str]]
Serve = Callable[[int], list[str]]


@pytest.mark.parametrize(
    "name",
    [
        "actor_learner", "simple_client", "containers", "loader", "trainer", "secret_cluster", "tls_cluster",
    ],
)  # fmt: skip
def test_a_program_that_is_told_too_little_says_how_it_is_started(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    program = EXAMPLES / f"{name}.py"
    monkeypatch.setattr(sys, "argv", [str(program)])
    monkeypatch.syspath_prepend(EXAMPLES)
    with pytest.raises(SystemExit, match=f"python examples/{name}.py"):
        runpy.run_path(str(program), run_name="__main__")


def test_a_variable_outlives_the_program_and_is_shared_by_the_servers(
    served: Serve, run_example: Run
) -> None:
    first, second = served(2)
    assert run_example("simple_client", first, "init") == ["1.0"]
    assert run_example("simple_client", second) == ["2.0"]


def test_a_container_is_reset_alone(served: Serve, run_example: Run) -> None:
    (target,) = served(1)
    *before, uninitialized = run_example("containers", target)
    assert before == [
        "x in the default container: 1.0",
        "x in my_problem_1: 2.0",
        "the session was closed by the reset",
        "x in the default container: 1.0",
    ]
    assert uninitialized.startswith("x in my_problem_1: FailedPreconditionError: ")
    assert re.search(r"\bx\b", uninitialized.partition("Error: ")[2])


def test_two_programs_are_joined_by_a_queue(
    served: Serve, start_example: Any, run_example: Run, finish: Run
) -> None:
    (target,) = served(1)
    trainer = start_example("trainer", target)
    assert run_example("loader", target, "0", "4") == ["enqueued 0 1 2 3"]
    assert trainer.stdout.readline() == "one: [0.0, 0.5] 0\n"
    # Three are left, and `dequeue_many` wants four.
    assert run_example("loader", target, "4", "11", "close") == [
        "enqueued 4 5 6 7 8 9 10",
        "closed the queue",
    ]
    assert finish(trainer) == [
        "four: [[1.0, 1.5], [2.0, 2.5], [3.0, 3.5], [4.0, 4.5]] [1, 2, 3, 4]",
        "up to four, got 4: [[5.0, 5.5], [6.0, 6.5], [7.0, 7.5], [8.0, 8.5]] [5, 6, 7, 8]",
        "up to four, got 2: [[9.0, 9.5], [10.0, 10.5]] [9, 10]",
        "the queue is closed and empty",
    ]


def test_sessions_share_on_a_cluster_only_and_traces_show_what_crossed(run_example: Run) -> None:
    addresses = [f"localhost:{port}" for port in own_ports(2)]
    lines = run_example("gentle_introduction", *addresses)
    assert lines[:2] == ["local sessions: 1.0 1.0", "cluster sessions: 1.0 2.0"]
    task0 = "  /job:local/replica:0/task:0/device:CPU:0: "
    task1 = "  /job:local/replica:0/task:1/device:CPU:0: "
    assert [line for line in lines[2:] if not line.startswith("  ")] == [
        "a = 1.0",
        "b = 2.0",
        "total = 3.0",
    ]
    a, b, total = (lines.index(f"{name}") for name in ("a = 1.0", "b = 2.0", "total = 3.0"))
    assert nodes_of(task0, lines[a + 1 : b]) == {"_SOURCE", "a"}
    assert nodes_of(task1, lines[b + 1 : total]) == {"_SOURCE", "b"}
    assert {"a", "a/read"} <= nodes_of(task0, lines[total + 1 :])
    assert {"b", "b/read", "total", "RecvTensor"} <= nodes_of(task1, lines[total + 1 :])
    assert not any("RecvTensor" in line for line in lines[:total])


def nodes_of(device: str, lines: list[str]) -> set[str]:
    """The nodes that a run's trace lists for a device."""
    (line,) = [line for line in lines if line.startswith(device)]
    return set(line.removeprefix(device).split(", "))


def test_towers_train_where_there_are_no_gpus(run_example: Run) -> None:
    where, first, last = run_example("towers")
    assert where == "towers on device:CPU:0 and device:CPU:0"
    assert float(last.split()[-1]) < float(first.split()[-1]) / 2


def test_layers_and_batches_are_on_the_cpu_where_there_are_no_gpus(run_example: Run) -> None:
    where, first, last = run_example("layers_on_two_gpus")
    assert where == "layers on device:CPU:0 and device:CPU:0"
    assert float(last.split()[-1]) < float(first.split()[-1]) / 2
    where, first, last, left = run_example("staged_batches")
    assert (where, left) == ("batches on device:CPU:0", "1 left")
    assert float(last.split()[-1]) < float(first.split()[-1]) / 100


@pytest.mark.parametrize("program", ["csv_to_batches", "dataset_from_csv"])
@pytest.mark.parametrize("remote", [False, True], ids=["in this process", "on a server"])
def test_csv_becomes_batches(served: Serve, run_example: Run, remote: bool, program: str) -> None:
    *batches, last = run_example(program, *([f"--target={served(1)[0]}"] if remote else []))
    assert last == "that was all"
    assert [line.partition(":")[0] for line in batches] == ["batch of 2", "batch of 1"]
    rows = [row for line in batches for row in zip(*in_brackets(line), strict=True)]
    assert sorted(rows) == [([1.0, 2.0], 0), ([4.0, 5.0], 1), ([7.0, -1.0], 0)]


def test_two_workers_share_the_batches_of_one_iterator(
    start_example: Any, finish: Run, run_example: Run
) -> None:
    ps, *workers = (f"localhost:{port}" for port in own_ports(3))
    tasks = ("--ps", ps, "--workers", ",".join(workers), "--epochs", "8")
    server, other = (
        start_example("shared_iterator", *task, *tasks) for task in (("ps", "0"), ("worker", "1"))
    )
    lines = [*run_example("shared_iterator", "worker", "0", *tasks), *finish(other)]
    found = [re.fullmatch(r"(\d+) batches, (\d+\.\d)% of the test digits", line) for line in lines]
    taken, shares = zip(*[match.groups() for match in found if match], strict=True)
    assert sum(map(int, taken)) == 8 * 1437 // 50
    assert min(map(float, shares)) > 50
    assert finish(server) == []


def in_brackets(line: str) -> tuple[list[Any], list[Any]]:
    """`batch of 2: FEATURES LABELS` as two lists."""
    features, labels = line.partition(": ")[2].rsplit(" [", 1)
    return ast.literal_eval(features), ast.literal_eval(f"[{labels}")


@pytest.mark.parametrize("remote", [False, True], ids=["in this process", "on a server"])
def test_a_preloaded_set_trains(served: Serve, run_example: Run, remote: bool) -> None:
    target = served(1) if remote else []
    assert run_example("preloaded", *target) == [
        "160 steps, the last loss below 1e-3: True",
        "label = 2.0 x + -1.0",
    ]


def test_a_convolutional_network_learns_to_read_digits(run_example: Run) -> None:
    lines = run_example("digits_cnn", "", "2")
    found = [re.fullmatch(r"epoch (\d): (\d+\.\d)% of 360 test images", line) for line in lines]
    epochs, shares = zip(*[match.groups() for match in found if match], strict=True)
    assert epochs == ("1", "2")
    assert float(shares[1]) > float(shares[0]) > 50  # guessing gets 10


def test_actors_play_for_a_learner_until_it_closes_the_queue(
    served: Serve, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    program = str(EXAMPLES / "actor_learner.py")
    monkeypatch.setattr(sys, "argv", [program, *served(1), "2", "3"])
    with tf.Graph().as_default():
        runpy.run_path(program, run_name="__main__")
    assert re.fullmatch(r"not learned in 3 updates: \d+% won\n", capsys.readouterr().out)


def test_a_malformed_line_is_named(tmp_path: Path, start_example: Any) -> None:
    path = tmp_path / "broken.csv"
    path.write_text("x,y,label\n1,2,0\nfour,5,1\n")
    program = start_example("csv_to_batches", str(path))
    _, err = program.communicate(timeout=60)
    assert program.returncode != 0
    assert "InvalidArgumentError" in err
    assert f"{path}:3" in err
    assert "four" in err


def test_the_readme_lists_every_program() -> None:
    readme = (EXAMPLES / "README.md").read_text()
    programs = {path.name for path in EXAMPLES.glob("*.py")}
    assert set(re.findall(r"`(\w+\.py)`", readme)) == programs
