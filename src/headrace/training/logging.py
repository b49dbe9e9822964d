"""`tf.logging`: functions on the logger that all of headrace logs to, named ``headrace``.

Where `import tensorflow` gives headrace, the functions have the logger named ``tensorflow``, which programs look for
and set up, and what headrace logs arrives there too.

The first call here gives that logger a handler on stderr, unless the program has set up logging
itself; until then, and in programs that never call it, nothing about logging is touched.
Called by: programs, training.  Threads: any.
"""

from __future__ import annotations

import itertools
import logging
import sys
import threading
from collections import defaultdict
from typing import Any, Final

DEBUG: Final = logging.DEBUG
INFO: Final = logging.INFO
WARN: Final = logging.WARNING
ERROR: Final = logging.ERROR
FATAL: Final = logging.CRITICAL

_ROOT: Final = __name__.partition(".")[0]
_lock = threading.Lock()
_counters: defaultdict[tuple[str, int], itertools.count[int]] = defaultdict(
    itertools.count
)  # by file, line
_CALLER: Final = 3  # stack levels from a log record's maker to the program's own line


def get_logger() -> logging.Logger:
    """The logger; with a handler, if neither it nor the root logger has one."""
    logger = logging.getLogger(_name())
    with _lock:
        if not logger.handlers and not logging.getLogger().handlers:
            handler = logging.StreamHandler()
            handler.setFormatter(logging.Formatter(logging.BASIC_FORMAT))
            logger.addHandler(handler)
    return logger


def _name() -> str:
    """What the program knows headrace as."""
    known_as = sys.modules.get("tensorflow")
    return "tensorflow" if known_as is sys.modules[_ROOT] else _ROOT


def log(level: int, msg: Any, *args: Any, **kwargs: Any) -> None:
    """Log `msg % args`."""
    _log(level, msg, args, kwargs)


def debug(msg: Any, *args: Any, **kwargs: Any) -> None:
    """Log at DEBUG."""
    _log(DEBUG, msg, args, kwargs)


def info(msg: Any, *args: Any, **kwargs: Any) -> None:
    """Log at INFO."""
    _log(INFO, msg, args, kwargs)


def warning(msg: Any, *args: Any, **kwargs: Any) -> None:
    """Log at WARN."""
    _log(WARN, msg, args, kwargs)


warn = warning


def error(msg: Any, *args: Any, **kwargs: Any) -> None:
    """Log at ERROR."""
    _log(ERROR, msg, args, kwargs)


def fatal(msg: Any, *args: Any, **kwargs: Any) -> None:
    """Log at FATAL.  The program goes on."""
    _log(FATAL, msg, args, kwargs)


def _log(level: int, msg: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
    above = kwargs.pop("stacklevel", 1) - 1
    get_logger().log(level, msg, *args, stacklevel=_CALLER + above, **kwargs)


def log_every_n(level: int, msg: Any, n: int, *args: Any) -> None:
    """Log at the first call from this line of the program and at every nth after it."""
    if _calls_before() % n == 0:
        _log(level, msg, args, {})


def log_first_n(level: int, msg: Any, n: int, *args: Any) -> None:
    """Log at the first n calls from this line of the program."""
    if _calls_before() < n:
        _log(level, msg, args, {})


def _calls_before() -> int:
    """How often the line that calls the function which asks has called it already."""
    line = sys._getframe(2)
    with _lock:
        return next(_counters[line.f_code.co_filename, line.f_lineno])


def log_if(level: int, msg: Any, condition: Any, *args: Any) -> None:
    """Log if `condition` holds."""
    if condition:
        _log(level, msg, args, {})


def vlog(level: int, msg: Any, *args: Any, **kwargs: Any) -> None:
    """Log at a numeric level."""
    _log(level, msg, args, kwargs)


def TaskLevelStatusMessage(msg: Any) -> None:
    """Log at ERROR."""
    _log(ERROR, msg, (), {})


def flush() -> None:
    """Write out what handlers hold back."""
    for handler in get_logger().handlers:
        handler.flush()


def get_verbosity() -> int:
    """The least level that is shown."""
    return get_logger().getEffectiveLevel()


def set_verbosity(v: int) -> None:
    """Show records of level `v` and above."""
    get_logger().setLevel(v)
