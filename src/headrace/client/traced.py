"""Traced engines: each step that a client asks for is a span, and what servers do for it lies within.

Called by: client.session, where somebody wants spans (`run.spans`).  Threads: any, as the engine's.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from functools import partial
from typing import Any

from headrace.client.engine import CallFunction, Engine, Release, Step
from headrace.codec import protos as pb
from headrace.graph.graph import Graph, Operation
from headrace.graph.tensor import Tensor
from headrace.run import spans

Begin = Callable[[], AbstractContextManager[Any]]


class TracedEngine:
    """An `Engine` with its steps as spans; all else is the engine's own.

    Of the records that a queue runner of a local session puts in many at a time there are none: those are no steps.
    """

    def __init__(self, engine: Engine, target: str) -> None:
        """target: the session's; "" for this process."""
        self._engine = engine
        self._target = target

    def __getattr__(self, name: str) -> Any:
        return getattr(self._engine, name)

    def _begin(self, name: str, **named: Sequence[str]) -> Begin:
        """What begins a span.  named: what the step is given, and what it is asked for."""
        attributes: dict[str, Any] = {"headrace.target": self._target or "local"}
        for what, names in named.items():
            if names:
                attributes[f"headrace.{what}"] = list(names[: spans.MOST_NAMES])
        kind = spans.CLIENT if self._target else spans.INTERNAL
        return partial(spans.span, name, kind, attributes)

    def step(
        self,
        feeds: Sequence[Tensor],
        fetches: Sequence[Tensor],
        targets: Sequence[Operation],
        options: pb.RunOptions | None = None,
    ) -> Step:
        """See `Engine.step`."""
        made = self._engine.step(feeds, fetches, targets, options)
        begin = self._begin(
            spans.STEP,
            feeds=[each.name for each in feeds],
            fetches=[each.name for each in fetches],
            targets=[each.name for each in targets],
        )

        def run(
            values: Sequence[Any], options: pb.RunOptions | None, metadata: pb.RunMetadata | None
        ) -> list[Any]:
            with begin():
                return made(values, options, metadata)

        plain = getattr(made, "plain", None)
        if plain is None:
            return Step(run, None)

        def run_plain(values: Sequence[Any]) -> list[Any]:
            with begin():
                found: list[Any] = plain(values)
                return found

        return Step(run, run_plain)

    def partial_step(
        self, handle: str, feeds: Mapping[str, Any], fetches: Sequence[str]
    ) -> list[Any]:
        """See `Engine.partial_step`."""
        with self._begin(spans.PARTIAL_STEP, feeds=list(feeds), fetches=fetches)():
            return self._engine.partial_step(handle, feeds, fetches)

    def callable(self, graph: Graph, options: pb.CallableOptions) -> tuple[CallFunction, Release]:
        """See `Engine.callable`."""
        made, release = self._engine.callable(graph, options)
        begin = self._begin(
            spans.STEP, feeds=options.feed, fetches=options.fetch, targets=options.target
        )

        def call(values: Sequence[Any], metadata: pb.RunMetadata | None) -> list[Any]:
            with begin():
                return made(values, metadata)

        return call, release
