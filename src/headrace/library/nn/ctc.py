"""Connectionist temporal classification, as programs call it.

Called by: programs.  Threads: as graph.
Source: behaviour of TF 1.15 (python/ops/ctc_ops.py); nodes as 2.21, but for dense labels, which become sparse ones
"""

from __future__ import annotations

from typing import Any

from headrace.base import dtypes
from headrace.graph.convert import convert_to_tensor
from headrace.graph.names import name_scope
from headrace.graph.sparse import SparseTensor
from headrace.graph.tensor import Tensor
from headrace.ops.array.broadcast import sequence_mask
from headrace.ops.array.gathering import gather_nd
from headrace.ops.array.joining import concat
from headrace.ops.array.shapes import shape as shape_of
from headrace.ops.array.shapes import transpose
from headrace.ops.math.casting import cast
from headrace.ops.nn.ctc import ctc_beam_search_decoder_op, ctc_greedy_decoder_op, ctc_loss_op
from headrace.ops.tables import make

__all__ = [
    "ctc_beam_search_decoder",
    "ctc_beam_search_decoder_v2",
    "ctc_greedy_decoder",
    "ctc_loss",
    "ctc_loss_v2",
]


def ctc_loss(
    labels: Any,
    inputs: Any = None,
    sequence_length: Any = None,
    preprocess_collapse_repeated: bool = False,
    ctc_merge_repeated: bool = True,
    ignore_longer_outputs_than_inputs: bool = False,
    time_major: bool = True,
    logits: Any = None,
) -> Tensor:
    """Minus the logarithm of the probability of each sequence's labels: [batch].

    labels: int32 SparseTensor [batch, labels].  logits (or inputs) [time, batch, classes], batch first unless
    time_major, the last class the blank; sequence_length int32 [batch].  ctc_merge_repeated: a label twice in turn
    counts once.  ignore_longer_outputs_than_inputs: what has more labels than steps has loss 0, else it is an error.
    Raises TypeError, in the step InvalidArgument.
    """
    if not isinstance(labels, SparseTensor):
        raise TypeError(
            f"Expected argument `labels` to be a SparseTensor, and it is {type(labels).__name__}; tf.nn.ctc_loss_v2 "
            "takes dense ones too"
        )
    logits = inputs if logits is None else logits
    logits = convert_to_tensor(logits, name="logits")
    if not time_major:
        logits = transpose(logits, [1, 0, 2])
    own = logits.dtype.base_dtype
    if own in (dtypes.float16, dtypes.bfloat16):
        logits = cast(logits, dtypes.float32)
    found, _ = ctc_loss_op(
        logits,
        labels.indices,
        labels.values,
        sequence_length,
        preprocess_collapse_repeated=preprocess_collapse_repeated,
        ctc_merge_repeated=ctc_merge_repeated,
        ignore_longer_outputs_than_inputs=ignore_longer_outputs_than_inputs,
    )
    made: Tensor = cast(found, own) if own != found.dtype else found
    return made


def ctc_loss_v2(
    labels: Any,
    logits: Any,
    label_length: Any,
    logit_length: Any,
    logits_time_major: bool = True,
    unique: Any = None,
    blank_index: int | None = None,
    name: str | None = None,
) -> Tensor:
    """As `ctc_loss`, of labels that may be dense, [batch, labels] and label_length [batch] of them, and of any blank.

    blank_index: from the end if it is below 0; needed for sparse labels, the first class for dense ones if it is not
    given.  unique: what `ctc_unique_labels` gave, which nothing needs here.  Raises ValueError.
    """
    if isinstance(labels, SparseTensor):
        if blank_index is None:
            raise ValueError(
                "Argument `blank_index` must be provided when labels is a SparseTensor: which class is the blank"
            )
        return _with_blank(labels, logits, logit_length, blank_index, logits_time_major)
    if label_length is None or logit_length is None:
        raise ValueError("dense labels need label_length and logit_length, [batch]")
    with name_scope(name, "ctc_loss_dense", [logits, labels, label_length, logit_length]):
        labels = convert_to_tensor(labels, dtype=dtypes.int32, name="labels")
        places = make.Where(sequence_mask(label_length, shape_of(labels)[1]))
        sparse = SparseTensor(
            places, gather_nd(labels, places), shape_of(labels, out_type=dtypes.int64)
        )
        return _with_blank(sparse, logits, logit_length, blank_index or 0, logits_time_major)


def _with_blank(
    labels: SparseTensor, logits: Any, lengths: Any, blank: int, time_major: bool
) -> Tensor:
    """The blank becomes the last class."""
    logits = convert_to_tensor(logits, name="logits")
    classes = logits.shape[-1].value
    if blank < 0 and classes is not None:
        blank += classes
    if blank != (classes or 0) - 1:
        parts = [logits[:, :, :blank], logits[:, :, blank + 1 :], logits[:, :, blank : blank + 1]]
        logits = concat(parts, axis=2)
        moved = make.Select(labels.values < blank, labels.values, labels.values - 1)
        labels = SparseTensor(labels.indices, moved, labels.dense_shape)
    return ctc_loss(labels=labels, inputs=logits, sequence_length=lengths, time_major=time_major)


def ctc_greedy_decoder(
    inputs: Any, sequence_length: Any, merge_repeated: bool = True, blank_index: int | None = None
) -> tuple[list[SparseTensor], Tensor]:
    """The likeliest class of each step of [time, batch, classes], without blanks, the last class if not told.

    merge_repeated: those that come again in turn count once.  Returns ([SparseTensor [batch, labels]], and minus the
    sums of their inputs [batch, 1]).
    """
    indices, values, size, chance = ctc_greedy_decoder_op(
        inputs,
        sequence_length,
        merge_repeated=merge_repeated,
        blank_index=-1 if blank_index is None else blank_index,
    )
    return [SparseTensor(indices, values, size)], chance


def ctc_beam_search_decoder(
    inputs: Any,
    sequence_length: Any,
    beam_width: int = 100,
    top_paths: int = 1,
    merge_repeated: bool = True,
) -> tuple[list[SparseTensor], Tensor]:
    """The top_paths likeliest labellings of [time, batch, classes] that a beam of beam_width finds.

    merge_repeated: labels that come twice in turn in what is found are made one.  Returns a SparseTensor [batch,
    labels] each, and the logarithms of their probabilities [batch, top_paths].
    """
    indices, values, sizes, chances = ctc_beam_search_decoder_op(
        inputs,
        sequence_length,
        beam_width=beam_width,
        top_paths=top_paths,
        merge_repeated=merge_repeated,
    )
    found = [SparseTensor(*each) for each in zip(indices, values, sizes, strict=True)]
    return found, chances


def ctc_beam_search_decoder_v2(
    inputs: Any, sequence_length: Any, beam_width: int = 100, top_paths: int = 1
) -> tuple[list[SparseTensor], Tensor]:
    """As `ctc_beam_search_decoder`, with labellings as they are."""
    return ctc_beam_search_decoder(inputs, sequence_length, beam_width, top_paths, False)
