"""Ops whose static shapes are not TensorFlow's for some knowledge of their inputs, by how they differ, and why.

A new op is not to be added: its shapes are to be TensorFlow's.  What is not needed fails test_variations.py.
"""

from __future__ import annotations

OTHER_SHAPES: dict[str, tuple[str, str]] = {
    "less known": (
        "TensorFlow concludes more, from inputs of which less than the value is known",
        """
        FakeQuantWithMinMaxVarsPerChannelGradient
        MatrixDiagV2 MatrixDiagV3 MatrixSolve MatrixSolveLs MirrorPadGrad NotEqual
        SparseApplyProximalGradientDescent Tile
        """,
    ),
    "more known": (
        "what follows from the inputs; TensorFlow does not look at all of them",
        """
        ApproximateEqual BroadcastTo Conv2DBackpropInput Conv3DBackpropInputV2 Dilation2D ExpandDims InvGrad
        LowerBound MatrixTriangularSolve MirrorPadGrad QuantizeV2 ReciprocalGrad ResourceGather RsqrtGrad
        SigmoidGrad SparseAdd SparseFillEmptyRows SparseSlice SparseSplit SqrtGrad TanhGrad Transpose
        TridiagonalSolve UpperBound
        """,
    ),
    "other error": (
        "TensorFlow 2.21 has removed them",
        """
        AdjustContrast BatchNormWithGlobalNormalization GatherTree RandomPoisson TopK
        """,
    ),
    "other shape": (
        "TensorFlow's is not that of the value (sequences of fractional pooling, patches of volumes, negative "
        "batch_dims), or both know what the other does not",
        """
        ExtractVolumePatches FractionalAvgPool FractionalMaxPool GatherV2
        """,
    ),
    "refused here": (
        "refused when the graph is built; TensorFlow finds it in the step, or never, where its kernels do not "
        "compare shapes",
        """
        ApplyFtrlV2 Conv3DBackpropInputV2 Cumsum Dequantize DrawBoundingBoxesV2
        EncodeJpegVariableQuality GatherV2 InvGrad NthElement QuantizeV2 ReciprocalGrad ResourceGather RsqrtGrad
        ScatterNdNonAliasingAdd SigmoidGrad SparseAdd SparseApplyFtrlV2 SparseSlice SparseSplit SparseToDense Split
        SplitV SqrtGrad TanhGrad TensorScatterAdd TensorScatterMax TensorScatterMin TensorScatterSub
        TensorScatterUpdate UniqueV2 UniqueWithCounts UnravelIndex UnsortedSegmentJoin
        """,
    ),
    "refused there": (
        "TensorFlow counts a rank, a size or a diagonal that it does not know as another one, wants to know what the "
        "step can find, or has removed the op",
        """
        AdjustContrast BatchNormWithGlobalNormalization BatchToSpaceND Dequantize EnsureShape GatherTree
        MatrixDiagV2 MatrixDiagV3 MatrixSetDiagV2 MatrixSetDiagV3 MirrorPadGrad ParallelConcat ParseExample
        RaggedTensorFromVariant RaggedTensorToTensor RandomPoisson ScatterNd SpaceToBatchND TopK
        """,
    ),
    "other phrase": (
        "both refuse it, for what each compares first",
        """
        BatchMatMul CTCBeamSearchDecoder CTCGreedyDecoder
        CTCLoss CombinedNonMaxSuppression ConcatV2 Conv2DBackpropInput Conv3DBackpropInputV2 CropAndResize
        Cross DecodeCSV Dequantize FakeQuantWithMinMaxVarsGradient FakeQuantWithMinMaxVarsPerChannel
        FakeQuantWithMinMaxVarsPerChannelGradient GatherV2 MatrixDiagV2
        MatrixDiagV3 MatrixSetDiag MatrixSetDiagV2 MatrixSetDiagV3 MatrixSolve MatrixSolveLs
        MaxPoolGradGradV2 MirrorPadGrad NonMaxSuppression NonMaxSuppressionV2 NonMaxSuppressionV3
        NonMaxSuppressionV4 NonMaxSuppressionV5 NonMaxSuppressionWithOverlaps QuantizeV2
        RaggedTensorToTensor ResourceGather ResourceGatherNd ScatterNd ScatterNdAdd
        ScatterNdMax ScatterNdMin ScatterNdSub ScatterNdUpdate SoftmaxCrossEntropyWithLogits
        SparseApplyAdadelta SparseApplyAdagrad SparseApplyAdagradDA SparseApplyAdagradV2
        SparseApplyCenteredRMSProp SparseApplyFtrl SparseApplyFtrlV2 SparseApplyMomentum
        SparseApplyProximalAdagrad SparseApplyProximalGradientDescent SparseApplyRMSProp SparseConcat
        SparseFillEmptyRows SparseSegmentMeanGrad SparseSegmentSqrtNGrad SparseSegmentSumGrad
        SparseTensorDenseMatMul TridiagonalMatMul TridiagonalSolve Unpack
        """,
    ),
}
