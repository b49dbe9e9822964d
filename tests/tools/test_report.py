"""The report: one file that needs nothing else, says what happened, and survives odd input."""

from __future__ import annotations

import re
import xml.etree.ElementTree as ET
from dataclasses import replace
from html.parser import HTMLParser

import numpy as np
import pytest

from headrace.tools.report import curves, digits, placing, step, svg
from headrace.tools.report.page import render
from headrace.tools.report.record import (
    Results,
    StepPoint,
    Trainer,
)
from tests.tools.records import PS, record, span

HOSTILE = "a<script>alert('1')</script>&\"b"


class Page(HTMLParser):
    """The elements of a page, checked for balance while they are read."""

    VOID = frozenset({"meta", "br", "img", "hr", "link", "input"})

    def __init__(self, html: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.text: list[str] = []
        self.feed(html)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))
        if tag not in self.VOID:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.text.append(data)

    @property
    def words(self) -> str:
        return " ".join(" ".join(self.text).split())


def drawings(html: str) -> list[ET.Element]:
    return [ET.fromstring(found) for found in re.findall(r"<svg.*?</svg>", html, re.DOTALL)]


def test_the_page_needs_nothing_but_itself() -> None:
    html = render(record())
    page = Page(html)
    assert {tag for tag, _ in page.tags} & {"script", "link", "img", "iframe", "object"} == set()
    for _, attributes in page.tags:
        for key in ("src", "href", "xlink:href", "action"):
            assert key not in attributes
        assert all("http" not in (v or "") for k, v in attributes.items() if k != "xmlns")
    styles = re.findall(r"<style>(.*?)</style>", html, re.DOTALL)
    assert len(styles) == 1
    assert "url(" not in styles[0]
    assert "@import" not in styles[0]


def test_every_drawing_is_well_formed_and_described() -> None:
    found = drawings(render(record()))
    described = [d.findtext("{http://www.w3.org/2000/svg}title") for d in found]
    assert len([title for title in described if title]) == 5


def test_no_coordinate_is_off_its_drawing_or_no_number() -> None:
    for drawing in drawings(render(record())):
        if "viewBox" not in drawing.attrib:
            continue
        *_, width, height = map(float, drawing.attrib["viewBox"].split())
        for element in drawing.iter():
            for key, limit in (("x", width), ("x1", width), ("y", height), ("cy", height)):
                if key in element.attrib:
                    assert -20 <= float(element.attrib[key]) <= limit + 20, element.attrib


def test_the_page_says_what_happened() -> None:
    words = Page(render(record())).words
    for said in (
        "3 of 4 handwritten digits, read right",
        "75.0%",
        "1 March 2026, 09:05",
        "160 in 2.0 s",  # steps
        "64-8-10",
        "/job:worker/task:1",
        "127.0.0.1:4003",
        "hidden/weights",
        "float32 [64, 8]",
        "examples RandomShuffleQueue",
        "4,500 rows",
        "loader closes the queue",
        "layer/MatMul",
        "2.0 KB from /job:ps/task:0",
        "8 read as 3",
    ):
        assert said in words


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_both_colour_schemes_define_the_same_colours(scheme: str) -> None:
    css = re.findall(r"<style>(.*?)</style>", render(record()), re.DOTALL)[0]
    light, _, rest = css.partition("@media (prefers-color-scheme: dark)")
    block = light if scheme == "light" else rest[: rest.index("}\n}")]
    defined = set(re.findall(r"(--[\w-]+):\s*#", block))
    used = set(re.findall(r"var\((--[\w-]+)\)", css)) - {"--serif", "--sans", "--mono"}
    assert used == defined


def test_a_hostile_name_is_shown_and_not_run() -> None:
    html = render(record(name=HOSTILE))
    assert "<script" not in html
    assert HOSTILE in "".join(Page(html).text)


def test_a_page_of_a_run_with_next_to_nothing_in_it_is_written() -> None:
    empty = replace(
        record(),
        trainers=[Trainer("worker 0"), Trainer("worker 1")],
        depth=[],
        loaded_s=None,
        records=[],
        variables=[],
        traced=[],
        results=Results(np.zeros((1, 64), np.float32), np.array([5], np.int32), np.array([5])),
    )
    words = Page(render(empty)).words
    assert "1 of 1 handwritten digits" in words
    assert "None was misread" in words
    assert "One step" not in words


def test_what_earlier_runs_left_is_drawn_for_a_worker_that_took_no_step_this_time() -> None:
    points = [StepPoint(0.1 * i, 50 + i, 1.0, 5) for i in range(4)]
    before = [(10, 2.0), (20, 1.5)]
    resumed = replace(
        record(),
        trainers=[Trainer("worker 0", earlier=before), Trainer("worker 1", points, before)],
    )
    chart = str(curves.loss_chart(resumed))
    assert [
        re.findall(rf'class="{kind} w(\d)"', chart) for kind in ("curve earlier", "curve", "dots")
    ] == [
        ["0", "1"],
        ["1"],
        ["1"],
    ]


def test_the_running_mean_weighs_steps_by_their_examples() -> None:
    points = [StepPoint(0, i, loss, count) for i, loss, count in [(0, 1.0, 30), (1, 5.0, 10)]]
    assert curves.smoothed(points, window=3) == [(0, 2.0), (1, 2.0)]


def test_the_running_mean_is_of_the_steps_around() -> None:
    points = [StepPoint(0, i, float(i), 1) for i in range(5)]
    assert curves.smoothed(points, window=3) == [(0, 0.5), (1, 1), (2, 2), (3, 3), (4, 3.5)]


def test_rates_add_up_to_all_examples() -> None:
    points = record().trainers[0].points
    rates = curves.binned(points, end_s=2.0, bins=8)
    assert sum(rates) * (2.0 / 8) == pytest.approx(100 * 50)


def test_labels_keep_apart_in_their_order() -> None:
    assert curves.spread([10, 12, 50], gap=17) == [10, 27, 50]
    assert curves.spread([50, 10], gap=17) == [50, 10]


def test_bytes_are_counted_per_pair_of_tasks() -> None:
    moved = placing.moved_bytes(record().traced)
    assert moved == {("/job:ps/task:0", "/job:worker/task:0"): 2048}


@pytest.mark.parametrize(
    ("device", "task"),
    [
        (PS, "/job:ps/task:0"),
        ("/job:worker/task:3", "/job:worker/task:3"),
        ("/job:ps", "/job:ps/task:0"),
    ],
)
def test_a_device_belongs_to_a_task(device: str, task: str) -> None:
    assert placing.task_of(device) == task


@pytest.mark.parametrize(
    ("op", "kind"),
    [
        ("MatMul", "compute"),
        ("RandomShuffleQueueV2", "state"),
        ("QueueDequeueUpToV2", "state"),
        ("ApplyAdam", "state"),
        ("VariableV2", "state"),
        ("RecvTensor", "transfer"),
        ("Const", "quiet"),
    ],
)
def test_a_bar_has_the_colour_of_what_its_node_does(op: str, kind: str) -> None:
    assert step.kind_of(span(PS, "n", op, 0, 1)) == kind


def test_a_long_name_is_shortened_to_its_last_parts() -> None:
    assert step.shortened("gradients/hidden1/MatMul_grad/MatMul", 20) == "MatMul_grad/MatMul"
    assert step.shortened("gradients/hidden1/MatMul", 5) == ""


def test_the_timeline_has_a_bar_for_every_node_with_a_title() -> None:
    drawing = ET.fromstring(step.timeline(record().traced[0]))
    ns = "{http://www.w3.org/2000/svg}"
    titles = [title.text or "" for title in drawing.iter(f"{ns}title")]
    assert "layer/MatMul\nMatMul\n(x, w/read_S3)\n95.0 µs, for 400.0 µs" in titles
    assert not any("_SOURCE" in title for title in titles)


def test_a_digit_is_drawn_pixel_by_pixel() -> None:
    pixels = np.zeros(64, np.float32)
    pixels[9] = 8.0
    rects = list(ET.fromstring(digits.picture(pixels)))
    assert [(r.attrib["x"], r.attrib["y"], r.attrib["fill-opacity"]) for r in rects] == [
        ("6", "6", "0.5")
    ]


@pytest.mark.parametrize(
    ("low", "high", "about", "ticks"),
    [
        (0, 10, 5, [0, 2, 4, 6, 8, 10]),
        (0, 863, 8, [0, 200, 400, 600, 800]),
        (0.3, 0.9, 3, [0.4, 0.6, 0.8]),
        (5, 5, 3, [5]),
    ],
)
def test_ticks_are_round(low: float, high: float, about: int, ticks: list[float]) -> None:
    assert svg.round_ticks(low, high, about) == pytest.approx(ticks)


@pytest.mark.parametrize(
    ("count", "shown"),
    [(0, "0 B"), (1023, "1023 B"), (1024, "1.0 KB"), (3 << 20, "3.0 MB"), (5 << 30, "5.0 GB")],
)
def test_bytes_are_shown_in_the_unit_that_fits(count: int, shown: str) -> None:
    assert svg.bytes_text(count) == shown


def test_a_logarithmic_scale_keeps_what_is_below_it_at_its_end() -> None:
    scale = svg.Log(0.01, 1.0, 100, 0)
    assert [scale(v) for v in (0.0, 0.01, 0.1, 1.0)] == pytest.approx([100, 100, 50, 0])
    assert scale.ticks() == pytest.approx([0.01, 0.03, 0.1, 0.3, 1])
