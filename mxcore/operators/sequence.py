"""Records of the sequence operators and of the fused recurrent layers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ..spec.errors import DTypeError, ParameterError, ShapeError
from .attributes import Bool, Choice, Float, Int
from .record import NO_GRADIENT, Joint, Spec, error, sample
from .recurrent_layout import GATES, Layout
from .registry import operator


def _check_lengths(name: str, a: Any, x: Spec, length: Spec | None, axis: int) -> None:
    if len(x.shape) < 2 or axis not in (0, 1):
        raise ShapeError(
            f"operator '{name}' wants data (T, N, ...) or, with axis=1, (N, T, ...), but got {x.shape} and axis={axis}.",
            operator=name,
            shapes=[x.shape],
        )
    if not a["use_sequence_length"]:
        return
    if length is None:
        raise ParameterError(
            f"operator '{name}': use_sequence_length=True but no sequence_length is given.",
            operator=name,
            attribute="use_sequence_length",
        )
    if length.shape != (x.shape[1 - axis],):
        raise ShapeError(
            f"operator '{name}': sequence_length must have shape {(x.shape[1 - axis],)}, one per sequence of data "
            f"{x.shape}, but has {length.shape}.",
            operator=name,
            shapes=[x.shape, length.shape],
        )


def _per_sequence(name: str) -> Callable[..., Spec]:
    def infer(a: Any, x: Spec, length: Spec | None = None) -> Spec:
        _check_lengths(name, a, x, length, a["axis"])
        return x

    return infer


_LENGTHS = {"use_sequence_length": Bool(False)}
_LENGTH_DOC = """
Parameters
----------
data : NDArray
    {data}.
sequence_length : NDArray, optional
    ``(N,)``, used with ``use_sequence_length=True``; otherwise every sequence has all steps.
use_sequence_length : bool
{more}axis : int
    Which axis is the steps'{axis}.

Returns
-------
NDArray
    {returns}.

Raises
------
ShapeError
    If the lengths do not fit.

Examples
--------
>>> import mxcore as mx
>>> x, n = mx.nd.array([[1, 2], [3, 4], [5, 6]]), mx.nd.array([1, 2])
>>> mx.nd.{name}(x, n, use_sequence_length=True{extra}).asnumpy().tolist()
{result}
"""


def _length_errors() -> Any:
    x = np.ones((3, 2), "float32")
    return [
        error(x, np.ones(3, "float32"), use_sequence_length=True, match="sequence_length must have shape (2,)"),
        error(x, None, use_sequence_length=True, match="no sequence_length is given"),
    ]


def _mask_reference(x: Any, n: Any = None, *, value: float = 0.0, axis: int = 0, **_: Any) -> Any:
    y = np.array(np.swapaxes(x, 0, axis))
    for i in range(0 if n is None else y.shape[1]):
        y[int(n[i]) :, i] = value
    return np.swapaxes(y, 0, axis)


operator(
    "SequenceMask",
    "data sequence_length?",
    {**_LENGTHS, "value": Float(0.0), "axis": Int(0)},
    same_dtype=False,
    infer=_per_sequence("SequenceMask"),
    gradient=(
        lambda F, g, y, x, n, use_sequence_length, value, axis: F.SequenceMask(
            g, n, use_sequence_length=use_sequence_length, value=0.0, axis=axis
        ),
        None,
    ),
    saves="sequence_length",
    reference=_mask_reference,
    samples=lambda rng: [
        sample(rng.standard_normal((3, 2)), np.array([1, 3], "float32"), use_sequence_length=True, value=-1.0),
        sample(rng.standard_normal((2, 3, 2)), np.array([0, 2], "int32"), use_sequence_length=True, axis=1),
        sample(rng.standard_normal((3, 2)), None),
    ],
    errors=_length_errors,
    doc="Set the steps beyond each sequence's length to ``value``.\n"
    + _LENGTH_DOC.format(
        data="``(T, N, ...)``, or ``(N, T, ...)`` with ``axis=1``",
        more="value : float\n",
        axis=", 0 or 1",
        returns="Same shape and dtype as ``data``",
        name="SequenceMask",
        extra=", value=-1",
        result="[[1.0, 2.0], [-1.0, 4.0], [-1.0, -1.0]]",
    ),
)


def _last(a: Any, x: Spec, length: Spec | None = None) -> Spec:
    _check_lengths("SequenceLast", a, x, length, a["axis"])
    return Spec((x.shape[1 - a["axis"]], *x.shape[2:]), x.dtype)


def _last_reference(x: Any, n: Any = None, *, axis: int = 0, **_: Any) -> Any:
    x = np.swapaxes(x, 0, axis)
    return np.stack([x[(x.shape[0] if n is None else int(n[i])) - 1, i] for i in range(x.shape[1])])


operator(
    "SequenceLast",
    "data sequence_length?",
    {**_LENGTHS, "axis": Int(0)},
    same_dtype=False,
    infer=_last,
    gradient=(lambda F, g, y, x, n, **a: F._backward_SequenceLast(g, x, n, **a), None),
    saves="sequence_length",
    reference=_last_reference,
    samples=lambda rng: [
        sample(rng.standard_normal((3, 2, 2)), np.array([1, 3], "float32"), use_sequence_length=True),
        sample(rng.standard_normal((2, 3)), np.array([1, 2], "int32"), use_sequence_length=True, axis=1),
        sample(rng.standard_normal((3, 2)), None),
    ],
    errors=_length_errors,
    doc="Take the last step of each sequence.\n"
    + _LENGTH_DOC.format(
        data="``(T, N, ...)``, or ``(N, T, ...)`` with ``axis=1``",
        more="",
        axis=", 0 or 1",
        returns="``(N, ...)``",
        name="SequenceLast",
        extra="",
        result="[1.0, 4.0]",
    ),
)

operator(
    "_backward_SequenceLast",
    "grad like sequence_length?",
    {**_LENGTHS, "axis": Int(0)},
    same_dtype=False,
    infer=lambda a, g, like, n=None: Spec(like.shape, g.dtype),
    gradient=(lambda F, v, y, g, like, n, **a: F.SequenceLast(v, n, **a), None, None),
    saves="sequence_length",
    doc="Put ``grad`` where ``SequenceLast`` took its result, 0 elsewhere.",
)


def _reverse(a: Any, x: Spec, length: Spec | None = None) -> Spec:
    if a["axis"] != 0:
        raise ParameterError(
            f"operator 'SequenceReverse': axis={a['axis']} is not valid; steps must be on axis 0.",
            operator="SequenceReverse",
            attribute="axis",
        )
    _check_lengths("SequenceReverse", a, x, length, 0)
    return x


def _reverse_reference(x: Any, n: Any = None, **_: Any) -> Any:
    y = np.array(x)
    for i in range(x.shape[1]):
        m = x.shape[0] if n is None else int(n[i])
        y[:m, i] = x[:m, i][::-1]
    return y


operator(
    "SequenceReverse",
    "data sequence_length?",
    {**_LENGTHS, "axis": Int(0)},
    same_dtype=False,
    infer=_reverse,
    gradient=(lambda F, g, y, x, n, **a: F.SequenceReverse(g, n, **a), None),
    saves="sequence_length",
    reference=_reverse_reference,
    samples=lambda rng: [
        sample(rng.standard_normal((3, 2, 2)), np.array([1, 3], "float32"), use_sequence_length=True),
        sample(rng.standard_normal((3, 2)), None),
    ],
    errors=lambda: [*_length_errors(), error(np.ones((3, 2), "float32"), None, axis=1, match="axis=1 is not valid")],
    doc="Reverse each sequence within its length; the steps beyond stay.\n"
    + _LENGTH_DOC.format(
        data="``(T, N, ...)``",
        more="",
        axis="; 0 only",
        returns="Same shape and dtype as ``data``",
        name="SequenceReverse",
        extra="",
        result="[[1.0, 4.0], [3.0, 2.0], [5.0, 6.0]]",
    ),
)

# ---------------------------------------------------------------------------------------------------------------
# Recurrent layers

_RNN = {
    "state_size": Int(),
    "num_layers": Int(),
    "bidirectional": Bool(False),
    "mode": Choice(choices=tuple(sorted(GATES))),
    "p": Float(0.0),
    "state_outputs": Bool(False),
    "projection_size": Int(None),
    "lstm_state_clip_min": Float(None),
    "lstm_state_clip_max": Float(None),
    "lstm_state_clip_nan": Bool(False),
    "use_sequence_length": Bool(False),
}


def _refuse(text: str, *shapes: Any) -> ShapeError:
    return ShapeError(f"operator 'RNN': {text}", operator="RNN", shapes=list(shapes))


def _rnn(a: Any, x: Spec, parameters: Spec, state: Spec, cell: Spec | None = None, length: Spec | None = None) -> Any:
    if x.dtype.kind != "f" or any(s is not None and s.dtype != x.dtype for s in (parameters, state, cell)):
        raise DTypeError(
            f"operator 'RNN' wants floats of one dtype but got data {x.dtype}, parameters {parameters.dtype}, state "
            f"{state.dtype}{'' if cell is None else f', state_cell {cell.dtype}'}.",
            operator="RNN",
        )
    if len(x.shape) != 3:
        raise _refuse(f"data must be (T, N, I) but is {x.shape}.", x.shape)
    lstm = a["mode"] == "lstm"
    if a["lstm_state_clip_min"] is not None or a["lstm_state_clip_max"] is not None:
        raise ParameterError(
            "operator 'RNN': clipping of LSTM states (lstm_state_clip_min, lstm_state_clip_max) is not supported here; MXNet "
            "has it on GPUs only. Leave both out.",
            operator="RNN",
        )
    if a["projection_size"] is not None and not lstm:
        raise ParameterError(
            f"operator 'RNN': projection_size={a['projection_size']} needs mode='lstm', not {a['mode']!r}.",
            operator="RNN",
        )
    if not 0 <= a["p"] < 1:
        raise ParameterError(f"operator 'RNN': p={a['p']} must be at least 0 and less than 1.", operator="RNN")
    if (cell is not None) != lstm:
        raise ParameterError(
            f"operator 'RNN': mode={a['mode']!r} {'needs' if lstm else 'takes no'} state_cell.", operator="RNN"
        )
    steps, n, inputs = x.shape
    if steps < 1:
        raise _refuse(f"data {x.shape} has no steps.", x.shape)
    directions = 2 if a["bidirectional"] else 1
    network = Layout(a["mode"], inputs, a["state_size"], a["num_layers"], directions, a["projection_size"])
    if parameters.shape != (network.length,):
        raise _refuse(
            f"parameters must have shape {(network.length,)} for inputs of size {inputs}, state_size={a['state_size']}, "
            f"num_layers={a['num_layers']}, bidirectional={a['bidirectional']}, mode={a['mode']!r}, projection_size="
            f"{a['projection_size']}, but have {parameters.shape}.",
            parameters.shape,
        )
    cells = a["num_layers"] * directions
    want = (cells, n, network.recurrent)
    if state.shape != want:
        raise _refuse(f"state must have shape {want} for data {x.shape} but has {state.shape}.", state.shape)
    if cell is not None and cell.shape != (cells, n, a["state_size"]):
        raise _refuse(f"state_cell must have shape {(cells, n, a['state_size'])} but has {cell.shape}.", cell.shape)
    if a["use_sequence_length"]:
        _check_lengths("RNN", a, x, length, 0)
    outputs = [Spec((steps, n, directions * network.recurrent), x.dtype), state]
    if cell is not None:
        outputs.append(cell)
    # What backward needs of the forward pass, in one vector; its length depends on whether there was dropout.
    return (*outputs, Spec((0,), x.dtype))


def _rnn_gradient(F: Any, gs: Any, inputs: Any, outputs: Any, a: Any, needs: Any) -> Any:
    x, parameters, state, cell, length = inputs
    g = gs[0]
    if g is None:
        g = F.zeros_like(outputs[0])
    grad_cell = gs[2] if cell is not None else None
    found = F._backward_RNN(g, x, parameters, state, outputs[0], outputs[-1], gs[1], grad_cell, cell, length, **a)
    return (*found[:3], found[3] if cell is not None else None, None)


def _rnn_reference(x: Any, w: Any, h0: Any, c0: Any = None, lengths: Any = None, **a: Any) -> Any:
    """One instance, one step, one gate at a time."""
    mode, size, layers = a["mode"], a["state_size"], a["num_layers"]
    directions, projection = 2 if a.get("bidirectional") else 1, a.get("projection_size")
    steps, n, inputs = x.shape
    network = Layout(mode, inputs, size, layers, directions, projection)
    cells = network.cut(w)
    hs, cs = np.zeros(h0.shape), np.zeros(h0.shape[:2] + (size,))

    def sigmoid(v: Any) -> Any:
        return 1 / (1 + np.exp(-v))

    for layer in range(layers):
        y = np.zeros((steps, n, directions * network.recurrent))
        for direction in range(directions):
            k = layer * directions + direction
            wx, wh, *rest = cells[k]
            bx, bh = rest[-2:]
            for b in range(n):
                m = steps if lengths is None else int(lengths[b])
                h, c = h0[k, b], None if c0 is None else c0[k, b]
                for t in range(m) if direction == 0 else range(m - 1, -1, -1):
                    p, q = wx @ x[t, b] + bx, wh @ h + bh
                    if mode == "lstm":
                        i, f, g, o = (p + q).reshape(4, size)
                        c = sigmoid(f) * c + sigmoid(i) * np.tanh(g)
                        h = sigmoid(o) * np.tanh(c)
                        h = rest[0] @ h if projection else h
                    elif mode == "gru":
                        (r, z, u), (rq, zq, uq) = p.reshape(3, size), q.reshape(3, size)
                        r, z = sigmoid(r + rq), sigmoid(z + zq)
                        h = (1 - z) * np.tanh(u + r * uq) + z * h
                    else:
                        h = np.tanh(p + q) if mode == "rnn_tanh" else np.maximum(p + q, 0)
                    y[t, b, direction * len(h) : (direction + 1) * len(h)] = h
                hs[k, b] = h
                if c is not None:
                    cs[k, b] = c
        x = y
    if not a.get("state_outputs"):
        return y
    return [y, hs, cs] if c0 is not None else [y, hs]


def _rnn_samples(rng: np.random.Generator) -> Any:
    def one(
        mode: str, steps: int, n: int, inputs: int, size: int, layers: int = 1, lengths: Any = None, **more: Any
    ) -> Any:
        directions, projection = 2 if more.get("bidirectional") else 1, more.get("projection_size")
        network = Layout(mode, inputs, size, layers, directions, projection)
        k = layers * directions
        if lengths is not None:
            more["use_sequence_length"] = True
            lengths = np.array(lengths, "float32")
        return sample(
            rng.standard_normal((steps, n, inputs)),
            rng.standard_normal(network.length) * 0.5,
            rng.standard_normal((k, n, network.recurrent)),
            rng.standard_normal((k, n, size)) if mode == "lstm" else None,
            lengths,
            state_size=size,
            num_layers=layers,
            mode=mode,
            check_gradient=False,
            **more,
        )

    for mode in sorted(GATES):
        yield one(mode, 3, 2, 4, 3)
        yield one(mode, 4, 3, 2, 3, 2, bidirectional=True, state_outputs=True)
        yield one(mode, 4, 3, 2, 2, 2, lengths=[4, 1, 2], bidirectional=True, state_outputs=True)
    yield one("lstm", 3, 2, 3, 4, 2, projection_size=2, state_outputs=True, bidirectional=True)


operator(
    "RNN",
    "data parameters state state_cell? sequence_length?",
    _RNN,
    same_dtype=False,
    infer=_rnn,
    gradient=Joint(_rnn_gradient),
    outputs=lambda a: 4 if a["mode"] == "lstm" else 3,
    visible=lambda a: 1 if not a["state_outputs"] else 3 if a["mode"] == "lstm" else 2,
    random=True,
    training=True,
    saves="data parameters state state_cell sequence_length output",
    reference=_rnn_reference,
    # Gradients are tested in tests/operators/test_sequence_operators.py: checks of random operators cannot repeat a call.
    samples=_rnn_samples,
    errors=lambda: [
        error(
            np.ones((3, 2, 4), "float32"),
            np.ones(7, "float32"),
            np.ones((1, 2, 3), "float32"),
            None,
            None,
            state_size=3,
            num_layers=1,
            mode="gru",
            match="parameters must have shape (81,)",
        ),
        error(
            np.ones((3, 2, 4), "float32"),
            np.ones(81, "float32"),
            np.ones((2, 2, 3), "float32"),
            None,
            None,
            state_size=3,
            num_layers=1,
            mode="gru",
            match="state must have shape (1, 2, 3)",
        ),
        error(
            np.ones((3, 2, 4), "float32"),
            np.ones(81, "float32"),
            np.ones((1, 2, 3), "float32"),
            None,
            None,
            state_size=3,
            num_layers=1,
            mode="lstm",
            match="needs state_cell",
        ),
    ],
    rtol=1e-4,
    atol=1e-5,
    doc="""Run a stack of recurrent layers over a batch of sequences.

With ``p_t = W x_t + b`` and ``q_t = R h_{t-1} + d``: ``h_t = tanh(p_t + q_t)`` or ``relu``; GRU (gates r, z, n):
``h_t = (1 - z) tanh(p_n + r q_n) + z h_{t-1}``; LSTM (gates i, f, g, o): ``c_t = f c_{t-1} + i g``,
``h_t = o tanh(c_t)``.

Parameters
----------
data : NDArray
    ``(T, N, I)``: steps, sequences, inputs.
parameters : NDArray
    One vector: for each layer and direction ``W (G H, I)``, ``R (G H, H)`` and, projected, ``(P, H)``; then for each
    layer and direction ``b (G H)`` and ``d (G H)``. ``G`` is the number of gates.
state : NDArray
    ``(layers * directions, N, H)``, with the projection's size for ``H`` if there is one.
state_cell : NDArray, optional
    ``(layers * directions, N, H)``, for LSTM.
sequence_length : NDArray, optional
    ``(N,)``, with ``use_sequence_length=True``: outputs beyond are 0, final states are those of the last step.
state_size, num_layers : int
bidirectional : bool
    Every layer also runs backwards; outputs are joined.
mode : {"rnn_relu", "rnn_tanh", "lstm", "gru"}
p : float
    Share of the outputs of all layers but the last that is dropped while training.
state_outputs : bool
    Return the final states too.
projection_size : int, optional
    LSTM: multiply each output by a matrix to this size, before it goes on to the next step too.
lstm_state_clip_min, lstm_state_clip_max, lstm_state_clip_nan
    Not supported; an error if a limit is given.
use_sequence_length : bool

Returns
-------
NDArray, or list of two or three
    ``(T, N, directions * H)``; with ``state_outputs`` also the final state and, for LSTM, the final cell. Has first
    derivatives only.

Raises
------
ShapeError
    If parameters or states do not fit.

Examples
--------
>>> import mxcore as mx
>>> x, state = mx.nd.array([[[1]], [[2]]]), mx.nd.zeros((1, 1, 1))
>>> weights = mx.nd.array([1, 1, 0, 0])
>>> mx.nd.RNN(x, weights, state, state_size=1, num_layers=1, mode="rnn_relu").asnumpy().ravel().tolist()
[1.0, 3.0]
""",
)


def _backward_rnn(a: Any, g: Spec, x: Spec, parameters: Spec, state: Spec, *rest: Any) -> Any:
    cell = rest[4] if len(rest) > 4 else None
    return (x, parameters, state) if cell is None else (x, parameters, state, cell)


operator(
    "_backward_RNN",
    "grad data parameters state output reserve grad_state? grad_cell? state_cell? sequence_length?",
    _RNN,
    same_dtype=False,
    infer=_backward_rnn,
    outputs=lambda a: 4 if a["mode"] == "lstm" else 3,
    gradient=NO_GRADIENT,
    doc="Gradients of ``RNN`` for data, parameters, state and state_cell.",
)
