"""Groups of elementwise nodes: bit for bit what the nodes give one by one, whatever is fed, broadcast or refused."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import headrace as tf
from headrace.base import errors
from headrace.ops._kernels import blocks
from headrace.plan.rules import elementwise, group
from headrace.run.exec.kernel import Runtime
from headrace.run.exec.program import Program
from headrace.run.exec.straight import Code
from headrace.run.exec.worker_pool import WorkerPool
from tests.plan.programs import DEVICE, compiled, nodes, run, together_and_apart

BLOCK = 96


@pytest.fixture(autouse=True)
def small_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is large here is small elsewhere."""
    for module in (elementwise, blocks):
        monkeypatch.setattr(module, "BLOCK", BLOCK)
        monkeypatch.setattr(module, "LARGE", 3 * BLOCK)
    monkeypatch.setattr("headrace.ops.math.reductions.LARGE", 3 * BLOCK)


@pytest.fixture(autouse=True)
def graph() -> Iterator[Any]:
    with tf.Graph().as_default() as graph:
        yield graph


def both(fetches: list[Any], feeds: dict[Any, Any], runtime: Runtime) -> tuple[list[Any], Program]:
    """The values of a fused program, which are those of one that is not."""
    found, wanted, fused = together_and_apart(fetches, feeds, runtime)
    for one, other in zip(found, wanted, strict=True):
        np.testing.assert_array_equal(one, other)
    return found, fused


UNARY = [
    tf.tanh,
    tf.exp,
    tf.sqrt,
    tf.square,
    tf.sigmoid,
    tf.nn.relu,
    tf.negative,
    tf.nn.softplus,
    tf.abs,
    tf.rsqrt,
]
BINARY = [tf.add, tf.subtract, tf.multiply, tf.divide, tf.maximum, tf.squared_difference]


@st.composite
def programs(draw: st.DrawFn) -> dict[str, Any]:
    """Leaves (shape by name) and operations: each takes earlier values, by number."""
    leaves = draw(
        st.lists(st.sampled_from(["full", "full", "row", "scalar", "one"]), min_size=1, max_size=4)
    )
    steps = []
    for number in range(draw(st.integers(1, 9))):
        count = len(leaves) + number
        pick = st.integers(max(0, count - 4), count - 1)
        if draw(st.booleans()):
            steps.append((draw(st.sampled_from(range(len(UNARY)))), [draw(pick)]))
        else:
            steps.append((draw(st.sampled_from(range(len(BINARY)))), [draw(pick), draw(pick)]))
    return {
        "leaves": leaves, "steps": steps, "seed": draw(st.integers(0, 999)),
        "kind": draw(st.sampled_from([np.float32, np.float64])),
        "fetched": draw(st.sets(st.integers(0, len(steps) - 1), max_size=2)),
        "known": draw(st.booleans()), "sum": draw(st.sampled_from([None, "sum", "mean", "kept", "last"])),
    }  # fmt: skip


@given(programs())
def test_any_program_gives_what_it_gives_op_by_op(case: dict[str, Any]) -> None:
    rng = np.random.default_rng(case["seed"])
    shapes = {"full": (41, 17), "row": (17,), "scalar": (), "one": (1,)}
    runtime = Runtime(DEVICE, workers=WorkerPool(2))
    try:
        with tf.Graph().as_default():
            feeds: dict[Any, Any] = {}
            values: list[Any] = []
            for leaf in case["leaves"]:
                array = rng.normal(size=shapes[leaf]).astype(case["kind"])
                tensor = tf.placeholder(case["kind"], array.shape if case["known"] else None)
                feeds[tensor] = array
                values.append(tensor)
            for which, inputs in case["steps"]:
                function = (UNARY if len(inputs) == 1 else BINARY)[which]
                values.append(function(*[values[number] for number in inputs]))
            made = values[len(case["leaves"]) :]
            fetches = [made[-1], *(made[number] for number in case["fetched"])]
            if case["sum"] is not None and case["known"]:
                axis = -1 if case["sum"] == "last" else None
                function = tf.reduce_mean if case["sum"] == "mean" else tf.reduce_sum
                if made[-1].shape.ndims:
                    fetches.append(function(made[-1], axis, keepdims=case["sum"] == "kept"))
            with np.errstate(all="ignore"):
                both(fetches, feeds, runtime)
    finally:
        runtime.workers.close()


def placeholder(*shape: int | None) -> Any:
    return tf.placeholder(tf.float32, shape)


X = np.random.default_rng(0).normal(size=1000).astype(np.float32)


def test_a_chain_is_one_instruction_and_its_sum_too(runtime: Runtime) -> None:
    x = placeholder(1000)
    y = tf.tanh(x) * 2 + tf.exp(-x)
    (found,), program = both([y], {x: X}, runtime)
    np.testing.assert_allclose(found, np.tanh(X) * 2 + np.exp(-X), rtol=1e-6)
    assert nodes(program) == [y.op.name]
    total = tf.reduce_sum(y)
    _, program = both([total], {x: X}, runtime)
    assert nodes(program) == [total.op.name]


def test_large_arrays_go_by_blocks(runtime: Runtime, monkeypatch: pytest.MonkeyPatch) -> None:
    counts: list[int] = []

    def counted(count: int, work: Any) -> None:
        counts.append(count)
        blocks.over_blocks(count, work)

    monkeypatch.setattr(elementwise, "over_blocks", counted)
    x, bias = placeholder(None, 10), placeholder(10)
    y = tf.tanh(x + bias) * 2
    both([y], {x: X.reshape(100, 10), bias: X[:10]}, runtime)
    assert counts == [-(-100 // (BLOCK // 10))]
    both([y], {x: X.reshape(100, 10)[:28], bias: X[:10]}, runtime)
    assert len(counts) == 1


def test_blocks_of_the_real_size(runtime: Runtime, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.undo()
    size = elementwise.LARGE + 4321
    values = np.random.default_rng(1).normal(size=size)
    for kind in (np.float32, np.float64):
        x = tf.placeholder(kind, [None])
        y = tf.sigmoid(tf.exp(-x) + tf.tanh(x) * 2) - tf.sin(x) / (tf.abs(x) + 1)
        both([y], {x: values.astype(kind)}, runtime)
        z = tf.log1p(tf.square(x)) * tf.cos(x) + tf.sqrt(tf.abs(x))
        both([z], {x: values.astype(kind)}, runtime)


def test_what_somebody_else_wants_is_not_swallowed(runtime: Runtime) -> None:
    x = placeholder(1000)
    inner = tf.exp(x)
    y = tf.tanh(inner) + inner
    _, program = both([y, inner], {x: X}, runtime)
    assert set(nodes(program)) >= {y.op.name, inner.op.name}
    gathered = tf.gather(inner, [3, 1])
    both([y, gathered], {x: X}, runtime)
    both([y], {x: X, inner: X * 2}, runtime)  # fed itself


def test_small_arrays_run_op_by_op_and_give_the_same(runtime: Runtime) -> None:
    x = placeholder(None)
    y = tf.reduce_sum(tf.tanh(x) * 2 + tf.exp(-x))
    for size in (0, 1, BLOCK, 3 * BLOCK - 1, 3 * BLOCK, 3 * BLOCK + 1, 5 * BLOCK):
        both([y], {x: np.resize(X, size)}, runtime)


def test_what_running_op_by_op_takes_is_made_when_it_first_does(
    runtime: Runtime, monkeypatch: pytest.MonkeyPatch
) -> None:
    made: list[Code] = []
    make = group._one_by_one

    def counted(*given: Any) -> Code:
        code = make(*given)
        made.append(code)
        return code

    monkeypatch.setattr(group, "_one_by_one", counted)
    x = placeholder(None)
    program = compiled([tf.tanh(x) * 2 + 1], [x])
    run(program, runtime, [np.resize(X, 5 * BLOCK)])
    assert not made
    small = np.resize(X, BLOCK // 2)
    with ThreadPoolExecutor(4) as threads:
        found = list(threads.map(lambda _: run(program, runtime, [small]), range(8)))
    for each in found:
        np.testing.assert_array_equal(each[0], np.tanh(small) * 2 + 1)
    several = len(made)
    assert several
    run(program, runtime, [small])
    assert len(made) == several


def test_arrays_that_do_not_lie_in_one_piece(runtime: Runtime) -> None:
    x, w = placeholder(20, 50), placeholder(20, 50)
    y = tf.tanh(x) * w
    grid = X.reshape(50, 20).T
    both([y], {x: grid, w: X.reshape(20, 50)}, runtime)
    both([y, tf.reduce_sum(y)], {x: np.broadcast_to(X[:50], (20, 50)), w: grid}, runtime)


def test_other_broadcasts_run_op_by_op(runtime: Runtime) -> None:
    x, column, row = placeholder(20, 50), placeholder(20, 1), placeholder(1, 50)
    feeds = {x: X.reshape(20, 50), column: X[:20, None], row: X[None, :50]}
    both([tf.tanh(x) * column + 1], feeds, runtime)
    both([tf.tanh(column) * row + 1], feeds, runtime)
    both([(x + row) * 2], feeds, runtime)


def test_biases_activations_and_their_gradients(runtime: Runtime) -> None:
    x, bias = placeholder(4, 5, 5, 10), placeholder(10)
    y = tf.nn.relu(tf.nn.bias_add(x, bias))
    gradients = tf.gradients(tf.reduce_sum(y * y), [x, bias])
    _, program = both([y, *gradients], {x: X.reshape(4, 5, 5, 10), bias: X[:10]}, runtime)
    assert "BiasAdd" not in nodes(program)


def test_a_failure_names_its_node(runtime: Runtime) -> None:
    x, y = placeholder(None), placeholder(None)
    failing = tf.add(tf.exp(x), y, name="failing")
    program = compiled([tf.tanh(failing) * 2], [x, y])
    with pytest.raises(errors.InvalidArgumentError) as caught:
        run(program, runtime, [X, X[:-1]])
    assert (caught.value.node, caught.value.op_type) == ("failing", "AddV2")


@pytest.mark.parametrize("size", [1, 5])
def test_a_bias_that_does_not_fit_is_refused_in_blocks_too(size: int, runtime: Runtime) -> None:
    x, bias = placeholder(None), placeholder(None)
    added = tf.nn.bias_add(tf.reshape(x, [-1, 10]), bias, name="added")
    program = compiled([tf.nn.relu(added)], [x, bias])
    assert "BiasAdd" not in nodes(program)
    with pytest.raises(errors.InvalidArgumentError) as caught:
        run(program, runtime, [X, X[:size]])
    assert (caught.value.node, caught.value.op_type) == ("added", "BiasAdd")


def test_variables_are_read_where_they_were() -> None:
    with tf.Graph().as_default(), tf.Session() as session:
        v = tf.Variable(X)
        doubled = v * 2.0
        with tf.control_dependencies([doubled]):
            update = v.assign(tf.zeros([1000]))
        with tf.control_dependencies([update]):
            after = tf.exp(v) + 1.0
        before = tf.tanh(doubled) * 2.0
        session.run(tf.global_variables_initializer())
        found = session.run([before, after])
        np.testing.assert_array_equal(found[0], np.tanh(X * 2) * 2)
        np.testing.assert_array_equal(found[1], np.full(1000, 2, np.float32))
        assert not np.shares_memory(found[1], session.run(v))


def test_a_variable_joins_a_group_if_nobody_writes_in_between(runtime: Runtime) -> None:
    x, v = placeholder(100, 10), tf.Variable(X[:10])
    y = tf.nn.relu(x + v)
    program = compiled([y], [x])
    assert "add" not in nodes(program)
    read = tf.exp(v)
    with tf.control_dependencies([v.assign_add(tf.ones([10]))]):
        after = tf.sqrt(read)
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        for step in range(
            3
        ):  # the order of read and update is open, but read is not moved behind it
            found = session.run(after)
            np.testing.assert_allclose(found, np.sqrt(np.exp(X[:10] + step)), rtol=1e-6)
    names = nodes(compiled([after], []))
    assert names.index("Exp") < names.index("AssignAdd") < names.index("Sqrt")


def test_branches_keep_what_is_theirs() -> None:
    with tf.Graph().as_default(), tf.Session() as session:
        x, choice = placeholder(1000), tf.placeholder(tf.bool, [])
        y = tf.cond(choice, lambda: tf.tanh(x) * 2 + 1, lambda: tf.exp(-x) * 3)
        z = tf.reduce_sum(y * y + 1)
        for chosen, value in ((True, np.tanh(X) * 2 + 1), (False, np.exp(-X) * 3)):
            found = session.run(z, {x: X, choice: chosen})
            np.testing.assert_allclose(found, (value * value + 1).sum(), rtol=1e-5)


@pytest.fixture
def counts(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How many blocks each group was cut into."""
    found: list[int] = []

    def counted(count: int, work: Any) -> None:
        found.append(count)
        blocks.over_blocks(count, work)

    monkeypatch.setattr(elementwise, "over_blocks", counted)
    return found


@pytest.mark.parametrize("shape", [(1000,), (10, 100), (2, 5, 100)])
@pytest.mark.parametrize("reduce", [tf.reduce_sum, tf.reduce_mean])
def test_all_elements_of_any_rank_are_summed_by_blocks(
    shape: tuple[int, ...], reduce: Any, runtime: Runtime, counts: list[int]
) -> None:
    x = placeholder(*shape)
    both([reduce(tf.tanh(x) * 2 + 1)], {x: X.reshape(shape)}, runtime)
    assert counts == [-(-1000 // BLOCK)]


@pytest.mark.parametrize("rows", [99, 100, 150, 287, 288])
def test_several_nodes_share_middling_arrays(
    rows: int, runtime: Runtime, counts: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each does one half.  Two nodes, and sums, do not share them."""
    monkeypatch.setattr(elementwise, "_MIDDLING", 100)
    x = placeholder(None)
    several, two = tf.nn.relu(x * 2.0) - x, tf.square(x) + x
    both([several], {x: X[:rows]}, runtime)
    wanted = [] if rows < 100 else [2 if rows < 3 * BLOCK else -(-rows // BLOCK)]
    assert counts == wanted
    both([two], {x: X[:rows]}, runtime)
    both([tf.reduce_sum(several)], {x: X[:rows]}, runtime)
    assert len(counts) == len(wanted) + (2 if rows >= 3 * BLOCK else 0)


def chain(x: Any) -> Any:
    return tf.tanh(x * 0.5 + 0.25) - x * 0.125


def in_a_branch(x: Any, choice: Any) -> list[Any]:
    return [tf.cond(choice, lambda: chain(x), lambda: tf.exp(-x) * 3)]


def in_a_loop(x: Any, choice: Any) -> list[Any]:
    return tf.while_loop(lambda i, v: i < 3, lambda i, v: (i + 1, chain(v)), [0, x])


def seen_by_the_next_iteration(x: Any, choice: Any) -> list[Any]:
    def body(i: Any, v: Any, old: Any) -> Any:
        half = v * 0.5
        return i + 1, tf.tanh(half + 0.25) - old, half

    return tf.while_loop(lambda i, v, old: i < 4, body, [0, x, x])


def decided_by_its_own_values(x: Any, choice: Any) -> list[Any]:
    done = tf.while_loop(lambda v: tf.reduce_max(chain(v) + v) > 0.5, lambda v: chain(v) * v, [x])
    return [done]


def branches_within_a_loop(x: Any, choice: Any) -> list[Any]:
    def body(i: Any, v: Any) -> Any:
        shared = v * 0.75 + 1.0
        turned = tf.cond(i < 2, lambda: tf.exp(-shared) * 2 - v, lambda: chain(shared))
        return i + 1, turned - shared * 0.5

    return tf.while_loop(lambda i, v: i < 4, body, [0, x])


def loops_within_a_branch(x: Any, choice: Any) -> list[Any]:
    total = x * 2.0 + 1.0
    return [tf.cond(choice, lambda: in_a_loop(total, choice)[1] + total, lambda: total), total]


def beside_a_branch(x: Any, choice: Any) -> list[Any]:
    wanted = chain(x)
    return [chain(wanted), tf.cond(choice, lambda: wanted + 1.0, lambda: wanted[:1])]


@pytest.mark.parametrize(
    ("program", "runs"),
    [
        (in_a_branch, 1),
        (in_a_loop, 3),
        (seen_by_the_next_iteration, 4),
        (decided_by_its_own_values, 1),
        (branches_within_a_loop, 8),
        (loops_within_a_branch, 4),
        (beside_a_branch, 2),
    ],
    ids=lambda value: getattr(value, "__name__", ""),
)
def test_nodes_within_a_branch_or_a_loop_run_together(
    program: Any, runs: int, counts: list[int]
) -> None:
    """Bit for bit what a traced step gives, which runs node by node."""
    x, choice = placeholder(1000), tf.placeholder(tf.bool, [])
    fetches = program(x, choice)
    one_by_one = tf.RunOptions(trace_level=tf.RunOptions.FULL_TRACE)
    with tf.Session() as session:
        for chosen in (True, False):
            feeds = {x: X, choice: chosen}
            found = session.run(fetches, feeds)
            together = len(counts)
            assert together >= (runs if chosen else 0)
            wanted = session.run(fetches, feeds, options=one_by_one, run_metadata=tf.RunMetadata())
            assert len(counts) == together, "it ran at once where nodes are to be listed"
            for mine, other in zip(found, wanted, strict=True):
                np.testing.assert_array_equal(mine, other)


def test_an_assignment_within_a_loop_is_made_in_the_variable() -> None:
    v = tf.Variable(X)

    def body(i: Any) -> Any:
        seen = tf.reduce_sum(v)
        with tf.control_dependencies([seen]), tf.control_dependencies([v.assign(v * 0.5 + 1.0)]):
            return i + 1

    with tf.control_dependencies([tf.while_loop(lambda i: i < 3, body, [0])]):
        after = chain(v + 0.0)
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        found = session.run(after)
        wanted = X
        for _ in range(3):
            wanted = wanted * np.float32(0.5) + np.float32(1)
        np.testing.assert_array_equal(session.run(v), wanted)
        np.testing.assert_array_equal(found, session.run(chain(tf.constant(wanted))))


def test_traced_steps_and_level_0_list_every_node(runtime: Runtime) -> None:
    x = placeholder(1000)
    y = tf.tanh(x) * 2 + tf.exp(-x)
    assert {"Tanh", "mul", "Neg", "Exp", "add"} <= set(nodes(compiled([y], [x], fold=False)))


def test_a_sum_does_not_depend_on_threads_or_fusing(runtime: Runtime) -> None:
    x = placeholder(1000)
    feeds = {x: X}
    total = tf.reduce_sum(tf.exp(x))
    (fused,), _ = both([total], feeds, runtime)
    alone = Runtime(DEVICE, workers=WorkerPool(1))
    (single,) = run(compiled([total], [x]), alone, [X])
    assert fused == single
    np.testing.assert_allclose(fused, np.exp(X.astype(np.float64)).sum(), rtol=1e-6)


@pytest.mark.parametrize("kind", [np.float16, np.int32, np.bool_])
def test_other_types_of_elements(kind: Any, runtime: Runtime) -> None:
    values = (X * 3).astype(kind)
    x = tf.placeholder(kind, [1000])
    if kind is np.bool_:
        y = tf.logical_or(tf.logical_not(x), tf.logical_and(x, x))
    else:
        y = tf.where(x > 1, tf.square(x) + x, -x)
    both([y], {x: values}, runtime)
