"""Where nodes go: device strings, groups, references, defaults, and what cannot be placed."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

import headrace as tf
from headrace.plan.place import fed_where_used, in_order, place
from headrace.plan.prune import needed

PS0, PS1 = "/job:ps/replica:0/task:0", "/job:ps/replica:0/task:1"
W0, W1 = "/job:worker/replica:0/task:0", "/job:worker/replica:0/task:1"
CPUS = [f"{task}/device:CPU:0" for task in (PS0, PS1, W0, W1)]
LOCAL = [f"/job:localhost/replica:0/task:0/device:CPU:{index}" for index in range(3)]
WITH_GPUS = [*CPUS, f"{W0}/device:GPU:0", f"{W1}/device:GPU:0", f"{W1}/device:GPU:1"]


@pytest.fixture(autouse=True)
def graph() -> Iterator[tf.Graph]:
    with tf.Graph().as_default() as graph:
        yield graph


def placed(devices: list[str], **options: object) -> dict[str, str]:
    """Device by name of every node of the default graph."""
    ops = tf.get_default_graph().get_operations()
    found = place(ops, devices, **options)  # type: ignore[arg-type]
    return {op.name: device for op, device in found.items()}


STRINGS = [
    # what the node says, the devices there are, where it goes
    ("", CPUS, CPUS[0]),
    ("/job:worker", CPUS, CPUS[2]),
    ("/job:ps/task:1", CPUS, CPUS[1]),
    ("/task:1", CPUS, CPUS[1]),
    ("/replica:0/task:1/cpu:0", CPUS, CPUS[1]),
    ("/job:ps/task:0/cpu:0", CPUS, CPUS[0]),
    ("/job:worker/replica:0/task:1/device:CPU:0", CPUS, CPUS[3]),
    ("/cpu:0", CPUS, CPUS[0]),
    ("/cpu:*", CPUS, CPUS[0]),
    ("/device:cpu:0", CPUS, CPUS[0]),
    ("/cpu:2", LOCAL, LOCAL[2]),
    ("/device:CPU:1", LOCAL, LOCAL[1]),
    ("/gpu:0", WITH_GPUS, f"{W0}/device:GPU:0"),
    ("/device:GPU:1", WITH_GPUS, f"{W1}/device:GPU:1"),
    ("/job:worker/task:1", WITH_GPUS, f"{W1}/device:GPU:0"),
    ("/job:worker/task:1/cpu:0", WITH_GPUS, CPUS[3]),
    ("", WITH_GPUS, CPUS[0]),  # the first task has no GPU
]


@pytest.mark.parametrize(("device", "devices", "expected"), STRINGS)
def test_what_a_string_leaves_open_is_the_first_task_and_its_best_device(
    device: str, devices: list[str], expected: str
) -> None:
    with tf.device(device):
        tf.no_op(name="n")
    assert placed(devices) == {"n": expected}
    assert placed(devices[::-1]) == {"n": expected}


def test_a_device_functions_own_spelling_is_understood() -> None:
    with tf.device(lambda op: "/job:worker/gpu:0"):
        assert tf.no_op(name="n").device == "/job:worker/gpu:0"
    assert placed(WITH_GPUS) == {"n": f"{W0}/device:GPU:0"}


def test_the_sessions_own_task_may_come_first() -> None:
    tf.no_op(name="free")
    with tf.device("/job:worker"):
        tf.no_op(name="worker")
    with tf.device("/job:ps"):
        tf.no_op(name="ps")
    assert placed(CPUS, own_task=W1) == {"free": CPUS[3], "worker": CPUS[3], "ps": CPUS[0]}
    assert in_order(CPUS, W1) == [CPUS[3], CPUS[0], CPUS[1], CPUS[2]]


SOFT = [
    ("/gpu:0", CPUS, CPUS[0]),
    ("/job:worker/task:1/gpu:3", CPUS, CPUS[3]),
    ("/job:worker/task:1/gpu:3", WITH_GPUS, f"{W1}/device:GPU:0"),
    ("/cpu:7", LOCAL, LOCAL[0]),
]


@pytest.mark.parametrize(("device", "devices", "expected"), SOFT)
def test_soft_placement_gives_up_the_type_but_never_the_task(
    device: str, devices: list[str], expected: str
) -> None:
    with tf.device(device):
        tf.no_op(name="n")
    with pytest.raises(tf.errors.InvalidArgumentError):
        placed(devices)
    assert placed(devices, allow_soft_placement=True) == {"n": expected}


def test_a_task_that_is_not_there_is_an_error_that_lists_what_is() -> None:
    with tf.device("/job:nowhere/gpu:0"):
        tf.no_op(name="n")
    for soft in (False, True):
        with pytest.raises(tf.errors.InvalidArgumentError) as caught:
            placed(CPUS, allow_soft_placement=soft)
        text = str(caught.value)
        assert caught.value.node == "n"
        assert "/job:nowhere/device:GPU:0" in text
        assert all(device in text for device in CPUS)


def test_a_device_that_is_no_device_is_an_error_that_names_the_node() -> None:
    with tf.device(lambda op: "/nonsense"):
        tf.no_op(name="n")
    with pytest.raises(tf.errors.InvalidArgumentError, match=r"'n'.*/nonsense"):
        placed(CPUS)


def test_a_variable_and_what_refers_to_it_stay_together() -> None:
    with tf.device("/job:ps/task:1"):
        v = tf.Variable(tf.zeros([2]), name="v")
    with tf.device("/job:worker"):
        tf.assign_add(v, [1.0, 1.0], name="up")
        tf.add(v, 1.0, name="plus")
    found = placed(CPUS)
    assert {found[name] for name in ("v", "v/Assign", "v/read", "up")} == {CPUS[1]}
    assert found["plus"] == CPUS[2]


def test_a_queue_and_its_operations_stay_together() -> None:
    with tf.device("/job:worker/task:1"):
        q = tf.FIFOQueue(3, [tf.float32], name="q")
    q.enqueue(1.0, name="put")
    q.dequeue(name="get")
    found = placed(CPUS)
    assert {found[name] for name in ("q", "put", "get")} == {CPUS[3]}


def test_colocation_groups_have_one_device_wherever_it_is_named() -> None:
    a = tf.constant(1.0, name="a")
    with tf.colocate_with(a):
        b = tf.constant(2.0, name="b")
    with tf.colocate_with(b), tf.device("/job:worker/task:1"):
        tf.constant(3.0, name="c")
    assert set(placed(CPUS).values()) == {CPUS[3]}


def test_a_group_that_asks_for_two_devices_is_an_error_that_names_both() -> None:
    with tf.device("/job:ps"):
        a = tf.constant(1.0, name="a")
    with tf.device("/job:worker"):
        b = tf.constant(2.0, name="b")
    b.op._set_attr("_class", tf.AttrValue(list=tf.AttrValue.ListValue(s=[b"loc:@a"])))
    assert a.op.device != b.op.device
    with pytest.raises(tf.errors.InvalidArgumentError, match=r"'a'.*'b'"):
        placed(CPUS)


def test_a_source_goes_with_its_consumers_and_metadata_with_its_producer() -> None:
    with tf.device("/job:worker/task:1"):
        x = tf.add(tf.placeholder(tf.float32, [None], name="x"), 1.0, name="y")
    tf.shape(x, name="shape")
    one = tf.constant(1.0, name="one")
    with tf.device("/job:worker/task:0"):
        tf.identity(one, name="user")
    two = tf.constant(1.0, name="two")
    with tf.device("/job:worker/task:0"):
        tf.identity(two, name="first")
        tf.identity(two, name="second")
    many = tf.constant(1.0, name="many")
    for task in range(2):
        with tf.device(f"/job:worker/task:{task}"):
            tf.identity(many, name=f"user_{task}")
    found = placed(CPUS)
    assert found["shape"] == CPUS[3]
    assert found["one"] == CPUS[2]
    assert found["two"] == CPUS[2]
    assert found["many"] == CPUS[0]  # consumers in two places: it goes where anything goes


def where_fed(fetches: list[tf.Tensor], *fed: tf.Tensor) -> list[str]:
    """The devices of what is fed."""
    ops = tf.get_default_graph().get_operations()
    devices = fed_where_used(needed(fed, fetches, []), fed, place(ops, CPUS))
    return [devices[tensor.op] for tensor in fed]


def test_what_is_fed_is_where_it_is_used() -> None:
    with tf.device("/job:ps/task:1"):
        x, y = tf.placeholder(tf.float32, name="x"), tf.placeholder(tf.float32, name="y")
    with tf.device("/job:worker/task:0"):
        user = x * 2.0
    assert where_fed([user], x) == [CPUS[2]]
    assert where_fed([user], x, y) == [CPUS[2], CPUS[1]]  # nobody uses y
    with tf.device("/job:worker/task:1"):
        other = x * 3.0
    assert where_fed([other], x) == [CPUS[3]]
    assert where_fed([user, other], x) == [CPUS[1]]  # on two tasks: it stays where it was put


def test_a_handle_that_is_fed_stays_where_it_means_something() -> None:
    with tf.device("/job:ps/task:1"):
        variable = tf.get_variable("v", [], use_resource=True)
    handle = variable.handle
    with tf.device("/job:worker/task:0"):
        read = tf.identity(handle)
    assert where_fed([read], handle) == [CPUS[1]]


def test_of_a_node_that_runs_all_outputs_stay() -> None:
    with tf.device("/job:ps/task:1"):
        one, two = tf.split(tf.constant([1.0, 2.0]), 2)
    with tf.device("/job:worker/task:0"):
        user = one + two
    assert where_fed([user], one) == [CPUS[1]]
