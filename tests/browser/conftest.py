"""A headless Chromium, and a cluster that trains with a page of its own: `make browser`.

HEADRACE_CHROMIUM names the browser; else it is one that the PATH has.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page, expect, sync_playwright

from tests.serve.clusters import ProcessCluster, processes

TRAINING = Path(__file__).with_name("training.py")
WITHIN_MS = 60_000
HOSTILE = "<img src=x onerror=\"document.title='taken over'\">"
ELSEWHERE = "elsewhere.example"
"""A name that the browser is told leads to this machine."""

expect.set_options(timeout=WITHIN_MS)


@dataclass
class Watched:
    """A cluster of processes, and the address of its page."""

    cluster: ProcessCluster
    url: str


def chromium() -> str:
    """The browser's path."""
    for name in (
        os.environ.get("HEADRACE_CHROMIUM"),
        "chromium",
        "chromium-browser",
        "google-chrome",
    ):
        found = shutil.which(name) if name else None
        if found:
            return found
    raise RuntimeError(
        "no Chromium: install it (Debian: apt-get install chromium), or name it in HEADRACE_CHROMIUM"
    )


@pytest.fixture(scope="session")
def browser() -> Iterator[Browser]:
    with sync_playwright() as playwright:
        arguments = ["--no-sandbox", f"--host-resolver-rules=MAP {ELSEWHERE} 127.0.0.1"]
        browser = playwright.chromium.launch(executable_path=chromium(), args=arguments)
        yield browser
        browser.close()


@pytest.fixture(scope="session")
def watched(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Watched]:
    """One that trains all the time, with a step that waits for ever, and `headrace dashboard`."""
    with processes({"ps": 1, "worker": 2}) as cluster, ExitStack() as stack:
        target = cluster.target("worker:0")
        begun(stack, str(TRAINING), target, HOSTILE, str(tmp_path_factory.mktemp("model")))
        serves = (
            "-m",
            "headrace.tools.main",
            "dashboard",
            target,
            "--port",
            "0",
            "--interval",
            "0.5",
        )
        yield Watched(cluster, begun(stack, *serves).split()[-1])


def begun(stack: ExitStack, *arguments: str) -> str:
    """Start a Python process, which ends with the stack; the first line that it says."""
    process = subprocess.Popen(
        [sys.executable, *arguments], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    stack.callback(process.communicate)
    stack.callback(process.kill)
    assert process.stdout is not None
    return process.stdout.readline()


@pytest.fixture
def page(browser: Browser, watched: Watched) -> Iterator[Page]:
    """The page, with the cluster on it.  When the test ends it has complained of nothing, and asked nobody else."""
    context = browser.new_context(viewport={"width": 1200, "height": 900})
    page = context.new_page()
    complaints: list[str] = []
    asked: list[str] = []
    page.on("console", lambda said: complaints.append(f"{said.type}: {said.text}"))
    page.on("pageerror", lambda error: complaints.append(str(error)))
    page.on("request", lambda request: asked.append(request.url))
    page.goto(watched.url)
    expect(page.locator("#tasks > li")).to_have_count(3)
    yield page
    context.close()
    assert complaints == []
    assert [url for url in asked if not url.startswith(watched.url)] == []
