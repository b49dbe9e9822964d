"""Likely causes, from the state of what a step waits for."""

from __future__ import annotations

from typing import Any

import pytest

from headrace.codec import protos as pb
from headrace.serve.observe.barriers import missing, missing_takers, who_is_missing, who_took
from headrace.serve.observe.blocked import values
from headrace.serve.observe.causes import likely_cause


def blocked(
    way: str, wanted: int = 1, waiters: tuple[tuple[str, int], ...] = (), **queue: Any
) -> pb.BlockedStepState:
    """An operation that waits on a queue of int32 with these fields, beside these waiters."""
    fields = {"kind": "FIFOQueue", "name": "q", "container": "localhost", **queue}
    state = pb.BlockedStepState(
        node="n", op="O", kind=way, wanted=wanted, so_far=fields.pop("so_far", 0),
        lookalike=fields.pop("lookalike", ()),
        resource=pb.ResourceState(component=[pb.DT_INT32], **fields),
    )  # fmt: skip
    for other, count in ((way, wanted), *waiters):
        state.resource.waiter.add(kind=other, wanted=count)
    return state


CASES = [
    (blocked("dequeue"), "nobody has ever enqueued anything"),
    (blocked("dequeue", entered=3), "nobody enqueues"),
    (blocked("dequeue", entered=3, waiters=(("enqueue", 1),)), ""),
    (blocked("read"), "the file-name queue 'q' is empty and nobody has ever enqueued anything"),
    (
        blocked("dequeue", lookalike=["FIFOQueue 'r'"]),
        "nobody has ever enqueued anything; was another queue meant? There is FIFOQueue 'r': "
        "see shared_name and container",
    ),
    (
        blocked("dequeue_many", 5, size=4, so_far=1, entered=9, min_after_dequeue=4),
        "min_after_dequeue: 4 elements must stay until the queue is closed, which leaves 0 of the 4; "
        "enqueue more, or close the queue when there is no more",
    ),
    (blocked("dequeue_many", 6, size=4, so_far=1, entered=9, min_after_dequeue=4), "nobody enqueues"),
    (
        blocked("dequeue", size=5, capacity=5, min_after_dequeue=5, waiters=(("enqueue", 1),)),
        "min_after_dequeue (5) elements must stay and no more than capacity (5) fit: nothing can ever be taken out; "
        "make the capacity larger",
    ),
    (
        blocked("enqueue", size=5, capacity=5, min_after_dequeue=6, waiters=(("dequeue", 1),)),
        "min_after_dequeue (6) elements must stay and no more than capacity (5) fit: nothing can ever be taken out; "
        "make the capacity larger",
    ),
    (
        blocked("dequeue_many", 8, kind="PriorityQueue", size=4, capacity=4, waiters=(("enqueue", 1),)),
        "a PriorityQueue gives a batch when all of it is there, and 8 elements do not fit into a capacity of 4; "
        "make the capacity larger",
    ),
    (
        blocked("enqueue", size=5, capacity=5, entered=5),
        "the queue is full and nobody takes anything out",
    ),
    (
        blocked("enqueue_many", 9, size=5, capacity=5, entered=5),
        "the queue is full and nobody takes anything out; 9 elements do not fit into a capacity of 5: dequeue in "
        "another thread or process meanwhile, or make the capacity larger",
    ),
    (blocked("enqueue", size=5, capacity=5, entered=5, waiters=(("dequeue_many", 3),)), ""),
    (blocked("close"), "the enqueues before it still wait for room"),
    (pb.BlockedStepState(node="n", op="O", kind="take"), ""),
]  # fmt: skip


@pytest.mark.parametrize(("state", "cause"), CASES)
def test_the_state_of_a_queue_says_why(state: pb.BlockedStepState, cause: str) -> None:
    assert likely_cause(state, [state], {}) == cause


def receive(**fields: Any) -> pb.BlockedStepState:
    return pb.BlockedStepState(
        session="s", step=7, task="a", node="x/_1", op="_Recv", kind="recv", on="x", source="b", **fields
    )  # fmt: skip


def test_a_recv_says_what_its_source_does() -> None:
    waits = receive()
    there = pb.BlockedStepState(
        session="s", step=7, task="b", node="t", op="Take", kind="take", on="A"
    )
    elsewhere = pb.BlockedStepState(session="s", step=8, task="b", node="t", op="Take", kind="take")
    assert (
        likely_cause(waits, [waits], {"b": "has not answered for 2 s"})
        == "b has not answered for 2 s"
    )
    assert likely_cause(waits, [waits, there], {}) == (
        "the step waits there itself, in Take 't': take on A"
    )
    assert likely_cause(waits, [waits, elsewhere], {}) == (
        "b has not made the value yet, and waits for nothing: it is computing"
    )


def test_a_master_that_waits_for_a_silent_task_says_for_what() -> None:
    waits = pb.BlockedStepState(
        session="s", step=7, task="b", kind="reply", on="x:0, y:0", source="b", waited_s=12.0
    )
    (step,) = values([waits], silent={"b": "has not answered for 3 s"})
    assert str(step) == (
        "a step of session s has waited 12 s: reply of b, which makes x:0, y:0; nothing is known of it. "
        "Likely cause: b has not answered for 3 s"
    )


def test_the_text_of_what_is_no_queue_has_its_state() -> None:
    state = pb.BlockedStepState(
        session="s", step=7, task="/job:ps", node="grads", op="AccumulatorTakeGradient",
        waited_s=75.0, kind="take_grad(3)", on="ConditionalAccumulator 'a'", built_at="train.py:3",
        resource=pb.ResourceState(
            kind="DenseAccumulator", state="it holds 1 gradients, at step 0",
            waiter=[pb.WaiterState(kind="take_grad(3)"), pb.WaiterState(kind="take_grad(3)")],
        ),
    )  # fmt: skip
    (step,) = values([state], {"s": "train.py, pid 3 on here"})
    assert str(step) == (
        "a step of session s (train.py, pid 3 on here) has waited 75 s in AccumulatorTakeGradient 'grads' (built at "
        "train.py:3): take_grad(3) on ConditionalAccumulator 'a' of /job:ps; it holds 1 gradients, at step 0; "
        "1 more waits for it"
    )


def accumulator(*contributors: tuple[str, bool]) -> pb.ResourceState:
    """To which these tasks of /job:worker bring gradients: whether one of each is there."""
    state = pb.ResourceState(kind="DenseAccumulator", name="a")
    for number, (task, there) in enumerate(contributors):
        name = f"/job:worker/replica:0/task:{task}" if task else ""
        state.contributor.add(session=f"s{number}", task=name, there=there, ago_s=number)
    return state


def silent(*tasks: str) -> dict[str, str]:
    return {f"/job:{task[:-2]}/replica:0/task:{task[-1]}": "does not answer" for task in tasks}


BARRIERS: list[tuple[pb.ResourceState, dict[str, str], str, list[str]]] = [
    (accumulator(), {}, "", []),
    (accumulator(("0", True), ("1", True)), {}, "", []),
    (
        accumulator(("0", True), ("1", False)),
        {},
        "there is no gradient of 1 yet; its latest came 1.0 s ago",
        [],
    ),
    (
        accumulator(("0", True), ("1", False)),
        silent("worker:1"),
        "there is no gradient of 1, which does not answer; its latest came 1.0 s ago",
        ["1"],
    ),
    (  # another that answers may come yet
        accumulator(("0", True), ("1", False), ("2", False)),
        silent("worker:1"),
        "there is no gradient of 1, which does not answer; its latest came 1.0 s ago",
        [],
    ),
    (  # it never came to the barrier
        accumulator(("0", True)),
        silent("worker:3", "ps:4"),
        "there is no gradient of 3, which does not answer; it never brought one",
        ["3"],
    ),
    (  # it brought one, and was killed then
        accumulator(("0", False), ("1", True)),
        silent("worker:1"),
        "there is no gradient of 0 yet; its latest came 0.0 s ago",
        [],
    ),
    (  # started again: what its latest session did counts
        accumulator(("0", True), ("1", True), ("0", False)),
        {},
        "",
        [],
    ),
    (
        accumulator(("0", True), ("", False)),
        {},
        "there is no gradient of session s1 yet; its latest came 1.0 s ago",
        [],
    ),
    (
        accumulator(*((str(n), False) for n in range(5))),
        silent(*(f"worker:{n}" for n in range(5))),
        "; ".join(
            f"there is no gradient of {n}, which does not answer; its latest came {n}.0 s ago"
            for n in range(3)
        )
        + "; and 2 more",
        ["0", "1", "2", "3", "4"],
    ),
]


@pytest.mark.parametrize(("state", "mute", "text", "gone"), BARRIERS)
def test_whose_gradients_are_missing_follows_from_who_brought_some_and_who_answers(
    state: pb.ResourceState, mute: dict[str, str], text: str, gone: list[str]
) -> None:
    assert who_is_missing(state, mute).replace("/job:worker/replica:0/task:", "") == text
    assert [task[-1] for task in missing(state, mute)] == gone


def test_nobody_takes_gradients_out_if_no_task_answers_that_did() -> None:
    state = accumulator(("0", True), ("1", True))
    assert not missing_takers(state, silent("worker:0"))  # nobody ever did
    state.taker.add(session="a", task="/job:worker/replica:0/task:0", ago_s=3)
    assert not missing_takers(state, silent("worker:1"))
    assert missing_takers(state, silent("worker:0")) == ("/job:worker/replica:0/task:0",)
    assert who_took(state, silent("worker:0")) == (
        "nobody takes gradients out any more: that was up to /job:worker/replica:0/task:0, which does not answer"
    )
    state.taker.add(session="b", task="/job:worker/replica:0/task:1", ago_s=1)
    assert not who_took(state, silent("worker:0"))
    assert len(missing_takers(state, silent("worker:0", "worker:1"))) == 2
