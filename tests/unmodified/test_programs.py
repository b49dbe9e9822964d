"""Programs in the manner of TensorFlow 1.x tutorials, each importing it in another way, run under `headrace run`."""

from __future__ import annotations

import io
import re
import subprocess
import sys
from pathlib import Path

import pytest

from headrace.tools.main import main
from tests.ports import own_ports

PROGRAMS = Path(__file__).with_name("programs")
WITHIN_S = 100.0
HIGH = r"(0\.9\d|1\.00)"
PRINTED: dict[str, tuple[list[str], str]] = {
    "actor_learner": ([], r"best arm 2\nactors ended \[0, 0\]"),
    "cnn": ([], rf"accuracy {HIGH}\nvariables 6 Mul"),
    "custom_gradient": (
        [],
        r"cube \[1\.0, 8\.0, 27\.0\] \[3\.0, 12\.0, 27\.0\]\nflipped \[-1\.0, -1\.0, -1\.0\]\n"
        r"square \[\[14\.0\]\] \[2\.0, 4\.0, 6\.0\]\nlog1pexp False",
    ),
    "in_graph": ([], r"weights \[1\.0, 2\.0\]\ndevices True \['/job:worker'\]\ntrace True"),
    "linear_regression": ([], r"cost True\nW 1\.50 b -0\.70"),
    "loops": (
        [],
        r"collatz 111\nfibonacci 0 1 1 2 3 5 8 13 21 34\nhorner 3\.0\n"
        r"power \[np\.float32\(32\.0\), np\.float32\(80\.0\)\]\ncase negative zero positive",
    ),
    "lstm": ([], rf"accuracy {HIGH}"),
    "mlp": (
        [],
        rf"global step 150\naccuracy {HIGH}\n"
        r"trainable first/weights first/biases second/weights second/biases logits/weights logits/biases",
    ),
    "mnist_idx": ([], rf"examples 500 100 200\nepochs 3\naccuracy {HIGH}"),
    "pipeline": (["a", "b"], r"rows 24 each \{2\} of 48\narguments \['a', 'b'\]"),
    "ps_training": (
        [],
        r"worker 0: weights \[1\.0, -2\.0, 0\.5\] /job:ps/task:0\nworker 1: done\nended \[0, 0\]",
    ),
    "py_functions": (
        [],
        r"better than idle True\npushes back True\nfailed UnknownError True",
    ),
    "sharing": (
        [],
        r"refused True\nnames model/w other/w scaled/w\nsame True\nweights \[0\.5, 0\.50?\d*\]\naverage True\n"
        r"template \[\[6\.0\]\]\nmoved 1\.0",
    ),
    "softmax": (["--steps=80", "--noverbose"], rf"steps 80\naccuracy {HIGH}"),
    "word2vec": (
        [],
        r"loss falls True\nnear cat in its group 2\nnear red in its group 2\nnear one in its group 2",
    ),
}
"""Program -> (arguments, all that it prints)."""
ADDRESSES = {
    "actor_learner": ["{}"],
    "in_graph": ["{}", "{}"],
    "ps_training": ["--ps_hosts={}", "--worker_hosts={},{}"],
}
"""How they are told where tasks are: what was free may be somebody else's when they come to it."""


def run(name: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "headrace", "run", str(PROGRAMS / f"{name}.py"), *arguments],
        capture_output=True,
        text=True,
        timeout=WITHIN_S,
        check=False,
    )


def addresses(name: str) -> list[str]:
    """Arguments that name the tasks of a program, if it has some."""
    words = ADDRESSES.get(name, [])
    ports = iter(own_ports(sum(word.count("{}") for word in words)))
    return [re.sub(r"{}", lambda _: f"127.0.0.1:{next(ports)}", word) for word in words]


@pytest.mark.parametrize("name", PRINTED)
def test_the_program_runs_and_computes_what_it_should(name: str) -> None:
    arguments, printed = PRINTED[name]
    done = run(name, *arguments, *addresses(name))
    assert done.returncode == 0, done.stderr
    assert re.fullmatch(printed, done.stdout.strip()), done.stdout


def test_every_program_is_run() -> None:
    assert {path.stem for path in PROGRAMS.glob("*.py")} == {*PRINTED}
    assert len(PRINTED) >= 12


def test_headrace_check_finds_nothing_missing_in_them() -> None:
    out = io.StringIO()
    assert main(["check", str(PROGRAMS)], out) == 0
    assert f"{len(PRINTED)} files: nothing is missing" in out.getvalue()


def test_each_imports_tensorflow_in_its_own_way() -> None:
    """No two have the same import lines, and none names headrace."""
    ways = []
    for path in PROGRAMS.glob("*.py"):
        text = path.read_text()
        assert "headrace" not in text
        lines = re.findall(
            r"^\s*(?:import|from) tensorflow\b.*|.*import_module\(.*", text, re.MULTILINE
        )
        ways.append(frozenset(line.strip() for line in lines))
    assert len(set(ways)) == len(ways)
    assert all(ways)


def test_a_function_that_is_old_says_so_by_way_of_the_log() -> None:
    assert (
        "__main__.horner is deprecated and will be removed in a future version"
        in run("loops").stderr
    )


def test_flags_that_nobody_defined_and_help_are_the_programs() -> None:
    done = run("softmax", "--help")
    assert done.returncode == 1
    assert "Number of steps." in done.stdout
