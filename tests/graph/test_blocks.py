"""The blocks of a graph: entered more than once, within themselves, as decorators, and left by exceptions."""

from __future__ import annotations

import threading
from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any

import pytest

import headrace as tf

Block = Callable[[tf.Graph, tf.Tensor], AbstractContextManager[Any]]
BLOCKS: dict[str, Block] = {
    "name_scope": lambda graph, x: graph.name_scope("inside"),
    "tf.name_scope": lambda graph, x: tf.name_scope("inside"),
    "device": lambda graph, x: graph.device("/device:CPU:1"),
    "colocate_with": lambda graph, x: graph.colocate_with(x),
    "colocate_with None": lambda graph, x: graph.colocate_with(None, ignore_existing=True),
    "tf.colocate_with": lambda graph, x: tf.colocate_with(x),
    "control_dependencies": lambda graph, x: graph.control_dependencies([x]),
    "control_dependencies None": lambda graph, x: graph.control_dependencies(None),
    "init_scope": lambda graph, x: graph.init_scope(),
    "tf.init_scope": lambda graph, x: tf.init_scope(),
    "original op": lambda graph, x: graph._original_op(x.op),
    "located": lambda graph, x: graph._located(("program.py", 7)),
    "located None": lambda graph, x: graph._located(None),
    "as_default": lambda graph, x: graph.as_default(),
}
every_block = pytest.mark.parametrize("name", list(BLOCKS))


def seen(graph: tf.Graph) -> tuple[object, ...]:
    """What a node that is made now gets of the scopes around it."""
    op = graph.get_operation_by_name(tf.no_op("seen").name)
    groups = [group for group in op.colocation_groups() if b"seen" not in group]
    return (
        op.name.rpartition("/")[0],
        op.device,
        tuple(op.control_inputs),
        groups,
        op._original_op,
        op.built_at,
        tf.get_default_graph(),
    )


@pytest.fixture
def x() -> tf.Tensor:
    return tf.constant(1.0, name="x")


def around(graph: tf.Graph, x: tf.Tensor) -> list[AbstractContextManager[Any]]:
    """Scopes that every block changes, or leaves, something of."""
    return [
        graph.name_scope("outside"),
        graph.device("/device:CPU:0"),
        graph.control_dependencies([tf.constant(2.0, name="before")]),
    ]


@every_block
def test_a_block_puts_back_what_was_there(name: str, x: tf.Tensor) -> None:
    graph = x.graph
    outer = around(graph, x)
    for each in outer:
        each.__enter__()
    before = seen(graph)
    with BLOCKS[name](graph, x):
        seen(graph)
    assert seen(graph) == before
    with pytest.raises(ZeroDivisionError), BLOCKS[name](graph, x):
        raise ZeroDivisionError
    assert seen(graph) == before
    for each in reversed(outer):
        each.__exit__(None, None, None)


@every_block
def test_a_block_may_be_entered_again_and_within_itself(name: str, x: tf.Tensor) -> None:
    graph, block = x.graph, BLOCKS[name]
    before = seen(graph)
    one = block(graph, x)
    with one:
        first = seen(graph)
        with one:
            nested = seen(graph)
        assert seen(graph) == first
    assert seen(graph) == before
    with one:
        again = seen(graph)
    # A scope's name is another one each time, the rest is as before.
    assert again[1:] == first[1:]
    with block(graph, x), block(graph, x):
        assert seen(graph)[1:] == nested[1:]


@pytest.mark.parametrize("name", sorted({*BLOCKS} - {"tf.name_scope"}))
def test_a_block_decorates_a_function(name: str, x: tf.Tensor) -> None:
    graph = x.graph
    with BLOCKS[name](graph, x):
        inside = seen(graph)[1:]
    decorate: Any = BLOCKS[name](graph, x)
    assert decorate(seen)(graph)[1:] == inside
    assert decorate(seen)(graph)[1:] == inside


def test_what_takes_references_lies_with_all_of_them(x: tf.Tensor) -> None:
    first, second = (tf.Variable([1.0], name=each) for each in ("first", "second"))
    with x.graph.device("/device:CPU:7"):
        made = tf.raw_ops.ApplyMomentum(
            var=first._ref(), accum=second._ref(), lr=0.1, grad=[1.0], momentum=0.9
        )
    assert made.op.colocation_groups() == [b"loc:@first", b"loc:@second"]
    assert made.op.device == ""


def test_threads_may_be_in_a_decorated_function_side_by_side(x: tf.Tensor) -> None:
    graph = x.graph
    entered, leave = threading.Event(), threading.Event()
    found: list[str] = []

    @graph.name_scope("inside")
    def inside(call: Callable[[], object]) -> None:
        call()

    def stay() -> None:
        entered.set()
        leave.wait()

    def other() -> None:
        with graph.as_default(), graph.name_scope("other"):
            inside(stay)
            found.append(tf.no_op("seen").name)

    thread = threading.Thread(target=other)

    def meet() -> None:
        thread.start()
        entered.wait()

    with graph.name_scope("here"):
        inside(meet)
        found.append(tf.no_op("seen").name)
    leave.set()
    thread.join()
    assert found == ["here/seen", "other/seen"]


def test_an_init_scope_is_of_the_graph_in_which_it_is_entered(x: tf.Tensor) -> None:
    @tf.init_scope()
    def made() -> tf.Graph:
        graph: tf.Graph = tf.no_op().graph
        return graph

    other = tf.Graph()
    with other.as_default():
        assert made() is other
    assert made() is x.graph


def test_a_device_is_looked_at_when_its_scope_is_entered() -> None:
    nowhere = tf.device("/nowhere:1")
    with pytest.raises(ValueError, match=r"^Unknown attribute 'nowhere'"), nowhere:
        pass
    nothing = tf.device(3)
    with pytest.raises(AttributeError, match="'int' object has no attribute"), nothing:
        pass


def test_control_inputs_are_looked_at_when_they_are_given(x: tf.Tensor) -> None:
    before = [x.op]
    block = tf.control_dependencies(each for each in before)
    before.append(tf.no_op("later"))
    for _ in range(2):
        with block:
            assert tf.no_op().control_inputs == [x.op]
    with pytest.raises(TypeError, match=r"^Can not convert a int"):
        tf.control_dependencies([3])
    with pytest.raises(TypeError, match=r"^Can not convert a SparseTensor"):
        tf.control_dependencies([tf.SparseTensor([[0]], [1.0], [1])])


def test_what_has_waited_in_a_block_has_when_it_is_entered_again(x: tf.Tensor) -> None:
    block = tf.control_dependencies([tf.no_op("before")])
    with block:
        y = tf.identity(x)
    with block:
        assert tf.identity(y).op.control_inputs == []
