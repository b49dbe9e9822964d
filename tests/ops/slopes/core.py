"""The array and neural-network families that have been here longest."""

from __future__ import annotations

from typing import Any

import numpy as np

import headrace as tf
from headrace.graph.registry import get
from tests.ops.slopes import Cases, Function, listed, op

RNG = np.random.default_rng(3)
V3 = np.array([0.7, -1.9, 2.3])
M23 = np.array([[0.3, -0.6, 1.7], [0.9, 0.2, -1.1]])
M34 = RNG.normal(size=(3, 4))
T234 = RNG.normal(size=(2, 3, 4))
B233 = RNG.normal(size=(2, 3, 3))
PROB = np.array([[0.2, 0.3, 0.5], [0.6, 0.3, 0.1]])
IDS = np.array([0, 0, 2], np.int32)
CORNERS = np.array([[0, 1], [1, 0]])
X4, W4, DY4 = (RNG.normal(size=s) for s in ((2, 3, 4, 2), (2, 3, 2, 3), (2, 2, 4, 3)))
X5, W5, DY5 = (RNG.normal(size=s) for s in ((1, 2, 3, 2, 2), (2, 2, 1, 2, 2), (1, 2, 2, 2, 2)))
POOL: dict[str, Any] = {"ksize": [1, 2, 2, 1], "strides": [1, 2, 1, 1], "padding": "SAME"}


def repeated(body: Function, start: Any, times: int = 3) -> Any:
    """a = body(i, a), `times` times, from `start`."""
    shapes = [tf.TensorShape([]), tf.TensorShape(None)]
    return tf.while_loop(
        lambda i, a: i < times, lambda i, a: (i + 1, body(i, a)), [0, start], shapes
    )[1]


def array_of(rows: Any) -> Any:
    """A TensorArray of two rows that can be read again and again."""
    return tf.TensorArray(rows.dtype, 2, clear_after_read=False).unstack(rows)


def pooled(name: str, ksize: list[int]) -> list[Any]:
    """An input of the pooling op and its output."""
    x = tf.constant(X4)
    return [x, get(name)(x, **{**POOL, "ksize": ksize})]


def second(name: str, dy: Any, ksize: list[int]) -> Any:
    """The op `name`Grad at X4, as a function of the gradient that comes in."""
    return get(f"{name}Grad")(*pooled(name, ksize), dy, **{**POOL, "ksize": ksize})


def _int32(*values: Any) -> list[Any]:
    return [np.array(value, np.int32) for value in values]


# name of the op (and a variant) -> (function, inputs)
CASES: Cases = {
    # activations
    **{
        name: (op(name), [M23])
        for name in (
            "Relu", "Relu6", "LeakyRelu", "Elu", "Selu", "Softplus", "Softsign", "L2Loss", "Softmax",
            "LogSoftmax", "Identity",
        )
    },
    "Relu6 above 6": (op("Relu6"), [M23 * 5]),
    "ReluGrad": (lambda x: get("ReluGrad")(x, tf.constant(M23)), [M23 + 1]),
    "Relu6Grad": (lambda x: get("Relu6Grad")(x, tf.constant(M23 * 5)), [M23 + 1]),
    "LeakyReluGrad": (lambda x: get("LeakyReluGrad")(x, tf.constant(M23)), [M23 + 1]),
    "EluGrad": (lambda x: tf.gradients(get("Elu")(x), x)[0], [M23]),
    "SeluGrad": (lambda x: tf.gradients(get("Selu")(x), x)[0], [M23]),
    "SoftplusGrad": (lambda x: tf.gradients(get("Softplus")(x), x)[0], [M23]),
    "BiasAdd": (op("BiasAdd"), [M23, V3]),
    "BiasAdd NCHW": (op("BiasAdd", data_format="NCHW"), [T234.reshape(2, 3, 2, 2), V3]),
    "BiasAddV1": (op("BiasAddV1"), [M23, V3]),
    "BiasAddGrad": (op("BiasAddGrad"), [M23]),
    "BiasAddGrad NCHW": (
        op("BiasAddGrad", data_format="NCHW"), [T234.reshape(2, 3, 2, 2)],
    ),
    # the gradient with respect to logits; the second output is that gradient
    "SoftmaxCrossEntropyWithLogits": (
        lambda x: get("SoftmaxCrossEntropyWithLogits")(x, tf.constant(PROB))[0], [M23],
    ),
    "SoftmaxCrossEntropyWithLogits labels": (
        lambda x, y: get("SoftmaxCrossEntropyWithLogits")(x, y)[0], [M23, PROB],
    ),
    "SparseSoftmaxCrossEntropyWithLogits": (
        lambda x: get("SparseSoftmaxCrossEntropyWithLogits")(x, np.array([2, 0], np.int32))[0],
        [M23],
    ),
    # constants and passing on
    "Fill": (lambda x: get("Fill")(np.array([2, 3], np.int32), x), [np.array(0.7)]),
    "IdentityN": (listed("IdentityN"), [M23, V3]),
    "CheckNumerics": (op("CheckNumerics", message="m"), [M23]),
    "CheckNumericsV2": (op("CheckNumericsV2", message="m"), [M23]),
    "Print": (lambda x: get("Print")(x, [x], first_n=0), [M23]),
    "PlaceholderWithDefault": (lambda x: tf.placeholder_with_default(x, None), [M23]),
    # gathering
    "Gather": (op("Gather", [1, 0, 1]), [M23]),
    "GatherV2": (op("GatherV2", [1, 0, 1], 0), [M23]),
    "GatherV2 axis 1": (op("GatherV2", [[2, 0], [2, 2]], 1), [T234]),
    "GatherV2 batched": (op("GatherV2", [[2, 0], [1, 1]], 1, batch_dims=1), [T234]),
    "GatherNd": (op("GatherNd", [[1, 2], [0, 0], [1, 2]]), [M23]),
    "GatherNd rows": (op("GatherNd", [[1], [1]]), [M23]),
    "ScatterNd": (
        lambda x: get("ScatterNd")(
            np.array([[1], [3], [1]], np.int32), x, np.array([4, 4], np.int32)
        ),
        [M34],
    ),
    **{
        name: (
            lambda x, u, name=name: get(name)(x, np.array([[1], [0]], np.int32), u),
            [M34, M34[:2] * 2],
        )
        for name in (
            "TensorScatterUpdate", "TensorScatterAdd", "TensorScatterSub", "ScatterNdNonAliasingAdd",
        )
    },
    "SparseReorder": (
        lambda x: get("SparseReorder")(
            np.array([[1, 0], [0, 1], [0, 0]], np.int64), x, np.array([2, 2], np.int64)
        )[1],
        [V3],
    ),
    # joining and splitting
    "ConcatV2": (listed("ConcatV2", 1), [M23, M23[:, :2] * 2]),
    "ConcatV2 negative axis": (listed("ConcatV2", -2), [M23, M23[:1] * 2]),
    "Concat": (lambda *x: get("Concat")(np.int32(0), list(x)), [M23, M23[:1]]),
    "Split": (lambda x: get("Split")(np.int32(1), x, num_split=3), [M23]),
    "SplitV": (
        lambda x: get("SplitV")(x, np.array([1, 2], np.int32), np.int32(1), num_split=2), [M23],
    ),
    "Pack": (listed("Pack", axis=1), [V3, V3 * 2]),
    "Unpack": (op("Unpack", num=3, axis=1), [M23]),
    # padding, tiling, reversing
    "Tile": (op("Tile", [2, 3]), [M23]),
    "Pad": (op("Pad", [[1, 0], [2, 1]]), [M23]),
    "PadV2": (op("PadV2", [[1, 0], [2, 1]], np.float64(5)), [M23]),
    "MirrorPad REFLECT": (op("MirrorPad", [[1, 0], [2, 1]], mode="REFLECT"), [M23]),
    "MirrorPad SYMMETRIC": (op("MirrorPad", [[1, 0], [2, 1]], mode="SYMMETRIC"), [M23]),
    "MirrorPadGrad": (op("MirrorPadGrad", [[1, 0], [0, 1]], mode="SYMMETRIC"), [M34]),
    "Reverse": (lambda x: get("Reverse")(x, np.array([True, False])), [M23]),
    "ReverseV2": (op("ReverseV2", [-1]), [M23]),
    "ReverseSequence": (op("ReverseSequence", [2, 1], seq_dim=1, batch_dim=0), [M23]),
    # shapes
    "Reshape": (op("Reshape", [3, -1]), [M23]),
    "ExpandDims": (op("ExpandDims", 1), [M23]),
    "Squeeze": (op("Squeeze", squeeze_dims=[1]), [M23[:, None]]),
    "EnsureShape": (op("EnsureShape", shape=[2, None]), [M23]),
    "Transpose": (op("Transpose", [2, 0, 1]), [T234]),
    "ConjugateTranspose": (op("ConjugateTranspose", [1, 0]), [M23 + 1j]),
    "BroadcastTo": (op("BroadcastTo", [4, 2, 3]), [M23]),
    "BroadcastTo ones": (op("BroadcastTo", [2, 3]), [M23[:, :1]]),
    # slicing
    "StridedSlice": (lambda x: x[1:, ::-2], [M34]),
    "StridedSlice new axis": (lambda x: x[..., tf.newaxis, 1], [T234]),
    "StridedSliceGrad": (
        lambda x: get("StridedSliceGrad")(
            *[np.array(v, np.int32) for v in ([4, 5], [0, 1], [2, 4], [1, 1])], x
        ),
        [M23],
    ),
    "Slice": (op("Slice", [0, 1], [2, 2]), [M23]),
    # matrices
    "MatrixBandPart": (
        lambda x: get("MatrixBandPart")(x, np.int64(1), np.int64(0)), [B233],
    ),
    "Diag": (op("Diag"), [V3]),
    "DiagPart": (op("DiagPart"), [B233[0]]),
    "MatrixDiag": (op("MatrixDiag"), [M23]),
    "MatrixDiagPart": (op("MatrixDiagPart"), [B233]),
    "MatrixSetDiag": (op("MatrixSetDiag"), [B233, M23]),
    "MatrixDiagV2": (
        lambda x: get("MatrixDiagV2")(x, *_int32(0, -1, -1), np.float64(0)), [M23],
    ),
    "MatrixDiagV3": (
        lambda x: get("MatrixDiagV3")(x, *_int32([-1, 0], -1, -1), np.float64(0)),
        [RNG.normal(size=(2, 2, 3))],
    ),
    "MatrixDiagPartV2": (
        lambda x: get("MatrixDiagPartV2")(x, np.int32(0), np.float64(0)), [B233],
    ),
    "MatrixDiagPartV3": (
        lambda x: get("MatrixDiagPartV3")(x, np.array([-1, 1], np.int32), np.float64(0)), [B233],
    ),
    "MatrixSetDiagV2": (
        lambda x, d: get("MatrixSetDiagV2")(x, d, np.int32(0)), [B233, M23],
    ),
    "MatrixSetDiagV3": (
        lambda x, d: get("MatrixSetDiagV3")(x, d, np.array([0, 1], np.int32)),
        [B233, RNG.normal(size=(2, 2, 3))],
    ),
    # segments
    **{
        name: (op(name, IDS), [M34])
        for name in ("SegmentSum", "SegmentMean", "SegmentMax", "SegmentMin", "SegmentProd")
    },
    **{
        name: (op(name, np.array([1, 0, 1], np.int32), 2), [M34])
        for name in (
            "UnsortedSegmentSum", "UnsortedSegmentProd", "UnsortedSegmentMax", "UnsortedSegmentMin",
        )
    },
    **{
        name: (op(name, np.array([0, 2, 1], np.int32), IDS), [M34])
        for name in ("SparseSegmentSum", "SparseSegmentMean", "SparseSegmentSqrtN")
    },
    **{
        f"{name}WithNumSegments": (
            op(f"{name}WithNumSegments", np.array([0, 2, 1], np.int32), IDS, 4), [M34],
        )
        for name in ("SparseSegmentSum", "SparseSegmentMean", "SparseSegmentSqrtN")
    },
    "DynamicPartition": (
        lambda x: get("DynamicPartition")(x, np.array([1, 0, 1], np.int32), num_partitions=2),
        [M34],
    ),
    **{
        name: (
            lambda *x, name=name: get(name)(_int32([0, 2], [1]), list(x)), [M23, M23[:1]],
        )
        for name in ("DynamicStitch", "ParallelDynamicStitch")
    },
    # control flow
    "Switch": (lambda x: tf.cond(x[0, 0] < 1, lambda: x * x, lambda: tf.exp(x)), [M23]),
    "Switch not taken": (lambda x: tf.cond(x[0, 0] > 1, lambda: x * x, lambda: tf.exp(x)), [M23]),
    "Switch nested": (
        lambda x, y: tf.cond(
            x[0, 0] < 1,
            lambda: x * tf.cond(y[0] > 1, lambda: y, lambda: tf.sin(y) * x), lambda: x + y,
        ),
        [M23, V3],
    ),
    "Merge": (lambda x: tf.case([(x[0] > 1, lambda: x * x)], default=lambda: tf.sin(x)), [V3]),
    "Enter": (lambda x, y: repeated(lambda i, a: a * tf.sin(x), y), [V3, V3[::-1].copy()]),
    "Exit": (lambda x: repeated(lambda i, a: tf.sin(a) * a, x), [V3]),
    "Exit never": (lambda x: repeated(lambda i, a: tf.sin(a), x, times=0), [V3]),
    "NextIteration": (
        lambda x, y: repeated(lambda i, a: repeated(lambda j, b: tf.sin(b) * x + y, a), y),
        [M23, M23 * 2],
    ),
    "NextIteration branch": (
        lambda x, y: repeated(
            lambda i, a: tf.cond(i > 0, lambda: a * x, lambda: tf.cond(i < 2, lambda: tf.sin(a), lambda: y)), y
        ),
        [V3, V3 * 2],
    ),
    "NextIteration unused": (lambda x: repeated(lambda i, a: x * tf.cast(i, tf.float64), x), [V3]),
    "NextIteration gather": (lambda x: repeated(lambda i, a: a + tf.gather(x, [1, 0, i % 2]), M23[[0, 0, 0]]), [M23]),
    "TensorArrayReadV3": (lambda x: array_of(x).read(1) * tf.reduce_sum(x), [M23]),
    "TensorArrayWriteV3": (
        lambda x, y: tf.TensorArray(x.dtype, 2, infer_shape=False).write(0, x).write(1, y).stack(), [M23, M23 * 2],
    ),
    "TensorArrayGatherV3": (lambda x: array_of(x).gather([1, 0, 1]), [M23]),
    "TensorArrayScatterV3": (lambda x: tf.map_fn(lambda row: row * tf.sin(row), x), [M34]),
    "TensorArrayScatterV3 scan": (lambda x: tf.scan(lambda a, row: tf.sin(a) * row, x), [M34]),
    "TensorArrayScatterV3 fold": (lambda x: tf.foldr(lambda a, row: tf.sin(a) * row, x), [M34]),
    "TensorArrayConcatV3": (
        lambda x: tf.TensorArray(x.dtype, 2, infer_shape=False).split(x, [1, 2]).concat(), [M34],
    ),
    "TensorArraySplitV3": (
        lambda x: tf.TensorArray(x.dtype, 2, infer_shape=False).split(x, [1, 2]).read(1), [M34],
    ),
    # convolutions and pooling; the second-order ones through the gradients of the first
    "Conv2D": (op("Conv2D", strides=[1, 2, 1, 1], padding="SAME"), [X4, W4]),
    "Conv2D NCHW": (
        op("Conv2D", strides=[1, 1, 1, 1], padding="SAME", data_format="NCHW", dilations=[1, 1, 1, 2]),
        [X4, W4.swapaxes(2, 3)],
    ),
    "Conv2D explicit": (
        op("Conv2D", strides=[1, 1, 2, 1], padding="EXPLICIT", explicit_paddings=[0, 0, 1, 0, 0, 2, 0, 0]), [X4, W4],
    ),
    "Conv2DBackpropInput": (
        lambda w, dy: get("Conv2DBackpropInput")([2, 3, 4, 2], w, dy, strides=[1, 2, 1, 1], padding="SAME"), [W4, DY4],
    ),
    "Conv2DBackpropFilter": (
        lambda x, dy: get("Conv2DBackpropFilter")(x, [2, 3, 2, 3], dy, strides=[1, 2, 1, 1], padding="SAME"), [X4, DY4],
    ),
    "Conv3D": (op("Conv3D", strides=[1, 1, 2, 1, 1], padding="SAME"), [X5, W5]),
    "Conv3DBackpropInputV2": (
        lambda w, dy: get("Conv3DBackpropInputV2")([1, 2, 3, 2, 2], w, dy, strides=[1, 1, 2, 1, 1], padding="SAME"),
        [W5, DY5],
    ),
    "Conv3DBackpropFilterV2": (
        lambda x, dy: get("Conv3DBackpropFilterV2")(x, [2, 2, 1, 2, 2], dy, strides=[1, 1, 2, 1, 1], padding="SAME"),
        [X5, DY5],
    ),
    "DepthwiseConv2dNative": (
        op("DepthwiseConv2dNative", strides=[1, 1, 1, 1], padding="SAME", dilations=[1, 1, 2, 1]), [X4, W4],
    ),
    "DepthwiseConv2dNativeBackpropInput": (
        lambda w, dy: get("DepthwiseConv2dNativeBackpropInput")(
            [2, 3, 4, 2], w, dy, strides=[1, 2, 1, 1], padding="SAME"
        ),
        [W4, np.concatenate([DY4, DY4], 3)],
    ),
    "DepthwiseConv2dNativeBackpropFilter": (
        lambda x, dy: get("DepthwiseConv2dNativeBackpropFilter")(
            x, [2, 3, 2, 3], dy, strides=[1, 2, 1, 1], padding="SAME"
        ),
        [X4, np.concatenate([DY4, DY4], 3)],
    ),
    "MaxPool": (op("MaxPool", ksize=[1, 2, 2, 1], strides=[1, 2, 1, 1], padding="SAME"), [X4]),
    "MaxPool apart": (op("MaxPool", ksize=[1, 2, 2, 1], strides=[1, 2, 3, 1], padding="VALID"), [X4]),
    "MaxPoolGrad": (lambda dy: second("MaxPool", dy, ksize=[1, 2, 2, 1]), [DY4[..., :2]]),
    "MaxPoolGradGrad": (lambda x: get("MaxPoolGradGrad")(*pooled("MaxPool", [1, 2, 2, 1]), x, **POOL), [X4]),
    "MaxPoolWithArgmax": (
        lambda x: get("MaxPoolWithArgmax")(x, ksize=[1, 2, 2, 1], strides=[1, 1, 2, 1], padding="SAME")[0], [X4],
    ),
    "AvgPool": (op("AvgPool", ksize=[1, 2, 3, 1], strides=[1, 2, 1, 1], padding="SAME"), [X4]),
    "AvgPoolGrad": (
        lambda dy: get("AvgPoolGrad")([2, 3, 4, 2], dy, ksize=[1, 2, 3, 1], strides=[1, 2, 1, 1], padding="SAME"),
        [DY4[..., :2]],
    ),
    "AvgPool3D": (op("AvgPool3D", ksize=[1, 2, 2, 1, 1], strides=[1, 1, 2, 1, 1], padding="SAME"), [X5]),
    "AvgPool3DGrad": (
        lambda dy: get("AvgPool3DGrad")(
            [1, 2, 3, 2, 2], dy, ksize=[1, 2, 2, 1, 1], strides=[1, 1, 2, 1, 1], padding="SAME"
        ),
        [DY5],
    ),
    "SpaceToBatchND": (op("SpaceToBatchND", [2, 1], [[1, 0], [0, 2]]), [X4]),
    "BatchToSpaceND": (op("BatchToSpaceND", [1, 2], [[0, 1], [1, 0]]), [X4]),
    "SpaceToDepth": (op("SpaceToDepth", block_size=2), [X4[:, :2]]),
    "DepthToSpace": (op("DepthToSpace", block_size=2), [np.concatenate([X4, X4], 3)]),
    # sparse tensors and labelled axes
    "Einsum": (listed("Einsum", equation="ij,jk->ki"), [M23, M34]),
    "Einsum one": (listed("Einsum", equation="...ij->j..."), [T234]),
    "Einsum diagonal": (listed("Einsum", equation="bii->i"), [B233]),
    "Einsum broadcast": (listed("Einsum", equation="i...,...k->...ik"), [V3, T234[:, :1]]),
    "Einsum factor summed": (listed("Einsum", equation="bij,jk->bk"), [T234[:, :, :3], M34]),
    "Einsum factor with a diagonal summed": (listed("Einsum", equation="bbi,bi->"), [B233[:, :2], M23]),
    "SparseToDense": (
        lambda v, d: get("SparseToDense")(CORNERS, np.array([2, 3]), v, d), [V3[:2], np.array(0.7)],
    ),
    "SparseToDense one value": (
        lambda v: get("SparseToDense")(np.array([0, 2]), np.array([3]), v, 0.0), [np.array(0.7)],
    ),
    **{
        f"SparseTensorDenseMatMul {a} {b}": (
            lambda v, d, a=a, b=b: get("SparseTensorDenseMatMul")(
                CORNERS, v, np.array([2, 3]), d, adjoint_a=a, adjoint_b=b
            ),
            [V3[:2], M34[: 2 if a else 3].T if b else M34[: 2 if a else 3]],
        )
        for a in (False, True) for b in (False, True)
    },
    "SparseTensorDenseMatMul complex": (
        lambda v, d: get("SparseTensorDenseMatMul")(
            CORNERS, v, np.array([2, 3]), d, adjoint_a=True, adjoint_b=True
        ),
        [V3[:2] * (1 + 2j), M23.T * (2 - 1j)],
    ),
    "SparseTensorDenseAdd": (
        lambda v, d: get("SparseTensorDenseAdd")(CORNERS, v, np.array([2, 3]), d), [V3[:2], M23],
    ),
    "SparseAdd": (
        lambda v, w: get("SparseAdd")(
            CORNERS, v, np.array([2, 3]), CORNERS[:, ::-1], w, np.array([2, 3]), np.float64(0.5)
        )[1],
        [V3[:2], V3[1:]],
    ),
    "TopKV2": (lambda x: get("TopKV2")(x, np.int32(2))[0], [M23]),
    "TopK": (lambda x: get("TopK")(x, k=2)[0], [M23]),
}  # fmt: skip


# Checked elsewhere: the families of test_math_gradients.py (which is complete by itself), references
# and variables (training tests, test_resource_variables.py), one that only raises (tests/graph/test_gradients.py), and
# ops that have no double precision (test_convolution.py).
ELSEWHERE = {
    "RefIdentity", "PreventGradient", "RefSwitch", "RefMerge", "RefEnter", "RefExit", "RefNextIteration",
    "ReadVariableOp", "ResourceGather", "ResourceGatherNd", "LRN", "FusedBatchNormV3", "MaxPool3D", "MaxPool3DGrad",
    "MaxPool3DGradGrad",
}  # fmt: skip
