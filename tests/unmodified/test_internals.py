"""What programs import from tensorflow.python that has no public name does its work."""

from __future__ import annotations

import collections
import functools
import logging
from pathlib import Path
from typing import Any

import pytest

import headrace as tf
from headrace.unmodified.facade import module_at


def module(path: str) -> Any:
    return module_at(f"python.{path}")


nest = module("util.nest")
Pair = collections.namedtuple("Pair", "a b")


def test_nest_knows_structures_above_others() -> None:
    deep = Pair([1, 2], {"x": 3})
    assert nest.is_sequence([1])
    assert not nest.is_sequence("text")
    assert nest.flatten_up_to(Pair(0, 0), deep) == [[1, 2], {"x": 3}]
    assert nest.flatten_up_to(0, deep) == [deep]
    assert nest.map_structure_up_to([0, 0], lambda a, b: (a, b), [1, [2]], [3, 4]) == [
        (1, 3),
        ([2], 4),
    ]
    assert nest.flatten_with_joined_string_paths({"a": [1, 2], "b": 3}) == [
        ("a/0", 1),
        ("a/1", 2),
        ("b", 3),
    ]


def test_nest_flattens_items_of_dicts() -> None:
    assert nest.flatten_dict_items({4: "a", (5, 6): ("b", "c")}) == {4: "a", 5: "b", 6: "c"}
    with pytest.raises(ValueError, match="not unique"):
        nest.flatten_dict_items({4: "a", (4, 6): ("b", "c")})
    with pytest.raises(ValueError, match="Could not flatten"):
        nest.flatten_dict_items({(4, 5): ("b", "c", "d")})
    with pytest.raises(TypeError):
        nest.flatten_dict_items([1])


@pytest.mark.parametrize(
    ("shallow", "deep", "error", "said"),
    [
        ([1, 2], 3, TypeError, "must also be a sequence"),
        ([1, 2], (3, 4), TypeError, "same sequence type"),
        ([1, 2], [3], ValueError, "same sequence length"),
        ({"a": 1}, {"b": 1}, ValueError, "same keys"),
    ],
)
def test_nest_refuses_what_is_built_otherwise(
    shallow: Any, deep: Any, error: type, said: str
) -> None:
    with pytest.raises(error, match=said):
        nest.assert_shallow_structure(shallow, deep)


def test_deprecated_functions_say_so_once(caplog: pytest.LogCaptureFixture) -> None:
    deprecation = module("util.deprecation")

    @deprecation.deprecated("2020-01-01", "Use g.")
    def f(x: int) -> int:
        "Doubles."
        return 2 * x

    @deprecation.deprecated_args(None, "Use axis.", "dim", ("old", None))
    def g(axis: Any = None, dim: Any = None, old: Any = None) -> Any:
        return axis or dim

    with caplog.at_level(logging.WARNING, "headrace"):
        assert [f(2), f(3), f.__doc__] == [4, 6, "Doubles."]
        assert [g(1), g(dim=2), g(old=None)] == [1, 2, None]
    said = [record.getMessage() for record in caplog.records]
    assert len(said) == 2
    assert "will be removed after 2020-01-01. Use g." in said[0]
    assert "argument 'dim' is deprecated" in said[1]


def test_arguments_that_were_renamed_are_looked_up() -> None:
    lookup = module("util.deprecation").deprecated_argument_lookup
    assert lookup("axis", None, "dim", 3) == 3
    assert lookup("axis", 2, "dim", None) == 2
    with pytest.raises(ValueError, match="Cannot specify both"):
        lookup("axis", 2, "dim", 3)
    with pytest.raises(ValueError, match="no parameters"):
        module("util.deprecation").deprecated_args(None, "", "nothing")(lambda x: x)


def test_a_silenced_block_says_nothing(caplog: pytest.LogCaptureFixture) -> None:
    deprecation = module("util.deprecation")
    old = deprecation.deprecated_alias("tf.old", "tf.new", lambda: 3)
    with deprecation.silence():
        assert old() == 3
    assert not caplog.records
    assert old() == 3
    assert "Please use tf.new instead" in caplog.text


def test_functions_are_inspected_through_their_decorators() -> None:
    decorator, utils = module("util.tf_decorator"), module("util.function_utils")

    def target(a: int, b: int = 2, **rest: int) -> int:
        return a + b

    wrapped = decorator.make_decorator(target, lambda *args, **kwargs: target(*args, **kwargs) + 1)
    assert wrapped(1) == 4
    assert decorator.unwrap(wrapped)[1] is target
    assert utils.fn_args(wrapped) == ("a", "b")
    assert utils.fn_args(functools.partial(target, 1)) == ("b",)
    assert utils.has_kwargs(target)
    assert utils.get_func_name(wrapped).endswith("target")
    assert module("util.tf_inspect").getfullargspec(wrapped).args == ["a", "b"]
    assert module("util.tf_inspect").isfunction(target)


def test_exports_change_nothing() -> None:
    export = module("util.tf_export").tf_export

    @export("my.name", v1=["other"])
    def f() -> int:
        return 3

    assert f() == 3
    assert export("x").export_constant(__name__, "y") is None
    with pytest.raises(TypeError, match="only takes keyword args"):
        module("util.keyword_args").keyword_args_only(lambda a: a)(1)


def test_a_lazy_module_comes_when_it_is_used() -> None:
    names: dict[str, Any] = {}
    lazy = module("util.lazy_loader").LazyLoader("colours", names, "colorsys")
    assert names == {}
    assert lazy.rgb_to_hsv(0, 0, 0) == (0.0, 0.0, 0)
    assert names["colours"].__name__ == "colorsys"


def test_the_context_is_that_of_graphs() -> None:
    context = module("eager.context")
    assert not context.executing_eagerly()
    assert not context.in_eager_mode()
    assert context.in_graph_mode()
    assert not context.context().executing_eagerly()
    assert context.num_gpus() == context.context().num_gpus() == 0
    with context.graph_mode(), tf.Graph().as_default(), tf.name_scope("a"):
        assert context.context().scope_name == "a/"
    with pytest.raises(tf.errors.UnimplementedError, match=r"tf\.Session"):
        context.eager_mode()


def test_names_move_in_and_out_of_scopes() -> None:
    ops = module("framework.ops")
    assert ops.strip_name_scope("a/b", "a") == "b"
    assert ops.strip_name_scope("^a/b", "a/") == "^b"
    assert ops.strip_name_scope("loc:@a/b", "a") == "loc:@b"
    assert ops.strip_name_scope("ab/b", "a") == "ab/b"
    assert ops.prepend_name_scope("b", "a") == "a/b"
    assert ops.prepend_name_scope("^b", "a/") == "^a/b"
    assert ops.name_from_scope_name("a/") == "a"
    with tf.Graph().as_default() as graph, tf.name_scope("x"), tf.name_scope("y"):
        tensor = tf.constant(1)
        assert ops.get_name_scope() == "x/y"
        assert ops._get_graph_from_inputs([tensor]) is graph
        tf.add_to_collection("k", tensor)
        assert ops.get_all_collection_keys() == ["k"]
        with (
            tf.Graph().as_default(),
            pytest.raises(ValueError, match="must be from the same graph"),
        ):
            ops._get_graph_from_inputs([tensor, tf.constant(2)])
    assert ops.uid() < ops.uid()


def test_shapes_are_made_in_the_old_ways() -> None:
    shape = module("framework.tensor_shape")
    assert shape.scalar() == tf.TensorShape([])
    assert shape.vector(3).as_list() == [3]
    assert shape.matrix(None, 3).as_list() == [None, 3]
    assert shape.as_dimension(3) == tf.Dimension(3)
    assert shape.as_shape([1, None]).as_list() == [1, None]
    with tf.Graph().as_default():
        sizes = tf.stack([2, tf.placeholder(tf.int32, [])])
        assert module("framework.tensor_util").constant_value_as_shape(sizes).as_list() == [2, None]


def test_smart_conditions_choose_at_once_where_they_can() -> None:
    smart, layers = module("framework.smart_cond"), module("layers.utils")
    with tf.Graph().as_default() as graph, tf.Session() as session:
        assert smart.smart_cond(True, lambda: 1, lambda: 2) == 1
        assert layers.smart_cond(tf.constant(False), lambda: 1, lambda: 2) == 2
        fed = tf.placeholder(tf.bool, [])
        assert layers.constant_value(fed) is None
        chosen = smart.smart_cond(fed, lambda: tf.constant(1), lambda: tf.constant(2))
        assert session.run([chosen], {fed: True}) == [1]
        assert session.run([chosen], {fed: False}) == [2]
        assert any(op.type == "Merge" for op in graph.get_operations())
    with pytest.raises(TypeError, match="must be a Tensor"):
        smart.smart_constant_value("yes")
    assert layers.normalize_tuple(2, 3, "strides") == (2, 2, 2)
    with pytest.raises(ValueError, match="tuple of 2 integers"):
        layers.normalize_tuple((1, 2, 3), 2, "strides")


def test_nodes_are_made_by_the_names_of_their_ops() -> None:
    library = module("framework.op_def_library").OpDefLibrary()
    with tf.Graph().as_default(), tf.Session() as session:
        total = library.apply_op("Add", x=1.0, y=2.0, name="total")
        assert total.op.name == "total"
        assert session.run(total) == 3.0
        with pytest.raises(RuntimeError, match="Unrecognized Op name Nothing"):
            library.apply_op("Nothing")
    assert module("framework.op_def_registry").get_registered_ops()["MatMul"].name == "MatMul"


def test_the_devices_of_this_process_are_listed() -> None:
    devices = module("client.device_lib").list_local_devices()
    assert [each.name for each in devices if each.device_type == "CPU"] == ["/device:CPU:0"]
    assert [each.name for each in devices if each.device_type == "GPU"] == []
    assert devices[0].memory_limit >= 0


def test_whole_files_are_read_and_written(tmp_path: Path) -> None:
    files = module("lib.io.file_io")
    path = str(tmp_path / "x.txt")
    files.write_string_to_file(path, "one\ntwo\n")
    assert files.read_file_to_string(path) == "one\ntwo\n"
    assert files.read_file_to_string(path, binary_mode=True) == b"one\ntwo\n"
    assert files.file_exists(path)
    assert files.get_matching_files(str(tmp_path / "*")) == [path]
    files.delete_file(path)
    assert not files.file_exists(path)
