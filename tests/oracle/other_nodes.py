"""Calls whose nodes are not TensorFlow's, as patterns of lines of calls/*.txt, and why; and functions that add none.

A new function is not to be added: its nodes are to be TensorFlow's.  What is not needed fails test_call_nodes.py.
"""

from __future__ import annotations

OTHER_NODES: dict[str, str] = {
    r"tf\.(linalg\.)?(lin_space|linspace).*|tf\.signal\.(hann|hamming)_window.*|tf\.divide\(3\.0.*|tf\.switch_case.*": (
        "as in 1.15; TensorFlow 2.21's have broadcasting, another constant, or an op that 1.15 has not"
    ),
    r"tf\.nn\.(silu|swish|compute_average_loss|scale_regularization_loss|max_pool_v2).*": (
        "as in 1.15; 2.21 adds nodes for forward and backward passes, and for replicas"
    ),
    r"tf\.nn\.(safe_)?embedding_lookup(_sparse)?\(\[?[VP].*": (
        "ids are made unique before they are looked up, as in 1.15; colocation of a slice's bounds"
    ),
    r"tf\.image\.non_max_suppression_padded.*|tf\.accumulate_n.*|tf\.inv\(.*|tf\.py_func.*": (
        "as in 1.15; 2.21 has other ops, no such name, or no name for the stateless op"
    ),
    r"tf\.recompute_grad.*": "2.21 has more nodes, for the order in which things are computed again",
    r"tf\.scatter_nd_(add|sub|update).*": "the name is used, which 2.21 forgets for references",
    r"tf\.get_variable.*regularizer.*|tf\.layers\.dense.*regularizer.*": (
        "a regularizer is called once and placed with its variable, as in 1.15"
    ),
    r"tf\.layers\.batch_normalization.*": (
        "what stands for tf.layers beside 2.21 has none; tests/ops/test_norm_layers.py has NumPy's values"
    ),
    r"tf\.layers\.(separable_)?conv[123]d(_transpose)?\(.*": (
        "nodes of tf.nn.convolution as in 1.15; sizes that are known are no nodes; unknown channels are a ValueError"
    ),
    r"tf\.layers\.flatten.*|tf\.batch_gather.*|tf\.gather_nd.*batch_dims.*|tf\.repeat.*": (
        "the same by fewer nodes, or where the rank is not known by more"
    ),
    r"tf\.norm\(.*ord=2, axis=\[0, 1\].*": "axes are numbers: what TensorFlow computes of them in two loops is known",
    r"tf\.(argsort|sort|sequence_mask|image\.ssim|nn\.collapse_repeated|nn\.ctc_|sparse\.expand_dims).*": (
        "composed of other nodes; values and gradients are compared in programs/"
    ),
    r"tf\.(signal|spectral)\.(frame|overlap_and_add|i?(ir)?fft|rfft|irfft|i?dct|stft|inverse_stft|mfccs|linear_to).*": (
        "composed of fewer nodes, of signals whose rank is known; programs/signal.txt compares values and gradients"
    ),
    r"tf\.signal\.fftshift.*|tf\.(math|nn)\.(log_)?softmax.*|tf\.metrics\.mean_(iou|per_class_accuracy).*": (
        "built also where nothing is known; TensorFlow's is a TypeError of Python"
    ),
    r"tf\.nn\.(bidirectional_)?(static|dynamic|static_bidirectional)_rnn.*|tf\.(linalg\.)?(svd|pinv)\(.*": (
        "where nothing is known a ValueError, or one that says what is not implemented; a TypeError of Python there"
    ),
    r"tf\.nn\.(atrous_conv2d_transpose|with_space_to_batch|pool\(.*dilation|max_pool_with_argmax).*": (
        "sizes of filters must be known, numbers stand for lists, windows apart from each other are padded, too"
    ),
    r"tf\.nn\.conv(1d|2d)?_?(transpose|backprop_input).*|tf\.expand_dims.*|tf\.TensorArray\(.*gather.*": (
        "another part of the static shape is known"
    ),
    r"tf\.nn\.fractional_(avg|max)_pool.*": "where windows begin has one element more than rows and columns",
    r"tf\.extract_(image|volume)_patches.*|tf\.image\.extract_patches.*|tf\.image\.rgb_to_hsv.*": (
        "gradients of other nodes, also where nothing is known"
    ),
    r"tf\.(matrix_set_diag|linalg\.set_diag|linalg\.tridiagonal_solve)\(.*": (
        "gradients of fewer nodes; ranks must be known, as in 1.15"
    ),
    r"tf\.manip\.space_to_batch_nd.*": "blocks of unknown rank are left to the step",
    r"tf\.tensor_scatter_nd_(max|min).*": "no gradients, as in 1.15",
    r"tf\.sparse_to_dense.*|tf\.sparse(\.|_)(maximum|minimum).*": (
        "they have gradients; TensorFlow's cannot be built, or not for all"
    ),
    r"tf\.sparse\.(reshape|slice)\(.*|tf\.IndexedSlices.*": "shapes that are given become constants; one less is known",
    r"tf\.losses\..*|tf\.metrics\.mean\(.*weights.*": (
        "shapes that are known to fit are not compared by nodes, and where ranks are not known by fewer"
    ),
    r"tf\.metrics\.(sparse_)?average_precision_at_k.*": (
        "what selects a class, and checks of weights, are made of fewer"
    ),
    r"tf\.math\.reduce_(std|variance)\(Z.*|tf\.assert_rank\(P\(2, 3\), I\(\)\)": (
        "a name, and a message, that 1.15 has not"
    ),
    r"tf\.nondifferentiable_batch_function.*": (
        "the number in its function's name; programs/functions.txt compares everything else"
    ),
    r"tf\.ragged\.(boolean_mask|stack|row_splits_to|segment_ids_to).*": (
        "graphs of ragged tensors are our own; programs/ragged_calls.txt compares what they give"
    ),
    r"R\(.*|1\.0 \+ R.*|tf\.(RaggedTensor\.|strings\.(bytes_split|ngrams|split|unicode_\w+)\(|string_split\().*": (
        "graphs of ragged tensors are our own; programs/ragged.txt and strings.txt compare what they give"
    ),
}

NO_NODES: list[str] = """
    tf.NoGradient tf.add_to_collection tf.add_to_collections tf.all_variables tf.as_dtype
    tf.assert_proper_iterable tf.colocate_with tf.container tf.control_dependencies tf.control_flow_v2_enabled
    tf.debugging.get_log_device_placement tf.debugging.set_log_device_placement tf.device tf.dimension_at_index
    tf.dimension_value tf.disable_control_flow_v2 tf.disable_resource_variables tf.disable_v2_behavior
    tf.disable_v2_tensorshape
    tf.enable_control_flow_v2 tf.enable_eager_execution tf.enable_resource_variables tf.enable_v2_behavior
    tf.executing_eagerly
    tf.get_collection tf.get_collection_ref tf.get_default_graph tf.get_default_session tf.get_logger
    tf.get_seed tf.get_variable_scope tf.global_variables tf.import_graph_def tf.init_scope
    tf.install_as_tensorflow tf.io.decode_proto tf.io.encode_proto tf.io.tf_record_iterator tf.io.write_graph
    tf.load_ipython_extension tf.local_variables tf.make_ndarray tf.make_template tf.make_tensor_proto
    tf.min_max_variable_partitioner tf.model_variables tf.moving_average_variables tf.nn.raw_rnn
    tf.nn.static_state_saving_rnn tf.no_regularizer tf.op_scope tf.quantized_concat tf.ragged.constant_value
    tf.register_tensor_conversion_function tf.reset_default_graph tf.resource_variables_enabled
    tf.set_random_seed tf.summary.all_v2_summary_ops tf.summary.get_summary_description tf.summary.initialize
    tf.train.MonitoredTrainingSession tf.train.NewCheckpointReader tf.train.add_queue_runner
    tf.train.assert_global_step tf.train.basic_train_loop tf.train.checkpoint_exists
    tf.train.checkpoints_iterator tf.train.do_quantize_training_on_graphdef tf.train.export_meta_graph
    tf.train.generate_checkpoint_state_proto tf.train.get_checkpoint_mtimes tf.train.get_checkpoint_state
    tf.train.global_step tf.train.import_meta_graph tf.train.init_from_checkpoint tf.train.latest_checkpoint
    tf.train.list_variables tf.train.load_checkpoint tf.train.load_variable tf.train.remove_checkpoint
    tf.train.replica_device_setter tf.train.start_queue_runners tf.train.summary_iterator
    tf.train.update_checkpoint_state tf.train.warm_start tf.variable_axis_size_partitioner
    tf.variable_creator_scope tf.variable_op_scope
""".split()
"""Those that add no nodes; scopes and what takes a graph, a file or a session; three of networks' loops, messages and
quantized tensors that programs/ has."""
