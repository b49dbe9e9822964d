"""Readers: the ops, and tf.TextLineReader and its kin as the graph's author holds them.

Both generations of ops stand side by side, as for queues.  A read that has to wait for a work item
returns its Pending.
Called by: programs, training's input pipelines.  Threads: kernels run in any step's thread.
Source: TF 1.15 core/ops/io_ops.cc, python/ops/io_ops.py; behaviour in run.readers.reader
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from headrace.base import dtypes, errors
from headrace.base.shapes import Shape
from headrace.base.traits import HANDLE, MAY_WAIT, NEVER_FOLDED, NONE, READS_ONE, STATEFUL, Traits
from headrace.graph.graph import Operation
from headrace.graph.registry import OpSpec, get, op
from headrace.graph.shape_fns import ShapeContext, scalar, vector
from headrace.graph.tensor import Tensor
from headrace.ops.data.queue_ops import queue_of
from headrace.ops.io.record_files import TFRecordOptions
from headrace.run.exec.kernel import KernelContext
from headrace.run.pending import Pending
from headrace.run.readers import file_readers
from headrace.run.readers import reader as run
from headrace.run.readers.record_readers import LMDBReader as RunLMDBReader
from headrace.run.readers.record_readers import TFRecordReader as RunTFRecordReader
from headrace.run.state.resources import ResourceManager

__all__ = [
    "FixedLengthRecordReader",
    "IdentityReader",
    "LMDBReader",
    "ReaderBase",
    "TFRecordReader",
    "TextLineReader",
    "WholeFileReader",
]

_SHARED = "container: string = ''; shared_name: string = ''"


# -- making -----------------------------------------------------------------------------------


def _text_line(
    ctx: KernelContext, *, skip_header_lines: int, container: bytes, shared_name: bytes
) -> run.Reader:
    """A reader of lines.  Raises InvalidArgument."""
    return ctx.private_resource(
        run.Reader,
        lambda: file_readers.TextLineReader(
            ctx.node.name, skip_header_lines, files=ctx.runtime.files
        ),
        container,
        shared_name,
    )


def _whole_file(ctx: KernelContext, *, container: bytes, shared_name: bytes) -> run.Reader:
    """A reader of whole files."""
    return ctx.private_resource(
        run.Reader,
        lambda: run.WholeFileReader(ctx.node.name, files=ctx.runtime.files),
        container,
        shared_name,
    )


def _identity(ctx: KernelContext, *, container: bytes, shared_name: bytes) -> run.Reader:
    """A reader that gives its work items."""
    return ctx.private_resource(
        run.Reader, lambda: run.IdentityReader(ctx.node.name), container, shared_name
    )


def _fixed_length(
    ctx: KernelContext,
    *,
    header_bytes: int,
    record_bytes: int,
    footer_bytes: int,
    hop_bytes: int,
    container: bytes,
    shared_name: bytes,
) -> run.Reader:
    """A reader of records of one length.  Raises InvalidArgument."""
    return _fixed_length_v2(
        ctx,
        header_bytes=header_bytes,
        record_bytes=record_bytes,
        footer_bytes=footer_bytes,
        hop_bytes=hop_bytes,
        container=container,
        shared_name=shared_name,
        encoding=b"",
    )


def _fixed_length_v2(
    ctx: KernelContext,
    *,
    header_bytes: int,
    record_bytes: int,
    footer_bytes: int,
    hop_bytes: int,
    container: bytes,
    shared_name: bytes,
    encoding: bytes,
) -> run.Reader:
    """A reader of records of one length, of compressed files too.  Raises InvalidArgument."""

    def make() -> run.Reader:
        return file_readers.FixedLengthRecordReader(
            ctx.node.name,
            record_bytes,
            header_bytes,
            footer_bytes,
            hop_bytes,
            encoding.decode(),
            files=ctx.runtime.files,
        )

    return ctx.private_resource(run.Reader, make, container, shared_name)


def _tf_record(
    ctx: KernelContext, *, compression_type: bytes, container: bytes, shared_name: bytes
) -> run.Reader:
    """A reader of TFRecord files.  Raises InvalidArgument."""
    return ctx.private_resource(
        run.Reader,
        lambda: RunTFRecordReader(
            ctx.node.name, compression_type.decode(errors="replace"), files=ctx.runtime.files
        ),
        container,
        shared_name,
    )


Kernel = Callable[..., Any]


def _maker(name: str, old: Kernel, new: Kernel, attrs: str, more: str = "") -> OpSpec:
    """Both generations of an op that makes a reader; gives the newer."""
    block: dict[str, Any] = {"traits": {STATEFUL, HANDLE}, "differentiable": False}
    op(name, outputs="reader_handle: Ref(string)", attrs=attrs + _SHARED, shape=vector(2), **block)(
        old
    )
    return op(
        name + "V2",
        outputs="reader_handle: resource",
        attrs=attrs + _SHARED + more,
        shape=scalar,
        **block,
    )(new)


text_line_reader_v2 = _maker(
    "TextLineReader", _text_line, _text_line, "skip_header_lines: int = 0; "
)
whole_file_reader_v2 = _maker("WholeFileReader", _whole_file, _whole_file, "")
identity_reader_v2 = _maker("IdentityReader", _identity, _identity, "")
fixed_length_record_reader_v2 = _maker(
    "FixedLengthRecordReader",
    _fixed_length,
    _fixed_length_v2,
    "header_bytes: int = 0; record_bytes: int; footer_bytes: int = 0; hop_bytes: int = 0; ",
    "; encoding: string = ''",
)
tf_record_reader_v2 = _maker(
    "TFRecordReader", _tf_record, _tf_record, "compression_type: string = ''; "
)


@op(
    "LMDBReader",
    outputs="reader_handle: Ref(string)",
    attrs=_SHARED,
    shape=vector(2),
    traits={STATEFUL, HANDLE},
    differentiable=False,
)
def lmdb_reader(ctx: KernelContext, *, container: bytes, shared_name: bytes) -> run.Reader:
    """A reader of LMDB databases; it never had a second generation.

    Raises Unimplemented where the package lmdb is missing.
    """
    return ctx.private_resource(
        run.Reader,
        lambda: RunLMDBReader(ctx.node.name, files=ctx.runtime.files),
        container,
        shared_name,
    )


# -- using ------------------------------------------------------------------------------------


@op(
    "FakeQueue",
    inputs="resource: resource",
    outputs="handle: Ref(string)",
    shape=vector(2),
    traits={STATEFUL},
    differentiable=False,
)
def fake_queue(xp: Any, resource: Any) -> Any:
    """A queue's handle for an op of the older generation."""
    return resource


def _reader_of(handle: Any) -> run.Reader:
    if isinstance(handle, np.ndarray) and handle.ndim == 0:
        handle = handle[()]
    if not isinstance(handle, run.Reader):
        raise errors.invalid_argument(
            f"a reader operation was given a {type(handle).__name__} instead of a reader's handle"
        )
    return handle


def _read(xp: Any, reader_handle: Any, queue_handle: Any) -> Pending[Any]:
    """The next record, waiting for a work item if it needs one.

    Raises OutOfRange (no work left, queue closed), NotFound (a file), InvalidArgument.
    """
    return _reader_of(reader_handle).read(queue_of(queue_handle))


def _read_up_to(xp: Any, reader_handle: Any, queue_handle: Any, num_records: Any) -> Pending[Any]:
    """Up to num_records records of one work item."""
    if num_records.ndim:
        raise errors.invalid_argument(
            f"num_records must be a scalar, and has shape {list(num_records.shape)}"
        )
    return _reader_of(reader_handle).read_up_to(queue_of(queue_handle), int(num_records))


def _records_produced(xp: Any, reader_handle: Any) -> Any:
    """How many records were read."""
    return np.int64(_reader_of(reader_handle).records_produced())


def _units_completed(xp: Any, reader_handle: Any) -> Any:
    """How many work items were read to their end."""
    return np.int64(_reader_of(reader_handle).work_units_completed())


def _serialize_state(xp: Any, reader_handle: Any) -> Any:
    """The state as a string.  Raises Unimplemented."""
    box = np.empty((), object)
    box[()] = _reader_of(reader_handle).serialize()
    return box


def _restore_state(xp: Any, reader_handle: Any, state: Any) -> None:
    """Take up a serialized state.  Raises Unimplemented, InvalidArgument."""
    if state.ndim:
        raise errors.invalid_argument(
            f"Reader state must be scalar, but had shape: {list(state.shape)}"
        )
    _reader_of(reader_handle).restore(state[()])


def _reset(xp: Any, reader_handle: Any) -> None:
    """Back to the beginning."""
    _reader_of(reader_handle).reset()


def _vectors(c: ShapeContext) -> Shape | list[Shape]:
    c.with_rank("num_records", 0)
    return [(None,), (None,)]


def _scalar_state(c: ShapeContext) -> list[Shape]:
    c.with_rank("state", 0)
    return []


def _user(
    name: str,
    kernel: Kernel,
    more: str = "",
    queue: bool = False,
    traits: Traits = NONE,
    **block: Any,
) -> OpSpec:
    """Both generations of an op that uses a reader; gives the newer."""
    old = "; queue_handle: Ref(string)" if queue else ""
    new = "; queue_handle: resource" if queue else ""
    old, new = "reader_handle: Ref(string)" + old + more, "reader_handle: resource" + new + more
    block["differentiable"] = False
    op(name, inputs=old, traits={NEVER_FOLDED, *traits}, **block)(kernel)
    return op(name + "V2", inputs=new, traits={STATEFUL, *traits}, **block)(kernel)


reader_read_v2 = _user(
    "ReaderRead",
    _read,
    queue=True,
    outputs="key: string; value: string",
    shape=scalar,
    traits={READS_ONE, MAY_WAIT},
)
reader_read_up_to_v2 = _user(
    "ReaderReadUpTo",
    _read_up_to,
    "; num_records: int64",
    queue=True,
    outputs="keys: string; values: string",
    shape=_vectors,
    traits={MAY_WAIT},
)
reader_num_records_produced_v2 = _user(
    "ReaderNumRecordsProduced", _records_produced, outputs="records_produced: int64", shape=scalar
)
reader_num_work_units_completed_v2 = _user(
    "ReaderNumWorkUnitsCompleted", _units_completed, outputs="units_completed: int64", shape=scalar
)
reader_serialize_state_v2 = _user(
    "ReaderSerializeState", _serialize_state, outputs="state: string", shape=scalar
)
reader_restore_state_v2 = _user(
    "ReaderRestoreState", _restore_state, "; state: string", shape=_scalar_state
)
reader_reset_v2 = _user("ReaderReset", _reset)


def origin_of(resources: ResourceManager, record: bytes) -> str:
    """Where a reader of this task has read `record`, as ``file:line``; "" if none remembers it."""
    for resource in resources.all():
        if isinstance(resource, run.Reader):
            key = resource.origin(record)
            if key is not None:
                return key.decode(errors="replace")
    return ""


# -- as the author holds them -----------------------------------------------------------------


class ReaderBase:
    """A reader behind a handle; the subclasses make one."""

    def __init__(self, reader_ref: Tensor, supports_serialize: bool = False) -> None:
        self._reader_ref = reader_ref
        self._supports_serialize = supports_serialize

    @property
    def reader_ref(self) -> Tensor:
        """The handle."""
        return self._reader_ref

    @property
    def supports_serialize(self) -> bool:
        """Whether its state can be taken and given back."""
        return self._supports_serialize

    def read(self, queue: Any, name: str | None = None) -> Any:
        """The next record, `key` and `value`: string [] each.  `queue`: a queue of file names, or its handle.

        Running it blocks while the reader needs a file and the queue is empty; OutOfRangeError when
        that is closed.
        """
        return self._call("ReaderRead", _handle_of(queue), name=name)

    def read_up_to(self, queue: Any, num_records: Any, name: str | None = None) -> Any:
        """Up to `num_records` records of one file, `keys` and `values`: string [n] each; it blocks as `read` does."""
        return self._call("ReaderReadUpTo", _handle_of(queue), num_records, name=name)

    def num_records_produced(self, name: str | None = None) -> Tensor:
        """int64 []."""
        count: Tensor = self._call("ReaderNumRecordsProduced", name=name)
        return count

    def num_work_units_completed(self, name: str | None = None) -> Tensor:
        """int64 []."""
        count: Tensor = self._call("ReaderNumWorkUnitsCompleted", name=name)
        return count

    def serialize_state(self, name: str | None = None) -> Tensor:
        """string []; UnimplementedError in a step unless `supports_serialize`."""
        state: Tensor = self._call("ReaderSerializeState", name=name)
        return state

    def restore_state(self, state: Any, name: str | None = None) -> Operation:
        """Take up what `serialize_state` gave."""
        restored: Operation = self._call("ReaderRestoreState", state, name=name)
        return restored

    def reset(self, name: str | None = None) -> Operation:
        """Back to the beginning."""
        done: Operation = self._call("ReaderReset", name=name)
        return done

    def _call(self, op_name: str, *inputs: Any, name: str | None) -> Any:
        """The op of the generation of this handle."""
        if self._reader_ref.dtype == dtypes.resource:
            op_name += "V2"
        elif inputs and isinstance(inputs[0], Tensor) and inputs[0].dtype == dtypes.resource:
            inputs = (fake_queue(inputs[0]), *inputs[1:])
        return get(op_name)(self._reader_ref, *inputs, name=name)


def _handle_of(queue: Any) -> Tensor:
    handle: Tensor = queue if isinstance(queue, Tensor) else queue.queue_ref
    return handle


class TextLineReader(ReaderBase):
    """Lines of text files; keys are ``file:line``."""

    def __init__(self, skip_header_lines: int | None = None, name: str | None = None) -> None:
        super().__init__(text_line_reader_v2(skip_header_lines=skip_header_lines or 0, name=name))


class WholeFileReader(ReaderBase):
    """Whole files; keys are their names."""

    def __init__(self, name: str | None = None) -> None:
        super().__init__(whole_file_reader_v2(name=name), supports_serialize=True)


class IdentityReader(ReaderBase):
    """The work items themselves, as key and value."""

    def __init__(self, name: str | None = None) -> None:
        super().__init__(identity_reader_v2(name=name), supports_serialize=True)


class FixedLengthRecordReader(ReaderBase):
    """Records of one length; keys are ``file:record``."""

    def __init__(
        self,
        record_bytes: int,
        header_bytes: int | None = None,
        footer_bytes: int | None = None,
        hop_bytes: int | None = None,
        name: str | None = None,
        encoding: str | None = None,
    ) -> None:
        """hop_bytes: from one record's start to the next (default: record_bytes)."""
        super().__init__(
            fixed_length_record_reader_v2(
                record_bytes=record_bytes,
                header_bytes=header_bytes or 0,
                footer_bytes=footer_bytes or 0,
                hop_bytes=hop_bytes or 0,
                encoding=encoding or "",
                name=name,
            )
        )


class TFRecordReader(ReaderBase):
    """Records of TFRecord files; keys are ``file:offset``."""

    def __init__(self, name: str | None = None, options: Any = None) -> None:
        """options: a TFRecordOptions, or what is one's compression_type.  Raises ValueError."""
        compression = TFRecordOptions.get_compression_type_string(options)
        super().__init__(tf_record_reader_v2(compression_type=compression, name=name))


class LMDBReader(ReaderBase):
    """Keys and values of LMDB databases in the order of the keys; work items are their directories.

    Running it needs the package lmdb: the extra `headrace[lmdb]`.
    """

    def __init__(self, name: str | None = None, options: Any = None) -> None:
        """options: there are none."""
        super().__init__(lmdb_reader(name=name))
