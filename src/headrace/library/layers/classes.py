"""tf.layers as objects: a layer makes its variables when it is first called, and uses them again after that.

Called by: programs.  Threads: as graph.
Source: TF 1.15 behaviour of tf.layers.Dense and its kin
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from typing import Any, ClassVar

from headrace.base import dtypes, nest
from headrace.base.shapes import TensorShape
from headrace.graph import scopes
from headrace.graph.collections import GraphKeys
from headrace.graph.tensor import Tensor
from headrace.library.layers import convolutions as image_layers
from headrace.library.layers import dense as layers
from headrace.library.layers import normalization as norm_layers
from headrace.library.layers import pooling as pooling_layers
from headrace.library.layers.base import Entered, Layer, depends_on, layer_variable, uncut
from headrace.library.layers.parameters import for_each
from headrace.library.layers.trial import Wanted, tried
from headrace.library.variables.partitioned import PartitionedVariable

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
        """Takes what the function takes after its inputs, and `_reuse` and `_scope` as a Layer.

        Raises TypeError for anything else.
        """
        reuse, scope = kwargs.pop("_reuse", None), kwargs.pop("_scope", None)
        bound = inspect.signature(type(self)._function).bind(None, *args, **kwargs)
        self._arguments = {k: v for k, v in bound.arguments.items() if k != "inputs"}
        self._reuse = self._arguments.get("reuse") if reuse is None else reuse
        self._activity_regularizer = None  # the function's own
        self._built_apart = False  # the variables were made, and regularized, by `build`
        self._begin(self._arguments.get("name"), self._arguments.get("trainable", True), None)
        self._enter_first(scope)

    def call(self, inputs: Any, *args: Any, **kwargs: Any) -> Any:
        """What the function gives.  kwargs: arguments for this call, such as `training`."""
        if args:
            known = list(inspect.signature(type(self)._function).parameters)
            kwargs = {**dict(zip(known[-len(args) :], args, strict=True)), **kwargs}
        graph = scopes.get_default_graph()
        before = [graph.get_collection(key) for key in _KEPT]
        name = Entered(self.name)
        given = {**self._arguments, **kwargs, "name": name}
        if self._built_apart:
            given.update(dict.fromkeys(filter(_of_variable, given)))
        outputs = type(self)._function(inputs, **given)
        new = [
            [each for each in graph.get_collection(key) if not any(each is old for old in there)]
            for key, there in zip(_KEPT, before, strict=True)
        ]
        self._updates, self._losses = [*self._updates, *new[0]], [*self._losses, *new[1]]
        apart = [each for each in new[1] if not depends_on(each, nest.flatten(inputs))]
        self._apart = [*self._apart, *apart]
        return outputs

    def build(self, input_shape: Any) -> None:
        """Make the variables for inputs of that shape, before the first call or in a subclass's `build`.

        A subclass may make some of them by itself, or have another tensor as its attribute of that name: that is what
        the layer computes with.  Raises ValueError, TypeError for inputs that the layer does not take.
        """
        self._find_scope(None)
        wanted, _ = self._tried(input_shape)
        with self._entered(self._made):
            for each in wanted:
                with uncut() if each.whole else nullcontext():
                    _, losses = layer_variable(*each[:5])
                self._keep_losses(losses)
        self._built_apart = self.built = True

    def compute_output_shape(self, input_shape: Any) -> TensorShape:
        """That of what the layer makes of inputs of that shape.  Raises as `build`."""
        return self._tried(input_shape)[1]

    def _tried(self, shape: Any) -> tuple[list[Wanted], TensorShape]:
        kind = self._dtype or dtypes.float32
        return tried(type(self)._function, self._arguments, shape, kind, self.name)

    def _build(self, inputs: Any, given: Sequence[Tensor]) -> None:
        """The function makes the variables, unless a subclass wants them before."""
        if type(self).build is not _OfFunction.build:
            super()._build(inputs, given)
        elif given:
            self._dtype = given[0].dtype.base_dtype

    def _getter(self) -> Callable[..., Any]:
        return self._found if self.built else self._made

    def _own(self, last: str) -> Any:
        """The tensor or variable under the last part of a variable's name; None."""
        here = self.__dict__.get(last)  # a subclass may have something else of that name
        is_value = hasattr(here, "op") or isinstance(here, PartitionedVariable)
        return here if is_value else self._variables.get(last)

    def _made(self, getter: Callable[..., Any], name: str, *args: Any, **kwargs: Any) -> Any:
        last = name.rpartition("/")[2]
        known = self._own(last)
        if known is not None:
            return known
        return self._kept(self._variables.setdefault(last, getter(name, *args, **kwargs)), last)

    def _found(self, getter: Callable[..., Any], name: str, **kwargs: Any) -> Any:
        variable = self._own(name.rpartition("/")[2])
        if variable is None:
            return self._made(getter, name, **kwargs)
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
        """A variable by the last part of its name (kernel, bias, gamma, …), or an argument of the layer.

        A variable that an argument says it goes without is None, once the others are there.  Sizes of windows and
        their steps are tuples; an activation that was not given is that of `linear`.
        """
        if not name.startswith("_"):
            if name in self._variables:
                return self._variables[name]
            known = inspect.signature(type(self)._function).parameters
            wanted = _WANTED_BY.get(name, "")
            if wanted in known and self.built and not self.argument(wanted):
                return None
            if name == "rank" and "kernel_size" in known:
                return self._spatial()
            if name in known and name != "inputs":
                return self._as_kept(name, self.argument(name))
        raise AttributeError(
            f"{type(self).__name__} has no {name!r}; variables are there after the first call"
        )

    def _as_kept(self, name: str, value: Any) -> Any:
        if name == "activation" and value is None:
            return linear
        return tuple(for_each(value, self._spatial(), name)) if name in _WINDOWS else value

    def _spatial(self) -> int:
        """Dimensions of windows."""
        return next(int(each) for each in type(self)._function.__name__ if each.isdigit())


_WANTED_BY = {"bias": "use_bias", "beta": "center", "gamma": "scale"}
"""Variables that a layer may go without, and the arguments that say so."""
_WINDOWS = frozenset(("dilation_rate", "kernel_size", "pool_size", "strides"))


def linear(x: Any) -> Any:
    """No activation: x."""
    return x


def _of_variable(argument: str) -> bool:
    return argument.endswith("_regularizer") and argument != "activity_regularizer"


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
