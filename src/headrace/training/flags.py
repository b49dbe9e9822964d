"""Command-line flags: `tf.flags`, `tf.app.flags`.

They are absl's, as TensorFlow 1.x's are, so that libraries which define flags by `absl.flags` and programs which do by
`tf.flags` share one set.  Two things are added: the older names of arguments (``flag_name``, ``default_value``,
``docstring``), and that the first read of a flag parses the command line; what it does not know stays in the program's
arguments.
Called by: programs, training.app.  Threads: flags are defined and parsed by one.
"""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable, Iterator
from typing import Any

from absl import flags as _absl

_OLD_NAMES = {"flag_name": "name", "default_value": "default", "docstring": "help"}


def _with_old_names(define: Callable[..., Any]) -> Callable[..., Any]:
    """The function, which takes its arguments by their older names too."""

    @functools.wraps(define)
    def defined(*args: Any, **kwargs: Any) -> Any:
        return define(*args, **{_OLD_NAMES.get(name, name): kwargs[name] for name in kwargs})

    return defined


_absl.disclaim_key_flags()  # whom help names as the one who defined a flag is who called us


DEFINE_string = _with_old_names(_absl.DEFINE_string)
DEFINE_boolean = _with_old_names(_absl.DEFINE_boolean)
DEFINE_bool = DEFINE_boolean
DEFINE_float = _with_old_names(_absl.DEFINE_float)
DEFINE_integer = _with_old_names(_absl.DEFINE_integer)


class ProgramFlags:
    """absl's FLAGS; reading a flag before the command line was parsed parses ``sys.argv``."""

    def __init__(self, values: _absl.FlagValues) -> None:
        object.__setattr__(self, "_values", values)

    def __getattr__(self, name: str) -> Any:
        values: _absl.FlagValues = object.__getattribute__(self, "_values")
        if name in values and not values.is_parsed():
            values(sys.argv, known_only=True)
        return getattr(values, name)

    def __setattr__(self, name: str, value: Any) -> None:
        setattr(self._values, name, value)

    def __delattr__(self, name: str) -> None:
        delattr(self._values, name)

    def __getitem__(self, name: str) -> Any:
        return self._values[name]

    def __setitem__(self, name: str, flag: Any) -> None:
        self._values[name] = flag

    def __contains__(self, name: str) -> bool:
        return name in self._values

    def __iter__(self) -> Iterator[str]:
        return iter(self._values)

    def __len__(self) -> int:
        return len(self._values)

    def __call__(self, argv: Any, known_only: bool = False) -> list[str]:
        return list(self._values(argv, known_only))

    def __dir__(self) -> list[str]:
        return dir(self._values)

    def __str__(self) -> str:
        return str(self._values)


FLAGS = ProgramFlags(_absl.FLAGS)
