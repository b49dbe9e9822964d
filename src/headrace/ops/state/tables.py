"""Lookup tables: hash tables that are initialized once, mutable ones, and what is done with them.

Each op has a form for string references and one for resource handles (V2), which do the same.
At run time a handle is the `run.state.tables.LookupTable` itself.
Called by: library.lookup, training.tables, programs that name these ops.
Threads: building as graph; kernels any step's.
Source: TF 1.15 core/ops/lookup_ops.cc, core/kernels/lookup_table_{init_,}op.cc, lookup_util.cc, for behaviour
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from headrace.base import dtypes, errors
from headrace.base import shapes as shape_rules
from headrace.base.dtypes import DType
from headrace.base.shapes import Shape, TensorShape, text
from headrace.base.traits import HANDLE, KEEPS_NOTHING, NEVER_FOLDED, NONE, STATEFUL, Traits
from headrace.graph.graph import Operation
from headrace.graph.registry import op
from headrace.graph.shape_fns import ShapeContext
from headrace.ops._kernels.fingerprints import murmur
from headrace.run.exec.kernel import KernelContext
from headrace.run.readers.files import file_error
from headrace.run.state.tables import DenseTable, LookupTable, MutableTable, StaticTable

__all__: list[str] = []

Array = np.ndarray[Any, Any]

_SHARED = "container: string = ''; shared_name: string = ''; use_node_name_sharing: bool = false"
_KEYS = "key_dtype: type; value_dtype: type"
_VALUE_SHAPE = "value_shape: shape = []"
_BUCKETS = "initial_num_buckets: int = 131072; max_load_factor: float = 0.8"


# -- the tables -------------------------------------------------------------------------------


def _made(name: str, attrs: str, kernel: Any, inputs: str = "", more: str = "") -> None:
    """Two ops that give the handle of a table: `name` and its V2.  more: inputs of the second only."""

    def shape(c: ShapeContext) -> Shape:
        return () if c.op.type.endswith("V2") else (2,)

    for form, kind, given in (("", "Ref(string)", inputs), ("V2", "resource", inputs + more)):
        op(
            name + form,
            inputs=given,
            outputs=f"table_handle: {kind}",
            attrs=f"{_SHARED}; {attrs}",
            shape=shape,
            traits={STATEFUL, HANDLE},
            differentiable=False,
        )(kernel)


def _shared(ctx: KernelContext, factory: Callable[[], LookupTable]) -> LookupTable:
    """The table of this node: shared under its shared_name, or the node's name if it says so; else its session's."""
    attrs = ctx.node.attrs
    container, name = _bytes(attrs["container"]), _bytes(attrs["shared_name"])
    if name or attrs["use_node_name_sharing"]:
        found = ctx.resource(LookupTable, factory, container, name)
    else:
        found = ctx.private_resource(LookupTable, factory, container)
    if found is not ctx.memo.get("checked"):
        found.check_types(attrs["key_dtype"], attrs["value_dtype"])
        ctx.memo["checked"] = found
    return found


def _bytes(name: Any) -> bytes:
    return name.encode() if isinstance(name, str) else bytes(name)


def hash_table(ctx: KernelContext, *, key_dtype: DType, value_dtype: DType) -> LookupTable:
    """A table that is initialized once; nodes of one container and shared_name share it.

    Raises InvalidArgument when it exists and is of other types.
    """
    return _shared(ctx, lambda: StaticTable(ctx.node.name, key_dtype, value_dtype))


def mutable_hash_table(ctx: KernelContext, *, key_dtype: DType, value_dtype: DType) -> LookupTable:
    """A table whose keys come and go.  Raises as HashTable."""
    return _shared(ctx, lambda: MutableTable(ctx.node.name, key_dtype, value_dtype))


def mutable_hash_table_of_tensors(
    ctx: KernelContext, *, key_dtype: DType, value_dtype: DType, value_shape: TensorShape
) -> LookupTable:
    """A mutable table whose values have a shape.  Raises as HashTable."""
    shape = _known(value_shape)
    return _shared(ctx, lambda: MutableTable(ctx.node.name, key_dtype, value_dtype, shape))


def _known(shape: TensorShape) -> tuple[int, ...]:
    raw = shape._raw
    if raw is None or None in raw:
        raise errors.invalid_argument(f"value_shape must be known, and is {text(raw)}")
    return tuple(int(size) for size in raw if size is not None)


def mutable_dense_hash_table(
    ctx: KernelContext,
    empty_key: Array,
    deleted_key: Any = None,
    *,
    key_dtype: DType,
    value_dtype: DType,
    value_shape: TensorShape,
    initial_num_buckets: int,
    max_load_factor: float,
) -> LookupTable:
    """A mutable table of which two keys cannot be used.

    Raises as HashTable, Unimplemented for keys that are tensors.
    """
    marks = []
    for mark in (empty_key, deleted_key):
        if mark is not None and np.ndim(mark):
            raise errors.unimplemented(
                f"keys that are tensors are not supported, and the empty key has the shape {text(np.shape(mark))}; "
                "a table of strings takes tf.serialize_tensor of them"
            )
        marks.append(None if mark is None else np.asarray(mark).tolist())
    shape = _known(value_shape)

    def make() -> DenseTable:
        return DenseTable(
            ctx.node.name,
            key_dtype,
            value_dtype,
            shape,
            marks[0],
            marks[1],
            initial_num_buckets,
            max_load_factor,
            _hashes,
        )

    return _shared(ctx, make)


def _hashes(keys: list[Any]) -> list[int]:
    """As TensorFlow places keys in buckets: numbers by themselves, strings by their hash."""
    if keys and isinstance(keys[0], bytes):
        listed: list[int] = murmur(keys).tolist()
        return listed
    return [int(key) for key in keys]


_made("HashTable", _KEYS, hash_table)
_made("MutableHashTable", _KEYS, mutable_hash_table)
_made("MutableHashTableOfTensors", f"{_KEYS}; {_VALUE_SHAPE}", mutable_hash_table_of_tensors)
_made(
    "MutableDenseHashTable",
    f"{_KEYS}; {_VALUE_SHAPE}; {_BUCKETS}",
    mutable_dense_hash_table,
    "empty_key: key_dtype",
    "; deleted_key: key_dtype",
)


# -- what is done with them -------------------------------------------------------------------


def _table_of(handle: Any) -> LookupTable:
    if isinstance(handle, np.ndarray) and handle.ndim == 0:
        handle = handle[()]
    if not isinstance(handle, LookupTable):
        kind = getattr(handle, "kind", type(handle).__name__)
        raise errors.invalid_argument(
            f"the handle of a lookup table is needed, and what was given is a {kind}"
        )
    return handle


def _typed(ctx: KernelContext, handle: Any, keys: str, values: str | None) -> LookupTable:
    """The table, if its types are those that the node's attrs say.  Raises InvalidArgument."""
    table, attrs = _table_of(handle), ctx.node.attrs
    wanted = (attrs[keys], table.value_dtype if values is None else attrs[values])
    if wanted != (table.key_dtype, table.value_dtype):
        raise errors.invalid_argument(
            f"Signature mismatch, have: {wanted[0].name}->{wanted[1].name} expected: {table.key_dtype.name}->"
            f"{table.value_dtype.name}: table {table.label!r} has keys and values of these types"
        )
    return table


def _used(
    name: str,
    inputs: str,
    outputs: str,
    attrs: str,
    shape: Any,
    kernel: Any,
    traits: Traits = NONE,
) -> None:
    """Two ops on the handle of a table: `name` and its V2, which has `traits`."""
    for form, kind in (("", "Ref(string)"), ("V2", "resource")):
        if name != "LookupTableRemove" or form:
            op(
                name + form,
                inputs=f"table_handle: {kind}{inputs}",
                outputs=outputs,
                attrs=attrs,
                shape=shape,
                traits={STATEFUL, *traits} if form else {NEVER_FOLDED},
                differentiable=False,
            )(kernel)


def _nothing(c: ShapeContext) -> list[Shape]:
    return []


def _maker(c: ShapeContext) -> Operation | None:
    """The node that makes the handle, if the graph says what its values are."""
    maker = c.op.inputs[0].op
    known = HANDLE in maker.traits and maker.type.endswith("V2") and "value_dtype" in maker.attrs
    return maker if known else None


def _found_shape(c: ShapeContext) -> Shape:
    maker = _maker(c)
    default = c.shape("default_value")
    if maker is None:
        return None
    if (maker["key_dtype"], maker["value_dtype"]) != (c.attr("Tin"), c.attr("Tout")):
        return None
    value = maker["value_shape"]._raw if "value_shape" in maker.attrs else ()
    keys = c.shape("keys")
    if maker.type == "HashTableV2" and default != ():
        return None
    if value is None or keys is None:
        return None
    return (*keys, *value)


def lookup_table_find(
    ctx: KernelContext, table_handle: Any, keys: Array, default_value: Any
) -> Any:
    """The value of each key, default_value where there is none.

    keys: any shape; default_value: a value, or one a key; values: the keys' shape and a value's.
    Raises FailedPrecondition before the table is initialized, InvalidArgument on types and shapes that do not fit.
    """
    table = _typed(ctx, table_handle, "Tin", "Tout")
    found = table.find(np.asarray(keys), np.asarray(default_value))
    return found if found.ndim else found[()]


_FIND = "Tin: type; Tout: type"
_used(
    "LookupTableFind",
    "; keys: Tin; default_value: Tout",
    "values: Tout",
    _FIND,
    _found_shape,
    lookup_table_find,
    {KEEPS_NOTHING},
)


def lookup_table_insert(ctx: KernelContext, table_handle: Any, keys: Array, values: Array) -> None:
    """Give each key a value.  Raises InvalidArgument, Unimplemented for a table that is initialized once."""
    table = _typed(ctx, table_handle, "Tin", "Tout")
    table.insert(np.asarray(keys), np.asarray(values))


_used("LookupTableInsert", "; keys: Tin; values: Tout", "", _FIND, _nothing, lookup_table_insert)


def lookup_table_remove(ctx: KernelContext, table_handle: Any, keys: Array) -> None:
    """Forget keys.  Raises InvalidArgument, Unimplemented for a table that is initialized once."""
    _typed(ctx, table_handle, "Tin", None).remove(np.asarray(keys))


_used("LookupTableRemove", "; keys: Tin", "", "Tin: type", _nothing, lookup_table_remove)


def lookup_table_size(xp: Any, table_handle: Any) -> Any:
    """How many keys there are.  Raises InvalidArgument for what is no table."""
    return np.int64(_table_of(table_handle).size())


_used("LookupTableSize", "", "size: int64", "", lambda c: (), lookup_table_size, {KEEPS_NOTHING})


def _exported_shapes(c: ShapeContext) -> list[Shape]:
    return [None, None] if c.op.type.endswith("V2") else [(None,), None]


def lookup_table_export(ctx: KernelContext, table_handle: Any) -> tuple[Array, Array]:
    """All keys and their values.  Raises InvalidArgument, Aborted before the table is initialized."""
    return _typed(ctx, table_handle, "Tkeys", "Tvalues").export()


_used(
    "LookupTableExport",
    "",
    "keys: Tkeys; values: Tvalues",
    "Tkeys: type; Tvalues: type",
    _exported_shapes,
    lookup_table_export,
)


def lookup_table_import(ctx: KernelContext, table_handle: Any, keys: Array, values: Array) -> None:
    """Have these keys and values, in the place of all others.

    Raises InvalidArgument, FailedPrecondition (a table that is initialized once, and has other keys).
    """
    table = _typed(ctx, table_handle, "Tin", "Tout")
    table.replace(np.asarray(keys), np.asarray(values))


def _imported_shapes(c: ShapeContext) -> list[Shape]:
    """Values of a table of vectors have one dimension more."""
    keys, values = c.with_rank("keys", 1), c.with_rank_at_least("values", 1)
    if keys is not None and values is not None:
        shape_rules.merge_sizes(
            keys[0], values[0], f"keys {text(keys)} and values {text(values)} are pairs"
        )
    return []


_used(
    "LookupTableImport",
    "; keys: Tin; values: Tout",
    "",
    _FIND,
    _imported_shapes,
    lookup_table_import,
)


# -- initialization ---------------------------------------------------------------------------


def _initialized(c: ShapeContext) -> list[Shape]:
    shape_rules.merge(c.with_rank("keys", 1), c.with_rank("values", 1))
    return []


def initialize_table(ctx: KernelContext, table_handle: Any, keys: Array, values: Array) -> None:
    """Have these keys [n] and values [n], once.

    Raises InvalidArgument (a mutable table, shapes, no keys), FailedPrecondition (others are there, one has two).
    """
    table = _typed(ctx, table_handle, "Tkey", "Tval")
    table.initialize(np.asarray(keys), np.asarray(values))


_used(
    "InitializeTable",
    "; keys: Tkey; values: Tval",
    "",
    "Tkey: type; Tval: type",
    _initialized,
    initialize_table,
)

WHOLE_LINE, LINE_NUMBER = -2, -1
"""Columns of a text file that are none."""


def initialize_from_file(
    ctx: KernelContext,
    table_handle: Any,
    filename: Any,
    *,
    key_index: int,
    value_index: int,
    vocab_size: int,
    delimiter: bytes,
    offset: int,
) -> None:
    """Have the keys and values in columns of a text file, once; -2 is the whole line, -1 its number.

    filename []; vocab_size: how many lines, -1 for all; offset: the number of the first line.
    Raises InvalidArgument (columns, numbers, lines that are not there), NotFound, FailedPrecondition, PermissionDenied.
    """
    table = _table_of(table_handle)
    if np.ndim(filename):
        raise errors.invalid_argument(
            f"filename should be a single string, but got {text(np.shape(filename))}"
        )
    path = bytes(np.asarray(filename).item())
    if len(delimiter) != 1:
        raise errors.invalid_argument(f"delimiter should be only 1 char, and is {delimiter!r}")
    try:
        with ctx.runtime.files.open(path, "rb") as file:
            content = file.read()
    except (OSError, ValueError) as error:
        raise file_error(path, error) from None
    lines = content.replace(b"\r", b"").split(b"\n")
    if not lines[-1]:
        lines.pop()
    if not lines:
        raise errors.invalid_argument(f"Invalid content in {_shown(path)}: it has no lines")
    if vocab_size != -1:
        if len(lines) < vocab_size:
            raise errors.invalid_argument(
                f"Invalid vocab_size in {_shown(path)}: expected {vocab_size} but got {len(lines)}"
            )
        del lines[vocab_size:]
    if b"" in lines:
        raise errors.invalid_argument(
            f"Invalid content in {_shown(path)}: empty line found at position {_end_of(content, lines.index(b''))}."
        )
    keys = _column(lines, key_index, table.key_dtype, delimiter, offset, path)
    values = _column(lines, value_index, table.value_dtype, delimiter, offset, path)
    table.initialize(keys, values)


def _end_of(content: bytes, line: int) -> int:
    """How many bytes there are up to the end of a line."""
    return sum(len(each) + 1 for each in content.split(b"\n", line + 1)[: line + 1])


def _shown(text: bytes) -> str:
    return text.decode(errors="replace")


def _column(
    lines: list[bytes], index: int, kind: DType, delimiter: bytes, offset: int, path: bytes
) -> Array:
    """One column of the lines, as `kind`.  Raises InvalidArgument."""
    if index == LINE_NUMBER:
        if kind is not dtypes.int64:
            raise errors.invalid_argument(
                f"Key index for line number requires int64 dtype, got {kind.name}"
            )
        return np.arange(offset, offset + len(lines), dtype=np.int64)
    words = lines if index == WHOLE_LINE else _split(lines, index, delimiter, path)
    out = np.empty(len(words), kind.np)
    if kind is dtypes.string:
        out[:] = words
        return out
    number = float if kind.is_floating else int
    for at, word in enumerate(words):
        try:
            if b"_" in word:  # which Python reads, too
                raise ValueError(word)
            out[at] = number(word)
        except (ValueError, OverflowError):
            raise errors.invalid_argument(
                f"Field {_shown(word)} in line {at} is not a valid {kind.name}. The file is {_shown(path)}"
            ) from None
    return out


def _split(lines: list[bytes], index: int, delimiter: bytes, path: bytes) -> list[bytes]:
    words = []
    for at, line in enumerate(lines):
        columns = line.split(delimiter)
        if len(columns) <= index:
            raise errors.invalid_argument(
                f"Invalid number of columns in {_shown(path)} line {at} ({_shown(line)}) : expected at least "
                f"{index + 1} got {len(columns)}"
            )
        words.append(columns[index])
    return words


def _from_file(c: ShapeContext) -> list[Shape]:
    c.with_rank("filename", 0)
    return []


_used(
    "InitializeTableFromTextFile",
    "; filename: string",
    "",
    "key_index: int >= -2; value_index: int >= -2; vocab_size: int >= -1 = -1; delimiter: string = '\\t'; "
    "offset: int = 0",
    _from_file,
    initialize_from_file,
)
