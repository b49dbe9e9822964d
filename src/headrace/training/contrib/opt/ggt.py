"""GGTOptimizer: a preconditioner for all variables together, of the last gradients.

Called by: programs.  Threads: as graph.
Source: N. Agarwal, B. Bullins, X. Chen, E. Hazan, K. Singh, C. Zhang, Y. Zhang, Efficient Full-Matrix Adaptive
Regularization, 2018; arguments and what they mean: behaviour of TF 1.15's contrib/opt
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from headrace.base import dtypes
from headrace.graph.convert import convert
from headrace.graph.graph import Operation
from headrace.graph.indexed_slices import IndexedSlices
from headrace.graph.names import control_dependencies
from headrace.graph.tensor import Tensor
from headrace.ops.array.constants import zeros
from headrace.ops.array.shapes import expand_dims, reshape
from headrace.ops.flow.control_flow import cond
from headrace.ops.flow.identities import group
from headrace.ops.linalg.decompositions import svd
from headrace.ops.linalg.diagonals import eye
from headrace.ops.linalg.products import matmul
from headrace.ops.math.casting import cast
from headrace.ops.math.elementwise import sqrt
from headrace.ops.math.reductions import reduce_min
from headrace.ops.tables import make
from headrace.training.optimizer import Optimizer, cast_like

__all__ = ["GGTOptimizer"]


class GGTOptimizer(Optimizer):
    """The mean of gradients, divided by the root of G · Gᵀ, where the columns of G are the last such means.

    Where the gradients of all variables have n elements it keeps window · n of them, and takes the singular values of
    a matrix of window rows.  Variables have one dtype.
    """

    def __init__(
        self,
        learning_rate: Any = 0.001,
        beta1: Any = 0.9,
        use_locking: bool = False,
        name: str = "GGT",
        window: int = 10,
        eps: Any = 1e-4,
        svd_eps: Any = 1e-6,
        sigma_eps: Any = 1e-2,
    ) -> None:
        """beta1: how much of the mean of gradients is kept.  window: how many means are looked at.

        eps: from this least singular value on, what lies outside of G moves, too.  svd_eps: is added to the diagonal
        of Gᵀ · G; sigma_eps: to the roots of its singular values.
        """
        super().__init__(use_locking, name)
        self._given = {
            "learning_rate": learning_rate,
            "beta1": beta1,
            "eps": eps,
            "svd_eps": svd_eps,
            "sigma_eps": sigma_eps,
        }
        self._window = window
        self._numbers: dict[str, Tensor] = {}
        self._places: dict[str, tuple[int, int]] = {}
        self._trained: list[Any] = []

    def _prepare(self) -> None:
        for name, value in self._given.items():
            self._numbers[name] = convert(value() if callable(value) else value, None, name)

    def _create_slots(self, var_list: Sequence[Any]) -> None:
        kinds = {var.dtype.base_dtype for var in var_list}
        if len(kinds) > 1:
            raise ValueError(
                f"all variables must be of one dtype, and they are {sorted(kind.name for kind in kinds)}: their "
                "gradients lie side by side in one matrix"
            )
        self._trained = sorted(var_list, key=lambda var: str(var.op.name))
        at = 0
        for var in self._trained:
            size = int(np.prod(var.shape.as_list()))
            self._places[var.op.name] = at, at + size
            at += size
        first, (kind,) = min(var_list, key=lambda var: str(var.op.name)), kinds
        for name, start in (
            ("global_step", cast(0.0, kind)),
            ("grad_buffer", zeros([self._window, at], kind)),
            ("moment1", zeros([at], kind)),
            ("flat_grad", zeros([at], kind)),
        ):
            self._create_non_slot_variable(start, name, first)

    def _number(self, name: str) -> Any:
        return cast_like(self._numbers[name], self._trained[0])

    def _own(self, name: str) -> Any:
        return self._get_non_slot_variable(name, self._trained[0].graph)

    def _apply_dense(self, grad: Tensor, var: Any) -> Any:
        start, stop = self._places[var.op.name]
        rows = np.arange(start, stop, dtype=np.int32)
        flat = IndexedSlices(reshape(grad, [-1]), convert(rows))
        return self._own("flat_grad").scatter_update(flat, use_locking=self._use_locking)

    def _apply_sparse(self, grad: IndexedSlices, var: Any) -> Any:
        shape = convert(np.array(var.shape.as_list(), np.int64))
        whole = make.ScatterNd(
            expand_dims(cast(grad.indices, dtypes.int64), -1), grad.values, shape
        )
        return self._apply_dense(whole, var)

    def _finish(self, update_ops: Sequence[Any], name_scope: str) -> Operation:
        with control_dependencies(update_ops):
            locking = self._use_locking
            beta1, flat = self._number("beta1"), self._own("flat_grad").read_value()
            count = self._own("global_step").assign_add(1.0, use_locking=locking)
            mean = self._own("moment1")
            mean = mean.assign(beta1 * mean + (1.0 - beta1) * flat, use_locking=locking)
            mean = convert(mean)
            row = make.FloorMod(cast(count, dtypes.int32) - 1, self._window)
            latest = IndexedSlices(expand_dims(mean, 0), expand_dims(row, 0))
            kept = self._own("grad_buffer").scatter_update(latest, use_locking=locking)
            seen = make.Minimum(count, cast_like(convert(float(self._window)), self._trained[0]))
            step = self._step(convert(kept) / sqrt(seen), expand_dims(mean, -1))
            moved = [self._moved(var, step) for var in self._trained]
        made: Operation = group(*moved, name=name_scope)
        return made

    def _moved(self, var: Any, step: Tensor) -> Any:
        start, stop = self._places[var.op.name]
        part = reshape(step[start:stop], var.shape.as_list())
        return var.assign_sub(self._number("learning_rate") * part, use_locking=self._use_locking)

    def _step(self, rows: Tensor, mean: Tensor) -> Tensor:
        """rows [window, n]: Gᵀ.  mean [n, 1]."""
        square = matmul(rows, rows, transpose_b=True)
        square += eye(self._window, dtype=square.dtype) * self._number("svd_eps")
        sigma, u, _ = svd(square)
        roots = sqrt(sigma)
        least = reduce_min(roots)

        def through(weights: Any) -> Tensor:
            """G · u · diag(weights) · uᵀ · Gᵀ · mean."""
            inside = matmul(u, matmul(rows, mean), transpose_a=True)
            found: Tensor = matmul(
                rows, matmul(u, expand_dims(weights, -1) * inside), transpose_a=True
            )
            return found

        step = through(make.Pow(roots + self._number("sigma_eps"), cast_like(convert(-3.0), mean)))
        beside: Tensor = cond(
            least > self._number("eps"),
            lambda: step + (mean - through(1.0 / sigma)) / least,
            lambda: step,
        )
        return reshape(beside, [-1])
