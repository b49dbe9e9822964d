"""Write docs/interop.md: what works with TensorFlow at the other end, as the tables of the matrix say.

Run after changing a case: ``.venv/bin/python -m tests.interop.document``.  A test compares the page with the tables.
"""

from __future__ import annotations

import textwrap
from pathlib import Path

from tests.interop.matrix import CASES, TOPOLOGIES
from tests.interop.scripts import rewritten, unknown
from tests.interop.scripts.table import AREAS, Unless

PAGE = Path(__file__).resolve().parents[2] / "docs" / "interop.md"
HEAD = """\
# With TensorFlow at the other end

A headrace client, master or task may have TensorFlow 2.21 (`tensorflow.compat.v1`) as its peer, over TensorFlow's own
gRPC services. Every number below counts cases of the interop matrix (`tests/interop/`): programs that run unchanged
under both imports and must give the same values, or errors of the same class, whoever is client, master and ps.
`make oracle` runs all of them in every column, on processes of both kinds, and all must pass; CI runs it. A case that a
column is not asked is in a footnote. `python -m tests.interop.document` writes this page from the tables of the tests.
"""


def columns() -> list[tuple[str, dict[str, str]]]:
    """Heading and roles of each column: every combination with both kinds in it."""
    return [
        (f"{short(roles['client'])} → {short(roles['master'])} → {short(roles['ps'])}", roles)
        for roles in TOPOLOGIES.values()
        if len(set(roles.values())) > 1
    ]


def short(kind: str) -> str:
    return {"headrace": "hr", "tensorflow": "TF"}[kind]


def matrix() -> str:
    """The table of areas and columns, with its footnotes."""
    notes: list[str] = []
    lines = [
        f"| area | {' | '.join(heading for heading, _ in columns())} |",
        f"|---|{'---|' * len(columns())}",
    ]
    for area, about in AREAS.items():
        cells = []
        for _, roles in columns():
            cases = CASES[area]
            asked = [name for name, case in cases.items() if case.is_asked(roles)]
            marks = ""
            for name, case in cases.items():
                if case.unless is not None and name not in asked:
                    note = f"{sentence(name)}: not asked of {named(case.unless)}; {case.unless.because}."
                    if note not in notes:
                        notes.append(note)
                    marks += f" [{notes.index(note) + 1}]"
            total = f"{len(asked)} of {len(cases)}" if len(asked) < len(cases) else str(len(cases))
            cells.append(total + marks)
        lines.append(f"| {about} | {' | '.join(cells)} |")
    numbered = [wrapped(f"{number}. {note}") for number, note in enumerate(notes, start=1)]
    return "\n".join([*lines, "", *numbered]) + "\n"


def named(unless: Unless) -> str:
    """As in "a TensorFlow ps"."""
    return f"a {unless.kind.replace('tensorflow', 'TensorFlow')} {unless.role}"


def sentence(name: str) -> str:
    return name.replace("_", " ")


def wrapped(text: str, indent: str = "   ") -> str:
    return textwrap.fill(
        text, 118, subsequent_indent=indent, break_long_words=False, break_on_hyphens=False
    )


def listed(head: str, names: list[str]) -> str:
    return wrapped(head + "; ".join(map(sentence, names)) + ".", "")


def page() -> str:
    """The text of docs/interop.md."""
    ops = sorted({op for made in rewritten.OPS.values() for op in made if op.startswith("_")})
    parts = [
        HEAD,
        "Columns: client → master (the task whose session it is) → ps; hr is headrace, TF is TensorFlow.\n",
        matrix(),
        "## Workers of both kinds\n",
        wrapped(
            "A TensorFlow worker and a headrace worker, each with its own client and master, train one perceptron on "
            "one ps of either kind, asynchronously, to the accuracy that TensorFlow's workers reach alone "
            "(`tests/interop/test_training_together.py`).",
            "",
        )
        + "\n",
        "## What TensorFlow's graph optimizer sends\n",
        wrapped(
            "A TensorFlow master rewrites partitions before it sends them. A headrace task runs them to the values "
            "that TensorFlow computes by itself (`tests/interop/test_rewritten.py`): "
            f"{'; '.join(map(sentence, rewritten.OPS))}. Of the ops that only optimizers make, these come up: "
            f"{', '.join(f'`{op}`' for op in ops)}.",
            "",
        )
        + "\n",
        "## What a step that fails gives up\n",
        wrapped(
            "What it waits for on other tasks has been withdrawn over the lane when its error is raised. Over gRPC, "
            "where nobody can tell when a call that was cancelled has ended, it is told and not waited for: a dequeue "
            "that was given up may take an element that is put at that very moment, which is lost. So it is in "
            "TensorFlow: its master and ps lost 2 of 30, each put right after a product had failed beside a dequeue.",
            "",
        )
        + "\n",
        wrapped(
            "A TensorFlow master may miss a Ctrl-C: one that comes before it has sent all parts of a step. The client "
            "hears it at once all the same, but the step goes on there, and what waits in a queue takes the next "
            "element. On one processor beside three other programs that was 9 of 41 steps that were interrupted as "
            "soon as they waited, none of 60 half a second later, and none of 160 on a headrace master.",
            "",
        )
        + "\n",
        "## What is not known\n",
        wrapped(
            "An op that headrace does not have is an error that names the op and the node, at whichever task the graph "
            "arrives (`tests/interop/test_unknown.py`), and the cluster goes on: "
            f"{', '.join(f'{sentence(name)} (`{op}`)' for name, op in unknown.OPS.items())}.",
            "",
        )
        + "\n",
        "## The cases\n",
    ]
    for area, about in AREAS.items():
        parts.append(listed(f"**{about[0].upper()}{about[1:]}**: ", list(CASES[area])) + "\n")
    return "\n".join(parts)


if __name__ == "__main__":
    PAGE.write_text(page())
