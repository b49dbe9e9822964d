"""How an estimator calls input_fn and model_fn: which arguments each takes, and what may come of it.

Called by: training.estimator.  Threads: as graph.
Source: TF 1.15 behaviour; messages checked against the oracle
"""

from __future__ import annotations

import functools
import inspect
import logging
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from headrace.base.traits import MAY_WAIT
from headrace.graph import scopes
from headrace.graph.collections import GraphKeys
from headrace.library.data.datasets import Dataset
from headrace.training.hooks.checkpoints import CheckpointSaverListener
from headrace.training.hooks.ending import StopAtStepHook
from headrace.training.hooks.protocol import SessionRunHook

__all__ = [
    "called_input_fn",
    "check_model_fn",
    "checked_hooks",
    "checked_listeners",
    "given_by_input_fn",
    "steps_hooks",
    "takes",
]

log = logging.getLogger("headrace")

_MODEL_FN_ARGUMENTS: Final = frozenset({"features", "labels", "mode", "params", "self", "config"})


def takes(function: Callable[..., Any]) -> tuple[str, ...]:
    """Names of the arguments that a function takes: not those bound by functools.partial or to an object.

    Raises TypeError: it cannot be called.
    """
    bound: set[str] = set()
    count = 0
    while isinstance(function, functools.partial):
        bound.update(function.keywords)
        count += len(function.args)
        function = function.func
    if not callable(function):
        raise TypeError(f"unsupported callable: {function!r} cannot be called")
    kinds = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)
    names = [
        name
        for name, each in inspect.signature(function).parameters.items()
        if each.kind not in kinds
    ]
    return tuple(name for name in names[count:] if name not in bound)


def check_model_fn(model_fn: Callable[..., Any], params: Any) -> None:
    """Raise ValueError unless it is a function of what a model_fn is given."""
    names = takes(model_fn)
    if "features" not in names:
        raise ValueError(f"model_fn ({model_fn}) must include features argument.")
    if params is not None and "params" not in names:
        raise ValueError(
            f"model_fn ({model_fn}) does not include params argument, but params ({params}) is passed to Estimator."
        )
    if params is None and "params" in names:
        log.warning(
            "Estimator's model_fn (%s) includes params argument, but params are not passed to Estimator.",
            model_fn,
        )
    unknown = sorted(set(names) - _MODEL_FN_ARGUMENTS)
    if unknown:
        raise ValueError(f"model_fn ({model_fn}) has following not expected args: {unknown}")


def called_input_fn(input_fn: Callable[..., Any], mode: str, params: Any, config: Any) -> Any:
    """What input_fn gives on the CPU, of those of mode, params and config that it takes."""
    names = takes(input_fn)
    known = {"mode": mode, "params": params, "config": config}
    with scopes.get_default_graph().device("/cpu:0"):
        return input_fn(**{name: value for name, value in known.items() if name in names})


class _IteratorInitializer(SessionRunHook):
    """Begins a dataset in each session."""

    def __init__(self, iterator: Any) -> None:
        self._iterator = iterator
        self._initializer: Any = None

    def begin(self) -> None:
        """Make the initializer's node."""
        self._initializer = self._iterator.initializer

    def after_create_session(self, session: Any, coord: Any) -> None:
        """Run it."""
        session.run(self._initializer)


def given_by_input_fn(result: Any) -> tuple[Any, Any, list[SessionRunHook]]:
    """(features, labels, hooks) of what an input_fn gave: a dataset, features, or a pair of features and labels.

    Raises ValueError: a tuple or list of another length.
    """
    hooks: list[SessionRunHook] = []
    if isinstance(result, Dataset):
        iterator = result.make_initializable_iterator()
        hooks.append(_IteratorInitializer(iterator))
        result = iterator.get_next()
    if not isinstance(result, (list, tuple)):
        return result, None, hooks
    if len(result) != 2:
        raise ValueError(
            f"input_fn should return (features, labels) as a len 2 tuple. It returned {len(result)} values: several "
            "features go into a dict"
        )
    return result[0], result[1], hooks


def warn_if_endless() -> None:
    """Warn if nothing in the default graph ends by itself: predictions of it never end."""
    graph = scopes.get_default_graph()
    if graph.get_collection(GraphKeys.QUEUE_RUNNERS):
        return
    if any(MAY_WAIT in operation.traits for operation in graph.get_operations()):
        return
    log.warning(
        "Input graph does not use tf.data.Dataset or contain a QueueRunner. That means predict yields forever. This is "
        "probably a mistake."
    )


def checked_hooks(hooks: Sequence[SessionRunHook] | None) -> list[SessionRunHook]:
    """A new list of them.  Raises TypeError."""
    found = list(hooks or ())
    for hook in found:
        if not isinstance(hook, SessionRunHook):
            raise TypeError(f"Hooks must be a SessionRunHook, given: {hook}")
    return found


def checked_listeners(
    listeners: Sequence[CheckpointSaverListener] | None,
) -> list[CheckpointSaverListener]:
    """A new list of them.  Raises TypeError."""
    found = list(listeners or ())
    for listener in found:
        if not isinstance(listener, CheckpointSaverListener):
            raise TypeError(
                f"saving_listeners must be a list of CheckpointSaverListener, given: {listener}"
            )
    return found


def steps_hooks(steps: int | None, max_steps: int | None) -> list[SessionRunHook]:
    """What ends a training after `steps` more steps, or at `max_steps`.  Raises ValueError."""
    if steps is not None and max_steps is not None:
        raise ValueError(
            f"Can not provide both steps and max_steps. They are {steps} and {max_steps}"
        )
    for name, count in (("steps", steps), ("max_steps", max_steps)):
        if count is not None and count <= 0:
            raise ValueError(f"Must specify {name} > 0, given: {count}")
    if steps is None and max_steps is None:
        return []
    return [StopAtStepHook(steps, max_steps)]


def keyed(predictions: Any, predict_keys: Any) -> Any:
    """Those of the predictions that are asked for: all if predict_keys is empty.  Raises ValueError."""
    if not predict_keys:
        return predictions
    if not isinstance(predictions, Mapping):
        raise ValueError("predict_keys argument is not valid in case of non-dict predictions.")
    found = {key: value for key, value in predictions.items() if key in predict_keys}
    if not found:
        raise ValueError(
            f"Expected to run at least one output from {predictions.keys()}, provided {predict_keys}."
        )
    return found
