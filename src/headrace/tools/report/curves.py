"""Curves over a run: the loss of each worker, the depth of the queue, examples per second.

Called by: page.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import pairwise

from headrace.tools.report.record import Record, StepPoint, Trainer
from headrace.tools.report.svg import (
    Linear,
    Log,
    Markup,
    Plot,
    area,
    el,
    figure,
    join,
    line,
    path,
    text,
    tick_text,
)

WIDTH = 960
LEFT, RIGHT = 64, 840  # and labels to the right of it
MOST_POINTS = 500
WINDOW = 25
BINS = 48


def smoothed(points: Sequence[StepPoint], window: int = WINDOW) -> list[tuple[int, float]]:
    """(global step, mean loss of the examples of the steps around it): cut off at both ends."""
    losses, counts = [0.0], [0]
    for point in points:
        losses.append(losses[-1] + point.loss * point.count)
        counts.append(counts[-1] + point.count)
    means = []
    for index, point in enumerate(points):
        low = max(index - window // 2, 0)
        high = min(index + window // 2 + 1, len(points))
        mean = (losses[high] - losses[low]) / max(counts[high] - counts[low], 1)
        means.append((point.global_step, mean))
    return means


def thinned(points: Sequence[StepPoint], most: int = MOST_POINTS) -> Sequence[StepPoint]:
    """Every n-th point, so that at most `most` are left."""
    return points[:: max(1, math.ceil(len(points) / most))]


def spread(wanted: Sequence[float], gap: float) -> list[float]:
    """Positions near the wanted ones, in their order, at least `gap` apart."""
    order = sorted(range(len(wanted)), key=lambda index: wanted[index])
    placed = list(wanted)
    for above, below in pairwise(order):
        placed[below] = max(placed[below], placed[above] + gap)
    return placed


def loss_chart(record: Record) -> Markup:
    """Loss over global steps, logarithmic: steps as dots, running means as lines, earlier runs as thin ones."""
    trainers = list(
        enumerate(record.trainers)
    )  # the colour is the number, whether or not it took a step
    active = [(index, trainer) for index, trainer in trainers if trainer.points]
    losses = [p.loss for _, trainer in active for p in trainer.points if p.loss > 0] or [1.0]
    losses += [loss for _, trainer in trainers for _, loss in trainer.earlier if loss > 0]
    steps = [trainer.points[-1].global_step for _, trainer in active]
    steps += [trainer.earlier[-1][0] for _, trainer in trainers if trainer.earlier]
    ordered = sorted(losses)
    low = max(ordered[len(ordered) // 200], 1e-4)  # a few lucky batches must not set the scale
    high = max(ordered[-1], low * 10)
    plot = Plot(Linear(0, max(steps, default=1), LEFT, RIGHT), Log(low, high, 330, 40))
    lines = [smoothed(trainer.points) for _, trainer in active]
    ends = spread([plot.y(means[-1][1]) + 4 for means in lines], 17)
    return figure(
        WIDTH,
        376,
        "Loss of each worker over global steps",
        plot.y_axis("cross entropy of a batch (logarithmic)"),
        plot.x_axis("global step"),
        [_earlier(plot, trainer, index) for index, trainer in trainers if trainer.earlier],
        [_dots(plot, trainer, index) for index, trainer in active],
        [
            path([(plot.x(step), plot.y(mean)) for step, mean in means], f"curve w{index}")
            for (index, _), means in zip(active, lines, strict=True)
        ],
        [
            text(RIGHT + 10, at, trainer.name, f"end-label w{index}")
            for (index, trainer), at in zip(active, ends, strict=True)
        ],
    )


def _earlier(plot: Plot, trainer: Trainer, index: int) -> Markup:
    """What runs before this one left in event files, as a thin line."""
    points = [(step, loss) for step, loss in trainer.earlier if loss > 0]
    points = points[:: max(1, math.ceil(len(points) / MOST_POINTS))]
    return path([(plot.x(step), plot.y(loss)) for step, loss in points], f"curve earlier w{index}")


def _dots(plot: Plot, trainer: Trainer, index: int) -> Markup:
    return el(
        "g",
        [
            el(
                "circle",
                el("title", f"{trainer.name}, step {p.global_step:,}: loss {p.loss:.4f}"),
                cx=plot.x(p.global_step),
                cy=plot.y(p.loss),
                r=1.6,
            )
            for p in thinned(trainer.points)
        ],
        class_=f"dots w{index}",
    )


def time_chart(record: Record) -> Markup:
    """Over one time axis: the queue's depth with its bounds, and examples/s of each worker."""
    end = max((t.points[-1].time_s for t in record.trainers if t.points), default=1.0)
    x = Linear(0, max(end, 0.1), LEFT, RIGHT)
    return figure(
        WIDTH,
        500,
        "Depth of the queue and examples per second over time",
        _depth(record, x),
        _rates(record, x),
    )


def _depth(record: Record, x: Linear) -> Markup:
    queue = record.queue
    plot = Plot(x, Linear(0, queue.capacity * 1.08, 210, 40))
    depth = [point for point in record.depth if point.time_s <= x.high]
    points = [(x(p.time_s), plot.y(p.depth)) for p in depth]
    marks = [
        join(
            line(LEFT, plot.y(value), RIGHT, plot.y(value), "bound"),
            text(RIGHT + 10, plot.y(value) + 4, label, "bound-label"),
        )
        for value, label in (
            (queue.capacity, "capacity"),
            (queue.min_after_dequeue, "kept to shuffle"),
        )
    ]
    closed = None
    if record.loaded_s is not None:
        at = min(x(record.loaded_s), RIGHT)
        left = at > (LEFT + RIGHT) / 2
        closed = join(
            line(at, 40, at, 210, "moment"),
            text(
                at + (-6 if left else 6),
                96,
                "loader closes the queue",
                "moment-label",
                text_anchor="end" if left else "start",
            ),
        )
    return el(
        "g",
        plot.y_axis("elements in the queue", about=4),
        [area(points, 210, "depth-area"), path(points, "curve depth")] if points else None,
        el(
            "g",
            [
                el(
                    "circle",
                    el("title", f"{p.time_s:.1f} s: {p.depth:,} elements"),
                    cx=x(p.time_s),
                    cy=plot.y(p.depth),
                    r=4,
                    class_="hover",
                )
                for p in depth
            ],
        ),
        marks,
        closed,
        plot.x_axis(""),
    )


def binned(points: Sequence[StepPoint], end_s: float, bins: int = BINS) -> list[float]:
    """Examples per second in each of `bins` equal parts of [0, end_s]."""
    width = end_s / bins
    sums = [0.0] * bins
    for point in points:
        sums[min(int(point.time_s / width), bins - 1)] += point.count
    return [total / width for total in sums]


def _rates(record: Record, x: Linear) -> Markup:
    rates = [binned(trainer.points, x.high) for trainer in record.trainers]
    top = max((max(rate) for rate in rates), default=1.0) or 1.0
    plot = Plot(x, Linear(0, top * 1.08, 450, 290))
    width = x.high / BINS
    shapes, ends = [], []
    for index, (trainer, rate) in enumerate(zip(record.trainers, rates, strict=True)):
        middles = [(x((i + 0.5) * width), plot.y(value)) for i, value in enumerate(rate)]
        shapes.append(path(middles, f"curve w{index}"))
        ends.append((trainer, middles[-1][1] + 4))
    placed = spread([at for _, at in ends], 17)
    return el(
        "g",
        plot.y_axis("examples per second", about=4, format=tick_text),
        shapes,
        [
            text(RIGHT + 10, at, trainer.name, f"end-label w{index}")
            for index, ((trainer, _), at) in enumerate(zip(ends, placed, strict=True))
        ],
        plot.x_axis("seconds"),
    )
