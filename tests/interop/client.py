"""A client process: `client.py headrace|tensorflow`.  Runs in a Python that has what it is asked for.

Reads (area, case, where) from stdin, runs that case of tests/interop/scripts in a fresh default graph, writes
(True, result) or (False, (class, message, node, trace)) to what was stdout; what a case prints goes to stderr.
"""

import importlib
import os
import pickle
import struct
import sys
import traceback

replies = os.fdopen(os.dup(1), "wb")
os.dup2(2, 1)

if sys.argv[1] == "tensorflow":
    import tensorflow.compat.v1 as tf

    tf.disable_v2_behavior()
    tf.disable_resource_variables()
    from tensorflow.core.framework.attr_value_pb2 import AttrValue
    from tensorflow.core.protobuf.config_pb2 import CallableOptions
    from tensorflow.python.client.timeline import Timeline
else:
    import headrace as tf
    from headrace.codec.protos import AttrValue, CallableOptions
    from headrace.python.client.timeline import Timeline

from tests.interop.scripts.table import Here, plain  # noqa: E402


def main():
    requests = sys.stdin.buffer
    while len(head := requests.read(8)) == 8:
        area, case, where = pickle.loads(requests.read(struct.unpack("<Q", head)[0]))
        reply = pickle.dumps(answer(area, case, where))
        replies.write(struct.pack("<Q", len(reply)) + reply)
        replies.flush()
    os._exit(0)  # sessions that a failed case left open are its servers' business


def answer(area, case, where):
    protos = {"callable_options": CallableOptions, "attr_value": AttrValue}
    here = Here(**where, timeline=Timeline, **protos)
    tf.reset_default_graph()
    try:
        table = importlib.import_module(f"tests.interop.scripts.{area}").TABLE
        if case in table.parts:
            return True, plain(table.parts[case](tf, here))
        # As after a restart: no variables, no queues, no sessions of earlier cases.
        for target in (here.worker, here.ps):
            tf.Session.reset(target)
        return True, plain(table.cases[case].run(tf, here))
    except Exception as error:
        message = getattr(error, "message", None) or str(error)
        node = getattr(getattr(error, "op", None), "name", None)
        return False, (type(error).__name__, message, node, traceback.format_exc())


main()
