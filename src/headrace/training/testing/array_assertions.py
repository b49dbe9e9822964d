"""Assertions about arrays, for `TestCase`.

Called by: training.testing.test_case.  Threads: as tests.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
from absl.testing import absltest

from headrace.graph.ragged import Ragged
from headrace.graph.tensor import Tensor

_Array = np.ndarray[Any, Any]
_SHOWN = 10
"""Elements that a failure lists."""


class ArrayAssertions(absltest.TestCase):
    """Arguments are arrays, numbers, lists, tensors or variables; structures of them where it says so."""

    def _value(self, given: Any) -> Any:
        raise NotImplementedError

    def _array(self, given: Any) -> _Array:
        """The array of what is given; of objects, where lists of several lengths are."""
        value = self._value(given)
        try:
            return np.asarray(value)
        except ValueError:
            return np.array(value, dtype=object)

    # -- closeness --------------------------------------------------------------------------------

    def assertAllClose(
        self, a: Any, b: Any, rtol: float = 1e-6, atol: float = 1e-6, msg: str | None = None
    ) -> None:
        """|a - b| <= atol + rtol * |b| for all elements; dicts, lists and tuples are gone through.

        NaNs are close to NaNs.  Raises ValueError: one is a dict and the other none.
        """
        self._compare_structures(self._value(a), self._value(b), rtol, atol, "", msg)

    def assertAllCloseAccordingToType(
        self,
        a: Any,
        b: Any,
        rtol: float = 1e-6,
        atol: float = 1e-6,
        float_rtol: float = 1e-6,
        float_atol: float = 1e-6,
        half_rtol: float = 1e-3,
        half_atol: float = 1e-3,
        bfloat16_rtol: float = 1e-2,
        bfloat16_atol: float = 1e-2,
        msg: str | None = None,
    ) -> None:
        """As `assertAllClose`, at least to what the less precise of the two types has."""
        a, b = self._array(a), self._array(b)
        for name, r, t in (
            ("float32", float_rtol, float_atol),
            ("complex64", float_rtol, float_atol),
            ("float16", half_rtol, half_atol),
            ("bfloat16", bfloat16_rtol, bfloat16_atol),
        ):
            if name in (a.dtype.name, b.dtype.name):
                rtol, atol = max(rtol, r), max(atol, t)
        self.assertAllClose(a, b, rtol, atol, msg)

    def assertNotAllClose(
        self, a: Any, b: Any, rtol: float = 1e-6, atol: float = 1e-6, msg: str | None = None
    ) -> None:
        """Some element is not close."""
        try:
            self.assertAllClose(a, b, rtol, atol)
        except AssertionError:
            return
        raise self.failureException(f"The two values are close at all elements. {msg or ''}")

    def _compare_structures(
        self, a: Any, b: Any, rtol: float, atol: float, path: str, msg: str | None
    ) -> None:
        if isinstance(a, Ragged) or isinstance(b, Ragged):
            self._check_ragged_ranks(a, b, msg)
            self._compare_lists(_as_list(a), _as_list(b), rtol, atol, path, msg)
            return
        if hasattr(a, "_asdict"):
            a = a._asdict()
        if hasattr(b, "_asdict"):
            b = b._asdict()
        if isinstance(a, Mapping) != isinstance(b, Mapping):
            raise ValueError(
                f"Can't compare dict to non-dict, a{path} vs b{path}: a {type(a).__name__} and a {type(b).__name__}. "
                f"{msg or ''}"
            )
        if isinstance(a, Mapping):
            self.assertCountEqual(
                a.keys(), b.keys(), f"mismatched keys at a{path} and b{path}. {msg or ''}"
            )
            for key in a:
                self._compare_structures(a[key], b[key], rtol, atol, f"{path}[{key}]", msg)
        elif isinstance(a, (list, tuple)) and _is_structure(a, b):
            self.assertEqual(
                len(a), len(b), f"Mismatched length at a{path} and b{path}. {msg or ''}"
            )
            for index, (mine, theirs) in enumerate(zip(a, b, strict=True)):
                self._compare_structures(mine, theirs, rtol, atol, f"{path}[{index}]", msg)
        else:
            self._compare_arrays(np.asarray(a), np.asarray(b), rtol, atol, path, msg)

    def _compare_lists(
        self, a: Any, b: Any, rtol: float, atol: float, path: str, msg: str | None
    ) -> None:
        """Rows that were ragged: lists, or elements."""
        if not isinstance(a, list) or not isinstance(b, list):
            self._compare_arrays(np.asarray(a), np.asarray(b), rtol, atol, path, msg)
            return
        self.assertEqual(len(a), len(b), f"Length differs for a{path} and b{path}. {msg or ''}")
        for index, (mine, theirs) in enumerate(zip(a, b, strict=True)):
            self._compare_lists(mine, theirs, rtol, atol, f"{path}[{index}]", msg)

    def _check_ragged_ranks(self, a: Any, b: Any, msg: str | None) -> None:
        """Both are ragged in as many dimensions; lists are in however many."""
        if not isinstance(a, (list, tuple)) and not isinstance(b, (list, tuple)):
            self.assertEqual(getattr(a, "ragged_rank", 0), getattr(b, "ragged_rank", 0), msg)

    def _compare_arrays(
        self, a: _Array, b: _Array, rtol: float, atol: float, path: str, msg: str | None
    ) -> None:
        self._check_shapes(a, b, path, msg)
        one, other = [
            each.astype(np.float64) if each.dtype.name == "bfloat16" else each for each in (a, b)
        ]
        close = np.isclose(one, other, rtol=rtol, atol=atol, equal_nan=True)
        if not close.all():
            said = f"Not equal to tolerance rtol={rtol:g}, atol={atol:g}: a{path}, b{path}. {msg or ''}"
            self._fail_at(~close, a, b, said)

    def _check_shapes(self, a: _Array, b: _Array, path: str, msg: str | None) -> None:
        said = f"Shape mismatch: a{path} is {a.shape}, b{path} is {b.shape}"
        if b.size <= _SHOWN:
            said += f" with contents {b}"
        self.assertEqual(a.shape, b.shape, f"{said}. {msg or ''}")

    def _fail_at(self, where: _Array, a: _Array, b: _Array, said: str) -> None:
        places = np.argwhere(where)
        lines = [
            f"  {list(map(int, place))}: {a[tuple(place)]!r} and {b[tuple(place)]!r}"
            for place in places[:_SHOWN]
        ]
        if len(places) > _SHOWN:
            lines.append("  ...")
        self.fail(f"{said}\n{len(places)} of {a.size} elements differ:\n" + "\n".join(lines))

    def assertNear(self, f1: Any, f2: Any, err: float, msg: str | None = None) -> None:
        """Two numbers differ by `err` at most, or are the same infinity."""
        one, other = (np.squeeze(self._array(each)) for each in (f1, f2))
        if one != other:
            difference = math.fabs(one - other)
            self.assertTrue(
                difference <= err,
                f"{one:f} != {other:f} +/- {err:f} (difference: {difference:g}). {msg or ''}",
            )

    def assertArrayNear(
        self, farray1: Any, farray2: Any, err: float, msg: str | None = None
    ) -> None:
        """Two lists of numbers have one length, and differ by `err` at most at each place."""
        self.assertEqual(len(farray1), len(farray2), msg)
        for one, other in zip(farray1, farray2, strict=True):
            self.assertNear(float(one), float(other), err, msg)

    def assertNDArrayNear(
        self, ndarray1: Any, ndarray2: Any, err: float, msg: str | None = None
    ) -> None:
        """The Euclidean norm of the difference of two arrays is less than `err`."""
        norm = float(np.linalg.norm(self._array(ndarray1) - self._array(ndarray2)))
        self.assertTrue(
            norm < err,
            f"the norm of the difference is {norm:g}, not less than {err:g}. {msg or ''}",
        )

    # -- equality ---------------------------------------------------------------------------------

    def assertAllEqual(self, a: Any, b: Any, msg: str | None = None) -> None:
        """All elements are equal; NaNs are equal to NaNs, text to its UTF-8."""
        a, b = self._value(a), self._value(b)
        if isinstance(a, Ragged) or isinstance(b, Ragged):
            self.assertEqual(_as_list(a), _as_list(b), msg)
            self._check_ragged_ranks(a, b, msg)
            return
        mine, theirs = _as_bytes(self._array(a)), _as_bytes(self._array(b))
        self._check_shapes(mine, theirs, "", msg)
        same = np.asarray(mine == theirs)
        if all(each.dtype.kind in "fc" or each.dtype.name == "bfloat16" for each in (mine, theirs)):
            same |= (mine != mine) & (theirs != theirs)
        if not same.all():
            self._fail_at(~same, mine, theirs, f"Arrays are not equal. {msg or ''}")

    def assertNotAllEqual(self, a: Any, b: Any, msg: str | None = None) -> None:
        """Some element is not equal."""
        try:
            self.assertAllEqual(a, b)
        except AssertionError:
            return
        raise self.failureException(f"The two values are equal at all elements. {msg or ''}")

    def assertShapeEqual(self, input_a: Any, input_b: Any, msg: str | None = None) -> None:
        """Two arrays, numbers or tensors have one shape; tensors have the static one.  Raises TypeError."""
        shapes = []
        for name, each in (("input_a", input_a), ("input_b", input_b)):
            if isinstance(each, Tensor):
                shapes.append(each.get_shape().as_list())
            elif isinstance(each, (np.ndarray, np.generic)):
                shapes.append(list(each.shape))
            else:
                raise TypeError(
                    f"{name} must be a Numpy ndarray, Numpy scalar, or a Tensor. Instead received {type(each)}"
                )
        self.assertEqual(shapes[0], shapes[1], msg)

    def assertDTypeEqual(self, target: Any, expected_dtype: Any) -> None:
        """The array has this type."""
        self.assertEqual(self._array(target).dtype, expected_dtype)

    def assertDictEqual(self, a: Any, b: Any, msg: str | None = None) -> None:
        """Two dicts have the same keys, and equal values; arrays of floats only have to be close."""
        try:
            super().assertDictEqual(a, b, msg)  # type: ignore[no-untyped-call]
        except Exception:  # such as what arrays say that are asked whether they are equal
            self.assertEqual(set(a), set(b), msg)
            for key, value in a.items():
                if np.issubdtype(self._array(value).dtype, np.floating):
                    self.assertAllClose(value, b[key], msg=key)
                else:
                    self.assertAllEqual(value, b[key], msg=key)

    # -- bounds -----------------------------------------------------------------------------------

    def assertAllGreater(self, a: Any, comparison_target: Any) -> None:
        """Every element is greater."""
        self.assertGreater(self._array(a).min(), comparison_target)

    def assertAllGreaterEqual(self, a: Any, comparison_target: Any) -> None:
        """Every element is greater or equal."""
        self.assertGreaterEqual(self._array(a).min(), comparison_target)

    def assertAllLess(self, a: Any, comparison_target: Any) -> None:
        """Every element is less."""
        self.assertLess(self._array(a).max(), comparison_target)

    def assertAllLessEqual(self, a: Any, comparison_target: Any) -> None:
        """Every element is less or equal."""
        self.assertLessEqual(self._array(a).max(), comparison_target)

    def assertAllInRange(
        self,
        target: Any,
        lower_bound: Any,
        upper_bound: Any,
        open_lower_bound: bool = False,
        open_upper_bound: bool = False,
    ) -> None:
        """Every element is between the bounds, which are allowed themselves unless they are open."""
        found = self._array(target)
        if found.dtype.kind not in "iuf" and found.dtype.name != "bfloat16":
            raise AssertionError(f"values of {found.dtype} do not have an ordered numeric type")
        below = found <= lower_bound if open_lower_bound else found < lower_bound
        above = found >= upper_bound if open_upper_bound else found > upper_bound
        outside = below | above | (found != found)
        if outside.any():
            text = f"{'(' if open_lower_bound else '['}{lower_bound}, {upper_bound}{')' if open_upper_bound else ']'}"
            places = np.argwhere(outside)
            lines = [
                f"  {list(map(int, place))} : {found[tuple(place)]}" for place in places[:_SHOWN]
            ]
            self.fail(
                f"{len(places)} of the {found.size} element(s) are outside the range {text}. Subscript(s) and value(s) "
                "of the offending elements:\n" + "\n".join(lines)
            )

    def assertAllInSet(self, target: Any, expected_set: Iterable[Any]) -> None:
        """Every element is one of the set."""
        expected = list(expected_set)
        strange = [each for each in np.unique(self._array(target)).tolist() if each not in expected]
        if strange:
            self.fail(f"{len(strange)} unique element(s) are not in the set {expected}: {strange}")


def _is_structure(a: Any, b: Any) -> bool:
    """Whether two lists are not simply arrays."""
    try:
        arrays = [np.asarray(each) for each in (a, b)]
    except ValueError:
        return True
    return any(each.dtype == object for each in arrays)


def _as_list(value: Any) -> Any:
    """Rows as nested lists."""
    if hasattr(value, "to_list"):
        return value.to_list()
    return value.tolist() if isinstance(value, np.ndarray) else np.array(value, object).tolist()


def _as_bytes(array: _Array) -> _Array:
    """Text as its UTF-8; all else as it is."""
    if array.dtype.kind == "U":
        return np.char.encode(array, "utf-8").astype(object)
    if array.dtype.kind == "S":
        return array.astype(object)
    if array.dtype.kind == "O":
        flat = [each.encode() if isinstance(each, str) else each for each in array.reshape(-1)]
        found = np.empty(len(flat), object)
        found[:] = flat
        return found.reshape(array.shape)
    return array
