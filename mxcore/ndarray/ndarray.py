"""``NDArray``: an n-dimensional array on a device, as MXNet 1.x users know it.

An NDArray is a view on a cell (:mod:`mxcore.dispatch.array`). Assigning to ``x[...]`` or ``x += y`` writes the
buffer, and every view of it sees the change. Contiguous basic slices and :meth:`NDArray.reshape` are views; other
slices, integer and boolean indexing and all operators give new arrays (MXNet 1.9.1's rule).
"""

from __future__ import annotations

from typing import Any

import numpy as np

from .. import autograd, operators
from ..dispatch import fast, runtime
from ..dispatch.array import Array, cell_of, dtype_of, settled, shape_of, wrap, writable_data
from ..dispatch.call import Bound, inplace_refused, invoke, refuse_inplace
from ..dispatch.context import Context, current_context
from ..dispatch.deferred import mutate, tied
from ..dispatch.functions import call, make_function, resolve
from ..dispatch.recording import Leaf, new_node, recorders, state
from ..spec import AutogradError, MXCoreError, ShapeError
from . import indexing
from .indexing import Plan

__all__ = ["NDArray", "array_of"]

#: Names that MXNet code imports from this module.
py_slice = slice
_STORAGE_TYPE_STR_TO_ID = {"undefined": -1, "default": 0, "row_sparse": 1, "csr": 2}


def array_of(data: Any, ctx: Context | None = None, cls: type | None = None) -> Any:
    """Return an array around a backend array that nobody else will write. No copy."""
    return wrap(cls or NDArray, data, ctx or current_context())


class NDArray(Array):
    """An n-dimensional array. Make one with :func:`mxcore.nd.array`, ``zeros``, ``ones``, ...

    Examples
    --------
    >>> import mxcore as mx
    >>> x = mx.nd.array([[1, 2], [3, 4]])
    >>> x[0] = 7
    >>> (x + 1).asnumpy()
    array([[8., 8.],
           [4., 5.]], dtype=float32)
    """

    __slots__ = ()
    # NumPy arrays on the left of an operator hand over to us, and we refuse them by name (MXNet's behaviour).
    __array_priority__ = 1000.0

    def __init__(self, handle: Any, writable: bool = True) -> None:
        if handle is not None:
            raise TypeError("an NDArray is made by mx.nd.array(...), zeros, ones, ...; there are no handles here.")
        # NDArray(None) is what pickles of MXNet make before they fill it in.
        self._data, self._ctx, self._cell, self._tape = np.empty(0, np.float32), current_context(), None, None

    # -- what it is ---------------------------------------------------------------------------------------------

    @property
    def shape(self) -> tuple[int, ...]:
        """Lengths of the axes. Never blocks."""
        data = self._data
        return data.shape if data is not None else self._cell.shape  # type: ignore[union-attr]

    @property
    def dtype(self) -> Any:
        """The NumPy scalar type, such as ``numpy.float32``. Never blocks."""
        return dtype_of(self).type

    @property
    def ndim(self) -> int:
        """Number of axes."""
        return len(self.shape)

    @property
    def size(self) -> int:
        """Number of elements."""
        n = 1
        for k in self.shape:
            n *= k
        return n

    @property
    def context(self) -> Context:
        """The device."""
        return self._ctx

    ctx = context

    @property
    def stype(self) -> str:
        """Storage type; ``"default"`` for dense arrays."""
        return "default"

    @property
    def T(self) -> NDArray:
        """The array with its axes reversed (a new array)."""
        return self if self.ndim < 2 else call("transpose", (self,))

    @property
    def handle(self) -> Any:
        """The array itself: there is no C handle here."""
        return self

    @property
    def writable(self) -> bool:
        """Whether the buffer can be written."""
        data = settled(self)
        flags: Any = getattr(data, "flags", None)
        return bool(flags.writeable) if hasattr(flags, "writeable") else True

    # -- values -------------------------------------------------------------------------------------------------

    def asnumpy(self) -> np.ndarray:
        """Return the values as a new NumPy array. Blocks until they are there; raises the error that spoilt them."""
        data = settled(self)
        return runtime.current().library(self._ctx).to_host(data)

    def asscalar(self) -> Any:
        """Return the only element as a NumPy scalar. Blocks.

        Raises
        ------
        ValueError
            If there is not exactly one element.
        """
        if self.size != 1:
            raise ValueError(f"The current array is not a scalar: its shape is {self.shape}.")
        return self.asnumpy().reshape(1)[0]

    item = asscalar

    def tolist(self) -> Any:
        """Return the values as nested lists. Blocks."""
        return self.asnumpy().tolist()

    def wait_to_read(self) -> None:
        """Block until all writes to this array are done; raise the error of one that failed."""
        settled(self)
        runtime.current().library(self._ctx).synchronize(self._ctx.device_id)

    def wait_to_write(self) -> None:
        """Block until all reads and writes of this array are done."""
        cell = self._cell
        if cell is not None and cell.var is not None:
            cell.engine.push(lambda: None, [cell.var], [cell.var], name="wait_to_write")
        self.wait_to_read()

    def __array__(self, dtype: Any = None, copy: Any = None) -> np.ndarray:
        values = self.asnumpy()
        return values if dtype is None else values.astype(dtype, copy=False)

    def __bool__(self) -> bool:
        size = self.size
        if size == 0:
            return False
        if size == 1:
            return bool(self.asscalar())
        raise ValueError("The truth value of an NDArray with multiple elements is ambiguous.")

    def __float__(self) -> float:
        return float(self.asscalar())

    def __int__(self) -> int:
        return int(self.asscalar())

    def __index__(self) -> int:
        if self.size == 1 and dtype_of(self).kind in "iu":
            return int(self.asscalar())
        raise TypeError(
            f"only an integer NDArray with one element is an index; this is {self.dtype.__name__} {self.shape}."
        )

    def __len__(self) -> int:
        shape = self.shape
        if not shape:
            raise TypeError("len() of an NDArray without axes.")
        return shape[0]

    def __iter__(self) -> Any:
        for i in range(len(self)):
            yield self[i]

    def __contains__(self, value: Any) -> bool:
        return bool((self.asnumpy() == (value.asnumpy() if isinstance(value, NDArray) else value)).any())

    def __hash__(self) -> int:
        return id(self) >> 4

    def __repr__(self) -> str:
        shape = "x".join(str(k) for k in self.shape)
        return f"\n{self.asnumpy()!s}\n<{type(self).__name__} {shape} @{self._ctx}>"

    # -- copies -------------------------------------------------------------------------------------------------

    def copy(self) -> NDArray:
        """Return a new array with the same values on the same device."""
        return call("_copy", (self,))

    def __copy__(self) -> NDArray:
        return self.copy()

    def __deepcopy__(self, memo: Any) -> NDArray:
        return self.copy()

    def copyto(self, other: Any) -> Any:
        """Copy the values into another array, or onto a device.

        Parameters
        ----------
        other : NDArray or Context
            An array of the same shape (mutated; dtype is converted), or where to make a new one.

        Returns
        -------
        NDArray
        """
        if isinstance(other, Context):
            return self._to(other)
        if not isinstance(other, Array):
            raise TypeError(f"copyto does not support type {type(other)}; give an NDArray or a Context.")
        if other is self:
            raise ValueError("copyto: cannot copy an array onto itself.")
        if shape_of(other) != self.shape:
            raise ShapeError(f"copyto: source has shape {self.shape} but target {shape_of(other)}.")
        refuse_inplace(other, "copyto")
        now = runtime.current()
        source, target = now.library(self._ctx), now.library(other._ctx)

        def run() -> None:
            data = self._data
            if source is not target:
                data = target.from_host(source.to_host(data), other._ctx.device_id)
            other._data = target.assign(writable_data(other, target), ..., data)

        mutate(other, run, (self,), name="copyto", full=True)
        return other

    def _to(self, ctx: Context) -> NDArray:
        if recorders.count and state.recording and self._tape is not None:
            return invoke_to(self, ctx)
        now = runtime.current()
        source, target = now.library(self._ctx), now.library(ctx)
        if tied(self) and not now.inline:
            # In order with what is pending; an error in the values goes along with them.
            made = wrap(self.__class__, target.empty(shape_of(self), dtype_of(self), ctx.device_id), ctx)
            return NDArray.copyto(self, made)
        data = settled(self)
        if source is target:
            data = source.copy(data, ctx.device_id)
        else:
            data = target.from_host(source.to_host(data), ctx.device_id)
        return wrap(self.__class__, data, ctx)

    def as_in_context(self, context: Context) -> NDArray:
        """Return this array if it is on ``context``, else a copy there."""
        return self if context is self._ctx else self._to(context)

    as_in_ctx = as_in_context

    def astype(self, dtype: Any, copy: bool = True) -> NDArray:
        """Return a copy with another dtype; with ``copy=False`` this array if the dtype is the same."""
        if dtype is None:
            dtype = np.float32
        if not copy and np.dtype(dtype) == dtype_of(self):
            return self
        return call("Cast", (self,), {"dtype": np.dtype(dtype).name})

    def as_nd_ndarray(self) -> NDArray:
        """Return this array as an ``mx.nd.NDArray``."""
        return self

    def as_np_ndarray(self) -> Any:
        """Return this array as an ``mx.np.ndarray`` of the same buffer."""
        raise MXCoreError("mx.np arrays are not part of this version of mxcore; use mx.nd, or asnumpy() for NumPy.")

    def tostype(self, stype: str) -> NDArray:
        """Return a copy of the array in another storage type: ``"default"``, ``"row_sparse"`` or ``"csr"``."""
        from .sparse import cast_storage

        return cast_storage(self, stype)

    def detach(self) -> NDArray:
        """Return a view that is not in the autograd graph."""
        y = wrap(self.__class__, self._data, self._ctx)
        y._cell = cell_of(self)
        return y

    def __reduce__(self) -> Any:
        return (_unpickle, (type(self), self.asnumpy(), self._ctx))

    def __setstate__(self, state: Any) -> None:
        # Pickles written by MXNet: one record of the .params format under "handle".
        from .files import load_record

        handle = state["handle"] if isinstance(state, dict) else state[1]["handle"]
        source = load_record(bytes(handle))
        self._data, self._ctx, self._cell, self._tape = source._data, source._ctx, None, None

    def to_dlpack_for_read(self) -> Any:
        """Return a DLPack capsule for reading; blocks until the values are there."""
        return self.__dlpack__()

    def to_dlpack_for_write(self) -> Any:
        """Return a DLPack capsule for writing; blocks until nothing uses the array."""
        self.wait_to_write()
        return self.__dlpack__()

    def __dlpack__(self, **kw: Any) -> Any:
        data = settled(self)
        cell_of(self).exported = True
        return data.__dlpack__(**kw)

    def __dlpack_device__(self) -> Any:
        return settled(self).__dlpack_device__()

    # -- autograd -----------------------------------------------------------------------------------------------

    @property
    def grad(self) -> Any:
        """The attached gradient array, or None."""
        tape = self._tape
        return tape.grad if tape.__class__ is Leaf else None

    @property
    def _fresh_grad(self) -> bool:
        """Whether backward wrote the gradient since this was last set to False."""
        tape = self._tape
        return tape.__class__ is Leaf and tape.fresh

    @_fresh_grad.setter
    def _fresh_grad(self, state: bool) -> None:
        tape = self._tape
        if tape.__class__ is Leaf:
            tape.fresh = state

    def attach_grad(self, grad_req: str = "write", stype: str | None = None) -> None:
        """Attach a gradient array of zeros; cuts this array from any graph it was in.

        Parameters
        ----------
        grad_req : {"write", "add", "null"}
            Whether backward overwrites the gradient, adds to it, or leaves it.
        stype : str or None
            Storage type of the gradient; None means that of this array.
        """
        if grad_req not in ("write", "add", "null"):
            raise AutogradError(f"attach_grad: grad_req must be 'write', 'add' or 'null' but is {grad_req!r}.")
        self._tape = None
        if stype is None or stype == self.stype:
            grad = call("zeros_like", (self,))
        else:
            from .creation import zeros

            grad = zeros(self.shape, self._ctx, dtype_of(self), stype)
        self._tape = Leaf(grad, grad_req)

    def drop_grad(self) -> None:
        """Forget the attached gradient array."""
        self._tape = None

    def backward(self, out_grad: Any = None, retain_graph: bool = False, train_mode: bool = True) -> None:
        """Compute gradients of this array; see :func:`mxcore.autograd.backward`."""
        autograd.backward([self], None if out_grad is None else [out_grad], retain_graph, train_mode)

    # -- indexing -----------------------------------------------------------------------------------------------

    def __getitem__(self, key: Any) -> Any:
        data = self._data
        if key.__class__ is int and data is not None and data.ndim > 1:
            # Rows of a matrix: the commonest index, and always a view.
            cell = self._cell
            if (cell is None or cell.var is None) and not recorders.count and data.flags.c_contiguous:
                n = data.shape[0]
                if not -n <= key < n:
                    raise IndexError(f"index {key} is out of bounds for axis 0 with size {n}")
                return self._view(data[key])
        plan = indexing.plan(key, self.shape)
        if plan.advanced:
            return self._index_copy(plan)
        data = settled(self)
        if not (plan.contiguous and data.flags.c_contiguous):
            return self._index_copy(plan)
        y = self._view(data[plan.key].reshape(plan.shape))
        if recorders.count and state.recording and self._tape is not None:
            bound = Bound(operators.get("_subscript"), {"key": plan})
            bound.rebind(runtime.current().library(self._ctx))
            node = new_node(bound, (self,), y._data)
            y._tape = node
        return y

    def _view(self, data: Any) -> NDArray:
        y = wrap(self.__class__, data, self._ctx)
        cell = y._cell = cell_of(self)
        cell.exported = True
        return y

    def _index_copy(self, plan: Plan) -> NDArray:
        return invoke(Bound(operators.get("_subscript"), {"key": plan}), (self,))

    def __setitem__(self, key: Any, value: Any) -> None:
        if self._tape is not None:
            refuse_inplace(self, "assignment to x[...]")
        plan = indexing.plan(key, self.shape)
        library = runtime.current().library(self._ctx)
        reads: tuple[Any, ...] = ()
        if isinstance(value, Array):
            reads = (value,)
            if value is self and plan.whole:
                return
            shape = shape_of(value)
        else:
            value = np.asarray(value, dtype=None if np.isscalar(value) else dtype_of(self))
            if value.dtype == object:
                raise TypeError(f"cannot assign {type(value)} to an NDArray of {self.dtype.__name__}.")
            shape = value.shape
        indexing.check_assign(plan, shape, self)
        if reads and recorders.count and state.recording and value._tape is not None:
            if not plan.whole:
                raise inplace_refused("assignment to x[...]")
            while value.ndim > self.ndim:
                value = value.reshape(value.shape[1:])
            if value.shape != self.shape:
                value = value.broadcast_to(self.shape)
            invoke(resolve(operators.get("_copy"), {}), (value,), out=self)
            return

        def run() -> None:
            v = value._data if reads else value
            if reads and value._ctx is not self._ctx:
                v = library.from_host(runtime.current().library(value._ctx).to_host(v))
            # MXNet lets a value have more leading axes of length 1 than the target.
            while v.ndim > len(plan.shape) and v.shape[0] == 1:
                v = v.reshape(v.shape[1:])
            if plan.scalar and v.ndim:
                v = v.reshape(())
            data = writable_data(self, library)
            if v.dtype != data.dtype:
                v = v.astype(data.dtype)
            self._data = library.assign(data, plan.key, v)

        mutate(self, run, reads, name="assign", full=plan.whole)

    def slice_assign(self, rhs: Any, begin: Any, end: Any, step: Any) -> NDArray:
        """``self[begin:end:step] = rhs``; returns this array."""
        self[tuple(slice(b, e, s) for b, e, s in zip(begin, end, step or (None,) * len(begin)))] = rhs
        return self

    slice_assign_scalar = slice_assign

    @staticmethod
    def _basic_indexing_slice_is_contiguous(slc_key: Any, shape: tuple[int, ...]) -> bool:
        """Whether a key of slices selects one block of memory, so that indexing gives a view."""
        return indexing.plan(tuple(slc_key), shape).contiguous

    def _at(self, idx: int) -> Any:
        return self[idx]

    def _slice(self, start: Any, stop: Any) -> Any:
        return self[start:stop]

    # -- shape --------------------------------------------------------------------------------------------------

    def reshape(self, *shape: Any, **kwargs: Any) -> NDArray:
        """Return a view of another shape.

        Parameters
        ----------
        *shape : int or tuple of int
            Besides lengths: 0 copies an axis, -1 infers one, -2 copies all remaining axes, -3 merges two axes,
            -4 splits one into the next two numbers.
        reverse : bool
            Read the special values from the right.

        Raises
        ------
        ShapeError
            If the numbers of elements differ.
        """
        from ..operators.shape import reshaped

        if len(shape) == 1 and isinstance(shape[0], list | tuple):
            shape = tuple(shape[0])
        elif not shape:
            shape = kwargs.pop("shape")
            shape = (shape,) if isinstance(shape, int) else tuple(shape)
        reverse = bool(kwargs.pop("reverse", False))
        if kwargs:
            raise TypeError(f"reshape: unknown argument(s) {sorted(kwargs)}; it takes shape and reverse.")
        new = reshaped(self.shape, shape, reverse)
        if recorders.count and state.recording and self._tape is not None:
            y = invoke(resolve(operators.get("Reshape"), {"shape": new}), (self,))
            return y
        data = settled(self)
        flat = data if data.flags.c_contiguous else np.ascontiguousarray(data)
        return self._view(flat.reshape(new))

    def expand_dims(self, axis: int, inplace: bool = False) -> NDArray:
        """Return the array with an axis of length 1 inserted; a view with ``inplace``."""
        if not inplace:
            return call("expand_dims", (self,), {"axis": axis})
        n = self.ndim + 1
        if not -n <= axis < n:
            raise ShapeError(f"expand_dims: axis {axis} is out of range for an array of {self.ndim} axes.")
        axis %= n
        return self.reshape(self.shape[:axis] + (1,) + self.shape[axis:])

    def squeeze(self, axis: Any = None, inplace: bool = False) -> NDArray:
        """Return the array without axes of length 1; a view with ``inplace``."""
        y = call("squeeze", (self,), {"axis": axis})
        return self.reshape(y.shape) if inplace else y

    def flatten(self, inplace: bool = False) -> NDArray:
        """Return the array as ``(N, rest)``; a view with ``inplace``."""
        return self.reshape((0, -1)) if inplace else call("Flatten", (self,))

    def broadcast_to(self, shape: Any) -> NDArray:
        """Return the array broadcast to ``shape``; 0 keeps an axis."""
        shape = (shape,) if isinstance(shape, int) else tuple(shape)
        own = self.shape
        if len(shape) > len(own):
            own = (1,) * (len(shape) - len(own)) + own
            return call("broadcast_to", (self.reshape(own),), {"shape": shape})
        return call("broadcast_to", (self,), {"shape": shape})

    def broadcast_like(self, other: Any) -> NDArray:
        """Return the array broadcast to the shape of ``other``."""
        return call("broadcast_like", (self, other))

    def transpose(self, *axes: Any, **kwargs: Any) -> NDArray:
        """Return the array with its axes permuted, or reversed."""
        order: Any = axes
        if "axes" in kwargs:
            order = kwargs["axes"]
        elif len(axes) == 1 and (axes[0] is None or isinstance(axes[0], list | tuple)):
            order = axes[0]
        return call("transpose", (self,), {"axes": tuple(order or ())})

    def split(self, *args: Any, **kwargs: Any) -> Any:
        """Split into equal parts along an axis; see ``mx.nd.split``."""
        return _function("split")(self, *args, **kwargs)

    def split_v2(self, *args: Any, **kwargs: Any) -> Any:
        """Split at positions or into parts; see ``mx.nd.split_v2``."""
        from . import split_v2

        return split_v2(self, *args, **kwargs)

    def diag(self, k: int = 0, **kwargs: Any) -> NDArray:
        """Extract a diagonal, or build a matrix from one; see ``mx.nd.diag``."""
        return _function("diag")(self, k=k, **kwargs)

    # -- arithmetic ---------------------------------------------------------------------------------------------
    # + - * / % ** and comparisons are installed by mxcore.dispatch.fast at the end of this module.

    def __neg__(self) -> NDArray:
        return call("negative", (self,))

    def __pos__(self) -> NDArray:
        return self

    def __abs__(self) -> NDArray:
        return call("abs", (self,))

    def __matmul__(self, other: Any) -> Any:
        return call("dot", (self, other))

    def __invert__(self) -> NDArray:
        return call("logical_not", (self,))

    def _inplace(self, name: str, scalar: str, other: Any) -> NDArray:
        if self._tape is not None:
            refuse_inplace(self, name)
        if isinstance(other, Array):
            shape = np.broadcast_shapes(self.shape, shape_of(other)) if shape_of(other) != self.shape else self.shape
            if shape != self.shape:
                raise ShapeError(
                    f"operator '{name}' in place: the result has shape {shape} but the array on the left {self.shape}."
                )
            return invoke(resolve(operators.get(name), {}), (self, other), out=self)
        if not isinstance(other, int | float | np.generic):
            raise TypeError(f"type {type(other)} not supported: in-place '{name}' takes NDArrays and numbers.")
        return invoke(fast.scalar_bound(operators.get(scalar), other), (self,), out=self)

    def __iadd__(self, other: Any) -> NDArray:
        return self._inplace("broadcast_add", "_plus_scalar", other)

    def __isub__(self, other: Any) -> NDArray:
        return self._inplace("broadcast_sub", "_minus_scalar", other)

    def __imul__(self, other: Any) -> NDArray:
        return self._inplace("broadcast_mul", "_mul_scalar", other)

    def __itruediv__(self, other: Any) -> NDArray:
        return self._inplace("broadcast_div", "_div_scalar", other)

    def __imod__(self, other: Any) -> NDArray:
        return self._inplace("broadcast_mod", "_mod_scalar", other)

    def __ipow__(self, other: Any) -> NDArray:
        return self._inplace("broadcast_power", "_power_scalar", other)


def _unpickle(cls: type, values: np.ndarray, ctx: Context) -> Any:
    return wrap(cls, runtime.current().library(ctx).from_host(values, ctx.device_id), ctx)


def invoke_to(x: NDArray, ctx: Context) -> NDArray:
    """Copy ``x`` to ``ctx`` and record it, so that gradients flow back across devices."""
    from ..autograd import Function

    class CopyTo(Function):
        def forward(self, x: Any) -> Any:
            return x._to(ctx)

        def backward(self, dy: Any) -> Any:
            return dy._to(x._ctx)

    return CopyTo()(x)


_functions: dict[str, Any] = {}


def _function(name: str) -> Any:
    fn = _functions.get(name)
    if fn is None:
        fn = _functions[name] = make_function(operators.get(name), NDArray, name, "mxcore.ndarray")
    return fn


def _method(name: str) -> Any:
    def method(self: NDArray, *args: Any, **kwargs: Any) -> Any:
        return _function(name)(self, *args, **kwargs)

    method.__name__ = name
    method.__qualname__ = f"NDArray.{name}"
    method.__doc__ = f"``mx.nd.{name}`` with this array as its first input."
    return method


#: Operators that are methods too, by the same name.
METHODS = [
    "abs",
    "arccos",
    "arccosh",
    "arcsin",
    "arcsinh",
    "arctan",
    "arctanh",
    "argmax",
    "argmax_channel",
    "argmin",
    "argsort",
    "broadcast_axes",
    "cbrt",
    "ceil",
    "clip",
    "cos",
    "cosh",
    "degrees",
    "depth_to_space",
    "exp",
    "expm1",
    "fix",
    "flip",
    "floor",
    "log",
    "log10",
    "log1p",
    "log2",
    "log_softmax",
    "max",
    "mean",
    "min",
    "nanprod",
    "nansum",
    "norm",
    "one_hot",
    "ones_like",
    "pad",
    "pick",
    "prod",
    "radians",
    "rcbrt",
    "reciprocal",
    "relu",
    "repeat",
    "reshape_like",
    "rint",
    "round",
    "rsqrt",
    "shape_array",
    "sigmoid",
    "sign",
    "sin",
    "sinh",
    "size_array",
    "slice",
    "slice_axis",
    "slice_like",
    "softmax",
    "softmin",
    "sort",
    "space_to_depth",
    "sqrt",
    "square",
    "sum",
    "swapaxes",
    "take",
    "tan",
    "tanh",
    "tile",
    "topk",
    "trunc",
    "zeros_like",
]

for _name in METHODS:
    setattr(NDArray, _name, _method(_name))
del _name

fast.install(NDArray)

# Programs written for MXNet find NDArray in ``mxnet.autograd`` too, through ``from mxnet.autograd import *``.
autograd.NDArray = NDArray  # type: ignore[attr-defined]
autograd.__all__.append("NDArray")
