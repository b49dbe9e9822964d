"""Nodes that call functions of the graph, as programs make them of `Defun`s.

Called by: programs (`tensorflow.python.ops.functional_ops`).  Threads: as graph.
Source: TF 1.15 python/ops/functional_ops.py, for behaviour; compared with the oracle
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from headrace.base import dtypes
from headrace.codec import protos as pb
from headrace.graph import scopes
from headrace.graph.convert import convert
from headrace.graph.tensor import Tensor
from headrace.library.functions.defun import DefinedFunction, OverloadedFunction
from headrace.ops.flow import functional as ops


def _there(function: Any, inputs: Sequence[Any]) -> tuple[DefinedFunction, pb.NameAttrList]:
    """The function for these arguments, in the graph's library, and how an attr names it.  Raises TypeError."""
    if isinstance(function, OverloadedFunction):
        function = function.instantiate([convert(value).dtype for value in inputs])
    if not isinstance(function, DefinedFunction):
        raise TypeError(
            f"a function of the graph is wanted, not {function!r:.80}: put @function.Defun(types…) above it"
        )
    function.add_to_graph(scopes.get_default_graph())
    return function, pb.NameAttrList(name=function.name)


def _types(function: DefinedFunction) -> list[dtypes.DType]:
    return [dtypes.as_dtype(int(arg.type)) for arg in function.definition.signature.output_arg]


def If(
    cond: Any, inputs: Any, then_branch: Any, else_branch: Any, name: str | None = None
) -> list[Tensor]:
    """then_branch(*inputs) or else_branch(*inputs), as `cond` has it.

    cond: a scalar that is not zero, or a string that is not empty; of another shape, whether there are elements.
    inputs: a list; both functions take them, and return tensors of the same types.
    Raises ValueError: the functions capture different tensors.
    """
    then, then_name = _there(then_branch, inputs)
    otherwise, else_name = _there(else_branch, inputs)
    if then.captured_inputs != otherwise.captured_inputs:
        raise ValueError(
            f"{then.name!r} and {otherwise.name!r} capture different tensors "
            f"({[t.name for t in then.captured_inputs]} and {[t.name for t in otherwise.captured_inputs]}): pass these "
            "as inputs, which both functions take"
        )
    found: list[Tensor] = ops.if_op(
        cond,
        [*inputs, *then.captured_inputs],
        then_branch=then_name,
        else_branch=else_name,
        Tout=_types(then),
        name=name,
    )
    return found


def While(input_: Any, cond: Any, body: Any, name: str | None = None, hostmem: Any = None) -> Any:
    """Values again and again through `body`, as long as `cond` holds of them.

    input_: a list of start values.  cond: a function of them that gives a boolean; body: of them, gives as many.
    What `body` captures is passed on unchanged.  hostmem: not looked at.
    """
    test, test_name = _there(cond, input_)
    step, step_name = _there(body, input_)
    if step.captured_inputs or test.captured_inputs:
        raise ValueError(
            "a loop's functions capture nothing here: pass "
            f"{', '.join(t.name for t in [*test.captured_inputs, *step.captured_inputs])} as loop variables"
        )
    found = ops.while_op(list(input_), cond=test_name, body=step_name, name=name)
    return found[0] if len(found) == 1 else found


def For(
    start: Any,
    limit: Any,
    delta: Any,
    inputs: Any,
    body: Any,
    name: str | None = None,
    hostmem: Any = None,
    rewrite_with_while: bool | None = None,
) -> Any:
    """Values through ``body(i, *values)``, for i from start below limit by delta.

    inputs: a list of start values.  hostmem, rewrite_with_while: not looked at.
    """
    _, body_name = _there(body, [start, *inputs])
    found: list[Tensor] = ops.for_op(start, limit, delta, list(inputs), body=body_name, name=name)
    return found


def Gradient(inputs: Any, f: Any, name: str | None = None) -> list[Tensor]:
    """The gradients of the arguments of `f`.

    inputs: its arguments, then the gradients of its results.
    """
    count = len(f.declared_input_types)
    given = list(inputs)
    function, reference = _there(f, given[:count])
    types = [*function.declared_input_types, *(t.dtype for t in function.captured_inputs)]
    return symbolic_gradient(
        [*given[:count], *function.captured_inputs, *given[count:]], types, reference, name
    )


def symbolic_gradient(input: Any, Tout: Any, f: Any, name: str | None = None) -> list[Tensor]:
    """A SymbolicGradient node.  f: a NameAttrList."""
    found: list[Tensor] = ops.symbolic_gradient_op(input, Tout=Tout, f=f, name=name)
    return found


def partitioned_call(
    args: Any,
    f: Any,
    tout: Any = None,
    executing_eagerly: bool | None = None,
    config: Any = None,
    executor_type: Any = None,
) -> Any:
    """f(*args), by a PartitionedCall node.

    tout: the types of the results; by default those that `f` has.  config, executor_type: attrs that TensorFlow has.
    """
    given = [convert(value) for value in args]
    function, reference = _there(f, given)
    op = ops.stateful_partitioned_call_op if function.stateful_ops else ops.partitioned_call_op
    found = op(
        [*given, *function.captured_inputs],
        Tout=_types(function) if tout is None else tout,
        f=reference,
        config_proto=config or b"",
        executor_type=executor_type or b"",
    )
    return found if found else None


def remote_call(target: Any, args: Any, Tout: Any, f: Any, name: str | None = None) -> Any:
    """f(*args), computed on the device `target`, a constant string."""
    given = list(args)
    function, reference = _there(f, given)
    return ops.remote_call_op(
        target, [*given, *function.captured_inputs], Tout=Tout, f=reference, name=name
    )
