"""Max, average, sum and Lp pooling over one to three spatial axes, forward and backward.

Pure functions over NumPy arrays; every tuple is already normalised by the caller. Both layouts are served by the
same code: data is viewed as ``(lead, *spatial, tail)``, where ``lead`` is N*C and ``tail`` 1 for channel-first,
N and C for channel-last. The input is never padded: each kernel offset touches only the outputs whose window holds
it. Work goes in pieces of ``lead`` that stay in cache, which ``parallel_for`` may share out; pieces are independent,
so results do not depend on it.

Forward reduces one axis after the other (``k_h + k_w`` steps, not ``k_h * k_w``). Backward of a maximum visits the
offsets in row-major order and marks each output whose maximum was found, so no index is stored.
"""

from __future__ import annotations

import contextlib
import itertools
import math
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from mxcore.operators.windows import pooling_output_shape, spatial_axes
from mxcore.oplib.parallel import ParallelFor, serial
from mxcore.oplib.workspace import borrow
from mxcore.spec.errors import ParameterError

__all__ = ["pooling", "pooling_backward"]

Ints = tuple[int, ...]
# Where an axis is visited from output slices to input slices, one pair per kernel offset that meets any output.
Spans = list[tuple[slice, slice]]

# Numbers of the input in a piece: with its temporaries it stays in a 1 MiB cache.
_PIECE = 1 << 18
#: Data of fewer numbers than this are one piece.
_SHARED = 1 << 16


def _accumulator(dtype: np.dtype) -> np.dtype:
    return np.dtype(np.float32) if dtype == np.float16 else dtype


def _lowest(dtype: np.dtype) -> Any:
    return np.iinfo(dtype).min if dtype.kind in "iu" else np.finfo(dtype).min


def _power(p_value: int | None, pool_type: str) -> int:
    if pool_type not in ("max", "avg", "sum", "lp"):
        raise ParameterError(
            f"Pooling: pool_type={pool_type!r} is not one of 'max', 'avg', 'sum', 'lp'.", operator="Pooling"
        )
    if pool_type != "lp":
        return 1
    if p_value not in (1, 2, 3):
        raise ParameterError(
            f"Pooling: pool_type='lp' needs p_value 1, 2 or 3, got p_value={p_value!r}.", operator="Pooling"
        )
    return p_value


class _Plan:
    """How the windows of one call lie: everything that follows from shapes and attributes."""

    def __init__(
        self, x_shape: Ints, y_shape: Ints, kernel: Ints, global_pool: bool, stride: Ints, pad: Ints, layout: str
    ) -> None:
        axes = spatial_axes(layout)
        self.spatial = tuple(x_shape[axis] for axis in axes)
        self.out = tuple(y_shape[axis] for axis in axes)
        if global_pool:
            kernel, stride, pad = self.spatial, (1,) * len(axes), (0,) * len(axes)
        self.kernel, self.stride, self.pad = kernel, stride, pad
        channel_last = layout[-1] == "C"
        self.lead = x_shape[0] if channel_last else x_shape[0] * x_shape[1]
        self.tail = x_shape[-1] if channel_last else 1
        #: One window over everything.
        self.whole = kernel == self.spatial and not any(pad) and self.out == (1,) * len(axes)
        #: Every position is in exactly one window.
        self.tiles = (
            kernel == stride and not any(pad) and self.spatial == tuple(o * s for o, s in zip(self.out, stride))
        )
        #: No position is in two windows.
        self.apart = all(k <= s for k, s in zip(kernel, stride))

    def flat(self, array: np.ndarray, spatial: Ints) -> np.ndarray:
        """View (or copy, if not contiguous) an array as ``(lead, *spatial, tail)``."""
        return array.reshape(self.lead, *spatial, self.tail)

    def spans(self, axis: int) -> Spans:
        k, s, p, size, out = (v[axis] for v in (self.kernel, self.stride, self.pad, self.spatial, self.out))
        found = []
        for offset in range(k):
            start = offset - p
            low = max(0, -(start // s))
            high = min(out, (size - 1 - start) // s + 1)
            if low < high:
                first = low * s + start
                found.append((slice(low, high), slice(first, first + (high - low - 1) * s + 1, s)))
        return found

    def offsets(self) -> Iterator[tuple[tuple[slice, ...], tuple[slice, ...]]]:
        """Yield (index of outputs, index of inputs) per kernel offset, in row-major order of the window."""
        for spans in itertools.product(*(self.spans(axis) for axis in range(len(self.kernel)))):
            yield (slice(None), *(to for to, _ in spans)), (slice(None), *(frm for _, frm in spans))

    def counts(self, padded: bool, dtype: np.dtype) -> Any:
        """Return by how much each average is divided, broadcastable over ``(lead, *out, tail)``."""
        result: Any = 1
        for i, (k, s, p, size, out) in enumerate(zip(self.kernel, self.stride, self.pad, self.spatial, self.out)):
            start = np.arange(out) * s - p
            if padded:
                count = np.minimum(start + k, size + p) - start
            else:
                count = np.minimum(start + k, size) - np.maximum(start, 0)
            count = np.maximum(count, 1)  # a window that lies outside altogether sums to 0 and stays 0
            shape = [1] * (len(self.out) + 2)
            shape[i + 1] = -1
            result = result * (int(count[0]) if (count == count[0]).all() else count.reshape(shape))
        return result if isinstance(result, int) else result.astype(dtype)

    def pieces(self) -> list[slice]:
        # At least two, so that they can be shared out, and few, since each costs some fifty NumPy calls.
        numbers = self.lead * math.prod(self.spatial) * self.tail
        count = 1 if numbers < _SHARED else 2 * -(-numbers // (2 * _PIECE))
        step = max(1, -(-self.lead // count))
        return [slice(first, min(self.lead, first + step)) for first in range(0, self.lead, step)]


def _reduce_axis(ufunc: np.ufunc, identity: Any, frm: np.ndarray, axis: int, spans: Spans, to: np.ndarray) -> None:
    """Write into ``to`` the reduction of the windows of ``frm`` along one axis."""
    lead = (slice(None),) * axis
    n = to.shape[axis]
    full = [(a, b) for a, b in spans if a.start == 0 and a.stop == n]
    rest = [(a, b) for a, b in spans if not (a.start == 0 and a.stop == n)]
    if len(full) > 1:
        ufunc(frm[(*lead, full[0][1])], frm[(*lead, full[1][1])], out=to)
        full = full[2:]
    elif full:
        np.copyto(to, frm[(*lead, full[0][1])])
        full = []
    else:
        to.fill(identity)
    for outputs, inputs in full + rest:
        window = to[(*lead, outputs)]
        ufunc(window, frm[(*lead, inputs)], out=window)


def _reduce(
    ufunc: np.ufunc, identity: Any, frm: np.ndarray, plan: _Plan, spans: Sequence[Spans], to: np.ndarray
) -> None:
    """Write into ``to`` the reduction of the windows of ``frm``, one axis after the other, rows first.

    The last axis is the slow one (short runs, strided), so it comes when there is least left.
    """
    active = [axis for axis, (k, s, p) in enumerate(zip(plan.kernel, plan.stride, plan.pad)) if (k, s, p) != (1, 1, 0)]
    if not active:
        np.copyto(to, frm)
        return
    with contextlib.ExitStack() as stack:
        for axis in active:
            part = to
            if axis != active[-1]:
                shape = list(frm.shape)
                shape[axis + 1] = plan.out[axis]
                part = stack.enter_context(borrow(f"pooled{axis}", shape, frm.dtype))
            _reduce_axis(ufunc, identity, frm, axis + 1, spans[axis], part)
            frm = part


def pooling(
    x: np.ndarray,
    *,
    kernel: Ints,
    pool_type: str,
    global_pool: bool,
    stride: Ints,
    pad: Ints,
    pooling_convention: str,
    count_include_pad: bool | None,
    p_value: int | None,
    layout: str,
    parallel_for: ParallelFor = serial,
) -> np.ndarray:
    """Pool each channel over its windows.

    Parameters
    ----------
    x : ndarray of ``layout``, not changed
    kernel, stride, pad : tuples with one int per spatial axis; unused when ``global_pool``
    pool_type : 'max', 'avg', 'sum' or 'lp'
        Max ignores NaN and never goes below the lowest finite number. ``lp`` is
        ``sum(x ** p) ** (1 / p)`` without absolute values, for p 1, 2 and 3.
    pooling_convention : 'valid' (floor), 'full' (ceil) or 'same' (one spatial axis, no pad)
    count_include_pad : bool or None
        Whether an average counts padding (None counts as True). Positions beyond the right padding, which
        'full' can reach, never count.
    p_value : int or None
    layout : str
    parallel_for : callable
        ``parallel_for(n, grain, fn)`` calls ``fn(low, high)`` over parts of ``range(n)``, possibly from several
        threads, and returns when all are done.

    Returns
    -------
    ndarray
        A fresh array of :func:`~mxcore.operators.windows.pooling_output_shape` and the dtype of ``x``.

    Examples
    --------
    >>> x = np.arange(16.0).reshape(1, 1, 4, 4)
    >>> how = dict(kernel=(2, 2), stride=(2, 2), pad=(0, 0), global_pool=False, pooling_convention="valid")
    >>> pooling(x, pool_type="max", count_include_pad=True, p_value=None, layout="NCHW", **how)
    array([[[[ 5.,  7.],
             [13., 15.]]]])
    """
    p = _power(p_value, pool_type)
    y_shape = pooling_output_shape(
        x.shape,
        kernel=kernel,
        global_pool=global_pool,
        stride=stride,
        pad=pad,
        pooling_convention=pooling_convention,
        layout=layout,
    )
    plan = _Plan(x.shape, y_shape, kernel, global_pool, stride, pad, layout)
    y = np.empty(y_shape, x.dtype)
    if x.size == 0 or y.size == 0:
        if x.size == 0:
            y.fill(0)
        return y
    source, target = plan.flat(x, plan.spatial), y.reshape(plan.lead, *plan.out, plan.tail)
    spans = [] if plan.whole else [plan.spans(axis) for axis in range(len(plan.out))]
    is_max = pool_type == "max"
    ufunc, identity = (np.fmax, _lowest(x.dtype)) if is_max else (np.add, 0)
    dtype = x.dtype if is_max else _accumulator(x.dtype)
    counts = plan.counts(count_include_pad is not False, dtype) if pool_type == "avg" else None
    pieces = plan.pieces()

    def run(low: int, high: int) -> None:
        for part in pieces[low:high]:
            to, frm = target[part], source[part]
            with borrow("converted", frm.shape if p > 1 or dtype != x.dtype else (0,), dtype) as converted:
                if p > 1:
                    np.copyto(converted, frm)
                    np.multiply(converted, converted if p == 2 else converted * converted, out=converted)
                    frm = converted
                elif dtype != x.dtype:
                    np.copyto(converted, frm)
                    frm = converted
                with borrow("pooled", to.shape, dtype) as result:
                    if dtype == x.dtype:
                        result = to
                    pool(frm, result)
                    if result is not to:
                        np.copyto(to, result, casting="same_kind")

    def pool(frm: np.ndarray, to: np.ndarray) -> None:
        if plan.whole:
            ufunc.reduce(frm.reshape(len(frm), -1, plan.tail), axis=1, out=to.reshape(len(frm), plan.tail))
        else:
            _reduce(ufunc, identity, frm, plan, spans, to)
        if is_max:
            np.fmax(to, identity, out=to)  # NaN alone, or -inf
        elif counts is not None:
            np.divide(to, counts, out=to, casting="unsafe")
        elif p == 2:
            np.sqrt(to, out=to)
        elif p == 3:
            np.cbrt(to, out=to)

    parallel_for(len(pieces), 1, run)
    return y


def pooling_backward(
    g: np.ndarray,
    x: np.ndarray,
    y: np.ndarray,
    *,
    kernel: Ints,
    pool_type: str,
    global_pool: bool,
    stride: Ints,
    pad: Ints,
    pooling_convention: str,
    count_include_pad: bool | None,
    p_value: int | None,
    layout: str,
    parallel_for: ParallelFor = serial,
) -> np.ndarray:
    """Return the gradient of ``x`` for the gradient ``g`` of ``y = pooling(x, ...)``.

    The whole gradient of a maximum goes to the first position of its window, in row-major order, that holds it;
    a window of nothing but NaN or -inf gives no gradient.

    Parameters
    ----------
    g, x, y : ndarrays, not changed
    kernel, pool_type, ... : as for :func:`pooling`

    Returns
    -------
    ndarray
        A fresh array of the shape and dtype of ``x``.
    """
    p = _power(p_value, pool_type)
    plan = _Plan(x.shape, y.shape, kernel, global_pool, stride, pad, layout)
    dx = np.empty(x.shape, x.dtype)
    if x.size == 0 or y.size == 0:
        dx.fill(0)
        return dx
    dtype = _accumulator(x.dtype)
    target = dx.reshape(plan.lead, *plan.spatial, plan.tail)
    source, pooled = plan.flat(x, plan.spatial), plan.flat(y, plan.out)
    grad = plan.flat(g, plan.out)
    counts = plan.counts(count_include_pad is not False, dtype) if pool_type == "avg" else None
    offsets = [] if plan.whole else list(plan.offsets())
    spans = [plan.spans(axis) for axis in range(len(plan.out))]
    pieces = plan.pieces()

    def run(low: int, high: int) -> None:
        for part in pieces[low:high]:
            to = target[part]
            with borrow("gradient", to.shape, dtype) as result:
                if dtype == x.dtype:
                    result = to
                if pool_type == "max":
                    if plan.whole:
                        peak_of_all(grad[part], source[part], pooled[part], result)
                    elif plan.apart:
                        peaks(grad[part], source[part], pooled[part], result)
                    else:
                        _overlapping_peaks(grad[part], source[part], pooled[part], plan, result)
                elif p > 1:
                    powers(grad[part], source[part], pooled[part], result)
                else:
                    shares(grad[part], result)
                if result is not to:
                    np.copyto(to, result, casting="same_kind")

    def peaks(g: np.ndarray, x: np.ndarray, y: np.ndarray, to: np.ndarray) -> None:
        if not plan.tiles:
            to.fill(0)
        full = [out for out, _ in offsets] == [(slice(None), *(slice(0, n) for n in plan.out))] * 4
        if full and plan.kernel == (2, 2) and g.dtype == to.dtype and not (y == _lowest(y.dtype)).any():
            _knockout(x, y, g, [inputs for _, inputs in offsets], to)
            return
        with borrow("taken", y.shape, np.bool_) as taken:
            taken.fill(False)
            for outputs, inputs in offsets:
                _route(x[inputs], y[outputs], g[outputs], taken[outputs], to[inputs], add=False)

    def peak_of_all(g: np.ndarray, x: np.ndarray, y: np.ndarray, to: np.ndarray) -> None:
        to.fill(0)
        count = len(x)
        hit = x.reshape(count, -1, plan.tail) == y.reshape(count, 1, plan.tail)
        first = hit.argmax(axis=1)[:, None]
        value = np.where(np.take_along_axis(hit, first, 1), g.reshape(count, 1, plan.tail), 0)
        np.put_along_axis(to.reshape(count, -1, plan.tail), first, value.astype(to.dtype, copy=False), 1)

    def shares(g: np.ndarray, to: np.ndarray) -> None:
        with borrow("share", g.shape, dtype) as share:
            if counts is None:
                np.copyto(share, g)
            else:
                np.divide(g, counts, out=share, casting="unsafe")
            if plan.whole:
                np.copyto(to, share)
            elif plan.tiles:
                for _, inputs in offsets:
                    np.copyto(to[inputs], share)
            else:
                _spread(share, plan, spans, to)

    def powers(g: np.ndarray, x: np.ndarray, y: np.ndarray, to: np.ndarray) -> None:
        to.fill(0)
        everything = ((slice(None),) * (len(plan.out) + 2),) * 2
        x, y = x.astype(dtype, copy=False), y.astype(dtype, copy=False)
        for outputs, inputs in offsets or [everything]:
            below = y[outputs]
            # A result of 0 has no slope that is a number; its gradient counts as 0.
            ratio = np.divide(x[inputs], below, out=np.zeros_like(x[inputs]), where=below != 0)
            if p == 3:
                ratio *= ratio
            to[inputs] += g[outputs] * ratio

    parallel_for(len(pieces), 1, run)
    return dx


def _knockout(x: np.ndarray, y: np.ndarray, g: np.ndarray, inputs: Sequence[Any], to: np.ndarray) -> None:
    """Give ``g`` to the first maximum of windows of two by two that do not overlap.

    The first row has it unless its larger number is not the maximum, and in that row the first column unless it is
    not the maximum: three comparisons, where :func:`_route` on each position takes twice the passes. Every window
    must hold its maximum. The gradient is steered with integer masks, for the reasons given there.
    """
    bits = np.dtype(f"i{to.itemsize}")
    top, bottom = inputs[:2], inputs[2:]
    with (
        borrow("row", y.shape, y.dtype) as row,
        borrow("hit", y.shape, np.bool_) as hit,
        borrow("mask", y.shape, bits) as mask,
        borrow("steered", y.shape, bits) as steered,
        borrow("rest", y.shape, bits) as rest,
    ):

        def to_mask(a: np.ndarray) -> None:
            np.not_equal(a, y, out=hit)
            np.negative(hit.view(np.int8), out=hit.view(np.int8))
            np.copyto(mask, hit.view(np.int8))  # 0 or all ones

        g = g.view(bits)
        np.fmax(x[top[0]], x[top[1]], out=row)
        to_mask(row)
        np.bitwise_and(g, mask, out=steered)
        np.bitwise_xor(g, steered, out=rest)  # what the second row does not get
        for (first, second), share in ((bottom, steered), (top, rest)):
            to_mask(x[first])
            np.bitwise_and(share, mask, out=mask)
            to.view(bits)[second] = mask
            np.bitwise_xor(share, mask, out=to.view(bits)[first])


def _route(x: np.ndarray, y: np.ndarray, g: np.ndarray, taken: np.ndarray, to: np.ndarray, add: bool) -> None:
    """Give ``g`` to ``to`` where ``x`` is the maximum ``y`` and none was found before; marks ``taken``.

    Gradients are selected with integer masks: a masked copy costs a mispredicted branch per number, and a product
    with 0 would turn inf into NaN at places that have no gradient.
    """
    bits = np.dtype(f"i{to.itemsize}")
    with (
        borrow("hit", y.shape, np.bool_) as hit,
        borrow("mask", y.shape, bits) as mask,
        borrow("routed", y.shape, to.dtype) as routed,
    ):
        if g.dtype == to.dtype:
            routed = g
        else:
            np.copyto(routed, g)
        np.equal(x, y, out=hit)
        np.greater(hit, taken, out=hit)
        np.logical_or(taken, hit, out=taken)
        np.negative(hit.view(np.int8), out=hit.view(np.int8))
        np.copyto(mask, hit.view(np.int8))  # 0 or all ones
        if add:
            np.bitwise_and(mask, routed.view(bits), out=mask)
            np.add(to, mask.view(to.dtype), out=to)
        else:
            np.bitwise_and(mask, routed.view(bits), out=to.view(bits))


def _overlapping_peaks(g: np.ndarray, x: np.ndarray, y: np.ndarray, plan: _Plan, to: np.ndarray) -> None:
    """Write the gradient of a maximum whose windows overlap.

    The data is cut into one plane per residue of the stride. Outputs are laid out with the pitch of a plane, so
    each kernel offset is one shift of flat contiguous memory. Padding takes nothing: it is marked as taken in the
    outputs and never equals a maximum in the data (see ``void``).
    """
    lead, tail = len(x), plan.tail
    pitch = tuple(o + (k - 1) // s for o, k, s in zip(plan.out, plan.kernel, plan.stride))
    shape = (lead, *pitch, tail)
    n_residues = tuple(min(k, s) for k, s in zip(plan.kernel, plan.stride))
    valid = (slice(None), *(slice(0, o) for o in plan.out))
    # Per axis and residue: which of a plane are data, and which data.
    halves = []
    for r_count, s, p, n, size in zip(n_residues, plan.stride, plan.pad, pitch, plan.spatial):
        found = []
        for r in range(r_count):
            low = max(0, -((r - p) // s))
            high = max(low, min(n, (size - 1 - (r - p)) // s + 1))
            first = low * s + r - p
            found.append((slice(low, high), slice(first, first + (high - low) * s, s)))
        halves.append(found)
    to.fill(0)
    void = np.nan if x.dtype.kind == "f" else _lowest(x.dtype)
    with (
        borrow("planes", (*n_residues, *shape), x.dtype) as planes,
        borrow("plane_gradients", (*n_residues, *shape), to.dtype) as gradients,
        borrow("pitched", shape, y.dtype) as pitched,
        borrow("pitched_gradient", shape, to.dtype) as routed,
        borrow("taken", shape, np.bool_) as taken,
    ):
        planes.fill(void)
        gradients.fill(0)
        taken.fill(True)
        taken[valid] = False
        pitched[valid] = y
        routed[valid] = g
        # Per residue: its plane, what of the plane is data, and which data.
        cuts: list[tuple[Ints, Any, Any]] = []
        for residue in itertools.product(*map(range, n_residues)):
            pairs = [half[i] for half, i in zip(halves, residue)]
            inside = (slice(None), *(pair[0] for pair in pairs))
            cuts.append((residue, inside, (slice(None), *(pair[1] for pair in pairs))))
        for residue, inside, data in cuts:
            planes[residue][inside] = x[data]
        flat_y, flat_g, flat_taken = pitched.reshape(-1), routed.reshape(-1), taken.reshape(-1)
        for offset in itertools.product(*map(range, plan.kernel)):
            shift = 0
            for i, s, n in zip(offset, plan.stride, pitch):
                shift = shift * n + i // s
            shift *= tail
            residue = tuple(i % s for i, s in zip(offset, plan.stride))
            count = flat_y.size - shift
            _route(
                planes[residue].reshape(-1)[shift:],
                flat_y[:count],
                flat_g[:count],
                flat_taken[:count],
                gradients[residue].reshape(-1)[shift:],
                add=True,
            )
        for residue, inside, data in cuts:
            to[data] = gradients[residue][inside]


def _spread(share: np.ndarray, plan: _Plan, spans: Sequence[Spans], to: np.ndarray) -> None:
    """Add each share to all positions of its window, last axis first: the transpose of :func:`_reduce`."""
    frm = share
    with contextlib.ExitStack() as stack:
        for axis in reversed(range(len(plan.out))):
            part = to
            if axis:
                shape = list(frm.shape)
                shape[axis + 1] = plan.spatial[axis]
                part = stack.enter_context(borrow(f"spread{axis}", shape, share.dtype))
            part.fill(0)
            lead = (slice(None),) * (axis + 1)
            for outputs, inputs in spans[axis]:
                window = part[(*lead, inputs)]
                np.add(window, frm[(*lead, outputs)], out=window)
            frm = part
