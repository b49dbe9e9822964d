"""Updates of several small variables that are one instruction: the bits that each has by itself."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import headrace as tf
from headrace.base import dtypes
from headrace.ops.training.descent import adagrad
from headrace.ops.training.joint_updates import JointUpdate, Part
from headrace.plan.explain import explaining
from headrace.run.state.variable import Variable

OPTIMIZERS: dict[str, Callable[[], Any]] = {
    "Adagrad": lambda: tf.train.AdagradOptimizer(0.1),
    "Ftrl": lambda: tf.train.FtrlOptimizer(0.1, l1_regularization_strength=0.01),
    "Adam": lambda: tf.train.AdamOptimizer(0.1),
    "Momentum": lambda: tf.train.MomentumOptimizer(0.1, 0.9, use_nesterov=True),
    "RMSProp": lambda: tf.train.RMSPropOptimizer(0.1, momentum=0.5),
    "Adadelta": lambda: tf.train.AdadeltaOptimizer(0.1),
    "ProximalAdagrad": lambda: tf.train.ProximalAdagradOptimizer(0.1),
}
IDS = {
    "one each": ([[0, 0], [1, 0], [2, 0], [3, 0]], [3, 1, 3, 0]),
    "some without": ([[0, 0], [1, 0], [1, 1], [3, 0]], [3, 1, 3, -1]),
}


@pytest.fixture(autouse=True)
def graph() -> Iterator[tf.Graph]:
    with tf.Graph().as_default() as made:
        yield made


def joined_in(said: list[str]) -> list[str]:
    """What is one instruction, each with the types of its nodes."""
    last = "".join(said).rpartition("registers:")[2]
    return [line for line in last.splitlines() if "joint-updates [" in line]


def one_by_one() -> Any:
    config = tf.ConfigProto()
    config.graph_options.optimizer_options.opt_level = tf.OptimizerOptions.L0
    return config


def model(case: str, resource: bool = False) -> Any:
    """A loss of two layers and of two tables, one of which is looked up twice."""
    tf.set_random_seed(3)
    with tf.variable_scope("", use_resource=resource):
        ids, values = IDS[case]
        given = tf.SparseTensor(
            tf.placeholder_with_default(np.array(ids, np.int64), [None, 2]),
            tf.placeholder_with_default(np.array(values, np.int64), [None]),
            tf.placeholder_with_default(np.array([4, 2], np.int64), [2]),
        )
        tables = [tf.get_variable(f"table{width}", [5, width]) for width in (1, 3)]
        found = [
            tf.nn.safe_embedding_lookup_sparse(table, given, combiner=combiner)
            for table, combiner in zip(tables, ("sum", "mean"), strict=True)
        ]
        layer = tf.layers.dense(tf.reshape(tf.concat(found, 1), [-1, 4]), 6, tf.nn.relu, name="one")
        return tf.reduce_sum(tf.square(tf.layers.dense(layer, 2, name="two") - 1.0))


def trained(train: Any, config: Any = None, steps: int = 3) -> tuple[list[bytes], list[str]]:
    """What all variables hold after some steps, and what is one instruction."""
    said: list[str] = []
    with tf.Session(config=config) as session:
        session.run(tf.global_variables_initializer())
        with explaining(said.append):
            session.run(train)
        for _ in range(steps - 1):
            session.run(train)
        return [session.run(each).tobytes() for each in tf.global_variables()], joined_in(said)


@pytest.mark.parametrize("resource", [False, True])
@pytest.mark.parametrize("case", IDS)
@pytest.mark.parametrize("name", OPTIMIZERS)
def test_training_is_the_same_with_it_and_without(name: str, case: str, resource: bool) -> None:
    train = OPTIMIZERS[name]().minimize(model(case, resource))
    found, groups = trained(train)
    wanted, none = trained(train, one_by_one())
    assert found == wanted
    assert not none
    if not resource:
        assert len(groups) == 1
        nodes = groups[0].partition("joint-updates [")[2].partition("]")[0].split()
        assert nodes.count(f"Apply{name}") == 4
        if name != "Adam":  # of rows it changes all
            assert nodes.count(f"SparseApply{name}") == 2
            assert "SparseSegmentMeanGrad" in nodes


def test_two_optimizers_have_an_instruction_each(graph: tf.Graph) -> None:
    loss, variables = model("one each"), tf.trainable_variables()
    tables = [each for each in variables if each.name.startswith("table")]
    others = [each for each in variables if each not in tables]
    train = tf.group(
        tf.train.FtrlOptimizer(0.1).minimize(loss, var_list=tables),
        tf.train.AdagradOptimizer(0.1).minimize(loss, var_list=others),
    )
    found, groups = trained(train)
    assert found == trained(train, one_by_one())[0]
    assert sorted("SparseApplyFtrl" in each for each in groups) == [False, True]


def test_what_is_read_in_between_is_read_there() -> None:
    one, other = tf.Variable([1.0, 2.0]), tf.Variable([3.0, 4.0])
    optimizer = tf.train.MomentumOptimizer(0.5, 0.9)
    first = optimizer.apply_gradients([(tf.constant([1.0, 1.0]), one)])
    with tf.control_dependencies([first]):
        slope = tf.identity(one.value()) * 2.0
    train = optimizer.apply_gradients([(slope, other)])
    found, groups = trained(train)
    assert found == trained(train, one_by_one())[0]
    assert not groups


def test_variables_of_one_name_are_updated_one_after_the_other() -> None:
    def variable(name: str, kind: str, value: float) -> Any:
        made = tf.raw_ops.VariableV2(shape=[2], dtype=tf.float32, shared_name=kind, name=name)
        return made, tf.assign(made, [value, value])

    (one, set_one), (same, _), (sums, set_sums), (more, set_more) = (
        variable("one", "w", 1.0), variable("same", "w", 1.0), variable("sums", "", 0.5), variable("more", "", 0.25),
    )  # fmt: skip
    updates = [
        tf.raw_ops.ApplyAdagrad(var=of, accum=slot, lr=0.5, grad=[1.0, 2.0])
        for of, slot in ((one, sums), (same, more))
    ]
    found = []
    for config in (None, one_by_one()):
        with tf.Session(config=config) as session:
            session.run([set_one, set_sums, set_more])
            session.run([update.op for update in updates])
            found.append(session.run([one, sums, more]))
    for ours, theirs in zip(*found, strict=True):
        assert np.array_equal(ours, theirs)


def test_a_variable_without_a_value_is_the_error_of_its_node() -> None:
    one, other = tf.Variable([1.0], name="one"), tf.Variable([2.0], name="other")
    train = tf.train.AdagradOptimizer(0.1).minimize(tf.reduce_sum(one * other))
    with tf.Session() as session:
        session.run([each.initializer for each in tf.global_variables() if each is not other])
        with pytest.raises(tf.errors.FailedPreconditionError, match="other"):
            session.run(train)


# -- what the instruction calls ---------------------------------------------------------------


def variable(*values: float) -> Variable:
    made = Variable("v", dtypes.float32, (None,))
    made.assign(np.array(values, np.float32))
    return made


MORE = {"lr": np.float32(0.1), "update_slots": True}


def part(of: Variable, slot: Variable, *slope: float, rows: Any = None) -> Part:
    grad = np.array(slope, np.float32)
    return Part([of, slot], grad, None if rows is None else np.array(rows, np.int64))


def test_whoever_reads_a_variable_keeps_what_it_read() -> None:
    one, other, slots = variable(1.0, 2.0), variable(3.0), [variable(0.1, 0.1), variable(0.1)]
    lease = one.lease()
    update = JointUpdate(adagrad)
    assert update.run([part(one, slots[0], 1.0, 1.0), part(other, slots[1], 1.0)], MORE)
    assert lease.array.tolist() == [1.0, 2.0]
    assert one.require().tolist() != [1.0, 2.0]
    lease.release()


def test_all_locks_are_held() -> None:
    variables = [variable(1.0), variable(0.1), variable(3.0), variable(0.1)]
    held: list[bool] = []

    class Watching:
        def step(self, *given: Any, **more: Any) -> None:
            held.extend(each.lock.locked() for each in variables)

    rule: Any = Watching()
    parts = [part(*variables[:2], 1.0), part(*variables[2:], 1.0, rows=[0])]
    assert JointUpdate(rule).run(parts, {})
    assert held == [True] * 4
    assert not any(each.lock.locked() for each in variables)


@pytest.mark.parametrize("wrong", ["shape", "rows", "dtype", "same", "unset"])
def test_nothing_changes_where_one_does_not_fit(wrong: str) -> None:
    one, other, slots = variable(1.0, 2.0), variable(3.0), [variable(0.1, 0.1), variable(0.1)]
    parts = [part(one, slots[0], 1.0, 1.0), part(other, slots[1], 1.0)]
    if wrong == "shape":
        parts[1] = part(other, slots[1], 1.0, 2.0)
    elif wrong == "rows":
        parts[1] = part(other, slots[1], 1.0, rows=[1])
    elif wrong == "dtype":
        parts[1] = Part([other, slots[1]], np.ones(1), None)
    elif wrong == "same":
        parts[1] = part(one, slots[1], 1.0, 1.0)
    else:
        parts[1] = part(Variable("u", dtypes.float32, (1,)), slots[1], 1.0)
    assert not JointUpdate(adagrad).run(parts, MORE)
    assert one.require().tolist() == [1.0, 2.0]
    assert slots[0].require().tolist() == pytest.approx([0.1, 0.1])


def test_many_elements_are_updated_one_variable_after_the_other() -> None:
    found = []
    for times in (1, 2):
        large = [variable(*[0.5] * 9000) for _ in range(2)]
        slots = [variable(*[0.1] * 9000) for _ in range(2)]
        parts = [
            Part([v, s], np.full(9000, 0.3, np.float32), None)
            for v, s in zip(large, slots, strict=True)
        ]
        if times == 1:
            assert JointUpdate(adagrad).run(parts, MORE)
        else:
            for each in parts:
                assert JointUpdate(adagrad).run([each], MORE)
        found.append([each.require().tobytes() for each in (*large, *slots)])
    assert found[0] == found[1]
