"""Records of matrix products and of linear algebra (``mx.nd.linalg``).

The last two axes hold the matrices; axes before them are a batch and must agree. Gradients of functions of symmetric
matrices (``potrf``, ``syevd``) are symmetric.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from .attributes import Bool, Choice, Float, Int
from .checks import refused
from .documentation import documentation
from .record import NO_GRADIENT, Joint, Spec, error, sample
from .registry import operator

_STYPES = ("default", "row_sparse", "csr")


def _matrices(name: str, *specs: Spec, square: bool = False) -> None:
    """Raise unless all inputs are (batches of) matrices with equal batch axes; ``square`` checks the first."""
    first = specs[0]
    for s in specs:
        if len(s.shape) < 2 or s.shape[:-2] != first.shape[:-2]:
            raise refused(name, "inputs must have at least 2 axes, and equal axes before the last 2", *specs)
    if square and first.shape[-1] != first.shape[-2]:
        raise refused(name, "the matrices must be square", *specs[:1])


def _doc(text: str, names: str, returns: str, example: str) -> str:
    return documentation(text, names, returns, example, raises="ShapeError\n    If the shapes do not fit.")


# ---------------------------------------------------------------------------------------------------------------
# Products


def _dot(a: Any, x: Spec, y: Spec) -> Spec:
    if not x.shape or not y.shape or (len(x.shape) == len(y.shape) == 1 and (a["transpose_a"] or a["transpose_b"])):
        raise refused("dot", "two vectors cannot be transposed", x, y)
    left = x.shape[0] if a["transpose_a"] else x.shape[-1]
    right = y.shape[-1] if a["transpose_b"] else y.shape[0]
    if left != right:
        raise refused(
            "dot",
            f"the {'first' if a['transpose_a'] else 'last'} axis of lhs ({left}) and the "
            f"{'last' if a['transpose_b'] else 'first'} axis of rhs ({right}) must be equal",
            x,
            y,
        )
    rest = (x.shape[1:] if a["transpose_a"] else x.shape[:-1]) + (y.shape[:-1] if a["transpose_b"] else y.shape[1:])
    return Spec(rest or (1,), x.dtype)


def _dot_reference(a: Any, b: Any, transpose_a: bool = False, transpose_b: bool = False, **_: Any) -> Any:
    return np.tensordot(a, b, ((0 if transpose_a else a.ndim - 1,), (b.ndim - 1 if transpose_b else 0,)))


_DOT = {
    "transpose_a": Bool(False),
    "transpose_b": Bool(False),
    "forward_stype": Choice(None, choices=_STYPES),
}

operator(
    "dot",
    "lhs rhs",
    _DOT,
    infer=_dot,
    gradient=(
        lambda F, g, y, a, b, transpose_a, transpose_b, **_: F._backward_dot(
            g, b, a, transpose_a=transpose_a, transpose_b=transpose_b, of_lhs=True
        ),
        lambda F, g, y, a, b, transpose_a, transpose_b, **_: F._backward_dot(
            g, a, b, transpose_a=transpose_a, transpose_b=transpose_b, of_lhs=False
        ),
    ),
    saves="lhs rhs",
    reference=_dot_reference,
    samples=lambda rng: [
        sample(rng.standard_normal(a), rng.standard_normal(b), **kw)
        for a, b, kw in (
            ((3, 4), (4, 2), {}),
            ((4, 3), (4, 2), {"transpose_a": True}),
            ((3, 4), (2, 4), {"transpose_b": True}),
            ((4, 3), (2, 4), {"transpose_a": True, "transpose_b": True}),
            ((4,), (4,), {}),
            ((4,), (4, 2), {}),
            ((3, 4), (4,), {}),
            ((2, 3, 4), (4, 5, 2), {}),
            ((4, 2, 3), (5, 2, 4), {"transpose_a": True, "transpose_b": True}),
        )
    ],
    errors=lambda: [
        error(np.ones((2, 3), "float32"), np.ones((2, 3), "float32"), match="the last axis of lhs (3)"),
        error(np.ones(3, "float32"), np.ones(3, "float32"), transpose_a=True, match="cannot be transposed"),
    ],
    doc=_doc(
        "Sum products over the last axis of ``lhs`` and the first axis of ``rhs``.\n\n"
        "``transpose_a`` takes the first axis of ``lhs`` instead, ``transpose_b`` the last axis of ``rhs``.",
        "lhs : NDArray\n    (..., K), or (K, ...) transposed.\nrhs : NDArray\n    (K, ...), or (..., K) transposed.\n"
        "transpose_a, transpose_b : bool\nforward_stype : str\n    Storage type of the result; dense is always given.",
        "NDArray\n    The other axes of ``lhs``, then those of ``rhs``; ``(1,)`` for two vectors.",
        ">>> mx.nd.dot(mx.nd.array([[1, 2], [3, 4]]), mx.nd.array([10, 1])).asnumpy().tolist()\n[12.0, 34.0]",
    ),
)

operator(
    "_backward_dot",
    "grad other like",
    {"transpose_a": Bool(False), "transpose_b": Bool(False), "of_lhs": Bool(True)},
    infer=lambda a, g, other, like: like,
    # Linear in grad and in other: <h, dA> = sum of h[i,k] g[i,j] b[k,j], so each derivative is such a product again.
    gradient=(
        lambda F, h, y, g, other, like, transpose_a, transpose_b, of_lhs: (
            F.dot(h, other, transpose_a=transpose_a, transpose_b=transpose_b)
            if of_lhs
            else F.dot(other, h, transpose_a=transpose_a, transpose_b=transpose_b)
        ),
        lambda F, h, y, g, other, like, transpose_a, transpose_b, of_lhs: F._backward_dot(
            g, h, other, transpose_a=transpose_a, transpose_b=transpose_b, of_lhs=not of_lhs
        ),
        None,
    ),
    saves="grad other",
    doc="The gradient of ``dot`` for ``lhs`` (or ``rhs``), which has the shape of ``like``; ``other`` is the other one.",
)


def _product(name: str) -> Any:
    def infer(a: Any, x: Spec, y: Spec, *rest: Spec) -> Spec:
        axis = a.get("axis", -2)
        shapes = []
        for s in (x, y):
            n = len(s.shape)
            if n < 2 or not -n <= axis < n or axis % n == n - 1:
                raise refused(name, f"inputs must have at least 2 axes and row axis {axis} before the last", x, y)
            row = axis % n
            shapes.append((s.shape[:row] + s.shape[row + 1 : -1], s.shape[row], s.shape[-1], row))
        (left, m, k, row), (right, k2, n, _) = shapes
        if a["transpose_a"]:
            m, k = k, m
        if a["transpose_b"]:
            k2, n = n, k2
        if left != right or k != k2:
            raise refused(
                name,
                f"batch axes {left} and {right}, and inner axes {k} and {k2}, must be equal "
                f"(transpose_a={a['transpose_a']}, transpose_b={a['transpose_b']})",
                x,
                y,
            )
        out = Spec((*left[:row], m, *left[row:], n), x.dtype)
        if rest and rest[0].shape != out.shape:
            raise refused(name, f"C must have the shape of the product, {out.shape}", rest[0])
        return out

    return infer


def _left_rule(product: Any) -> Any:
    def rule(
        F: Any, g: Any, y: Any, a: Any, b: Any, *rest: Any, transpose_a: bool, transpose_b: bool, **kw: Any
    ) -> Any:
        if transpose_a:
            return product(F)(b, g, transpose_a=transpose_b, transpose_b=True, **kw)
        return product(F)(g, b, transpose_a=False, transpose_b=not transpose_b, **kw)

    return rule


def _right_rule(product: Any) -> Any:
    def rule(
        F: Any, g: Any, y: Any, a: Any, b: Any, *rest: Any, transpose_a: bool, transpose_b: bool, **kw: Any
    ) -> Any:
        if transpose_b:
            return product(F)(g, a, transpose_a=True, transpose_b=transpose_a, **kw)
        return product(F)(a, g, transpose_a=not transpose_a, transpose_b=False, **kw)

    return rule


def _flip(x: Any, flag: bool) -> Any:
    return np.swapaxes(x, -1, -2) if flag else x


def _gemm2_reference(
    a: Any, b: Any, transpose_a: bool = False, transpose_b: bool = False, alpha: float = 1.0, axis: int = -2, **_: Any
) -> Any:
    a, b = np.moveaxis(a, axis, -2), np.moveaxis(b, axis, -2)
    y = alpha * np.einsum("...ij,...jk->...ik", _flip(a, transpose_a), _flip(b, transpose_b))
    return np.moveaxis(y, -2, axis)


def _product_samples(rng: Any) -> Any:
    for ta in (False, True):
        for tb in (False, True):
            a, b = (2, 4, 3) if ta else (2, 3, 4), (2, 5, 4) if tb else (2, 4, 5)
            yield sample(rng.standard_normal(a), rng.standard_normal(b), transpose_a=ta, transpose_b=tb)
    yield sample(rng.standard_normal((2, 3, 2, 4)), rng.standard_normal((2, 3, 4, 1)))


operator(
    "batch_dot",
    "lhs rhs",
    _DOT,
    infer=_product("batch_dot"),
    gradient=(_left_rule(lambda F: F.batch_dot), _right_rule(lambda F: F.batch_dot)),
    saves="lhs rhs",
    reference=_gemm2_reference,
    samples=_product_samples,
    errors=lambda: [
        error(np.ones((2, 2, 3), "float32"), np.ones((2, 2, 3), "float32"), match="inner axes 3 and 2"),
        error(np.ones((1, 2, 3), "float32"), np.ones((2, 3, 3), "float32"), match="batch axes (1,) and (2,)"),
    ],
    doc=_doc(
        "Multiply matrices pairwise over a batch.",
        "lhs : NDArray\n    (B..., M, K), or (B..., K, M) with ``transpose_a``.\nrhs : NDArray\n    (B..., K, N), or "
        "(B..., N, K) with ``transpose_b``.\ntranspose_a, transpose_b : bool\nforward_stype : str\n    Without effect: "
        "the result is dense.",
        "NDArray\n    (B..., M, N).",
        ">>> mx.nd.batch_dot(mx.nd.ones((5, 2, 3)), mx.nd.ones((5, 3, 4))).shape\n(5, 2, 4)",
    ),
)

_GEMM = {"transpose_a": Bool(False), "transpose_b": Bool(False), "alpha": Float(1.0)}


def _gemm2_samples(rng: Any) -> Any:
    yield from _product_samples(rng)
    yield sample(rng.standard_normal((3, 4)), rng.standard_normal((4, 2)), alpha=-1.5)
    yield sample(rng.standard_normal((3, 2, 4)), rng.standard_normal((4, 2, 5)), axis=0)
    yield sample(rng.standard_normal((2, 3, 5, 4)), rng.standard_normal((2, 4, 5, 2)), axis=1, alpha=2.0)


operator(
    "_linalg_gemm2",
    "A B",
    {**_GEMM, "axis": Int(-2)},
    aliases=("linalg_gemm2",),
    infer=_product("_linalg_gemm2"),
    gradient=(_left_rule(lambda F: F._linalg_gemm2), _right_rule(lambda F: F._linalg_gemm2)),
    saves="A B",
    reference=_gemm2_reference,
    samples=_gemm2_samples,
    errors=lambda: [error(np.ones((2, 3), "float32"), np.ones((2, 3), "float32"), match="inner axes 3 and 2")],
    doc=_doc(
        "Compute ``alpha op(A) op(B)``; ``op`` transposes if told to.",
        "A : NDArray\n    (B..., M, K), or (B..., K, M) with ``transpose_a``.\nB : NDArray\n    (B..., K, N), or "
        "(B..., N, K) with ``transpose_b``.\ntranspose_a, transpose_b : bool\nalpha : float\naxis : int\n    Where the "
        "rows of the matrices are; columns are always last.",
        "NDArray\n    (B..., M, N).",
        ">>> mx.nd.linalg.gemm2(mx.nd.ones((2, 3)), mx.nd.ones((2, 3)), transpose_b=True, alpha=2).asnumpy().tolist()\n"
        "[[6.0, 6.0], [6.0, 6.0]]",
    ),
)


def _drop_beta(rule: Any) -> Any:
    return lambda F, g, y, a, b, c, beta, **kw: rule(F, g, y, a, b, **kw)


operator(
    "_linalg_gemm",
    "A B C",
    {**_GEMM, "beta": Float(1.0), "axis": Int(-2)},
    aliases=("linalg_gemm",),
    infer=_product("_linalg_gemm"),
    gradient=(
        _drop_beta(_left_rule(lambda F: F._linalg_gemm2)),
        _drop_beta(_right_rule(lambda F: F._linalg_gemm2)),
        lambda F, g, y, a, b, c, beta, **_: g * beta,
    ),
    saves="A B",
    reference=lambda a, b, c, beta=1.0, **kw: _gemm2_reference(a, b, **kw) + beta * c,
    samples=lambda rng: [
        sample(rng.standard_normal((2, 3, 4)), rng.standard_normal((2, 4, 5)), rng.standard_normal((2, 3, 5))),
        sample(
            rng.standard_normal((4, 3)),
            rng.standard_normal((2, 4)),
            rng.standard_normal((3, 2)),
            transpose_a=True,
            transpose_b=True,
            alpha=0.5,
            beta=3.0,
        ),
        sample(rng.standard_normal((3, 2, 4)), rng.standard_normal((4, 2, 5)), rng.standard_normal((3, 2, 5)), axis=0),
    ],
    errors=lambda: [
        error(*(np.ones(s, "float32") for s in ((2, 3), (3, 2), (3, 3))), match="C must have the shape of the product")
    ],
    doc=_doc(
        "Compute ``alpha op(A) op(B) + beta C``; ``op`` transposes if told to.",
        "A, B : NDArray\n    As for ``gemm2``.\nC : NDArray\n    (B..., M, N).\ntranspose_a, transpose_b : bool\n"
        "alpha, beta : float\naxis : int\n    Where the rows of the matrices are; columns are always last.",
        "NDArray\n    (B..., M, N).",
        ">>> mx.nd.linalg.gemm(mx.nd.ones((2, 3)), mx.nd.ones((3, 1)), mx.nd.ones((2, 1)), beta=10).asnumpy().tolist()\n"
        "[[13.0], [13.0]]",
    ),
)


def _khatri_rao(a: Any, *specs: Spec) -> Spec:
    if any(len(s.shape) != 2 or s.shape[1] != specs[0].shape[1] for s in specs):
        raise refused("khatri_rao", "inputs must be matrices with equally many columns", *specs)
    return Spec((math.prod(s.shape[0] for s in specs), specs[0].shape[1]), specs[0].dtype)


def _khatri_rao_reference(*xs: Any) -> Any:
    columns = []
    for j in range(xs[0].shape[1]):
        column = np.ones(1)
        for x in xs:
            column = np.kron(column, x[:, j])
        columns.append(column)
    return np.stack(columns, 1)


operator(
    "khatri_rao",
    "*args",
    infer=_khatri_rao,
    gradient=NO_GRADIENT,
    reference=_khatri_rao_reference,
    samples=lambda rng: [
        sample(rng.standard_normal((2, 3)), rng.standard_normal((4, 3)), check_gradient=False),
        sample(*[rng.standard_normal((n, 2)) for n in (2, 1, 3)], check_gradient=False),
    ],
    errors=lambda: [error(np.ones((2, 3), "float32"), np.ones((2, 4), "float32"), match="equally many columns")],
    doc=_doc(
        "Kronecker products of columns: column ``j`` is ``kron(args[0][:, j], args[1][:, j], ...)``.",
        "*args : NDArray\n    (M_i, N).",
        "NDArray\n    (M_0 M_1 ..., N). It has no gradient.",
        ">>> mx.nd.khatri_rao(mx.nd.array([[1], [2]]), mx.nd.array([[10], [1]])).asnumpy().ravel().tolist()\n"
        "[10.0, 1.0, 20.0, 2.0]",
    ),
)

# ---------------------------------------------------------------------------------------------------------------
# Helpers of gradient rules

operator(
    "_matrix_transpose",
    "data",
    infer=lambda a, x: Spec((*x.shape[:-2], x.shape[-1], x.shape[-2]), x.dtype),
    gradient=(lambda F, g, y, x: F._matrix_transpose(g),),
    saves="",
    reference=lambda x: np.swapaxes(x, -1, -2),
    samples=lambda rng: [sample(rng.standard_normal((2, 3, 4)))],
    doc="Exchange the last two axes.",
)

operator(
    "_triangle",
    "data",
    {"lower": Bool(True), "diagonal": Float(1.0)},
    infer=lambda a, x: x,
    gradient=(lambda F, g, y, x, **a: F._triangle(g, **a),),
    saves="",
    reference=lambda x, lower=True, diagonal=1.0: (
        (np.tril(x, -1) if lower else np.triu(x, 1)) + diagonal * x * np.eye(x.shape[-1])
    ),
    samples=lambda rng: [
        sample(rng.standard_normal((2, 3, 3))),
        sample(rng.standard_normal((3, 3)), lower=False, diagonal=0.5),
    ],
    doc="Keep one triangle of each matrix, the diagonal times ``diagonal``; 0 elsewhere.",
)

operator(
    "_expand_like",
    "data like",
    {"axes": Int(1)},
    infer=lambda a, x, like: Spec(like.shape, x.dtype),
    gradient=(lambda F, g, y, x, like, axes: F._fold(g, axes=axes), None),
    saves="",
    doc="Repeat ``data``, of shape ``like.shape[:-axes]``, along the last ``axes`` axes of ``like``.",
)

operator(
    "_fold",
    "data",
    {"axes": Int(1)},
    infer=lambda a, x: Spec(x.shape[: -a["axes"]] or (1,), x.dtype),
    gradient=(lambda F, g, y, x, axes: F._expand_like(g, x, axes=axes),),
    saves="",
    reference=lambda x, axes=1: x.sum(tuple(range(-axes, 0))),
    samples=lambda rng: [sample(rng.standard_normal((2, 3, 4)), axes=2), sample(rng.standard_normal((3, 4)))],
    doc="Sum over the last ``axes`` axes; the gradient of ``_expand_like``.",
)

# ---------------------------------------------------------------------------------------------------------------
# Diagonals and triangles


def _extractdiag(a: Any, x: Spec) -> Spec:
    _matrices("_linalg_extractdiag", x, square=True)
    n = x.shape[-1] - abs(a["offset"])
    if n < 1:
        raise refused("_linalg_extractdiag", f"offset={a['offset']} must lie inside the matrix", x)
    return Spec((*x.shape[:-2], n), x.dtype)


def _makediag(a: Any, x: Spec) -> Spec:
    n = x.shape[-1] + abs(a["offset"])
    return Spec((*x.shape[:-1], n, n), x.dtype)


def _makediag_reference(x: Any, offset: int = 0) -> Any:
    flat = x.reshape(-1, x.shape[-1])
    y = np.stack([np.diag(v, offset) for v in flat])
    return y.reshape(*x.shape[:-1], *y.shape[-2:])


operator(
    "_linalg_extractdiag",
    "A",
    {"offset": Int(0)},
    aliases=("linalg_extractdiag",),
    infer=_extractdiag,
    gradient=(lambda F, g, y, a, offset: F._linalg_makediag(g, offset=offset),),
    saves="",
    reference=lambda a, offset=0: np.diagonal(a, offset, -2, -1),
    samples=lambda rng: [
        sample(rng.standard_normal((3, 3))),
        sample(rng.standard_normal((2, 4, 4)), offset=1),
        sample(rng.standard_normal((2, 4, 4)), offset=-2),
    ],
    errors=lambda: [
        error(np.ones((2, 3), "float32"), match="must be square"),
        error(np.ones((2, 2), "float32"), offset=2, match="must lie inside"),
    ],
    doc=_doc(
        "Take a diagonal of each matrix.",
        "A : NDArray\n    (B..., N, N).\noffset : int\n    0 is the main diagonal, above it is positive.",
        "NDArray\n    (B..., N - abs(offset)).",
        ">>> mx.nd.linalg.extractdiag(mx.nd.array([[1, 2], [3, 4]])).asnumpy().tolist()\n[1.0, 4.0]",
    ),
)

operator(
    "_linalg_makediag",
    "A",
    {"offset": Int(0)},
    aliases=("linalg_makediag",),
    infer=_makediag,
    gradient=(lambda F, g, y, a, offset: F._linalg_extractdiag(g, offset=offset),),
    saves="",
    reference=_makediag_reference,
    samples=lambda rng: [
        sample(rng.standard_normal(3)),
        sample(rng.standard_normal((2, 3)), offset=1),
        sample(rng.standard_normal((2, 1, 3)), offset=-2),
    ],
    doc=_doc(
        "Make matrices that hold the last axis of ``A`` on a diagonal, and 0 elsewhere.",
        "A : NDArray\n    (B..., N).\noffset : int\n    0 is the main diagonal, above it is positive.",
        "NDArray\n    (B..., N + abs(offset), N + abs(offset)).",
        ">>> mx.nd.linalg.makediag(mx.nd.array([1, 2])).asnumpy().tolist()\n[[1.0, 0.0], [0.0, 2.0]]",
    ),
)


def _extracttrian(a: Any, x: Spec) -> Spec:
    _matrices("_linalg_extracttrian", x, square=True)
    if abs(a["offset"]) >= x.shape[-1]:
        raise refused("_linalg_extracttrian", f"offset={a['offset']} must lie inside the matrix", x)
    m = x.shape[-1] - abs(a["offset"])
    return Spec((*x.shape[:-2], m * (m + 1) // 2), x.dtype)


def _maketrian(a: Any, x: Spec) -> Spec:
    count = x.shape[-1]
    m = (math.isqrt(8 * count + 1) - 1) // 2
    if m * (m + 1) // 2 != count:
        raise refused("_linalg_maketrian", "the last axis must have n (n + 1) / 2 elements for some n", x)
    n = m + abs(a["offset"])
    return Spec((*x.shape[:-1], n, n), x.dtype)


def _trian_index(n: int, offset: int, lower: bool) -> Any:
    inside = [(i, j) for i in range(n) for j in range(n) if i >= j - offset]
    if offset > 0 or (offset == 0 and not lower):
        inside = [(j, i) for i in range(n) for j in range(n) if i >= j + offset]
    return tuple(np.array(inside).T)


def _maketrian_reference(x: Any, offset: int = 0, lower: bool = True) -> Any:
    n = _maketrian({"offset": offset}, Spec(x.shape, x.dtype)).shape[-1]
    y = np.zeros((*x.shape[:-1], n, n))
    y[(..., *_trian_index(n, offset, lower))] = x
    return y


operator(
    "_linalg_extracttrian",
    "A",
    {"offset": Int(0), "lower": Bool(True)},
    aliases=("linalg_extracttrian",),
    infer=_extracttrian,
    gradient=(lambda F, g, y, a, **kw: F._linalg_maketrian(g, **kw),),
    saves="",
    reference=lambda a, offset=0, lower=True: a[(..., *_trian_index(a.shape[-1], offset, lower))],
    samples=lambda rng: [
        sample(rng.standard_normal((3, 3))),
        sample(rng.standard_normal((2, 3, 3)), lower=False),
        sample(rng.standard_normal((2, 4, 4)), offset=-2),
        sample(rng.standard_normal((2, 4, 4)), offset=1),
    ],
    errors=lambda: [error(np.ones((2, 3), "float32"), match="must be square")],
    doc=_doc(
        "Take a triangle of each matrix as a vector: a lower one row by row, an upper one column by column.",
        "A : NDArray\n    (B..., N, N).\noffset : int\n    Diagonal where the triangle starts; negative is the lower, "
        "positive the upper triangle.\nlower : bool\n    Which triangle, for ``offset=0``.",
        "NDArray\n    (B..., M (M + 1) / 2) with ``M = N - abs(offset)``.",
        ">>> mx.nd.linalg.extracttrian(mx.nd.array([[1, 2], [3, 4]])).asnumpy().tolist()\n[1.0, 3.0, 4.0]",
    ),
)

operator(
    "_linalg_maketrian",
    "A",
    {"offset": Int(0), "lower": Bool(True)},
    aliases=("linalg_maketrian",),
    infer=_maketrian,
    gradient=(lambda F, g, y, a, **kw: F._linalg_extracttrian(g, **kw),),
    saves="",
    reference=_maketrian_reference,
    samples=lambda rng: [
        sample(rng.standard_normal(6)),
        sample(rng.standard_normal((2, 3)), lower=False),
        sample(rng.standard_normal((2, 3)), offset=-2),
        sample(rng.standard_normal((2, 3)), offset=1),
    ],
    errors=lambda: [error(np.ones(4, "float32"), match="n (n + 1) / 2")],
    doc=_doc(
        "Make triangular matrices from vectors: the inverse of ``extracttrian``.",
        "A : NDArray\n    (B..., M (M + 1) / 2).\noffset : int\n    Diagonal where the triangle starts; negative is the "
        "lower, positive the upper triangle.\nlower : bool\n    Which triangle, for ``offset=0``.",
        "NDArray\n    (B..., N, N) with ``N = M + abs(offset)``.",
        ">>> mx.nd.linalg.maketrian(mx.nd.array([1, 2, 3])).asnumpy().tolist()\n[[1.0, 0.0], [2.0, 3.0]]",
    ),
)


def _square(name: str, result: str = "same") -> Any:
    def infer(a: Any, x: Spec) -> Any:
        _matrices(name, x, square=True)
        batch = Spec(x.shape[:-2] or (1,), x.dtype)
        if result == "pair":
            return batch, batch
        if result == "eigen":
            return x, Spec(x.shape[:-1], x.dtype)
        return batch if result == "batch" else x

    return infer


_NOT_SQUARE = [error(np.ones((2, 3), "float32"), match="must be square")]

operator(
    "_linalg_sumlogdiag",
    "A",
    aliases=("linalg_sumlogdiag",),
    infer=_square("_linalg_sumlogdiag", "batch"),
    gradient=(
        lambda F, g, y, a: F._linalg_makediag(F._expand_like(g, F._linalg_extractdiag(a)) / F._linalg_extractdiag(a)),
    ),
    saves="A",
    reference=lambda a: np.log(np.diagonal(a, 0, -2, -1)).sum(-1),
    samples=lambda rng: [sample(rng.uniform(0.5, 2, (3, 3))), sample(rng.uniform(0.5, 2, (2, 3, 3)))],
    errors=lambda: _NOT_SQUARE,
    doc=_doc(
        "Sum the logarithms of the diagonal of each matrix.",
        "A : NDArray\n    (B..., N, N), positive on the diagonal.",
        "NDArray\n    (B...), or ``(1,)`` for one matrix.",
        ">>> mx.nd.linalg.sumlogdiag(mx.nd.array([[1, 7], [7, 1]])).asnumpy().tolist()\n[0.0]",
    ),
)

# ---------------------------------------------------------------------------------------------------------------
# Triangular products and solves, Cholesky


def _positive(rng: Any, *shape: int) -> Any:
    x = rng.standard_normal(shape)
    return x @ np.swapaxes(x, -1, -2) + shape[-1] * np.eye(shape[-1])


def _lower(rng: Any, *shape: int) -> Any:
    return np.tril(rng.standard_normal(shape), -1) + rng.uniform(1, 2, shape) * np.eye(shape[-1])


def _syrk(a: Any, x: Spec) -> Spec:
    _matrices("_linalg_syrk", x)
    n = x.shape[-1] if a["transpose"] else x.shape[-2]
    return Spec((*x.shape[:-2], n, n), x.dtype)


operator(
    "_linalg_syrk",
    "A",
    {"transpose": Bool(False), "alpha": Float(1.0)},
    aliases=("linalg_syrk",),
    infer=_syrk,
    gradient=(
        lambda F, g, y, a, transpose, alpha: (
            F._linalg_gemm2(a, g + F._matrix_transpose(g), alpha=alpha)
            if transpose
            else F._linalg_gemm2(g + F._matrix_transpose(g), a, alpha=alpha)
        ),
    ),
    saves="A",
    reference=lambda a, transpose=False, alpha=1.0: (
        alpha * (np.swapaxes(a, -1, -2) @ a if transpose else a @ np.swapaxes(a, -1, -2))
    ),
    samples=lambda rng: [
        sample(rng.standard_normal((3, 4))),
        sample(rng.standard_normal((2, 3, 4)), transpose=True, alpha=0.5),
    ],
    errors=lambda: [error(np.ones(3, "float32"), match="at least 2 axes")],
    doc=_doc(
        "Compute ``alpha A A^T``, or ``alpha A^T A`` with ``transpose``.",
        "A : NDArray\n    (B..., M, N).\ntranspose : bool\nalpha : float",
        "NDArray\n    (B..., M, M), or (B..., N, N).",
        ">>> mx.nd.linalg.syrk(mx.nd.array([[1, 2]])).asnumpy().tolist()\n[[5.0]]",
    ),
)


def _triangular(name: str) -> Any:
    def infer(a: Any, x: Spec, y: Spec) -> Spec:
        _matrices(name, x, y, square=True)
        if y.shape[-1 if a["rightside"] else -2] != x.shape[-1]:
            raise refused(name, f"the {'columns' if a['rightside'] else 'rows'} of B must be as many as A has", x, y)
        return y

    return infer


_TRIANGULAR = {"transpose": Bool(False), "rightside": Bool(False), "lower": Bool(True), "alpha": Float(1.0)}


def _triangular_samples(rng: Any) -> Any:
    for transpose in (False, True):
        for rightside in (False, True):
            for lower in (False, True):
                a = _lower(rng, 2, 3, 3)
                yield sample(
                    a if lower else np.swapaxes(a, -1, -2).copy(),
                    rng.standard_normal((2, 4, 3) if rightside else (2, 3, 4)),
                    transpose=transpose,
                    rightside=rightside,
                    lower=lower,
                    alpha=1.5,
                )
    # What is on the other side of the diagonal is not read.
    yield sample(rng.uniform(1, 2, (3, 3)), rng.standard_normal((3, 2)))


def _op(a: Any, transpose: bool, lower: bool) -> Any:
    a = np.tril(a) if lower else np.triu(a)
    return np.swapaxes(a, -1, -2) if transpose else a


def _trmm_reference(
    a: Any, b: Any, transpose: bool = False, rightside: bool = False, lower: bool = True, alpha: float = 1.0
) -> Any:
    a = _op(a, transpose, lower)
    return alpha * (b @ a if rightside else a @ b)


def _trsm_reference(
    a: Any, b: Any, transpose: bool = False, rightside: bool = False, lower: bool = True, alpha: float = 1.0
) -> Any:
    inverse = np.linalg.inv(_op(a, transpose, lower))
    return alpha * (b @ inverse if rightside else inverse @ b)


def _trmm_of_a(
    F: Any, g: Any, y: Any, a: Any, b: Any, transpose: bool, rightside: bool, lower: bool, alpha: float
) -> Any:
    if rightside:
        d = F._linalg_gemm2(g, b, transpose_a=True) if transpose else F._linalg_gemm2(b, g, transpose_a=True)
    else:
        d = F._linalg_gemm2(b, g, transpose_b=True) if transpose else F._linalg_gemm2(g, b, transpose_b=True)
    return F._triangle(d * alpha, lower=lower)


def _trsm_of_a(
    F: Any, g: Any, y: Any, a: Any, b: Any, transpose: bool, rightside: bool, lower: bool, alpha: float
) -> Any:
    q = F._linalg_trsm(a, g, transpose=not transpose, rightside=rightside, lower=lower)
    if rightside:
        d = F._linalg_gemm2(q, y, transpose_a=True) if transpose else F._linalg_gemm2(y, q, transpose_a=True)
    else:
        d = F._linalg_gemm2(y, q, transpose_b=True) if transpose else F._linalg_gemm2(q, y, transpose_b=True)
    return -F._triangle(d, lower=lower)


_TRIANGULAR_DOC = (
    "A : NDArray\n    (B..., N, N) triangular; the other triangle is not read.\nB : NDArray\n    (B..., N, M), or "
    "(B..., M, N) with ``rightside``.\ntranspose, rightside, lower : bool\n    Whether to transpose ``A``, to have it on "
    "the right, and whether it is a lower triangle.\nalpha : float"
)

operator(
    "_linalg_trmm",
    "A B",
    _TRIANGULAR,
    aliases=("linalg_trmm",),
    infer=_triangular("_linalg_trmm"),
    gradient=(
        _trmm_of_a,
        lambda F, g, y, a, b, transpose, **kw: F._linalg_trmm(a, g, transpose=not transpose, **kw),
    ),
    saves="A B",
    reference=_trmm_reference,
    samples=_triangular_samples,
    errors=lambda: [error(np.ones((2, 2), "float32"), np.ones((3, 2), "float32"), match="the rows of B")],
    doc=_doc(
        "Compute ``alpha op(A) B``, or ``alpha B op(A)`` with ``rightside``, for triangular ``A``.",
        _TRIANGULAR_DOC,
        "NDArray\n    The shape of ``B``.",
        ">>> mx.nd.linalg.trmm(mx.nd.array([[1, 9], [2, 3]]), mx.nd.ones((2, 1))).asnumpy().tolist()\n[[1.0], [5.0]]",
    ),
)

operator(
    "_linalg_trsm",
    "A B",
    _TRIANGULAR,
    aliases=("linalg_trsm",),
    infer=_triangular("_linalg_trsm"),
    gradient=(
        _trsm_of_a,
        lambda F, g, y, a, b, transpose, **kw: F._linalg_trsm(a, g, transpose=not transpose, **kw),
    ),
    saves="A output",
    reference=_trsm_reference,
    samples=_triangular_samples,
    rtol=1e-4,
    errors=lambda: [
        error(np.ones((2, 2), "float32"), np.ones((2, 3), "float32"), rightside=True, match="the columns of B")
    ],
    doc=_doc(
        "Solve ``op(A) X = alpha B``, or ``X op(A) = alpha B`` with ``rightside``, for triangular ``A``.",
        _TRIANGULAR_DOC,
        "NDArray\n    ``X``, of the shape of ``B``.",
        ">>> mx.nd.linalg.trsm(mx.nd.array([[1, 9], [2, 4]]), mx.nd.array([[1], [6]])).asnumpy().tolist()\n"
        "[[1.0], [1.0]]",
    ),
)


def _potrf_rule(F: Any, g: Any, y: Any, a: Any) -> Any:
    # Murray, "Differentiation of the Cholesky decomposition", 2016: dA = sym(L^-T Phi(L^T dL) L^-1).
    phi = F._triangle(F._linalg_gemm2(y, F._triangle(g), transpose_a=True), diagonal=0.5)
    s = F._linalg_trsm(y, F._linalg_trsm(y, phi, transpose=True), rightside=True)
    return (s + F._matrix_transpose(s)) * 0.5


def _potri_rule(F: Any, g: Any, y: Any, a: Any) -> Any:
    x = F._linalg_gemm2(y, g + F._matrix_transpose(g))
    return -F._triangle(F._linalg_trsm(a, x, transpose=True, rightside=True))


operator(
    "_linalg_potrf",
    "A",
    aliases=("linalg_potrf",),
    infer=_square("_linalg_potrf"),
    gradient=(_potrf_rule,),
    saves="output",
    reference=lambda a: np.linalg.cholesky(a),
    # Only one triangle is read, while the gradient is symmetric: differences are taken in tests/operators/test_linalg.py.
    samples=lambda rng: [
        sample(_positive(rng, 3, 3), check_gradient=False),
        sample(_positive(rng, 2, 4, 4), check_gradient=False),
    ],
    errors=lambda: [*_NOT_SQUARE, error(-np.eye(2, dtype="float32"), match="positive definite")],
    doc=_doc(
        "Factor symmetric positive definite matrices: ``A = L L^T`` (Cholesky).",
        "A : NDArray\n    (B..., N, N); the lower triangle is read.",
        "NDArray\n    ``L``, (B..., N, N), lower triangular.",
        ">>> mx.nd.linalg.potrf(mx.nd.array([[4, 2], [2, 10]])).asnumpy().tolist()\n[[2.0, 0.0], [1.0, 3.0]]",
    ),
)

operator(
    "_linalg_potri",
    "A",
    aliases=("linalg_potri",),
    infer=_square("_linalg_potri"),
    gradient=(_potri_rule,),
    saves="A output",
    reference=lambda a: np.linalg.inv(np.tril(a) @ np.swapaxes(np.tril(a), -1, -2)),
    samples=lambda rng: [sample(_lower(rng, 3, 3)), sample(_lower(rng, 2, 4, 4))],
    rtol=1e-4,
    errors=lambda: _NOT_SQUARE,
    doc=_doc(
        "Compute ``(L L^T)^-1`` from a Cholesky factor ``L``.",
        "A : NDArray\n    ``L``, (B..., N, N), lower triangular.",
        "NDArray\n    (B..., N, N).",
        ">>> mx.nd.linalg.potri(mx.nd.array([[0.5, 0], [0, 2]])).asnumpy().tolist()\n[[4.0, 0.0], [0.0, 0.25]]",
    ),
)

# ---------------------------------------------------------------------------------------------------------------
# Factorizations with two results, determinants, inverse


def _or_zeros(F: Any, g: Any, y: Any) -> Any:
    return F.zeros_like(y) if g is None else g


def _gelqf(a: Any, x: Spec) -> Any:
    _matrices("_linalg_gelqf", x)
    m, n = x.shape[-2:]
    if m > n:
        raise refused("_linalg_gelqf", "the matrices must not have more rows than columns", x)
    return x, Spec((*x.shape[:-2], m, m), x.dtype)


def _gelqf_rule(F: Any, gs: Any, inputs: Any, outputs: Any, attributes: Any, needs: Any) -> Any:
    # Seeger et al., "Auto-differentiating linear algebra", 2017.
    q, lower = outputs
    gq, gl = _or_zeros(F, gs[0], q), F._triangle(_or_zeros(F, gs[1], lower))
    m = F._triangle(
        F._linalg_gemm2(lower, gl, transpose_a=True) - F._linalg_gemm2(gq, q, transpose_b=True), diagonal=0.5
    )
    d = gq + F._linalg_gemm2(m + F._matrix_transpose(m), q)
    return (F._linalg_trsm(lower, d, transpose=True),)


def _gelqf_reference(a: Any) -> Any:
    q, r = np.linalg.qr(np.swapaxes(a, -1, -2))
    return np.swapaxes(q, -1, -2), np.swapaxes(r, -1, -2)


operator(
    "_linalg_gelqf",
    "A",
    aliases=("linalg_gelqf",),
    infer=_gelqf,
    outputs=2,
    gradient=Joint(_gelqf_rule),
    saves="output",
    reference=_gelqf_reference,
    samples=lambda rng: [sample(rng.standard_normal((3, 4))), sample(rng.standard_normal((2, 3, 3)))],
    rtol=1e-4,
    errors=lambda: [error(np.ones((3, 2), "float32"), match="more rows than columns")],
    doc=_doc(
        "Factor ``A = L Q`` with lower triangular ``L`` and orthonormal rows in ``Q``.",
        "A : NDArray\n    (B..., M, N), M <= N, of full rank.",
        "list of NDArray\n    ``Q`` (B..., M, N) and ``L`` (B..., M, M).",
        ">>> q, l = mx.nd.linalg.gelqf(mx.nd.array([[3, 4]]))\n>>> mx.nd.dot(l, q).asnumpy().round(4).tolist()\n[[3.0, 4.0]]",
    ),
)


def _syevd_rule(F: Any, gs: Any, inputs: Any, outputs: Any, attributes: Any, needs: Any) -> Any:
    u, values = outputs
    gu, gv = _or_zeros(F, gs[0], u), _or_zeros(F, gs[1], values)
    eye = F._linalg_makediag(F.ones_like(values))
    rows = F._expand_like(values, u)
    # 1 / (v_i - v_j) off the diagonal and 0 on it.
    gaps = F.reciprocal(rows - F._matrix_transpose(rows) + eye) - eye
    m = F._linalg_gemm2(gu, u, transpose_b=True) * gaps
    m = (m + F._matrix_transpose(m)) * 0.5 + F._linalg_makediag(gv)
    return (F._linalg_gemm2(F._linalg_gemm2(u, m, transpose_a=True), u),)


operator(
    "_linalg_syevd",
    "A",
    aliases=("linalg_syevd",),
    infer=_square("_linalg_syevd", "eigen"),
    outputs=2,
    gradient=Joint(_syevd_rule),
    saves="output",
    # Eigenvectors are known up to their sign: tests/operators/test_linalg.py compares products.
    samples=lambda rng: [
        sample(_positive(rng, 3, 3), check_gradient=False),
        sample(_positive(rng, 2, 4, 4), check_gradient=False),
    ],
    errors=lambda: _NOT_SQUARE,
    doc=_doc(
        "Decompose symmetric matrices: ``A = U^T diag(L) U``.",
        "A : NDArray\n    (B..., N, N); the lower triangle is read.",
        "list of NDArray\n    ``U`` (B..., N, N), eigenvectors as rows, and ``L`` (B..., N), eigenvalues rising.\n    The "
        "gradient needs distinct eigenvalues.",
        ">>> mx.nd.linalg.syevd(mx.nd.array([[2, 0], [0, 1]]))[1].asnumpy().tolist()\n[1.0, 2.0]",
    ),
)

operator(
    "_linalg_det",
    "A",
    aliases=("linalg_det",),
    infer=_square("_linalg_det", "batch"),
    gradient=(lambda F, g, y, a: F._expand_like(g * y, a, axes=2) * F._matrix_transpose(F._linalg_inverse(a)),),
    saves="A output",
    reference=np.linalg.det,
    samples=lambda rng: [sample(_positive(rng, 3, 3)), sample(_positive(rng, 2, 3, 3))],
    rtol=1e-4,
    errors=lambda: _NOT_SQUARE,
    doc=_doc(
        "Compute the determinant of each matrix.",
        "A : NDArray\n    (B..., N, N). The gradient needs an invertible matrix.",
        "NDArray\n    (B...), or ``(1,)`` for one matrix.",
        ">>> mx.nd.linalg.det(mx.nd.array([[2, 0], [0, 3]])).asnumpy().tolist()\n[6.0]",
    ),
)

operator(
    "_linalg_slogdet",
    "A",
    aliases=("linalg_slogdet",),
    infer=_square("_linalg_slogdet", "pair"),
    outputs=2,
    gradient=Joint(
        lambda F, gs, inputs, outputs, attributes, needs: (
            None
            if gs[1] is None
            else F._expand_like(gs[1], inputs[0], axes=2) * F._matrix_transpose(F._linalg_inverse(inputs[0])),
        )
    ),
    saves="A",
    reference=lambda a: tuple(np.linalg.slogdet(a)),
    samples=lambda rng: [sample(_positive(rng, 3, 3)), sample(-_positive(rng, 2, 3, 3))],
    rtol=1e-4,
    errors=lambda: _NOT_SQUARE,
    doc=_doc(
        "Compute sign and logarithm of the absolute value of each determinant.",
        "A : NDArray\n    (B..., N, N). The gradient needs an invertible matrix.",
        "list of NDArray\n    Signs and logarithms, (B...) each, or ``(1,)`` for one matrix.",
        ">>> [v.asnumpy().round(4).tolist() for v in mx.nd.linalg.slogdet(mx.nd.array([[-1, 0], [0, 1]]))]\n"
        "[[-1.0], [0.0]]",
    ),
)


def _inverse_rule(F: Any, g: Any, y: Any, a: Any) -> Any:
    return -F._linalg_gemm2(F._linalg_gemm2(y, g, transpose_a=True), y, transpose_b=True)


operator(
    "_linalg_inverse",
    "A",
    aliases=("linalg_inverse",),
    infer=_square("_linalg_inverse"),
    gradient=(_inverse_rule,),
    saves="output",
    reference=np.linalg.inv,
    samples=lambda rng: [sample(_positive(rng, 3, 3)), sample(_positive(rng, 2, 3, 3))],
    rtol=1e-4,
    errors=lambda: [*_NOT_SQUARE, error(np.zeros((2, 2), "float32"), match="Singular")],
    doc=_doc(
        "Invert each matrix.",
        "A : NDArray\n    (B..., N, N), invertible.",
        "NDArray\n    (B..., N, N).",
        ">>> mx.nd.linalg.inverse(mx.nd.array([[2, 0], [0, 4]])).asnumpy().tolist()\n[[0.5, 0.0], [0.0, 0.25]]",
    ),
)
