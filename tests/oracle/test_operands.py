"""Every op, and its gradient, with empty, scalar, broadcast and hostile operands, beside TensorFlow.

What is asked is made from the registry (tests/ops/operands.py).  Values, dtypes, shapes and classes of errors are
compared, except where TensorFlow's process ended by the question, or it has no kernel for the type.
"""

from __future__ import annotations

import contextlib
import re
from collections import Counter
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import headrace as hr
from headrace.base.traits import STATEFUL
from headrace.graph.registry import OPS, OpSpec
from tests.ops.operands import Operands, Recipe, every_op, hostile, recipes
from tests.ops.test_operands import good_operands, little_memory, shown, with_gradients
from tests.ops.without_kernels import ops_of_tensorflow, reasons
from tests.oracle.different import different
from tests.oracle.summary import SUMMARY

MOST, MOST_GRADIENTS, HOSTILE_ROWS = 30, 24, 1
OF_GRAPPLER = "_"  # ops whose names begin so are made by TensorFlow's optimizer, not by users
OF_CLIENT = (
    "GetSessionHandle",
)  # what is fetched is an object of the client's (tests/client/test_session_handles.py)
Outcome = tuple[Any, ...]

DIFFERENT = different()
"""Ops, as patterns of names, and why their outcomes may be others."""

# Those with sizes, counts and axes that programs compute.
HOSTILE_OPS = frozenset(
    "Fill Range Tile BroadcastTo Reshape Slice Split ExpandDims Sum GatherV2 Transpose ReverseV2".split()
)
AT_TIMES = {"SparseSegment.*", "Fingerprint"}  # what the memory holds may be right


@dataclass
class Case:
    """A graph, what is fed and fetched, for TensorFlow; `ours` beside `rows`."""

    op: str
    graph: bytes
    feeds: list[str]
    fetches: list[str]
    xs: list[str]
    gradient: bool
    rows: list[Operands] = field(default_factory=list)
    ours: list[Outcome] = field(default_factory=list)

    def request(self) -> dict[str, Any]:
        names = ("graph", "feeds", "fetches", "xs", "gradient", "rows")
        return {name: getattr(self, name) for name in names}


def asked(recipe: Recipe) -> Iterator[tuple[Case, hr.Session, list[hr.Tensor], Any]]:
    """The node's own outputs."""
    fed, wanted, node = recipe.build()
    graph = node.graph.as_graph_def().SerializeToString()
    fetches = [each.name for each in wanted] or [node.name]
    with hr.Session() as session:
        yield (
            Case(recipe.op, graph, [p.name for p in fed], fetches, [], False),
            session,
            fed,
            wanted or node,
        )


def asked_of_gradients(recipe: Recipe) -> Iterator[tuple[Case, hr.Session, list[hr.Tensor], Any]]:
    """The gradients of the node's floats; nothing if there are none."""
    if OPS[recipe.op].gradient_fn is None:
        return
    with hr.Graph().as_default() as plain:
        recipe.build()
    fed, ys, xs, dxs = with_gradients(recipe)
    if dxs:
        graph = plain.as_graph_def().SerializeToString()
        case = Case(
            recipe.op,
            graph,
            [p.name for p in fed],
            [y.name for y in ys],
            [x.name for x in xs],
            True,
        )
        with hr.Session() as session:
            yield case, session, fed, dxs


Asked = Callable[[Recipe], Iterator[tuple[Case, hr.Session, list[hr.Tensor], Any]]]


def cases(ask: Asked, most: int, hostile_for: Collection[str] = ()) -> list[Case]:
    """A case for each recipe, with our outcomes; of hostile operands for the ops of these names, if there are any."""
    found = []
    for spec in every_op():
        if (
            spec.name not in OF_CLIENT
            and not spec.name.startswith(OF_GRAPPLER)
            and (not hostile_for or spec.name in hostile_for)
        ):
            for recipe in recipes(spec, most):
                with hr.Graph().as_default():
                    for case, session, fed, wanted in ask(recipe):
                        limit: Any = contextlib.nullcontext()
                        case.rows = recipe.operands
                        if hostile_for:
                            good = good_operands(recipe, session, fed, wanted)[:HOSTILE_ROWS]
                            case.rows = [each for row in good for each in hostile(recipe, row)]
                            limit = little_memory()
                        with limit:
                            case.ours = [outcome(session, fed, wanted, row) for row in case.rows]
                        found.append(case)
    return found


def outcome(session: hr.Session, fed: list[hr.Tensor], wanted: Any, row: Operands) -> Outcome:
    try:
        values = session.run(wanted, dict(zip(fed, row, strict=True)))
    except hr.errors.OpError as error:
        return "error", type(error).__name__, error.message
    return "value", [np.asarray(each) for each in values or []]


def difference(spec: OpSpec, ours: Outcome, theirs: Outcome) -> str | None:
    if theirs[0] == "crash" or (
        theirs[0] == "error" and re.search("No OpKernel|Could not find device", theirs[2])
    ):
        return None
    if theirs[0] != "value" or ours[0] != "value":
        same = ours[0] == theirs[0] and ours[1] == theirs[1]
        return None if same else f"{said(ours)} / TensorFlow {said(theirs)}"
    pairs = zip(ours[1], theirs[1], strict=True)
    different = [pair for pair in pairs if not alike(*pair, values=not is_random(spec))]
    return None if not different else f"{different[0][0]!r} / TensorFlow {different[0][1]!r}"


def said(outcome: Outcome) -> str:
    if outcome[0] == "value":
        return f"value of shape {[list(each.shape) for each in outcome[1]]}"
    lines = [
        line
        for line in outcome[2].splitlines()
        if line and not re.match(r"Graph exec|Detected|Node:|\s", line)
    ]
    return f"{outcome[1]} ({' '.join(lines)[:160]})"


def is_random(spec: OpSpec) -> bool:
    return STATEFUL in spec.traits and "seed" in spec.attrs


def alike(a: Any, b: Any, values: bool) -> bool:
    a, b = numbers_of(a), numbers_of(b)
    if a.dtype.kind in "OS" and b.dtype.kind in "OS":
        return a.shape == b.shape and (not values or a.tolist() == b.tolist())
    if a.dtype != b.dtype or a.shape != b.shape:
        return False
    if not values:
        return True
    if a.dtype.kind in "fc":
        return np.allclose(a, b, rtol=1e-4, atol=1e-5, equal_nan=True)
    return bool((a == b).all())


def numbers_of(x: Any) -> Any:
    """Quantized ones are records of one field."""
    return x if x.dtype.names is None else x[x.dtype.names[0]]


@pytest.fixture(scope="module")
def ask(oracle: Any) -> Iterator[Callable[[list[Case]], Any]]:
    """Begins to ask for the outcomes of cases, in a process without a session: it is forked (evaluator.py)."""
    source = Path(__file__).with_name("evaluator.py").read_text()
    process = type(oracle)(oracle.python)

    def ask(asked: list[Case]) -> Any:
        return process.begin(
            f"{source}\nresult = evaluated(cases)", cases=[case.request() for case in asked]
        )

    yield ask
    process.close()


def compared(asked: list[Case], theirs: list[list[Outcome]]) -> tuple[list[str], Counter[str]]:
    """What differs without a reason, and how often each reason was needed."""
    found, needed = [], Counter[str]()
    for case, answers in zip(asked, theirs, strict=True):
        reason = next((each for each in DIFFERENT if re.fullmatch(each, case.op)), None)
        for row, ours, answer in zip(case.rows, case.ours, answers, strict=True):
            if text := difference(OPS[case.op], ours, answer):
                if reason is None:
                    found.append(f"{case.op} of {shown(row)}: {text}")
                else:
                    needed[reason] += 1
    return found, needed


def summary(asked: list[Case], theirs: list[list[Outcome]]) -> list[str]:
    """How many ops there are, have rows and agree, and why TensorFlow's others have no kernel."""
    rows, agreeing, reasoned, refused = 0, set[str](), set[str](), Counter[str]()
    for case, answers in zip(asked, theirs, strict=True):
        rows += len(case.rows)
        agreeing.add(case.op)
        for ours, answer in zip(case.ours, answers, strict=True):
            if difference(OPS[case.op], ours, answer):
                reasoned.add(case.op)
            if answer[0] == "crash" or (answer[0] == "error" and "No OpKernel" in answer[2]):
                refused[case.op] += 1
    for case in asked:  # those that TensorFlow answered to nothing of
        if refused[case.op] and refused[case.op] == sum(
            len(each.rows) for each in asked if each.op == case.op
        ):
            agreeing.discard(case.op)
    agreeing -= reasoned
    with_rows = {case.op for case in asked}
    counted, _ = reasons()
    return [
        f"{len(OPS)} ops are registered; {len(with_rows)} have rows here ({rows} rows, gradients too), of which "
        f"{len(agreeing)} agree in all and {len(reasoned)} differ in some for a reason (tests/oracle/different)",
        f"TensorFlow could run none of the rows of: {', '.join(sorted(with_rows - agreeing - reasoned)) or 'none'}",
        f"the others ({len(OPS) - len(with_rows)}) are in tests of their own (tests/ops/test_rows.py)",
        f"of TensorFlow 1.15's {len(ops_of_tensorflow())} public ops {sum(counted.values())} have no kernel:",
        *(f"  {count:4} {why}" for why, count in counted.most_common()),
    ]


@pytest.mark.timeout(1200)
@pytest.mark.filterwarnings("ignore:the IndexedSlices:UserWarning")
def test_operands_give_what_tensorflow_gives(
    ask: Callable[..., Any], pytestconfig: pytest.Config
) -> None:
    values = cases(asked, MOST)
    begun = ask(values)
    gradients = cases(asked_of_gradients, MOST_GRADIENTS)
    theirs = begun.result() + ask(gradients).result()
    everything = values + gradients
    found, needed = compared(everything, theirs)
    pytestconfig.stash.setdefault(SUMMARY, [])[:0] = summary(everything, theirs)
    assert not found, f"{len(found)} differences:\n" + "\n".join(found)
    assert DIFFERENT.keys() - needed.keys() <= AT_TIMES, (
        f"not needed: {DIFFERENT.keys() - needed.keys()}"
    )


@pytest.mark.timeout(900)
def test_hostile_numbers_give_what_tensorflow_gives(ask: Callable[..., Any]) -> None:
    everything = cases(asked, MOST, HOSTILE_OPS)
    found, _ = compared(everything, ask(everything).result())
    assert not found, f"{len(found)} differences:\n" + "\n".join(found)
