"""Element types: TensorFlow's names and numbers for them, and the NumPy types that hold them.

Every type is one interned object, so `is` and a dict lookup are enough inside headrace; `==`
also accepts names, NumPy types and enum numbers as TensorFlow's does.  A ref type (`float32_ref`)
is the type of a variable's output; it holds the same values as its base type.
Internally `.np` is the np.dtype of run-time values: object for strings (bytes elements),
resource and variant handles; a record of one field for the quantized types.
Called by: every folder.  Threads: immutable after import.
Source: TF 1.15 core/framework/types.proto, python/framework/dtypes.py; 2.21 for the later types
"""

from __future__ import annotations

import builtins
import operator
from typing import TYPE_CHECKING, Any, Final

import ml_dtypes
import numpy as np

if TYPE_CHECKING:
    import numpy.typing as npt

_REF_OFFSET: Final = 100  # the enum number of a ref type is its base type's plus this


class DType:
    """An element type.  `DType(1)` and `as_dtype(...)` return the interned object."""

    __slots__ = ("_base", "_enum", "_is_ref_dtype", "_kind", "_ref", "name", "np")

    name: str
    np: np.dtype[Any]  # of run-time values; object for string, resource, variant
    _enum: int
    _is_ref_dtype: builtins.bool
    _kind: str  # f float, i signed, u unsigned, c complex, b bool, q quantized, s string, h handle
    _base: DType
    _ref: DType

    def __new__(cls, type_enum: int) -> DType:
        """Raises TypeError for a number that no type has."""
        try:
            return _BY_ENUM[operator.index(type_enum)]
        except (KeyError, TypeError):
            raise TypeError(
                f"{_NO_DTYPE}: {type_enum!r} to a TensorFlow DType: it is no dtype's number"
            ) from None

    @property
    def as_datatype_enum(self) -> int:
        """The number in `DataType` messages."""
        return self._enum

    @property
    def base_dtype(self) -> DType:
        """The type without the ref."""
        return self._base

    @property
    def real_dtype(self) -> DType:
        """The type of the real part: float32 for complex64, itself for what is not complex."""
        if self._base is complex64:
            return float32
        if self._base is complex128:
            return float64
        return self

    @property
    def _as_ref(self) -> DType:
        return self._ref

    @property
    def as_numpy_dtype(self) -> Any:
        """The NumPy scalar class; `object` for strings, a record np.dtype for the quantized types.

        Raises KeyError for resource and variant, whose values NumPy cannot hold.
        """
        if self._kind == "h":
            raise KeyError(f"{self.name} values have no NumPy type")
        if self._kind == "s":
            return object
        return self.np if self._kind == "q" else self.np.type

    @property
    def is_floating(self) -> builtins.bool:
        """Real floating point of any width."""
        return self._kind == "f"

    @property
    def is_integer(self) -> builtins.bool:
        """Signed or unsigned, not quantized."""
        return self._kind in "iu"

    @property
    def is_unsigned(self) -> builtins.bool:
        """Unsigned and not quantized."""
        return self._kind == "u"

    @property
    def is_complex(self) -> builtins.bool:
        """Complex64 or complex128."""
        return self._kind == "c"

    @property
    def is_bool(self) -> builtins.bool:
        """True for bool only."""
        return self._kind == "b"

    @property
    def is_quantized(self) -> builtins.bool:
        """One of the q types, whose values stand for others by a scale kept elsewhere."""
        return self._kind == "q"

    @property
    def is_numpy_compatible(self) -> builtins.bool:
        """False for handles: resource and variant."""
        return self._kind != "h"

    @property
    def size(self) -> int:
        """Bytes per element; 0 where an element has no fixed size."""
        return 0 if self._kind in "sh" else self.np.itemsize

    @property
    def min(self) -> Any:
        """The lowest finite value.  Raises TypeError where there is none."""
        return self._extreme("min")

    @property
    def max(self) -> Any:
        """The highest finite value.  Raises TypeError where there is none."""
        return self._extreme("max")

    def _extreme(self, which: str) -> Any:
        if self._kind not in "fiu":
            raise TypeError(
                f"Cannot find {which}imum value of {self}: only real, unquantized numbers have one"
            )
        info: Any = ml_dtypes.finfo if self._kind == "f" else ml_dtypes.iinfo
        return getattr(info(self.np), which)

    @property
    def limits(self) -> tuple[Any, Any]:
        """(low, high) of pixel-like data: (0, 1) for float, (0, max) for int.

        Raises ValueError for types that images do not have, KeyError for handles.
        """
        if self._base in (float32, float64):
            return 0, 1
        if self._base is bool:
            return 0, True
        if self._kind in "iu" and self.np.isbuiltin == 1:  # NumPy's own, not ml_dtypes'
            return 0, self.max
        if self._kind == "h":
            raise KeyError(f"{self.name} values have no NumPy type, hence no limits")
        raise ValueError(
            f"{self} does not have defined limits: only bool, int, float32 and float64 do"
        )

    def is_compatible_with(self, other: object) -> builtins.bool:
        """Whether a tensor of type `other` may be used as this one: a ref also as its base."""
        found = as_dtype(other)
        return self is found or self is found._base

    def __eq__(self, other: object) -> builtins.bool:
        if type(other) is DType:
            return self is other
        try:
            return self is as_dtype(other)
        except TypeError:
            return False

    def __hash__(self) -> int:
        return self._enum

    def __int__(self) -> int:
        return self._enum

    def __str__(self) -> str:
        return f"<dtype: {self.name!r}>"

    def __repr__(self) -> str:
        return f"tf.{self.name}"

    def __reduce__(self) -> tuple[object, ...]:
        return DType, (self._enum,)


_BY_ENUM: Final[dict[int, DType]] = {}
_BY_NAME: Final[dict[str, DType]] = {}
_BY_NUMPY: Final[dict[np.dtype[Any], DType]] = {}


def _new(name: str, enum: int, kind: str, values: np.dtype[Any], base: DType | None) -> DType:
    made = object.__new__(DType)
    made.name, made._enum, made._kind, made.np = name, enum, kind, values
    made._base = made if base is None else base
    made._is_ref_dtype = base is not None
    _BY_ENUM[enum] = _BY_NAME[name] = made
    return made


def _define(name: str, enum: int, kind: str, values: npt.DTypeLike) -> DType:
    """A base type and its ref; the first type that asks for a NumPy type is the one it maps to."""
    made = _new(name, enum, kind, np.dtype(values), None)
    made._ref = _new(f"{name}_ref", enum + _REF_OFFSET, kind, made.np, made)
    made._ref._ref = made._ref
    _BY_NUMPY.setdefault(made.np, made)
    return made


float32: Final = _define("float32", 1, "f", np.float32)
float64: Final = _define("float64", 2, "f", np.float64)
int32: Final = _define("int32", 3, "i", np.int32)
uint8: Final = _define("uint8", 4, "u", np.uint8)
int16: Final = _define("int16", 5, "i", np.int16)
int8: Final = _define("int8", 6, "i", np.int8)
string: Final = _define("string", 7, "s", np.object_)
complex64: Final = _define("complex64", 8, "c", np.complex64)
int64: Final = _define("int64", 9, "i", np.int64)
bool: Final = _define("bool", 10, "b", np.bool_)
qint8: Final = _define("qint8", 11, "q", [("qint8", np.int8)])
quint8: Final = _define("quint8", 12, "q", [("quint8", np.uint8)])
qint32: Final = _define("qint32", 13, "q", [("qint32", np.int32)])
bfloat16: Final = _define("bfloat16", 14, "f", ml_dtypes.bfloat16)
qint16: Final = _define("qint16", 15, "q", [("qint16", np.int16)])
quint16: Final = _define("quint16", 16, "q", [("quint16", np.uint16)])
uint16: Final = _define("uint16", 17, "u", np.uint16)
complex128: Final = _define("complex128", 18, "c", np.complex128)
float16: Final = _define("float16", 19, "f", np.float16)
resource: Final = _define("resource", 20, "h", np.object_)
variant: Final = _define("variant", 21, "h", np.object_)
uint32: Final = _define("uint32", 22, "u", np.uint32)
uint64: Final = _define("uint64", 23, "u", np.uint64)
float8_e5m2: Final = _define("float8_e5m2", 24, "f", ml_dtypes.float8_e5m2)
float8_e4m3fn: Final = _define("float8_e4m3fn", 25, "f", ml_dtypes.float8_e4m3fn)
float8_e4m3fnuz: Final = _define("float8_e4m3fnuz", 26, "f", ml_dtypes.float8_e4m3fnuz)
float8_e4m3b11fnuz: Final = _define("float8_e4m3b11fnuz", 27, "f", ml_dtypes.float8_e4m3b11fnuz)
float8_e5m2fnuz: Final = _define("float8_e5m2fnuz", 28, "f", ml_dtypes.float8_e5m2fnuz)
int4: Final = _define("int4", 29, "i", ml_dtypes.int4)
uint4: Final = _define("uint4", 30, "u", ml_dtypes.uint4)
int2: Final = _define("int2", 31, "i", ml_dtypes.int2)
uint2: Final = _define("uint2", 32, "u", ml_dtypes.uint2)
float4_e2m1fn: Final = _define("float4_e2m1fn", 33, "f", ml_dtypes.float4_e2m1fn)

half: Final = float16
double: Final = float64

float32_ref: Final = float32._as_ref
float64_ref: Final = float64._as_ref
int32_ref: Final = int32._as_ref
uint8_ref: Final = uint8._as_ref
int16_ref: Final = int16._as_ref
int8_ref: Final = int8._as_ref
string_ref: Final = string._as_ref
complex64_ref: Final = complex64._as_ref
int64_ref: Final = int64._as_ref
bool_ref: Final = bool._as_ref
qint8_ref: Final = qint8._as_ref
quint8_ref: Final = quint8._as_ref
qint32_ref: Final = qint32._as_ref
bfloat16_ref: Final = bfloat16._as_ref
qint16_ref: Final = qint16._as_ref
quint16_ref: Final = quint16._as_ref
uint16_ref: Final = uint16._as_ref
complex128_ref: Final = complex128._as_ref
float16_ref: Final = float16._as_ref
resource_ref: Final = resource._as_ref
variant_ref: Final = variant._as_ref
uint32_ref: Final = uint32._as_ref
uint64_ref: Final = uint64._as_ref
float8_e5m2_ref: Final = float8_e5m2._as_ref
float8_e4m3fn_ref: Final = float8_e4m3fn._as_ref
float8_e4m3fnuz_ref: Final = float8_e4m3fnuz._as_ref
float8_e4m3b11fnuz_ref: Final = float8_e4m3b11fnuz._as_ref
float8_e5m2fnuz_ref: Final = float8_e5m2fnuz._as_ref
int4_ref: Final = int4._as_ref
uint4_ref: Final = uint4._as_ref
int2_ref: Final = int2._as_ref
uint2_ref: Final = uint2._as_ref
float4_e2m1fn_ref: Final = float4_e2m1fn._as_ref
half_ref: Final = float16_ref
double_ref: Final = float64_ref

_BY_NAME.update(half=half, double=double, half_ref=half_ref, double_ref=double_ref)
_BY_NAME.update(float=float32, float_ref=float32_ref)
_BY_PYTHON: Final[dict[type, DType]] = {
    builtins.float: float32,
    builtins.bool: bool,
    builtins.object: string,
}

_QUANTIZED: Final = (qint8, quint8, qint16, quint16, qint32)
QUANTIZED_DTYPES: Final = frozenset(_QUANTIZED) | frozenset(t._as_ref for t in _QUANTIZED)
# What `numbertype` and `realnumbertype` stand for in an op's attrs; base types only.  TensorFlow
# 1.15's numbertype lacks qint16 and quint16, which 2.x added.
REALNUMBERTYPE: Final = frozenset(
    {float32, float64, float16, bfloat16}
    | {int8, int16, int32, int64, uint8, uint16, uint32, uint64}
)
NUMBERTYPE: Final = REALNUMBERTYPE | {complex64, complex128, *_QUANTIZED}


_NO_DTYPE: Final = "Cannot convert the argument `type_value`"


def from_numpy(dtype: np.dtype[Any]) -> DType:
    """The type of an array's elements; byte order is ignored, all text and objects are strings.

    Raises TypeError for NumPy types that no tensor holds, such as datetime64.
    """
    found = _BY_NUMPY.get(dtype)
    if found is None:
        if dtype.kind in "SUT":
            return string
        found = _BY_NUMPY.get(dtype.newbyteorder("="))
        if found is None:
            raise TypeError(
                f"{_NO_DTYPE}: {dtype!r} to a TensorFlow DType: no tensor holds NumPy's {dtype}; cast the array first"
            )
    return found


def _from_scalar_class(cls: type[np.generic]) -> DType:
    values = np.dtype(cls)
    if values.type is not cls:  # an abstract class, for which NumPy 1 takes a default
        raise TypeError(
            f"{_NO_DTYPE}: {cls!r} to a TensorFlow DType: NumPy's {cls.__name__} is abstract; "
            "name a type of a definite size"
        )
    return from_numpy(values)


def as_dtype(type_value: object) -> DType:
    """The DType meant by a DType, name, enum number, NumPy type, or float, bool or object.

    A value with a dtype of its own, such as an array, means that one.
    Raises TypeError for anything else; for `int` too, which might be 32 or 64 bits.
    """
    if isinstance(type_value, DType):
        return type_value
    found: DType | None = None
    if isinstance(type_value, str):
        found = _BY_NAME.get(type_value)
    elif isinstance(type_value, int):
        found = _BY_ENUM.get(int(type_value))
    elif isinstance(type_value, np.dtype):
        return from_numpy(type_value)
    elif isinstance(type_value, type):
        found = _BY_PYTHON.get(type_value)
        if found is None and issubclass(type_value, np.generic):
            return _from_scalar_class(type_value)
    elif isinstance(own := getattr(type_value, "dtype", None), np.dtype):
        return from_numpy(own)
    if found is None:
        raise TypeError(
            f"{_NO_DTYPE}: {type_value!r} to a TensorFlow DType: give a tf dtype, its name or a NumPy type"
        )
    return found


_IN_MESSAGES: Final = {"float16": "half", "float32": "float", "float64": "double"}


def spelled(dtype: DType) -> str:
    """Its name in TensorFlow's messages, which is that of the C++ type: "float" for float32."""
    return _IN_MESSAGES.get(dtype.name, dtype.name)
