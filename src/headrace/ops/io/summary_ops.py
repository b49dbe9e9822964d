"""Ops that make summaries: values of a step as serialized Summary messages.

Called by: ops.io.summaries, graphs from elsewhere.  Threads: kernels in any step's thread.
Source: TF 1.15 core/ops/logging_ops.cc, core/kernels/summary_*.cc, for behaviour
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from google.protobuf.message import DecodeError

from headrace.base import dtypes, errors
from headrace.base.shapes import text as shape_text
from headrace.base.traits import NEVER_FOLDED
from headrace.codec import protos as pb
from headrace.codec import summary_values, tensors
from headrace.graph.registry import op
from headrace.graph.shape_fns import scalar
from headrace.run.exec.kernel import KernelContext

Array = np.ndarray[Any, Any]


def _string(content: bytes) -> Array:
    """A scalar string tensor."""
    box = np.empty((), object)
    box[()] = content
    return box


def _one(what: str, value: Array) -> Any:
    """The element of a scalar.  Raises InvalidArgument."""
    if value.ndim:
        raise errors.invalid_argument(
            f"{what} must be scalar, and has shape {shape_text(value.shape)}"
        )
    return value[()]


def _as_text(tag: bytes) -> str:
    return tag.decode(errors="replace")


@op(
    "ScalarSummary",
    inputs="tags: string; values: T",
    outputs="summary: string",
    attrs="T: realnumbertype",
    shape=scalar,
    differentiable=False,
)
def scalar_summary(xp: Any, tags: Any, values: Any) -> Any:
    """A Summary with one simple value per tag.

    tags [...]; values [...], of the same shape; summary [].  Raises InvalidArgument.
    """
    if tags.shape != values.shape:
        which = f" (tag '{_as_text(tags.reshape(-1)[0])}')" if tags.size == 1 else ""
        raise errors.invalid_argument(
            f"tags and values are not the same shape: {shape_text(tags.shape)} != {shape_text(values.shape)}{which}: "
            "every value has a tag; a histogram shows many values under one"
        )
    summary = pb.Summary()
    for tag, value in zip(tags.reshape(-1), values.reshape(-1), strict=True):
        summary.value.add(tag=_as_text(tag), simple_value=float(value))
    return _string(summary.SerializeToString())


@op(
    "HistogramSummary",
    inputs="tag: string; values: T",
    outputs="summary: string",
    attrs="T: realnumbertype = DT_FLOAT",
    shape=scalar,
    differentiable=False,
)
def histogram_summary(xp: Any, tag: Any, values: Any) -> Any:
    """A Summary with the histogram of all values.

    tag []; values [...]; summary [].  Raises InvalidArgument, for values that are not finite too.
    """
    name = _as_text(_one("tags", tag))
    flat = values.reshape(-1)
    if dtypes.as_dtype(flat.dtype).is_floating and not np.isfinite(flat).all():
        for what, bad in (
            ("Nan in summary histogram for", np.isnan(flat)),
            ("Infinity in Histogram for", np.isinf(flat)),
        ):
            if bad.any():
                raise errors.invalid_argument(
                    f"{what}: {name}: {np.count_nonzero(bad)} of the {flat.size} values, the first of them that with "
                    f"index {int(np.argmax(bad))} of the flattened tensor"
                )
    summary = pb.Summary()
    summary.value.add(tag=name, histo=summary_values.histogram(flat))
    return _string(summary.SerializeToString())


@op(
    "ImageSummary",
    inputs="tag: string; tensor: T",
    outputs="summary: string",
    attrs=(
        "max_images: int >= 1 = 3; T: {uint8, float, half, double} = DT_FLOAT; bad_color: tensor = "
        "{ dtype: DT_UINT8 tensor_shape { dim { size: 4 } } int_val: 255 int_val: 0 int_val: 0 int_val: 255 }"
    ),
    shape=scalar,
    differentiable=False,
)
def image_summary(xp: Any, tag: Any, tensor: Any, *, max_images: int, bad_color: Any) -> Any:
    """A Summary with the first `max_images` images as PNGs.

    tag []; tensor [batch, height, width, 1, 3 or 4]; bad_color [channels] uint8, of pixels that are not finite; summary
    [].  Floats are scaled, each image by itself (`summary_values.png_of`).  Raises InvalidArgument.
    """
    base = _as_text(_one("Tags", tag))
    if tensor.ndim != 4 or tensor.shape[3] not in (1, 3, 4):
        raise errors.invalid_argument(
            f"Tensor must be 4-D with last dim 1, 3, or 4, not {shape_text(tensor.shape)}: images are "
            "[batch, height, width, channels]"
        )
    batch, height, width, channels = tensor.shape
    if batch and not tensor.size:
        raise errors.invalid_argument(
            f"input tensor must have non-zero dims. Found: [{', '.join(map(str, tensor.shape))}]: an image without "
            "pixels is no PNG"
        )
    color = tensors.make_ndarray(bad_color) if isinstance(bad_color, pb.TensorProto) else bad_color
    if color.dtype != np.uint8:
        raise errors.invalid_argument(
            f"bad_color must be uint8, got {dtypes.spelled(dtypes.as_dtype(color.dtype))}"
        )
    if tensor.dtype != np.uint8 and color.size < channels:
        raise errors.invalid_argument(
            f"expected depth <= bad_color.size, got depth = {channels}, bad_color.size = {color.size}"
        )
    summary = pb.Summary()
    for name, pixels in zip(_tags(base, "image", max_images), tensor, strict=False):
        value = summary.value.add(tag=name)
        value.image.height, value.image.width, value.image.colorspace = height, width, channels
        value.image.encoded_image_string = summary_values.png_of(pixels, color)
    return _string(summary.SerializeToString())


def _tags(base: str, kind: str, most: int) -> Iterator[str]:
    """The tags of `most` values of one summary."""
    return iter((f"{base}/{kind}",) if most == 1 else (f"{base}/{kind}/{i}" for i in range(most)))


@op(
    "AudioSummaryV2",
    inputs="tag: string; tensor: float; sample_rate: float",
    outputs="summary: string",
    attrs="max_outputs: int >= 1 = 3",
    shape=scalar,
    differentiable=False,
)
def audio_summary(xp: Any, tag: Any, tensor: Any, sample_rate: Any, *, max_outputs: int) -> Any:
    """A Summary with the first `max_outputs` clips as WAV files of 16 bits.

    tag []; tensor [batch, frames, channels] or [batch, frames], in [-1, 1]; sample_rate [] or one value, in Hz; summary
    [].  Raises InvalidArgument.
    """
    base = _as_text(_one("Tag", tag))
    if tensor.ndim not in (2, 3):
        raise errors.invalid_argument(
            f"Tensor must be 3-D or 2-D, got: {shape_text(tensor.shape)}: clips are [batch, frames, channels]"
        )
    if sample_rate.size != 1:
        raise errors.invalid_argument(
            f"sample_rate must be rank-0 or contain a single value, and has shape {shape_text(sample_rate.shape)}"
        )
    rate = float(sample_rate.reshape(-1)[0])
    if not rate > 0:
        raise errors.invalid_argument(f"sample_rate must be > 0, and is {rate}, in Hz")
    clips = tensor if tensor.ndim == 3 else tensor[..., None]
    batch, frames, channels = clips.shape
    if batch and not channels:
        raise errors.invalid_argument(
            f"audio is null: the clips have 0 channels, their tensor is {shape_text(tensor.shape)}"
        )
    summary = pb.Summary()
    for name, samples in zip(_tags(base, "audio", max_outputs), clips, strict=False):
        audio = summary.value.add(tag=name).audio
        audio.sample_rate, audio.num_channels, audio.length_frames = rate, channels, frames
        audio.encoded_audio_string = summary_values.wav_of(samples, max(1, round(rate)))
        audio.content_type = "audio/wav"
    return _string(summary.SerializeToString())


@op(
    "TensorSummary",
    inputs="tensor: T",
    outputs="summary: string",
    attrs="T: type; description: string = ''; labels: list(string) = []; display_name: string = ''",
    shape=scalar,
    traits={NEVER_FOLDED},
    differentiable=False,
)
def tensor_summary_op(
    ctx: KernelContext, tensor: Any, *, T: Any, description: bytes, labels: Any, display_name: bytes
) -> Any:
    """A Summary with a whole tensor, tagged with the node's name.

    tensor [...]; summary [].
    """
    summary = pb.Summary()
    value = summary.value.add(node_name=ctx.node.name)
    tensors.encode(tensor, T, value.tensor)
    return _string(summary.SerializeToString())


@op(
    "TensorSummaryV2",
    inputs="tag: string; tensor: T; serialized_summary_metadata: string",
    outputs="summary: string",
    attrs="T: type",
    shape=scalar,
    differentiable=False,
)
def tensor_summary_v2(xp: Any, tag: Any, tensor: Any, metadata: Any, *, T: Any) -> Any:
    """A Summary with a whole tensor.

    tag []; tensor [...]; serialized_summary_metadata [], a SummaryMetadata; summary [].  Raises InvalidArgument.
    """
    name = _as_text(_one("tag", tag))
    content = _one("serialized_summary_metadata", metadata)
    summary = pb.Summary()
    value = summary.value.add(tag=name)
    tensors.encode(tensor, T, value.tensor)
    try:
        value.metadata.ParseFromString(content)
    except DecodeError as error:
        raise errors.invalid_argument(
            f"serialized_summary_metadata is no SummaryMetadata message: {error} (tag {name!r})"
        ) from None
    value.metadata.SetInParent()
    return _string(summary.SerializeToString())


@op(
    "MergeSummary",
    inputs="inputs: N * string",
    outputs="summary: string",
    attrs="N: int >= 1",
    shape=scalar,
    differentiable=False,
)
def merge_summary(xp: Any, *inputs: Any) -> Any:
    """One Summary with the values of all.

    inputs [...] each, Summary messages; summary [].  Raises InvalidArgument for what is no Summary, and for a tag that
    comes twice.
    """
    contents = [content for each in inputs for content in each.reshape(-1)]
    seen: set[str] = set()
    for content in contents:
        try:
            summary = pb.Summary.FromString(content)
        except DecodeError as error:
            raise errors.invalid_argument(
                f"Could not parse one of the summary inputs: {len(content)} bytes are no Summary message: {error}"
            ) from None
        for value in summary.value:
            if value.tag in seen:
                raise errors.invalid_argument(
                    f"Duplicate tag {value.tag} found in summary inputs: a tag comes once in a step; name them "
                    "differently, or merge each once"
                )
            if value.tag:
                seen.add(value.tag)
    return _string(b"".join(contents))
