"""RecordInput: records of many files, mixed, a batch at each step.

Called by: programs (as data_flow_ops.RecordInput).  Threads: building as graph; kernels any step's.
Source: TF 1.15 core/ops/data_flow_ops.cc, python/ops/data_flow_ops.py; node names checked against
the oracle; the order of records is not TensorFlow's, see run.readers.record_yielder
"""

from __future__ import annotations

from typing import Any

import numpy as np

from headrace.base import errors
from headrace.base.traits import POLLS, STATEFUL
from headrace.graph.names import name_scope
from headrace.graph.registry import op
from headrace.graph.shape_fns import unknown
from headrace.graph.tensor import Tensor
from headrace.ops._kernels.file_globs import matches
from headrace.ops.array.joining import split
from headrace.ops.array.shapes import reshape
from headrace.run.exec.kernel import KernelContext
from headrace.run.readers.record_yielder import RecordYielder

__all__ = ["RecordInput"]

_COMPRESSIONS = {None: "", "": "", "ZLIB": "ZLIB", "GZIP": "GZIP"}


@op(
    "RecordInput",
    outputs="records: string",
    attrs="file_pattern: string; file_random_seed: int = 301; file_shuffle_shift_ratio: float = 0; "
    "file_buffer_size: int = 10000; file_parallelism: int = 16; batch_size: int = 32; "
    "compression_type: string = ''",
    shape=unknown,
    traits={STATEFUL, POLLS},
    differentiable=False,
)
def record_input_op(
    ctx: KernelContext,
    *,
    file_pattern: bytes,
    file_random_seed: int,
    file_shuffle_shift_ratio: float,
    file_buffer_size: int,
    batch_size: int,
    compression_type: bytes,
) -> Any:
    """The next records [batch_size] of the files that match; file_parallelism changes nothing.

    Raises NotFound (no file), DataLoss (corrupt), InvalidArgument, OutOfRange (no record at all).
    """
    if batch_size < 1:
        raise errors.invalid_argument(f"batch_size {batch_size} must be at least 1")

    files = ctx.runtime.files
    source = ctx.private_resource(
        RecordYielder,
        lambda: RecordYielder(
            ctx.node.name,
            lambda: matches([file_pattern], files),
            file_random_seed,
            file_shuffle_shift_ratio,
            file_buffer_size,
            compression_type.decode(),
            files,
        ),
    )
    batch = np.empty(batch_size, object)
    batch[:] = source.take(batch_size)
    return batch


class RecordInput:
    """Records of TFRecord files, an epoch after the other without end."""

    def __init__(
        self,
        file_pattern: str,
        batch_size: int = 1,
        buffer_size: int = 1,
        parallelism: int = 1,
        shift_ratio: float = 0,
        seed: int = 0,
        name: str | None = None,
        batches: int | None = None,
        compression_type: str | None = None,
    ) -> None:
        """Batches of `batch_size` records, each drawn from `buffer_size` that are held.

        batches: give so many lists of scalars at a time.  shift_ratio: by which part of their number
        the files are turned at each epoch.  parallelism: for TensorFlow's servers.
        """
        if compression_type not in _COMPRESSIONS:
            raise ValueError(
                f"compression_type must be ZLIB, GZIP or None, not {compression_type!r}"
            )
        self._attrs: dict[str, Any] = {
            "file_pattern": file_pattern,
            "file_buffer_size": buffer_size,
            "file_parallelism": parallelism,
            "file_shuffle_shift_ratio": shift_ratio,
            "file_random_seed": seed,
            "compression_type": _COMPRESSIONS[compression_type],
        }
        self._batch_size = batch_size if batches is None else batch_size * batches
        self._batches = batches
        self._name = name

    def get_yield_op(self) -> Any:
        """The next batch: strings [batch_size], or with `batches` lists of batch_size scalars."""
        records: Tensor = record_input_op(
            batch_size=self._batch_size, name=self._name, **self._attrs
        )
        if self._batches is None:
            return records
        with name_scope(self._name):
            parts = split(records, self._batch_size, 0)
            scalars = [reshape(part, []) for part in parts]
        return [scalars[first :: self._batches] for first in range(self._batches)]
