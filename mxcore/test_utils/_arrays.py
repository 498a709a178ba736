"""Random arrays and shapes, test matrices, and NumPy references."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import numpy.random as rnd

from .. import ndarray as nd
from ..context import Context
from ._context import default_context, default_dtype


def random_arrays(*shapes: tuple[int, ...]) -> Any:
    """Return NumPy arrays of normal float32 values, or the only one."""
    arrays = [np.asarray(np.random.randn(*shape), dtype=default_dtype()) for shape in shapes]
    return arrays[0] if len(arrays) == 1 else arrays


def random_uniform_arrays(
    *shapes: tuple[int, ...], low: float = 0.0, high: float = 1.0, dtype: Any = None
) -> list[Any]:
    """Return NumPy arrays of uniform values."""
    return [np.asarray(np.random.uniform(low, high, size=s), dtype=dtype or default_dtype()) for s in shapes]


def random_sample(population: Sequence[Any], k: int) -> Any:
    """Return `k` distinct elements of `population` in random order."""
    if not 0 <= k <= len(population):
        raise AssertionError(f"random_sample: cannot draw {k} of {len(population)} elements.")
    shuffled = list(population)
    np.random.shuffle(shuffled)
    return shuffled[:k]


def rand_shape_2d(dim0: int = 10, dim1: int = 10, allow_zero_size: bool = False) -> tuple[int, int]:
    """Return a random shape of two axes, each at most as long as said."""
    low = 0 if allow_zero_size else 1
    return int(rnd.randint(low, dim0 + 1)), int(rnd.randint(low, dim1 + 1))


def rand_shape_3d(
    dim0: int = 10, dim1: int = 10, dim2: int = 10, allow_zero_size: bool = False
) -> tuple[int, int, int]:
    """Return a random shape of three axes, each at most as long as said."""
    low = 0 if allow_zero_size else 1
    return int(rnd.randint(low, dim0 + 1)), int(rnd.randint(low, dim1 + 1)), int(rnd.randint(low, dim2 + 1))


def rand_shape_nd(num_dim: int, dim: int = 10, allow_zero_size: bool = False) -> tuple[int, ...]:
    """Return a random shape of `num_dim` axes, each at most `dim` long."""
    return tuple(int(n) for n in rnd.randint(0 if allow_zero_size else 1, dim + 1, size=num_dim))


def rand_coord_2d(x_low: int, x_high: int, y_low: int, y_high: int) -> tuple[Any, Any]:
    """Return a random point of a rectangle."""
    return np.random.randint(x_low, x_high, dtype=np.int64), np.random.randint(y_low, y_high, dtype=np.int64)


def rand_ndarray(
    shape: tuple[int, ...],
    stype: str = "default",
    density: float | None = None,
    dtype: Any = None,
    modifier_func: Callable[[Any], Any] | None = None,
    shuffle_csr_indices: bool = False,
    distribution: str | None = None,
    ctx: Context | None = None,
) -> Any:
    """Return an NDArray of normal values on `ctx`, or a sparse one; see :func:`rand_sparse_ndarray`."""
    if stype != "default":
        from ._sparse import rand_sparse_ndarray

        return rand_sparse_ndarray(
            shape,
            stype,
            density,
            dtype,
            distribution,
            modifier_func=modifier_func,
            shuffle_csr_indices=shuffle_csr_indices,
            ctx=ctx,
        )[0]
    return nd.array(random_arrays(shape), dtype=dtype, ctx=ctx if ctx else default_context())


def create_2d_tensor(rows: int, columns: int, dtype: Any = np.int64) -> Any:
    """Return ``(rows, columns)`` filled with the row numbers."""
    return nd.broadcast_to(nd.arange(0, rows, dtype=dtype).reshape((rows, 1)), shape=(rows, columns))


def create_vector(size: int, dtype: Any = np.int64) -> Any:
    """Return ``0 .. size - 1``."""
    return nd.arange(0, size, dtype=dtype)


def get_identity_mat(size: int) -> Any:
    """Return the identity matrix."""
    return nd.array(np.eye(size))


def get_identity_mat_batch(size: int) -> Any:
    """Return two identity matrices ``(2, size, size)``."""
    return nd.array(np.stack([np.eye(size)] * 2))


def new_matrix_with_real_eigvals_2d(n: int) -> np.ndarray:
    """Return a random ``(n, n)`` matrix with real eigenvalues and well-conditioned eigenvectors."""
    while True:
        diagonal = np.diag(np.random.uniform(-1.0, 1.0, n))
        v = np.random.uniform(-1.0, 1.0, (n, 1))
        v /= np.linalg.norm(v)
        q = (np.eye(n) - 2 * v @ v.T) @ diagonal  # a reflection, scaled
        if np.linalg.cond(q, 2) < 3:
            break
    return np.linalg.inv(q) @ np.diag(np.random.uniform(-10.0, 10.0, n)) @ q


def _stack_of(shape: tuple[int, ...], make: Callable[[int], np.ndarray]) -> np.ndarray:
    count = int(np.prod(shape[:-2])) if len(shape) > 2 else 1
    return np.array([make(shape[-1]) for _ in range(count)]).reshape(shape)


def new_matrix_with_real_eigvals_nd(shape: tuple[int, ...]) -> np.ndarray:
    """Return random matrices ``(..., n, n)`` with real eigenvalues."""
    return _stack_of(shape, new_matrix_with_real_eigvals_2d)


def new_orthonormal_matrix_2d(n: int) -> np.ndarray:
    """Return a random orthogonal ``(n, n)`` matrix."""
    x = np.random.randn(n, n)
    return np.linalg.qr(x.T @ x)[0]


def new_sym_matrix_with_real_eigvals_2d(n: int) -> np.ndarray:
    """Return a random symmetric ``(n, n)`` matrix."""
    q = new_orthonormal_matrix_2d(n)
    return q.T @ np.diag(np.random.uniform(-10.0, 10.0, n)) @ q


def new_sym_matrix_with_real_eigvals_nd(shape: tuple[int, ...]) -> np.ndarray:
    """Return random symmetric matrices ``(..., n, n)``."""
    return _stack_of(shape, new_sym_matrix_with_real_eigvals_2d)


def np_reduce(dat: np.ndarray, axis: Any, keepdims: bool, numpy_reduce_func: Callable[..., Any]) -> Any:
    """Reduce with a NumPy function of one axis over several axes (None: all)."""
    axes = [axis] if isinstance(axis, int) else list(range(dat.ndim)) if axis is None else list(axis)
    ret = dat
    for i in sorted(axes, reverse=True):
        ret = numpy_reduce_func(ret, axis=i)
    if keepdims:
        shape = list(dat.shape)
        for i in axes:
            shape[i] = 1
        ret = ret.reshape(tuple(shape))
    return ret


def collapse_sum_like(a: np.ndarray, shape: tuple[int, ...]) -> np.ndarray:
    """Sum `a` over the axes along which `shape` broadcasts to it; the gradient of broadcasting."""
    if len(a.shape) < len(shape):
        raise AssertionError(f"collapse_sum_like: {shape} has more axes than {a.shape}.")
    if np.prod(shape) == 0 or a.size == 0:
        return np.zeros(shape, dtype=a.dtype)
    extra = len(a.shape) - len(shape)
    axes = list(range(extra))
    for i, n in enumerate(shape):
        if n != a.shape[i + extra]:
            if n != 1:
                raise AssertionError(f"collapse_sum_like: {shape} does not broadcast to {a.shape}.")
            axes.append(i + extra)
    return np.sum(a, axis=tuple(axes)).reshape(shape)


def assign_each(the_input: Any, function: Callable[[Any], Any] | None) -> np.ndarray:
    """Return `function` of each element."""
    values = np.array(the_input)
    if function is None:
        return values
    return np.array([function(v) for v in values.ravel()], dtype=np.float64).reshape(values.shape)


def assign_each2(input1: Any, input2: Any, function: Callable[[Any, Any], Any] | None) -> np.ndarray:
    """Return `function` of each pair of elements."""
    first, second = np.array(input1), np.array(input2)
    if function is None:
        return first
    if first.shape != second.shape:
        raise AssertionError(f"assign_each2: shapes {first.shape} and {second.shape} differ.")
    pairs = zip(first.ravel(), second.ravel())
    return np.array([function(u, v) for u, v in pairs], dtype=np.float64).reshape(first.shape)
