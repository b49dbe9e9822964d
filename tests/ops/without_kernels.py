"""The ops of TensorFlow 1.15 that have no kernel here, as patterns of names, and why.

tests/ops/test_rows.py compares the table with the registry and with TensorFlow's list; `make oracle` prints how many
each reason is for.
"""

from __future__ import annotations

import re
from collections import Counter
from importlib.resources import files

from headrace.graph.registry import OPS

_TPU = "of TPUs, of which there are none"
_GPU = "a kernel for GPUs alone, of NVIDIA's libraries"
_OLD = "GraphDefs of versions below 1.0 have it; its successor is here"
_DATA = "tf.data: not built yet"
_EAGER = "eager execution and functions that are not inlined; graphs have no need of it"
_TREES = "boosted trees and forests: no part of headrace"

WITHOUT_KERNELS: dict[str, str] = {
    ".*TPU.*|(In|Out)feed.*|Prelinearize.*|WorkerHeartbeat": _TPU,
    "CrossReplicaSum|AllToAll|CollectivePermute": _TPU,
    "CudnnRNN.*|Nccl.*": _GPU,
    "(Experimental)?(AssertNext|AutoShard|ChooseFastest(Branch)?|Rebatch|Sampling|Sleep)Dataset": _DATA,
    "FilterByLastComponentDataset": _DATA,
    "(Experimental)?(CSV|LMDB|MatchingFiles|ParseExample|SlidingWindow|Snapshot)Dataset|ExperimentalMapDataset": _DATA,
    "(Experimental)?(BytesProducedStats|LatencyStats|SetStatsAggregator|ThreadPool)Dataset|MapDefun": _DATA,
    "(Experimental)?(StatsAggregator|ThreadPool)(Handle|Summary|SetSummaryWriter).*": _DATA,
    "(Un)?[Ww]rapDatasetVariant": _DATA,
    "(Experimental)?DatasetToTFRecord|DatasetToGraph|DatasetFromGraph|ExperimentalIteratorGetDevice": _DATA,
    ".*MultiDeviceIterator.*|AnonymousIterator(V2)?": "eager execution and several devices: iterators are named here",
    "(Cache|Shuffle)DatasetV2|.*(MemoryCache|RandomSeedGenerator)": "of eager execution; its first version is here",
    "Batch(FFT|IFFT|FFT2D|IFFT2D|FFT3D|IFFT3D|Cholesky|CholeskyGrad|Svd|SelfAdjointEig(V2)?|Matrix.*)": _OLD,
    "SelfAdjointEig|QuantizeAndDequantize|BatchNormWithGlobalNormalizationGrad": _OLD,
    "RandomCrop|TensorArray[A-Za-z]*(V2)?": _OLD,
    "SpaceToBatch|BatchToSpace|RefSelect|TileGrad|AudioSummary|CholeskyGrad": _OLD,
    "Conv3DBackprop(Input|Filter)|ParameterizedTruncatedNormal|ThreadUnsafeUnigramCandidateSampler": _OLD,
    "BoostedTrees.*|IsBoostedTrees.*|TensorForest.*": _TREES,
    "Sdca.*|KMC2.*|KmeansPlus.*|NearestNeighbors": "linear models by dual ascent and clustering: no part of headrace",
    "EagerPyFunc|FakeParam": _EAGER,
    "Stateful(Random|Standard|Truncated|Uniform).*|RngSkip": _EAGER,
    "NonDeterministicInts": _EAGER,
    "Collective.*": "replicas are joined by parameter servers and tf.train.SyncReplicasOptimizer",
    "Batch|Unbatch(Grad)?": "gathers requests of a server: tf.nondifferentiable_batch_function does",
    "Fused(Pad|ResizeAndPad)Conv2D": "made by graph rewriters",
    "DebugGradient.*|ImmutableConst|Abort|Fact": "of TensorFlow's debugger, loader and tutorials",
    "MatrixExponential": "tf.linalg.expm is made of other ops, in TensorFlow too",
    "MaxPoolGradGradWithArgmax|CompareAndBitpack": "not built yet",
}


def ops_of_tensorflow() -> frozenset[str]:
    """The public ops of TensorFlow 1.15."""
    listed = files("headrace.unmodified").joinpath("raw_ops.txt").read_text()
    lines = (line for line in listed.splitlines() if not line.startswith("#"))
    words = (word for line in lines for word in line.split())
    found = (re.match(r"(?:\w+:)?(\w+)\(", word) for word in words)
    return frozenset(each[1] for each in found if each)


def reasons() -> tuple[Counter[str], list[str]]:
    """How many ops lack a kernel for each reason, and those for which there is none."""
    OPS.complete()
    counted, unexplained = Counter[str](), []
    for name in sorted(ops_of_tensorflow() - OPS.keys()):
        reason = next((why for at, why in WITHOUT_KERNELS.items() if re.fullmatch(at, name)), None)
        if reason is None:
            unexplained.append(name)
        else:
            counted[reason] += 1
    return counted, unexplained
