"""Safe lookups that are one instruction."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import headrace as tf
from headrace.plan.explain import explaining
from headrace.run.exec.kernel import Runtime
from tests.plan.programs import compiled, run, together_and_apart
from tests.plan.test_embedding_ids import ROWS, WEIGHTS, Lookup, sparse

INSIDE = [
    "SparseFillEmptyRows", "Unique", "GatherV2", "SparseSegmentMean", "Tile", "ZerosLike", "Select",
]  # fmt: skip


@pytest.fixture(autouse=True)
def graph() -> Iterator[tf.Graph]:
    with tf.Graph().as_default() as made:
        yield made


def groups(said: list[str]) -> int:
    """How many lookups are one instruction in the last of the programs that were explained."""
    return "".join(said).rpartition("registers:")[2].count("= safe-lookups [")


@pytest.mark.parametrize("combiner", ["sum", "mean", "sqrtn"])
@pytest.mark.parametrize("case", ROWS)
def test_rows_and_gradients_are_those_of_the_nodes_one_by_one(
    runtime: Runtime, case: str, combiner: str
) -> None:
    lookup = Lookup(combiner)
    slope = tf.gradients(tf.reduce_sum(tf.square(lookup.rows)), lookup.weights)[0]
    found, wanted, _ = together_and_apart(
        [lookup.rows, slope.values, slope.indices], lookup.fed(sparse(ROWS[case])), runtime
    )
    for one, other in zip(found, wanted, strict=True):
        assert one.tobytes() == other.tobytes()


@pytest.mark.parametrize("case", ["one each, many", "some without, some that do not count"])
def test_it_is_one_instruction(runtime: Runtime, case: str) -> None:
    said: list[str] = []
    lookup = Lookup()
    fed = lookup.fed(sparse(ROWS[case]))
    with explaining(said.append):
        program = compiled([lookup.rows], list(fed))
    assert groups(said) == 1
    assert len(run(program, runtime, list(fed.values()))[0]) == len(ROWS[case])


@pytest.mark.parametrize("kind", INSIDE)
@pytest.mark.parametrize("case", ["one each", "some without, some that do not count"])
def test_what_is_fetched_from_inside_is_what_the_node_gives(
    runtime: Runtime, graph: tf.Graph, kind: str, case: str
) -> None:
    lookup = Lookup()
    inside = [t for op in graph.get_operations() if op.type == kind for t in op.outputs]
    found, wanted, _ = together_and_apart(
        [lookup.rows, *inside], lookup.fed(sparse(ROWS[case])), runtime
    )
    assert len(found) > 1
    for one, other in zip(found, wanted, strict=True):
        assert np.array_equal(one, other)


def test_results_do_not_share_memory(runtime: Runtime, graph: tf.Graph) -> None:
    lookup = Lookup()
    inside = [t for op in graph.get_operations() if op.type in INSIDE for t in op.outputs]
    fed = lookup.fed(sparse(ROWS["one each"]))
    found = run(compiled([lookup.rows, *inside], list(fed)), runtime, list(fed.values()))
    for at, one in enumerate(found):
        assert not any(np.may_share_memory(one, other) for other in found[:at])


@pytest.mark.parametrize("ids", [[[3], [9], [0], [1]], [[3, 1], [9], [], [0]]])
def test_an_id_that_is_no_row_is_the_gathers_error(runtime: Runtime, ids: list[list[int]]) -> None:
    lookup = Lookup()
    fed = lookup.fed(sparse(ids))
    program = compiled([lookup.rows], list(fed))
    with pytest.raises(tf.errors.InvalidArgumentError, match="embedding_lookup"):
        run(program, runtime, list(fed.values()))


def test_two_lookups_of_the_same_ids_share_what_is_done_to_them(runtime: Runtime) -> None:
    lookup = Lookup()
    again = tf.nn.safe_embedding_lookup_sparse(
        lookup.weights * 2.0, tf.SparseTensor(*lookup.parts), combiner="sum"
    )
    for case in ("one each", "some without, some that do not count"):
        found, wanted, _ = together_and_apart(
            [lookup.rows, again], lookup.fed(sparse(ROWS[case])), runtime
        )
        for one, other in zip(found, wanted, strict=True):
            assert np.array_equal(one, other)


@pytest.mark.parametrize("kind", [tf.int32, tf.int64])
def test_a_variable_is_read_where_the_node_that_looks_it_up_stands(kind: Any) -> None:
    said: list[str] = []
    table = tf.Variable(WEIGHTS, name="table")
    ids = tf.SparseTensor([[0, 0], [1, 0]], tf.constant([2, 4], kind), [2, 1])
    before = tf.nn.safe_embedding_lookup_sparse(table, ids)
    with tf.control_dependencies([table.assign_add(tf.ones([9, 3]))]):
        again = tf.SparseTensor(ids.indices, tf.identity(ids.values), ids.dense_shape)
        after = tf.nn.safe_embedding_lookup_sparse(table, again)
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        with explaining(said.append):
            assert np.array_equal(session.run(after), WEIGHTS[[2, 4]] + 1)
        assert np.array_equal(session.run(before), WEIGHTS[[2, 4]] + 1)
        session.run(after)
        assert np.array_equal(session.run(before), session.run(table)[[2, 4]])


def test_columns_of_a_layer_are_one_instruction_each() -> None:
    said: list[str] = []
    make = tf.feature_column
    words = make.categorical_column_with_vocabulary_list("word", ["a", "b", "c"])
    bucket = make.categorical_column_with_hash_bucket("other", 7)
    columns = [make.embedding_column(each, 2) for each in (words, bucket)]
    both = tf.placeholder_with_default([["a"], ["c"], ["a"]], [None, 1])
    given = {"word": both, "other": both}
    layer = make.input_layer(given, columns)
    with tf.Session() as session:
        session.run([tf.global_variables_initializer(), tf.tables_initializer()])
        with explaining(said.append):
            found = session.run(layer)
        assert np.array_equal(found[0], found[2])
    assert groups(said) == 2
