"""A Tensor: one output of an operation, as the graph's author holds it.

Operators (`x + y`, `x[1:]`) reach the ops through `OPERATORS`, a table that the op families fill
when they are imported; so this file knows no op.
Threads: built by the graph's thread; reading is free.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, ClassVar, NoReturn

from headrace.base import dtypes
from headrace.base import shapes as shape_rules
from headrace.base.reference import Reference
from headrace.base.shapes import Shape, TensorShape

if TYPE_CHECKING:
    from headrace.graph.graph import Graph, Operation

OPERATORS: dict[str, Callable[..., Any]] = {}


def operator(name: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Decorator: the function implements Tensor operator `name` (add, radd, getitem, …)."""

    def register(function: Callable[..., Any]) -> Callable[..., Any]:
        if name in OPERATORS:
            raise ValueError(f"operator {name!r} is registered twice")
        OPERATORS[name] = function
        return function

    return register


class OperatorNotAllowedInGraphError(TypeError):
    """Python asked for a truth value or the items of a tensor, which has a value in a step only."""


class Tensor:
    """Output `value_index` of `op`: a symbol, with a dtype and what is known of its shape."""

    __slots__ = (
        "__dict__",  # for attributes that programs put on tensors; it costs nothing until there is one
        "__weakref__",
        "_consumers",
        "_dtype",
        "_folded",
        "_raw",
        "op",
        "value_index",
    )
    __array_priority__ = 100
    OVERLOADABLE_OPERATORS: ClassVar[frozenset[str]] = frozenset(
        f"__{name}__"
        for name in (
            "add radd sub rsub mul rmul div rdiv truediv rtruediv floordiv rfloordiv mod rmod pow rpow matmul rmatmul "
            "lt le gt ge eq ne and rand or ror xor rxor getitem invert neg abs"
        ).split()
    )
    """Methods that stand for operators, for classes that want to have them as tensors do."""

    def __init__(self, op: Operation, value_index: int, dtype: dtypes.DType) -> None:
        self.op = op
        self.value_index = value_index
        self._dtype = dtype
        self._raw: Shape = None
        self._folded: Any = None  # the value, once graph.const_value has computed it
        self._consumers: list[Operation] = []

    @property
    def dtype(self) -> dtypes.DType:
        """Of its elements; a reference type where it is a variable's buffer."""
        return self._dtype

    @property
    def name(self) -> str:
        """``node:index``."""
        return f"{self.op.name}:{self.value_index}"

    @property
    def graph(self) -> Graph:
        """That its operation is in."""
        return self.op.graph

    @property
    def device(self) -> str:
        """As its operation asks for it, which need not be where it runs."""
        return self.op.device

    @property
    def raw_shape(self) -> Shape:
        """Static shape as a tuple (None for an unknown size), or None for unknown rank."""
        return self._raw

    @property
    def shape(self) -> TensorShape:
        """What is known before anything runs; sizes may be unknown, and so may the rank."""
        return TensorShape._of(self._raw)

    def get_shape(self) -> TensorShape:
        """Same as `shape`."""
        return TensorShape._of(self._raw)

    def set_shape(self, shape: Any) -> None:
        """Add what you know about the shape.  Raises ValueError if it contradicts what is known."""
        try:
            self._raw = shape_rules.merge(self._raw, shape_rules.as_raw(shape))
        except ValueError as error:
            raise ValueError(f"{error} (set_shape of {self.name})") from None
        self.op.graph.version += 1

    @property
    def ndim(self) -> int | None:
        """The rank; None if it is not known."""
        return None if self._raw is None else len(self._raw)

    @property
    def _shape(self) -> TensorShape:
        return TensorShape(self._raw)

    def _shape_tuple(self) -> Shape:
        """Sizes, None for those that are not known; None without a rank."""
        return self._raw

    def _shape_as_list(self) -> list[int | None] | None:
        return None if self._raw is None else list(self._raw)

    def _rank(self) -> int:
        """-1 if it is not known."""
        return -1 if self._raw is None else len(self._raw)

    @property
    def _op(self) -> Operation:
        return self.op

    @property
    def _value_index(self) -> int:
        return self.value_index

    def _as_node_def_input(self) -> str:
        """As NodeDefs spell it: ``node``, ``node:1``."""
        return self.op.name if self.value_index == 0 else self.name

    def consumers(self) -> list[Operation]:
        """The operations that take this tensor as an input."""
        return list(self._consumers)

    def eval(self, feed_dict: dict[Any, Any] | None = None, session: Any = None) -> Any:
        """`session.run(self, feed_dict)`, in the default session if none is given."""
        from headrace.graph.scopes import session_of

        found = session_of(session, self.graph, "evaluate tensor", "eval()", self.name)
        return found.run(self, feed_dict)

    def ref(self) -> Reference[Tensor]:
        """A hashable stand-in, equal to that of the same tensor only; `deref()` gives the tensor."""
        return Reference(self)

    def experimental_ref(self) -> Reference[Tensor]:
        """Same as `ref`."""
        return Reference(self)

    def __repr__(self) -> str:
        return f"<tf.Tensor {self.name!r} shape={self.shape} dtype={self._dtype.name}>"

    def __str__(self) -> str:
        parts = [f'"{self.name}"']
        if self._raw is not None:
            parts.append(f"shape={self.shape}")
        parts.append(f"dtype={self._dtype.name}")
        if self.device:
            parts.append(f"device={self.device}")
        return f"Tensor({', '.join(parts)})"

    __hash__ = object.__hash__

    def __eq__(self, other: object) -> bool:
        return self is other

    def __ne__(self, other: object) -> bool:
        return self is not other

    def __bool__(self) -> bool:
        raise OperatorNotAllowedInGraphError(
            f"Using a symbolic `tf.Tensor` as a Python `bool` is not allowed: the value of {self.name} is not known "
            "while the graph is built; use `is not None`, tf.cond, or session.run it first"
        )

    def __len__(self) -> int:
        raise TypeError(
            f"len is not well defined for a symbolic Tensor ({self.name}); use its shape, or tf.shape"
        )

    def __iter__(self) -> NoReturn:
        raise OperatorNotAllowedInGraphError(
            f"Iterating over a symbolic `tf.Tensor` is not allowed: the rows of {self.name} are not known while the "
            "graph is built; use tf.unstack, tf.map_fn, or session.run it first"
        )

    def __array__(self, *args: Any, **kwargs: Any) -> Any:
        raise NotImplementedError(
            f"Cannot convert a symbolic tf.Tensor ({self.name}) to a numpy array: "
            f"it has a value in a step only; use session.run({self.name!r})"
        )

    def __add__(self, other: Any) -> Tensor:
        return _apply("add", self, other)

    def __radd__(self, other: Any) -> Tensor:
        return _apply("radd", self, other)

    def __sub__(self, other: Any) -> Tensor:
        return _apply("sub", self, other)

    def __rsub__(self, other: Any) -> Tensor:
        return _apply("rsub", self, other)

    def __mul__(self, other: Any) -> Tensor:
        return _apply("mul", self, other)

    def __rmul__(self, other: Any) -> Tensor:
        return _apply("rmul", self, other)

    def __truediv__(self, other: Any) -> Tensor:
        return _apply("truediv", self, other)

    def __rtruediv__(self, other: Any) -> Tensor:
        return _apply("rtruediv", self, other)

    def __div__(self, other: Any) -> Tensor:
        """Python 2's division, which libraries still ask for by name."""
        return _apply("div", self, other)

    def __rdiv__(self, other: Any) -> Tensor:
        return _apply("rdiv", self, other)

    def __floordiv__(self, other: Any) -> Tensor:
        return _apply("floordiv", self, other)

    def __rfloordiv__(self, other: Any) -> Tensor:
        return _apply("rfloordiv", self, other)

    def __mod__(self, other: Any) -> Tensor:
        return _apply("mod", self, other)

    def __rmod__(self, other: Any) -> Tensor:
        return _apply("rmod", self, other)

    def __pow__(self, other: Any) -> Tensor:
        return _apply("pow", self, other)

    def __rpow__(self, other: Any) -> Tensor:
        return _apply("rpow", self, other)

    def __matmul__(self, other: Any) -> Tensor:
        return _apply("matmul", self, other)

    def __rmatmul__(self, other: Any) -> Tensor:
        return _apply("rmatmul", self, other)

    def __lt__(self, other: Any) -> Tensor:
        return _apply("lt", self, other)

    def __le__(self, other: Any) -> Tensor:
        return _apply("le", self, other)

    def __gt__(self, other: Any) -> Tensor:
        return _apply("gt", self, other)

    def __ge__(self, other: Any) -> Tensor:
        return _apply("ge", self, other)

    def __and__(self, other: Any) -> Tensor:
        return _apply("and", self, other)

    def __rand__(self, other: Any) -> Tensor:
        return _apply("rand", self, other)

    def __or__(self, other: Any) -> Tensor:
        return _apply("or", self, other)

    def __ror__(self, other: Any) -> Tensor:
        return _apply("ror", self, other)

    def __xor__(self, other: Any) -> Tensor:
        return _apply("xor", self, other)

    def __rxor__(self, other: Any) -> Tensor:
        return _apply("rxor", self, other)

    def __neg__(self) -> Tensor:
        return _apply("neg", self)

    def __abs__(self) -> Tensor:
        return _apply("abs", self)

    def __invert__(self) -> Tensor:
        return _apply("invert", self)

    def __getitem__(self, item: Any) -> Tensor:
        return _apply("getitem", self, item)


def _apply(name: str, *operands: Any) -> Tensor:
    result: Tensor = OPERATORS[name](*operands)
    return result
