"""Longer programs, as people wrote them for TensorFlow 1.x: what they show is what they show on TensorFlow.

A program has `tf`, `np`, an empty `folder` and `show`, which it calls with strings, numbers and arrays.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import headrace as tf

PROGRAMS = {path.stem: path for path in Path(__file__).with_name("programs").glob("long/*.txt")}
RUNNER = """
import numpy as np

def plain(value):
    if isinstance(value, (list, tuple)):
        return [plain(each) for each in value]
    if isinstance(value, (np.ndarray, np.generic)):
        return np.asarray(value).tolist()
    return value

def shown(tf, program, folder):
    found = []
    names = {"tf": tf, "np": np, "folder": folder, "show": lambda *values: found.append(plain(values))}
    exec(compile(program, "<program>", "exec"), names)
    return found
"""


def close(mine: Any, other: Any) -> bool:
    if isinstance(mine, list) and isinstance(other, list):
        return len(mine) == len(other) and all(map(close, mine, other))
    if isinstance(mine, float) or isinstance(other, float):
        return bool(np.isclose(mine, other, rtol=2e-3, atol=2e-4, equal_nan=True))
    return bool(mine == other)


@pytest.mark.parametrize("name", sorted(PROGRAMS))
def test_a_long_program_shows_what_it_shows_on_tensorflow(
    name: str, oracle: Any, tmp_path: Path
) -> None:
    program = PROGRAMS[name].read_text()
    folders = [tmp_path / each for each in ("mine", "other")]
    for folder in folders:
        folder.mkdir()
    source = f"{RUNNER}\nresult = shown(tf, program, folder)"
    others = oracle.run(source, program=program, folder=str(folders[1]))
    names: dict[str, Any] = {}
    exec(compile(RUNNER, "<runner>", "exec"), names)
    with tf.Graph().as_default():
        mine = names["shown"](tf, program, str(folders[0]))
    assert len(mine) == len(others)
    for own, other in zip(mine, others, strict=True):
        assert close(own, other), (own, other)
