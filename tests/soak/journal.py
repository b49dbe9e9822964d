"""What the clients of the chaos say of their steps, and what must be true of it.

Threads: a reader per client adds lines; one lock.
"""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

import numpy as np

UNKNOWN = "unknown"  # how a step ended whose client was killed
COUNTED = ("train", "count")  # kinds of steps that the ps counts


@dataclass(slots=True)
class Step:
    """A step that a client began.  error: a class name, UNKNOWN, or "" if it was done."""

    client: int
    kind: str
    number: int
    at: float
    limit: float
    error: str = UNKNOWN
    message: str = ""
    value: int | None = None
    ended: float | None = None

    @property
    def done(self) -> bool:
        return self.error == ""


@dataclass
class Journal:
    """The steps of all clients, by number."""

    steps: dict[int, Step] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)
    _changed: threading.Condition = field(default_factory=threading.Condition)

    def add(self, line: dict[str, object]) -> None:
        """A line of a client."""
        with self._changed:
            number: int = line["number"]  # type: ignore[assignment]
            if "at" in line:
                self.steps[number] = Step(**line)  # type: ignore[arg-type]
            else:
                step = self.steps[number]
                step.ended = line["ended"]  # type: ignore[assignment]
                step.error = str(line.get("error", ""))
                step.message = str(line.get("message", ""))
                step.value = line.get("value")  # type: ignore[assignment]
            self._changed.notify_all()

    def note(self, text: str) -> None:
        """A line that is none of a client's own, such as of a log."""
        with self._changed:
            self.notes.append(text.rstrip())

    def wait_until(self, true: Callable[[list[Step]], bool], within_s: float, what: str) -> None:
        """Block until true(steps).  Raises AssertionError."""
        with self._changed:
            came = self._changed.wait_for(lambda: true(list(self.steps.values())), within_s)
        assert came, f"{what}: not within {within_s:.0f} s; {self.story()}"

    def story(self) -> str:
        """The last steps of each client, and the last notes."""
        last: dict[int, list[str]] = {}
        for step in self.steps.values():
            how = f"{step.kind} {step.number}: {step.error or 'done'} {step.message[:300]}"
            last[step.client] = [*last.get(step.client, []), how][-3:]
        lines = [f"client {client}: {'; '.join(said)}" for client, said in last.items()]
        return "\n".join(["the last steps were", *lines, *self.notes[-10:]])


def check_errors(steps: Iterable[Step], names: Iterable[str], state_was_lost: bool) -> None:
    """Steps fail for a reason that is to be expected, and say which task it was."""
    known = list(names)
    for step in steps:
        if step.done or step.error == UNKNOWN:
            continue
        told = f"{step.kind} {step.number} failed with {step.error}: {step.message}"
        if step.error in ("UnavailableError", "AbortedError"):
            assert any(name in step.message for name in known), f"names no task: {told}"
        elif step.error == "DeadlineExceededError":
            assert step.kind not in COUNTED, f"it hung: {told}"
        else:
            assert step.error == "FailedPreconditionError", told
            assert state_was_lost, told
            assert "uninitialized" in step.message, told


def check_training(
    steps: Iterable[Step], counts: np.ndarray, global_step: int, since: float
) -> None:
    """No step was applied twice, and none that was confirmed is missing.

    since: when the variables were initialized last; what began earlier need not be there any more.
    """
    tried = {step.number: step for step in steps if step.kind in COUNTED}
    (applied,) = np.nonzero(counts)
    for number in applied.tolist():
        assert number in tried, f"step {number} was applied, and nobody had begun it"
        assert counts[number] == 1, f"step {number} was applied {counts[number]} times"
    sure = {number for number, step in tried.items() if step.done and step.at > since}
    lost = sure - set(applied.tolist())
    assert not lost, f"steps {sorted(lost)} were confirmed, and are not there"
    trained = {number for number, step in tried.items() if step.kind == "train"}
    assert len(sure & trained) <= global_step <= len(trained), (
        f"global_step is {global_step}; {len(sure & trained)} steps were confirmed, {len(trained)} begun"
    )


def check_queue(steps: Iterable[Step], rest: list[int], since: float) -> None:
    """No number came out twice, and none is missing but those that a take may have lost with its reply."""
    every = list(steps)
    put = {step.number: step for step in every if step.kind == "put"}
    takes = [step for step in every if step.kind == "take"]
    out = [step.value for step in takes if step.value is not None] + rest
    twice = [number for number, count in Counter(out).items() if count > 1]
    assert not twice, f"numbers {twice} came out of the queue twice"
    assert set(out) <= set(put), (
        f"numbers {set(out) - set(put)} came out, and nobody had put them in"
    )
    sure = {number for number, step in put.items() if step.done and step.at > since}
    missing = sure - set(out)
    unsure = sum(not step.done for step in takes)
    assert len(missing) <= unsure, f"numbers {sorted(missing)} were put in and never came out"
