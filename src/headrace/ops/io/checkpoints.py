"""Ops that save and restore: tensors under names, in TensorFlow's checkpoint files of both formats.

The files are the task's that runs the node.  A save takes the values of all its variables in one moment, as leases, so
that other steps go on meanwhile: one that updates a variable works on a copy until its turn in the file has come.
Called by: training.saver, programs.  Threads: kernels run in any step's thread, block for the disk, and poll the step.
Source: TF 1.15 core/ops/io_ops.cc, core/kernels/{save_restore_v2_ops,save_restore_tensor}.cc; phrases of errors as of
2.21
"""

from __future__ import annotations

import math
import os
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from headrace.base import errors, shapes
from headrace.base.dtypes import DType
from headrace.base.shapes import Shape, text
from headrace.base.traits import CHECKPOINT, NEVER_FOLDED, POLLS, STATEFUL, TAKES_REFS
from headrace.codec.ordered import WHOLE
from headrace.codec.slice_specs import SliceSpec, parsed
from headrace.graph.registry import op
from headrace.graph.shape_fns import ShapeContext
from headrace.ops._kernels.file_globs import matches
from headrace.ops.state.resources import variable_behind
from headrace.run.checkpoints.log import MERGED, RESTORED, SAVED
from headrace.run.exec.kernel import KernelContext
from headrace.run.state.unread import Unread
from headrace.run.state.variable import Lease, ResourceVariable, State, lease_all, release

if TYPE_CHECKING:
    from headrace.run.checkpoints.reading import Checkpoint

__all__: list[str] = []

Array = np.ndarray[Any, Any]


# -- what inputs say ------------------------------------------------------------------------------


def _scalar(c: ShapeContext, *args: str) -> None:
    for arg in args:
        c.with_rank(arg, 0)


def _vector(c: ShapeContext, arg: str, count: int) -> None:
    (size,) = c.with_rank(arg, 1) or (None,)
    if size is not None and size != count:
        raise ValueError(
            f"Dimension must be {count} but is {size}: {arg} has one element for each of the {count} tensors"
        )


def _given(value: Any) -> Array:
    """An input that is no tensor to save, which may come from a variable."""
    if isinstance(value, State):
        return value.snapshot()
    return np.asarray(value, object) if isinstance(value, bytes) else np.asarray(value)


def _name_in(box: Any, what: str) -> bytes:
    value = _given(box)
    if value.ndim:
        raise errors.invalid_argument(
            f"Input {what} should be a scalar tensor, got {text(value.shape)} instead"
        )
    return bytes(value[()])


def _texts(box: Any, what: str, count: int | None = None) -> list[str]:
    """The strings of a vector, one for each of `count` tensors."""
    value = _given(box)
    if value.ndim != 1 or (count is not None and value.size != count):
        tensors = "" if count is None else f" with one element for each of the {count} tensors"
        raise errors.invalid_argument(
            f"Input {what} should be a vector{tensors}, and is of shape {text(value.shape)}"
        )
    return [os.fsdecode(each) for each in value]


# -- saving ---------------------------------------------------------------------------------------


def _save_shape(names: str, specs: str, tensors: str) -> Any:
    def shape(c: ShapeContext) -> list[Shape]:
        count = len(c.attr(tensors))
        _scalar(c, "prefix" if tensors == "dtypes" else "filename")
        _vector(c, names, count)
        if specs:
            _vector(c, specs, count)
        return []

    return shape


def _values(tensors: Sequence[Any], types: Sequence[DType]) -> list[Any]:
    """What is to be saved, all of one moment: arrays, and leases of variables, also of those behind handles."""
    for value, dtype in zip(tensors, types, strict=True):
        if isinstance(value, ResourceVariable):
            variable_behind(value, dtype)
    return lease_all(tensors)


def _array(value: Any) -> Array:
    return value.array if isinstance(value, Lease) else np.asarray(value)


def _nbytes(values: Sequence[Any]) -> int:
    """Of the numbers among them, in a file."""
    arrays = map(_array, values)
    return sum(array.nbytes for array in arrays if not array.dtype.hasobject)


def _spec_for(spec: str, array: Array) -> SliceSpec | None:
    """What part `array` is.  Raises InvalidArgument, Internal."""
    found = parsed(spec)
    if found is not None and found.shape != array.shape:
        raise errors.invalid_argument(
            "Slice in shape_and_slice specification does not match the shape of the tensor to  save: "
            f"{spec}, tensor: {text(array.shape)}: the part is of {text(found.shape)}"
        )
    return found


@op(
    "SaveV2",
    inputs="prefix: string; tensor_names: string; shape_and_slices: string; tensors: dtypes",
    attrs="dtypes: list(type) >= 1",
    shape=_save_shape("tensor_names", "shape_and_slices", "dtypes"),
    traits={STATEFUL, TAKES_REFS, POLLS, CHECKPOINT},
    differentiable=False,
)
def save_v2(
    ctx: KernelContext,
    prefix: Any,
    tensor_names: Any,
    shape_and_slices: Any,
    *tensors: Any,
    dtypes: Sequence[DType],
) -> None:
    """Save tensors, or parts of tensors, under their names as the checkpoint `prefix`, of format V2.

    prefix []; tensor_names, shape_and_slices [n], of n tensors of any shape.  The checkpoint that was there stays until
    the new one is whole.  Raises InvalidArgument (names, parts), FailedPrecondition (a variable without a value),
    NotFound, ResourceExhausted and other errors of files, PermissionDenied, and what ends the step meanwhile.
    """
    from headrace.run.checkpoints.writing import Bundle

    path = _name_in(prefix, "prefix")
    names = _texts(tensor_names, "tensor_names", len(dtypes))
    specs = _texts(shape_and_slices, "shape_and_slices", len(dtypes))
    values = _values(tensors, dtypes)
    try:
        nbytes, runtime = _nbytes(values), ctx.runtime
        with (
            runtime.checkpoints.noting(SAVED, path, len(names)) as note,
            Bundle(path, runtime.files, nbytes) as bundle,
        ):
            note.nbytes = nbytes
            for at, (name, spec, dtype) in enumerate(zip(names, specs, dtypes, strict=True)):
                array = _array(values[at])
                part = _spec_for(spec, array)
                if part is None:
                    bundle.writer.add(name, array, dtype.base_dtype)
                else:
                    bundle.writer.add_slice(name, part.sizes, part.extents, array, dtype.base_dtype)
                del array
                release(values[at : at + 1])
                values[at] = None
            bundle.publish()
    finally:
        release(values)


def _save_v1(
    ctx: KernelContext,
    filename: Any,
    names: list[str],
    specs: Sequence[str],
    tensors: Sequence[Any],
    types: Sequence[DType],
) -> None:
    from headrace.codec import slice_table
    from headrace.run.checkpoints.writing import write_file

    path = _name_in(filename, "filename")
    values = _values(tensors, types)
    try:
        parts = []
        for name, spec, value, dtype in zip(names, specs, values, types, strict=True):
            array = _array(value)
            part = _spec_for(spec, array) or SliceSpec(array.shape, ((0, WHOLE),) * array.ndim)
            parts.append(slice_table.Part(name, part.sizes, part.extents, array, dtype.base_dtype))
        with ctx.runtime.checkpoints.noting(SAVED, path, len(names)) as note:
            note.nbytes = _nbytes(values)
            write_file(path, slice_table.written(parts), ctx.runtime.files)
    finally:
        release(values)


@op(
    "Save",
    inputs="filename: string; tensor_names: string; data: T",
    attrs="T: list(type) >= 1",
    shape=_save_shape("tensor_names", "", "T"),
    traits={STATEFUL, TAKES_REFS, POLLS, CHECKPOINT},
    differentiable=False,
)
def save(
    ctx: KernelContext, filename: Any, tensor_names: Any, *data: Any, T: Sequence[DType]
) -> None:
    """Save tensors under their names in one file, of format V1.

    filename []; tensor_names [n], of n tensors of any shape.
    Raises InvalidArgument (names), FailedPrecondition (a variable without a value), Unimplemented (types that are no
    data), NotFound and other errors of files, PermissionDenied, and what ends the step meanwhile.
    """
    names = _texts(tensor_names, "tensor_names", len(T))
    _save_v1(ctx, filename, names, [""] * len(T), data, T)


@op(
    "SaveSlices",
    inputs="filename: string; tensor_names: string; shapes_and_slices: string; data: T",
    attrs="T: list(type) >= 1",
    shape=_save_shape("tensor_names", "shapes_and_slices", "T"),
    traits={STATEFUL, TAKES_REFS, POLLS, CHECKPOINT},
    differentiable=False,
)
def save_slices(
    ctx: KernelContext,
    filename: Any,
    tensor_names: Any,
    shapes_and_slices: Any,
    *data: Any,
    T: Sequence[DType],
) -> None:
    """As Save, of tensors and parts of tensors.

    filename []; tensor_names, shapes_and_slices [n].  Raises InvalidArgument and Internal (parts) too.
    """
    names = _texts(tensor_names, "tensor_names", len(T))
    specs = _texts(shapes_and_slices, "shapes_and_slices", len(T))
    _save_v1(ctx, filename, names, specs, data, T)


# -- restoring ------------------------------------------------------------------------------------


def _part_of(spec: str) -> SliceSpec | None:
    """As `parsed`, for shape functions."""
    try:
        return parsed(spec)
    except errors.InvalidArgumentError as error:
        raise ValueError(error.message) from None


def _restore_v2_shapes(c: ShapeContext) -> list[Shape]:
    _scalar(c, "prefix")
    names, specs = c.with_rank("tensor_names", 1), c.with_rank("shape_and_slices", 1)
    shapes.merge(names, specs)
    value = c.value("shape_and_slices")
    if value is None:
        return [None] * c.num_outputs
    if value.size != c.num_outputs:
        raise ValueError(
            f"The number of shape_and_slice doesn't match tensor outputs: {value.size} and {c.num_outputs}"
        )
    parts = [_part_of(os.fsdecode(each)) for each in value]
    return [None if part is None else part.shape for part in parts]


@op(
    "RestoreV2",
    inputs="prefix: string; tensor_names: string; shape_and_slices: string",
    outputs="tensors: dtypes",
    attrs="dtypes: list(type) >= 1",
    shape=_restore_v2_shapes,
    traits={STATEFUL, POLLS, CHECKPOINT},
    differentiable=False,
)
def restore_v2(
    ctx: KernelContext,
    prefix: Any,
    tensor_names: Any,
    shape_and_slices: Any,
    *,
    dtypes: Sequence[DType],
) -> list[Any]:
    """Tensors, or parts of tensors, of the checkpoint `prefix`; also of one of format V1.

    prefix []; tensor_names, shape_and_slices [n]; n tensors.  All are read, and their checksums looked at, before any
    is given.  Raises NotFound (no such checkpoint, all tensors that it lacks), InvalidArgument (another type or shape),
    DataLoss, PermissionDenied and other errors of files, and what ends the step meanwhile.
    """
    return _restored(
        ctx, prefix, tensor_names, shape_and_slices, dtypes=dtypes, unread=[False] * len(dtypes)
    )


@restore_v2.unread
def _restored(
    ctx: KernelContext,
    prefix: Any,
    tensor_names: Any,
    shape_and_slices: Any,
    *,
    dtypes: Sequence[DType],
    unread: Sequence[bool],
) -> list[Array | Unread]:
    from headrace.run.checkpoints.reading import Checkpoint

    path = _name_in(prefix, "prefix")
    names = _texts(tensor_names, "tensor_names", len(dtypes))
    specs = [parsed(spec) for spec in _texts(shape_and_slices, "shape_and_slices", len(dtypes))]
    runtime = ctx.runtime
    with (
        runtime.checkpoints.noting(RESTORED, path, len(names)) as note,
        Checkpoint(path, runtime.files, _matching) as checkpoint,
    ):
        _check_all(checkpoint, names, specs, dtypes)
        parts = [None if part is None else part.extents for part in specs]
        values = checkpoint.values(list(zip(names, parts, strict=True)), unread)
        note.nbytes = sum(map(_size, values))
    return values


def _size(value: Array | Unread) -> int:
    """Bytes of a value that is restored; of strings, nothing."""
    return 0 if value.dtype.hasobject else math.prod(value.shape) * value.dtype.itemsize


def _matching(pattern: bytes, files: Any) -> list[bytes]:
    return [path for path in matches([pattern], files) if not files.is_directory(path)]


def _check_all(
    checkpoint: Checkpoint,
    names: Sequence[str],
    specs: Sequence[SliceSpec | None],
    types: Sequence[DType],
) -> None:
    """Raise NotFound, naming all that is missing, or InvalidArgument for what does not fit."""
    missing = [name for name in names if not checkpoint.has(name)]
    if missing:
        try:
            checkpoint.about(missing[0])
        except errors.NotFoundError as error:
            if len(missing) == 1:
                raise
            others = ", ".join(missing[1:40])
            raise errors.not_found(
                f"{error.message}.  {len(missing)} of the {len(names)} tensors are missing, beside that one: {others}"
                + (", ..." if len(missing) > 40 else "")
            ) from None
    for name, part, dtype in zip(names, specs, types, strict=True):
        _check(checkpoint, name, part, dtype)


def _check(checkpoint: Checkpoint, name: str, part: SliceSpec | None, dtype: DType) -> None:
    stored, sizes = checkpoint.about(name)
    old, given = checkpoint.bundle is None, dtype.base_dtype
    if stored is not given:
        raise errors.invalid_argument(
            f"Expected to restore a tensor of type {_type_text(given)}, got a tensor of type {_type_text(stored)} "
            f"instead: tensor_name = {name}"
            if old
            else f"tensor_name = {name}; expected dtype {_type_text(given)} does not equal original dtype "
            f"{_type_text(stored)}: the first is the graph's, the second that of checkpoint {checkpoint.prefix}"
        )
    if part is not None and part.sizes != sizes:
        raise errors.invalid_argument(
            f"Shape in shape_and_slice spec does not match the shape in the save file: {text(part.sizes)}, save file "
            f"shape: {text(sizes)}: tensor_name = {name}"
            if old
            else f"tensor_name = {name}; shape in shape_and_slice spec {text(part.sizes)} does not match the shape "
            f"stored in checkpoint: {text(sizes)}"
        )


_TYPE_TEXTS = {"float32": "float", "float64": "double", "float16": "half"}


def _type_text(dtype: DType) -> str:
    """A type as TensorFlow's errors print it."""
    return _TYPE_TEXTS.get(dtype.name, dtype.name)


def _restored_v1(ctx: KernelContext, pattern: Any, name: Any, spec: str, dt: DType) -> Array:
    from headrace.run.checkpoints.reading import Checkpoint

    path, key = _name_in(pattern, "file_pattern"), os.fsdecode(_name_in(name, "tensor_name"))
    part = parsed(spec)
    runtime = ctx.runtime
    with (
        runtime.checkpoints.noting(RESTORED, path, 1) as note,
        Checkpoint(path, runtime.files, _matching, bundles=False) as checkpoint,
    ):
        _check_all(checkpoint, [key], [part], [dt])
        value = checkpoint.tensor(key) if part is None else checkpoint.part(key, part.extents)
        note.nbytes = _size(value)
    return value


def _restore_shape(c: ShapeContext) -> Shape:
    _scalar(c, "file_pattern", "tensor_name")
    return None


@op(
    "Restore",
    inputs="file_pattern: string; tensor_name: string",
    outputs="tensor: dt",
    attrs="dt: type; preferred_shard: int = -1",
    shape=_restore_shape,
    traits={STATEFUL, POLLS, CHECKPOINT},
    differentiable=False,
)
def restore(ctx: KernelContext, file_pattern: Any, tensor_name: Any, *, dt: DType) -> Array:
    """A tensor of a checkpoint of format V1.

    file_pattern: a name or a glob pattern of its files, of which all are looked at (preferred_shard only says where
    TensorFlow looks first); tensor_name []; tensor of any shape.
    Raises NotFound, InvalidArgument (another type), DataLoss, PermissionDenied and other errors of files.
    """
    return _restored_v1(ctx, file_pattern, tensor_name, "", dt)


def _restore_slice_shape(c: ShapeContext) -> Shape:
    _scalar(c, "file_pattern", "tensor_name", "shape_and_slice")
    value = c.value("shape_and_slice")
    part = None if value is None else _part_of(os.fsdecode(bytes(value[()])))
    return None if part is None else part.shape


@op(
    "RestoreSlice",
    inputs="file_pattern: string; tensor_name: string; shape_and_slice: string",
    outputs="tensor: dt",
    attrs="dt: type; preferred_shard: int = -1",
    shape=_restore_slice_shape,
    traits={STATEFUL, POLLS, CHECKPOINT},
    differentiable=False,
)
def restore_slice(
    ctx: KernelContext, file_pattern: Any, tensor_name: Any, shape_and_slice: Any, *, dt: DType
) -> Array:
    """As Restore, of a part of a tensor, however it was cut when it was saved.

    Raises InvalidArgument and Internal (a part that the tensor does not have) too.
    """
    spec = os.fsdecode(_name_in(shape_and_slice, "shape_and_slice"))
    return _restored_v1(ctx, file_pattern, tensor_name, spec, dt)


# -- shards ---------------------------------------------------------------------------------------


def _merge_shape(c: ShapeContext) -> list[Shape]:
    c.with_rank("checkpoint_prefixes", 1)
    _scalar(c, "destination_prefix")
    return []


@op(
    "MergeV2Checkpoints",
    inputs="checkpoint_prefixes: string; destination_prefix: string",
    attrs="delete_old_dirs: bool = true; allow_missing_files: bool = false",
    shape=_merge_shape,
    traits={STATEFUL, POLLS, CHECKPOINT},
    differentiable=False,
)
def merge_v2_checkpoints(
    ctx: KernelContext,
    checkpoint_prefixes: Any,
    destination_prefix: Any,
    *,
    delete_old_dirs: bool,
    allow_missing_files: bool,
) -> None:
    """Make one checkpoint of several: their data files are renamed, one index takes the place of theirs.

    checkpoint_prefixes [n]; destination_prefix [].  delete_old_dirs: those directories that are empty then.
    Raises InvalidArgument (one is missing, two have the same tensor), DataLoss, PermissionDenied and other errors of
    files.
    """
    from headrace.run.checkpoints.writing import merge

    prefixes = [os.fsencode(each) for each in _texts(checkpoint_prefixes, "checkpoint_prefixes")]
    path = _name_in(destination_prefix, "destination_prefix")
    with ctx.runtime.checkpoints.noting(MERGED, path) as note:
        note.tensors, note.nbytes = merge(
            prefixes, path, delete_old_dirs, allow_missing_files, ctx.runtime.files
        )


def _filename_shape(c: ShapeContext) -> Shape:
    for arg in range(len(c.op.inputs)):
        c.with_rank(arg, 0)
    return ()


def _number_in(value: Any, what: str) -> int:
    if np.ndim(value):
        raise errors.invalid_argument(f"{what} must be a scalar, got shape {text(np.shape(value))}")
    return int(value)


def _boxed(value: bytes) -> Array:
    return np.array(value, object)


@op(
    "ShardedFilename",
    inputs="basename: string; shard: int32; num_shards: int32",
    outputs="filename: string",
    shape=_filename_shape,
    differentiable=False,
)
def sharded_filename(xp: Any, basename: Array, shard: Any, num_shards: Any) -> Array:
    """The name of a shard: ``m-00001-of-00003``.

    All []. Raises InvalidArgument unless they are scalars.
    """
    name = _name_in(basename, "basename")
    at, count = _number_in(shard, "shard"), _number_in(num_shards, "num_shards")
    return _boxed(name + f"-{at:05d}-of-{count:05d}".encode())


@op(
    "ShardedFilespec",
    inputs="basename: string; num_shards: int32",
    outputs="filename: string",
    shape=_filename_shape,
    differentiable=False,
)
def sharded_filespec(xp: Any, basename: Array, num_shards: Any) -> Array:
    """The pattern of all shards' names: ``m-?????-of-00003``.

    All [].  Raises InvalidArgument unless they are scalars.
    """
    name = _name_in(basename, "basename")
    return _boxed(name + f"-?????-of-{_number_in(num_shards, 'num_shards'):05d}".encode())


@op(
    "DisableCopyOnRead",
    inputs="resource: resource",
    shape=lambda c: [],
    traits={STATEFUL, NEVER_FOLDED},
    differentiable=False,
)
def disable_copy_on_read(xp: Any, resource: Any) -> None:
    """Nothing: what later versions of TensorFlow's savers say to resource variables, whose reads are no copies here."""
