"""Frames of signals: frame, overlap_and_add, windows, short-time Fourier transforms, mel spectra.

Called by: programs.  Threads: as graph.
Source: TF 1.15 behaviour.  Windows: Harris, "On the use of windows for harmonic analysis", 1978; inverse transforms:
Griffin and Lim, "Signal estimation from modified short-time Fourier transform", 1984; mel scale: O'Shaughnessy, Speech
Communication, 1987, as HTK has it
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from headrace.base import dtypes
from headrace.graph.const_value import constant_value
from headrace.graph.convert import convert
from headrace.graph.names import name_scope
from headrace.graph.tensor import Tensor
from headrace.library.around_axis import around_axis
from headrace.library.signal.real_transforms import dct, irfft, rfft
from headrace.ops.array.constants import constant
from headrace.ops.array.joining import concat
from headrace.ops.array.packing import stack
from headrace.ops.array.padding import pad, tile
from headrace.ops.array.ranges import linspace
from headrace.ops.array.ranges import range as range_of
from headrace.ops.array.shapes import expand_dims, reshape, shape, transpose
from headrace.ops.math.casting import cast
from headrace.ops.math.reductions import reduce_prod, reduce_sum
from headrace.ops.tables import make

__all__ = [
    "frame",
    "hamming_window",
    "hann_window",
    "inverse_stft",
    "inverse_stft_window_fn",
    "linear_to_mel_weight_matrix",
    "mfccs_from_log_mel_spectrograms",
    "overlap_and_add",
    "stft",
]


def _number(value: Any, name: str) -> Any:
    """A number as an int if it is known, else as a scalar.  Raises ValueError if it is no scalar."""
    found = convert(value, name=name)
    found.shape.assert_has_rank(0)
    known = constant_value(found)
    return found if known is None else int(known)


def _sizes(x: Tensor) -> list[Any]:
    """Sizes, as ints where they are known."""
    raw = x.raw_shape
    assert raw is not None
    if None not in raw:
        return list(raw)
    dynamic = shape(x)
    return [dynamic[at] if each is None else each for at, each in enumerate(raw)]


def _packed(sizes: list[Any]) -> Any:
    return sizes if all(isinstance(each, int) for each in sizes) else stack(sizes)


def _most(a: Any, b: Any) -> Any:
    known = isinstance(a, int) and isinstance(b, int)
    return max(a, b) if known else make.Maximum(a, b)


def frame(
    signal: Any,
    frame_length: Any,
    frame_step: Any,
    pad_end: bool = False,
    pad_value: Any = 0,
    axis: int = -1,
    name: str | None = None,
) -> Tensor:
    """Frames of `frame_length` elements of `axis`, one every `frame_step`: [..., frames, frame_length, ...].

    pad_end: the last ones are filled with pad_value; else what fills no frame is left out.
    Raises ValueError.
    """
    with name_scope(name, "frame", [signal, frame_length, frame_step, pad_value]):
        x = convert(signal, name="signal")
        length, step = _number(frame_length, "frame_length"), _number(frame_step, "frame_step")
        ranks = x.shape.ndims
        axis = int(np.asarray(axis))
        if ranks is None:
            return around_axis(
                x, axis, lambda flat: frame(flat, length, step, pad_end, pad_value, axis=1)
            )
        if not -ranks <= axis < ranks:
            raise ValueError(f"axis {axis} of a signal of {ranks} dimensions")
        axis %= ranks
        count = _sizes(x)[axis]
        if pad_end:
            frames = -(-count // step)
            missing = _most(0, length + step * (frames - 1) - count)
            behind = stack([0, missing]) if isinstance(missing, Tensor) else [0, missing]
            rows: list[Any] = [[0, 0]] * axis + [behind] + [[0, 0]] * (ranks - axis - 1)
            fill = constant(pad_value, x.dtype.base_dtype)
            x = make.PadV2(x, stack(rows) if isinstance(missing, Tensor) else rows, fill)
        else:
            frames = _most(0, 1 + (count - length) // step)
        starts = reshape(range_of(frames) * step, [-1, 1])
        where = starts + reshape(range_of(length), [1, -1])
        sizes = list(x.raw_shape or ())
        if axis:
            made: Tensor = make.GatherV2(x, where, axis)
        else:  # the gradient of its rows would be slices
            made = make.Squeeze(make.GatherV2(expand_dims(x, 0), where, 1), squeeze_dims=[0])
        known = [each if isinstance(each, int) else None for each in (frames, length)]
        made.set_shape([*sizes[:axis], *known, *sizes[axis + 1 :]])
        return made


def overlap_and_add(signal: Any, frame_step: Any, name: str | None = None) -> Tensor:
    """The sum of frames [..., frames, frame_length], each `frame_step` behind the one before: [..., elements].

    Raises ValueError.
    """
    with name_scope(name, "overlap_and_add", [signal, frame_step]):
        x = convert(signal, name="signal")
        x.shape.with_rank_at_least(2)
        step = convert(frame_step, name="frame_step")
        step.shape.assert_has_rank(0)
        if not step.dtype.is_integer:
            raise ValueError(f"frame_step must be an integer. Got {step.dtype}")
        by = _number(step, "frame_step")
        if isinstance(by, int) and by < 1:
            raise ValueError(f"frame_step must be positive, and is {by}")
        if x.shape.ndims is None:
            sizes = shape(x)
            whole = stack([reduce_prod(sizes[:-2]), sizes[-2], sizes[-1]])
            joined = overlap_and_add(reshape(x, whole), by)
            return reshape(joined, concat([sizes[:-2], shape(joined)[-1:]], 0))
        *outer, frames, length = _sizes(x)
        segments = -(-length // by)
        flat = reshape(x, _packed([-1, frames, length]))
        behind = [[0, 0], [0, segments], [0, segments * by - length]]
        known = all(isinstance(each, int) for row in behind for each in row)
        flat = pad(flat, behind if known else stack([stack(row) for row in behind]))
        # Each frame is a row more to the right than the one before: rows of equal places are one behind the other.
        flat = reshape(flat, _packed([-1, frames + segments, segments, by]))
        flat = transpose(flat, [0, 2, 1, 3])
        flat = reshape(flat, _packed([-1, (frames + segments) * segments, by]))
        flat = flat[:, : (frames + segments - 1) * segments]
        flat = reshape(flat, _packed([-1, segments, frames + segments - 1, by]))
        summed = reduce_sum(flat, axis=1)
        whole = reshape(summed, _packed([*outer, (frames + segments - 1) * by]))
        made: Tensor = whole[..., : (frames - 1) * by + length]
        elements = (frames - 1) * by + length
        static = list(x.raw_shape or ())[:-2]
        made.set_shape([*static, elements if isinstance(elements, int) else None])
        return made


# -- windows ----------------------------------------------------------------------------------


def hann_window(
    window_length: Any, periodic: Any = True, dtype: Any = dtypes.float32, name: str | None = None
) -> Tensor:
    """[window_length] of 0.5 - 0.5 cos; periodic: as of one longer, for spectra; else symmetric."""
    return _raised_cosine(name, "hann_window", window_length, periodic, dtype, 0.5, 0.5)


def hamming_window(
    window_length: Any, periodic: Any = True, dtype: Any = dtypes.float32, name: str | None = None
) -> Tensor:
    """[window_length] of 0.54 - 0.46 cos; periodic: as of one longer, for spectra; else symmetric."""
    return _raised_cosine(name, "hamming_window", window_length, periodic, dtype, 0.54, 0.46)


def _raised_cosine(
    name: str | None, default_name: str, length: Any, periodic: Any, dtype: Any, a: float, b: float
) -> Tensor:
    kind = dtypes.as_dtype(dtype)
    if not kind.is_floating:
        raise ValueError(f"dtype must be a floating point type. Found {kind}")
    with name_scope(name, default_name, [length, periodic]):
        count = convert(length, dtypes.int32, "window_length")
        count.shape.assert_has_rank(0)
        known = constant_value(count)
        if known is not None and known == 1:
            return make.OnesLike(cast(reshape(count, [1]), kind))  # type: ignore[no-any-return]
        is_periodic = cast(convert(periodic, dtypes.bool, "periodic"), dtypes.int32)
        even = 1 - make.FloorMod(count, 2)
        steps = cast(count + is_periodic * even - 1, kind)
        at = cast(range_of(count), kind)
        angle = constant(2 * math.pi, kind) * at / steps
        made: Tensor = a - b * make.Cos(angle)
        return make.Cast(made, DstT=kind) if made.dtype != kind else made


# -- short-time Fourier transforms ------------------------------------------------------------


def _enclosing(length: Any) -> Any:
    """The smallest power of two that is not less."""
    if isinstance(length, int):
        return 1 << max(length - 1, 0).bit_length()
    wide = cast(length, dtypes.float32)
    return cast(make.Pow(2.0, make.Ceil(make.Log(wide) / math.log(2.0))), dtypes.int32)


def stft(
    signals: Any,
    frame_length: Any,
    frame_step: Any,
    fft_length: Any = None,
    window_fn: Callable[..., Any] | None = hann_window,
    pad_end: bool = False,
    name: str | None = None,
) -> Tensor:
    """Short-time Fourier transforms of signals [..., samples]: [..., frames, fft_length // 2 + 1].

    fft_length: by default the power of two that holds a frame.  window_fn(frame_length, dtype=…), None for no window.
    Raises ValueError.
    """
    with name_scope(name, "stft", [signals, frame_length, frame_step]):
        x = convert(signals, name="signals")
        x.shape.with_rank_at_least(1)
        length, step = _number(frame_length, "frame_length"), _number(frame_step, "frame_step")
        size = _enclosing(length) if fft_length is None else _number(fft_length, "fft_length")
        frames = frame(x, length, step, pad_end=pad_end)
        if window_fn is not None:
            frames = frames * window_fn(length, dtype=frames.dtype)
        made: Tensor = rfft(frames, [size])
        return made


def inverse_stft_window_fn(
    frame_step: Any,
    forward_window_fn: Callable[..., Any] = hann_window,
    name: str | None = None,
) -> Callable[..., Tensor]:
    """A window_fn for `inverse_stft`, of a transform with forward_window_fn, by which the signal comes back.

    The frames have to be those that `stft` with this step made.
    """

    def inverse_stft_window_fn_inner(frame_length: Any, dtype: Any) -> Tensor:
        with name_scope(name, "inverse_stft_window_fn", [forward_window_fn]):
            length, step = _number(frame_length, "frame_length"), _number(frame_step, "frame_step")
            window = forward_window_fn(length, dtype=dtype)
            overlaps = -(-length // step)
            squares = pad(make.Square(window), [[0, overlaps * step - length]])
            sums = reduce_sum(reshape(squares, _packed([overlaps, step])), 0, keepdims=True)
            spread = reshape(tile(sums, _packed([overlaps, 1])), _packed([overlaps * step]))
            made: Tensor = window / spread[:length]
            return made

    return inverse_stft_window_fn_inner


def inverse_stft(
    stfts: Any,
    frame_length: Any,
    frame_step: Any,
    fft_length: Any = None,
    window_fn: Callable[..., Any] | None = hann_window,
    name: str | None = None,
) -> Tensor:
    """Signals [..., samples] of transforms [..., frames, fft_length // 2 + 1].

    window_fn: by which frames are multiplied before they are added; `inverse_stft_window_fn` makes one that undoes the
    window of the transform.  Raises ValueError.
    """
    with name_scope(name, "inverse_stft", [stfts]):
        x = convert(stfts, name="stfts")
        x.shape.with_rank_at_least(2)
        length, step = _number(frame_length, "frame_length"), _number(frame_step, "frame_step")
        size = _enclosing(length) if fft_length is None else _number(fft_length, "fft_length")
        frames = irfft(x, [size])
        if not isinstance(size, int) or not isinstance(length, int) or size > length:
            frames = frames[..., :length]
        if isinstance(size, int) and isinstance(length, int) and size < length:
            ranks = frames.shape.ndims or 2
            frames = pad(frames, [[0, 0]] * (ranks - 1) + [[0, length - size]])
        if window_fn is not None:
            frames = frames * window_fn(length, dtype=frames.dtype)
        return overlap_and_add(frames, step)


# -- mel spectra ------------------------------------------------------------------------------

_BREAK_HERTZ = 700.0
_PER_LOG = 1127.0


def _mel(hertz: Any) -> Any:
    return _PER_LOG * make.Log(1.0 + hertz / _BREAK_HERTZ)


def linear_to_mel_weight_matrix(
    num_mel_bins: int = 20,
    num_spectrogram_bins: Any = 129,
    sample_rate: Any = 8000,
    lower_edge_hertz: float = 125.0,
    upper_edge_hertz: float = 3800.0,
    dtype: Any = dtypes.float32,
    name: str | None = None,
) -> Tensor:
    """[num_spectrogram_bins, num_mel_bins]: bands, triangles of equal width on the mel scale, of frequencies.

    Raises ValueError.
    """
    kind = dtypes.as_dtype(dtype)
    with name_scope(name, "linear_to_mel_weight_matrix"):
        rate = constant_value(sample_rate) if isinstance(sample_rate, Tensor) else sample_rate
        _check_mel(num_mel_bins, rate, lower_edge_hertz, upper_edge_hertz, kind)
        rate_tensor = cast(convert(sample_rate, None, "sample_rate"), kind)
        lower, upper = (
            convert(each, kind, name)
            for each, name in (
                (lower_edge_hertz, "lower_edge_hertz"),
                (upper_edge_hertz, "upper_edge_hertz"),
            )
        )
        nothing = constant(0.0, kind)
        frequencies = linspace(nothing, rate_tensor / 2.0, num_spectrogram_bins)[1:]
        spectrum = expand_dims(_mel(frequencies), 1)
        edges = linspace(_mel(lower), _mel(upper), num_mel_bins + 2)
        first, middle, last = edges[:-2], edges[1:-1], edges[2:]
        rising = (spectrum - first) / (middle - first)
        falling = (last - spectrum) / (last - middle)
        weights = make.Maximum(nothing, make.Minimum(rising, falling))
        return pad(weights, [[1, 0], [0, 0]])


def _check_mel(bins: Any, rate: Any, lower: float, upper: float, kind: dtypes.DType) -> None:
    if bins <= 0:
        raise ValueError(f"num_mel_bins must be positive. Got: {bins}")
    if lower < 0.0:
        raise ValueError(f"lower_edge_hertz must be non-negative. Got: {lower}")
    if lower >= upper:
        raise ValueError(f"lower_edge_hertz {lower:.1f} >= upper_edge_hertz {upper:.1f}")
    if rate is not None:
        if rate <= 0:
            raise ValueError(f"sample_rate must be positive. Got: {rate}")
        if upper > rate / 2:
            raise ValueError(
                f"upper_edge_hertz must not be larger than the Nyquist frequency (sample_rate / 2). Got {upper} "
                f"for sample_rate: {rate}"
            )
    if not kind.is_floating:
        raise ValueError(f"dtype must be a floating point type. Got: {kind}")


def mfccs_from_log_mel_spectrograms(log_mel_spectrograms: Any, name: str | None = None) -> Tensor:
    """Mel-frequency cepstral coefficients of logarithms of mel spectra [..., bins]: cosine transforms, scaled.

    Raises ValueError if there are no bins.
    """
    with name_scope(name, "mfccs_from_log_mel_spectrograms", [log_mel_spectrograms]):
        x = convert(log_mel_spectrograms)
        bins: Any = x.shape[-1].value if x.shape.ndims is not None else None
        if bins is not None and bins == 0:
            raise ValueError(f"num_mel_bins must be positive. Got: {x}")
        if bins is None:
            bins = shape(x)[-1]
        scale = make.Rsqrt(cast(bins, x.dtype.base_dtype) * 2.0)
        made: Tensor = dct(x, type=2) * scale
        return made
