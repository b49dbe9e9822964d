"""sort, argsort, searchsorted, repeat; histograms, counts, confusion matrices.

Called by: programs.  Threads: as graph.
Source: TF 1.15 behaviour; nodes as 2.21
"""

from __future__ import annotations

from typing import Any

import numpy as np

from headrace.base import dtypes
from headrace.graph.const_value import constant_value
from headrace.graph.convert import convert
from headrace.graph.names import name_scope
from headrace.graph.tensor import Tensor
from headrace.library.around_axis import around_axis
from headrace.library.surplus import without_surplus
from headrace.ops.array.broadcast import broadcast_to, sequence_mask
from headrace.ops.array.constants import constant, ones_like
from headrace.ops.array.gathering import boolean_mask
from headrace.ops.array.joining import concat
from headrace.ops.array.packing import stack
from headrace.ops.array.padding import tile
from headrace.ops.array.shapes import expand_dims, rank, reshape, shape, size
from headrace.ops.array.unique import top_k
from headrace.ops.flow.asserts import Assert
from headrace.ops.flow.checks import assert_less, assert_non_negative
from headrace.ops.flow.identities import with_dependencies
from headrace.ops.math.casting import cast
from headrace.ops.math.clipping import clip_by_value
from headrace.ops.math.reductions import reduce_max
from headrace.ops.tables import make

__all__ = [
    "argsort",
    "bincount",
    "confusion_matrix",
    "histogram_fixed_width",
    "histogram_fixed_width_bins",
    "repeat",
    "searchsorted",
    "sort",
]


def sort(
    values: Any, axis: Any = -1, direction: str = "ASCENDING", name: str | None = None
) -> Tensor:
    """`values` sorted along `axis`; direction: ASCENDING or DESCENDING.  Raises ValueError."""
    with name_scope(name, "sort"):
        return _sorted(values, axis, direction, False)


def argsort(
    values: Any,
    axis: Any = -1,
    direction: str = "ASCENDING",
    stable: bool = False,
    name: str | None = None,
) -> Tensor:
    """Indices (int32) along `axis` in the order of `values`; equal ones stay in order.  Raises ValueError."""
    del stable  # it always is
    with name_scope(name, "argsort"):
        return _sorted(values, axis, direction, True)


def _sorted(values: Any, axis: Any, direction: str, indices: bool) -> Tensor:
    if direction not in ("ASCENDING", "DESCENDING"):
        raise ValueError(f"{direction} should be one of ASCENDING, DESCENDING")
    at = constant_value(convert(axis, name="axis"))
    if at is None:
        raise ValueError("axis must be a constant scalar")
    at = int(at)
    values = convert(values, name="values")
    if direction == "DESCENDING":
        return _falling(values, at, indices)
    turned = values.dtype.is_integer
    if values.dtype.is_unsigned:
        # The complement has the opposite order.
        limit = values.dtype.max
        found = _falling(limit - values, at, indices)
        return found if indices else limit - found
    opposite = make.Neg(values)
    if turned:  # so that the lowest number has one
        opposite = opposite - 1
    found = _falling(opposite, at, indices)
    if indices:
        return found
    back = make.Neg(found)
    return back - 1 if turned else back  # type: ignore[no-any-return]


def _falling(values: Tensor, axis: int, indices: bool) -> Tensor:
    which = 1 if indices else 0
    k = shape(values)[axis]
    ranks = rank(values)
    known = values.shape.ndims
    if axis in (-1, (known or 0) - 1 if known else -1):
        found: Tensor = top_k(values, k)[which]
        return found
    if known is not None:
        if axis < 0:
            axis += known
        order = np.array([*range(axis), known - 1, *range(axis + 1, known - 1), axis])
        transposition = constant(order, name="transposition")
    else:
        at = constant(axis, name="axis") + (ranks if axis < 0 else 0)
        transposition = concat(
            [
                make.Range(0, at, 1),
                make.Range(ranks - 1, ranks, 1),
                make.Range(at + 1, ranks - 1, 1),
                [at],
            ],
            axis=0,
        )
    last = make.Transpose(values, transposition, name="transpose")
    found = top_k(last, k)[which]
    made: Tensor = make.Transpose(found, transposition, name="transpose")
    if known is not None:
        made.set_shape(values.shape)
    return made


def searchsorted(
    sorted_sequence: Any,
    values: Any,
    side: str = "left",
    out_type: Any = dtypes.int32,
    name: str | None = None,
) -> Tensor:
    """Where `values` [..., m] would stand in the sorted rows [..., n]: before equal ones, or behind ("right").

    Raises ValueError for another side.
    """
    count = _last_size(sorted_sequence)
    wanted = _last_size(values)
    rows = reshape(sorted_sequence, [-1, count])
    flat = reshape(values, [-1, wanted])
    if side not in ("left", "right"):
        raise ValueError(f"`side` must be either 'right' or 'left'. Saw: side = {side}.")
    bound = make.UpperBound if side == "right" else make.LowerBound
    found = bound(rows, flat, out_type=out_type, name=name)
    return reshape(found, _internal_shape(values))


def _internal_shape(x: Any) -> Tensor:
    sizes = x.raw_shape if isinstance(x, Tensor) else np.shape(x)
    if sizes is not None and None not in sizes:
        with name_scope("Shape"):
            convert(x)
            return constant(np.array(sizes, np.int32), name="shape_as_tensor")
    return shape(x)


def _last_size(x: Any) -> Tensor:
    made: Tensor = _internal_shape(x)[-1]
    return made


def repeat(input: Any, repeats: Any, axis: int | None = None, name: str | None = None) -> Tensor:
    """Each element along `axis` as often as `repeats` says (a number, or one each); of all elements without an axis.

    Raises ValueError.
    """
    if axis is None:
        input = reshape(input, [-1])
        axis = 0
    with name_scope(name, "Repeat", [input, repeats]):
        data = convert(input, name="data")
        counts = make.Cast(convert(repeats, name="repeats"), DstT=dtypes.int32)
        known = data.shape.ndims
        if known is None:
            return around_axis(data, axis, lambda flat: repeat(flat, counts, 1))
        if not -known <= axis < known:
            raise ValueError(f"axis={axis} is out of bounds for an input of {known} dimensions")
        axis %= known
        sizes = shape(data)
        if counts.shape.num_elements() == 1:
            return _repeated_alike(data, reshape(counts, []), sizes, axis, known)
        counts = broadcast_to(counts, [sizes[axis]])
        most = make.Maximum(constant(0, name="zero"), reduce_max(counts))
        mask = sequence_mask(counts, most)
        wide = expand_dims(data, axis + 1)
        multiples = [1] * (known + 1)
        spread = tile(wide, [*multiples[: axis + 1], most, *multiples[axis + 2 :]])
        made: Tensor = boolean_mask(spread, mask, axis=axis)
        return made


def _repeated_alike(data: Tensor, count: Tensor, sizes: Tensor, axis: int, ranks: int) -> Tensor:
    wide = expand_dims(data, axis + 1)
    multiples: list[Any] = [1] * (ranks + 1)
    multiples[axis + 1] = count
    spread = tile(wide, multiples)
    whole = concat([sizes[:axis], [count * sizes[axis]], sizes[axis + 1 :]], 0)
    return reshape(spread, whole)


# -- histograms and counts --------------------------------------------------------------------


def histogram_fixed_width(
    values: Any,
    value_range: Any,
    nbins: Any = 100,
    dtype: Any = dtypes.int32,
    name: str | None = None,
) -> Tensor:
    """[nbins]: how many values are in each of as many equal parts of value_range [2]; the rest is in the outer ones."""
    with name_scope(name, "histogram_fixed_width", [values, value_range, nbins]) as scope:
        made: Tensor = make.HistogramFixedWidth(values, value_range, nbins, dtype=dtype, name=scope)
        return made


def histogram_fixed_width_bins(
    values: Any,
    value_range: Any,
    nbins: Any = 100,
    dtype: Any = dtypes.int32,
    name: str | None = None,
) -> Tensor:
    """In which of `nbins` equal parts of value_range [2] each value is; the rest is in the outer ones."""
    with name_scope(name, "histogram_fixed_width_bins", [values, value_range, nbins]):
        values = convert(values, name="values")
        sizes = shape(values)
        flat = reshape(values, [-1])
        bounds = convert(value_range, name="value_range")
        count = convert(nbins, dtypes.int32, "nbins")
        check = Assert(make.Greater(count, 0), [f"nbins {count} must > 0"])
        count = with_dependencies([check], count)
        parts = cast(count, values.dtype.base_dtype)
        above = flat - bounds[0]
        scaled = (
            make.RealDiv(above, bounds[1] - bounds[0], name="scaled_values")
            if (values.dtype.is_floating)
            else cast(above, dtypes.float64) / cast(bounds[1] - bounds[0], dtypes.float64)
        )
        if not values.dtype.is_floating:
            parts = cast(count, dtypes.float64)
        indices = make.Floor(parts * scaled, name="indices")
        indices = cast(clip_by_value(indices, 0, parts - 1), dtypes.as_dtype(dtype))
        return reshape(indices, sizes)


def bincount(
    arr: Any,
    weights: Any = None,
    minlength: Any = None,
    maxlength: Any = None,
    dtype: Any = dtypes.int32,
    name: str | None = None,
) -> Tensor:
    """How often each number from 0 on is in `arr`, or the sum of its weights: [largest + 1].

    minlength, maxlength: at least, at most as many.
    """
    with name_scope(name, "bincount"):
        found = convert(arr, name="arr")
        if found.dtype.base_dtype not in (dtypes.int32, dtypes.int64):
            found = cast(found, dtypes.int32)
        kinds = convert(weights, name="weights") if weights is not None else None
        some = make.Greater(size(found), 0)
        length = cast(some, found.dtype.base_dtype) * (reduce_max(found) + 1)
        if minlength is not None:
            least = convert(minlength, found.dtype.base_dtype, "minlength")
            length = make.Maximum(least, length)
        if maxlength is not None:
            most = convert(maxlength, found.dtype.base_dtype, "maxlength")
            length = make.Minimum(most, length)
        if kinds is None:
            flat = reshape(found, [-1])
            kinds = constant([], dtypes.int32 if dtype is None else dtypes.as_dtype(dtype))
        else:
            kinds = reshape(kinds, [-1])
            flat = reshape(found, [-1])
        made: Tensor = make.DenseBincount(flat, length, kinds)
        return made


def confusion_matrix(
    labels: Any,
    predictions: Any,
    num_classes: Any = None,
    dtype: Any = dtypes.int32,
    name: str | None = None,
    weights: Any = None,
) -> Tensor:
    """[num_classes, num_classes]: how often each label (row) was predicted to be each class (column).

    num_classes: one more than the largest of both if None.  Raises ValueError if shapes do not fit.
    """
    kind = dtypes.as_dtype(dtype)
    with name_scope(name, "confusion_matrix", [predictions, labels, num_classes, weights]):
        labels, predictions = _squeezed(
            convert(labels, name="labels"), convert(predictions, name="predictions")
        )
        predictions, labels = cast(predictions, dtypes.int64), cast(labels, dtypes.int64)
        labels = with_dependencies(
            [assert_non_negative(labels, message="`labels` contains negative values")], labels
        )
        check = assert_non_negative(predictions, message="`predictions` contains negative values")
        predictions = with_dependencies([check], predictions)
        if num_classes is None:
            num_classes = make.Maximum(reduce_max(predictions), reduce_max(labels)) + 1
        else:
            count = cast(num_classes, dtypes.int64)
            labels = with_dependencies(
                [assert_less(labels, count, message="`labels` out of bound")], labels
            )
            check = assert_less(predictions, count, message="`predictions` out of bound")
            predictions = with_dependencies([check], predictions)
        if weights is not None:
            weights = convert(weights, name="weights")
            predictions.shape.assert_is_compatible_with(weights.shape)
            weights = cast(weights, kind)
        whole = stack([num_classes, num_classes])
        where = stack([labels, predictions], axis=1)
        values = ones_like(predictions, kind) if weights is None else weights
        made: Tensor = make.ScatterNd(where, values, cast(whole, dtypes.int64))
        return made


def _squeezed(labels: Tensor, predictions: Tensor) -> tuple[Tensor, Tensor]:
    """Both, the one of one dimension more than the other without its last, of size 1."""
    with name_scope("remove_squeezable_dimensions"):
        labels, predictions = without_surplus(labels, predictions)
    predictions.shape.assert_is_compatible_with(labels.shape)
    return labels, predictions
