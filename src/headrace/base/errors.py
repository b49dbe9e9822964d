"""Errors as data: a status code, a message, and where it happened.

Called by: every folder.  An error is made where the trouble is (`invalid_argument("...")`) with
whatever fields are known there; layers above add theirs with `with_context`, which never
overwrites, so the innermost knowledge wins.  The fields travel between processes as fields;
nobody parses messages.
An error that was raised holds the frames it passed through, and whatever those hold.  So one that is kept (by a scope,
a result, a session) is a copy that was never raised, `detached`, and who raises it raises one more, `copied`.
Threads: an error is written by the thread that handles it, and read by any.
Source: TF 1.15 python/framework/errors_impl.py (names, codes, constructor arguments)
"""

from __future__ import annotations

import itertools
from typing import Final, Self, TypedDict, Unpack

OK: Final = 0
CANCELLED: Final = 1
UNKNOWN: Final = 2
INVALID_ARGUMENT: Final = 3
DEADLINE_EXCEEDED: Final = 4
NOT_FOUND: Final = 5
ALREADY_EXISTS: Final = 6
PERMISSION_DENIED: Final = 7
RESOURCE_EXHAUSTED: Final = 8
FAILED_PRECONDITION: Final = 9
ABORTED: Final = 10
OUT_OF_RANGE: Final = 11
UNIMPLEMENTED: Final = 12
INTERNAL: Final = 13
UNAVAILABLE: Final = 14
DATA_LOSS: Final = 15
UNAUTHENTICATED: Final = 16


class Context(TypedDict, total=False):
    """Where an error happened; any subset of the fields."""

    node: str | None
    op_type: str | None
    device: str | None
    step: int | None
    built_at: str | None


class FullContext(Context, total=False):
    """`Context` plus the two leading constructor arguments that TensorFlow programs know."""

    node_def: object
    op: object


class OpError(Exception):
    """A step, or a call that supports steps, failed with a status code.

    node_def, op: what TensorFlow programs read there; a NodeDef or its text, an Operation or its
    name, or None.  built_at: "file.py:41".  step: the step's id.  message stays as given;
    str() adds the context.  Pickles; an Operation pickles as its name, since graphs stay behind.
    """

    def __init__(
        self,
        node_def: object,
        op: object,
        message: str,
        error_code: int,
        **context: Unpack[Context],
    ) -> None:
        super().__init__(message)
        self.node_def = node_def
        self.op = op
        self.message = message
        self.error_code = error_code
        self.node = context.get("node")
        self.op_type = context.get("op_type")
        self.device = context.get("device")
        self.step = context.get("step")
        self.built_at = context.get("built_at")

    def with_context(self, **fields: Unpack[FullContext]) -> Self:
        """Fill the fields that are still None; return self."""
        for name, value in fields.items():
            if name not in _CONTEXT_FIELDS:
                raise TypeError(f"{name!r} is not a field of an error; those are {_CONTEXT_FIELDS}")
            if getattr(self, name) is None:
                setattr(self, name, value)
        return self

    def __str__(self) -> str:
        context = self._context_line()
        return f"{self.message}\n  {context}" if context else self.message

    def _context_line(self) -> str:
        parts = []
        if self.node is not None:
            kind = f" ({self.op_type})" if self.op_type is not None else ""
            parts.append(f"node {self.node!r}{kind}")
        elif self.op_type is not None:
            parts.append(f"op {self.op_type}")
        if self.built_at is not None:
            parts.append(f"built at {self.built_at}")
        ran = [f"ran on {self.device}"] if self.device is not None else []
        if self.step is not None:
            ran.append(f"step {self.step}")
        if ran:
            parts.append(", ".join(ran))
        return "    ".join(parts)

    def __reduce__(self) -> tuple[object, ...]:
        state = self.__dict__.copy()
        for name in ("op", "node_def"):
            if not isinstance(state[name], (str, bytes, type(None))):
                state[name] = getattr(state[name], "name", None)
        return _rebuild, (type(self), self.message), state


_MOST_CAUSES: Final = 8  # that are copied
_CONTEXT_FIELDS: Final = ("node", "op_type", "device", "step", "built_at", "node_def", "op")


def _rebuild(cls: type[OpError], message: str) -> OpError:
    return cls.__new__(cls, message)


class _CodedError(OpError):
    """An OpError whose class says the code."""

    _code: int

    def __init__(
        self, node_def: object, op: object, message: str, **context: Unpack[Context]
    ) -> None:
        super().__init__(node_def, op, message, self._code, **context)

    @classmethod
    def of(cls, message: str, **context: Unpack[Context]) -> Self:
        """One that no NodeDef or Operation belongs to (yet)."""
        return cls(None, None, message, **context)


class CancelledError(_CodedError):
    """The step or operation was cancelled, by its caller or because a queue or session closed."""

    _code = CANCELLED


class UnknownError(OpError):
    """A failure without a better code, or with a code this version does not know."""

    def __init__(
        self,
        node_def: object,
        op: object,
        message: str,
        error_code: int = UNKNOWN,
        **context: Unpack[Context],
    ) -> None:
        super().__init__(node_def, op, message, error_code, **context)

    @classmethod
    def of(cls, message: str, **context: Unpack[Context]) -> Self:
        """One that no NodeDef or Operation belongs to (yet)."""
        return cls(None, None, message, **context)


class InvalidArgumentError(_CodedError):
    """A value or shape that the operation cannot take, whatever the state of the system."""

    _code = INVALID_ARGUMENT


class DeadlineExceededError(_CodedError):
    """The time given to the call ran out; the operation left no trace."""

    _code = DEADLINE_EXCEEDED


class NotFoundError(_CodedError):
    """A file, resource or node that was asked for does not exist."""

    _code = NOT_FOUND


class AlreadyExistsError(_CodedError):
    """What was to be created exists."""

    _code = ALREADY_EXISTS


class PermissionDeniedError(_CodedError):
    """The caller is known and may not do this."""

    _code = PERMISSION_DENIED


class ResourceExhaustedError(_CodedError):
    """Memory, disk or a configured limit is used up."""

    _code = RESOURCE_EXHAUSTED


class FailedPreconditionError(_CodedError):
    """The system is not in the state the operation needs: an uninitialized variable, say."""

    _code = FAILED_PRECONDITION


class AbortedError(_CodedError):
    """The operation was given up because of what happened elsewhere; retrying may help."""

    _code = ABORTED


class OutOfRangeError(_CodedError):
    """The input ended: a queue closed and empty, a reader at the end of its files."""

    _code = OUT_OF_RANGE


class UnimplementedError(_CodedError):
    """This op, type or combination is not supported here."""

    _code = UNIMPLEMENTED


class UnsupportedNameError(UnimplementedError, AttributeError):
    """TensorFlow has the name that was looked up, and headrace does not; the message says what to use.

    For `hasattr` and `getattr` with a default the name does not exist.
    """


class InternalError(_CodedError):
    """An invariant of the runtime is broken: a bug."""

    _code = INTERNAL


class UnavailableError(_CodedError):
    """A task cannot be reached now."""

    _code = UNAVAILABLE


class DataLossError(_CodedError):
    """Stored data is corrupt or truncated."""

    _code = DATA_LOSS


class UnauthenticatedError(_CodedError):
    """The caller did not prove who it is."""

    _code = UNAUTHENTICATED


_TYPE_OF_CODE: Final[dict[int, type[_CodedError] | type[UnknownError]]] = {
    CANCELLED: CancelledError,
    UNKNOWN: UnknownError,
    INVALID_ARGUMENT: InvalidArgumentError,
    DEADLINE_EXCEEDED: DeadlineExceededError,
    NOT_FOUND: NotFoundError,
    ALREADY_EXISTS: AlreadyExistsError,
    PERMISSION_DENIED: PermissionDeniedError,
    RESOURCE_EXHAUSTED: ResourceExhaustedError,
    FAILED_PRECONDITION: FailedPreconditionError,
    ABORTED: AbortedError,
    OUT_OF_RANGE: OutOfRangeError,
    UNIMPLEMENTED: UnimplementedError,
    INTERNAL: InternalError,
    UNAVAILABLE: UnavailableError,
    DATA_LOSS: DataLossError,
    UNAUTHENTICATED: UnauthenticatedError,
}
_CODE_OF_TYPE: Final[dict[type[OpError], int]] = {cls: code for code, cls in _TYPE_OF_CODE.items()}


def exception_type_from_error_code(error_code: int) -> type[OpError]:
    """Raises KeyError for OK and for codes that have no class."""
    return _TYPE_OF_CODE[error_code]


def error_code_from_exception_type(cls: type[OpError]) -> int:
    """Raises KeyError for a class that has no code, as OpError itself."""
    return _CODE_OF_TYPE[cls]


def make(code: int, message: str, **context: Unpack[FullContext]) -> OpError:
    """The error for a status code from the wire; an unknown code is kept in an UnknownError.

    Raises ValueError for OK, which is not an error.
    """
    if code == OK:
        raise ValueError(f"code 0 (OK) is not an error; message: {message!r}")
    cls = _TYPE_OF_CODE.get(code)
    error = UnknownError(None, None, message, code) if cls is None else cls.of(message)
    return error.with_context(**context)


def copied(error: OpError) -> OpError:
    """A copy, to be raised: fields and causes are the same, but nothing of where `error` was raised.

    It shows its causes, not what was handled where it is raised.  Causes that are not OpErrors become UnknownErrors
    of the same text.
    """
    copy = _rebuild(type(error), error.message)
    copy.__dict__.update(error.__dict__)
    copy.__cause__ = _copied_cause(error.__cause__)
    copy.__suppress_context__ = True
    return copy


def _copied_cause(cause: BaseException | None) -> OpError | None:
    """The same chain of causes, of copies."""
    chain: list[OpError] = []
    while cause is not None and len(chain) < _MOST_CAUSES:
        if isinstance(cause, OpError):
            link = _rebuild(type(cause), cause.message)
            link.__dict__.update(cause.__dict__)
        else:
            link = UnknownError.of(f"{type(cause).__name__}: {cause}")
        chain.append(link)
        cause = cause.__cause__
    for effect, its_cause in itertools.pairwise(chain):
        effect.__cause__ = its_cause
    return chain[0] if chain else None


def same(one: BaseException, other: BaseException | None) -> bool:
    """Whether one is the other, or a copy of it."""
    if isinstance(one, OpError) and isinstance(other, OpError):
        return type(one) is type(other) and one.message == other.message
    return one is other


def detached(error: OpError) -> OpError:
    """`error` as it may be kept: itself if it was not raised yet, nor made while another was handled; else a copy."""
    if error.__traceback__ is None and error.__cause__ is None and error.__context__ is None:
        return error
    return copied(error)


def named(error: BaseException) -> str:
    """In one line, for the text of an error that it led to."""
    kind = type(error).__name__
    if not isinstance(error, OpError):
        return f"{kind}: {error}"
    if error.node is None:
        return f"{kind}: {error.message}"
    built = "" if error.built_at is None else f", built at {error.built_at}"
    return f"{kind}: {error.message} (node {error.node!r}{built})"


# For `raise errors.not_found("...")` with whatever Context is known on the spot.
cancelled: Final = CancelledError.of
unknown: Final = UnknownError.of
invalid_argument: Final = InvalidArgumentError.of
deadline_exceeded: Final = DeadlineExceededError.of
not_found: Final = NotFoundError.of
already_exists: Final = AlreadyExistsError.of
permission_denied: Final = PermissionDeniedError.of
resource_exhausted: Final = ResourceExhaustedError.of
failed_precondition: Final = FailedPreconditionError.of
aborted: Final = AbortedError.of
out_of_range: Final = OutOfRangeError.of
unimplemented: Final = UnimplementedError.of
internal: Final = InternalError.of
unavailable: Final = UnavailableError.of
data_loss: Final = DataLossError.of
unauthenticated: Final = UnauthenticatedError.of


def session_closed() -> OpError:
    """What a step ends with when its session is closed under it."""
    return cancelled(
        "Step was cancelled by an explicit call to `Session::Close()`: the session was closed"
    )
