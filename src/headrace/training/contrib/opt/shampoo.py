"""ShampooOptimizer: a preconditioner for each dimension of a variable.

Called by: programs.  Threads: as graph.
Source: V. Gupta, T. Koren, Y. Singer, Shampoo: Preconditioned Stochastic Tensor Optimization, 2018; arguments and what
they mean: behaviour of TF 1.15's contrib/opt
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from headrace.base import dtypes
from headrace.graph.convert import convert
from headrace.graph.graph import Operation
from headrace.graph.indexed_slices import IndexedSlices
from headrace.graph.names import control_dependencies
from headrace.graph.tensor import Tensor
from headrace.library.tensordot import tensordot
from headrace.ops.array.constants import ones, zeros
from headrace.ops.array.shapes import matrix_transpose, transpose
from headrace.ops.flow.control_flow import cond
from headrace.ops.flow.identities import group
from headrace.ops.linalg.decompositions import svd
from headrace.ops.linalg.diagonals import eye
from headrace.ops.linalg.products import matmul
from headrace.ops.math.casting import cast
from headrace.ops.math.magnitudes import square
from headrace.ops.math.reductions import reduce_sum
from headrace.ops.tables import make
from headrace.training.optimizer import Optimizer, cast_like

__all__ = ["ShampooOptimizer"]


class ShampooOptimizer(Optimizer):
    """Gradients of n dimensions, each multiplied with the (-alpha / n)th power of the sum of g · gᵀ along it.

    Dimensions of more than max_matrix_size have diagonals of these sums alone.
    """

    def __init__(
        self,
        global_step: Any = 0,
        max_matrix_size: int = 768,
        gbar_decay: Any = 0.0,
        gbar_weight: Any = 1.0,
        mat_gbar_decay: Any = 1.0,
        mat_gbar_weight: Any = 1.0,
        learning_rate: Any = 1.0,
        svd_interval: int = 1,
        precond_update_interval: int = 1,
        epsilon: float = 1e-4,
        alpha: float = 0.5,
        use_iterative_root: bool = False,
        use_locking: bool = False,
        name: str = "Shampoo",
    ) -> None:
        """global_step: counts the steps for the intervals.  gbar_…: of the mean of gradients; mat_gbar_…: of the sums.

        svd_interval: roots are computed after so many steps; precond_update_interval: sums are added to.
        use_iterative_root: changes nothing; roots are exact.  Decays and weights may be functions of the step.
        """
        super().__init__(use_locking, name)
        self._global_step = convert(global_step)
        self._max_matrix_size = max_matrix_size
        self._gbar, self._mat_gbar = (gbar_decay, gbar_weight), (mat_gbar_decay, mat_gbar_weight)
        self._learning_rate = learning_rate
        self._svd_interval, self._update_interval = svd_interval, precond_update_interval
        self._epsilon, self._alpha = epsilon, alpha

    def _create_slots(self, var_list: Sequence[Any]) -> None:
        for var in var_list:
            if callable(self._gbar[0]) or self._gbar[0] != 0.0:  # else the mean is the gradient
                self._zeros_slot(var, "gbar", self._name)
            for at, size in enumerate(var.shape.as_list()):
                whole = size <= self._max_matrix_size
                shape = [size, size] if whole else [size]
                start = eye(size, dtype=var.dtype.base_dtype) if whole else ones(shape, var.dtype)
                self._get_or_make_slot(var, start * 0.0, f"mat_gbar_{at}", self._name)
                if whole and self._svd_interval > 1:
                    self._get_or_make_slot(var, start, f"precond_{at}", self._name)

    def _number(self, value: Any, var: Any) -> Tensor:
        step = self._global_step
        made: Tensor = cast_like(convert(self._call_if_callable(value, step)), var)
        return made

    def _due(self, interval: int) -> Tensor:
        made: Tensor = make.Equal(make.FloorMod(cast(self._global_step, dtypes.int64), interval), 0)
        return made

    def _averaged(self, grad: Tensor, var: Any) -> Any:
        decay, weight = (self._number(each, var) for each in self._gbar)
        if "gbar" not in self.get_slot_names():
            return grad * weight
        slot = self.get_slot(var, "gbar")
        return slot.assign(decay * slot + weight * grad, use_locking=self._use_locking)

    def _sum(self, grad: Tensor, var: Any, at: int, whole: bool) -> Any:
        """g · gᵀ along a dimension, added to what was."""
        slot = self.get_slot(var, f"mat_gbar_{at}")
        decay, weight = (self._number(each, var) for each in self._mat_gbar)
        others = [each for each in range(len(var.shape)) if each != at]

        def added() -> Any:
            if whole:
                new = tensordot(grad, grad, axes=[others, others])
            else:
                new = reduce_sum(square(grad), axis=others)
            return slot.assign(decay * slot + weight * new, use_locking=self._use_locking)

        if self._update_interval == 1:
            return added()
        return cond(self._due(self._update_interval), added, slot.read_value)

    def _root(self, total: Any, var: Any, at: int) -> Any:
        """The power of a matrix by its singular values, in double precision; kept between two of them."""

        def computed() -> Any:
            size = var.shape[at].value
            damped = total + self._epsilon * eye(size, dtype=var.dtype.base_dtype)
            s, u, v = svd(cast(damped, dtypes.float64))
            power = make.Pow(make.Maximum(s, self._epsilon), self._exponent(var))
            return cast(matmul(v * power, matrix_transpose(u)), var.dtype.base_dtype)

        if self._svd_interval == 1:
            return computed()
        slot = self.get_slot(var, f"precond_{at}")
        return cond(
            self._due(self._svd_interval),
            lambda: slot.assign(computed(), use_locking=self._use_locking),
            slot.read_value,
        )

    def _exponent(self, var: Any) -> float:
        return -self._alpha / max(len(var.shape), 1)

    def _apply_dense(self, grad: Tensor, var: Any) -> Operation:
        found = self._averaged(grad, var)
        rank = len(var.shape)
        for at in range(rank):  # each turns the first dimension, which then is the last
            whole = var.shape[at].value <= self._max_matrix_size
            total = self._sum(grad, var, at, whole)
            if whole:
                with control_dependencies([total]):
                    found = tensordot(found, self._root(total, var, at), axes=[[0], [0]])
            else:
                power = make.Pow(total + self._epsilon, self._exponent(var))
                found = transpose(found, [*range(1, rank), 0]) * power
        step = self._number(self._learning_rate, var) * found
        made: Operation = group(var.assign_sub(step, use_locking=self._use_locking))
        return made

    def _resource_apply_dense(self, grad: Tensor, handle: Any) -> Operation:
        return self._apply_dense(grad, handle)

    def _apply_sparse(self, grad: IndexedSlices, var: Any) -> Operation:
        return self._apply_dense(_dense(grad.values, grad.indices, var), var)

    def _resource_apply_sparse(self, grad: Tensor, handle: Any, indices: Tensor) -> Operation:
        return self._apply_dense(_dense(grad, indices, handle), handle)


def _dense(rows: Tensor, indices: Tensor, var: Any) -> Tensor:
    """Rows that are given, zeros elsewhere."""
    whole = zeros(var.shape.as_list(), rows.dtype.base_dtype)
    made: Tensor = make.TensorScatterAdd(whole, indices[..., None], rows)
    return made
