"""FunctionDefs whose signature has attrs: a function of its own for each of its callers."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from google.protobuf import text_format

import headrace as tf
from headrace.codec import protos as pb

TWICE = """
function {
  signature { name: "Twice" input_arg { name: "x" type_attr: "T" } output_arg { name: "y" type_attr: "T" }
              attr { name: "T" type: "type" allowed_values { list { type: [DT_FLOAT, DT_INT32, DT_DOUBLE] } } } }
  node_def { name: "sum" op: "AddV2" input: "x" input: "x" attr { key: "T" value { placeholder: "T" } } }
  ret { key: "y" value: "sum:z:0" }
}
"""
FOUR_TIMES = """
function {
  signature { name: "FourTimes" input_arg { name: "x" type_attr: "T" } output_arg { name: "y" type_attr: "T" }
              attr { name: "T" type: "type" default_value { type: DT_FLOAT } } }
  node_def { name: "once" op: "Twice" input: "x" attr { key: "T" value { placeholder: "T" } } }
  node_def { name: "again" op: "PartitionedCall" input: "once:y:0"
             attr { key: "Tin" value { list { type: DT_FLOAT } } }
             attr { key: "Tout" value { list { type: DT_FLOAT } } }
             attr { key: "f" value { func { name: "Twice" attr { key: "T" value { placeholder: "T" } } } } } }
  ret { key: "y" value: "again:output:0" }
}
"""
LISTS = """
function {
  signature { name: "Lists" input_arg { name: "xs" number_attr: "N" type_attr: "T" }
              input_arg { name: "ys" type_list_attr: "L" }
              output_arg { name: "sum" type_attr: "T" } output_arg { name: "ones" type_list_attr: "L" }
              output_arg { name: "second" type_attr: "T" }
              attr { name: "N" type: "int" has_minimum: true minimum: 1 } attr { name: "T" type: "type" }
              attr { name: "L" type: "list(type)" } }
  node_def { name: "sum" op: "AddN" input: "xs" attr { key: "N" value { placeholder: "N" } }
             attr { key: "T" value { placeholder: "T" } } }
  node_def { name: "same" op: "IdentityN" input: "ys" attr { key: "T" value { placeholder: "L" } } }
  ret { key: "sum" value: "sum:sum:0" } ret { key: "ones" value: "same:output" } ret { key: "second" value: "xs:1" }
}
"""
APPLIED = """
function {
  signature { name: "Applied" input_arg { name: "x" type: DT_FLOAT } output_arg { name: "y" type: DT_FLOAT }
              attr { name: "g" type: "func" } }
  node_def { name: "call" op: "PartitionedCall" input: "x" attr { key: "f" value { placeholder: "g" } }
             attr { key: "Tin" value { list { type: DT_FLOAT } } }
             attr { key: "Tout" value { list { type: DT_FLOAT } } } }
  ret { key: "y" value: "call:output:0" }
}
"""


@pytest.fixture(autouse=True)
def graph() -> Any:
    with tf.Graph().as_default() as made:
        yield made


def imported(nodes: str, wanted: list[str], *functions: str) -> Any:
    text = f"{nodes} library {{ {' '.join(functions)} }} versions {{ producer: 1000 }}"
    return tf.import_graph_def(
        text_format.Parse(text, pb.GraphDef()), name="", return_elements=wanted
    )


def placeholder(name: str, dtype: str) -> str:
    return f'node {{ name: "{name}" op: "Placeholder" attr {{ key: "dtype" value {{ type: {dtype} }} }} }}'


def call(name: str, op: str, inputs: str, attrs: str) -> str:
    fed = " ".join(f'input: "{each}"' for each in inputs.split())
    return f'node {{ name: "{name}" op: "{op}" {fed} {attrs} }}'


def of(attr: str, value: str) -> str:
    return f'attr {{ key: "{attr}" value {{ {value} }} }}'


def run(fetches: Any, feeds: Any = None) -> Any:
    with tf.Session() as session:
        return session.run(fetches, feeds)


def test_a_caller_says_which_by_its_attrs() -> None:
    x, n, y, m = imported(
        placeholder("x", "DT_FLOAT") + placeholder("n", "DT_INT32")
        + call("y", "Twice", "x", of("T", "type: DT_FLOAT")) + call("m", "Twice", "n", of("T", "type: DT_INT32")),
        ["x:0", "n:0", "y:0", "m:0"], TWICE,
    )  # fmt: skip
    assert (y.dtype, m.dtype) == (tf.float32, tf.int32)
    assert run([y, m], {x: 1.5, n: 3}) == [3.0, 6]


def test_an_attr_that_names_it_says_which() -> None:
    named = of("f", 'func { name: "Twice" attr { key: "T" value { type: DT_DOUBLE } } }')
    types = of("Tin", "list { type: DT_DOUBLE }") + of("Tout", "list { type: DT_DOUBLE }")
    x, y = imported(
        placeholder("x", "DT_DOUBLE") + call("y", "PartitionedCall", "x", named + types),
        ["x:0", "y:0"],
        TWICE,
    )
    assert run(y, {x: 0.1}) == 0.2


def test_functions_hand_their_attrs_on() -> None:
    x, y = imported(
        placeholder("x", "DT_FLOAT") + call("y", "FourTimes", "x", ""),
        ["x:0", "y:0"],
        TWICE,
        FOUR_TIMES,
    )
    assert run(y, {x: 2.0}) == 8.0
    (slope,) = tf.gradients(y, x)
    assert run(slope, {x: 2.0}) == 4.0


def test_its_gradient_is_for_the_same_attrs() -> None:
    x, _, y = imported(
        placeholder("x", "DT_DOUBLE") + placeholder("n", "DT_INT32")
        + call("y", "Twice", "x", of("T", "type: DT_DOUBLE")) + call("m", "Twice", "n", of("T", "type: DT_INT32")),
        ["x:0", "n:0", "y:0"], TWICE,
    )  # fmt: skip
    (slope,) = tf.gradients(y, x)
    assert slope.dtype == tf.float64
    assert run(slope, {x: 1.0}) == 2.0


def test_arguments_and_results_may_be_lists() -> None:
    attrs = (
        of("N", "i: 3")
        + of("T", "type: DT_INT32")
        + of("L", "list { type: [DT_FLOAT, DT_STRING] }")
    )
    nodes = "".join(placeholder(name, "DT_INT32") for name in "abc") + placeholder("p", "DT_FLOAT")
    found = imported(
        nodes + placeholder("q", "DT_STRING") + call("y", "Lists", "a b c p q", attrs),
        ["a:0", "b:0", "c:0", "p:0", "q:0", "y:0", "y:1", "y:2", "y:3"], LISTS,
    )  # fmt: skip
    assert [each.dtype for each in found[5:]] == [tf.int32, tf.float32, tf.string, tf.int32]
    assert run(found[5:], dict(zip(found[:5], (1, 2, 4, 0.5, b"s"), strict=True))) == [
        7,
        0.5,
        b"s",
        2,
    ]


def test_an_attr_may_be_a_function() -> None:
    named = of("g", 'func { name: "Twice" attr { key: "T" value { type: DT_FLOAT } } }')
    x, y = imported(
        placeholder("x", "DT_FLOAT") + call("y", "Applied", "x", named),
        ["x:0", "y:0"],
        TWICE,
        APPLIED,
    )
    assert run(y, {x: 4.0}) == 8.0


def test_its_graph_can_be_written_and_read(graph: tf.Graph) -> None:
    nodes = placeholder("x", "DT_FLOAT") + call("y", "FourTimes", "x", "")
    imported(nodes, ["x:0"], TWICE, FOUR_TIMES)
    written = graph.as_graph_def()
    assert {each.signature.name: len(each.signature.attr) for each in written.library.function} == {
        "Twice": 1, "FourTimes": 1,
    }  # fmt: skip
    with tf.Graph().as_default():
        x, y = tf.import_graph_def(written, return_elements=["x:0", "y:0"])
        assert run(y, {x: np.float32([1, 2])}).tolist() == [4.0, 8.0]


@pytest.mark.parametrize(
    ("attrs", "named", "error"),
    [
        ("", "", "Attr T is not found"),
        (
            of("T", "type: DT_STRING"),
            'attr { key: "T" value { type: DT_STRING } }',
            "not in the list of allowed",
        ),
    ],
)
def test_without_a_value_that_fits_it_is_refused(attrs: str, named: str, error: str) -> None:
    with pytest.raises((ValueError, TypeError, tf.errors.InvalidArgumentError)):
        imported(placeholder("x", "DT_STRING") + call("y", "Twice", "x", attrs), ["y:0"], TWICE)
    types = of("Tin", "list { type: DT_STRING }") + of("Tout", "list { type: DT_STRING }")
    calls = call("y", "PartitionedCall", "x", of("f", f'func {{ name: "Twice" {named} }}') + types)
    with tf.Graph().as_default():
        x, y = imported(placeholder("x", "DT_STRING") + calls, ["x:0", "y:0"], TWICE)
        with pytest.raises(tf.errors.InvalidArgumentError, match=error):
            run(y, {x: b"s"})


@pytest.mark.parametrize(
    ("change", "error"),
    [
        (('placeholder: "T"', 'placeholder: "U"'), "Failed to bind all placeholders"),
        (("sum:z:0", "sum:z:1"), "Unknown input"),
        (("sum:z:0", "sum"), None),
        (("sum:z:0", "x:1"), "Unknown input"),
    ],
)
def test_a_body_that_makes_no_sense_is_refused(change: tuple[str, str], error: str | None) -> None:
    function = TWICE.replace(*change)
    x, y = imported(
        placeholder("x", "DT_FLOAT") + call("y", "Twice", "x", of("T", "type: DT_FLOAT")),
        ["x:0", "y:0"],
        function,
    )
    if error is None:
        assert run(y, {x: 1.0}) == 2.0
        return
    with pytest.raises(tf.errors.InvalidArgumentError, match=error):
        run(y, {x: 1.0})


def test_a_result_that_is_another_number_of_tensors_is_refused() -> None:
    function = LISTS.replace('value: "same:output"', 'value: "sum:sum"')
    attrs = (
        of("N", "i: 2") + of("T", "type: DT_INT32") + of("L", "list { type: [DT_FLOAT, DT_FLOAT] }")
    )
    nodes = placeholder("a", "DT_INT32") + placeholder("p", "DT_FLOAT")
    a, p, y = imported(
        nodes + call("y", "Lists", "a a p p", attrs), ["a:0", "p:0", "y:0"], function
    )
    with pytest.raises(tf.errors.InvalidArgumentError, match="Invalid ret types"):
        run(y, {a: 1, p: 1.0})
