"""FtrlOptimizer: follow the regularized leader, for linear models with many weights at zero.

Called by: programs.  Threads: as graph.
Source: McMahan et al., 2013; TF 1.15 python/training/ftrl.py, for names; `beta` as 2.21
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from headrace.graph.indexed_slices import IndexedSlices
from headrace.graph.tensor import Tensor
from headrace.library.variables.initializers import ones_initializer
from headrace.ops.math.arithmetic import maximum
from headrace.training.optimizer import Optimizer

__all__ = ["FtrlOptimizer"]

_SMALLEST_RATE = 1e-36


class FtrlOptimizer(Optimizer):
    """Weights that are best, in hindsight, for the gradients so far and the regularization."""

    def __init__(
        self,
        learning_rate: Any,
        learning_rate_power: float = -0.5,
        initial_accumulator_value: float = 0.1,
        l1_regularization_strength: float = 0.0,
        l2_regularization_strength: float = 0.0,
        use_locking: bool = False,
        name: str = "Ftrl",
        accum_name: str | None = None,
        linear_name: str | None = None,
        l2_shrinkage_regularization_strength: float = 0.0,
        beta: float | None = None,
    ) -> None:
        """The rate of a weight is learning_rate / (beta + (sum of its gradients' squares) ^ -learning_rate_power).

        l1, l2: penalties on the weights found.  l2_shrinkage: penalty on the weights' sizes, as part of the gradient.
        accum_name, linear_name: of the slots, instead of `name`.
        Raises ValueError for a positive power and for anything else negative.
        """
        super().__init__(use_locking, name)
        if learning_rate_power > 0.0:
            raise ValueError(f"learning_rate_power must not be positive, as {learning_rate_power}")
        for what, value in (
            ("initial_accumulator_value", initial_accumulator_value),
            ("l1_regularization_strength", l1_regularization_strength),
            ("l2_regularization_strength", l2_regularization_strength),
            ("l2_shrinkage_regularization_strength", l2_shrinkage_regularization_strength),
        ):
            if value < 0.0:
                raise ValueError(f"{what} must not be negative, as {value}")
        self._learning_rate = learning_rate
        self._learning_rate_power = learning_rate_power
        self._initial_accumulator_value = initial_accumulator_value
        self._l1_regularization_strength = l1_regularization_strength
        self._l2_regularization_strength = l2_regularization_strength
        self._l2_shrinkage_regularization_strength = l2_shrinkage_regularization_strength
        self._beta = 0.0 if beta is None else beta
        self._accum_name = accum_name
        self._linear_name = linear_name
        self._learning_rate_tensor: Any = None  # tensors, from `_prepare` on
        self._learning_rate_power_tensor: Any = None
        self._l1_regularization_strength_tensor: Any = None
        self._adjusted_l2_regularization_strength_tensor: Any = None
        self._l2_shrinkage_regularization_strength_tensor: Any = None
        self._beta_tensor: Any = None

    def _create_slots(self, var_list: Sequence[Any]) -> None:
        def initial(shape: Any, dtype: Any, partition_info: Any = None) -> Tensor:
            ones: Tensor = ones_initializer(dtype=dtype)(shape)
            return ones * self._initial_accumulator_value

        accum_name = self._accum_name or self._name
        for var in var_list:
            self._get_or_make_slot_with_initializer(
                var, initial, var.get_shape(), var.dtype.base_dtype, "accum", accum_name
            )
            self._zeros_slot(var, "linear", self._linear_name or self._name)

    def _prepare(self) -> None:
        rate = self._call_if_callable(self._learning_rate)
        made = self._as_tensors(
            learning_rate=rate, l1_regularization_strength=self._l1_regularization_strength
        )
        # The share of beta in the denominator of the rate acts as a penalty of beta / (2 * rate) would.
        share = self._beta / (2.0 * maximum(rate, _SMALLEST_RATE))
        l2 = self._l2_regularization_strength + share
        more = self._as_tensors(
            beta=self._beta,
            l2_shrinkage_regularization_strength=self._l2_shrinkage_regularization_strength,
            learning_rate_power=self._learning_rate_power,
        )
        self._learning_rate_tensor = made["learning_rate"]
        self._l1_regularization_strength_tensor = made["l1_regularization_strength"]
        self._adjusted_l2_regularization_strength_tensor = l2
        self._beta_tensor = more["beta"]
        self._l2_shrinkage_regularization_strength_tensor = more[
            "l2_shrinkage_regularization_strength"
        ]
        self._learning_rate_power_tensor = more["learning_rate_power"]

    def _apply_dense(self, grad: Tensor | IndexedSlices, var: Any) -> Any:
        rule = "FtrlV2" if self._l2_shrinkage_regularization_strength > 0.0 else "Ftrl"
        scalars = {
            "lr": self._learning_rate_tensor,
            "l1": self._l1_regularization_strength_tensor,
            "l2": self._adjusted_l2_regularization_strength_tensor,
            "l2_shrinkage": self._l2_shrinkage_regularization_strength_tensor,
            "lr_power": self._learning_rate_power_tensor,
        }
        return self._apply_rule(rule, grad, var, ["accum", "linear"], scalars)

    _apply_sparse = _apply_dense
