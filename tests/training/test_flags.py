"""Command-line flags, and the program's main."""

from __future__ import annotations

from typing import Any

import pytest

from headrace import flags
from headrace.training import app
from headrace.training.flags import ProgramFlags


@pytest.fixture
def values() -> flags.FlagValues:
    """A set of flags of every kind."""
    made = flags.FlagValues()
    flags.DEFINE_string("name", "n", "text", made)
    flags.DEFINE_integer("steps", 3, "a count", lower_bound=0, flag_values=made, short_name="p")
    flags.DEFINE_float("rate", 1, "a number", flag_values=made)
    flags.DEFINE_boolean("sync", False, "on or off", made)
    flags.DEFINE_enum("job", "ps", ["ps", "worker"], "a role", made)
    flags.DEFINE_list("hosts", "a,b", "some", flag_values=made)
    flags.DEFINE_multi_integer("size", [1], "sizes", flag_values=made)
    flags.DEFINE_multi_string("tag", None, "tags", flag_values=made)
    flags.DEFINE_multi_float("weight", 2, "weights", flag_values=made)
    return made


CASES: list[tuple[list[str], dict[str, Any], list[str]]] = [
    ([], {"name": "n", "steps": 3, "rate": 1.0, "sync": False, "hosts": ["a", "b"]}, []),
    (["--name=x=y"], {"name": "x=y"}, []),
    (["--name", "x", "rest"], {"name": "x"}, ["rest"]),
    (["-steps", "4", "--name="], {"steps": 4, "name": ""}, []),
    (["--steps=0x10"], {"steps": 16}, []),
    (["-p", "08"], {"steps": 8}, []),
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
    assert values(["program", *words]) == ["program", *rest]
    assert {name: getattr(values, name) for name in expected} == expected
    assert all(type(getattr(values, name)) is type(value) for name, value in expected.items())


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--steps=few"], "--steps=few"),
        (["--steps=-1"], "-1 is not a non-negative integer"),
        (["--sync=perhaps"], "perhaps"),
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
    programs = ProgramFlags(values)
    assert not programs.is_parsed()
    assert programs.name == "x"
    assert programs.is_parsed()


def test_flags_are_set_and_looked_at_as_those_of_absl(values: flags.FlagValues) -> None:
    programs = ProgramFlags(values)
    programs.mark_as_parsed()
    programs.name = "y"
    programs.set_default("steps", 9)
    assert programs.flag_values_dict()["name"] == "y"
    assert (programs.steps, programs["steps"].default, "steps" in programs) == (9, 9, True)
    del programs.rate
    assert "rate" not in programs
    assert {*programs} == {*values}
    assert (len(programs), "name" in dir(programs)) == (len(values), True)
    assert programs(["program", "word"]) == ["program", "word"]
    with pytest.raises(AttributeError, match="other"):
        _ = programs.other


def test_older_names_of_arguments(values: flags.FlagValues) -> None:
    flags.DEFINE_string(flag_name="old", default_value="d", docstring="of 1.x", flag_values=values)
    flags.DEFINE_bool("older", default_value=True, docstring="", flag_values=values)
    values.mark_as_parsed()
    assert (values.old, values.older, values["old"].help) == ("d", True, "of 1.x")


def test_flags_belong_to_the_module_that_defines_them(values: flags.FlagValues) -> None:
    assert values.find_module_defining_flag("name") == __name__


def test_flags_are_those_of_absl() -> None:
    import absl.flags

    flags.DEFINE_string("defined_by_headrace", "x", "shared")
    try:
        assert "defined_by_headrace" in absl.flags.FLAGS
        assert "defined_by_headrace" in flags.FLAGS
    finally:
        del flags.FLAGS.defined_by_headrace


@pytest.fixture
def program_flags(values: flags.FlagValues, monkeypatch: pytest.MonkeyPatch) -> flags.FlagValues:
    monkeypatch.setattr(app, "FLAGS", values)
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
    with pytest.raises(SystemExit) as ended:
        app.run(lambda argv: 0, ["program", "--helpfull"])
    shown = capsys.readouterr().out
    assert ended.value.code == 1
    assert "--[no]sync: on or off" in shown
    assert "(default: '3')" in shown


def test_a_word_that_is_a_value_or_no_flag_asks_for_no_help(
    program_flags: flags.FlagValues,
) -> None:
    for words in (["--name", "--help"], ["--", "--help"], ["--help=false"], ["-h"]):
        with pytest.raises(SystemExit) as ended:
            app.run(lambda argv: 3, ["program", *words])
        assert ended.value.code == 3


def test_arguments_can_be_checked_alone(program_flags: flags.FlagValues) -> None:
    for words, code in ((["--only_check_args"], 0), (["--only_check_args", "--steps=few"], 1)):
        with pytest.raises(SystemExit) as ended:
            app.run(lambda argv: 3, ["program", *words])
        assert ended.value.code == code
