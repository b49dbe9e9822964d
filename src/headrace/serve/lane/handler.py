"""The lane, server side: a method of a service, as its calls are answered.

Called by: serve.lane.served.  Threads: immutable.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from headrace.serve.lane.wire import CODECS
from headrace.serve.rpc.again import Binder
from headrace.serve.rpc.methods import Method


class Handler(NamedTuple):
    """What answers a method.

    encode, in_place: see `Codec`.  takes_caller: it is told of the connection.  binder, lasting: see `Method`.
    """

    name: str
    decode: Callable[[bytes, list[Any]], Any]
    handle: Callable[..., Any]
    encode: Callable[[Any], tuple[bytes, Sequence[Any]]] | None
    in_place: bool
    takes_caller: bool
    binder: Binder | None
    lasting: bool

    @classmethod
    def of(cls, method: Method, service: Any) -> Handler:
        """On the lane."""
        codec, handle = CODECS[method], getattr(service, method.handler)
        binder = getattr(service, method.binder) if method.binder else None
        return cls(
            method.name,
            codec.decode_request,
            handle,
            codec.encode_reply,
            codec.in_place,
            getattr(handle, "takes_caller", False),
            binder,
            method.lasting,
        )
