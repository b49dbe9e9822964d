"""Ops that write events from within a graph, on the disk of the task that has the writer.

Called by: training.session_event_writer, training.graph_summaries, graphs from elsewhere.  Threads: kernels in any
step's thread; those that begin, flush or close a file block for the disk, the others where much waits for it.
Source: TF 1.15 core/ops/summary_ops.cc, core/kernels/summary_kernels.cc, core/summary, for behaviour
"""

from __future__ import annotations

import os
import time
from typing import Any

import numpy as np
from google.protobuf.message import DecodeError

from headrace.base import errors
from headrace.base.shapes import text as shape_text
from headrace.base.traits import HANDLE, STATEFUL
from headrace.codec import events, tensors
from headrace.codec import protos as pb
from headrace.graph.registry import OpSpec, op
from headrace.graph.shape_fns import scalar
from headrace.ops.io import summary_ops
from headrace.run.exec.kernel import KernelContext
from headrace.run.state.summary_writers import GraphWriter

__all__: list[str] = []

Array = np.ndarray[Any, Any]
_USE: dict[str, Any] = {"shape": lambda c: [], "traits": {STATEFUL}, "differentiable": False}


def _one(what: str, value: Any) -> Any:
    """The element of a scalar.  Raises InvalidArgument."""
    if np.ndim(value):
        raise errors.invalid_argument(
            f"{what} must be a scalar, and has shape {shape_text(np.shape(value))}"
        )
    return np.asarray(value)[()]


def _writer(handle: Any) -> GraphWriter:
    found = handle[()] if isinstance(handle, np.ndarray) and not handle.ndim else handle
    if not isinstance(found, GraphWriter):
        raise errors.invalid_argument(
            f"the writer must be what a SummaryWriter node gives, not a {type(found).__name__}"
        )
    return found


# -- files ----------------------------------------------------------------------------------------


@op(
    "SummaryWriter",
    outputs="writer: resource",
    attrs="shared_name: string = ''; container: string = ''",
    shape=scalar,
    traits={STATEFUL, HANDLE},
    differentiable=False,
)
def summary_writer(ctx: KernelContext, *, shared_name: bytes, container: bytes) -> GraphWriter:
    """A writer, which has no file yet; nodes of one container and shared_name share it."""
    return ctx.private_resource(
        GraphWriter, lambda: GraphWriter(ctx.node.name), container, shared_name
    )


@op(
    "CreateSummaryFileWriter",
    inputs="writer: resource; logdir: string; max_queue: int32; flush_millis: int32; filename_suffix: string",
    **_USE,
)
def create_summary_file_writer(
    ctx: KernelContext,
    writer: Any,
    logdir: Any,
    max_queue: Any,
    flush_millis: Any,
    filename_suffix: Any,
) -> None:
    """Begin an event file in a directory, which is made where it is missing, unless the writer has one.

    All []; max_queue: how many events may wait to be written, beside 4 MiB that always may; flush_millis: how long one
    may wait.  Raises InvalidArgument, NotFound, PermissionDenied and other errors of files.
    """
    directory = os.fsdecode(_one("logdir", logdir))
    suffix = os.fsdecode(_one("filename_suffix", filename_suffix))
    if "/" in suffix:
        raise errors.invalid_argument(f"filename_suffix {suffix!r} is not part of a file's name")
    _writer(writer).begin(
        directory or ".",
        int(_one("max_queue", max_queue)),
        int(_one("flush_millis", flush_millis)) / 1000,
        suffix,
        ctx.runtime.files,
    )


@op(
    "CreateSummaryDbWriter",
    inputs="writer: resource; db_uri: string; experiment_name: string; run_name: string; user_name: string",
    **_USE,
)
def create_summary_db_writer(
    xp: Any, writer: Any, db_uri: Any, experiment_name: Any, run_name: Any, user_name: Any
) -> None:
    """Raises Unimplemented: summaries are written to event files."""
    raise errors.unimplemented(
        "summaries are not written to databases, which TensorBoard no longer reads: begin an event file instead "
        "(CreateSummaryFileWriter, tf.contrib.summary.create_file_writer)"
    )


@op("FlushSummaryWriter", inputs="writer: resource", **_USE)
def flush_summary_writer(xp: Any, writer: Any) -> None:
    """Wait until all that was written is in the file.

    Raises NotFound (no file is begun), ResourceExhausted and other errors of files, InvalidArgument.
    """
    _writer(writer).flush()


@op("CloseSummaryWriter", inputs="writer: resource", **_USE)
def close_summary_writer(xp: Any, writer: Any) -> None:
    """Close the file, with all that was written.

    Raises NotFound (no file is begun), ResourceExhausted and other errors of files, InvalidArgument.
    """
    _writer(writer).end()


# -- events ---------------------------------------------------------------------------------------


def _add(writer: Any, step: Any, what: int, content: bytes) -> None:
    number = int(_one("step", step))
    _writer(writer).add(events.event(time.time(), number, what, content))


def _made(spec: OpSpec, *inputs: Any, **attrs: Any) -> bytes:
    """The Summary that the kernel of an op of summaries makes."""
    assert spec.kernel is not None
    return bytes(spec.kernel(np, *inputs, **attrs)[()])


@op(
    "WriteScalarSummary",
    inputs="writer: resource; step: int64; tag: string; value: T",
    attrs="T: realnumbertype",
    **_USE,
)
def write_scalar_summary(xp: Any, writer: Any, step: Any, tag: Any, value: Any) -> None:
    """Write a simple value.

    step, tag, value [].  Raises InvalidArgument, NotFound (no file is begun), and what writing met with.
    """
    content = _made(
        summary_ops.scalar_summary,
        np.asarray(_one("tag", tag), object),
        np.asarray(_one("value", value)),
    )
    _add(writer, step, events.SUMMARY, content)


@op(
    "WriteHistogramSummary",
    inputs="writer: resource; step: int64; tag: string; values: T",
    attrs="T: {float, double, int32, uint8, int16, int8, int64, bfloat16, uint16, half, uint32, uint64, bool} = "
    "DT_FLOAT",
    **_USE,
)
def write_histogram_summary(xp: Any, writer: Any, step: Any, tag: Any, values: Any) -> None:
    """Write the histogram of all values.

    step, tag []; values [...].  Raises InvalidArgument, for values that are not finite too, NotFound (no file is
    begun), and what writing met with.
    """
    numbers = values.astype(np.uint8) if values.dtype == np.bool_ else values
    content = _made(summary_ops.histogram_summary, tag, numbers)
    _add(writer, step, events.SUMMARY, content)


@op(
    "WriteImageSummary",
    inputs="writer: resource; step: int64; tag: string; tensor: T; bad_color: uint8",
    attrs="max_images: int >= 1 = 3; T: {uint8, double, float, half} = DT_FLOAT",
    **_USE,
)
def write_image_summary(
    xp: Any, writer: Any, step: Any, tag: Any, tensor: Any, bad_color: Any, *, max_images: int
) -> None:
    """Write the first `max_images` images as PNGs.

    step, tag []; tensor [batch, height, width, 1, 3 or 4]; bad_color [channels], of pixels that are not finite.
    Raises InvalidArgument, NotFound (no file is begun), and what writing met with.
    """
    content = _made(
        summary_ops.image_summary, tag, tensor, max_images=max_images, bad_color=bad_color
    )
    _add(writer, step, events.SUMMARY, content)


@op(
    "WriteAudioSummary",
    inputs="writer: resource; step: int64; tag: string; tensor: float; sample_rate: float",
    attrs="max_outputs: int >= 1 = 3",
    **_USE,
)
def write_audio_summary(
    xp: Any, writer: Any, step: Any, tag: Any, tensor: Any, sample_rate: Any, *, max_outputs: int
) -> None:
    """Write the first `max_outputs` clips as WAV files of 16 bits.

    step, tag, sample_rate [], in Hz; tensor [batch, frames, channels] or [batch, frames], in [-1, 1].
    Raises InvalidArgument, NotFound (no file is begun), and what writing met with.
    """
    content = _made(summary_ops.audio_summary, tag, tensor, sample_rate, max_outputs=max_outputs)
    _add(writer, step, events.SUMMARY, content)


@op(
    "WriteSummary",
    inputs="writer: resource; step: int64; tensor: T; tag: string; summary_metadata: string",
    attrs="T: type",
    **_USE,
)
def write_summary(
    xp: Any, writer: Any, step: Any, tensor: Any, tag: Any, summary_metadata: Any, *, T: Any
) -> None:
    """Write a whole tensor.

    step, tag []; tensor [...]; summary_metadata [], a SummaryMetadata or empty.
    Raises InvalidArgument, NotFound (no file is begun), and what writing met with.
    """
    name = _one("tag", tag).decode(errors="replace")
    summary = pb.Summary()
    value = summary.value.add(tag=name)
    tensors.encode(tensor, T, value.tensor)
    metadata = _one("summary_metadata", summary_metadata)
    if metadata:
        try:
            value.metadata.ParseFromString(metadata)
        except DecodeError as error:
            raise errors.invalid_argument(
                f"summary_metadata is no SummaryMetadata message: {error} (tag {name!r})"
            ) from None
    _add(writer, step, events.SUMMARY, summary.SerializeToString())


def _checked(content: bytes, kind: Any, name: str) -> bytes:
    """`content`, a message of that kind.  Raises DataLoss."""
    try:
        kind.FromString(content)
    except DecodeError as error:
        raise errors.data_loss(f"Bad {name} binary proto tensor string: {error}") from None
    return content


@op(
    "WriteRawProtoSummary",
    inputs="writer: resource; step: int64; tensor: string",
    **_USE,
)
def write_raw_proto_summary(xp: Any, writer: Any, step: Any, tensor: Any) -> None:
    """Write Summary messages, as one.

    step []; tensor [...].  Raises DataLoss (no Summary), InvalidArgument, NotFound (no file is begun), and what writing
    met with.
    """
    parts = [_checked(each, pb.Summary, "tf.Summary") for each in np.ravel(tensor)]
    _add(writer, step, events.SUMMARY, b"".join(parts))


@op(
    "WriteGraphSummary",
    inputs="writer: resource; step: int64; tensor: string",
    **_USE,
)
def write_graph_summary(xp: Any, writer: Any, step: Any, tensor: Any) -> None:
    """Write a GraphDef.

    step, tensor [].  Raises DataLoss (no GraphDef), InvalidArgument, NotFound (no file is begun), and what writing met
    with.
    """
    content = _checked(_one("tensor", tensor), pb.GraphDef, "tf.GraphDef")
    _add(writer, step, events.GRAPH_DEF, content)


@op(
    "ImportEvent",
    inputs="writer: resource; event: string",
    **_USE,
)
def import_event(xp: Any, writer: Any, event: Any) -> None:
    """Write an Event message.

    event [].  Raises DataLoss (no Event), InvalidArgument, NotFound (no file is begun), and what writing met with.
    """
    _writer(writer).add(_checked(_one("event", event), pb.Event, "tf.Event"))
