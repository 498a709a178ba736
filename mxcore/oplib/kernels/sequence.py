"""Kernels of the sequence operators and of the fused recurrent layers.

A recurrent layer multiplies all inputs by their weights at once; what is left per step is one product with the state
and a handful of elementwise calls, written over the products. Every sigmoid is a tanh with its argument halved in
the weights beforehand, so that one tanh serves all gates of a step. Backward turns everything that does not depend
on the step before into whole-sequence arithmetic first.

Gates stand in MXNet's order: ``i f g o`` (LSTM), ``r z n`` (GRU).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from ...operators.recurrent_layout import Layout
from ..precision import wide
from ..table import kernel
from .neural import keep_mask, positive_part

# ---------------------------------------------------------------------------------------------------------------
# Sequences of different lengths


def _inside(xp: Any, steps: int, length: Any, axis: int, ndim: int) -> Any:
    """Return which positions of ``(T, N, ...)`` (``axis`` 0) or ``(N, T, ...)`` (``axis`` 1) are within the lengths."""
    inside = xp.arange(steps)[:, None] < length.astype(np.int64)[None, :]
    if axis == 1:
        inside = inside.T
    return inside.reshape(*inside.shape, *(1,) * (ndim - 2))


@kernel("SequenceMask")
def sequence_mask(xp: Any, x: Any, length: Any, *, use_sequence_length: bool, value: float, axis: int) -> Any:
    if not use_sequence_length:
        return xp.array(x, order="C")
    return xp.where(_inside(xp, x.shape[axis], length, axis, x.ndim), x, xp.asarray(value).astype(x.dtype))


@kernel("SequenceLast")
def sequence_last(xp: Any, x: Any, length: Any, *, use_sequence_length: bool, axis: int) -> Any:
    x = xp.swapaxes(x, 0, axis)
    if not use_sequence_length:
        return xp.array(x[-1], order="C")
    return x[length.astype(np.int64) - 1, xp.arange(x.shape[1])]


@kernel("_backward_SequenceLast", numpy=True)
def backward_sequence_last(g: Any, like: Any, length: Any, *, use_sequence_length: bool, axis: int) -> Any:
    d = np.zeros(like.shape, g.dtype)
    view = d.swapaxes(0, axis)
    if use_sequence_length:
        view[length.astype(np.int64) - 1, np.arange(view.shape[1])] = g
    else:
        view[-1] = g
    return d


def reversal(steps: int, length: np.ndarray) -> np.ndarray:
    """Return ``(T, N)``: which step stands at ``t`` once each sequence is reversed within its length."""
    t, length = np.arange(steps)[:, None], length.astype(np.int64)[None, :]
    return np.where(t < length, length - 1 - t, t)


@kernel("SequenceReverse")
def sequence_reverse(xp: Any, x: Any, length: Any, *, use_sequence_length: bool, axis: int) -> Any:
    if not use_sequence_length:
        return xp.array(x[::-1], order="C")
    return x[xp.asarray(reversal(x.shape[0], length)), xp.arange(x.shape[1])[None, :]]


# ---------------------------------------------------------------------------------------------------------------
# Recurrent layers


class _Reserve:
    """Views into one array, taken in the same order in forward, which writes them, and in backward."""

    def __init__(self, array: np.ndarray) -> None:
        self.array = array
        self.used = 0

    def take(self, *shape: int) -> np.ndarray:
        n = math.prod(shape)
        self.used += n
        return self.array[self.used - n : self.used].reshape(shape)


def _reserved(layout: Layout, steps: int, n: int, dropout: bool) -> int:
    """Return how many numbers backward needs from forward."""
    size, recurrent = layout.size, layout.recurrent
    per_cell = {"lstm": 5 * size, "gru": 4 * size}.get(layout.mode, 0) + (size if layout.projection else 0)
    between = (layout.layers - 1) * layout.directions * recurrent * (2 if dropout else 1)
    return steps * n * (layout.layers * layout.directions * per_cell + between)


#: ``forward(x, weights, h, c, ys, reserve, mask) -> last h, last c``; ``ys`` ``(T, N, R)`` is written.
Forward = Callable[..., Any]


def _blend(new: np.ndarray, old: np.ndarray, mask: Any) -> None:
    """Keep the old state where a sequence has ended; mutates ``new``."""
    new -= old
    new *= mask
    new += old


def _products(x: np.ndarray, w: np.ndarray, b: np.ndarray) -> np.ndarray:
    steps, n, inputs = x.shape
    y = np.dot(x.reshape(-1, inputs), w.T)
    y += b
    return y.reshape(steps, n, -1)


def _forward_rnn(activation: Callable[..., Any]) -> Forward:
    def forward(
        x: np.ndarray, weights: Any, h: np.ndarray, c: Any, ys: np.ndarray, reserve: _Reserve, mask: Any
    ) -> Any:
        wx, wh, bx, bh = weights
        products = _products(x, wx, bx + bh)
        wh_t = np.ascontiguousarray(wh.T)
        for t, a in enumerate(products):
            a += np.dot(h, wh_t)
            activation(a)
            if mask is not None:
                _blend(a, h, mask[t])
            ys[t] = h = a
        return h, None

    return forward


def _forward_lstm(
    x: np.ndarray, weights: Any, h: np.ndarray, c: np.ndarray, ys: np.ndarray, reserve: _Reserve, mask: Any
) -> Any:
    wx, wh, *projection, bx, bh = weights
    steps, n, _ = x.shape
    size = wh.shape[0] // 4
    gates, cells = reserve.take(steps, n, 4 * size), reserve.take(steps, n, size)
    full = reserve.take(steps, n, size) if projection else None
    half = np.full(4 * size, 0.5, x.dtype)
    half[2 * size : 3 * size] = 1
    shift = 1 - half
    np.dot(x.reshape(steps * n, -1), (wx * half[:, None]).T, out=gates.reshape(steps * n, -1))
    gates += (bx + bh) * half
    wh_t = np.ascontiguousarray((wh * half[:, None]).T)
    product, added = np.empty((n, 4 * size), x.dtype), np.empty((n, size), x.dtype)
    for t in range(steps):
        a = gates[t]
        a += np.dot(h, wh_t, out=product)
        np.tanh(a, out=a)
        a *= half
        a += shift
        before, c = c, cells[t]
        np.multiply(a[:, size : 2 * size], before, out=c)
        c += np.multiply(a[:, :size], a[:, 2 * size : 3 * size], out=added)
        if mask is not None:
            _blend(c, before, mask[t])
        new = np.tanh(c)
        new *= a[:, 3 * size :]
        if full is not None:
            full[t] = new
            new = np.dot(new, projection[0].T)
        if mask is not None:
            _blend(new, h, mask[t])
        ys[t] = h = new
    return h, c


def _forward_gru(
    x: np.ndarray, weights: Any, h: np.ndarray, c: Any, ys: np.ndarray, reserve: _Reserve, mask: Any
) -> Any:
    wx, wh, bx, bh = weights
    steps, n, _ = x.shape
    size = wh.shape[0] // 3
    two = 2 * size
    gates, inner = reserve.take(steps, n, 3 * size), reserve.take(steps, n, size)
    half = np.full(3 * size, 0.5, x.dtype)
    half[two:] = 1
    np.dot(x.reshape(steps * n, -1), (wx * half[:, None]).T, out=gates.reshape(steps * n, -1))
    gates += bx * half
    wh_t, bh = np.ascontiguousarray((wh * half[:, None]).T), bh * half
    product = np.empty((n, 3 * size), x.dtype)
    for t in range(steps):
        a = gates[t]
        np.dot(h, wh_t, out=product)
        product += bh
        both = a[:, :two]
        both += product[:, :two]
        np.tanh(both, out=both)
        both *= 0.5
        both += 0.5
        inner[t] = product[:, two:]
        candidate = a[:, two:]
        candidate += a[:, :size] * inner[t]
        np.tanh(candidate, out=candidate)
        new = h - candidate
        new *= a[:, size:two]
        new += candidate
        if mask is not None:
            _blend(new, h, mask[t])
        ys[t] = h = new
    return h, None


_FORWARD: dict[str, Forward] = {
    "rnn_relu": _forward_rnn(lambda a: positive_part(np, a, out=a)),
    "rnn_tanh": _forward_rnn(lambda a: np.tanh(a, out=a)),
    "lstm": _forward_lstm,
    "gru": _forward_gru,
}


def _weight_gradients(d: np.ndarray, rows: np.ndarray, w: np.ndarray, b: np.ndarray) -> None:
    """Write the gradients of a weight and its bias for the gradient ``d`` of ``rows @ w.T + b``."""
    flat = d.reshape(-1, d.shape[-1])
    np.dot(flat.T, rows.reshape(len(flat), -1), out=w)
    np.add.reduce(flat, axis=0, out=b)


def _before(first: np.ndarray, sequence: np.ndarray) -> np.ndarray:
    """Return the sequence moved by one step: ``first``, then all but the last."""
    return np.concatenate([first[None], sequence[:-1]])


def _split_dh(dh: np.ndarray, mask: Any) -> tuple[np.ndarray, Any]:
    """Return the part of a state's gradient that a step answers for, and the part that passes it by."""
    if mask is None:
        return dh, None
    return dh * mask, dh * (1 - mask)


def _backward_rnn(relu: bool) -> Callable[..., Any]:
    def backward(
        dy: np.ndarray,
        dh: np.ndarray,
        dc: Any,
        x: np.ndarray,
        weights: Any,
        grads: Any,
        h0: np.ndarray,
        c0: Any,
        ys: np.ndarray,
        reserve: _Reserve,
        mask: Any,
    ) -> Any:
        wx, wh, _, _ = weights
        slope = (ys > 0).astype(ys.dtype) if relu else 1 - ys * ys
        da = np.empty_like(slope)
        for t in range(len(ys) - 1, -1, -1):
            dh = dh + dy[t]
            own, passing = _split_dh(dh, None if mask is None else mask[t])
            np.multiply(own, slope[t], out=da[t])
            dh = np.dot(da[t], wh)
            if passing is not None:
                dh += passing
        dwx, dwh, dbx, dbh = grads
        _weight_gradients(da, x, dwx, dbx)
        _weight_gradients(da, _before(h0, ys), dwh, dbh)
        return np.dot(da.reshape(-1, da.shape[-1]), wx).reshape(x.shape), dh, None

    return backward


def _backward_lstm(
    dy: np.ndarray,
    dh: np.ndarray,
    dc: np.ndarray,
    x: np.ndarray,
    weights: Any,
    grads: Any,
    h0: np.ndarray,
    c0: np.ndarray,
    ys: np.ndarray,
    reserve: _Reserve,
    mask: Any,
) -> Any:
    wx, wh, *projection, _, _ = weights
    steps, n, _ = x.shape
    size = wh.shape[0] // 4
    gates, cells = reserve.take(steps, n, 4 * size), reserve.take(steps, n, size)
    full = reserve.take(steps, n, size) if projection else None
    split = gates.reshape(steps, n, 4, size)
    i, f, g, o = (split[:, :, k] for k in range(4))
    top = np.tanh(cells)
    # da = (dc, dc, dc, dh) * slopes, where all of slopes is known before the first step
    slopes = np.empty_like(split)
    np.multiply(split, 1 - split, out=slopes)
    slopes[:, :, 0] *= g
    slopes[:, :, 1] *= _before(c0, cells)
    slopes[:, :, 2] = i * (1 - g * g)
    slopes[:, :, 3] *= top
    top *= top
    through = o * np.subtract(1, top, out=top)  # from h to c
    da = np.empty_like(split)
    dr = np.empty_like(ys) if projection else None
    flat = da.reshape(steps, n, 4 * size)
    for t in range(steps - 1, -1, -1):
        dh = dh + dy[t]
        m = None if mask is None else mask[t]
        own, passing = _split_dh(dh, m)
        if dr is not None:
            dr[t] = own
            own = np.dot(own, projection[0])
        now, passing_c = _split_dh(dc, m)
        now = now + own * through[t]
        np.multiply(now[:, None], slopes[t, :, :3], out=da[t, :, :3])
        np.multiply(own, slopes[t, :, 3], out=da[t, :, 3])
        dc = now * f[t]
        dh = np.dot(flat[t], wh)
        if passing is not None:
            dh += passing
            dc += passing_c
    dwx, dwh, *dprojection, dbx, dbh = grads
    _weight_gradients(flat, x, dwx, dbx)
    _weight_gradients(flat, _before(h0, ys), dwh, dbh)
    if dr is not None:
        assert full is not None
        np.dot(dr.reshape(steps * n, -1).T, full.reshape(steps * n, -1), out=dprojection[0])
    return np.dot(flat.reshape(steps * n, -1), wx).reshape(x.shape), dh, dc


def _backward_gru(
    dy: np.ndarray,
    dh: np.ndarray,
    dc: Any,
    x: np.ndarray,
    weights: Any,
    grads: Any,
    h0: np.ndarray,
    c0: Any,
    ys: np.ndarray,
    reserve: _Reserve,
    mask: Any,
) -> Any:
    wx, wh, _, _ = weights
    steps, n, _ = x.shape
    size = wh.shape[0] // 3
    two = 2 * size
    gates, inner = reserve.take(steps, n, 3 * size), reserve.take(steps, n, size)
    r, z, candidate = gates[..., :size], gates[..., size:two], gates[..., two:]
    before = _before(h0, ys)
    # By dh: the candidate's argument, then r's and z's.
    slope_n = (1 - z) * (1 - candidate * candidate)
    slope_r = slope_n * inner * r * (1 - r)
    slope_z = (before - candidate) * z * (1 - z)
    da, dinner = np.empty_like(gates), np.empty_like(gates)
    for t in range(steps - 1, -1, -1):
        dh = dh + dy[t]
        own, passing = _split_dh(dh, None if mask is None else mask[t])
        a = da[t]
        np.multiply(own, slope_r[t], out=a[:, :size])
        np.multiply(own, slope_z[t], out=a[:, size:two])
        np.multiply(own, slope_n[t], out=a[:, two:])
        dinner[t, :, :two] = a[:, :two]
        np.multiply(a[:, two:], r[t], out=dinner[t, :, two:])
        dh = np.dot(dinner[t], wh)
        dh += own * z[t]
        if passing is not None:
            dh += passing
    dwx, dwh, dbx, dbh = grads
    _weight_gradients(da, x, dwx, dbx)
    _weight_gradients(dinner, before, dwh, dbh)
    return np.dot(da.reshape(steps * n, -1), wx).reshape(x.shape), dh, None


_BACKWARD: dict[str, Callable[..., Any]] = {
    "rnn_relu": _backward_rnn(True),
    "rnn_tanh": _backward_rnn(False),
    "lstm": _backward_lstm,
    "gru": _backward_gru,
}


def _ordered(x: np.ndarray, direction: int, order: Any) -> np.ndarray:
    """Return a sequence in the order in which a direction reads it; its own inverse."""
    if direction == 0:
        return np.ascontiguousarray(x)
    if order is None:
        return np.ascontiguousarray(x[::-1])
    return x[order, np.arange(x.shape[1])[None, :]]


def _masks(steps: int, length: Any, dtype: Any) -> tuple[Any, Any]:
    """Return the mask ``(T, N, 1)`` of steps within the lengths and the reversed order, None without lengths."""
    if length is None:
        return None, None
    inside = np.arange(steps)[:, None] < length.astype(np.int64)[None, :]
    return inside.astype(dtype)[:, :, None], reversal(steps, length)


def _network(mode: str, inputs: int, a: Any) -> Layout:
    return Layout(mode, inputs, a["state_size"], a["num_layers"], 2 if a["bidirectional"] else 1, a["projection_size"])


@kernel("RNN", numpy=True)
def rnn(
    x: Any, parameters: Any, state: Any, state_cell: Any, sequence_length: Any, *, rng: Any, training: bool, **a: Any
) -> Any:
    dtype = x.dtype
    work = wide(dtype)
    x, parameters, state = (np.ascontiguousarray(v, work) for v in (x, parameters, state))
    steps, n, inputs = x.shape
    network = _network(a["mode"], inputs, a)
    directions, recurrent = network.directions, network.recurrent
    p = a["p"] if training else 0.0
    length = sequence_length if a["use_sequence_length"] else None
    mask, order = _masks(steps, length, work)
    reserve = _Reserve(np.empty(_reserved(network, steps, n, p > 0), work))
    last_h = np.empty(state.shape, work)
    last_c = None if state_cell is None else np.empty(state_cell.shape, work)
    cells = network.cut(parameters)
    for layer in range(network.layers):
        last = layer == network.layers - 1
        width = directions * recurrent
        y = np.empty((steps, n, width), work) if last else reserve.take(steps, n, width)
        for direction in range(directions):
            k = layer * directions + direction
            ys = np.empty((steps, n, recurrent), work) if directions > 1 else y
            c = None if state_cell is None else np.ascontiguousarray(state_cell[k], work)
            h, c = _FORWARD[network.mode](_ordered(x, direction, order), cells[k], state[k], c, ys, reserve, mask)
            last_h[k] = h
            if last_c is not None:
                last_c[k] = c
            if mask is not None:
                ys *= mask
            if directions > 1:
                y[..., direction * recurrent : (direction + 1) * recurrent] = _ordered(ys, direction, order)
        x = y
        if p > 0 and not last:
            drop = reserve.take(steps, n, width)
            drop[...] = keep_mask(np, rng, drop.shape, p, work)
            x = y * drop
    outputs = (y, last_h) if last_c is None else (y, last_h, last_c)
    return (*(v.astype(dtype, copy=False) for v in outputs), reserve.array)


@kernel("_backward_RNN", numpy=True)
def backward_rnn(
    g: Any,
    x: Any,
    parameters: Any,
    state: Any,
    output: Any,
    reserve: Any,
    grad_state: Any,
    grad_cell: Any,
    state_cell: Any,
    sequence_length: Any,
    **a: Any,
) -> Any:
    dtype, work = x.dtype, reserve.dtype
    x, parameters, state, output = (np.ascontiguousarray(v, work) for v in (x, parameters, state, output))
    steps, n, inputs = x.shape
    network = _network(a["mode"], inputs, a)
    directions, recurrent, layers = network.directions, network.recurrent, network.layers
    width = directions * recurrent
    length = sequence_length if a["use_sequence_length"] else None
    mask, order = _masks(steps, length, work)
    dropped = layers > 1 and reserve.size != _reserved(network, steps, n, False)
    cells = network.cut(parameters)
    grad = np.empty(parameters.shape, work)
    grads = network.cut(grad)
    dstate = np.empty(state.shape, work)
    dcell = None if state_cell is None else np.empty(state_cell.shape, work)

    # Walk the reserve once in forward's order, to find each layer's part.
    per_cell = _reserved(network, steps, n, False) - (layers - 1) * steps * n * width
    per_cell //= layers * directions
    walk = _Reserve(reserve)
    xs, ys, parts, drops = [x], [], [], []
    for layer in range(layers):
        last = layer == layers - 1
        ys.append(output if last else walk.take(steps, n, width))
        parts.append([walk.take(per_cell) for _ in range(directions)])
        if not last:
            drops.append(walk.take(steps, n, width) if dropped else None)
            xs.append(ys[-1] * drops[-1] if dropped else ys[-1])

    dy = np.zeros(output.shape, work) if g is None else np.ascontiguousarray(g, work)
    for layer in range(layers - 1, -1, -1):
        dx: Any = None
        for direction in range(directions):
            k = layer * directions + direction
            part = slice(direction * recurrent, (direction + 1) * recurrent)
            dh = np.zeros((n, recurrent), work) if grad_state is None else grad_state[k].astype(work, copy=False)
            dc = c0 = None
            if state_cell is not None:
                dc = np.zeros((n, network.size), work) if grad_cell is None else grad_cell[k].astype(work, copy=False)
                c0 = state_cell[k].astype(work, copy=False)
            own = _ordered(dy[..., part], direction, order)
            if mask is not None:
                own = own * mask
            found, dstate[k], dc = _BACKWARD[network.mode](
                own,
                dh,
                dc,
                _ordered(xs[layer], direction, order),
                cells[k],
                grads[k],
                state[k],
                c0,
                _ordered(ys[layer][..., part], direction, order),
                _Reserve(parts[layer][direction]),
                mask,
            )
            if dcell is not None:
                dcell[k] = dc
            found = _ordered(found, direction, order)
            dx = found if dx is None else dx + found
        dy = dx
        if layer and dropped:
            dy = dy * drops[layer - 1]
    results = (dy, grad, dstate) if dcell is None else (dy, grad, dstate, dcell)
    return tuple(v.astype(dtype, copy=False) for v in results)
