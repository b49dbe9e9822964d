"""Defun: a Python function, as a function of the graph that calls it.

The Python function is called once, with placeholders; what it builds is the body.  Tensors of the graph around that it
uses are captured: the call passes them as further arguments.
Called by: programs (`tensorflow.python.framework.function`).  Threads: as graph.
Source: TF 1.15 python/framework/function.py, for behaviour; compared with the oracle
"""

from __future__ import annotations

import base64
import hashlib
import inspect
from collections.abc import Callable, Iterable, Sequence
from contextlib import AbstractContextManager
from typing import Any

from headrace.base import dtypes
from headrace.base.traits import STATEFUL
from headrace.codec import protos as pb
from headrace.graph import scopes
from headrace.graph.build import apply_op
from headrace.graph.convert import convert
from headrace.graph.func_graph import FuncGraph
from headrace.graph.function_def import normalized
from headrace.graph.function_library import Function, Library, called_by_name
from headrace.graph.graph import Graph
from headrace.graph.operation import Operation
from headrace.graph.tensor import Tensor

_ATTRS = {
    "noinline": "_noinline",
    "compiled": "_XlaCompile",
    "separate_compiled_gradients": "_XlaSeparateCompiledGradients",
    "implements": "api_implements",
}
_SHORT = {
    "float16": "f16",
    "float32": "f32",
    "float64": "f64",
    "bfloat16": "bf16",
    "int8": "i8",
    "int16": "i16",
    "int32": "i32",
    "int64": "i64",
    "uint8": "u8",
    "uint16": "u16",
    "uint32": "u32",
    "uint64": "u64",
    "bool": "b",
    "complex64": "c64",
    "complex128": "c128",
    "string": "str",
}
"""How types are written in the name of a function that was made for them."""
_UNINFERRED = "_disable_call_shape_inference"


class Defun:
    """Decorator: ``@Defun(tf.float32, tf.int32)`` makes a Python function of two tensors a function of the graph.

    Without types they are those of each call's arguments.
    func_name: its name in the graph; by default that of the Python function and a hash of what it does.
    grad_func: another such function, of the arguments and the gradients of the results, that gives the gradients of
    the arguments.  python_grad_func: a Python function of the calling operation and the gradients of its outputs.
    out_names: of the results.  shape_func: of the calling operation, gives the static shapes of its outputs.
    noinline and other options are attrs of the function; headrace always puts the body in place of the call.
    """

    def __init__(self, *input_types: Any, **kwargs: Any) -> None:
        """Raises ValueError (options that contradict each other), TypeError."""
        self._types = [dtypes.as_dtype(each) for each in input_types]
        self._func_name = kwargs.pop("func_name", None)
        self._grad_func = kwargs.pop("grad_func", None)
        self._python_grad_func = kwargs.pop("python_grad_func", None)
        self._out_names = kwargs.pop("out_names", None)
        self._extra = kwargs

    def __call__(self, func: Callable[..., Any]) -> DefinedFunction | OverloadedFunction:
        """The function of the graph.  Raises ValueError: types beyond the arguments of `func`."""
        if not callable(func):
            raise ValueError(f"function {func!r} must be callable")
        wanted = _arity(func)
        if self._func_name is not None and not isinstance(self._func_name, str):
            raise ValueError("func_name must be a string")
        if not self._types and wanted[1] != 0:
            if self._grad_func is not None or self._out_names is not None:
                raise ValueError(
                    f"{func!r}: a gradient function or names of results need the types of the arguments; give them to "
                    "Defun"
                )
            return OverloadedFunction(func, self._func_name, self._python_grad_func, **self._extra)
        low, high = wanted
        if len(self._types) < low or (high is not None and len(self._types) > high):
            raise ValueError(
                f"The number of arguments of {func.__name__!r} differs from the number of types given to Defun: it "
                f"takes {low if low == high else f'{low} or more'}, and there are {len(self._types)} types"
            )
        return DefinedFunction(
            func,
            self._types,
            self._func_name,
            self._grad_func,
            self._python_grad_func,
            self._out_names,
            **self._extra,
        )


def _arity(func: Callable[..., Any]) -> tuple[int, int | None]:
    """How many arguments it takes, at least and at most."""
    low, high = 0, 0
    for each in inspect.signature(func).parameters.values():
        if each.kind is each.VAR_POSITIONAL:
            return low, None
        if each.kind in (each.POSITIONAL_ONLY, each.POSITIONAL_OR_KEYWORD):
            low += each.default is each.empty
            high += 1
    return low, high


class _DefunGraph(FuncGraph):
    """The body of one; `tf.set_random_seed` and device scopes of the graph around say nothing in it."""

    functional_flow = False

    def __init__(self, name: str, outer: Graph) -> None:
        super().__init__(name, outer)
        self.seed = None
        self._device_stack = []

    def control_dependencies(
        self, control_inputs: Iterable[Any] | None
    ) -> AbstractContextManager[None]:
        """As a graph's: what is outside is not of this one.  Raises ValueError."""
        return Graph.control_dependencies(self, control_inputs)

    def captures_are_called(self, tensor: Tensor) -> str:
        return "Placeholder"


class DefinedFunction:
    """A Python function as a function of graphs, for arguments of given types; calling it adds a node."""

    def __init__(
        self,
        func: Callable[..., Any],
        input_types: Sequence[dtypes.DType],
        func_name: str | None = None,
        grad_func: DefinedFunction | None = None,
        python_grad_func: Callable[..., Any] | None = None,
        out_names: Sequence[str] | None = None,
        shape_func: Callable[[Operation], Any] | None = None,
        capture_by_value: bool = False,
        **extra: Any,
    ) -> None:
        """See `Defun`."""
        self._func = func
        self.declared_input_types = tuple(input_types)
        self._func_name = func_name
        self._grad_func = grad_func
        self.python_grad_func = python_grad_func
        self._out_names = out_names
        self._shape_func = shape_func
        self._attrs = {**_attrs_of(extra), _UNINFERRED: True}
        self._graph: FuncGraph | None = None
        self._definition: pb.FunctionDef | None = None
        self._function: Function | None = None

    # -- what it is -----------------------------------------------------------------------------

    @property
    def name(self) -> str:
        """In the graph."""
        return self._made().name

    @property
    def definition(self) -> pb.FunctionDef:
        """Its FunctionDef."""
        return self._made().definition

    cached_definition = definition

    @property
    def captured_inputs(self) -> list[Tensor]:
        """What it takes from the graph around, as each call passes it."""
        self._made()
        assert self._graph is not None
        return self._graph.external_captures

    @property
    def stateful_ops(self) -> list[tuple[str, str]]:
        """(name, type) of the nodes of the body that do more than compute."""
        self._made()
        assert self._graph is not None
        return [(op.name, op.type) for op in self._graph.get_operations() if STATEFUL in op.traits]

    @property
    def grad_func_name(self) -> str | None:
        """Of the function that is its gradient."""
        return None if self._grad_func is None else self._grad_func.name

    def set_grad_func(self, grad_func: DefinedFunction) -> None:
        """From now on `grad_func` is its gradient.  Raises AssertionError: it has one."""
        assert not self._grad_func, f"{self.name!r} has a gradient already"
        self._grad_func = grad_func
        if self._function is not None:
            grad_func.add_to_graph(scopes.get_default_graph())
            self._function.gradient = grad_func.name

    def _made(self) -> Function:
        if self._function is None:
            self._function = self._build()
        return self._function

    def _build(self) -> Function:
        outer = scopes.get_default_graph()
        base = self._func_name or str(getattr(self._func, "__name__", "function"))
        graph = self._graph = _DefunGraph(base, outer)
        given = list(inspect.signature(self._func).parameters)
        with graph.as_default():
            arguments = [
                graph.add_argument(dtype, name=given[at] if at < len(given) else f"arg{at}")
                for at, dtype in enumerate(self.declared_input_types)
            ]
            graph.outputs = _results(self._func(*arguments), self._func)
        if self._func_name is not None:
            return graph.to_function(base, output_names=self._out_names, attrs=self._attrs)
        name = f"{_name_of(base)}_{_hash(graph, self._out_names, self._attrs)}"
        known = outer.library.get(name)
        if known is not None:
            return known
        return graph.to_function(name, output_names=self._out_names, attrs=self._attrs)

    # -- in graphs ------------------------------------------------------------------------------

    def add_to_graph(self, graph: Graph) -> None:
        """Put it, and what it calls, into the library of `graph`, if they are not there."""
        function = self._made()
        if graph.library is not function.library:
            closure = function.library.closure([function.name])
            graph.library.add_definitions(function.library.proto(closure))
            for each in closure:
                graph.library.find(each.name).built = each.built
        if self._grad_func is not None:
            self._grad_func.add_to_graph(graph)
        self._note_gradient(graph.library)

    def _note_gradient(self, library: Library) -> None:
        here = library.find(self.name)
        if self._grad_func is not None:
            here.gradient = self._grad_func.name
        here.python_gradient = self.python_grad_func

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Add a node that calls it.

        args: what tensors can be made of, as many as it has types.  name: of the node.
        Returns its output, a tuple of several, the Operation if there is none.  Raises ValueError, TypeError.
        """
        name = kwargs.pop("name", None)
        attrs = {**_attrs_of(kwargs), _UNINFERRED: True}
        graph = scopes.get_default_graph()
        self.add_to_graph(graph)
        given = [convert(value) for value in args]
        if len(args) != len(self.declared_input_types):
            raise ValueError(
                f"Expected {len(self.declared_input_types)} arguments, got {len(args)}: {self.name!r} takes "
                f"{', '.join(each.name for each in self.declared_input_types) or 'none'}"
            )
        spec = graph.library.find(self.name).spec
        tensors = [
            self._argument(value, dtype, arg.name)
            for value, dtype, arg in zip(
                given, self.declared_input_types, spec.inputs, strict=False
            )
        ]
        op = apply_op(spec, (*tensors, *self.captured_inputs), attrs, name or self.name)
        if self._shape_func is not None:
            for tensor, shape in zip(op.outputs, self._shape_func(op), strict=True):
                tensor.set_shape(shape)
        return _outputs_of(op)

    def _argument(self, value: Tensor, dtype: dtypes.DType, name: str) -> Tensor:
        if value.dtype.base_dtype is not dtype.base_dtype:
            raise ValueError(
                f"Input {name!r} passed {value.dtype.name} expected {dtype.name} while building NodeDef {self.name!r}: "
                f"{value.name}; tf.cast converts"
            )
        return value


class OverloadedFunction:
    """A Python function as functions of graphs, one for the types of each call's arguments."""

    def __init__(
        self,
        func: Callable[..., Any],
        func_name: str | None = None,
        python_grad_func: Callable[..., Any] | None = None,
        **extra: Any,
    ) -> None:
        """See `Defun`."""
        self._func, self._func_name = func, func_name
        self._python_grad_func, self._extra = python_grad_func, extra
        self._made: dict[tuple[dtypes.DType, ...], DefinedFunction] = {}

    def instantiate(self, input_types: Sequence[Any]) -> DefinedFunction:
        """The one for arguments of these types."""
        types = tuple(dtypes.as_dtype(each).base_dtype for each in input_types)
        found = self._made.get(types)
        if found is None:
            name = self._func_name
            if name is not None:
                name = "_".join([name, *(_SHORT.get(each.name, each.name) for each in types)])
            found = self._made[types] = DefinedFunction(
                self._func, types, name, None, self._python_grad_func, **self._extra
            )
        return found

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """As a `DefinedFunction`'s."""
        tensors = [convert(value) for value in args]
        return self.instantiate([tensor.dtype for tensor in tensors])(*tensors, **kwargs)


class Declare:
    """A function of the graph that is defined later: what calls it may be built before, itself included."""

    def __init__(
        self,
        func_name: str,
        inputs: Sequence[tuple[str, Any]],
        outputs: Sequence[tuple[str, Any]],
    ) -> None:
        """func_name: that its `Defun` gives.  inputs, outputs: (name, dtype) of each argument and result."""
        self._signature = pb.OpDef(name=func_name, is_stateful=True)  # whatever it will be
        for described, args in (
            (inputs, self._signature.input_arg),
            (outputs, self._signature.output_arg),
        ):
            for name, dtype in described:
                args.add(name=name, type=dtypes.as_dtype(dtype).as_datatype_enum)
        self._spec = called_by_name(self._signature, lambda: None)

    def __call__(self, *inputs: Any, **kwargs: Any) -> Any:
        """Add a node that calls it.

        inputs: what tensors can be made of, as many as it has arguments.  name: of the node.
        Returns its output, a tuple of several, the Operation if there is none.  Raises ValueError, TypeError.
        """
        name = kwargs.pop("name", None)
        attrs = _attrs_of(kwargs)
        wanted = self._signature.input_arg
        if len(inputs) != len(wanted):
            raise ValueError(
                f"Expected number of arguments: {len(wanted)}, received: {len(inputs)}: {self._signature.name!r} was "
                f"declared to take {', '.join(each.name for each in wanted) or 'none'}"
            )
        return _outputs_of(apply_op(self._spec, inputs, attrs, name or self._signature.name))


def _outputs_of(op: Operation) -> Any:
    if not op.outputs:
        return op
    return op.outputs[0] if len(op.outputs) == 1 else tuple(op.outputs)


def _results(returned: Any, func: Callable[..., Any]) -> list[Tensor]:
    if returned is None:
        returned = ()
    several = returned if isinstance(returned, (list, tuple)) else (returned,)
    if any(isinstance(each, Operation) for each in several):
        raise ValueError(
            f"{func!r} returned an Operation: a function's results are tensors; return tensors that depend on it"
        )
    return [convert(each) for each in several]


def _name_of(name: str) -> str:
    return "lambda" if name == "<lambda>" else name


def _attrs_of(options: dict[str, Any]) -> dict[str, Any]:
    """Options of a function or call, as attrs.  Raises ValueError."""
    found: dict[str, Any] = {}
    for key, value in options.items():
        if key.startswith("experimental_"):
            found[key] = value.encode() if isinstance(value, str) else value
        elif key in _ATTRS:
            found[_ATTRS[key]] = value.encode() if isinstance(value, str) else value
        else:
            raise ValueError(f"Unknown keyword arguments: {key}")
    return {key: value for key, value in found.items() if value is not None}


def _hash(graph: FuncGraph, out_names: Sequence[str] | None, attrs: dict[str, Any]) -> str:
    """Eleven letters that follow from what the function does."""
    from headrace.graph.function_def import definition_of

    definition = definition_of("f", graph.body, out_names, attrs)
    digest = hashlib.sha1(definition.SerializeToString(deterministic=True)).digest()
    text = base64.b64encode(digest[:8]).decode()
    return normalized("x" + text.replace("+", "a").replace("/", "b").rstrip("="))[1:]
