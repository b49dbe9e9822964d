"""tf.layers as objects: a layer makes its variables when it is first called, and uses them again after that.

Called by: programs.  Threads: as graph.
Source: TF 1.15 behaviour of tf.layers.Dense and its kin
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from typing import Any, ClassVar

from headrace.graph.tensor import Tensor
from headrace.library.layers import convolutions as image_layers
from headrace.library.layers import dense as layers
from headrace.library.layers import normalization as norm_layers
from headrace.library.layers import pooling as pooling_layers
from headrace.library.layers.input_spec import check_inputs
from headrace.library.tracking.trackable import Trackable
from headrace.library.variables.variable_scope import get_variable_scope, unique_variable_scope

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


class Layer(Trackable):
    """A function of tf.layers with its arguments but the inputs; `layer(inputs)` calls it."""

    _function: ClassVar[Callable[..., Tensor]]

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        """Takes what the function takes after its inputs.  Raises TypeError for anything else."""
        bound = inspect.signature(type(self)._function).bind(None, *args, **kwargs)
        self._arguments = {k: v for k, v in bound.arguments.items() if k != "inputs"}
        self._variables: dict[str, Any] = {}
        self._scope: str | None = None
        self.built = False
        self.input_spec: Any = None
        """An InputSpec, or one for each input: what calls check."""

    def __call__(self, inputs: Any, **more: Any) -> Tensor:
        """more: arguments for this call, such as `training`.

        Raises ValueError if the inputs do not fit `input_spec`, or the variables that an earlier call made.
        """
        check_inputs(self.input_spec, inputs, self._scope or type(self).__name__)
        getter = self._found if self.built else self._made
        if self._scope is not None:
            more.setdefault("name", self._scope)
        elif self._arguments.get("name") and not self._arguments.get("reuse"):
            more.setdefault("name", unique_variable_scope(self._arguments["name"]))
        scope = get_variable_scope()
        outer = scope.custom_getter
        scope.set_custom_getter(functools.partial(getter, outer))
        try:
            outputs = type(self)._function(inputs, **{**self._arguments, **more})
        finally:
            scope.set_custom_getter(outer)
        self.built = True
        return outputs

    apply = __call__

    def _made(
        self, outer: Any, getter: Callable[..., Any], name: str, *args: Any, **kwargs: Any
    ) -> Any:
        if outer is not None:  # the scope's own
            getter = functools.partial(outer, getter)
        scope, _, last = name.rpartition("/")
        self._scope = scope.rpartition("/")[2]
        return self._kept(self._variables.setdefault(last, getter(name, *args, **kwargs)), last)

    def _kept(self, variable: Any, name: str) -> Any:
        """`variable`, as part of the layer in object-based checkpoints, unless it is a partitioned one."""
        if isinstance(variable, Trackable):
            self._track_trackable(variable, name, overwrite=True)
        return variable

    def _found(self, _: Any, getter: Callable[..., Any], name: str, **kwargs: Any) -> Any:
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

    @property
    def variables(self) -> list[Any]:
        """Those of the layer, in the order in which they were made; none before the first call."""
        return list(self._variables.values())

    weights = variables

    @property
    def trainable_variables(self) -> list[Any]:
        """Those of `variables` that optimizers change."""
        return [variable for variable in self.variables if variable.trainable]

    trainable_weights = trainable_variables

    def __getattr__(self, name: str) -> Any:
        """A variable by the last part of its name: kernel, bias, gamma, …"""
        try:
            return self.__dict__["_variables"][name]
        except KeyError:
            raise AttributeError(
                f"{type(self).__name__} has no {name!r}; variables are there after the first call"
            ) from None


def _class(name: str, function: Callable[..., Tensor]) -> type[Layer]:
    says = f"`{function.__name__}` as an object: takes its arguments after `inputs`."
    return type(name, (Layer,), {"__doc__": says, "_function": staticmethod(function)})


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
