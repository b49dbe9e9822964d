"""Weight decay beside the loss: AdamWOptimizer, MomentumWOptimizer, and the same for any other optimizer.

Called by: programs.  Threads: as graph.
Source: I. Loshchilov, F. Hutter, Decoupled weight decay regularization, 2017; names: TF 1.15 contrib/opt
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from headrace.graph.convert import convert
from headrace.graph.graph import Operation
from headrace.graph.indexed_slices import IndexedSlices
from headrace.graph.names import control_dependencies
from headrace.ops.array.gathering import gather
from headrace.training.adam import AdamOptimizer
from headrace.training.momentum import MomentumOptimizer
from headrace.training.optimizer import Optimizer, cast_like

__all__ = [
    "AdamWOptimizer",
    "DecoupledWeightDecayExtension",
    "MomentumWOptimizer",
    "extend_with_decoupled_weight_decay",
]


class DecoupledWeightDecayExtension:
    """What is mixed into an optimizer: before each update, var -= weight_decay * var."""

    def __init__(self, weight_decay: Any, **kwargs: Any) -> None:
        """weight_decay: a number, a tensor, or a function that gives one; it is not multiplied by the learning rate."""
        self._weight_decay = weight_decay
        self._decay_var_list: set[Any] | None = None
        super().__init__(**kwargs)

    def minimize(
        self,
        loss: Any,
        global_step: Any = None,
        var_list: Any = None,
        gate_gradients: int = Optimizer.GATE_OP,
        aggregation_method: int | None = None,
        colocate_gradients_with_ops: bool = False,
        name: str | None = None,
        grad_loss: Any = None,
        decay_var_list: Iterable[Any] | None = None,
    ) -> Operation:
        """`Optimizer.minimize`; decay_var_list: the variables that decay, all without it."""
        self._decays(decay_var_list)
        made: Operation = super().minimize(  # type: ignore[misc]
            loss,
            global_step=global_step,
            var_list=var_list,
            gate_gradients=gate_gradients,
            aggregation_method=aggregation_method,
            colocate_gradients_with_ops=colocate_gradients_with_ops,
            name=name,
            grad_loss=grad_loss,
        )
        return made

    def apply_gradients(
        self,
        grads_and_vars: Iterable[Any],
        global_step: Any = None,
        name: str | None = None,
        decay_var_list: Iterable[Any] | None = None,
    ) -> Operation:
        """`Optimizer.apply_gradients`; decay_var_list: the variables that decay, all without it."""
        self._decays(decay_var_list)
        base: Any = super()
        made: Operation = base.apply_gradients(grads_and_vars, global_step=global_step, name=name)
        return made

    def _decays(self, variables: Iterable[Any] | None) -> None:
        if variables is not None:
            self._decay_var_list = {each.op for each in variables}

    def _prepare(self) -> None:
        given = self._weight_decay() if callable(self._weight_decay) else self._weight_decay
        self._weight_decay_tensor = convert(given, None, "weight_decay")
        super()._prepare()  # type: ignore[misc]

    def _decayed(self, var: Any, indices: Any = None) -> list[Any]:
        if self._decay_var_list is not None and var.op not in self._decay_var_list:
            return []
        locking = self._use_locking  # type: ignore[attr-defined]
        share = cast_like(self._weight_decay_tensor, var)
        if indices is None:
            return [var.assign_sub(share * var, use_locking=locking)]
        lost = IndexedSlices(share * gather(var, indices), indices)
        return [var.scatter_sub(lost, use_locking=locking)]

    def _apply_dense(self, grad: Any, var: Any) -> Any:
        with control_dependencies(self._decayed(var)):
            return super()._apply_dense(grad, var)  # type: ignore[misc]

    def _resource_apply_dense(self, grad: Any, handle: Any) -> Any:
        with control_dependencies(self._decayed(handle)):
            return super()._apply_dense(grad, handle)  # type: ignore[misc]

    def _apply_sparse(self, grad: Any, var: Any) -> Any:
        with control_dependencies(self._decayed(var, grad.indices)):
            return super()._apply_sparse(grad, var)  # type: ignore[misc]

    def _resource_apply_sparse(self, grad: Any, handle: Any, indices: Any) -> Any:
        with control_dependencies(self._decayed(handle, indices)):
            return super()._apply_sparse(IndexedSlices(grad, indices), handle)  # type: ignore[misc]


def extend_with_decoupled_weight_decay(base_optimizer: type[Optimizer]) -> type[Any]:
    """A class whose constructor takes weight_decay, and then what that of base_optimizer takes."""

    class OptimizerWithDecoupledWeightDecay(DecoupledWeightDecayExtension, base_optimizer):  # type: ignore[misc, valid-type]
        """The optimizer, whose variables decay."""

        def __init__(self, weight_decay: Any, *args: Any, **kwargs: Any) -> None:
            """See `DecoupledWeightDecayExtension` and the optimizer."""
            self._weight_decay = weight_decay
            self._decay_var_list = None
            base_optimizer.__init__(self, *args, **kwargs)

    OptimizerWithDecoupledWeightDecay.__name__ = (
        f"{base_optimizer.__name__}WithDecoupledWeightDecay"
    )
    return OptimizerWithDecoupledWeightDecay


class MomentumWOptimizer(DecoupledWeightDecayExtension, MomentumOptimizer):
    """MomentumOptimizer with weight decay."""

    def __init__(
        self,
        weight_decay: Any,
        learning_rate: Any,
        momentum: Any,
        use_locking: bool = False,
        name: str = "MomentumW",
        use_nesterov: bool = False,
    ) -> None:
        """See `DecoupledWeightDecayExtension` and `MomentumOptimizer`."""
        super().__init__(
            weight_decay,
            learning_rate=learning_rate,
            momentum=momentum,
            use_locking=use_locking,
            name=name,
            use_nesterov=use_nesterov,
        )


class AdamWOptimizer(DecoupledWeightDecayExtension, AdamOptimizer):
    """AdamOptimizer with weight decay."""

    def __init__(
        self,
        weight_decay: Any,
        learning_rate: Any = 0.001,
        beta1: Any = 0.9,
        beta2: Any = 0.999,
        epsilon: Any = 1e-8,
        use_locking: bool = False,
        name: str = "AdamW",
    ) -> None:
        """See `DecoupledWeightDecayExtension` and `AdamOptimizer`."""
        super().__init__(
            weight_decay,
            learning_rate=learning_rate,
            beta1=beta1,
            beta2=beta2,
            epsilon=epsilon,
            use_locking=use_locking,
            name=name,
        )
