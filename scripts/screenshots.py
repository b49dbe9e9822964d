"""Take the pictures of the page in docs/watching.md anew: docs/dashboard.png, and docs/dashboard-phone.png.

Called by hand when the page has changed, in an environment of `make browser`: python -m scripts.screenshots
"""

from __future__ import annotations

import tempfile
import time
from contextlib import ExitStack
from pathlib import Path

from playwright.sync_api import Browser, expect, sync_playwright

from tests.browser.conftest import TRAINING, begun, chromium
from tests.serve.clusters import processes

DOCS = Path(__file__).resolve().parent.parent / "docs"
WATCHED_S = 30.0  # so that the charts have something to show
SAVES_EVERY_S = 8.0
QUEUE = "stop_requests"


def main() -> None:
    """Overwrite both."""
    with (
        processes({"ps": 1, "worker": 2}) as cluster,
        ExitStack() as stack,
        sync_playwright() as playwright,
    ):
        target = cluster.target("worker:0")
        folder = stack.enter_context(tempfile.TemporaryDirectory())
        begun(stack, str(TRAINING), target, QUEUE, folder, str(SAVES_EVERY_S))
        serves = ["-m", "headrace.tools.main", "dashboard", target, "--port", "0"]
        url = begun(stack, *serves).split()[-1]
        browser = playwright.chromium.launch(executable_path=chromium(), args=["--no-sandbox"])
        take(browser, url, "dashboard.png", {"width": 1100, "height": 900}, "light", WATCHED_S)
        take(browser, url, "dashboard-phone.png", {"width": 390, "height": 844}, "dark", 5.0)
        browser.close()


def take(
    browser: Browser, url: str, name: str, size: dict[str, int], scheme: str, after_s: float
) -> None:
    """One picture: on a phone the screen, else the page as far as its checkpoints."""
    context = browser.new_context(viewport=size, color_scheme=scheme)  # type: ignore[arg-type]
    page = context.new_page()
    page.goto(url)
    expect(page.locator("#tasks > li")).to_have_count(3)
    page.get_by_text("examples", exact=True).first.click()
    page.evaluate("scrollTo(0, 0)")
    time.sleep(after_s)
    clip = None
    if scheme == "light":
        (last,) = page.locator("#checkpoints").all()
        box = last.bounding_box()
        assert box is not None
        clip = {"x": 0, "y": 0, "width": size["width"], "height": box["y"] + box["height"] + 16}
    page.screenshot(path=DOCS / name, full_page=clip is not None, clip=clip)  # type: ignore[arg-type]
    context.close()


if __name__ == "__main__":
    main()
