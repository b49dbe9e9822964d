"""The oracle's half of test_operands.py: runs in TensorFlow's process, never in headrace's.

`evaluated(cases)`: for each case (a GraphDef, what to feed and fetch, rows of values) an outcome for each row:
("value", arrays), ("error", class name, message), or ("crash", status) where TensorFlow's process ended.  The work is
done in forks of this process, so that it goes on after a crash; so no session may have run in this process before.
"""

import os
import pathlib
import pickle
import resource
import signal
import struct

import numpy as np
import tensorflow.compat.v1 as tf
from tensorflow.core.protobuf import rewriter_config_pb2
from tensorflow.python.framework import error_interpolation

LIMIT_S = 2
PATIENCE_S = 8  # for the second time: a busy machine may not have come to it within the limit
# That is less than the ten seconds for which TensorFlow waits for memory that there is not.
MADE_WITHIN_S = 30
PLAIN = tf.ConfigProto(
    intra_op_parallelism_threads=1,
    inter_op_parallelism_threads=1,
    graph_options=tf.GraphOptions(
        rewrite_options=rewriter_config_pb2.RewriterConfig(disable_meta_optimizer=True),
        optimizer_options=tf.OptimizerOptions(opt_level=tf.OptimizerOptions.L0),
    ),
)


# Most rows are errors, and where a node was made is nothing that is compared: it takes a fifth of the time.
error_interpolation.interpolate_graph = lambda message, graph: message


def evaluated(cases):
    """Outcomes of all rows of all cases, in order."""
    found = [[] for _ in cases]
    case, again = 0, None
    while case < len(cases):
        row = len(found[case])
        limit_s = PATIENCE_S if again == (case, row) else LIMIT_S
        read, write = os.pipe()
        child = os.fork()
        if child == 0:
            os.close(read)
            _limit_memory()
            with os.fdopen(write, "wb") as replies:
                _run_from(cases, case, row, limit_s, replies)
            os._exit(0)
        os.close(write)
        with os.fdopen(read, "rb") as replies:
            while len(head := replies.read(8)) == 8:
                at, outcomes = pickle.loads(replies.read(struct.unpack("<Q", head)[0]))
                found[at] += outcomes
                case = at
        _, status = os.waitpid(child, 0)
        if status == 0:
            break
        case = next(at for at in range(case, len(cases)) if len(found[at]) < len(cases[at]["rows"]))
        place = case, len(found[case])
        if os.WTERMSIG(status) == signal.SIGALRM and place != again:
            again = place
            continue
        found[case].append(("crash", status))
        if len(found[case]) == len(cases[case]["rows"]):
            case += 1
    return found


def _limit_memory():
    """What wants more than there is fails, and the machine stays as it is."""
    pages = int(pathlib.Path("/proc/self/statm").read_text().split()[0])
    limit = pages * resource.getpagesize() + (1 << 31)
    resource.setrlimit(resource.RLIMIT_AS, (limit, limit))


def _run_from(cases, first, row, limit_s, replies):
    """limit_s: of the first row."""
    for at in range(first, len(cases)):
        for outcome in _outcomes(cases[at], row if at == first else 0, limit_s):
            reply = pickle.dumps((at, [outcome]))
            replies.write(struct.pack("<Q", len(reply)) + reply)
            replies.flush()
            limit_s = LIMIT_S


def _outcomes(case, first, limit_s):
    rows = case["rows"][first:]
    signal.alarm(MADE_WITHIN_S)  # ends the process
    try:
        graph = tf.Graph()
        with graph.as_default():
            tf.import_graph_def(tf.GraphDef.FromString(case["graph"]), name="")
            fetches = _wanted(graph, case)
            run = tf.Session(config=PLAIN).make_callable(fetches, feed_list=case["feeds"])
    except Exception as error:
        yield from [("build", type(error).__name__, str(error)[:300])] * len(rows)
        return
    for row in rows:
        signal.alarm(limit_s)
        outcome, limit_s = _outcome(run, row), LIMIT_S
        signal.alarm(0)
        yield outcome


def _wanted(graph, case):
    if not case["gradient"]:
        return case["fetches"]
    ys = [graph.get_tensor_by_name(name) for name in case["fetches"]]
    xs = [graph.get_tensor_by_name(name) for name in case["xs"]]
    found = tf.gradients(ys, xs)
    return [tf.convert_to_tensor(each) for each in found if each is not None]


def _outcome(run, row):
    try:
        values = run(*row)
    except tf.errors.OpError as error:
        return "error", type(error).__name__, error.message[:300]
    except Exception as error:
        return "untyped", type(error).__name__, str(error)[:300]
    return "value", [np.asarray(each) for each in values or [] if each is not None]
