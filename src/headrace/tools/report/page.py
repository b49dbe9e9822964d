"""The page: prose, tables and the figures in their order, in one file that needs nothing else.

Called by: demo.run.
"""

from __future__ import annotations

from importlib import resources

from headrace.tools.report import curves, digits, placing, step
from headrace.tools.report.record import Record, Variable
from headrace.tools.report.svg import Child, Markup, bytes_text, el, join

_WORDS = ("no", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten")


def words(count: int) -> str:
    """Small counts as words."""
    return _WORDS[count] if 0 <= count < len(_WORDS) else f"{count:,}"


def render(record: Record) -> str:
    """The whole HTML document."""
    css = resources.files(__package__).joinpath("page.css").read_text(encoding="utf-8")
    body = el(
        "main",
        _head(record),
        _learning(record),
        _flowing(record),
        _placing(record),
        _step(record),
        _reading(record),
        _facts(record),
        el(
            "footer",
            "Written by ",
            el("code", "headrace demo"),
            ". The traced step is in ",
            el("code", "trace.json"),
            " as well, for ui.perfetto.dev or chrome://tracing. The digits: E. Alpaydin and "
            "C. Kaynak, Optical Recognition of Handwritten Digits, UCI Machine Learning "
            "Repository, CC BY 4.0.",
        ),
    )
    title = f"headrace demo: {record.results.accuracy:.1%} of the test digits"
    return (
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"{el('title', title)}\n<style>\n{css}</style>\n</head>\n"
        f"<body>\n{placing.arrow_head()}\n{body}\n</body>\n</html>\n"
    )


def _section(title: str, prose: str, *content: Child) -> Markup:
    return el("section", el("h2", title), el("p", prose), *content)


def _chart(*content: Child) -> Markup:
    return el("div", *content, class_="chart")


def _head(record: Record) -> Markup:
    results = record.results
    layers = record.parameters.get("Network", "a network").split(",")[0]
    processes = len(record.tasks) + len(record.clients) + 1
    stats = (
        ("accuracy on the test set", f"{results.accuracy:.1%}", f"{len(results.labels)} digits"),
        ("examples per second", f"{record.examples_per_s:,.0f}", ""),
        ("steps of training", f"{record.steps:,}", f"in {record.training_s:.1f} s"),
        (
            "on the parameter server",
            bytes_text(sum(v.num_bytes for v in record.variables)),
            f"{len(record.variables)} variables",
        ),
    )
    when = f"{record.started:%d %B %Y, %H:%M}".lstrip("0")
    return join(
        el("p", f"headrace demo, {when}", class_="kicker"),
        el("h1", f"{results.right} of {len(results.labels)} handwritten digits, read right"),
        el(
            "p",
            f"{words(len(record.trainers)).capitalize()} workers trained a {layers} network on "
            f"{record.examples:,} examples that {words(len(record.records))} readers fed through "
            f"one shuffle queue: {words(processes)} processes on one machine, "
            f"{record.wall_s:.0f} seconds from the first server to this page.",
            class_="lede",
        ),
        el(
            "dl",
            [
                el(
                    "div",
                    el("dt", name),
                    el("dd", value, el("small", f" {more}") if more else None),
                    class_="stat",
                )
                for name, value, more in stats
            ],
            class_="stats",
        ),
    )


def _learning(record: Record) -> Markup:
    return _section(
        "Learning",
        "Each worker takes its own batches and applies its own gradients to the shared variables, "
        "without waiting for the other. A dot is one step; a line is the running mean of "
        f"{curves.WINDOW} steps." + _of_earlier_runs(record),
        _chart(curves.loss_chart(record)),
    )


def _of_earlier_runs(record: Record) -> str:
    first = min((t.points[0].global_step for t in record.trainers if t.points), default=0)
    if not any(trainer.earlier for trainer in record.trainers):
        return ""
    return (
        f" This run resumed from a checkpoint at step {first - 1:,}; the thin lines are what earlier runs left in "
        "their event files."
    )


def _flowing(record: Record) -> Markup:
    return _section(
        "Flowing",
        f"{words(len(record.records)).capitalize()} threads of one loader keep the queue full; the "
        "trainers empty it. When the last epoch is read the loader closes the queue, and what is "
        "left drains.",
        _chart(curves.time_chart(record)),
    )


def _placing(record: Record) -> Markup:
    return _section(
        "Placing",
        "Variables and the queue live on the parameter server, the arithmetic on the workers. "
        "Rounded boxes are programs with a session; bytes on arrows are those of one traced step.",
        _chart(placing.diagram(record)),
        el(
            "details",
            el("summary", f"All {len(record.variables)} variables"),
            el("div", _variables(record.variables), class_="scroll"),
        ),
    )


def _variables(variables: list[Variable]) -> Markup:
    head = el(
        "tr",
        [el("th", name) for name in ("variable", "type", "shape", "device")],
        el("th", "bytes", class_="num"),
    )
    rows = [
        el(
            "tr",
            el("td", v.name, class_="code" if v.trainable else "code dim"),
            el("td", v.dtype, class_="code"),
            el("td", placing.shape_text(v.shape), class_="code"),
            el("td", v.device, class_="code dim"),
            el("td", f"{v.num_bytes:,}", class_="num"),
        )
        for v in variables
    ]
    return el("table", el("thead", head), el("tbody", rows), class_="nodes")


def _step(record: Record) -> Markup | None:
    if not record.traced:
        return None
    traced = record.traced[0]
    rows = step.work(traced.rows)
    nodes = sum(len(row.spans) for row in rows)
    return _section(
        "One step",
        f"Step {traced.global_step:,}, taken by {traced.trainer}: {nodes} spans on "
        f"{words(len(rows))} devices. Curves are tensors on their way from one process to another. "
        "Point at a bar for its node, inputs and times.",
        step.legend(),
        _chart(step.timeline(traced)),
        el("details", el("summary", "Every node of this step"), step.node_table(traced)),
    )


def _reading(record: Record) -> Markup:
    results = record.results
    wrong = len(results.labels) - results.right
    shown = digits.misread(results)
    if wrong == 0:
        heading = "None was misread"
    elif wrong > len(shown):
        heading = f"{words(len(shown)).capitalize()} of the {wrong} that were misread"
    else:
        heading = f"The {words(wrong)} that {'was' if wrong == 1 else 'were'} misread"
    return _section(
        "Reading",
        f"The variables outlive the sessions that trained them: another program asked a worker to "
        f"classify {len(results.labels)} digits that no trainer had seen.",
        el(
            "div",
            _chart(digits.confusion(results)),
            el("div", el("h3", heading), el("div", shown, class_="digits")),
            class_="pair",
        ),
    )


def _facts(record: Record) -> Markup:
    facts = dict(record.parameters)
    facts["Wall time"] = f"{record.wall_s:.1f} s"
    facts |= {t.name: f"{t.address}, pid {t.pid}" for t in record.tasks}
    return el(
        "section",
        el("h2", "This run"),
        el(
            "dl",
            [el("div", el("dt", name), el("dd", value)) for name, value in facts.items()],
            class_="facts",
        ),
    )
