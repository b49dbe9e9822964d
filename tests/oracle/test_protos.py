"""Our protos say what TensorFlow's say: same names, numbers, types; nothing invented, nothing renumbered."""

from __future__ import annotations

import importlib
from typing import Any

import pytest
from google.protobuf import descriptor_pb2, descriptor_pool

from headrace.codec import protos as pb

THEIR_FILES = """
import importlib, pkgutil
from google.protobuf import descriptor_pb2, descriptor_pool
from tensorflow.python.training import checkpoint_state_pb2
for name in ("framework", "protobuf", "example", "util", "profiler"):
    package = importlib.import_module("tensorflow.core." + name)
    for module in pkgutil.iter_modules(package.__path__):
        if module.name.endswith("_pb2"):
            importlib.import_module(package.__name__ + "." + module.name)
result, todo = {}, []
pool = descriptor_pool.Default()
for name in wanted:
    for prefix in ("tensorflow.", "tensorflow.error.", "tensorflow.tfprof."):
        try:
            todo.append(pool.FindFileContainingSymbol(prefix + name))
            break
        except KeyError:
            continue
for file in todo:
    for dependency in file.dependencies:
        todo.append(dependency) if dependency not in todo else None
    proto = descriptor_pb2.FileDescriptorProto()
    file.CopyToProto(proto)
    result[file.name] = proto.SerializeToString()
"""


def flat(proto: Any, prefix: str = "") -> dict[str, Any]:
    """{"GraphDef.node": (11, 1, 3, "NodeDef")} and {"DataType.DT_FLOAT": 1}, nested ones by dotted name."""
    facts: dict[str, Any] = {}
    for message in [*getattr(proto, "message_type", ()), *getattr(proto, "nested_type", ())]:
        path = f"{prefix}{message.name}."
        for field in message.field:
            type_name = field.type_name.removeprefix(".tensorflow.").removeprefix(".headrace.")
            type_name = type_name.removeprefix("error.").removeprefix("tfprof.")
            kind = (field.type, field.number, field.label, type_name)
            facts[path + field.name] = kind
        facts |= flat(message, path)
    for enum in proto.enum_type:
        facts |= {f"{prefix}{enum.name}.{value.name}": value.number for value in enum.value}
    return facts


def ours() -> dict[str, Any]:
    facts: dict[str, Any] = {}
    for name in ("framework", "config", "training", "profiler"):
        importlib.import_module(f"headrace.codec.protos.{name}_pb2")
        file = descriptor_pool.Default().FindFileByName(f"headrace/codec/protos/{name}.proto")
        proto = descriptor_pb2.FileDescriptorProto()
        file.CopyToProto(proto)
        facts |= flat(proto)
    return facts


@pytest.fixture(scope="module")
def theirs(oracle: Any) -> dict[str, Any]:
    files = oracle.run(THEIR_FILES, wanted=sorted({name.split(".")[0] for name in ours()}))
    facts: dict[str, Any] = {}
    for data in files.values():
        facts |= flat(descriptor_pb2.FileDescriptorProto.FromString(data))
    return facts


_OBJECT = "TrackableObjectGraph.TrackableObject"
KEPT = {
    f"{_OBJECT}.SerializedTensor.optional_restore": "1.15 has it; its number is reserved since",
    f"{_OBJECT}.HasCheckpointValues.value": "google.protobuf.BoolValue, of the same bytes",
    f"{_OBJECT}.has_checkpoint_values": "google.protobuf.BoolValue, of the same bytes",
}


def test_every_field_and_enum_value_is_theirs(theirs: dict[str, Any]) -> None:
    mine = ours()
    assert len(mine) > 700
    added = {
        name: fact for name, fact in mine.items() if name.rpartition(".")[2].startswith("headrace_")
    }
    assert all(fact[1] > 1000 for fact in added.values())  # numbers that TensorFlow leaves free
    assert {
        n: fact
        for n, fact in mine.items()
        if n not in added | KEPT.keys() and theirs.get(n) != fact
    } == {}


def test_only_the_listed_fields_are_left_out(theirs: dict[str, Any]) -> None:
    mine = ours()
    messages = {name.rpartition(".")[0] for name in mine}
    missing = {name for name in theirs if name.rpartition(".")[0] in messages} - mine.keys()
    assert {name for name in missing if "DO_NOT_USE" not in name} == {
        "ConfigProto.Experimental.coordination_config",
        "GraphDef.debug_info",
        "MetaGraphDef.object_graph_def",
        "NodeDef.experimental_type",
        "OpDef.ArgDef.experimental_full_type",
        "TrackableObjectGraph.TrackableObject.registered_saver",
    }


def test_a_field_we_do_not_know_survives_a_round_trip(oracle: Any) -> None:
    sent = oracle.run(
        "node = tf.NodeDef(name='n')\n"
        "node.experimental_type.type_id = 1000\n"
        "result = node.SerializeToString()"
    )
    node = pb.NodeDef.FromString(sent)
    assert node.name == "n"
    assert node.SerializeToString() == sent
