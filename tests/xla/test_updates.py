"""Updates in compiled groups: what variables become, who else reads them, what happens where a step fails."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
import pytest

import headrace as tf
from headrace.base import errors
from headrace.run.devices.device import Device
from headrace.run.devices.table import of_name
from headrace.run.exec.fused import FusedKernel, compiler
from headrace.run.exec.tuning import AFTER
from headrace.run.exec.updating import UpdatingKernel
from headrace.run.state.on_device import OnDevice, VariableOnDevice
from tests.plan.test_device_variables import OPTIMIZERS
from tests.xla.test_fusion import COMPILED_WITHIN_S, chain, warm

GPU, CPU = "/device:GPU:0", "/device:CPU:0"
ROWS = np.linspace(-1, 1, 6, dtype=np.float32).reshape(2, 3)
KINDS = pytest.mark.parametrize("handles", [False, True], ids=["references", "handles"])


@pytest.fixture(autouse=True)
def gpu(monkeypatch: pytest.MonkeyPatch) -> Iterator[Device]:
    monkeypatch.setenv("HEADRACE_XLA", "on")
    with tf.Graph().as_default():
        yield of_name(GPU)


@pytest.fixture
def programs(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """What has run compiled, in order: "updates" or "computes"."""
    original, ran = FusedKernel.__call__, list[str]()

    def noting(kernel: FusedKernel, values: Sequence[Any]) -> Any:
        found = original(kernel, values)
        if found is not None:
            changes = isinstance(kernel, UpdatingKernel) and kernel._changed
            ran.append("updates" if changes else "computes")
        return found

    monkeypatch.setattr(FusedKernel, "__call__", noting)
    return ran


@pytest.fixture
def taken(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """Arrays that programs were given to write over."""
    original, arrays = OnDevice.take, list[Any]()

    def noting(variable: OnDevice) -> Any:
        arrays.append(original(variable))
        return arrays[-1]

    monkeypatch.setattr(OnDevice, "take", noting)
    return arrays


def moved(gpu: Device) -> tuple[int, int]:
    return gpu.transfers["put"], gpu.transfers["got"]


def settled(session: tf.Session, fetches: Any, fed: dict[Any, Any] | None = None) -> None:
    """Run as often as it takes until all is compiled, one step after the other."""
    for _ in range(AFTER + 5):
        session.run(fetches, fed)
        assert compiler.wait(COMPILED_WITHIN_S)


@KINDS
def test_a_slice_that_is_assigned_is_part_of_the_program(
    gpu: Device, programs: list[str], handles: bool
) -> None:
    with tf.device(GPU):
        weights = tf.Variable(ROWS, use_resource=handles)
        more = weights[1, ::2].assign(tf.tanh(tf.reduce_sum(weights, 0)[:2] * 0.5))
        with tf.control_dependencies([more.op]):
            total = tf.reduce_sum(weights.read_value() * 2.0)
    wanted = ROWS.copy()
    with tf.Session() as session:
        session.run(weights.initializer)
        settled(session, total)
        session.run(weights.initializer)
        programs.clear()
        found = session.run(total)
        assert programs.count("updates") == 1
        wanted[1, ::2] = np.tanh(wanted.sum(0)[:2] * 0.5)
        assert found == pytest.approx(wanted.sum() * 2.0, 1e-5)
        np.testing.assert_allclose(session.run(weights), wanted, 1e-5)


@KINDS
@pytest.mark.parametrize("name", ["descent", "nesterov", "adam", "centered"])
def test_a_step_of_training_is_one_program(
    gpu: Device, programs: list[str], taken: list[Any], name: str, handles: bool
) -> None:
    def weights_after(device: str, how: Callable[[Any, Any], None]) -> Any:
        with tf.Graph().as_default(), tf.device(device):
            weights = tf.Variable(ROWS, use_resource=handles)
            bias = tf.Variable(np.zeros(2, np.float32), use_resource=handles)
            loss = tf.reduce_sum(tf.square(tf.matmul(weights, tf.constant(ROWS.T)) + bias - 1.0))
            train = OPTIMIZERS[name]().minimize(loss)
            with tf.Session() as session:
                session.run(tf.global_variables_initializer())
                settled(session, train)
                how(session, train)
                return session.run([weights, bias])

    def watched(session: Any, train: Any) -> None:
        kept = moved(gpu)
        programs.clear()
        taken.clear()
        for _ in range(3):
            session.run(train)
        assert programs == ["updates"] * 3
        assert moved(gpu) == kept
        assert taken
        if "stand-in" in gpu.description:
            assert all(array.is_deleted() for array in taken)

    def plain(session: Any, train: Any) -> None:
        for _ in range(3):
            session.run(train)

    for found, wanted in zip(weights_after(GPU, watched), weights_after(CPU, plain), strict=True):
        np.testing.assert_allclose(found, wanted, 1e-3, 1e-5)


def test_momentum_is_what_its_formula_gives(programs: list[str]) -> None:
    with tf.device(GPU):
        weights = tf.Variable(ROWS)
        loss = tf.reduce_sum(tf.square(weights - 1.0)) * 0.5
        train = tf.train.MomentumOptimizer(0.1, 0.5).minimize(loss)
    value, speed = ROWS.astype(np.float64), np.zeros_like(ROWS, np.float64)
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        for _ in range(2 * AFTER):
            session.run(train)
            assert compiler.wait(COMPILED_WITHIN_S)
            speed = speed * 0.5 + (value - 1.0)
            value = value - 0.1 * speed
        np.testing.assert_allclose(session.run(weights), value, 1e-5)
    assert "updates" in programs


@KINDS
def test_values_before_and_after_an_update_are_those(programs: list[str], handles: bool) -> None:
    with tf.device(GPU):
        weights = tf.Variable(ROWS, use_resource=handles)
        before = tf.identity(weights.read_value()) * 2.0
        with tf.control_dependencies([before]):
            more = weights.assign_add(tf.square(ROWS) + 1.0)
        with tf.control_dependencies([more]):
            after = weights.read_value() * 3.0
    value = ROWS
    with tf.Session() as session:
        session.run(weights.initializer)
        for _ in range(AFTER + 6):
            found = session.run([before, after, more if not handles else after])
            assert compiler.wait(COMPILED_WITHIN_S)
            wanted = value + np.square(ROWS) + 1.0
            np.testing.assert_allclose(found[0], value * 2.0, 1e-5)
            np.testing.assert_allclose(found[1], wanted * 3.0, 1e-5)
            if not handles:
                np.testing.assert_allclose(found[2], wanted, 1e-5)
            value = wanted
    assert "updates" in programs


def test_what_two_variables_become_is_apart(programs: list[str]) -> None:
    """One array is assigned to both; who updates one of them later must not write over the other's."""
    with tf.device(GPU):
        one, other = tf.Variable(ROWS), tf.Variable(ROWS)
        x = tf.tanh(tf.placeholder_with_default(ROWS, [2, 3]) + 0.0) * 2.0
        both = [tf.assign(one, x).op, tf.assign(other, x).op]
        more = [one.assign_add(tf.square(ROWS) + 1.0).op, tf.square(other) + 0.0]
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        for _ in range(AFTER + 6):
            session.run(both)
            session.run(more)
            assert compiler.wait(COMPILED_WITHIN_S)
            values = session.run([one, other])
            np.testing.assert_allclose(values[1], np.tanh(ROWS) * 2.0, 1e-5)
            np.testing.assert_allclose(values[0], values[1] + np.square(ROWS) + 1.0, 1e-5)
    assert "updates" in programs


def test_two_names_of_one_variable_are_updated_one_after_the_other(programs: list[str]) -> None:
    with tf.device(GPU):
        make = {"shape": [2, 3], "dtype": tf.float32, "container": "", "shared_name": "same"}
        one, other = tf.raw_ops.VariableV2(**make), tf.raw_ops.VariableV2(**make)
        start = tf.assign(one, ROWS)
        first = tf.assign_add(one, tf.square(ROWS) + 1.0)
        with tf.control_dependencies([first]):
            second = tf.assign_add(other, tf.square(ROWS) * 2.0)
    with tf.Session() as session:
        session.run(start)
        for n in range(1, AFTER + 6):
            found = session.run(second)
            assert compiler.wait(COMPILED_WITHIN_S)
            np.testing.assert_allclose(found, ROWS + n * (np.square(ROWS) * 3.0 + 1.0), 1e-4)
    assert "updates" not in programs


@KINDS
def test_variables_without_values_are_named(programs: list[str], handles: bool) -> None:
    with tf.device(GPU):
        weights = tf.Variable(ROWS, use_resource=handles, name="w")
        more = weights.assign_add(tf.square(weights) + 1.0)
    with tf.Session() as session:
        session.run(weights.initializer)
        warm(session, more.op if not handles else more)
        assert "updates" in programs
    with tf.Session() as session:
        for _ in range(AFTER + 3):
            with pytest.raises(errors.FailedPreconditionError, match="uninitialized value w"):
                session.run(more)
            assert compiler.wait(COMPILED_WITHIN_S)


# -- steps that fail ----------------------------------------------------------------------------------------


def failing() -> tuple[Any, Any, Any, Any]:
    """(weights, labels, train, loss): a step that fails for labels that there are none of."""
    with tf.device(GPU):
        weights = tf.Variable(np.full((64, 64), 0.5, np.float32), name="w")
        labels = tf.placeholder(tf.int64, [64])
        losses = tf.nn.sparse_softmax_cross_entropy_with_logits(
            labels=labels, logits=chain(weights, 3)
        )
        loss = tf.reduce_mean(losses)
        train = tf.train.MomentumOptimizer(0.1, 0.9).minimize(loss)
    return weights, labels, train, loss


def test_a_step_that_fails_changes_nothing_and_keeps_no_memory(
    gpu: Device, programs: list[str]
) -> None:
    weights, labels, train, _ = failing()
    good, bad = np.arange(64), np.full(64, 99)
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        settled(session, train, {labels: good})
        programs.clear()
        session.run(train, {labels: good})
        assert programs == ["updates"]
        before, held = session.run(weights), list[Any]()
        for _ in range(200):
            with pytest.raises(errors.InvalidArgumentError, match="label value of 99") as info:
                session.run(train, {labels: bad})
            assert info.value.op.type == "SparseSoftmaxCrossEntropyWithLogits"
            del info
            held.append(gpu.bytes_held())
        np.testing.assert_array_equal(session.run(weights), before)
        assert max(held[100:]) <= max(held[:100])
        programs.clear()
        session.run(train, {labels: good})
        assert programs == ["updates"]
        assert not np.array_equal(session.run(weights), before)


def test_many_steps_hold_what_one_does(gpu: Device, programs: list[str]) -> None:
    _, labels, train, loss = failing()
    fed = {labels: np.arange(64)}
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        settled(session, [loss, train], fed)
        held = []
        for _ in range(1000):
            session.run([loss, train], fed)
            held.append(gpu.bytes_held())
    assert programs.count("updates") > 1000
    assert max(held[500:]) <= max(held[:500])


Failing = Callable[[Callable[..., Any]], Callable[..., Any]]


@pytest.mark.parametrize("when", ["before", "after"])
def test_a_program_that_fails_leaves_the_old_value_or_says_what_is_lost(
    gpu: Device, monkeypatch: pytest.MonkeyPatch, when: str
) -> None:
    """Before it has written anything (there is no memory), and after that, which no device should do."""
    fails = [False]
    original = gpu.updating

    def updating(function: Callable[..., Any]) -> Callable[..., Any]:
        program = original(function)

        def run(replaced: Any, others: Any) -> Any:
            if fails[0] and when == "before":
                raise errors.resource_exhausted("OOM")
            found = program(replaced, others)
            if fails[0]:
                raise errors.internal("the device is gone")
            return found

        return run

    monkeypatch.setattr(gpu, "updating", updating)
    with tf.device(GPU):
        weights = tf.Variable(ROWS, name="w")
        more = weights.assign_add(tf.square(weights) * 0.0 + np.square(ROWS) + 1.0).op
    with tf.Session() as session:
        session.run(weights.initializer)
        settled(session, more)
        before = session.run(weights)
        session.run(more)  # whose array nobody has read
        fails[0] = True
        if when == "before":
            session.run(more)
            np.testing.assert_allclose(
                session.run(weights), before + 2 * np.square(ROWS) + 2.0, 1e-5
            )
            return
        with pytest.raises(errors.AbortedError, match="lost the values of w"):
            session.run(more)
        fails[0] = False
        with pytest.raises(errors.FailedPreconditionError, match="uninitialized value w"):
            session.run(weights)
        session.run(weights.initializer)
        session.run(more)
        np.testing.assert_allclose(session.run(weights), ROWS + np.square(ROWS) + 1.0, 1e-5)


# -- at the same time ---------------------------------------------------------------------------------------


@KINDS
def test_updates_of_many_threads_all_count_while_others_read(
    programs: list[str], handles: bool
) -> None:
    with tf.device(GPU):
        weights = tf.Variable(np.zeros(3, np.float32), use_resource=handles)
        more = weights.assign_add(tf.square(tf.constant([1.0, 2.0, 3.0]) + weights * 0.0)).op
        there = tf.reduce_sum(weights * tf.constant([36.0, 9.0, 4.0]) + 0.0)
    with tf.device(CPU):
        here = tf.identity(weights) * tf.constant([36.0, 9.0, 4.0])
    with tf.Session() as session:
        session.run(weights.initializer)
        settled(session, more)
        settled(session, there)
        session.run(weights.initializer)
        programs.clear()
        ended, failures = threading.Event(), list[BaseException]()

        def noted(work: Callable[[], object]) -> threading.Thread:
            def run() -> None:
                try:
                    work()
                except BaseException as error:
                    failures.append(error)

            return threading.Thread(target=run)

        def change() -> None:
            for _ in range(200):
                session.run(more)

        def look() -> None:
            while not ended.is_set():
                session.run(there)
                assert np.ptp(session.run(here)) == 0.0

        changing, looking = [noted(change) for _ in range(3)], [noted(look) for _ in range(2)]
        for thread in changing + looking:
            thread.start()
        for thread in changing:
            thread.join()
        ended.set()
        for thread in looking:
            thread.join()
        assert not failures
        np.testing.assert_array_equal(session.run(weights), [600, 2400, 5400])
    assert programs.count("updates") == 600


def test_who_reads_a_taken_array_waits_for_the_next(gpu: Device) -> None:
    variable = VariableOnDevice("w", tf.float32, (2, 3), gpu)
    variable.assign(ROWS)
    there = variable.there()
    with variable.lock:  # it has been read, so that a copy of it is taken
        copy = variable.take()
        assert copy is not there
        variable.have(copy)
        first = variable.take()
        assert first is copy
    found: list[Any] = []
    reader = threading.Thread(target=lambda: found.append(variable.fetched()))
    with variable.lock:
        reader.start()
        assert variable.held().shape == (2, 3)
        assert variable.bytes_there() == 24
        variable.have(gpu.put(ROWS * 2.0))
    reader.join()
    np.testing.assert_array_equal(found[0], ROWS * 2.0)
    np.testing.assert_array_equal(gpu.get(there), ROWS)


# -- on the host --------------------------------------------------------------------------------------------


@KINDS
def test_the_hosts_small_variables_are_updated_with_what_is_computed(
    monkeypatch: pytest.MonkeyPatch, programs: list[str], handles: bool
) -> None:
    def weights_after(how: str) -> Any:
        monkeypatch.setenv("HEADRACE_XLA", how)
        with tf.Graph().as_default(), tf.device(CPU):
            weights = tf.Variable(ROWS, use_resource=handles)
            loss = tf.reduce_sum(tf.square(chain(weights, 3)))
            train = tf.train.AdamOptimizer(0.05).minimize(loss)
            with tf.Session() as session:
                session.run(tf.global_variables_initializer())
                settled(session, train)
                return session.run(weights)

    np.testing.assert_allclose(weights_after("on"), weights_after("off"), 1e-4)
    assert "updates" in programs
