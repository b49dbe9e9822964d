"""Gradients whose nodes or registrations are not TensorFlow's, as patterns, and why.  What is not needed fails."""

from __future__ import annotations

OTHER_NODES: dict[str, str] = {
    "(TopK|BatchNormWithGlobalNormalization) .*": "TensorFlow 2.21 has removed them",
    "(EnsureShape|(SpaceToBatch|BatchToSpace)ND|RaggedTensorToTensor) .*": (
        "TensorFlow refuses operands of unknown rank when the graph is built"
    ),
    "Matrix(Diag|DiagPart|SetDiag)(V2|V3)? .*": "of the version of the op, as in 1.15; zeros of what is known",
    "FusedBatchNormGrad(V2|V3)? .*": "the second derivative is built of other nodes",
    "BiasAddV1 unknown|BlockLSTMV2 .*": "a name; the gradient of the same version as the op",
    "SparseToDense .*|TensorStridedSliceUpdate .*|MatrixSolveLs .*|FractionalAvgPool .*|TridiagonalSolve .*": (
        "of other nodes, also where nothing is known"
    ),
    "RaggedGather .*": "one sum over segments",
    "RGBToHSV .*|Extract(Image|Volume)Patches .*": "as in other_nodes.py",
    "(LSTMBlockCell|GRUBlockCell|MaxPoolGradGradV2|SparseDenseCwiseAdd) .*": "TensorFlow has none",
}
"""Patterns of "OP unknown" and "OP known", of operands whose shapes are not known or are."""
OTHER_REGISTRATIONS: dict[str, str] = {
    "(TruncateDiv|FloorDiv|Floor|Ceil|Rint|Round) none": "TensorFlow's functions give None",
    "SparseSparse(Maximum|Minimum) none": "TensorFlow's functions cannot be called",
    "TensorScatter(Min|Max) not registered": "as in 1.15",
    "ScatterNd(Min|Max) none": "as of the other updates of references",
    "StackPushV2 none": "what loops keep for their gradients",
    "DestroyTemporaryVariable none": "as of the other variables",
    "(DecodeCSV|Parse.*) none": "what is parsed is no function of the defaults",
    "(LSTM|GRU)BlockCell function": "contrib's, as in 1.15",
    "(MaxPoolGradGradV2|I?RFFT3D) function": "they have one here",
    "(Stateful)?PartitionedCall function": "TensorFlow's is in what tf.function makes, not with the op",
}
"""Patterns of "OP registration", where registration is function, none or not registered."""
