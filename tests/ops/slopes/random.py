"""Draws: where else their gradients are checked."""

from __future__ import annotations

from tests.ops.slopes import Cases

CASES: Cases = {}

# Beside TensorFlow's (tests/oracle/programs/random_more.txt): of numbers that are drawn, differences say nothing.
ELSEWHERE: set[str] = {"RandomGamma"}
