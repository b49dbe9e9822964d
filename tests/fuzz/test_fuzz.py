"""The fuzzer for a few seconds, and that it would notice."""

from __future__ import annotations

from collections.abc import Callable
from random import Random

import pytest

from headrace.base import errors
from tests.fuzz import runner
from tests.fuzz.targets import TARGETS, Target

SECONDS = 5.0


def test_mutated_messages_are_accepted_or_refused_with_a_typed_error() -> None:
    tally = runner.run(1, TARGETS, SECONDS, lambda tally: None)
    assert min(tally.cases.values()) >= runner.INTACT
    assert 0 < tally.accepted["frames"] < tally.cases["frames"]
    assert 0 < tally.accepted["tensors"] < tally.cases["tensors"]


def fails_by_key_error(rng: Random, data: bytes) -> bool:
    if rng.random() < 0.1:
        raise KeyError(data)
    return True


def refuses_what_is_valid(rng: Random, data: bytes) -> bool:
    return data != b"valid"


def allocates_too_much(rng: Random, data: bytes) -> bool:
    return bool(bytes(runner.ROOM))


@pytest.mark.parametrize("check", [fails_by_key_error, refuses_what_is_valid, allocates_too_much])
def test_what_is_wrong_is_found_and_found_again(check: Callable[[Random, bytes], bool]) -> None:
    target = Target("bad", lambda rng: b"valid", check)
    with pytest.raises(runner.Failed) as found:
        runner.run(1, {"good": TARGETS["frames"], "bad": target}, 60.0, lambda tally: None)
    assert found.value.target == "bad"
    with pytest.raises(runner.Failed) as again:
        runner.run_case(1, target, found.value.number)
    assert (again.value.data, type(again.value.__cause__)) == (
        found.value.data,
        type(found.value.__cause__),
    )


def test_a_typed_error_of_another_type_is_a_failure_too() -> None:
    def check(rng: Random, data: bytes) -> bool:
        raise errors.internal("not the sender's fault")

    with pytest.raises(runner.Failed):
        runner.run_case(1, Target("bad", lambda rng: b"valid", check), 0)
