"""What becomes of a step, as text: the same for `run`, callables and the command; and that passes check each other."""

from __future__ import annotations

import io
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import headrace as tf
from headrace.codec import protos as pb
from headrace.plan import explain, invariants
from headrace.plan.explain import explaining
from headrace.plan.ir import Request
from headrace.plan.passes import PASSES, Kind, versions
from headrace.plan.prune import needed
from headrace.tools.main import main

PLAIN = Kind(optimize=True, host=True, nests=False, fuses=False, whole=False)
NAMES = ["prune", *[each.name for each in PASSES if each.when(PLAIN)]]


@pytest.fixture(autouse=True)
def graph() -> Iterator[tf.Graph]:
    with tf.Graph().as_default() as made:
        yield made


def passes_in(text: str) -> list[str]:
    return [line.partition(":")[0] for line in text.splitlines() if line and line[0] != " "]


def test_a_run_is_explained_pass_by_pass() -> None:
    x = tf.placeholder(tf.float32, [3], name="x")
    y = tf.add(tf.tanh(x * 2.0), tf.tanh(x * 2.0), name="y")
    said: list[str] = []
    with tf.Session() as session, explaining(said.append):
        session.run(y, {x: [1.0, 2.0, 3.0]})
    text = "".join(said)
    assert passes_in(text) == ["step", *NAMES]
    assert "step: feeds v1:float32[3]; fetches y:0" in text
    assert "schedule: no change" in text
    assert "= Tanh(v" in text
    assert "Tanh, Tanh_1" in text  # one stands for both
    assert "= AddV2(r" in text  # registers, at last
    assert not explain.enabled


def test_a_callable_is_explained_too() -> None:
    x = tf.placeholder(tf.float32, [], name="x")
    said: list[str] = []
    with tf.Session() as session, explaining(said.append):
        call = session.make_callable(tf.negative(x, name="y"), [x])
        assert call(np.float32(2)) == -2
    assert "r2:float32[] = Neg(r1)  y" in "".join(said)


def test_branches_loops_and_waits_can_be_read() -> None:
    queue = tf.FIFOQueue(1, [tf.float32], [[]], name="queue")
    wait = queue.dequeue(name="wait")
    result = tf.while_loop(
        lambda i: i < wait, lambda i: tf.cond(i > 1, lambda: i + 1, lambda: i + 2), [0.0]
    )
    said: list[str] = []
    with tf.Session() as session, explaining(said.append):
        session.run(queue.enqueue(3.0))
        session.run(result)
    text = "".join(said)
    for words in (
        "waits as w0",
        "after w0:",
        "while r",
        "head:",
        "body:",
        "if r",
        "if not r",
        "select",
    ):
        assert words in text, words


def test_the_command_explains_a_graph_in_a_file(graph: tf.Graph, tmp_path: Path) -> None:
    x = tf.placeholder(tf.float32, [2], name="x")
    tf.exp(x, name="y")
    for name, content in (
        ("graph.pb", graph.as_graph_def().SerializeToString()),
        ("graph.pbtxt", str(graph.as_graph_def()).encode()),
        ("graph.meta", pb.MetaGraphDef(graph_def=graph.as_graph_def()).SerializeToString()),
    ):
        path = tmp_path / name
        path.write_bytes(content)
        out, err = io.StringIO(), io.StringIO()
        assert main(["explain", str(path), "--feed", "x", "--fetch", "y:0"], out, err) == 0
        assert "r2:float32[2] = Exp(r1)  y" in out.getvalue()
    assert main(["explain", str(path), "--fetch", "z:0"], out, err) == 2
    assert "no tensor 'z:0'" in err.getvalue()
    assert main(["explain", str(tmp_path / "none")], out, err) == 1


def test_a_checker_notices_what_a_pass_has_lost() -> None:
    x = tf.placeholder(tf.float32, [3])
    y = tf.tanh(x) * 2.0
    pruned = needed([x], [y], [])
    before, after = versions(Request(pruned, [x], [y], {}, {}), False)
    invariants.check_registers(before, after)
    lost: list[Any] = before.code[1:]
    with pytest.raises(AssertionError, match="which nobody makes"):
        invariants.check_values(before, before.with_code(lost))
    with pytest.raises(AssertionError, match="an instruction is lost"):
        invariants.check_registers(before.with_code(lost), after)
    made, two = before.code[-1].inputs
    for value, register in ((1, 0), (two, after.registers[made]), (made, after.registers[two])):
        good, after.registers[value] = after.registers[value], register
        with pytest.raises(AssertionError, match="wants value"):
            invariants.check_registers(before, after)
        after.registers[value] = good
    invariants.check_registers(before, after)
