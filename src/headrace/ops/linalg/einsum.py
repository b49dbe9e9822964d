"""tf.einsum: sums of products along labelled axes.

One or two inputs a node: a product of two becomes one matrix product, with the axes that both and the output have in
front.  More inputs are contracted in pairs, cheapest first.
Called by: users.  Threads: any.
Source: behaviour of TF 2.21 (TF 1.15 had the op, but made other nodes); GraphDefs as 2.21
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from itertools import combinations
from typing import Any

import numpy as np

from headrace.base import dtypes, errors
from headrace.base import shapes as shape_rules
from headrace.base.shapes import Shape
from headrace.base.traits import ALIASES, SHARES
from headrace.graph.convert import convert
from headrace.graph.graph import Operation
from headrace.graph.names import name_scope
from headrace.graph.registry import op
from headrace.graph.shape_fns import ShapeContext
from headrace.graph.tensor import Tensor
from headrace.ops.array.constants import ones
from headrace.ops.array.shapes import shape as shape_of
from headrace.ops.linalg.products import batch_matmul_v2, multiplied
from headrace.ops.math.broadcasting import broadcast_gradient_args
from headrace.ops.math.casting import conj
from headrace.ops.math.reduction_gradients import kept_shape
from headrace.ops.tables import make

__all__ = ["einsum"]

_TERM = r"[A-Za-z]*(?:\.\.\.[A-Za-z]*)?"  # in one way only, else what is none takes the square of its length
_EQUATION = re.compile(rf"({_TERM}(?:,{_TERM})*)(?:->({_TERM}))?")
DOTS = "..."
_REST = "."  # an ellipsis as one label


def _labels(term: str) -> list[str]:
    """The labels of `term`, an ellipsis as one."""
    return list(term.replace(DOTS, _REST))


def _term(labels: Sequence[str]) -> str:
    return "".join(labels).replace(_REST, DOTS)


def split_equation(equation: str) -> tuple[list[str], str]:
    """The terms of the inputs, and of the output."""
    inputs, _, output = equation.partition("->")
    return inputs.split(","), output


# -- shapes and values ------------------------------------------------------------------------


def _sized(term: str, shape: Shape, sizes: dict[str, int | None]) -> Shape:
    """Put the sizes of the labels of `term` into `sizes`; what its ellipsis stands for.  Raises ValueError."""
    labels = _labels(term)
    if shape is None:
        for label in labels:
            if label != _REST:
                sizes.setdefault(label, None)
        return None if _REST in labels else ()
    named = len(labels) - (_REST in labels)
    extra = len(shape) - named
    if extra < 0 or (extra and _REST not in labels):
        least = "at least rank" if _REST in labels else "rank"
        raise ValueError(
            f"Shape must be {least} {named} but is rank {len(shape)}: Expected input to have rank {named} but got: "
            f"{len(shape)}; {term!r} names {named} axes of an input of shape {shape_rules.text(shape)}"
        )
    at, rest = 0, shape[:0]
    for label in labels:
        if label == _REST:
            rest, at = shape[at : at + extra], at + extra
            continue
        known = sizes.get(label)
        if known is None:
            sizes[label] = shape[at]
        elif shape[at] is not None and shape[at] != known:
            raise ValueError(
                f"Dimensions must be equal, but are {known} and {shape[at]}: Expected dimension {known} at axis {at} "
                f"of the input shaped {shape_rules.text(shape)} but got dimension {shape[at]}, as both axes are called "
                f"{label!r}"
            )
        at += 1
    return rest


def output_shape(equation: str, given: Sequence[Shape]) -> Shape:
    """The shape that inputs of such shapes give.  Raises ValueError."""
    terms, output = split_equation(equation)
    if len(terms) != len(given) or len(terms) > 2:
        raise ValueError(f"{equation!r} is not an equation of {len(given)} inputs, one or two")
    sizes: dict[str, int | None] = {}
    rest: Shape = ()
    for term, shape in zip(terms, given, strict=True):
        rest = shape_rules.broadcast(rest, _sized(term, shape, sizes))
    labels = _labels(output)
    for label in labels:
        if label != _REST and label not in sizes:
            raise ValueError(f"no input of {equation!r} has an axis {label!r}")
    if _REST in labels:
        if rest is None:
            return None
        at = labels.index(_REST)
        front, back = labels[:at], labels[at + 1 :]
        return (*(sizes[each] for each in front), *rest, *(sizes[each] for each in back))
    if rest:
        raise ValueError(
            f"the output of {equation!r} has no place for the axes {shape_rules.text(rest)} of the ellipsis"
        )
    return tuple(sizes[each] for each in labels)


def _shape(c: ShapeContext) -> Shape:
    return output_shape(c.attr("equation").decode(), c.shapes)


def numbered(term: str, rank: int) -> list[int]:
    """The axes as numbers: letters by their codes, those of the ellipsis -1, -2, … from its end."""
    labels = _labels(term)
    extra = rank - len(labels) + 1
    found: list[int] = []
    for label in labels:
        found.extend(range(-extra, 0) if label == _REST else [ord(label)])
    return found


def _without_repeats(x: Any, axes: list[int]) -> tuple[Any, list[int]]:
    """The diagonal along axes of one name."""
    once = list(dict.fromkeys(axes))
    if len(once) == len(axes):
        return x, axes
    return np.einsum(x, [once.index(axis) for axis in axes], list(range(len(once)))), once


def _summed(x: Any, axes: list[int], kept: set[int]) -> tuple[Any, list[int]]:
    """x summed along the axes that are not in `kept`."""
    gone = tuple(at for at, axis in enumerate(axes) if axis not in kept)
    if not gone:
        return x, axes
    return x.sum(axis=gone, dtype=x.dtype), [axis for axis in axes if axis in kept]


def _spread_to(x: Any, axes: list[int], wanted: list[int]) -> Any:
    """x with its axes in the order `wanted`; one that is wanted twice becomes a diagonal."""
    once = list(dict.fromkeys(wanted))
    x = x.transpose([axes.index(axis) for axis in once])
    if len(once) == len(wanted):
        return x
    sizes = dict(zip(once, x.shape, strict=True))
    whole = np.zeros([sizes[axis] for axis in wanted], x.dtype)
    diagonal = np.einsum(whole, [once.index(axis) for axis in wanted], list(range(len(once))))
    diagonal[...] = x
    return whole


def _product(xp: Any, x: Any, ax: list[int], y: Any, ay: list[int], out: set[int]) -> Any:
    """The sum of products along what only x and y have, as (value, axes)."""
    batch = [axis for axis in ax if axis in ay and axis in out]
    summed = [axis for axis in ax if axis in ay and axis not in out]
    rows = [axis for axis in ax if axis not in ay]
    columns = [axis for axis in ay if axis not in ax]
    x = x.transpose([ax.index(axis) for axis in batch + rows + summed])
    y = y.transpose([ay.index(axis) for axis in batch + summed + columns])
    n, r, s = len(batch), len(rows), len(summed)
    free = (*x.shape[n : n + r], *y.shape[n + s :])
    inner = math.prod(x.shape[n + r :])
    left = x.reshape((*x.shape[:n], math.prod(x.shape[n : n + r]), inner))
    right = y.reshape((*y.shape[:n], inner, math.prod(y.shape[n + s :])))
    if n:
        product = batch_matmul_v2.kernel(xp, left, right, adj_x=False, adj_y=False)  # type: ignore[misc]
    else:
        product = multiplied(xp, left, right, False, False)
    return product.reshape((*product.shape[:n], *free)), batch + rows + columns


@op(
    "Einsum",
    inputs="inputs: N * T",
    outputs="output: T",
    attrs="equation: string; N: int >= 1; T: type",
    shape=_shape,
    traits={ALIASES, SHARES},
)
def einsum_op(xp: Any, *inputs: Any, equation: bytes) -> Any:
    """Sums of products: an axis that the output does not name is summed over, one it names twice becomes a diagonal.

    One or two inputs, whose axes the terms name; the axes of an ellipsis broadcast.
    Raises InvalidArgument if ranks or sizes do not fit the equation.
    Source: TF 2.21 behaviour
    """
    text = equation.decode()
    try:
        size = output_shape(text, [x.shape for x in inputs])
    except ValueError as error:
        raise errors.invalid_argument(str(error)) from None
    assert size is not None
    terms, output = split_equation(text)
    wanted = numbered(output, len(size))
    parts = [
        _without_repeats(x, numbered(term, x.ndim)) for x, term in zip(inputs, terms, strict=True)
    ]
    kept = set(wanted)
    if len(parts) == 1:
        value, axes = _summed(*parts[0], kept)
    else:
        (x, ax), (y, ay) = parts
        x, ax = _summed(x, ax, kept | set(ay))
        y, ay = _summed(y, ay, kept | set(ax))
        value, axes = _product(xp, x, ax, y, ay, kept)
    return _spread_to(value, axes, wanted)


# -- gradient ---------------------------------------------------------------------------------


def _reduced_axes(labels: list[str], kept: set[str]) -> tuple[list[str], list[int]]:
    """The labels that are not in `kept`, and where each stands: counted from the end behind an ellipsis."""
    gone = [label for label in dict.fromkeys(labels) if label not in kept and label != _REST]
    dots = labels.index(_REST) if _REST in labels else len(labels)
    places = [labels.index(label) for label in gone]
    return gone, [at if at < dots else at - len(labels) for at in places]


def _repeated(dout: Any, output: str, term: str, gone: list[str], sizes: Any) -> Tensor:
    """dout repeated along new axes `gone` in front, then arranged as `term` says."""
    whole = make.ConcatV2([sizes, shape_of(dout)], 0, name="concat")
    single = make.ConcatV2([ones(len(gone), dtypes.int32), shape_of(dout)], 0, name="concat")
    spread = make.BroadcastTo(make.Reshape(dout, single), whole)
    made: Tensor = einsum_op([spread], equation=f"{_term(gone)}{output}->{term}")
    return made


def _sizes_at(input_shape: Tensor, axes: list[int]) -> Tensor:
    made: Tensor = make.Pack([input_shape[axis] for axis in axes], name="stack")
    return made


def _gradient_of_one(op: Operation, dout: Any, term: str, output: str) -> Tensor:
    input_shape = shape_of(op.inputs[0])
    gone, axes = _reduced_axes(_labels(term), set(_labels(output)))
    if gone:
        return _repeated(dout, output, term, gone, _sizes_at(input_shape, axes))
    made: Tensor = einsum_op([dout], equation=f"{output}->{term}")
    return made


def _gradient_of_factor(
    dout: Any, other: Any, output: str, other_term: str, term: str, input_shape: Tensor
) -> Tensor:
    """The gradient of the factor that `term` names: dout times the other, repeated along what neither names."""
    labels = _labels(term)
    gone, axes = _reduced_axes(labels, set(_labels(output)) | set(_labels(other_term)))
    left = [label for label in labels if label not in gone]
    product: Tensor = einsum_op([dout, other], equation=f"{output},{other_term}->{_term(left)}")
    if not gone:
        return product
    sizes = _sizes_at(input_shape, axes)
    if len(set(labels)) < len(labels):
        return _repeated(product, _term(left), term, gone, sizes)
    flat = make.Reshape(product, kept_shape(input_shape, convert(np.array(axes, np.int32))))
    made: Tensor = make.BroadcastTo(flat, input_shape)
    return made


def _span(term: str) -> tuple[int, int | None]:
    """Where the axes of the ellipsis begin and end, as a slice."""
    labels = _labels(term)
    at = labels.index(_REST)
    return at, at + 1 - len(labels) or None


@einsum_op.gradient
def _(op: Operation, dout: Any) -> Any:
    terms, output = split_equation(op["equation"].decode())
    if len(terms) == 1:
        return [_gradient_of_one(op, dout, terms[0], output)]
    x, y = op.inputs
    shape_x, shape_y = shape_of(x), shape_of(y)
    with_dots = any(DOTS in term for term in terms)
    first, second = (t if DOTS in t or not with_dots else t + DOTS for t in terms)
    left, right = conj(x), conj(y)
    grad_x = _gradient_of_factor(dout, right, output, second, first, shape_x)
    grad_y = _gradient_of_factor(dout, left, output, first, second, shape_y)
    if not with_dots:
        return grad_x, grad_y
    (from_x, to_x), (from_y, to_y) = _span(first), _span(second)
    if x.raw_shape is not None and y.raw_shape is not None:
        rest = x.raw_shape[from_x:to_x]
        if rest == y.raw_shape[from_y:to_y] and None not in rest:
            return grad_x, grad_y
    axes_x, axes_y = broadcast_gradient_args(shape_x[from_x:to_x], shape_y[from_y:to_y])
    return (
        _summed_back(grad_x, from_x, axes_x, shape_x),
        _summed_back(grad_y, from_y, axes_y, shape_y),
    )


def _summed_back(grad: Tensor, first: int, axes: Any, whole: Tensor) -> Tensor:
    """`grad` summed along the axes that were broadcast, which are counted from `first`."""
    made: Tensor = make.Reshape(make.Sum(grad, make.AddV2(first, axes, name="add")), whole)
    return made


# -- the function -----------------------------------------------------------------------------


def einsum(equation: str, *inputs: Any, **kwargs: Any) -> Tensor:
    """Sums of products of `inputs` along labelled axes: ``einsum("ij,jk->ik", a, b)`` is a matrix product.

    equation: a term of letters for each input, one letter an axis; ``...`` for axes that broadcast.  Axes that the
    output does not name are summed over; without ``->`` it names those that occur once, in alphabetical order.
    kwargs: name; optimize (accepted; pairs are chosen greedily).  Raises ValueError, TypeError.
    """
    name = kwargs.pop("name", None)
    for unused in ("optimize", "greedy"):
        kwargs.pop(unused, None)
    if kwargs:
        raise TypeError(f"einsum takes name and optimize, and not {', '.join(sorted(kwargs))}")
    with name_scope(name, "einsum", [*inputs]):
        terms, output = _parsed(equation, len(inputs))
        values = [convert(value) for value in inputs]
        while len(values) > 2:
            _contract(terms, values, output)
        made: Tensor = einsum_op(values, equation=f"{','.join(terms)}->{output}")
        return made


def _parsed(equation: str, count: int) -> tuple[list[str], str]:
    match = _EQUATION.fullmatch("".join(equation.split()))
    if match is None:
        raise ValueError(
            f"Subscripts have incorrect format: {equation[:200]}; an equation is written like 'ij,jk->ik'"
        )
    terms, output = match[1].split(","), match[2]
    if len(terms) != count:
        raise ValueError(f'Got {count} inputs for equation "{equation}", expecting {len(terms)}')
    letters = [label for term in terms for label in _labels(term) if label != _REST]
    if output is None:
        output = "".join(sorted(label for label in letters if letters.count(label) == 1))
    wanted = _labels(output)
    if len(set(wanted)) < len(wanted):
        raise ValueError(f"the output of {equation!r} names an axis twice")
    unknown = set(wanted) - {*letters, _REST}
    if unknown:
        raise ValueError(
            f"Output subscripts contain the label {min(unknown)} not present in the input subscripts: {equation!r}"
        )
    return terms, output


def _contract(terms: list[str], values: list[Tensor], output: str) -> None:
    """Replace the pair whose product takes the least room by its product.

    Equal terms come first, then pairs that share an axis, then the others.
    """
    sizes: dict[str, int] = {}
    for term, value in zip(terms, values, strict=True):
        known: dict[str, int | None] = {}
        _sized(term, value.raw_shape, known)
        for label, size in known.items():
            sizes[label] = max(sizes.get(label, 1), size or 1)

    def room(labels: Sequence[str]) -> int:
        return math.prod(sizes.get(label, 1) for label in labels)

    def kept(i: int, j: int) -> list[str]:
        needed = set(_labels(output)).union(
            *(_labels(term) for at, term in enumerate(terms) if at not in (i, j))
        )
        both = dict.fromkeys(_labels(terms[j]) + _labels(terms[i]))
        return [label for label in both if label in needed]

    def cost(pair: tuple[int, int]) -> tuple[bool, bool, int]:
        first, second = set(_labels(terms[pair[0]])), set(_labels(terms[pair[1]]))
        shares = not first.isdisjoint(second)
        gained = room(kept(*pair)) - (room([*first]) + room([*second]) if shares else 0)
        return first != second, not shares, gained

    i, j = min(combinations(range(len(terms)), 2), key=cost)
    made = _term(kept(i, j))
    product = einsum_op([values[j], values[i]], equation=f"{terms[j]},{terms[i]}->{made}")
    for at in (j, i):
        del terms[at], values[at]
    # The latest product is the left factor of what comes next.
    terms.append(made)
    values.append(product)
    if len(terms) == 2:
        terms.reverse()
        values.reverse()
