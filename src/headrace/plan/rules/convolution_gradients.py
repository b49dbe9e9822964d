"""Convolution gradients: what goes back through pooling and an activation is used a few images at a time.

The gradient of a convolution's output, as large as that is, comes from max pooling and relu, and goes into the
gradients of the bias, of the filter and of the input.  All of them run as one instruction.  Without the input's it is
made for a few images, used while it is in the cache, and never stored; with it, it is stored: of two products that take
turns neither would keep its filter in the cache.  Where relu comes before the pooling its mask is taken of what
was pooled, which is smaller: the largest value of a window is the value of the place that the gradient goes to.
Parts are those of the filter's gradient, so it and the input's have the bits that they have op by op; the bias's is a
sum of other parts.
Called by: plan.passes.  Threads: any.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from collections.abc import Set as AbstractSet
from typing import Any, Final

import numpy as np

from headrace.ops._kernels.blocks import LARGE
from headrace.ops._kernels.convolving import FilterGradient, Multiply, input_gradient
from headrace.ops._kernels.scratch import scratch
from headrace.ops._kernels.windows import geometry
from headrace.ops.nn.activations import relu_grad
from headrace.ops.nn.bias import sum_of_rows
from headrace.ops.nn.pooling import parts_of_images, pool_windows, to_largest
from headrace.plan.ir import Facts, Instr
from headrace.plan.rules.convolutions import match_of, may_join, may_wait
from headrace.plan.rules.group import Group, Match, Rule
from headrace.run.exec.instructions import Kernel
from headrace.run.exec.worker_pool import parallel_for

Array = np.ndarray[Any, Any]
_GIVEN, _MASKED = 24, 25  # slots of scratch memory
_Make = Callable[[slice, Array], object]
"""(images, into): make the gradient of the output for those images."""
_ATTRS = ("strides", "padding", "dilations", "explicit_paddings", "data_format")
_TAKES = {"BiasAddGrad": 0, "Conv2DBackpropFilter": 2, "Conv2DBackpropInput": 2}
"""Which input the gradient is: the last one, which is made in the group."""


def _match(filter_grad: Instr, facts: Facts, taken: AbstractSet[Instr]) -> Match | None:
    """What makes the gradient of the output, and all that use it."""
    value = filter_grad.inputs[2]
    users = users_of_gradient(value, facts, taken)
    if not users:
        return None
    source = _source(value, facts, taken)
    if not source:
        return None
    root = max(users, key=facts.place.__getitem__)
    others = [user.outputs[0] for user in users if user is not root]
    if not all(may_wait(other, root, facts) for other in others):
        return None
    return match_of([*source, *users], others, facts, _build)


def users_of_gradient(value: int, facts: Facts, taken: AbstractSet[Instr]) -> list[Instr]:
    """Gradients of a convolution's filter and input, and of its bias, if all that use this gradient of its output are
    such; one at least of the filter.
    """
    users = facts.users(value)
    by_type = {user.op.type: user for user in users}
    if value in facts.results or not all(_takes(user, value, taken) for user in users):
        return []
    of_filter = by_type.get("Conv2DBackpropFilter")
    if of_filter is None or len(by_type) != len(users):
        return []
    of_input = by_type.get("Conv2DBackpropInput", of_filter)
    alike = all(of_input.op.attrs[name] == of_filter.op.attrs[name] for name in _ATTRS)
    return users if alike else []


def _takes(instr: Instr, value: int, taken: AbstractSet[Instr]) -> bool:
    at = _TAKES.get(instr.op.type)
    return (
        at is not None
        and instr.inputs[at] == value
        and instr.inputs.count(value) == 1
        and may_join(instr, taken)
    )


def _source(value: int, facts: Facts, taken: AbstractSet[Instr]) -> list[Instr]:
    """ReluGrad, MaxPoolGrad or both, one after the other; empty if `value` comes from elsewhere."""
    instr = facts.maker(value)
    if instr is None or not may_join(instr, taken):
        return []
    if instr.op.type == "MaxPoolGrad":
        return [instr]
    if instr.op.type != "ReluGrad":
        return []
    dy, features = instr.inputs
    pool = facts.maker(dy)
    if (
        pool is not None
        and pool.op.type == "MaxPoolGrad"
        and may_join(pool, taken)
        and facts.users(dy) == [instr]
        and dy not in facts.results
        and pool.inputs[0] == features
    ):
        return [pool, instr]
    return [instr]


def _build(group: Group) -> Kernel:
    return group.kernel(Together(group).results, refuses=True)


RULE: Final = Rule("convolution gradients", ("Conv2DBackpropFilter",), _match)


# -- running ----------------------------------------------------------------------------------


class Together:
    """A group run a few images at a time."""

    def __init__(self, group: Group) -> None:
        by_type = {member.op.type: member.op for member in group.members}
        self._at = {
            member.op.type: group.inputs_of(member)[: _TAKES.get(member.op.type)]
            for member in group.members
        }
        self._attrs = by_type["Conv2DBackpropFilter"].attrs.copy()
        pool = by_type.get("MaxPoolGrad")
        self._pool = None if pool is None else pool.attrs.copy()
        maker = {member.outputs[0]: member.op.type for member in group.members}
        self._wanted = [maker[value] for value in group.outputs]

    def results(self, values: Sequence[Any]) -> list[Any] | None:
        """The group's outputs, or None where it has to run op by op."""
        x, sizes = (values[place] for place in self._at["Conv2DBackpropFilter"])
        of_output = self._of_output(values)
        if x.ndim != 4 or len(sizes) != 4 or not x.size or of_output is None:
            return None
        shape, make = of_output
        attrs, made = self._attrs, int(sizes[3])
        where = geometry(
            x.shape[1:3],
            [int(n) for n in sizes[:2]],
            attrs["strides"],
            attrs["padding"],
            b"NHWC",
            attrs["dilations"],
            attrs["explicit_paddings"],
        )
        if (
            shape != (len(x), *where.out, made)
            or sizes[2] != x.shape[3]
            or math.prod(shape) < LARGE
        ):
            return None
        filters = None
        if "Conv2DBackpropInput" in self._at:
            of_input, filters = (values[place] for place in self._at["Conv2DBackpropInput"])
            if tuple(of_input) != x.shape or filters.shape != tuple(sizes):
                return None
        gradient = FilterGradient(where, x.shape[3], made, len(x), x.dtype)
        some = gradient.parts if filters is None else parts_of_images(shape, x.dtype)
        starts = {images.start: number for number, images in enumerate(some)}
        sums = np.empty((len(starts), made), x.dtype)

        def dy_of(images: slice, into: Array) -> Array:
            make(images, into)
            if "BiasAddGrad" in self._at:
                sums[starts[images.start]] = sum_of_rows(into.reshape(-1, made))
            return into

        found: dict[str, Any] = {}
        if filters is None:
            add_shares(gradient, x, lambda images: dy_of(images, _room(images, shape, x.dtype)))
        else:
            dy = np.empty(shape, x.dtype)
            parallel_for(lambda images: dy_of(images, dy[images]), some)
            dx = found["Conv2DBackpropInput"] = np.empty_like(x)
            input_gradient(dy, filters, where, dx)
            add_shares(gradient, x, lambda images: dy[images])
        found["Conv2DBackpropFilter"] = gradient.result()
        found["BiasAddGrad"] = sums.sum(axis=0)
        return [found[kind] for kind in self._wanted]

    def _of_output(self, values: Sequence[Any]) -> tuple[tuple[int, ...], _Make] | None:
        """The shape of the gradient of the convolution's output, and what makes it for some images."""
        relu = self._at.get("ReluGrad")
        if self._pool is None:
            assert relu is not None
            dy, features = (values[place] for place in relu)
            if dy.shape != features.shape:
                return None
            return dy.shape, lambda images, into: _masked(dy[images], features[images], into)
        x, y, dy = (values[place] for place in self._at["MaxPoolGrad"])
        pool = self._pool
        if x.ndim != 4 or y.shape != dy.shape:
            return None
        where = pool_windows(
            x.shape[1:3],
            pool["ksize"],
            pool["strides"],
            pool["padding"],
            b"NHWC",
            pool["explicit_paddings"],
        )
        if y.shape != (len(x), *where.out, x.shape[3]):
            return None

        def unpooled(images: slice, into: Array) -> None:
            given, largest = dy[images], y[images]
            if relu is not None:
                given = _masked(given, largest, scratch(_MASKED, given.shape, x.dtype))
            to_largest(x[images], largest, given, where, into)

        return x.shape, unpooled


def add_shares(
    gradient: FilterGradient,
    x: Array,
    dy: Callable[[slice], Array],
    multiply: Multiply | None = None,
) -> None:
    """Add all of them: what x and dy(images) give."""
    parallel_for(
        lambda number: gradient.add(number, x, dy, multiply),
        range(len(gradient.shares)),
        products=True,
    )


def _room(images: slice, shape: tuple[int, ...], dtype: np.dtype[Any]) -> Array:
    return scratch(_GIVEN, (images.stop - images.start, *shape[1:]), dtype)


def _masked(dy: Array, features: Array, into: Array) -> Array:
    """The gradient of relu."""
    assert relu_grad.into_fn is not None
    made: Array = relu_grad.into_fn(dy, features, out=into)
    return made
