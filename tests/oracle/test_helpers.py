"""What is Python rather than graph (files, nests, text) behaves as TensorFlow's: values, and kinds of errors."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import headrace as tf

SETUP = """
from collections import namedtuple, OrderedDict
P = namedtuple("P", "b a")
n, c, g = tf.nest, tf.compat, tf.gfile

def write(name, content, mode="w"):
    with g.GFile(name, mode) as file:
        file.write(content)

def moved(move, *names, **options):
    move(*[d + name for name in names], **options)
    return sorted(g.ListDirectory(d)), g.GFile(d + names[-1]).read()

def walked(**options):
    return [(top[len(d):], sorted(dirs), sorted(files)) for top, dirs, files in g.Walk(d, **options)]

g.MakeDirs(d + "/y/z")
write(d + "/a.txt", "ab\\ncd\\n\\xe9f")
write(d + "/y/2", "2")
write(d + "/y/z/1", "1")
"""

EXPRESSIONS = [
    "n.flatten({'b': 1, 'a': [2, (3, P(4, 5))], 'c': None})",
    "n.flatten('abc')",
    "n.flatten({1: 2, 'a': 3})",
    "n.flatten({}.values())",
    "list(n.pack_sequence_as(OrderedDict(b=1, a=2), [3, 4]).items())",
    "tuple(n.pack_sequence_as(P(1, [2]), [3, 4]))",
    "n.pack_sequence_as([1, 2], [1, 2, 3])",
    "n.pack_sequence_as([1, 2], 4)",
    "n.pack_sequence_as(1, [4])",
    "n.pack_sequence_as(1, [4, 5])",
    "n.map_structure(lambda x, y: x + y, [1, {'a': 2}], [3, {'a': 4}])",
    "n.map_structure(lambda x, y: x + y, [1, 2], [3])",
    "n.map_structure(lambda x, y: x + y, [1, 2], (3, 4))",
    "n.map_structure(lambda x, y: x + y, [1, 2], (3, 4), check_types=False)",
    "n.map_structure(3, [1, 2])",
    "n.map_structure(lambda x: x)",
    "n.assert_same_structure([1], [[2]])",
    "n.assert_same_structure({'a': 1}, {'b': 1})",
    "n.assert_same_structure({'a': 1}, OrderedDict(a=1))",
    "n.assert_same_structure(P(1, 2), (1, 2))",
    "n.assert_same_structure(P(1, 2), namedtuple('P', 'b a')(1, 2))",
    "n.assert_same_structure(1, [2])",
    "[n.is_nested(x) for x in (1, [], {}, 's', {1, 2}, {}.values(), None, P(1, 2))]",
    *(f"c.{f}({x})" for f in ("as_bytes", "as_text", "as_str", "as_str_any")
      for x in ("'x'", "b'x'", "3", "bytearray(b'x')", "'\\xe9'")),
    "c.path_to_str('b')",
    "c.path_to_str(3)",
    "g.GFile(d + '/a.txt').read()",
    "g.GFile(d + '/a.txt', 'rb').read()",
    "g.GFile(d + '/a.txt').read(3)",
    "list(g.GFile(d + '/a.txt', 'rb'))",
    "g.GFile(d + '/a.txt').readlines()",
    "g.GFile(d + '/a.txt').size()",
    "g.GFile(d + '/none').read()",
    "g.GFile(d + '/none').size()",
    "g.GFile(d + '/none', 'q')",
    "g.GFile(d + '/a.txt').write('x')",
    "g.GFile(d + '/b.txt', 'w').read()",
    *(f"g.GFile(d + '/{name}', '{mode}').close() or sorted((x, g.Exists(x) and g.Stat(x).length) for x in "
      "[*g.Glob(d + '/*.txt')])[0][1:] + (g.Exists(d + '/new'),)"
      for name in ("new", "none/new", "a.txt") for mode in ("w", "a", "wb", "w+", "a+")),
    "g.GFile(d + '/new', 'w').write('') or g.Stat(d + '/new').length",
    "write(d + '/a.txt', b'more', 'a') or g.GFile(d + '/a.txt').read()",
    "[f(d + x) for f in (g.Exists, g.IsDirectory) for x in ('', '/a.txt', '/none')]",
    "g.MkDir(d + '/y')",
    "g.MkDir(d + '/none/x')",
    "g.MakeDirs(d + '/y/z')",
    "g.MakeDirs(d + '/a.txt')",
    "sorted(g.ListDirectory(d))",
    "g.ListDirectory(d + '/none')",
    "g.ListDirectory(d + '/a.txt')",
    "sorted(name[len(d):] for name in g.Glob(d + '/*'))",
    "sorted(name[len(d):] for name in g.Glob([d + '/*.txt', d + '/y/?']))",
    "g.Glob(d + '/none/*')",
    "sorted(walked())",
    "walked()[0] == walked(in_order=False)[-1]",
    "list(g.Walk(d + '/none'))",
    "(g.Stat(d + '/a.txt').length, g.Stat(d).is_directory)",
    "g.Stat(d + '/none')",
    "moved(g.Copy, '/a.txt', '/c')",
    "moved(g.Copy, '/a.txt', '/y/2')",
    "moved(g.Copy, '/a.txt', '/y/2', overwrite=True)",
    "moved(g.Rename, '/a.txt', '/c')",
    "moved(g.Rename, '/a.txt', '/y/2')",
    "moved(g.Rename, '/a.txt', '/y/2', overwrite=True)",
    "g.Rename(d + '/none', d + '/c')",
    "g.Remove(d + '/none')",
    "g.Remove(d + '/y')",
    "g.DeleteRecursively(d + '/none')",
    "g.DeleteRecursively(d + '/y') or g.ListDirectory(d)",
    "g.DeleteRecursively(d + '/a.txt') or g.ListDirectory(d)",
    "(tf.logging.DEBUG, tf.logging.INFO, tf.logging.WARN, tf.logging.ERROR, tf.logging.FATAL)",
    "(tf.executing_eagerly(), tf.resource_variables_enabled())",
    "[tf.is_tensor(x) for x in (tf.constant(1), tf.Variable(1), 1, 'x', tf.no_op())]",
]  # fmt: skip


def ours(source: str, folder: Path) -> tuple[str, Any]:
    names: dict[str, Any] = {"tf": tf, "d": str(folder)}
    try:
        with tf.Graph().as_default():
            exec(source, names)
    except Exception as error:
        return "error", type(error).__name__
    return "value", names["result"]


@pytest.mark.parametrize("expression", EXPRESSIONS)
def test_it_is_as_tensorflows(oracle: Any, tmp_path: Path, expression: str) -> None:
    source = f"{SETUP}\nresult = {expression}"
    (tmp_path / "ours").mkdir()
    (tmp_path / "theirs").mkdir()
    mine = ours(source, tmp_path / "ours")
    assert mine == oracle.outcome(source, d=str(tmp_path / "theirs"))
