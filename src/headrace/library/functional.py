"""tf.map_fn, tf.scan, tf.foldl, tf.foldr: loops over the rows of tensors.

Called by: users.  Threads: as graph.
Source: TF 1.15 behaviour (python/ops/map_fn.py, functional_ops.py); node names as 2.21
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple

from headrace.base import nest
from headrace.base.shapes import TensorShape
from headrace.graph.convert import convert
from headrace.graph.names import name_scope
from headrace.graph.tensor import Tensor
from headrace.library.variables.variable_scope import get_variable_scope
from headrace.ops.array.constants import constant
from headrace.ops.array.shapes import shape as shape_of
from headrace.ops.flow.control_flow import while_loop
from headrace.ops.flow.tensor_array import TensorArray

__all__ = ["foldl", "foldr", "map_fn", "scan"]

Function = Callable[..., Any]


def _rows(elems: Any, what: str) -> list[Tensor]:
    """The leaves of `elems` as tensors.  Raises ValueError for scalars and for nothing."""
    found = [convert(elem, None, "elem") for elem in nest.flatten(elems)]
    if not found:
        raise ValueError(
            f"elems must be a Tensor or (possibly nested) sequence of Tensors: {what} has nothing to go over"
        )
    for elem in found:
        if elem.raw_shape == ():
            raise ValueError(
                f"Elements in elems must be 1+ dimensional Tensors, not scalars: {elem.name} has no rows for {what}"
            )
    return found


def _checked(fn: Any, what: str) -> None:
    if not callable(fn):
        raise TypeError(f"the function of {what} must be callable, and is {fn!r:.80}")


def _count(rows: Sequence[Tensor]) -> Any:
    """How many rows there are: an int, or a tensor if it is not known."""
    size = None if rows[0].raw_shape is None else rows[0].raw_shape[0]
    return shape_of(rows[0])[0] if size is None else size


def _arrays(rows: Sequence[Tensor], count: Any, *, with_shape: bool = False) -> list[TensorArray]:
    """The rows of each tensor in an array."""
    arrays = [
        TensorArray(row.dtype, size=count, element_shape=row.shape[1:] if with_shape else None)
        for row in rows
    ]
    return [array.unstack(row) for array, row in zip(arrays, rows, strict=True)]


@contextmanager
def _variables_cached() -> Iterator[None]:
    """Variables that the function gets are read where they are used, once."""
    scope = get_variable_scope()
    if scope.caching_device is not None:
        yield
        return
    scope.set_caching_device(lambda op: op.device)
    try:
        yield
    finally:
        scope.set_caching_device(None)


def _stacked(arrays: Sequence[TensorArray], rows: Sequence[Tensor]) -> list[Tensor]:
    """The arrays as tensors, of as many rows as all of `rows` have."""
    results = [array.stack() for array in arrays]
    count = TensorShape(rows[0].raw_shape).with_rank_at_least(1)[:1]
    for row in rows[1:]:
        count = count.merge_with(row.shape.with_rank_at_least(1)[:1])
    for result in results:
        result.set_shape(count.concatenate(result.shape[1:]))
    return results


def map_fn(
    fn: Function,
    elems: Any,
    dtype: Any = None,
    parallel_iterations: int | None = None,
    back_prop: bool = True,
    swap_memory: bool = False,
    infer_shape: bool = True,
    name: str | None = None,
) -> Any:
    """`fn` of each row of `elems`, stacked.

    elems: a nest of tensors with as many rows each; `fn` takes and returns such nests.  dtype: the dtypes of what
    it returns, in its nest, if they are not those of elems.
    Raises TypeError (not callable), ValueError (scalars, nests that differ).
    """
    _checked(fn, "map_fn")
    with name_scope(name, "map", _tensors(elems)), _variables_cached():
        rows = _rows(elems, "map_fn")
        wanted = (
            nest.pack_sequence_as(elems, [row.dtype for row in rows]) if dtype is None else dtype
        )
        count = _count(rows)
        inputs = _arrays(rows, count)
        start = constant(0)
        outputs = [
            TensorArray(kind, size=count, infer_shape=infer_shape) for kind in nest.flatten(wanted)
        ]

        def step(i: Tensor, arrays: list[TensorArray]) -> Any:
            found = fn(nest.pack_sequence_as(elems, [array.read(i) for array in inputs]))
            nest.assert_same_structure(wanted, found)
            values = zip(arrays, nest.flatten(found), strict=True)
            arrays = [array.write(i, value) for array, value in values]
            return i + 1, arrays

        _, filled = while_loop(
            lambda i, _: i < count,
            step,
            (start, outputs),
            parallel_iterations=parallel_iterations or 10,
            back_prop=back_prop,
            swap_memory=swap_memory,
            maximum_iterations=count,
        )
        return nest.pack_sequence_as(wanted, _stacked(filled, rows))


def _tensors(elems: Any) -> list[Any]:
    return [elem for elem in nest.flatten(elems) if isinstance(elem, Tensor)]


def scan(
    fn: Function,
    elems: Any,
    initializer: Any = None,
    parallel_iterations: int = 10,
    back_prop: bool = True,
    swap_memory: bool = False,
    infer_shape: bool = True,
    reverse: bool = False,
    name: str | None = None,
) -> Any:
    """All of a = fn(a, row) for the rows of `elems` in turn, stacked; a starts as `initializer` or the first row.

    Raises TypeError (not callable), ValueError (scalars, nests that differ).
    """
    _checked(fn, "scan")
    with name_scope(name, "scan", _tensors(elems)), _variables_cached():
        rows = _rows(elems, "scan")
        count = _count(rows)
        inputs = _arrays(rows, count, with_shape=True)
        like = elems if initializer is None else initializer
        if initializer is None:
            values = [array.read(count - 1 if reverse else 0) for array in inputs]
            done = 1
        else:
            values = [convert(value) for value in nest.flatten(initializer)]
            done = 0
        outputs = [
            TensorArray(
                value.dtype,
                size=count,
                element_shape=value.shape if infer_shape else None,
                infer_shape=infer_shape,
            )
            for value in values
        ]
        if initializer is None:
            outputs = [
                array.write(count - 1 if reverse else 0, value)
                for array, value in zip(outputs, values, strict=True)
            ]

        def step(i: Tensor, current: list[Tensor], arrays: list[TensorArray]) -> Any:
            row = nest.pack_sequence_as(elems, [array.read(i) for array in inputs])
            found = fn(nest.pack_sequence_as(like, current), row)
            nest.assert_same_structure(like, found)
            flat = nest.flatten(found)
            arrays = [array.write(i, value) for array, value in zip(arrays, flat, strict=True)]
            return i - 1 if reverse else i + 1, flat, arrays

        _, _, filled = while_loop(
            lambda i, _a, _b: i >= 0 if reverse else i < count,
            step,
            (count - 1 - done if reverse else done, values, outputs),
            parallel_iterations=parallel_iterations,
            back_prop=back_prop,
            swap_memory=swap_memory,
            maximum_iterations=count,
        )
        return nest.pack_sequence_as(like, _stacked(filled, rows))


def foldl(
    fn: Function,
    elems: Any,
    initializer: Any = None,
    parallel_iterations: int = 10,
    back_prop: bool = True,
    swap_memory: bool = False,
    name: str | None = None,
) -> Any:
    """The last a = fn(a, row) for the rows of `elems`, first to last; a starts as `initializer` or the first row.

    Raises TypeError (not callable), ValueError (scalars).
    """
    loop = _Loop(parallel_iterations, back_prop, swap_memory)
    return _fold("foldl", fn, elems, initializer, loop, name, backward=False)


def foldr(
    fn: Function,
    elems: Any,
    initializer: Any = None,
    parallel_iterations: int = 10,
    back_prop: bool = True,
    swap_memory: bool = False,
    name: str | None = None,
) -> Any:
    """As `foldl`, last row to first.

    Raises TypeError (not callable), ValueError (scalars).
    """
    loop = _Loop(parallel_iterations, back_prop, swap_memory)
    return _fold("foldr", fn, elems, initializer, loop, name, backward=True)


class _Loop(NamedTuple):
    """How `while_loop` is to run."""

    parallel_iterations: int
    back_prop: bool
    swap_memory: bool


def _fold(
    what: str,
    fn: Function,
    elems: Any,
    initializer: Any,
    loop: _Loop,
    name: str | None,
    backward: bool,
) -> Any:
    _checked(fn, what)
    with name_scope(name, what, _tensors(elems)), _variables_cached():
        rows = _rows(elems, what)
        count = _count(rows)
        inputs = [TensorArray(row.dtype, size=count).unstack(row) for row in rows]
        if initializer is None:
            first = count - 1 if backward else 0
            value = nest.pack_sequence_as(elems, [array.read(first) for array in inputs])
            start = first if backward else constant(1)
        else:
            value, start = initializer, count if backward else constant(0)

        def step(i: Tensor, current: Any) -> Any:
            at = i - 1 if backward else i
            row = nest.pack_sequence_as(elems, [array.read(at) for array in inputs])
            found = fn(current, row)
            return [at if backward else i + 1, found]

        _, last = while_loop(
            lambda i, _: i > 0 if backward else i < count,
            step,
            [start, value],
            maximum_iterations=count,
            **loop._asdict(),
        )
        return last
