"""einsum against NumPy's, its order of pairs, and what it refuses."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import headrace as tf

RNG = np.random.default_rng(5)
SIZES = dict(zip("bcijkl", (2, 3, 4, 5, 3, 2), strict=True))


def operands(equation: str, kind: Any = np.float64) -> list[Any]:
    terms = equation.partition("->")[0].split(",")
    shapes = [[SIZES[each] for each in term.replace("...", "bc")] for term in terms]
    return [(RNG.normal(size=shape) * 8).astype(kind) for shape in shapes]


@pytest.mark.parametrize("known", [True, False], ids=["static", "dynamic"])
@pytest.mark.parametrize(
    "equation",
    [
        "ij->ji", "ij->i", "ij->", "ii->i", "bii->b", "...ij->j...", "...i->i", "ij,jk->ik", "ij,jk",
        "bij,bjk->bik", "bij,bjk->kib", "bij,cjk->bcik", "i,j->ji", "i,i->", ",i->i", "i,->i", "bij,k->j",
        "ij,jk->k", "...ij,...jk->...ik", "...ij,jk->ik...", "bci,...i->...", "ij,jk,kl->il", "i,j,k->kij",
        "ij,ij,ij->j", "bij,jk,bik,l->bl",
    ],
)  # fmt: skip
def test_einsum_is_numpys(equation: str, known: bool) -> None:
    if equation == "...i->i":
        equation = "...i->...i"
    values = operands(equation)
    with tf.Graph().as_default(), tf.Session() as session:
        inputs = [tf.placeholder(tf.float64, v.shape if known else None) for v in values]
        made = tf.einsum(equation, *inputs)
        found = session.run(made, dict(zip(inputs, values, strict=True)))
        wanted = np.einsum(equation, *values)
        assert made.shape.is_compatible_with(wanted.shape)
        assert found.dtype == np.float64
        np.testing.assert_allclose(found, wanted, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("kind", [tf.int32, tf.int64, tf.float16, tf.bfloat16, tf.complex64])
def test_types(kind: tf.DType) -> None:
    a, b = (np.round(v).astype(kind.as_numpy_dtype) for v in operands("bij,bjk->bik"))
    with tf.Graph().as_default(), tf.Session() as session:
        found = session.run(tf.einsum("bij,bjk->ki", a, b))
    assert found.dtype == kind.as_numpy_dtype
    wanted = np.einsum("bij,bjk->ki", a.astype(np.complex128), b.astype(np.complex128))
    np.testing.assert_allclose(found.astype(np.complex128), wanted, rtol=0.02, atol=4)


def test_the_smallest_product_comes_first() -> None:
    with tf.Graph().as_default() as graph:
        tf.einsum("ij,jk,kl->il", tf.zeros([50, 4]), tf.zeros([4, 60]), tf.zeros([60, 2]))
        made = [
            node.get_attr("equation") for node in graph.get_operations() if node.type == "Einsum"
        ]
        assert made == [b"kl,jk->lj", b"lj,ij->il"]


def test_a_diagonal_is_written_where_a_gradient_needs_one() -> None:
    with tf.Graph().as_default(), tf.Session() as session:
        x = tf.placeholder(tf.float32, [3, 3])
        (slope,) = tf.gradients(tf.einsum("ii->i", x), x, grad_ys=np.float32([1, 2, 3]))
        np.testing.assert_array_equal(session.run(slope, {x: np.ones((3, 3))}), np.diag([1, 2, 3]))


@pytest.mark.parametrize(
    ("equation", "shapes"),
    [
        ("ij,jk->ik", [(2, 3), (4, 5)]), ("ij->i", [(2,)]), ("ij->i", [(2, 3, 4)]), ("ii->i", [(2, 3)]),
        ("...i->i", [(2, 3)]), ("...i,...i->...", [(2, 3), (4, 3)]),
    ],
)  # fmt: skip
def test_what_does_not_fit_is_refused_as_soon_as_it_is_known(
    equation: str, shapes: list[tuple[int, ...]]
) -> None:
    with tf.Graph().as_default(), tf.Session() as session:
        with pytest.raises(ValueError, match=r"axes|axis|broadcast"):
            tf.einsum(equation, *(tf.zeros(shape) for shape in shapes))
        unknown = [tf.placeholder_with_default(tf.zeros(shape), None) for shape in shapes]
        with pytest.raises(tf.errors.InvalidArgumentError):
            session.run(tf.einsum(equation, *unknown))
