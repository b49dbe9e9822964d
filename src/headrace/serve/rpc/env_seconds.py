"""Times that the environment sets.

Called by: what keeps them, serve.server.
"""

from __future__ import annotations

import os

from headrace.base import errors

_MOST_S = 1e6


def seconds_of(variable: str, default_s: float, at_zero: str) -> float | None:
    """What a variable of the environment says, else `default_s`; None for 0, which means `at_zero`.

    Raises InvalidArgument for what is no number of seconds.
    """
    text = os.environ.get(variable, "").strip()
    try:
        seconds = float(text) if text else default_s
    except ValueError:
        seconds = -1.0
    if not 0 <= seconds < _MOST_S:
        raise errors.invalid_argument(
            f"{variable}={text!r} is not a number of seconds (0: {at_zero})"
        )
    return seconds or None
