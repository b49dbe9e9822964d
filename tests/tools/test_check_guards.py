"""Conditions that `headrace check` knows the answer to."""

from __future__ import annotations

import ast

import pytest

from headrace.base.version import VERSION
from headrace.tools.check.guards import truth

KNOWN = {
    "hasattr(tf, 'here')": True,
    "hasattr(tf, 'gone')": False,
    "not hasattr(tf, 'gone')": True,
    "hasattr(tf, 'here') and hasattr(tf, 'gone')": False,
    "hasattr(tf, 'gone') or unknown": None,
    "hasattr(tf, 'here') or unknown": True,
    "hasattr(tf, 'gone') and unknown": False,
    "not (hasattr(tf, 'gone') or hasattr(tf, 'here'))": False,
    "hasattr(np, 'here')": None,
    "hasattr(tf, name)": None,
    "hasattr(tf)": None,
    "tf.__version__.startswith('1.')": True,
    "tf.VERSION[0] == '2'": False,
    "int(tf.__version__.split('.')[0]) >= 2": False,
    "int(tf.__version__.split('.')[1]) > 4": True,
    "float(tf.__version__[:3]) < 1.5": True,
    "LooseVersion(tf.__version__) < LooseVersion('1.2')": False,
    "LooseVersion(tf.__version__) >= '1.15.0'": True,
    "version.parse(tf.__version__) < version.parse('2.0.0-rc1')": True,
    "pkg_resources.parse_version('1.4') <= parse_version(tf.VERSION)": True,
    "tf.__version__ >= '2'": False,
    "'1.0' <= tf.__version__ < '1.2'": True,
    "tf.__version__ in ('1.15.5', '1.14.0')": VERSION == "1.15.5",
    "tuple(map(int, tf.__version__.split('.'))) > (1, 2)": None,
    "tf.__version__.split('.')[-1] == unknown": None,
    "tf.__version__.split('.')[9] == '1'": None,
    "tf.__version__ < 2": None,
    "not tf.__version__.startswith('2')": True,
    "np.__version__ > '1'": None,
    "unknown": None,
    "tf.test.is_gpu_available()": None,
}


@pytest.mark.parametrize("condition", KNOWN)
def test_what_is_known_of(condition: str) -> None:
    def path(node: ast.expr) -> str | None:
        return "tensorflow" if isinstance(node, ast.Name) and node.id == "tf" else None

    node = ast.parse(condition, mode="eval").body
    assert truth(node, path, {"tensorflow.here"}.__contains__) is KNOWN[condition]
