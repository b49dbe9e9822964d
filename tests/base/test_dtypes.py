"""Element types: interning, lookups, NumPy, refs."""

from __future__ import annotations

import copy
import pickle
import subprocess
import sys

import ml_dtypes
import numpy as np
import pytest

from headrace.base import dtypes
from headrace.base.dtypes import DType

ALL = sorted({t for t in vars(dtypes).values() if isinstance(t, DType)}, key=int)
BASE = [t for t in ALL if not t._is_ref_dtype]
HOLDS_ARRAYS = [t for t in BASE if t.is_numpy_compatible]


def test_every_type_has_a_constant_for_itself_and_its_ref():
    assert [int(t) for t in BASE] == list(range(1, 34))
    assert [int(t) for t in ALL] == [*range(1, 34), *range(101, 134)]
    assert all(getattr(dtypes, t.name) is t for t in ALL)


@pytest.mark.parametrize("dtype", ALL, ids=repr)
def test_a_type_is_one_object_however_it_is_named(dtype):
    assert dtypes.as_dtype(dtype) is dtype
    assert dtypes.as_dtype(dtype.name) is dtype
    assert dtypes.as_dtype(dtype.as_datatype_enum) is dtype
    assert DType(int(dtype)) is dtype
    assert pickle.loads(pickle.dumps(dtype)) is dtype
    assert copy.deepcopy(dtype) is dtype


@pytest.mark.parametrize("dtype", HOLDS_ARRAYS, ids=repr)
def test_numpy_types_and_arrays_lead_back_to_the_type(dtype):
    assert dtypes.from_numpy(dtype.np) is dtype
    assert dtypes.as_dtype(dtype.as_numpy_dtype) is dtype
    assert dtypes.as_dtype(np.zeros(3, dtype.np)) is dtype
    assert np.dtype(dtype.as_numpy_dtype) == dtype.np
    assert dtype == dtype.as_numpy_dtype


@pytest.mark.parametrize(
    ("given", "want"),
    [
        (np.dtype("S5"), dtypes.string),
        (np.dtype("U"), dtypes.string),
        (np.dtype("O"), dtypes.string),
        (np.str_, dtypes.string),
        (object, dtypes.string),
        (np.dtype(">i4"), dtypes.int32),
        (np.dtype(">c16"), dtypes.complex128),
        (np.longlong, dtypes.int64),
        (float, dtypes.float32),
        (bool, dtypes.bool),
        ("float", dtypes.float32),
        ("half", dtypes.float16),
        ("double_ref", dtypes.float64_ref),
        (ml_dtypes.bfloat16, dtypes.bfloat16),
    ],
)
def test_other_ways_to_mean_a_type(given, want):
    assert dtypes.as_dtype(given) is want
    assert want == given


@pytest.mark.parametrize(
    "given",
    [
        *(None, "foo", "i4", 0, 34, 134, -1, int, str, list, [1], np.number, np.longdouble, 1.0),
        *(np.dtype("M8[s]"), np.dtype([("a", "i1")]), np.dtype("V3"), ml_dtypes.float8_e3m4),
    ],
)
def test_what_is_no_type_is_refused_and_unequal(given):
    with pytest.raises(TypeError):
        dtypes.as_dtype(given)
    assert dtypes.float32 != given


def test_numbers_of_types_are_integers():
    for number in (0, 34, "1", 1.0, None):
        with pytest.raises(TypeError, match="no dtype's number"):
            DType(number)  # type: ignore[arg-type]


@pytest.mark.parametrize("dtype", BASE, ids=repr)
def test_a_ref_differs_from_its_base_only_in_being_one(dtype):
    ref = dtype._as_ref
    assert (ref.name, int(ref)) == (f"{dtype.name}_ref", int(dtype) + 100)
    assert ref._is_ref_dtype
    assert not dtype._is_ref_dtype
    assert ref.base_dtype is dtype
    assert dtype.base_dtype is dtype
    assert ref._as_ref is ref
    assert ref.np is dtype.np
    assert ref != dtype
    for name in ("is_floating", "is_integer", "is_unsigned", "is_complex", "is_bool"):
        assert getattr(ref, name) is getattr(dtype, name)


def test_a_ref_may_stand_for_its_base_but_not_the_other_way_round():
    assert dtypes.float32.is_compatible_with(dtypes.float32_ref)
    assert dtypes.float32.is_compatible_with("float32")
    assert not dtypes.float32_ref.is_compatible_with(dtypes.float32)
    assert not dtypes.float32.is_compatible_with(dtypes.float64)
    with pytest.raises(TypeError):
        dtypes.float32.is_compatible_with("foo")


@pytest.mark.parametrize("dtype", [t for t in BASE if t.is_integer or t.is_floating], ids=repr)
def test_extremes_are_values_of_the_type(dtype):
    for extreme in (dtype.min, dtype.max):
        held = np.array(extreme, dtype.np)
        assert np.isfinite(held.astype(np.float64))
        assert float(held) == float(extreme)
    assert (float(dtype.min) == 0) == dtype.is_unsigned


@pytest.mark.parametrize(
    "dtype", [t for t in BASE if not (t.is_integer or t.is_floating)], ids=repr
)
def test_types_without_order_have_no_extremes(dtype):
    for which in ("min", "max"):
        with pytest.raises(
            TypeError, match=f"Cannot find {which}imum value of <dtype: '{dtype.name}'>"
        ):
            getattr(dtype, which)


def test_handles_and_strings_live_in_object_arrays():
    for dtype in (dtypes.string, dtypes.resource, dtypes.variant):
        assert dtype.np == np.dtype(object)
        assert dtype.size == 0
    for dtype in (dtypes.resource, dtypes.variant):
        with pytest.raises(KeyError):
            _ = dtype.as_numpy_dtype


def test_sets_of_types():
    assert {t for t in ALL if t.is_quantized} == dtypes.QUANTIZED_DTYPES
    assert len(dtypes.NUMBERTYPE) == 19
    assert {t for t in dtypes.NUMBERTYPE if t.is_complex or t.is_quantized} == (
        dtypes.NUMBERTYPE - dtypes.REALNUMBERTYPE
    )
    assert not any(t._is_ref_dtype for t in dtypes.NUMBERTYPE)


def test_text():
    assert (str(dtypes.half), repr(dtypes.half)) == ("<dtype: 'float16'>", "tf.float16")


def test_importing_headrace_leaves_out_what_only_servers_and_the_terminal_need():
    code = "import headrace, sys; print(sorted({'grpc', 'rich', 'asyncio', 'socket'} & set(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
