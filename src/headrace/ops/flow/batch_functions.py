"""Functions that are called with the rows of several steps at once: what serves a model to many callers.

Called by: programs.  Threads: building as graph; kernels any step's, which do not wait themselves.
Source: behaviour of TF 1.15 (core/kernels/batch_kernels.cc, python/ops/batch_ops.py) and 2.21
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final

import numpy as np

from headrace.base import errors
from headrace.base.dtypes import DType
from headrace.base.nest import flatten, pack_sequence_as
from headrace.base.shapes import TensorShape
from headrace.base.traits import MAY_WAIT, STATEFUL
from headrace.codec import protos as pb
from headrace.graph import scopes
from headrace.graph.automatic_dependencies import Ordered
from headrace.graph.convert import convert
from headrace.graph.func_graph import FuncGraph
from headrace.graph.names import name_scope
from headrace.graph.registry import op
from headrace.graph.shape_fns import unknown
from headrace.graph.tensor import Tensor
from headrace.run.data.functions import next_step_id
from headrace.run.exec.kernel import KernelContext, StepState
from headrace.run.exec.rendezvous import Rendezvous
from headrace.run.pending import Pending
from headrace.run.scope import Scope
from headrace.run.state.request_batches import Limits, RequestBatches

__all__ = ["nondifferentiable_batch_function"]

_LOW: Final = (
    "low_priority_max_batch_size: int = 0; low_priority_batch_timeout_micros: int = 0; "
    "low_priority_allowed_batch_sizes: list(int) = []; low_priority_max_enqueued_batches: int = 0; "
    "mixed_priority_policy: {'low_priority_padding_with_max_batch_size', "
    "'low_priority_padding_with_next_allowed_batch_size', 'priority_isolation', 'priority_merge'} "
    "= 'low_priority_padding_with_max_batch_size'; "
    "batch_padding_policy: {'PAD_UP', 'BATCH_DOWN', 'MINIMIZE_TPU_COST_PER_REQUEST'} = 'PAD_UP'"
)


@op(
    "BatchFunction",
    inputs="in_tensors: Tin; captured_tensors: Tcaptured",
    outputs="out_tensors: Tout",
    attrs="f: func; num_batch_threads: int; max_batch_size: int; batch_timeout_micros: int; "
    "max_enqueued_batches: int = 10; allowed_batch_sizes: list(int) = []; container: string = ''; "
    f"shared_name: string = ''; batching_queue: string = ''; {_LOW}; Tin: list(type) >= 1; "
    "Tcaptured: list(type) >= 0; Tout: list(type) >= 1; enable_large_batch_splitting: bool = false",
    shape=unknown,
    traits={STATEFUL, MAY_WAIT},
)
def batch_function_op(
    ctx: KernelContext,
    *inputs: Any,
    f: pb.NameAttrList,
    num_batch_threads: int,
    max_batch_size: int,
    batch_timeout_micros: int,
    max_enqueued_batches: int,
    allowed_batch_sizes: list[int],
    container: bytes,
    shared_name: bytes,
    batching_queue: bytes,
    batch_padding_policy: bytes,
    Tin: list[DType],
    Tout: list[DType],
    enable_large_batch_splitting: bool,
) -> Pending[list[Any]] | list[Any]:
    """f of in_tensors [n, ...] beside those of other steps, and of captured_tensors as they are; its results [n, ...].

    Waits for the batch to be full, or its time to be over.  Batches are shared by nodes of one shared_name and
    batching_queue.  Raises InvalidArgument (attrs, shapes, more rows than max_batch_size), Unavailable (as many batches
    wait as may), FailedPrecondition (f gives other than a row for each), Unimplemented (padding policies but PAD_UP).
    """
    if batch_padding_policy != b"PAD_UP":
        raise errors.unimplemented(
            f"batch_padding_policy is {batch_padding_policy.decode()}; batches are filled up: use PAD_UP"
        )
    limits = _limits(
        num_batch_threads,
        max_batch_size,
        batch_timeout_micros,
        max_enqueued_batches,
        allowed_batch_sizes,
        enable_large_batch_splitting,
    )
    rows, captured = inputs[: len(Tin)], inputs[len(Tin) :]
    _check_rows(rows)
    if not len(rows[0]):
        return [np.empty((0,), kind.np) for kind in Tout]
    function, runtime, owner = ctx.function(f), ctx.runtime, ctx.step.owner

    def compute(arguments: Sequence[Any]) -> Sequence[Any]:
        step = StepState(runtime, Scope(), next_step_id(), Rendezvous(), owner=owner, apart=True)
        return function([*arguments, *captured], step)

    batches = ctx.resource(
        RequestBatches,
        lambda: RequestBatches(ctx.node.name, limits, enable_large_batch_splitting),
        container,
        b"/".join(filter(None, (shared_name, batching_queue))),
    )
    # Who brought the rows may write into them again.
    kept = tuple(np.array(each) for each in rows)
    return batches.compute(
        kept, compute, lambda serve: runtime.workers.callbacks.call(serve, ctx.node.name)
    )


def _limits(
    threads: int, most: int, micros: int, waiting: int, sizes: Sequence[int], splits: bool
) -> Limits:
    if most < 1:
        raise errors.invalid_argument(f"input_batch_size_limit must be positive; was {most}")
    if micros < 0:
        raise errors.invalid_argument(f"batch_timeout_micros must be non-negative; was {micros}")
    if waiting < 1:
        raise errors.invalid_argument(f"max_enqueued_batches must be positive; was {waiting}")
    if list(sizes) != sorted(set(sizes)):
        raise errors.invalid_argument(
            f"allowed_batch_sizes entries must be monotonically increasing: {list(sizes)}"
        )
    if sizes and splits and sizes[-1] > most:
        raise errors.invalid_argument(
            "When enable_large_batch_splitting is true, input_batch_size_limit must be greater than or equal to the "
            f"last of allowed_batch_sizes: {most} and {sizes[-1]}"
        )
    if sizes and not splits and sizes[-1] != most:
        raise errors.invalid_argument(
            "final entry in allowed_batch_sizes must equal max_batch_size when enable_large_batch_splitting is False: "
            f"{sizes[-1]} and {most}"
        )
    batch = sizes[-1] if sizes and splits else most
    return Limits(threads, most, batch, micros / 1e6, waiting, tuple(sizes))


def _check_rows(rows: Sequence[Any]) -> None:
    if not all(each.ndim for each in rows):
        raise errors.invalid_argument("Batching input tensors must have at least one dimension")
    if len({len(each) for each in rows}) > 1:
        raise errors.invalid_argument(
            "Batching input tensors supplied in a given op invocation must have equal 0th-dimension size: they have "
            f"{[len(each) for each in rows]}"
        )


def nondifferentiable_batch_function(
    num_batch_threads: int,
    max_batch_size: int,
    batch_timeout_micros: int,
    allowed_batch_sizes: Sequence[int] | None = None,
    max_enqueued_batches: int = 10,
    autograph: bool = True,
    enable_large_batch_splitting: bool = True,
) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Decorator of a function of tensors [n, ...] that is computed for several `Session.run` at once.

    The function gives tensors with a row for each row that it gets, or a structure of them.  A batch is computed when
    it has max_batch_size rows, or batch_timeout_micros after its first one came, by one of num_batch_threads; it is
    filled up to the next of allowed_batch_sizes.  More than max_enqueued_batches that wait are an UnavailableError.
    Requests of more rows than the largest allowed size are computed in parts, unless enable_large_batch_splitting is
    False.  autograph: is not looked at; write tf.cond and tf.while_loop.  There are no gradients.
    """

    def decorator(function: Callable[..., Any]) -> Callable[..., Any]:
        def batched(*args: Any) -> Any:
            for arg in args:
                if not isinstance(arg, Tensor):
                    raise ValueError(
                        "All arguments to functions decorated with `batch_function` are supposed to be Tensors; "
                        f"found {arg!r}: convert it by tf.convert_to_tensor"
                    )
            with name_scope(None, "batch") as scope:
                reference, captured, results = _built(function, args)
                made = batch_function_op(
                    list(args),
                    captured,
                    f=reference,
                    num_batch_threads=num_batch_threads,
                    max_batch_size=max_batch_size,
                    batch_timeout_micros=batch_timeout_micros,
                    max_enqueued_batches=max_enqueued_batches,
                    allowed_batch_sizes=list(allowed_batch_sizes or ()),
                    shared_name=scope,
                    enable_large_batch_splitting=enable_large_batch_splitting,
                    Tout=[each.dtype.base_dtype for each in flatten(results)],
                )
                return pack_sequence_as(results, list(made))

        return batched

    return decorator


def _built(
    function: Callable[..., Any], args: Sequence[Tensor]
) -> tuple[pb.NameAttrList, list[Tensor], Any]:
    """The function as an attr names it, what it captures, and what it returns."""
    outer = scopes.get_default_graph()
    graph = FuncGraph("batch", outer)
    with graph.as_default():
        ordered = Ordered(graph)
        inner = []
        for at, arg in enumerate(args):
            rank = arg.shape.rank
            shape = TensorShape(None) if not rank else TensorShape([None, *arg.shape[1:]])
            inner.append(graph.add_argument(arg.dtype.base_dtype, shape, f"batch_{at}"))
        results = function(*inner)
        results = pack_sequence_as(results, [convert(each) for each in flatten(results)])
        ordered.returns(flatten(results))
    name = outer.library.free_name("__inference_computation")
    graph.to_function(name)
    return pb.NameAttrList(name=name), graph.external_captures, results
