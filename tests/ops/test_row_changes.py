"""Rows of a variable that are changed by rows, some of them several times: one after the other, in their order."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headrace.ops._kernels import row_changes, row_sums

Array = np.ndarray[Any, Any]
UFUNCS = [np.add, np.subtract, np.multiply, np.divide, np.minimum, np.maximum]


@pytest.fixture(params=["elements", "few elements at once", "rows"], autouse=True)
def way(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Changed by elements, as few are, or put in order first."""
    if request.param == "few elements at once":
        monkeypatch.setattr(row_sums, "_PIECE", 20)
    monkeypatch.setattr(row_sums, "_MANY_PUT", 3)
    if request.param == "rows":
        monkeypatch.setattr(row_sums, "_WIDE", 0)
        monkeypatch.setattr(row_changes, "_MANY", 0)
        monkeypatch.setattr(row_changes, "_WIDE", 1)


@pytest.mark.parametrize("ufunc", UFUNCS)
@pytest.mark.parametrize("kind", [np.float32, np.float64, np.float16, np.int32])
@settings(max_examples=25, deadline=None)
@given(data=st.data())
def test_each_change_counts_in_its_turn(ufunc: np.ufunc, kind: Any, data: st.DataObject) -> None:
    height, width = data.draw(st.integers(1, 6)), data.draw(st.integers(1, 40))
    if ufunc is np.divide and kind is np.int32:
        kind = np.float32
    inner = data.draw(st.sampled_from([(width,), (width, 2), (1, width)]))
    count = data.draw(st.sampled_from([(), (0,), (1,), (9,), (3, 4), (40,)]))
    random = np.random.default_rng(data.draw(st.integers(0, 1000)))
    ids = random.integers(0, height, count).astype(data.draw(st.sampled_from([np.int32, np.int64])))
    array = random.uniform(1, 9, (height, *inner)).astype(kind)
    changes = random.uniform(1, 9, (*count, *inner)).astype(kind)
    wanted = array.copy()
    with np.errstate(over="ignore"):
        for where in np.ndindex(count):
            wanted[ids[where]] = ufunc(wanted[ids[where]], changes[where])
        if ids.size:
            row_changes.in_place(ufunc)(array, ids, changes)
    assert array.tobytes() == wanted.tobytes()
