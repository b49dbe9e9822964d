"""Products made where they are sent from: the bits and the errors that they have elsewhere."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import headrace as tf
from headrace.base import errors
from headrace.plan import check
from headrace.plan.compile import compile_program
from headrace.plan.prune import needed
from headrace.run.exec.kernel import Runtime, StepState
from headrace.run.scope import Scope
from headrace.run.state import shared_buffers

pytestmark = pytest.mark.skipif(
    not shared_buffers.AVAILABLE, reason="no memory files on this system"
)


@pytest.fixture(autouse=True)
def graph() -> Iterator[None]:
    with tf.Graph().as_default():
        yield


def random(*shape: int) -> Any:
    return np.random.default_rng(sum(shape)).standard_normal(shape)


def product(
    a: Any, b: Any, lends: bool = True, identity: bool = False, **how: Any
) -> tuple[Any, bool]:
    """What leaves a step that multiplies what it is fed, and whether other processes can read it where it is."""
    feeds = [tf.placeholder(each.dtype, [None, None]) for each in (a, b)]
    made = tf.matmul(*feeds, name="product", **how)
    fetch = tf.identity(made) if identity else made
    program = compile_program(needed(feeds, [fetch], []), feeds, [fetch], devices={}, memos={})
    with Scope() as scope:
        step = StepState(Runtime("/device:CPU:0"), scope, 1, lends=lends)
        (found,) = program.run(step, [a, b])
    return found, shared_buffers.buffer_of(found) is not None


@pytest.mark.parametrize("inner", [1, 7, 64, 400])  # the last one in parts
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize(("flip_a", "flip_b"), [(False, False), (True, False), (False, True)])
def test_the_bits_are_those_of_the_product_elsewhere(
    inner: int, dtype: Any, flip_a: bool, flip_b: bool
) -> None:
    a, b = random(100, inner).astype(dtype), random(inner, 230).astype(dtype)
    given = np.ascontiguousarray(a.T) if flip_a else a, np.ascontiguousarray(b.T) if flip_b else b
    found, at_home = product(*given, transpose_a=flip_a, transpose_b=flip_b)
    elsewhere, other_at_home = product(*given, lends=False, transpose_a=flip_a, transpose_b=flip_b)
    assert (at_home, other_at_home) == (True, False)
    assert found.flags.c_contiguous
    np.testing.assert_array_equal(found, elsewhere)


def test_the_identity_of_a_product_is_the_product() -> None:
    a, b = random(100, 3), random(3, 100)
    assert product(a, b, identity=True)[1]


@pytest.mark.parametrize(("rows", "dtype"), [(9, np.float32), (100, np.int32), (200, np.float16)])
def test_small_products_and_those_of_other_types_are_made_elsewhere(rows: int, dtype: Any) -> None:
    a = np.ones((rows, rows), dtype)
    found, at_home = product(a, a)
    assert not at_home
    assert found.min() == found.max() == rows


@pytest.mark.parametrize("checked", [True, False])
def test_factors_that_do_not_fit_are_an_error_that_names_the_node(
    checked: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(check, "enabled", checked)
    for a, b in ((random(100, 3), random(4, 100)), (random(100), random(100, 3))):
        with pytest.raises(errors.InvalidArgumentError) as caught:
            product(a, b)
        assert caught.value.message.startswith(
            ("Matrix size-incompatible: In[0]", "In[0] is not a")
        )
        assert caught.value.node is not None
        assert caught.value.node.startswith("product")
