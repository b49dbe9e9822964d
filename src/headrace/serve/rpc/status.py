"""Errors across processes: an OpError as an ErrorDetail message, and back.

TensorFlow peers see the code and the text; ours get the fields too.
Called by: serve.rpc.methods, the transports.
"""

from __future__ import annotations

import re

from google.protobuf.message import DecodeError, EncodeError

from headrace.base import errors
from headrace.codec import protos as pb

_MOST_CAUSES = 8
_NODE = re.compile(r"\{\{node ([^}\s]+)\}\}")


class ForgottenStepError(errors.NotFoundError):
    """A master does not know the number of a step any more: nothing of it was begun, say its names again."""


class RestartedError(errors.AbortedError):
    """What tells a session's client, once, that `tasks` were restarted, by full name.  Users see an AbortedError."""

    tasks: tuple[str, ...] = ()


class SessionExpiredError(errors.AbortedError):
    """A master has closed a session because its client seemed to be gone; who is there makes another."""


def to_detail(error: errors.OpError) -> pb.ErrorDetail:
    """The error with its fields and what led to it: our own errors whole, of others the texts."""
    return _detail(error, _MOST_CAUSES)


def _detail(error: errors.OpError, most_causes: int) -> pb.ErrorDetail:
    detail = pb.ErrorDetail(
        node=error.node or "",
        op_type=error.op_type or "",
        device=error.device or "",
        step=error.step or 0,
        built_at=error.built_at or "",
        code=error.error_code,
        message=error.message,
        forgotten=isinstance(error, ForgottenStepError),
        gave_up=isinstance(error, SessionExpiredError),
        restarted=error.tasks if isinstance(error, RestartedError) else (),
    )
    cause = error.__cause__
    while cause is not None and len(detail.chain) < most_causes:
        if isinstance(cause, errors.OpError) and not detail.chain:
            detail.cause.CopyFrom(_detail(cause, most_causes - 1))
            break
        detail.chain.append(f"{type(cause).__name__}: {cause}")
        cause = cause.__cause__
    return detail


def from_detail(detail: pb.ErrorDetail) -> errors.OpError:
    """The error that `to_detail` described."""
    if detail.forgotten:
        return ForgottenStepError.of(detail.message)
    if detail.gave_up:
        return SessionExpiredError.of(detail.message)
    error: errors.OpError
    if detail.restarted:
        error = told = RestartedError.of(detail.message)
        told.tasks = tuple(detail.restarted)
    else:
        error = errors.make(detail.code or errors.UNKNOWN, detail.message)
    error.with_context(
        node=detail.node or None,
        op_type=detail.op_type or None,
        device=detail.device or None,
        step=detail.step or None,
        built_at=detail.built_at or None,
    )
    cause = from_detail(detail.cause) if detail.HasField("cause") else None
    for text in reversed(detail.chain):
        earlier = errors.unknown(text)
        earlier.__cause__ = cause
        cause = earlier
    error.__cause__ = cause
    return error


def from_bytes(data: bytes) -> errors.OpError:
    """The error in a serialized ErrorDetail.  Raises InvalidArgument."""
    try:
        return from_detail(pb.ErrorDetail.FromString(data))
    except DecodeError as error:
        raise errors.invalid_argument(f"the bytes are not an ErrorDetail: {error}") from None


def text_of(error: errors.OpError) -> str:
    """The whole sentence, for peers that get no fields; the node as TensorFlow's clients find it."""
    text = str(error)
    if error.node is None or _NODE.search(text):
        return text
    return f"{text}\n\t [[{{{{node {error.node}}}}}]]"


def from_text(code: int, text: str) -> errors.OpError:
    """The error of a TensorFlow peer, which has a code and a text that may name the node."""
    found = _NODE.search(text)
    return errors.make(code, text, node=found[1] if found else None)


def again(error: errors.OpError) -> errors.OpError:
    """A copy, for one more thread to raise."""
    return errors.make(error.error_code, error.message)


def as_op_error(error: BaseException, doing: str) -> errors.OpError:
    """`error` itself if it is one of ours, else an Internal that says what failed."""
    if isinstance(error, errors.OpError):
        return error
    if isinstance(error, MemoryError):
        found: errors.OpError = errors.resource_exhausted(f"out of memory in {doing}: {error}")
    elif isinstance(error, EncodeError):  # all that protobuf says of either
        found = errors.resource_exhausted(
            f"out of memory in {doing}, or a message of more than 2 GiB: {error}"
        )
    else:
        found = errors.internal(f"{type(error).__name__} in {doing}: {error}")
    found.__cause__ = error
    return found
