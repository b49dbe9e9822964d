"""`tf.contrib.seq2seq`: decoders in a loop, attention, beam search, losses of sequences."""

from __future__ import annotations

from typing import TYPE_CHECKING

from headrace.base.lazy import names_of as _names_of
from headrace.unmodified.facade import names_beneath as _names_beneath

if TYPE_CHECKING:
    from headrace.library.contrib.attention import (
        AttentionMechanism,
        AttentionWrapper,
        AttentionWrapperState,
        BahdanauAttention,
        LuongAttention,
        hardmax,
    )
    from headrace.library.contrib.beam_search import (
        BeamSearchDecoder,
        BeamSearchDecoderOutput,
        BeamSearchDecoderState,
        FinalBeamSearchDecoderOutput,
        gather_tree_from_array,
        tile_batch,
    )
    from headrace.library.contrib.decoding import (
        BasicDecoder,
        BasicDecoderOutput,
        Decoder,
        dynamic_decode,
    )
    from headrace.library.contrib.decoding_helpers import (
        CustomHelper,
        GreedyEmbeddingHelper,
        Helper,
        InferenceHelper,
        SampleEmbeddingHelper,
        ScheduledEmbeddingTrainingHelper,
        ScheduledOutputTrainingHelper,
        TrainingHelper,
    )
    from headrace.library.contrib.monotonic_attention import (
        BahdanauMonotonicAttention,
        LuongMonotonicAttention,
        monotonic_attention,
        safe_cumprod,
    )
    from headrace.library.contrib.sequence_losses import (
        sequence_loss,
    )
    from headrace.ops.nn.beams import (
        gather_tree,
    )
else:
    __getattr__, __dir__ = _names_of(
        __name__,
        {
            "headrace.library.contrib.attention": (
                "AttentionMechanism AttentionWrapper AttentionWrapperState BahdanauAttention LuongAttention "
                "hardmax"
            ),
            "headrace.library.contrib.beam_search": (
                "BeamSearchDecoder BeamSearchDecoderOutput BeamSearchDecoderState "
                "FinalBeamSearchDecoderOutput gather_tree_from_array tile_batch"
            ),
            "headrace.library.contrib.decoding": "BasicDecoder BasicDecoderOutput Decoder dynamic_decode",
            "headrace.library.contrib.decoding_helpers": (
                "CustomHelper GreedyEmbeddingHelper Helper InferenceHelper SampleEmbeddingHelper "
                "ScheduledEmbeddingTrainingHelper ScheduledOutputTrainingHelper TrainingHelper"
            ),
            "headrace.library.contrib.monotonic_attention": (
                "BahdanauMonotonicAttention LuongMonotonicAttention monotonic_attention safe_cumprod"
            ),
            "headrace.library.contrib.sequence_losses": "sequence_loss",
            "headrace.ops.nn.beams": "gather_tree",
        },
        _names_beneath(__name__),
    )

__all__ = [
    "AttentionMechanism",
    "AttentionWrapper",
    "AttentionWrapperState",
    "BahdanauAttention",
    "BahdanauMonotonicAttention",
    "BasicDecoder",
    "BasicDecoderOutput",
    "BeamSearchDecoder",
    "BeamSearchDecoderOutput",
    "BeamSearchDecoderState",
    "CustomHelper",
    "Decoder",
    "FinalBeamSearchDecoderOutput",
    "GreedyEmbeddingHelper",
    "Helper",
    "InferenceHelper",
    "LuongAttention",
    "LuongMonotonicAttention",
    "SampleEmbeddingHelper",
    "ScheduledEmbeddingTrainingHelper",
    "ScheduledOutputTrainingHelper",
    "TrainingHelper",
    "dynamic_decode",
    "gather_tree",
    "gather_tree_from_array",
    "hardmax",
    "monotonic_attention",
    "safe_cumprod",
    "sequence_loss",
    "tile_batch",
]
