"""Every op, and its gradient, with empty, scalar, broadcast and hostile operands: a value or a typed error.

The operands are made from the registry (operands.py), so a new op is covered when it is registered.  TensorFlow's
answers to the same questions are in tests/oracle/test_operands.py.
"""

from __future__ import annotations

import contextlib
import re
import resource
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

import pytest

import headrace as tf
from headrace.graph.registry import OPS, OpSpec
from tests.ops.operands import (
    ELSEWHERE,
    NAMES_ELSEWHERE,
    Operands,
    Recipe,
    covered,
    every_op,
    hostile,
    recipes,
)
from tests.ops.places import place

NAMES = [spec.name for spec in every_op()]
DIFFERENTIABLE = [spec.name for spec in every_op() if spec.gradient_fn is not None]
HOSTILE_ROWS = 2
ROOM = 1 << 28  # bytes that hostile sizes may ask for

# What a kernel may leave to NumPy, whose text says what does not fit: shapes, and types that have no loop.
NUMPYS = ("out of memory", "broadcast", "ufunc", "has no kernel for inputs of these types")

# Gradients that are TensorFlow's in this too; tests/oracle/test_operands.py compares them.
AS_TENSORFLOW = {
    "Betainc": "of a scalar x beside what is none: summed as a and x do, whatever b does",
    "Concat": "an axis that is a vector of one: ConcatOffset takes none",
    "ConcatV2": "as Concat",
    "ExtractImagePatches": "of an empty batch: a reshape is told no size of what is empty",
    "ExtractVolumePatches": "as ExtractImagePatches",
    "DiagPart": "of a scalar: Diag takes none",
    "Fill": "of a value that is a vector of one: a scalar",
    "ScatterNdNonAliasingAdd": "a vector of indices is one coordinate to the GatherNd that it is made of",
    "SparseDenseCwiseAdd": "a dense operand that is a scalar, or of no size",
    "SparseDenseCwiseDiv": "as SparseDenseCwiseAdd",
    "SparseDenseCwiseMul": "as SparseDenseCwiseAdd",
    "SoftmaxCrossEntropyWithLogits": "labels and logits that broadcast: not summed again",
    "TridiagonalSolve": "of no equations: a zero is put beside none",
    "Transpose": "a permutation that counts from the end: InvertPermutation takes none",
}


# Gradients that are made of static shapes, as in TensorFlow; tests/ops/slopes/ has them.
OF_STATIC_SHAPES = {"Qr", "Svd", "RFFT", "RFFT2D", "RFFT3D"}


def problem(error: Exception) -> str | None:
    """Why users should not see `error`; None if they may."""
    text = f"{type(error).__name__}: {error}"
    if not isinstance(error, tf.errors.OpError):
        return text
    if isinstance(error, tf.errors.InternalError):
        return text
    cause = error.__cause__
    if error.node is None:
        return f"names no node: {text}"
    if isinstance(cause, tf.errors.OpError | MemoryError | SyntaxError) or cause is None:
        return None
    return None if any(said in text for said in NUMPYS) else f"{text} (from {type(cause).__name__})"


def feeds(fed: list[tf.Tensor], operands: Operands) -> dict[tf.Tensor, Any]:
    return dict(zip(fed, operands, strict=True))


def shown(operands: Operands) -> str:
    return ", ".join(
        f"{value.dtype}{list(value.shape)}{value.tolist() if value.size < 5 else ''}"
        for value in operands
    )


@dataclass
class Tried:
    """What an op did with all its operands."""

    problems: list[str] = field(default_factory=list)
    raised: dict[str, str] = field(default_factory=dict)  # by the op itself: the kind, and operands
    gave_a_value: bool = False  # of operands with something in them


@cache
def tried(name: str) -> Tried:
    """Several tests look at it, of every op: it is tried once."""
    found = Tried()
    for recipe in recipes(OPS[name]):
        with tf.Graph().as_default():
            fed, wanted, node = recipe.build()
            with tf.Session() as session:
                for operands in recipe.operands:
                    try:
                        session.run(wanted or node, feeds(fed, operands))
                    except Exception as error:
                        if said := problem(error):
                            found.problems.append(f"{shown(operands)}: {said}")
                        if isinstance(error, tf.errors.OpError) and error.node == node.name:
                            kind = type(error).__name__.removesuffix("Error")
                            if kind not in found.raised:
                                found.raised[kind] = shown(operands)
                    else:
                        found.gave_a_value |= any(value.size for value in operands)
    return found


@pytest.mark.parametrize("name", NAMES)
def test_an_op_gives_a_value_or_a_typed_error(name: str) -> None:
    found = tried(name).problems
    assert not found, f"{len(found)} of {name}:\n" + "\n".join(found[:5])


RAISES = re.compile(r"Raises(.*?)(?:\n\s*\n|Source:|\Z)", re.S)
MEMORY = "ResourceExhausted"  # which anything may raise that makes an array


def said_to_raise(spec: OpSpec) -> set[str]:
    """The errors that the kernel's docstring names; ``Raises as Conv2D`` has those of that op."""
    found = {MEMORY}
    for text in RAISES.findall(spec.kernel.__doc__ or ""):
        words = set(re.findall(r"\w+", text))
        found |= {word for word in words if hasattr(tf.errors, f"{word}Error")}
        for other in re.findall(r"\bas `?(\w+)", text):
            found |= said_to_raise(OPS[other]) if other in OPS else set()
    return found


@pytest.mark.parametrize("name", NAMES)
def test_what_an_op_raises_is_in_its_docstring(name: str) -> None:
    raised = tried(name).raised
    assert raised.keys() <= said_to_raise(OPS[name]), raised


@pytest.mark.filterwarnings("ignore:the IndexedSlices:UserWarning")
@pytest.mark.parametrize("name", DIFFERENTIABLE)
def test_a_gradient_has_the_shape_of_what_it_is_of(name: str) -> None:
    found = []
    for recipe in recipes(OPS[name]):
        with tf.Graph().as_default():
            fed, values, xs, dxs = with_gradients(recipe)
            if not xs:
                continue
            with tf.Session() as session:
                for operands in recipe.operands:
                    given = feeds(fed, operands)
                    try:
                        session.run(values, given)
                    except tf.errors.OpError:
                        continue
                    try:
                        made = session.run(dxs, given)
                    except Exception as error:
                        if name not in AS_TENSORFLOW or problem(error):
                            found.append(f"{shown(operands)}: {problem(error) or error}")
                        continue
                    for x, dx in zip(xs, made, strict=True):
                        if dx.shape != given[x].shape and name not in AS_TENSORFLOW:
                            found.append(f"{shown(operands)}: {dx.shape} for {given[x].shape}")
    assert not found, f"{len(found)} of {name}:\n" + "\n".join(found[:5])


def with_gradients(
    recipe: Recipe,
) -> tuple[list[tf.Tensor], list[tf.Tensor], list[tf.Tensor], list[tf.Tensor]]:
    """What is fed, the node's floats, and of which of those fed there are gradients, dense ones."""
    fed, _, node = recipe.build()
    ys = [each for each in node.outputs if each.dtype.base_dtype.is_floating]
    xs = [
        each
        for each, held in zip(fed, recipe.held, strict=True)
        if each.dtype.is_floating and not held
    ]
    if not xs or not ys or recipe.op in OF_STATIC_SHAPES:
        return fed, ys, [], []
    found = [
        (x, tf.convert_to_tensor(dx))
        for x, dx in zip(xs, tf.gradients(ys, xs), strict=True)
        if dx is not None
    ]
    return fed, ys, [x for x, _ in found], [dx for _, dx in found]


# -- hostile sizes, axes and indices ------------------------------------------------------------


@contextlib.contextmanager
def little_memory() -> Iterator[None]:
    """This process gets no more than ROOM bytes more: what wants more fails at once, and nobody is killed."""
    if not sys.platform.startswith("linux"):
        pytest.skip("the size of a process is read from /proc")
    pages = int(Path("/proc/self/statm").read_text().split()[0])
    soft, hard = resource.getrlimit(resource.RLIMIT_AS)
    resource.setrlimit(resource.RLIMIT_AS, (pages * resource.getpagesize() + ROOM, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_AS, (soft, hard))


def good_operands(
    recipe: Recipe, session: tf.Session, fed: list[tf.Tensor], wanted: Any
) -> list[Operands]:
    """The first few that give values, with something in them."""
    found: list[Operands] = []
    for operands in recipe.operands:
        if len(found) < HOSTILE_ROWS and any(value.size for value in operands):
            with contextlib.suppress(tf.errors.OpError):
                session.run(wanted, feeds(fed, operands))
                found.append(operands)
    return found


@pytest.mark.parametrize("name", NAMES)
def test_a_hostile_number_is_a_typed_error(name: str) -> None:
    found = []
    for recipe in recipes(OPS[name]):
        with tf.Graph().as_default():
            fed, wanted, node = recipe.build()
            with tf.Session() as session:
                good = good_operands(recipe, session, fed, wanted or node)
                with little_memory():
                    for operands in (each for row in good for each in hostile(recipe, row)):
                        try:
                            session.run(wanted or node, feeds(fed, operands))
                        except Exception as error:
                            if said := problem(error):
                                found.append(f"{shown(operands)}: {said}")
    assert not found, f"{len(found)} of {name}:\n" + "\n".join(found[:5])


# -- the generator ------------------------------------------------------------------------------


def test_what_is_tested_elsewhere_exists() -> None:
    assert {place(spec) for spec in OPS.values()} >= ELSEWHERE
    assert OPS.keys() >= NAMES_ELSEWHERE


def test_most_ops_give_values_for_some_of_their_operands() -> None:
    """Else the operands would be errors only, and the tests above empty.

    Datasets take datasets, which are no values that are fed: tests/library/test_datasets.py iterates them.
    """
    without = [
        spec.name
        for spec in every_op()
        if not place(spec).startswith("data/dataset") and not tried(spec.name).gave_a_value
    ]
    assert len(without) < len(NAMES) // 8, without


def test_functions_of_what_is_fed_are_covered() -> None:
    assert covered(OPS["AddV2"])
    assert covered(OPS["ApplyAdam"])
    assert covered(OPS["ResourceScatterNdAdd"])
    assert not covered(OPS["QueueDequeueV2"])
