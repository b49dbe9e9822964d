"""Values as text: Print, tf.print, string formatting.

Two notations, as in TensorFlow: the old one of Print shows the first elements of the flattened
tensor, the one of StringFormat both ends of every dimension.
Called by: users.  Threads: any; prints go to the process that runs the node.
Source: behaviour of TF 1.15 (core/framework/tensor.cc, core/kernels/logging_ops.cc,
string_format_op.cc, python/ops/logging_ops.py), GraphDefs as 2.21.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from headrace.base import dtypes, errors
from headrace.base.dtypes import DType
from headrace.base.nest import flatten
from headrace.base.traits import ALIASES, KEEPS_NOTHING, STATEFUL
from headrace.graph.graph import Operation
from headrace.graph.registry import op
from headrace.graph.shape_fns import scalar, unchanged
from headrace.graph.sparse import SparseTensor
from headrace.graph.tensor import Tensor
from headrace.run.exec.kernel import KernelContext
from headrace.run.readers.files import file_error

__all__ = ["Print", "print", "string_format"]

# -- elements ---------------------------------------------------------------------------------

_ESCAPES = {9: "\\t", 10: "\\n", 13: "\\r", 34: '\\"', 39: "\\'", 92: "\\\\"}


def _escaped(value: bytes) -> str:
    return "".join(
        _ESCAPES.get(byte) or (chr(byte) if 32 <= byte < 127 else f"\\{byte:03o}") for byte in value
    )


def _shortest(value: Any, few: int, many: int) -> str:
    """As many digits as the value needs to be read back, `few` if they do."""
    found: str = f"%.{few}g" % value
    return found if type(value)(found) == value or value != value else str(f"%.{many}g" % value)


def _element_writer(dtype: np.dtype[Any], quoted: bool) -> Callable[[Any], str]:
    if dtype.kind == "O":
        return lambda value: f'"{_escaped(value)}"' if quoted else _escaped(value)
    if dtype == np.float64:
        return lambda value: _shortest(np.float64(value), 15, 17)
    if dtype == np.bool_:
        return lambda value: str(int(value))
    if dtype.kind in "iu" and dtype.isbuiltin == 1:
        return str
    if dtype.kind == "c" or dtype.names:
        return lambda value: "?"
    return lambda value: _shortest(np.float32(value), 6, 9)


def _items(array: Any) -> list[Any]:
    """The elements in row-major order, as Python or NumPy scalars."""
    flat = np.reshape(array, -1)
    return flat.tolist() if flat.dtype.isbuiltin == 1 else list(flat)


# -- the notation of Print --------------------------------------------------------------------


def summary(array: Any, limit: int) -> str:
    """The first `limit` elements (all if negative), nested by dimension: ``[1 2][3...]...``."""
    flat = _items(array)
    write = _element_writer(array.dtype, quoted=False)
    most = len(flat) if limit < 0 else min(limit, len(flat))
    out: list[str] = []
    if array.ndim == 0:
        return write(flat[0]) if most else "..."
    if len(flat):
        _write_dim(out, array.shape, 0, [write(value) for value in flat[:most]], 0)
    if len(flat) > most:
        out.append("...")
    return "".join(out)


def _write_dim(out: list[str], sizes: tuple[int, ...], dim: int, words: list[str], at: int) -> int:
    if dim == len(sizes) - 1:
        row = words[at : at + sizes[dim]]
        out.append(" ".join(row))
        if len(row) < sizes[dim] and dim:
            out.append("...")
        return at + len(row)
    for _ in range(sizes[dim]):
        if at >= len(words):
            break
        out.append("[")
        at = _write_dim(out, sizes, dim + 1, words, at)
        out.append("]")
    return at


# -- the notation of StringFormat -------------------------------------------------------------


def both_ends(array: Any, ends: int) -> str:
    """The first and last `ends` of every dimension (all if negative), as NumPy prints arrays."""
    write = _element_writer(array.dtype, quoted=True)
    return _both_ends(array, ends, 0, write)


def _both_ends(array: Any, ends: int, dim: int, write: Callable[[Any], str]) -> str:
    if array.ndim == 0:
        return write(_items(array)[0])
    count = len(array) if array.size else 0
    if ends < 0 or count <= 2 * ends:
        shown: list[int | None] = list(range(count))
    else:
        shown = [*range(ends), None, *range(count - ends, count)]
    gap = " " if array.ndim == 1 else "\n" * (array.ndim - 1) + " " * (dim + 1)
    parts = ["..." if i is None else _both_ends(array[i, ...], ends, dim + 1, write) for i in shown]
    return f"[{gap.join(parts)}]"


# -- Print ------------------------------------------------------------------------------------


@op(
    "Print",
    inputs="input: T; data: U",
    outputs="output: T",
    attrs="T: type; U: list(type) >= 0; message: string = ''; first_n: int = -1; summarize: int = 3",
    shape=unchanged,
    traits={STATEFUL, ALIASES, KEEPS_NOTHING},
)
def print_v1_op(
    ctx: Any, input: Any, *data: Any, message: bytes, first_n: int, summarize: int
) -> Any:
    """The input; writes message and a summary of each of data to stderr, the first_n times (always if < 0)."""
    if first_n >= 0:
        count = ctx.memo.get("printed", 0)
        if count >= first_n:
            return input
        ctx.memo["printed"] = count + 1
    shown = "".join(f"[{summary(np.asarray(item), summarize)}]" for item in data)
    sys.stderr.write(f"{message.decode(errors='replace')}{shown}\n")
    return input


@print_v1_op.gradient
def _(op: Operation, dout: Tensor) -> list[Tensor | None]:
    return [dout] + [None] * (len(op.inputs) - 1)


def Print(
    input_: Any,
    data: Any,
    message: str | None = None,
    first_n: int | None = None,
    summarize: int | None = None,
    name: str | None = None,
) -> Tensor:
    """`input_`; each step that uses the result writes `message` and the tensors of `data` to stderr.

    first_n: only so many times.  summarize: how many elements of each tensor (3).
    """
    given = {"message": message, "first_n": first_n, "summarize": summarize}
    attrs = {key: value for key, value in given.items() if value is not None}
    made: Tensor = print_v1_op(input_, data, name=name, **attrs)
    return made


# -- StringFormat, PrintV2 --------------------------------------------------------------------


@op(
    "StringFormat",
    inputs="inputs: T",
    outputs="output: string",
    attrs="T: list(type) >= 0; template: string = '%s'; placeholder: string = '%s'; summarize: int = 3",
    shape=scalar,
    differentiable=False,
)
def string_format_op(
    xp: Any, *inputs: Any, template: bytes, placeholder: bytes, summarize: int
) -> Any:
    """The template with each placeholder replaced by an input.

    Raises InvalidArgument if there are not as many of both.
    """
    pieces = template.split(placeholder)
    if len(pieces) - 1 != len(inputs):
        raise errors.invalid_argument(
            f"the template has {len(pieces) - 1} placeholders for {len(inputs)} inputs"
        )
    words = [both_ends(np.asarray(item), summarize).encode() for item in inputs]
    out = np.empty((), object)
    out[()] = b"".join(piece + word for piece, word in zip(pieces, [*words, b""], strict=True))
    return out


def string_format(
    template: str, inputs: Any, placeholder: str = "{}", summarize: int = 3, name: str | None = None
) -> Tensor:
    """`template` with each `placeholder` replaced by a tensor of `inputs` (nested lists of them).

    Raises ValueError if there are not as many of both.
    """
    tensors = flatten(inputs)
    if template.count(placeholder) != len(tensors):
        raise ValueError(
            f"The template expects {template.count(placeholder)} tensors, as it has so many {placeholder!r}, "
            f"but the inputs only has {len(tensors)}"
        )
    made: Tensor = string_format_op(
        tensors, template=template, placeholder=placeholder, summarize=summarize, name=name
    )
    return made


_LEVELS = {
    "log(info)": 20,
    "log(warning)": 30,
    "log(error)": 40,
}


@op(
    "PrintV2",
    inputs="input: string",
    attrs=r"output_stream: string = 'stderr'; end: string = '\n'",
    traits={STATEFUL, KEEPS_NOTHING},
)
def print_v2_op(ctx: KernelContext, input: Any, *, output_stream: bytes, end: bytes) -> None:
    """Writes the input [] to stdout, stderr, a log or the end of a file.

    Raises InvalidArgument on another stream or an input that is no scalar.
    """
    if np.ndim(input):
        raise errors.invalid_argument(
            f"the input must be a scalar, but has shape {list(np.shape(input))}"
        )
    stream = output_stream.decode()
    line = np.asarray(input).item()
    words = line.decode(errors="replace")
    if stream in _LEVELS:
        import logging  # takes its time to load

        logging.getLogger("headrace").log(_LEVELS[stream], "%s", words)
    elif stream.startswith("file://"):
        path = os.fsencode(stream.removeprefix("file://"))
        try:
            with ctx.runtime.files.open(path, "ab") as file:
                file.write(line + end)
        except (OSError, ValueError) as error:
            raise file_error(path, error) from None
    elif stream in ("stdout", "stderr"):
        target = sys.stdout if stream == "stdout" else sys.stderr
        target.write(words + end.decode(errors="replace"))
        target.flush()
    else:
        raise errors.invalid_argument(
            f"unknown output stream {stream!r}; give stdout, stderr, log(info), log(warning), log(error) or file://PATH"
        )


class _Placeholder(str):
    """A string that prints without quotes, in the place of a tensor."""

    __slots__ = ()

    def __repr__(self) -> str:
        return str(self)


def _replace_tensors(value: Any, tensors: list[Any], mark: str) -> Any:
    """The structure with `mark` for each tensor; the tensors go to `tensors`.  Dicts go by sorted keys."""
    if isinstance(value, SparseTensor):
        tensors.extend([value.indices, value.values, value.dense_shape])
        return f"SparseTensor(indices={mark}, values={mark}, shape={mark})"
    if isinstance(value, Tensor) or hasattr(value, "_as_graph_element"):
        tensors.append(value)
        return _Placeholder(mark)
    if isinstance(value, Mapping):
        return {key: _replace_tensors(value[key], tensors, mark) for key in sorted(value)}
    if isinstance(value, tuple) and hasattr(value, "_fields"):
        return type(value)(*[_replace_tensors(item, tensors, mark) for item in value])
    if isinstance(value, (list, tuple)):
        return type(value)([_replace_tensors(item, tensors, mark) for item in value])
    return value


def _unused_placeholder(texts: str) -> str:
    """One that does not occur in `texts`; TensorFlow's choice of digits, since it is in the graph."""
    import random  # takes its time to load

    mark, digits = "{}", random.Random(5)
    while mark in texts:
        mark += str(digits.randint(0, 9))
    return mark


def _stream_name(stream: Any) -> str:
    if stream is sys.stdout:
        return "stdout"
    if stream is sys.stderr:
        return "stderr"
    if isinstance(stream, str):
        if stream.startswith("file://") or stream in _LEVELS or stream in ("stdout", "stderr"):
            return stream
    else:
        name = {"warn": "warning"}.get(
            getattr(stream, "__name__", ""), getattr(stream, "__name__", "")
        )
        if f"log({name})" in _LEVELS:
            return f"log({name})"
    raise ValueError(
        f"output_stream {stream!r} is unknown; give sys.stdout, sys.stderr, tf.logging.info, warning or error, "
        "or 'file://PATH'"
    )


def print(*inputs: Any, **kwargs: Any) -> Operation:
    """An operation that writes `inputs`, tensors and other values, when it runs.

    output_stream: sys.stderr (default), sys.stdout, tf.logging.info and its kin, or "file://PATH".
    summarize: how many elements at both ends of each dimension (3; -1: all).
    sep, end: between the inputs and after them.  name: of the operation.
    Raises ValueError on another output_stream, TypeError on another keyword.
    """
    stream = _stream_name(kwargs.pop("output_stream", sys.stderr))
    name, end = kwargs.pop("name", None), kwargs.pop("end", "\n")
    summarize, sep = kwargs.pop("summarize", 3), kwargs.pop("sep", " ")
    if kwargs:
        raise TypeError(f"print got unexpected keyword arguments {', '.join(sorted(kwargs))}")
    line: Any
    if len(inputs) == 1 and _is_text(inputs[0]):
        line = inputs[0]
    else:
        from pprint import pformat  # takes its time to load

        bare = [_replace_tensors(item, [], "") for item in inputs]
        mark = _unused_placeholder(" ".join(pformat(item) for item in bare))
        tensors: list[Any] = []
        marked = [_replace_tensors(item, tensors, mark) for item in inputs]
        template = sep.join(
            item if isinstance(given, str) or isinstance(item, _Placeholder) else pformat(item)
            for given, item in zip(inputs, marked, strict=True)
        )
        line = string_format_op(
            tensors,
            template=template,
            placeholder=mark,
            summarize=summarize,
            name=None if name is None else f"{name}_format",
        )
    made: Operation = print_v2_op(line, output_stream=stream, end=end, name=name)
    return made


def _is_text(value: Any) -> bool:
    kind: DType | None = value.dtype if isinstance(value, Tensor) else None
    return kind is dtypes.string and value.raw_shape == ()
