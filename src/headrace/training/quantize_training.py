"""tf.train.do_quantize_training_on_graphdef, which TensorFlow has only where it was built with its contrib.

Called by: programs.  Threads: any.
"""

from __future__ import annotations

from typing import Any, NoReturn

from headrace.base import errors

__all__ = ["do_quantize_training_on_graphdef"]


def do_quantize_training_on_graphdef(input_graph: Any, num_bits: int) -> NoReturn:
    """Raises UnimplementedError: graphs are not rewritten for training with fewer bits."""
    nodes = len(input_graph.node) if hasattr(input_graph, "node") else 0
    raise errors.unimplemented(
        f"headrace does not rewrite graphs (this one has {nodes} nodes) for training with {num_bits} bits: put "
        "tf.quantization.fake_quant_with_min_max_vars where weights and activations are to be rounded, in the program"
    )
