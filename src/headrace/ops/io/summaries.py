"""Summaries: values of a step for event files, which TensorBoard shows.

A summary's tag is the name of its node, behind the family if it has one; its node is in the graph's collection of
summaries.
Called by: programs, training's input producers.  Threads: as graph.
Source: TF 1.15 python/summary/summary.py, for behaviour
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final

from headrace.base import dtypes
from headrace.codec import protos as pb
from headrace.graph import scopes
from headrace.graph.collections import GraphKeys
from headrace.graph.convert import convert_to_tensor
from headrace.graph.names import name_scope
from headrace.graph.tensor import Tensor
from headrace.ops.io.summary_ops import (
    audio_summary,
    histogram_summary,
    image_summary,
    merge_summary,
    scalar_summary,
    tensor_summary_v2,
)

__all__ = [
    "audio",
    "get_summary_description",
    "histogram",
    "image",
    "merge",
    "merge_all",
    "scalar",
    "tensor_summary",
    "text",
]

_NOT_IN_TAGS: Final = re.compile(r"[^-/\w.]")
_TEXT_PLUGIN: Final = "text"


def _clean(name: str) -> str:
    """`name` as node names may be."""
    found = _NOT_IN_TAGS.sub("_", name).lstrip("/")
    if found != name:
        import logging

        logging.getLogger("headrace").info(
            "Summary name %s is illegal; using %s instead.", name, found
        )
    return found


@contextmanager
def summary_scope(
    name: str, family: str | None, default: str | None = None, values: Any = None
) -> Iterator[tuple[str, str]]:
    """(tag, scope) of a summary."""
    base = _clean(name)
    family = None if family is None else _clean(family)
    inner = base if family is None else f"{family}/{base}"
    with name_scope(inner, default, values) as scope:
        tag = scope.rstrip("/")
        yield (tag if family is None else f"{family}/{tag}"), scope


def _collected(summary: Tensor, collections: Any) -> Tensor:
    graph = scopes.get_default_graph()
    graph.add_to_collections([GraphKeys.SUMMARIES] if collections is None else collections, summary)
    return summary


def scalar(name: str, tensor: Any, collections: Any = None, family: str | None = None) -> Tensor:
    """A summary of one number.

    tensor: [], real.  collections: where the summary is noted, the graph's summaries by default.  family: goes before
    the tag; TensorBoard groups by it.  Gives a string [], a serialized Summary.  Raises TypeError, ValueError.
    """
    with summary_scope(name, family, values=[tensor]) as (tag, scope):
        return _collected(scalar_summary(tag, tensor, name=scope), collections)


def histogram(name: str, values: Any, collections: Any = None, family: str | None = None) -> Tensor:
    """A summary of how numbers are distributed.

    values: [...], real; a step fails if one is not finite.  The rest as `scalar`.
    """
    with summary_scope(name, family, "HistogramSummary", [values]) as (tag, scope):
        return _collected(histogram_summary(tag, values, name=scope), collections)


def image(
    name: str,
    tensor: Any,
    max_outputs: int = 3,
    collections: Any = None,
    family: str | None = None,
) -> Tensor:
    """A summary of images.

    tensor: [batch, height, width, 1 (gray), 3 (RGB) or 4 (RGBA)]; uint8, or floats, which are scaled for each image:
    the brightest is 255, or 0 is 128 if any is negative.  max_outputs: how many of the batch.  The rest as `scalar`.
    """
    with summary_scope(name, family, values=[tensor]) as (tag, scope):
        made = image_summary(tag, tensor, max_images=max_outputs, name=scope)
        return _collected(made, collections)


def audio(
    name: str,
    tensor: Any,
    sample_rate: Any,
    max_outputs: int = 3,
    collections: Any = None,
    family: str | None = None,
) -> Tensor:
    """A summary of clips of sound.

    tensor: [batch, frames, channels] or [batch, frames], float32 in [-1, 1].  sample_rate: in Hz, [] float32.
    max_outputs: how many of the batch.  The rest as `scalar`.
    """
    with summary_scope(name, family, values=[tensor]) as (tag, scope):
        rate = convert_to_tensor(sample_rate, dtype=dtypes.float32, name="sample_rate")
        made = audio_summary(tag, tensor, rate, max_outputs=max_outputs, name=scope)
        return _collected(made, collections)


def tensor_summary(
    name: str,
    tensor: Any,
    summary_description: str | None = None,
    collections: Any = None,
    summary_metadata: pb.SummaryMetadata | None = None,
    family: str | None = None,
    display_name: str | None = None,
) -> Tensor:
    """A summary of a tensor as it is, for plugins of TensorBoard.

    tensor: [...], of any dtype.  summary_metadata: which plugin shows it, and how; the description and display_name go
    into a copy.  The rest as `scalar`.
    """
    metadata = pb.SummaryMetadata()
    if summary_metadata is not None:
        metadata.CopyFrom(summary_metadata)
    if summary_description is not None:
        metadata.summary_description = summary_description
    if display_name is not None:
        metadata.display_name = display_name
    content = metadata.SerializeToString()
    with summary_scope(name, family, values=[tensor]) as (tag, scope):
        made = tensor_summary_v2(tag, tensor, content, name=scope)
        return _collected(made, collections)


def text(name: str, tensor: Any, collections: Any = None) -> Tensor:
    """A summary of strings, which TensorBoard shows as Markdown; a matrix of them as a table.

    tensor: [...], a string tensor.  The rest as `scalar`.  Raises ValueError for another dtype.
    """
    if tensor.dtype != dtypes.string:
        raise ValueError(
            f"Expected tensor {tensor.name} to have dtype string, got {tensor.dtype!r}"
        )
    metadata = pb.SummaryMetadata()
    metadata.plugin_data.plugin_name = _TEXT_PLUGIN
    return tensor_summary(name, tensor, collections=collections, summary_metadata=metadata)


def merge(inputs: Any, collections: Any = None, name: str | None = None) -> Tensor:
    """A summary of all values of several; a tag that comes twice fails the step.

    inputs: a list of summaries, strings [...].  collections: where it is noted, nowhere by default.
    Raises TypeError, ValueError.
    """
    name = None if name is None else _clean(name)
    several = isinstance(inputs, list | tuple)
    with name_scope(name, "Merge", inputs if several else None):
        if not several:
            raise TypeError(
                f"Expected list for 'inputs' argument to 'merge_summary' Op, not {inputs!r}."
            )
        made: Tensor = merge_summary(inputs, name=name)
    return _collected(made, [] if collections is None else collections)


def merge_all(
    key: Any = GraphKeys.SUMMARIES, scope: str | None = None, name: str | None = None
) -> Tensor | None:
    """`merge` of what a collection of the default graph has; None if that is nothing.

    scope: a regular expression, with which names of summaries begin.
    """
    summaries = scopes.get_default_graph().get_collection(key, scope)
    return merge(summaries, name=name) if summaries else None


def get_summary_description(node_def: pb.NodeDef) -> pb.SummaryDescription:
    """What the description of a TensorSummary node says, which is JSON.

    Raises ValueError for a node of another type; google.protobuf.json_format.ParseError.
    """
    if node_def.op != "TensorSummary":
        raise ValueError(
            f"Can't get_summary_description on {node_def.op}: only TensorSummary has one"
        )
    from google.protobuf import json_format

    found = pb.SummaryDescription()
    json_format.Parse(node_def.attr["description"].s.decode(), found)
    return found


def add_scalar(name: str, value: Any) -> Tensor:
    """A summary of `value` in the graph's collection, tagged with its full name."""
    return scalar(name, value)
