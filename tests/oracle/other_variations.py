"""Ops under other attrs whose outcomes are not TensorFlow's, as patterns of "OP ATTR=VALUE", and why.

Beside tests/oracle/different, which is about ops whatever their attrs.  What is not needed fails
tests/oracle/test_variations.py.
"""

from __future__ import annotations

OTHER_VALUES: dict[str, str] = {
    "Where T=float16|Tile T=uint16|StatelessRandomUniformFullInt Tseed=uint(32|64)|ArgMax Tidx=int16": (
        "types that the op's definition has; TensorFlow's kernels have them not, or read them as others"
    ),
    "ComplexAbs (T=complex128|Tout=float64)": "the other type follows here; TensorFlow refuses the pair",
    "DecodeImage channels=-1|Dequantize axis=.*": (
        "refused by the step, as InvalidArgument; TensorFlow's is a ValueError when the graph is built, and for "
        "Dequantize refuses every axis whose input's rank is not known"
    ),
    "ExtractGlimpse(V2)? noise=b'x'": "refused by the step; TensorFlow's is a ValueError when the graph is built",
    "ExtractGlimpse centered=False": "what lies outside the image is noise",
    "Dequantize mode=b'SCALED'": "scalars are dequantized; TensorFlow takes none",
    "FixedUnigramCandidateSampler vocab_file=b'x'": "the operands are looked at before the file",
    "FractionalMaxPoolGrad overlapping=True": "the output that is given is not compared with that of the input",
    "SampleDistortedBoundingBox min_object_covered=1.5": "a share above 1 is refused, as V2's is",
    "SparseAdd Treal=(u?int.*|b?float16)": (
        "a threshold of another type is a number; TensorFlow reads it as one of the values' type"
    ),
    "SparseCross N=1": "the attrs of what is drawn do not fit: TensorFlow's numbers are what the memory holds",
    "(TensorDataset|TensorSliceDataset|RandomDataset) metadata=b'x'": (
        "what is noted for TensorFlow's profiler is not read here"
    ),
    "TridiagonalSolve perturb_singular=True": "perturb_singular is Unimplemented, and says what to do",
}

AT_TIMES = {"SparseCross N=1", "SparseAdd Treal=(u?int.*|b?float16)"}
"""Those where what the memory of TensorFlow's process holds may be right."""
