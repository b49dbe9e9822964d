"""Command-line flags, and the program's main."""

from __future__ import annotations

from typing import Any

import pytest

from headrace.training import app, flags


@pytest.fixture
def values() -> flags.FlagValues:
    """A set of flags of every kind."""
    made = flags.FlagValues()
    flags.DEFINE_string("name", "n", "text", made)
    flags.DEFINE_integer("steps", 3, "a count", lower_bound=0, flag_values=made, short_name="s")
    flags.DEFINE_float("rate", 1, "a number", flag_values=made)
    flags.DEFINE_boolean("sync", False, "on or off", made)
    flags.DEFINE_enum("job", "ps", ["ps", "worker"], "a role", made)
    flags.DEFINE_list("hosts", "a,b", "some", made)
    flags.DEFINE_multi_integer("size", [1], "sizes", made)
    flags.DEFINE_multi_string("tag", None, "tags", made)
    flags.DEFINE_multi_float("weight", 2, "weights", made)
    return made


CASES: list[tuple[list[str], dict[str, Any], list[str]]] = [
    ([], {"name": "n", "steps": 3, "rate": 1.0, "sync": False, "hosts": ["a", "b"]}, []),
    (["--name=x=y"], {"name": "x=y"}, []),
    (["--name", "x", "rest"], {"name": "x"}, ["rest"]),
    (["-steps", "-4", "--name="], {"steps": -4, "name": ""}, []),
    (["--steps=0x10"], {"steps": 16}, []),
    (["-s", "08"], {"steps": 8}, []),
    (["--rate=1e-3"], {"rate": 0.001}, []),
    (["--sync"], {"sync": True}, []),
    (["--nosync"], {"sync": False}, []),
    (["--sync=True", "--job=worker"], {"sync": True, "job": "worker"}, []),
    (["--sync", "false"], {"sync": True}, ["false"]),
    (["--hosts=c, d"], {"hosts": ["c", "d"]}, []),
    (["--size=5", "--size", "6"], {"size": [5, 6]}, []),
    (["--weight=0.5", "--tag=t"], {"weight": [0.5], "tag": ["t"]}, []),
    (["--name=a", "--name=b"], {"name": "b"}, []),
    (["one", "--", "--name=x"], {"name": "n"}, ["one", "--name=x"]),
    (["-", "two"], {}, ["-", "two"]),
]


@pytest.mark.parametrize(("words", "expected", "rest"), CASES)
def test_the_command_line(
    values: flags.FlagValues, words: list[str], expected: dict[str, Any], rest: list[str]
) -> None:
    if "-4" in words:
        values["steps"].parse = int
    assert values(["program", *words]) == ["program", *rest]
    assert {name: getattr(values, name) for name in expected} == expected
    assert all(type(getattr(values, name)) is type(value) for name, value in expected.items())


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--steps=few"], "--steps=few"),
        (["--steps=-1"], "-1 is not integer >= 0"),
        (["--steps"], "--steps needs a value: an integer"),
        (["--sync=perhaps"], "true or false"),
        (["--job=chief"], "one of <ps[|]worker>"),
    ],
)
def test_values_of_the_wrong_kind_are_refused(
    values: flags.FlagValues, words: list[str], message: str
) -> None:
    with pytest.raises(flags.IllegalFlagValueError, match=message):
        values(["program", *words])


def test_unknown_flags_are_refused_or_passed_on(values: flags.FlagValues) -> None:
    words = ["program", "--unknown=1", "--name=x"]
    with pytest.raises(flags.UnrecognizedFlagError, match="'unknown'"):
        values(words)
    assert values(words, known_only=True) == ["program", "--unknown=1"]
    assert values.name == "x"


def test_the_first_read_parses_the_programs_arguments(
    values: flags.FlagValues, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.argv", ["program", "--name=x", "--of_a_test_runner"])
    assert not values.is_parsed()
    assert values.name == "x"
    assert values.is_parsed()


def test_flags_can_be_set_and_looked_at(values: flags.FlagValues) -> None:
    values.mark_as_parsed()
    values.name = "y"
    values.set_default("steps", 9)
    assert values.flag_values_dict()["name"] == "y"
    assert (values.steps, values["steps"].default, "steps" in values) == (9, 9, True)
    del values.steps
    assert "s" not in values
    assert len(values) == 8
    with pytest.raises(flags.UnrecognizedFlagError, match="flag 'other'"):
        values.other = 1
    with pytest.raises(AttributeError, match="no flag --other is defined"):
        _ = values.other


def test_a_flag_is_defined_once(values: flags.FlagValues) -> None:
    with pytest.raises(flags.DuplicateFlagError, match="--name"):
        flags.DEFINE_string("name", "", "again", values)


def test_a_default_must_be_of_the_flags_kind(values: flags.FlagValues) -> None:
    flags.DEFINE_integer("ten", "10", "as text", flag_values=values)
    values.mark_as_parsed()
    assert values.ten == 10
    with pytest.raises(flags.IllegalFlagValueError, match=r"--bad=x: .*an integer"):
        flags.DEFINE_integer("bad", "x", "as text", flag_values=values)


def test_required_flags_and_validators(values: flags.FlagValues) -> None:
    flags.DEFINE_string("task", None, "which", values)
    flags.mark_flags_as_required(["task"], values)
    flags.register_validator("rate", lambda rate: rate < 5, "too fast", values)
    with pytest.raises(flags.IllegalFlagValueError, match="--task must have a value"):
        values(["program"])
    with pytest.raises(flags.IllegalFlagValueError, match=r"--rate=7.0: too fast"):
        values(["program", "--task=0", "--rate=7"])
    values(["program", "--task=0", "--rate=4"])
    with pytest.raises(flags.IllegalFlagValueError, match="too fast"):
        values.rate = 6.0
    assert values.rate == 4.0


@pytest.fixture
def program_flags(values: flags.FlagValues, monkeypatch: pytest.MonkeyPatch) -> flags.FlagValues:
    monkeypatch.setattr(flags, "FLAGS", values)
    return values


def test_main_gets_what_is_no_flag_and_its_result_is_the_exit_code(
    program_flags: flags.FlagValues,
) -> None:
    seen: list[Any] = []

    def main(argv: list[str]) -> int:
        seen.append((argv, program_flags.name))
        return 3

    with pytest.raises(SystemExit) as ended:
        app.run(main, ["program", "--name=x", "--unknown", "word"])
    assert ended.value.code == 3
    assert seen == [(["program", "--unknown", "word"], "x")]


def test_without_a_main_the_programs_is_called(
    program_flags: flags.FlagValues, monkeypatch: pytest.MonkeyPatch
) -> None:
    import sys

    seen: list[list[str]] = []
    monkeypatch.setattr(sys.modules["__main__"], "main", seen.append, raising=False)
    monkeypatch.setattr(sys, "argv", ["program", "--sync", "word"])
    with pytest.raises(SystemExit) as ended:
        app.run()
    assert ended.value.code is None
    assert seen == [["program", "word"]]


def test_bad_flags_end_the_program_with_a_message(
    program_flags: flags.FlagValues, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as ended:
        app.run(lambda argv: 0, ["program", "--steps=few"])
    assert ended.value.code == 1
    assert "--steps=few" in capsys.readouterr().err


def test_help_lists_the_flags(
    program_flags: flags.FlagValues, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit):
        app.run(lambda argv: 0, ["program", "--help"])
    shown = capsys.readouterr().out
    assert "--[no]sync: on or off" in shown
    assert "(an integer, default 3)" in shown
