"""AGNOptimizer: workers that send the mean of the gradients of several local steps to variables that they share.

Called by: programs.  Threads: as graph.
Source: J. Hermans, G. Spanakis, R. Möckel, Accumulated Gradient Normalization, 2017; arguments and what they mean:
behaviour of TF 1.15's contrib/opt
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Final

from headrace.graph.collections import GraphKeys
from headrace.graph.convert import convert
from headrace.graph.graph import Operation
from headrace.graph.names import colocate_with, control_dependencies, device
from headrace.ops.array.constants import zeros_like
from headrace.ops.flow.identities import group
from headrace.training.contrib.opt.replicas import GLOBAL, Beginning, Meeting, read_where_it_lies
from headrace.training.hooks.protocol import SessionRunHook
from headrace.training.optimizer import Optimizer, cast_like

__all__ = ["AGNCustomGetter", "AGNOptimizer"]

GRADIENTS: Final = "grad_variable"


class AGNCustomGetter:
    """For tf.variable_scope: trained variables lie on the worker, with a sum of gradients and a shared one beside."""

    def __init__(self, worker_device: Any) -> None:
        """worker_device: where the trained variables lie."""
        self._device = worker_device
        self._global_map: dict[Any, Any] = {}
        self._grad_map: dict[Any, Any] = {}

    def __call__(self, getter: Any, name: str, *args: Any, **kwargs: Any) -> Any:
        """See `tf.variable_scope`."""
        trainable = kwargs.pop("trainable", True)
        collections = kwargs.pop("collections", None)
        if trainable is False:
            return getter(name, *args, trainable=False, collections=collections, **kwargs)
        on_worker = [GraphKeys.LOCAL_VARIABLES]
        with device(self._device):
            local = getter(name, *args, trainable=True, collections=on_worker, **kwargs)
        if local in self._global_map:
            return local
        everywhere = [GraphKeys.GLOBAL_VARIABLES]
        self._global_map[local] = getter(
            f"{GLOBAL}/{name}", *args, trainable=False, collections=everywhere, **kwargs
        )
        with device(self._device):
            self._grad_map[local] = getter(
                f"{GRADIENTS}/{name}", *args, trainable=False, collections=on_worker, **kwargs
            )
        return local


class AGNOptimizer(Meeting):
    """Each worker trains variables of its own; after every communication_period steps the shared ones make a step.

    That step is along the mean of the worker's gradients since the last one; the worker goes on from where it ends.
    """

    def __init__(
        self,
        optimizer: Optimizer,
        num_worker: int,
        custom_getter: AGNCustomGetter,
        communication_period: int = 10,
        use_locking: bool = True,
        name: str = "AGNOptimizer",
    ) -> None:
        """optimizer: makes the steps, on the worker's variables and on the shared ones."""
        super().__init__(optimizer, use_locking, name)
        self._num_worker, self._period = num_worker, communication_period
        self._global_map, self._grad_map = custom_getter._global_map, custom_getter._grad_map
        self._count_steps(custom_getter._device)

    def apply_gradients(
        self, grads_and_vars: Iterable[Any], global_step: Any = None, name: str | None = None
    ) -> Operation:
        """See `Optimizer.apply_gradients`; global_step is raised when the shared variables have made a step."""
        pairs = list(grads_and_vars)
        trained = [var for grad, var in pairs if grad is not None]
        sums = [
            self._grad_map[var].assign_add(convert(grad), use_locking=self._use_locking)
            for grad, var in pairs
            if grad is not None
        ]
        with control_dependencies([each.op for each in sums]):
            made: Operation = self._after_step(pairs, lambda: self._share(trained, global_step))
        return made

    def _share(self, trained: Sequence[Any], global_step: Any) -> Any:
        means = []
        for var in trained:
            with device(var.device):
                total = self._grad_map[var].read_value()
                means.append(total / cast_like(convert(float(self._period)), var))
        centers = [self._global_map[var] for var in trained]
        moved = self._optimizer.apply_gradients(list(zip(means, centers, strict=True)))
        with control_dependencies([moved]):
            after = [self._pulled(var) for var in trained]
            if global_step is not None:
                with colocate_with(global_step):
                    after.append(global_step.assign_add(1).op)
        return group(*after)

    def _pulled(self, var: Any) -> Any:
        """The worker's variable is the shared one, and there are no gradients yet."""
        value, total = read_where_it_lies(self._global_map[var]), self._grad_map[var]
        with device(var.device):
            return group(var.assign(value), total.assign(zeros_like(total)))

    def get_init_op(self, task_index: int) -> Operation:
        """The operation with which a worker begins.  Raises ValueError: no variables came from the getter."""
        if not self._global_map:
            raise ValueError(
                "The lists of local_variables, global_center_variables, grad_center_variables should not be empty"
            )
        made: Operation = group(*[self._pulled(var) for var in self._global_map])
        return made

    def make_session_run_hook(self, is_chief: bool, task_index: int) -> SessionRunHook:
        """A hook that begins as `get_init_op` says."""
        return Beginning(list, lambda: self.get_init_op(task_index))
