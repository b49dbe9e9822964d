"""Programs with command lines, each in a fork of a Python that has a library: what they print, and how they end.

`python command_lines.py MODULE` reads pairs of source and words as JSON from stdin, and writes [exit code, stdout,
stderr] of each to stdout.  The library is `tf` in the programs.
"""

import importlib
import json
import operator
import os
import sys
import tempfile
import traceback
import types
import unittest
import warnings

import numpy as np

WITHIN_S = 60
NEEDED = ("app.run", "flags.FLAGS", "ragged.constant", "test.TestCase", "test.compute_gradient")


def main():
    os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"
    warnings.simplefilter("ignore")
    tf = importlib.import_module(sys.argv[1])
    if sys.argv[1] != "headrace":
        tf.disable_v2_behavior()
    for name in NEEDED:  # imported once, and not in every fork
        operator.attrgetter(name)(tf)
    print(json.dumps([_outcome(tf, source, words) for source, words in json.load(sys.stdin)]))


def _outcome(tf, source, words):
    with tempfile.TemporaryDirectory() as folder:
        child = os.fork()
        if child == 0:
            _run(tf, source, words, folder)
        _, status = os.waitpid(child, 0)
        found = []
        for name in ("out", "err"):
            with open(os.path.join(folder, name), encoding="utf-8") as file:
                found.append(file.read().replace(folder, "FOLDER"))
        return [os.waitstatus_to_exitcode(status), *found]


def _run(tf, source, words, folder):
    """Be the program; ends the process."""
    import signal

    signal.alarm(WITHIN_S)
    os.chdir(folder)
    for number, name in ((1, "out"), (2, "err")):
        os.dup2(os.open(name, os.O_WRONLY | os.O_CREAT), number)
    sys.argv = ["program.py", *words]
    program = types.ModuleType("__main__")
    program.__file__, program.__doc__ = "program.py", None
    program.tf, program.np, program.unittest = tf, np, unittest
    sys.modules["__main__"] = program
    code = 0
    try:
        exec(compile(source, "program.py", "exec"), program.__dict__)
    except SystemExit as error:
        code = error.code
        if code is not None and not isinstance(code, int):
            print(code, file=sys.stderr)
            code = 1
    except BaseException:
        traceback.print_exc(limit=0)
        code = 1
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(int(code or 0) & 255)


if __name__ == "__main__":
    main()
