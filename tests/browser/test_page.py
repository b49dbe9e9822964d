"""The page in a browser: what it shows, that every control works by keyboard, and that axe-core finds nothing."""

from __future__ import annotations

import re

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Browser, Page, expect

from headrace.serve.rpc.security import Security
from headrace.tools.dashboard.app import Dashboard
from tests.browser.conftest import ELSEWHERE, HOSTILE, Watched
from tests.serve.clusters import processes

PHONE = {"width": 360, "height": 740}
CONTROLS = "a[href]:not([hidden]), button, input, [tabindex='0']"


def test_tasks_are_shown_with_what_they_take(page: Page, watched: Watched) -> None:
    ps = page.locator("#tasks > li", has_text="ps:0")
    expect(ps.locator(".state")).to_have_text("up")
    expect(ps).to_contain_text(watched.cluster.address("ps:0"))
    expect(ps.locator("div", has_text="memory").locator("dd")).to_have_text(
        re.compile(r"\d+ MiB|\d\.\d GiB")
    )
    expect(ps.locator("div", has_text="parts of steps/s").locator("dd")).to_have_text(
        re.compile(r"[1-9]")
    )
    expect(page.locator("#traffic > tr", has_text="worker:0").first).to_contain_text("/s")
    expect(page.locator("#map circle")).to_have_count(3)


def test_steps_are_drawn_and_told_in_words(page: Page) -> None:
    expect(page.locator("#pace > div", has_text="half take at most").locator("dd")).to_have_text(
        re.compile(r"\d")
    )
    expect(page.locator("#rate-chart canvas")).to_be_visible()
    expect(page.locator("#rate-chart")).to_have_attribute(
        "aria-label", re.compile(r"now [\d.]+k? through masters")
    )
    expect(page.locator("#latency-chart")).to_have_attribute(
        "aria-label", re.compile(r"at most \d")
    )


def test_queues_have_a_fill_and_its_history(page: Page) -> None:
    row = page.locator("#queue-rows > tr", has_text="examples")
    expect(row).to_contain_text("/32")
    expect(row.locator("meter")).to_have_attribute("max", "32")
    button = row.locator("button")
    button.focus()
    page.keyboard.press("Enter")
    expect(button).to_have_attribute("aria-pressed", "true")
    expect(page.locator("#fill-name")).to_have_text("examples on ps:0")
    expect(page.locator("#fill-chart canvas")).to_be_visible()


def test_a_step_that_waits_says_why(page: Page) -> None:
    step = page.locator("#blocked-steps > li", has_text="never")
    expect(step).to_contain_text("QueueDequeueV2")
    expect(step.locator(".cause")).to_contain_text("nobody has ever enqueued anything")


def test_names_are_text_whatever_is_in_them(page: Page) -> None:
    expect(page.locator("#queue-rows button", has_text=HOSTILE)).to_be_visible()
    expect(page).to_have_title(re.compile("headrace grpc://"))
    expect(page.locator("main img")).to_have_count(0)


def test_variables_can_be_looked_for(page: Page) -> None:
    rows = page.locator("#variable-rows > tr")
    expect(rows).to_have_count(2)
    page.get_by_label("Show those whose name contains").press_sequentially("bia")
    expect(rows).to_have_count(1)
    expect(rows).to_contain_text("float32")
    expect(page.locator("#variable-count")).to_have_text("2 variables, 19.7 KiB")


def test_variables_say_how_often_they_are_updated(page: Page) -> None:
    weights = page.locator("#variable-rows > tr", has_text="weights").locator("td")
    expect(weights.nth(5)).to_have_text(re.compile("[1-9]"))
    updates = weights.nth(4).inner_text()
    expect(weights.nth(4)).not_to_have_text(updates)
    biases = page.locator("#variable-rows > tr", has_text="biases").locator("td")
    expect(biases.nth(4)).to_have_text("1")
    expect(biases.nth(5)).to_have_text("0.0")


def test_checkpoints_are_listed_as_they_are_written(page: Page) -> None:
    page.get_by_role("link", name="Checkpoints").focus()
    page.keyboard.press("Enter")
    expect(page.get_by_role("heading", name="Checkpoints and restarts")).to_be_in_viewport()
    latest = page.locator("#checkpoint-rows > tr").first
    expect(latest.locator("td").nth(0)).to_have_text("saved")
    expect(latest.locator("td").nth(2)).to_have_text("ps:0")
    expect(latest.locator("td").nth(3)).to_have_text("2")  # tensors
    expect(latest.locator("td").nth(4)).to_have_text("19.7 KiB")
    expect(latest.locator("td").nth(5)).to_have_text(re.compile(r"\d ms"))
    path = latest.locator("th").inner_text()
    expect(latest.locator("th")).not_to_have_text(path)
    expect(page.locator("#event-rows")).to_contain_text(re.compile("saved .*model-"))


def test_a_restart_is_listed_with_them(browser: Browser) -> None:
    """Of a cluster of its own."""
    with (
        processes({"ps": 1, "worker": 1}) as cluster,
        Dashboard(cluster.target("worker:0"), ("127.0.0.1", 0), Security(), 0.2) as dashboard,
    ):
        page = browser.new_page()
        page.goto(dashboard.url)
        card = page.locator("#tasks > li", has_text="ps:0")
        expect(card.locator(".state")).to_have_text("up")
        cluster.kill("ps:0")
        expect(card.locator(".state")).to_have_text("gone")
        cluster.start("ps:0")
        row = page.locator("#checkpoint-rows > tr", has_text="restarted")
        expect(row).to_contain_text("its variables and queues are new")
        expect(row.locator("td").nth(2)).to_have_text("ps:0")
        expect(card.locator("div", has_text="restarts seen").locator("dd")).to_have_text("1")
        page.close()


def test_stages_of_datasets_and_sessions_are_listed(page: Page) -> None:
    expect(page.locator("#other-rows")).to_contain_text(
        re.compile(r"Prefetch .*<- Batch .*<- Range")
    )
    expect(page.locator("#session-rows > tr")).to_have_count(1)


def test_a_trace_is_drawn_by_device_and_explained(page: Page) -> None:
    page.get_by_role("spinbutton", name="Steps").fill("3")
    page.get_by_role("button", name="Trace the next steps").focus()
    page.keyboard.press("Enter")
    timeline = page.get_by_role("img", name=re.compile("Timeline of step"))
    expect(timeline).to_be_visible()
    expect(
        timeline.locator("text", has_text="/job:ps/replica:0/task:0/device:CPU:0")
    ).to_have_count(1)
    expect(page.locator("#trace-report")).to_contain_text("steps that end with")
    expect(page.get_by_role("link", name="for ui.perfetto.dev")).to_be_visible()
    width = timeline.evaluate("each => each.getBoundingClientRect().width")
    page.get_by_role("button", name="Zoom in").press("Enter")
    assert timeline.evaluate("each => each.getBoundingClientRect().width") > width * 1.5


def test_a_task_that_says_nothing_is_slow_until_it_answers_again(
    page: Page, watched: Watched
) -> None:
    card = page.locator("#tasks > li", has_text="worker:1")
    watched.cluster.freeze("worker:1")
    try:
        expect(card.locator(".state")).to_have_text("slow")
        expect(page.locator("#state")).to_contain_text("1 not up")
    finally:
        watched.cluster.thaw("worker:1")
    expect(card.locator(".state")).to_have_text("up")
    expect(page.locator("#event-rows")).to_contain_text("answers again")


def test_every_control_is_reached_by_the_tab_key(page: Page) -> None:
    page.evaluate("document.querySelectorAll('.scroll').forEach((each) => each.scrollTo(0, 0))")
    visible = (
        f'[...document.querySelectorAll("{CONTROLS}")].filter((e) => e.getClientRects().length)'
    )
    wanted = page.evaluate(f"{visible}.map((e, n) => {{ e.dataset.n = n; return String(n); }})")
    reached: list[str] = []
    for _ in range(len(wanted) * 2):
        page.keyboard.press("Tab")
        reached.append(page.evaluate("document.activeElement.dataset.n ?? ''"))
    assert set(wanted) - set(reached) == set()
    outline = page.evaluate("getComputedStyle(document.activeElement).outlineStyle")
    assert outline != "none"


def test_the_first_tab_leads_past_the_navigation(page: Page) -> None:
    page.keyboard.press("Tab")
    expect(page.get_by_role("link", name="Skip to the cluster")).to_be_focused()
    page.keyboard.press("Enter")
    assert page.evaluate("location.hash") == "#main"


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("size", [{"width": 1200, "height": 900}, PHONE], ids=["desk", "phone"])
def test_axe_finds_nothing(page: Page, scheme: str, size: dict[str, int]) -> None:
    page.emulate_media(color_scheme=scheme)  # type: ignore[arg-type]
    page.set_viewport_size(size)  # type: ignore[arg-type]
    expect(page.locator("#blocked-steps > li", has_text="never")).to_be_visible()
    found = Axe().run(page)
    assert found.violations_count == 0, found.generate_report()


def test_a_phone_shows_all_of_it_without_scrolling_sideways(page: Page) -> None:
    page.set_viewport_size(PHONE)  # type: ignore[arg-type]
    expect(page.locator("#queue-rows > tr")).to_have_count(2)
    wide = page.evaluate("document.documentElement.scrollWidth")
    assert wide <= PHONE["width"]


def test_a_page_of_elsewhere_gets_nothing(browser: Browser, watched: Watched) -> None:
    """Its name leads to this machine, as DNS rebinding has it."""
    page = browser.new_page()
    address = watched.url.replace("127.0.0.1", ELSEWHERE)
    answer = page.goto(address)
    page.close()
    assert answer is not None
    assert answer.status == 421


def test_a_token_opens_the_page_and_leaves_the_address(browser: Browser, watched: Watched) -> None:
    security = Security("what everybody here knows")
    target, place = watched.cluster.target("ps:0"), ("127.0.0.1", 0)
    with Dashboard(target, place, security) as dashboard:
        context = browser.new_context()
        page = context.new_page()
        closed = page.goto(dashboard.url)
        assert closed is not None
        assert closed.status == 401
        page.goto(f"{dashboard.url}?token={security.http_token}")
        expect(page.locator("#tasks > li")).to_have_count(3)
        assert page.url == dashboard.url
        context.close()
