"""What tests/oracle/test_linear_operators.py runs on both sides; `tf` and `np` are given to it."""

import itertools

L = tf.linalg  # noqa: F821
np = np  # noqa: F821
tf = tf  # noqa: F821
PROMISED = {"is_positive_definite": True, "is_self_adjoint": True}
KINDS = ("float32", "float64", "complex64", "complex128")


def spd(size, kind, batch=(), seed=0):
    """A batch of positive definite matrices."""
    random = np.random.RandomState(seed + size)
    x = random.randn(*batch, size, size)
    if kind.startswith("complex"):
        x = x + 1j * random.randn(*batch, size, size)
    return (x @ np.conj(np.swapaxes(x, -1, -2)) / size + np.eye(size)).astype(kind)


def drawn(*sizes, kind="float32", seed=3):
    random = np.random.RandomState(seed + sum(sizes))
    x = random.randn(*sizes)
    if kind.startswith("complex"):
        x = x + 1j * random.randn(*sizes)
    return x.astype(kind)


class Inputs:
    """Arrays as constants, or as placeholders of unknown shape."""

    def __init__(self, known):
        self.known, self.feeds = known, {}

    def __call__(self, array):
        array = np.asarray(array)
        if self.known:
            return tf.constant(array)
        made = tf.placeholder(array.dtype, None)
        self.feeds[made] = array
        return made


def _block(p, k):
    return L.LinearOperatorBlockDiag(
        [
            L.LinearOperatorFullMatrix(p(spd(2, k)), **PROMISED),
            L.LinearOperatorDiag(p(np.array([[2], [3]], k))),
        ]
    )


def _kron(p, k):
    return L.LinearOperatorKronecker(
        [
            L.LinearOperatorFullMatrix(p(spd(2, k)), **PROMISED),
            L.LinearOperatorDiag(
                p(np.array([[2, 1.5], [3, 0.5]], k)),
                is_positive_definite=True,
                is_self_adjoint=True,
            ),
            L.LinearOperatorFullMatrix(p(spd(2, k, seed=5)), **PROMISED),
        ]
    )


def _slim(p, k, **more):
    base = L.LinearOperatorDiag(p(np.array([[1, 2, 3], [4, 5, 6]], k)), **PROMISED)
    return L.LinearOperatorLowRankUpdate(base, p(drawn(3, 2, kind=k) * 0.3), **more)


def _full(p, k, **more):
    return L.LinearOperatorFullMatrix(p(drawn(3, 3, kind=k) + 3 * np.eye(3, dtype=k)), **more)


def wide(kind):
    """The complex type of as many digits."""
    return "complex64" if kind in ("float32", "complex64") else "complex128"


def _scaled(p, k):
    return L.LinearOperatorScaledIdentity(3, p(np.array([2, 3], k)), **PROMISED)


def _circulant(p, k, spectrum, kind=L.LinearOperatorCirculant, **more):
    return kind(p(spectrum), input_output_dtype=k, **more)


def _turning(p, k):
    return _circulant(p, k, np.array([[4, 1 + 0.5j, 1 - 0.5j]] * 2, wide(k)))


def _planes(p, k):
    return _circulant(p, k, np.array([[4, 1, 1], [2, 1, 1]], k), L.LinearOperatorCirculant2D)


def _cubes(p, k):
    spectrum = np.arange(1, 9).reshape(2, 2, 2).astype(k)
    return _circulant(p, k, spectrum, L.LinearOperatorCirculant3D)


def _toeplitz(p, k):
    col, row = np.array([[3, 1, 0.5], [4, 1, 2]], k), np.array([[3, 0.2, 0.1], [4, 0.5, 0.1]], k)
    return L.LinearOperatorToeplitz(p(col), p(row))


def _product(p, k):
    return L.LinearOperatorComposition(
        [_full(p, k), L.LinearOperatorDiag(p(np.array([[1, 2, 3]], k)))]
    )


def _diag(p, k):
    return L.LinearOperatorDiag(p(np.array([[1, 2, 3], [3, 4, 5]], k)), **PROMISED)


# name: the operator, of 3 columns but for kron (8), circulant2d (6) and 3d (8), of kind k and inputs p
OPERATORS = {
    "identity": lambda p, k: L.LinearOperatorIdentity(p(np.int32(3)), dtype=k),
    "identities": lambda p, k: L.LinearOperatorIdentity(3, batch_shape=p(np.int32([2])), dtype=k),
    "scaled": _scaled,
    "zeros": lambda p, k: L.LinearOperatorZeros(p(np.int32(3)), dtype=k),
    "diag": _diag,
    "turned": lambda p, k: L.LinearOperatorDiag(p(drawn(3, kind=k))),
    "full": lambda p, k: _full(p, k),
    "promised": lambda p, k: L.LinearOperatorFullMatrix(p(spd(3, k, (2,))), **PROMISED),
    "triangle": lambda p, k: L.LinearOperatorLowerTriangular(p(spd(3, k, (2,)))),
    "household": lambda p, k: L.LinearOperatorHouseholder(p(drawn(2, 3, kind=k))),
    "circulant": lambda p, k: _circulant(p, k, np.array([4, 1.5, 1.5], k), **PROMISED),
    "circulants": _turning,
    "circulant2d": _planes,
    "circulant3d": _cubes,
    "toeplitz": _toeplitz,
    "product": _product,
    "flat": lambda p, k: L.LinearOperatorFullMatrix(p(drawn(2, 3, kind=k))),
    "block": _block,
    "kron": _kron,
    "slim": lambda p, k: _slim(p, k),
    "slimmer": lambda p, k: _slim(p, k, diag_update=p(np.array([0.5, 2], k))),
    "slim2": lambda p, k: _slim(
        p, k, diag_update=p(np.array([0.5, -2], k)), v=p(drawn(3, 2, kind=k, seed=9) * 0.3)
    ),
    "adjoint": lambda p, k: L.LinearOperatorAdjoint(_full(p, k, is_non_singular=True)),
    "inverse": lambda p, k: L.LinearOperatorInversion(_full(p, k, is_non_singular=True)),
}
CASES = [
    (kind, name, known)
    for name in OPERATORS
    for kind in KINDS
    for known in (True, False)
    if kind in ("float32", "complex128") or known
]
NO_SYSTEMS = ("flat", "zeros")


def values_of(kind, name, known):
    """[(what, value or the class of an error, static shape)]."""
    with tf.Graph().as_default(), tf.Session() as session:
        p = Inputs(known)
        operator = OPERATORS[name](p, kind)
        rows = 2 if name == "flat" else 3
        columns = {"kron": 8, "circulant2d": 6, "circulant3d": 8}.get(name, 3)
        rows = columns if columns > 3 else rows
        x, y = p(drawn(columns, 2, kind=kind)), p(drawn(rows, 2, kind=kind))
        batch = p(drawn(2, columns, 4, kind=kind))
        turned = p(drawn(4, columns, kind=kind))
        square = p(drawn(2, rows, columns, kind=kind))
        wanted = {
            "shape": lambda: operator.shape_tensor(),
            "batch": lambda: operator.batch_shape_tensor(),
            "rank": lambda: operator.tensor_rank_tensor(),
            "columns": lambda: operator.domain_dimension_tensor(),
            "rows": lambda: operator.range_dimension_tensor(),
            "dense": lambda: operator.to_dense(),
            "diagonal": lambda: operator.diag_part(),
            "trace": lambda: operator.trace(),
            "added": lambda: operator.add_to_tensor(square),
            "product": lambda: operator.matmul(x),
            "product of adjoint": lambda: operator.matmul(y, adjoint=True),
            "product with batch": lambda: operator.matmul(batch),
            "product with adjoint": lambda: operator.matmul(turned, adjoint_arg=True),
            "vector": lambda: operator.matvec(x[:, 0] if known else tf.gather(x, 0, axis=1)),
            "vector of adjoint": lambda: operator.matvec(
                y[:, 0] if known else tf.gather(y, 0, axis=1), adjoint=True
            ),
            "adjoint": lambda: operator.adjoint().to_dense(),
        }
        if name not in NO_SYSTEMS:
            wanted.update(
                {
                    "determinant": lambda: operator.determinant(),
                    "log": lambda: operator.log_abs_determinant(),
                    "solution": lambda: operator.solve(y),
                    "solution of adjoint": lambda: operator.solve(x, adjoint=True),
                    "solution with batch": lambda: operator.solve(batch),
                    "solution with adjoint": lambda: operator.solve(turned, adjoint_arg=True),
                    "solution of vector": lambda: operator.solvevec(
                        y[:, 0] if known else tf.gather(y, 0, axis=1)
                    ),
                    "inverse": lambda: operator.inverse().to_dense(),
                    "cholesky": lambda: operator.cholesky().to_dense(),
                    "square": lambda: operator.matmul(operator).to_dense(),
                    "ratio": lambda: operator.solve(operator.adjoint()).to_dense(),
                }
            )
        found = []
        for what, function in wanted.items():
            try:
                made = function()
            except Exception as error:
                found.append((what, type(error).__name__, None))
                continue
            try:
                value = session.run(made, p.feeds)
            except tf.errors.OpError as error:
                found.append((what, type(error).__name__, None))
                continue
            shape = made.shape
            found.append(
                (what, np.asarray(value), None if shape.ndims is None else tuple(shape.as_list()))
            )
        return found


def hints(operator):
    kept = (
        operator.is_non_singular,
        operator.is_self_adjoint,
        operator.is_positive_definite,
        operator.is_square,
    )
    return type(operator).__name__, kept, operator.name


def tell(function):
    try:
        return hints(function())
    except Exception as error:
        return type(error).__name__


def relatives_of(name):
    with tf.Graph().as_default():
        p = Inputs(True)
        operator = OPERATORS[name](p, "float32")
        found = {what: tell(getattr(operator, what)) for what in ("adjoint", "inverse", "cholesky")}
        for other, build in OPERATORS.items():
            second = build(p, "float32")
            if {name, other} == {"zeros", "flat"}:
                continue  # 2.21 looks at the sizes, 1.15 does not
            found["times", other] = tell(lambda second=second: operator.matmul(second))
            found["into", other] = tell(lambda second=second: operator.solve(second))
        return found


HINTS = ("is_non_singular", "is_self_adjoint", "is_positive_definite", "is_square")
TRIED = [
    f"L.LinearOperatorFullMatrix(np.eye(3, dtype=np.float32), **{dict(zip(HINTS, hints, strict=True))})"
    for hints in itertools.product((None, True, False), repeat=4)
]
TRIED += """
L.LinearOperatorFullMatrix(drawn(2, 3)).determinant()
L.LinearOperatorFullMatrix(drawn(2, 3)).solve(drawn(3, 1))
L.LinearOperatorFullMatrix(drawn(2, 3)).matmul(drawn(2, 1))
L.LinearOperatorFullMatrix(drawn(2, 3)).matmul(np.ones([3, 1]))
L.LinearOperatorFullMatrix(drawn(2, 3)).inverse()
L.LinearOperatorFullMatrix(drawn(2, 3), is_square=True)
L.LinearOperatorFullMatrix(drawn(3, 3), is_non_singular=False).inverse()
L.LinearOperatorFullMatrix(drawn(3, 3), is_non_singular=False).solve(drawn(3, 1))
L.LinearOperatorFullMatrix(drawn(3, 3)).cholesky()
L.LinearOperatorFullMatrix([1.0])
L.LinearOperatorFullMatrix([[1]])
L.LinearOperatorFullMatrix([["a"]])
L.LinearOperatorDiag([1.0], is_self_adjoint=False)
L.LinearOperatorDiag([1.0], is_square=False)
L.LinearOperatorDiag(1.0)
L.LinearOperatorDiag([1j])
L.LinearOperatorDiag([1.0, 2]).H
L.LinearOperatorDiag([1.0, 2]) @ L.LinearOperatorDiag([1.0, 2])
L.LinearOperatorDiag([1.0, 2]).matmul(L.LinearOperatorDiag([1.0, 2, 3]))
L.LinearOperatorIdentity(2, is_square=False)
L.LinearOperatorIdentity([2])
L.LinearOperatorIdentity(2.0)
L.LinearOperatorIdentity(-1)
L.LinearOperatorIdentity(2, batch_shape=3)
L.LinearOperatorIdentity(2, batch_shape=[-3])
L.LinearOperatorIdentity(2, is_self_adjoint=False)
L.LinearOperatorIdentity(2, is_non_singular=False)
L.LinearOperatorIdentity(2, is_positive_definite=False)
L.LinearOperatorIdentity(2).matmul(drawn(3, 1))
L.LinearOperatorScaledIdentity(2, 3.0)
L.LinearOperatorScaledIdentity(2, 3j)
L.LinearOperatorScaledIdentity(2, 3.0, is_square=False)
L.LinearOperatorZeros(2)
L.LinearOperatorZeros(2, 3)
L.LinearOperatorZeros(2, 3, is_square=False)
L.LinearOperatorZeros(2, 3, is_square=False, is_self_adjoint=False)
L.LinearOperatorZeros(2, is_non_singular=True)
L.LinearOperatorZeros(2, is_positive_definite=True)
L.LinearOperatorZeros(2, is_self_adjoint=False)
L.LinearOperatorLowerTriangular([[1.0, 2], [3, 4]], is_square=False)
L.LinearOperatorLowerTriangular([[1.0, 2], [3, 4]])
L.LinearOperatorHouseholder([1.0])
L.LinearOperatorHouseholder([1.0], is_positive_definite=True)
L.LinearOperatorHouseholder([1.0], is_self_adjoint=False)
L.LinearOperatorHouseholder([1.0], is_square=False)
L.LinearOperatorHouseholder(1.0)
L.LinearOperatorCirculant([1.0, 2])
L.LinearOperatorCirculant([1.0, 2], is_self_adjoint=False)
L.LinearOperatorCirculant([1.0, 2j + 1], is_self_adjoint=True)
L.LinearOperatorCirculant(1.0)
L.LinearOperatorCirculant2D([1.0])
L.LinearOperatorCirculant([1.0, 2], is_square=False)
L.LinearOperatorToeplitz([1.0, 2], [1.0, 2], is_square=False)
L.LinearOperatorToeplitz([1.0, 2], [1.0, 2, 3])
L.LinearOperatorToeplitz(1.0, 2.0)
L.LinearOperatorComposition([])
L.LinearOperatorComposition([L.LinearOperatorDiag([1.0]), L.LinearOperatorDiag([1.0, 2])])
L.LinearOperatorComposition([L.LinearOperatorDiag([1.0]), L.LinearOperatorDiag(np.ones(1))])
L.LinearOperatorComposition([L.LinearOperatorIdentity(2)], is_non_singular=False)
L.LinearOperatorKronecker([])
L.LinearOperatorKronecker([L.LinearOperatorIdentity(2)], is_square=False)
L.LinearOperatorKronecker([L.LinearOperatorIdentity(2)], is_self_adjoint=False)
L.LinearOperatorKronecker([L.LinearOperatorIdentity(2)], is_positive_definite=False)
L.LinearOperatorKronecker([L.LinearOperatorIdentity(2)], is_non_singular=False)
L.LinearOperatorKronecker([L.LinearOperatorIdentity(2)])
L.LinearOperatorBlockDiag([])
L.LinearOperatorBlockDiag([L.LinearOperatorIdentity(2)], is_square=False)
L.LinearOperatorBlockDiag([L.LinearOperatorIdentity(2)], is_self_adjoint=False)
L.LinearOperatorBlockDiag([L.LinearOperatorIdentity(2)], is_positive_definite=False)
L.LinearOperatorBlockDiag([L.LinearOperatorIdentity(2)], is_non_singular=False)
L.LinearOperatorBlockDiag([L.LinearOperatorIdentity(2)])
L.LinearOperatorAdjoint(L.LinearOperatorIdentity(2), is_non_singular=False)
L.LinearOperatorAdjoint(L.LinearOperatorIdentity(2), is_self_adjoint=False)
L.LinearOperatorAdjoint(L.LinearOperatorIdentity(2))
L.LinearOperatorInversion(L.LinearOperatorIdentity(2), is_non_singular=False)
L.LinearOperatorInversion(L.LinearOperatorIdentity(2), is_square=False)
L.LinearOperatorInversion(L.LinearOperatorIdentity(2), is_positive_definite=False)
L.LinearOperatorInversion(L.LinearOperatorZeros(2))
L.LinearOperatorInversion(L.LinearOperatorIdentity(2))
L.LinearOperatorLowRankUpdate(L.LinearOperatorIdentity(2), drawn(2, 1))
L.LinearOperatorLowRankUpdate(L.LinearOperatorIdentity(2), drawn(2, 1), diag_update=[1.0])
L.LinearOperatorLowRankUpdate(L.LinearOperatorIdentity(2), drawn(2, 1), diag_update=[1.0], is_diag_update_positive=True)
L.LinearOperatorLowRankUpdate(L.LinearOperatorIdentity(2), drawn(3, 1))
L.LinearOperatorLowRankUpdate(L.LinearOperatorIdentity(2), drawn(2, 1), is_self_adjoint=False)
L.LinearOperatorLowRankUpdate(L.LinearOperatorIdentity(2), drawn(2, 1), v=drawn(2, 1))
L.LinearOperatorLowRankUpdate(L.LinearOperatorIdentity(2), drawn(2, 1), diag_update=[1.0, 2])
L.LinearOperatorLowRankUpdate(L.LinearOperatorIdentity(2), drawn(2, 1), is_diag_update_positive=False)
L.LinearOperatorLowRankUpdate(L.LinearOperatorDiag([1.0, 2]), drawn(2, 1))
L.LinearOperatorLowRankUpdate(L.LinearOperatorFullMatrix([[1.0, 2], [1, 2]]), drawn(2, 1))
""".strip().splitlines()


def tried(text):
    """What it makes: an operator's class and hints, or the class of the error and the line that it begins with."""
    with tf.Graph().as_default():
        try:
            made = eval(text)
            return hints(made)[:2] if hasattr(made, "is_square") else type(made).__name__
        except Exception as error:
            return type(error).__name__


def checks():
    """Which assertions hold, by operator: "ok" or the class of the error."""
    found = {}
    for name, build in OPERATORS.items():
        for what in ("assert_non_singular", "assert_positive_definite", "assert_self_adjoint"):
            with tf.Graph().as_default(), tf.Session() as session:
                p = Inputs(True)
                try:
                    session.run(getattr(build(p, "float32"), what)(), p.feeds)
                    found[name, what] = "ok"
                except Exception as error:
                    found[name, what] = type(error).__name__
    return found
