"""What there is to say about a training run, as data; nothing in here draws.

Times are seconds since the run's origin: the moment the first example was queued or trained on.

Called by: demo.collect (builds), the other modules of this package (read).
"""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime

import numpy as np
import numpy.typing as npt

from headrace.training.timeline import DeviceRow


@dataclass(frozen=True)
class Task:
    """A server of the cluster: `/job:worker/task:1`, its HOST:PORT and its process."""

    name: str
    address: str
    pid: int


@dataclass(frozen=True)
class Client:
    """A program with a session: its name, process and the task its session is on."""

    name: str
    pid: int
    task: str
    doing: str


@dataclass(frozen=True)
class Variable:
    """A variable and where it was placed; slots and counters are not trainable."""

    name: str
    dtype: str
    shape: tuple[int, ...]
    num_bytes: int
    device: str
    trainable: bool


@dataclass(frozen=True)
class Queue:
    """A queue; `components` are the types and shapes of an element."""

    name: str
    kind: str
    device: str
    capacity: int
    min_after_dequeue: int
    components: tuple[str, ...]


@dataclass(frozen=True)
class StepPoint:
    """One training step of one trainer: its loss, and the examples it took."""

    time_s: float
    global_step: int
    loss: float
    count: int


@dataclass
class Trainer:
    """The steps of one trainer, in order; `earlier`: (global step, loss) of runs that this one resumed."""

    name: str
    points: list[StepPoint] = field(default_factory=list)
    earlier: list[tuple[int, float]] = field(default_factory=list)

    @property
    def examples(self) -> int:
        """Taken from the queue in all steps."""
        return sum(point.count for point in self.points)


@dataclass(frozen=True)
class DepthPoint:
    """How many elements were in the queue at a moment."""

    time_s: float
    depth: int


@dataclass(frozen=True)
class Results:
    """The test set: pixels [n, 64] in 0..16, labels [n], predictions [n]."""

    pixels: npt.NDArray[np.float32]
    labels: npt.NDArray[np.int32]
    predictions: npt.NDArray[np.int64]

    @property
    def right(self) -> int:
        """How many were classified as what they are."""
        return int(np.sum(self.labels == self.predictions))

    @property
    def accuracy(self) -> float:
        """The fraction that is right, 0 to 1."""
        return self.right / max(len(self.labels), 1)


@dataclass(frozen=True)
class TracedStep:
    """The devices of one traced step, and the global step it was."""

    global_step: int
    trainer: str
    rows: list[DeviceRow]


@dataclass
class Record:
    """One run.

    `loaded_s` is when the loader closed the queue; `records` are each reader's; `traced` has at
    most one step of each trainer.
    """

    started: datetime
    wall_s: float
    tasks: list[Task]
    clients: list[Client]
    variables: list[Variable]
    queue: Queue
    trainers: list[Trainer]
    depth: list[DepthPoint]
    loaded_s: float | None
    records: list[int]
    epochs: int
    train_rows: int
    results: Results
    traced: list[TracedStep]
    parameters: dict[str, str]

    @property
    def examples(self) -> int:
        """Trained on, epochs counted one by one."""
        return sum(trainer.examples for trainer in self.trainers)

    @property
    def steps(self) -> int:
        """Of all trainers together."""
        return sum(len(trainer.points) for trainer in self.trainers)

    @property
    def training_s(self) -> float:
        """From the first step's end to the last's."""
        times = [point.time_s for trainer in self.trainers for point in trainer.points]
        return max(times) - min(times) if times else 0.0

    @property
    def examples_per_s(self) -> float:
        """Of all trainers together, over the time from the first step to the last."""
        return self.examples / self.training_s if self.training_s else 0.0
