"""Connectionist temporal classification: the loss, and decoders.

Called by: library.nn.ctc, programs.  Threads: any; gradients as graph.
Source: behaviour of TF 1.15 (core/kernels/ctc_{loss,decoder}_ops.cc); gradient nodes as 2.21
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from headrace.base import errors
from headrace.base import shapes as shape_rules
from headrace.base.shapes import Shape, text
from headrace.base.traits import SIZED_BY_VALUES
from headrace.graph.graph import Operation
from headrace.graph.registry import op
from headrace.graph.shape_fns import ShapeContext
from headrace.ops._kernels import ctc
from headrace.ops._kernels.places import all_below
from headrace.ops.array.shapes import expand_dims
from headrace.ops.tables import make

__all__: list[str] = []

Array = np.ndarray[Any, Any]


def _check_inputs(inputs: Any, lengths: Array, refused: Callable[[str], errors.OpError]) -> None:
    """Raises InvalidArgument; what `refused` makes for lengths that do not fit the inputs."""
    if inputs.ndim != 3:
        raise errors.invalid_argument(
            f"inputs is not a 3-Tensor: [time, batch, classes] is wanted, not {text(inputs.shape)}"
        )
    if lengths.ndim != 1:
        raise errors.invalid_argument(f"sequence_length is not a vector: {text(lengths.shape)}")
    if inputs.shape[2] < 1:
        raise errors.invalid_argument(f"inputs has no classes: {text(inputs.shape)}")
    if len(lengths) != inputs.shape[1]:
        raise refused(
            "len(sequence_length) != batch_size.  "
            f"len(sequence_length):  {len(lengths)} batch_size: {inputs.shape[1]}"
        )
    for at, length in enumerate(lengths.tolist()):
        if not 0 <= length <= inputs.shape[0]:
            said = (
                f"sequence_length({at}) <= {inputs.shape[0]}"
                if length > 0
                else f"seq_len({at}) < 0"
            )
            raise refused(f"{said}: it is {length}, and there are {inputs.shape[0]} time steps")


# -- the loss ---------------------------------------------------------------------------------


def _loss_shapes(c: ShapeContext) -> list[Shape]:
    inputs = c.with_rank("inputs", 3)
    where, labels = c.with_rank("labels_indices", 2), c.with_rank("labels_values", 1)
    if where is not None and labels is not None:
        shape_rules.merge_sizes(where[0], labels[0], "labels_indices and labels_values")
    lengths = c.with_rank("sequence_length", 1)
    assert inputs is not None
    batch = shape_rules.merge((inputs[1],), lengths)
    return [batch, (inputs[0], *(batch or (None,)), inputs[2])]


def _labels(
    indices: Array, values: Array, batch: int, classes: int, collapse: bool
) -> list[list[int]]:
    """The labels of each sequence.  Raises InvalidArgument."""
    if indices.ndim != 2 or indices.shape[1] != 2:
        raise errors.invalid_argument(
            f"labels_indices is not a matrix of two columns: {text(indices.shape)}"
        )
    if values.shape != indices.shape[:1]:
        raise errors.invalid_argument(
            f"labels_values must have an entry a row of labels_indices: {text(values.shape)} and {text(indices.shape)}"
        )
    if not all_below(indices[:, 0], batch):
        raise errors.invalid_argument(
            f"labels_indices(_, 0) must be from 0 to the batch's {batch} - 1: {indices[:, 0].tolist()[:8]}"
        )
    found: list[list[int]] = [[] for _ in range(batch)]
    ended = [False] * batch
    last: list[int | None] = [None] * batch
    for row, label in zip(indices[:, 0].tolist(), values.tolist(), strict=True):
        if collapse and label == last[row]:
            continue
        last[row] = label
        if label < 0:
            raise errors.invalid_argument(
                f"All labels must be nonnegative integers, batch: {row} labels: {label}"
            )
        if label >= classes - 1:
            ended[row] = True
        elif ended[row]:
            raise errors.invalid_argument(
                f"Saw a non-null label (index >= num_classes - 1) following a null label, batch: {row} num_classes: "
                f"{classes} labels: {label}"
            )
        else:
            found[row].append(label)
    return found


def checked_labels(
    inputs: Any,
    indices: Array,
    values: Array,
    lengths: Array,
    collapse: bool,
    ignore: bool,
) -> tuple[list[list[int]], Array]:
    """The labels of each sequence, and how long each is; none, and 0, of those that are left out.

    inputs: of which the shape is looked at.  Raises InvalidArgument.
    """
    if indices.ndim != 2:
        raise errors.invalid_argument(f"labels_indices is not a matrix: {text(indices.shape)}")
    _check_inputs(inputs, lengths, errors.invalid_argument)
    labels = _labels(indices, values, inputs.shape[1], inputs.shape[2], collapse)
    lengths = lengths.astype(np.int64)
    for row, (each, length) in enumerate(zip(labels, lengths.tolist(), strict=True)):
        if not each and length:
            raise errors.invalid_argument(
                f"Labels length is zero in batch {row}: every sequence needs a label"
            )
        if len(each) <= length:
            continue
        if not ignore:
            raise errors.invalid_argument(
                f"Not enough time for target transition sequence (required: {len(each)}, available: {length}) at "
                f"sequence {row}; ignore_longer_outputs_than_inputs leaves such ones out"
            )
        labels[row], lengths[row] = [], 0
    return labels, lengths


_LOSS = (
    "preprocess_collapse_repeated: bool = false; ctc_merge_repeated: bool = true; "
    "ignore_longer_outputs_than_inputs: bool = false"
)


@op(
    "CTCLoss",
    inputs="inputs: T; labels_indices: int64; labels_values: int32; sequence_length: int32",
    outputs="loss: T; gradient: T",
    attrs=f"{_LOSS}; T: {{float, double}} = float",
    shape=_loss_shapes,
)
def ctc_loss_op(
    xp: Any,
    inputs: Array,
    labels_indices: Array,
    labels_values: Array,
    sequence_length: Array,
    *,
    preprocess_collapse_repeated: bool,
    ctc_merge_repeated: bool,
    ignore_longer_outputs_than_inputs: bool,
) -> Any:
    """Minus the logarithm of the probability of each sequence's labels, and the gradient of it.

    inputs [time, batch, classes], not yet normalized, the last class the blank; labels_indices [n, 2] and labels_values
    [n] of a sparse [batch, labels]; sequence_length [batch].  Raises InvalidArgument, FailedPrecondition.
    """
    labels, lengths = checked_labels(
        inputs,
        labels_indices,
        labels_values,
        sequence_length,
        preprocess_collapse_repeated,
        ignore_longer_outputs_than_inputs,
    )
    loss, gradient = ctc.loss(inputs, labels, lengths, ctc_merge_repeated)
    return loss.astype(inputs.dtype), gradient.astype(inputs.dtype)


_ONCE = (  # a constant of graphs
    "Currently there is no way to take the second  derivative of ctc_loss due to the fused implementation's "
    "interaction  with tf.gradients()"
)


@ctc_loss_op.gradient
def _(op: Operation, dloss: Any, dgradient: Any) -> Any:
    held = make.PreventGradient(
        op.outputs[1],
        message=_ONCE,
    )
    return [expand_dims(dloss, -1) * held, None, None, None]


def _check_decoded(inputs: Array, lengths: Array) -> None:
    if inputs.ndim == 3 and not inputs.size:
        raise errors.invalid_argument(f"inputs must not be empty: {text(inputs.shape)}")
    _check_inputs(inputs, lengths, errors.failed_precondition)


# -- decoders ---------------------------------------------------------------------------------


def _sparse(found: list[list[int]]) -> tuple[Array, Array, Array]:
    """Indices, values and shape of the labels of a batch."""
    rows = [(row, at) for row, each in enumerate(found) for at in range(len(each))]
    values = [label for each in found for label in each]
    longest = max(map(len, found), default=0)
    return (
        np.array(rows, np.int64).reshape(-1, 2),
        np.array(values, np.int64),
        np.array([len(found), longest], np.int64),
    )


def _greedy_shapes(c: ShapeContext) -> list[Shape]:
    inputs = c.with_rank("inputs", 3)
    assert inputs is not None
    (batch,) = shape_rules.merge((inputs[1],), c.with_rank("sequence_length", 1)) or (None,)
    return [(None, 2), (None,), (2,), (batch, 1)]


@op(
    "CTCGreedyDecoder",
    inputs="inputs: T; sequence_length: int32",
    outputs="decoded_indices: int64; decoded_values: int64; decoded_shape: int64; log_probability: T",
    attrs="merge_repeated: bool = false; blank_index: int = -1; T: {float, double} = float",
    shape=_greedy_shapes,
    traits={SIZED_BY_VALUES},
    differentiable=False,
)
def ctc_greedy_decoder_op(
    xp: Any, inputs: Array, sequence_length: Array, *, merge_repeated: bool, blank_index: int
) -> Any:
    """The likeliest class of each step, without blanks: a sparse [batch, labels], and minus the sums of their inputs.

    inputs [time, batch, classes].  Raises InvalidArgument, FailedPrecondition.
    """
    _check_decoded(inputs, sequence_length)
    classes = inputs.shape[2]
    blank = blank_index + classes if blank_index < 0 else blank_index
    if not 0 <= blank < classes:
        raise errors.invalid_argument(
            f"blank_index expected to be between {-classes} and {classes - 1}, but got {blank_index}"
        )
    best = inputs.argmax(axis=2)
    inside = np.arange(len(inputs))[:, None] < sequence_length
    kept = inside & (best != blank)
    if merge_repeated and len(best):
        kept[1:] &= best[1:] != best[:-1]
    high = inputs.max(axis=2) if len(inputs) else np.zeros(best.shape, inputs.dtype)
    sums = -np.where(inside, high, 0).sum(axis=0, dtype=inputs.dtype)
    found = [best[kept[:, row], row].tolist() for row in range(inputs.shape[1])]
    return (*_sparse(found), sums.reshape(-1, 1))


def _beam_shapes(c: ShapeContext) -> list[Shape]:
    inputs = c.with_rank("inputs", 3)
    assert inputs is not None
    (batch,) = shape_rules.merge((inputs[1],), c.with_rank("sequence_length", 1)) or (None,)
    paths = c.attr("top_paths")
    return [*[(None, 2)] * paths, *[(None,)] * paths, *[(2,)] * paths, (batch, paths)]


@op(
    "CTCBeamSearchDecoder",
    inputs="inputs: T; sequence_length: int32",
    outputs="decoded_indices: top_paths * int64; decoded_values: top_paths * int64; decoded_shape: top_paths * int64; "
    "log_probability: T",
    attrs="beam_width: int >= 1; top_paths: int >= 1; merge_repeated: bool = true; T: {float, double} = float",
    shape=_beam_shapes,
    traits={SIZED_BY_VALUES},
    differentiable=False,
)
def ctc_beam_search_decoder_op(
    xp: Any,
    inputs: Array,
    sequence_length: Array,
    *,
    beam_width: int,
    top_paths: int,
    merge_repeated: bool,
) -> Any:
    """The top_paths likeliest labellings, of the beam_width that are followed: each a sparse [batch, labels].

    The likeliest ones of each step are followed; TensorFlow does not follow what some grow into that are left out.

    inputs [time, batch, classes], not yet normalized, the last class the blank; log_probability [batch, top_paths].
    Raises InvalidArgument, FailedPrecondition.
    """
    _check_decoded(inputs, sequence_length)
    if top_paths > beam_width:
        raise errors.invalid_argument(
            f"requested more paths than the beam width: top_paths {top_paths}, beam_width {beam_width}"
        )
    log_y = ctc.log_softmax(inputs) if inputs.size else inputs
    paths: list[list[list[int]]] = [[] for _ in range(top_paths)]
    chances = np.zeros((inputs.shape[1], top_paths), inputs.dtype)
    for row, length in enumerate(sequence_length.tolist()):
        search = ctc.BeamSearch(beam_width)
        for step in range(length):
            search.step(log_y[step, row])
        best = search.best(top_paths, merge_repeated)
        if len(best) < top_paths:
            raise errors.invalid_argument(
                f"Less leaves in the beam search than requested: {len(best)} labellings of sequence {row}, and "
                f"top_paths is {top_paths}"
            )
        for path, (labels, chance) in enumerate(best):
            paths[path].append(labels)
            chances[row, path] = chance
    indices, values, sizes = zip(*map(_sparse, paths), strict=True)
    return (*indices, *values, *sizes, chances)
