"""Replicas that train variables of their own and meet now and then: ElasticAverageOptimizer, ModelAverageOptimizer.

A custom getter makes of each trained variable one on the worker, and a global one that the workers share; after every
so many local steps the optimizer brings both nearer to each other.
Called by: programs.  Threads: as graph.
Source: behaviour of TF 1.15's contrib/opt; S. Zhang, A. Choromanska, Y. LeCun, Deep learning with Elastic Averaging
SGD, 2015
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, Final

from headrace.base import dtypes
from headrace.graph.collections import GraphKeys
from headrace.graph.graph import Operation
from headrace.graph.names import colocate_with, control_dependencies, device, name_scope
from headrace.library.variables.variable_lists import trainable_variables
from headrace.library.variables.variables import Variable
from headrace.ops.array.constants import constant, fill
from headrace.ops.data.accumulators import ConditionalAccumulator
from headrace.ops.data.queues import FIFOQueue
from headrace.ops.flow.control_flow import cond
from headrace.ops.flow.identities import group, no_op
from headrace.ops.math.casting import cast
from headrace.ops.math.sums import add_n
from headrace.ops.nn.basics import l2_loss
from headrace.ops.tables import make
from headrace.training.contrib.opt.around import Around, swapped_variables
from headrace.training.hooks.protocol import SessionRunHook
from headrace.training.optimizer import Optimizer
from headrace.training.saver.saver import Saver

__all__ = [
    "ElasticAverageCustomGetter",
    "ElasticAverageOptimizer",
    "ModelAverageCustomGetter",
    "ModelAverageOptimizer",
]

GLOBAL: Final = "global_center_variable"
LOCAL: Final = "local_center_variable"
_SHARE: Final = 0.9
"""Of what lies between a worker and the center that all workers together give up between two meetings."""


class ModelAverageCustomGetter:
    """For tf.variable_scope: trained variables lie on the worker, and a shared one beside each."""

    def __init__(self, worker_device: Any) -> None:
        """worker_device: where the trained variables lie."""
        self._device = worker_device
        self._local_2_global: dict[Any, Any] = {}

    def __call__(self, getter: Any, name: str, *args: Any, **kwargs: Any) -> Any:
        """See `tf.variable_scope`."""
        trainable = kwargs.pop("trainable", True)
        collections = kwargs.pop("collections", None)
        if trainable is False:
            return getter(name, *args, trainable=False, collections=collections, **kwargs)
        with device(self._device):
            local = getter(
                name, *args, trainable=True, collections=[GraphKeys.LOCAL_VARIABLES], **kwargs
            )
        if local not in self._local_2_global:
            self._local_2_global[local] = Variable(
                local.initialized_value(),
                name=f"{GLOBAL}/{name}",
                trainable=False,
                collections=[GraphKeys.GLOBAL_VARIABLES],
            )
        return local


class ElasticAverageCustomGetter:
    """For tf.variable_scope: trained variables lie on the worker, with a copy of the shared one beside each."""

    def __init__(self, worker_device: Any) -> None:
        """worker_device: where the trained variables lie."""
        self._device = worker_device
        self._local_map: dict[Any, Any] = {}
        self._global_map: dict[Any, Any] = {}

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
        self._global_map[local] = getter(
            f"{GLOBAL}/{name}",
            *args,
            trainable=False,
            collections=[GraphKeys.GLOBAL_VARIABLES],
            **kwargs,
        )
        with device(self._device):
            self._local_map[local] = getter(
                f"{LOCAL}/{name}", *args, trainable=False, collections=on_worker, **kwargs
            )
        return local


def read_where_it_lies(center: Any) -> Any:
    """The value, read where the variable lies: in the order that control inputs say."""
    with device(center.device):
        return center.read_value()


class Meeting(Around):
    """Counts local steps, and does something after every so many."""

    _period: int
    _local_step: Any

    def _count_steps(self, worker: Any) -> None:
        """On the worker's device: elsewhere all workers would count together."""
        with device(worker):
            self._local_step = Variable(
                0, name="local_step", trainable=False, collections=[GraphKeys.LOCAL_VARIABLES]
            )

    def _after_step(self, pairs: Sequence[Any], meet: Callable[[], Any]) -> Any:
        """Raises ValueError for no gradients."""
        if not pairs:
            raise ValueError("Must supply at least one variable")
        updated = self._optimizer.apply_gradients(pairs)
        with control_dependencies([updated]):
            counted = self._local_step.assign_add(1, use_locking=self._use_locking)
        with control_dependencies([counted.op]):
            due = make.Equal(make.FloorMod(self._local_step.read_value(), self._period), 0)
            return cond(due, meet, no_op)


class ModelAverageOptimizer(Meeting):
    """After every interval_steps local steps each worker's variables become the mean of all workers'."""

    def __init__(
        self,
        opt: Optimizer,
        num_worker: int,
        is_chief: bool,
        ma_custom_getter: ModelAverageCustomGetter,
        interval_steps: int = 100,
        use_locking: bool = True,
        name: str = "ModelAverageOptimizer",
    ) -> None:
        """opt: what trains on the worker.  Raises TypeError for what is no optimizer."""
        if not isinstance(opt, Optimizer):
            raise TypeError(f"opt must be a tf.train.Optimizer, not {opt!r}")
        super().__init__(opt, use_locking, name)
        self._num_worker, self._is_chief = num_worker, is_chief
        self._local_2_global = ma_custom_getter._local_2_global
        self._period = interval_steps
        self._chief_init_op: Any = None
        self._count_steps(ma_custom_getter._device)

    def compute_gradients(self, *args: Any, **kwargs: Any) -> list[tuple[Any, Any]]:
        """See `Optimizer.compute_gradients`; losses are computed on the worker."""
        kwargs.setdefault("colocate_gradients_with_ops", True)
        return self._optimizer.compute_gradients(*args, **kwargs)

    def apply_gradients(
        self, grads_and_vars: Iterable[Any], global_step: Any = None, name: str | None = None
    ) -> Operation:
        """See `Optimizer.apply_gradients`; global_step is raised when the workers have met.

        Raises ValueError for no global step.
        """
        if global_step is None:
            raise ValueError("Global step is required")
        pairs = list(grads_and_vars)
        trained = [var for grad, var in pairs if grad is not None]
        with colocate_with(global_step):
            tokens = FIFOQueue(-1, [dtypes.bool], shapes=[[]], shared_name="sync_queue")
        places = [self._place(var) for var in trained]
        made: Operation = self._after_step(
            pairs, lambda: self._average(trained, places, tokens, global_step)
        )
        inits = [each.set_global_step(global_step, name="SetGlobalStep") for each in places]
        self._chief_init_op = group(*inits)
        return made

    def _place(self, var: Any) -> ConditionalAccumulator:
        """Where the workers bring their values of a variable."""
        center = self._local_2_global[var]
        with device(center.device):
            return ConditionalAccumulator(
                var.dtype.base_dtype, var.shape, shared_name=f"{center.name}/var_accum"
            )

    def _average(
        self, trained: Sequence[Any], places: Sequence[Any], tokens: Any, global_step: Any
    ) -> Any:
        with name_scope(None), name_scope(f"{self._name}/global"):
            brought = [
                place.apply_grad(var.read_value(), local_step=global_step)
                for place, var in zip(places, trained, strict=True)
            ]
        with control_dependencies(brought):
            if self._is_chief:
                met = self._lead(trained, places, tokens, global_step)
            else:
                met = tokens.dequeue()
        with control_dependencies([met]):
            return self._copied(trained)

    def _lead(
        self, trained: Sequence[Any], places: Sequence[Any], tokens: Any, global_step: Any
    ) -> Any:
        """The chief's part: the mean becomes the shared variable, then the others may go on."""
        updates = []
        for var, place in zip(trained, places, strict=True):
            center = self._local_2_global[var]
            with device(center.device):
                mean = place.take_grad(self._num_worker)
                updates.append(center.assign(mean, use_locking=self._use_locking))
        with device(global_step.device):
            updates.append(global_step.assign_add(1))
        with control_dependencies(updates), device(global_step.device):
            return tokens.enqueue_many(fill([self._num_worker - 1], constant(False)))

    def _copied(self, trained: Sequence[Any]) -> Any:
        copies = []
        for var in trained:
            value = read_where_it_lies(self._local_2_global[var])
            with device(var.device):
                copies.append(var.assign(value))
        return group(*copies)

    def get_init_op(self) -> Operation:
        """The operation that gives a worker's variables the shared ones' values."""
        made: Operation = self._copied(
            [each for each in trainable_variables() if each in self._local_2_global]
        )
        return made

    def make_session_run_hook(self) -> SessionRunHook:
        """A hook that begins as `get_init_op` says."""
        return Beginning(lambda: [self._chief_init_op] if self._is_chief else [], self.get_init_op)


class Beginning(SessionRunHook):
    """Runs operations when there is a session: first some, then one, asked for before the graph is finalized."""

    def __init__(self, first: Callable[[], list[Any]], then: Callable[[], Any]) -> None:
        self._first, self._then = first, then
        self._ops: list[Any] = []

    def begin(self) -> None:
        """See `SessionRunHook.begin`."""
        self._ops = [*self._first(), self._then()]

    def after_create_session(self, session: Any, coord: Any) -> None:
        """See `SessionRunHook.after_create_session`."""
        for each in self._ops:
            session.run(each)


class ElasticAverageOptimizer(Meeting):
    """After every communication_period local steps a worker's variables and the shared ones draw each other nearer."""

    def __init__(
        self,
        opt: Optimizer,
        num_worker: int,
        ea_custom_getter: ElasticAverageCustomGetter,
        communication_period: int = 10,
        moving_rate: float | None = None,
        rho: float | None = None,
        use_locking: bool = True,
        synchronous: bool = False,
        name: str = "ElasticAverageOptimizer",
    ) -> None:
        """moving_rate: how much of what lies between both is given up; 0.9 / (period · workers) if None.

        rho: how much of it a worker's loss has; moving_rate / learning rate if None.  synchronous: the center moves
        when all workers have come.
        """
        super().__init__(opt, use_locking, name)
        self._num_worker, self._period = num_worker, communication_period
        self._global_map, self._local_map = (
            ea_custom_getter._global_map,
            ea_custom_getter._local_map,
        )
        rate = _SHARE / communication_period / num_worker if moving_rate is None else moving_rate
        self._moving_rate = rate
        self._rho = rate / opt._learning_rate if rho is None else rho  # type: ignore[attr-defined]
        self._synchronous = synchronous
        self._count_steps(ea_custom_getter._device)

    def compute_gradients(
        self, loss: Any, var_list: Any = None, *args: Any, **kwargs: Any
    ) -> list[tuple[Any, Any]]:
        """See `Optimizer.compute_gradients`; the loss has the distance from the center, too."""
        wanted = var_list or trainable_variables()
        apart = [
            l2_loss(var.read_value() - self._local_map[var].read_value())
            for var in wanted
            if var in self._local_map
        ]
        whole = loss + self._rho * add_n(apart)
        return self._optimizer.compute_gradients(whole, var_list, *args, **kwargs)

    def apply_gradients(
        self, grads_and_vars: Iterable[Any], global_step: Any = None, name: str | None = None
    ) -> Operation:
        """See `Optimizer.apply_gradients`; global_step is raised when a worker has met the center."""
        pairs = list(grads_and_vars)
        made: Operation = self._after_step(pairs, lambda: self._meet(pairs, global_step))
        return made

    def _meet(self, pairs: Sequence[Any], global_step: Any) -> Any:
        trained = [var for grad, var in pairs if grad is not None]
        fetched = [
            self._local_map[var].assign(self._global_map[var].read_value()) for var in trained
        ]
        updates = []
        with control_dependencies([each.op for each in fetched]):
            for var in trained:
                with device(var.device):
                    apart = var.read_value() - self._local_map[var].read_value()
                    step = apart * cast(constant(self._moving_rate), apart.dtype)
                updates.append((var, step))
        with control_dependencies([step for _, step in updates]):
            moved = [self._gathered(var, step) for var, step in updates]
            moved += [var.assign_sub(step) for var, step in updates]
            if global_step is not None:
                with colocate_with(global_step):
                    moved.append(global_step.assign_add(1))
        return group(*moved)

    def _gathered(self, var: Any, step: Any) -> Any:
        """The center's part: at once, or the sum of all workers' when all have come."""
        center = self._global_map[var]
        with device(center.device):
            if not self._synchronous:
                return center.assign_add(step, use_locking=self._use_locking)
            accumulator = ConditionalAccumulator(
                step.dtype, step.shape, shared_name=f"{center.name}/var_accum"
            )
            brought = accumulator.apply_grad(step)
            with control_dependencies([brought]):
                waiting = accumulator.num_accumulated()

                def all_came() -> Any:
                    mean = accumulator.take_grad(self._num_worker)
                    return center.assign_add(mean * float(self._num_worker)).op

                return cond(make.GreaterEqual(waiting, self._num_worker), all_came, no_op)

    def get_init_op(self, task_index: int) -> Operation:
        """The operation that gives a worker's variables the shared ones' values; task 0 gives them its own."""
        copies = []
        for var, center in self._global_map.items():
            if task_index == 0:
                begun = center.assign(var.read_value())
            else:
                begun = var.assign(read_where_it_lies(center))
            with control_dependencies([begun.op]):
                copies.append(self._local_map[var].assign(read_where_it_lies(center)))
        made: Operation = group(*copies)
        return made

    def make_session_run_hook(self, is_chief: bool, task_index: int) -> SessionRunHook:
        """A hook that begins as `get_init_op` says."""
        return Beginning(list, lambda: self.get_init_op(0 if is_chief else task_index))

    def swapping_saver(
        self, var_list: Any = None, name: str = "swapping_saver", **kwargs: Any
    ) -> Saver:
        """A saver that writes the shared variables under the names of those on the worker."""
        swaps: dict[str, Any] = {}
        for var, center in self._global_map.items():
            swaps |= {var.op.name: center, center.op.name: var}
        if var_list is None:
            var_list = [*self._global_map, *self._global_map.values()]
        return Saver(swapped_variables(swaps, var_list), name=name, **kwargs)
