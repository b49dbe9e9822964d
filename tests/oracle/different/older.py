"""Where the outcomes of ops of earlier versions are not TensorFlow's."""

from __future__ import annotations

DIFFERENT: dict[str, str] = {
    "BatchNormWithGlobalNormalization": "TensorFlow has it in GraphDefs of versions below 9 alone",
    "Empty": "zeros here, what the memory holds there",
    "FusedBatchNorm(Grad)?(V2)?": "of empty batches, and the shapes of outputs that nobody reads",
    "RaggedTensorToVariantGradient": "refused here: values of another shape than they are to have",
}
