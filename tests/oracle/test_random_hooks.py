"""Trainings made up from seeds, under headrace and under TensorFlow: the same happens in the same order."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

import headrace as hr

SOURCE = (Path(__file__).parent / "monitored" / "random_programs.source").read_text()
SEEDS = range(15)


def test_the_same_happens_in_programs_that_nobody_thought_of(oracle: Any) -> None:
    names: dict[str, Any] = {"tf": hr, "np": np}
    exec(compile(SOURCE, "<programs>", "exec"), names)
    ours = [names["program"](seed) for seed in SEEDS]
    run = SOURCE + "\nresult = [program(seed) for seed in seeds]\n"
    theirs = oracle.run(run, seeds=list(SEEDS))
    for seed, mine, wanted in zip(SEEDS, ours, theirs, strict=True):
        assert mine == wanted, f"seed {seed}"
