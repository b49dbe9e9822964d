"""`tf.contrib.rnn`: recurrent networks and their cells."""

from __future__ import annotations

from typing import TYPE_CHECKING

from headrace.base.lazy import names_of as _names_of
from headrace.unmodified.facade import names_beneath as _names_beneath

if TYPE_CHECKING:
    from headrace.library.contrib.block_cells import (
        FusedRNNCell,
        FusedRNNCellAdaptor,
        GRUBlockCell,
        GRUBlockCellV2,
        LSTMBlockCell,
        LSTMBlockFusedCell,
        LSTMBlockWrapper,
        TimeReversedFusedRNN,
    )
    from headrace.library.contrib.cell_bases import (
        LayerRNNCell,
    )
    from headrace.library.contrib.grid_cells import (
        BidirectionalGridLSTMCell,
        GridLSTMCell,
    )
    from headrace.library.contrib.independent_cells import (
        IndRNNCell,
        IndyGRUCell,
        IndyLSTMCell,
    )
    from headrace.library.contrib.light_cells import (
        CFNCell,
        GLSTMCell,
        MinimalRNNCell,
        SRUCell,
    )
    from headrace.library.contrib.normalized_cells import (
        LayerNormBasicLSTMCell,
        LayerNormLSTMCell,
        WeightNormLSTMCell,
    )
    from headrace.library.contrib.rnn_cells import (
        CoupledInputForgetGateLSTMCell,
        IntersectionRNNCell,
        NASCell,
        PhasedLSTMCell,
        UGRNNCell,
    )
    from headrace.library.contrib.rnn_stacks import (
        stack_bidirectional_dynamic_rnn,
        stack_bidirectional_rnn,
        transpose_batch_time,
    )
    from headrace.library.contrib.rnn_wrappers import (
        AttentionCellWrapper,
        Conv1DLSTMCell,
        Conv2DLSTMCell,
        Conv3DLSTMCell,
        ConvLSTMCell,
        EmbeddingWrapper,
        HighwayWrapper,
        InputProjectionWrapper,
        OutputProjectionWrapper,
    )
    from headrace.library.contrib.time_frequency import TimeFreqLSTMCell
    from headrace.library.rnn.cells import (
        BasicLSTMCell,
        BasicRNNCell,
        GRUCell,
        LSTMCell,
        LSTMStateTuple,
        RNNCell,
    )
    from headrace.library.rnn.loops import (
        static_bidirectional_rnn,
        static_rnn,
    )
    from headrace.library.rnn.raw_loops import (
        static_state_saving_rnn,
    )
    from headrace.library.rnn.wrappers import (
        DeviceWrapper,
        DropoutWrapper,
        MultiRNNCell,
        ResidualWrapper,
    )
else:
    __getattr__, __dir__ = _names_of(
        __name__,
        {
            "headrace.library.contrib.block_cells": (
                "FusedRNNCell FusedRNNCellAdaptor GRUBlockCell GRUBlockCellV2 LSTMBlockCell "
                "LSTMBlockFusedCell LSTMBlockWrapper TimeReversedFusedRNN"
            ),
            "headrace.library.contrib.cell_bases": "LayerRNNCell",
            "headrace.library.contrib.grid_cells": "BidirectionalGridLSTMCell GridLSTMCell",
            "headrace.library.contrib.independent_cells": "IndRNNCell IndyGRUCell IndyLSTMCell",
            "headrace.library.contrib.light_cells": "CFNCell GLSTMCell MinimalRNNCell SRUCell",
            "headrace.library.contrib.normalized_cells": "LayerNormBasicLSTMCell LayerNormLSTMCell WeightNormLSTMCell",
            "headrace.library.contrib.rnn_cells": (
                "CoupledInputForgetGateLSTMCell IntersectionRNNCell NASCell "
                "PhasedLSTMCell UGRNNCell"
            ),
            "headrace.library.contrib.rnn_stacks": (
                "stack_bidirectional_dynamic_rnn stack_bidirectional_rnn transpose_batch_time"
            ),
            "headrace.library.contrib.rnn_wrappers": (
                "AttentionCellWrapper Conv1DLSTMCell Conv2DLSTMCell Conv3DLSTMCell ConvLSTMCell "
                "EmbeddingWrapper HighwayWrapper InputProjectionWrapper OutputProjectionWrapper"
            ),
            "headrace.library.contrib.time_frequency": "TimeFreqLSTMCell",
            "headrace.library.rnn.cells": "BasicLSTMCell BasicRNNCell GRUCell LSTMCell LSTMStateTuple RNNCell",
            "headrace.library.rnn.loops": "static_bidirectional_rnn static_rnn",
            "headrace.library.rnn.raw_loops": "static_state_saving_rnn",
            "headrace.library.rnn.wrappers": "DeviceWrapper DropoutWrapper MultiRNNCell ResidualWrapper",
        },
        _names_beneath(__name__),
    )

__all__ = [
    "AttentionCellWrapper",
    "BasicLSTMCell",
    "BasicRNNCell",
    "BidirectionalGridLSTMCell",
    "CFNCell",
    "Conv1DLSTMCell",
    "Conv2DLSTMCell",
    "Conv3DLSTMCell",
    "ConvLSTMCell",
    "CoupledInputForgetGateLSTMCell",
    "DeviceWrapper",
    "DropoutWrapper",
    "EmbeddingWrapper",
    "FusedRNNCell",
    "FusedRNNCellAdaptor",
    "GLSTMCell",
    "GRUBlockCell",
    "GRUBlockCellV2",
    "GRUCell",
    "GridLSTMCell",
    "HighwayWrapper",
    "IndRNNCell",
    "IndyGRUCell",
    "IndyLSTMCell",
    "InputProjectionWrapper",
    "IntersectionRNNCell",
    "LSTMBlockCell",
    "LSTMBlockFusedCell",
    "LSTMBlockWrapper",
    "LSTMCell",
    "LSTMStateTuple",
    "LayerNormBasicLSTMCell",
    "LayerNormLSTMCell",
    "LayerRNNCell",
    "MinimalRNNCell",
    "MultiRNNCell",
    "NASCell",
    "OutputProjectionWrapper",
    "PhasedLSTMCell",
    "RNNCell",
    "ResidualWrapper",
    "SRUCell",
    "TimeFreqLSTMCell",
    "TimeReversedFusedRNN",
    "UGRNNCell",
    "WeightNormLSTMCell",
    "stack_bidirectional_dynamic_rnn",
    "stack_bidirectional_rnn",
    "static_bidirectional_rnn",
    "static_rnn",
    "static_state_saving_rnn",
    "transpose_batch_time",
]
