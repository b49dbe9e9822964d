"""Array kernels: on a device of the array API standard alone, ops give what they give on the host, or its errors."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import headrace as tf
from headrace.base.traits import DRAWS
from headrace.graph.registry import OPS
from headrace.ops._portable.table import array_kernels, state_kernels
from scripts import devices
from tests.ops.operands import Recipe, covered, recipes
from tests.ops.test_operands import feeds, shown
from tests.support.toy_device import ToyDevice, toy_devices

NAMES = sorted(array_kernels() | state_kernels())
OF_JAX = {name for name, kernel in array_kernels().items() if kernel.function is None}
MOST = 24
SELDOM_FIT = {
    "AvgPool3DGrad",
    "BatchMatrixBandPart",
    "BitwiseAnd",
    "BitwiseOr",
    "BitwiseXor",
    "ConjugateTranspose",
    "Conv2DBackpropInput",
    "Conv3DBackpropInputV2",
    "DepthwiseConv2dNativeBackpropFilter",
    "DepthwiseConv2dNativeBackpropInput",
    "Dilation2DBackpropFilter",
    "Dilation2DBackpropInput",
    "Einsum",
    "EnsureShape",
    "InTopK",
    "Invert",
    "InvertPermutation",
    "LeftShift",
    "MaxPool3DGrad",
    "MaxPoolGrad",
    "MaxPoolGradWithArgmax",
    "OneHot",
    "RandomUniformInt",
    "RightShift",
    "SparseSoftmaxCrossEntropyWithLogits",
    "UnravelIndex",
}
"""Ops of which hardly any operands fit that are drawn.

Tests below, the other test_portable_*.py, and the model of tests/plan/test_devices.py have some.
"""
LOOKED_AT = {"CheckNumerics", "Identity", "IdentityN", "PreventGradient", "StopGradient"}
"""Ops that no operands are drawn for: a test below has some."""
ONLY_MOVE = {"Assign", "AssignVariableOp", "ReadVariableOp"}
"""Ops that compute nothing."""
OF_SHAPES_AND_TRUTHS = {
    "All",
    "Any",
    "LogicalAnd",
    "LogicalNot",
    "LogicalOr",
    "Rank",
    "Shape",
    "ShapeN",
    "Size",
}
"""Ops that the host does for what is its own: shapes, and truths that are fed.  A test below has truths of a device."""
ON_HOST_ALONE = {"string"}  # dtypes, of which such a device has none
CANCEL = {"BlockLSTMGrad", "BlockLSTMGradV2"}
"""Ops that sum up products of both signs: what is left is rounded as the largest of them are."""


@pytest.fixture
def toy() -> Iterator[ToyDevice]:
    with toy_devices(1) as (device,):
        yield device


def outcomes(recipe: Recipe, device: str) -> list[Any]:
    """What the op gives of each of the operands: values, or the class of an error."""
    found: list[Any] = []
    if DRAWS in OPS[recipe.op].traits:
        recipe.attrs["seed"] = 87654321
    with tf.Graph().as_default():
        with tf.device(device):
            fed, wanted, node = recipe.build()
        with tf.Session() as session:
            for operands in recipe.operands:
                try:
                    found.append(session.run(wanted or node, feeds(fed, operands)))
                except tf.errors.OpError as error:
                    found.append((type(error).__name__, error.message))
    return found


def differs(name: str, ours: Any, theirs: Any) -> bool:
    if isinstance(ours, tuple) or isinstance(theirs, tuple):
        return bool(ours != theirs)
    return not all(same(a, b, name in CANCEL) for a, b in zip(ours, theirs, strict=True))


def same(a: Any, b: Any, cancels: bool) -> bool:
    a, b = np.asarray(a), np.asarray(b)
    if a.dtype != b.dtype or a.shape != b.shape:
        return False
    if a.dtype.kind in "fc":
        tolerance = 1e-5 if a.dtype.itemsize <= 8 else 1e-12
        largest = np.max(np.abs(a), initial=1.0, where=np.isfinite(a)) if cancels else 1.0
        return bool(np.allclose(a, b, tolerance, tolerance * largest, equal_nan=True))
    return bool((a == b).all())


@pytest.mark.parametrize("name", sorted(set(NAMES) - LOOKED_AT - OF_JAX))
def test_an_op_gives_the_same_on_a_device_of_another_kind(name: str, toy: ToyDevice) -> None:
    spec = OPS[name]
    if not covered(spec):
        pytest.fail(f"{name} has no operands: which test runs its array kernel?")
    found = []
    for recipe in recipes(spec, MOST):
        if ON_HOST_ALONE & {kind.name for kind in recipe.types}:
            continue
        pairs = zip(outcomes(recipe, "/cpu:0"), outcomes(recipe, "/device:TOY:0"), strict=True)
        for operands, (host, device) in zip(recipe.operands, pairs, strict=True):
            if differs(name, host, device):
                found.append(f"{shown(operands)}: {host} on the host, {device} on the device")
    assert not found, f"{len(found)} of {name}:\n" + "\n".join(found[:5])
    if name not in SELDOM_FIT | OF_SHAPES_AND_TRUTHS:
        done = toy.transfers if name in ONLY_MOVE else toy.counts
        assert done["put" if name in ONLY_MOVE else "kernel"] > 0, "nothing was done on the device"


@pytest.mark.parametrize("axis", [-1, 0, 1])
def test_one_hot_rows_are_made_there(toy: ToyDevice, axis: int) -> None:
    def made(device: str) -> Any:
        with tf.Graph().as_default(), tf.device(device):
            indices = tf.placeholder(tf.int64, [2, 2])
            rows = tf.one_hot(indices, 3, 2.0, -1.0, axis=axis)
            with tf.Session() as session:
                return session.run(rows, {indices: [[0, 2], [-1, 3]]})

    np.testing.assert_array_equal(made("/device:TOY:0"), made("/cpu:0"))
    assert toy.counts["kernel"] == 1


@pytest.mark.parametrize(
    "through",
    [
        tf.identity,
        tf.stop_gradient,
        lambda x: tf.check_numerics(x, "not finite"),
        lambda x: tf.ensure_shape(x, [None, 3]),
        lambda x: tf.identity_n([x, x])[1],
        lambda x: tf.raw_ops.PreventGradient(input=x),
        lambda x: tf.raw_ops.ConjugateTranspose(x=x, perm=[1, 0]),
        lambda x: x * tf.cast(tf.rank(x) + tf.size(x) + tf.shape(x)[0], tf.float32),
        lambda x: x * tf.cast(tf.shape_n([x, x])[1][1], tf.float32),
    ],
)
def test_what_leaves_an_array_as_it_is_leaves_it_where_it_is(toy: ToyDevice, through: Any) -> None:
    """Nothing of the size of the array is copied but what is fed and what is fetched."""
    fed = np.arange(9, dtype=np.float32).reshape(3, 3)

    def made(device: str) -> Any:
        with tf.Graph().as_default(), tf.device(device):
            x = tf.placeholder(tf.float32, [None, None])
            wanted = tf.sqrt(through(tf.square(x)))
            with tf.Session(config=tf.ConfigProto(allow_soft_placement=True)) as session:
                return session.run(wanted, {x: fed})

    np.testing.assert_array_equal(made("/device:TOY:0"), made("/cpu:0"))
    assert toy.large == {"put": 1, "get": 1}


def test_a_number_that_is_none_is_told_of_by_the_host(toy: ToyDevice) -> None:
    with tf.Graph().as_default(), tf.device("/device:TOY:0"):
        x = tf.placeholder(tf.float32, [2])
        checked = tf.exp(tf.check_numerics(tf.log(x), "of x"))
        with tf.Session() as session:
            session.run(checked, {x: [1.0, 2.0]})
            with pytest.raises(tf.errors.InvalidArgumentError, match="of x : Tensor had"):
                session.run(checked, {x: [1.0, -1.0]})


def test_the_page_lists_all_of_them() -> None:
    text = devices.PAGE.read_text()
    assert text == devices.page(text), "run scripts/devices.py"


def test_truths_that_a_device_has_are_combined_there(toy: ToyDevice) -> None:
    numbers = np.array([[-1.0, 1.0, 3.0], [0.5, 1.5, 1.0]], np.float32)
    with tf.Graph().as_default():
        with tf.device("/device:TOY:0"):
            fed = tf.placeholder(tf.float32, [2, 3])
            low, high = fed > 0, fed < 2
            both = tf.logical_and(low, high)
            wanted = [
                both,
                tf.logical_or(low, high),
                tf.logical_not(low),
                tf.reduce_all(both, 1),
                tf.reduce_any(tf.logical_not(both), 1),
                tf.size(both),
                tf.shape(both),
            ]
        with tf.Session() as session:
            found = session.run(wanted, {fed: numbers})
    one, other = numbers > 0, numbers < 2
    expected = [one & other, one | other, ~one, (one & other).all(1), (~(one & other)).any(1)]
    for mine, own in zip(found, [*expected, 6, [2, 3]], strict=True):
        np.testing.assert_array_equal(mine, own)
    assert toy.counts["kernel"] == 8
    assert toy.transfers["put"] == 3  # what is fed, and both limits
