"""TrainSpec and EvalSpec: what `train_and_evaluate` trains and evaluates with.

Called by: programs, training.estimator.  Threads: immutable.
Source: TF 1.15 behaviour; messages checked against the oracle
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from headrace.training.estimator.exporters import Exporter
from headrace.training.hooks.checkpoints import CheckpointSaverListener
from headrace.training.hooks.protocol import SessionRunHook

__all__ = ["EvalSpec", "TrainSpec"]


def _check_input_fn(input_fn: Any) -> None:
    if not callable(input_fn):
        raise TypeError(f"`input_fn` must be callable, given: {input_fn}")


def _of_class(items: Any, wanted: type, what: str) -> tuple[Any, ...]:
    """Raises TypeError."""
    found = tuple(items or ())
    for item in found:
        if not isinstance(item, wanted):
            raise TypeError(f"All {what} must be `{wanted.__name__}` instances, given: {item}")
    return found


class _Train(NamedTuple):
    input_fn: Any
    max_steps: Any
    hooks: Any
    saving_listeners: Any


class TrainSpec(_Train):
    """How a model is trained: see the arguments, and `Estimator.train`."""

    __slots__ = ()

    def __new__(
        cls,
        input_fn: Callable[..., Any],
        max_steps: int | None = None,
        hooks: Sequence[SessionRunHook] | None = None,
        saving_listeners: Sequence[CheckpointSaverListener] | None = None,
    ) -> TrainSpec:
        """max_steps: the global step at which the training ends; None for the end of the input.

        Raises TypeError, ValueError (steps that are not positive).
        """
        _check_input_fn(input_fn)
        if max_steps is not None and max_steps <= 0:
            raise ValueError(f"Must specify max_steps > 0, given: {max_steps}")
        return super().__new__(
            cls,
            input_fn,
            max_steps,
            _of_class(hooks, SessionRunHook, "hooks"),
            _of_class(saving_listeners, CheckpointSaverListener, "saving_listeners"),
        )


class _Eval(NamedTuple):
    input_fn: Any
    steps: Any
    name: Any
    hooks: Any
    exporters: Any
    start_delay_secs: Any
    throttle_secs: Any


class EvalSpec(_Eval):
    """How a model is evaluated while it is trained: see the arguments, and `Estimator.evaluate`."""

    __slots__ = ()

    def __new__(
        cls,
        input_fn: Callable[..., Any],
        steps: int | None = 100,
        name: str | None = None,
        hooks: Sequence[SessionRunHook] | None = None,
        exporters: Any = None,
        start_delay_secs: float = 120,
        throttle_secs: float = 600,
    ) -> EvalSpec:
        """steps: of each evaluation; None for the whole input.  exporters: one, or several of different names, which
        are called after each evaluation.  start_delay_secs: before an evaluator begins.  throttle_secs: no evaluation
        begins sooner after the one before.

        Raises TypeError, ValueError.
        """
        _check_input_fn(input_fn)
        if steps is not None and steps <= 0:
            raise ValueError(f"Must specify steps > 0, given: {steps}")
        if name is not None and not isinstance(name, str):
            raise TypeError(f"`name` must be string, given: {name}")
        hooks = _of_class(hooks, SessionRunHook, "hooks")
        for what, seconds in (
            ("start_delay_secs", start_delay_secs),
            ("throttle_secs", throttle_secs),
        ):
            if seconds < 0:
                raise ValueError(f"Must specify {what} >= 0, given: {seconds}")
        return super().__new__(
            cls,
            input_fn,
            steps,
            name,
            hooks,
            _exporters(exporters),
            start_delay_secs,
            throttle_secs,
        )


def _exporters(exporters: Any) -> tuple[Exporter, ...]:
    """Raises TypeError, ValueError."""
    if not exporters:
        return ()
    if isinstance(exporters, Exporter):
        found: list[Any] = [exporters]
    else:
        try:
            found = list(exporters)
        except TypeError:
            found = [None]
    if not all(isinstance(each, Exporter) for each in found):
        raise TypeError(
            f"`exporters` must be an Exporter, an iterable of Exporter, or `None`, found {exporters}."
        )
    names = [each.name for each in found]
    if not all(names):
        raise ValueError(
            f"An Exporter cannot have a name that is `None` or empty. All exporter names: {names}"
        )
    if len(set(names)) < len(names):
        raise ValueError(
            f"`exporters` must have unique names. Such a name cannot be `None`. All exporter names: {names}"
        )
    return tuple(found)
