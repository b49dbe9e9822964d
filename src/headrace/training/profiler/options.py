"""`ProfileOptionBuilder`: which nodes a profile shows, in which order, what of them, and where to.

Called by: programs, training.profiler.  Threads: any.
Source: TF 1.15 behaviour
"""

from __future__ import annotations

import copy
from collections.abc import Sequence
from typing import Any, Final

from headrace.base import errors

__all__ = ["ProfileOptionBuilder"]

TRAINABLE: Final = "_trainable_variables"
ORDERS: Final = (
    "name bytes peak_bytes residual_bytes output_bytes micros accelerator_micros cpu_micros params float_ops "
    "occurrence"
).split()
SHOWN: Final = (
    "bytes peak_bytes residual_bytes output_bytes micros accelerator_micros cpu_micros params float_ops occurrence "
    "tensor_value device op_types input_shapes"
).split()
_MEMORY: Final = ("bytes", "peak_bytes", "residual_bytes", "output_bytes")
_TIME: Final = ("micros", "accelerator_micros", "cpu_micros")
LEAST: Final = (*_MEMORY, *_TIME, "params", "float_ops", "occurrence")
"""What `min_…` is of."""


def _default() -> dict[str, Any]:
    return {
        "max_depth": 100,
        "min_bytes": 0,
        "min_micros": 0,
        "min_params": 0,
        "min_float_ops": 0,
        "min_occurrence": 0,
        "order_by": "name",
        "account_type_regexes": [".*"],
        "start_name_regexes": [".*"],
        "trim_name_regexes": [],
        "show_name_regexes": [".*"],
        "hide_name_regexes": [],
        "account_displayed_op_only": False,
        "select": ["micros"],
        "step": -1,
        "output": "stdout",
    }


def completed(options: Any) -> dict[str, Any]:
    """Options as they are given, with what they leave out.

    Raises InvalidArgumentError for an order, a column or a kind of output that is not known.
    """
    found = {**_default(), **{f"min_{each}": 0 for each in LEAST}, **(options or {})}
    if found["order_by"] not in ORDERS:
        raise errors.InvalidArgumentError(
            None, None, f"Unknown order_by: {found['order_by']}; it is one of {', '.join(ORDERS)}"
        )
    unknown = set(found["select"]) - set(SHOWN)
    if unknown:
        raise errors.InvalidArgumentError(
            None, None, f"Unknown select: {sorted(unknown)}; there are {', '.join(SHOWN)}"
        )
    return found


class ProfileOptionBuilder:
    """Options for tf.profiler.profile, one after the other; `build` gives them as a dict."""

    def __init__(self, options: Any = None) -> None:
        """options: to begin with, those of a class method for example."""
        self._options = copy.deepcopy(options) if options is not None else _default()

    @staticmethod
    def trainable_variables_parameter() -> dict[str, Any]:
        """Options for the number of parameters of variables that are trained."""
        return {
            **_default(),
            "max_depth": 10000,
            "account_type_regexes": [TRAINABLE],
            "account_displayed_op_only": True,
            "select": ["params"],
        }

    @staticmethod
    def float_operation() -> dict[str, Any]:
        """Options for the floating point operations of nodes."""
        return {
            **_default(),
            "max_depth": 10000,
            "min_float_ops": 1,
            "order_by": "float_ops",
            "account_displayed_op_only": True,
            "select": ["float_ops"],
        }

    @staticmethod
    def time_and_memory(
        min_micros: int = 1,
        min_bytes: int = 1,
        min_accelerator_micros: int = 0,
        min_cpu_micros: int = 0,
        min_peak_bytes: int = 0,
        min_residual_bytes: int = 0,
        min_output_bytes: int = 0,
    ) -> dict[str, Any]:
        """Options for the time and memory that nodes took in a traced step."""
        return {
            **_default(),
            "max_depth": 10000,
            "min_bytes": min_bytes,
            "min_peak_bytes": min_peak_bytes,
            "min_residual_bytes": min_residual_bytes,
            "min_output_bytes": min_output_bytes,
            "min_micros": min_micros,
            "min_accelerator_micros": min_accelerator_micros,
            "min_cpu_micros": min_cpu_micros,
            "order_by": "micros",
            "account_displayed_op_only": True,
            "select": ["micros", "bytes"],
        }

    def build(self) -> dict[str, Any]:
        """A copy of the options."""
        return copy.deepcopy(self._options)

    def _with(self, **options: Any) -> ProfileOptionBuilder:
        self._options.update(options)
        return self

    def with_max_depth(self, max_depth: int) -> ProfileOptionBuilder:
        """Nodes deeper than this are not shown."""
        return self._with(max_depth=max_depth)

    def with_min_memory(
        self,
        min_bytes: int = 0,
        min_peak_bytes: int = 0,
        min_residual_bytes: int = 0,
        min_output_bytes: int = 0,
    ) -> ProfileOptionBuilder:
        """Nodes that took less are not shown."""
        return self._with(
            min_bytes=min_bytes,
            min_peak_bytes=min_peak_bytes,
            min_residual_bytes=min_residual_bytes,
            min_output_bytes=min_output_bytes,
        )

    def with_min_execution_time(
        self, min_micros: int = 0, min_accelerator_micros: int = 0, min_cpu_micros: int = 0
    ) -> ProfileOptionBuilder:
        """Nodes that took less time are not shown."""
        return self._with(
            min_micros=min_micros,
            min_accelerator_micros=min_accelerator_micros,
            min_cpu_micros=min_cpu_micros,
        )

    def with_min_parameters(self, min_params: int) -> ProfileOptionBuilder:
        """Nodes with fewer parameters are not shown."""
        return self._with(min_params=min_params)

    def with_min_occurrence(self, min_occurrence: int) -> ProfileOptionBuilder:
        """Op types and lines with fewer nodes are not shown."""
        return self._with(min_occurrence=min_occurrence)

    def with_min_float_operations(self, min_float_ops: int) -> ProfileOptionBuilder:
        """Nodes with fewer operations are not shown."""
        return self._with(min_float_ops=min_float_ops)

    def with_accounted_types(self, account_type_regexes: Sequence[str]) -> ProfileOptionBuilder:
        """Only nodes one of whose types (op, device, _trainable_variables, …) matches count."""
        return self._with(account_type_regexes=copy.copy(account_type_regexes))

    def with_node_names(
        self,
        start_name_regexes: Sequence[str] | None = None,
        show_name_regexes: Sequence[str] | None = None,
        hide_name_regexes: Sequence[str] | None = None,
        trim_name_regexes: Sequence[str] | None = None,
    ) -> ProfileOptionBuilder:
        """Where trees begin, which names are shown, which not, and beneath which nothing is."""
        given = {
            "start_name_regexes": start_name_regexes,
            "show_name_regexes": show_name_regexes,
            "hide_name_regexes": hide_name_regexes,
            "trim_name_regexes": trim_name_regexes,
        }
        return self._with(
            **{key: copy.copy(each) for key, each in given.items() if each is not None}
        )

    def account_displayed_op_only(self, is_true: bool) -> ProfileOptionBuilder:
        """Whether totals are of what is shown alone."""
        return self._with(account_displayed_op_only=is_true)

    def with_empty_output(self) -> ProfileOptionBuilder:
        """Nothing is printed."""
        return self._with(output="none")

    def with_stdout_output(self) -> ProfileOptionBuilder:
        """The report is printed."""
        return self._with(output="stdout")

    def with_file_output(self, outfile: str) -> ProfileOptionBuilder:
        """The report is written into a file."""
        return self._with(output=f"file:outfile={outfile}")

    def with_timeline_output(self, timeline_file: str) -> ProfileOptionBuilder:
        """A timeline of the traced step, for chrome://tracing, is written into a file."""
        return self._with(output=f"timeline:outfile={timeline_file}")

    def with_pprof_output(self, pprof_file: str) -> ProfileOptionBuilder:
        """For pprof, which `profile` refuses."""
        return self._with(output=f"pprof:outfile={pprof_file}")

    def order_by(self, attribute: str) -> ProfileOptionBuilder:
        """Siblings with more come first; by name in order."""
        return self._with(order_by=attribute)

    def select(self, attributes: Sequence[str]) -> ProfileOptionBuilder:
        """What is shown of nodes."""
        return self._with(select=copy.copy(attributes))

    def with_step(self, step: int) -> ProfileOptionBuilder:
        """Of a step that was added; -1: the mean of all."""
        return self._with(step=step)
