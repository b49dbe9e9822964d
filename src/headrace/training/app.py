"""`tf.app.run`: parse the flags, call the program's `main`, exit with what it returns.

Called by: programs.  Threads: the main one.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from typing import Any, Never

from absl.flags import Error

from headrace.training.flags import FLAGS


def run(main: Callable[[list[str]], Any] | None = None, argv: Sequence[str] | None = None) -> Never:
    """Call `main` (default: that of the program) with argv[0] and the arguments that are no flags.

    Flags that nobody defined are passed on to it.  ``--help`` lists the flags.
    Raises SystemExit with what main returns; with 1 and a message on stderr for bad flags.
    """
    words = list(sys.argv if argv is None else argv)
    program = sys.modules["__main__"]
    if any(word in ("--help", "-help", "-h", "--helpfull", "--helpshort") for word in words[1:]):
        print((program.__doc__ or "").strip() or f"USAGE: {words[0]} [flags]")
        print("\nflags:\n" + FLAGS.get_help())
        sys.exit(1)
    try:
        rest = FLAGS(words, known_only=True)
    except Error as error:
        print(f"FATAL Flags parsing error: {error}\n(--help lists the flags)", file=sys.stderr)
        sys.exit(1)
    if main is None:
        main = program.main
        assert main is not None
    sys.exit(main(rest))
