"""assert_rank, assert_rank_at_least, assert_rank_in, assert_scalar: checks of how many dimensions tensors have.

What is known while the graph is built is checked then; the rest by `Assert` in a step.
Called by: shape checks, programs.  Threads: as graph.
Source: TF 1.15 behaviour; nodes as 2.21
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import reduce
from typing import Any

from headrace.base import dtypes
from headrace.graph.const_value import constant_value
from headrace.graph.convert import convert
from headrace.graph.graph import Operation
from headrace.graph.names import name_scope
from headrace.graph.sparse import SparseTensor
from headrace.graph.tensor import Tensor
from headrace.library.checks.types import assert_type, prefixed
from headrace.ops.array import shapes
from headrace.ops.flow.asserts import Assert
from headrace.ops.flow.identities import no_op, with_dependencies
from headrace.ops.tables import make

__all__ = ["assert_rank", "assert_rank_at_least", "assert_rank_in", "assert_scalar"]


def _dense(x: Any) -> Any:
    return x if isinstance(x, SparseTensor) else convert(x, name="x")


def _name_of(x: Any) -> str:
    return str(x.values.name if isinstance(x, SparseTensor) else x.name)


def _static_rank(x: Any) -> int | None:
    found: int | None = x.get_shape().ndims
    return found


def _known_ranks(ranks: Sequence[Tensor]) -> list[Any]:
    """What `ranks` are, as far as it is known.  Raises TypeError, ValueError if one can be no rank."""
    for each in ranks:
        assert_type(each, dtypes.int32)
    known = [constant_value(each) for each in ranks]
    for each in known:
        if each is not None and each.ndim:
            raise ValueError(f"Rank must be a scalar.  It has shape {each.shape}")
    return [None if each is None else int(each) for each in known]


def _checked(
    x: Any,
    ranks: list[Tensor],
    holds: Callable[[int, list[int]], bool],
    condition: Callable[[Tensor, list[Tensor]], Tensor],
    failure: Callable[[list[int]], str],
    data: Any,
    summarize: int | None,
) -> Operation:
    known, rank = _known_ranks(ranks), _static_rank(x)
    if rank is not None and all(each is not None for each in known):
        if not holds(rank, known):
            raise ValueError(f"{failure(known)}  Received rank {rank}, shape {x.get_shape()}")
        made: Operation = no_op("static_checks_determined_all_ok")
        return made
    found = condition(shapes.rank(x), ranks)
    scalars = [
        assert_rank(each, 0, data=["Rank must be a scalar", each])
        for each, value in zip(ranks, known, strict=True)
        if value is None
    ]
    if scalars:
        found = with_dependencies(scalars, found)
    return Assert(found, data, summarize=summarize)


def _data(x: Any, ranks: list[Tensor], says: str, message: str | None, data: Any) -> Any:
    if data is not None:
        return data
    return [
        prefixed(message),
        f"Tensor {_name_of(x)} {says}",
        *ranks,
        "Received shape: ",
        shapes.shape(x),
    ]


def assert_rank(
    x: Any,
    rank: Any,
    data: Any = None,
    summarize: int | None = None,
    message: str | None = None,
    name: str | None = None,
) -> Operation:
    """x has `rank` dimensions.  Raises ValueError if it is known not to."""
    with name_scope(name, "assert_rank", _values(x, data)):
        x, ranks = _dense(x), [convert(rank, name="rank")]
        return _checked(
            x,
            ranks,
            lambda found, wanted: found == wanted[0],
            lambda found, wanted: make.Equal(found, wanted[0]),
            lambda wanted: f"{prefixed(message)}Tensor {_name_of(x)} must have rank {wanted[0]}.",
            _data(x, ranks, "must have rank", message, data),
            summarize,
        )


def assert_rank_at_least(
    x: Any,
    rank: Any,
    data: Any = None,
    summarize: int | None = None,
    message: str | None = None,
    name: str | None = None,
) -> Operation:
    """x has `rank` dimensions or more.  Raises ValueError if it is known not to."""
    with name_scope(name, "assert_rank_at_least", _values(x, data)):
        x, ranks = _dense(x), [convert(rank, name="rank")]
        return _checked(
            x,
            ranks,
            lambda found, wanted: found >= wanted[0],
            lambda found, wanted: make.GreaterEqual(found, wanted[0]),
            lambda wanted: (
                f"{prefixed(message)}Tensor {_name_of(x)} must have rank at least {wanted[0]}."
            ),
            _data(x, ranks, "must have rank at least", message, data),
            summarize,
        )


def assert_rank_in(
    x: Any,
    ranks: Sequence[Any],
    data: Any = None,
    summarize: int | None = None,
    message: str | None = None,
    name: str | None = None,
) -> Operation:
    """x has one of `ranks` dimensions.  Raises ValueError if it is known not to."""
    with name_scope(name, "assert_rank_in", _values(x, data)):
        x = _dense(x)
        wanted = [convert(rank, name="rank") for rank in ranks]
        return _checked(
            x,
            wanted,
            lambda found, known: found in known,
            lambda found, each: reduce(make.LogicalOr, [make.Equal(one, found) for one in each]),
            lambda known: (
                f"{prefixed(message)}Tensor {_name_of(x)} must have rank in {tuple(known)}."
            ),
            _data(x, wanted, "must have rank in", message, data),
            summarize,
        )


def _values(x: Any, data: Any) -> list[Any]:
    return [x.values if isinstance(x, SparseTensor) else x, *(data or ())]


def assert_scalar(tensor: Any, name: str | None = None, message: str | None = None) -> Tensor:
    """`tensor`, which is known to be a scalar.  Raises ValueError if it is not."""
    with name_scope(name, "assert_scalar", [tensor]):
        found = convert(tensor, name="tensor")
        if found.get_shape().ndims != 0:
            raise ValueError(
                f"{prefixed(message)}Expected scalar shape for {found.name}, saw shape: {found.get_shape()}."
            )
        return found
