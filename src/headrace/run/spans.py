"""Spans: what steps do and what they wait for, told to OpenTelemetry, where a program has set that up.

headrace does not import OpenTelemetry: a program that wants spans has, and has set a tracer provider, before it makes
its first session or server.  Whoever makes one asks `wanted` once and makes another kind of engine, master, worker or
peer then; all others know nothing of spans and pay nothing.  The span that a thread is in is OpenTelemetry's
to know (its context); to another process it travels as bytes, ahead of the request for a step (`serve.lane`).
Called by: client.session, client.traced, serve.server, serve.master.traced, serve.worker.traced, serve.lane.
Threads: any.  Source: OpenTelemetry's API and its propagators (W3C Trace Context)
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import TYPE_CHECKING, Any, Final

from headrace.base.version import HEADRACE_VERSION
from headrace.run import long_waits

if TYPE_CHECKING:
    from headrace.run.exec.kernel import NodeInfo
    from headrace.run.pending import Pending, WaitInfo

STEP, PARTIAL_STEP = "headrace.step", "headrace.partial_step"
MASTER_STEP, PARTITION = "headrace.master_step", "headrace.partition"
SEND, WAIT = "headrace.send", "headrace.wait"
CLIENT, SERVER, INTERNAL, PRODUCER = "CLIENT", "SERVER", "INTERNAL", "PRODUCER"

MOST_NAMES: Final = 16  # that an attribute lists

Attributes = Mapping[str, Any]

_api: Any = None  # opentelemetry.trace, once somebody has wanted spans
_tracer: Any = None


def wanted() -> bool:
    """Whether there is a tracer provider that does something."""
    global _api, _tracer
    if _tracer is not None:
        return True
    api = sys.modules.get("opentelemetry.trace")
    if api is None:
        return False
    provider = api.get_tracer_provider()
    if isinstance(provider, (api.ProxyTracerProvider, api.NoOpTracerProvider)):
        return False
    _api, _tracer = api, provider.get_tracer("headrace", HEADRACE_VERSION)
    long_waits.noted = _noted
    return True


def recorded() -> bool:
    """Whether the span that this thread is in is recorded, here or where the step was asked for."""
    if _api is None:
        return False
    context = _api.get_current_span().get_span_context()
    return bool(context.is_valid and context.trace_flags.sampled)


def span(name: str, kind: str, attributes: Attributes) -> AbstractContextManager[Any]:
    """Inside, this thread is in a new span; an error that leaves it is told.  After `wanted`."""
    made: AbstractContextManager[Any] = _tracer.start_as_current_span(
        name, kind=getattr(_api.SpanKind, kind), attributes=attributes
    )
    return made


def inner(name: str, attributes: Attributes, kind: str = INTERNAL) -> AbstractContextManager[Any]:
    """As `span`, within the one that this thread is in; nothing if that is not recorded.

    One that another process has asked for is that server's.
    """
    if not recorded():
        return nullcontext()
    if _api.get_current_span().get_span_context().is_remote:
        kind = SERVER
    return span(name, kind, attributes)


# -- to other processes -----------------------------------------------------------------------------


def outgoing() -> bytes:
    """The context of this thread's span, for another process; empty: it is in none that is recorded."""
    if not recorded():
        return b""
    import json

    from opentelemetry import propagate

    carrier: dict[str, str] = {}
    propagate.inject(carrier)
    return json.dumps(carrier).encode()


@contextmanager
def within(context: bytes) -> Iterator[None]:
    """Inside, this thread is in the span of another process, of which `outgoing` came; in none if nobody wants spans
    here, or that cannot be read.
    """
    carrier = {} if _api is None else _carrier(context)
    if not carrier:
        yield
        return
    from opentelemetry import context as contexts
    from opentelemetry import propagate

    token = contexts.attach(propagate.extract(carrier))
    try:
        yield
    finally:
        contexts.detach(token)


def _carrier(context: bytes) -> dict[str, str]:
    import json

    try:
        found = json.loads(context)
    except (ValueError, RecursionError):
        return {}
    if not isinstance(found, dict):
        return {}
    return {name: value for name, value in found.items() if isinstance(value, str)}


# -- waits ------------------------------------------------------------------------------------------


def _noted(waits: Sequence[tuple[NodeInfo, Pending[Any]]]) -> Callable[[], object] | None:
    """See `long_waits.noted`.  A wait is a span of the node whose turn has come when it ends."""
    if not recorded():
        return None
    began_ns = time.time_ns()
    known = [(node, pending, pending.wait_info) for node, pending in waits]

    def over() -> None:
        done = [each for each in known if each[1].done]
        if not known:
            return
        node, _, info = (done or known)[0]
        attributes = {"headrace.node": node.name, "headrace.op": node.op}
        if info is not None:
            attributes |= {"headrace.kind": info.kind.partition("(")[0], "headrace.on": _on(info)}
        if not done:
            attributes["headrace.given_up"] = "true"
        _tracer.start_span(WAIT, start_time=began_ns, attributes=attributes).end()

    return over


def _on(info: WaitInfo) -> str:
    """What is waited for; of a value that comes, its tensor."""
    parts = info.on.split(";")
    return parts[3] if len(parts) == 5 else info.on
