"""What residual networks are made of: `tf.contrib.slim.nets.resnet_utils`.

Called by: library.contrib.nets, programs.  Threads: as graph.
Source: K. He et al., Deep residual learning for image recognition, 2015; L.-C. Chen et al., DeepLab, 2016 (rates in the
place of strides); scopes and defaults: behaviour of TF 1.15's contrib; tests compare with tf-slim's
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from headrace.graph.collections import GraphKeys
from headrace.graph.tensor import Tensor
from headrace.library.contrib.arg_scope import add_arg_scope, arg_scope
from headrace.library.contrib.batch_norm import batch_norm
from headrace.library.contrib.convolutions import conv2d
from headrace.library.contrib.initializers import variance_scaling_initializer
from headrace.library.contrib.layer_utils import collect_named_outputs, convert_collection_to_dict
from headrace.library.contrib.pooling import max_pool2d
from headrace.library.contrib.regularizers import l2_regularizer
from headrace.library.contrib.shaping import softmax
from headrace.library.variables.variable_scope import variable_scope
from headrace.ops.array.padding import pad
from headrace.ops.math.reductions import reduce_mean
from headrace.ops.nn.activations import relu

__all__ = ["Block", "conv2d_same", "resnet_arg_scope", "stack_blocks_dense", "subsample"]

UNITS = {50: (3, 4, 6, 3), 101: (3, 4, 23, 3), 152: (3, 8, 36, 3), 200: (3, 24, 36, 3)}
"""Of each of the four blocks, by the number of layers."""


class Block(NamedTuple):
    """Units in a row: unit_fn is called with each of `args`, a dict of its arguments."""

    scope: str
    unit_fn: Callable[..., Any]
    args: Sequence[Mapping[str, Any]]


def subsample(inputs: Any, factor: int, scope: Any = None) -> Any:
    """Every factor-th row and column of [n, h, w, c]."""
    return inputs if factor == 1 else max_pool2d(inputs, [1, 1], stride=factor, scope=scope)


def conv2d_same(
    inputs: Any, num_outputs: int, kernel_size: int, stride: int, rate: int = 1, scope: Any = None
) -> Any:
    """A convolution whose outputs with a stride are every stride-th of those without, for images of any size."""
    if stride == 1:
        return conv2d(
            inputs, num_outputs, kernel_size, stride=1, rate=rate, padding="SAME", scope=scope
        )
    more = (kernel_size - 1) * rate
    sides = [more // 2, more - more // 2]
    padded = pad(inputs, [[0, 0], sides, sides, [0, 0]])
    return conv2d(
        padded, num_outputs, kernel_size, stride=stride, rate=rate, padding="VALID", scope=scope
    )


@add_arg_scope
def stack_blocks_dense(
    net: Any,
    blocks: Sequence[Block],
    output_stride: float | None = None,
    outputs_collections: Any = None,
) -> Any:
    """The blocks, one after the other, in scopes SCOPE/unit_1, …

    output_stride: from where on strides are rates, so that outputs stay as large.  Raises ValueError: there is no
    place where it is reached.
    """
    says = "The target output_stride cannot be reached."
    stride, rate = 1, 1
    for block in blocks:
        with variable_scope(block.scope, "block", [net]) as inner:
            for number, unit in enumerate(block.args, 1):
                if output_stride is not None and stride > output_stride:
                    raise ValueError(f"{says} It is {output_stride}, and strides come to {stride}")
                step = unit.get("stride", 1)
                with variable_scope(f"unit_{number}", values=[net]):
                    if stride == output_stride:
                        net = block.unit_fn(net, rate=rate, **{**unit, "stride": 1})
                        rate *= step
                    else:
                        net = block.unit_fn(net, rate=1, **unit)
                        stride *= step
            net = collect_named_outputs(outputs_collections, inner.name, net)
    if output_stride is not None and stride != output_stride:
        raise ValueError(f"{says} It is {output_stride}, and all strides come to {stride}")
    return net


def resnet_arg_scope(
    weight_decay: float = 0.0001,
    batch_norm_decay: float = 0.997,
    batch_norm_epsilon: float = 1e-5,
    batch_norm_scale: bool = True,
) -> Any:
    """A scope of arguments for `arg_scope`: penalties, normalization and padding of residual networks."""
    how = {
        "decay": batch_norm_decay,
        "epsilon": batch_norm_epsilon,
        "scale": batch_norm_scale,
        "updates_collections": GraphKeys.UPDATE_OPS,
    }
    with (
        arg_scope(
            [conv2d],
            weights_regularizer=l2_regularizer(weight_decay),
            weights_initializer=variance_scaling_initializer(),
            activation_fn=relu,
            normalizer_fn=batch_norm,
            normalizer_params=how,
        ),
        arg_scope([batch_norm], **how),
        arg_scope([max_pool2d], padding="SAME") as found,
    ):
        return found


class Resnet(NamedTuple):
    """What is built around blocks."""

    num_classes: int | None
    is_training: Any
    global_pool: bool
    output_stride: int | None
    include_root_block: bool

    def built(
        self,
        inputs: Any,
        blocks: Sequence[Block],
        scope: tuple[Any, str, Any],
        unit: Any,
        activated_first: bool,
    ) -> tuple[Tensor, dict[str, Any]]:
        """Outputs, and those of every layer by name.

        scope: its name, the usual one, and whether to reuse.  activated_first: units begin with their activations.
        Raises ValueError: output_stride.
        """
        name, usual, reuse = scope
        with variable_scope(name, usual, [inputs], reuse=reuse) as inner:
            kept = f"{inner.name}_end_points"
            with (
                arg_scope([conv2d, unit, stack_blocks_dense], outputs_collections=kept),
                arg_scope([batch_norm], is_training=self.is_training),
            ):
                net, stride = inputs, self.output_stride
                if self.include_root_block:
                    if stride is not None:
                        if stride % 4:
                            raise ValueError(
                                f"The output_stride needs to be a multiple of 4. It is {stride}"
                            )
                        stride //= 4
                    net = _root(net, activated_first)
                net = stack_blocks_dense(net, blocks, stride)
                if activated_first:
                    net = batch_norm(net, activation_fn=relu, scope="postnorm")
                if self.global_pool:
                    net = reduce_mean(net, [1, 2], name="pool5", keepdims=True)
                if self.num_classes is not None:
                    net = linear(net, self.num_classes, [1, 1], scope="logits")
                ends = convert_collection_to_dict(kept)
                if self.num_classes is not None:
                    ends["predictions"] = softmax(net, scope="predictions")
                return net, ends


def linear(*args: Any, **kwargs: Any) -> Any:
    """`conv2d` that is neither normalized nor activated."""
    return conv2d(*args, activation_fn=None, normalizer_fn=None, **kwargs)


def _root(net: Any, activated_first: bool) -> Any:
    if activated_first:
        with arg_scope([conv2d], activation_fn=None, normalizer_fn=None):
            net = conv2d_same(net, 64, 7, stride=2, scope="conv1")
    else:
        net = conv2d_same(net, 64, 7, stride=2, scope="conv1")
    return max_pool2d(net, [3, 3], stride=2, scope="pool1")


def blocks_of(layers: int, block: Callable[..., Block]) -> list[Block]:
    """The four blocks of a network of so many layers."""
    strides = (2, 2, 2, 1)
    return [
        block(f"block{at + 1}", base_depth=64 << at, num_units=units, stride=strides[at])
        for at, units in enumerate(UNITS[layers])
    ]


def block_of(unit: Any, scope: str, base_depth: int, num_units: int, stride: int) -> Block:
    """Units of which the last has the stride."""
    usual = {"depth": base_depth * 4, "depth_bottleneck": base_depth}
    strides = [*[1] * (num_units - 1), stride]
    return Block(scope, unit, [{**usual, "stride": each} for each in strides])


def of_layers(resnet: Any, block: Callable[..., Block], layers: int) -> Any:
    """Of `resnet`, which builds a network of blocks, the function that builds the one of so many layers."""

    def network(
        inputs: Any,
        num_classes: int | None = None,
        is_training: Any = True,
        global_pool: bool = True,
        output_stride: int | None = None,
        reuse: Any = None,
        scope: Any = f"{resnet.__name__}_{layers}",
    ) -> tuple[Tensor, dict[str, Any]]:
        return resnet(  # type: ignore[no-any-return]
            inputs,
            blocks_of(layers, block),
            num_classes,
            is_training,
            global_pool,
            output_stride,
            include_root_block=True,
            reuse=reuse,
            scope=scope,
        )

    network.__name__ = network.__qualname__ = f"{resnet.__name__}_{layers}"
    network.__module__ = resnet.__module__
    network.__doc__ = f"`{resnet.__name__}` of {layers} layers."
    network.default_image_size = 224  # type: ignore[attr-defined]
    return network
