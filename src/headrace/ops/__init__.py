"""The vocabulary, in families: each op one block in a file of its family.

Importing this package registers every op, so that a GraphDef from elsewhere can name any of them.  Files import what
they need from each other; a new file is added to the row of its family below.
"""

from __future__ import annotations

from importlib import import_module

FAMILIES = {
    "array": (
        "broadcast constants gathering joining one_hot packing padding parallel_concat "
        "partitioning placeholders ranges shapes slicing space_batch tensor_scatter unique"
    ),
    "data": "accumulators barriers queue_ops queues staging",
    "flow": (
        "asserts checks control_flow identities primitives printing py_functions sendrecv "
        "stacks tensor_array tensor_array_ops"
    ),
    "image": "codecs",
    "io": (
        "checkpoints csv examples files readers record_files record_input serializing summaries "
        "summary_ops"
    ),
    "linalg": "bands decompositions diagonals einsum products",
    "math": (
        "arithmetic bitwise broadcasting casting clipping comparisons elementwise "
        "reduction_gradients reductions scans segments special sums"
    ),
    "nn": (
        "activations basics batch_norm bias candidates convolution convolution_calls "
        "depthwise fused over_space pooling pooling_calls response_norm softmax"
    ),
    "random": "draws",
    "sparse": "dense maps order segments",
    "state": "awaiting references resource_scatter resources session_handles temporary",
    "string": "byte_strings regular_expressions splitting strings",
    "training": "adaptive descent proximal update_rules",
}
"""Every family, and its files."""

for _family, _files in FAMILIES.items():
    for _file in _files.split():
        import_module(f"{__name__}.{_family}.{_file}")
