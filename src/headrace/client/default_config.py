"""What tf.config sets: the ConfigProto of sessions that are made without one.

Called by: Session, tf.config, tf.debugging.  Threads: any; one ConfigProto of the process, copied for each session.
"""

from __future__ import annotations

import threading
from typing import Any

from headrace.base import errors
from headrace.client.usage_errors import not_a
from headrace.codec import protos as pb

__all__ = [
    "get_experimental_options",
    "get_inter_op_parallelism_threads",
    "get_intra_op_parallelism_threads",
    "get_jit",
    "get_log_device_placement",
    "get_soft_device_placement",
    "set_experimental_options",
    "set_inter_op_parallelism_threads",
    "set_intra_op_parallelism_threads",
    "set_jit",
    "set_log_device_placement",
    "set_soft_device_placement",
]

_lock = threading.Lock()
_chosen: dict[str, Any] = {}
"""What was set: field of ConfigProto, `jit`, or ``rewrite.FIELD`` -> value."""

_ALWAYS = ("disable_model_pruning", "disable_meta_optimizer")


def checked(config: Any) -> pb.ConfigProto | None:
    """A session's configuration; what was set here if it is None, and None if nothing was.  Raises TypeError."""
    if config is None:
        return _default()
    if not isinstance(config, pb.ConfigProto):
        raise not_a("a tf.ConfigProto", "config", config)
    return config


def _default() -> pb.ConfigProto | None:
    with _lock:
        chosen = dict(_chosen)
    if not chosen:
        return None
    config = pb.ConfigProto()
    for name, value in chosen.items():
        if name == "jit":
            level = pb.OptimizerOptions.ON_1 if value else pb.OptimizerOptions.OFF
            config.graph_options.optimizer_options.global_jit_level = level
        elif name.startswith("rewrite."):
            _set_option(config.graph_options.rewrite_options, name.partition(".")[2], value)
        else:
            setattr(config, name, value)
    return config


def _set_option(options: Any, name: str, value: Any) -> None:
    field = options.DESCRIPTOR.fields_by_name[name]
    if field.enum_type is not None:  # a toggle
        value = options.ON if value else options.OFF
    setattr(options, name, value)


def _choose(name: str, value: Any) -> None:
    with _lock:
        _chosen[name] = value


def get_soft_device_placement() -> bool:
    """Whether what names a device that is not there goes to another."""
    return bool(_chosen.get("allow_soft_placement", False))


def set_soft_device_placement(enabled: bool) -> None:
    """As ConfigProto.allow_soft_placement of sessions that are made without a ConfigProto."""
    _choose("allow_soft_placement", bool(enabled))


def get_log_device_placement() -> bool:
    """Whether sessions log where nodes are placed."""
    return bool(_chosen.get("log_device_placement", False))


def set_log_device_placement(enabled: bool) -> None:
    """As ConfigProto.log_device_placement of sessions that are made without a ConfigProto."""
    _choose("log_device_placement", bool(enabled))


def get_inter_op_parallelism_threads() -> int:
    """Threads of independent operations; 0 means as many as suit."""
    return int(_chosen.get("inter_op_parallelism_threads", 0))


def set_inter_op_parallelism_threads(num_threads: int) -> None:
    """As ConfigProto.inter_op_parallelism_threads of sessions that are made without a ConfigProto."""
    _choose("inter_op_parallelism_threads", int(num_threads))


def get_intra_op_parallelism_threads() -> int:
    """Threads within an operation; 0 means as many as suit."""
    return int(_chosen.get("intra_op_parallelism_threads", 0))


def set_intra_op_parallelism_threads(num_threads: int) -> None:
    """As ConfigProto.intra_op_parallelism_threads of sessions that are made without a ConfigProto."""
    _choose("intra_op_parallelism_threads", int(num_threads))


def get_jit() -> str:
    """Whether sessions ask for compiled clusters: "autoclustering" or ""."""
    return "autoclustering" if _chosen.get("jit", False) else ""


def set_jit(enabled: bool | str) -> None:
    """As OptimizerOptions.global_jit_level of sessions that are made without a ConfigProto.

    enabled: a bool or "autoclustering".  Raises ValueError for another word.
    """
    if isinstance(enabled, str) and enabled not in ("", "autoclustering"):
        raise ValueError(f'set_jit takes a bool or "autoclustering", not {enabled!r}')
    _choose("jit", bool(enabled))


def get_experimental_options() -> dict[str, Any]:
    """The options of TensorFlow's graph optimizer that were set, and those that always have a value."""
    prefix = "rewrite."
    found: dict[str, Any] = {
        name.removeprefix(prefix): value
        for name, value in _chosen.items()
        if name.startswith(prefix)
    }
    return {**found, **{name: bool(found.get(name, False)) for name in _ALWAYS}}


def set_experimental_options(options: dict[str, Any]) -> None:
    """Options of TensorFlow's graph optimizer, as RewriterConfig of sessions that are made without a ConfigProto.

    Raises InvalidArgumentError for one that RewriterConfig does not have.
    """
    fields = pb.RewriterConfig.DESCRIPTOR.fields_by_name
    for name in options:
        field = fields.get(name)
        is_toggle = field is not None and field.enum_type is not None
        if field is None or not (is_toggle or field.type == field.TYPE_BOOL):
            raise errors.invalid_argument(
                f"RewriterConfig has no switch {name!r}; tf.config.optimizer.set_experimental_options takes "
                f"{', '.join(each for each, f in fields.items() if f.type == f.TYPE_BOOL or f.enum_type is not None)}"
            )
    for name, value in options.items():
        _choose(f"rewrite.{name}", bool(value))
