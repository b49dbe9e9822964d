"""Every public function, class and method takes TensorFlow's arguments in its order; queues' with its defaults."""

from __future__ import annotations

import importlib
import inspect
import pkgutil
from collections.abc import Iterator
from typing import Any

import headrace as tf
from headrace.python.ops import data_flow_ops

LATER = frozenset(
    "allow_fast_lookup bad_indices_policy canonicalized_coordinates check_interval checkpoint_interval "
    "flat_values_spec fn_output_signature grad_a grad_b handle_data hash_table_shared_name init_fn "
    "last_checkpoint_step options "
    "step_counter value_index_offset "
    "index_type layout output_type parameters position return_index_map skip_gradients_aggregation sorted_input "
    "sparse_gradient tile_size use_own_namescope_for_non_slot_vars use_pybind11_proto".split()
)
"""Arguments that came after TensorFlow 1.15."""

OTHERWISE = (
    "flags.", "UnconnectedGradients", "VariableAggregation", "VariableSynchronization", "linspace", "lin_space",
    "numpy_function", "raw_ops.", "test.TestCase.assertItemsEqual",
)  # fmt: skip
"""Ours is built otherwise: of absl's flags what programs use; enumerations.  The axis of linspace came after 1.15, and
so did numpy_function's `stateful`, before its name.  Arguments of raw ops are given by name.  An assertion of absl's
is TensorFlow's own in its tests."""

DATA_FLOW = frozenset(
    "train.batch train.maybe_batch train.batch_join train.maybe_batch_join train.shuffle_batch "
    "train.maybe_shuffle_batch train.shuffle_batch_join train.maybe_shuffle_batch_join train.input_producer "
    "train.string_input_producer train.range_input_producer train.slice_input_producer train.limit_epochs "
    "train.match_filenames_once train.Coordinator train.LooperThread train.QueueRunner train.add_queue_runner "
    "train.start_queue_runners FIFOQueue RandomShuffleQueue PaddingFIFOQueue PriorityQueue QueueBase "
    "ConditionalAccumulator ConditionalAccumulatorBase SparseConditionalAccumulator ReaderBase TextLineReader "
    "FixedLengthRecordReader TFRecordReader WholeFileReader IdentityReader LMDBReader decode_csv decode_raw "
    "string_to_number parse_example parse_single_example parse_single_sequence_example parse_tensor "
    "decode_json_example image.decode_png image.decode_jpeg image.decode_image image.decode_gif image.decode_bmp "
    "image.encode_png image.encode_jpeg read_file write_file matching_files python_io.TFRecordWriter "
    "python_io.tf_record_iterator python_io.TFRecordOptions FixedLenFeature VarLenFeature SparseFeature "
    "FixedLenSequenceFeature io.parse_sequence_example".split()
)
KINDS = ("Barrier", "StagingArea", "MapStagingArea", "RecordInput")  # of data_flow_ops

ORACLE = """
import inspect
from tensorflow.python.ops import data_flow_ops

def shown(parameter):
    default = parameter.default
    text = "" if default is parameter.empty else repr(default)
    return parameter.name, parameter.kind.name, "<object>" if " at 0x" in text else text

def arguments(root, name):
    found = root
    try:
        for part in name.split("."):
            found = getattr(found, part)
        return [shown(each) for each in inspect.signature(found).parameters.values()]
    except (AttributeError, ImportError, TypeError, ValueError):
        return None
"""
names: dict[str, Any] = {}
exec("import inspect" + ORACLE.partition("data_flow_ops")[2], names)
arguments = names["arguments"]


def public() -> Iterator[str]:
    """What may be called of the public names, methods included."""
    modules = (
        {"": tf}
        | {
            f"{found.name}.": importlib.import_module(f"headrace.{found.name}")
            for found in pkgutil.iter_modules(tf.__path__)
            if not found.ispkg or found.name == "nn"
        }
        | {"nn.rnn_cell.": tf.nn.rnn_cell}
    )
    for prefix, module in modules.items():
        for name in dir(module):
            found = getattr(module, name)
            if not name.startswith("_") and callable(found):
                yield prefix + name
                if inspect.isclass(found):
                    yield from (f"{prefix}{name}.{method}" for method in methods(found))


def methods(kind: type) -> Iterator[str]:
    return (n for n in dir(kind) if not n.startswith("_") and callable(getattr(kind, n, None)))


def in_order(found: list[tuple[str, str, str]]) -> list[str]:
    """Those that may be given by their place, as of 1.15."""
    by_place = ("POSITIONAL_ONLY", "POSITIONAL_OR_KEYWORD")
    return [name for name, kind, _ in found if kind in by_place and name not in LATER]


def test_arguments_are_theirs_in_their_order(oracle: Any) -> None:
    wanted = sorted(set(public()))
    source = ORACLE + "result = {name: arguments(tf, name) for name in wanted}"
    wrong = {}
    compared = 0
    for name, theirs in oracle.run(source, wanted=wanted).items():
        ours = arguments(tf, name)
        if theirs is None or ours is None or name.startswith(OTHERWISE):
            continue
        if name == "RaggedTensor":  # which its class methods make
            continue
        if name.endswith(("Cell.build", "Wrapper.build")):  # which cells call themselves
            continue
        if any(kind.startswith("VAR_") for _, kind, _ in theirs + ours):
            continue
        have, expected = in_order(ours), in_order(theirs)
        compared += 1
        if have[: len(expected)] != expected:
            wrong[name] = (expected, have)
    assert wrong == {}
    assert compared > 1300


def test_defaults_of_data_flow_are_theirs(oracle: Any) -> None:
    wanted = [name for name in public() if any(f"{name}.".startswith(f"{n}.") for n in DATA_FLOW)]
    theirs = oracle.run(
        ORACLE + "result = {name: arguments(tf, name) for name in wanted}", wanted=wanted
    )
    kinds = [
        f"{kind}.{method}" for kind in KINDS for method in methods(getattr(data_flow_ops, kind))
    ]
    theirs |= oracle.run(
        ORACLE + "result = {name: arguments(data_flow_ops, name) for name in kinds}",
        kinds=[*KINDS, *kinds],
    )
    roots = dict.fromkeys([*KINDS, *kinds], data_flow_ops)
    mine = {name: arguments(roots.get(name, tf), name) for name in theirs}
    assert set(wanted) >= DATA_FLOW
    compared = {name for name, found in theirs.items() if found is not None}
    assert len(compared) > 150
    assert {name: mine[name] for name in compared} == {name: theirs[name] for name in compared}
