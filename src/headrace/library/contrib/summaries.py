"""Summaries of tensors under their own names: `tf.contrib.layers.summarize_*`, `slim.summaries`.

Called by: training.contrib, programs.  Threads: as graph.
Source: behaviour of TensorFlow 1.15's contrib; tests compare nodes with tf-slim's.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Iterable
from typing import Any

from headrace.base.arguments import several
from headrace.graph.collections import GraphKeys
from headrace.graph.names import get_collection
from headrace.graph.scopes import get_default_graph
from headrace.ops.flow.printing import Print
from headrace.ops.io.summaries import histogram, image, scalar
from headrace.ops.math.casting import cast, to_float
from headrace.ops.math.comparisons import greater, less
from headrace.ops.math.reductions import reduce_mean
from headrace.ops.nn.basics import zero_fraction

__all__ = [
    "add_histogram_summaries",
    "add_histogram_summary",
    "add_image_summaries",
    "add_image_summary",
    "add_scalar_summaries",
    "add_scalar_summary",
    "add_zero_fraction_summaries",
    "add_zero_fraction_summary",
    "summarize_activation",
    "summarize_activations",
    "summarize_biases",
    "summarize_collection",
    "summarize_tensor",
    "summarize_tensors",
    "summarize_variables",
    "summarize_weights",
]


def _kept(summary: Any) -> Any:
    get_default_graph().add_to_collection(GraphKeys.SUMMARIES, summary)
    return summary


def summarize_tensor(tensor: Any, tag: str | None = None) -> Any:
    """A scalar summary of a scalar, a histogram of anything else.  tag: the tensor's name and ``_summary`` if None."""
    tag = tag or f"{_checked(tensor).op.name}_summary"
    make_one = scalar if tensor.get_shape().ndims == 0 else histogram
    return make_one(tag, tensor)


def summarize_activation(op: Any) -> Any:
    """A histogram of an activation; of relu and relu6 also how many are where they are cut."""
    name = _checked(op).op.name
    if op.op.type in ("Relu", "Softplus", "Relu6"):
        below = less(op.op.inputs[0], _like(op, 0.0))
        scalar(f"{name}/zeros", reduce_mean(to_float(below)))
    if op.op.type == "Relu6":
        above = greater(op.op.inputs[0], _like(op, 6.0))
        scalar(f"{name}/sixes", reduce_mean(to_float(above)))
    return histogram(f"{name}/activation", op)


def _checked(tensor: Any) -> Any:
    if not hasattr(tensor, "op"):
        raise TypeError(f"summaries are made of tensors and variables, not of {tensor!r}")
    return tensor


def _like(tensor: Any, value: float) -> Any:
    return cast(value, tensor.dtype.base_dtype)


def summarize_tensors(
    tensors: Iterable[Any], summarizer: Callable[..., Any] = summarize_tensor
) -> list[Any]:
    """What `summarizer` makes of each."""
    listed = several("summarize_tensors", "tensors", tensors, "tensors")
    return [summarizer(tensor) for tensor in listed]


def summarize_collection(
    collection: str,
    name_filter: str | None = None,
    summarizer: Callable[..., Any] = summarize_tensor,
) -> list[Any]:
    """Of what a collection has; of those whose names `name_filter` matches from their start."""
    found = get_collection(collection)
    if name_filter is not None:
        found = [each for each in found if re.match(name_filter, each.op.name)]
    return summarize_tensors(found, summarizer)


summarize_variables = functools.partial(summarize_collection, GraphKeys.GLOBAL_VARIABLES)
summarize_weights = functools.partial(summarize_collection, GraphKeys.WEIGHTS)
summarize_biases = functools.partial(summarize_collection, GraphKeys.BIASES)


def summarize_activations(
    name_filter: str | None = None, summarizer: Callable[..., Any] = summarize_activation
) -> list[Any]:
    """`summarize_activation` of what is in ACTIVATIONS."""
    return summarize_collection(GraphKeys.ACTIVATIONS, name_filter, summarizer)


def _tag(tensor: Any, name: str | None, prefix: str | None, suffix: str = "") -> str:
    tag = (name or tensor.op.name) + suffix
    return f"{prefix}/{tag}" if prefix else tag


def add_histogram_summary(tensor: Any, name: str | None = None, prefix: str | None = None) -> Any:
    """A histogram under `name`, or that of the tensor, beneath `prefix`."""
    return histogram(_tag(tensor, name, prefix), tensor)


def add_image_summary(
    tensor: Any, name: str | None = None, prefix: str | None = None, print_summary: bool = False
) -> Any:
    """Images [n, h, w, c] under `name`, or that of the tensor, beneath `prefix`."""
    tag = _tag(tensor, name, prefix)
    return _kept(_printed(image(tag, tensor, collections=[]), tensor, tag, print_summary))


def add_scalar_summary(
    tensor: Any, name: str | None = None, prefix: str | None = None, print_summary: bool = False
) -> Any:
    """A scalar under `name`, or that of the tensor, beneath `prefix`; printed too if wanted."""
    tag = _tag(tensor, name, prefix)
    return _kept(_printed(scalar(tag, tensor, collections=[]), tensor, tag, print_summary))


def _printed(summary: Any, tensor: Any, tag: str, print_summary: bool) -> Any:
    return Print(summary, [tensor], tag) if print_summary else summary


def add_zero_fraction_summary(
    tensor: Any, name: str | None = None, prefix: str | None = None, print_summary: bool = False
) -> Any:
    """What share of a tensor is zero, under ``NAME/Fraction of Zero Values``."""
    tag = _tag(tensor, name, prefix, "/Fraction of Zero Values")
    share = zero_fraction(tensor)
    summary = scalar(tag, share, collections=[])
    return _kept(_printed(summary, share, tag, print_summary))


def add_histogram_summaries(tensors: Iterable[Any], prefix: str | None = None) -> list[Any]:
    """A histogram of each."""
    return [add_histogram_summary(tensor, prefix=prefix) for tensor in tensors]


def add_image_summaries(tensors: Iterable[Any], prefix: str | None = None) -> list[Any]:
    """The images of each."""
    return [add_image_summary(tensor, prefix=prefix) for tensor in tensors]


def add_scalar_summaries(
    tensors: Iterable[Any], prefix: str | None = None, print_summary: bool = False
) -> list[Any]:
    """A scalar of each."""
    return [
        add_scalar_summary(each, prefix=prefix, print_summary=print_summary) for each in tensors
    ]


def add_zero_fraction_summaries(tensors: Iterable[Any], prefix: str | None = None) -> list[Any]:
    """What share of each is zero."""
    return [add_zero_fraction_summary(tensor, prefix=prefix) for tensor in tensors]
