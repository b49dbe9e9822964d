"""Resources: containers, kinds, generations."""

from __future__ import annotations

import threading

import pytest

from headrace.base import errors
from headrace.run.state.resources import Resource, ResourceManager, private_name, shared_name
from headrace.run.thread_group import ThreadGroup


class Box(Resource):
    """A resource that knows whether it was closed."""

    closed = 0

    def close(self) -> None:
        self.closed += 1


class Jar(Resource):
    """Another kind."""


def box() -> Box:
    return Box("unnamed")


def test_a_resource_is_made_once_and_told_its_place() -> None:
    manager = ResourceManager()
    first = manager.lookup_or_create("c", "x", Box, box)
    assert manager.lookup_or_create("c", "x", Box, box) is first
    assert manager.lookup("c", "x", Box) is first
    assert (first.container, first.name) == ("c", "x")


@pytest.mark.parametrize("other", [("d", "x"), ("c", "y"), ("", "x")])
def test_containers_and_names_are_told_apart(other: tuple[str, str]) -> None:
    manager = ResourceManager()
    first = manager.lookup_or_create("c", "x", Box, box)
    assert manager.lookup_or_create(*other, Box, box) is not first


def test_no_container_is_the_default_one() -> None:
    manager = ResourceManager()
    first = manager.lookup_or_create("", "x", Box, box)
    assert manager.lookup("localhost", "x", Box) is first
    assert first.container == "localhost"


def test_kinds_do_not_meet() -> None:
    manager = ResourceManager()
    a = manager.lookup_or_create("", "x", Box, box)
    b = manager.lookup_or_create("", "x", Jar, lambda: Jar("x"))
    assert manager.lookup("", "x", Box) is a
    assert manager.lookup("", "x", Jar) is b


def test_what_is_not_there_is_not_found_and_the_error_says_where_it_is() -> None:
    manager = ResourceManager()
    manager.lookup_or_create("elsewhere", "x", Box, box)
    with pytest.raises(errors.NotFoundError, match=r"'c' has no Box named 'x'.*'elsewhere'"):
        manager.lookup("c", "x", Box)
    with pytest.raises(errors.NotFoundError):
        manager.delete("c", "x", Box)


def test_deleting_closes_and_bumps_the_generation() -> None:
    manager = ResourceManager()
    first = manager.lookup_or_create("", "x", Box, box)
    before = manager.generation
    manager.delete("", "x", Box)
    assert manager.generation > before
    assert first.closed == 1
    assert manager.lookup_or_create("", "x", Box, box) is not first


@pytest.mark.parametrize(
    ("cleaned", "left"),
    [
        ([], {"c", "d"}),
        ([""], {"c", "d"}),
        (["c"], {"localhost", "d"}),
        (["c", "d"], {"localhost"}),
        (["nowhere"], {"localhost", "c", "d"}),
    ],
)
def test_cleanup_empties_the_named_containers_only(cleaned: list[str], left: set[str]) -> None:
    manager = ResourceManager()
    made = [manager.lookup_or_create(c, "x", Box, box) for c in ("", "c", "d")]
    before = manager.generation
    manager.cleanup(cleaned)
    assert {r.container for r in manager.all()} == left
    assert {r.container for r in made if not r.closed} == left
    assert manager.generation > before


def test_closing_the_manager_closes_everything() -> None:
    manager = ResourceManager()
    made = [manager.lookup_or_create(c, "x", Box, box) for c in ("", "c")]
    manager.close()
    manager.close()
    assert [r.closed for r in made] == [1, 1]
    assert manager.all() == []


def test_private_resources_belong_to_their_owner() -> None:
    manager = ResourceManager()
    mine = manager.lookup_or_create("c", private_name("s1", "scope/q"), Box, box)
    theirs = manager.lookup_or_create("c", private_name("s11", "scope/q"), Box, box)
    shared = manager.lookup_or_create("c", "scope/q", Box, box)
    assert mine.label == theirs.label == shared.label == "scope/q"
    manager.delete_private("s1")
    assert manager.all() == [theirs, shared]
    assert mine.closed == 1


def test_a_shared_name_cannot_be_a_private_one() -> None:
    assert shared_name("q") == "q"
    with pytest.raises(errors.InvalidArgumentError, match="'_s1/q' starts with '_'"):
        shared_name(private_name("s1", "q"))


def test_threads_that_race_get_the_same_resource() -> None:
    manager = ResourceManager()
    made: list[Box] = []
    got: list[Box] = []
    barrier = threading.Barrier(8)

    def factory() -> Box:
        made.append(box())
        return made[-1]

    def race() -> None:
        barrier.wait()
        got.append(manager.lookup_or_create("", "x", Box, factory))

    with ThreadGroup("race") as group:
        for _ in range(8):
            group.start(race)
    assert len(made) == 1
    assert got == made * 8
