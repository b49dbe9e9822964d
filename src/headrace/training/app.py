"""`tf.app.run`: parse the flags, call the program's `main`, exit with what it returns.

As absl's `app.run`, which TensorFlow's is; but it changes nothing about logging, and defines no flags that a program of
1.x may have for itself, such as log_dir.
Called by: programs.  Threads: the main one.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any, Never, TextIO

from absl.flags import BooleanFlag, DEFINE_flag, Error, text_wrap

from headrace.training.flags import FLAGS


class _Asked(BooleanFlag):
    """A flag that ends the program when it is read, after what it is for.  absl's of its name may come instead."""

    def __init__(
        self, name: str, help_text: str, answer: Callable[[], int], short_name: str | None = None
    ) -> None:
        super().__init__(
            name, False, help_text, short_name, allow_hide_cpp=True, allow_override=True
        )
        self._answer = answer

    def parse(self, argument: Any) -> None:
        """Raises SystemExit."""
        super().parse(argument)
        if self.value:
            sys.exit(self._answer())


def run(main: Callable[[list[str]], Any] | None = None, argv: Sequence[str] | None = None) -> Never:
    """Call `main` (default: that of the program) with argv[0] and the arguments that are no flags.

    Flags that nobody defined are passed on to it.  ``--help`` lists the program's flags, ``--helpfull`` all,
    ``--helpxml`` as XML; ``--only_check_args`` parses them and does nothing.
    Raises SystemExit with what main returns; with 1 and a message on stderr for bad flags, or when main raises absl's
    UsageError.
    """
    words = list(sys.argv if argv is None else argv)
    if main is None:
        main = sys.modules["__main__"].main
        assert main is not None
    _define_flags()
    try:
        rest = FLAGS(words, known_only=True)
    except Error as error:
        said = str(error)
        said = "\n  " + said.replace("\n", "\n  ") if "\n" in said else " " + said
        print(f"FATAL Flags parsing error:{said}", file=sys.stderr)
        print("Pass --helpshort or --helpfull to see help on flags.", file=sys.stderr)
        sys.exit(1)
    if FLAGS["only_check_args"].value:
        sys.exit(0)
    try:
        sys.exit(main(rest))
    except Exception as error:
        absl_app = sys.modules.get("absl.app")
        if absl_app is None or not isinstance(error, absl_app.UsageError):
            raise
        _show_usage(sys.stderr, FLAGS.main_module_help(), f"\n{error}\n")
        sys.exit(error.exitcode)


def _define_flags() -> None:
    """Those that every program has, but what it defines itself."""
    short = "show this help"
    for flag in (
        _Asked("help", short, _show_short_help, "?"),
        _Asked("helpshort", short, _show_short_help),
        _Asked("helpfull", "show full help", _show_full_help),
        _Asked("helpxml", "like --helpfull, but generates XML output", _show_xml),
        BooleanFlag(
            "only_check_args",
            False,
            "Set to true to validate args and exit.",
            allow_hide_cpp=True,
            allow_override=True,
        ),
    ):
        if flag.name not in FLAGS:
            values: Any = FLAGS  # which are absl's, in what they do
            DEFINE_flag(flag, values)


def _show_usage(to: TextIO, listed: str, more: str = "") -> None:
    """The program's docstring, its flags, and `more`."""
    text = sys.modules["__main__"].__doc__
    if text:
        places = text.count("%") - 2 * text.count("%%")
        with suppress(OverflowError, TypeError, ValueError):  # it is no pattern: as it is
            text %= (sys.argv[0],) * places
    else:
        text = text_wrap(f"\nUSAGE: {sys.argv[0]} [flags]\n", None, "       ", "")
    flags = f"\nflags:\n{listed}" if listed else ""
    to.write(f"{text}{flags}\n{more}")


def _show_short_help() -> int:
    _show_usage(
        sys.stdout,
        FLAGS.main_module_help(),
        "\nTry --helpfull to get a list of all flags.\n",
    )
    return 1


def _show_full_help() -> int:
    _show_usage(sys.stdout, FLAGS.get_help())
    return 1


def _show_xml() -> int:
    FLAGS.write_help_in_xml_format(sys.stdout)
    return 1
