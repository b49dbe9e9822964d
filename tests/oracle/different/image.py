"""Where the outcomes of images' ops are not TensorFlow's."""

from __future__ import annotations

DIFFERENT: dict[str, str] = {
    "EncodeJpegVariableQuality": "another libjpeg",
    "AdjustContrast": "TensorFlow 2.21 has removed it",
    "RGBToHSV|HSVToRGB": "other channels than three are InvalidArgument, as of 1.15; in 2.21 FailedPrecondition",
    "ResizeBicubicGrad": "batches and channels are compared",
    "ResizeNearestNeighbor": "of no channels: nothing, as of the other methods; TensorFlow refuses them",
    "Extract(Image|Volume)Patches": "gradients of operands of unknown rank: TensorFlow builds none",
}
