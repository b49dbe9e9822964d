"""Kernels of JAX alone compute on the GPU what the host does: nothing of what fits is left to the host."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import headrace as tf
from headrace.ops._portable.table import array_kernels
from headrace.run.devices import table

_POSITIVE = np.linspace(0.1, 0.9, 12, dtype=np.float32).reshape(3, 4)
_OTHER = np.float32(_POSITIVE[::-1] * 3 + 1)
_DRAWN = np.random.RandomState(3).normal(size=(2, 3, 3)).astype(np.float32)
_MATRICES = _DRAWN @ _DRAWN.transpose(0, 2, 1) + np.eye(3, dtype=np.float32)
_DOMINANT = np.float32([[0.0], [9.0], [0.0]])
_COMPLEX = (_DRAWN + 1j * _DRAWN[::-1]).astype(np.complex64)

OPERANDS: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    **{
        name: ({"x": _POSITIVE}, {})
        for name in "BesselI0 BesselI0e BesselI1 BesselI1e Digamma Erf Erfc Erfinv Lgamma Ndtri".split()
    },
    "Betainc": ({"a": _OTHER, "b": _OTHER + 1, "x": _POSITIVE}, {}),
    "Igamma": ({"a": _OTHER, "x": _POSITIVE}, {}),
    "Igammac": ({"a": _OTHER, "x": _POSITIVE}, {}),
    "Zeta": ({"x": _OTHER + 1, "q": np.float32([0.1, np.inf, 2.5, np.nan])}, {}),
    "Cumprod": ({"x": _OTHER}, {"axis": 1, "reverse": True}),
    "CumulativeLogsumexp": ({"x": _OTHER}, {"axis": 0}),
    **{name: ({"x": -_OTHER, "y": _POSITIVE}, {}) for name in ("Mod", "TruncateMod")},
    "NextAfter": ({"x1": _OTHER, "x2": _POSITIVE}, {}),
    "Complex": ({"real": _OTHER, "imag": np.float32([np.nan, np.inf, 0, -1])}, {}),
    "Bitcast": ({"input": _OTHER}, {"type": tf.uint8}),
    "PopulationCount": ({"x": np.array([0, -1, 5, 2**40])}, {}),
    "Qr": ({"input": _DRAWN[:, :, :2]}, {}),
    "Svd": ({"input": _DRAWN[:, :2]}, {}),
    "SelfAdjointEigV2": ({"input": _MATRICES}, {}),
    "Cholesky": ({"input": _MATRICES}, {}),
    "MatrixInverse": ({"input": _MATRICES}, {"adjoint": True}),
    "MatrixDeterminant": ({"input": _MATRICES}, {}),
    "LogMatrixDeterminant": ({"input": _MATRICES}, {}),
    "MatrixSolve": ({"matrix": _MATRICES, "rhs": _DRAWN}, {"adjoint": True}),
    "MatrixTriangularSolve": ({"matrix": _MATRICES, "rhs": _DRAWN}, {"adjoint": True}),
    **{f"{name}{n}": ({"input": _COMPLEX}, {}) for name in ("FFT", "IFFT") for n in ("", "2D", "3D")},
    **{
        f"RFFT{n}": ({"input": _DRAWN}, {"fft_length": [3] * k})
        for k, n in ((1, ""), (2, "2D"))
    },
    "RFFT3D": ({"input": _DRAWN}, {"fft_length": [2, 3, 3]}),
    **{
        f"IRFFT{n}": ({"input": _COMPLEX}, {"fft_length": [3] * k})
        for k, n in ((1, ""), (2, "2D"))
    },
    "Polygamma": ({"a": np.float32([[0, 1, 2, 0.5]] * 3), "x": _OTHER}, {}),
    **{
        name: ({x: _OTHER, y: _POSITIVE}, {})
        for name, x, y in (("IgammaGradA", "a", "x"), ("RandomGammaGrad", "alpha", "sample"))
    },
    "Lu": ({"input": _MATRICES}, {}),
    "MatrixSolveLs": ({"matrix": _DRAWN[:, :, :2], "rhs": _DRAWN}, {"l2_regularizer": 0.1}),
    "TridiagonalSolve": ({"diagonals": _DRAWN + _DOMINANT, "rhs": _DRAWN}, {}),
    "IRFFT3D": ({"input": _COMPLEX}, {"fft_length": [2, 3, 3]}),
}  # fmt: skip


UP_TO_SIGNS = {"Qr", "Svd", "SelfAdjointEigV2"}
"""Whose vectors may point either way: LAPACK's and a GPU's differ."""


def outcome(name: str, device: str) -> list[Any]:
    """What the op gives there of the operands, which are fed."""
    fed, known = OPERANDS[name]
    with tf.Graph().as_default(), tf.device(device):
        places = {key: tf.placeholder(value.dtype, value.shape) for key, value in fed.items()}
        made = getattr(tf.raw_ops, name)(**places, **known)
        wanted = list(made) if isinstance(made, list | tuple) else [made]
        with tf.Session() as session:
            feed = {places[key]: value for key, value in fed.items()}
            found: list[Any] = session.run(wanted, feed)
    return found


@pytest.mark.parametrize("name", sorted(OPERANDS))
def test_a_gpu_computes_it(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    gpu = table.of_name("/device:GPU:0")
    monkeypatch.setattr(gpu, "is_final", lambda error: True)
    for ours, hosts in zip(outcome(name, "/gpu:0"), outcome(name, "/cpu:0"), strict=True):
        assert ours.dtype == hosts.dtype
        if name in UP_TO_SIGNS:
            ours, hosts = np.abs(ours), np.abs(hosts)
        np.testing.assert_allclose(ours, hosts, rtol=2e-4, atol=2e-5)


@pytest.mark.parametrize(
    ("rows", "attrs"), [(3, {"fast": False}), (2, {"l2_regularizer": 0.5}), (2, {"fast": False})]
)
def test_least_squares_of_every_kind(
    rows: int, attrs: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    fed = {"matrix": _DRAWN[:, :rows, : 5 - rows], "rhs": _DRAWN[:, :rows]}
    monkeypatch.setitem(OPERANDS, "MatrixSolveLs", (fed, {"l2_regularizer": 0.0, **attrs}))
    test_a_gpu_computes_it("MatrixSolveLs", monkeypatch)


def test_all_of_them_are_here() -> None:
    alone = {name for name, kernel in array_kernels().items() if kernel.function is None}
    assert alone == set(OPERANDS)
