"""Records of operators that make arrays from nothing, as symbol files name them, and of histograms.

``mx.nd.zeros`` and its siblings make arrays directly; these are the operators behind ``mx.sym.zeros`` and the like.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ..spec.errors import DTypeError, ParameterError, ShapeError
from .attributes import Bool, DType, Float, Floats, Int, Shape, String
from .record import ZERO_GRADIENT, Spec, error, sample
from .registry import operator

_DTYPE = DType("float32")
_CTX = String("")


def _filled(name: str) -> Any:
    def infer(a: Any) -> Spec:
        shape = a["shape"]
        if shape is None or any(n < 0 for n in shape):
            raise ParameterError(f"operator '{name}': shape={shape} must hold lengths, not negative.", operator=name)
        return Spec(shape, np.dtype(a["dtype"]))

    return infer


for _name, _what in (("_zeros", "0"), ("_ones", "1")):
    operator(
        _name,
        "",
        {"shape": Shape(()), "ctx": _CTX, "dtype": _DTYPE},
        creates=True,
        infer=_filled(_name),
        gradient=(),
        saves="",
        errors=lambda: [error(shape=(-2,), match="not negative")],
        doc=f"""Return an array of {_what}.

Parameters
----------
shape : tuple of int
ctx : str or Context
dtype : str

Returns
-------
NDArray
""",
    )

operator(
    "_full",
    "",
    {"shape": Shape(None), "ctx": _CTX, "dtype": _DTYPE, "value": Float()},
    creates=True,
    infer=_filled("_full"),
    gradient=(),
    saves="",
    errors=lambda: [error(value=1.0, match="shape=None"), error(shape=(2,), match="needs attribute 'value'")],
    doc="""Return an array of one value.

Parameters
----------
shape : tuple of int
ctx : str or Context
dtype : str
value : float

Returns
-------
NDArray
""",
)


def arange_bounds(a: Any) -> tuple[float, float, int]:
    """Return start, step, and how many different numbers ``_arange`` makes.

    Raises
    ------
    ParameterError
        If the range is empty or its step is 0.
    """
    start, stop, step = a["start"], a["stop"], a["step"]
    if stop is None:
        start, stop = 0.0, start
    if step == 0 or a["repeat"] < 1 or (stop - start) / step <= 0:
        raise ParameterError(
            f"operator '_arange': start={start}, stop={stop}, step={step}, repeat={a['repeat']} give no numbers.",
            operator="_arange",
        )
    return start, step, math.ceil((stop - start) / step)


operator(
    "_arange",
    "",
    {
        "start": Float(),
        "stop": Float(None),
        "step": Float(1.0),
        "repeat": Int(1),
        "infer_range": Bool(False),
        "ctx": _CTX,
        "dtype": _DTYPE,
    },
    creates=True,
    infer=lambda a: Spec((arange_bounds(a)[2] * a["repeat"],), np.dtype(a["dtype"])),
    gradient=(),
    saves="",
    errors=lambda: [
        error(start=5.0, stop=0.0, match="give no numbers"),
        error(start=5.0, stop=9.0, step=0.0, match="give no numbers"),
    ],
    doc="""Return evenly spaced numbers from ``start`` up to, not including, ``stop``.

Parameters
----------
start, stop, step : float
    With ``stop`` None the numbers go from 0 to ``start``.
repeat : int
    How often each number is repeated.
infer_range : bool
    Without effect on arrays.
ctx : str or Context
dtype : str

Returns
-------
NDArray

Raises
------
ParameterError
    If there are no such numbers.
""",
)


def _linspace(a: Any) -> Spec:
    if a["num"] < 0:
        raise ParameterError(f"operator '_linspace': num={a['num']} must not be negative.", operator="_linspace")
    return Spec((a["num"],), np.dtype(a["dtype"]))


operator(
    "_linspace",
    "",
    {
        "start": Float(),
        "stop": Float(),
        "num": Int(),
        "endpoint": Bool(True),
        "ctx": _CTX,
        "dtype": _DTYPE,
    },
    creates=True,
    infer=_linspace,
    gradient=(),
    saves="",
    errors=lambda: [error(start=0.0, stop=1.0, num=-1, match="must not be negative")],
    doc="""Return ``num`` evenly spaced numbers from ``start`` to ``stop``.

Parameters
----------
start, stop : float
num : int
endpoint : bool
    Whether ``stop`` is the last number.
ctx : str or Context
dtype : str

Returns
-------
NDArray
""",
)


def _eye(a: Any) -> Spec:
    if a["N"] < 1 or a["M"] < 0:
        raise ParameterError(
            f"operator '_eye': N={a['N']} must be positive and M={a['M']} not negative.", operator="_eye"
        )
    return Spec((a["N"], a["M"] or a["N"]), np.dtype(a["dtype"]))


operator(
    "_eye",
    "",
    {"N": Int(), "M": Int(0), "k": Int(0), "ctx": _CTX, "dtype": _DTYPE},
    creates=True,
    infer=_eye,
    gradient=(),
    saves="",
    errors=lambda: [error(N=0, match="must be positive")],
    doc="""Return a matrix with ones on diagonal ``k``.

Parameters
----------
N, M : int
    Rows and columns; 0 columns means as many as rows.
k : int
ctx : str or Context
dtype : str

Returns
-------
NDArray
    Shape ``(N, M or N)``.
""",
)


def _histogram(a: Any, x: Spec, bins: Spec | None) -> tuple[Spec, Spec]:
    if bins is not None:
        if len(bins.shape) != 1 or bins.shape[0] < 2:
            raise ShapeError(
                f"operator '_histogram': bins must be one axis of at least two edges but has shape {bins.shape}.",
                operator="_histogram",
                shapes=[bins.shape],
            )
        if bins.dtype != x.dtype:
            raise DTypeError(
                f"operator '_histogram' wants bins in the dtype of data, {x.dtype}, but they have {bins.dtype}.",
                operator="_histogram",
            )
        count = bins.shape[0] - 1
    else:
        count, limits = a["bin_cnt"], a["range"]
        if count is None or count < 1 or limits is None or len(limits) != 2 or not limits[0] < limits[1]:
            raise ParameterError(
                f"operator '_histogram' needs bins, or a positive bin_cnt and a rising range, but bin_cnt={count} and "
                f"range={limits}.",
                operator="_histogram",
            )
    return Spec((count,), np.dtype(np.int64)), Spec((count + 1,), x.dtype)


operator(
    "_histogram",
    "data bins?",
    {"bin_cnt": Int(None), "range": Floats(None)},
    outputs=2,
    same_dtype=False,
    infer=_histogram,
    gradient=ZERO_GRADIENT,
    saves="",
    reference=lambda x, bins=None, bin_cnt=None, range=None: np.histogram(
        x, bins if bins is not None else bin_cnt, range
    ),
    samples=lambda rng: [
        sample(np.arange(1.0, 6), None, bin_cnt=2, range=(0.0, 5.0), check_gradient=False),
        sample(rng.uniform(-1, 6, (5, 7)), np.array([0.0, 2.0, 4.5]), check_gradient=False),
    ],
    errors=lambda: [
        error(np.ones(3, "float32"), None, bin_cnt=2, match="needs bins"),
        error(np.ones(3, "float32"), np.ones(1, "float32"), match="at least two edges"),
        error(np.ones(3, "float32"), np.ones(2, "int32"), match="dtype of data"),
    ],
    doc="""Count elements in intervals.

Parameters
----------
data : NDArray
bins : NDArray, optional
    Rising edges of the intervals, one more than there are.
bin_cnt : int or None
    Without ``bins``: the number of equal intervals.
range : tuple of float or None
    Without ``bins``: where the first begins and the last ends.

Returns
-------
list of NDArray
    Counts, int64, and edges in the dtype of ``data``. Elements outside are not counted; the last interval holds
    both its edges.

Raises
------
ParameterError
    If neither ``bins`` nor ``bin_cnt`` and ``range`` are given.
""",
)
