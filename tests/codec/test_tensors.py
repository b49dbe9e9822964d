"""Values survive the way into a TensorProto and back; hostile messages are refused before they cost memory."""

from __future__ import annotations

import tracemalloc
from typing import Any

import numpy as np
import pytest
from google.protobuf.message import DecodeError
from hypothesis import given, settings
from hypothesis import strategies as st

from headrace.base import dtypes, errors, shapes
from headrace.codec import protos as pb
from headrace.codec import tensors
from headrace.codec.values import to_array
from tests.codec.arrays import NUMBERS, PER_DTYPE, arrays, identical


def message(dtype: int, dims: list[int], **fields: Any) -> pb.TensorProto:
    proto = pb.TensorProto(dtype=dtype, **fields)  # type: ignore[arg-type]
    for size in dims:
        proto.tensor_shape.dim.add(size=size)
    return proto


@pytest.mark.parametrize("dtype", [*NUMBERS, dtypes.string], ids=lambda d: d.name)
class TestRoundTrips:
    @settings(max_examples=PER_DTYPE)
    @given(st.data())
    def test_over_the_wire(self, dtype: dtypes.DType, data: st.DataObject) -> None:
        array = data.draw(arrays(dtype))
        sent = tensors.encode(array, dtype).SerializeToString()
        assert identical(tensors.decode(pb.TensorProto.FromString(sent)), array)

    @settings(max_examples=PER_DTYPE)
    @given(st.data())
    def test_as_a_constant(self, dtype: dtypes.DType, data: st.DataObject) -> None:
        array = data.draw(arrays(dtype))
        proto = tensors.make_tensor_proto(array, dtype)
        assert proto.dtype == dtype.as_datatype_enum
        back = tensors.make_ndarray(pb.TensorProto.FromString(proto.SerializeToString()))
        assert identical(back, array) or quiet_nans_only(back, array)
        assert back.flags.writeable

    @settings(max_examples=PER_DTYPE)
    @given(st.data())
    def test_typed_fields_repeat_their_last_value(
        self, dtype: dtypes.DType, data: st.DataObject
    ) -> None:
        array = data.draw(arrays(dtype).filter(lambda a: a.size > 0))
        proto = tensors.make_tensor_proto(array.reshape(-1)[:1], dtype, shape=[2, 3])
        assert not proto.tensor_content
        back = tensors.decode(proto)
        assert back.shape == (2, 3)
        assert len(set(map(repr, back.reshape(-1)))) == 1

    def test_scalars_of_every_dtype(self, dtype: dtypes.DType) -> None:
        zero = np.zeros((), dtype.np) if dtype.np.kind != "O" else np.array(b"", object)
        value = zero[()] if dtype.np.kind not in "OV" else zero
        assert identical(tensors.decode(tensors.encode(value, dtype)), zero)


def quiet_nans_only(a: Any, b: Any) -> bool:
    """A typed field carries floats as Python floats, which turns signalling NaNs into quiet ones."""
    if a.shape != b.shape or a.dtype != b.dtype or a.dtype.kind not in "fc":
        return False
    return bool(np.array_equal(a, b, equal_nan=True))


def test_handles_travel_as_the_messages_that_stand_for_them() -> None:
    handle = pb.ResourceHandleProto(device="/job:ps/task:0", container="c", name="queue")
    array = np.array([handle, handle], object)
    back = tensors.decode(tensors.encode(array, dtypes.resource))
    assert back.tolist() == [handle, handle]
    with pytest.raises(errors.InvalidArgumentError, match="ResourceHandleProto"):
        tensors.encode(np.array(3, object), dtypes.resource)


def test_strings_may_come_as_content() -> None:
    proto = message(pb.DT_STRING, [2], tensor_content=b"\x01\x02abb")
    assert tensors.decode(proto).tolist() == [b"a", b"bb"]
    long = b"x" * 300
    proto = message(pb.DT_STRING, [], tensor_content=b"\xac\x02" + long)
    assert tensors.decode(proto).tolist() == long


def test_handles_may_come_as_content() -> None:
    handle = pb.ResourceHandleProto(name="queue").SerializeToString()
    proto = message(pb.DT_RESOURCE, [1], tensor_content=bytes([len(handle)]) + handle)
    assert tensors.decode(proto)[0].name == "queue"


READS = {
    "nothing is zeros": ((pb.DT_FLOAT, [3]), {}, [0.0, 0.0, 0.0]),
    "no strings are empty strings": ((pb.DT_STRING, [2]), {}, [b"", b""]),
    "the last value fills": ((pb.DT_FLOAT, [4]), {"float_val": [1, 2]}, [1.0, 2.0, 2.0, 2.0]),
    "the last pair fills": ((pb.DT_COMPLEX64, [2]), {"scomplex_val": [1, 2]}, [1 + 2j, 1 + 2j]),
    "half a pair is dropped": (
        (pb.DT_COMPLEX64, [2]),
        {"scomplex_val": [1, 2, 3]},
        [1 + 2j, 1 + 2j],
    ),
    "the last string fills": ((pb.DT_STRING, [2]), {"string_val": [b"a"]}, [b"a", b"a"]),
    "halves are bits": ((pb.DT_HALF, [2]), {"half_val": [15360, -1024]}, [1.0, float("-inf")]),
    "bfloat16 are bits": ((pb.DT_BFLOAT16, [1]), {"half_val": [16256]}, [1.0]),
    "small ints wrap": ((pb.DT_UINT8, [2]), {"int_val": [300, -1]}, [44, 255]),
    "float8 are bytes": ((pb.DT_FLOAT8_E5M2, [2]), {"float8_val": b"<"}, [1.0, 1.0]),
    "int4 take a byte each": ((pb.DT_INT4, [2]), {"tensor_content": b"\x0f\x08"}, [-1, -8]),
    "quantized are records": ((pb.DT_QINT8, [2]), {"int_val": [3]}, [(3,), (3,)]),
    "large unsigned": ((pb.DT_UINT64, [1]), {"uint64_val": [2**63]}, [2**63]),
    "content wins": ((pb.DT_UINT8, [1]), {"int_val": [1], "tensor_content": b"\2"}, [2]),
    "another field is ignored": ((pb.DT_FLOAT, [1]), {"int_val": [1]}, [0.0]),
    "scalar": ((pb.DT_INT64, []), {"int64_val": [7]}, 7),
    "a value for no element": ((pb.DT_INT64, [0]), {"int64_val": [7]}, []),
    "no element": ((pb.DT_INT64, [0, 3]), {}, []),
}


@pytest.mark.parametrize("case", READS)
def test_every_encoding_is_read(case: str) -> None:
    (dtype, dims), fields, expected = READS[case]
    proto = message(dtype, dims, **fields)
    array = tensors.decode(proto)
    assert array.shape == tuple(dims)
    assert array.tolist() == expected
    assert array.dtype == dtypes.DType(dtype).np
    own = tensors.decode(proto, writable=True)
    assert own.flags.writeable
    assert own.tolist() == expected


HOSTILE = {
    "content too short": message(pb.DT_FLOAT, [2], tensor_content=b"1234"),
    "content too long": message(pb.DT_FLOAT, [1], tensor_content=b"12345"),
    "content for no element": message(pb.DT_FLOAT, [0], tensor_content=b"1234"),
    "bool that is neither": message(pb.DT_BOOL, [2], tensor_content=b"\x02\x00"),
    "too many values": message(pb.DT_FLOAT, [1], float_val=[1, 2]),
    "too many strings": message(pb.DT_STRING, [1], string_val=[b"a", b"b"]),
    "negative size": message(pb.DT_FLOAT, [-1], tensor_content=b"1234"),
    "two negative sizes": message(pb.DT_FLOAT, [-1, -1], float_val=[1]),
    "huge, one value": message(pb.DT_FLOAT, [1 << 40], float_val=[1]),
    "huge, no value": message(pb.DT_DOUBLE, [1 << 62, 1 << 62]),
    "huge, a string": message(pb.DT_STRING, [1 << 40], string_val=[b"a"]),
    "huge but for a zero": message(pb.DT_DOUBLE, [1 << 62, 1 << 62, 0]),
    "too many dimensions": message(pb.DT_FLOAT, [1] * 65, float_val=[1]),
    "unknown rank": pb.TensorProto(dtype=1, tensor_shape=pb.TensorShapeProto(unknown_rank=True)),
    "no dtype": message(0, [1]),
    "unknown dtype": message(99, [1]),
    "ref dtype": message(pb.DT_FLOAT_REF, [1], float_val=[1]),
    "strings cut in their lengths": message(pb.DT_STRING, [2], tensor_content=b"\x01\xff"),
    "strings with an endless length": message(pb.DT_STRING, [1], tensor_content=b"\xff" * 9),
    "strings shorter than announced": message(pb.DT_STRING, [2], tensor_content=b"\x01\x09abb"),
    "strings longer than announced": message(pb.DT_STRING, [1], tensor_content=b"\x01abb"),
    "huge string list": message(pb.DT_STRING, [1 << 40], tensor_content=b"\x01a"),
    "content that is no handle": message(pb.DT_RESOURCE, [1], tensor_content=b"\x01\xff"),
    "handles missing": message(pb.DT_RESOURCE, [2]),
}


@pytest.mark.parametrize("case", HOSTILE)
def test_a_hostile_message_is_refused_at_no_cost(case: str) -> None:
    tracemalloc.start()
    try:
        with pytest.raises(errors.InvalidArgumentError):
            tensors.decode(HOSTILE[case])
        assert tracemalloc.get_traced_memory()[1] < 1 << 20
    finally:
        tracemalloc.stop()
    with pytest.raises((ValueError, TypeError)):
        tensors.make_ndarray(HOSTILE[case])


def test_the_limit_for_repeated_values_is_the_callers() -> None:
    proto = message(pb.DT_FLOAT, [1024], float_val=[1])
    assert tensors.decode(proto, max_fill_bytes=4096).sum() == 1024
    with pytest.raises(errors.InvalidArgumentError, match="limit for repeated values is 4095"):
        tensors.decode(proto, max_fill_bytes=4095)


def test_the_tensors_of_one_message_share_the_limit() -> None:
    few = message(pb.DT_FLOAT, [1024], float_val=[1])
    whole = message(pb.DT_FLOAT, [1024], tensor_content=bytes(4096))
    assert [
        v.sum() for v in tensors.decode_all([few, whole, whole, whole, few], max_fill_bytes=10_000)
    ] == [
        1024,
        0,
        0,
        0,
        1024,
    ]
    with pytest.raises(errors.InvalidArgumentError, match="limit for repeated values is 18"):
        tensors.decode_all([few, few, few], max_fill_bytes=10_000)


@given(st.binary(max_size=60))
def test_arbitrary_bytes_give_an_array_or_a_typed_error(data: bytes) -> None:
    proto = pb.TensorProto()
    try:
        proto.ParseFromString(data)
    except DecodeError:
        return
    try:
        array = tensors.decode(proto, max_fill_bytes=1 << 16)
    except errors.InvalidArgumentError:
        return
    assert array.dtype == dtypes.DType(proto.dtype).np


def test_large_content_is_not_copied_when_read() -> None:
    proto = tensors.encode(np.zeros(1 << 16, np.float32), dtypes.float32)
    array = tensors.decode(proto)
    assert not array.flags.writeable
    assert array.base is not None


def test_a_value_of_another_dtype_is_not_sent() -> None:
    with pytest.raises(errors.InvalidArgumentError, match="float64 was to be sent as float32"):
        tensors.encode(np.float64(1), dtypes.float32)


def test_a_field_of_a_message_is_filled_in_place() -> None:
    named = pb.NamedTensorProto(name="x")
    assert tensors.encode(np.int32(7), dtypes.int32, named.tensor) is named.tensor
    assert tensors.decode(named.tensor) == 7


@given(st.none() | st.lists(st.none() | st.integers(0, 1 << 62), max_size=5).map(tuple))
def test_shapes_go_there_and_back(shape: shapes.Shape) -> None:
    assert tensors.shape_from_proto(tensors.shape_to_proto(shape)) == shape


def test_a_size_below_unknown_is_refused() -> None:
    proto = pb.TensorShapeProto(dim=[pb.TensorShapeProto.Dim(size=-2)])
    with pytest.raises(errors.InvalidArgumentError, match="-2"):
        tensors.shape_from_proto(proto)


REFUSED: dict[str, tuple[Any, Any, type[Exception], str]] = {
    "None": (None, None, ValueError, "None values not supported"),
    "float as int": (1.5, "int32", TypeError, "Expected int32, but got 1.5 of type 'float'"),
    "text and number": (
        ["a", 1],
        None,
        TypeError,
        "Expected binary or unicode string, got 1 .*str or bytes",
    ),
    "number and text": ([1, "a"], None, TypeError, "no dtype holds them all"),
    "ragged": ([[1, 2], [3]], None, ValueError, "unequal shape"),
    "array in a list": ([np.array([1, 2])], None, ValueError, "stack arrays first"),
    "number as quantized": ([1], "qint8", TypeError, r"written as a tuple \(1,\)"),
    "resource": (1, "resource", TypeError, "its op makes it"),
    "unknown dimension": ([shapes.Dimension(None)], None, TypeError, "unknown size has no value"),
    "an int beyond 64 bits": (10**30, None, TypeError, "within 64 bits"),
    "an int beyond 64 bits, typed": (10**30, "int64", OverflowError, "too large"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_is_no_tensor_is_refused_with_a_reason(case: str) -> None:
    values, dtype, error, text = REFUSED[case]
    with pytest.raises(error, match=text):
        tensors.make_tensor_proto(values, dtype)


def test_dimensions_are_sizes() -> None:
    array, dtype = to_array([shapes.Dimension(3), 4])
    assert (array.tolist(), dtype) == ([3, 4], dtypes.int32)


def test_bytes_keep_their_trailing_zeros() -> None:
    for value in (b"a\0", np.bytes_(b"a\0"), "a\0"):
        assert tensors.make_tensor_proto([value]).string_val[0] == b"a\0"
    assert tensors.make_tensor_proto(np.bytes_(b"a\0")).string_val[0] == b"a\0"


def test_big_endian_arrays_are_written_little_endian() -> None:
    proto = tensors.make_tensor_proto(np.array([1, 2], ">i4"))
    assert proto.tensor_content == np.array([1, 2], "<i4").tobytes()
