"""Networks of small filters: `tf.contrib.slim.nets.vgg`.

Called by: programs.  Threads: as graph.
Source: K. Simonyan and A. Zisserman, Very deep convolutional networks for large-scale image recognition, 2014; scopes
and defaults: behaviour of TF 1.15's contrib; tests compare with tf-slim's
"""

from __future__ import annotations

from typing import Any

from headrace.graph.tensor import Tensor
from headrace.library.contrib.arg_scope import arg_scope
from headrace.library.contrib.convolutions import conv2d
from headrace.library.contrib.dense import fully_connected, repeat
from headrace.library.contrib.layer_utils import convert_collection_to_dict
from headrace.library.contrib.pooling import max_pool2d
from headrace.library.contrib.regularizers import l2_regularizer
from headrace.library.contrib.shaping import dropout
from headrace.library.variables.initializers import zeros_initializer
from headrace.library.variables.variable_scope import variable_scope
from headrace.ops.array.shapes import squeeze
from headrace.ops.nn.activations import relu

__all__ = ["vgg_16", "vgg_19", "vgg_a", "vgg_arg_scope", "vgg_d", "vgg_e"]

_DEPTHS = (64, 128, 256, 512, 512)


def vgg_arg_scope(weight_decay: float = 0.0005) -> Any:
    """A scope of arguments for `arg_scope`: penalties, activations and padding of these networks."""
    with (
        arg_scope(
            [conv2d, fully_connected],
            activation_fn=relu,
            weights_regularizer=l2_regularizer(weight_decay),
            biases_initializer=zeros_initializer(),
        ),
        arg_scope([conv2d], padding="SAME") as found,
    ):
        return found


def _network(name: str, repetitions: tuple[int, ...], says: str) -> Any:
    def network(
        inputs: Any,
        num_classes: int = 1000,
        is_training: Any = True,
        dropout_keep_prob: float = 0.5,
        spatial_squeeze: bool = True,
        scope: Any = name,
    ) -> tuple[Tensor, dict[str, Any]]:
        with variable_scope(scope, name, [inputs]) as inner:
            kept = f"{inner.name}_end_points"
            with arg_scope([conv2d, fully_connected, max_pool2d], outputs_collections=kept):
                net = inputs
                for at, (depth, times) in enumerate(zip(_DEPTHS, repetitions, strict=True), 1):
                    net = repeat(net, times, conv2d, depth, [3, 3], scope=f"conv{at}")
                    net = max_pool2d(net, [2, 2], scope=f"pool{at}")
                for at, window in ((6, [7, 7]), (7, [1, 1])):
                    padding = {"padding": "VALID"} if at == 6 else {}
                    net = conv2d(net, 4096, window, scope=f"fc{at}", **padding)
                    net = dropout(
                        net, dropout_keep_prob, is_training=is_training, scope=f"dropout{at}"
                    )
                net = conv2d(
                    net, num_classes, [1, 1], activation_fn=None, normalizer_fn=None, scope="fc8"
                )
                ends = convert_collection_to_dict(kept)
                if spatial_squeeze:
                    net = squeeze(net, [1, 2], name="fc8/squeezed")
                    ends[f"{inner.name}/fc8"] = net
                return net, ends

    network.__name__ = network.__qualname__ = name
    network.__doc__ = f"""{says}: logits [n, num_classes] of images [n, 224, 224, 3], and outputs by name.

    spatial_squeeze: without it logits are [n, h, w, num_classes], for larger images, too.
    """
    network.default_image_size = 224  # type: ignore[attr-defined]
    return network


vgg_a = _network("vgg_a", (1, 1, 2, 2, 2), "Eleven layers")
vgg_16 = vgg_d = _network("vgg_16", (2, 2, 3, 3, 3), "Sixteen layers")
vgg_19 = vgg_e = _network("vgg_19", (2, 2, 4, 4, 4), "Nineteen layers")
