"""`import headrace as tf`: the TensorFlow 1.x API.  Names only; each is documented where it is defined."""

from __future__ import annotations

from typing import TYPE_CHECKING

from headrace.base.device_spec import DeviceSpec
from headrace.base.errors import OpError
from headrace.base.lazy import names_of as _names_of
from headrace.base.shapes import Dimension, TensorShape, dimension_at_index, dimension_value
from headrace.base.version import (
    COMPILER_VERSION,
    CXX11_ABI_FLAG,
    GIT_VERSION,
    MONOLITHIC_BUILD,
    VERSION,
    __compiler_version__,
    __git_version__,
    __version__,
)
from headrace.codec.tensors import make_ndarray, make_tensor_proto
from headrace.dtypes import *  # noqa: F403
from headrace.dtypes import __all__ as _dtypes
from headrace.graph.behavior import (
    control_flow_v2_enabled,
    disable_control_flow_v2,
    disable_eager_execution,
    disable_resource_variables,
    disable_tensor_equality,
    disable_v2_behavior,
    disable_v2_tensorshape,
    enable_eager_execution,
    enable_resource_variables,
    enable_v2_behavior,
    executing_eagerly,
    executing_eagerly_outside_functions,
    is_tensor,
    resource_variables_enabled,
)
from headrace.graph.collections import GraphKeys
from headrace.graph.const_value import constant_value as get_static_value
from headrace.graph.convert import convert_to_tensor, register_tensor_conversion_function
from headrace.graph.custom_gradient import custom_gradient
from headrace.graph.gradients import (
    AggregationMethod,
    NoGradient,
    NotDifferentiable,
    RegisterGradient,
    UnconnectedGradients,
    gradients,
)
from headrace.graph.gradients import NoGradient as no_gradient
from headrace.graph.graph import (
    GRAPH_DEF_VERSION,
    GRAPH_DEF_VERSION_MIN_CONSUMER,
    GRAPH_DEF_VERSION_MIN_PRODUCER,
    Graph,
)
from headrace.graph.graphdef import import_graph_def
from headrace.graph.indexed_slices import IndexedSlices, convert_to_tensor_or_indexed_slices
from headrace.graph.names import (
    add_to_collection,
    add_to_collections,
    colocate_with,
    container,
    control_dependencies,
    device,
    get_collection,
    get_collection_ref,
    get_seed,
    init_scope,
    name_scope,
)
from headrace.graph.operation import Operation
from headrace.graph.scopes import get_default_graph, get_default_session, reset_default_graph
from headrace.graph.sparse import (
    SparseTensor,
    SparseTensorValue,
    convert_to_tensor_or_sparse_tensor,
)
from headrace.graph.tensor import Tensor
from headrace.library.cases import case, switch_case
from headrace.library.functional import foldl, foldr, map_fn, scan
from headrace.library.parsing import (
    FixedLenFeature,
    FixedLenSequenceFeature,
    SparseFeature,
    VarLenFeature,
    parse_example,
    parse_single_example,
    parse_single_sequence_example,
)
from headrace.library.tensordot import tensordot
from headrace.library.variables.assigning import (
    assign,
    assign_add,
    assign_sub,
    batch_scatter_update,
    count_up_to,
    scatter_add,
    scatter_div,
    scatter_max,
    scatter_min,
    scatter_mul,
    scatter_nd_add,
    scatter_nd_sub,
    scatter_nd_update,
    scatter_sub,
    scatter_update,
)
from headrace.library.variables.initializers import (
    constant_initializer,
    glorot_normal_initializer,
    glorot_uniform_initializer,
    ones_initializer,
    orthogonal_initializer,
    random_normal_initializer,
    random_uniform_initializer,
    truncated_normal_initializer,
    uniform_unit_scaling_initializer,
    variance_scaling_initializer,
    zeros_initializer,
)
from headrace.library.variables.older_variables import (
    create_partitioned_variables,
    variable_op_scope,
)
from headrace.library.variables.partitioned import (
    fixed_size_partitioner,
    min_max_variable_partitioner,
    variable_axis_size_partitioner,
)
from headrace.library.variables.template import make_template
from headrace.library.variables.variable_creation import variable_creator_scope
from headrace.library.variables.variable_lists import (
    all_variables,
    assert_variables_initialized,
    global_variables,
    global_variables_initializer,
    initialize_all_tables,
    initialize_all_variables,
    initialize_local_variables,
    initialize_variables,
    is_variable_initialized,
    local_variables,
    local_variables_initializer,
    model_variables,
    moving_average_variables,
    report_uninitialized_variables,
    tables_initializer,
    trainable_variables,
    variables_initializer,
)
from headrace.library.variables.variable_scope import (
    AUTO_REUSE,
    VariableScope,
    get_local_variable,
    get_variable,
    get_variable_scope,
    no_regularizer,
    variable_scope,
)
from headrace.library.variables.variables import (
    Variable,
    VariableAggregation,
    VariableSynchronization,
)
from headrace.ops.array.broadcast import (
    broadcast_dynamic_shape,
    broadcast_static_shape,
    broadcast_to,
    sequence_mask,
)
from headrace.ops.array.constants import constant, fill, ones, ones_like, zeros, zeros_like
from headrace.ops.array.gathering import (
    batch_gather,
    boolean_mask,
    gather,
    gather_nd,
    scatter_nd,
    where,
)
from headrace.ops.array.joining import concat, meshgrid, split
from headrace.ops.array.one_hot import one_hot
from headrace.ops.array.packing import stack, unstack
from headrace.ops.array.padding import pad, reverse, reverse_sequence, reverse_v2, tile
from headrace.ops.array.partitioning import dynamic_partition, dynamic_stitch
from headrace.ops.array.placeholders import (
    placeholder,
    placeholder_with_default,
    sparse_placeholder,
)
from headrace.ops.array.ranges import lin_space, linspace, range
from headrace.ops.array.shapes import (
    ensure_shape,
    expand_dims,
    invert_permutation,
    matrix_transpose,
    rank,
    reshape,
    shape,
    shape_n,
    size,
    squeeze,
    transpose,
)
from headrace.ops.array.slicing import slice, strided_slice
from headrace.ops.array.space_batch import (
    batch_to_space,
    batch_to_space_nd,
    depth_to_space,
    space_to_batch,
    space_to_batch_nd,
    space_to_depth,
)
from headrace.ops.array.tensor_scatter import (
    tensor_scatter_add,
    tensor_scatter_nd_add,
    tensor_scatter_nd_max,
    tensor_scatter_nd_min,
    tensor_scatter_nd_sub,
    tensor_scatter_nd_update,
    tensor_scatter_sub,
    tensor_scatter_update,
)
from headrace.ops.array.unique import setdiff1d, unique, unique_with_counts
from headrace.ops.data.accumulators import (
    ConditionalAccumulator,
    ConditionalAccumulatorBase,
    SparseConditionalAccumulator,
)
from headrace.ops.data.queues import (
    FIFOQueue,
    PaddingFIFOQueue,
    PriorityQueue,
    QueueBase,
    RandomShuffleQueue,
)
from headrace.ops.flow.asserts import Assert
from headrace.ops.flow.checks import (
    assert_equal,
    assert_greater,
    assert_greater_equal,
    assert_less,
    assert_less_equal,
    assert_negative,
    assert_non_negative,
    assert_non_positive,
    assert_none_equal,
    assert_positive,
)
from headrace.ops.flow.control_flow import cond, while_loop
from headrace.ops.flow.identities import (
    check_numerics,
    group,
    identity,
    identity_n,
    no_op,
    stop_gradient,
    tuple,
)
from headrace.ops.flow.printing import Print, print
from headrace.ops.flow.py_functions import numpy_function, py_func
from headrace.ops.flow.tensor_array import TensorArray
from headrace.ops.io.csv import decode_csv
from headrace.ops.io.files import matching_files, read_file, write_file
from headrace.ops.io.readers import (
    FixedLengthRecordReader,
    IdentityReader,
    LMDBReader,
    ReaderBase,
    TextLineReader,
    TFRecordReader,
    WholeFileReader,
)
from headrace.ops.io.serializing import (
    decode_compressed,
    decode_json_example,
    deserialize_many_sparse,
    parse_tensor,
    serialize_many_sparse,
    serialize_sparse,
    serialize_tensor,
)
from headrace.ops.linalg.bands import diag, diag_part, matrix_band_part
from headrace.ops.linalg.diagonals import eye, matrix_diag, matrix_diag_part, matrix_set_diag
from headrace.ops.linalg.einsum import einsum
from headrace.ops.linalg.products import matmul, matrix_inverse, trace
from headrace.ops.math.arithmetic import (
    abs,
    add,
    div,
    div_no_nan,
    divide,
    floor_div,
    floordiv,
    floormod,
    maximum,
    minimum,
    mod,
    multiply,
    negative,
    pow,
    realdiv,
    sign,
    square,
    squared_difference,
    subtract,
    truediv,
    truncatediv,
    truncatemod,
)
from headrace.ops.math.casting import (
    angle,
    bitcast,
    conj,
    imag,
    real,
    to_bfloat16,
    to_complex64,
    to_complex128,
    to_double,
    to_float,
    to_int32,
    to_int64,
)
from headrace.ops.math.clipping import (
    clip_by_average_norm,
    clip_by_global_norm,
    clip_by_norm,
    clip_by_value,
    global_norm,
    scalar_mul,
)
from headrace.ops.math.comparisons import (
    equal,
    greater,
    greater_equal,
    less,
    less_equal,
    logical_and,
    logical_not,
    logical_or,
    logical_xor,
    not_equal,
    where_v2,
)
from headrace.ops.math.elementwise import (
    acos,
    acosh,
    asin,
    asinh,
    atan,
    atan2,
    atanh,
    ceil,
    cos,
    cosh,
    exp,
    expm1,
    floor,
    inv,
    is_finite,
    is_inf,
    is_nan,
    log,
    log1p,
    log_sigmoid,
    reciprocal,
    rint,
    round,
    rsqrt,
    sigmoid,
    sin,
    sinh,
    sqrt,
    tan,
    tanh,
)
from headrace.ops.math.reductions import (
    count_nonzero,
    norm,
    reduce_all,
    reduce_any,
    reduce_logsumexp,
    reduce_max,
    reduce_mean,
    reduce_min,
    reduce_prod,
    reduce_sum,
)
from headrace.ops.math.scans import arg_max, arg_min, argmax, argmin, cumprod, cumsum
from headrace.ops.math.segments import (
    segment_max,
    segment_mean,
    segment_min,
    segment_prod,
    segment_sum,
    unsorted_segment_max,
    unsorted_segment_mean,
    unsorted_segment_min,
    unsorted_segment_prod,
    unsorted_segment_sqrt_n,
    unsorted_segment_sum,
)
from headrace.ops.math.special import digamma, erf, erfc, lgamma, polygamma, zeta
from headrace.ops.math.sums import accumulate_n, add_n
from headrace.ops.random.draws import (
    multinomial,
    random_normal,
    random_poisson,
    random_shuffle,
    random_uniform,
    set_random_seed,
    truncated_normal,
)
from headrace.ops.sparse.dense import (
    sparse_add,
    sparse_tensor_dense_matmul,
    sparse_tensor_to_dense,
    sparse_to_dense,
)
from headrace.ops.sparse.order import sparse_merge, sparse_reorder
from headrace.ops.sparse.segments import (
    sparse_segment_mean,
    sparse_segment_sqrt_n,
    sparse_segment_sum,
)
from headrace.ops.string.byte_strings import decode_base64, decode_raw, encode_base64, substr
from headrace.ops.string.regular_expressions import regex_replace
from headrace.ops.string.splitting import string_split
from headrace.ops.string.strings import (
    reduce_join,
    string_join,
    string_strip,
    string_to_number,
)

if TYPE_CHECKING:
    from headrace import (
        app,
        bitwise,
        compat,
        contrib,
        debugging,
        distribute,
        dtypes,
        errors,
        flags,
        gfile,
        graph_util,
        image,
        initializers,
        io,
        layers,
        linalg,
        logging,
        losses,
        manip,
        math,
        nest,
        nn,
        python,
        python_io,
        queue,
        random,
        sparse,
        strings,
        summary,
        train,
        version,
    )
    from headrace.client.session import InteractiveSession, Session
    from headrace.client.session_handles import (
        delete_session_tensor,
        get_session_handle,
        get_session_tensor,
    )
    from headrace.codec.protos import (
        AttrValue,
        ConfigProto,
        Event,
        GPUOptions,
        GraphDef,
        GraphOptions,
        HistogramProto,
        LogMessage,
        MetaGraphDef,
        NameAttrList,
        NodeDef,
        OptimizerOptions,
        RunMetadata,
        RunOptions,
        SessionLog,
        Summary,
        SummaryMetadata,
        TensorInfo,
    )
    from headrace.training.logging import get_logger
    from headrace.unmodified.finder import install_as_tensorflow, load_ipython_extension
else:
    __getattr__, __dir__ = _names_of(
        __name__,
        {
            "headrace.client.session": "InteractiveSession Session",
            "headrace.client.session_handles": "delete_session_tensor get_session_handle get_session_tensor",
            "headrace.codec.protos": (
                "AttrValue ConfigProto Event GPUOptions GraphDef GraphOptions HistogramProto LogMessage "
                "MetaGraphDef NameAttrList NodeDef OptimizerOptions RunMetadata RunOptions SessionLog "
                "Summary SummaryMetadata TensorInfo"
            ),
            "headrace.training.logging": "get_logger",
            "headrace.unmodified.finder": "install_as_tensorflow load_ipython_extension",
        },
    )

newaxis = None

__all__ = [
    "AUTO_REUSE", "COMPILER_VERSION", "CXX11_ABI_FLAG", "GIT_VERSION", "GRAPH_DEF_VERSION",
    "GRAPH_DEF_VERSION_MIN_CONSUMER", "GRAPH_DEF_VERSION_MIN_PRODUCER", "MONOLITHIC_BUILD", "VERSION",
    "AggregationMethod", "Assert", "AttrValue", "ConditionalAccumulator", "ConditionalAccumulatorBase", "ConfigProto",
    "DeviceSpec", "Dimension", "Event", "FIFOQueue", "FixedLenFeature", "FixedLenSequenceFeature",
    "FixedLengthRecordReader", "GPUOptions", "Graph", "GraphDef", "GraphKeys", "GraphOptions", "HistogramProto",
    "IdentityReader", "IndexedSlices", "InteractiveSession", "LMDBReader", "LogMessage", "MetaGraphDef",
    "NameAttrList", "NoGradient", "NodeDef", "NotDifferentiable", "OpError", "Operation", "OptimizerOptions",
    "PaddingFIFOQueue", "Print", "PriorityQueue", "QueueBase", "RandomShuffleQueue", "ReaderBase", "RegisterGradient",
    "RunMetadata", "RunOptions", "Session", "SessionLog", "SparseConditionalAccumulator", "SparseFeature",
    "SparseTensor", "SparseTensorValue", "Summary", "SummaryMetadata", "TFRecordReader", "Tensor", "TensorArray",
    "TensorInfo", "TensorShape", "TextLineReader", "UnconnectedGradients", "VarLenFeature", "Variable",
    "VariableAggregation", "VariableScope", "VariableSynchronization", "WholeFileReader", "__compiler_version__",
    "__git_version__", "__version__", "abs", "accumulate_n", "acos", "acosh", "add", "add_n", "add_to_collection",
    "add_to_collections", "all_variables", "angle", "app", "arg_max", "arg_min", "argmax", "argmin", "asin", "asinh",
    "assert_equal", "assert_greater", "assert_greater_equal", "assert_less", "assert_less_equal", "assert_negative",
    "assert_non_negative", "assert_non_positive", "assert_none_equal", "assert_positive",
    "assert_variables_initialized", "assign", "assign_add", "assign_sub", "atan", "atan2", "atanh", "batch_gather",
    "batch_scatter_update", "batch_to_space", "batch_to_space_nd", "bitcast", "bitwise", "boolean_mask",
    "broadcast_dynamic_shape", "broadcast_static_shape", "broadcast_to", "case", "ceil", "check_numerics",
    "clip_by_average_norm", "clip_by_global_norm", "clip_by_norm", "clip_by_value", "colocate_with", "compat",
    "concat", "cond", "conj", "constant", "constant_initializer", "container", "contrib", "control_dependencies",
    "control_flow_v2_enabled", "convert_to_tensor", "convert_to_tensor_or_indexed_slices",
    "convert_to_tensor_or_sparse_tensor", "cos", "cosh", "count_nonzero", "count_up_to",
    "create_partitioned_variables", "cumprod", "cumsum", "custom_gradient", "debugging", "decode_base64",
    "decode_compressed", "decode_csv", "decode_json_example", "decode_raw", "delete_session_tensor", "depth_to_space",
    "deserialize_many_sparse", "device", "diag", "diag_part", "digamma", "dimension_at_index", "dimension_value",
    "disable_control_flow_v2", "disable_eager_execution", "disable_resource_variables", "disable_tensor_equality",
    "disable_v2_behavior", "disable_v2_tensorshape", "distribute", "div", "div_no_nan", "divide", "dtypes",
    "dynamic_partition", "dynamic_stitch", "einsum", "enable_eager_execution", "enable_resource_variables",
    "enable_v2_behavior", "encode_base64", "ensure_shape", "equal", "erf", "erfc", "errors", "executing_eagerly",
    "executing_eagerly_outside_functions", "exp", "expand_dims", "expm1", "eye", "fill", "fixed_size_partitioner",
    "flags", "floor", "floor_div", "floordiv", "floormod", "foldl", "foldr", "gather", "gather_nd", "get_collection",
    "get_collection_ref", "get_default_graph", "get_default_session", "get_local_variable", "get_logger", "get_seed",
    "get_session_handle", "get_session_tensor", "get_static_value", "get_variable", "get_variable_scope", "gfile",
    "global_norm", "global_variables", "global_variables_initializer", "glorot_normal_initializer",
    "glorot_uniform_initializer", "gradients", "graph_util", "greater", "greater_equal", "group", "identity",
    "identity_n", "imag", "image", "import_graph_def", "init_scope", "initialize_all_tables",
    "initialize_all_variables", "initialize_local_variables", "initialize_variables", "initializers",
    "install_as_tensorflow", "inv", "invert_permutation", "io", "is_finite", "is_inf", "is_nan", "is_tensor",
    "is_variable_initialized", "layers", "less", "less_equal", "lgamma", "lin_space", "linalg", "linspace",
    "load_ipython_extension", "local_variables", "local_variables_initializer", "log", "log1p", "log_sigmoid",
    "logging", "logical_and", "logical_not", "logical_or", "logical_xor", "losses", "make_ndarray", "make_template",
    "make_tensor_proto", "manip", "map_fn", "matching_files", "math", "matmul", "matrix_band_part", "matrix_diag",
    "matrix_diag_part", "matrix_inverse", "matrix_set_diag", "matrix_transpose", "maximum", "meshgrid",
    "min_max_variable_partitioner", "minimum", "mod", "model_variables", "moving_average_variables", "multinomial",
    "multiply", "name_scope", "negative", "nest", "newaxis", "nn", "no_gradient", "no_op", "no_regularizer", "norm",
    "not_equal", "numpy_function", "one_hot", "ones", "ones_initializer", "ones_like", "orthogonal_initializer", "pad",
    "parse_example", "parse_single_example", "parse_single_sequence_example", "parse_tensor", "placeholder",
    "placeholder_with_default", "polygamma", "pow", "print", "py_func", "python", "python_io", "queue", "random",
    "random_normal", "random_normal_initializer", "random_poisson", "random_shuffle", "random_uniform",
    "random_uniform_initializer", "range", "rank", "read_file", "real", "realdiv", "reciprocal", "reduce_all",
    "reduce_any", "reduce_join", "reduce_logsumexp", "reduce_max", "reduce_mean", "reduce_min", "reduce_prod",
    "reduce_sum", "regex_replace", "register_tensor_conversion_function", "report_uninitialized_variables",
    "reset_default_graph", "reshape", "resource_variables_enabled", "reverse", "reverse_sequence", "reverse_v2",
    "rint", "round", "rsqrt", "scalar_mul", "scan", "scatter_add", "scatter_div", "scatter_max", "scatter_min",
    "scatter_mul", "scatter_nd", "scatter_nd_add", "scatter_nd_sub", "scatter_nd_update", "scatter_sub",
    "scatter_update", "segment_max", "segment_mean", "segment_min", "segment_prod", "segment_sum", "sequence_mask",
    "serialize_many_sparse", "serialize_sparse", "serialize_tensor", "set_random_seed", "setdiff1d", "shape",
    "shape_n", "sigmoid", "sign", "sin", "sinh", "size", "slice", "space_to_batch", "space_to_batch_nd",
    "space_to_depth", "sparse", "sparse_add", "sparse_merge", "sparse_placeholder", "sparse_reorder",
    "sparse_segment_mean", "sparse_segment_sqrt_n", "sparse_segment_sum", "sparse_tensor_dense_matmul",
    "sparse_tensor_to_dense", "sparse_to_dense", "split", "sqrt", "square", "squared_difference", "squeeze", "stack",
    "stop_gradient", "strided_slice", "string_join", "string_split", "string_strip", "string_to_number", "strings",
    "substr", "subtract", "summary", "switch_case", "tables_initializer", "tan", "tanh", "tensor_scatter_add",
    "tensor_scatter_nd_add", "tensor_scatter_nd_max", "tensor_scatter_nd_min", "tensor_scatter_nd_sub",
    "tensor_scatter_nd_update", "tensor_scatter_sub", "tensor_scatter_update", "tensordot", "tile", "to_bfloat16",
    "to_complex64", "to_complex128", "to_double", "to_float", "to_int32", "to_int64", "trace", "train",
    "trainable_variables", "transpose", "truediv", "truncated_normal", "truncated_normal_initializer", "truncatediv",
    "truncatemod", "tuple", "uniform_unit_scaling_initializer", "unique", "unique_with_counts", "unsorted_segment_max",
    "unsorted_segment_mean", "unsorted_segment_min", "unsorted_segment_prod", "unsorted_segment_sqrt_n",
    "unsorted_segment_sum", "unstack", "variable_axis_size_partitioner", "variable_creator_scope", "variable_op_scope",
    "variable_scope", "variables_initializer", "variance_scaling_initializer", "version", "where", "where_v2",
    "while_loop", "write_file", "zeros", "zeros_initializer", "zeros_like", "zeta",
]  # fmt: skip
__all__ += _dtypes
