"""Optimizers of canned estimators: named, made by a function, or as they are.

Called by: training.estimator.canned.  Threads: as graph.
Source: TF 1.15 behaviour; messages checked against the oracle
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from headrace.training.adagrad import AdagradOptimizer
from headrace.training.adam import AdamOptimizer
from headrace.training.ftrl import FtrlOptimizer
from headrace.training.gradient_descent import GradientDescentOptimizer
from headrace.training.optimizer import Optimizer
from headrace.training.rmsprop import RMSPropOptimizer

__all__ = ["optimizer_of"]

_BY_NAME: Final[dict[str, Callable[..., Optimizer]]] = {
    "Adagrad": AdagradOptimizer,
    "Adam": AdamOptimizer,
    "Ftrl": FtrlOptimizer,
    "RMSProp": RMSPropOptimizer,
    "SGD": GradientDescentOptimizer,
}


def optimizer_of(given: Any, learning_rate: float) -> Optimizer:
    """The optimizer of a name, at this learning rate; what a function makes; the one that is given.

    Raises ValueError: no such name, or no optimizer of tf.train.
    """
    if isinstance(given, str):
        if given not in _BY_NAME:
            raise ValueError(
                f"Unsupported optimizer name: {given}. Supported names are: {tuple(sorted(_BY_NAME))}"
            )
        return _BY_NAME[given](learning_rate)
    made = given() if callable(given) and not isinstance(given, Optimizer) else given
    if not isinstance(made, Optimizer):
        raise ValueError(
            f"The given object is not an Optimizer instance. Given: {made}. Those of tf.train are"
        )
    return made
