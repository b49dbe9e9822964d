"""SyncReplicasOptimizer: workers' gradients are averaged before the variables change.

Each worker adds its gradients to an accumulator per variable, which lives with the variable, and
then waits for a token.  The chief's queue runner takes the mean once enough gradients are there,
applies it, and puts out a token per worker with the new global step; a worker's next gradients carry
the step of its token, so that those of stragglers are dropped.
Called by: programs.  Threads: building as graph; the chief's queue runner has a thread of its own.
Source: TF 1.15 python/training/sync_replicas_optimizer.py, for behaviour; node names checked
against the oracle
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Iterable
from typing import Any

from headrace.graph.collections import GraphKeys
from headrace.graph.graph import Operation
from headrace.graph.indexed_slices import IndexedSlices
from headrace.graph.names import colocate_with, control_dependencies, device, name_scope
from headrace.graph.tensor import Tensor
from headrace.library.variables.assigning import assign
from headrace.library.variables.variable_lists import (
    global_variables,
    report_uninitialized_variables,
)
from headrace.library.variables.variables import Variable
from headrace.ops.array.constants import fill
from headrace.ops.data.accumulators import ConditionalAccumulator, SparseConditionalAccumulator
from headrace.ops.data.queues import FIFOQueue
from headrace.ops.flow.identities import group, no_op
from headrace.training.coordinator import Coordinator
from headrace.training.hooks.protocol import SessionRunHook
from headrace.training.optimizer import Optimizer
from headrace.training.queue_runner import QueueRunner

__all__ = ["SyncReplicasOptimizer"]


log = logging.getLogger("headrace")


class SyncReplicasOptimizer(Optimizer):
    """Wraps another optimizer; see the module header."""

    chief_init_op: Operation
    """To be run by the chief, after the variables are initialized."""
    local_step_init_op: Tensor
    """To be run by the other workers, when the global variables are initialized."""
    ready_for_local_init_op: Tensor
    """Names of the global variables that are not initialized yet."""

    def __init__(
        self,
        opt: Optimizer,
        replicas_to_aggregate: int,
        total_num_replicas: int | None = None,
        variable_averages: Any = None,
        variables_to_average: Any = None,
        use_locking: bool = False,
        name: str = "sync_replicas",
    ) -> None:
        """`opt` applies the mean of `replicas_to_aggregate` gradients.

        total_num_replicas: how many workers there are (default: replicas_to_aggregate); with more,
        the slowest are left behind, with fewer, some count more than once.
        variable_averages: its `apply(variables_to_average)` runs after each update.
        """
        super().__init__(use_locking, name)
        self._opt = opt
        self._replicas_to_aggregate = replicas_to_aggregate
        self._total_num_replicas = (
            replicas_to_aggregate if total_num_replicas is None else total_num_replicas
        )
        self._tokens_per_step = max(self._total_num_replicas, replicas_to_aggregate)
        self._variable_averages = variable_averages
        self._variables_to_average = variables_to_average
        self._accumulators: list[tuple[Any, str]] = []
        self._global_step: Any = None
        self._local_step: Any = None
        self._token_queue: FIFOQueue | None = None
        self._chief_queue_runner: QueueRunner | None = None

    def compute_gradients(self, *args: Any, **kwargs: Any) -> list[tuple[Any, Any]]:
        """As the wrapped optimizer's."""
        return self._opt.compute_gradients(*args, **kwargs)

    def apply_gradients(
        self, grads_and_vars: Iterable[Any], global_step: Any = None, name: str | None = None
    ) -> Any:
        """The op that a worker runs: hand over its gradients, and wait until they are applied.

        Raises ValueError (no variables, no global step).
        """
        pairs = list(grads_and_vars)
        if not pairs:
            raise ValueError("Must supply at least one variable. There are no pairs")
        if global_step is None:
            raise ValueError("Global step is required to check staleness: it tells stale gradients")
        self._global_step = global_step
        anchor = no_op()  # the local step belongs to the worker, wherever the other variables are
        with colocate_with(anchor):
            self._local_step = Variable(
                initial_value=0,
                trainable=False,
                collections=[GraphKeys.LOCAL_VARIABLES],
                dtype=global_step.dtype.base_dtype,
                name="sync_rep_local_step",
            )
        self.local_step_init_op = assign(self._local_step, global_step)
        self.ready_for_local_init_op = report_uninitialized_variables(global_variables())
        with name_scope(None, self._name):
            handed, means = self._accumulated(pairs)
            with device(global_step.device), name_scope(""):
                updated = self._opt.apply_gradients(means, global_step)
                stepped = self._synchronized(handed, updated)
            steps = []
            for accumulator, place in self._accumulators:
                with device(place):
                    steps.append(accumulator.set_global_step(global_step, name="SetGlobalStep"))
            self.chief_init_op = group(self.local_step_init_op, *steps)
        return stepped

    def _accumulated(self, pairs: list[Any]) -> tuple[list[Any], list[Any]]:
        """The ops that hand gradients over, and the means (gradient, variable)."""
        handed: list[Any] = []
        means: list[Any] = []
        self._accumulators = []
        for grad, variable in pairs:
            if grad is None:
                means.append((None, variable))
                continue
            shared_name = f"{variable.name}/grad_accum"
            accumulator: Any
            with device(variable.device):
                if isinstance(grad, IndexedSlices):
                    accumulator = SparseConditionalAccumulator(
                        grad.dtype, shape=(), shared_name=shared_name
                    )
                    handed.append(accumulator.apply_indexed_slices_grad(grad, self._local_step))
                    mean = accumulator.take_indexed_slices_grad(self._replicas_to_aggregate)
                else:
                    accumulator = ConditionalAccumulator(
                        grad.dtype, shape=variable.get_shape(), shared_name=shared_name
                    )
                    handed.append(accumulator.apply_grad(grad, self._local_step))
                    mean = accumulator.take_grad(self._replicas_to_aggregate)
            means.append((mean, variable))
            self._accumulators.append((accumulator, variable.device))
        return handed, means

    def _synchronized(self, handed: list[Any], updated: Operation) -> Any:
        """The tokens: the chief puts them out after an update, a worker's step ends with one."""
        self._token_queue = queue = FIFOQueue(
            -1,
            self._global_step.dtype.base_dtype,
            shapes=(),
            name="sync_token_q",
            shared_name="sync_token_q",
        )
        with control_dependencies(handed):
            token = queue.dequeue()
        stepped = assign(self._local_step, token)
        with control_dependencies([updated]):
            put_out = queue.enqueue_many((fill([self._tokens_per_step], self._global_step),))
        if self._variable_averages is not None:
            with control_dependencies([put_out]):
                put_out = self._variable_averages.apply(self._variables_to_average)
        self._chief_queue_runner = _TokenRunner(queue, [put_out])
        return stepped

    def get_chief_queue_runner(self) -> QueueRunner:
        """What the chief has to start; raises ValueError before `apply_gradients`."""
        if self._chief_queue_runner is None:
            raise ValueError(
                "Should be called after apply_gradients(). It makes the queue that the chief's runner fills"
            )
        return self._chief_queue_runner

    def get_init_tokens_op(self, num_tokens: int = -1) -> Operation:
        """What the chief runs once, so that workers can start (default: a token per gradient).

        Raises ValueError before `apply_gradients`, and for fewer tokens than workers need.
        """
        if self._token_queue is None:
            raise ValueError(
                "get_init_tokens_op() should be called after apply_gradients(). It makes the queue"
            )
        needed = self._replicas_to_aggregate - self._total_num_replicas
        if num_tokens == -1:
            num_tokens = self._replicas_to_aggregate
        elif num_tokens < needed:
            raise ValueError(
                f"Too few tokens to finish the first step: {num_tokens} (given) vs {needed} (needed)"
            )
        if num_tokens <= 0:
            nothing: Operation = no_op(name="no_init_tokens")
            return nothing
        with device(self._global_step.device), name_scope(""):
            return self._token_queue.enqueue_many((fill([num_tokens], self._global_step),))

    def make_session_run_hook(self, is_chief: bool, num_tokens: int = -1) -> SyncReplicasHook:
        """A hook that initializes the local step and, on the chief, starts the queue runner.

        Every worker has one; `apply_gradients` comes before the session.
        """
        return SyncReplicasHook(self, is_chief, num_tokens)

    def get_slot(self, var: Any, name: str) -> Any:
        """As the wrapped optimizer's."""
        return self._opt.get_slot(var, name)

    def get_slot_names(self) -> list[str]:
        """As the wrapped optimizer's."""
        return self._opt.get_slot_names()

    def variables(self) -> list[Any]:
        """As the wrapped optimizer's."""
        return self._opt.variables()


class _TokenRunner(QueueRunner):
    """Applies the means and puts tokens out; a mean that will never be complete holds nobody up at the end."""

    def _run(self, sess: Any, enqueue_op: Any, coord: Coordinator | None = None) -> None:
        """In a thread that nobody waits for: it ends when the session is closed.  This one ends with the stop."""
        if coord is None:
            super()._run(sess, enqueue_op)
            return
        filling = threading.Thread(
            target=self._fill,
            args=(sess, enqueue_op, coord),
            name="SyncReplicas-tokens",
            daemon=True,
        )
        filling.start()
        coord.wait_for_stop()

    def _fill(self, sess: Any, enqueue_op: Any, coord: Coordinator) -> None:
        try:
            super()._run(sess, enqueue_op, coord)
        except Exception as error:
            if not coord.should_stop():
                raise
            log.debug("tokens are put out no longer: %s", error)


class SyncReplicasHook(SessionRunHook):
    """See `SyncReplicasOptimizer.make_session_run_hook`."""

    def __init__(self, optimizer: SyncReplicasOptimizer, is_chief: bool, num_tokens: int) -> None:
        self._optimizer = optimizer
        self._is_chief = is_chief
        self._num_tokens = num_tokens
        self._local_init: Any = None
        self._tokens: Operation | None = None
        self._runner: QueueRunner | None = None

    def begin(self) -> None:
        """Make the nodes that are needed later.  Raises ValueError before `apply_gradients`."""
        optimizer = self._optimizer
        if optimizer._token_queue is None:
            raise ValueError(
                "SyncReplicasOptimizer.apply_gradient should be called before using the hook. minimize() calls it"
            )
        if self._is_chief:
            self._runner = optimizer.get_chief_queue_runner()
            self._tokens = optimizer.get_init_tokens_op(self._num_tokens)
            self._local_init = optimizer.chief_init_op
        else:
            self._local_init = optimizer.local_step_init_op

    def after_create_session(self, session: Any, coord: Any) -> None:
        """Initialize, put out the first tokens, start the queue runner.

        Raises RuntimeError if a global variable is not initialized.
        """
        missing = session.run(self._optimizer.ready_for_local_init_op)
        if len(missing):
            names = ", ".join(name.decode() for name in missing)
            raise RuntimeError(
                "Init operations did not make model ready for SyncReplicasOptimizer local_init. Init op: "
                f"{self._local_init.name}, error: Variables not initialized: {names}"
            )
        session.run(self._local_init)
        if self._tokens is not None:
            session.run(self._tokens)
        if self._runner is not None:
            self._runner.create_threads(session, coord=coord, daemon=True, start=True)
