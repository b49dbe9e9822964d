"""`headrace token`: for whom there is one, and that it is what servers ask for."""

from __future__ import annotations

import io
from pathlib import Path

import pytest

from headrace.serve.rpc.security import Security
from headrace.tools.commands import ExitCode
from headrace.tools.main import main


def run(*argv: str) -> tuple[int, str, str]:
    out, err = io.StringIO(), io.StringIO()
    return main(["token", *argv], out, err), out.getvalue(), err.getvalue()


def test_it_is_made_of_the_secret(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv("HEADRACE_SECRET", raising=False)
    monkeypatch.setenv("HEADRACE_SECRET_FILE", "")
    path = tmp_path / "secret"
    path.write_text("what everybody here knows\n")
    path.chmod(0o600)
    code, out, err = run("--secret-file", str(path))
    assert (code, out, err) == (ExitCode.OK, f"{Security(secret_file=path).http_token}\n", "")


def test_without_a_secret_it_says_where_one_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("HEADRACE_SECRET", raising=False)
    monkeypatch.setenv("HEADRACE_SECRET_FILE", "")
    code, out, err = run()
    assert (code, out) == (ExitCode.FAILED, "")
    assert "HEADRACE_SECRET_FILE" in err
