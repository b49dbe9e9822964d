"""Which line of the program nodes are built at that headrace makes for it: gradients, updates, variables."""

from __future__ import annotations

import inspect
import threading
from collections.abc import Iterator
from typing import Any

import pytest

import headrace as tf
from headrace.graph import gradients
from headrace.library.functions.defun import Defun


@pytest.fixture(autouse=True)
def graph() -> Iterator[tf.Graph]:
    with tf.Graph().as_default() as made:
        yield made


def here() -> int:
    """The line of who asks."""
    frame = inspect.currentframe()
    assert frame is not None
    assert frame.f_back is not None
    return frame.f_back.f_lineno


def lines(graph: Any, since: int = 0) -> set[str]:
    """Where the nodes of a graph are built, but for the first ones: lines of this file, names of others."""
    found = {op.built_at for op in graph.get_operations()[since:]}
    return {each.removeprefix(f"{__file__}:") for each in found if each is not None}


def built_at(node: Any) -> str:
    found: str = node.op.built_at
    return found.removeprefix(f"{__file__}:")


def network() -> tuple[Any, list[Any]]:
    x = tf.ones([2, 3])
    weights = [tf.Variable(tf.ones([3, 3]), name=f"w{at}") for at in range(2)]
    for weight in weights:
        x = tf.nn.relu(tf.matmul(x, weight)) + x
    return tf.reduce_mean(x), weights


def test_gradients_are_built_where_they_are_asked_for(graph: tf.Graph) -> None:
    loss, weights = network()
    before = len(graph.get_operations())
    at = here() + 1
    tf.gradients(loss, weights)
    assert lines(graph, before) == {str(at)}


@pytest.mark.parametrize("resource", [False, True])
@pytest.mark.parametrize("kind", ["Adam", "Momentum", "RMSProp", "Ftrl", "GradientDescent"])
def test_updates_are_built_where_they_are_asked_for(
    kind: str, resource: bool, graph: tf.Graph
) -> None:
    tf.get_variable_scope().set_use_resource(resource)
    loss, weights = network()
    more = {"momentum": 0.9} if kind == "Momentum" else {}
    optimizer = getattr(tf.train, f"{kind}Optimizer")(0.1, **more)
    before = len(graph.get_operations())
    at = here() + 1
    optimizer.minimize(loss)
    assert lines(graph, before) == {str(at)}
    before = len(graph.get_operations())
    at = here() + 1
    pairs = optimizer.compute_gradients(loss, weights)
    assert lines(graph, before) == {str(at)}
    before = len(graph.get_operations())
    at = here() + 1
    optimizer.apply_gradients(pairs)
    assert lines(graph, before) == {str(at)}


def test_a_step_of_training_fails_at_the_line_that_asked_for_it() -> None:
    x = tf.placeholder(tf.float32, [None, 3])
    weight = tf.Variable(tf.ones([3, 2]))
    made = tf.matmul(x, weight)
    dy = tf.placeholder(tf.float32, [None, 2])
    at = here() + 1
    (slope,) = tf.gradients(made, [weight], [dy])
    with tf.Session() as session, pytest.raises(tf.errors.InvalidArgumentError) as caught:
        session.run(slope, {x: [[1.0, 2.0, 3.0]], dy: [[1.0, 2.0]] * 2})
    assert caught.value.built_at == f"{__file__}:{at}"


def test_a_gradient_of_the_programs_is_built_at_its_own_line(
    graph: tf.Graph, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(gradients, "_registered", dict(gradients._registered))
    seen: list[tuple[Any, int]] = []

    @tf.RegisterGradient("Mine")
    def _mine(op: Any, dy: Any) -> Any:
        seen.append((tf.multiply(dy, 2.0), here()))
        inner = tf.gradients(tf.square(op.inputs[0]), op.inputs[0])[0]
        seen.append((inner, here() - 1))
        return seen[0][0] + inner

    x = tf.constant([1.0, 2.0])
    with graph.gradient_override_map({"Square": "Mine"}):
        made = tf.exp(tf.square(tf.sin(x)))
    at = here() + 1
    (slope,) = tf.gradients(made, [x])
    assert [built_at(node) for node, _ in seen] == [str(line) for _, line in seen]
    assert built_at(slope) == str(at)  # of sin, after the other
    assert graph._names_here.where is None


def test_custom_gradients_are_built_at_their_own_lines() -> None:
    seen: list[tuple[Any, int]] = []

    @tf.custom_gradient
    def clipped(x: Any) -> Any:
        def back(dy: Any) -> Any:
            seen.append((tf.clip_by_value(dy, -1.0, 1.0), here()))
            return seen[-1][0]

        return tf.identity(x), back

    x = tf.constant([1.0, 2.0])
    at = here() + 1
    (slope,) = tf.gradients(tf.exp(clipped(tf.sin(x))), [x])
    assert [built_at(node) for node, _ in seen] == [str(line) for _, line in seen]
    assert built_at(slope) == str(at)


def test_gradients_of_functions_and_loops_say_where(
    graph: tf.Graph, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[tuple[Any, int]] = []

    def back(op: Any, dy: Any) -> Any:
        seen.append((dy * 3.0, here()))
        return seen[-1][0]

    @Defun(tf.float32, python_grad_func=back)
    def own(x: Any) -> Any:
        return tf.square(x)

    @Defun(tf.float32)
    def plain(x: Any) -> Any:
        with tf.get_default_graph().gradient_override_map({"Square": "Inside"}):
            return tf.square(tf.sin(x))

    monkeypatch.setattr(gradients, "_registered", dict(gradients._registered))
    tf.RegisterGradient("Inside")(back)

    def once(i: Any, v: Any) -> Any:
        made = own(v) * tf.sin(v) + tf.cond(v > 1.0, lambda: tf.exp(v), lambda: plain(v))
        return i + 1, tf.reshape(made, [])

    x = tf.constant(1.5)
    _, made = tf.while_loop(lambda i, _: i < 3, once, [0, x])
    made = made + tf.reshape(plain(x), [])
    before = len(graph.get_operations())
    at = here() + 1
    tf.gradients(made, [x])
    own_line = {str(line) for _, line in seen}
    assert seen
    assert [built_at(node) for node, _ in seen] == [str(line) for _, line in seen]
    assert lines(graph, before) == {str(at)} | own_line


def test_a_failing_gradient_leaves_nothing_behind(
    graph: tf.Graph, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(gradients, "_registered", dict(gradients._registered))

    @tf.RegisterGradient("Fails")
    def _fails(op: Any, dy: Any) -> Any:
        raise ZeroDivisionError

    x = tf.constant([1.0, 2.0])
    with graph.gradient_override_map({"Square": "Fails"}):
        made = tf.exp(tf.square(x))
    with pytest.raises(ZeroDivisionError):
        tf.gradients(made, [x])
    at = here() + 1
    after = tf.sin(x)
    assert built_at(after) == str(at)


def test_threads_that_build_one_graph_have_lines_of_their_own(
    graph: tf.Graph, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another one builds a node while this one is inside a call of gradients."""
    monkeypatch.setattr(gradients, "_registered", dict(gradients._registered))
    found: list[tuple[Any, int]] = []

    def build() -> None:
        with graph.as_default():
            found.append((tf.constant(1.0), here()))

    exp = tf.exp(tf.constant(2.0))

    def meanwhile(*_: object) -> None:
        thread = threading.Thread(target=build)
        thread.start()
        thread.join(20)
        assert not thread.is_alive()

    with graph._located(("elsewhere.py", 7)):
        meanwhile()
        assert tf.constant(2.0).op.built_at == "elsewhere.py:7"
    assert [built_at(node) for node, _ in found] == [str(line) for _, line in found]
    assert exp.op.built_at is not None


# -- what optimizers call --------------------------------------------------------------------------


def noted(seen: list[tuple[Any, int]], value: float) -> Any:
    """A tensor that is made when it is asked for."""

    def make(*_: object, **__: object) -> Any:
        seen.append((tf.constant(value) * 1.0, here()))
        return seen[-1][0]

    return make


def check(seen: list[tuple[Any, int]]) -> None:
    assert seen
    assert [built_at(node) for node, _ in seen] == [str(line) for _, line in seen]


@pytest.mark.parametrize("kind", ["Adam", "Momentum", "RMSProp", "Ftrl", "Adagrad"])
def test_hyperparameters_that_are_functions(kind: str) -> None:
    loss, _ = network()
    seen: list[tuple[Any, int]] = []
    more: dict[str, Any] = {
        "Adam": {"beta1": noted(seen, 0.9), "beta2": noted(seen, 0.99)},
        "Momentum": {"momentum": noted(seen, 0.9)},
    }.get(kind, {})
    getattr(tf.train, f"{kind}Optimizer")(noted(seen, 0.1), **more).minimize(loss)
    check(seen)


def test_decays_that_are_functions_of_the_step() -> None:
    loss, _ = network()
    seen: list[tuple[Any, int]] = []
    tf.contrib.opt.ShampooOptimizer(
        tf.Variable(0), gbar_decay=noted(seen, 0.5), gbar_weight=noted(seen, 0.5),
        mat_gbar_decay=noted(seen, 0.5), mat_gbar_weight=noted(seen, 0.5),
    ).minimize(loss)  # fmt: skip
    check(seen)


class Mine(tf.train.Optimizer):
    """An optimizer of the program's."""

    def __init__(self) -> None:
        super().__init__(False, "Mine")
        self.seen: list[tuple[Any, int]] = []

    def _create_slots(self, var_list: Any) -> None:
        for var in var_list:
            self._get_or_make_slot(var, tf.zeros_like(var), "m", "mine")
            self.seen.append((tf.identity(self.get_slot(var, "m")), here()))

    def _apply_dense(self, grad: Any, var: Any) -> Any:
        self.seen.append((tf.multiply(grad, 0.1), here()))
        return tf.assign_sub(var, self.seen[-1][0])


def test_an_optimizer_of_the_programs_is_built_at_its_own_lines() -> None:
    loss, _ = network()
    optimizer = Mine()
    optimizer.minimize(loss)
    check(optimizer.seen)


def test_one_that_extends_another_too() -> None:
    class More(tf.train.MomentumOptimizer):
        seen: list[tuple[Any, int]]

        def _apply_dense(self, grad: Any, var: Any) -> Any:
            self.seen.append((tf.multiply(grad, 0.1), here()))
            return super()._apply_dense(self.seen[-1][0], var)

    loss, _ = network()
    optimizer = More(0.1, 0.9)
    optimizer.seen = []
    optimizer.minimize(loss)
    check(optimizer.seen)


def test_a_class_of_ours_around_one_of_the_programs() -> None:
    loss, _ = network()
    decaying: Any = tf.contrib.opt.extend_with_decoupled_weight_decay(Mine)
    optimizer = decaying(0.01)
    optimizer.minimize(loss)
    check(optimizer.seen)


@pytest.mark.parametrize("wrapper", ["SyncReplicas", "MovingAverage"])
def test_an_optimizer_of_ours_around_one_of_the_programs(wrapper: str) -> None:
    loss, _ = network()
    inner = Mine()
    if wrapper == "SyncReplicas":
        outer: Any = tf.train.SyncReplicasOptimizer(inner, 1)
    else:
        outer = tf.contrib.opt.MovingAverageOptimizer(inner)
    outer.minimize(loss, global_step=tf.train.get_or_create_global_step())
    check(inner.seen)


def test_creators_getters_regularizers_and_constraints_of_slots_and_weights() -> None:
    seen: list[tuple[Any, int]] = []

    def creator(make: Any, **given: Any) -> Any:
        seen.append((tf.constant(1.0), here()))
        return make(**given)

    def getter(getter: Any, name: str, *given: Any, **more: Any) -> Any:
        seen.append((tf.constant(1.0), here()))
        return getter(name, *given, **more)

    def regularizer(variable: Any) -> Any:
        seen.append((tf.reduce_sum(variable), here()))
        return seen[-1][0]

    def constraint(variable: Any) -> Any:
        seen.append((tf.nn.relu(variable), here()))
        return seen[-1][0]

    def initializer(shape: Any, dtype: Any = None, partition_info: Any = None) -> Any:
        seen.append((tf.fill(shape, 1.0), here()))
        return seen[-1][0]

    with (
        tf.variable_creator_scope(creator),
        tf.variable_scope(
            "s", custom_getter=getter, regularizer=regularizer, constraint=constraint
        ),
    ):
        weight = tf.get_variable("w", [3, 2], initializer=initializer)
        before = len(seen)
        tf.train.AdamOptimizer(0.1).minimize(tf.reduce_sum(tf.square(weight)))
    assert len(seen) > before + 6
    check(seen)
