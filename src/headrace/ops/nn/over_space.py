"""Dilated windows, by operations that know none: every n-th place is moved into the batch and back.

Called by: programs, ops.nn.convolution_calls, ops.nn.pooling_calls.  Threads: as graph.
Source: TF 1.15 and 2.21 behaviour of with_space_to_batch; nodes checked against the oracle
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from headrace.graph.const_value import constant_value
from headrace.graph.convert import convert
from headrace.graph.names import name_scope
from headrace.graph.tensor import Tensor
from headrace.ops.array.constants import constant
from headrace.ops.array.joining import concat
from headrace.ops.array.packing import stack
from headrace.ops.array.shapes import shape as shape_of
from headrace.ops.array.space_batch import batch_to_space_nd, space_to_batch_nd

__all__ = ["with_space_to_batch"]

OnSpace = Callable[[Any, Any], Tensor]
"""make(input, padding): an operation on windows that are not dilated."""
Pairs = list[list[int]]


def over_space(
    input: Tensor,
    window: Sequence[int | None] | None,
    rate: Sequence[int],
    padding: Any,
    data_format: str | None,
    make: OnSpace,
    filter_shape: Sequence[int | None] | None = None,
) -> Tensor:
    """make(input, padding), its windows dilated by `rate`.

    window: sizes of the filter's spatial dimensions.  padding: SAME, VALID, or two numbers for each of the input's
    dimensions.  filter_shape: for a node of its own.
    Raises ValueError where the window's sizes, or how many dimensions the input has, are needed and not known.
    """
    rates = constant(list(rate), "int32", name="dilation_rate")
    given = [int(n) for n in np.asarray(constant_value(rates))]
    if any(n < 1 for n in given):
        raise ValueError(f"all values of `dilation_rate` must be positive, and they are {given}")
    if all(n == 1 for n in given):
        return make(input, padding)
    if padding == "SAME" and filter_shape is not None and None not in filter_shape:
        constant(list(filter_shape), "int32", name="filter_shape")
    raw = input.raw_shape
    if raw is None or len(raw) != len(given) + 2:
        raise ValueError(
            f"a dilation of {given} is for {len(given) + 2} dimensions, and {input.name} is {input.shape}"
        )
    channels_first = data_format is not None and data_format.startswith("NC")
    first = 2 if channels_first else 1
    if not isinstance(padding, str):
        padding = [list(pair) for pair in padding][first : first + len(given)]
    base, node = _base(window, given, padding)
    sizes = raw[first : first + len(given)]
    pads: Any
    cuts: Any
    if None in sizes:
        dynamic = shape_of(input)
        size = stack([dynamic[first + at] for at in range(len(given))])
        pads, cuts = _at_run_time(size, base, node, rates, len(given))
        pads, cuts = (_with_channels(pairs, channels_first, len(given)) for pairs in (pads, cuts))
    else:
        before = [[0, 0]] if channels_first else []
        pads, cuts = _known([int(n or 0) for n in sizes], base, given, padding)
        pads, cuts = before + pads, before + cuts
    blocks = [1, *given] if channels_first else given
    moved = space_to_batch_nd(input, blocks, pads)
    made: Tensor = batch_to_space_nd(make(moved, "VALID"), blocks, cuts)
    return made


def _base(
    window: Sequence[int | None] | None, rate: Sequence[int], padding: str | Pairs
) -> tuple[Pairs, Tensor | None]:
    """How much a dilated window reaches beyond the input on either side, and a node of that if there is any."""
    if not isinstance(padding, str):
        return padding, None
    if padding == "VALID":
        return [[0, 0]] * len(rate), None
    if padding != "SAME":
        raise ValueError(f"padding is SAME or VALID, not {padding}")
    if window is None or None in window:
        raise ValueError("SAME padding of a dilated filter needs the filter's sizes")
    spans = [(int(w or 0) - 1) * n for w, n in zip(window, rate, strict=True)]
    base = [[span // 2, span - span // 2] for span in spans]
    return base, constant(base, "int32", name="stack")


_SCOPE = "required_space_to_batch_paddings"


def _known(
    sizes: Sequence[int], base: Pairs, rate: Sequence[int], padding: str | Pairs
) -> tuple[Pairs, Pairs]:
    """Paddings and crops of an input whose sizes are known while the graph is built."""
    with name_scope(None, _SCOPE):
        constant(list(sizes), "int32", name="input_shape")
        if padding != "SAME":
            constant(base, "int32", name="base_paddings")
        over = [
            -(n + before + after) % block
            for n, (before, after), block in zip(sizes, base, rate, strict=True)
        ]
        pads = [[before, after + more] for (before, after), more in zip(base, over, strict=True)]
        cuts = [[0, more] for more in over]
        constant(pads, "int32", name="paddings")
        constant(cuts, "int32", name="crops")
    return pads, cuts


def _at_run_time(
    size: Tensor, base: Pairs, node: Tensor | None, rates: Tensor, count: int
) -> tuple[Tensor, Tensor]:
    """As `_known`, of `size` [count]."""
    with name_scope(None, _SCOPE):
        pairs: Any = constant(base, "int32", name="base_paddings") if node is None else node
        before, after = pairs[:, 0], pairs[:, 1]
        more = (rates - (size + before + after) % rates) % rates
        end = after + more
        pads = stack([[before[at], end[at]] for at in range(count)], name="paddings")
        return pads, stack([[0, more[at]] for at in range(count)], name="crops")


def _with_channels(pairs: Any, channels_first: bool, count: int) -> Tensor:
    rest = pairs[0:count]
    return concat([[[0, 0]], rest] if channels_first else [rest], 0)


def with_space_to_batch(
    input: Any,
    dilation_rate: Any,
    padding: str,
    op: Callable[[Any, int, Any], Any],
    filter_shape: Any = None,
    spatial_dims: Any = None,
    data_format: str | None = None,
) -> Tensor:
    """op(input, number of spatial dimensions, padding) as if its windows were dilated.

    dilation_rate: a number a spatial dimension.  padding: SAME, which needs filter_shape, or VALID.
    spatial_dims: which dimensions those are, all but the batch and the channels.  Raises ValueError.
    """
    x = convert(input, name="input")
    known = constant_value(convert(dilation_rate, name="dilation_rate"))
    if known is None or known.ndim != 1 or (known < 1).any():
        raise ValueError(
            f"dilation_rate must be positive, a number a spatial dimension, known when the graph is built: {known}"
        )
    rate = [int(each) for each in known]
    first = 2 if data_format is not None and data_format.startswith("NC") else 1
    wanted = list(range(first, first + len(rate)))
    if spatial_dims is not None and sorted(int(each) for each in spatial_dims) != wanted:
        raise ValueError(
            f"spatial_dims must be {wanted} with {data_format or 'channels last'}: {spatial_dims}"
        )
    window = None if filter_shape is None else [int(each) for each in filter_shape][: len(rate)]
    return over_space(
        x, window, rate, padding, data_format, lambda moved, pads: op(moved, len(rate), pads)
    )
