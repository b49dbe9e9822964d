"""Images bent: `tf.contrib.image.dense_image_warp`, `sparse_image_warp`, and the splines between points.

Called by: programs.  Threads: as graph.
Source: polyharmonic splines (Duchon, 1977); behaviour of TF 1.15's contrib; tests compare values with NumPy's
"""

from __future__ import annotations

from typing import Any

import numpy as np

from headrace.base import dtypes
from headrace.graph.convert import convert
from headrace.graph.names import control_dependencies, name_scope
from headrace.graph.tensor import Tensor
from headrace.ops.array.constants import ones, zeros
from headrace.ops.array.gathering import gather
from headrace.ops.array.joining import concat, meshgrid
from headrace.ops.array.packing import stack
from headrace.ops.array.padding import tile
from headrace.ops.array.ranges import range as range_of
from headrace.ops.array.shapes import matrix_transpose, reshape
from headrace.ops.array.shapes import shape as shape_of
from headrace.ops.flow.asserts import Assert
from headrace.ops.flow.identities import identity
from headrace.ops.linalg.products import matmul
from headrace.ops.math.casting import cast
from headrace.ops.math.clipping import clip_by_value
from headrace.ops.math.reductions import reduce_sum
from headrace.ops.tables import make

__all__ = ["dense_image_warp", "interpolate_spline", "sparse_image_warp"]

Array = np.ndarray[Any, Any]
_LEAST = 1e-10  # of squared distances, whose logarithm and root have gradients


def dense_image_warp(image: Any, flow: Any, name: str = "dense_image_warp") -> Tensor:
    """What is at (y, x) comes from (y, x) - flow[n, y, x], between four places; from the border beyond it.

    image [n, h, w, c], of floats, of 2 rows and columns at least; flow [n, h, w, 2].
    Raises ValueError: other ranks; InvalidArgument: when it is run, too small an image.
    """
    with name_scope(name, "dense_image_warp"):
        image, flow = convert(image, name="image"), convert(flow, name="flow")
        for what, each in (("image", image), ("flow", flow)):
            if each.shape.ndims not in (None, 4):
                raise ValueError(f"{what} must have four dimensions, and has shape {each.shape}")
        sides = shape_of(image)
        height, width = sides[1], sides[2]
        kind = flow.dtype.base_dtype
        along, across = (cast(range_of(side), kind) for side in (height, width))
        rows, columns = meshgrid(along, across, indexing="ij")
        asked = stack([rows, columns], 2)[None] - flow
        bent = _between(image, asked)
        bent.set_shape(image.shape)
        return bent


def _between(image: Tensor, asked: Tensor) -> Tensor:
    """What is at places [n, h, w, 2] of [n, h, w, c], linearly between their neighbours, and from the border beyond."""
    sides = shape_of(image)
    count, height, width, channels = (sides[axis] for axis in range(4))
    checks = [
        Assert(make.GreaterEqual(side, 2), [f"Grid {what} must be at least 2; it is", side])
        for what, side in (("height", height), ("width", width))
    ]
    with control_dependencies(checks):
        lines = reshape(identity(image), [-1, channels])
    kind, firsts, parts = image.dtype.base_dtype, [], []
    for axis, side in enumerate((height, width)):
        place = asked[..., axis]
        most = cast(side - 2, asked.dtype.base_dtype)
        first = clip_by_value(make.Floor(place), 0.0, make.Maximum(most, 0.0))
        firsts.append(cast(first, dtypes.int32))
        parts.append(cast(clip_by_value(place - first, 0.0, 1.0), kind)[..., None])
    begin = (range_of(count) * height * width)[:, None, None]

    def read(down: int, right: int) -> Tensor:
        return gather(lines, begin + (firsts[0] + down) * width + firsts[1] + right)

    top, bottom = (read(row, 0) + parts[1] * (read(row, 1) - read(row, 0)) for row in (0, 1))
    found: Tensor = top + parts[0] * (bottom - top)
    return found


def interpolate_spline(
    train_points: Any,
    train_values: Any,
    query_points: Any,
    order: int,
    regularization_weight: float = 0.0,
    name: str = "interpolate_spline",
) -> Tensor:
    """[n, m, k]: at query_points [n, m, d], the spline through train_values [n, b, k] at train_points [n, b, d].

    order: 1 for lines, 2 for thin plates, and so on.  regularization_weight: above 0 it does not go through all of
    them, and is smoother.
    """
    with name_scope(name, "interpolate_spline"):
        points, values, asked = (
            convert(each, name=what)
            for each, what in (
                (train_points, "train_points"),
                (train_values, "train_values"),
                (query_points, "query_points"),
            )
        )
        weights, linear = _solved(points, values, order, regularization_weight)
        bent = matmul(_of_distance(_distances(asked, points), order), weights)
        made: Tensor = bent + matmul(_with_ones(asked), linear)
        return made


def _with_ones(points: Tensor) -> Tensor:
    sides = shape_of(points)
    return concat([points, ones([sides[0], sides[1], 1], points.dtype.base_dtype)], 2)


def _solved(points: Tensor, values: Tensor, order: int, weight: float) -> tuple[Tensor, Tensor]:
    """The weights of the points [n, b, k], and of their coordinates and 1 [n, d + 1, k]."""
    kind, sides = points.dtype.base_dtype, shape_of(points)
    count, size, width = sides[0], sides[1], sides[2] + 1
    near = _of_distance(_distances(points, points), order)
    if weight > 0:
        one = make.MatrixDiag(ones([count, size], kind))
        near += weight * one
    flat = _with_ones(points)
    left = concat(
        [
            concat([near, flat], 2),
            concat([matrix_transpose(flat), zeros([count, width, width], kind)], 2),
        ],
        1,
    )
    right = concat([values, zeros([count, width, shape_of(values)[2]], kind)], 1)
    found = make.MatrixSolve(left, right)
    return found[:, :size], found[:, size:]


def _distances(x: Tensor, y: Tensor) -> Tensor:
    """Squared, [n, m, b], between x [n, m, d] and y [n, b, d]."""
    squares = [reduce_sum(make.Square(each), 2) for each in (x, y)]
    both = matmul(x, y, transpose_b=True)
    found: Tensor = squares[0][:, :, None] - 2.0 * both + squares[1][:, None, :]
    return found


def _of_distance(squared: Tensor, order: int) -> Tensor:
    """The spline's basis, r ** order, by log(r) where the order is even."""
    positive: Tensor = make.Maximum(squared, _LEAST)
    if order == 1:
        found: Tensor = make.Sqrt(positive)
    elif order == 2:
        found = 0.5 * squared * make.Log(positive)
    elif order == 4:
        found = 0.5 * make.Square(squared) * make.Log(positive)
    else:
        power = make.Pow(positive, 0.5 * order)
        found = power if order % 2 else 0.5 * power * make.Log(positive)
    return found


def sparse_image_warp(
    image: Any,
    source_control_point_locations: Any,
    dest_control_point_locations: Any,
    interpolation_order: int = 2,
    regularization_weight: float = 0.0,
    num_boundary_points: int = 0,
    name: str = "sparse_image_warp",
) -> tuple[Tensor, Tensor]:
    """The image with what was at the source points at the destinations, and the flow [n, h, w, 2] that does it.

    image [n, h, w, c], its sizes known; points [n, b, 2], of rows and columns.  num_boundary_points: how many of each
    edge, corners not counted twice, stay where they are.  Raises ValueError: a size that is not known.
    """
    with name_scope(name, "sparse_image_warp"):
        image = convert(image, name="image")
        source = convert(source_control_point_locations, name="source_control_point_locations")
        goal = convert(dest_control_point_locations, name="dest_control_point_locations")
        raw = image.raw_shape
        if raw is None or len(raw) != 4 or None in raw[:3]:
            raise ValueError(
                f"sparse_image_warp needs an image of known sizes [n, h, w, c], not {image.shape}"
            )
        count, height, width = (int(side or 0) for side in raw[:3])
        flow = goal - source
        if num_boundary_points > 0:
            border = _border(height, width, num_boundary_points - 1)
            goal, flow = (
                concat([each, tile(convert(added, each.dtype.base_dtype)[None], [count, 1, 1])], 1)
                for each, added in ((goal, border), (flow, np.zeros_like(border)))
            )
        places = np.stack(np.meshgrid(range(height), range(width), indexing="ij"), -1)
        asked = convert(places.reshape(1, -1, 2).astype(np.float32), goal.dtype.base_dtype)
        asked = tile(asked, [count, 1, 1])
        bent = interpolate_spline(goal, flow, asked, interpolation_order, regularization_weight)
        flows = reshape(bent, [count, height, width, 2])
        return dense_image_warp(image, flows), flows


def _border(height: int, width: int, between: int) -> Array:
    """[points, 2]: the corners, and as many places between them on every edge."""
    rows, columns = (np.linspace(0, side - 1, between + 2) for side in (height, width))
    y, x = np.meshgrid(rows, columns, indexing="ij")
    at = (x == 0) | (x == width - 1) | (y == 0) | (y == height - 1)
    return np.stack([y[at], x[at]], -1).astype(np.float32)
