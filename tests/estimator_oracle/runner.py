"""One program text under headrace and under TensorFlow 2.15: what it leaves in `result` is the same.

    agree("result = tf.estimator.Estimator(model_fn, folder).train(…)")

A program has `tf`, `np`, `os`, `folder` (a fresh directory of its side), what `HELPERS` defines, and what the test
gives.  It runs in a fresh default graph.  `result` is made of what JSON has; arrays, NumPy's scalars, bytes, tuples and
sets become that on their way.  headrace's side runs in this process, TensorFlow's in one that lives as long as the
tests, of which this file is the program, so that it imports neither headrace nor pytest.
"""

import json
import os
import shutil
import struct
import subprocess
import sys
import traceback

HELPERS = '''
def attempt(function, phrase=""):
    """What it gives, or the class of its error and whether its message has the phrase."""
    try:
        return {"value": function()}
    except Exception as error:
        said = getattr(error, "message", None) or str(error)
        return {"error": type(error).__name__, "says": phrase if phrase and phrase in said else said}

def files(folder, *, events=False):
    """Relative paths of what lies in a folder; event files by the start of their names, if at all."""
    found = []
    for place, _, names in os.walk(folder):
        for name in names:
            if "tfevents" in name:
                if not events:
                    continue
                name = "events"
            found.append(os.path.relpath(os.path.join(place, name), folder))
    return sorted(found)

def checkpoints(folder):
    """The names of checkpoints that the folder lists, oldest first."""
    state = tf.train.get_checkpoint_state(folder)
    return [] if state is None else [os.path.basename(each) for each in state.all_model_checkpoint_paths]

def variables(path):
    """Name -> value, of a checkpoint."""
    reader = tf.train.load_checkpoint(path)
    return {name: reader.get_tensor(name) for name in sorted(reader.get_variable_to_shape_map())}

def scalars(folder):
    """[step, tag, value] of each scalar summary in a folder's event files, in their order."""
    found = []
    for name in sorted(os.listdir(folder)):
        if "tfevents" in name:
            for event in tf.train.summary_iterator(os.path.join(folder, name)):
                for value in event.summary.value:
                    if value.HasField("simple_value"):
                        found.append([event.step, value.tag, value.simple_value])
    return found
'''


def plain(value):
    """`value`, made of what JSON has."""
    if isinstance(value, dict):
        return {
            plain(key) if isinstance(key, (str, bytes)) else str(key): plain(each)
            for key, each in value.items()
        }
    if isinstance(value, (list, tuple)):
        return [plain(each) for each in value]
    if isinstance(value, (set, frozenset)):
        return sorted(plain(each) for each in value)
    if isinstance(value, bytes):
        return value.decode("latin-1")
    if value is None or isinstance(value, (bool, int, float, str)):
        return value
    if hasattr(value, "tolist"):
        return plain(value.tolist())
    raise TypeError(
        f"{type(value).__name__} is nothing that a program's result can hold: {value!r}"
    )


def executed(program, tf, folder, inputs):
    """What the program leaves in `result`, made of what JSON has."""
    import numpy as np

    os.makedirs(folder, exist_ok=True)
    names = {"tf": tf, "np": np, "os": os, "folder": folder, "__name__": "program", **inputs}
    with tf.Graph().as_default():
        exec(compile(HELPERS, "<helpers>", "exec"), names)
        try:
            exec(compile(program, "<program>", "exec"), names)
        finally:
            tf.summary.FileWriterCache.clear()
    return plain(names["result"])


class TheirProgramError(Exception):
    """The program raised under TensorFlow."""


class Peer:
    """TensorFlow's process: each request is a JSON message behind its length, and so is each answer."""

    def __init__(self, python):
        env = {**os.environ, "TF_CPP_MIN_LOG_LEVEL": "3", "CUDA_VISIBLE_DEVICES": "-1"}
        env.pop("TF_CONFIG", None)
        self.python = python
        self._process = subprocess.Popen(
            [python, __file__], stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=env
        )

    def run(self, program, folder, inputs):
        """`result` there.  Raises TheirProgramError."""
        write(self._process.stdin, [program, folder, inputs])
        answer = read(self._process.stdout)
        if answer is None:
            raise TheirProgramError(f"its process ended with code {self._process.wait()}")
        if "error" in answer:
            raise TheirProgramError(answer["error"])
        return answer["result"]

    def close(self):
        """It ends when nobody can ask any more."""
        self._process.stdin.close()
        self._process.wait()
        self._process.stdout.close()


class Both:
    """Runs programs on both sides, each time in folders `ours` and `theirs` of a new one."""

    def __init__(self, peer, root):
        self.peer = peer
        self._root = root
        self._count = 0

    def __call__(self, program, **inputs):
        """(our result, theirs)."""
        import headrace as tf

        self._count += 1
        folder = os.path.join(self._root, str(self._count))
        inputs = plain(inputs)
        ours = executed(program, tf, os.path.join(folder, "ours"), inputs)
        theirs = self.peer.run(program, os.path.join(folder, "theirs"), inputs)
        shutil.rmtree(folder, ignore_errors=True)
        return json.loads(json.dumps(ours)), theirs

    def agree(self, program, rtol=1e-5, atol=1e-6, **inputs):
        """Both results, compared: numbers nearly, the rest exactly.  Returns ours."""
        ours, theirs = self(program, **inputs)
        found = list(differences(ours, theirs, rtol, atol, "result"))
        assert not found, "\n".join(found)
        return ours


def differences(ours, theirs, rtol, atol, where):
    """A line for each place in which two results differ."""
    if isinstance(ours, dict) and isinstance(theirs, dict):
        if ours.keys() != theirs.keys():
            yield f"{where}: keys are {sorted(ours)}, and theirs {sorted(theirs)}"
        for key in ours.keys() & theirs.keys():
            yield from differences(ours[key], theirs[key], rtol, atol, f"{where}[{key!r}]")
    elif isinstance(ours, list) and isinstance(theirs, list):
        if len(ours) != len(theirs):
            yield f"{where}: has {len(ours)} items, and theirs {len(theirs)}:\n  {ours}\n  {theirs}"
        for at, (a, b) in enumerate(zip(ours, theirs, strict=False)):
            yield from differences(a, b, rtol, atol, f"{where}[{at}]")
    elif isinstance(ours, float) and isinstance(theirs, float):
        if (
            ours != theirs
            and not (ours != ours and theirs != theirs)
            and not abs(ours - theirs) <= atol + rtol * abs(theirs)
        ):
            yield f"{where}: {ours!r}, and theirs {theirs!r}"
    elif type(ours) is not type(theirs) or ours != theirs:
        yield f"{where}: {ours!r}, and theirs {theirs!r}"


def write(stream, message):
    """A message behind its length."""
    data = json.dumps(message).encode()
    stream.write(struct.pack("<Q", len(data)) + data)
    stream.flush()


def read(stream):
    """The next message; None at the end."""
    head = stream.read(8)
    return None if len(head) < 8 else json.loads(stream.read(struct.unpack("<Q", head)[0]))


def serve():
    """The other end of `Peer`; what programs print goes to stderr."""
    answers = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)
    import tensorflow.compat.v1 as tf

    tf.disable_v2_behavior()
    tf.disable_resource_variables()
    tf.logging.set_verbosity(tf.logging.ERROR)
    while (request := read(sys.stdin.buffer)) is not None:
        program, folder, inputs = request
        try:
            answer = {"result": executed(program, tf, folder, inputs)}
        except Exception:
            answer = {"error": traceback.format_exc()}
        write(answers, answer)


if __name__ == "__main__":
    serve()
