"""Ops whose static shapes are not TensorFlow's for some knowledge of their inputs, by how they differ, and why.

A new op is not to be added: its shapes are to be TensorFlow's.  What is not needed fails test_variations.py.
"""

from __future__ import annotations

OTHER_SHAPES: dict[str, tuple[str, str]] = {
    "less known": (
        "TensorFlow concludes more, from inputs of which less than the value is known",
        """
        BatchToSpaceND FakeQuantWithMinMaxVarsPerChannelGradient
        MatrixDiagV2 MatrixDiagV3 MatrixSolve MatrixSolveLs MirrorPadGrad NotEqual RaggedTensorToSparse SpaceToBatchND
        SparseApplyProximalGradientDescent Tile
        """,
    ),
    "more known": (
        "what follows from the inputs; TensorFlow does not look at all of them",
        """
        ApproximateEqual BroadcastTo Conv2DBackpropInput Conv3DBackpropInputV2 Dilation2D DrawBoundingBoxes
        DrawBoundingBoxesV2 ExpandDims InvGrad LowerBound MatrixTriangularSolve
        MirrorPadGrad QuantizeV2 ReciprocalGrad ResourceGather RsqrtGrad SigmoidGrad SparseAdd
        SparseFillEmptyRows SparseSlice SparseSplit SqrtGrad TanhGrad
        Transpose TridiagonalSolve UpperBound
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
        ApplyFtrlV2 ArgMax Conv3DBackpropInputV2 Cumsum Dequantize DrawBoundingBoxesV2
        EncodeJpegVariableQuality GatherV2 InvGrad NthElement QuantizeV2 ReciprocalGrad ResourceGather RsqrtGrad
        ScatterNdNonAliasingAdd SigmoidGrad SparseAdd SparseApplyFtrlV2 SparseSlice SparseSplit SparseToDense Split
        SplitV SqrtGrad TanhGrad TensorScatterAdd TensorScatterMax TensorScatterMin TensorScatterSub
        TensorScatterUpdate UniqueV2 UniqueWithCounts UnravelIndex UnsortedSegmentJoin
        """,
    ),
    "refused there": (
        "the step refuses them here, and TensorFlow when the graph is built; of ops that TensorFlow 2.21 has "
        "no more nothing can be said",
        """
        AdjustContrast AdjustContrastv2 BatchNormWithGlobalNormalization BatchToSpaceND BiasAdd BiasAddGrad CTCLoss
        Conv2D CropAndResizeGradImage DepthwiseConv2dNative Dequantize EditDistance EnsureShape ExtractGlimpse
        ExtractGlimpseV2 GatherTree HistogramFixedWidth MatrixDiagPartV2 MatrixDiagPartV3 MatrixDiagV2
        MatrixDiagV3 MatrixSetDiag MatrixSetDiagV2 MatrixSetDiagV3 MaxPool MirrorPadGrad ParallelConcat
        ParseExample QuantizeAndDequantizeV2 QuantizeAndDequantizeV3 RaggedGather RaggedRange
        RaggedTensorToSparse RaggedTensorToTensor RandomPoisson ReduceJoin
        SampleDistortedBoundingBox SampleDistortedBoundingBoxV2 ScatterNd SerializeManySparse
        SerializeSparse SpaceToBatchND SparseTensorDenseMatMul StatelessRandomNormalV2
        StatelessRandomUniformFullIntV2 StatelessRandomUniformInt StatelessRandomUniformIntV2
        StatelessRandomUniformV2 StatelessTruncatedNormalV2 TopK TridiagonalMatMul UnsortedSegmentJoin
        """,
    ),
}
