"""Signatures that a session has resolved, ready to run: with feeds and options, in short, and as callables of a proto.

Called by: client.session.  Threads: any number may run one at once.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from headrace.base import errors
from headrace.client import feeds as feed_rules
from headrace.client.engine import CallFunction, PlainFunction, Release, StepFunction
from headrace.client.fetches import Fetches
from headrace.client.results import presented
from headrace.codec import protos as pb

if TYPE_CHECKING:
    from headrace.client.session import BaseSession


class PreparedStep:
    """A signature: how to run it, and how to put the values together.

    plain: runs it without options; None where the engine has no such way, or nothing is computed.
    """

    __slots__ = ("_build", "_returned", "_step", "_strings", "plain")

    def __init__(
        self,
        build: Callable[[list[Any]], Any],
        step: StepFunction | None,
        strings: Sequence[int],
        returned: Sequence[tuple[int, int]],
    ) -> None:
        """step: None where there is nothing to compute.  strings: which feeds are.

        returned: fetches that are fed, in order, and which feed each is: it comes back as it was given.
        """
        self._build = build
        self._step = step
        self._strings = strings
        self._returned = returned
        self.plain: PlainFunction | None = getattr(step, "plain", None)

    def run(
        self, given: Sequence[Any], options: pb.RunOptions | None, metadata: pb.RunMetadata | None
    ) -> Any:
        """The fetches, as they were asked for, of the feeds in order.  Raises what the step does."""
        values = feed_rules.encoded(given, self._strings) if self._strings else given
        if options is None and metadata is None and self.plain is not None:
            found = presented(self.plain(values))
        elif self._step is not None:
            found = presented(self._step(values, options, metadata))
        else:
            found = []
        for at, feed in self._returned:
            found.insert(at, feed_rules.as_fed(given[feed]))
        return self._build(found)


def quickly(resolved: Fetches, plain: PlainFunction) -> Callable[[], Any]:
    """The whole of a step that fetches one tensor, or runs one operation."""
    if not resolved.tensors:

        def run() -> None:
            plain(())

        return run

    def fetch() -> Any:
        (value,) = plain(())
        return value if value.__class__ is not np.ndarray or value.ndim else value[()]

    return fetch


class OptionsCallable:
    """What CallableOptions name, as a function; see `BaseSession._make_callable_from_options`."""

    def __init__(self, session: BaseSession, call: CallFunction, release: Release) -> None:
        self._session = session
        self._call = call
        self._release = release

    def __call__(self, *args: Any, **kwargs: Any) -> list[Any]:
        """Values in the order of the feeds; of `kwargs` only run_metadata counts, as in TensorFlow."""
        self._session._check_not_cancelled()
        metadata = kwargs.get("run_metadata")
        if metadata is not None and not isinstance(metadata, pb.RunMetadata):
            raise TypeError(f"run_metadata must be a tf.RunMetadata, not {type(metadata).__name__}")
        try:
            return presented(self._call([feed_rules.as_given(value) for value in args], metadata))
        except errors.OpError as error:
            raise self._session._with_operation(error) from error.__cause__

    def __del__(self, _is_finalizing: Callable[[], bool] = sys.is_finalizing) -> None:
        if not _is_finalizing():
            self._release()
