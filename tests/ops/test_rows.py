"""No op without rows: those that are no functions of arrays are run by a test, under their names or public ones."""

from __future__ import annotations

import re
import time
from collections.abc import Iterable
from functools import cache
from pathlib import Path

import pytest

import headrace as tf
from headrace.base.traits import STATEFUL
from headrace.graph.registry import OPS, OpSpec, get, op
from tests.ops.operands import covered
from tests.ops.without_kernels import reasons

TESTS = Path(__file__).parent.parent
HERE = {"test_rows.py", "without_kernels.py"}

BY_PUBLIC_NAMES = {
    "(Resource|Sparse)?Accumulator.*": "run/test_accumulators.py",
    "Queue.*": "ops/test_queues.py",
    "BatchFunction": "ops/test_batch_functions.py",
    "Barrier.*": "graph/test_internals.py",
    "TensorArray.*": "oracle/programs/tensor_array.txt",
    "Stack(Close)?V2": "oracle/programs/control_flow_gradients.txt",
    "Reader.*": "oracle/programs/readers.txt",
    "LookupTableImportV2|InitializeTableFromTextFile": "oracle/programs/lookup.txt",
    "PyFuncStateless": "oracle/test_py_functions.py",
    "HeadraceAwaitVarInitialized": "run/test_leases.py",
    "HeadraceWaitingCall": "graph/test_recursive_functions.py",
}
"""Patterns of ops that no test names, and where they run: under the names that programs have for them."""


@cache
def words() -> frozenset[str]:
    """All that tests name."""
    found = (
        path.read_text(errors="replace")
        for path in TESTS.rglob("*")
        if path.suffix in (".py", ".txt") and path.name not in HERE
    )
    return frozenset(word for text in found for word in re.findall(r"\w+", text))


def without_rows(specs: Iterable[OpSpec]) -> list[str]:
    """Those that operands cannot be drawn for, and that no test runs."""
    return [
        spec.name
        for spec in specs
        if not covered(spec)
        and spec.name not in words()
        and not any(re.fullmatch(each, spec.name) for each in BY_PUBLIC_NAMES)
    ]


def test_every_op_has_rows() -> None:
    OPS.complete()
    assert without_rows(OPS.values()) == ["FakeQueue", "Timestamp"], "they are below"


def test_an_op_that_nobody_tests_is_found() -> None:
    name = "HeadraceOf" + "Nobody"
    spec = op(name, outputs="made: float", traits={STATEFUL})(lambda ctx: 1.0)
    try:
        assert without_rows([spec]) == [name]
    finally:
        OPS.pop(name)


@pytest.mark.parametrize("where", BY_PUBLIC_NAMES.values())
def test_where_ops_run_by_other_names_there_are_tests(where: str) -> None:
    assert (TESTS / where).exists()


def test_every_op_of_tensorflow_has_a_kernel_or_a_reason() -> None:
    counted, unexplained = reasons()
    assert not unexplained
    assert sum(counted.values()) < 500


def test_the_clock_goes_on() -> None:
    with tf.Graph().as_default(), tf.Session() as session:
        now = tf.timestamp()
        first, before = session.run(now), time.time()
        assert abs(first - before) < 3600
        assert session.run(now) >= first


def test_a_fake_queue_is_a_reference_to_its_resource() -> None:
    with tf.Graph().as_default(), tf.Session() as session:
        queue = tf.FIFOQueue(3, tf.int32, shapes=[()])
        old = get("FakeQueue")(queue.queue_ref)
        size = get("QueueSize")(old)
        session.run(queue.enqueue_many([[1, 2]]))
        assert session.run(size) == 2
