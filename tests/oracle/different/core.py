"""Where the outcomes of the ops that have been here longest are not TensorFlow's."""

from __future__ import annotations

DIFFERENT: dict[str, str] = {
    "ImageSummary": "PNGs of the same pixels, compressed otherwise (test_summaries.py compares the pixels)",
    "TensorSummaryV2": "metadata that is no message is refused; there it goes into the summary",
    "(Resource)?ScatterNd(Update|Add|Sub|Min|Max)|TensorScatter.*|ScatterNdNonAliasingAdd|ScatterNd": (
        "coordinates of no axes mean all of it, as documented, and into empty slices nothing is scattered; a vector is "
        "one coordinate of TensorScatter*. TensorFlow refuses these, and resource variables' shapes are not compared"
    ),
    "ResourceScatter(Update|Add|Sub|Mul|Div|Min|Max)": "TensorFlow compares no shapes where there are no indices",
    "GatherNd": "slices of nothing are empty; TensorFlow refuses empty params",
    "MatrixDiagPartV[23]": "TensorFlow takes the first element of a padding_value that is no scalar",
    "(Resource)?SparseApply.*": "rows of no elements are updated, which is nothing; TensorFlow refuses some of them",
    "ResourceApplyAdadelta": "TensorFlow does not compare the shape of every slot",
    "Truncate(Div|Mod)": "an integer divided by 0 is Internal in TensorFlow, InvalidArgument in its other divisions",
    "BatchMatrixBandPart|RandomPoisson|TopK": "TensorFlow 2.21 has removed them",
    "FusedBatchNormV3|FusedBatchNormGradV3": "of empty batches, and the shapes of outputs that nobody reads",
    "RandomPoissonV2": "TensorFlow draws something for negative rates",
    "Round": "TensorFlow rounds some negative int32 to 0",
    "(Tanh|Sigmoid|Sqrt|Rsqrt|Reciprocal|Inv)Grad": "TensorFlow does not compare shapes, and reads too far",
    "(Depthwise)?Conv[23][dD].*": "wrong ranks and sizes are InvalidArgument, also of empties; oneDNN's are Aborted",
    "(Max|Avg)Pool.*": "wrong ranks are InvalidArgument, empty batches no errors; TensorFlow's kernels differ",
    "Softmax|.*SoftmaxCrossEntropyWithLogits": "a scalar is InvalidArgument; oneDNN's is Aborted",
    "Einsum": "TensorFlow multiplies int32 of unequal sizes if one is empty",
    "SparseSegment.*": "of no indices: zeros; TensorFlow leaves the memory as it is",
    "SparseToDense": "the gradient of a scalar of indices; TensorFlow's is refused, or of another shape",
    "ParseExampleV2|Parse(Single)?SequenceExample(V2)?": "ragged features are Unimplemented",
    "Substr": "any number of dimensions broadcasts",
    "Encode(Png|Jpeg)": "no pixels are InvalidArgument, not Internal; PNGs are compressed otherwise",
    "(SpaceToBatch|BatchToSpace)ND|ParallelConcat": "TensorFlow builds no graph with operands of unknown rank",
    "MirrorPad": "nothing is added along an axis of size 0, which TensorFlow refuses",
    "Reverse": "TensorFlow does not look at dims of a scalar, and refuses what has no rows",
    "(Resource)?ApplyFtrl(V2)?": "NaN stays NaN; TensorFlow makes 0 of it",
}  # fmt: skip
