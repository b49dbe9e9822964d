"""Random ops under every kind of seed, two runs in a row: the draws are TensorFlow's.

One table, TABLE: an op, and the arguments that it is asked with.  Each is in a graph of a graph seed only, of an op
seed only, of both, and of none that is zero; integers and texts are the same, floats to rounding.  Public functions
are in programs/random*.txt, candidates.txt and others.  An op that draws and is not in the table fails.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import headrace as hr
from headrace.graph.registry import OPS

# The same source runs on both sides, so it knows nothing of either.
TABLE = '''
FLOATS = (tf.float16, tf.bfloat16, tf.float32, tf.float64)
SHAPES = [np.array(each, np.int32) for each in ([], [0], [1], [7], [2, 3], [1500])]
LOGITS = [[0.5, 2.0, -1.0, 0.0], [-3.0, -3.0, 9.0, 9.5]]
TRUE = np.array([[1, 2], [3, 0]], np.int64)
BOXES = [[[0.1, 0.2, 0.8, 0.9], [0.5, 0.0, 1.0, 0.5]]]
IMAGES = np.random.RandomState(0).randn(2, 11, 13, 2).astype(np.float32)
KEY, COUNTER = np.array([7], np.uint64), np.array([0, 9], np.uint64)

def i64(x):
    return np.array(x, np.int64)

SEEDED = {
    "RandomUniform RandomStandardNormal TruncatedNormal": [
        *(dict(shape=shape, dtype=kind) for shape in SHAPES for kind in FLOATS),
        dict(shape=i64([5]), dtype=tf.float32),
    ],
    "RandomUniformInt": [
        dict(shape=shape, minval=np.array(a, kind), maxval=np.array(b, kind))
        for kind in (np.int32, np.int64) for a, b in ((0, 10), (-5, 2), (-2**31, 2**31 - 1)) for shape in SHAPES
    ],
    "RandomShuffle": [
        *(
            dict(value=np.arange(n * 2).reshape(n, 2).astype(kind))
            for n in (0, 1, 2, 300) for kind in ("f4", "i8", "?")
        ),
        dict(value=[b"a", b"b", b"c", b"d"]), dict(value=7), dict(value=np.zeros([3, 0], np.float32)),
    ],
    "Multinomial": [
        dict(logits=np.array(LOGITS, kind), num_samples=n, output_dtype=out)
        for kind in ("f2", "f4", "f8") for n in (0, 1, 50) for out in (tf.int32, tf.int64)
    ],
    "RandomPoissonV2": [
        dict(shape=shape, rate=np.array(rate, kind), dtype=out)
        for shape in SHAPES[::3] for rate in (0.25, [3.0, 12.0, 150.0]) for kind in ("f2", "f4", "f8")
        for out in (tf.float16, tf.float32, tf.float64, tf.int32, tf.int64)
    ] + [dict(shape=[30], rate=np.array([4, 70], kind), dtype=tf.int64) for kind in ("i4", "i8")]
    + [dict(shape=[5], rate=np.linspace(0, 25, 4000), dtype=tf.float64)],
    "RandomGamma": [
        dict(shape=shape, alpha=np.array(alpha, kind))
        for shape in (*SHAPES[::3], i64([40])) for alpha in (0.3, [1.0, 2.5, 40.0]) for kind in ("f2", "f4", "f8")
    ] + [dict(shape=i64([5]), alpha=np.linspace(0.01, 3, 4000))],
    "SampleDistortedBoundingBox": [
        dict(image_size=np.array([40, 30, 3], kind), bounding_boxes=BOXES) for kind in ("i4", "i8", "u1")
    ] + [dict(image_size=[400, 300, 3], bounding_boxes=BOXES, min_object_covered=0.6, area_range=[0.3, 1.0])],
    "SampleDistortedBoundingBoxV2": [
        dict(image_size=[40, 30, 3], bounding_boxes=BOXES, min_object_covered=share) for share in (0.1, 0.7)
    ],
    "UniformCandidateSampler LogUniformCandidateSampler LearnedUnigramCandidateSampler": [
        dict(true_classes=TRUE, num_true=2, num_sampled=n, unique=unique, range_max=most)
        for n, most in ((4, 5), (9, 4000)) for unique in (False, True)
    ],
    "AllCandidateSampler": [dict(true_classes=TRUE, num_true=2, num_sampled=7, unique=True)],
    "FixedUnigramCandidateSampler": [
        dict(true_classes=TRUE, num_true=2, num_sampled=3, unique=unique, range_max=5, distortion=distortion,
             unigrams=[1.0, 2.0, 3.0, 4.0, 1.0])
        for unique in (False, True) for distortion in (1.0, 0.75)
    ],
    "FractionalMaxPool FractionalAvgPool": [
        dict(value=IMAGES.astype(kind), pooling_ratio=[1.0, 1.44, 1.73, 1.0], pseudo_random=pseudo, overlapping=True,
             deterministic=True)
        for kind in ("f4", "f8") for pseudo in (False, True)
    ],
}
STATELESS = {
    "StatelessRandomUniform StatelessRandomNormal StatelessTruncatedNormal": [
        dict(shape=shape, seed=seed, dtype=kind)
        for shape in SHAPES for kind in FLOATS for seed in ([1, 2], i64([-1, 7]))
    ],
    "StatelessRandomUniformV2 StatelessRandomNormalV2 StatelessTruncatedNormalV2": [
        dict(shape=shape, key=KEY, counter=COUNTER, alg=1, dtype=kind) for shape in SHAPES for kind in FLOATS
    ],
    "StatelessRandomUniformInt": [
        dict(shape=shape, seed=[3, 4], minval=np.array(-5, kind), maxval=np.array(90, kind))
        for shape in SHAPES for kind in ("i4", "i8")
    ],
    "StatelessRandomUniformIntV2": [
        dict(shape=shape, key=KEY, counter=COUNTER, alg=1, minval=np.array(5, kind), maxval=np.array(90, kind))
        for shape in SHAPES for kind in ("i4", "i8")
    ],
    "StatelessRandomUniformFullInt": [
        dict(shape=shape, seed=[3, 4], dtype=kind)
        for shape in SHAPES for kind in (tf.int32, tf.int64, tf.uint32, tf.uint64)
    ],
    "StatelessRandomUniformFullIntV2": [
        dict(shape=shape, key=KEY, counter=COUNTER, alg=1, dtype=kind)
        for shape in SHAPES for kind in (tf.int32, tf.int64, tf.uint32, tf.uint64)
    ],
    "StatelessMultinomial": [
        dict(logits=np.array(LOGITS, kind), num_samples=n, seed=[5, 6], output_dtype=out)
        for kind in ("f2", "f4", "f8") for n in (0, 1, 50) for out in (tf.int32, tf.int64)
    ],
    "StatelessRandomGetKeyCounter": [dict(seed=[1, 2]), dict(seed=i64([-9, 2**40]))],
}

def drawn(table, graph_seed, op_seed):
    """Per row the draws of two runs; and the queues'."""
    with tf.Graph().as_default() as graph:
        if graph_seed is not None:
            tf.set_random_seed(graph_seed)
        rows, wanted = [], []
        for names, asked in table.items():
            for name in names.split():
                for at, given in enumerate(asked):
                    if table is SEEDED:
                        seed, seed2 = tf.get_seed(op_seed)
                        given = dict(given, seed=seed or 0, seed2=seed2 or 0)
                    made = getattr(tf.raw_ops, name)(**given)
                    for tensor in made if isinstance(made, (list, tuple)) else [made]:
                        rows.append((name, at, tensor.dtype.name))
                        wanted.append(tensor)
        queues = []
        for old in (False, True) if table is SEEDED else ():
            seed, seed2 = tf.get_seed(op_seed)
            given = dict(component_types=[tf.int32], shapes=[[]], capacity=60, min_after_dequeue=3)
            make = tf.raw_ops.RandomShuffleQueue if old else tf.raw_ops.RandomShuffleQueueV2
            queue = make(**given, seed=seed or 0, seed2=seed2 or 0, shared_name="old" if old else "new")
            ops = "QueueEnqueueMany QueueDequeueMany".split()
            put, take = (getattr(tf.raw_ops, op + ("" if old else "V2")) for op in ops)
            filled = put(handle=queue, components=[np.arange(40, dtype=np.int32)])
            queues.append((filled, take(handle=queue, n=12, component_types=[tf.int32])[0]))
            rows.append((queue.op.type, 0, "int32"))
        kinds = {op.type for op in graph.get_operations()}
        with tf.Session() as session:
            session.run([filled for filled, _ in queues])
            runs = []
            for _ in range(2):
                values = [np.asarray(each) for each in session.run(wanted)]
                values += [session.run(taken) for _, taken in queues]
                runs.append([v.astype(np.float32) if row[2] == "bfloat16" else v for row, v in zip(rows, values)])
    return rows, runs, sorted(kinds)
'''
SEEDS = [(5, None), (None, 3), (5, 3), (0, 0), (2**40 + 1, 2**31 - 1)]
ROUNDING = {"float16": 2e-3, "bfloat16": 1.6e-2, "float32": 1e-5, "float64": 1e-11}
ASKED = f"[drawn(SEEDED, g, s) for g, s in {SEEDS}] + [drawn(STATELESS, None, None)]"

# None of these streams depends on threads, there or here.  What takes no seeds (the noise of ExtractGlimpse) has no
# stream that could be the same.
NO_DRAWS = {
    "ComputeAccidentalHits": "has seeds and draws nothing",
    "RandomGammaGrad": "has samples given",
    "StatelessRandomGetAlg": "says which generator",
    "AnonymousRandomSeedGenerator": "gives the handle of a generator of seeds",
    "DeleteRandomSeedGenerator": "gives nothing",
    "RandomDataset": "gives a dataset, whose numbers programs/datasets.txt compares",
    "ExperimentalRandomDataset": "the same op by its older name",
    "RandomPoisson": "TensorFlow refuses it in graphs as new as these; RandomPoissonV2 has its kernel",
}


def draws(name: str) -> bool:
    return "seed" in OPS[name].attrs or "Random" in name or name.startswith("StatelessTruncated")


def unlike(row: tuple[str, int, str], ours: Any, theirs: Any) -> bool:
    if ours.dtype != theirs.dtype or ours.shape != theirs.shape:
        return True
    if row[2] not in ROUNDING:
        return ours.tolist() != theirs.tolist()
    allowed = ROUNDING[row[2]]
    return not np.allclose(
        ours.astype(np.float64), theirs.astype(np.float64), rtol=allowed, atol=allowed
    )


@pytest.fixture(scope="module")
def asked() -> Any:
    names: dict[str, Any] = {"tf": hr, "np": np}
    exec(TABLE, names)
    return eval(ASKED, names)


def test_draws_are_those_of_tensorflow(oracle: Any, asked: Any) -> None:
    found = []
    for (rows, ours, _), (same_rows, theirs, _) in zip(
        asked, oracle.run(f"{TABLE}\nresult = {ASKED}"), strict=True
    ):
        assert rows == same_rows
        for run, (mine, other) in enumerate(zip(ours, theirs, strict=True)):
            pairs = zip(rows, mine, other, strict=True)
            found += [(row, run, a, b) for row, a, b in pairs if unlike(row, a, b)]
    assert not found


def test_every_op_that_draws_is_in_the_table(asked: Any) -> None:
    OPS.complete()
    seen = {kind for _, _, kinds in asked for kind in kinds}
    drawing = {name for name in OPS if draws(name)}
    assert sorted(drawing - seen) == sorted(NO_DRAWS)
