"""What hooks share: the tensor that reads the global step, when something is due again, elements by name.

Called by: hooks.  Threads: the caller's.
"""

from __future__ import annotations

import math
import time
from typing import Any

from headrace.graph import scopes
from headrace.library.variables.variables import Variable
from headrace.training.global_step import get_global_step

__all__ = [
    "NeverTimer",
    "SecondOrStepTimer",
    "global_step_read",
    "graph_element",
    "next_due",
    "step_read_for",
]

_READS = "global_step_read_op_cache"  # the collection, under TensorFlow's name


def global_step_read() -> Any:
    """A tensor of the step's value in the default graph, made once a graph; None if there is no step.

    It is a copy: read in a step that also counts, it is the value before or after, never a reference.
    """
    graph = scopes.get_default_graph()
    known = graph.get_collection_ref(_READS)
    if len(known) > 1:
        raise RuntimeError(
            f"There are multiple items in collection {_READS}. There should be only one"
        )
    if known:
        return known[0]
    step = get_global_step(graph)
    if step is None:
        return None
    with graph.name_scope(None), graph.name_scope(step.op.name + "/"):
        read = (step.initialized_value() if isinstance(step, Variable) else step) + 0
    graph.add_to_collection(_READS, read)
    return read


def step_read_for(user: str) -> Any:
    """`global_step_read`, for the hook named `user`.  Raises RuntimeError if the graph has no step."""
    read = global_step_read()
    if read is None:
        raise RuntimeError(
            f"Global step should be created to use {user}. tf.train.get_or_create_global_step() creates it, before "
            "the session is made"
        )
    return read


class SecondOrStepTimer:
    """Whether something is due again: `every_secs` seconds or `every_steps` steps after it was done last."""

    def __init__(self, every_secs: float | None = None, every_steps: int | None = None) -> None:
        """Raises ValueError unless exactly one is given."""
        if every_secs is None and every_steps is None:
            raise ValueError("Either every_secs or every_steps should be provided: neither is")
        if every_secs is not None and every_steps is not None:
            raise ValueError(
                f"Can not provide both every_secs and every_steps: {every_secs} and {every_steps} are"
            )
        self._every_secs = every_secs
        self._every_steps = every_steps
        self._last_step: int | None = None
        self._last_time: float | None = None

    def reset(self) -> None:
        """As if it had never been done."""
        self._last_step = None
        self._last_time = None

    def should_trigger_for_step(self, step: int) -> bool:
        """Whether it is due at `step`: always at first, and never twice at one step."""
        last = self._last_step
        if last is None:
            return True
        if last == step:
            return False
        if self._every_secs is not None:
            assert self._last_time is not None
            return time.time() >= self._last_time + self._every_secs
        assert self._every_steps is not None
        return bool(step >= last + self._every_steps)

    def update_last_triggered_step(self, step: int) -> tuple[float | None, int | None]:
        """It was done at `step`, now; seconds and steps since the last time, None at first."""
        now = time.time()
        passed: tuple[float | None, int | None] = (None, None)
        if self._last_time is not None:
            assert self._last_step is not None
            passed = (now - self._last_time, step - self._last_step)
        self._last_time, self._last_step = now, step
        return passed

    def last_triggered_step(self) -> int | None:
        """The step at which it was done last, or None."""
        return self._last_step


class NeverTimer:
    """A timer of what is done at the end only."""

    def reset(self) -> None:
        """See `SecondOrStepTimer`."""

    def should_trigger_for_step(self, step: int) -> bool:
        """Never."""
        return False

    def update_last_triggered_step(self, step: int) -> tuple[None, None]:
        """See `SecondOrStepTimer`."""
        return None, None


def next_due(timer: Any) -> tuple[float, float] | None:
    """The step and the time at which a timer that has been used says so again: one of them is infinite.

    None where nobody knows: it has not been used yet, or is a program's own.
    """
    if type(timer) is NeverTimer:
        return math.inf, math.inf
    if type(timer) is not SecondOrStepTimer or timer._last_step is None:
        return None
    if timer._every_secs is not None:
        assert timer._last_time is not None
        return math.inf, timer._last_time + timer._every_secs
    assert timer._every_steps is not None
    return timer._last_step + timer._every_steps, math.inf


def graph_element(obj: Any) -> Any:
    """What `obj`, of the default graph or a name in it, is: a name without a number means an only output.

    Raises ValueError (another graph's, several outputs), KeyError (no such name).
    """
    graph = scopes.get_default_graph()
    if not isinstance(obj, str):
        if getattr(obj, "graph", None) is not graph:
            raise ValueError(
                f"Passed {obj} should have graph attribute that is equal to current graph {graph}: it belongs to "
                "another one or to none"
            )
        return obj
    if ":" in obj:
        return graph.as_graph_element(obj)
    element: Any = graph.as_graph_element(f"{obj}:0")
    if len(element.op.outputs) > 1:
        raise ValueError(
            f"Name {obj} is ambiguous, as this operation has {len(element.op.outputs)} outputs; add the number of one"
        )
    return element
