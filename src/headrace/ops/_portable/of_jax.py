"""Array kernels of JAX alone, for which the array API standard has nothing: special functions, matrices, transforms.

Where the host reports an error (a matrix that is singular or not positive definite) the results are not finite, and the
host is asked.
Called by: ops._portable.table.  Threads: any.
Source: https://docs.jax.dev/en/latest/jax.scipy.html, jax.numpy.linalg, jax.numpy.fft
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from headrace.ops._portable.reductions import axes_of
from headrace.ops._portable.table import check, of_jax, require, with_jax


def _special(op: str, name: str) -> None:
    @of_jax(op)
    def kernel(xp: Any, *inputs: Any) -> Any:
        from jax.scipy import special

        function: Callable[..., Any] = getattr(special, name)
        return function(*inputs)


for _op, _name in {
    "BesselI0": "i0",
    "BesselI0e": "i0e",
    "BesselI1": "i1",
    "BesselI1e": "i1e",
    "Digamma": "digamma",
    "Erf": "erf",
    "Erfc": "erfc",
    "Erfinv": "erfinv",
    "Lgamma": "gammaln",
    "Ndtri": "ndtri",
}.items():
    _special(_op, _name)


@with_jax("Sigmoid")
def _sigmoid(xp: Any, x: Any) -> Any:
    """One operation of XLA's, which is part of another loop; the array kernel's choice between two divisions is not."""
    from jax import lax

    return lax.logistic(x)


@of_jax("Zeta")
def _zeta(xp: Any, x: Any, q: Any) -> Any:
    from jax.scipy import special

    found = special.zeta(x, q)
    nothing = xp.logical_and(x > 1.0, q == xp.inf)
    return xp.where(nothing, xp.zeros_like(found), found)


@of_jax("Betainc")
def _betainc(xp: Any, a: Any, b: Any, x: Any) -> Any:
    from jax.scipy import special

    check(len({each.shape for each in (a, b, x) if each.ndim}) <= 1)
    return special.betainc(a, b, x)


def _incomplete_gamma(op: str, name: str) -> None:
    @of_jax(op)
    def kernel(xp: Any, a: Any, x: Any) -> Any:
        from jax.scipy import special

        found = xp.where(a == 0, xp.nan, getattr(special, name)(a, x))
        return xp.where(x == 0, xp.zeros_like(found), found) if op == "Igamma" else found


_incomplete_gamma("Igamma", "gammainc")
_incomplete_gamma("Igammac", "gammaincc")


@of_jax("Polygamma")
def _polygamma(xp: Any, a: Any, x: Any) -> Any:
    from jax import lax

    orders, given = xp.broadcast_arrays(a, x)
    whole = xp.logical_and(orders >= 0, orders == xp.floor(orders))
    return xp.where(whole, lax.polygamma(xp.where(whole, orders, 0), given), xp.nan)


@of_jax("IgammaGradA")
def _gamma_slope(xp: Any, a: Any, x: Any) -> Any:
    from jax import lax

    return lax.igamma_grad_a(*xp.broadcast_arrays(a, x))


@of_jax("RandomGammaGrad")
def _sample_slope(xp: Any, alpha: Any, sample: Any) -> Any:
    from jax import lax

    return lax.random_gamma_grad(*xp.broadcast_arrays(alpha, sample))


def _cumulative(x: Any, axis: Any, exclusive: bool, reverse: bool, function: Any) -> Any:
    check(not exclusive and axis.ndim == 0)
    (along,) = axes_of(axis, x.ndim)
    return function(x, axis=along, reverse=reverse)


@of_jax("Cumprod", host=(1,))
def _cumprod(xp: Any, x: Any, axis: Any, *, exclusive: bool, reverse: bool) -> Any:
    from jax import lax

    return _cumulative(x, axis, exclusive, reverse, lax.cumprod)


@of_jax("CumulativeLogsumexp", host=(1,))
def _cumulative_logsumexp(xp: Any, x: Any, axis: Any, *, exclusive: bool, reverse: bool) -> Any:
    from jax import lax

    return _cumulative(x, axis, exclusive, reverse, lax.cumlogsumexp)


@of_jax("Mod", "TruncateMod")
def _remainder(xp: Any, x: Any, y: Any) -> Any:
    return xp.fmod(x, y)


@of_jax("NextAfter")
def _next_after(xp: Any, x: Any, y: Any) -> Any:
    return xp.nextafter(x, y)


@of_jax("Complex")
def _complex(xp: Any, real: Any, imag: Any, *, Tout: Any) -> Any:
    from jax import lax

    found = lax.complex(*xp.broadcast_arrays(real, imag))
    return xp.astype(found, getattr(xp, Tout.base_dtype.name))


@of_jax("Bitcast", reals=False)
def _bitcast(xp: Any, input: Any, *, type: Any) -> Any:
    from jax import lax

    return lax.bitcast_convert_type(input, getattr(xp, type.name))


@of_jax("PopulationCount", reals=False)
def _population_count(xp: Any, x: Any) -> Any:
    from jax import lax

    return xp.astype(lax.population_count(x), xp.uint8)


# -- matrices ---------------------------------------------------------------------------------------------------------


def _adjoint(xp: Any, matrix: Any) -> Any:
    return xp.conj(xp.matrix_transpose(matrix))


def _wide(x: Any) -> None:
    """LAPACK has nothing for halves."""
    check(x.dtype.itemsize > 2)


def _square(x: Any) -> None:
    _wide(x)
    check(x.ndim >= 2 and x.shape[-1] == x.shape[-2] > 0)


def _finite(xp: Any, *found: Any) -> None:
    for each in found:
        require(xp, xp.isfinite(each), "not all finite")


@of_jax("Cholesky")
def _cholesky(xp: Any, input: Any) -> Any:
    _square(input)
    found = xp.linalg.cholesky(input, symmetrize_input=False)
    _finite(xp, found)
    return xp.tril(found)


@of_jax("MatrixInverse")
def _inverse(xp: Any, input: Any, *, adjoint: bool) -> Any:
    _square(input)
    found = xp.linalg.inv(_adjoint(xp, input) if adjoint else input)
    _finite(xp, found)
    return found


@of_jax("MatrixDeterminant")
def _determinant(xp: Any, input: Any) -> Any:
    _square(input)
    return xp.linalg.det(input)


@of_jax("LogMatrixDeterminant")
def _log_determinant(xp: Any, input: Any) -> tuple[Any, Any]:
    _square(input)
    sign, log = xp.linalg.slogdet(input)
    return sign, xp.astype(log, input.dtype)


@of_jax("MatrixSolve")
def _solve(xp: Any, matrix: Any, rhs: Any, *, adjoint: bool) -> Any:
    _square(matrix)
    check(rhs.shape[:-1] == matrix.shape[:-1])
    found = xp.linalg.solve(_adjoint(xp, matrix) if adjoint else matrix, rhs)
    _finite(xp, found)
    return found


@of_jax("MatrixTriangularSolve")
def _triangular_solve(xp: Any, matrix: Any, rhs: Any, *, lower: bool, adjoint: bool) -> Any:
    from jax import lax

    _square(matrix)
    check(rhs.shape[:-1] == matrix.shape[:-1])
    found = lax.linalg.triangular_solve(
        matrix, rhs, left_side=True, lower=lower, transpose_a=adjoint, conjugate_a=adjoint
    )
    _finite(xp, found)
    return found


@of_jax("Lu")
def _lu(xp: Any, input: Any, *, output_idx_type: Any) -> tuple[Any, Any]:
    from jax import lax

    _square(input)
    found, _, order = lax.linalg.lu(input)
    require(xp, xp.linalg.diagonal(found) != 0, "not invertible")
    return found, xp.astype(order, getattr(xp, output_idx_type.name))


@of_jax("MatrixSolveLs", host=(2,))
def _least_squares(xp: Any, matrix: Any, rhs: Any, l2_regularizer: Any, *, fast: bool) -> Any:
    from jax import lax

    _wide(matrix)
    check(matrix.ndim == rhs.ndim >= 2 and matrix.shape[:-1] == rhs.shape[:-1])
    check(0 not in (*matrix.shape, *rhs.shape) and l2_regularizer.ndim == 0 <= l2_regularizer)
    if not fast:
        least = float(xp.finfo(matrix.dtype).eps) * min(matrix.shape[-2:])
        found = xp.matmul(xp.linalg.pinv(matrix, rtol=least), rhs)
        _finite(xp, found)
        return found
    turned, tall = _adjoint(xp, matrix), matrix.shape[-2] >= matrix.shape[-1]
    gram = xp.matmul(turned, matrix) if tall else xp.matmul(matrix, turned)
    gram = gram + xp.eye(gram.shape[-1], dtype=gram.dtype) * float(l2_regularizer)
    factor = xp.linalg.cholesky(gram)
    _finite(xp, factor)
    y = lax.linalg.triangular_solve(
        factor, xp.matmul(turned, rhs) if tall else rhs, left_side=True, lower=True
    )
    x = lax.linalg.triangular_solve(
        factor, y, left_side=True, lower=True, transpose_a=True, conjugate_a=True
    )
    return x if tall else xp.matmul(turned, x)


@of_jax("TridiagonalSolve")
def _tridiagonal(
    xp: Any, diagonals: Any, rhs: Any, *, partial_pivoting: bool, perturb_singular: bool
) -> Any:
    from jax import lax

    check(not perturb_singular and diagonals.ndim == rhs.ndim >= 2 and 0 not in rhs.shape)
    check(diagonals.shape == (*rhs.shape[:-2], 3, rhs.shape[-2]))
    check(xp.isdtype(rhs.dtype, "real floating") and rhs.shape[-2] > 2)
    above, main, below = (diagonals[..., at, :] for at in range(3))
    nothing = xp.zeros_like(main[..., :1])
    above = xp.concat([above[..., :-1], nothing], axis=-1)
    below = xp.concat([nothing, below[..., 1:]], axis=-1)
    found = lax.linalg.tridiagonal_solve(below, main, above, rhs)
    _finite(xp, found)
    return found


def _known(xp: Any, x: Any) -> Any:
    """[..., 1, 1]: whether a matrix has neither infinities nor NaN."""
    return xp.all(xp.isfinite(x), axis=(-2, -1), keepdims=True)


@of_jax("Qr")
def _qr(xp: Any, input: Any, *, full_matrices: bool) -> tuple[Any, Any]:
    _wide(input)
    check(input.ndim >= 2 and 0 not in input.shape)
    require(xp, _known(xp, input), "not all finite")
    q, r = xp.linalg.qr(input, mode="complete" if full_matrices else "reduced")
    return q, r


@of_jax("Svd")
def _svd(xp: Any, input: Any, *, compute_uv: bool, full_matrices: bool) -> tuple[Any, ...]:
    _wide(input)
    check(input.ndim >= 2 and 0 not in input.shape)
    require(xp, _known(xp, input), "not all finite")
    nothing = xp.zeros((0,), input.dtype)
    if not compute_uv:
        values = xp.linalg.svd(input, compute_uv=False)
        return xp.astype(values, input.dtype), nothing, nothing
    u, s, vh = xp.linalg.svd(input, full_matrices=full_matrices)
    return xp.astype(s, input.dtype), u, _adjoint(xp, vh)


@of_jax("SelfAdjointEigV2")
def _eigen(xp: Any, input: Any, *, compute_v: bool) -> tuple[Any, Any]:
    _square(input)
    lower = xp.tril(input)
    require(xp, _known(xp, lower), "not all finite")
    if not compute_v:
        values = xp.linalg.eigvalsh(lower, UPLO="L", symmetrize_input=False)
        return xp.astype(values, input.dtype), xp.zeros((0,), input.dtype)
    values, vectors = xp.linalg.eigh(lower, UPLO="L", symmetrize_input=False)
    return xp.astype(values, input.dtype), vectors


# -- transforms -------------------------------------------------------------------------------------------------------


def _last(count: int) -> tuple[int, ...]:
    return tuple(range(-count, 0))


def _fourier(op: str, name: str, count: int) -> None:
    @of_jax(op)
    def kernel(xp: Any, input: Any) -> Any:
        check(input.ndim >= count and 0 not in input.shape)
        found = getattr(xp.fft, name)(input, axes=_last(count))
        return xp.astype(found, input.dtype)


def _real_fourier(op: str, name: str, count: int) -> None:
    @of_jax(op, host=(1,))
    def kernel(xp: Any, input: Any, fft_length: Any, *, Tcomplex: Any, Treal: Any) -> Any:
        sizes = tuple([int(size) for size in fft_length])
        check(len(sizes) == count <= input.ndim and 0 not in input.shape and min(sizes) > 0)
        used = list(sizes)
        if name == "irfftn":
            used[-1] = sizes[-1] // 2 + 1
        check(all(a >= b for a, b in zip(input.shape[-count:], used, strict=True)))
        wanted = Tcomplex if name == "rfftn" else Treal
        found = getattr(xp.fft, name)(input, s=sizes, axes=_last(count))
        return xp.astype(found, getattr(xp, wanted.name))


for _count, _suffix in enumerate(("", "2D", "3D"), 1):
    _fourier(f"FFT{_suffix}", "fftn", _count)
    _fourier(f"IFFT{_suffix}", "ifftn", _count)
    _real_fourier(f"RFFT{_suffix}", "rfftn", _count)
    _real_fourier(f"IRFFT{_suffix}", "irfftn", _count)
