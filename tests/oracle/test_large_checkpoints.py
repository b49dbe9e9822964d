"""Checkpoints of many tensors, and what `make large` does with large ones, beside TensorFlow's."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import headrace as tf
from headrace.graph.registry import get
from tests.large.checkpoints import trials


def test_what_one_writes_the_other_reads_and_writes_alike(
    tmp_path: Path, oracle_python: str
) -> None:
    found = dict(trials(tmp_path, 5_000_011, 3, oracle_python))
    assert len(found) == 6
    assert all(found.values()), found


MANY = """
names = [f"{'layer' * (at % 7)}/{at * 7919 % 10007}/variable" for at in range(count)]
parts = at_parts
with tf.Graph().as_default(), tf.Session() as session:
    tensors = [tf.constant(np.full([at % 3], at, np.int32)) for at in range(count)]
    specs = [""] * count
    for at in range(parts):
        names += ["cut"]
        specs += [f"{2 * parts} 1 {2 * at},2:-"]
        tensors += [tf.constant([[at], [at]], tf.int32)]
    order = sorted(range(len(names)), key=lambda at: at * 31 % len(names))
    pick = lambda listed: [listed[at] for at in order]
    if pieces == 1:
        session.run(op("SaveV2")(
            prefix=folder + "/m", tensor_names=pick(names), shape_and_slices=pick(specs), tensors=pick(tensors)
        ))
    else:
        prefixes = []
        for piece in range(pieces):
            mine = order[piece::pieces]
            prefixes.append(f"{folder}/m_temp/part-{piece:05d}-of-{pieces:05d}")
            session.run(op("SaveV2")(
                prefix=prefixes[-1], tensor_names=[names[at] for at in mine],
                shape_and_slices=[specs[at] for at in mine], tensors=[tensors[at] for at in mine],
            ))
        session.run(op("MergeV2Checkpoints")(checkpoint_prefixes=prefixes, destination_prefix=folder + "/m"))
result = None
"""


@pytest.mark.parametrize("count", [3, 97, 4000])
@pytest.mark.parametrize("pieces", [1, 3])
def test_indexes_of_many_blocks_are_the_same_byte_for_byte(
    oracle: Any, tmp_path: Path, count: int, pieces: int
) -> None:
    inputs = {"count": count, "pieces": pieces, "at_parts": min(count // pieces, 50)}
    for side in ("ours", "theirs"):
        (tmp_path / side).mkdir()
    oracle.run(
        f"def op(name): return getattr(tf.raw_ops, name)\n{MANY}",
        folder=str(tmp_path / "theirs"),
        **inputs,
    )
    exec(MANY, {"tf": tf, "np": np, "op": get, "folder": str(tmp_path / "ours"), **inputs})
    found = [
        {path.name: path.read_bytes() for path in (tmp_path / side).iterdir()}
        for side in ("ours", "theirs")
    ]
    assert found[0].keys() == found[1].keys()
    assert [name for name in found[0] if found[0][name] != found[1][name]] == []
    if count > 1000:
        assert len(found[0]["m.index"]) > 1 << 16  # more than a block
