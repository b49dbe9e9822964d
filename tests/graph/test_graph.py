"""A graph's names, collections and scopes, and how its nodes are found."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack
from typing import Any

import pytest

import headrace as tf
from headrace.graph import scopes


def here() -> tf.Operation:
    """A node, made now."""
    return tf.no_op(name="here")


# -- names ----------------------------------------------------------------------------------------

ASKED_AND_GIVEN = [
    # scopes entered one in the other, and the node that is made in them
    ([], "here"),
    (["a"], "a/here"),
    (["a", "b"], "a/b/here"),
    (["a", None], "here"),
    (["a", ""], "here"),
    (["a", "b/"], "b/here"),
    (["a", "x/y"], "a/x/y/here"),
    (["A.1-_"], "A.1-_/here"),
    (["a", "-b"], "a/-b/here"),
]


@pytest.mark.parametrize(("entered", "name"), ASKED_AND_GIVEN)
def test_name_scopes_nest(default: tf.Graph, entered: list[str | None], name: str) -> None:
    with ExitStack() as stack:
        for each in entered:
            inside = stack.enter_context(default.name_scope(each))
        if entered:
            assert inside == name.removesuffix("here")
        assert default.get_name_scope() == name.removesuffix("here").removesuffix("/")
        assert here().name == name
    assert default.get_name_scope() == ""


@pytest.mark.parametrize(
    ("outer", "name"), [(None, "-b"), (None, "_b"), (None, "a b"), ("a", "b c"), ("a", "b:1")]
)
def test_names_of_scopes_are_made_of_certain_characters(
    default: tf.Graph, outer: str | None, name: str
) -> None:
    with (
        default.name_scope(outer),
        pytest.raises(ValueError, match=r"is not a valid (root )?scope"),
    ):
        default.name_scope(name).__enter__()
    with pytest.raises(ValueError, match="is not a valid"):
        tf.no_op(name=name if outer is None else "b c")


def test_a_name_that_is_taken_gets_a_number_whatever_its_case(default: tf.Graph) -> None:
    names = [tf.no_op(name=name).name for name in ("n", "n", "N", "n_1", "n", "n_1")]
    assert names == ["n", "n_1", "N_2", "n_1_1", "n_3", "n_1_2"]
    assert default.unique_name("n", mark_as_used=False) == default.unique_name("n") == "n_4"
    assert default.unique_name("n") == "n_5"


def test_scopes_that_are_opened_again_get_a_number_but_with_a_slash_they_are_entered(
    default: tf.Graph,
) -> None:
    with default.name_scope("s") as first:
        here()
    with default.name_scope("s") as second:
        here()
    with default.name_scope(first):
        assert here().name == "s/here_1"
    assert (first, second) == ("s/", "s_1/")


def test_the_scope_of_an_op_is_named_by_it_or_by_default(default: tf.Graph) -> None:
    x = tf.constant(1.0)
    with tf.name_scope(None, "usual", [x]) as scope:
        assert scope == "usual/"
        assert here().name == "usual/here"
    with tf.name_scope("mine", "usual", [x]) as scope:
        assert scope == "mine/"
    with pytest.raises(ValueError, match="needs a name or a default_name when values are given"):
        tf.name_scope(None, None, [x])
    with pytest.raises(TypeError, match="is a string, not 3"):
        tf.name_scope(3)  # type: ignore[arg-type]
    other = tf.Graph()
    with other.as_default():
        y = tf.constant(1.0)
    with tf.name_scope("there", values=[y]):
        assert tf.get_default_graph() is other
    assert tf.get_default_graph() is default


# -- looking things up ----------------------------------------------------------------------------

Look = Callable[[tf.Graph], Any]
NOT_FOUND: list[tuple[Look, type[Exception], str]] = [
    (
        lambda g: g.get_operation_by_name("nowhere"),
        KeyError,
        "'nowhere' refers to an Operation not in the graph",
    ),
    (
        lambda g: g.get_operation_by_name("x:0"),
        ValueError,
        "appears to refer to a Tensor, not a Operation",
    ),
    (lambda g: g.get_operation_by_name(3), TypeError, "Operation names are strings"),
    (
        lambda g: g.get_tensor_by_name("x"),
        ValueError,
        "refers to an Operation, not a Tensor.*'x:0'",
    ),
    (
        lambda g: g.get_tensor_by_name("nowhere"),
        ValueError,
        "looks like an .invalid. Operation name",
    ),
    (lambda g: g.get_tensor_by_name("x:1"), KeyError, "has 1 outputs"),
    (lambda g: g.get_tensor_by_name("nowhere:0"), KeyError, "no operation 'nowhere'"),
    (lambda g: g.get_tensor_by_name("x:first"), ValueError, "'<op_name>:<output_index>'"),
    (lambda g: g.get_tensor_by_name(None), TypeError, "Tensor names are strings"),
    (
        lambda g: g.as_graph_element(3),
        TypeError,
        "Can not convert a int into a Tensor or Operation",
    ),
    (lambda g: g.as_graph_element("x", False, False), ValueError, "can't both be False"),
]


@pytest.mark.parametrize(("look", "error", "phrase"), NOT_FOUND)
def test_what_is_not_there_is_said(
    default: tf.Graph, look: Look, error: type[Exception], phrase: str
) -> None:
    tf.constant(1, name="x")
    with pytest.raises(error, match=phrase):
        look(default)


def test_elements_are_found_by_name_by_themselves_and_by_what_stands_for_them(
    default: tf.Graph,
) -> None:
    x = tf.constant(1, name="x")
    variable = tf.Variable(2, name="v")

    class StandIn:
        def _as_graph_element(self) -> tf.Tensor:
            return x

    assert default.get_operation_by_name("x") is x.op
    assert default.get_tensor_by_name("x:0") is x
    for element in (x, "x:0", StandIn()):
        assert default.as_graph_element(element) is x
    assert default.as_graph_element(variable).op.name == "v"
    assert default.get_operations()[0] is x.op
    with tf.Graph().as_default() as other, pytest.raises(ValueError, match="not an element of"):
        other.as_graph_element(x)


# -- collections ----------------------------------------------------------------------------------


def test_collections_keep_order_and_repetitions(default: tf.Graph) -> None:
    default.add_to_collection("c", 1)
    default.add_to_collections(["c", "d", "c"], 2)
    default.add_to_collections("d", 3)
    tf.add_to_collection("c", 1)
    assert default.get_collection("c") == [1, 2, 1]
    assert default.get_collection("d") == [2, 3]
    assert default.get_collection("e") == []
    assert set(default.get_all_collection_keys()) == {"c", "d"}
    copy = default.get_collection("c")
    copy.append(4)
    assert default.get_collection("c") == [1, 2, 1]
    default.get_collection_ref("c").append(5)
    default.get_collection_ref("new").append(6)
    assert default.get_collection("c") == [1, 2, 1, 5]
    assert default.get_collection("new") == [6]
    default.clear_collection("c")
    assert default.get_collection("c") == []


def test_a_collection_may_be_asked_for_what_is_in_a_scope(default: tf.Graph) -> None:
    with default.name_scope("a"):
        first = here()
    with default.name_scope("ab"):
        second = here()
    for each in (first, second, "without a name"):
        default.add_to_collection("c", each)
    assert default.get_collection("c", "a") == [first, second]
    assert default.get_collection("c", "a/") == [first]
    assert default.get_collection("c", "b") == []  # it is matched from the beginning


def test_a_finalized_graph_takes_nothing_more(default: tf.Graph) -> None:
    here()
    default.finalize()
    assert default.finalized
    for add in (here, lambda: default.add_to_collection("c", 1)):
        with pytest.raises(RuntimeError, match="Graph is finalized and cannot be modified"):
            add()
    assert len(default) == 1
    default._unsafe_unfinalize()
    assert here().name in default._nodes_by_name


# -- scopes ---------------------------------------------------------------------------------------

DEVICES: list[tuple[list[Any], str]] = [
    ([], ""),
    (["/cpu:0"], "/device:CPU:0"),
    (["/job:w", "/cpu:1"], "/job:w/device:CPU:1"),
    (["/job:w/cpu:0", "/job:ps"], "/job:ps/device:CPU:0"),
    (["/job:w", None, "/cpu:0"], "/device:CPU:0"),
    (["/job:w", None], ""),
    (["/job:w", ""], "/job:w"),
    ([tf.DeviceSpec(job="w", task=1)], "/job:w/task:1"),
    ([lambda op: "/job:" + op.type], "/job:NoOp"),
    (["/job:w", lambda op: op.device + "/task:3"], "/job:w/task:3"),
    ([lambda op: op.device + "/task:3", "/job:w"], "/job:w/task:3"),
    ([lambda op: "/task:3", "/job:w"], "/task:3"),
]


@pytest.mark.parametrize(("entered", "device"), DEVICES)
def test_device_scopes_are_merged_part_by_part(
    default: tf.Graph, entered: list[Any], device: str
) -> None:
    with ExitStack() as stack:
        for each in entered:
            stack.enter_context(default.device(each))
        assert here().device == device
    assert here().device == ""


def test_a_device_that_is_none_is_refused(default: tf.Graph) -> None:
    with pytest.raises(ValueError, match="nonsense"):
        default.device("/nonsense").__enter__()
    with default.device(lambda op: 3), pytest.raises(TypeError, match="must return a device"):
        here()


def names(op: tf.Operation) -> list[str]:
    return [control.name for control in op.control_inputs]


def test_control_dependencies_add_up_until_they_are_cleared(default: tf.Graph) -> None:
    a, b = tf.no_op(name="a"), tf.constant(1, name="b")
    with default.control_dependencies([a, b, a]):
        assert names(here()) == ["a", "b"]
        with default.control_dependencies(["b:0"]):
            assert names(here()) == ["a", "b"]
        with default.control_dependencies(None):
            assert names(here()) == []
            with default.control_dependencies([b]):
                assert names(here()) == ["b"]
        assert names(here()) == ["a", "b"]
    assert names(here()) == []


def test_what_an_input_waits_for_already_is_left_out(default: tf.Graph) -> None:
    a = tf.no_op(name="a")
    with default.control_dependencies([a]):
        first = tf.constant(1.0)
        second = tf.negative(first)
    assert names(first.op) == ["a"]
    assert names(second.op) == []
    with default.control_dependencies([first]):
        assert names(tf.negative(first).op) == []


def test_colocation_names_its_anchor_and_takes_its_device(default: tf.Graph) -> None:
    with default.device("/job:ps"):
        anchor = tf.no_op(name="anchor")
    with default.device("/job:w"), default.colocate_with(anchor):
        near = here()
        with default.device("/cpu:0"):
            assert here().device == "/job:ps"
        with default.colocate_with(None, ignore_existing=True):
            assert here().colocation_groups() == [b"loc:@here_2"]
    assert near.colocation_groups() == [b"loc:@anchor"]
    assert near.device == "/job:ps"
    with pytest.raises(ValueError, match="needs ignore_existing=True"):
        default.colocate_with(None).__enter__()


def test_colocation_names_a_group_once(default: tf.Graph) -> None:
    near = [b"loc:@q", b"loc:@p", b"loc:@q"]
    groups = tf.AttrValue(list=tf.AttrValue.ListValue(s=near))
    anchor = tf.no_op(name="anchor")
    anchor._set_attr("_class", groups)
    with default.colocate_with(anchor):
        assert here().get_attr("_class") == [b"loc:@p", b"loc:@q"]
    assert anchor.get_attr("_class") == near


def test_containers_are_for_what_keeps_state(default: tf.Graph) -> None:
    with default.container("outer"):
        with default.container("inner"):
            queue = tf.FIFOQueue(1, tf.int32)
        other = tf.FIFOQueue(1, tf.int32)
    assert queue.queue_ref.op.get_attr("container") == b"inner"
    assert other.queue_ref.op.get_attr("container") == b"outer"


def test_init_scope_leaves_branches_and_control_dependencies_but_not_names(
    default: tf.Graph,
) -> None:
    made: list[tf.Operation] = []

    def branch() -> tf.Tensor:
        with tf.init_scope():
            made.append(here())
        made.append(here())
        return tf.constant(1)

    with default.control_dependencies([tf.no_op(name="before")]), default.name_scope("n"):
        tf.cond(tf.constant(True), branch, lambda: tf.constant(2))
    outside, inside = made
    assert outside._get_control_flow_context() is None
    assert names(outside) == []
    assert outside.name.startswith("n/cond/")
    assert inside._get_control_flow_context() is not None


def test_attrs_of_a_scope_are_given_to_nodes_that_do_not_have_them(default: tf.Graph) -> None:
    proto = tf.AttrValue(s=b"x")
    with default._attr_scope({"_mine": proto, "_asked": lambda node: None}):
        with default._attr_scope({"_mine": None}):
            assert "_mine" not in here().attrs
        assert here().get_attr("_mine") == b"x"
        assert "_asked" not in here().attrs
    assert "_mine" not in here().attrs
    with pytest.raises(TypeError, match="attr_map must be a dict"):
        default._attr_scope({"_mine": 3}).__enter__()


# -- the default graph ----------------------------------------------------------------------------


def test_graphs_are_left_in_the_order_they_were_entered(default: tf.Graph) -> None:
    first, second = tf.Graph(), tf.Graph()
    scopes.enter(first)
    scopes.enter(second)
    with pytest.raises(AssertionError, match="reverse order of entering"):
        scopes.leave(first)
    scopes.leave(second)
    assert tf.get_default_graph() is first
    scopes.leave(first)
    assert tf.get_default_graph() is default


def test_the_processs_graph_can_be_started_afresh_outside_of_blocks_only() -> None:
    before = tf.get_default_graph()
    with tf.Graph().as_default(), pytest.raises(AssertionError, match="to clear nested graphs"):
        tf.reset_default_graph()
    tf.reset_default_graph()
    after = tf.get_default_graph()
    assert after is not before
    assert after is tf.get_default_graph()


def test_nothing_is_the_default_in_what_is_called_apart(default: tf.Graph) -> None:
    with tf.Session() as session:
        found = scopes.called_apart(lambda: (tf.get_default_graph(), tf.get_default_session()))
        assert found[0] is not default
        assert found[1] is None
        with pytest.raises(ZeroDivisionError):
            scopes.called_apart(lambda: 1 / 0)
        assert tf.get_default_session() is session
    assert tf.get_default_graph() is default
