"""The HTTP server: whom it answers, what it says to browsers, and where it listens."""

from __future__ import annotations

import socket
import ssl
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from headrace.base import errors
from headrace.serve.http.guard import HOSTS
from headrace.serve.http.server import HttpServer, parse_place
from headrace.serve.rpc.security import Security
from tests.serve.authority import Authority
from tests.serve.http.asking import ask

SECRET = "what everybody here knows"


def hello(environ: dict[str, Any], start: Callable[..., Any]) -> Iterable[bytes]:
    if environ["PATH_INFO"] == "/broken":
        raise RuntimeError("not for everybody's eyes")
    start("200 OK", [("Content-Type", "text/plain")])
    return [b"hello"]


@contextmanager
def serving(security: Security | None = None, host: str = "127.0.0.1") -> Iterator[HttpServer]:
    server = HttpServer(hello, (host, 0), security or Security(), "a test")
    try:
        yield server
    finally:
        server.stop()


@pytest.fixture(scope="module")
def opened() -> Iterator[HttpServer]:
    with serving() as server:
        yield server


@pytest.fixture(scope="module")
def locked() -> Iterator[HttpServer]:
    with serving(Security(SECRET)) as server:
        yield server


def test_every_answer_tells_browsers_to_trust_no_other_site(opened: HttpServer) -> None:
    for path, status in (("", 200), ("broken", 500)):
        answer = ask(opened.url + path)
        assert answer.status == status
        policy = answer.headers["Content-Security-Policy"]
        assert "default-src 'none'" in policy
        assert "unsafe" not in policy
        assert "frame-ancestors 'none'" in policy
        assert answer.headers["X-Content-Type-Options"] == "nosniff"
        assert "Access-Control-Allow-Origin" not in answer.headers
        assert "not for everybody" not in answer.text


@pytest.mark.parametrize("host", ["evil.example", "evil.example:80", "127.0.0.1.evil.example", ""])
def test_a_name_that_is_not_its_own_is_refused(opened: HttpServer, host: str) -> None:
    answer = ask(opened.url, {"Host": host})
    assert answer.status == 421
    assert HOSTS in answer.text


@pytest.mark.parametrize(
    "host", ["127.0.0.1", "localhost:99", "[::1]:5", "10.1.2.3", socket.gethostname()]
)
def test_addresses_and_its_own_names_are_taken(opened: HttpServer, host: str) -> None:
    assert ask(opened.url, {"Host": host}).status == 200


def test_more_names_can_be_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(HOSTS, "watch.example, other.example")
    with serving() as server:
        assert ask(server.url, {"Host": "Watch.example:80"}).status == 200
        assert ask(server.url, {"Host": "third.example"}).status == 421


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "OPTIONS", "PATCH"])
def test_nothing_can_be_changed(opened: HttpServer, method: str) -> None:
    answer = ask(opened.url, method=method)
    assert (answer.status, answer.headers["Allow"]) == (405, "GET, HEAD")


def test_pages_of_other_sites_are_refused_and_links_are_followed(opened: HttpServer) -> None:
    other = {"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "no-cors"}
    assert ask(opened.url, other).status == 403
    link = {
        "Sec-Fetch-Site": "cross-site",
        "Sec-Fetch-Mode": "navigate",
        "Sec-Fetch-Dest": "document",
    }
    assert ask(opened.url, link).status == 200


def test_with_a_secret_a_token_is_asked_for(locked: HttpServer) -> None:
    token = Security(SECRET).http_token
    assert ask(locked.url).status == 401
    assert "headrace token" in ask(locked.url).text
    for wrong in ("Bearer nonsense", "Bearer ", f"Bearer {SECRET}", "Bearer t\u00f6ken"):
        assert ask(locked.url, {"Authorization": wrong}).status == 401
    assert ask(locked.url, {"Authorization": f"Bearer {token}"}).text == "hello"
    assert ask(locked.url, {"Cookie": f"a=b; headrace_token={token}"}).text == "hello"
    assert ask(locked.url, {"Cookie": "headrace_token=nonsense"}).status == 401


def test_the_token_of_pages_opens_nothing_else() -> None:
    security = Security(SECRET)
    assert not security.may_call(security.http_token)


def test_a_token_in_the_address_becomes_a_cookie_and_leaves_it(locked: HttpServer) -> None:
    token = Security(SECRET).http_token
    assert ask(f"{locked.url}?token=nonsense").status == 401
    answer = ask(f"{locked.url}?token={token}")
    assert (answer.status, answer.headers["Location"]) == (303, "/")
    assert "HttpOnly; SameSite=Strict" in answer.headers["Set-Cookie"]
    elsewhere = ask(f"{locked.url}/evil.example/?token={token}")
    assert not elsewhere.headers["Location"].startswith("//")


def test_off_loopback_something_must_keep_strangers_out() -> None:
    with pytest.raises(errors.FailedPreconditionError, match="headrace token"):
        HttpServer(hello, ("0.0.0.0", 0), Security(), "a test")
    with serving(Security(SECRET), "0.0.0.0") as server:
        assert ask(server.url).status == 401
    with serving(Security(insecure=True), "0.0.0.0") as server:
        assert ask(server.url).status == 200


def test_a_port_that_is_taken_is_an_error(opened: HttpServer) -> None:
    with pytest.raises(errors.UnknownError, match=r"a test cannot listen on 127\.0\.0\.1"):
        HttpServer(hello, ("127.0.0.1", opened.port), Security(), "a test")


def test_with_certificates_it_speaks_tls_and_may_ask_for_the_other_sides(tmp_path: Path) -> None:
    made = Authority(tmp_path / "authority")
    security = Security(certificate=made.cert, key=made.key, authorities=made.ca, clients_too=True)
    stranger = ssl.create_default_context(cafile=made.ca)
    known = ssl.create_default_context(cafile=made.ca)
    known.load_cert_chain(made.cert, made.key)
    with serving(security) as server:
        assert server.url.startswith("https://")
        with pytest.raises(OSError, match=r"(?i)certificate|reset|closed|EOF|pipe"):
            ask(server.url, tls=stranger)
        assert ask(server.url, tls=known).text == "hello"


@pytest.mark.parametrize(
    ("text", "place"),
    [
        ("9100", ("127.0.0.1", 9100)),
        ("0.0.0.0:0", ("0.0.0.0", 0)),
        ("[::1]:80", ("[::1]", 80)),
        (" ps-0:9100 ", ("ps-0", 9100)),
    ],
)
def test_places(text: str, place: tuple[str, int]) -> None:
    assert parse_place(text, "--metrics") == place


@pytest.mark.parametrize("text", ["", "x", "host:", "1:70000", "::x", "1:-1"])
def test_what_is_no_place_is_said(text: str) -> None:
    with pytest.raises(errors.InvalidArgumentError, match=r"--metrics .* is not \[ADDRESS:\]PORT"):
        parse_place(text, "--metrics")


def test_stopping_cuts_off_who_says_nothing() -> None:
    with serving() as server, socket.create_connection(("127.0.0.1", server.port)) as idle:
        assert ask(server.url).text == "hello"
        server.stop()
        assert idle.recv(1) == b""
