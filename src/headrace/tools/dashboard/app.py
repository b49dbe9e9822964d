"""The page's server: its files, the feed, traces.  Everything is read, nothing changed.

Called by: command, tools.serve.  Threads: those of the HTTP server, see serve.http.server.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final

from headrace.base import errors
from headrace.serve.http.server import HttpServer
from headrace.serve.rpc.security import Security
from headrace.tools.commands import CommandError
from headrace.tools.dashboard.feed import Feed
from headrace.tools.dashboard.tracer import Tracer

STATIC: Final = Path(__file__).parent / "static"
ASKS: Final = "X-Headrace"
"""A header that requests have which cost something: no page of another site can send it."""


class Dashboard:
    """A page, served; a context manager.  url: where it is."""

    def __init__(
        self,
        target: str,
        place: tuple[str, int],
        security: Security,
        interval_s: float = 1.0,
    ) -> None:
        """Raises UsageError (target), FailedPrecondition (bottle is not installed, or strangers would reach it),
        Unknown (the port is taken).
        """
        self._feed = Feed(target, interval_s)
        self._tracer = Tracer(self._feed.target)
        try:
            application = _application(self._feed, self._tracer)
            self._server = HttpServer(application, place, security, "the page")
        except BaseException:
            self._feed.stop()
            raise
        self.url = self._server.url

    def stop(self) -> None:
        """Free the port; pages that are open are told."""
        self._tracer.stop()
        self._feed.stop()
        self._server.stop()

    def __enter__(self) -> Dashboard:
        return self

    def __exit__(self, *exc: object) -> None:
        self.stop()


def _application(feed: Feed, tracer: Tracer) -> Any:
    try:
        import bottle
    except ImportError:
        raise errors.failed_precondition(
            "the page needs bottle: pip install 'headrace[dashboard]'"
        ) from None
    app = bottle.Bottle()
    files = {path.name for path in STATIC.iterdir()}

    def refused(status: int, text: str) -> Any:
        return bottle.HTTPResponse(
            f"{text}\n", status, {"Content-Type": "text/plain; charset=utf-8"}
        )

    @app.get("/")  # type: ignore[untyped-decorator]
    def page() -> Any:
        return bottle.static_file("index.html", STATIC)

    @app.get("/static/<name>")  # type: ignore[untyped-decorator]
    def static(name: str) -> Any:
        return bottle.static_file(name, STATIC) if name in files else refused(404, "no such file")

    @app.get("/events")  # type: ignore[untyped-decorator]
    def events() -> Any:
        bottle.response.content_type = "text/event-stream"
        return feed.messages()

    @app.get("/state.json")  # type: ignore[untyped-decorator]
    def state() -> Any:
        try:
            return feed.now()
        except CommandError as error:
            return refused(503, str(error))

    @app.get("/trace.json")  # type: ignore[untyped-decorator]
    def trace() -> Any:
        """A new one if steps are asked for, else the last one."""
        asked = bottle.request.query.get("steps", "")
        if not asked:
            return tracer.latest() or bottle.HTTPResponse("", 204)
        if not asked.isdecimal():
            return refused(400, "steps is to be a number")
        if not bottle.request.get_header(ASKS):
            return refused(403, f"tracing costs something: ask with the header {ASKS}: 1")
        try:
            return tracer.trace(int(asked)) or refused(409, "somebody is tracing already")
        except CommandError as error:
            return refused(503, str(error))

    @app.get("/chrome-trace.json")  # type: ignore[untyped-decorator]
    def chrome() -> Any:
        text = tracer.chrome()
        if text is None:
            return refused(404, "nothing has been traced yet")
        bottle.response.content_type = "application/json"
        bottle.response.set_header("Content-Disposition", 'attachment; filename="trace.json"')
        return text

    return app
