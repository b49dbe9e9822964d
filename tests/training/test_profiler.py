"""tf.profiler: what programs ask it for, and what only a traced step knows."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import headrace as tf
from headrace.codec import protos as pb
from headrace.training.profiler.statistics import (
    OpStats,
    RegisterStatistics,
    get_stats_for_node_def,
)

QUIET = tf.profiler.ProfileOptionBuilder(
    tf.profiler.ProfileOptionBuilder.float_operation()
).with_empty_output()


def layer() -> Any:
    x = tf.placeholder(tf.float32, [10, 4], name="x")
    w = tf.Variable(tf.zeros([4, 3]), name="w")
    return tf.matmul(x, w, name="product"), x


def traced(value: Any, feeds: Any) -> Any:
    metadata = tf.RunMetadata()
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        options = tf.RunOptions(trace_level=tf.RunOptions.FULL_TRACE)
        session.run(value, feeds, options=options, run_metadata=metadata)
    return metadata


def test_a_product_counts_its_multiplications_and_sums() -> None:
    with tf.Graph().as_default() as graph:
        layer()
    found = tf.profiler.profile(graph, options=QUIET.build())
    assert found.total_float_ops == 2 * 10 * 4 * 3


def test_trained_variables_are_counted_and_printed(capsys: pytest.CaptureFixture[str]) -> None:
    with tf.Graph().as_default() as graph:
        layer()
        tf.Variable(tf.zeros([100]), trainable=False)
    options = tf.profiler.ProfileOptionBuilder.trainable_variables_parameter()
    assert tf.profiler.profile(graph, options=options).total_parameters == 12
    assert "w (4x3, 12/12 params)" in capsys.readouterr().out


@pytest.mark.parametrize("command", ["scope", "graph", "op", "code"])
def test_every_view_has_the_time_of_a_traced_step(command: str) -> None:
    with tf.Graph().as_default() as graph:
        value, x = layer()
        metadata = traced(value, {x: [[1.0] * 4] * 10})
    options = tf.profiler.ProfileOptionBuilder(
        tf.profiler.ProfileOptionBuilder.time_and_memory(min_bytes=0)
    ).with_empty_output()
    found = tf.profiler.profile(graph, run_meta=metadata, cmd=command, options=options.build())
    assert found.total_exec_micros > 0
    assert found.total_cpu_exec_micros == found.total_exec_micros


def test_lines_of_the_program_are_the_view_of_code(tmp_path: Path) -> None:
    with tf.Graph().as_default() as graph:
        layer()
    report = tmp_path / "report"
    options = QUIET.build() | {"output": f"file:outfile={report}"}
    found = tf.profiler.profile(graph, cmd="code", options=options)
    assert found.total_float_ops == 240
    assert "test_profiler.py" in report.read_text()


def test_steps_are_averaged_or_chosen() -> None:
    with tf.Graph().as_default() as graph:
        value, x = layer()
        metadata = traced(value, {x: [[1.0] * 4] * 10})
    profiler = tf.profiler.Profiler(graph)
    twice = pb.RunMetadata()
    twice.CopyFrom(metadata)
    for device in twice.step_stats.dev_stats:
        for node in device.node_stats:
            node.op_end_rel_micros = 1000
    for device in metadata.step_stats.dev_stats:
        for node in device.node_stats:
            node.op_end_rel_micros = 500
    profiler.add_step(1, metadata)
    profiler.add_step(2, twice)
    options = tf.profiler.ProfileOptionBuilder().with_empty_output()
    times = {}
    for step in (1, 2, -1):
        found = profiler.profile_operations(options.with_step(step).build())
        times[step] = found.total_exec_micros
    assert times[2] == 2 * times[1]
    assert times[-1] * 2 == times[1] + times[2]
    with pytest.raises(tf.errors.InvalidArgumentError, match="step 7 was not added"):
        profiler.profile_operations(options.with_step(7).build())


def test_a_timeline_is_a_chrome_trace(tmp_path: Path) -> None:
    with tf.Graph().as_default() as graph:
        value, x = layer()
        metadata = traced(value, {x: [[1.0] * 4] * 10})
    file = tmp_path / "timeline"
    options = tf.profiler.ProfileOptionBuilder().with_timeline_output(str(file)).build()
    tf.profiler.profile(graph, run_meta=metadata, options=options)
    assert json.loads(file.read_text())["traceEvents"]
    with pytest.raises(tf.errors.InvalidArgumentError, match="traced step"):
        tf.profiler.profile(graph, options=options)


def test_what_took_most_time_is_advised() -> None:
    with tf.Graph().as_default() as graph:
        value, x = layer()
        metadata = traced(value, {x: [[1.0] * 4] * 10})
    found = tf.profiler.advise(graph, metadata)
    (first, *_) = found.checkers["ExpensiveOperationChecker"].reports
    assert first.startswith("top 1 operation type: ")
    only = tf.profiler.advise(graph, metadata, {"OperationChecker": {}})
    assert list(only.checkers) == ["OperationChecker"]


def test_programs_count_operations_of_their_own_ops() -> None:
    with tf.Graph().as_default() as graph:
        made = tf.betainc(1.0, 2.0, tf.ones([5]))

    @RegisterStatistics("Betainc", "flops")
    def _(graph: Any, node: Any) -> OpStats:
        return OpStats(
            "flops", 7 * graph.get_operation_by_name(node.name).outputs[0].shape[0].value
        )

    assert get_stats_for_node_def(graph, made.op.node_def, "flops").value == 35
    assert tf.profiler.profile(graph, options=QUIET.build()).total_float_ops == 35
    with pytest.raises(KeyError, match="Betainc,flops"):
        RegisterStatistics("Betainc", "flops")(lambda graph, node: None)


def test_a_log_of_operations_is_written_and_added_to(tmp_path: Path) -> None:
    with tf.Graph().as_default() as graph:
        layer()
    more = tf.profiler.OpLogProto()
    more.log_entries.add(name="product", types=["mine"])
    tf.profiler.write_op_log(graph, str(tmp_path), more)
    log = tf.profiler.OpLogProto.FromString((tmp_path / "tfprof_log").read_bytes())
    (entry,) = [each for each in log.log_entries if each.name == "product"]
    assert (entry.float_ops, list(entry.types)) == (240, ["mine"])
    assert any(text.endswith("test_profiler.py") for text in log.id_to_string.values())
    options = QUIET.with_accounted_types(["mine"]).build()
    assert tf.profiler.profile(graph, op_log=more, options=options).total_float_ops == 240


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"order_by": "colour"}, "Unknown order_by"),
        ({"select": ["colour"]}, "Unknown select"),
        ({"output": "paper"}, "Unknown output"),
    ],
)
def test_options_that_are_not_known_are_refused(options: Any, says: str) -> None:
    with tf.Graph().as_default() as graph:
        layer()
    with pytest.raises(tf.errors.InvalidArgumentError, match=says):
        tf.profiler.profile(graph, options=options)
