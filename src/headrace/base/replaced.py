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
_DEFUN = "Defun of tensorflow.python.framework.function, or a call of the Python function itself"
_FUNCTIONS = f"headrace builds graphs: use {_DEFUN}"
_SESSIONS = "connect with a session: tf.Session(server.target)"
_RESOLVE = (
    "put the addresses into TF_CONFIG of every task and use TFConfigClusterResolver, or into a tf.train.ClusterSpec "
    "and use SimpleClusterResolver"
)
_RESOLVERS = {
    "GCEClusterResolver": f"it asks Google Compute Engine for an instance group; {_RESOLVE}",
    "GceClusterResolver": f"it asks Google Compute Engine for an instance group; {_RESOLVE}",
    "KubernetesClusterResolver": f"it asks Kubernetes for pods; {_RESOLVE}",
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
_OF_STRATEGIES = (
    "CrossDeviceOps HierarchicalCopyAllReduce InputReplicationMode MirroredStrategy NcclAllReduce OneDeviceStrategy "
    "ReduceOp ReductionToOneDevice ReplicaContext Strategy StrategyExtended experimental experimental_set_strategy "
    "get_loss_reduction get_replica_context get_strategy"
).split()
_REPLICAS = "use tf.train.replica_device_setter and tf.train.SyncReplicasOptimizer"
_FILES = "read files: tf.TFRecordReader, tf.TextLineReader; what comes over the network is fed from a thread"
_CONTRIB = {
    "cloud": _FILES,
    "coder": "it compresses images for TensorFlow Compression; write bytes with tf.py_func",
    "constrained_optimization": "add the constraints to the loss, or project with a variable's constraint=",
    "deprecated": "use tf.summary: scalar, histogram, image, audio, merge",
    "eager": f"{_GRAPHS}; for defun {_DEFUN}",
    "factorization": "factorize with tf.nn.embedding_lookup and an optimizer of tf.train",
    "ffmpeg": "decode WAV with tf.audio.decode_wav; other sound outside of the graph, fed or by tf.py_func",
    "fused_conv": "use tf.nn.conv2d, tf.nn.bias_add and tf.nn.relu, which run as one where that is faster",
    "gan": "train two losses, each with its own var_list in Optimizer.minimize",
    "gdr": "use grpc; between processes of one host tensors go through shared memory",
    "grid_rnn": "use tf.nn.rnn_cell.MultiRNNCell and tf.nn.dynamic_rnn",
    "hadoop": _FILES,
    "hvx": "it is for phones; freeze the graph with tf.graph_util.convert_variables_to_constants",
    "ignite": _FILES,
    "input_pipeline": "use tf.train.string_input_producer and tf.train.batch",
    "integrate": "step through time with tf.scan or tf.while_loop",
    "kernel_methods": "random features are tf.cos(tf.matmul(x, w) + b) * sqrt(2 / n)",
    "kinesis": _FILES,
    "labeled_tensor": "name dimensions in the program; tf.transpose and tf.expand_dims put them in place",
    "libsvm": "split lines with tf.string_split and tf.string_to_number",
    "memory_stats": "trace the step: tf.RunOptions(trace_level=tf.RunOptions.FULL_TRACE) tells what each node kept",
    "mixed_precision": "cast with tf.cast; variables may be tf.float16",
    "model_pruning": "multiply weights by a mask that is a variable",
    "mpi": "use grpc; between processes of one host tensors go through shared memory",
    "nearest_neighbor": "compare with tf.matmul and choose with tf.nn.top_k",
    "optimizer_v2": "use tf.train's optimizers",
    "periodic_resample": "use tf.depth_to_space and tf.reshape",
    "predictor": "load with tf.saved_model.loader.load, and keep session.make_callable",
    "receptive_field": "it is computed from sizes and strides of the layers, outside of the graph",
    "reduce_slice_ops": "use tf.segment_sum and kin",
    "remote_fused_graph": "place nodes with tf.device on a task of tf.train.Server",
    "resampler": "interpolate with tf.gather_nd and weights, or tf.image.crop_and_resize",
    "rpc": "connect tasks with tf.train.Server, or call from tf.py_func",
    "saved_model": "use tf.saved_model",
    "session_bundle": "use tf.saved_model",
    "sparsemax": "sort with tf.nn.top_k and tf.cumsum; or use tf.nn.softmax",
    "specs": "use tf.layers",
    "stat_summarizer": "trace the step: tf.RunOptions(trace_level=tf.RunOptions.FULL_TRACE), `headrace report`",
    "testing": "use tf.test.TestCase",
    "text": "count with tf.contrib.lookup's tables, and sample with tf.nn.learned_unigram_candidate_sampler",
    "verbs": "use grpc; between processes of one host tensors go through shared memory",
}
_CUDNN = (
    "CudnnGRU CudnnLSTM CudnnRNNRelu CudnnRNNTanh CudnnGRUSaveable CudnnLSTMSaveable CudnnRNNReluSaveable "
    "CudnnRNNTanhSaveable CudnnParamsFormatConverterGRU CudnnParamsFormatConverterLSTM CudnnOpaqueParamsSaveable "
    "RNNParamsSaveable"
).split()
_CELLS: Final = (
    "run tf.contrib.cudnn_rnn.CudnnCompatibleLSTMCell or CudnnCompatibleGRUCell, which have its weights, or a cell of "
    "tf.nn.rnn_cell, with tf.nn.dynamic_rnn"
)
_COLUMNS = (
    "bucketized_column check_feature_columns create_feature_spec_for_parsing crossed_column embedding_column "
    "infer_real_valued_columns input_from_feature_columns joint_weighted_sum_from_feature_columns "
    "make_place_holder_tensors_for_base_features multi_class_target one_hot_column parse_feature_columns_from_examples "
    "parse_feature_columns_from_sequence_examples real_valued_column regression_target scattered_embedding_column "
    "sequence_input_from_feature_columns shared_embedding_columns sparse_column_with_hash_bucket "
    "sparse_column_with_integerized_feature sparse_column_with_keys sparse_column_with_vocabulary_file "
    "transform_features weighted_sparse_column weighted_sum_from_feature_columns feature_column"
).split()
_LOOK_UP: Final = (
    "use tf.feature_column, which took its place: its columns, input_layer and linear_model"
)
_READ: Final = "parse with tf.parse_single_example and batch with tf.train.batch"
_SLIM_DATA = (
    "data_decoder data_provider dataset dataset_data_provider parallel_reader tfexample_decoder"
).split()
_NETS: Final = (
    "it is in the repository tensorflow/models (research/slim/nets), and runs on tf.contrib.slim"
)
_SAMPLES: Final = (
    "read files of your own with numpy.genfromtxt, csv or tf.data; nothing is downloaded here"
)
_LEARN: Final = "use tf.estimator, which took its place: Estimator, RunConfig, train_and_evaluate, DNN and linear ones"
_ESTIMATORS = (
    "BaseEstimator DNNClassifier DNNEstimator DNNLinearCombinedClassifier DNNLinearCombinedEstimator "
    "DNNLinearCombinedRegressor DNNRegressor DynamicRnnEstimator Estimator Evaluable Experiment ExportStrategy "
    "InputFnOps KMeansClustering LinearClassifier LinearEstimator LinearRegressor LogisticRegressor MetricSpec "
    "ModeKeys ModelFnOps NotFittedError PredictionKey ProblemType RunConfig SKCompat SVM TaskType Trainable "
    "build_parsing_serving_input_fn estimators learn_runner make_export_strategy multi_class_head multi_head "
    "multi_label_head no_op_train_fn poisson_regression_head regression_head run_n run_feeds"
).split()
_MORE_ESTIMATORS = (
    "DNNClassifierWithLayerAnnotations DNNRegressorWithLayerAnnotations RNNClassifier RNNEstimator "
    "SavedModelEstimator TowerOptimizer boosted_trees_classifier_train_in_memory "
    "boosted_trees_regressor_train_in_memory build_raw_supervised_input_receiver_fn clip_gradients_by_norm "
    "export_all_saved_models export_saved_model_for_mode forward_features replicate_model_fn"
).split()
_OF_TPUS = (
    "AsyncCheckpointSaverHook DeviceAssignment TPUDistributionStrategy TPUInfeedOutfeedSessionHook Topology "
    "batch_parallel bfloat16_scope core cross_replica_sum device_assignment export_estimator_savedmodel "
    "infeed_dequeue infeed_enqueue initialize_system keras_to_tpu_model outfeed_dequeue outfeed_enqueue "
    "outside_compilation repeat replicate rewrite shard shutdown_system while_loop"
).split()
_CONTRIB_NAMES = {
    **dict.fromkeys([f"layers.{name}" for name in _COLUMNS], _LOOK_UP),
    **dict.fromkeys([f"slim.{name}" for name in ("data", *_SLIM_DATA)], _READ),
    **dict.fromkeys(
        [f"image.{name}" for name in ("adjust_hsv_in_yiq", "random_hsv_in_yiq")],
        "use tf.image.adjust_hue and tf.image.adjust_saturation, or their random_ kin",
    ),
    "image.bipartite_match": "match by scipy.optimize.linear_sum_assignment in tf.py_func",
    "image.connected_components": "label by scipy.ndimage.label in tf.py_func",
    "image.single_image_random_dot_stereograms": "draw it outside of the graph, or in tf.py_func",
    **dict.fromkeys([f"slim.python.slim.data.{name}" for name in _SLIM_DATA], _READ),
    **dict.fromkeys(
        [
            f"slim.{place}nets.{name}"
            for place in ("", "python.slim.")
            for name in (
                "alexnet inception inception_utils inception_v1 inception_v2 inception_v3 inception_v4 "
                "inception_resnet_v2 lenet mobilenet_v1 nets_factory overfeat"
            ).split()
        ],
        _NETS,
    ),
    "rnn.NTMCell": "use a cell with tf.contrib.seq2seq.AttentionWrapper",
    "opt.RegAdagradOptimizer": "use tf.train.AdagradOptimizer",
    "opt.LazyAdamGSOptimizer": "use tf.contrib.opt.LazyAdamOptimizer",
    "opt.AdamGSOptimizer": "use tf.train.AdamOptimizer",
    "opt.DropStaleGradientOptimizer": "use tf.train.SyncReplicasOptimizer, which drops stale gradients",
    "metrics.auc_using_histogram": "use tf.metrics.auc",
    "metrics.auc_with_confidence_intervals": "use tf.metrics.auc",
    "metrics.streaming_sparse_average_precision_at_top_k": "use tf.metrics.average_precision_at_k",
    **dict.fromkeys([f"learn.{name}" for name in _ESTIMATORS], _LEARN),
    **dict.fromkeys(
        [f"estimator.{name}" for name in _MORE_ESTIMATORS],
        "use tf.estimator: its estimators, hooks and exporters",
    ),
    **dict.fromkeys(
        [f"tpu.{name}" for name in _OF_TPUS],
        "there are no TPUs here; tf.contrib.tpu.TPUEstimator with use_tpu=False trains without",
    ),
    **dict.fromkeys(
        [
            f"learn.{place}datasets.{name}"
            for place in ("", "python.learn.")
            for name in (
                "base load_dataset load_iris load_boston load_diabetes load_dbpedia make_dataset synthetic "
                "text_datasets"
            ).split()
            if (place, name) != ("python.learn.", "base")
        ],
        _SAMPLES,
    ),
    **dict.fromkeys(
        [
            f"learn.python.learn.datasets.base.{name}"
            for name in (
                "Dataset Datasets load_boston load_csv_with_header load_csv_without_header load_iris shrink_csv"
            ).split()
        ],
        _SAMPLES,
    ),
    "cudnn_rnn.python.layers": _CELLS,
    "data.python.ops.threadpool": "all steps share headrace's threads; leave override_threadpool out",
    "layers.scattered_embedding_lookup": (
        "hash to rows with tf.string_to_hash_bucket_fast, and use tf.nn.embedding_lookup"
    ),
    "layers.scattered_embedding_lookup_sparse": (
        "hash to rows with tf.string_to_hash_bucket_fast, and use tf.nn.embedding_lookup_sparse"
    ),
    "layers.python.layers.feature_column": _LOOK_UP,
    "layers.python.layers.feature_column_ops": _LOOK_UP,
    **dict.fromkeys(
        [
            f"framework.convolutional_{name}"
            for name in ("delta_orthogonal", "orthogonal_1d", "orthogonal_2d", "orthogonal_3d")
        ],
        "use tf.orthogonal_initializer",
    ),
    "framework.load_variable_slot_initializer": "use tf.contrib.framework.load_and_remap_matrix_initializer",
    "framework.assert_or_get_global_step": "use tf.train.assert_global_step, or tf.train.get_global_step",
    "training.FailureTolerator": "tf.train.MonitoredTrainingSession goes on after failures of its cluster",
    "training.python_input": "use tf.data.Dataset.from_generator",
    "learn.monitors": "use hooks: tf.train.SessionRunHook",
    "decision_trees": "its kernels are TensorFlow's own; no part of it is here",
    "meta_graph_transform": "change graphs with tf.graph_util, and export them with tf.train.export_meta_graph",
    "rate": "count with tf.metrics, and divide by the time in a hook",
    "recurrent": "step through time with tf.nn.dynamic_rnn or tf.while_loop",
    "speech": "use tf.signal: stft, linear_to_mel_weight_matrix, mfccs_from_log_mel_spectrograms",
    "linear_optimizer.SDCAOptimizer": "train linear models with tf.train.FtrlOptimizer, which has L1 and L2",
    "util.loader": "libraries of kernels are compiled for TensorFlow; write the operation with tf.py_func",
}
ELSEWHERE: Final[dict[str, str]] = {
    **{f"contrib.{module}": text for module, text in _CONTRIB.items()},
    **{f"distribute.cluster_resolver.{name}": text for name, text in _RESOLVERS.items()},
    **{f"contrib.cluster_resolver.{name}": text for name, text in _RESOLVERS.items()},
    "keras": f"Keras is a library of its own; {_LAYERS}",
    "contrib.keras": f"Keras is a library of its own; {_LAYERS}",
    "python.keras": f"Keras is a library of its own; {_LAYERS}",
    "optimizers": "use the optimizers of tf.train",
    "lite": "it is for phones; freeze the graph with tf.graph_util.convert_variables_to_constants",
    "contrib.lite": "it is for phones; freeze the graph with tf.graph_util.convert_variables_to_constants",
    "tpu": "there are no TPUs here; use tf.device and tf.train.replica_device_setter",
    "python.tpu": "there are no TPUs here; use tf.device and tf.train.replica_device_setter",
    "autograph": "write tf.cond, tf.while_loop or tf.map_fn",
    "contrib.autograph": "write tf.cond, tf.while_loop or tf.map_fn",
    "python.autograph": "write tf.cond, tf.while_loop or tf.map_fn",
    "xla": "headrace compiles its steps by itself; leave the call out",
    "contrib.compiler": "headrace compiles its steps by itself; leave the scope out",
    "python.compiler": "headrace compiles its steps by itself; leave the call out",
    "function": _FUNCTIONS,
    "wrap_function": _GRAPHS,
    "py_function": "its function gets eager tensors; use tf.py_func or tf.numpy_function, which pass arrays",
    "vectorized_map": "use tf.map_fn, or the operation on the whole batch",
    "GradientTape": _GRAPHS,
    "LazyLoader": "import the module where it is needed",
    "compat.v2": "programs of TensorFlow 2 are not run here; tf.compat.v1 and tf itself are the same",
    "enable_v2_tensorshape": "dimensions are tf.Dimension, as TensorFlow 1.x has them: shape.as_list() gives numbers",
    "layers.experimental": f"Keras is a library of its own; {_LAYERS}",
    "random.experimental": "draw with tf.random_uniform and its kin, or tf.random.stateless_uniform",
    "saved_model.experimental": "use tf.saved_model.simple_save",
    "Module": "use tf.variable_scope and tf.make_template",
    "contrib.distribute": _REPLICAS,
    **dict.fromkeys([f"distribute.{name}" for name in _OF_STRATEGIES], _REPLICAS),
    **dict.fromkeys(
        [f"python.distribute.{module}" for module in _STRATEGIES],
        _REPLICAS,
    ),
    "contrib.all_reduce": "reduce with tf.add_n; it needs no devices that are joined",
    "contrib.mpi_collectives": "use tf.train.Server, whose tasks send values to each other",
    "contrib.rnn.CompiledWrapper": "headrace compiles its steps by itself; leave the wrapper out",
    **dict.fromkeys([f"contrib.cudnn_rnn.{name}" for name in _CUDNN], _CELLS),
    **{f"contrib.{name}": text for name, text in _CONTRIB_NAMES.items()},
    **dict.fromkeys(
        [
            "train.sdca_optimizer",
            "train.sdca_fprint",
            "train.sdca_shrink_l1",
            "estimator.experimental.LinearSDCA",
        ],
        "dual coordinate ascent is not offered: train linear models with tf.train.FtrlOptimizer, which has L1 and L2",
    ),
    "train.do_quantize_training_on_graphdef": "headrace computes in floats; leave the rewriting out",
    "contrib.tensorrt": "headrace runs graphs as they are; leave the conversion out",
    **dict.fromkeys(
        [f"estimator.BoostedTrees{kind}" for kind in ("Classifier", "Regressor", "Estimator")],
        "its kernels are TensorFlow's own; use tf.estimator.DNNClassifier, DNNLinearCombinedClassifier or their kin",
    ),
    "estimator.experimental.KMeans": "write the distances to the centres, and the assignments, in a model_fn",
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
    "config.experimental_connect_to_cluster": _SESSIONS,
    "config.experimental_connect_to_host": _SESSIONS,
    "config.experimental_list_devices": "sessions list devices: session.list_devices()",
    "config.experimental_run_functions_eagerly": _GRAPHS,
    "config.experimental": "devices are the server's; threads are chosen by tf.ConfigProto",
    "enable_control_flow_v2": "tf.cond and tf.while_loop build the nodes that TensorFlow's graphs of 1.x have",
    "enable_tensor_equality": "tensors of a graph are compared by identity; use tf.equal for their values",
    "errors.raise_exception_on_not_ok_status": "statuses are TensorFlow's C interface's; catch tf.errors.OpError",
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
