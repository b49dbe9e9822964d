"""Summaries that a step writes itself: `tf.contrib.summary` in graphs, `tf.summary.initialize`, `all_v2_summary_ops`.

A summary is written while the node that stands for it runs: to the writer that was the default when it was made, and if
it was to be recorded.
Called by: programs.  Threads: a thread has its own default writer and condition; as graph.
Source: TF 1.15 python/ops/summary_ops_v2.py, for behaviour in graphs; nodes checked against the oracle
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Any, Final, NoReturn

from headrace.base import dtypes, errors, text
from headrace.graph import scopes
from headrace.graph.convert import convert
from headrace.graph.graph import Graph, Operation
from headrace.graph.names import control_dependencies
from headrace.graph.tensor import Tensor
from headrace.ops.array.constants import constant
from headrace.ops.array.placeholders import placeholder
from headrace.ops.flow import identities as flow
from headrace.ops.flow.control_flow import cond
from headrace.ops.io import summary_writers as io
from headrace.ops.io.summaries import summary_scope
from headrace.ops.math.arithmetic import floormod
from headrace.ops.math.comparisons import equal, logical_and
from headrace.training.global_step import get_or_create_global_step
from headrace.training.session_event_writer import WRITERS

__all__ = [
    "SummaryWriter",
    "all_v2_summary_ops",
    "always_record_summaries",
    "audio",
    "create_db_writer",
    "create_file_writer",
    "eval_dir",
    "flush",
    "generic",
    "graph",
    "histogram",
    "image",
    "import_event",
    "initialize",
    "never_record_summaries",
    "record_summaries_every_n_global_steps",
    "scalar",
    "should_record_summaries",
    "summary_writer_initializer_op",
]

_CPU: Final = "/device:CPU:0"
_SUMMARIES: Final = "_SUMMARY_V2"
"""The collection of what stands for summaries."""
_RED: Final = (255, 0, 0, 255)


class _State(threading.local):
    writer: SummaryWriter | None = None
    record: Any = None
    """A bool, or a tensor of one; None, as long as nobody has said, is as False."""


_state = _State()


def _on_cpu() -> AbstractContextManager[Any]:
    return scopes.get_default_graph().device(_CPU)


# -- writers --------------------------------------------------------------------------------------


class SummaryWriter:
    """A writer of event files within a graph; without a resource, one that writes nothing."""

    def __init__(
        self, resource: Any = None, begin: Callable[[Any], Operation] | None = None
    ) -> None:
        """resource: what a SummaryWriter node gives; begin: makes the node that begins its file."""
        self._resource, self._begin = resource, begin
        if begin is not None:
            scopes.get_default_graph().add_to_collection(WRITERS, begin(resource))

    def init(self) -> Operation | None:
        """An operation that begins a file, unless there is one."""
        return None if self._begin is None else self._begin(self._resource)

    def set_as_default(self) -> None:
        """Have summaries that this thread makes from now on write to it."""
        _state.writer = self

    @contextmanager
    def as_default(self) -> Iterator[SummaryWriter]:
        """Context manager: summaries made inside write to it."""
        outer, _state.writer = _state.writer, self
        try:
            yield self
            self.flush()
        finally:
            _state.writer = outer

    def flush(self) -> Operation | None:
        """An operation that waits until all is in the file."""
        return flush(self)

    def close(self) -> Operation | None:
        """An operation that closes the file, with all that was written."""
        if self._resource is None:
            return None
        written = self.flush()
        with control_dependencies([written]), _on_cpu():
            closed: Operation = io.close_summary_writer(self._resource)
        return closed


def create_file_writer(
    logdir: Any,
    max_queue: Any = None,
    flush_millis: Any = None,
    filename_suffix: Any = None,
    name: str | None = None,
) -> SummaryWriter:
    """A writer of event files in a directory of the task that its nodes are on; writers of one name share a file.

    logdir: None for a writer that writes nothing.  Its initializer has to be run: `initialize`.
    """
    if logdir is None:
        return SummaryWriter()
    directory = logdir if isinstance(logdir, Tensor) else text.path_to_str(logdir)
    with _on_cpu():
        options = (
            constant(10) if max_queue is None else max_queue,
            constant(2 * 60 * 1000) if flush_millis is None else flush_millis,
            constant(".v2") if filename_suffix is None else filename_suffix,
        )
        shared = f"logdir:{directory}" if name is None else name
        resource = io.summary_writer(shared_name=shared, container="")

        def begin(writer: Any) -> Operation:
            made: Operation = io.create_summary_file_writer(writer, directory, *options)
            return made

        return SummaryWriter(resource, begin)


def create_db_writer(
    db_uri: Any,
    experiment_name: Any = None,
    run_name: Any = None,
    user_name: Any = None,
    name: Any = None,
) -> NoReturn:
    """Raises UnimplementedError: summaries are written to event files."""
    raise errors.unimplemented(
        f"summaries are not written to databases ({db_uri}): tf.contrib.summary.create_file_writer(logdir) writes "
        "event files, which TensorBoard reads"
    )


def flush(writer: SummaryWriter | None = None, name: str | None = None) -> Operation | None:
    """An operation that waits until all that was written by `writer`, or the default one, is in the file."""
    writer = _state.writer if writer is None else writer
    if writer is None or writer._resource is None:
        return None
    with _on_cpu():
        made: Operation = io.flush_summary_writer(writer._resource, name=name)
    return made


def summary_writer_initializer_op() -> list[Any]:
    """The operations that begin the files of all writers of the default graph."""
    return scopes.get_default_graph().get_collection(WRITERS)


def initialize(graph: Any = None, session: Any = None) -> None:
    """Begin the files of all writers, and write `graph`, if given, with the default one.

    Raises RuntimeError (no default writer), ValueError (no session), and what the step does.
    """
    if _resource() is None:
        raise RuntimeError(
            "No default tf.contrib.summary.SummaryWriter found: make one the default "
            "(tf.contrib.summary.create_file_writer(logdir).set_as_default())"
        )
    session = scopes.get_default_session() if session is None else session
    if session is None:
        raise ValueError("session must be specified: there is no default one")
    session.run(summary_writer_initializer_op())
    if graph is not None:
        fed = placeholder(dtypes.string)
        session.run(_graph(fed, 0), {fed: _serialized(graph)})


# -- whether to record ----------------------------------------------------------------------------


@contextmanager
def _recording(condition: Any) -> Iterator[None]:
    outer, _state.record = _state.record, condition
    try:
        yield
    finally:
        _state.record = outer


def always_record_summaries() -> AbstractContextManager[None]:
    """Context manager: summaries made inside are recorded."""
    return _recording(True)


def never_record_summaries() -> AbstractContextManager[None]:
    """Context manager: summaries made inside are not recorded."""
    return _recording(False)


def record_summaries_every_n_global_steps(
    n: int, global_step: Any = None
) -> AbstractContextManager[None]:
    """Context manager: summaries made inside are recorded in every n-th step."""
    step = get_or_create_global_step() if global_step is None else global_step
    with _on_cpu():
        return _recording(equal(floormod(step, n, name="mod"), 0))


def should_record_summaries() -> Tensor:
    """Whether summaries made here are recorded: a bool scalar."""
    record = _state.record
    if record is False:
        return constant(False)
    made: Tensor = logical_and(True, False if record is None else record)
    return made


# -- summaries ------------------------------------------------------------------------------------


def _resource() -> Any:
    return None if _state.writer is None else _state.writer._resource


def _step(step: Any) -> Any:
    return get_or_create_global_step() if step is None else convert(step, dtypes.int64)


def _summary(name: str, tensor: Any, family: str | None, write: Callable[[str, str], Any]) -> Any:
    """What stands for a summary: whether it was recorded.  write(tag, scope): the node that does."""
    if _resource() is None:
        return flow.no_op()

    def record() -> Tensor:
        with (
            summary_scope(name, family, values=[tensor]) as (tag, scope),
            control_dependencies([write(tag, scope)]),
        ):
            return constant(True)

    with _on_cpu():
        condition = should_record_summaries()
        if _state.record is None or isinstance(_state.record, bool):
            made = record() if _state.record else constant(False)
        else:
            made = cond(condition, record, lambda: constant(False), name="")
        scopes.get_default_graph().add_to_collection(_SUMMARIES, made)
    return made


def all_v2_summary_ops() -> list[Any]:
    """What stands for the summaries of the default graph that write themselves."""
    return scopes.get_default_graph().get_collection(_SUMMARIES)


def generic(
    name: str, tensor: Any, metadata: Any = None, family: str | None = None, step: Any = None
) -> Any:
    """Write a whole tensor.  metadata: a SummaryMetadata, or one serialized."""

    def write(tag: str, scope: str) -> Any:
        given = metadata
        if hasattr(metadata, "SerializeToString"):
            given = constant(metadata.SerializeToString())
        elif metadata is None:
            given = constant("")
        value = flow.identity(tensor)
        return io.write_summary(_resource(), _step(step), value, tag, given, name=scope)

    return _summary(name, tensor, family, write)


def scalar(name: str, tensor: Any, family: str | None = None, step: Any = None) -> Any:
    """Write a number."""

    def write(tag: str, scope: str) -> Any:
        value = flow.identity(tensor)
        return io.write_scalar_summary(_resource(), _step(step), tag, value, name=scope)

    return _summary(name, tensor, family, write)


def histogram(name: str, tensor: Any, family: str | None = None, step: Any = None) -> Any:
    """Write the histogram of all values."""

    def write(tag: str, scope: str) -> Any:
        value = flow.identity(tensor)
        return io.write_histogram_summary(_resource(), _step(step), tag, value, name=scope)

    return _summary(name, tensor, family, write)


def image(
    name: str,
    tensor: Any,
    bad_color: Any = None,
    max_images: int = 3,
    family: str | None = None,
    step: Any = None,
) -> Any:
    """Write images [batch, height, width, channels], the first `max_images`."""

    def write(tag: str, scope: str) -> Any:
        colour = constant(_RED, dtypes.uint8) if bad_color is None else bad_color
        value = flow.identity(tensor)
        return io.write_image_summary(
            _resource(), _step(step), tag, value, colour, max_images=max_images, name=scope
        )

    return _summary(name, tensor, family, write)


def audio(
    name: str,
    tensor: Any,
    sample_rate: Any,
    max_outputs: int,
    family: str | None = None,
    step: Any = None,
) -> Any:
    """Write clips [batch, frames, channels], the first `max_outputs`; sample_rate in Hz."""

    def write(tag: str, scope: str) -> Any:
        value = flow.identity(tensor)
        return io.write_audio_summary(
            _resource(), _step(step), tag, value, sample_rate, max_outputs=max_outputs, name=scope
        )

    return _summary(name, tensor, family, write)


def graph(param: Any, step: Any = None, name: str | None = None) -> Any:
    """Write a graph: a Graph, a GraphDef, or a string tensor of one.  Raises TypeError."""
    if isinstance(param, Graph) or hasattr(param, "SerializeToString"):
        param = convert(_serialized(param), dtypes.string)
    elif not isinstance(param, Tensor):
        raise TypeError(f"param is a Graph, a GraphDef or a string tensor, not {param!r:.80}")
    return None if _resource() is None else _graph(param, step, name)


def _graph(content: Tensor, step: Any, name: str | None = None) -> Any:
    with _on_cpu():
        value = flow.identity(content)
        return io.write_graph_summary(_resource(), _step(step), value, name=name)


def _serialized(graph: Any) -> bytes:
    given = graph.as_graph_def(add_shapes=True) if isinstance(graph, Graph) else graph
    found: bytes = given.SerializeToString()
    return found


def import_event(tensor: Any, name: str | None = None) -> Any:
    """Write an Event message, a string scalar."""
    if _resource() is None:
        return None
    return io.import_event(_resource(), tensor, name=name)


def eval_dir(model_dir: str, name: str | None = None) -> str:
    """Where the events of an evaluation lie, beneath those of the training."""
    return os.path.join(model_dir, "eval" if not name else f"eval_{name}")
