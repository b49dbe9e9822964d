"""benchmarks.fusion: every work runs, and a measurement that fails is said."""

from __future__ import annotations

from typing import Any

import pytest

import headrace as tf
from benchmarks import fusion
from benchmarks.libraries import HEADRACE


@pytest.mark.parametrize("work", fusion.WORKS)
def test_a_work_is_measured(work: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fusion, "WARM_RUNS", 1)
    monkeypatch.setattr(fusion, "WARM_S", 0.0)
    monkeypatch.setattr(fusion, "MOST_RUNS", 2)
    monkeypatch.setenv("HEADRACE_XLA", "off")
    with tf.Graph().as_default():
        found = fusion.measure(work, HEADRACE, "off")
    assert found["step"] > 0
    assert found["first"] > 0


def test_what_cannot_be_measured_is_said(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def refused(work: str, way: Any) -> None:
        return None

    monkeypatch.setattr(fusion, "measured", refused)
    assert fusion.main(["chain", "--runs", "1"]) == 1
    assert "nan" in capsys.readouterr().out


def test_a_work_that_is_none_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as info:
        fusion.main(["chains"])
    assert info.value.code == 2
    assert "chains" in capsys.readouterr().err
