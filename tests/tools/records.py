"""The record of a run that never was, for tests of what is made of records."""

from __future__ import annotations

from datetime import datetime, timedelta, timezone

import numpy as np

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
from headrace.training.timeline import DeviceRow, Span, Transfer

PS = "/job:ps/replica:0/task:0/device:CPU:0"
WORKER = "/job:worker/replica:0/task:0/device:CPU:0"


def span(device: str, name: str, op: str, start: int, duration: int, **more: object) -> Span:
    inputs = more.pop("inputs", ())
    return Span(
        device,
        name,
        op,
        inputs,  # type: ignore[arg-type]
        start,
        duration,
        start * 1000,
        duration * 1000,
        start + duration,
        "",
        **more,  # type: ignore[arg-type]
    )


def traced_rows() -> list[DeviceRow]:
    moved = Transfer("w/read", "w/read/_2", PS, WORKER, 2048)
    return [
        DeviceRow(
            WORKER,
            [
                span(WORKER, "_SOURCE", "NoOp", 1_000, 1),
                span(WORKER, "RecvTensor", "RecvTensor", 1_010, 90, transfer=moved),
                span(WORKER, "layer/MatMul", "MatMul", 1_100, 400, inputs=("x", "w/read_S3")),
            ],
            1,
        ),
        DeviceRow(PS, [span(PS, "w/read", "Identity", 1_005, 10, inputs=("w",))], 1),
    ]


def record(name: str = "hidden/weights") -> Record:
    points = [StepPoint(0.02 * i, i, 2.0 / (1 + i), 50) for i in range(100)]
    return Record(
        started=datetime(2026, 3, 1, 9, 5, tzinfo=timezone(timedelta(hours=1))),
        wall_s=12.4,
        tasks=[
            Task("/job:ps/task:0", "127.0.0.1:4001", 11),
            Task("/job:worker/task:0", "127.0.0.1:4002", 12),
            Task("/job:worker/task:1", "127.0.0.1:4003", 13),
        ],
        clients=[
            Client("loader", 21, "/job:ps/task:0", "reads"),
            Client("trainer 0", 22, "/job:worker/task:0", "trains"),
            Client("trainer 1", 23, "/job:worker/task:1", "trains"),
        ],
        variables=[
            Variable(name, "float32", (64, 8), 2048, "/job:ps/task:0", True),
            Variable("hidden/weights/Adam", "float32", (64, 8), 2048, "/job:ps/task:0", False),
            Variable("global_step", "int64", (), 8, "/job:ps/task:0", False),
        ],
        queue=Queue(
            "examples", "RandomShuffleQueue", "/job:ps/task:0", 2000, 500, ("float32 [64]",)
        ),
        trainers=[Trainer("worker 0", points), Trainer("worker 1", points[:60])],
        depth=[DepthPoint(0.1 * i, min(100 * i, 2000)) for i in range(20)],
        loaded_s=1.5,
        records=[900, 900, 900, 900, 900],
        epochs=3,
        train_rows=1500,
        results=Results(
            np.tile(np.arange(64, dtype=np.float32) % 17, (4, 1)),
            np.array([0, 1, 2, 8], np.int32),
            np.array([0, 1, 2, 3]),
        ),
        traced=[TracedStep(61, "worker 0", traced_rows())],
        parameters={"Network": "64-8-10, ReLU", "Batch": "50"},
    )
