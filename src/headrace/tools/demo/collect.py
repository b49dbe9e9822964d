"""What the children of the demo said, put together: live figures, and the record for the report.

Called by: run, in one thread.  Does no I/O.
"""

from __future__ import annotations

import base64
from collections import deque
from dataclasses import dataclass, field
from datetime import datetime

from headrace.codec import protos as pb
from headrace.tools.demo.evaluate import Evaluation
from headrace.tools.demo.messages import Message
from headrace.tools.report.record import (
    Client,
    DepthPoint,
    Queue,
    Record,
    Results,
    StepPoint,
    Task,
    TracedStep,
    Trainer,
    Variable,
)
from headrace.training.timeline import read_step

SMOOTHING = 0.95
RATE_OVER_S = 2.0


@dataclass
class Live:
    """One trainer as the progress display shows it."""

    examples: int = 0
    steps: int = 0
    global_step: int = 0
    loss: float | None = None
    history: list[float] = field(default_factory=list)
    recent: deque[tuple[float, int]] = field(default_factory=deque)

    def add(self, time: float, loss: float, count: int, global_step: int) -> None:
        """Take in one step that ended at `time`, seconds since the epoch."""
        self.examples += count
        self.steps += 1
        self.global_step = global_step
        self.loss = loss if self.loss is None else SMOOTHING * self.loss + (1 - SMOOTHING) * loss
        self.history.append(self.loss)
        self.recent.append((time, count))
        while time - self.recent[0][0] > RATE_OVER_S:
            self.recent.popleft()

    @property
    def examples_per_s(self) -> float:
        """Over the last two seconds; 0 before there are two steps."""
        if len(self.recent) < 2:
            return 0.0
        seconds = self.recent[-1][0] - self.recent[0][0]
        return sum(count for _, count in list(self.recent)[1:]) / seconds if seconds else 0.0


class Collector:
    """Takes messages as they come; `record` when the run is over."""

    def __init__(self, trainers: list[str]) -> None:
        self.live = {name: Live() for name in trainers}
        self.steps: dict[str, list[Message]] = {name: [] for name in trainers}
        self.depth: list[tuple[float, int]] = []
        self.variables: list[Variable] = []
        self.records: list[int] = []
        self.loaded_at: float | None = None
        self.traces: list[Message] = []

    def take(self, name: str, message: Message) -> None:
        """A message of the program `name`; kinds that nobody asked for are ignored."""
        match message["event"]:
            case "step":
                self.steps[name].append(message)
                self.live[name].add(
                    message["time"], message["loss"], message["count"], message["global_step"]
                )
            case "trace":
                self.traces.append({**message, "trainer": name})
            case "variables":
                self.variables = [_variable(each) for each in message["variables"]]
            case "loading":
                self.records = message["records"]
            case "loaded":
                self.records = message["records"]
                self.loaded_at = message["time"]

    def take_depth(self, time: float, depth: int) -> None:
        """The queue had `depth` elements at `time`, seconds since the epoch."""
        self.depth.append((time, depth))

    @property
    def examples(self) -> int:
        """Trained on so far, by all trainers."""
        return sum(live.examples for live in self.live.values())

    def origin(self) -> float:
        """When something first happened, seconds since the epoch."""
        first = [messages[0]["time"] for messages in self.steps.values() if messages]
        filled = [index for index, (_, depth) in enumerate(self.depth) if depth]
        if filled:
            first.append(self.depth[max(filled[0] - 1, 0)][0])
        return min(first, default=0.0)

    def record(
        self,
        *,
        started: datetime,
        wall_s: float,
        tasks: list[Task],
        clients: list[Client],
        queue: Queue,
        epochs: int,
        train_rows: int,
        evaluation: Evaluation,
        parameters: dict[str, str],
        earlier: dict[str, list[tuple[int, float]]],
    ) -> Record:
        """Everything that was collected, on one clock, with what the caller knows."""
        origin = self.origin()
        return Record(
            started=started,
            wall_s=wall_s,
            tasks=tasks,
            clients=clients,
            variables=self.variables,
            queue=queue,
            trainers=[
                Trainer(
                    name,
                    [
                        StepPoint(m["time"] - origin, m["global_step"], m["loss"], m["count"])
                        for m in messages
                    ],
                    earlier.get(name, []),
                )
                for name, messages in self.steps.items()
            ],
            depth=[DepthPoint(t - origin, depth) for t, depth in self.depth if t >= origin],
            loaded_s=None if self.loaded_at is None else self.loaded_at - origin,
            records=self.records,
            epochs=epochs,
            train_rows=train_rows,
            results=Results(evaluation.pixels, evaluation.labels, evaluation.predictions),
            traced=[
                TracedStep(global_step, name, read_step(metadata.step_stats))
                for name, (global_step, metadata) in self.traced().items()
            ],
            parameters=parameters,
        )

    def traced(self) -> dict[str, tuple[int, pb.RunMetadata]]:
        """By trainer, in name order, the last traced step: its global step and its metadata.

        The first one that a trainer traced paid for what tracing sets up.
        """
        last = {trace["trainer"]: trace for trace in self.traces}
        return {
            name: (
                last[name]["global_step"],
                pb.RunMetadata.FromString(base64.b64decode(last[name]["metadata"])),
            )
            for name in sorted(last)
        }


def _variable(fields: Message) -> Variable:
    return Variable(
        name=fields["name"],
        dtype=fields["dtype"],
        shape=tuple(fields["shape"]),
        num_bytes=fields["bytes"],
        device=fields["device"],
        trainable=fields["trainable"],
    )
