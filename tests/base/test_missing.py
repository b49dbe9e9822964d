"""A name that headrace does not have is an error that says what to use, and where it was asked for."""

from __future__ import annotations

import copy
import importlib
import pickle
import pkgutil
import subprocess
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

import headrace as tf
from headrace.base import missing, replaced

SAID = [
    # removed before 1.15
    ("mul", "TensorFlow 1.0 removed tf.mul; use tf.multiply"),
    ("pack", "use tf.stack"),
    ("batch_matmul", "use tf.matmul"),
    ("train.SummaryWriter", "use tf.summary.FileWriter"),
    ("nn.rnn", "use tf.nn.static_rnn"),
    ("concat_v2", "whose axis comes second"),
    # spelled otherwise, or elsewhere
    ("matmull", "headrace does not have tf.matmull; did you mean tf.matmul?"),
    ("train.AdamOptimiser", "did you mean tf.train.AdamOptimizer"),
    ("relu", "did you mean tf.nn.relu?"),
    ("layers.Relu", "did you mean tf.nn.relu?"),
    # no part of headrace
    ("keras", "use tf.layers, tf.nn and tf.train's optimizers"),
    ("GradientTape", "use tf.Session, tf.gradients"),
    ("load_op_library", "tf.py_func"),
    ("contrib.optimizer_v2", "use tf.train's optimizers"),
    ("contrib.gan", "train two losses"),
    ("estimator.BoostedTreesClassifier", "use tf.estimator.DNNClassifier"),
    ("contrib.estimator.replicate_model_fn", "use tf.estimator"),
    # nothing is near
    ("foo", "headrace does not have tf.foo\n"),
    ("train.foo", "headrace does not have tf.train.foo\n"),
    ("qqqqqq", "headrace does not have tf.qqqqqq\n"),
]


def asked(path: str) -> AttributeError:
    """What comes of looking up `path` under tf."""
    found: Any = tf
    *spaces, last = path.split(".")
    for space in spaces:
        found = getattr(found, space)
    with pytest.raises(AttributeError) as caught:
        getattr(found, last)
    return caught.value


@pytest.mark.parametrize(("path", "said"), SAID)
def test_the_error_says_what_to_use(path: str, said: str) -> None:
    error = asked(path)
    assert said in str(error)
    assert f"has no attribute {path.rpartition('.')[2]!r}" in str(error)


def test_the_error_says_where_the_program_used_it(tmp_path: Path) -> None:
    program = tmp_path / "train.py"
    program.write_text(
        "import headrace as tf\n\n\ndef model():\n    return tf.train.nothing\n\n\nmodel()\n"
    )
    done = subprocess.run(
        [sys.executable, str(program)], capture_output=True, text=True, check=False
    )
    assert done.returncode == 1
    assert f"used at {program}:5" in done.stderr
    assert "base/missing.py" not in done.stderr.rpartition("headrace.base")[2]


def namespaces() -> list[str]:
    """Every public namespace there is."""
    found = ["headrace"]
    for package in ("headrace.nn", "headrace.contrib", "headrace.python", "headrace.distribute"):
        module = importlib.import_module(package)
        found += [each.name for each in pkgutil.walk_packages(module.__path__, package + ".")]
        found.append(package)
    files = Path(tf.__file__).parent.glob("[a-z]*.py")
    return sorted({*found, *(f"headrace.{path.stem}" for path in files)})


@pytest.mark.parametrize("name", namespaces())
def test_every_public_namespace_explains(name: str) -> None:
    module = importlib.import_module(name)
    with pytest.raises(AttributeError) as caught:
        module.nothing_like_it  # noqa: B018
    assert "headrace does not have" in str(caught.value)
    assert f"used at {__file__}" in str(caught.value)
    assert not hasattr(module, "nothing_like_it")
    assert getattr(module, "nothing_like_it", 3) == 3


@pytest.mark.parametrize("name", ["__path__x", "__wrapped__", "__getstate_x__", "__signature__"])
def test_lookups_of_python_itself_are_told_nothing(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def unwanted() -> None:
        raise AssertionError("frames were looked at")

    monkeypatch.setattr(missing, "where_used", unwanted)
    with pytest.raises(AttributeError) as caught:
        getattr(tf.train, name)
    assert type(caught.value) is AttributeError


def test_asking_whether_a_name_is_there_makes_no_text(monkeypatch: pytest.MonkeyPatch) -> None:
    def unwanted(path: str) -> str:
        raise AssertionError(f"{path} was explained")

    monkeypatch.setattr(missing, "explanation", unwanted)
    assert not hasattr(tf, "matmull")


def test_the_errors_can_be_copied_and_sent() -> None:
    for error in (
        asked("matmull"),
        missing.MissingImport("tensorflow.nn", "x", "tensorflow.nn.x", None),
        missing.MissingModule("tensorflow.x", None),
    ):
        again = pickle.loads(pickle.dumps(error))
        assert str(again) == str(copy.copy(error)) == str(error)
        assert isinstance(again, AttributeError | ImportError)


def test_what_is_no_part_of_headrace_is_unimplemented_too() -> None:
    assert isinstance(asked("keras"), tf.errors.UnimplementedError)


def test_names_of_tensorflow_are_told_from_mistakes() -> None:
    """Every public name of 1.15 is there, or what to use instead is said."""
    lacking = [
        name
        for name in sorted(missing.tensorflow_names())
        if name and replaced.advice(name) is None and not missing.exists(name)
    ]
    assert not lacking
    assert "did you mean" in missing.explanation("tf.matmull")


@pytest.mark.parametrize("name", sorted(replaced.REPLACED))
def test_names_that_were_removed_are_not_there_and_their_replacements_are_known(name: str) -> None:
    """A replacement is a public name of 1.15, or a sentence that names one."""
    instead = replaced.REPLACED[name]
    assert name not in missing.tensorflow_names()
    assert not missing.exists(name)
    known = instead in missing.tensorflow_names() or instead.startswith("contrib.")
    assert known or " " in instead


def test_there_are_many_of_them() -> None:
    assert len(replaced.REPLACED) >= 60


@pytest.mark.parametrize("name", sorted(replaced.ELSEWHERE))
def test_what_is_said_to_be_no_part_of_headrace_is_none(name: str) -> None:
    found: Any = tf
    for part in name.split("."):
        found = getattr(found, part, None)
    assert found is None or isinstance(found, ModuleType) is False


def test_what_headrace_lacks_may_be_what_was_meant(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(missing, "tensorflow_names", lambda: frozenset({"train.Zyxwvuts"}))
    assert (
        "did you mean tf.train.Zyxwvuts, which it does not have yet either?"
        in missing.explanation("tf.train.Zyxwvutz")
    )


def test_a_name_that_is_known_is_told_where_else_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(missing, "tensorflow_names", lambda: frozenset({"relu", "rellu"}))
    assert missing.explanation("tf.relu").endswith("not in headrace yet; it has tf.nn.relu")
    assert missing.explanation("tf.rellu").endswith(
        "tf.rellu of TensorFlow 1.15 is not in headrace yet"
    )


def test_all_namespaces_are_searched() -> None:
    found = dict(missing.namespaces())
    assert {
        "",
        "nn",
        "nn.rnn_cell",
        "train",
        "contrib.training",
        "python.client.timeline",
    } <= found.keys()
    assert "matmul" in found[""]


def test_another_spelling_is_not_offered_for_a_name_that_is_known(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(missing, "tensorflow_names", lambda: frozenset({"sessION"}))
    assert missing.explanation("tf.sessION").endswith("is not in headrace yet")


def test_an_import_of_what_is_no_module_says_how_to_import_it() -> None:
    with pytest.raises(ImportError) as caught:
        raise missing.MissingModule("tensorflow.compat.as_str", None)
    assert str(caught.value).endswith("use `from tensorflow.compat import as_str`")


def test_internals_are_not_offered() -> None:
    assert "did you mean" not in missing.explanation("tensorflow.contrib.layers.python")
