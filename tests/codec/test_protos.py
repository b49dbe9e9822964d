"""The generated messages: complete under one name, and out of TensorFlow's way."""

from __future__ import annotations

import pytest

from headrace.codec import protos as pb
from headrace.codec.protos import config_pb2, framework_pb2, service_pb2, training_pb2

MODULES = [config_pb2, framework_pb2, service_pb2, training_pb2]


@pytest.mark.parametrize("module", MODULES, ids=lambda module: module.DESCRIPTOR.name)
def test_the_package_names_every_message_and_enum_value(module: object) -> None:
    descriptor = module.DESCRIPTOR  # type: ignore[attr-defined]
    values = [v.name for enum in descriptor.enum_types_by_name.values() for v in enum.values]
    wanted = [*descriptor.message_types_by_name, *descriptor.enum_types_by_name, *values]
    assert [name for name in wanted if getattr(pb, name) is not getattr(module, name)] == []
    assert set(wanted) <= set(pb.__all__)


@pytest.mark.parametrize("module", MODULES, ids=lambda module: module.DESCRIPTOR.name)
def test_nothing_is_registered_under_a_name_that_tensorflow_uses(module: object) -> None:
    descriptor = module.DESCRIPTOR  # type: ignore[attr-defined]
    assert descriptor.package == "headrace"
    assert descriptor.name.startswith("headrace/")


@pytest.mark.parametrize(
    "name", [name for name in pb.__all__ if hasattr(getattr(pb, name), "DESCRIPTOR")]
)
def test_fields_of_our_own_are_numbered_out_of_tensorflows_reach(name: str) -> None:
    fields = getattr(getattr(pb, name).DESCRIPTOR, "fields", [])
    own = {field.name: field.number for field in fields if field.name.startswith("headrace_")}
    other = [field.number for field in fields if field.name not in own]
    assert all(number > 1000 for number in own.values())
    assert all(number <= 1000 for number in other)


def test_a_failed_run_step_carries_the_error_as_fields() -> None:
    detail = pb.ErrorDetail(
        node="layer1/matmul", op_type="MatMul", step=118, code=pb.INVALID_ARGUMENT
    )
    reply = pb.RunStepResponse(status_code=pb.INVALID_ARGUMENT, headrace_error=detail)
    back = pb.RunStepResponse.FromString(reply.SerializeToString())
    assert (back.headrace_error.node, back.headrace_error.step) == ("layer1/matmul", 118)
    assert not back.headrace_error.device
