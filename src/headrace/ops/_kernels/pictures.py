"""Pictures of many elements decoded at once, by the threads of the task.

Called by: plan.rules.batching_rules.  Threads: any.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from headrace.base import dtypes, errors
from headrace.codec import images
from headrace.graph.operation import Operation
from headrace.ops.image.codecs import PNG_CHANNELS, checked_channels, checked_jpeg
from headrace.run.exec.worker_pool import parallel_for, size
from headrace.run.queues.column_work import Column, OneByOne

Array = np.ndarray[Any, Any]


def decode_rows(op: Operation) -> Callable[[Array], Column]:
    """The kernel of a DecodePng or a DecodeJpeg, for all contents [n]: see plan.rules.batching_rules.

    What it gives raises OneByOne, for contents of another format too.
    """
    attrs = op.attrs
    channels = attrs["channels"]

    def pngs(contents: list[bytes]) -> Column:
        checked_channels(channels, PNG_CHANNELS)
        return images.decode_pngs(
            contents, channels, attrs["dtype"] is not dtypes.uint8, parallel_for, size()
        )

    def jpegs(contents: list[bytes]) -> Column:
        truncated, fancy = attrs["try_recover_truncated"], attrs["fancy_upscaling"]
        jpeg = checked_jpeg(attrs["ratio"], truncated, fancy, attrs["dct_method"])
        return images.decode_jpegs(contents, channels, **jpeg, share=parallel_for)

    each = pngs if "dtype" in attrs else jpegs

    def decode(contents: Array) -> Column:
        try:
            return each(list(map(bytes, contents)))
        except (errors.OpError, ValueError) as error:
            raise OneByOne from error

    return decode
