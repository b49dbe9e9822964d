"""Shapes: asking for them and changing them without touching the elements.

`shape`, `size` and `rank` are constants where the graph knows the answer, as in TensorFlow.
Called by: op families, gradients, users.  Threads: any.
Source: behaviour of TF 1.15 (core/kernels/shape_ops.h, reshape_op.h, transpose_op.cc,
python/ops/array_ops.py), GraphDefs as 2.21.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import partial
from typing import Any, Final

import numpy as np

from headrace.base import dtypes, errors
from headrace.base import shapes as shape_rules
from headrace.base.shapes import Shape, TensorShape, text
from headrace.base.traits import ALIASES, LIGHT, NEVER_FAILS, OF_SHAPE, PER_RECORD, TELLS_SIZE
from headrace.graph.convert import convert
from headrace.graph.graph import Operation
from headrace.graph.indexed_slices import to_dense
from headrace.graph.names import name_scope
from headrace.graph.ragged import of_ragged_by
from headrace.graph.registry import get, op
from headrace.graph.shape_fns import ShapeContext, scalar
from headrace.graph.sparse import SparseTensor
from headrace.graph.tensor import Tensor
from headrace.ops._kernels.axes import checked_axis, static_axis
from headrace.ops._kernels.known_shapes import Kernel, expanding, reshaping
from headrace.ops._kernels.turning import turned
from headrace.ops.array.constants import constant
from headrace.ops.array.permutations import invert_permutation

__all__ = [
    "adjoint",
    "ensure_shape",
    "expand_dims",
    "matrix_transpose",
    "rank",
    "reshape",
    "shape",
    "shape_n",
    "size",
    "squeeze",
    "transpose",
]

# -- asking -----------------------------------------------------------------------------------


def _length_of(shape: Shape) -> Shape:
    return (None if shape is None else len(shape),)


@op(
    "Shape",
    inputs="input: T",
    outputs="output: out_type",
    attrs="T: type; out_type: {int32, int64} = int32",
    shape=lambda c: _length_of(c.shape(0)),
    traits={NEVER_FAILS, PER_RECORD, LIGHT, OF_SHAPE, TELLS_SIZE},
    differentiable=False,
)
def shape_op(xp: Any, input: Any, *, out_type: dtypes.DType) -> Any:
    """The sizes of the input's dimensions, [rank]."""
    return np.array(np.shape(input), out_type.np)


@op(
    "ShapeN",
    inputs="input: N * T",
    outputs="output: N * out_type",
    attrs="N: int >= 1; T: type; out_type: {int32, int64} = int32",
    shape=lambda c: [_length_of(shape) for shape in c.shapes],
    traits={NEVER_FAILS, OF_SHAPE},
    differentiable=False,
)
def shape_n_op(xp: Any, *input: Any, out_type: dtypes.DType) -> list[Any]:
    """The shapes of several inputs."""
    return [np.array(np.shape(item), out_type.np) for item in input]


@op(
    "Size",
    inputs="input: T",
    outputs="output: out_type",
    attrs="T: type; out_type: {int32, int64} = int32",
    shape=scalar,
    traits={NEVER_FAILS, PER_RECORD, OF_SHAPE, TELLS_SIZE},
    differentiable=False,
)
def size_op(xp: Any, input: Any, *, out_type: dtypes.DType) -> Any:
    """How many elements the input has.

    Raises InvalidArgument if out_type cannot hold that.
    """
    count = np.size(input)
    if count > np.iinfo(out_type.np).max:
        raise errors.invalid_argument(
            f"{count} elements are too many for {out_type.name}; use out_type=tf.int64"
        )
    return np.array(count, out_type.np)


@op(
    "Rank",
    inputs="input: T",
    outputs="output: int32",
    attrs="T: type",
    shape=scalar,
    traits={NEVER_FAILS, PER_RECORD, OF_SHAPE, TELLS_SIZE},
    differentiable=False,
)
def rank_op(xp: Any, input: Any) -> Any:
    """How many dimensions the input has."""
    return np.array(np.ndim(input), np.int32)


def shape(
    input: Any, name: str | None = None, out_type: Any = dtypes.int32, optimize: bool = True
) -> Tensor:
    """The shape of `input`, [rank]; a constant if it is known statically."""
    kind = dtypes.int32 if out_type is None else dtypes.as_dtype(out_type)
    with name_scope(name, "Shape", [input]) as scope:
        if isinstance(input, SparseTensor):
            return get("Cast")(input.dense_shape, DstT=kind)  # type: ignore[no-any-return]
        tensor = convert(input)
        if optimize and shape_rules.is_fully_defined(tensor.raw_shape):
            return constant(list(tensor.raw_shape or ()), kind, name=scope)
        made: Tensor = shape_op(tensor, out_type=kind, name=scope)
        return made


def shape_n(input: Any, out_type: Any = dtypes.int32, name: str | None = None) -> list[Tensor]:
    """The shapes of several tensors of one dtype, in one node."""
    made: list[Tensor] = shape_n_op(list(input), out_type=out_type, name=name)
    return made


@of_ragged_by("headrace.ops.array.ragged_joining")
def size(
    input: Any, name: str | None = None, out_type: Any = dtypes.int32, optimize: bool = True
) -> Tensor:
    """The number of elements of `input`; a constant if it is known statically."""
    kind = dtypes.int32 if out_type is None else dtypes.as_dtype(out_type)
    with name_scope(name, "Size", [input]) as scope:
        if isinstance(input, SparseTensor):
            return get("Prod")(get("Cast")(input.dense_shape, DstT=kind), 0, name=scope)  # type: ignore[no-any-return]
        tensor = convert(input)
        raw = tensor.raw_shape
        if optimize and raw is not None and (None not in raw or 0 in raw):
            return constant(0 if 0 in raw else shape_rules.num_elements(raw), kind, name=scope)
        made: Tensor = size_op(tensor, out_type=kind, name=scope)
        return made


@of_ragged_by("headrace.ops.array.ragged_joining")
def rank(input: Any, name: str | None = None, optimize: bool = True) -> Tensor:
    """The rank of `input`, int32; a constant if it is known statically."""
    with name_scope(name, "Rank", [input]) as scope:
        if isinstance(input, SparseTensor):
            return size_op(input.dense_shape, out_type=dtypes.int32, name=scope)  # type: ignore[no-any-return]
        tensor = convert(input)
        if optimize and tensor.raw_shape is not None:
            return constant(len(tensor.raw_shape), dtypes.int32, name=scope)
        made: Tensor = rank_op(tensor, name=scope)
        return made


# -- Reshape ----------------------------------------------------------------------------------


def reshape_shape(c: ShapeContext) -> Shape:
    """Static shape of `tensor` in the shape that `shape` says.  Raises ValueError where it cannot have it."""
    whole, wanted = c.shape("tensor"), c.shape_value("shape")
    if wanted is None:
        return None
    count = shape_rules.num_elements(whole)
    known = math.prod([size for size in wanted if size is not None])
    if count is None or wanted.count(None) > 1:
        return wanted  # two unknown sizes of a constant are an error of the step
    if None not in wanted:
        if known != count:
            raise ValueError(
                f"Cannot reshape a tensor with {count} elements to shape {text(wanted)} ({known} elements): "
                f"it has shape {text(whole)}"
            )
        return wanted
    if known == 0 or count % known:
        if known == 0 and count == 0:
            return wanted
        raise ValueError(
            f"Dimension size must be evenly divisible by {known} but is {count}: "
            f"{count} elements of shape {text(whole)} cannot fill {text(wanted)} evenly"
        )
    return tuple(count // known if size is None else size for size in wanted)


@op(
    "Reshape",
    inputs="tensor: T; shape: Tshape",
    outputs="output: T",
    attrs="T: type; Tshape: {int32, int64} = int32",
    shape=reshape_shape,
    traits={NEVER_FAILS, PER_RECORD, LIGHT, ALIASES},
)
def reshape_op(xp: Any, tensor: Any, shape: Any) -> Any:
    """The same elements in row-major order in another shape.

    shape [r]; one size may be -1 and takes what is left.
    Raises InvalidArgument if the numbers of elements differ.
    """
    if shape.ndim > 1:
        raise errors.invalid_argument(f"sizes input must be 1-D, not {text(np.shape(shape))}")
    wanted = shape.reshape(-1).tolist()  # of old producers a scalar
    if wanted.count(-1) > 1:
        places = [at for at, size in enumerate(wanted) if size == -1]
        raise errors.invalid_argument(
            f"Only one input size may be -1, not both {places[0]} and {places[1]}: shape is {wanted}"
        )
    if wanted and min(wanted) < -1:
        at = wanted.index(min(wanted))
        raise errors.invalid_argument(
            f"Size {at} must be non-negative, not {wanted[at]}, or -1: shape is {wanted}"
        )
    if -1 in wanted:
        wanted[wanted.index(-1)] = _missing_size(tensor.shape, wanted)
    if _product(wanted) != tensor.size:
        raise errors.invalid_argument(
            f"Input to reshape is a tensor with {np.size(tensor)} values, but the requested shape has "
            f"{_product(wanted)}: {text(np.shape(tensor))} cannot become {text(tuple(wanted))}"
        )
    return np.asarray(tensor).reshape(wanted)


@reshape_op.knowing
def _reshape_to(op: Operation, known: Sequence[Any]) -> Kernel | None:
    return reshaping(known[1], partial(reshape_op.kernel, np))  # type: ignore[arg-type, misc]


@reshape_op.same
def _(op: Operation, known: Sequence[Any]) -> int | None:
    """A tensor whose shape is known to be that already."""
    shape = op.outputs[0]._raw
    return 0 if shape is not None and None not in shape and shape == op.inputs[0]._raw else None


_SQUEEZED: Final = "Tried to squeeze dim index {axis} for tensor with {rank} dimensions"


def _unpermuted(axes: list[int], count: int) -> str:
    wrong = [axis for axis in axes if not 0 <= axis < count]
    if wrong:
        return f"{wrong[0]} is out of range [0 .. {count})"
    missing = min(set(range(count)) - set(axes))
    return f"{missing} is missing from {{{','.join(map(str, axes))}}}"


def _missing_size(sizes: tuple[int, ...], wanted: list[int]) -> int:
    """What stands at the -1.

    Where another size is 0 any number would do; it is then, as in TensorFlow, what is left when
    sizes of 0 are not counted, rounded down.  Raises InvalidArgument if nothing fits.
    """
    asked = [size for size in wanted if size != -1]
    known, count = _product(asked), _product(sizes)
    if known == 0:
        return _product([size for size in sizes if size]) // _product([s for s in asked if s])
    if count % known:
        raise errors.invalid_argument(
            f"Input to reshape is a tensor with {count} values, but the requested shape requires a multiple of "
            f"{known}: "
            f"{text(sizes)} cannot become {text(tuple(wanted))}"
        )
    return count // known


def _product(sizes: Any) -> int:
    return math.prod(sizes)


@reshape_op.gradient
def _(op: Operation, dout: Any) -> tuple[Tensor, None]:
    raw, dout = op.inputs[0].raw_shape, to_dense(dout)
    if raw is not None and raw.count(None) == 1 and 0 not in raw:
        return reshape(dout, [-1 if size is None else size for size in raw]), None
    return _as_input(op, dout), None


def _as_input(op: Operation, dout: Any) -> Tensor:
    return reshape(to_dense(dout), shape(op.inputs[0]))


def reshape(tensor: Any, shape: Any, name: str | None = None) -> Tensor:
    """`tensor` in another shape; one size may be -1."""
    made: Tensor = reshape_op(tensor, shape, name=name)
    return made


def _expand_dims_shape(c: ShapeContext) -> Shape:
    whole, dim = c.shape("input"), c.value("dim")
    if whole is None:
        return None
    if dim is None:
        return (None,) * (len(whole) + 1)
    if dim.size != 1:
        raise ValueError(
            f"'dim' input must be a tensor with a single value, and not of shape {dim.shape}"
        )
    says = f"dim {{axis}} not in the interval [{{low}}, {len(whole)}]"
    at = static_axis(int(dim.reshape(())), len(whole) + 1, "dim", says)
    return (*whole[:at], 1, *whole[at:])


@op(
    "ExpandDims",
    inputs="input: T; dim: Tdim",
    outputs="output: T",
    attrs="T: type; Tdim: {int32, int64} = int32",
    shape=_expand_dims_shape,
    traits={NEVER_FAILS, PER_RECORD, LIGHT, ALIASES},
)
def expand_dims_op(xp: Any, input: Any, dim: Any) -> Any:
    """The input with a dimension of size 1 inserted at dim.

    dim [] in [-r-1, r+1).  Raises InvalidArgument outside.
    Source: TF 1.15 core/kernels/shape_ops.h
    """
    if np.size(dim) != 1:
        raise errors.invalid_argument(
            f"dim must be a tensor with a single value, but has shape {list(np.shape(dim))}"
        )
    says = "Tried to expand dim index {axis} for tensor with {below} dimensions"
    at = checked_axis(np.reshape(dim, ()), np.ndim(input) + 1, "dim", says)
    value = np.asarray(input)
    return value.reshape((*value.shape[:at], 1, *value.shape[at:]))


@expand_dims_op.knowing
def _expand_at(op: Operation, known: Sequence[Any]) -> Kernel | None:
    return expanding(known[1], partial(expand_dims_op.kernel, np))  # type: ignore[arg-type, misc]


@expand_dims_op.gradient
def _(op: Operation, dout: Any) -> tuple[Tensor, None]:
    return _as_input(op, dout), None


@of_ragged_by("headrace.ops.array.ragged_joining")
def expand_dims(input: Any, axis: Any = None, name: str | None = None, dim: Any = None) -> Tensor:
    """`input` with a dimension of size 1 inserted at `axis` (`dim` is its old name)."""
    if axis is not None and dim is not None:
        raise ValueError(
            "Cannot specify both 'dim' and 'axis': the first is the old name of the second"
        )
    if axis is None and dim is None:
        raise ValueError("Must specify an axis argument to tf.expand_dims (dim is its old name)")
    made: Tensor = expand_dims_op(input, dim if axis is None else axis, name=name)
    return made


def _squeeze_axes(axes: list[int], rank: int) -> list[int]:
    says = "squeeze_dims[{at}] not in [{{low}},{{rank}})"
    return [
        static_axis(axis, rank, "squeeze_dims", says.format(at=at)) for at, axis in enumerate(axes)
    ]


def _squeeze_shape(c: ShapeContext) -> Shape:
    whole, wanted = c.shape(0), c.attr("squeeze_dims")
    if whole is None:
        return None
    if not wanted:
        return None if None in whole else tuple(size for size in whole if size != 1)
    axes = _squeeze_axes(wanted, len(whole))
    for axis in axes:
        if whole[axis] not in (None, 1):
            raise ValueError(
                f"Can not squeeze dim[{axis}], expected a dimension of 1, got {whole[axis]}: the shape is {text(whole)}"
            )
    return tuple(size for axis, size in enumerate(whole) if axis not in axes)


@op(
    "Squeeze",
    inputs="input: T",
    outputs="output: T",
    attrs="T: type; squeeze_dims: list(int) >= 0 = []",
    shape=_squeeze_shape,
    traits={NEVER_FAILS, PER_RECORD, ALIASES},
)
def squeeze_op(xp: Any, input: Any, *, squeeze_dims: list[int]) -> Any:
    """The input without its dimensions of size 1, or without those in squeeze_dims.

    Raises InvalidArgument if one of squeeze_dims has another size or does not exist.
    Source: TF 1.15 core/kernels/shape_ops.h
    """
    sizes = np.shape(input)
    axes = [checked_axis(axis, len(sizes), "squeeze_dims", _SQUEEZED) for axis in squeeze_dims]
    for axis in axes:
        if sizes[axis] != 1:
            raise errors.invalid_argument(
                f"Can not squeeze dim[{axis}], expected a dimension of 1, got {sizes[axis]}: the input has shape "
                f"{text(sizes)}"
            )
    if not squeeze_dims:
        axes = [axis for axis, size in enumerate(sizes) if size == 1]
    return np.asarray(input).reshape([size for axis, size in enumerate(sizes) if axis not in axes])


@squeeze_op.gradient
def _(op: Operation, dout: Any) -> Tensor:
    return _as_input(op, dout)


@of_ragged_by("headrace.ops.array.ragged_shaping")
def squeeze(
    input: Any, axis: Any = None, name: str | None = None, squeeze_dims: Any = None
) -> Tensor:
    """`input` without its dimensions of size 1, or without those at `axis` (one or several)."""
    if axis is not None and squeeze_dims is not None:
        raise ValueError(
            "Cannot specify both 'squeeze_dims' and 'axis': the first is the old name of the second"
        )
    axes = squeeze_dims if axis is None else axis
    if axes is None:
        axes = []
    elif np.isscalar(axes):
        axes = [axes]
    made: Tensor = squeeze_op(input, squeeze_dims=list(axes), name=name)
    return made


def _ensured_shape(c: ShapeContext) -> Shape:
    wanted = c.attr("shape")._raw
    return shape_rules.merge(wanted, c.shape(0) if wanted is None else c.with_rank(0, len(wanted)))


@op(
    "EnsureShape",
    inputs="input: T",
    outputs="output: T",
    attrs="shape: shape; T: type",
    shape=_ensured_shape,
    traits={ALIASES},
)
def ensure_shape_op(xp: Any, input: Any, *, shape: TensorShape) -> Any:
    """The input itself.

    Raises InvalidArgument if its shape is not compatible with `shape`.
    Source: TF 1.15 core/kernels/shape_ops.cc
    """
    if not shape_rules.compatible(np.shape(input), shape._raw):
        raise errors.invalid_argument(
            f"Shape of tensor {text(np.shape(input))} is not compatible with expected shape {text(shape._raw)}"
        )
    return input


@ensure_shape_op.gradient
def _(op: Operation, dout: Tensor) -> Tensor:
    return dout


def ensure_shape(x: Any, shape: Any, name: str | None = None) -> Tensor:
    """`x`, whose shape each step checks to be compatible with `shape`."""
    made: Tensor = ensure_shape_op(convert(x), shape=TensorShape(shape), name=name)
    return made


# -- Transpose --------------------------------------------------------------------------------


def _transpose_shape(c: ShapeContext) -> Shape:
    whole, perm = c.shape("x"), c.value("perm")
    length = c.with_rank("perm", 1)
    assert length is not None
    if whole is not None and length[0] not in (None, len(whole)):
        raise ValueError(
            f"Dimension must be {len(whole)} but is {length[0]}: "
            f"perm has {length[0]} elements, but x has shape {text(whole)}"
        )
    if perm is None:
        size = len(whole) if whole is not None else length[0]
        return None if size is None else (None,) * size
    order = [int(axis) for axis in perm]
    for axis in order:
        if not -len(order) <= axis < len(order):
            raise ValueError(
                f"perm dim {axis} is out of range of input rank {len(order)}: perm is {order}"
            )
    if whole is None:
        return (None,) * len(order)
    return tuple(whole[axis] for axis in order)


def _permuted(xp: Any, x: Any, perm: Any) -> Any:
    count = np.ndim(x)
    if np.ndim(perm) != 1 or len(perm) != count:
        raise errors.invalid_argument(
            f"transpose expects a vector of size {count}. But input(1) is a vector of size {np.size(perm)}: perm, of "
            f"shape {text(np.shape(perm))}, should have an axis for each dimension of x"
        )
    order = [int(axis) for axis in perm]
    counted = [axis + count if axis < 0 else axis for axis in order]
    if sorted(counted) != list(range(count)):
        raise errors.invalid_argument(
            f"{_unpermuted(counted, count)}: perm must be a permutation of 0 to {count - 1}, but is {order}"
        )
    # A copy: x may be a variable's own buffer, and later updates must not show in the result.
    return turned(x) if xp is np and counted == [1, 0] else xp.permute_dims(x, counted).copy()


@op(
    "Transpose",
    inputs="x: T; perm: Tperm",
    outputs="y: T",
    attrs="T: type; Tperm: {int32, int64} = int32",
    shape=_transpose_shape,
    traits={NEVER_FAILS, PER_RECORD},
)
def transpose_op(xp: Any, x: Any, perm: Any) -> Any:
    """x with its dimensions in the order of perm: y.shape[i] is x.shape[perm[i]].

    Raises InvalidArgument if perm is not a permutation of x's dimensions.
    """
    return _permuted(xp, x, perm)


@op(
    "ConjugateTranspose",
    inputs="x: T; perm: Tperm",
    outputs="y: T",
    attrs="T: type; Tperm: {int32, int64} = int32",
    shape=_transpose_shape,
)
def conjugate_transpose_op(xp: Any, x: Any, perm: Any) -> Any:
    """Transpose of the conjugate of x.  Raises as Transpose."""
    moved = _permuted(xp, x, perm)
    return xp.conj(moved) if moved.dtype.kind == "c" else moved


@transpose_op.gradient
def _(op: Operation, dout: Tensor) -> tuple[Tensor, None]:
    return transpose(dout, invert_permutation(op.inputs[1])), None


@conjugate_transpose_op.gradient
def _(op: Operation, dout: Tensor) -> tuple[Tensor, None]:
    return transpose(dout, invert_permutation(op.inputs[1]), conjugate=True), None


def transpose(a: Any, perm: Any = None, name: str = "transpose", conjugate: bool = False) -> Tensor:
    """`a` with its dimensions in the order of `perm`, reversed if there is none.

    With `conjugate` complex elements are conjugated too.
    """
    with name_scope(name, "transpose", [a]) as scope:
        a = convert(a, name="a")
        spec = conjugate_transpose_op if conjugate and a.dtype.is_complex else transpose_op
        if perm is None:
            raw = a.raw_shape
            if raw is not None:
                perm = np.arange(len(raw), dtype=np.int32)[::-1]
            else:
                perm = get("Range")(rank_op(a) - 1, -1, -1)
        made: Tensor = spec(a, perm, name=scope)
        return made


def matrix_transpose(a: Any, name: str = "matrix_transpose", conjugate: bool = False) -> Tensor:
    """`a` [..., m, n] as [..., n, m].  Raises ValueError if its rank is below 2."""
    with name_scope(name, "matrix_transpose", [a]):
        a = convert(a, name="a")
        raw = a.raw_shape
        perm: Any
        if raw is not None:
            if len(raw) < 2:
                raise ValueError(
                    f"Argument `a` should be a (batch) matrix with rank >= 2, and {a.name} has shape {text(raw)}"
                )
            perm = [*range(len(raw) - 2), len(raw) - 1, len(raw) - 2]
        else:
            count = rank_op(a)
            perm = get("ConcatV2")(
                [get("Range")(0, count - 2, 1), [count - 1, count - 2]], 0, name="concat"
            )
        return transpose(a, perm, conjugate=conjugate)


def adjoint(matrix: Any, name: str | None = None) -> Tensor:
    """`matrix` [..., m, n] transposed and, if complex, conjugated: [..., n, m]."""
    with name_scope(name, "adjoint", [matrix]):
        return matrix_transpose(convert(matrix, name="matrix"), conjugate=True)
