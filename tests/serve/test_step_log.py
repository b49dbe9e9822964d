"""The log of recent steps: how long it records, and how much it keeps."""

from __future__ import annotations

from headrace.codec import protos as pb
from headrace.serve.observe.step_log import MOST_STEPS, StepLog


def of(device: str) -> pb.StepStats:
    return pb.StepStats(dev_stats=[pb.DeviceStepStats(device=device)])


def test_recording_for_a_while_ends_by_itself() -> None:
    now = [100.0]
    log = StepLog(lambda: now[0])
    assert log.off
    assert not log.recording
    log.enable_for(5.0)
    assert not log.off
    assert log.recording
    now[0] = 105.0
    assert not log.recording
    log.enable_for(5.0)
    log.disable()
    assert log.off
    assert not log.recording
    log.enable()
    assert not log.off
    assert log.recording


def test_the_oldest_steps_are_forgotten() -> None:
    log = StepLog()
    for step in range(MOST_STEPS + 3):
        log.add(step, of("cpu"))
    assert [step.step_id for step in log.take([])] == list(range(3, MOST_STEPS + 3))
    assert log.take([]) == []


def test_partitions_of_one_step_are_told_together() -> None:
    log = StepLog()
    log.add(1, of("cpu:0"))
    log.add(1, of("cpu:1"))
    (step,) = log.take([1, 2])
    assert [device.device for device in step.step_stats.dev_stats] == ["cpu:0", "cpu:1"]


def test_partitions_on_one_device_are_told_as_one() -> None:
    log = StepLog()
    for name in ("before", "after"):
        node = pb.NodeExecStats(node_name=name)
        device = pb.DeviceStepStats(device="cpu:0", node_stats=[node])
        log.add(1, pb.StepStats(dev_stats=[device]))
    ((device,),) = (step.step_stats.dev_stats for step in log.take([1]))
    assert [node.node_name for node in device.node_stats] == ["before", "after"]
