"""Values and run-time errors of the array and string ops, beside TensorFlow's.

Each expression runs under both; F makes a placeholder of unknown shape and feeds it, so that the checks are the
step's.  Compared are types, shapes and values, or the class of the error.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import headrace as hr
from headrace.base import dtypes
from headrace.graph.registry import OPS

EXPRESSIONS = r"""
tf.fill(I([2, 3]), F(1.5))
tf.fill(I([2, -3]), F(1.5))
tf.fill(I([2]), F([1.5]))
tf.fill(I([2]), S("a"))
tf.zeros_like(F([[1, 2]], "complex64"))
tf.zeros_like(S(["a", "b"]))
tf.ones_like(F([1, 0], "bool"))
tf.check_numerics(F([1.0, np.inf]), "m")
tf.check_numerics(F([1.0, np.nan]), "m")
tf.check_numerics(F([1.0, 2.0], "float16"), "m")
tf.placeholder(tf.float32, [2], name="unfed")
tf.shape(F(np.zeros((2, 0, 3))))
tf.shape(F(np.zeros((2, 3))), out_type=tf.int64)
tf.size(F(np.zeros((2, 3))))
tf.rank(F(np.zeros((2, 3))))
raw("ShapeN", [F([1]), F([[1]])])
tf.reshape(F([[1, 2], [3, 4]]), I([4]))
tf.reshape(F([[1, 2], [3, 4]]), I([-1, 1]))
tf.reshape(F([[1, 2], [3, 4]]), I([3]))
tf.reshape(F([[1, 2], [3, 4]]), I([-1, -1]))
tf.reshape(F([[1, 2], [3, 4]]), I([3, -1]))
tf.reshape(F([[1, 2], [3, 4]]), I([-2, 2]))
tf.reshape(F(np.zeros((0, 3))), I([0, -1]))
tf.reshape(F(np.zeros((0, 3))), I([-1, 0]))
tf.reshape(F(np.zeros((2, 0, 3))), I([0, -1, 5]))
tf.reshape(F(np.zeros((2, 0, 3))), I([-1, 6]))
tf.reshape(F([1.0]), I([]))
tf.reshape(F([1.0, 2.0]), I([0, -1]))
tf.reshape(S(["a", "b"]), I([2, 1]))
tf.expand_dims(F([1, 2]), I(-1))
tf.expand_dims(F([1, 2]), I(3))
tf.squeeze(F([[[1], [2]]]))
tf.squeeze(F([[[1], [2]]]), [0])
tf.squeeze(F([[[1], [2]]]), [1])
tf.transpose(F([[1, 2, 3], [4, 5, 6]]))
tf.transpose(F(np.arange(24).reshape(2, 3, 4)), I([2, 0, 1]))
tf.transpose(F([[1, 2]]), I([0, 0]))
tf.transpose(F([[1, 2]]), I([1, 0, 2]))
tf.transpose(S([["a", "b"]]))
tf.transpose(F([[1 + 2j, 3]], "complex64"), conjugate=True)
tf.invert_permutation(I([2, 0, 1]))
tf.invert_permutation(I([2, 0, 2]))
tf.invert_permutation(I([3, 0, 1]))
tf.ensure_shape(F([[1, 2]]), [1, None])
tf.ensure_shape(F([[1, 2]]), [2, None])
tf.broadcast_to(F([[1], [2]]), I([3, 2, 2]))
tf.broadcast_to(F([[1], [2]]), I([3, 3]))
tf.broadcast_to(F(7), I([2]))
tf.broadcast_dynamic_shape(I([2, 1]), I([3]))
tf.broadcast_dynamic_shape(I([2, 2]), I([3]))
tf.sequence_mask(I([1, 3, 0]))
tf.sequence_mask(I([[1], [2]]), I(3), tf.float32)
tf.tile(F([[1, 2]]), I([2, 3]))
tf.tile(F([[1, 2]]), I([2, -3]))
tf.tile(F([[1, 2]]), I([2]))
tf.tile(S(["a"]), I([2]))
tf.tile(F([[1, 2]]), I([0, 2]))
tf.pad(F([[1, 2]]), I([[1, 0], [0, 2]]))
tf.pad(F([[1, 2]]), I([[1, -1], [0, 2]]))
tf.pad(F([[1, 2]]), I([[1, 0]]))
tf.pad(S(["a"]), I([[1, 1]]))
tf.pad(F([[1, 2]]), I([[1, 0], [0, 2]]), constant_values=7)
tf.pad(F([1, 2, 3]), I([[2, 1]]), "REFLECT")
tf.pad(F([1, 2, 3]), I([[3, 2]]), "SYMMETRIC")
tf.pad(F([1, 2, 3]), I([[3, 0]]), "REFLECT")
tf.pad(F([1, 2, 3]), I([[0, 4]]), "SYMMETRIC")
raw("MirrorPadGrad", F([1, 2, 3, 4]), I([[1, 1]]), mode="REFLECT")
raw("MirrorPadGrad", F([1, 2, 3, 4]), I([[1, 1]]), mode="SYMMETRIC")
tf.reverse(F([[1, 2], [3, 4]]), I([1]))
tf.reverse(F([[1, 2], [3, 4]]), I([-1, 0]))
tf.reverse(F([[1, 2], [3, 4]]), I([1, -1]))
tf.reverse(F([[1, 2], [3, 4]]), I([2]))
raw("Reverse", F([[1, 2], [3, 4]]), F([True, False], "bool"))
tf.reverse_sequence(F([[1, 2, 3], [4, 5, 6]]), I([2, 3]), seq_axis=1, batch_axis=0)
tf.reverse_sequence(F([[1, 2, 3], [4, 5, 6]]), I([2, 4]), seq_axis=1, batch_axis=0)
F([1, 2, 3])[5]
F([1, 2, 3])[-4]
F([1, 2, 3])[1, 2]
F([1, 2, 3])[5:]
F([1, 2, 3])[::I(0)]
F([1, 2, 3])[I(1) :]
F(np.arange(24).reshape(2, 3, 4))[..., ::-2]
F(np.arange(24).reshape(2, 3, 4))[:, None, 1:, -1]
F(np.arange(24).reshape(2, 3, 4))[-1, -5:10, 3:0:-1]
S(["a", "b"])[1]
F([1, 2, 3])[F([True, False, True], "bool")]
raw("StridedSlice", F([1, 2, 3]), I([1]), I([0]), I([-1]), shrink_axis_mask=1)
raw("StridedSliceGrad", I([3]), I([0]), I([2]), I([1]), F([5, 6]))
raw("StridedSliceGrad", I([3]), I([0]), I([2]), I([1]), F([5, 6, 7]))
tf.slice(F([1, 2, 3]), I([1]), I([3]))
tf.slice(F([1, 2, 3]), I([4]), I([-1]))
tf.slice(F([1, 2, 3]), I([-1]), I([1]))
tf.slice(F([1, 2, 3]), I([1, 2]), I([1, 1]))
tf.slice(F([1, 2, 3]), I([1]), I([-1]))
tf.slice(F([[1, 2, 3]]), I([0, 1]), I([1, 2]))
tf.concat([F([[1, 2]]), F([[3, 4]])], I(0))
tf.concat([F([[1, 2]]), F([[3, 4]])], I(-1))
tf.concat([F(1), F(2)], I(0))
tf.concat([F([1]), F([2])], I(1))
tf.concat([F([[1, 2]]), F([3])], I(0))
tf.concat([F([[1, 2]]), F([[3, 4, 5]])], I(0))
tf.concat([S(["a"]), S(["b", "c"])], 0)
tf.stack([F([1, 2]), F([3, 4])], 1)
tf.stack([F(1), F([1])])
tf.stack([F(1), F(1)], 3)
tf.unstack(F([[1, 2], [3, 4]]), num=2, axis=1)
tf.unstack(F([1, 2, 3]), num=2)
tf.unstack(F(3), num=1)
tf.unstack(S(["a", "b"]), num=2)
tf.split(F([1, 2, 3, 4]), 2)
tf.split(F([1, 2, 3]), 2)
tf.split(F([1, 2, 3]), 2, 5)
tf.split(F([1, 2, 3]), [1, 1])
tf.split(F([1, 2, 3]), [1, -1, -1])
tf.split(F([1, 2, 3]), [5, -1])
tf.split(F([1, 2, 3]), I([1, 2]), num=2)
tf.split(F([1, 2, 3]), I([1, 2]), num=3)
tf.split(F([[1, 2, 3]]), [2, -1], 1)
raw("ConcatOffset", I(0), [I([1, 2]), I([3, 2])])
raw("ConcatOffset", I(0), [I([1, 2]), I([3, 3])])
raw("ConcatOffset", I(-1), [I([1, 2]), I([1, 3])])
raw("ConcatOffset", I(5), [I([1, 2]), I([3, 2])])
tf.meshgrid(F([1, 2]), F([3, 4, 5]))
tf.gather(F([1, 2, 3]), I([5]))
tf.gather(F([1, 2, 3]), I([[0], [-1]]))
tf.gather(F([[1, 2], [3, 4]]), I([[1, 0]]), axis=1)
tf.gather(F([[1, 2], [3, 4]]), I([[1], [0]]), batch_dims=1)
tf.gather(F([[1, 2]]), I([[0], [1]]), batch_dims=1, axis=1)
tf.gather(F(np.arange(24).reshape(2, 3, 4)), I([[1], [0]]), batch_dims=1, axis=2)
tf.gather(F([[1, 2]]), I([0]), axis=5)
tf.gather(F(1), I([0]))
tf.gather(S(["a", "b"]), I(1))
tf.gather_nd(F([1, 2, 3]), I([[5]]))
tf.gather_nd(F([[1, 2, 3]]), I([[[0, 5]]]))
tf.gather_nd(F([[1, 2], [3, 4]]), I([[0, 1], [1, 0]]))
tf.gather_nd(F([[1, 2], [3, 4]]), I([[1]]))
tf.gather_nd(F([[1, 2], [3, 4]]), I(np.zeros((2, 0))))
tf.gather_nd(F([[1, 2], [3, 4]]), I([[1], [0]]), batch_dims=1)
raw("GatherNd", F([1, 2, 3]), I([[5], [1]]), bad_indices_policy="IGNORE")
tf.scatter_nd(I([[1], [7]]), F([1, 2]), I([5]))
tf.scatter_nd(I([[1], [1]]), F([1, 2]), I([5]))
tf.scatter_nd(I([[0]]), F([[1, 2]]), I([2]))
tf.scatter_nd(I([[0, 1]]), S(["a"]), I([2, 2]))
tf.scatter_nd(I(np.zeros((0, 1))), F(np.zeros(0)), I([2]))
tf.one_hot(I([0, 5, -1]), 3)
tf.one_hot(I([[0], [1]]), 2, axis=1)
tf.one_hot(I([0]), I(-3))
tf.one_hot(I([0, 1]), 2, axis=3)
tf.one_hot(I([0, 1]), 2, "a", "b")
tf.where(F([[1, 0], [0, 2]]))
tf.where(F(True, "bool"))
tf.boolean_mask(F([[1, 2], [3, 4]]), [True, False])
tf.unique(I([3, 1, 3]))
tf.unique(I([[1]]))
tf.unique(S(["b", "a", "b"]))
tf.unique(F([np.nan, np.nan]))
tf.unique_with_counts(F([2, 1, 2], "float16"))
raw("UniqueV2", I([[1, 2], [1, 2], [3, 4]]), I([0]))
raw("UniqueWithCountsV2", I([[1, 2], [1, 2], [3, 4]]), I([1]))
tf.setdiff1d(I([1, 2, 3, 2, 5]), I([2]))
tf.dynamic_partition(F([1, 2, 3]), I([0, 1, 0]), 2)
tf.dynamic_partition(F([1, 2, 3]), I([0, 1, 2]), 2)
tf.dynamic_partition(F([[1, 2], [3, 4]]), I([0]), 2)
tf.dynamic_stitch([I([0, 2]), I(1)], [F([[1], [2]]), F([7])])
tf.dynamic_stitch([I([0]), I([0])], [F([1]), F([2])])
tf.dynamic_stitch([I([-1])], [F([1])])
tf.dynamic_stitch([I([0, 1])], [F([[1]])])
tf.nn.top_k(F([1, 3, 3, 2]), 2)
tf.nn.top_k(F([1, 2]), I(3))
tf.nn.top_k(F([1, 2]), I(-1))
tf.nn.top_k(F(3), 1)
tf.nn.top_k(F([[1, 5, 5], [9, 2, 3]], "uint8"), 2)
tf.segment_sum(F([1, 2, 3]), I([0, 0, 3]))
tf.segment_sum(F([1, 2, 3]), I([0, 1, 0]))
tf.segment_sum(F([1, 2, 3]), I([0, 1]))
tf.segment_sum(F([1, 2]), I([[0], [1]]))
tf.segment_sum(F(np.zeros((0, 2))), I(np.zeros(0)))
tf.segment_mean(F([1, 2, 3]), I([0, 0, 3]))
tf.segment_max(F([1, 2, 3]), I([0, 0, 3]))
tf.segment_min(I([1, 2, 3]), I([0, 0, 3]))
tf.segment_prod(F([1, 2, 3]), I([0, 0, 3]))
tf.unsorted_segment_sum(F([1, 2, 3]), I([0, 1, 5]), I(3))
tf.unsorted_segment_sum(F([1, 2, 3]), I([0, -1, 1]), I(3))
tf.unsorted_segment_sum(F([[1, 2]]), I([[0, 1]]), I(2))
tf.unsorted_segment_sum(F([1, 2, 3]), I([0, -1, 1]), I(-3))
tf.unsorted_segment_sum(F([1, 2, 3]), I([0, -1]), I(3))
tf.unsorted_segment_max(F([1, 2, 3]), I([0, -1, 1]), I(3))
tf.unsorted_segment_min(I([1, 2, 3]), I([0, -1, 1]), I(3))
tf.unsorted_segment_prod(I([1, 2, 3]), I([0, -1, 1]), I(3))
tf.unsorted_segment_mean(F([1, 2, 4]), I([0, 0, 2]), 3)
tf.unsorted_segment_sqrt_n(F([1, 2, 4]), I([0, 0, 2]), 3)
tf.unsorted_segment_sum(F([1, 2, 3], "float16"), I([0, 1, 1]), 2)
tf.sparse_segment_sum(F([[1, 2], [3, 4]]), I([0, 5]), I([0, 0]))
tf.sparse_segment_mean(F([[1, 2], [3, 4]]), I([0, 1]), I([0, 0]))
tf.sparse_segment_sqrt_n(F([[1, 2], [3, 4]]), I([0, 1]), I([0, 0]))
tf.sparse_segment_sum(F([[1, 2], [3, 4]]), I([0, 1]), I([1, 0]))
tf.sparse_segment_sum(F([[1, 2], [3, 4]]), I([0, 1]), I([1, 3]))
tf.sparse_segment_sum(F([[1, 2], [3, 4]]), I([0, 1]), I([1, 3]), num_segments=2)
tf.sparse_segment_sum(F([[1, 2], [3, 4]]), I([0, 1]), I([1, 2]), num_segments=4)
raw("SparseSegmentSumGrad", F([[1, 2], [3, 4]]), I([0, 2, 0]), I([0, 1, 1]), I(3))
raw("SparseSegmentMeanGrad", F([[1, 2], [3, 4]]), I([0, 2, 0]), I([0, 1, 1]), I(3))
raw("SparseSegmentSqrtNGrad", F([[1, 2], [3, 4]]), I([0, 2, 0]), I([0, 1, 1]), I(3))
tf.diag(F([[1, 2], [3, 4]]))
tf.diag_part(F([[1, 2], [3, 4]]))
tf.diag_part(F([[1, 2, 3], [3, 4, 5]]))
tf.matrix_band_part(F([[1, 2, 3], [4, 5, 6], [7, 8, 9]]), 1, 0)
tf.matrix_band_part(F([[1, 2], [3, 4]]), F(5, "int64"), F(0, "int64"))
tf.matrix_diag(F([[1, 2], [3, 4]]))
tf.matrix_diag(F([1, 2]), k=1)
tf.matrix_diag(F([[1, 2, 3], [4, 5, 0]]), k=(0, 1), align="LEFT_RIGHT")
tf.matrix_diag(F([[0, 8, 9], [1, 2, 3], [4, 5, 0]]), k=(-1, 1))
tf.matrix_diag(F([1, 2]), k=-1, num_rows=3, num_cols=4, padding_value=9)
tf.matrix_diag(F([1, 2]), num_rows=1)
tf.matrix_diag(F([1, 2]), num_rows=5, num_cols=6)
tf.matrix_diag_part(F(np.arange(12).reshape(3, 4)))
tf.matrix_diag_part(F(np.arange(12).reshape(3, 4)), k=(-1, 2))
tf.matrix_diag_part(F(np.arange(12).reshape(3, 4)), k=(-2, 3), padding_value=9, align="LEFT_RIGHT")
tf.matrix_diag_part(F(np.arange(12).reshape(3, 4)), k=(-2, 1), align="LEFT_LEFT")
tf.matrix_diag_part(F(np.arange(12).reshape(3, 4)), k=(-2, 1), align="RIGHT_RIGHT")
tf.matrix_diag_part(F(np.arange(12).reshape(3, 4)), k=I([1, 0]))
tf.matrix_diag_part(F(np.arange(12).reshape(3, 4)), k=I(4))
tf.matrix_set_diag(F(np.zeros((2, 3, 3))), F([[1, 2, 3], [4, 5, 6]]))
tf.matrix_set_diag(F(np.zeros((3, 4))), F([[0, 1, 2], [3, 4, 5]]), k=(-1, 0))
tf.matrix_set_diag(F(np.zeros((3, 4))), F([1, 2]))
raw("MatrixDiag", F([1, 2]))
raw("MatrixDiagPart", F(np.arange(12).reshape(3, 4)))
raw("MatrixSetDiag", F(np.zeros((2, 3))), F([7, 8]))
raw("MatrixDiagPartV2", F(np.arange(12).reshape(3, 4)), I([-1, 2]), F(0))
tf.string_join([S(["a", "b"]), S("c")], "-")
tf.string_join([S(["a", "b"]), S(["c"])])
tf.as_string(F([1.0, 0.1, 1 / 3, 1e10, -2.5, np.nan, np.inf]))
tf.as_string(F([0.1, 1 / 3, 1e20], "float64"))
tf.as_string(F([1.5], "float16"))
tf.as_string(F([1, 2**30], "int64"))
tf.as_string(F([True, False], "bool"))
tf.as_string(F([1 + 2j], "complex64"), precision=1)
tf.as_string(F([1.5]), precision=2)
tf.as_string(F([1.5]), scientific=True)
tf.as_string(F([1.5, 1 / 3]), shortest=True)
tf.as_string(F([1.5]), width=12, fill="0")
tf.as_string(F([1.5]), width=12, fill="-")
tf.as_string(I([3, -3]), width=5)
tf.as_string(I([3]), precision=1)
tf.as_string(I([3]), fill="x")
tf.as_string(F([1.0]), scientific=True, shortest=True)
tf.as_string(S(["a"]))
tf.string_to_number(S(["1", " 2.5 ", "-3e2", "inf", "nan", "0x10", ".5", "5.", "1e40"]))
tf.string_to_number(S(["1", " 2 ", "-3", "+4"]), tf.int32)
tf.string_to_number(S(["1_0"]))
tf.string_to_number(S([""]))
tf.string_to_number(S(["1.5"]), tf.int32)
tf.string_to_number(S(["99999999999"]), tf.int32)
tf.string_to_number(S(["99999999999"]), tf.int64)
tf.string_to_number(S(["0x1"]), tf.int32)
tf.decode_raw(S(["ab", "cd"]), tf.uint8)
tf.decode_raw(S(["abcd"]), tf.int16, little_endian=False)
tf.decode_raw(S(["abcdefgh"]), tf.complex64, little_endian=False)
tf.decode_raw(S(["abc"]), tf.int16)
tf.decode_raw(S(["abcd", "ab"]), tf.int16)
tf.decode_raw(S([""]), tf.int32)
tf.decode_raw(S(["\x01\x00"]), tf.bool)
raw("DecodePaddedRaw", S(["ab", "c"]), I(4), out_type=tf.uint8)
raw("DecodePaddedRaw", S(["abcdef", "c"]), I(4), out_type=tf.int16)
raw("DecodePaddedRaw", S(["ab"]), I(3), out_type=tf.int16)
tf.substr(S(["hello", "hi"]), I(1), I(3))
tf.substr(S("hello"), I(-3), I(2))
tf.substr(S("hello"), I(5), I(1))
tf.substr(S("hello"), I(6), I(1))
tf.substr(S("hello"), I(1), I(-1))
tf.substr(S("hello"), I([1, 2]), I(1))
tf.substr(S([["hello"], ["world"]]), I([1, 2]), I([1, 2]))
tf.strings.substr(S("h\u00e9llo"), I(1), I(1), unit="UTF8_CHAR")
tf.strings.length(S(["h\u00e9llo", ""]), unit="UTF8_CHAR")
tf.strings.length(S(["h\u00e9llo", ""]))
tf.strings.lower(S(["ABc\u00c9"]))
tf.strings.lower(S(["ABc\u00c9"]), encoding="utf-8")
tf.strings.upper(S(["abc\u00e9"]), encoding="utf-8")
tf.string_strip(S([" a\t\n", " b c "]))
tf.regex_replace(S("aXbXc"), "X", r"\0-")
tf.regex_replace(S("aXbXc"), "(X)b", r"[\1]", replace_global=False)
tf.regex_replace(S("aXb"), "[", "-")
tf.regex_replace(S("aXb"), "(?i)x", r"\\")
tf.regex_replace(S("abc"), "", "-")
tf.regex_replace(S("aab"), "a*", "x")
tf.regex_replace(S("aa bb"), r"\bb", "x")
tf.regex_replace(S("h\u00e9\u00e9"), "\u00e9", "e")
tf.regex_replace(S("a"), "a", r"\1")
tf.regex_replace(S("a\nb"), ".", "x")
tf.regex_replace(S("a\n"), "a$", "x")
tf.regex_replace(S("a.b-c"), "[[:punct:]]", "_")
tf.regex_replace(S("a"), "(?=a)", "x")
tf.regex_replace(S("a.a"), r"\Qa.\E", "x")
tf.regex_replace(S("[a]&b"), r"[][&~|]", "x")
tf.strings.regex_full_match(S(["abc", "ab", "abcd"]), "a.c")
raw("RegexReplace", S("abc"), S("b"), S("x"))
raw("RegexFullMatch", S("abc"), S("a.*"))
tf.encode_base64(S(["hello", "h?>"]))
tf.encode_base64(S(["hello"]), pad=True)
tf.decode_base64(S(["aGVsbG8", "aD8-", "", "aGVsbG8="]))
tf.decode_base64(S(["a+b"]))
tf.decode_base64(S(["a"]))
tf.reduce_join(S([["a", "b"], ["c", "d"]]))
tf.reduce_join(S([["a", "b"], ["c", "d"]]), 0)
tf.reduce_join(S([["a", "b"], ["c", "d"]]), [0, 1])
tf.reduce_join(S([["a", "b"], ["c", "d"]]), [1, 0], separator="+")
tf.reduce_join(S([["a", "b"], ["c", "d"]]), -1, keep_dims=True, separator="+")
tf.reduce_join(S([["a", "b"], ["c", "d"]]), I([0, 0]))
tf.reduce_join(S("a"), I(0))
tf.string_split(S(["a b", "c", " d  e ", ""]))
tf.string_split(S(["a,b;c", ",,"]), ",;")
tf.string_split(S(["a,b;c", ",,"]), ",", skip_empty=False)
tf.string_split(S(["abc"]), "")
tf.string_split(S([["abc"]]), "")
raw("StringSplitV2", S(["a b  c ", "", " x"]), S(""))
raw("StringSplitV2", S(["a b--c", "--x--y--"]), S("--"))
raw("StringSplitV2", S(["a b  c d ", "a", " --x--y--"]), S(""), maxsplit=1)
raw("StringSplitV2", S(["a-b-c-d"]), S("-"), maxsplit=2)
tf.strings.format("a {} b {}", [F(np.arange(8)), S("x")])
tf.strings.format("{}", F([[1, 2], [3, 4]], "int32"))
tf.strings.format("{}", S(["a\"b", "c"]))
tf.strings.format("{}", F(True, "bool"))
tf.strings.format("{}", F(np.arange(30).reshape(5, 6)), summarize=2)
tf.strings.format("{}", F([0.1, 1 / 3, 1e10]))
tf.strings.format("{}", F([1 / 3], "float64"))
tf.strings.format("{}", F(np.arange(12).reshape(2, 2, 3), "int32"), summarize=-1)
tf.strings.format("{}", F(np.zeros((0, 2))))
""".strip().splitlines()

COMMON = """
def make(tf, feeds, arrays):
    def feed(values, kind="float32"):
        made = tf.placeholder(kind, None)
        feeds[made] = arrays(values, kind)
        return made
    return {"F": feed, "I": lambda v: feed(v, "int32"), "S": lambda v: feed(v, "string")}
"""

PEER = (
    COMMON
    + """
import numpy as np
from tensorflow.python.framework import op_def_registry

def raw(op, *inputs, **attrs):
    names = [arg.name for arg in op_def_registry.get(op).input_arg]
    return getattr(tf.raw_ops, op)(**dict(zip(names, inputs)), **attrs)

def arrays(values, kind):
    return np.array(values, object if kind == "string" else tf.as_dtype(kind).as_numpy_dtype)

def run(source):
    tf.reset_default_graph()
    feeds = {}
    names = {"tf": tf, "np": np, "raw": raw, **make(tf, feeds, arrays)}
    try:
        value = eval(source, names)
        with tf.Session() as session:
            found = session.run(value, feeds)
    except RuntimeError as error:  # while it looked for the source of an expression to quote
        while error is not None and not isinstance(error, tf.errors.OpError):
            error = error.__context__
        return "error", type(error).__name__
    except Exception as error:
        return "error", type(error).__name__
    parts = list(found) if isinstance(found, (list, tuple)) else [found]
    return "value", [part if isinstance(part, bytes) else np.asarray(part) for part in parts]

result = [run(source) for source in sources]
"""
)

_theirs: dict[str, Any] = {}


@pytest.fixture
def theirs(oracle: Any) -> dict[str, Any]:
    if not _theirs:
        found = oracle.run(PEER, sources=EXPRESSIONS)
        _theirs.update(zip(EXPRESSIONS, found, strict=True))
    return _theirs


def raw(op: str, *inputs: Any, **attrs: Any) -> Any:
    return OPS[op](*inputs, **attrs)


def arrays(values: Any, kind: str) -> Any:
    return np.array(values, dtypes.as_dtype(kind).np)


def ours(source: str) -> tuple[str, Any]:
    scope: dict[str, Any] = {}
    exec(COMMON, scope)
    feeds: dict[Any, Any] = {}
    with hr.Graph().as_default():
        names = {"tf": hr, "np": np, "raw": raw, **scope["make"](hr, feeds, arrays)}
        try:
            value = eval(source, names)
            with hr.Session() as session:
                found = session.run(value, feeds)
        except Exception as error:
            return "error", type(error).__name__
    parts = list(found) if isinstance(found, (list, tuple)) else [found]
    return "value", [part if isinstance(part, bytes) else np.asarray(part) for part in parts]


@pytest.mark.parametrize("source", EXPRESSIONS)
def test_an_expression_gives_tensorflows_value(source: str, theirs: dict[str, Any]) -> None:
    want, got = theirs[source], ours(source)
    assert got[0] == want[0], (got, want)
    if want[0] == "error":
        assert got[1] == want[1]
        return
    assert len(got[1]) == len(want[1])
    for mine, other in zip(got[1], want[1], strict=True):
        assert type(mine) is type(other)
        if isinstance(other, bytes):
            assert mine == other
            continue
        assert (mine.dtype, mine.shape) == (other.dtype, other.shape)
        if mine.dtype.kind in "fc":
            np.testing.assert_allclose(mine, other, rtol=1e-6)
        else:
            assert mine.tolist() == other.tolist()
