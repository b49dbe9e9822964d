"""Where the outcomes of recurrent cells' ops are not TensorFlow's."""

from __future__ import annotations

DIFFERENT: dict[str, str] = {
    "BlockLSTM.*|LSTMBlockCell.*|GRUBlockCell.*": (
        "what does not fit is InvalidArgument; TensorFlow does not compare all of it, leaves memory as it was after "
        "seq_len_max, has no gradients of the cells, and for BlockLSTMV2 those of BlockLSTM, whose gates lie otherwise"
    ),
    "GatherTree": "TensorFlow 2.21 has it no more",
}
