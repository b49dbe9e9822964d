"""Random graphs with branches and loops: both executors agree with the naive interpreter, whatever happens in them."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import headrace as tf
from headrace.graph.graph import Operation
from headrace.graph.registry import get
from headrace.graph.tensor import Tensor
from headrace.plan.compile import compile_program
from headrace.plan.prune import needed
from headrace.run.exec.dataflow import DataflowProgram
from headrace.run.exec.flow_nodes import DEAD
from headrace.run.exec.kernel import Runtime, StepState
from headrace.run.exec.rendezvous import Rendezvous
from headrace.run.exec.trace import StatsCollector
from headrace.run.scope import Scope
from tests.flow_programs import as_graph, expressions_with, in_python
from tests.naive import Naive
from tests.run.conftest import DEVICE, Executor

# -- Switch and Merge, as no cond would make them ----------------------------------------------------

Recipe = list[tuple[int, int, int, int]]
"""(kind of node, first choice, second choice, control input)"""

small = st.integers(0, 11)
recipes = st.lists(st.tuples(small, small, small, small), min_size=3, max_size=25)
Guard = frozenset[tuple[Any, bool]]
"""Decisions under which a value is alive."""


class Wired:
    """A graph made from a recipe.  A Merge takes values of which no more than one is alive."""

    def __init__(self, recipe: Recipe) -> None:
        self.values: list[tuple[Tensor, Guard]] = []
        self.references: list[tuple[Tensor, Guard]] = []
        self.preds: list[tuple[Tensor, Guard]] = []
        self.counters: list[Any] = []
        self.effects: list[Operation] = []
        self._runs: dict[Operation, Guard] = {}
        with tf.Graph().as_default():
            self.fed = [tf.placeholder(tf.bool, []) for _ in range(2)]
            self.preds += [(pred, frozenset()) for pred in self.fed]
            self.values.append((tf.constant(1.0), frozenset()))
            variable = tf.Variable(5.0)
            self.references.append((variable._ref(), frozenset()))
            self.initializers = [variable.initializer]
            for kind, a, b, control in recipe:
                before = self.values[-1 - control % len(self.values)] if control % 3 == 0 else None
                if before is None:
                    KINDS[kind % len(KINDS)](self, a, b, frozenset())
                    continue
                with tf.control_dependencies([before[0]]):  # a Switch runs whichever way it goes
                    more = self._runs.get(before[0].op, before[1])
                    KINDS[kind % len(KINDS)](self, a, b, more)
            self.reads = [counter.value() for counter in self.counters]
            self.initializers += [counter.initializer for counter in self.counters]

    def _value(self, choice: int) -> tuple[Tensor, Guard]:
        return self.values[-1 - choice % len(self.values)]

    def _constant(self, a: int, b: int, more: Guard) -> None:
        self.values.append((tf.constant(float(a)), more))

    def _sum(self, a: int, b: int, more: Guard) -> None:
        (x, first), (y, second) = self._value(a), self._value(b)
        self.values.append((x * 0.5 + y, first | second | more))

    def _read(self, a: int, b: int, more: Guard) -> None:
        reference, guard = self.references[a % len(self.references)]
        self.values.append((reference + float(b), guard | more))

    def _decide(self, a: int, b: int, more: Guard) -> None:
        value, guard = self._value(a)
        self.preds.append((value > float(b), guard | more))

    def _switch(self, a: int, b: int, more: Guard) -> None:
        of = self.references if a % 4 == 0 else self.values
        value, guard = of[-1 - a % len(of)]
        pred, decided = self.preds[b % len(self.preds)]
        no, yes = get("RefSwitch" if of is self.references else "Switch")(value, pred)
        both = self._runs[no.op] = guard | decided | more
        of += [(no, both | {(pred, False)}), (yes, both | {(pred, True)})]

    def _merge(self, a: int, b: int, more: Guard) -> None:
        of = self.references if a % 4 == 0 else self.values
        first, guard = of[-1 - a % len(of)]
        against = {(pred, not way) for pred, way in guard}
        others = [each for each in of if each[1] & against]
        if others:
            second, other = others[b % len(others)]
            merged, index = get("RefMerge" if of is self.references else "Merge")([first, second])
            of.append((merged, guard & other))
            self.values.append((tf.cast(index, tf.float32), guard & other))

    def _count(self, a: int, b: int, more: Guard) -> None:
        value, _ = self._value(a)
        self.counters.append(tf.Variable(0))
        with tf.control_dependencies([value]):
            self.effects.append(self.counters[-1].assign_add(1).op)


KINDS = [
    Wired._switch, Wired._merge, Wired._sum, Wired._switch, Wired._count, Wired._decide, Wired._merge, Wired._read,
    Wired._constant,
]  # fmt: skip


def run(
    runtime: Runtime, general: bool, fetches: Sequence[Tensor], feeds: dict[Tensor, Any],
    targets: Sequence[Operation] = (), scope: Scope | None = None, stats: Any = None,
) -> list[Any]:  # fmt: skip
    """One step; `general`: by that executor though the other one could."""
    pruned = needed(list(feeds), fetches, targets)
    devices = dict.fromkeys(pruned.ops, DEVICE)
    program = compile_program(
        pruned, list(feeds), list(fetches), devices=devices, memos={}, dataflow=general, fold=stats is None
    )  # fmt: skip
    step = StepState(runtime, scope or Scope(), 1, Rendezvous(), stats)
    return program.run(step, list(feeds.values()))


@given(recipes, st.booleans(), st.booleans())
@settings(max_examples=150)
def test_what_is_alive_has_the_naive_value_and_what_is_dead_has_none(
    recipe: Recipe, p: bool, q: bool
) -> None:
    wired = Wired(recipe)
    feeds = dict(zip(wired.fed, (np.bool_(p), np.bool_(q)), strict=True))
    tensors = [tensor for tensor, _ in (*wired.values, *wired.preds, *wired.references)]
    tensors = [tensor for tensor in tensors if tensor not in feeds]
    naive = Naive()
    naive.run([], {}, wired.initializers)
    wanted = naive.run(tensors, feeds, wired.effects)
    counted = [int(count) for count in naive.run(wired.reads, {}, [])]
    alive = [
        (tensor, value) for tensor, value in zip(tensors, wanted, strict=True) if value is not DEAD
    ]
    for general in (False, True):
        runtime = Runtime(DEVICE)
        run(runtime, general, [], {}, wired.initializers)
        found = run(runtime, general, [tensor for tensor, _ in alive], feeds, wired.effects)
        assert [value.tolist() for value in found] == [value.tolist() for _, value in alive]
        assert [int(count) for count in run(runtime, general, wired.reads, {})] == counted
        for tensor, value in zip(tensors, wanted, strict=True):
            if value is DEAD:
                with pytest.raises(tf.errors.InvalidArgumentError, match="not taken") as caught:
                    run(runtime, general, [tensor], feeds)
                assert caught.value.node == tensor.op.name


# -- programs of branches and loops ----------------------------------------------------------------

INPUTS = st.integers(0, 9)


class Program:
    """A random program as a graph, with a queue of fives to take from, and a variable to count with."""

    def __init__(self, expression: Any) -> None:
        with tf.Graph().as_default():
            self.x = tf.placeholder(tf.int64, [])
            self.count = tf.Variable(0, dtype=tf.int64)
            self.queue = tf.FIFOQueue(1000, tf.int64, [[]], shared_name="fives")
            self.put = tf.placeholder(tf.int64, [None])
            self.fill = self.queue.enqueue_many([self.put])
            self.left = self.queue.size()
            names = {"x": self.x, "i": tf.constant(1, tf.int64), "a": tf.constant(4, tf.int64)}
            kinds = {"count": self._counted, "take": self._taken, "divide": self._divided}
            self.result = tf.identity(as_graph(expression, names, kinds=kinds))

    def _counted(self, value: Any) -> Any:
        with tf.control_dependencies([value]), tf.control_dependencies([self.count.assign_add(1)]):
            return tf.identity(value)

    def _taken(self, value: Any) -> Any:
        with tf.control_dependencies([value]):
            return value + self.queue.dequeue(name="taken")

    def _divided(self, value: Any) -> Any:
        return tf.floordiv(tf.constant(12, tf.int64), value % 5, name="divided")


class Expected:
    """What Python makes of it: the value, or that it divides by zero; how often it counts and takes."""

    def __init__(self, expression: Any, x: int) -> None:
        self.did: Counter[str] = Counter()
        kinds = {
            "count": self._count,
            "take": self._take,
            "divide": lambda value: 12 // (value % 5),
        }
        self.value: int | None = None
        try:
            self.value = in_python(expression, {"x": x, "i": 1, "a": 4}, kinds)
        except ZeroDivisionError:
            self.did["fails"] += 1

    def _count(self, value: int) -> int:
        self.did["count"] += 1
        return value

    def _take(self, value: int) -> int:
        self.did["take"] += 1
        return value + 5


@given(expressions_with("count"), INPUTS)
def test_a_trace_lists_every_node_as_often_as_it_ran(expression: Any, x: int) -> None:
    program = Program(expression)
    feeds = {program.x: np.int64(x)}
    naive = Naive()
    naive.run([], {}, [program.count.initializer])
    everything = needed(list(feeds), [program.result], []).ops
    (want,) = naive.run([program.result], feeds, [], everything)
    runtime, stats = Runtime(DEVICE), StatsCollector()
    run(runtime, True, [], {}, [program.count.initializer])
    assert run(runtime, False, [program.result], feeds, stats=stats) == [want]
    (device,) = stats.proto().dev_stats
    listed = Counter(node.node_name for node in device.node_stats)
    del listed["_SOURCE"]
    assert listed == +naive.ran
    assert (
        int(run(runtime, True, [program.count.value()], {})[0])
        == Expected(expression, x).did["count"]
    )


@given(expressions_with("divide", "count"), INPUTS)
def test_what_divides_by_zero_fails_and_names_the_node(expression: Any, x: int) -> None:
    program, expected = Program(expression), Expected(expression, x)
    for general in (False, True):
        runtime = Runtime(DEVICE)
        run(runtime, general, [], {}, [program.count.initializer])
        if expected.value is not None:
            found = run(runtime, general, [program.result], {program.x: np.int64(x)})
            assert found == [expected.value]
            continue
        with pytest.raises(tf.errors.InvalidArgumentError) as caught:
            run(runtime, general, [program.result], {program.x: np.int64(x)})
        assert caught.value.node is not None
        assert caught.value.node.rpartition("/")[2].startswith("divided")
        assert caught.value.op_type == "FloorDiv"
        assert caught.value.device == DEVICE
        assert __file__ in str(caught.value.built_at)


@given(expressions_with("take"), INPUTS, st.booleans(), st.booleans())
def test_what_waits_goes_on_when_it_may_and_leaves_nothing_when_it_is_ended(
    expression: Any, x: int, enough: bool, by_deadline: bool
) -> None:
    program, expected = Program(expression), Expected(expression, x)
    wanted = expected.did["take"]
    executor = Executor(True)
    runtime = executor.runtime
    given_now = wanted if enough else max(wanted - 1, 0)
    run(runtime, True, [], {program.put: np.full(given_now, 5)}, [program.fill])
    feeds = {program.x: np.int64(x)}
    if given_now == wanted:
        assert run(runtime, True, [program.result], feeds) == [expected.value]
        assert run(runtime, True, [program.left], {}) == [0]
        return
    scope = Scope(0.01) if by_deadline else Scope()
    ender = threading.Thread(
        target=scope.cancel, args=(tf.errors.CancelledError(None, None, "enough"),)
    )
    if not by_deadline:
        ender.start()
    kind = tf.errors.DeadlineExceededError if by_deadline else tf.errors.CancelledError
    with pytest.raises(kind) as caught:
        run(runtime, True, [program.result], feeds, scope=scope)
    if not by_deadline:
        ender.join()
    assert caught.value.node is not None
    (left,) = run(runtime, True, [program.left], {})
    run(runtime, True, [], {program.put: np.full(wanted, 5)}, [program.fill])
    assert run(runtime, True, [program.left], {}) == [
        left + wanted
    ]  # nobody waits for one any more
    assert run(runtime, True, [program.result], feeds) == [expected.value]


@given(expressions_with("count"), INPUTS)
def test_values_and_effects_are_the_naive_ones(expression: Any, x: int) -> None:
    program, expected = Program(expression), Expected(expression, x)
    feeds = {program.x: np.int64(x)}
    naive = Naive()
    naive.run([], {}, [program.count.initializer])
    assert naive.run([program.result], feeds, []) == [expected.value]
    for general in (False, True):
        executor = Executor(general)
        assert (
            isinstance(executor.compile([program.result], list(feeds)), DataflowProgram) is general
        )
        executor([], targets=[program.count.initializer])
        assert executor(program.result, feeds) == expected.value
        assert executor(program.count.value()) == expected.did["count"]
