"""tf.case and tf.switch_case: the first branch whose predicate holds, the branch of an index.

Called by: users.  Threads: as graph.
Source: TF 1.15 behaviour (python/ops/control_flow_ops.py); node names and the texts of assertions, which are
constants in graphs, as 2.21.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

from headrace.base import dtypes
from headrace.graph.convert import convert
from headrace.graph.graph import Operation
from headrace.graph.names import control_dependencies, name_scope
from headrace.graph.tensor import Tensor
from headrace.ops.array.constants import constant
from headrace.ops.array.packing import stack
from headrace.ops.flow.asserts import Assert
from headrace.ops.flow.control_flow import cond
from headrace.ops.math.casting import cast
from headrace.ops.math.comparisons import less_equal
from headrace.ops.math.reductions import reduce_sum

__all__ = ["case", "switch_case"]

Action = Callable[[], Any]


def case(
    pred_fn_pairs: Any,
    default: Action | None = None,
    exclusive: bool = False,
    strict: bool = False,
    name: str = "case",
) -> Any:
    """What the function of the first pair whose predicate holds returns, else what `default` does.

    pred_fn_pairs: a list of (bool scalar, function), or a dict, whose pairs go by the predicates' names.  Without a
    default it is an error in the step if no predicate holds; with `exclusive`, if more than one does.
    Raises TypeError (no such pairs, what is not callable), ValueError (no pairs).
    """
    pairs = _pairs(pred_fn_pairs)
    if default is not None and not callable(default):
        raise TypeError(f"'false_fn' must be callable: default is {default!r:.80}")
    with name_scope(name, "case", [pred for pred, _ in pairs]):
        if default is None:
            default, pairs = _last_as_default(pairs), pairs[:-1]
        chosen = default
        for pred, action in reversed(pairs):
            chosen = partial(cond, pred, action, chosen, strict=strict)
        if not exclusive:
            return chosen()
        check = _at_most([pred for pred, _ in pairs], 1, "Input error: exclusive=True")
        with control_dependencies([check]):
            return chosen()


def _pairs(given: Any) -> list[tuple[Any, Action]]:
    if not isinstance(given, (list, tuple, Mapping)):
        raise TypeError(
            f"'pred_fn_pairs' must be a list, tuple, or dict of pairs, not {given!r:.80}"
        )
    if isinstance(given, Mapping):
        items = list(given.items())
    else:
        items = []
        for pair in given:
            if not isinstance(pair, tuple) or len(pair) != 2:
                raise TypeError(
                    f"Each entry in 'pred_fn_pairs' must be a 2-tuple (predicate, function), not {pair!r:.80}"
                )
            items.append(pair)
    if not items:
        raise ValueError("case needs at least one pair of predicate and function")
    for pred, action in items:
        if not isinstance(pred, Tensor) and not hasattr(pred, "_as_graph_element"):
            raise TypeError(f"pred must be a Tensor, got: {pred!r:.80}; of case, and a bool one")
        if convert(pred).dtype.base_dtype != dtypes.bool:
            raise TypeError(
                f"pred must be Tensor of type bool: {pred.name} of case is {pred.dtype.name}"
            )
        if not callable(action):
            raise TypeError(f"fn for pred {pred.name} must be callable, and is {action!r:.80}")
    return sorted(items, key=lambda pair: pair[0].name) if isinstance(given, Mapping) else items


def _at_most(preds: list[Any], limit: int, message: str) -> Operation:
    """An op that fails if more than `limit` of `preds` hold."""
    packed = stack(preds, name="preds_c")
    holding = reduce_sum(cast(packed, dtypes.int32), name="num_true_conds")
    fits = less_equal(holding, constant(limit, name="n_true_conds"))
    names = ", ".join(pred.name for pred in preds)
    text = f"{message}: more than {limit} conditions ({names}) evaluated as True:"
    return Assert(fits, [text, packed], summarize=len(preds))


def _last_as_default(pairs: list[tuple[Any, Action]]) -> Action:
    """The last function, which may run only if its own predicate holds and none before it."""
    preds = [pred for pred, _ in pairs]
    action = pairs[-1][1]

    def checked() -> Any:
        nothing = (
            "Input error: None of conditions evaluated as True:",
            stack(preds, name="preds_c"),
        )
        others = (
            f"Implementation error: selected default action #{len(preds) - 1} was called, but some of other "
            "predicates are True: "
        )
        with control_dependencies([_at_most(preds[:-1], 0, others), Assert(preds[-1], nothing)]):
            return action()

    return checked


def switch_case(
    branch_index: Any, branch_fns: Any, default: Action | None = None, name: str = "switch_case"
) -> Any:
    """What branch_fns[branch_index]() returns; out of range, what `default` or else the last function does.

    branch_index: int32 [].  branch_fns: a list of functions, of pairs (int, function), or a dict.
    Raises TypeError (what is neither int nor callable), ValueError (indices that are not 0, 1, …).
    """
    from headrace.ops.flow.functional_cond import functional_case

    functions = _indexed(branch_fns, default)
    with name_scope(name, "switch_case", [branch_index]):
        index = convert(branch_index, None, "branch_index")
        if index.dtype.base_dtype != dtypes.int32:
            raise TypeError(
                f"'branch_index' must be an integer Tensor, got {index.dtype}: {index.name} must be int32"
            )
        return functional_case(index, functions)


def _indexed(given: Any, default: Action | None) -> list[Action]:
    """The functions by index, `default` after them."""
    if isinstance(given, Mapping):
        given = list(given.items())
    if not isinstance(given, (list, tuple)):
        raise TypeError(
            f"'branch_fns' must be a list, tuple, or dict of functions, not {given!r:.80}"
        )
    if not given:
        raise ValueError("Must provide at least one item in 'branch_fns', a function")
    if all(callable(function) for function in given):
        given = list(enumerate(given))
    for pair in given:
        if not isinstance(pair, tuple) or len(pair) != 2 or not isinstance(pair[0], int):
            raise TypeError(
                f"Each entry in 'branch_fns' must be a 2-tuple (int, function), or all be functions, not {pair!r:.80}"
            )
        if not callable(pair[1]):
            raise TypeError(f"fn for key {pair[0]} must be callable, and is {pair[1]!r:.80}")
    keys = [key for key, _ in given]
    if sorted(keys) != list(range(len(keys))):
        raise ValueError(
            f"branch indices (keys) must form contiguous range of [0 to {len(keys)}), and are {sorted(keys)}"
        )
    functions = [function for _, function in sorted(given, key=lambda pair: int(pair[0]))]
    if default is not None:
        if not callable(default):
            raise TypeError(f"'default' must be callable, and is {default!r:.80}")
        functions.append(default)
    return functions
