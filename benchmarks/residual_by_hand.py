"""The floor of the residual block's training step: the same arithmetic in NumPy, written for this network alone.

Two threads take a few images at a time from one batch normalization to the next, in arrays that are there from the
first step on.  With a zero before each line of 32 pixels the windows of every third pixel follow each other in memory:
a convolution multiplies them as they lie, once for each line of the filter; products are small enough for OpenBLAS not
to pack them.  The gradient of what a convolution made is laid out like that once for both gradients that it goes to.
It makes all products; tiles of lines (`headrace.ops._kernels.line_tiles`), which came later, make half of them.

Used by: rows.models.
"""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
from numpy.lib.stride_tricks import as_strided

from benchmarks import models
from benchmarks.by_hand import cross_entropy
from benchmarks.models import BLOCK_BATCH, CHANNELS, SIDE
from benchmarks.row import Bench

Array = np.ndarray[Any, Any]
THREADS, N = 2, 4  # images at a time
LINE = 64 * CHANNELS  # elements of a line of pixels, for arithmetic by channel
PIXELS = BLOCK_BATCH * SIDE * SIDE
PADDED = SIDE + 1  # pixels of a line with the zero before it, a multiple of 3
RATE, MOMENTUM, EPSILON = np.float32(0.1), np.float32(0.9), np.float32(0.001)


def _room(*shape: int) -> Array:
    return np.zeros(shape, np.float32)


def _long(vector: Array) -> Array:
    return np.tile(vector, LINE // CHANNELS)


class _Padded:
    """N pictures, a zero pixel before each line and two after the last one."""

    def __init__(self) -> None:
        self._pixels = _room(N * SIDE * PADDED + 2, CHANNELS)
        self._inside = self._pixels[:-2].reshape(N, SIDE, PADDED, CHANNELS)[:, :, 1:]
        self.windows = self._every_third(slice(0, SIDE), 0, 3 * CHANNELS)
        # Of what meets at each line of the filter.
        met = (slice(0, SIDE - 1), slice(0, SIDE), slice(1, SIDE))
        self.windows_met = [self._every_third(lines, 0, 3 * CHANNELS) for lines in met]
        self.pixels_met = [self._every_third(lines, 1, CHANNELS) for lines in reversed(met)]

    def _every_third(self, lines: slice, first: int, elements: int) -> Array:
        """[N, 3, pixels / 3, elements], from pixels `first`, `first` + 1 and `first` + 2 of the lines on."""
        shape = (N, 3, (lines.stop - lines.start) * PADDED // 3, elements)
        pixel, element = self._pixels.strides
        strides = (SIDE * PADDED * pixel, pixel, 3 * pixel, element)
        return as_strided(self._pixels[lines.start * PADDED + first :], shape, strides)

    def lay_out(self, x: Array) -> None:
        """x [N, side, side, channels]."""
        self._inside[...] = x


class _Room:
    """What a thread lays out."""

    def __init__(self) -> None:
        self.given, self.back = _Padded(), _Padded()
        self.planes, self.columns = (
            _room(3, N, SIDE + 2, SIDE + 2),
            _room(27, N * SIDE * SIDE),
        )
        self.other = _room(N * SIDE * SIDE * CHANNELS // LINE, LINE)
        self.some = _room(N, 3, 3 * CHANNELS, CHANNELS)
        products = _room(3, N, SIDE, PADDED, CHANNELS)
        self.bands = products[:, :, :, :SIDE]
        line, image, _, pixel, element = products.strides
        shape = (3, N, 3, SIDE * PADDED // 3, CHANNELS)
        self.products = as_strided(products, shape, (line, image, pixel, 3 * pixel, element))
        plane, image, line, pixel = self.planes.strides
        self.columns_of_planes = as_strided(
            self.planes, (3, 3, 3, N, SIDE, SIDE), (line, pixel, plane, image, line, pixel)
        )

    def convolve(self, given: _Padded, filters: Array, into: Array) -> None:
        """into = what is laid out with filters [3, 3 * channels, channels]."""
        np.matmul(given.windows, filters[:, None, None], out=self.products)
        above, same, below = self.bands
        into[:, 0] = same[:, 0]
        np.add(same[:, 1:], above[:, :-1], out=into[:, 1:])
        into[:, :-1] += below[:, 1:]

    def of_filters(self, total: Array) -> None:
        """total [3, 3 * channels, channels] += the gradient of the filters, of what is laid out of both."""
        for line in range(3):
            windows = self.given.windows_met[line].swapaxes(2, 3)
            np.matmul(windows, self.back.pixels_met[line], out=self.some)
            total[line] += self.some.sum((0, 1))

    def lay_out_images(self, images: Array) -> None:
        """The windows of images [N, side, side, 3] as columns."""
        self.planes[:, :, 1:-1, 1:-1] = images.transpose(3, 0, 1, 2)
        self.columns.reshape(self.columns_of_planes.shape)[...] = self.columns_of_planes


class _Norm:
    """A batch normalization: y = x * a + b, and dx = dy * p + x * q + r."""

    def __init__(self) -> None:
        self.scale, self.offset = np.ones(CHANNELS, np.float32), _room(CHANNELS)
        self.sums = _room(2, BLOCK_BATCH // N, LINE)

    def measure(self, number: int, x: Array, y: Array, other: Array) -> None:
        """Of a block: the sums of x and of x * y, lines of pixels."""
        x.sum(0, out=self.sums[0, number])
        np.multiply(x, y, out=other).sum(0, out=self.sums[1, number])

    def _means(self) -> tuple[Array, Array]:
        of_x, of_both = self.sums.sum(1).reshape(2, -1, CHANNELS).sum(1) / np.float32(PIXELS)
        return of_x, of_both

    def forward(self) -> None:
        self.mean, squares = self._means()
        self.inverse = 1 / np.sqrt(squares - self.mean * self.mean + EPSILON)
        a = self.scale * self.inverse
        self.a, self.b = _long(a), _long(self.offset - self.mean * a)

    def backward(self) -> tuple[Array, Array]:
        """Gradients of scale and offset."""
        to_offset, with_x = self._means()
        to_scale = (with_x - self.mean * to_offset) * self.inverse
        p = self.scale * self.inverse
        q = -p * self.inverse * to_scale
        self.p, self.q, self.r = _long(p), _long(q), _long(-p * to_offset - q * self.mean)
        return to_scale * np.float32(PIXELS), to_offset * np.float32(PIXELS)


class Step:
    """Variables, and a step of momentum on them."""

    def __init__(self) -> None:
        of = models.block_values()
        self.images, self.labels, self.last = of["images"], of["labels"], of["last"].copy()
        self.first, self.one, self.two = (of[name].copy() for name in ("first", "one", "two"))
        self.last_bias = _room(models.CLASSES)
        self.norms = [_Norm() for _ in range(3)]
        shape = (BLOCK_BATCH, SIDE, SIDE, CHANNELS)
        self.made = [_room(*shape) for _ in range(3)]  # by the convolutions
        self.signals = [_room(*shape) for _ in range(3)]
        self.given, self.passed = _room(*shape), _room(*shape)  # gradients
        self.means = _room(BLOCK_BATCH, CHANNELS)
        self.pool = ThreadPoolExecutor(THREADS)
        self.rooms = [_Room() for _ in range(THREADS)]
        self.totals = [
            [_room(3, 3 * CHANNELS, CHANNELS) for _ in range(2)] + [_room(27, CHANNELS)]
            for _ in range(THREADS)
        ]
        self.speeds: dict[str, Array] = {}

    def _each(self, work: Callable[[int, int, slice], None]) -> None:
        """work(thread, number, images) for each block, on all threads."""

        def share(thread: int) -> None:
            for number in range(thread, BLOCK_BATCH // N, THREADS):
                work(thread, number, slice(number * N, (number + 1) * N))

        list(self.pool.map(share, range(THREADS)))

    def __call__(self) -> float:
        """The loss, before the step."""
        for total in self.totals:
            for each in total:
                each[...] = 0
        self._forward()
        logits = self.means @ self.last + self.last_bias
        loss, shares = cross_entropy(logits, self.labels)
        to_means = shares @ self.last.T / np.float32(SIDE * SIDE)
        changes = {"last": self.means.T @ shares, "last_bias": shares.sum(0)}
        changes |= self._backward(to_means)
        self._descend(changes)
        return loss

    # -- forward ------------------------------------------------------------------------------------------------------

    def _forward(self) -> None:
        one, two = (w.reshape(3, 3 * CHANNELS, CHANNELS) for w in (self.one, self.two))
        first = self.first.reshape(27, CHANNELS)

        def begin(thread: int, number: int, images: slice) -> None:
            room = self.rooms[thread]
            room.lay_out_images(self.images[images])
            made = self.made[0][images]
            np.matmul(room.columns.T, first, out=made.reshape(-1, CHANNELS))
            self._measured(0, thread, number, images)

        def convolve(at: int, filters: Array) -> Callable[[int, int, slice], None]:
            def work(thread: int, number: int, images: slice) -> None:
                self._normalized(at - 1, images)
                np.maximum(self.signals[at - 1][images], 0, out=self.signals[at - 1][images])
                room = self.rooms[thread]
                room.given.lay_out(self.signals[at - 1][images])
                room.convolve(room.given, filters, self.made[at][images])
                self._measured(at, thread, number, images)

            return work

        def end(thread: int, number: int, images: slice) -> None:
            signal = self.signals[2][images]
            self._normalized(2, images)
            signal += self.signals[0][images]
            np.maximum(signal, 0, out=signal)
            long = signal.reshape(N, -1, LINE).sum(1)
            self.means[images] = long.reshape(N, -1, CHANNELS).sum(1) / np.float32(SIDE * SIDE)

        self._each(begin)
        for at, filters in ((1, one), (2, two)):
            self.norms[at - 1].forward()
            self._each(convolve(at, filters))
        self.norms[2].forward()
        self._each(end)

    def _measured(self, at: int, thread: int, number: int, images: slice) -> None:
        lines = self.made[at][images].reshape(-1, LINE)
        self.norms[at].measure(number, lines, lines, self.rooms[thread].other)

    def _normalized(self, at: int, images: slice) -> None:
        into, norm = self.signals[at][images].reshape(-1, LINE), self.norms[at]
        np.multiply(self.made[at][images].reshape(-1, LINE), norm.a, out=into)
        into += norm.b

    # -- back ---------------------------------------------------------------------------------------------------------

    def _backward(self, to_means: Array) -> dict[str, Array]:
        back = [
            np.ascontiguousarray(np.flip(w, (0, 1)).swapaxes(2, 3)).reshape(
                3, 3 * CHANNELS, CHANNELS
            )
            for w in (self.one, self.two)
        ]
        passed, given = self.passed, self.given

        def begin(thread: int, number: int, images: slice) -> None:
            alive = np.greater(self.signals[2][images], 0).reshape(N, -1, LINE)
            long = np.tile(to_means[images], (1, LINE // CHANNELS))[:, None]
            np.multiply(alive, long, out=passed[images].reshape(N, -1, LINE))
            self._measure_back(2, thread, number, passed[images], images)

        def through(at: int) -> Callable[[int, int, slice], None]:
            """From the gradient of what normalization `at` gives to that of the one before."""
            source = passed if at == 2 else given

            def work(thread: int, number: int, images: slice) -> None:
                room, before = self.rooms[thread], self.signals[at - 1][images]
                dy = self._back(at, thread, source[images], images).reshape(before.shape)
                room.given.lay_out(before)
                room.back.lay_out(dy)
                room.of_filters(self.totals[thread][at - 1])
                room.convolve(room.back, back[at - 1], given[images])
                if at == 1:
                    given[images] += passed[images]
                given[images] *= before > 0
                self._measure_back(at - 1, thread, number, given[images], images)

            return work

        def end(thread: int, number: int, images: slice) -> None:
            dy = self._back(0, thread, given[images], images)
            room = self.rooms[thread]
            room.lay_out_images(self.images[images])
            # np.matmul keeps the interpreter's lock where the product is as small as that.
            self.totals[thread][2] += np.dot(room.columns, dy.reshape(-1, CHANNELS))

        changes = {}
        for at, work in ((2, begin), (1, through(2)), (0, through(1))):
            self._each(work)
            changes[f"scale{at}"], changes[f"offset{at}"] = self.norms[at].backward()
        self._each(end)
        for place, name in enumerate(("one", "two", "first")):
            total = sum(each[place] for each in self.totals)
            changes[name] = np.asarray(total).reshape(getattr(self, name).shape)
        return changes

    def _measure_back(self, at: int, thread: int, number: int, dy: Array, images: slice) -> None:
        lines = self.made[at][images].reshape(-1, LINE)
        self.norms[at].measure(number, dy.reshape(-1, LINE), lines, self.rooms[thread].other)

    def _back(self, at: int, thread: int, dy: Array, images: slice) -> Array:
        """The gradient of what the convolution made, in the place of what it made."""
        lines, norm = self.made[at][images].reshape(-1, LINE), self.norms[at]
        other = np.multiply(dy.reshape(-1, LINE), norm.p, out=self.rooms[thread].other)
        lines *= norm.q
        lines += norm.r
        lines += other
        return lines

    def _descend(self, changes: dict[str, Array]) -> None:
        for name, change in changes.items():
            speed = self.speeds.setdefault(name, np.zeros_like(change))
            speed *= MOMENTUM
            speed += change
            kind, at = name.rstrip("012"), name[-1]
            variable = getattr(self.norms[int(at)], kind) if at in "012" else getattr(self, name)
            variable -= RATE * speed


def first_by_hand(bench: Bench) -> None:
    """The floor of a first step: arrays that are new, and one step."""
    from headrace.run.exec import blas  # which the process that measures TensorFlow has not

    losses = models.BLOCK.losses[:1]

    def begin() -> list[float]:
        step = Step()
        made = [step()]
        step.pool.shutdown()
        return made

    with blas.threads(1):
        bench.expect(begin(), losses, relative=models.BLOCK.close)
        bench.time(begin)


def by_hand(bench: Bench) -> None:
    """The floor: two threads, BLAS one in each."""
    from headrace.run.exec import blas

    step = Step()
    with blas.threads(1):
        bench.expect(
            [step() for _ in models.BLOCK.losses], models.BLOCK.losses, relative=models.BLOCK.close
        )
        bench.time(step)
    step.pool.shutdown()
