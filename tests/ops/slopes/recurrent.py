"""Recurrent cells, which compute in single precision: tests/ops/test_recurrent.py has their gradients."""

from __future__ import annotations

from tests.ops.slopes import Cases

CASES: Cases = {}
ELSEWHERE = {"LSTMBlockCell", "BlockLSTM", "BlockLSTMV2", "GRUBlockCell"}
