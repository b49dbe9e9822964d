"""Command-line flags: `tf.flags`, `tf.app.flags`.

A flag is defined once, anywhere in the program, and read as an attribute of FLAGS.  The command
line is parsed by the first such read or by `tf.app.run`; what it does not know stays in the
program's arguments.  ``--name=value``, ``--name value``, one dash or two; a boolean flag also as
``--name`` and ``--noname``; ``--`` ends the flags.
Called by: programs.  Threads: flags are defined and parsed by one.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any


class Error(Exception):
    """Of flags."""


class DuplicateFlagError(Error):
    """A flag was defined twice."""


class IllegalFlagValueError(Error):
    """A value that the flag's type or a validator refuses, or that is missing."""


class UnparsedFlagAccessError(Error):
    """A flag was read before the command line was parsed."""


class UnrecognizedFlagError(Error):
    """No flag has this name."""


@dataclass(eq=False)
class Flag:
    """One flag.  `present` counts how often the command line named it."""

    name: str
    parse: Callable[[str], Any]
    default: Any
    help: str
    kind: str
    boolean: bool = False
    multiple: bool = False
    short_name: str | None = None
    required: bool = False
    present: int = 0
    value: Any = None

    def set_text(self, given: str) -> None:
        """Take a value from the command line.  Raises IllegalFlagValueError."""
        try:
            parsed = self.parse(given)
        except ValueError as error:
            raise IllegalFlagValueError(
                f"flag --{self.name}={given}: {error or f'not {self.kind}'}"
            ) from None
        if self.multiple:
            parsed = [*(self.value if self.present else []), parsed]
        self.value = parsed
        self.present += 1


class FlagValues:
    """All flags of the program, as attributes and by name."""

    def __init__(self) -> None:
        values = self.__dict__
        values["__flags"] = {}
        values["_parsed"] = False
        values["_validators"] = []

    @property
    def _flags(self) -> dict[str, Flag]:
        found: dict[str, Flag] = self.__dict__["__flags"]
        return found

    def define(self, flag: Flag) -> None:
        """Add a flag.  Raises DuplicateFlagError."""
        for name in filter(None, (flag.name, flag.short_name)):
            if name in self._flags:
                raise DuplicateFlagError(
                    f"The flag '{name}' is defined twice: --{name} is there already"
                )
        flag.value = flag.default
        for name in filter(None, (flag.name, flag.short_name)):
            self._flags[name] = flag

    def _find(self, name: str) -> Flag:
        found = self._flags.get(name)
        if found is None:
            raise UnrecognizedFlagError(
                f"Unknown command line flag '{name}': there are {', '.join(sorted(self._flags)) or 'none'}"
            )
        return found

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__") or name not in self._flags:
            raise AttributeError(f"{name}: no flag --{name} is defined")
        if not self.__dict__["_parsed"]:
            self(sys.argv, known_only=True)
        return self._flags[name].value

    def __setattr__(self, name: str, value: Any) -> None:
        flag = self._flags.get(name)
        if flag is None:
            raise UnrecognizedFlagError(
                f"Unknown command line flag '{name}': a flag is defined before it is set"
            )
        before, flag.value = flag.value, value
        try:
            self._validate(name)
        except IllegalFlagValueError:
            flag.value = before
            raise

    def __delattr__(self, name: str) -> None:
        flag = self._find(name)
        for key in [key for key, known in self._flags.items() if known is flag]:
            del self._flags[key]

    def __getitem__(self, name: str) -> Flag:
        """Raises KeyError if there is none."""
        try:
            return self._find(name)
        except UnrecognizedFlagError as error:
            raise KeyError(str(error)) from None

    def __contains__(self, name: object) -> bool:
        return name in self._flags

    def __iter__(self) -> Iterator[str]:
        return iter(sorted(self._flags))

    def __len__(self) -> int:
        return len(self._flags)

    def __dir__(self) -> list[str]:
        return sorted({*super().__dir__(), *self._flags})

    def __call__(self, argv: Sequence[str], known_only: bool = False) -> list[str]:
        """Parse; returns argv[0] and what is no flag.

        With `known_only` unknown flags are among what is returned; else they raise
        UnrecognizedFlagError.  Raises IllegalFlagValueError, on a required flag that is missing too.
        """
        rest = [argv[0]] if argv else []
        pending = list(argv[1:])
        while pending:
            word = pending.pop(0)
            if word == "--":
                rest += pending
                break
            if not word.startswith("-") or word.strip("-") == "":
                rest.append(word)
            elif not self._take(word, pending):
                if not known_only:
                    raise UnrecognizedFlagError(
                        f"Unknown command line flag '{word.partition('=')[0].lstrip('-')}': "
                        "--help lists those there are"
                    )
                rest.append(word)
        self.__dict__["_parsed"] = True
        self._validate()
        return rest

    def _take(self, word: str, pending: list[str]) -> bool:
        """Set the flag that `word` names, with its value from `pending` if need be; False if none."""
        name, equals, value = word.lstrip("-").partition("=")
        name = name.replace("-", "_") if name not in self._flags else name
        flag = self._flags.get(name)
        if flag is None and name.startswith("no") and not equals:
            negated = self._flags.get(name[2:])
            if negated is not None and negated.boolean:
                negated.set_text("false")
                return True
        if flag is None:
            return False
        if not equals:
            if flag.boolean:
                value = "true"
            elif pending:
                value = pending.pop(0)
            else:
                raise IllegalFlagValueError(f"--{flag.name} needs a value: {flag.kind}")
        flag.set_text(value)
        return True

    def add_validator(self, names: Sequence[str], check: Callable[[], str | None]) -> None:
        """`check` gives None or what is wrong; run after parsing and when one of the flags is set."""
        self.__dict__["_validators"].append((tuple(names), check))

    def _validate(self, changed: str | None = None) -> None:
        for names, check in self.__dict__["_validators"]:
            if changed is None or changed in names:
                complaint = check()
                if complaint:
                    raise IllegalFlagValueError(complaint)

    def is_parsed(self) -> bool:
        """Whether the command line has been parsed."""
        parsed: bool = self.__dict__["_parsed"]
        return parsed

    def mark_as_parsed(self) -> None:
        """Use the defaults; for tests and notebooks."""
        self.__dict__["_parsed"] = True

    def unparse_flags(self) -> None:
        """Parse anew at the next read."""
        self.__dict__["_parsed"] = False

    def _parse_flags(self, args: Sequence[str] | None = None) -> None:
        self(sys.argv if args is None else [sys.argv[0], *args], known_only=True)

    def set_default(self, name: str, value: Any) -> None:
        """Another default; and value, unless the command line gave one."""
        flag = self._find(name)
        flag.default = value
        if not flag.present:
            flag.value = value

    def flag_values_dict(self) -> dict[str, Any]:
        """Values by name."""
        return {flag.name: flag.value for flag in self._flags.values()}

    def get_help(self) -> str:
        """One paragraph a flag."""
        flags = sorted({flag.name: flag for flag in self._flags.values()}.items())
        return "\n".join(
            f"  --{'[no]' if flag.boolean else ''}{name}: {flag.help}\n"
            f"    ({flag.kind}, default {flag.default!r})"
            for name, flag in flags
        )


FLAGS = FlagValues()


def _define(flag: Flag, flag_values: FlagValues | None) -> None:
    (FLAGS if flag_values is None else flag_values).define(flag)


def _boolean(given: str) -> bool:
    lowered = given.lower()
    if lowered in ("true", "t", "1", "yes", "y"):
        return True
    if lowered in ("false", "f", "0", "no", "n"):
        return False
    raise ValueError(f"('Non-boolean argument to boolean flag', {given!r}): it is true or false")


def _integer(given: str) -> int:
    return int(given, 0 if given.lower().startswith(("0x", "0o", "-0x", "-0o")) else 10)


def _list(given: str) -> list[str]:
    return [part.strip() for part in given.split(",")] if given else []


def _typed(default: Any, parse: Callable[[str], Any], name: str, kind: str) -> Any:
    """Defaults may be given as text.  Raises IllegalFlagValueError if it is not of the flag's type."""
    if default is None or isinstance(default, bool):
        return default
    try:
        return parse(str(default))
    except ValueError as error:
        raise IllegalFlagValueError(
            f"flag --{name}={default}: {error}; it is the default of {kind}"
        ) from None


def DEFINE_string(
    name: str,
    default: Any,
    help: str | None,
    flag_values: FlagValues | None = None,
    short_name: str | None = None,
) -> None:
    """A flag of any text."""
    _define(Flag(name, str, default, help or "", "a string", short_name=short_name), flag_values)


def DEFINE_integer(
    name: str,
    default: Any,
    help: str | None,
    lower_bound: int | None = None,
    upper_bound: int | None = None,
    flag_values: FlagValues | None = None,
    short_name: str | None = None,
) -> None:
    """A flag of a whole number; ``0x10`` is one too."""
    parse = _bounded(_integer, lower_bound, upper_bound, "integer")
    value = _typed(default, parse, name, "an integer")
    _define(Flag(name, parse, value, help or "", "an integer", short_name=short_name), flag_values)


def DEFINE_float(
    name: str,
    default: Any,
    help: str | None,
    lower_bound: float | None = None,
    upper_bound: float | None = None,
    flag_values: FlagValues | None = None,
    short_name: str | None = None,
) -> None:
    """A flag of a number."""
    parse = _bounded(float, lower_bound, upper_bound, "number")
    value = _typed(default, parse, name, "a number")
    value = float(value) if isinstance(value, int) else value
    _define(Flag(name, parse, value, help or "", "a number", short_name=short_name), flag_values)


def _range(low: float | None, high: float | None) -> str:
    if low is not None and high is not None:
        return f"in the range [{low}, {high}]"
    return f">= {low}" if low is not None else f"<= {high}"


def _bounded(
    parse: Callable[[str], Any], low: float | None, high: float | None, kind: str
) -> Callable[[str], Any]:
    def checked(given: str) -> Any:
        value = parse(given)
        if (low is not None and value < low) or (high is not None and value > high):
            raise ValueError(f"{given} is not {kind} {_range(low, high)}")
        return value

    return checked


def DEFINE_boolean(
    name: str,
    default: Any,
    help: str | None,
    flag_values: FlagValues | None = None,
    short_name: str | None = None,
) -> None:
    """A flag that is on or off."""
    value = _typed(default, _boolean, name, "true or false")
    _define(
        Flag(name, _boolean, value, help or "", "a boolean", boolean=True, short_name=short_name),
        flag_values,
    )


DEFINE_bool = DEFINE_boolean


def DEFINE_enum(
    name: str,
    default: Any,
    enum_values: Sequence[str],
    help: str | None,
    flag_values: FlagValues | None = None,
    short_name: str | None = None,
) -> None:
    """A flag of one of the given words."""
    if not enum_values:
        raise ValueError(f'enum_values cannot be empty, found "{enum_values}"')
    kind = f"one of {', '.join(enum_values)}"

    def parse(given: str) -> str:
        if given not in enum_values:
            raise ValueError(f"value should be one of <{'|'.join(enum_values)}>")
        return given

    value = _typed(default, parse, name, kind)
    _define(Flag(name, parse, value, help or "", kind, short_name=short_name), flag_values)


def DEFINE_list(
    name: str,
    default: Any,
    help: str | None,
    flag_values: FlagValues | None = None,
    short_name: str | None = None,
) -> None:
    """A flag of words separated by commas."""
    value = _list(default) if isinstance(default, str) else default
    _define(Flag(name, _list, value, help or "", "a list", short_name=short_name), flag_values)


def _define_multi(
    name: str,
    parse: Callable[[str], Any],
    default: Any,
    help: str | None,
    kind: str,
    flag_values: FlagValues | None,
) -> None:
    if default is not None and (isinstance(default, str) or not isinstance(default, Sequence)):
        default = [default]
    value = None if default is None else [_typed(each, parse, name, kind) for each in default]
    _define(Flag(name, parse, value, help or "", kind, multiple=True), flag_values)


def DEFINE_multi_string(
    name: str, default: Any, help: str | None, flag_values: FlagValues | None = None
) -> None:
    """A flag that may be given several times; its value is a list."""
    _define_multi(name, str, default, help, "a string, repeatedly", flag_values)


def DEFINE_multi_integer(
    name: str, default: Any, help: str | None, flag_values: FlagValues | None = None
) -> None:
    """A flag that may be given several times; its value is a list."""
    _define_multi(name, _integer, default, help, "an integer, repeatedly", flag_values)


def DEFINE_multi_float(
    name: str, default: Any, help: str | None, flag_values: FlagValues | None = None
) -> None:
    """A flag that may be given several times; its value is a list."""
    _define_multi(name, float, default, help, "a number, repeatedly", flag_values)


def register_validator(
    flag_name: str,
    checker: Callable[[Any], Any],
    message: str = "Flag validation failed",
    flag_values: FlagValues | None = None,
) -> None:
    """Refuse values for which checker(value) is false or raises an `Error`."""
    flags = FLAGS if flag_values is None else flag_values
    flag = flags[flag_name]

    def check() -> str | None:
        try:
            fine = checker(flag.value)
        except Error as error:
            return f"--{flag_name}={flag.value}: {error}"
        return None if fine else f"--{flag_name}={flag.value}: {message}"

    flags.add_validator([flag_name], check)


def mark_flag_as_required(flag_name: str, flag_values: FlagValues | None = None) -> None:
    """Refuse a command line without it."""
    flags = FLAGS if flag_values is None else flag_values
    flag = flags[flag_name]
    flag.required = True
    flags.add_validator(
        [flag_name],
        lambda: (
            f"flag --{flag_name}=None: Flag --{flag_name} must have a value other than None: it is required"
            if flag.value is None
            else None
        ),
    )


def mark_flags_as_required(
    flag_names: Sequence[str], flag_values: FlagValues | None = None
) -> None:
    """Refuse a command line without any of them."""
    for name in flag_names:
        mark_flag_as_required(name, flag_values)
