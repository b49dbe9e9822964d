"""Matrix products, inverses and tensordot.

Half and bfloat16 products are computed in single precision and rounded once.
Called by: operators (@), nn, users.  Threads: kernels any; wrappers as graph.
Source: TF 1.15 core/kernels/matmul_op.cc, batch_matmul_op_impl.h, matrix_inverse_op.cc; nodes as 2.21
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from headrace.base import dtypes, errors
from headrace.base import shapes as shape_rules
from headrace.base.dtypes import DType
from headrace.base.shapes import Shape, text
from headrace.base.traits import NEVER_FAILS, SHARES, TOGETHER
from headrace.graph.convert import convert
from headrace.graph.graph import Operation
from headrace.graph.names import name_scope
from headrace.graph.registry import op
from headrace.graph.shape_fns import ShapeContext
from headrace.graph.tensor import Tensor
from headrace.ops._kernels.product_parts import (
    LARGE,
    count_of_parts,
    in_parts,
    multiply_matrices,
)
from headrace.ops.array.shapes import shape, transpose
from headrace.ops.linalg.diagonals import matrix_diag_part
from headrace.ops.math.broadcasting import broadcast_gradient_args
from headrace.ops.math.casting import cast, conj
from headrace.ops.tables import FLOATS, make
from headrace.run.exec.worker_pool import hold_blas, parallel_for

__all__ = ["batch_matmul", "matmul", "matrix_inverse", "trace"]

THREADED = 1 << 18  # from which OpenBLAS would use threads of its own
THREADED_VECTOR = 9216  # the same, where one of the factors is a vector

# -- MatMul -----------------------------------------------------------------------------------


def product_shape(c: ShapeContext) -> Shape:
    """Static shape of a product of two matrices."""
    a, b = c.with_rank("a", 2), c.with_rank("b", 2)
    assert a is not None
    assert b is not None
    rows, inner_a = a[::-1] if c.attr("transpose_a") else a
    inner_b, columns = b[::-1] if c.attr("transpose_b") else b
    if inner_a is not None and inner_b is not None and inner_a != inner_b:
        raise ValueError(_disagreement(a, b, inner_a, inner_b))
    return (rows, columns)


def _disagreement(a: Any, b: Any, inner_a: int, inner_b: int) -> str:
    return (
        f"Dimensions must be equal, but are {inner_a} and {inner_b}: "
        f"these are the inner dimensions of a {text(tuple(a))} and b {text(tuple(b))}"
    )


def _single(x: Any) -> Any:
    """Half and bfloat16 as float32, everything else as it is."""
    return x.astype(np.float32) if x.dtype.itemsize == 2 and x.dtype.kind in "fV" else x


def _shared(x: Any, y: Any, work: int, out: Any = None) -> Any:
    """The product of two matrices, which takes `work` multiplications; large ones on the pool's threads."""
    if x.dtype.kind not in "fc" or (work < THREADED and min(x.shape[0], y.shape[1]) > 1):
        return np.matmul(x, y, out=out)
    hold_blas()
    if work < LARGE:
        return multiply_matrices(x, y, out)
    return in_parts(x, y, work, out)


def _is_outer(x: Any, y: Any, work: int) -> bool:
    """Whether each element is one product, for which BLAS takes three times as long as NumPy."""
    return bool(
        y.shape[0] == 1
        and work < LARGE
        and x.dtype == y.dtype
        and x.dtype.kind == "f"
        and x.dtype.itemsize > 2
    )


def multiplied_into(out: Any, a: Any, b: Any, transpose_a: bool, transpose_b: bool) -> Any:
    """As `multiplied`, of matrices, in `out` if the product is such an array."""
    x, y = a.T if transpose_a else a, b.T if transpose_b else b
    fits = x.shape[1] == y.shape[0] and out.shape == (x.shape[0], y.shape[1])
    if not fits or not out.dtype == a.dtype == b.dtype:
        return multiplied(np, a, b, transpose_a, transpose_b)
    work = x.shape[0] * y.size
    if x.shape[1] == 1 and _is_outer(x, y, work):
        return np.multiply(x, y, out)
    return _shared(x, y, work, out)


def multiplied(xp: Any, a: Any, b: Any, transpose_a: bool, transpose_b: bool) -> Any:
    """The product of two matrices.  Raises InvalidArgument if they are none or do not fit."""
    if a.ndim != 2 or b.ndim != 2:
        raise errors.invalid_argument(
            f"In[{int(a.ndim == 2)}] is not a matrix: a and b have shapes {text(a.shape)} and {text(b.shape)}"
        )
    x = a.T if transpose_a else a
    y = b.T if transpose_b else b
    try:
        work = x.shape[0] * y.size
        if x.shape[1] == 1 and xp is np and _is_outer(x, y, work):
            return np.multiply(x, y)
        if a.dtype.itemsize == 2:
            return _shared(_single(x), _single(y), work).astype(a.dtype, copy=False)
        return xp.matmul(x, y) if work < THREADED_VECTOR else _shared(x, y, work)
    except ValueError:
        raise _incompatible(a.shape, b.shape, x.shape[1], y.shape[0]) from None


@op(
    "MatMul",
    inputs="a: T; b: T",
    outputs="product: T",
    attrs="transpose_a: bool = false; transpose_b: bool = false; "
    f"T: {{{FLOATS}, int32, int64, uint8, uint16, uint32, uint64, complex64, complex128}}; "
    "grad_a: bool = false; grad_b: bool = false",
    shape=product_shape,
    traits={NEVER_FAILS, SHARES, TOGETHER},
)
def matmul_op(xp: Any, a: Any, b: Any, *, transpose_a: bool, transpose_b: bool) -> Any:
    """The product of two matrices, each transposed (not conjugated) first if asked for.

    a [m, k], b [k, n]; product [m, n].
    Raises InvalidArgument if they are no matrices or the inner dimensions differ.
    Source: TF 1.15 core/kernels/matmul_op.cc
    """
    return multiplied(xp, a, b, transpose_a, transpose_b)


@matmul_op.gradient
def _(op: Operation, dout: Any) -> tuple[Tensor, Tensor]:
    a, b = conj(op.inputs[0]), conj(op.inputs[1])

    def da(x: Any, y: Any, tx: bool, ty: bool) -> Any:
        return matmul_op(x, y, transpose_a=tx, transpose_b=ty, grad_a=True)

    def db(x: Any, y: Any, tx: bool, ty: bool) -> Any:
        return matmul_op(x, y, transpose_a=tx, transpose_b=ty, grad_b=True)

    return _product_gradients(a, b, dout, op["transpose_a"], op["transpose_b"], da, db)


def _product_gradients(
    a: Any, b: Any, dout: Any, flip_a: bool, flip_b: bool, da: Any, db: Any
) -> tuple[Any, Any]:
    """Gradients of op_a(a) · op_b(b); da, db(x, y, flip_x, flip_y) multiply."""
    if not flip_a and not flip_b:
        return da(dout, b, False, True), db(a, dout, True, False)
    if not flip_a:
        return da(dout, b, False, False), db(dout, a, True, False)
    if not flip_b:
        return da(b, dout, False, True), db(a, dout, False, False)
    return da(b, dout, True, True), db(dout, a, True, True)


@op(
    "SparseMatMul",
    inputs="a: Ta; b: Tb",
    outputs="product: float",
    attrs="transpose_a: bool = false; transpose_b: bool = false; a_is_sparse: bool = false; "
    "b_is_sparse: bool = false; Ta: {float, bfloat16} = float; Tb: {float, bfloat16} = float",
    shape=product_shape,
    traits={SHARES},
)
def sparse_matmul(xp: Any, a: Any, b: Any, *, transpose_a: bool, transpose_b: bool) -> Any:
    """MatMul of matrices that are expected to hold many zeros, always as float32.  Raises as MatMul.

    Source: TF 1.15 core/kernels/sparse_matmul_op.cc
    """
    return multiplied(xp, _single(a), _single(b), transpose_a, transpose_b)


@sparse_matmul.gradient
def _(op: Operation, dout: Any) -> tuple[Any, Any]:
    a, b = op.inputs
    zeros = {id(a): op["a_is_sparse"], id(b): op["b_is_sparse"]}

    def times(into: Tensor) -> Any:
        def multiply(x: Any, y: Any, flip_x: bool, flip_y: bool) -> Any:
            product = matmul if x.dtype.base_dtype is y.dtype.base_dtype else sparse_matmul
            few_x, few_y = zeros.get(id(x), False), zeros.get(id(y), False)
            y = transpose(y) if flip_y else y
            made = product(x, y, transpose_a=flip_x, a_is_sparse=few_x, b_is_sparse=few_y)
            return cast(made, into.dtype.base_dtype)

        return multiply

    return _product_gradients(a, b, dout, op["transpose_a"], op["transpose_b"], times(a), times(b))


# -- BatchMatMul ------------------------------------------------------------------------------


def _batch_shape(c: ShapeContext) -> Shape:
    x, y = c.with_rank_at_least("x", 2), c.with_rank_at_least("y", 2)
    if c.op.type == "BatchMatMul" and (known := x or y):  # batches are equal
        x, y = x or (*known[:-2], None, None), y or (*known[:-2], None, None)
    if x is None or y is None:
        return None
    rows, inner_x = x[:-3:-1] if c.attr("adj_x") else x[-2:]
    inner_y, columns = y[:-3:-1] if c.attr("adj_y") else y[-2:]
    if inner_x is not None and inner_y is not None and inner_x != inner_y:
        raise ValueError(_disagreement(x, y, inner_x, inner_y))
    combine = shape_rules.merge if c.op.type == "BatchMatMul" else shape_rules.broadcast
    return (*(combine(x[:-2], y[:-2]) or ()), rows, columns)


def _incompatible(a: Any, b: Any, inner_a: int, inner_b: int) -> errors.OpError:
    return errors.invalid_argument(
        f"Matrix size-incompatible: In[0]: {text(a)}, In[1]: {text(b)}: the inner dimensions, {inner_a} and "
        f"{inner_b}, must be equal"
    )


def _adjoint(xp: Any, x: Any) -> Any:
    flipped = np.swapaxes(x, -1, -2)
    return xp.conj(flipped) if x.dtype.kind == "c" else flipped


def _batch_product(xp: Any, x: Any, y: Any, adj_x: bool, adj_y: bool) -> tuple[Any, Any]:
    """The factors, adjoint where asked for, checked.  Raises InvalidArgument."""
    if x.ndim < 2 or y.ndim < 2:
        raise errors.invalid_argument(
            f"In[{int(x.ndim >= 2)}] ndims must be >= 2: {(x if x.ndim < 2 else y).ndim}; x and y have shapes "
            f"{text(x.shape)} and {text(y.shape)}"
        )
    left = _adjoint(xp, x) if adj_x else x
    right = _adjoint(xp, y) if adj_y else y
    if left.shape[-1] != right.shape[-2]:
        raise _incompatible(x.shape, y.shape, left.shape[-1], right.shape[-2])
    return left, right


def _products(xp: Any, x: Any, y: Any, kind: Any) -> Any:
    """Products of pairs of matrices, many of large ones on the pool's threads."""
    x, y = _single(x), _single(y)
    each = math.prod(x.shape[-2:]) * y.shape[-1]
    if each >= THREADED_VECTOR:
        hold_blas()
    count = len(x) if x.ndim > 2 and x.ndim == y.ndim and len(x) == len(y) else 1
    if count == 1 or each < THREADED_VECTOR or count * each < LARGE:
        return xp.matmul(x, y).astype(kind, copy=False)
    batch = np.broadcast_shapes(x.shape[:-2], y.shape[:-2])
    out = np.empty((*batch, x.shape[-2], y.shape[-1]), np.result_type(x, y))
    some = -(-count // count_of_parts(count * each))

    def part(first: int) -> None:
        chosen = slice(first, first + some)
        np.matmul(x[chosen], y[chosen], out=out[chosen])

    parallel_for(part, range(0, count, some), products=True)
    return out.astype(kind, copy=False)


_BATCH = "adj_x: bool = false; adj_y: bool = false; grad_x: bool = false; grad_y: bool = false"


@op(
    "BatchMatMul",
    inputs="x: T; y: T",
    outputs="output: T",
    attrs=f"T: {{{FLOATS}, int32, int64, complex64, complex128}}; {_BATCH}",
    shape=_batch_shape,
    traits={NEVER_FAILS, SHARES},
)
def batch_matmul_op(xp: Any, x: Any, y: Any, *, adj_x: bool, adj_y: bool) -> Any:
    """Products of pairs of matrices, each conjugated and transposed first if asked for.

    x [..., m, k], y [..., k, n] with equal leading dimensions; output [..., m, n].
    Raises InvalidArgument if shapes do not fit.
    Source: TF 1.15 core/kernels/batch_matmul_op_impl.h
    """
    if x.shape[:-2] != y.shape[:-2] or x.ndim != y.ndim:
        raise errors.invalid_argument(
            f"x and y must have equal leading dimensions, but have shapes {list(x.shape)} and {list(y.shape)}"
        )
    return _products(xp, *_batch_product(xp, x, y, adj_x, adj_y), x.dtype)


@op(
    "BatchMatMulV2",
    inputs="x: T; y: T",
    outputs="output: T",
    attrs=f"T: {{{FLOATS}, int16, int32, int64, uint8, uint16, uint32, uint64, complex64, complex128}}; {_BATCH}",
    shape=_batch_shape,
    traits={NEVER_FAILS, SHARES},
)
def batch_matmul_v2(xp: Any, x: Any, y: Any, *, adj_x: bool, adj_y: bool) -> Any:
    """BatchMatMul whose leading dimensions broadcast.  Raises as BatchMatMul.

    Source: TF 1.15 core/kernels/batch_matmul_op_impl.h
    """
    return _products(xp, *_batch_product(xp, x, y, adj_x, adj_y), x.dtype)


_V3_INPUT = f"{{{FLOATS}, uint8, int8, int16, int32, int64, complex64, complex128}}"


@op(
    "BatchMatMulV3",
    inputs="x: Ta; y: Tb",
    outputs="output: Tout",
    attrs=f"Ta: {_V3_INPUT}; Tb: {_V3_INPUT}; Tout: {{{FLOATS}, int16, int32, int64, complex64, complex128}}; {_BATCH}",
    shape=_batch_shape,
    traits={NEVER_FAILS, SHARES},
)
def batch_matmul_v3(xp: Any, x: Any, y: Any, *, adj_x: bool, adj_y: bool, Tout: DType) -> Any:
    """BatchMatMulV2 of possibly different types, computed in the type of the output.  Raises as BatchMatMul.

    Source: TF 2.6 core/kernels/matmul_op_impl.h
    """
    left, right = _batch_product(xp, x, y, adj_x, adj_y)
    return _products(
        xp, left.astype(Tout.np, copy=False), right.astype(Tout.np, copy=False), Tout.np
    )


def _batch_gradient(op: Operation, dout: Any) -> tuple[Any, Any]:
    x, y = op.inputs
    marked = op.type != "BatchMatMul"

    def dx(a: Any, b: Any, flip_a: bool, flip_b: bool) -> Any:
        return batch_matmul_v2(a, b, adj_x=flip_a, adj_y=flip_b, grad_x=marked, name="MatMul")

    def dy(a: Any, b: Any, flip_a: bool, flip_b: bool) -> Any:
        return batch_matmul_v2(a, b, adj_x=flip_a, adj_y=flip_b, grad_y=marked, name="MatMul")

    # With both factors conjugated and transposed the product of gradients is so, too.
    gx, gy = _product_gradients(x, y, dout, op["adj_x"], op["adj_y"], dx, dy)
    return _unstretched(x, y, gx, gy) if marked else (gx, gy)


def _unstretched(x: Tensor, y: Tensor, gx: Any, gy: Any) -> tuple[Any, Any]:
    """Sum gradients along leading dimensions that were broadcast."""
    raw_x, raw_y = x.raw_shape, y.raw_shape
    if raw_x is not None and raw_y is not None:
        batch = raw_x[:-2]
        if batch == raw_y[:-2] and None not in batch:
            return gx, gy
    shape_x, shape_y = shape(x), shape(y)
    axes_x, axes_y = broadcast_gradient_args(shape_x[:-2], shape_y[:-2])
    return (
        make.Reshape(make.Sum(gx, axes_x), shape_x),
        make.Reshape(make.Sum(gy, axes_y), shape_y),
    )


batch_matmul_op.gradient(_batch_gradient)
batch_matmul_v2.gradient(_batch_gradient)
batch_matmul_v3.gradient(_batch_gradient)


def matmul(
    a: Any,
    b: Any,
    transpose_a: bool = False,
    transpose_b: bool = False,
    adjoint_a: bool = False,
    adjoint_b: bool = False,
    a_is_sparse: bool = False,
    b_is_sparse: bool = False,
    name: str | None = None,
    output_type: Any = None,
) -> Tensor:
    """The product of a [..., m, k] and b [..., k, n]; leading dimensions broadcast.

    Transposed, or adjoint (conjugated too), where asked for.  *_is_sparse: matrices of mostly zeros.
    Raises ValueError (both transposed and adjoint, dimensions that do not fit).
    """
    for which, flip, adjoint in (("a", transpose_a, adjoint_a), ("b", transpose_b, adjoint_b)):
        if flip and adjoint:
            raise ValueError(
                f"Only one of `transpose_{which}` and `adjoint_{which}` can be True: the adjoint is transposed as well"
            )
    with name_scope(name, "MatMul", [a, b]) as scope:
        a = convert(a, name="a")
        typed = isinstance(b, Tensor) or hasattr(b, "_as_graph_element")
        b = convert(b, None if typed else a.dtype.base_dtype, name="b")
        out = None if output_type is None else dtypes.as_dtype(output_type)
        widens = out is not None and (
            out is not a.dtype.base_dtype or out is not b.dtype.base_dtype
        )
        sparse = a_is_sparse or b_is_sparse
        if widens or (not sparse and (_is_batch(a.raw_shape) or _is_batch(b.raw_shape))):
            return _batched(
                a,
                b,
                (transpose_a, adjoint_a),
                (transpose_b, adjoint_b),
                out if widens else None,
                scope,
            )
        made: Tensor
        a, flip_a = _as_transpose(a, transpose_a, adjoint_a)
        b, flip_b = _as_transpose(b, transpose_b, adjoint_b)
        flips = {"transpose_a": flip_a, "transpose_b": flip_b}
        if sparse and {a.dtype.base_dtype, b.dtype.base_dtype} <= _SPARSE_TYPES:
            said = {"a_is_sparse": a_is_sparse, "b_is_sparse": b_is_sparse}
            made = sparse_matmul(a, b, **flips, **said, name=scope)
            narrow = a.dtype.base_dtype == b.dtype.base_dtype == dtypes.bfloat16
            return cast(made, dtypes.bfloat16) if narrow else made
        made = matmul_op(a, b, **flips, name=scope)
        return made


_SPARSE_TYPES = {dtypes.float32, dtypes.bfloat16}


def _is_batch(shape: Shape) -> bool:
    return shape is None or len(shape) > 2


def _as_transpose(x: Tensor, flip: bool, adjoint: bool) -> tuple[Tensor, bool]:
    return (conj(x), True) if adjoint else (x, flip)


def _batched(
    a: Tensor,
    b: Tensor,
    flips_a: tuple[bool, bool],
    flips_b: tuple[bool, bool],
    out: DType | None,
    scope: str,
) -> Tensor:
    factors, adjoint = [], []
    for x, (flip, adj) in ((a, flips_a), (b, flips_b)):
        factors.append(conj(x) if flip else x)
        adjoint.append(flip or adj)
    made: Tensor
    if out is None:
        made = batch_matmul_v2(*factors, adj_x=adjoint[0], adj_y=adjoint[1], name=scope)
    else:
        made = batch_matmul_v3(*factors, adj_x=adjoint[0], adj_y=adjoint[1], Tout=out, name=scope)
    return made


def batch_matmul(
    x: Any, y: Any, adj_x: bool = False, adj_y: bool = False, name: str | None = None
) -> Tensor:
    """Old spelling of `matmul` for batches."""
    made: Tensor = batch_matmul_op(x, y, adj_x=adj_x, adj_y=adj_y, name=name)
    return made


# -- MatrixInverse ----------------------------------------------------------------------------


def _square_matrices(c: ShapeContext) -> Shape:
    shape = c.with_rank_at_least("input", 2)
    if shape is None:
        return None
    side = shape_rules.merge_sizes(
        shape[-2], shape[-1], f"matrices of {text(shape)} are not square"
    )
    return (*shape[:-2], side, side)


@op(
    "MatrixInverse",
    inputs="input: T",
    outputs="output: T",
    attrs="adjoint: bool = false; T: {double, float, half, complex64, complex128}",
    shape=_square_matrices,
)
def matrix_inverse_op(xp: Any, input: Any, *, adjoint: bool) -> Any:
    """Inverses of square matrices, or of their adjoints.

    input [..., m, m].
    Raises InvalidArgument if a matrix is not square or has no inverse.
    Source: TF 1.15 core/kernels/matrix_inverse_op.cc
    """
    if input.ndim < 2 or input.shape[-1] != input.shape[-2]:
        raise errors.invalid_argument(
            f"Input tensor 0 must have rank >= 2, got {input.ndim}"
            if input.ndim < 2
            else f"Input matrix must be square, and input has shape {text(input.shape)}"
        )
    matrix = _adjoint(xp, input) if adjoint else input
    try:
        return xp.linalg.inv(_single(matrix)).astype(input.dtype, copy=False)
    except np.linalg.LinAlgError:
        raise errors.invalid_argument("Input is not invertible: a matrix is singular") from None


@matrix_inverse_op.gradient
def _(op: Operation, dout: Any) -> Tensor:
    inverse = op.outputs[0]
    if op["adjoint"]:
        inner = matmul(dout, inverse, adjoint_a=True)
        made: Tensor = make.Neg(matmul(inverse, inner))
    else:
        inner = matmul(dout, inverse, adjoint_b=True)
        made = make.Neg(matmul(inverse, inner, adjoint_a=True))
    return made


def matrix_inverse(input: Any, adjoint: bool = False, name: str | None = None) -> Tensor:
    """Inverses of square matrices [..., m, m], or of their adjoints."""
    made: Tensor = matrix_inverse_op(input, adjoint=adjoint, name=name)
    return made


def trace(x: Any, name: str | None = None) -> Tensor:
    """The sum of the main diagonal of matrices [..., m, n]."""
    with name_scope(name, "Trace", [x]) as scope:
        x = convert(x, name="x")
        total: Tensor = make.Sum(matrix_diag_part(x), [-1], name=scope)
        return total
