"""Calls, branches and loops of functions: their gradients are those of the functions' nodes."""

from __future__ import annotations

from tests.ops.slopes import Cases

CASES: Cases = {}
# Each by differences in tests/graph/test_functional_flow.py, and beside TensorFlow's in programs/control_flow_v2.txt.
ELSEWHERE = {
    *("Case", "If", "PartitionedCall", "StatefulPartitionedCall"),
    *("StatelessCase", "StatelessIf", "StatelessWhile", "While"),
}
