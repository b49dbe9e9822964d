"""Any array that a tensor can hold, for tests with hypothesis, and when two of them are the same."""

from __future__ import annotations

from typing import Any

import numpy as np
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from headrace.base import dtypes
from headrace.codec.fields import FIELDS

NUMBERS = sorted((d for d in FIELDS if d.np.kind != "O"), key=lambda d: d.name)
PER_DTYPE = 8  # examples of what all of some thirty dtypes are asked
SHAPES = hnp.array_shapes(min_dims=0, max_dims=4, min_side=0, max_side=4)


@st.composite
def arrays(draw: st.DrawFn, dtype: dtypes.DType) -> Any:
    """Any array of the dtype, made from raw bits; transposed now and then, to be not contiguous."""
    shape = draw(SHAPES)
    if dtype is dtypes.string:
        return draw(hnp.arrays(np.object_, shape, elements=st.binary(max_size=5)))
    raw = draw(hnp.arrays(np.uint8, (*shape, dtype.np.itemsize)))
    if dtype is dtypes.bool:
        raw &= 1
    if dtype.name in ("int4", "uint4"):
        raw &= 15
    if dtype.name in ("int2", "uint2"):
        raw &= 3
    if dtype is dtypes.float4_e2m1fn:
        raw &= 15
    array = np.ascontiguousarray(raw).view(dtype.np).reshape(shape)
    return array.T if draw(st.booleans()) else array


def identical(a: Any, b: Any) -> bool:
    """Same shape, dtype and bits (NaNs included)."""
    if a.shape != b.shape or a.dtype != b.dtype:
        return False
    if a.dtype.kind == "O":
        return a.reshape(-1).tolist() == b.reshape(-1).tolist()
    return a.tobytes() == b.tobytes()
