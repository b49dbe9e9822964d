"""Estimator: a model_fn, and the directory in which what it learns is kept.

Called by: programs.  Threads: one at a time on an object; several objects may share a directory as tasks do.
Source: TF 1.15 behaviour; compared with the oracle (tests/estimator_oracle)
"""

from __future__ import annotations

import copy
import logging
import os
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Final

import numpy as np

from headrace.base import errors
from headrace.codec import protos as pb
from headrace.graph.graph import Graph
from headrace.ops.random.draws import set_random_seed
from headrace.training.contrib.evaluation import PreparedEvaluation
from headrace.training.estimator import calls, evaluating, exporting, training_loop, warm_start
from headrace.training.estimator.modes import ModeKeys
from headrace.training.estimator.run_config import RunConfig, TaskType
from headrace.training.estimator.specs import EstimatorSpec
from headrace.training.global_step import create_global_step, get_global_step
from headrace.training.hooks.checkpoints import CheckpointSaverListener
from headrace.training.hooks.protocol import SessionRunHook
from headrace.training.hooks.steps import global_step_read
from headrace.training.monitored_session import MonitoredSession
from headrace.training.saver.checkpoint_management import latest_checkpoint
from headrace.training.saver.checkpoint_readers import (
    list_variables,
    load_checkpoint,
    load_variable,
)
from headrace.training.session_creators import ChiefSessionCreator

__all__ = ["Estimator"]

log = logging.getLogger("headrace")

_OVERRIDABLE: Final = frozenset(
    {
        "model_fn",
        "_create_global_step",
        "_create_and_assert_global_step",
        "_export_all_saved_models",
    }
)


class Estimator:
    """Trains, evaluates, asks for predictions and exports what a model_fn builds; each call builds a graph of its own.

    A subclass gives its constructor a model_fn; it cannot override what is here.
    """

    def __init__(
        self,
        model_fn: Callable[..., EstimatorSpec],
        model_dir: str | None = None,
        config: RunConfig | None = None,
        params: Any = None,
        warm_start_from: Any = None,
    ) -> None:
        """model_fn(features[, labels][, mode][, params][, config]): returns an `EstimatorSpec`.

        model_dir: where checkpoints and events go, or that of `config`; a temporary directory if neither says it.
        params: for model_fn; copied.  warm_start_from: a checkpoint, a directory of one, or `WarmStartSettings`, which
        a model that has no checkpoint yet begins with.
        Raises ValueError: a member is overridden, arguments that cannot be.
        """
        self._assert_members_are_not_overridden()
        self._config = _config_for(config, model_dir)
        self._model_dir: str = self._config.model_dir  # type: ignore[assignment]
        self._session_config = self._config.session_config
        log.info("Using config: %s", self._config)
        if model_fn is None:
            raise ValueError("model_fn must be provided to Estimator.")
        calls.check_model_fn(model_fn, params)
        self._model_fn = model_fn
        self._params = copy.deepcopy(params or {})
        self._device_fn = training_loop.device_function(self._config)
        self._warm_start_settings = warm_start.settings_of(warm_start_from)

    def _assert_members_are_not_overridden(self) -> None:
        """Raise ValueError for a subclass that has members of this class's names."""
        members = {name for name in vars(Estimator) if not name.startswith("__")} - _OVERRIDABLE
        own = {
            name
            for each in type(self).__mro__
            if issubclass(each, Estimator) and each is not Estimator
            for name in vars(each)
        }
        if overridden := sorted(members & own):
            raise ValueError(
                "Subclasses of Estimator cannot override members of Estimator. "
                f"{type(self)} does override {overridden}"
            )

    @property
    def model_dir(self) -> str:
        """Where checkpoints and events are."""
        return self._model_dir

    @property
    def config(self) -> RunConfig:
        """A copy of the configuration."""
        return copy.deepcopy(self._config)

    @property
    def params(self) -> Any:
        """A copy of what model_fn is given."""
        return copy.deepcopy(self._params)

    @property
    def model_fn(self) -> Callable[..., EstimatorSpec]:
        """model_fn as a function of features, labels, mode and config, whichever of them it takes."""

        def public_model_fn(
            features: Any, labels: Any, mode: str, config: RunConfig
        ) -> EstimatorSpec:
            return self._call_model_fn(features, labels, mode, config)

        return public_model_fn

    # -- what has been learned ----------------------------------------------------------------------

    def latest_checkpoint(self) -> str | None:
        """The path of the last checkpoint; None if there is none."""
        return latest_checkpoint(self._model_dir)

    def get_variable_names(self) -> list[str]:
        """Names of what the last checkpoint holds.  Raises ValueError (there is none)."""
        self._check_trained()
        return [name for name, _ in list_variables(self._model_dir)]

    def get_variable_value(self, name: str) -> Any:
        """A value of the last checkpoint.  Raises ValueError (there is none), NotFoundError (no such name)."""
        self._check_trained()
        return load_variable(self._model_dir, name)

    def _check_trained(self) -> None:
        if latest_checkpoint(self._model_dir) is None:
            raise ValueError(f"Could not find trained model in model_dir: {self._model_dir}.")

    def _latest_if_trained(self, what: str) -> str | None:
        """The last checkpoint; None, which is told of, if there is none."""
        path = latest_checkpoint(self._model_dir)
        if path is None:
            log.info(
                "Could not find trained model in model_dir: %s, running initialization to %s.",
                self._model_dir,
                what,
            )
        return path

    def eval_dir(self, name: str | None = None) -> str:
        """Where events of evaluations of that name go."""
        return os.path.join(self._model_dir, "eval" if not name else f"eval_{name}")

    # -- training -----------------------------------------------------------------------------------

    def train(
        self,
        input_fn: Callable[..., Any],
        hooks: Sequence[SessionRunHook] | None = None,
        steps: int | None = None,
        max_steps: int | None = None,
        saving_listeners: Sequence[CheckpointSaverListener] | None = None,
    ) -> Estimator:
        """Train from the last checkpoint on; blocks until the input, a hook, `steps` or `max_steps` ends it.

        input_fn([mode][, params][, config]): gives a dataset, features, or features and labels.  steps: so many more;
        max_steps: until the global step is that, which it may be already.  One of the two may be given.
        saving_listeners: are told of each checkpoint.
        Raises ValueError, TypeError (arguments, what input_fn and model_fn give), NanLossDuringTrainingError, and what
        steps raise.
        """
        if self._config.task_type in (TaskType.EVALUATOR, TaskType.PS):
            raise ValueError(
                "Train has been called wrong configuration. Please use tf.estimator.train_and_evaluate which calls "
                f"proper API according to given configuration. This task is {self._config.task_type} "
                f"{self._config.task_id}."
            )
        stopping = calls.steps_hooks(steps, max_steps)
        if max_steps is not None and self._checkpointed_step() >= max_steps:
            log.info("Skipping training since max_steps has already saved.")
            return self
        all_hooks = [*calls.checked_hooks(hooks), *stopping]
        listeners = calls.checked_listeners(saving_listeners)
        loss = self._train_model(input_fn, all_hooks, listeners)
        log.info("Loss for final step: %s.", loss)
        return self

    def _checkpointed_step(self) -> int:
        """The global step of the last checkpoint; 0 without one."""
        path = latest_checkpoint(self._model_dir)
        if path is None:
            return 0
        try:
            return int(load_checkpoint(path).get_tensor("global_step"))
        except errors.NotFoundError:
            return 0

    def _train_model(
        self,
        input_fn: Callable[..., Any],
        hooks: Sequence[SessionRunHook],
        saving_listeners: Sequence[CheckpointSaverListener],
    ) -> Any:
        """The last step's loss."""
        with Graph().as_default() as graph, graph.device(self._device_fn):
            step = self._begin_graph(graph)
            global_step_read()
            features, labels, input_hooks = calls.given_by_input_fn(
                self._call_input_fn(input_fn, ModeKeys.TRAIN)
            )
            spec = self._call_model_fn(features, labels, ModeKeys.TRAIN, self.config)
            if self._warm_start_settings is not None:
                warm_start.apply(self._warm_start_settings)
            return training_loop.run_training(
                spec,
                self._config,
                self._model_dir,
                input_hooks,
                hooks,
                saving_listeners,
                step,
                self._session_config,
            )

    # -- evaluation ---------------------------------------------------------------------------------

    def evaluate(
        self,
        input_fn: Callable[..., Any],
        steps: int | None = None,
        hooks: Sequence[SessionRunHook] | None = None,
        checkpoint_path: str | None = None,
        name: str | None = None,
    ) -> dict[str, Any]:
        """Metrics over `steps` steps, or to the end of the input, of a checkpoint (the last) and its global_step.

        A model that was never trained is evaluated as it begins.  Results go to an event in `eval_dir(name)`, too.
        Raises ValueError, TypeError, and what steps raise.
        """
        all_hooks = [*calls.checked_hooks(hooks), *evaluating.steps_hooks(steps)]
        path = checkpoint_path or self._latest_if_trained("evaluate")
        with Graph().as_default() as graph:
            prepared = self._prepared_evaluation(graph, input_fn, all_hooks, path)
            results: dict[str, Any] = prepared.evaluate(path)
        directory = self.eval_dir(name)
        evaluating.write_results(directory, results)
        if path is not None:
            evaluating.write_checkpoint_path(directory, path, results[evaluating.GLOBAL_STEP])
        return results

    def _prepared_evaluation(
        self,
        graph: Graph,
        input_fn: Callable[..., Any],
        hooks: Sequence[SessionRunHook],
        checkpoint_path: str | None,
    ) -> PreparedEvaluation:
        """The evaluation, built in the graph, which is the default one; without a checkpoint it begins warm."""
        step = self._begin_graph(graph)
        features, labels, input_hooks = calls.given_by_input_fn(
            self._call_input_fn(input_fn, ModeKeys.EVAL)
        )
        spec = self._call_model_fn(features, labels, ModeKeys.EVAL, self.config)
        if checkpoint_path is None and self._warm_start_settings is not None:
            warm_start.apply(self._warm_start_settings)
        every_hook = [*input_hooks, *hooks]
        return evaluating.prepared(spec, self._config, every_hook, step, self._session_config)

    # -- prediction ---------------------------------------------------------------------------------

    def predict(
        self,
        input_fn: Callable[..., Any],
        predict_keys: Any = None,
        hooks: Sequence[SessionRunHook] | None = None,
        checkpoint_path: str | None = None,
        yield_single_examples: bool = True,
    ) -> Iterator[Any]:
        """Predictions, one after the other, of a checkpoint (the last), or of a model that was never trained.

        Each is a dict of arrays, or an array where model_fn's predictions are a tensor: of one example, or of a batch
        if `yield_single_examples` is False.  predict_keys: those that are wanted; None for all.
        Nothing is done before the first is asked for; the session is open until the last, or the generator is closed.
        Raises ValueError, TypeError, and what steps raise.
        """
        all_hooks = calls.checked_hooks(hooks)
        path = checkpoint_path or self._latest_if_trained("predict")
        with Graph().as_default() as graph:
            self._begin_graph(graph)
            features, _, input_hooks = calls.given_by_input_fn(
                self._call_input_fn(input_fn, ModeKeys.PREDICT)
            )
            calls.warn_if_endless()
            spec = self._call_model_fn(features, None, ModeKeys.PREDICT, self.config)
            if path is None and self._warm_start_settings is not None:
                warm_start.apply(self._warm_start_settings)
            fetches = calls.keyed(spec.predictions, predict_keys)
            creator = ChiefSessionCreator(
                checkpoint_filename_with_path=path,
                master=self._config.master,
                scaffold=spec.scaffold,
                config=self._session_config,
            )
            every_hook = [*input_hooks, *all_hooks, *spec.prediction_hooks]
            session = MonitoredSession(session_creator=creator, hooks=every_hook)
        for found in _steps(session, graph, fetches):
            if not yield_single_examples:
                yield found
            elif not isinstance(found, Mapping):
                yield from found
            else:
                for at in range(_batch_length(found)):
                    yield {key: value[at] for key, value in found.items()}

    # -- export -------------------------------------------------------------------------------------

    def export_saved_model(
        self,
        export_dir_base: Any,
        serving_input_receiver_fn: Callable[[], Any] | None,
        assets_extra: Mapping[str, Any] | None = None,
        as_text: bool = False,
        checkpoint_path: str | None = None,
        experimental_mode: str = ModeKeys.PREDICT,
    ) -> bytes:
        """Write a SavedModel to a new directory in `export_dir_base`, named after the second; its path.

        serving_input_receiver_fn(): makes what is fed (`tf.estimator.export`).  assets_extra: files by where they go in
        ``assets.extra``.  checkpoint_path: the last if None.  experimental_mode: another graph than that for serving.
        The directory has its name only when it is whole.
        Raises ValueError (never trained; no receiver), NotFoundError (a file), and what model_fn raises.
        """
        if not serving_input_receiver_fn:
            raise ValueError("An input_receiver_fn must be defined.")
        return self._export_all_saved_models(
            export_dir_base,
            {experimental_mode: serving_input_receiver_fn},
            assets_extra,
            as_text,
            checkpoint_path,
            strip_default_attrs=True,
        )

    def export_savedmodel(
        self,
        export_dir_base: Any,
        serving_input_receiver_fn: Callable[[], Any] | None,
        assets_extra: Mapping[str, Any] | None = None,
        as_text: bool = False,
        checkpoint_path: str | None = None,
        strip_default_attrs: bool = False,
    ) -> bytes:
        """As `export_saved_model`, the older name of it.

        strip_default_attrs: leave out attrs that are what their ops' defaults are, which older TensorFlows can read.
        """
        if not serving_input_receiver_fn:
            raise ValueError("An input_receiver_fn must be defined.")
        return self._export_all_saved_models(
            export_dir_base,
            {ModeKeys.PREDICT: serving_input_receiver_fn},
            assets_extra,
            as_text,
            checkpoint_path,
            strip_default_attrs,
        )

    def experimental_export_all_saved_models(
        self,
        export_dir_base: Any,
        input_receiver_fn_map: Mapping[str, Callable[[], Any]],
        assets_extra: Mapping[str, Any] | None = None,
        as_text: bool = False,
        checkpoint_path: str | None = None,
    ) -> bytes:
        """As `export_saved_model`, with a graph for each mode that has a receiver function."""
        return self._export_all_saved_models(
            export_dir_base,
            input_receiver_fn_map,
            assets_extra,
            as_text,
            checkpoint_path,
            strip_default_attrs=True,
        )

    def _export_all_saved_models(
        self,
        export_dir_base: Any,
        input_receiver_fn_map: Mapping[str, Callable[[], Any]],
        assets_extra: Mapping[str, Any] | None,
        as_text: bool,
        checkpoint_path: str | None,
        strip_default_attrs: bool = True,
    ) -> bytes:
        from headrace.training.saved_model.builder import SavedModelBuilder

        checkpoint_path = checkpoint_path or self._checkpoint_to_export()
        modes = [
            mode
            for mode in (ModeKeys.TRAIN, ModeKeys.EVAL, ModeKeys.PREDICT)
            if input_receiver_fn_map.get(mode)
        ]
        if not modes:
            raise ValueError(
                f"No valid modes for exporting found. Got {input_receiver_fn_map.keys()}."
            )
        path = exporting.timestamped_directory(os.fsdecode(export_dir_base))
        unfinished = exporting.temporary_directory(path)
        builder = SavedModelBuilder(unfinished)
        for mode in modes:
            receiver_fn = input_receiver_fn_map[mode]
            with Graph().as_default() as graph:
                self._begin_graph(graph)
                receiver = receiver_fn()
                spec = self._call_model_fn(
                    receiver.features, getattr(receiver, "labels", None), mode, self.config
                )
                exporting.add_graph(
                    builder,
                    spec,
                    receiver,
                    checkpoint_path,
                    mode == modes[0],
                    strip_default_attrs,
                    self._session_config,
                )
        builder.save(as_text)
        exporting.add_extra_assets(unfinished, assets_extra)
        os.rename(unfinished, path)
        return os.fsencode(path)

    def _checkpoint_to_export(self) -> str:
        path = latest_checkpoint(self._model_dir)
        if path is None and self._warm_start_settings is not None:
            path = self._warm_start_settings.ckpt_to_initialize_from
            if os.path.isdir(path):
                path = latest_checkpoint(path)
        if path is None:
            raise ValueError(f"Couldn't find trained model at {self._model_dir}.")
        return path

    # -- calls --------------------------------------------------------------------------------------

    def _begin_graph(self, graph: Graph) -> Any:
        """The seed, and the global step, which is returned."""
        set_random_seed(self._config.tf_random_seed)
        return self._create_and_assert_global_step(graph)

    def _create_global_step(self, graph: Graph) -> Any:
        """The global step of a new graph; a subclass may make another one."""
        return create_global_step(graph)

    def _create_and_assert_global_step(self, graph: Graph) -> Any:
        step = self._create_global_step(graph)
        if step is not None and (
            step is not get_global_step(graph) or not step.dtype.base_dtype.is_integer
        ):
            raise AssertionError(
                f"the global step of an estimator's graph has to be its only one, an integer, and not {step}"
            )
        return step

    def _call_input_fn(self, input_fn: Callable[..., Any], mode: str) -> Any:
        """What it gives, of mode, params and config which it takes."""
        return calls.called_input_fn(input_fn, mode, self.params, self.config)

    def _call_model_fn(
        self, features: Any, labels: Any, mode: str, config: RunConfig
    ) -> EstimatorSpec:
        """The spec of a mode.  Raises ValueError (labels that it does not take, no spec), and what it raises."""
        names = calls.takes(self._model_fn)
        known: dict[str, Any] = {}
        if "labels" in names:
            known["labels"] = labels
        elif labels is not None:
            raise ValueError("model_fn does not take labels, but input_fn returns labels.")
        if "mode" in names:
            known["mode"] = mode
        if "params" in names:
            known["params"] = self.params
        if "config" in names:
            known["config"] = config
        log.info("Calling model_fn.")
        found = self._model_fn(features=features, **known)
        log.info("Done calling model_fn.")
        if not isinstance(found, EstimatorSpec):
            raise ValueError("model_fn should return an EstimatorSpec.")
        return found


def _config_for(config: RunConfig | None, model_dir: Any) -> RunConfig:
    """The configuration, with a directory and a session config.  Raises ValueError."""
    if config is None:
        config = RunConfig()
    if not isinstance(config, RunConfig):
        raise ValueError(f"config must be an instance of `RunConfig`, but provided {config}.")
    if config.session_config is None:
        plain = pb.ConfigProto(allow_soft_placement=True)
        plain.graph_options.rewrite_options.meta_optimizer_iterations = pb.RewriterConfig.ONE
        config = config.replace(session_config=plain)
    if model_dir is not None:
        model_dir = os.fsdecode(model_dir)
        if config.model_dir is not None and config.model_dir != model_dir:
            raise ValueError(
                "`model_dir` are set both in constructor and `RunConfig`, but with different values. In constructor: "
                f"'{model_dir}', in `RunConfig`: '{config.model_dir}' "
            )
    model_dir = model_dir or config.model_dir
    if model_dir is None:
        model_dir = tempfile.mkdtemp()
        log.warning("Using temporary folder as model directory: %s", model_dir)
    return config if config.model_dir == model_dir else config.replace(model_dir=model_dir)


def _steps(session: MonitoredSession, graph: Graph, fetches: Any) -> Iterator[Any]:
    """What steps give until the session is to stop; then, or when nobody asks any more, it is closed.

    The graph is the default one during steps only: who asks may build graphs of his own between them.
    """
    try:
        while True:
            with graph.as_default():
                if session.should_stop():
                    break
                found = session.run(fetches)
            yield found
    except BaseException as error:
        with graph.as_default():
            if not session.__exit__(type(error), error, error.__traceback__):
                raise
    else:
        with graph.as_default():
            session.__exit__(None, None, None)


def _batch_length(predictions: Mapping[str, Any]) -> int:
    """How many examples a batch of predictions is of.  Raises ValueError (they differ), IndexError (a scalar)."""
    length: int | None = None
    for key, value in predictions.items():
        if not np.ndim(value):
            raise IndexError(
                f"tuple index out of range: {key} is a scalar, and no batch of predictions; "
                "predict(…, yield_single_examples=False) gives it as it is"
            )
        length = len(value) if length is None else length
        if len(value) != length:
            raise ValueError(
                f"Batch length of predictions should be same. {key} has different batch length than others."
            )
    return length or 0
