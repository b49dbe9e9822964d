"""The training step of `benchmarks.cnn` by hand: NumPy alone, on THREADS threads, for this network and this batch.

Every call of NumPy is prepared with its arrays (`Call`), so a thread holds the interpreter's lock for a microsecond
between two of them.  It takes its images from the first layer to the dense one and back, a few at a time, without
waiting for the other; of the dense layer's weights it has its rows, which nobody else reads.
Layouts spare copies and passes.  The four outputs that a pooling window meets lie in four blocks, so that pooling and
its gradient go over blocks.  The second convolution is made as Winograd does, in tiles of 2 x 2 outputs, which are the
pooling windows: of 36 products where there would be 100.

Used by: benchmarks.cnn.
Source: Lavin, Gray, "Fast algorithms for convolutional neural networks", 2016
"""

from __future__ import annotations

import math
import queue
import threading
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np
from numpy.lib.stride_tricks import as_strided

Array = np.ndarray[Any, Any]
Call = Callable[[], object]
THREADS = 2
BATCH, C1, C2, UNITS = 50, 32, 64, 1024
FLAT = 7 * 7 * C2
N = 5  # images at a time
SLABS = ((0, 4), (4, 7))  # lines of tiles that are multiplied at a time
SUMMED, UPDATED = 196, 56  # rows of the dense layer's weights at a time
POINTS = (0.0, 2 / 3, -2 / 3, 3 / 2, -3 / 2)  # of Winograd's tiles, beside infinity
RATE, BETA1, BETA2, EPSILON = 1e-4, 0.9, 0.999, 1e-8
ZERO = np.float32(0)


def _room(*shape: int) -> Array:
    return np.zeros(shape, np.float32)


def _winograd() -> tuple[Array, Array, Array]:
    """G [6, 5], B [6, 6], A [2, 6]: the two outputs of six inputs d and five weights g are A (G g * B d)."""
    g, b, a = np.zeros((6, 5)), np.zeros((6, 6)), np.zeros((2, 6))
    g[5, 4] = a[1, 5] = 1
    b[5] = np.poly(POINTS)[::-1]
    for row, point in enumerate(POINTS):
        others = np.delete(POINTS, row)
        g[row] = point ** np.arange(5) / np.prod(point - others)
        b[row, :5] = np.poly(others)[::-1]
        a[:, row] = point ** np.arange(2)
    return g, b, a


G, B, A = _winograd()
FILTERS, OUTPUTS = (np.kron(m, m).astype(np.float32) for m in (G, A))  # [36, 25], [4, 36]
INPUTS = B.astype(np.float32)  # one dimension after the other


class _Room:
    """Memory that a thread uses again for all its images, and the sums that it makes of them."""

    def __init__(self) -> None:
        self.padded = _room(N, 32, 32)
        self.apart = _room(8, 8, N, 7, 7)
        self.lines, self.lines_done = _room(6, 7, 2, 9, N, C1), _room(6, 7, 2, 9, N, C1)
        self.pixels, self.products = _room(36 * 49 * N * C1), _room(36 * 49 * N * C2)
        self.to_tiles = _room(36, 49 * N, C1)
        self.outputs1, self.outputs2 = _room(4, 196 * N * C1), _room(4, 49 * N * C2)
        self.to_x = _room(2, 9, 2, 9, N, C1)
        self.some1, self.some2 = _room(25, C1), _room(36, C1, C2)
        self.sums1, self.sums2 = _room(25, C1), _room(36, C1, C2)  # gradients of the filters
        self.bias1, self.bias2 = _room(28 * C1), _room(7 * C2)  # of the biases, repeated
        self.hidden, self.some_hidden = _room(BATCH, UNITS), _room(BATCH, UNITS)


class _Pooling:
    """The largest of four blocks of outputs and a bias, or 0 if that is less; and the way back.

    Of equal ones the first counts, as for TensorFlow.
    """

    def __init__(self, size: int, bias: Array) -> None:
        """size: of a block.  bias: repeated as in `Step.tiled`."""
        self.largest, self._other, self._zeros = _room(size), _room(size), _room(len(bias))
        self._second, self._fourth, self._lower, self._alive = np.zeros((4, size), bool)
        self._bits, self._bias = np.zeros(size, np.int32), bias

    def forward(self, outputs: Array) -> list[Call]:
        """outputs [4, size]; the result is `largest`."""
        first, second, third, fourth = outputs
        rows = self.largest.reshape(-1, len(self._bias))
        return [
            partial(np.greater, second, first, out=self._second),
            partial(np.greater, fourth, third, out=self._fourth),
            partial(np.maximum, first, second, out=self.largest),
            partial(np.maximum, third, fourth, out=self._other),
            partial(np.greater, self._other, self.largest, out=self._lower),
            partial(np.maximum, self.largest, self._other, out=self.largest),
            partial(np.add, rows, self._bias, out=rows),
            partial(np.maximum, rows, self._zeros, out=rows),
            partial(np.greater, rows, self._zeros, out=self._alive.reshape(rows.shape)),
        ]

    def backward(self, outputs: Array, bias: Array) -> list[Call]:
        """outputs [4, size] = their gradient, for that of the result in `largest`; bias += its gradient."""
        first, second, third, fourth = outputs
        given, sums = self.largest, np.zeros_like(bias)
        return [
            *self._masked(given, self._alive, given),
            partial(np.add.reduce, given.reshape(-1, len(sums)), axis=0, out=sums),
            partial(np.add, bias, sums, out=bias),
            *self._masked(given, self._lower, third),
            partial(np.subtract, given, third, out=first),
            *self._masked(first, self._second, second),
            partial(np.subtract, first, second, out=first),
            *self._masked(third, self._fourth, fourth),
            partial(np.subtract, third, fourth, out=third),
        ]

    def _masked(self, source: Array, mask: Array, into: Array) -> list[Call]:
        """All bits of an element or none: faster than a choice."""
        return [
            partial(np.subtract, np.int8(0), mask.view(np.int8), out=self._bits),
            partial(np.bitwise_and, source.view(np.int32), self._bits, out=into.view(np.int32)),
        ]


class _Images:
    """Both convolutions of N images, forward and back."""

    def __init__(self, net: Step, room: _Room, images: slice) -> None:
        self._room = room
        self._columns = _room(25, 4, 2, 2, N, 7, 7)  # a line for each pixel of the window
        self._x = _room(2, 9, 2, 9, N, C1)  # even and odd lines and pixels apart, with padding
        self._places = _room(36, 49 * N, C1)  # what the tiles of x give to the products
        first = _Pooling(196 * N * C1, net.tiled[0])
        second = _Pooling(49 * N * C2, net.tiled[1])
        pooled1 = first.largest.reshape(2, 2, N, 7, 7, C1).transpose(0, 3, 1, 4, 2, 5)
        pooled2 = second.largest.reshape(49, N, C2).transpose(1, 0, 2)
        flat, to_flat = (a[images].reshape(N, 49, C2) for a in (net.flat, net.to_flat))
        columns, outputs = self._columns.reshape(25, -1), room.outputs1.reshape(-1, C1)
        self.forward: list[Call] = [
            *self._lay_out(net.images[images]),
            partial(np.matmul, columns.T, net.filters1, out=outputs),
            *first.forward(room.outputs1),
            partial(np.copyto, self._x[:, 1:8, :, 1:8], pooled1),
            *self._tiles(),
            *self._products(net),
            *second.forward(room.outputs2),
            partial(np.copyto, flat, pooled2),
        ]
        self.backward: list[Call] = [
            partial(np.copyto, pooled2, to_flat),
            *second.backward(room.outputs2, room.bias2),
            *self._gradients(net),
            *self._from_tiles(),
            partial(np.copyto, pooled1, room.to_x[:, 1:8, :, 1:8]),
            *first.backward(room.outputs1, room.bias1),
            partial(np.matmul, columns, outputs, out=room.some1),
            partial(np.add, room.sums1, room.some1, out=room.sums1),
        ]

    def _lay_out(self, images: Array) -> list[Call]:
        """Columns in the order of pooling: i % 2, j % 2, both of i // 2, j // 2 (for the next one's tiles), the rest.

        Every fourth pixel of every fourth line first: all that lies in `apart` is runs of 49 pixels.
        """
        padded, apart = self._room.padded, self._room.apart
        image, line, pixel = padded.strides
        down, along, *_ = apart.strides
        every = as_strided(padded, apart.shape, (line, pixel, image, 4 * line, 4 * pixel))
        shape = (5, 5, 2, 2, 2, 2, N * 49)
        windows = as_strided(apart, shape, (down, along, down, along, 2 * down, 2 * along, 4))
        return [
            partial(np.copyto, padded[:, 2:30, 2:30], images),
            partial(np.copyto, apart, every),
            partial(np.copyto, self._columns.reshape(shape), windows),
        ]

    def _tiles(self) -> list[Call]:
        """Lines of tiles side by side, every second one first, and multiplied; then their pixels."""
        room = self._room
        lines, done = room.lines.reshape(6, 7, -1), room.lines_done.reshape(6, 7, 2, 9, -1)
        x, places = self._x.reshape(2, 9, -1), self._places.reshape(6, 6, 7, -1)
        calls: list[Call] = [partial(np.copyto, lines[k], x[k % 2, k // 2 :][:7]) for k in range(6)]
        calls.append(partial(np.matmul, INPUTS, lines.reshape(6, -1), out=done.reshape(6, -1)))
        for start, end in SLABS:
            pixels = _part(room.pixels, 6, 6, end - start, 7, N * C1)
            calls += [
                partial(np.copyto, pixels[:, k], done[:, start:end, k % 2, k // 2 :][:, :, :7])
                for k in range(6)
            ]
            into = places[:, :, start:end].reshape(6, 6, -1).swapaxes(0, 1)
            calls.append(partial(np.matmul, INPUTS, pixels.reshape(6, 6, -1), out=into))
        return calls

    def _products(self, net: Step) -> list[Call]:
        room = self._room
        calls: list[Call] = []
        for some, columns in _slabs():
            products = _part(room.products, 36, some.stop - some.start, C2)
            outputs = room.outputs2[:, columns]
            calls.append(partial(np.matmul, self._places[:, some], net.filters2, out=products))
            calls.append(partial(np.matmul, OUTPUTS, products.reshape(36, -1), out=outputs))
        return calls

    def _gradients(self, net: Step) -> list[Call]:
        """Those of the filters and of what the tiles gave, by those of the outputs."""
        room = self._room
        calls: list[Call] = []
        for some, columns in _slabs():
            products = _part(room.products, 36, some.stop - some.start, C2)
            places, outputs = self._places[:, some].swapaxes(1, 2), room.outputs2[:, columns]
            calls += [
                partial(np.matmul, OUTPUTS.T, outputs, out=products.reshape(36, -1)),
                partial(np.matmul, places, products, out=room.some2),
                partial(np.add, room.sums2, room.some2, out=room.sums2),
                partial(np.matmul, products, net.turned2, out=room.to_tiles[:, some]),
            ]
        return calls

    def _from_tiles(self) -> list[Call]:
        """The reverse of `_tiles`: pixels and then lines of all tiles added up where they meet."""
        room = self._room
        lines, done = room.lines.reshape(6, 1, 7, -1), room.lines_done.reshape(6, 7, 2, 9, -1)
        places, x = room.to_tiles.reshape(6, 6, 7, -1), room.to_x.reshape(1, 2, 9, -1)
        calls: list[Call] = []
        for start, end in SLABS:
            pixels = _part(room.pixels, 6, 6, end - start, 7, N * C1)
            given = places[:, :, start:end].reshape(6, 6, -1).swapaxes(0, 1)
            calls.append(partial(np.matmul, INPUTS.T, given, out=pixels.reshape(6, 6, -1)))
            calls += _added(pixels.swapaxes(0, 1), done[:, start:end])
        calls.append(partial(np.matmul, INPUTS.T, done.reshape(6, -1), out=lines.reshape(6, -1)))
        return calls + _added(lines, x)


def _part(room: Array, *shape: int) -> Array:
    return room[: math.prod(shape)].reshape(shape)


def _slabs() -> list[tuple[slice, slice]]:
    """Of rows of places, and of columns of outputs."""
    rows = [slice(start * 7 * N, end * 7 * N) for start, end in SLABS]
    return [(some, slice(some.start * C2, some.stop * C2)) for some in rows]


def _added(places: Array, into: Array) -> list[Call]:
    """into [.., 2, 9, k] = the sum of places [6, .., 7, k]; of every second one, each a step further on."""
    calls: list[Call] = []
    for number, place in enumerate(places):
        parity, start = number % 2, number // 2
        met = into[..., parity, start : start + 7, :]
        if start:
            calls.append(partial(np.add, met, place, out=met))
        else:
            calls.append(partial(np.copyto, met, place))
            calls.append(partial(np.copyto, into[..., parity, 7:, :], ZERO))
    return calls


class _Variable:
    """A variable and what Adam keeps of it."""

    def __init__(self, value: Array) -> None:
        self.value, self._mean, self._square = (
            value.copy(),
            np.zeros_like(value),
            np.zeros_like(value),
        )

    def update(self, net: Step, rows: slice, gradient: Array, room: Array) -> list[Call]:
        """Adam's step on some rows; changes the gradient."""
        value, mean, square = self.value[rows], self._mean[rows], self._square[rows]
        return [
            partial(np.subtract, gradient, mean, out=room),
            partial(np.multiply, room, np.float32(1 - BETA1), out=room),
            partial(np.add, mean, room, out=mean),
            partial(np.multiply, gradient, gradient, out=gradient),
            partial(np.subtract, gradient, square, out=gradient),
            partial(np.multiply, gradient, np.float32(1 - BETA2), out=gradient),
            partial(np.add, square, gradient, out=square),
            partial(np.sqrt, square, out=room),
            partial(np.add, room, np.float32(EPSILON), out=room),
            partial(np.divide, mean, room, out=room),
            partial(np.multiply, room, net.rate, out=room),
            partial(np.subtract, value, room, out=value),
        ]


class _Share:
    """What one thread does: up to the dense layer, and back from it."""

    def __init__(self, net: Step, images: slice, rows: slice) -> None:
        self.room = room = _Room()
        starts = range(images.start, images.stop, N)
        some = [_Images(net, room, slice(start, start + N)) for start in starts]
        sums = (room.sums1, room.sums2, room.bias1, room.bias2)
        self.forward = [call for each in some for call in each.forward]
        self.forward += [net.barrier.wait, *self._dense(net, rows)]
        self.backward = self._to_flat(net, rows)
        self.backward += [partial(np.copyto, each, ZERO) for each in sums]
        self.backward += [call for each in some for call in each.backward]
        self.backward += self._update(net, rows)

    def _dense(self, net: Step, rows: slice) -> list[Call]:
        """What comes of these rows of the weights; copied first, they lie in the cache."""
        hidden, some_hidden = self.room.hidden, self.room.some_hidden
        weights = _room(SUMMED, UNITS)
        calls: list[Call] = [partial(np.copyto, hidden, ZERO)]
        for start in range(rows.start, rows.stop, SUMMED):
            some = slice(start, start + SUMMED)
            calls += [
                partial(np.copyto, weights, net.dense.value[some]),
                partial(np.matmul, net.flat[:, some], weights, out=some_hidden),
                partial(np.add, hidden, some_hidden, out=hidden),
            ]
        return calls

    @staticmethod
    def _to_flat(net: Step, rows: slice) -> list[Call]:
        made = _room(rows.stop - rows.start, BATCH)
        return [
            partial(np.matmul, net.dense.value[rows], net.to_hidden.T, out=made),
            partial(np.copyto, net.to_flat[:, rows], made.T),
            net.barrier.wait,
        ]

    @staticmethod
    def _update(net: Step, rows: slice) -> list[Call]:
        gradient, room = _room(UPDATED, UNITS), _room(UPDATED, UNITS)
        calls: list[Call] = []
        for start in range(rows.start, rows.stop, UPDATED):
            some = slice(start, start + UPDATED)
            calls.append(partial(np.matmul, net.flat[:, some].T, net.to_hidden, out=gradient))
            calls += net.dense.update(net, some, gradient, room)
        return calls


class Step:
    """The step; a context manager, which owns the other thread.  BLAS is to use one thread a call meanwhile."""

    def __init__(self, images: Array, labels: Array, variables: Sequence[Array]) -> None:
        """images [50, 28, 28, 1], labels [50]; variables in the order in which `cnn.build` makes them."""
        self.images, self._labels = images[..., 0], labels
        self._variables = [_Variable(value) for value in variables]
        filters1, bias1, filters2, bias2, self.dense, *_ = self._variables
        self.filters1, self._biases = filters1.value.reshape(25, C1), (bias1.value, bias2.value)
        self.tiled = (_room(28 * C1), _room(7 * C2))
        self.filters2, self.turned2 = _room(36, C1, C2), _room(36, C2, C1)
        self._of_filters2 = filters2.value
        self.flat, self.to_flat = _room(BATCH, FLAT), _room(BATCH, FLAT)
        self.to_hidden = _room(BATCH, UNITS)
        self.rate, self._steps = np.zeros((), np.float32), 0
        self.barrier = threading.Barrier(THREADS)
        each, rows = BATCH // THREADS, FLAT // THREADS
        self._shares = [
            _Share(self, slice(k * each, (k + 1) * each), slice(k * rows, (k + 1) * rows))
            for k in range(THREADS)
        ]
        self._asked: queue.SimpleQueue[list[Call]] = queue.SimpleQueue()
        self._done: queue.SimpleQueue[bool] = queue.SimpleQueue()
        self._helper = threading.Thread(target=self._help)

    def __enter__(self) -> Step:
        self._helper.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.barrier.abort()  # where one of them has failed, the other may wait
        self._asked.put([])
        self._helper.join()

    def _help(self) -> None:
        while calls := self._asked.get():
            try:
                for call in calls:
                    call()
            except BaseException:
                self.barrier.abort()
                raise
            finally:
                self._done.put(True)

    def _both(self, own: list[Call], other: list[Call]) -> None:
        self._asked.put(other)
        for call in own:
            call()
        self._done.get()

    def __call__(self) -> float:
        """One step; gives the loss before it."""
        self._steps += 1
        self.rate[...] = RATE * np.sqrt(1 - BETA2**self._steps) / (1 - BETA1**self._steps)
        for tiled, bias in zip(self.tiled, self._biases, strict=True):
            tiled.reshape(-1, len(bias))[...] = bias
        # Of tiles, too, pixels come before lines.
        turned = self._of_filters2.swapaxes(0, 1).reshape(25, -1)
        np.matmul(FILTERS, turned, out=self.filters2.reshape(36, -1))
        self.turned2[...] = self.filters2.swapaxes(1, 2)
        a, b = self._shares
        self._both(a.forward, b.forward)
        loss, of_last = self._last_layers(a.room.hidden + b.room.hidden)
        self._both(a.backward, b.backward)
        sums1, sums2, bias1, bias2 = (
            getattr(a.room, name) + getattr(b.room, name)
            for name in ("sums1", "sums2", "bias1", "bias2")
        )
        of_filters2 = (FILTERS.T @ sums2.reshape(36, -1)).reshape(5, 5, C1, C2).swapaxes(0, 1)
        gradients = [
            sums1.reshape(5, 5, 1, C1), bias1.reshape(-1, C1).sum(axis=0),
            of_filters2.copy(), bias2.reshape(-1, C2).sum(axis=0), *of_last,
        ]  # fmt: skip
        small = [variable for variable in self._variables if variable is not self.dense]
        for variable, gradient in zip(small, gradients, strict=True):
            for call in variable.update(self, slice(None), gradient, np.empty_like(gradient)):
                call()
        return loss

    def _last_layers(self, hidden: Array) -> tuple[float, tuple[Array, ...]]:
        """The loss, and gradients of the hidden layer's bias and of the last one's variables; makes `to_hidden`."""
        *_, bias, last, last_bias = (variable.value for variable in self._variables)
        hidden = np.maximum(hidden + bias, ZERO)
        logits = hidden @ last + last_bias
        logits -= logits.max(axis=1, keepdims=True)
        powers = np.exp(logits)
        sums = powers.sum(axis=1, keepdims=True)
        every = np.arange(BATCH)
        loss = float((np.log(sums[:, 0]) - logits[every, self._labels]).mean())
        to_logits = powers / sums
        to_logits[every, self._labels] -= 1
        to_logits /= np.float32(BATCH)
        np.multiply(to_logits @ last.T, hidden > 0, out=self.to_hidden)
        return loss, (self.to_hidden.sum(axis=0), hidden.T @ to_logits, to_logits.sum(axis=0))
