"""InMemoryEvaluatorHook: evaluations within a training, of the values that its variables have at that moment.

The model for evaluation is built once, in a graph of its own; each evaluation is a session of that graph, which is fed
what the training's session reads of its variables.
Called by: programs.  Threads: the caller's.
Source: TF 1.15 behaviour (tensorflow_estimator, hooks.py); events and calls of hooks are compared with the oracle
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from headrace.graph.collections import GraphKeys
from headrace.graph.graph import Graph
from headrace.library.variables.assigning import assign
from headrace.ops.array.placeholders import placeholder
from headrace.ops.flow.identities import group
from headrace.training.contrib.evaluation import PreparedEvaluation
from headrace.training.estimator import calls, evaluating
from headrace.training.estimator.estimator import Estimator
from headrace.training.hooks.protocol import SessionRunHook
from headrace.training.hooks.steps import SecondOrStepTimer
from headrace.training.scaffold import Scaffold

__all__ = ["InMemoryEvaluatorHook"]


class InMemoryEvaluatorHook(SessionRunHook):
    """For `train`: evaluates before the first step, after every so many, and at the end; no checkpoint is needed.

    Transferred are the variables that both graphs have under one name; others begin anew in each evaluation.
    Results go to events in the estimator's `eval_dir`.  Only where one task trains alone.
    """

    def __init__(
        self,
        estimator: Estimator,
        input_fn: Callable[..., Any],
        steps: int | None = None,
        hooks: Sequence[SessionRunHook] | None = None,
        name: str | None = None,
        every_n_iter: int = 100,
    ) -> None:
        """input_fn, steps, hooks, name: see `Estimator.evaluate`.  every_n_iter: steps from one evaluation to the next.

        Raises ValueError (every_n_iter or steps below 1; a cluster with ps or several workers), TypeError (hooks).
        """
        if every_n_iter is None or every_n_iter <= 0:
            raise ValueError(
                f"invalid every_n_iter={every_n_iter}. It is a number of steps, at least 1"
            )
        config = estimator.config
        if config.num_ps_replicas > 0 or config.num_worker_replicas > 1:
            raise ValueError(
                "InMemoryEvaluator supports only single machine (aka Local) setting. This cluster has "
                f"{config.num_ps_replicas} ps and {config.num_worker_replicas} tasks that train: there, an evaluator "
                "task evaluates checkpoints (tf.estimator.train_and_evaluate)"
            )
        self._estimator = estimator
        self._input_fn = input_fn
        self._hooks = [*calls.checked_hooks(hooks), *evaluating.steps_hooks(steps)]
        self._directory = estimator.eval_dir(name)
        self._timer = SecondOrStepTimer(every_steps=every_n_iter)
        self._steps_run = 0
        self._graph: Graph | None = None
        self._evaluation: PreparedEvaluation | None = None
        self._transfer: _Transfer | None = None

    def begin(self) -> None:
        """Build the model.  Raises ValueError (a scaffold with a saver or an init_fn), and as `Estimator.evaluate`."""
        self._timer.reset()
        self._steps_run = 0
        self._transfer = None
        self._graph = Graph()
        with self._graph.as_default():
            evaluation = self._estimator._prepared_evaluation(
                self._graph, self._input_fn, self._hooks, None
            )
        for what in ("saver", "init_fn"):
            if getattr(evaluation.scaffold, what) is not None:
                raise ValueError(
                    f"InMemoryEvaluator does not support custom {what}: the scaffold of the model has one, but "
                    "variables begin with the values of the training. Leave it out of the EstimatorSpec for EVAL"
                )
        self._evaluation = evaluation

    def after_create_session(self, session: Any, coord: Any) -> None:
        """Evaluate what the training begins with.  Raises ValueError: it saves other things than variables."""
        assert self._graph is not None
        assert self._evaluation is not None
        if others := session.graph.get_collection(GraphKeys.SAVEABLE_OBJECTS):
            raise ValueError(
                "InMemoryEvaluator does not support saveables other than global variables. There are "
                f"{', '.join(str(each) for each in others)}"
            )
        if self._transfer is None:
            trained = session.graph.get_collection(GraphKeys.GLOBAL_VARIABLES)
            with self._graph.as_default():
                self._transfer = _Transfer(trained, self._graph, self._evaluation.scaffold)
        self._evaluate(session)

    def after_run(self, run_context: Any, run_values: Any) -> None:
        """Evaluate, if it is time to."""
        self._steps_run += 1
        if self._timer.should_trigger_for_step(self._steps_run):
            self._evaluate(run_context.session)

    def end(self, session: Any) -> None:
        """Evaluate what was learned."""
        self._evaluate(session)

    def _evaluate(self, session: Any) -> None:
        assert self._graph is not None
        assert self._evaluation is not None
        assert self._transfer is not None
        self._transfer.read(session)
        with self._graph.as_default():
            results = self._evaluation.evaluate(None, self._transfer.scaffold)
        evaluating.write_results(self._directory, results)
        self._timer.update_last_triggered_step(self._steps_run)


class _Transfer:
    """From variables of one graph to those of the same names of another.

    scaffold: sessions of the other begin with what was read last.
    """

    def __init__(self, trained: Sequence[Any], graph: Graph, scaffold: Scaffold | None) -> None:
        """trained: the variables that are read.  graph: the default one, with those that are set."""
        named = {each.name: each for each in graph.get_collection(GraphKeys.GLOBAL_VARIABLES)}
        self._read = {each.name: each for each in trained if each.name in named}
        self._fed = {name: placeholder(named[name].dtype.base_dtype) for name in self._read}
        self._set = group(*(assign(named[name], value) for name, value in self._fed.items()))
        self._values: dict[str, Any] = {}
        self.scaffold = Scaffold(init_fn=self._write, copy_from_scaffold=scaffold)

    def read(self, session: Any) -> None:
        """Keep the values that the variables have in a session."""
        self._values = session.run(self._read)

    def _write(self, scaffold: Scaffold, session: Any) -> None:
        session.run(self._set, {fed: self._values[name] for name, fed in self._fed.items()})
