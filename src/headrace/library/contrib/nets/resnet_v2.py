"""Residual networks, activated before each unit: `tf.contrib.slim.nets.resnet_v2`.

Called by: programs.  Threads: as graph.
Source: K. He et al., Identity mappings in deep residual networks, 2016; scopes and defaults:
behaviour of TF 1.15's contrib; tests compare with tf-slim's
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from headrace.graph.tensor import Tensor
from headrace.library.contrib.arg_scope import add_arg_scope
from headrace.library.contrib.batch_norm import batch_norm
from headrace.library.contrib.convolutions import conv2d
from headrace.library.contrib.layer_utils import collect_named_outputs, last_dimension
from headrace.library.contrib.nets.resnet_utils import (
    Block,
    Resnet,
    block_of,
    conv2d_same,
    linear,
    of_layers,
    resnet_arg_scope,
    subsample,
)
from headrace.library.variables.variable_scope import variable_scope
from headrace.ops.nn.activations import relu

__all__ = [
    "bottleneck",
    "resnet_arg_scope",
    "resnet_v2",
    "resnet_v2_50",
    "resnet_v2_101",
    "resnet_v2_152",
    "resnet_v2_200",
    "resnet_v2_block",
]


@add_arg_scope
def bottleneck(
    inputs: Any,
    depth: int,
    depth_bottleneck: int,
    stride: int,
    rate: int = 1,
    outputs_collections: Any = None,
    scope: Any = None,
) -> Any:
    """Three layers of what is normalized and activated, and a shortcut beside them.

    inputs [n, h, w, c]: [n, h', w', depth].  rate: how far apart the places are that the middle layer looks at.
    """
    with variable_scope(scope, "bottleneck_v2", [inputs]) as inner:
        net = batch_norm(inputs, activation_fn=relu, scope="preact")
        if last_dimension(inputs.get_shape(), min_rank=4) == depth:
            shortcut = subsample(inputs, stride, "shortcut")
        else:
            shortcut = linear(net, depth, [1, 1], stride=stride, scope="shortcut")
        net = conv2d(net, depth_bottleneck, [1, 1], stride=1, scope="conv1")
        net = conv2d_same(net, depth_bottleneck, 3, stride, rate=rate, scope="conv2")
        outputs = shortcut + linear(net, depth, [1, 1], stride=1, scope="conv3")
        return collect_named_outputs(outputs_collections, inner.name, outputs)


def resnet_v2(
    inputs: Any,
    blocks: Sequence[Block],
    num_classes: int | None = None,
    is_training: Any = True,
    global_pool: bool = True,
    output_stride: int | None = None,
    include_root_block: bool = True,
    reuse: Any = None,
    scope: Any = None,
) -> tuple[Tensor, dict[str, Any]]:
    """Logits [n, 1, 1, num_classes] of images [n, h, w, c], and the outputs of every layer by name.

    To be called within `arg_scope(resnet_arg_scope())`.  num_classes: None leaves the last layer out.  global_pool: the
    mean over each image, else every place has logits.  output_stride: how much smaller the outputs of the blocks are
    at most.  Raises ValueError: output_stride.
    """
    made = Resnet(num_classes, is_training, global_pool, output_stride, include_root_block)
    return made.built(inputs, blocks, (scope, "resnet_v2", reuse), bottleneck, activated_first=True)


resnet_v2.default_image_size = 224  # type: ignore[attr-defined]


def resnet_v2_block(scope: str, base_depth: int, num_units: int, stride: int) -> Block:
    """Units of 4 * base_depth outputs, of which the last has the stride."""
    return block_of(bottleneck, scope, base_depth, num_units, stride)


resnet_v2_50, resnet_v2_101, resnet_v2_152, resnet_v2_200 = [
    of_layers(resnet_v2, resnet_v2_block, layers) for layers in (50, 101, 152, 200)
]
