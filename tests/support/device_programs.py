"""Operations on images, sequences, segments, diagonals and integers: programs for devices to agree on.

Nothing of them is to be left to the host: `tests.ops.test_portable_programs` and `tests.xla.test_programs`.
"""

from __future__ import annotations

from typing import Any

import numpy as np

import headrace as tf
from headrace.graph.registry import get
from tests.support.window_programs import Program, seeded

raw = tf.raw_ops


def fed(values: Any, dtype: Any = np.float32) -> tf.Tensor:
    """What no step folds."""
    array = np.asarray(values, dtype)
    return tf.placeholder_with_default(array, array.shape)


def drawn(*shape: int) -> tf.Tensor:
    return fed(seeded(*shape))


def odd(*shape: int) -> tf.Tensor:
    """With a NaN, an infinity and zeros among them."""
    values = seeded(*shape)
    flat = values.reshape(-1)
    flat[:4] = (np.nan, np.inf, 0.0, -0.0)
    return fed(values)


def with_gradients(made: Any, *inputs: tf.Tensor) -> list[Any]:
    """It, and the gradients of a sum of it in which each element counts differently."""
    sizes = made.shape.as_list()
    return [made, *tf.gradients(made * seeded(*sizes), inputs)]


IMAGES = (2, 5, 4, 3)


def _resized(op: Any, *size: int, **attrs: Any) -> Program:
    def program() -> list[Any]:
        x = drawn(*IMAGES)
        made = op(images=x, size=size, **attrs)
        if op is raw.ResizeArea:
            return [made, op(images=odd(*IMAGES), size=size, **attrs)]
        return [*with_gradients(made, x), op(images=odd(*IMAGES), size=size, **attrs)]

    return program


def _of_bytes() -> list[Any]:
    x = fed(np.arange(60).reshape(1, 5, 4, 3) * 4, np.uint8)
    ops = (raw.ResizeBilinear, raw.ResizeBicubic, raw.ResizeArea, raw.ResizeNearestNeighbor)
    return [op(images=x, size=[7, 3]) for op in ops]


BOXES = [[0.1, 0.2, 0.9, 0.7], [-0.2, 0.0, 0.5, 1.3], [0.8, 0.9, 0.3, 0.1], [0, 0, 1, 1]]


def _crops(method: str, *size: int) -> Program:
    def program() -> list[Any]:
        x, boxes = drawn(*IMAGES), fed(BOXES)
        made = tf.image.crop_and_resize(
            x, boxes, [0, 1, 1, 0], size, method=method, extrapolation_value=-2.0
        )
        return [made, *tf.gradients(made * seeded(4, *size, 3), [x, boxes])]

    return program


def _colors() -> list[Any]:
    x = fed(np.abs(seeded(2, 3, 4, 3)) % 1.0)
    gray = fed(np.full((1, 2, 2, 3), 0.5))
    return [
        tf.image.adjust_contrast(x, 1.7),
        tf.image.adjust_hue(x, 0.3),
        tf.image.adjust_hue(gray, -0.2),
        tf.image.adjust_saturation(x, 2.5),
        raw.AdjustContrast(images=x, contrast_factor=0.4, min_value=0.1, max_value=0.8),
        *with_gradients(tf.image.rgb_to_hsv(x), x),
        tf.image.hsv_to_rgb(x),
        tf.image.rgb_to_hsv(gray),
    ]


def _patches(**attrs: Any) -> Program:
    def program() -> list[Any]:
        return [raw.ExtractImagePatches(images=odd(*IMAGES), **attrs)]

    return program


def _volume_patches() -> list[Any]:
    sizes, steps = [1, 2, 1, 2, 1], [1, 1, 2, 1, 1]
    x = odd(2, 3, 4, 3, 2)
    return [raw.ExtractVolumePatches(input=x, ksizes=sizes, strides=steps, padding="SAME")]


def _dilation(padding: str) -> Program:
    def program() -> list[Any]:
        x, window = drawn(*IMAGES), drawn(2, 2, 3)
        made = tf.nn.dilation2d(
            x, window, strides=[1, 2, 1, 1], rates=[1, 1, 2, 1], padding=padding
        )
        return with_gradients(made, x, window)

    return program


def _places_of_largest(batches: bool) -> Program:
    def program() -> list[Any]:
        x = fed(np.round(seeded(*IMAGES) * 2))  # with ties
        made, places = raw.MaxPoolWithArgmax(
            input=x, ksize=[1, 3, 2, 1], strides=[1, 2, 2, 1], padding="SAME", include_batch_in_index=batches
        )  # fmt: skip
        return [*with_gradients(made, x), places]

    return program


def _windows_by_inputs() -> list[Any]:
    x = drawn(*IMAGES)
    window: dict[str, Any] = {"ksize": [1, 2, 3, 1], "strides": [1, 2, 1, 1], "padding": "SAME"}
    made = raw.MaxPoolV2(input=x, **window)
    slope = drawn(*made.shape.as_list())
    again = raw.MaxPoolGradGradV2(orig_input=x, orig_output=made, grad=drawn(*IMAGES), **window)
    return [made, raw.MaxPoolGradV2(orig_input=x, orig_output=made, grad=slope, **window), again]


# -- sequences --------------------------------------------------------------------------------------------------------


def _lstm(time: int | None, peepholes: bool, clip: float = 3.0) -> Program:
    def program() -> list[Any]:
        x = drawn(*(() if time is None else (time,)), 2, 3)
        cs, h, w, b = drawn(2, 4), drawn(2, 4) * 0.5, drawn(7, 16), drawn(16)
        more = [drawn(4) * each for each in (0.5, -1.0, 2.0)]
        given = {
            "cs_prev": cs,
            "h_prev": h,
            "w": w,
            "wci": more[0],
            "wcf": more[1],
            "wco": more[2],
            "b": b,
        }
        if time is None:
            made = raw.LSTMBlockCell(x=x, **given, use_peephole=peepholes, cell_clip=clip)
        else:
            made = raw.BlockLSTM(
                seq_len_max=tf.constant(time - 1, tf.int64), x=x, **given, use_peephole=peepholes, cell_clip=clip
            )  # fmt: skip
        loss = tf.reduce_sum(made[6] * seeded(*made[6].shape.as_list())) + tf.reduce_sum(made[1])
        return [*made, *tf.gradients(loss, [x, cs, h, w, b, *(more if peepholes else ())])]

    return program


def _lstm_of_other_gates() -> list[Any]:
    x, cs, h, w, b = drawn(3, 2, 3), drawn(2, 4), drawn(2, 4), drawn(7, 16), drawn(16)
    none = fed(np.zeros(4))
    made = raw.BlockLSTMV2(
        seq_len_max=tf.constant(3, tf.int64), x=x, cs_prev=cs, h_prev=h, w=w, wci=none, wcf=none, wco=none, b=b
    )  # fmt: skip
    return [*made, *tf.gradients(tf.reduce_sum(made[6]), [x, cs, h, w, b])]


def _gru() -> list[Any]:
    x, h, b_ru, b_c = drawn(2, 3), drawn(2, 4), drawn(8), drawn(4)
    w_ru, w_c = drawn(7, 8), drawn(7, 4)
    made = raw.GRUBlockCell(x=x, h_prev=h, w_ru=w_ru, w_c=w_c, b_ru=b_ru, b_c=b_c)
    loss = tf.reduce_sum(made[3] * seeded(2, 4))
    return [*made, *tf.gradients(loss, [x, h, w_ru, w_c, b_ru, b_c])]


def _reversed() -> list[Any]:
    x, lengths = odd(3, 4, 2), fed([0, 4, 3], np.int64)
    turned = raw.ReverseSequence(input=x, seq_lengths=lengths, seq_dim=1, batch_dim=0)
    other = raw.ReverseSequence(
        input=x, seq_lengths=fed([1, 2, 0, 3], np.int64), seq_dim=0, batch_dim=1
    )
    return [turned, other, raw.Reverse(tensor=x, dims=[True, False, True])]


# -- rows and diagonals -----------------------------------------------------------------------------------------------


def _segments() -> list[Any]:
    x = drawn(5, 2, 3)
    rising, any_order = [0, 0, 2, 2, 3], fed([3, 0, -1, 3, 1], np.int64)
    found = []
    for op in (tf.segment_sum, tf.segment_mean, tf.segment_max, tf.segment_min, tf.segment_prod):
        made = tf.ensure_shape(op(x, rising), [4, 2, 3])
        found += [*with_gradients(made, x), op(odd(5, 2), rising)]
    for op in (tf.unsorted_segment_max, tf.unsorted_segment_min, tf.unsorted_segment_prod):
        found += [*with_gradients(op(x, any_order, 5), x), op(odd(5, 2), any_order, 5)]
    return found


def _scattered() -> list[Any]:
    x, at = odd(4, 3), fed([[0, 1], [3, 2], [1, 0]], np.int64)
    rows = fed([[2], [0]], np.int64)
    found = []
    for name in ("Update", "Add", "Sub", "Min", "Max"):
        op = getattr(raw, f"TensorScatter{name}")
        found += [op(tensor=x, indices=at, updates=drawn(3))]
        found += [op(tensor=x, indices=rows, updates=drawn(2, 3))]
    twice = fed([[1], [1], [3]], np.int64)
    found.append(raw.TensorScatterAdd(tensor=x, indices=twice, updates=drawn(3, 3)))
    found.append(raw.ScatterNdNonAliasingAdd(input=x, indices=twice, updates=drawn(3, 3)))
    return found


def _stitched() -> list[Any]:
    x, y = odd(2, 2, 3), drawn(3, 3)
    places = [[0, 5], [2, 1]], [1, 6, 1]
    made = tf.dynamic_stitch(places, [drawn(2, 2, 3), y])
    return [*with_gradients(made, y), tf.dynamic_stitch(places, [x, y])]


def _sparse_products() -> list[Any]:
    at = fed([[0, 1], [2, 0], [2, 3], [0, 1]], np.int64)
    found = []
    for adjoint_a, adjoint_b in ((False, False), (True, False), (False, True)):
        values = drawn(4)
        rows = 3 if adjoint_a else 4
        b = drawn(*((2, rows) if adjoint_b else (rows, 2)))
        made = raw.SparseTensorDenseMatMul(
            a_indices=at, a_values=values, a_shape=tf.constant([3, 4], tf.int64), b=b,
            adjoint_a=adjoint_a, adjoint_b=adjoint_b,
        )  # fmt: skip
        found += with_gradients(made, values, b)
    return found


def _diagonals() -> list[Any]:
    x, wide = odd(2, 3, 4), drawn(2, 3, 3)
    found = [
        tf.linalg.diag_part(x),
        tf.linalg.diag(drawn(2, 3)),
        tf.linalg.set_diag(x, drawn(2, 3)),
    ]
    for align in ("LEFT_RIGHT", "RIGHT_LEFT"):
        part = raw.MatrixDiagPartV3(input=x, k=[-1, 2], padding_value=fed(7.0), align=align)
        more = raw.MatrixDiagV3(
            diagonal=wide, k=[-1, 1], num_rows=3, num_cols=4, padding_value=fed(-1.0), align=align
        )
        found += [part, more, raw.MatrixSetDiagV3(input=x, diagonal=part, k=[-1, 2], align=align)]
    found += [raw.MatrixDiagPartV2(input=x, k=-1, padding_value=fed(0.0))]
    found += [
        raw.MatrixDiagV2(diagonal=wide, k=1, num_rows=-1, num_cols=-1, padding_value=fed(0.0))
    ]
    found += [raw.MatrixSetDiagV2(input=x, diagonal=drawn(2, 2), k=-1)]
    found += [tf.diag(drawn(2, 2)), tf.diag_part(drawn(2, 3, 2, 3))]
    return [
        *found,
        raw.BatchMatrixBandPart(input=x, num_lower=1, num_upper=tf.constant(0, tf.int64)),
    ]


def _mirrors() -> list[Any]:
    pads = [[2, 1], [0, 3]]
    return [
        raw.MirrorPadGrad(input=drawn(6, 7), paddings=pads, mode=mode)
        for mode in ("REFLECT", "SYMMETRIC")
    ]


# -- numbers ----------------------------------------------------------------------------------------------------------


def _integers() -> list[Any]:
    x = fed([5, -3, 0, 2**40, -(2**62)], np.int64)
    y, by = fed([3, 7, -1, 2**40 - 1, 6], np.int64), fed([0, 1, 63, 70, -2], np.int64)
    bytes_ = fed([0, 1, 200, 255], np.uint8)
    found = [op(x=x, y=y) for op in (raw.BitwiseAnd, raw.BitwiseOr, raw.BitwiseXor)]
    found += [raw.Invert(x=x), raw.LeftShift(x=x, y=by), raw.RightShift(x=x, y=by)]
    shifts = fed([9, 1, 2, 7], np.uint8)
    return [
        *found,
        raw.Invert(x=bytes_),
        raw.LeftShift(x=bytes_, y=shifts),
        raw.RightShift(x=bytes_, y=shifts),
    ]


def _floats() -> list[Any]:
    x, y = odd(3, 4), drawn(4)
    z = tf.placeholder_with_default((seeded(3, 2) + 1j * seeded(3, 2)).astype(np.complex64), (3, 2))
    found = [op(x=x, y=y) for op in (raw.Xlogy, raw.Xlog1py, raw.Xdivy, raw.TruncateDiv)]
    found += [raw.Angle(input=z), raw.ApproximateEqual(x=y, y=y + 0.001, tolerance=0.01)]
    found += with_gradients(tf.cross(drawn(4, 3), fed(seeded(3, 4).reshape(4, 3))))
    norms = (tf.constant([0, 2]), tf.constant([], tf.int32))
    found += [raw.EuclideanNorm(input=drawn(2, 3, 4), axis=each) for each in norms]
    scores = fed([[1, 3, 3], [np.nan, 0, 1], [4, 2, 0]])
    targets = fed([2, 2, 5], np.int64)
    found += [raw.InTopK(predictions=scores, targets=targets, k=1)]
    found += [raw.InTopKV2(predictions=scores, targets=targets, k=tf.constant(2, tf.int64))]
    return [*found, *raw.TopK(input=x, k=2)]


def _einsums() -> list[Any]:
    found = []
    for equation, *shapes in (
        ("bij,bkj->bik", (2, 3, 4), (2, 2, 4)),
        ("abc->cb", (2, 3, 4)),
        ("...ij,jk->...ik", (2, 2, 3), (3, 4)),
        ("ij,k->kji", (2, 3), (4,)),
    ):
        inputs = [drawn(*shape) for shape in shapes]
        found += with_gradients(tf.einsum(equation, *inputs), *inputs)
    return found


def _fake_quantized() -> list[Any]:
    x, low, high = drawn(3, 4) * 4.0, fed(-1.0), fed(2.5)
    lows, highs = fed([-1, 0, -2.9, 0]), fed([1.3, 2, 3.2, 0])
    found = [tf.fake_quant_with_min_max_args(x, -2.0, 3.0, num_bits=4)]
    for made, ends in (
        (tf.fake_quant_with_min_max_vars(x, low, high, num_bits=5), (low, high)),
        (tf.fake_quant_with_min_max_vars_per_channel(x, lows, highs), (lows, highs)),
    ):
        found += with_gradients(made, x, *ends)
    return [*found, *with_gradients(tf.fake_quant_with_min_max_args(x, narrow_range=True), x)]


# -- counts, searches and parts ---------------------------------------------------------------------------------------


def _counts() -> list[Any]:
    whole, few = fed([3, 0, 3, 7, 1, 3], np.int64), fed([[1, 0], [1, 5], [2, 2]], np.int64)
    size, none = tf.constant(4, tf.int64), fed(np.zeros(0))
    found = [
        raw.Bincount(arr=tf.cast(whole, tf.int32), size=5, weights=fed([0.5, 1, 2, 3, 4, 5])),
        raw.Bincount(arr=tf.cast(whole, tf.int32), size=5, weights=none),
    ]
    for binary in (False, True):
        for numbers, weights in ((whole, none), (few, drawn(3, 2)), (few, none)):
            found.append(
                raw.DenseBincount(input=numbers, size=size, weights=weights, binary_output=binary)
            )
    values = fed([-1.0, 0.0, 1.5, 2.0, 5.0, 15.0, np.nan, np.inf])
    counted = fed([-1.0, 0.0, 1.5, 2.0, 5.0, 15.0, np.inf])
    made = raw.HistogramFixedWidth(values=counted, value_range=fed([0.0, 5.0]), nbins=5)
    return [*found, made, raw.Bucketize(input=values, boundaries=[0.0, 1.5, 10.0])]


def _searches() -> list[Any]:
    rows, wanted = fed([[0, 3, 9, 9, 10], [1, 2, 3, 4, 5]]), fed([[2, 4, 9], [0, 2, 6]])
    found = [op(sorted_inputs=rows, values=wanted) for op in (raw.LowerBound, raw.UpperBound)]
    found += [raw.NthElement(input=drawn(3, 5), n=1, reverse=down) for down in (False, True)]
    found += [raw.InvertPermutation(x=fed([3, 0, 4, 1, 2], np.int64))]
    sizes = tf.constant([3, 2, 4], tf.int64)
    found += [raw.UnravelIndex(indices=fed([0, 23, 7], np.int64), dims=sizes)]
    return [*found, *[raw.LinSpace(start=fed(-1.5), stop=fed(2.25), num=n) for n in (1, 2, 7)]]


def _as_many_as_there_are() -> list[Any]:
    x, which = drawn(4, 2), fed([2, 0, 2, 0], np.int32)
    parts = tf.dynamic_partition(x, which, 3)
    slope = tf.gradients([each * (number + 1.0) for number, each in enumerate(parts)], x)
    flags = fed([[0.0, 1.0, 2.0], [0.0, 0.0, -3.0]])
    repeated = fed([4, 2, 4, 7, 2, 2], np.int64)
    return [
        *parts,
        *slope,
        raw.Where(condition=flags),
        *raw.Unique(x=repeated, out_idx=tf.int64),
        *raw.UniqueWithCounts(x=repeated, out_idx=tf.int64),
    ]


def _parts() -> list[Any]:
    x, rows = odd(4, 3), drawn(2, 3)
    cut: dict[str, Any] = {"begin": [3, 0], "end": [0, 2], "strides": [-2, 1]}
    found = with_gradients(
        raw.TensorStridedSliceUpdate(input=drawn(4, 3), value=(value := drawn(2, 2)), **cut), value
    )
    found += [raw.TensorStridedSliceUpdate(input=x, value=fed(7.0), **cut)]
    found += [raw.TensorStridedSliceUpdate(
        input=x, begin=[1, 0], end=[0, 0], strides=[1, 1], value=drawn(3), shrink_axis_mask=1, end_mask=2
    )]  # fmt: skip
    at = tf.constant([-1, 1])
    found += [op(x=x, i=at, v=rows) for op in (raw.InplaceUpdate, raw.InplaceAdd, raw.InplaceSub)]
    found += [raw.InplaceAdd(x=x, i=tf.constant([2, 2]), v=rows)]
    found += [raw.ParallelConcat(values=[drawn(1, 3), drawn(1, 3) + 1.0], shape=[2, 3])]
    return [*found, raw.Snapshot(input=x)]


# -- sparse tensors ---------------------------------------------------------------------------------------------------


def _sparse() -> list[Any]:
    at, sizes = fed([[0, 1], [0, 3], [2, 0], [2, 2]], np.int64), tf.constant([3, 4], tf.int64)
    values, whole = drawn(4), odd(3, 4)
    loose = {"output_shape": sizes, "default_value": fed(-1.0)}
    turned = fed([[2, 2], [0, 3], [2, 0], [0, 1]], np.int64)
    found = [
        raw.SparseToDense(sparse_indices=at, sparse_values=values, **loose),
        raw.SparseToDense(sparse_indices=turned, sparse_values=fed(3.0), validate_indices=False, **loose),
        raw.SparseToDense(
            sparse_indices=fed([4, 1], np.int64), sparse_values=drawn(2), output_shape=tf.constant([6], tf.int64),
            default_value=fed(0.5), validate_indices=False,
        ),
        raw.SparseTensorDenseAdd(a_indices=turned, a_values=values, a_shape=sizes, b=whole),
        *raw.SparseReorder(input_indices=turned, input_values=values, input_shape=sizes),
        raw.SparseMatMul(a=drawn(3, 2), b=drawn(3, 4), transpose_a=True),
        *raw.SparseFillEmptyRowsGrad(reverse_index_map=fed([3, 0], np.int64), grad_values=drawn(5)),
    ]  # fmt: skip
    for op in (raw.SparseDenseCwiseAdd, raw.SparseDenseCwiseMul, raw.SparseDenseCwiseDiv):
        for dense in (drawn(3, 4), drawn(1, 4), drawn(3, 1), drawn(4), fed(2.0)):
            found.append(op(sp_indices=at, sp_values=values, sp_shape=sizes, dense=dense))
    found += with_gradients(
        raw.SparseSoftmax(sp_indices=at, sp_values=values, sp_shape=sizes), values
    )
    for op in (raw.SparseReduceSum, raw.SparseReduceMax):
        for axes, keep in (([1], False), ([-2], True), ([0, 1], False), ([], False)):
            found.append(op(
                input_indices=at, input_values=values, input_shape=sizes,
                reduction_axes=tf.constant(axes, tf.int32), keep_dims=keep,
            ))  # fmt: skip
    return found


def _joined_rows() -> list[Any]:
    table, rows = drawn(5, 2, 3), fed([4, 0, 0, 2], np.int64)
    ids = tf.constant([0, 0, 2, 2])
    found = []
    for op in (tf.sparse_segment_sum, tf.sparse_segment_mean, tf.sparse_segment_sqrt_n):
        made = tf.ensure_shape(op(table, rows, ids), [3, 2, 3])
        found += with_gradients(made, table)
        found += [op(table, rows, fed([0, 0, 2, 2], np.int64), num_segments=tf.constant(5))]
    return found


# -- more numbers -----------------------------------------------------------------------------------------------------


def _there_and_back() -> list[Any]:
    x, low, high = drawn(3, 4) * 2.0, fed(-1.5), fed(2.0)
    lows, highs = fed([-1, -2, 0.5, -0.25]), fed([2, 1, 3, 0.125])
    v2, v3 = get("QuantizeAndDequantizeV2"), get("QuantizeAndDequantizeV3")
    return [
        v2(input=x, input_min=low, input_max=high, range_given=True),
        v2(input=x, input_min=low, input_max=high, num_bits=4, round_mode="HALF_UP"),
        v2(input=x, input_min=lows, input_max=highs, range_given=True, axis=1, narrow_range=True),
        v2(input=tf.abs(x), input_min=low, input_max=high, signed_input=False, num_bits=5),
        v3(input=x, input_min=low, input_max=high, num_bits=tf.constant(6)),
        v3(input=x, input_min=low, input_max=high, num_bits=tf.constant(3), range_given=False),
    ]


def _tridiagonal() -> list[Any]:
    given = [drawn(2, 1, 4), drawn(2, 1, 4) + 1.0, drawn(2, 1, 4) * 0.5, drawn(2, 4, 3)]
    made = raw.TridiagonalMatMul(
        superdiag=given[0], maindiag=given[1], subdiag=given[2], rhs=given[3]
    )
    parts = [drawn(3), fed([0.5, 1.0, 2.0]), drawn(3) + 1.0, drawn(3) * 2.0]
    t = drawn(2, 3, 2, 3)
    normed = [
        raw.BatchNormWithGlobalNormalization(
            t=t, m=parts[0], v=parts[1], beta=parts[2], gamma=parts[3],
            variance_epsilon=0.01, scale_after_normalization=scales,
        )
        for scales in (False, True)
    ]  # fmt: skip
    return [*with_gradients(made, *given), *normed, *tf.gradients(normed[1], [t, *parts])]


def _categories() -> list[Any]:
    """The numbers themselves are compared in test_portable_draws.py, step by step."""
    logits = drawn(3, 5)
    seed = tf.constant([3, 9], tf.int64)
    return [
        raw.Multinomial(logits=logits, num_samples=7, seed=4, seed2=5),
        raw.StatelessMultinomial(logits=logits, num_samples=6, seed=seed),
        raw.RandomShuffle(value=drawn(6, 2), seed=3, seed2=8),
    ]


def _slices() -> list[Any]:
    """That begin or end outside."""
    x = odd(4, 5)
    return [x[-9:3, 2:99], x[9:, :], x[99:0:-2, -1:-99:-3], x[-1:0:-1, None, ..., 2], x[3:1, :-7]]


PROGRAMS: dict[str, Program] = {
    "images in another size": _resized(raw.ResizeBilinear, 7, 3),
    "images in another size by cubes": _resized(raw.ResizeBicubic, 2, 9, half_pixel_centers=True),
    "images in another size by the nearest": _resized(raw.ResizeNearestNeighbor, 7, 3, align_corners=True),
    "crops": _crops("bilinear", 3, 4),
    "colours": _colors,
    "patches": _patches(ksizes=[1, 2, 3, 1], strides=[1, 2, 1, 1], rates=[1, 1, 1, 1], padding="SAME"),
    "dilation": _dilation("SAME"),
    "where the largest is": _places_of_largest(False),
    "a step of an lstm": _lstm(None, True),
    "an lstm": _lstm(4, True, 0.0),
    "a step of a gru": _gru,
    "sequences turned round": _reversed,
    "segments": _segments,
    "tensors with others at places": _scattered,
    "rows that are stitched": _stitched,
    "sparse products": _sparse_products,
    "diagonals": _diagonals,
    "mirrored edges": _mirrors,
    "integers": _integers,
    "floats": _floats,
    "labelled axes": _einsums,
    "fake quantization": _fake_quantized,
    "slices": _slices,
    "counts": _counts,
    "searches": _searches,
    "as many as there are": _as_many_as_there_are,
    "parts that change": _parts,
    "sparse tensors": _sparse,
    "rows that are joined": _joined_rows,
    "quantization there and back": _there_and_back,
    "three diagonals": _tridiagonal,
    "categories": _categories,
}  # fmt: skip
MORE: dict[str, Program] = {
    "images of bytes in another size": _of_bytes,
    "images in another size by areas": _resized(raw.ResizeArea, 3, 5),
    "patches of volumes": _volume_patches,
    "windows that inputs say": _windows_by_inputs,
    "an lstm of other gates": _lstm_of_other_gates,
    "images in another size, by corners": _resized(raw.ResizeBilinear, 2, 9, align_corners=True),
    "images in another size, by centers": _resized(raw.ResizeBilinear, 4, 5, half_pixel_centers=True),
    "images in another size by cubes with edges": _resized(raw.ResizeBicubic, 7, 3),
    "images in another size by the nearest center": _resized(
        raw.ResizeNearestNeighbor, 4, 9, half_pixel_centers=True
    ),
    "crops of a pixel": _crops("bilinear", 1, 2),
    "crops of the nearest": _crops("nearest", 4, 2),
    "dilated patches": _patches(ksizes=[1, 2, 2, 1], strides=[1, 1, 1, 1], rates=[1, 2, 3, 1], padding="VALID"),
    "dilation without padding": _dilation("VALID"),
    "where the largest of the batch is": _places_of_largest(True),
    "a step of an lstm without peepholes": _lstm(None, False, 0.5),
    "an lstm without peepholes": _lstm(3, False),
}  # fmt: skip
"""More of the same kernels: with other attrs, dtypes or ranks."""
