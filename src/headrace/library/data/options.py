"""`tf.data.Options`: what is said of how a dataset is computed.  It changes no element.

Called by: library.data.  Threads: any.
Source: TF 1.15 python/data/util/options.py, for behaviour
"""

from __future__ import annotations

from typing import Any, Final

from headrace.codec.varints import packed

__all__ = [
    "DistributeOptions",
    "OptimizationOptions",
    "Options",
    "StatsOptions",
    "ThreadingOptions",
]

_NAMES: Final = (
    "deterministic experimental_deterministic experimental_distribute experimental_external_state_policy "
    "experimental_optimization experimental_slack experimental_stateful_whitelist experimental_stats "
    "experimental_symbolic_checkpoint experimental_threading experimental_warm_start threading autotune dataset_name"
).split()


class _Group:
    """A group of options, `options.experimental_optimization.map_fusion` and the like; anything may be said."""

    def __init__(self) -> None:
        self._said: dict[str, Any] = {}

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(name)
        return self._said.get(name)

    def __setattr__(self, name: str, value: Any) -> None:
        if name.startswith("_"):
            object.__setattr__(self, name, value)
        else:
            self._said[name] = value

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Group) and self._said == other._said

    def __hash__(self) -> int:
        return hash(tuple(self._said))


class DistributeOptions(_Group):
    """`Options.experimental_distribute`."""


class MapVectorizationOptions(_Group):
    """`OptimizationOptions.map_vectorization`.  Nothing depends on it: a map sees for itself what is worth it."""


class OptimizationOptions(_Group):
    """`Options.experimental_optimization`.  Nothing depends on it: stages find out by themselves what is worth it."""

    def __init__(self) -> None:
        super().__init__()
        self.map_vectorization = MapVectorizationOptions()


class StatsOptions(_Group):
    """`Options.experimental_stats`: `aggregator`, a `StatsAggregator`, and `prefix`, which its tags begin with."""


class ThreadingOptions(_Group):
    """`Options.experimental_threading`."""


_OPTIMIZATIONS: Final = {
    "apply_default_optimizations": 1,
    "filter_fusion": 6,
    "map_and_batch_fusion": 9,
    "map_and_filter_fusion": 10,
    "map_fusion": 11,
    "map_parallelization": 12,
    "noop_elimination": 14,
    "parallel_batch": 15,
    "shuffle_and_repeat_fusion": 17,
    "filter_parallelization": 18,
    "inject_prefetch": 19,
    "seq_interleave_prefetch": 21,
}
"""Fields of the message that TensorFlow has of them."""

_GROUPS: Final = {
    "experimental_distribute": DistributeOptions,
    "experimental_optimization": OptimizationOptions,
    "experimental_stats": StatsOptions,
    "experimental_threading": ThreadingOptions,
    "threading": ThreadingOptions,
    "autotune": _Group,
}


class Options:
    """Options of a dataset, for `Dataset.with_options`."""

    def __init__(self) -> None:
        self.__dict__["_said"] = {}

    def __getattr__(self, name: str) -> Any:
        if name not in _NAMES:
            raise AttributeError(f"Options has no attribute {name!r}; it has {', '.join(_NAMES)}")
        if name in _GROUPS:
            return self._said.setdefault(name, _GROUPS[name]())
        return self._said.get(_same(name))

    def __setattr__(self, name: str, value: Any) -> None:
        if name not in _NAMES:
            raise AttributeError(
                f"Cannot set the property {name} on Options. It has {', '.join(_NAMES)}"
            )
        self._said[_same(name)] = value

    def merge(self, options: Options) -> Options:
        """These, with the others where those say something."""
        made = Options()
        made._said.update(self._said)
        made._said.update({k: v for k, v in options._said.items() if v is not None})
        return made

    def serialized(self) -> bytes:
        """The message that TensorFlow's nodes have: which of its groups there are, and the order of elements."""
        deterministic = self._said.get("deterministic")
        said = b"" if deterministic is None else bytes([0o10, bool(deterministic)])
        chosen = b"".join(
            packed(field << 3) + bytes([bool(value)])
            for name, field in _OPTIMIZATIONS.items()
            if (value := getattr(self.experimental_optimization, name)) is not None
        )
        return said + b"\x12\x00\x1a" + packed(len(chosen)) + chosen + b"*\x00:\x00b\x00"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Options) and self._said == other._said

    def __ne__(self, other: object) -> bool:
        return not self == other

    def __hash__(self) -> int:
        return hash(tuple(self._said))


def _same(name: str) -> str:
    return "deterministic" if name == "experimental_deterministic" else name
