"""Update rules: one step of an optimizer on a variable and its slots, in place; four ops each.

A rule is a function of arrays, written once.  `rule` makes of it ``ApplyX`` on references, ``ResourceApplyX`` on
handles, and, where TensorFlow has them, ``SparseApplyX`` and ``ResourceSparseApplyX`` on the rows that `indices` names.
A dense update runs over blocks that stay in the cache, on the task's threads if there are several, and its temporaries
are buffers that a thread keeps; every variable it touches is locked for the whole of it.  In a sparse update a row that
is named twice is updated twice, in order.
Called by: ops.training.descent, ops.training.adaptive, ops.training.proximal.
Threads: any step's thread; locks of several variables are taken in one global order.
Source: TF 1.15 core/ops/training_ops.cc, core/kernels/training_ops.cc
"""

from __future__ import annotations

import inspect
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager
from typing import Any, NamedTuple

import numpy as np

from headrace.base import errors, shapes
from headrace.base.shapes import Shape
from headrace.base.traits import NEVER_FOLDED, SHARES, STATEFUL, TAKES_PRODUCTS, UPDATES
from headrace.graph.operation import Operation
from headrace.graph.registry import ShapeFn, op
from headrace.graph.shape_fns import ShapeContext
from headrace.ops._kernels.places import all_below
from headrace.ops._kernels.product_parts import multiply, parts_of_product
from headrace.ops._kernels.row_sums import put_rows
from headrace.ops._kernels.scratch import scratch
from headrace.ops.state.resources import held, variable_behind
from headrace.run.exec.worker_pool import parallel_for, size
from headrace.run.state.variable import Locked, State
from headrace.run.uninterrupted import changes

__all__: list[str] = []

Array = np.ndarray[Any, Any]
Temporaries = Callable[[int], Array]
"""room(n): the n-th scratch buffer of the size of the block at hand."""
Step = Callable[..., None]
"""step(room, var, *slots, grad, **scalars, **attrs): change var and the slots."""

_T = (
    "T: {float, double, int32, uint8, int16, int8, complex64, int64, qint8, quint8, qint32, "
    "bfloat16, qint16, quint16, uint16, complex128, half, uint32, uint64}; "
)
_BLOCK = (
    1 << 18
)  # elements; with smaller ones threads wait for the interpreter's lock as long as they work
_ROOM_FROM = 2048  # elements; for less, memory is found as soon as what was kept
_FEW_ROWS = 128  # so many numbers are in a set as soon as they are sorted
_PRODUCT = 0  # slot of scratch memory
_WIDE = 512  # columns of a part of a product that is used as soon as it is made
_FEW = 1 << 16  # elements of a product that one thread uses, though several make it
_STORED = 1 << 20  # elements of a product that is made first, where parts are narrower than that
_WORTH_SHARING = 1 << 20  # elements of all arrays; below, another thread costs what it saves
_GRADIENTS = ("grad", "delta")
_UNSIGNED = {4: np.dtype(np.uint32), 8: np.dtype(np.uint64)}


# -- scratch ----------------------------------------------------------------------------------


class _Scratch(threading.local):
    """Scratch buffers by dtype, for each thread: fresh pages for every update cost as much as the update."""

    def __init__(self) -> None:
        self.kept: dict[np.dtype[Any], list[Array]] = {}


_scratch = _Scratch()


def room_like(like: Array) -> Temporaries:
    """Scratch of the shape and dtype of `like`, valid until this thread works on another block."""
    size, shape = like.size, like.shape
    if size > _BLOCK or size <= _ROOM_FROM:
        return lambda number: np.empty(shape, like.dtype)
    kept = _scratch.kept.setdefault(like.dtype, [])

    def temporary(number: int) -> Array:
        while number >= len(kept):
            kept.append(np.empty(_BLOCK, like.dtype))
        return kept[number][:size].reshape(shape)

    return temporary


# -- variables --------------------------------------------------------------------------------


def _locked(variables: Sequence[State]) -> AbstractContextManager[object]:
    return variables[0].lock if len(variables) == 1 else Locked(variables)


def _check_alike(variables: Sequence[State], shape: tuple[int, ...], dtype: np.dtype[Any]) -> None:
    for variable in variables:
        array = variable.require()
        if array.shape != shape:
            raise errors.invalid_argument(
                f"var and {'grad' if variables[1:] else 'delta'} do not have the same shape{shapes.text(array.shape)} "
                f"{shapes.text(shape)}: the first is that of variable {variable.name}, the second that of the gradient"
            )
        if array.dtype != dtype:
            raise _other_type(variable, dtype)


def _other_type(variable: State, dtype: np.dtype[Any]) -> errors.OpError:
    return errors.invalid_argument(
        f"variable {variable.name} holds {variable.dtype.name}, and the gradient is {dtype}"
    )


def _check_rows(variables: Sequence[State], grad: Any, indices: Any) -> None:
    """Raise InvalidArgument unless `indices` are rows of the variables and `grad` fits those rows."""
    var = variables[0]
    shape = var.require().shape
    for slot in variables[1:]:
        array = slot.require()
        if array.shape != shape:
            raise errors.invalid_argument(
                f"variable {var.name} has shape {shapes.text(shape)}, and its slot {slot.name} "
                f"{shapes.text(array.shape)}; they must be equal"
            )
    if not shape or indices.ndim != 1:
        raise errors.invalid_argument(
            f"a sparse update needs a variable of rank 1 or more and a vector of indices, not "
            f"{shapes.text(shape)} and {shapes.text(indices.shape)}"
        )
    wanted = (indices.shape[0], *shape[1:])
    if grad.shape != wanted:
        raise errors.invalid_argument(
            f"{indices.shape[0]} indices into {var.name} of shape {shapes.text(shape)} need a "
            f"gradient of shape {shapes.text(wanted)}, not {shapes.text(grad.shape)}"
        )
    if not all_below(indices, shape[0]):
        at = int(np.flatnonzero((indices < 0) | (indices >= shape[0]))[0])
        raise errors.invalid_argument(
            f"Index {int(indices[at])} at offset {at} in indices is out of range: "
            f"{var.name} has {shape[0]} rows"
        )
    for variable in variables:
        if variable.require().dtype != grad.dtype:
            raise _other_type(variable, grad.dtype)


def fit_rows(arrays: Sequence[Array], grad: Any, indices: Any) -> bool:
    """Whether `_check_rows` finds nothing, which is soon seen."""
    shape, kind = arrays[0].shape, grad.dtype
    if not shape or indices.ndim != 1 or grad.shape != (len(indices), *shape[1:]):
        return False
    for array in arrays:
        if array.shape != shape or array.dtype != kind:
            return False
    if not len(indices):
        return True
    return bool(np.maximum.reduce(indices.view(_UNSIGNED[indices.itemsize])) < shape[0])


def _blocks(arrays: Sequence[Array], source: Any) -> Iterable[Sequence[Array]]:
    """Views of a block of each array and of `source`, block by block; never of rank 0."""
    if source.ndim and (
        source.size <= _BLOCK or not all(target.flags.c_contiguous for target in arrays)
    ):
        return ((*arrays, source),)
    flat = [target.reshape(-1) for target in arrays]
    flat.append(np.ascontiguousarray(source).reshape(-1))
    return (
        [array[start : start + _BLOCK] for array in flat] for start in range(0, source.size, _BLOCK)
    )


def _passes(indices: Array) -> Iterator[Any]:
    """Selections of `indices` without repetition in any of them: first mentions, second ones, …"""
    if indices.size <= _FEW_ROWS and len(set(indices.tolist())) == indices.size:
        yield slice(None)
        return
    order = np.argsort(indices, kind="stable")
    ordered = indices[order]
    again = np.flatnonzero(ordered[1:] == ordered[:-1]) + 1
    if not again.size:
        yield slice(None)
        return
    place = np.arange(indices.size)
    first = place.copy()
    first[again] = 0
    mention = np.empty_like(place)
    mention[order] = place - np.maximum.accumulate(first)
    for number in range(int(mention.max()) + 1):
        yield np.flatnonzero(mention == number)


def _scalar(name: str, value: Array) -> Any:
    if value.ndim:
        raise errors.invalid_argument(
            f"{name} must be a scalar, and has shape {shapes.text(value.shape)}"
        )
    return value[()]


# -- kernels ----------------------------------------------------------------------------------


class Product:
    """A gradient that is the product of two matrices, not made yet; `linear.is_large_product` is true of them."""

    __slots__ = ("x", "y")

    def __init__(self, x: Array, y: Array) -> None:
        self.x, self.y = x, y


class Inputs(NamedTuple):
    """Which input of an update is what.  variables: how many come first; indices_at: -1 if all rows are updated."""

    rule: Rule
    variables: int
    grad_at: int
    indices_at: int
    scalars: Sequence[tuple[str, int]]
    resource: bool


_INPUTS: dict[str, Inputs] = {}


def inputs_of(update: Operation) -> Inputs | None:
    """Those of an update that has slots, and is not of another kind."""
    return _INPUTS.get(update.type)


def names_of(rule: Rule) -> list[str]:
    """The ops whose updates are made by a rule."""
    return [name for name, inputs in _INPUTS.items() if inputs.rule is rule]


def gradient_at(update: Operation) -> int:
    """Which input of an update is its gradient."""
    assert update.spec is not None
    return next(at for at, each in enumerate(update.spec.inputs) if each.name in _GRADIENTS)


def _in_place(step: Step) -> Step:
    def both(temporary: Temporaries, var: Array, grad: Array, **more: Any) -> None:
        step(temporary(0), var, var, grad, **more)

    return both


@changes
class Rule:
    """What `rule` was told; calls of the kernels of its ops end here."""

    def __init__(
        self, step: Step, slots: Sequence[str], attrs: Sequence[str], rewrites: bool
    ) -> None:
        self.into = step
        self.rewrites = rewrites
        self.step = _in_place(step) if rewrites else step
        self._slots = len(slots)
        self.attrs = list(attrs)

    def kernel(self, names: Sequence[str], resource: bool) -> Callable[..., Any]:
        """The kernel of an op whose inputs are var, the slots and then `names`."""
        count = 1 + self._slots
        places = {name: place for place, name in enumerate(names, count)}
        grad_at = next(places.pop(name) for name in _GRADIENTS if name in places)
        indices_at = places.pop("indices", None)
        scalars_at = list(places.items())
        if self.rewrites and indices_at is None:
            return self._signed(self._rewriting(grad_at, scalars_at, resource))

        def kernel(xp: Any, *inputs: Any, **attrs: Any) -> Any:
            variables: Sequence[State] = inputs[:count]
            if resource:
                variables = [variable_behind(handle) for handle in variables]
            for name, place in scalars_at:
                value = inputs[place]
                attrs[name] = _scalar(name, value) if isinstance(value, np.ndarray) else value
            grad = inputs[grad_at]
            if indices_at is not None:
                self._rows(variables, grad, inputs[indices_at], attrs)
            elif grad.__class__ is Product:
                self._of_product(variables, grad, attrs)
            else:
                self._dense(variables, grad, attrs)
            return None if resource else inputs[0]

        return self._signed(kernel)

    def _rewriting(
        self, grad_at: int, scalars_at: Sequence[tuple[str, int]], resource: bool
    ) -> Callable[..., Any]:
        """The kernel of an op that changes one variable, all of it."""

        def kernel(xp: Any, *inputs: Any, **attrs: Any) -> Any:
            variable: State = variable_behind(inputs[0]) if resource else inputs[0]
            for name, place in scalars_at:
                value = inputs[place]
                attrs[name] = _scalar(name, value) if value.__class__ is np.ndarray else value
            grad = inputs[grad_at]
            if grad.__class__ is Product:
                self._of_product((variable,), grad, attrs)
            else:
                self._rewrite(variable, grad, attrs)
            return None if resource else variable

        return kernel

    def _signed(self, kernel: Callable[..., Any]) -> Callable[..., Any]:
        """With a signature that says which attrs it takes."""
        kind = inspect.Parameter
        parameters = [kind("xp", kind.POSITIONAL_ONLY), kind("inputs", kind.VAR_POSITIONAL)]
        parameters += [kind(attr, kind.KEYWORD_ONLY) for attr in self.attrs]
        kernel.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
        return kernel

    def _dense(self, variables: Sequence[State], grad: Any, more: dict[str, Any]) -> None:
        shape, kind = grad.shape, grad.dtype
        with _locked(variables):
            for array in [variable.require() for variable in variables]:
                if array.shape != shape or array.dtype != kind:
                    _check_alike(variables, shape, kind)
            self._change(variables, grad, more)

    def _change(self, variables: Sequence[State], grad: Any, more: dict[str, Any]) -> None:
        """All elements; what they are fits, and the locks are held."""
        if grad.ndim and grad.size <= _BLOCK:
            self.step(room_like(grad), *[each.writable() for each in variables], grad, **more)
            return
        blocks = _blocks([variable.writable() for variable in variables], grad)
        if grad.size * (1 + len(variables)) < _WORTH_SHARING:
            for block in blocks:
                self.step(room_like(block[-1]), *block, **more)
            return
        parallel_for(lambda block: self.step(room_like(block[-1]), *block, **more), blocks)

    def _rewrite(self, variable: State, grad: Any, more: dict[str, Any]) -> None:
        """As `_dense`; where somebody reads the variable, its next value goes elsewhere at once."""
        step = self.into

        def change(before: Array, after: Array) -> None:
            if 0 < grad.size <= _ROOM_FROM and grad.ndim:
                step(np.empty_like(grad) if after is before else after, before, after, grad, **more)
                return

            def part(block: Sequence[Array]) -> None:
                temporary = room_like(block[-1])(0) if after is before else block[1]
                step(temporary, block[0], block[-2], block[-1], **more)

            blocks = _blocks((before,) if after is before else (before, after), grad)
            if grad.size * 2 < _WORTH_SHARING:
                for block in blocks:
                    part(block)
            else:
                parallel_for(part, blocks)

        with variable.lock:
            array = variable.array
            if array is None or array.shape != grad.shape or array.dtype != grad.dtype:
                _check_alike((variable,), grad.shape, grad.dtype)
            variable.rewrite(change)

    def _of_product(self, variables: Sequence[State], grad: Product, more: dict[str, Any]) -> None:
        """As `_dense`; each part of the product is used while it is in a cache, and never stored.

        A part is made by one call of BLAS, as where the product is made whole: another cut gives other bits with most
        kernels.
        """
        x, y = grad.x, grad.y
        with _locked(variables):
            _check_alike(variables, (x.shape[0], y.shape[1]), x.dtype)
            arrays = [variable.writable() for variable in variables]
            parts = parts_of_product(x, y, x.shape[0] * y.size)
            start, end, _ = parts[0][1].indices(y.shape[1])
            width = end - start
            elements = x.shape[0] * y.shape[1]
            narrow = width < min(y.shape[1], _WIDE)
            if elements <= _STORED and (elements <= _FEW or narrow or size() == 1):
                self._of_stored(arrays, x, y, parts, more)
                return

            def part(where: tuple[slice, slice]) -> None:
                left, right = x[where[0]], y[:, where[1]]
                changed = [array[where] for array in arrays]
                product = scratch(_PRODUCT, (len(left), right.shape[1]), x.dtype)
                multiply(left, right, product)
                height = max(_BLOCK // right.shape[1], 1)
                for first in range(0, len(left), height):
                    rows = slice(first, first + height)
                    block = product[rows]
                    self.step(room_like(block), *[array[rows] for array in changed], block, **more)

            parallel_for(part, parts, products=True)

    def _of_stored(
        self,
        arrays: Sequence[Array],
        x: Array,
        y: Array,
        parts: Sequence[tuple[slice, slice]],
        more: dict[str, Any],
    ) -> None:
        """The product is stored: with short pieces of rows NumPy does arithmetic at half its speed, and of few elements
        two threads that take turns at the interpreter's lock make less than one.
        """
        product = scratch(_PRODUCT, (x.shape[0], y.shape[1]), x.dtype)

        def part(where: tuple[slice, slice]) -> None:
            multiply(x[where[0]], y[:, where[1]], product[where])

        parallel_for(part, parts, products=True)
        if product.size <= _FEW:
            self.step(room_like(product), *arrays, product, **more)
            return
        parallel_for(
            lambda block: self.step(room_like(block[-1]), *block, **more),
            _blocks(arrays, product),
        )

    def _rows(
        self, variables: Sequence[State], grad: Any, indices: Any, more: dict[str, Any]
    ) -> None:
        with _locked(variables):
            if not fit_rows([variable.require() for variable in variables], grad, indices):
                _check_rows(variables, grad, indices)
            arrays = [variable.writable(sparse=True) for variable in variables]
            for part in _passes(indices):
                self._change_rows(arrays, grad[part], indices[part], more)

    def _change_rows(
        self, arrays: Sequence[Array], grad: Any, numbers: Any, more: dict[str, Any]
    ) -> None:
        """numbers: of rows that differ."""
        taken = [array.take(numbers, axis=0) for array in arrays]
        self.step(room_like(taken[0]), *taken, grad, **more)
        for array, changed in zip(arrays, taken, strict=True):
            put_rows(array, numbers, changed)

    def change(
        self, variables: Sequence[State], grad: Any, rows: Any, more: dict[str, Any]
    ) -> None:
        """An update that fits, of these rows, which differ, or of all (None); the locks are held."""
        if rows is not None:
            arrays = [variable.writable(sparse=True) for variable in variables]
            self._change_rows(arrays, grad, rows, more)
        else:
            self._change(variables, grad, more)


# -- ops --------------------------------------------------------------------------------------


def _shape(names: Sequence[str], variables: Sequence[str], resource: bool) -> ShapeFn:
    """Shape function: variables and gradient have one shape, scalars none; gives that of a reference."""

    def shape(c: ShapeContext) -> Any:
        found: Shape = None
        for name in variables:
            found = shapes.merge(found, held(c, name, "T") if resource else c.shape(name))
        for name in names:
            if name not in _GRADIENTS and name != "indices":
                c.with_rank(name, 0)
        grad = c.shape("delta" if "delta" in names else "grad")
        if "indices" not in names:
            found = shapes.merge(found, grad)
        else:
            (count,) = c.with_rank("indices", 1) or (None,)
            if found is not None and grad is not None:
                shapes.merge(grad, (count, *found[1:]))
        return [] if resource else found

    return shape


_TYPES = {"indices": "Tindices", "global_step": "int64"}


def _register(
    rule: Rule, name: str, variables: Sequence[str], names: Sequence[str], attrs: str
) -> None:
    resource = name.startswith("Resource")
    holder = "resource" if resource else "Ref(T)"
    inputs = [f"{variable}: {holder}" for variable in variables]
    inputs += [f"{other}: {_TYPES.get(other, 'T')}" for other in names]
    indices = "Tindices: {int32, int64}; " if "indices" in names else ""
    kernel = rule.kernel(names, resource)
    what = (rule.into.__doc__ or "").rstrip()
    kernel.__doc__ = f"{what}\n\n    Raises InvalidArgument if shapes do not fit.\n    "
    traits = {UPDATES, SHARES, STATEFUL if resource else NEVER_FOLDED}
    if not indices:
        traits.add(TAKES_PRODUCTS)
    spec = op(
        name,
        inputs="; ".join(inputs),
        outputs="" if resource else "out: Ref(T)",
        attrs=f"{_T}{indices}use_locking: bool = false{attrs}",
        shape=_shape(names, variables, resource),
        traits=traits,
    )(kernel)
    if not rule.rewrites:
        at = {other: place for place, other in enumerate(names, len(variables))}
        grad_at = next(at.pop(other) for other in _GRADIENTS if other in at)
        indices_at = at.pop("indices", -1)
        _INPUTS[name] = Inputs(rule, len(variables), grad_at, indices_at, [*at.items()], resource)
    code = rule.into.__code__
    spec.where = f"{code.co_filename}:{code.co_firstlineno}"


def rule(
    name: str,
    slots: str,
    dense: str,
    sparse: str = "",
    attrs: str = "",
    *,
    refs: bool = True,
    rewrites: bool = False,
) -> Callable[[Step], Rule]:
    """Decorator over a step function: registers the ops of update rule `name`.

    slots: names of the slots.  dense, sparse: the inputs after var and slots, in the order of the op; without `sparse`
    there is no such op.  attrs: beside T and use_locking.  refs: whether there are ops on references.
    rewrites: there are no slots, and step(scratch, var, after, grad, …) makes `after` of `var`, which may be the same
    array; scratch is another, or `after` if that is not `var`.
    """
    variables = ["var", *slots.split()]
    attr_names = [part.partition(":")[0].strip() for part in attrs.split(";") if part.strip()]
    more = f"; {attrs}" if attrs else ""

    def decorate(step: Step) -> Rule:
        made = Rule(step, variables[1:], attr_names, rewrites)
        for prefix in ("", "Resource") if refs else ("Resource",):
            _register(made, f"{prefix}Apply{name}", variables, dense.split(), more)
            if sparse:
                _register(made, f"{prefix}SparseApply{name}", variables, sparse.split(), more)
        return made

    return decorate
