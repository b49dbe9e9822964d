"""Functions of graphs across tasks: called by name, as branches and as loops, with state, gradients and lists."""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from typing import Any

from tests.interop.scripts.table import PS, WORKER, Here, Run, Table

TABLE = Table()


def defun(tf: Any) -> Any:
    """The decorator of functions."""
    name = (
        "headrace.library.functions.defun"
        if tf.__name__ == "headrace"
        else "tensorflow.python.framework.function"
    )
    return import_module(name).Defun


def calls(tf: Any) -> Any:
    """The module of what calls functions."""
    name = (
        "headrace.library.functions.calls"
        if tf.__name__ == "headrace"
        else "tensorflow.python.ops.functional_ops"
    )
    return import_module(name)


def functional(expected: Any) -> Callable[[Run], Run]:
    """Decorator: a case in which branches and loops are functions."""

    def add(run: Run) -> Run:
        def case(tf: Any, here: Here) -> Any:
            tf.enable_control_flow_v2()
            try:
                return run(tf, here)
            finally:
                tf.disable_control_flow_v2()

        case.__name__ = run.__name__
        TABLE.gives(expected)(case)
        return run

    return add


@TABLE.gives([[4.0, 4.0], [7.0, 7.0]])
def a_function_is_called_on_two_tasks(tf: Any, here: Here) -> Any:
    @defun(tf)(tf.float32, func_name="more")
    def more(x: Any) -> Any:
        return x * 3.0 + 1.0

    x = tf.placeholder(tf.float32, [])
    with tf.device(WORKER):
        a = more(x)
    with tf.device(PS):
        b = more(tf.identity(x))
    with tf.Session(here.worker) as session:
        return [session.run([a, b], {x: n}) for n in (1.0, 2.0)]


@TABLE.gives([1.0, 24.0, 720.0])
def a_function_calls_itself(tf: Any, here: Here) -> Any:
    graph = tf.GraphDef()
    with tf.Graph().as_default():
        later = defun(tf)(tf.float32, func_name="fact", out_names=["r"])(lambda n: n)
        more = defun(tf)(tf.float32, func_name="more")(lambda n: n * later(n - 1.0))
        graph.library.function.add().CopyFrom(more.definition)
    with tf.Graph().as_default():
        base = defun(tf)(tf.float32, func_name="base")(lambda n: tf.ones_like(n))
        stub = defun(tf)(tf.float32, func_name="more")(lambda n: n)
        fact = defun(tf)(tf.float32, func_name="fact", out_names=["r"])(
            lambda n: calls(tf).If(n <= 1.0, [n], base, stub)[0]
        )
        for each in (fact, base):
            graph.library.function.add().CopyFrom(each.definition)
    graph.node.add(name="n", op="Placeholder").attr["dtype"].type = 1
    graph.node.add(name="y", op="fact", input=["n"], device=PS)
    n, y = tf.import_graph_def(graph, return_elements=["n:0", "y:0"], name="")
    with tf.Session(here.worker) as session:
        return [session.run(y, {n: each}) for each in (0.0, 4.0, 6.0)]


@TABLE.gives([6.0, 3.0])
def a_function_has_a_gradient(tf: Any, here: Here) -> Any:
    @defun(tf)(tf.float32, func_name="squared")
    def squared(x: Any) -> Any:
        return x * x * 3.0

    with tf.device(PS):
        x = tf.constant(1.0)
    with tf.device(WORKER):
        y = squared(x)
        (g,) = tf.gradients(y, x)
    with tf.Session(here.worker) as session:
        return session.run([g, y])


@functional([[6.0, 3.0], [9.0, 9.0]])
def a_branch_across_tasks(tf: Any, here: Here) -> Any:
    p = tf.placeholder(tf.bool, [])
    with tf.device(PS):
        x = tf.constant(3.0)

    def squared() -> Any:
        with tf.device(PS):
            y = tf.identity(x)
        return y * x

    with tf.device(WORKER):
        y = tf.cond(p, lambda: x * 2.0, squared)
    with tf.Session(here.worker) as session:
        return [
            session.run([y, x * (1.0 if value else 3.0)], {p: value}) for value in (True, False)
        ]


@functional([[2.0, 1.0], [4.0, 4.0]])
def the_gradient_of_a_branch(tf: Any, here: Here) -> Any:
    p = tf.placeholder(tf.bool, [])
    with tf.device(PS):
        x = tf.constant(2.0)
    with tf.device(WORKER):
        y = tf.cond(p, lambda: x + 0.0, lambda: tf.square(x))
        (g,) = tf.gradients(y, x)
    with tf.Session(here.worker) as session:
        return [session.run([y, g], {p: value}) for value in (True, False)]


@functional([[0, 1.0], [3, 8.0]])
def a_loop_across_tasks(tf: Any, here: Here) -> Any:
    limit = tf.placeholder(tf.int32, [])
    with tf.device(PS):
        two = tf.constant(2.0)

    def body(i: Any, v: Any) -> Any:
        with tf.device(PS):
            more = v * two
        return i + 1, more

    with tf.device(WORKER):
        loop = tf.while_loop(lambda i, _: i < limit, body, [0, 1.0])
    with tf.Session(here.worker) as session:
        return [session.run(list(loop), {limit: n}) for n in (0, 3)]


@functional([[16.0, 32.0]])
def the_gradient_of_a_loop(tf: Any, here: Here) -> Any:
    with tf.device(PS):
        x = tf.constant(2.0)
    with tf.device(WORKER):
        _, y = tf.while_loop(lambda i, _: i < 3, lambda i, v: (i + 1, v * x), [0, x])
        (g,) = tf.gradients(y, x)
    with tf.Session(here.worker) as session:
        return [session.run([y, g])]


@functional([[0.0, 1.0, 4.0], [0.0, 2.0, 4.0]])
def an_array_of_a_loop(tf: Any, here: Here) -> Any:
    with tf.device(WORKER):
        x = tf.constant([0.0, 1.0, 2.0])
        y = tf.map_fn(lambda e: e * e, x)
        (g,) = tf.gradients(y, x)
    with tf.Session(here.worker) as session:
        return session.run([y, g])


@functional([5.0, 5.0])
def a_branch_changes_a_variable_of_the_ps(tf: Any, here: Here) -> Any:
    p = tf.placeholder(tf.bool, [])
    with tf.device(PS):
        v = tf.get_variable("v", [], initializer=tf.zeros_initializer(), use_resource=True)

    def more() -> Any:
        with tf.control_dependencies([v.assign_add(5.0)]):
            return tf.constant(1.0)

    with tf.device(WORKER):
        y = tf.cond(p, more, lambda: tf.constant(2.0))
    with tf.Session(here.worker) as session:
        session.run(v.initializer)
        session.run(y, {p: True})
        session.run(y, {p: False})
        return [session.run(v), session.run(v + 0.0)]


@functional([[7.0, 3.0], [2.0, 0.0]])
def one_branch_of_three(tf: Any, here: Here) -> Any:
    n = tf.placeholder(tf.int32, [])
    with tf.device(PS):
        x = tf.constant(2.0)
    with tf.device(WORKER):
        y = tf.switch_case(n, [lambda: x * 3.0 + 1.0, lambda: tf.constant(2.0), lambda: x])
        (g,) = tf.gradients(y, x)
    with tf.Session(here.worker) as session:
        return [session.run([y, g], {n: number}) for number in (0, 1)]
