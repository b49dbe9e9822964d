"""The vocabulary, in families: each op one block in a file of its family.

Importing this package registers the ops of which most programs are made; the others come when one of them is asked
for (`headrace.graph.registry.Registry`), so that a GraphDef from elsewhere can name any of them.  Files import what
they need from each other; a new file is added to the row of its family in one of the two tables below.
"""

from __future__ import annotations

from importlib import import_module

from headrace.graph.registry import OPS

FAMILIES = {
    "array": (
        "broadcast constants gathering indexing joining one_hot packing padding "
        "partitioning permutations placeholders ragged_dispatch ranges shapes slicing space_batch tensor_scatter unique"
    ),
    "data": "accumulators queue_ops queues",
    "flow": (
        "asserts checks control_flow identities primitives printing py_functions sendrecv "
        "stacks tensor_array tensor_array_ops"
    ),
    "image": "codecs",
    "io": ("checkpoints csv examples files readers record_files serializing summaries summary_ops"),
    "linalg": "bands diagonals einsum products",
    "math": (
        "arithmetic bitwise broadcasting casting clipping comparisons elementwise magnitudes "
        "reduction_gradients reductions scans segments special sums zero_products"
    ),
    "nn": (
        "activations basics batch_norm bias convolution convolution_calls "
        "depthwise fused over_space pooling pooling_calls softmax"
    ),
    "random": "draws",
    "sparse": "dense maps order segments",
    "state": "awaiting references resource_scatter resources session_handles",
    "string": "byte_strings regular_expressions splitting strings",
    "training": "adaptive descent proximal update_rules",
}
"""Files that are imported with the package, by family."""

ON_DEMAND = {
    "array": (
        "formats in_place parallel_concat ragged ragged_calls ragged_joining ragged_ops ragged_reductions "
        "ragged_segments ragged_shaping ragged_taking ragged_variants rolling searching"
    ),
    "data": (
        "barriers dataset_batches dataset_choices dataset_csv dataset_examples dataset_files dataset_functions "
        "dataset_groups dataset_ops dataset_shared dataset_sources dataset_stats dataset_writers iterator_ops "
        "optionals staging tensor_list_arrays tensor_list_calls tensor_lists"
    ),
    "flow": "batch_functions functional functional_cond functional_while markers step_calls",
    "io": "messages record_input summary_writers vocabularies",
    "image": "boxes colors patches proposals resizing sampling suppression",
    "audio": "spectrograms wav",
    "quantization": "arithmetic fake fused images narrowing norms per_channel ranges",
    "nn": (
        "beams candidates ctc fractional_pooling gated_recurrent morphology older_norms pooling_by_inputs recurrent "
        "response_norm unigrams"
    ),
    "linalg": "decompositions functions solving tridiagonal",
    "math": "incomplete order_statistics",
    "random": "gamma stateless",
    "signal": "fourier",
    "sparse": "calls crosses cutting edit_distances reductions set_ops",
    "state": "mutexes tables temporary",
    "string": "fingerprints hashes ngrams ragged_strings unicode",
}
"""Files that few programs need, by family: imported when a public name of theirs is used, or an op that is not here."""


def _imported(table: dict[str, str]) -> None:
    for family, files in table.items():
        for file in files.split():
            import_module(f"{__name__}.{family}.{file}")


def _rest() -> None:
    _imported(ON_DEMAND)


_imported(FAMILIES)
OPS.rest = _rest
