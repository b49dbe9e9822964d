"""Variables that live on a device: whatever is done to them, here and there, everybody sees what there is, once."""

from __future__ import annotations

import threading
from typing import Any

import numpy as np
import pytest
from hypothesis import strategies as st
from hypothesis.stateful import invariant, rule

from headrace.base import dtypes, errors
from headrace.run.state.on_device import OnDevice, ResourceVariableOnDevice, VariableOnDevice
from headrace.run.state.variable import ResourceVariable, State, lease_all
from tests.run.test_leases import NUMBERS, SHAPE, VARIABLES, Leases
from tests.support.toy_device import ToyDevice

ROWS = np.arange(6, dtype=np.float32).reshape(2, 3)


def made(toy: ToyDevice, value: Any = ROWS, kind: type[OnDevice] = VariableOnDevice) -> OnDevice:
    array = np.asarray(value)
    found = kind("v", dtypes.from_numpy(array.dtype), array.shape, toy)
    found.assign(array)
    return found


@pytest.fixture
def toy() -> ToyDevice:
    return ToyDevice(0)


def moved(toy: ToyDevice) -> tuple[int, int]:
    """How many arrays were put there, and got from there."""
    return toy.transfers["put"], toy.transfers["got"]


def add(variable: OnDevice, number: float) -> None:
    """An update on the device."""
    with variable.lock:
        variable.have(variable.placed() + number)
        variable.updates += 1


def test_the_host_has_a_copy_until_the_value_changes(toy: ToyDevice) -> None:
    variable = made(toy)
    assert moved(toy) == (1, 0)
    for _ in range(3):
        np.testing.assert_array_equal(variable.require(), ROWS)
    assert moved(toy) == (1, 1)
    add(variable, 1.0)
    np.testing.assert_array_equal(variable.require(), ROWS + 1)
    assert moved(toy) == (1, 2)


def test_a_change_on_the_host_is_put_there_by_who_reads_there(toy: ToyDevice) -> None:
    variable = made(toy)
    with variable.lock:
        variable.writable()[...] += 1
    assert moved(toy) == (1, 1)
    for _ in range(3):
        np.testing.assert_array_equal(toy.get(variable.there()), ROWS + 1)
    assert toy.transfers["put"] == 2


def test_what_asks_for_its_shape_moves_nothing(toy: ToyDevice) -> None:
    variable = made(toy)
    add(variable, 1.0)
    assert variable.held().shape == (2, 3)
    variable.require_value()
    assert variable.initialized().done
    with pytest.raises(errors.InvalidArgumentError, match=r"lhs shape= \[2,3\] rhs shape= \[2\]"):
        variable.assign(np.zeros(2, np.float32))
    assert moved(toy) == (1, 0)


def test_a_fetch_is_one_transfer_and_the_callers_own(toy: ToyDevice) -> None:
    variable, number = made(toy), made(toy, np.float32(2.5))
    found = variable.fetched()
    found[...] = 0
    assert moved(toy) == (2, 1)
    np.testing.assert_array_equal(variable.snapshot(), ROWS)
    assert type(number.fetched()) is np.float32


def test_before_the_first_assignment_there_is_nothing(toy: ToyDevice) -> None:
    variable = VariableOnDevice("v", dtypes.float32, (2,), toy)
    assert variable.held() is None
    assert variable.array is None
    for ask in (variable.there, variable.require, variable.snapshot, variable.require_value):
        with pytest.raises(errors.FailedPreconditionError, match="uninitialized value v"):
            ask()
    waits = variable.initialized()
    assert not waits.done
    variable.assign_there(toy.put(np.ones(2, np.float32)))
    assert waits.done
    variable.reset()
    assert variable.held() is None


def test_leases_of_one_moment_stay_what_they_were(toy: ToyDevice) -> None:
    variables = [made(toy), made(toy, ROWS * 2, ResourceVariableOnDevice)]
    leases = lease_all(variables)
    for variable in variables:
        add(variable, 1.0)
    np.testing.assert_array_equal(leases[0].array, ROWS)
    np.testing.assert_array_equal(leases[1].array, ROWS * 2)
    np.testing.assert_array_equal(variables[0].require(), ROWS + 1)
    assert leases[0].move() is None  # it is in no buffer that is shared


def test_a_variable_behind_a_handle_may_hold_what_the_device_has_not(toy: ToyDevice) -> None:
    variable = made(toy, ROWS, ResourceVariableOnDevice)
    variable.reset()
    variable.dtype = dtypes.int32  # as who assigns first says
    variable.assign(np.int32([1, 2]), validate_shape=False)
    assert variable.held().dtype == np.int32


def test_updates_from_many_threads_all_count(toy: ToyDevice) -> None:
    variable = made(toy, np.zeros(3, np.float32))

    def work(there: bool) -> None:
        for _ in range(50):
            if there:
                add(variable, 1.0)
            else:
                with variable.lock:
                    variable.writable()[...] += 1
            variable.require()
            variable.there()

    threads = [threading.Thread(target=work, args=(bool(n % 2),)) for n in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    np.testing.assert_array_equal(variable.require(), np.full(3, 200))


# -- against the model of variables -------------------------------------------------------------------


class DeviceLeases(Leases):
    """As on the host, with updates and reads on the device among the others."""

    in_place = False

    def __init__(self) -> None:
        super().__init__()
        self.toy = ToyDevice(0)
        self.there: list[tuple[Any, Any]] = []

    def made(self, value: Any) -> Any:
        kinds: dict[type[State], type[OnDevice]] = {ResourceVariable: ResourceVariableOnDevice}
        return made(self.toy, value, kinds.get(self.kind, VariableOnDevice))

    @rule(which=VARIABLES, number=NUMBERS)
    def add_there(self, which: int, number: Any) -> None:
        add(self.variables[which], float(number))
        self.values[which] = self.values[which] + number

    @rule(which=VARIABLES, number=NUMBERS)
    def assign_there(self, which: int, number: Any) -> None:
        self.values[which] = np.full(SHAPE, number)
        self.variables[which].assign_there(self.toy.put(self.values[which]))

    @rule(which=VARIABLES)
    def read_there(self, which: int) -> None:
        self.there.append((self.variables[which].there(), self.values[which]))

    @rule(first=st.booleans())
    def forget_there(self, first: bool) -> None:
        del self.there[: 1 if first else None]

    @invariant()
    def what_was_read_there_stays(self) -> None:
        for read, value in self.there:
            assert np.array_equal(self.toy.get(read), value)


class ResourceDeviceLeases(DeviceLeases):
    """The same of variables behind handles."""

    kind = ResourceVariable


TestDeviceLeases = DeviceLeases.TestCase
TestResourceDeviceLeases = ResourceDeviceLeases.TestCase
