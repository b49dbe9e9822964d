"""What sessions say to callers who ask wrongly; the phrases that people search for are TensorFlow's.

Called by: client.session.  Threads: any.
"""

from __future__ import annotations

from typing import Any, Final

from headrace.base import errors

CLOSED: Final = "Attempted to use a closed Session; make a new tf.Session"
EMPTY: Final = "The Session graph is empty. Add operations to the graph before run()"


def not_a(kind: str, name: str, value: Any) -> TypeError:
    """The error for an argument `name` that is not of `kind` ("a string")."""
    return TypeError(f'Argument `{name}` must be {kind}, but got "{type(value).__name__}"')


def miscounted(wanted: int, given: int) -> errors.OpError:
    """The error for a callable of `wanted` feeds that is called with another number of values."""
    return errors.invalid_argument(
        f"the callable takes {wanted} values, one a feed, not {given}"
        if given > wanted
        else f"You must feed a value for placeholder tensor: the callable takes {wanted} values, not {given}"
    )
