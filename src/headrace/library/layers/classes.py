"""tf.layers as objects: a layer makes its variables when it is first called, and uses them again after that.

Called by: programs.  Threads: as graph.
Source: TF 1.15 behaviour of tf.layers.Dense and its kin
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from typing import Any, ClassVar

from headrace.graph import scopes
from headrace.graph.collections import GraphKeys
from headrace.graph.tensor import Tensor
from headrace.library.layers import convolutions as image_layers
from headrace.library.layers import dense as layers
from headrace.library.layers import normalization as norm_layers
from headrace.library.layers import pooling as pooling_layers
from headrace.library.layers.base import Entered, Layer

__all__ = [
    "AveragePooling1D",
    "AveragePooling2D",
    "AveragePooling3D",
    "BatchNormalization",
    "Conv1D",
    "Conv2D",
    "Conv2DTranspose",
    "Conv3D",
    "Conv3DTranspose",
    "Dense",
    "Dropout",
    "Flatten",
    "Layer",
    "MaxPooling1D",
    "MaxPooling2D",
    "MaxPooling3D",
    "SeparableConv1D",
    "SeparableConv2D",
]


_KEPT = (GraphKeys.UPDATE_OPS, GraphKeys.REGULARIZATION_LOSSES)


class _OfFunction(Layer):
    """A function of tf.layers with its arguments but the inputs."""

    _function: ClassVar[Callable[..., Tensor]]

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        """Takes what the function takes after its inputs.  Raises TypeError for anything else."""
        bound = inspect.signature(type(self)._function).bind(None, *args, **kwargs)
        self._arguments = {k: v for k, v in bound.arguments.items() if k != "inputs"}
        self._reuse = self._arguments.get("reuse")
        self._activity_regularizer = None  # the function's own
        self._begin(self._arguments.get("name"), self._arguments.get("trainable", True), None)

    def call(self, inputs: Any, *args: Any, **kwargs: Any) -> Any:
        """What the function gives.  kwargs: arguments for this call, such as `training`."""
        if args:
            known = list(inspect.signature(type(self)._function).parameters)
            kwargs = {**dict(zip(known[-len(args) :], args, strict=True)), **kwargs}
        graph = scopes.get_default_graph()
        before = [graph.get_collection(key) for key in _KEPT]
        name = Entered(self.name)
        outputs = type(self)._function(inputs, **{**self._arguments, **kwargs, "name": name})
        new = [
            [each for each in graph.get_collection(key) if not any(each is old for old in there)]
            for key, there in zip(_KEPT, before, strict=True)
        ]
        self._updates, self._losses = [*self._updates, *new[0]], [*self._losses, *new[1]]
        return outputs

    def _build(self, inputs: Any, given: Sequence[Tensor]) -> None:
        """The function makes the variables."""
        if given:
            self._dtype = given[0].dtype.base_dtype

    def _getter(self) -> Callable[..., Any]:
        return self._found if self.built else self._made

    def _made(self, getter: Callable[..., Any], name: str, *args: Any, **kwargs: Any) -> Any:
        last = name.rpartition("/")[2]
        return self._kept(self._variables.setdefault(last, getter(name, *args, **kwargs)), last)

    def _found(self, _: Any, name: str, **kwargs: Any) -> Any:
        variable = self._variables[name.rpartition("/")[2]]
        wanted = kwargs.get("shape")
        if wanted is not None and not variable.shape.is_compatible_with(wanted):
            raise ValueError(
                f"Input 0 of layer {type(self).__name__} is incompatible with the layer: "
                f"its variable {variable.op.name} has shape {variable.shape}, and these inputs want {wanted}"
            )
        return variable

    def argument(self, name: str) -> Any:
        """What the function is called with for `name`, its default if nothing was given."""
        known = inspect.signature(type(self)._function).parameters
        return self._arguments.get(name, known[name].default)

    def __getattr__(self, name: str) -> Any:
        """A variable by the last part of its name: kernel, bias, gamma, …"""
        try:
            return self.__dict__["_variables"][name]
        except KeyError:
            raise AttributeError(
                f"{type(self).__name__} has no {name!r}; variables are there after the first call"
            ) from None


def _class(name: str, function: Callable[..., Tensor]) -> type[_OfFunction]:
    says = f"`{function.__name__}` as an object: takes its arguments after `inputs`."
    return type(name, (_OfFunction,), {"__doc__": says, "_function": staticmethod(function)})


AveragePooling1D = _class("AveragePooling1D", pooling_layers.average_pooling1d)
AveragePooling2D = _class("AveragePooling2D", pooling_layers.average_pooling2d)
AveragePooling3D = _class("AveragePooling3D", pooling_layers.average_pooling3d)
BatchNormalization = _class("BatchNormalization", norm_layers.batch_normalization)
Conv1D = _class("Conv1D", image_layers.conv1d)
Conv2D = _class("Conv2D", image_layers.conv2d)
Conv2DTranspose = _class("Conv2DTranspose", image_layers.conv2d_transpose)
Conv3D = _class("Conv3D", image_layers.conv3d)
Conv3DTranspose = _class("Conv3DTranspose", image_layers.conv3d_transpose)
Dense = _class("Dense", layers.dense)
Dropout = _class("Dropout", layers.dropout)
Flatten = _class("Flatten", layers.flatten)
MaxPooling1D = _class("MaxPooling1D", pooling_layers.max_pooling1d)
MaxPooling2D = _class("MaxPooling2D", pooling_layers.max_pooling2d)
MaxPooling3D = _class("MaxPooling3D", pooling_layers.max_pooling3d)
SeparableConv1D = _class("SeparableConv1D", image_layers.separable_conv1d)
SeparableConv2D = _class("SeparableConv2D", image_layers.separable_conv2d)
