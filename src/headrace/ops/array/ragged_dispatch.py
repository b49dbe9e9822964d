"""Functions of tensors applied to ragged ones: to the innermost values, of which two broadcast as operators do.

What reduces, joins or takes rows has an own function in `ragged_reductions` and `ragged_joining`.
Called by: graph.ragged and graph.registry, by the table that is filled here.  Threads: as graph.
Source: behaviour of TF 1.15 (python/ops/ragged/ragged_dispatch.py); values compared with the oracle
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from headrace.base import errors
from headrace.graph.ragged import CHECK, ELEMENTWISE, LIST, ONE, TWO, Call, Ragged, any_ragged

__all__: list[str] = []


def as_ragged(value: Any) -> Any:
    """A ragged tensor of what may be a ragged value."""
    from headrace.ops.array.ragged import RaggedTensor

    if isinstance(value, RaggedTensor):
        return value
    return RaggedTensor.from_nested_row_splits(value.flat_values, value.nested_row_splits)


def _unary(call: Call, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
    if not isinstance(args[0], Ragged) or any_ragged(args[1:]):
        raise errors.unimplemented(
            "only the first argument may be a ragged tensor here; make the others dense by to_tensor()"
        )
    given = as_ragged(args[0])
    return given.with_flat_values(call(given.flat_values, *args[1:], **kwargs))


def _binary(call: Call, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
    from headrace.ops.array.ragged_operators import applied

    def function(x: Any, y: Any) -> Any:
        return call(x, y, *args[2:], **kwargs)

    x, y = (as_ragged(each) if isinstance(each, Ragged) else each for each in args[:2])
    return applied(function, x, y)


def _check(call: Call, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
    from headrace.ops.array.ragged_operators import aligned

    x, y, _ = aligned(*(as_ragged(each) if isinstance(each, Ragged) else each for each in args[:2]))
    return call(x, y, *args[2:], **kwargs)


def _of_list(call: Call, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
    from headrace.ops.array.ragged_broadcasting import same_rows

    given = [as_ragged(each) if isinstance(each, Ragged) else each for each in args[0]]
    first: Any = next(each for each in given if isinstance(each, Ragged))
    flat = [same_rows(first, each) if isinstance(each, Ragged) else each for each in given]
    return first.with_flat_values(call(flat, *args[1:], **kwargs))


ELEMENTWISE.update({ONE: _unary, TWO: _binary, CHECK: _check, LIST: _of_list})
