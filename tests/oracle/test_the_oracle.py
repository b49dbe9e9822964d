"""The oracle's process: a crash of TensorFlow's is asked about once more, and not for ever."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

CRASHES = """
import os, signal
if not os.path.exists(flag) or always:
    open(flag, "w").close()
    os.kill(os.getpid(), signal.SIGSEGV)
result = 7
"""


def test_a_crash_is_asked_about_once_more(oracle: Any, tmp_path: Path) -> None:
    assert oracle.run(CRASHES, flag=str(tmp_path / "crashed"), always=False) == 7


def test_what_always_crashes_says_so_and_the_next_one_is_answered(
    oracle: Any, tmp_path: Path
) -> None:
    with pytest.raises(RuntimeError, match=re.escape("ended with code -11")):
        oracle.run(CRASHES, flag=str(tmp_path / "crashed"), always=True)
    assert oracle.run("result = 1 + 1") == 2


def test_a_process_that_ends_by_itself_is_not_asked_again(oracle: Any, tmp_path: Path) -> None:
    ends = "import os\nopen(flag, 'a').write('x')\nos._exit(3)"
    flag = tmp_path / "ended"
    with pytest.raises(RuntimeError, match=re.escape("ended with code 3")):
        oracle.run(ends, flag=str(flag))
    assert flag.read_text() == "x"
