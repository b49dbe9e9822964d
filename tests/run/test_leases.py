"""Leases against a model: whatever is done to the variables, in any order, what was leased stays as it was.

Updates are the kernels of the ops.  Nobody reads: the array is changed in place, the same before and after.
"""

from __future__ import annotations

import gc
import threading
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

import headrace.ops  # noqa: F401  registers every op
from headrace.base import dtypes, errors
from headrace.graph.registry import OPS, OpSpec
from headrace.run.exec.rendezvous import Rendezvous
from headrace.run.state.resources import ResourceManager
from headrace.run.state.variable import Lease, ResourceVariable, State, Variable

SHAPE = (40, 30)  # large enough to be lent
NUMBERS = st.integers(1, 9).map(np.float32)
VARIABLES = st.integers(0, 1)


def variable(kind: type[State], value: Any, name: str = "v") -> Any:
    array = np.asarray(value)
    made = kind(name, dtypes.from_numpy(array.dtype), array.shape)
    made.assign(array)
    return made


def run(name: str, *inputs: Any, **attrs: Any) -> Any:
    kernel = OPS[name].kernel
    assert kernel is not None
    return kernel(np, *inputs, **attrs)


# -- the model --------------------------------------------------------------------------------


class Leases(RuleBasedStateMachine):
    """Two variables, and every lease and value read of them with what it must hold."""

    kind: type[State] = Variable
    in_place = True  # what nobody reads is changed so

    def made(self, value: Any) -> Any:
        return variable(self.kind, value)

    def __init__(self) -> None:
        super().__init__()
        self.values: list[Any] = []
        self.variables: list[Any] = []
        self.leases: list[tuple[int, Lease, Any]] = []
        self.reads: list[tuple[int, Any, Any]] = []

    @initialize(number=NUMBERS)
    def begin(self, number: np.float32) -> None:
        self.values = [np.full(SHAPE, number), np.full(SHAPE, number + 1)]
        self.variables = [self.made(value) for value in self.values]

    def op(self, plain: str, resource: str = "") -> str:
        return plain if self.kind is Variable else (resource or f"Resource{plain}")

    def more(self) -> dict[str, Any]:
        return {} if self.kind is Variable else {"dtype": dtypes.float32}

    # -- readers

    @rule(which=VARIABLES)
    def lease(self, which: int) -> None:
        self.leases.append((which, self.variables[which].lease(), self.values[which]))

    @precondition(lambda self: self.leases)
    @rule(data=st.data(), times=st.integers(1, 2))
    def release(self, data: st.DataObject, times: int) -> None:
        index = data.draw(st.integers(0, len(self.leases) - 1))
        _, lease, _ = self.leases.pop(index)
        for _ in range(times):
            lease.release()

    @precondition(lambda self: self.leases)
    @rule(data=st.data())
    def detach(self, data: st.DataObject) -> None:
        index = data.draw(st.integers(0, len(self.leases) - 1))
        _, lease, expected = self.leases.pop(index)
        own = lease.detach()
        assert np.array_equal(own, expected)
        own[...] = -1  # nobody else's

    @rule(which=VARIABLES)
    def read(self, which: int) -> None:
        held = self.variables[which]
        value = held.read() if isinstance(held, ResourceVariable) else held.snapshot()
        self.reads.append((which, value, self.values[which]))

    @precondition(lambda self: self.reads)
    @rule()
    def forget_reads(self) -> None:
        self.reads.clear()

    # -- updates

    def changed(self, which: int, value: Any, update: Callable[[], Any]) -> None:
        """Do an update; it is in place exactly if nobody reads the array."""
        held = self.variables[which]
        before = held.array
        leased = any(
            at == which and np.may_share_memory(lease.array, before)
            for at, lease, _ in self.leases
        )  # fmt: skip
        is_read = any(
            at == which and np.may_share_memory(read, before) for at, read, _ in self.reads
        )
        update()
        self.values[which] = value
        if self.in_place:
            assert (held.array is before) == (not leased and not is_read)

    @rule(which=VARIABLES, number=NUMBERS)
    def assign(self, which: int, number: Any) -> None:
        value = np.full(SHAPE, number)
        name = self.op("Assign", "AssignVariableOp")
        more = {"validate_shape": True, **self.more()}
        self.changed(which, value, lambda: run(name, self.variables[which], value, **more))

    @rule(which=VARIABLES, number=NUMBERS)
    def assign_add(self, which: int, number: Any) -> None:
        value = np.full(SHAPE, number)
        name = self.op("AssignAdd", "AssignAddVariableOp")
        after = self.values[which] + value
        self.changed(which, after, lambda: run(name, self.variables[which], value, **self.more()))

    @rule(which=VARIABLES, number=NUMBERS, row=st.integers(0, SHAPE[0] - 1))
    def scatter(self, which: int, number: Any, row: int) -> None:
        after = self.values[which].copy()
        after[row] = number
        inputs = (self.variables[which], np.int32([row]), number)
        name = self.op("ScatterUpdate")
        self.changed(which, after, lambda: run(name, *inputs, **self.more()))

    @rule(which=VARIABLES, number=NUMBERS, row=st.integers(0, SHAPE[0] - 2))
    def assign_slice(self, which: int, number: Any, row: int) -> None:
        after = self.values[which].copy()
        after[row : row + 2] = number
        edges = (np.int32([row]), np.int32([row + 2]), np.int32([1]))
        masks = ("begin_mask", "end_mask", "ellipsis_mask", "new_axis_mask", "shrink_axis_mask")
        more: dict[str, Any] = dict.fromkeys(masks, 0)
        if self.kind is ResourceVariable:
            more["T"] = dtypes.float32
        name = self.op("StridedSliceAssign")
        self.changed(which, after, lambda: run(name, self.variables[which], *edges, number, **more))

    @rule(which=VARIABLES, number=NUMBERS)
    def descend(self, which: int, number: Any) -> None:
        delta = np.full(SHAPE, number)
        inputs = (self.variables[which], np.float32(2.0), delta)
        name = self.op("ApplyGradientDescent")
        self.changed(which, self.values[which] - 2 * delta, lambda: run(name, *inputs))

    @rule(which=VARIABLES, columns=st.integers(1, 3), number=NUMBERS)
    def replace(self, which: int, columns: int, number: Any) -> None:
        """By a value of another shape, and back; leases go on."""
        self.variables[which].assign(np.full((2, columns), number), validate_shape=False)
        value = np.full(SHAPE, number)
        self.variables[which].assign(value, validate_shape=False)
        self.values[which] = value

    @rule(which=VARIABLES, number=NUMBERS)
    def reset(self, which: int, number: Any) -> None:
        self.variables[which].reset()
        with pytest.raises(errors.FailedPreconditionError):
            self.variables[which].lease()
        self.values[which] = np.full(SHAPE, number)
        self.variables[which].assign(self.values[which])

    @invariant()
    def nothing_is_torn(self) -> None:
        for held, value in zip(self.variables, self.values, strict=True):
            assert np.array_equal(held.array, value)
        for _, lease, value in self.leases:
            assert np.array_equal(lease.array, value)
            assert not lease.array.flags.writeable
        for _, read, value in self.reads:
            assert np.array_equal(read, value)


class ResourceLeases(Leases):
    """The same of variables behind handles."""

    kind = ResourceVariable


TestLeases = Leases.TestCase
TestResourceLeases = ResourceLeases.TestCase


# -- every op that updates ----------------------------------------------------------------------

_FLOW = {"RefEnter", "RefExit", "RefIdentity", "RefMerge", "RefNextIteration", "RefSwitch"}
_READS = {
    "DestroyTemporaryVariable",
    "HeadraceAwaitInitialized",
    "IsVariableInitialized",
    "ResourceGather",
    "ResourceGatherNd",
}
_NO_VARIABLES = ("ResourceAccumulator", "ResourceConditionalAccumulator")


def updates(spec: OpSpec) -> bool:
    """Whether `spec` changes a variable that it is given."""
    if spec.kernel is None or spec.name in _FLOW | _READS or spec.name.startswith(_NO_VARIABLES):
        return False
    if any(arg.is_ref and arg.type is None for arg in spec.inputs):
        return True
    return spec.name.startswith(("Resource", "Assign"))


UPDATES = sorted(name for name, spec in OPS.items() if updates(spec))
ROWS = np.full((2, 3), 2, np.float32)


def inputs_of(spec: OpSpec) -> list[Any]:
    """Inputs that make a difference; the variables come first."""
    kind = Variable if spec.inputs[0].is_ref else ResourceVariable
    if spec.name.endswith("CountUpTo"):
        return [variable(kind, np.int32(3))]
    known = {
        "indices": np.int32([[1], [0]]) if "ScatterNd" in spec.name else np.int32([1, 0]),
        "updates": ROWS + 3, "value": ROWS, "grad": ROWS, "delta": ROWS, "global_step": np.int64(1),
        "begin": np.int32([0]), "end": np.int32([2]), "strides": np.int32([1]), "lr_power": np.float32(-0.5),
    }  # fmt: skip
    if "ScatterNdMin" in spec.name or "ScatterMin" in spec.name:
        known["updates"] = ROWS - 3
    return [
        variable(kind, ROWS * 0 if arg.name == "mg" else ROWS * 2 - 1, arg.name)
        if arg.is_ref or arg.type is dtypes.resource
        else known.get(arg.name, np.float32(0.5))
        for arg in spec.inputs
    ]


def attrs_of(spec: OpSpec) -> dict[str, Any]:
    given = {"limit": 9, "dtype": dtypes.float32, "T": dtypes.float32}
    if spec.name.endswith("CountUpTo"):
        given["T"] = dtypes.int32
    return {
        name: given[name] if name in given else spec.attrs[name].default
        for name in spec.kernel_attrs
    }


def test_the_ops_that_update_are_found() -> None:
    assert {"Assign", "AssignAddVariableOp", "CountUpTo", "ScatterNdSub", "ApplyAdam"} <= {*UPDATES}
    assert {"ResourceStridedSliceAssign", "ResourceSparseApplyFtrl"} <= {*UPDATES}
    assert len(UPDATES) > 70


@pytest.mark.parametrize("name", UPDATES)
def test_an_update_leaves_what_is_leased_alone_and_is_in_place_otherwise(name: str) -> None:
    spec = OPS[name]
    inputs = inputs_of(spec)
    states = [each for each in inputs if isinstance(each, State)]
    leases = [state.lease() for state in states]
    before = [lease.array.copy() for lease in leases]
    old = [state.array for state in states]
    run(name, *inputs, **attrs_of(spec))
    assert not np.array_equal(states[0].require(), before[0]), "the test's inputs change nothing"
    for lease, value in zip(leases, before, strict=True):
        assert np.array_equal(lease.array, value)
        lease.release()
    assert not any(state.array is array for state, array in zip(states, old, strict=True))
    after = [state.array for state in states]
    run(name, *inputs, **attrs_of(spec))
    assert all(state.array is array for state, array in zip(states, after, strict=True))


# -- leases by themselves -----------------------------------------------------------------------


def test_a_released_lease_cannot_be_looked_into() -> None:
    lease = variable(Variable, [1.0, 2.0]).lease()
    lease.release()
    with pytest.raises(RuntimeError, match="released"):
        _ = lease.array


def test_a_lease_that_is_dropped_keeps_nobody_from_updating_in_place() -> None:
    held = variable(Variable, np.zeros(5))
    lease = held.lease()
    array = held.array
    del lease
    gc.collect()
    held.assign(np.ones(5))
    assert held.array is array


def test_a_lease_outlives_its_variable() -> None:
    manager = ResourceManager()
    held = manager.lookup_or_create("", "v", Variable, lambda: variable(Variable, np.ones(5)))
    lease = held.lease()
    manager.cleanup([])
    held.reset()
    assert lease.array.tolist() == [1.0] * 5
    lease.release()
    lease.release()


def test_small_values_are_lent_as_copies_and_large_ones_leased() -> None:
    small, large = variable(Variable, np.zeros(4)), variable(Variable, np.zeros(100_000))
    copy, lease = small.lend(), large.lend()
    assert isinstance(copy, np.ndarray)
    assert not np.may_share_memory(copy, small.array)
    assert isinstance(lease, Lease)
    assert np.may_share_memory(lease.array, large.array)


def test_strings_and_other_dtypes_are_leased_too() -> None:
    for dtype in (dtypes.string, dtypes.bfloat16, dtypes.bool, dtypes.complex64):
        value = np.array([b"a", b"b"], object) if dtype is dtypes.string else np.ones(2, dtype.np)
        held = Variable("v", dtype, (2,))
        held.assign(value)
        lease = held.lease()
        held.assign(value[::-1] if dtype is dtypes.string else np.zeros(2, dtype.np))
        assert lease.array.tolist() == value.tolist()
        assert lease.array.dtype == value.dtype


def test_what_nobody_takes_from_a_rendezvous_is_released() -> None:
    held = variable(Variable, np.zeros(5))
    rendezvous = Rendezvous()
    lease = held.lease()
    rendezvous.send("key", lease)
    array = held.array
    rendezvous.abort(errors.aborted("over"))
    held.assign(np.ones(5))
    assert held.array is array
    with pytest.raises(RuntimeError, match="released"):
        _ = lease.array


def test_reads_and_updates_by_many_threads_are_never_torn() -> None:
    """Writers fill, add, and scatter so that the array is uniform after each; readers lease and look twice."""
    held = variable(Variable, np.zeros((50, 400)))
    end = threading.Event()
    wrong: list[str] = []
    every = np.arange(50)

    def write(number: int) -> None:
        for count in range(300):
            run("Assign", held, np.full((50, 400), number + count), validate_shape=True)
            run("AssignAdd", held, np.ones((50, 400)))
            run("ScatterAdd", held, every, np.ones((50, 400)))

    def read() -> None:
        while not end.is_set():
            lease = held.lease()
            first = lease.array[0, 0]
            if not (np.all(lease.array == first) and np.all(lease.array == first)):
                wrong.append(f"{np.unique(lease.array)[:3]}")
            lease.release()

    readers = [threading.Thread(target=read) for _ in range(3)]
    writers = [threading.Thread(target=write, args=(1000 * number,)) for number in range(3)]
    for thread in readers + writers:
        thread.start()
    for thread in writers:
        thread.join()
    end.set()
    for thread in readers:
        thread.join()
    assert not wrong


# -- rewriting ----------------------------------------------------------------------------------


@pytest.mark.parametrize("size", [5, 200_000, 1_200_000], ids=["a block", "blocks", "shared"])
@pytest.mark.parametrize("read", [False, True], ids=["in place", "elsewhere"])
def test_a_descent_reads_the_gradient_and_what_was_there(size: int, read: bool) -> None:
    start, slope = np.arange(size, dtype=np.float32), np.full(size, 3, np.float32)
    held = variable(Variable, start)
    lease = held.lease() if read else None
    run("ApplyGradientDescent", held, np.float32(0.5), slope)
    assert np.array_equal(held.array, start - np.float32(1.5))
    if lease is not None:
        assert np.array_equal(lease.array, start)


def test_a_variable_that_is_read_has_all_of_its_next_value_or_nothing_of_it() -> None:
    held = variable(Variable, np.ones(SHAPE, np.float32))
    before, lease = held.array, held.lease()

    def interrupted(source: Any, target: Any) -> None:
        target[:3] = 7
        raise KeyboardInterrupt

    with held.lock, pytest.raises(KeyboardInterrupt):
        held.rewrite(interrupted)
    assert held.array is before
    assert before.min() == before.max() == 1
    lease.release()
