"""Python values to arrays: what `tf.constant([1, 2.5])` means.

The rules are TensorFlow's: Python ints become int32 (int64 if one needs it), floats float32, NumPy values keep
their dtype; with a dtype given, Python values must fit its kind while arrays are cast.
Called by: codec.tensors, graph (constants, conversions).  Threads: pure functions.
Source: TF 1.15 python/framework/tensor_util.py; 2.21 where they differ
"""

from __future__ import annotations

import numbers
from collections.abc import Iterator
from typing import Any

import numpy as np

from headrace.base import dtypes, shapes
from headrace.codec.fields import Array, objects

_TEXT = (str, bytes)
_LARGE = 3e38  # nearly the largest float32
_QUICK_INTS = frozenset((dtypes.int32, dtypes.int64, dtypes.float32, dtypes.float64))
_PLAIN = frozenset({int, float, bool, complex, str, bytes})


def to_array(values: Any, dtype: dtypes.DType | None = None) -> tuple[Array, dtypes.DType]:
    """The array that `values` stands for, and its base dtype.

    `values`: an array, a NumPy scalar, a number, bool or string, or nested lists of these.  Strings become an
    object array of bytes (text as UTF-8).  The array may be `values` itself; it is in native byte order.

    Raises TypeError for elements that no tensor, or none of `dtype`, can hold; ValueError for None, for lists of
    unequal length and for arrays inside lists; OverflowError for an int beyond 64 bits.
    """
    if values is None:
        raise ValueError(
            "None values not supported: a tensor holds numbers, strings or arrays of them"
        )
    if dtype is not None:
        dtype = dtype.base_dtype
        if not dtype.is_numpy_compatible:
            raise TypeError(
                f"no value can be written down for a {dtype.name} tensor; its op makes it"
            )
    if isinstance(values, bytearray | memoryview):
        values = np.asarray(values)
    if isinstance(values, np.ndarray | np.generic) or hasattr(values, "__array__"):
        return _from_array(values, dtype)
    return _from_python(values, dtype)


def quick_array(value: Any, dtype: dtypes.DType | None) -> tuple[Array, dtypes.DType] | None:
    """What `to_array` gives for a Python float or small int, or a list of either, read-only; None for all else."""
    kind, least, most = type(value), value, value
    if kind is list or kind is tuple:
        kinds = set(map(type, value))
        if len(kinds) != 1:
            return None
        (kind,) = kinds
        if kind is not int and kind is not float:
            return None
        least, most = min(value), max(value)
    if kind is float:
        if dtype is None:
            dtype = dtypes.float32
        elif dtype is not dtypes.float32 and dtype is not dtypes.float64:
            return None
        if not -_LARGE < least <= most < _LARGE:
            return None
    elif kind is int:
        if dtype is None:
            dtype = dtypes.int32
        elif dtype not in _QUICK_INTS:
            return None
        if not -(1 << 31) <= least <= most < 1 << 31:
            return None
    else:
        return None
    array = np.array(value, dtype.np)
    array.flags.writeable = False
    return array, dtype


def _from_array(values: Any, dtype: dtypes.DType | None) -> tuple[Array, dtypes.DType]:
    if isinstance(
        values, _TEXT
    ):  # np.str_ and np.bytes_: as an array they would lose trailing zeros
        array = objects([values]).reshape(())
    else:
        array = np.asarray(values)
    if dtype is None:
        dtype = dtypes.from_numpy(array.dtype)
    if dtype is dtypes.string:
        return _strings(array.reshape(-1).tolist(), array.shape), dtype
    return cast(array, dtype), dtype


def cast(array: Array, dtype: dtypes.DType) -> Array:
    """Elements as `dtype`, wrapping and rounding as C does; the array itself if nothing is to be done."""
    if array.dtype == dtype.np and array.dtype.isnative:
        return array
    if array.dtype.kind == "c" and not (dtype.is_complex or dtype.is_bool):
        array = array.real
    with np.errstate(over="ignore", invalid="ignore"):
        return array.astype(dtype.np)


def _strings(flat: list[Any], shape: tuple[int, ...]) -> Array:
    """An object array of bytes.  Raises TypeError for what is not text."""
    for value in flat:
        if not isinstance(value, _TEXT):
            raise TypeError(
                f"Expected binary or unicode string, got {value!r} of type {type(value).__name__!r}: "
                "a string tensor holds str or bytes"
            )
    encoded = [v.encode() if isinstance(v, str) else bytes(v) for v in flat]
    return objects(encoded).reshape(shape)


def _from_python(values: Any, dtype: dtypes.DType | None) -> tuple[Array, dtypes.DType]:
    if dtype is not None and dtype.is_quantized:
        return _quantized(values, dtype), dtype
    try:
        shape = dense_shape(values)
    except ValueError:
        for value in leaves(values):  # an element of the wrong type is the worse mistake
            if not np.ndim(value):
                _checked(value, dtype, values)
        raise
    flat = list(leaves(values))
    allowed = _allowed(dtype)
    if not all(kind in _PLAIN and issubclass(kind, allowed) for kind in set(map(type, flat))):
        flat = [_checked(value, dtype, values) for value in flat]
    if dtype is dtypes.string or (dtype is None and flat and isinstance(flat[0], _TEXT)):
        return _strings(flat, shape), dtypes.string
    if dtype is None:
        array = _inferred(flat, values)
        return array.reshape(shape), dtypes.from_numpy(array.dtype)
    with np.errstate(over="ignore", invalid="ignore"):
        try:
            return np.array(flat, dtype.np).reshape(shape), dtype
        except OverflowError:  # an int beyond the dtype wraps if it fits into 64 bits
            return np.array(flat).astype(dtype.np).reshape(shape), dtype


def _inferred(flat: list[Any], whole: Any) -> Array:
    """[n] of the dtype that Python values take: the narrow one of int32/int64, and float32.

    Raises TypeError for mixtures of text and numbers, and for ints beyond 64 bits.
    """
    array = np.array(flat)
    if array.dtype.kind not in "biufcV":
        raise TypeError(
            f"{_FAILED} {_some(whole)} to Tensor: no dtype holds them all; "
            "give elements of one kind (ints within 64 bits)"
        )
    if array.dtype == np.int64:
        narrow = array.astype(np.int32)
        return narrow if np.array_equal(narrow, array) else array
    return cast(array, dtypes.float32) if array.dtype == np.float64 else array


def _quantized(values: Any, dtype: dtypes.DType) -> Array:
    """Quantized elements are written as 1-tuples, which are no dimension.  Raises TypeError for others."""
    for value in leaves(values, list):
        if not isinstance(value, tuple | np.void):
            raise TypeError(
                f"an element of a {dtype.name} tensor is written as a tuple ({value!r},), "
                f"not as {value!r} of type {type(value).__name__}"
            )
    return np.array(values, dtype.np)


def leaves(values: Any, nests: Any = (list, tuple)) -> Iterator[Any]:
    """Elements of nested lists, in order."""
    if isinstance(values, nests):
        if _PLAIN.issuperset(map(type, values)):
            yield from values
            return
        for value in values:
            yield from leaves(value, nests)
    else:
        yield values


def dense_shape(values: Any) -> tuple[int, ...]:
    """Shape of nested lists.  Raises ValueError if their lengths disagree or an array stands inside."""
    if not isinstance(values, list | tuple):
        if isinstance(values, range) or (hasattr(values, "__array__") and np.ndim(values)):
            raise ValueError(
                f"setting an array element with a sequence: {values!r} inside of lists does not make a dense tensor; "
                "stack arrays first"
            )
        return ()
    if values and _PLAIN.issuperset(map(type, values)):
        return (len(values),)
    inner = {dense_shape(value) for value in values}
    if len(inner) > 1:
        raise ValueError(
            f"setting an array element with a sequence: lists of unequal shape do not make a dense tensor, "
            f"{_some(list(values))} has "
            f"elements of shapes {sorted(inner)}"
        )
    return (len(values), *(inner.pop() if inner else ()))


_FAILED = "Failed to convert elements of"


def _checked(value: Any, dtype: dtypes.DType | None, whole: Any) -> Any:
    """The value itself, an element of `whole`; of a Dimension its size.

    Raises TypeError if it is none that a tensor of `dtype` can hold.
    """
    scalar: Any = value[()] if isinstance(value, np.ndarray) and not value.ndim else value
    if not isinstance(scalar, _allowed(dtype)):
        kind = type(value).__name__
        if dtype is None:
            raise TypeError(
                f"{_FAILED} {_some(whole)} to Tensor: a tensor cannot hold {value!r} of type {kind}; convert it first"
            )
        raise TypeError(
            f"Expected {dtype.name}, but got {value} of type {kind!r}; convert it first"
        )
    if isinstance(scalar, shapes.Dimension):
        if scalar.value is None:
            raise TypeError(
                f"{_FAILED} {_some(whole)} to Tensor: a dimension of unknown size has no value; "
                "take tf.shape(...) at run time"
            )
        return scalar.value
    return value


def _allowed(dtype: dtypes.DType | None) -> tuple[type, ...]:
    if dtype is None:
        return (*_TEXT, numbers.Number, np.generic, shapes.Dimension)
    if dtype is dtypes.string:
        return _TEXT
    if dtype.is_bool:
        return (bool, np.bool_)
    if dtype.is_integer:
        return (numbers.Integral, shapes.Dimension, dtype.np.type)
    if dtype.is_floating:
        return (numbers.Real, np.floating, dtype.np.type)
    return (numbers.Complex, np.number)


def _some(values: Any) -> str:
    """The values as text, cut short."""
    text = repr(values)
    return text if len(text) <= 80 else f"{text[:77]}..."
