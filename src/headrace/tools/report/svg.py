"""SVG by hand: elements as escaped text, scales, ticks and axes.

A `Markup` is text that is already escaped; plain `str` children and all attribute values are
escaped here, so that no name of a node or variable can break the page.

Called by: the figures of this package.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from html import escape


class Markup(str):
    """Text that is markup already."""

    __slots__ = ()


Child = str | Iterable[str] | None


def number(value: float) -> str:
    """A coordinate with at most two decimals."""
    return f"{value:.2f}".rstrip("0").rstrip(".") or "0"


def _attribute(name: str, value: object) -> str:
    name = name.rstrip("_").replace("_", "-")
    text = number(value) if isinstance(value, float) else str(value)
    return f' {name}="{escape(text, quote=True)}"'


def _flatten(children: Iterable[Child]) -> Iterable[str]:
    for child in children:
        if child is None:
            continue
        if isinstance(child, Markup):
            yield child
        elif isinstance(child, str):
            yield escape(child, quote=False)
        else:
            yield from _flatten(child)


def el(tag: str, *children: Child, **attributes: object) -> Markup:
    """`<tag attributes>children</tag>`; `class_` is `class`, other underscores become dashes.

    Children are text, markup, or iterables of them; attributes that are None are left out.
    """
    written = "".join(_attribute(k, v) for k, v in attributes.items() if v is not None)
    inner = "".join(_flatten(children))
    return Markup(f"<{tag}{written}>{inner}</{tag}>")


def join(*children: Child) -> Markup:
    """The children one after the other."""
    return Markup("".join(_flatten(children)))


def text(x: float, y: float, content: str, class_: str = "label", **attributes: object) -> Markup:
    """A line of text whose baseline begins (or is anchored) at x, y."""
    return el("text", content, x=x, y=y, class_=class_, **attributes)


def line(x1: float, y1: float, x2: float, y2: float, class_: str, **attributes: object) -> Markup:
    """A straight line."""
    return el("line", x1=x1, y1=y1, x2=x2, y2=y2, class_=class_, **attributes)


def path(points: Sequence[tuple[float, float]], class_: str, **attributes: object) -> Markup:
    """An open polyline through the points."""
    d = "M" + "L".join(f"{number(x)} {number(y)}" for x, y in points)
    return el("path", d=d, class_=class_, **attributes)


def area(points: Sequence[tuple[float, float]], base: float, class_: str) -> Markup:
    """The area between the points and the horizontal at `base`."""
    closed = [(points[0][0], base), *points, (points[-1][0], base)]
    d = "M" + "L".join(f"{number(x)} {number(y)}" for x, y in closed) + "Z"
    return el("path", d=d, class_=class_)


@dataclass(frozen=True)
class Linear:
    """Maps [low, high] of the data to [start, end] of the drawing."""

    low: float
    high: float
    start: float
    end: float

    def __call__(self, value: float) -> float:
        """Where `value` is in the drawing."""
        span = self.high - self.low or 1.0
        return self.start + (value - self.low) / span * (self.end - self.start)

    def ticks(self, about: int) -> list[float]:
        """Round values within the range, roughly `about` of them."""
        return round_ticks(self.low, self.high, about)


@dataclass(frozen=True)
class Log:
    """As Linear, by the logarithm; `low` and `high` are positive, values below low count as low."""

    low: float
    high: float
    start: float
    end: float

    def __call__(self, value: float) -> float:
        """Where `value` is in the drawing."""
        at = math.log(max(value, self.low) / self.low) / math.log(self.high / self.low)
        return self.start + at * (self.end - self.start)

    def ticks(self, about: int = 0) -> list[float]:
        """1 and 3 of every decade within the range."""
        decades = range(math.floor(math.log10(self.low)), math.ceil(math.log10(self.high)) + 1)
        values = [digit * 10.0**decade for decade in decades for digit in (1, 3)]
        return [v for v in values if self.low * 0.999 <= v <= self.high * 1.001]


Scale = Linear | Log


def round_ticks(low: float, high: float, about: int) -> list[float]:
    """Multiples of 1, 2 or 5 times a power of ten within [low, high], roughly `about` of them."""
    if high <= low:
        return [low]
    raw = (high - low) / max(about, 1)
    power = 10.0 ** math.floor(math.log10(raw))
    step = next(m * power for m in (1, 2, 5, 10) if m * power >= raw * 0.999)
    first = math.ceil(low / step - 1e-9)
    return [i * step for i in range(first, math.floor(high / step + 1e-9) + 1)]


def tick_text(value: float) -> str:
    """`2,000`, `0.03`, `1.5`."""
    if value == int(value):
        return f"{int(value):,}"
    return f"{value:.6g}"


def bytes_text(count: int) -> str:
    """`256 B`, `32.0 KB`, `1.2 MB`; a KB is 1,024 bytes."""
    if count < 1024:
        return f"{count} B"
    value = float(count)
    for unit in ("KB", "MB"):
        value /= 1024
        if value < 1024:
            return f"{value:.1f} {unit}"
    return f"{value / 1024:.1f} GB"


@dataclass(frozen=True)
class Plot:
    """The frame of a chart: its inner rectangle is given by the ranges of the two scales."""

    x: Scale
    y: Scale

    def x_axis(
        self, title: str, about: int = 8, format: Callable[[float], str] = tick_text
    ) -> Markup:
        """Ticks and labels below the plot, the title at the right end."""
        base = self.y.start
        marks = []
        for value in self.x.ticks(about):
            at = self.x(value)
            marks.append(line(at, base, at, base + 4, "tick"))
            marks.append(text(at, base + 17, format(value), "tick-label", text_anchor="middle"))
        return el(
            "g",
            line(self.x.start, base, self.x.end, base, "axis"),
            marks,
            text(self.x.end, base + 34, title, "axis-title", text_anchor="end"),
        )

    def y_axis(
        self, title: str, about: int = 5, format: Callable[[float], str] = tick_text
    ) -> Markup:
        """Rules across the plot with labels at the left, the title above."""
        marks = []
        for value in self.y.ticks(about):
            at = self.y(value)
            marks.append(line(self.x.start, at, self.x.end, at, "rule"))
            marks.append(
                text(self.x.start - 8, at + 4, format(value), "tick-label", text_anchor="end")
            )
        return el("g", marks, text(self.x.start, self.y.end - 12, title, "axis-title"))


def figure(width: int, height: int, description: str, *children: Child) -> Markup:
    """The svg element: scales with the page, and says what it shows to those who cannot see it."""
    return el(
        "svg",
        el("title", description),
        *children,
        viewBox=f"0 0 {width} {height}",
        role="img",
        xmlns="http://www.w3.org/2000/svg",
    )
