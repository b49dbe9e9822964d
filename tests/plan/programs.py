"""Programs compiled and run without a session, so that a test sees what they are made of."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import headrace as tf
from headrace.plan.compile import compile_program
from headrace.plan.explain import explaining
from headrace.plan.prune import needed
from headrace.run.exec.instructions import Instruction
from headrace.run.exec.kernel import Runtime, StepState
from headrace.run.exec.program import Program, Segment
from headrace.run.scope import Scope

DEVICE = "/job:localhost/replica:0/task:0/device:CPU:0"


def compiled(fetches: list[Any], feeds: list[Any], targets: Any = (), fold: bool = True) -> Program:
    pruned = needed(feeds, fetches, targets)
    program = compile_program(pruned, feeds, fetches, devices={}, memos={}, fold=fold)
    assert isinstance(program, Program)
    return program


def run(program: Program, runtime: Runtime, values: list[Any]) -> list[Any]:
    with Scope() as scope:
        return program.run(StepState(runtime, scope, 1), values)


def instructions(program: Program) -> list[Instruction]:
    """Those that do not wait."""
    segments = [item.work for item in program.items if isinstance(item.work, Segment)]
    return [each for segment in segments for each in segment.code.instructions]


def nodes(program: Program) -> list[str]:
    """Names of the nodes that instructions stand for."""
    return [each.node.name for each in instructions(program)]


def together_and_apart(
    fetches: list[Any], feeds: dict[Any, Any], runtime: Runtime
) -> tuple[list[Any], list[Any], Program]:
    """Values of nodes that run together, of those that run one by one, alike in types and shapes; the first program."""
    tensors, values = list(feeds), list(feeds.values())
    together = compiled(fetches, tensors)
    found = run(together, runtime, values)
    wanted = run(compiled(fetches, tensors, fold=False), runtime, values)
    for one, other in zip(found, wanted, strict=True):
        assert (one.dtype, np.shape(one)) == (other.dtype, np.shape(other))
    return found, wanted, together


def looped_and_one_by_one(
    fetches: list[Any], feeds: dict[Any, Any]
) -> tuple[list[Any], list[Any], str]:
    """Values of a step whose loops are compiled, of one that runs node by node, and what is said of the first."""
    said: list[str] = []
    with tf.Session() as session, explaining(said.append):
        found = session.run(fetches, feeds)
    config = tf.ConfigProto()
    config.graph_options.optimizer_options.opt_level = tf.OptimizerOptions.L0
    with tf.Session(config=config) as session:
        wanted = session.run(fetches, feeds)
    for one, other in zip(found, wanted, strict=True):
        assert (one.dtype, np.shape(one)) == (other.dtype, np.shape(other))
    return found, wanted, "".join(said)


def small_pictures(monkeypatch: pytest.MonkeyPatch) -> None:
    """To normalizations and convolutions what is large is small, and has several parts."""
    rules, kernels = "headrace.plan.rules.", "headrace.ops._kernels."
    for module in ("normalizations", "normalization_gradients", "convolutions", "elementwise"):
        monkeypatch.setattr(f"{rules}{module}.LARGE", 100)
    monkeypatch.setattr(f"{rules}convolution_gradients.LARGE", 100)
    for name, value in (("LARGE", 100), ("BLOCK", 1000), ("_UNIT", 64)):
        monkeypatch.setattr(f"{kernels}channels.{name}", value)
    monkeypatch.setattr(f"{kernels}windows.SMALL", 64)
    monkeypatch.setattr(f"{kernels}convolving.ROWS_AT_LEAST", 1)
