"""What programs find in the place of names that headrace does not have, and never will.

Two tables.  Names are without ``tf.``.  A name of TensorFlow 1.x that headrace does not have yet needs no row: the
error says so by itself (`base.missing`).
Called by: base.missing.  Threads: any.
"""

from __future__ import annotations

from typing import Final

REPLACED: Final[dict[str, str]] = {
    "mul": "multiply",
    "sub": "subtract",
    "neg": "negative",
    "pack": "stack",
    "unpack": "unstack",
    "select": "where",
    "concat_v2": "use tf.concat(values, axis), whose axis comes second",
    "complex_abs": "abs",
    "listdiff": "setdiff1d",
    "scalar_summary": "summary.scalar",
    "histogram_summary": "summary.histogram",
    "image_summary": "summary.image",
    "audio_summary": "summary.audio",
    "tensor_summary": "summary.tensor_summary",
    "merge_summary": "summary.merge",
    "merge_all_summaries": "summary.merge_all",
    "train.SummaryWriter": "summary.FileWriter",
    "train.SummaryWriterCache": "summary.FileWriterCache",
    "train.SyncReplicasOptimizerV2": "train.SyncReplicasOptimizer",
    "batch_matmul": "matmul",
    "batch_matrix_inverse": "matrix_inverse",
    "batch_matrix_determinant": "matrix_determinant",
    "batch_matrix_diag": "matrix_diag",
    "batch_matrix_diag_part": "matrix_diag_part",
    "batch_matrix_set_diag": "matrix_set_diag",
    "batch_matrix_band_part": "matrix_band_part",
    "batch_matrix_solve": "matrix_solve",
    "batch_matrix_solve_ls": "matrix_solve_ls",
    "batch_matrix_triangular_solve": "matrix_triangular_solve",
    "batch_cholesky": "cholesky",
    "batch_cholesky_solve": "cholesky_solve",
    "batch_self_adjoint_eig": "self_adjoint_eig",
    "batch_self_adjoint_eigvals": "self_adjoint_eigvals",
    "batch_svd": "svd",
    "batch_fft": "fft",
    "batch_fft2d": "fft2d",
    "batch_fft3d": "fft3d",
    "batch_ifft": "ifft",
    "batch_ifft2d": "ifft2d",
    "batch_ifft3d": "ifft3d",
    "get_all_collection_keys": "use tf.get_default_graph().get_all_collection_keys()",
    "int32_ref": "use tf.int32; references are types of operations, not of programs",
    "float32_ref": "use tf.float32; references are types of operations, not of programs",
    "types": "dtypes",
    "control_flow_ops": "use tf.cond, tf.while_loop and tf.group",
    "models": "use tf.nn.rnn_cell and tf.nn.static_rnn",
    "models.rnn": "use tf.nn.rnn_cell and tf.nn.static_rnn",
    "models.rnn.rnn": "nn.static_rnn",
    "models.rnn.rnn_cell": "nn.rnn_cell",
    "models.rnn.linear": "layers.dense",
    "models.rnn.seq2seq": "contrib.legacy_seq2seq",
    "nn.rnn": "nn.static_rnn",
    "nn.bidirectional_rnn": "nn.static_bidirectional_rnn",
    "nn.state_saving_rnn": "nn.static_state_saving_rnn",
    "nn.seq2seq": "contrib.legacy_seq2seq",
    "nn.seq2seq.rnn_decoder": "contrib.legacy_seq2seq.rnn_decoder",
    "nn.seq2seq.attention_decoder": "contrib.legacy_seq2seq.attention_decoder",
    "nn.seq2seq.basic_rnn_seq2seq": "contrib.legacy_seq2seq.basic_rnn_seq2seq",
    "nn.seq2seq.tied_rnn_seq2seq": "contrib.legacy_seq2seq.tied_rnn_seq2seq",
    "nn.seq2seq.embedding_rnn_seq2seq": "contrib.legacy_seq2seq.embedding_rnn_seq2seq",
    "nn.seq2seq.embedding_attention_seq2seq": "contrib.legacy_seq2seq.embedding_attention_seq2seq",
    "nn.seq2seq.one2many_rnn_seq2seq": "contrib.legacy_seq2seq.one2many_rnn_seq2seq",
    "nn.seq2seq.sequence_loss": "contrib.legacy_seq2seq.sequence_loss",
    "nn.seq2seq.sequence_loss_by_example": "contrib.legacy_seq2seq.sequence_loss_by_example",
    "nn.seq2seq.model_with_buckets": "contrib.legacy_seq2seq.model_with_buckets",
    "nn.deconv2d": "nn.conv2d_transpose",
    "nn.rnn_cell.linear": "layers.dense",
    "nn.rnn_cell._linear": "layers.dense",
    "nn.rnn_cell.InputProjectionWrapper": "contrib.rnn.InputProjectionWrapper",
    "nn.rnn_cell.OutputProjectionWrapper": "contrib.rnn.OutputProjectionWrapper",
    "nn.rnn_cell.EmbeddingWrapper": "contrib.rnn.EmbeddingWrapper",
    "image.per_image_whitening": "image.per_image_standardization",
}
"""Names that TensorFlow 0.x had, or an early 1.x, and 1.15 has not: the name in their place, or a sentence."""

_LAYERS = "use tf.layers, tf.nn and tf.train's optimizers"
_GRAPHS = "headrace builds graphs: use tf.Session, tf.gradients and tf.while_loop"
_RESOLVE = (
    "put the addresses into TF_CONFIG of every task and use TFConfigClusterResolver, or into a tf.train.ClusterSpec "
    "and use SimpleClusterResolver"
)
_RESOLVERS = {
    "GCEClusterResolver": f"it asks Google Compute Engine for an instance group; {_RESOLVE}",
    "GceClusterResolver": f"it asks Google Compute Engine for an instance group; {_RESOLVE}",
    "KubernetesClusterResolver": f"it asks Kubernetes for pods; {_RESOLVE}",
    "SlurmClusterResolver": f"it reads SLURM_* of a job step; {_RESOLVE}",
    "TPUClusterResolver": f"there are no TPUs here; {_RESOLVE}",
}
_STRATEGIES = (
    "central_storage_strategy collective_all_reduce_strategy collective_util cross_device_ops cross_device_utils "
    "device_util "
    "distribute_config distribute_coordinator distribute_coordinator_context distribute_lib "
    "distribution_strategy_context estimator_training input_lib mirrored_strategy multi_worker_util numpy_dataset "
    "one_device_strategy parameter_server_strategy reduce_util shared_variable_creator summary_op_util tpu_strategy "
    "tpu_values values"
).split()
ELSEWHERE: Final[dict[str, str]] = {
    **{f"distribute.cluster_resolver.{name}": text for name, text in _RESOLVERS.items()},
    **{f"contrib.cluster_resolver.{name}": text for name, text in _RESOLVERS.items()},
    "keras": f"Keras is a library of its own; {_LAYERS}",
    "contrib.keras": f"Keras is a library of its own; {_LAYERS}",
    "python.keras": f"Keras is a library of its own; {_LAYERS}",
    "optimizers": "use the optimizers of tf.train",
    "lite": "it is for phones; freeze the graph with tf.graph_util.convert_variables_to_constants",
    "contrib.lite": "it is for phones; freeze the graph with tf.graph_util.convert_variables_to_constants",
    "tpu": "there are no TPUs here; use tf.device and tf.train.replica_device_setter",
    "contrib.tpu": "there are no TPUs here; use tf.device, tf.train.SyncReplicasOptimizer and plain sessions",
    "python.tpu": "there are no TPUs here; use tf.device and tf.train.replica_device_setter",
    "autograph": "write tf.cond, tf.while_loop or tf.map_fn",
    "contrib.autograph": "write tf.cond, tf.while_loop or tf.map_fn",
    "python.autograph": "write tf.cond, tf.while_loop or tf.map_fn",
    "xla": "headrace compiles its steps by itself; leave the call out",
    "contrib.compiler": "headrace compiles its steps by itself; leave the scope out",
    "python.compiler": "headrace compiles its steps by itself; leave the call out",
    "function": _GRAPHS,
    "GradientTape": _GRAPHS,
    "Module": "use tf.variable_scope and tf.make_template",
    "contrib.eager": _GRAPHS,
    "contrib.distribute": "use tf.train.replica_device_setter and tf.train.SyncReplicasOptimizer",
    "distribute.Strategy": "use tf.train.replica_device_setter and tf.train.SyncReplicasOptimizer",
    "distribute.MirroredStrategy": "use tf.train.replica_device_setter and tf.train.SyncReplicasOptimizer",
    "distribute.experimental": "use tf.train.replica_device_setter and tf.train.SyncReplicasOptimizer",
    **dict.fromkeys(
        [f"python.distribute.{module}" for module in _STRATEGIES],
        "use tf.train.replica_device_setter and tf.train.SyncReplicasOptimizer",
    ),
    "contrib.nccl": "reduce with tf.add_n; it needs no devices that are joined",
    "contrib.all_reduce": "reduce with tf.add_n; it needs no devices that are joined",
    "contrib.mpi_collectives": "use tf.train.Server, whose tasks send values to each other",
    "contrib.cudnn_rnn": "use tf.nn.rnn_cell.LSTMCell or GRUCell with tf.nn.dynamic_rnn",
    **dict.fromkeys(
        ["train.sdca_optimizer", "train.sdca_fprint", "train.sdca_shrink_l1"],
        "dual coordinate ascent is not offered: train linear models with tf.train.FtrlOptimizer, which has L1 and L2",
    ),
    "train.do_quantize_training_on_graphdef": "headrace computes in floats; leave the rewriting out",
    "contrib.tensorrt": "headrace runs graphs as they are; leave the conversion out",
    "contrib.tensor_forest": "its kernels are TensorFlow's own; no part of it is here",
    "contrib.boosted_trees": "its kernels are TensorFlow's own; no part of it is here",
    "contrib.bigtable": "read files: tf.TFRecordReader, tf.TextLineReader",
    "contrib.kafka": "read files, or feed a queue from a thread",
    "contrib.quantize": "headrace computes in floats; leave the rewriting out",
    "contrib.timeseries": "it is built on Estimator; write the model with tf.nn.dynamic_rnn",
    "contrib.bayesflow": "tensorflow_probability took its place; no part of it is here",
    "contrib.graph_editor": "import the graph with tf.import_graph_def and its input_map",
    "python.debug": "headrace says where a step waits (`headrace inspect`); print values with tf.Print",
    "load_op_library": "libraries of kernels are compiled for TensorFlow; write the operation with tf.py_func",
    "load_library": "libraries of kernels are compiled for TensorFlow; write the operation with tf.py_func",
    "load_file_system_library": "mount the file system: headrace reads the host's files",
    "user_ops": "libraries of kernels are compiled for TensorFlow; write the operation with tf.py_func",
    "saved_model.load_v2": "use tf.saved_model.load and a session",
    "saved_model.save": "use tf.saved_model.simple_save",
    "mixed_precision": "cast with tf.cast; variables may be tf.float16",
    "train.experimental": "use what tf.train has",
    "experimental": "experimental names are not in headrace",
}
"""Namespaces and names of TensorFlow that are no part of headrace: what to use.  A row is also for all beneath it."""


def advice(name: str) -> str | None:
    """What `ELSEWHERE` says of a name, or of the innermost namespace around it."""
    while name:
        if name in ELSEWHERE:
            return ELSEWHERE[name]
        name = name.rpartition(".")[0]
    return None
