"""Parameters: the arrays a model learns, their gradients, and dictionaries of them.

A :class:`Parameter` holds one copy of its array per context. It may be declared before its shape is known
(unknown dimensions are 0); then initialization is put off until the first forward pass tells the shape.
"""

from __future__ import annotations

import warnings
from collections import OrderedDict
from collections.abc import ItemsView, Iterable, Iterator, KeysView, Sequence, ValuesView
from typing import Any

import numpy as np

from .. import autograd, initializer, ndarray
from ..base import MXNetError
from ..context import Context, cpu, current_context
from ..spec.errors import DeferredInitializationError
from .utils import _brief_print_list, _indent, shape_is_known

__all__ = ["DeferredInitializationError", "Parameter", "Constant", "ParameterDict", "tensor_types"]

#: What a forward pass may be called with.
tensor_types = (ndarray.NDArray,)

_GRAD_REQS = ("write", "add", "null")
_STORAGE_TYPES = ("default", "row_sparse", "csr")


def _as_context_list(ctx: Any) -> list[Context]:
    if ctx is None:
        return [current_context()]
    return [ctx] if isinstance(ctx, Context) else list(ctx)


class Parameter:
    """An array that a model learns, on one or several contexts, with its gradient.

    Parameters
    ----------
    name : str
        Full name, prefix included.
    grad_req : {'write', 'add', 'null'}
        Whether backward overwrites the gradient, adds to it (clear it with :meth:`zero_grad`), or leaves the
        parameter out.
    shape : int or tuple of int, optional
        Unknown dimensions are 0. ``None``: nothing known.
    dtype : str or numpy.dtype
        Type of the array and of its gradient.
    lr_mult, wd_mult : float
        Factors on the optimizer's learning rate and weight decay for this parameter.
    init : str or Initializer, optional
        How to fill the array; by default whatever the caller of ``initialize`` says.
    allow_deferred_init : bool
        Permit ``initialize`` before the shape is known.
    differentiable : bool
        When false, ``grad_req`` is always ``'null'``.
    stype, grad_stype : {'default', 'row_sparse', 'csr'}
        Storage type of the array and of its gradient.

    Examples
    --------
    >>> import mxcore as mx
    >>> weight = mx.gluon.Parameter("fc_weight", shape=(2, 3))
    >>> weight.initialize(init="ones")
    >>> weight.data().shape, weight.grad().shape
    ((2, 3), (2, 3))
    """

    def __init__(
        self,
        name: str,
        grad_req: str = "write",
        shape: int | Sequence[int] | None = None,
        dtype: Any = np.float32,
        lr_mult: float = 1.0,
        wd_mult: float = 1.0,
        init: Any = None,
        allow_deferred_init: bool = False,
        differentiable: bool = True,
        stype: str = "default",
        grad_stype: str = "default",
    ) -> None:
        for which, kind in (("stype", stype), ("grad_stype", grad_stype)):
            if kind not in _STORAGE_TYPES:
                raise AssertionError(
                    f"Parameter '{name}': {which} must be one of 'default', 'row_sparse' or 'csr', got {kind!r}."
                )
        self._data: list[Any] | None = None
        self._grad: list[Any] | None = None
        self._ctx_list: list[Context] = []
        self._ctx_map: dict[tuple[int, int], int] = {}
        self._trainer: Any = None
        self._deferred_init: tuple[Any, ...] = ()
        self._differentiable = differentiable
        self._allow_deferred_init = allow_deferred_init
        self._grad_req: str | None = None
        self._shape: Any = (shape,) if isinstance(shape, int) else shape
        self.name = name
        self._dtype = dtype
        self.lr_mult = lr_mult
        self.wd_mult = wd_mult
        self.grad_req = grad_req
        self.init = init
        self._stype = stype
        self._grad_stype = grad_stype

    def __repr__(self) -> str:
        return f"Parameter {self.name} (shape={self.shape}, dtype={self.dtype})"

    # -- what it is ------------------------------------------------------------------------------------------

    @property
    def grad_req(self) -> str | None:
        """What backward does to the gradient; setting it makes or drops the gradient arrays."""
        return self._grad_req

    @grad_req.setter
    def grad_req(self, req: str) -> None:
        if req not in _GRAD_REQS:
            raise AssertionError(f"grad_req must be one of 'write', 'add' or 'null', got {req!r}.")
        if not self._differentiable:
            req = "null"
        if self._grad_req == req:
            return
        self._grad_req = req
        if req == "null" and self._grad is not None:
            self._grad = None
            self._data = [array.detach() for array in self._data or ()]
        elif self._data is not None:
            self._init_grad()

    @property
    def dtype(self) -> Any:
        """Type of the array; setting it casts."""
        return self._dtype

    @dtype.setter
    def dtype(self, dtype: Any) -> None:
        self.cast(dtype)

    @property
    def shape(self) -> Any:
        """Shape with 0 for unknown dimensions, or ``None``; setting it may only fill in what is unknown."""
        return self._shape

    @shape.setter
    def shape(self, new_shape: Sequence[int]) -> None:
        old = self._shape
        if old is not None and not (
            len(old) == len(new_shape) and all(was <= 0 or was == now for was, now in zip(old, new_shape))
        ):
            raise AssertionError(
                f"Parameter '{self.name}' has shape {tuple(old)} (0 is unknown), which the new shape "
                f"{tuple(new_shape)} does not fit."
            )
        self._shape = tuple(new_shape)

    @property
    def stype(self) -> str:
        """Storage type of the array."""
        return self._stype

    @property
    def grad_stype(self) -> str:
        """Storage type of the gradient."""
        return self._grad_stype

    # -- reading ---------------------------------------------------------------------------------------------

    def data(self, ctx: Context | None = None) -> Any:
        """The array on ``ctx`` (by default the only context, or the current one).

        Raises
        ------
        DeferredInitializationError
            The shape is not known yet; run one batch first.
        RuntimeError
            Not initialized, or not on this context, or the storage type is sparse.
        """
        if self._stype != "default":
            raise MXNetError(
                f"Parameter '{self.name}' has storage type '{self._stype}', so data() cannot return "
                f"it{'' if ctx is None else f' on {ctx}'}. Use row_sparse_data()."
            )
        return self._check_and_get(self._data, ctx)

    def list_data(self) -> list[Any]:
        """The array on every context, in the order of :meth:`list_ctx`."""
        if self._stype != "default":
            raise MXNetError(
                f"Parameter '{self.name}' has storage type '{self._stype}', so list_data() cannot return it. Use "
                "list_row_sparse_data()."
            )
        return self._check_and_get(self._data, list)

    def grad(self, ctx: Context | None = None) -> Any:
        """The gradient on ``ctx`` (by default the only context, or the current one)."""
        self._check_has_grad()
        return self._check_and_get(self._grad, ctx)

    def list_grad(self) -> list[Any]:
        """The gradient on every context."""
        self._check_has_grad()
        return self._check_and_get(self._grad, list)

    def _check_has_grad(self) -> None:
        if self._data is not None and self._grad is None:
            raise MXNetError(f"Parameter '{self.name}' has no gradient, because its grad_req is 'null'.")

    def list_ctx(self) -> list[Context]:
        """The contexts the parameter is, or will be, initialized on."""
        if self._data is not None:
            return self._ctx_list
        if self._deferred_init:
            return self._deferred_init[1]
        raise MXNetError(f"Parameter '{self.name}' has not been initialized. Call initialize() first.")

    def row_sparse_data(self, row_id: Any) -> Any:
        """Rows ``row_id`` of a row_sparse parameter, on the context of ``row_id``."""
        if self._stype != "row_sparse":
            raise MXNetError(
                f"Parameter '{self.name}' has storage type '{self._stype}', so row_sparse_data() cannot return rows of "
                "it. Use data()."
            )
        return self._get_row_sparse(self._data, row_id.ctx, row_id)

    def list_row_sparse_data(self, row_id: Any) -> list[Any]:
        """Rows ``row_id`` of a row_sparse parameter, on every context."""
        if self._stype != "row_sparse":
            raise MXNetError(
                f"Parameter '{self.name}' has storage type '{self._stype}', so list_row_sparse_data() cannot return "
                "rows of it. Use list_data()."
            )
        return self._get_row_sparse(self._data, list, row_id)

    def _get_row_sparse(self, arrays: list[Any] | None, ctx: Any, row_id: Any) -> Any:
        if not isinstance(row_id, ndarray.NDArray):
            raise TypeError(f"row_id must be an NDArray, got {type(row_id)}.")
        if not self._trainer:
            raise MXNetError(
                f"rows of Parameter '{self.name}' are kept by a Trainer, and none was created with it. Create one "
                "first."
            )
        results = self._check_and_get(arrays, ctx)
        self._trainer._row_sparse_pull(self, results, row_id)
        return results

    def _check_and_get(self, arrays: list[Any] | None, ctx: Any) -> Any:
        """One array of ``arrays`` (``ctx`` a context or ``None``) or all of them (``ctx`` is :class:`list`)."""
        if arrays is not None:
            if ctx is list:
                return arrays
            if ctx is None:
                if len(arrays) == 1:
                    return arrays[0]
                ctx = current_context()
            index = self._ctx_map.get((ctx.device_typeid & 1, ctx.device_id))
            if index is not None:
                return arrays[index]
            raise MXNetError(
                f"Parameter '{self.name}' is not on {ctx}: it was initialized on {self._ctx_list}. Initialize it there "
                "too, call reset_ctx(), or move the input."
            )
        if self._deferred_init:
            raise DeferredInitializationError(
                f"Parameter '{self.name}' has no value yet: its shape {self._shape} is not fully known, so its "
                "initialization is deferred to the first forward pass. Pass one batch through the network first, or "
                "give the layer its input size (in_units, in_channels, ...).",
                parameter=self.name,
            )
        raise MXNetError(
            f"Parameter '{self.name}' has not been initialized. Initialize with block.initialize() or "
            "block.collect_params().initialize(), and give the Trainer block.collect_params(): block.params leaves "
            "out the parameters of child blocks."
        )

    def var(self) -> Any:
        """The symbol that stands for this parameter in a graph. Not available: mxcore has no Symbol yet."""
        raise MXNetError(
            f"Parameter '{self.name}' cannot become a symbol: mxcore.symbol does not exist in this version. Use the "
            "parameter imperatively."
        )

    # -- initializing ----------------------------------------------------------------------------------------

    def initialize(
        self,
        init: Any = None,
        ctx: Context | Sequence[Context] | None = None,
        default_init: Any = initializer.Uniform(),  # noqa: B008 (MXNet's shared default; initializers keep no state)
        force_reinit: bool = False,
    ) -> None:
        """Make the arrays, or note how to make them once the shape is known.

        Parameters
        ----------
        init : str or Initializer, optional
            How to fill the array; takes precedence over :attr:`init`.
        ctx : Context or list of Context, optional
            Where copies go; by default the current context.
        default_init : str or Initializer
            Used if neither ``init`` nor :attr:`init` is given.
        force_reinit : bool
            Initialize again even if there are values already.
        """
        if self._data is not None and not force_reinit:
            warnings.warn(
                f"Parameter '{self.name}' is already initialized; nothing was done. Pass force_reinit=True to "
                "initialize it again.",
                stacklevel=2,
            )
            return
        self._data = self._grad = None
        contexts = _as_context_list(ctx)
        if init is None:
            init = default_init if self.init is None else self.init
        if not shape_is_known(self._shape) and not self._allow_deferred_init:
            raise ValueError(
                f"Parameter '{self.name}' cannot be initialized: its shape {self._shape} is not fully known and "
                "deferred initialization was not allowed for it. Give the whole shape."
            )
        self._deferred_init = (init, contexts, default_init, None)
        if shape_is_known(self._shape):
            self._finish_deferred_init()

    def _finish_deferred_init(self) -> None:
        """Make the arrays that :meth:`initialize` could not make for want of a shape."""
        if not self._deferred_init:
            return
        init, contexts, default_init, data = self._deferred_init
        self._deferred_init = ()
        if not shape_is_known(self._shape):
            raise AssertionError(
                f"Parameter '{self.name}' cannot be initialized: its shape {self._shape} is not fully known. Give the "
                "layer its input size (in_units, in_channels, ...)."
            )
        with autograd.pause():
            if data is None:
                data = self._zeros(cpu(), self._stype)
                description = initializer.InitDesc(self.name, {"__init__": init})
                initializer.create(default_init)(description, data)
            self._init_impl(data, contexts)

    def _zeros(self, ctx: Context, stype: str) -> Any:
        storage = {} if stype == "default" else {"stype": stype}
        return ndarray.zeros(shape=self._shape, dtype=self._dtype, ctx=ctx, **storage)

    def _init_impl(self, data: Any, contexts: Sequence[Context]) -> None:
        """Copy ``data`` to every context and make the gradients."""
        self._ctx_list = list(contexts)
        # Pinned and shared host memory count as the CPU: type ids of host memory are odd, as in MXNet.
        self._ctx_map = {(ctx.device_typeid & 1, ctx.device_id): index for index, ctx in enumerate(self._ctx_list)}
        self._data = [data.copyto(ctx) for ctx in self._ctx_list]
        self._init_grad()

    def _init_grad(self) -> None:
        if self.grad_req == "null":
            self._grad = None
            return
        arrays = self._data or []
        self._grad = [self._zeros(array.ctx, self._grad_stype) for array in arrays]
        autograd.mark_variables(arrays, self._grad, self.grad_req)

    def _load_init(self, data: Any, ctx: Any, cast_dtype: bool = False, dtype_source: str = "current") -> None:
        """Initialize, or set, from a loaded array."""
        if cast_dtype and dtype_source not in ("current", "saved"):
            raise AssertionError(f"dtype_source must be 'current' or 'saved', got {dtype_source!r}.")
        if not self._shape:
            self.shape = data.shape
        else:
            if not all(mine <= 0 or mine == theirs for mine, theirs in zip(self._shape, data.shape)):
                raise AssertionError(
                    f"Parameter '{self.name}' of shape {self._shape} cannot be loaded: the saved array has shape "
                    f"{data.shape}."
                )
            self.shape = tuple(mine if mine > 0 else theirs for mine, theirs in zip(self._shape, data.shape))
        if self._dtype:
            data = self._match_dtype(data, cast_dtype, dtype_source)
        if self._stype != data.stype:
            data = data.tostype(self._stype)
        contexts = None if ctx is None else _as_context_list(ctx)
        known = self._ctx_list if self._data is not None else self._deferred_init[1] if self._deferred_init else None
        if known is not None and contexts is not None and set(contexts) != set(known):
            raise AssertionError(
                f"Parameter '{self.name}' cannot be loaded on {contexts}, because it was initialized on {known}. Load "
                "without ctx, or call reset_ctx() first."
            )
        if self._data is None:
            with autograd.pause():
                self._init_impl(data, known or contexts or [cpu()])
        else:
            self.set_data(data)
        self._deferred_init = ()

    def _match_dtype(self, data: Any, cast_dtype: bool, dtype_source: str) -> Any:
        mine, theirs = np.dtype(self._dtype), np.dtype(data.dtype)
        if mine == theirs:
            return data
        if not cast_dtype:
            raise AssertionError(
                f"Parameter '{self.name}' of dtype {mine} cannot be loaded: the saved array has dtype {theirs}. Pass "
                "cast_dtype=True to convert."
            )
        if dtype_source == "saved":
            self.dtype = data.dtype
            return data
        return data.astype(self._dtype, copy=False)

    # -- changing --------------------------------------------------------------------------------------------

    def set_data(self, data: Any) -> None:
        """Overwrite the value on every context (or the value that deferred initialization will give)."""
        self.shape = data.shape
        if self._data is None:
            if not self._deferred_init:
                raise AssertionError(f"Parameter '{self.name}' has not been initialized. Call initialize() first.")
            self._deferred_init = self._deferred_init[:3] + (data,)
            return
        trainer = self._trainer
        if trainer and trainer._kv_initialized and trainer._update_on_kvstore and self not in trainer._params_to_init:
            # The store holds the old value and would write it back at the next step.
            trainer._reset_kvstore()
        for array in self._data:
            array[:] = data

    def zero_grad(self) -> None:
        """Set the gradient to 0 on every context; nothing to do without one."""
        for gradient in self._grad or ():
            gradient[:] = 0

    def reset_ctx(self, ctx: Context | Sequence[Context] | None) -> None:
        """Move the parameter to other contexts (by default the current one)."""
        contexts = _as_context_list(ctx)
        if self._data is not None:
            data = self._reduce()
            with autograd.pause():
                self._init_impl(data, contexts)
        elif self._deferred_init:
            init, _, default_init, data = self._deferred_init
            self._deferred_init = (init, contexts, default_init, data)
        else:
            raise ValueError(
                f"Parameter '{self.name}' cannot be moved to {contexts}, because it has not been initialized."
            )

    def cast(self, dtype: Any) -> None:
        """Convert the array and its gradient to another type."""
        self._dtype = dtype
        if self._data is None:
            return
        with autograd.pause():
            self._data = [array.astype(dtype) for array in self._data]
            if self._grad is None:
                return
            self._grad = [gradient.astype(dtype) for gradient in self._grad]
            autograd.mark_variables(self._data, self._grad, self.grad_req)

    def _reduce(self) -> Any:
        """The value on the CPU: a copy, the mean over contexts if there are several."""
        ctx = cpu()
        if self._stype != "default":
            rows = ndarray.arange(0, self._shape[0], dtype="int64", ctx=ctx)
            data = ndarray.zeros(self._shape, stype="row_sparse", ctx=ctx)
            self._trainer._row_sparse_pull(self, data, rows, full_idx=True)
            return data
        arrays = self.list_data()
        if len(arrays) == 1:
            return arrays[0].copyto(ctx)
        return ndarray.add_n(*(array.copyto(ctx) for array in arrays)) / len(arrays)

    def _set_trainer(self, trainer: Any) -> None:
        if self._stype != "default" and self._trainer and trainer and self._trainer is not trainer:
            raise MXNetError(
                f"Parameter '{self.name}' has storage type '{self._stype}' and already belongs to a Trainer, which "
                "keeps its rows. Only one Trainer is possible."
            )
        self._trainer = trainer


class Constant(Parameter):
    """A parameter that is never updated: moved, saved and loaded with the model, but no gradient.

    Parameters
    ----------
    name : str
        Full name, prefix included.
    value : array-like
        The value.

    Examples
    --------
    >>> import mxcore as mx
    >>> constant = mx.gluon.Constant("scale", [1.0, 2.0])
    >>> constant.initialize()
    >>> constant.data().asnumpy().tolist()
    [1.0, 2.0]
    """

    def __init__(self, name: str, value: Any) -> None:
        if not isinstance(value, ndarray.NDArray):
            value = ndarray.array(value)
        self.value = value
        super().__init__(name, grad_req="null", shape=value.shape, dtype=value.dtype, init=_Copy(value))

    def __repr__(self) -> str:
        return f"Constant {self.name} (shape={self.shape}, dtype={self.dtype})"

    @property
    def grad_req(self) -> str:
        """Always ``'null'``."""
        return "null"

    @grad_req.setter
    def grad_req(self, req: str) -> None:
        if req != "null":
            warnings.warn(
                f"Constant '{self.name}' has no gradient: its grad_req stays 'null', and {req!r} was ignored.",
                stacklevel=2,
            )


class _Copy(initializer.Initializer):
    """Fills a constant with its value."""

    def __init__(self, value: Any) -> None:
        super().__init__()
        self._value = value

    def _init_weight(self, _: Any, array: Any) -> None:
        self._value.copyto(array)


class ParameterDict:
    """Parameters by full name, in the order they were made.

    Parameters
    ----------
    prefix : str
        Put before the name of every parameter made with :meth:`get`.
    shared : ParameterDict, optional
        Where :meth:`get` looks before it makes a new parameter; this is how blocks share weights.

    Examples
    --------
    >>> import mxcore as mx
    >>> params = mx.gluon.ParameterDict("net_")
    >>> params.get("weight", shape=(2, 3))
    Parameter net_weight (shape=(2, 3), dtype=<class 'numpy.float32'>)
    >>> list(params.keys())
    ['net_weight']
    """

    def __init__(self, prefix: str = "", shared: ParameterDict | None = None) -> None:
        self._prefix = prefix
        self._params: OrderedDict[str, Parameter] = OrderedDict()
        self._shared = shared

    def __repr__(self) -> str:
        name = self._prefix + " " if self._prefix else ""
        content = "\n".join(_indent(f"  {parameter}", 2) for parameter in self.values())
        return f"{name}(\n{content}\n)"

    def __getitem__(self, key: str) -> Parameter:
        return self._params[key]

    def __iter__(self) -> Iterator[str]:
        return iter(self._params)

    def __len__(self) -> int:
        return len(self._params)

    def __bool__(self) -> bool:
        return True  # An empty dictionary still is one: `if params:` asks whether it was given.

    def __contains__(self, key: object) -> bool:
        return key in self._params

    def items(self) -> ItemsView[str, Parameter]:
        """Pairs of full name and parameter."""
        return self._params.items()

    def keys(self) -> KeysView[str]:
        """Full names."""
        return self._params.keys()

    def values(self) -> ValuesView[Parameter]:
        """Parameters."""
        return self._params.values()

    @property
    def prefix(self) -> str:
        """Put before the name of every parameter made with :meth:`get`."""
        return self._prefix

    def _get_impl(self, name: str) -> Parameter | None:
        if name in self._params:
            return self._params[name]
        if self._shared is not None and name in self._shared._params:
            self._params[name] = self._shared._params[name]
            return self._params[name]
        return None

    def get(self, name: str, **kwargs: Any) -> Parameter:
        """The parameter ``prefix + name``: from here, from the shared dictionary, or new.

        Parameters
        ----------
        name : str
            Name without the prefix.
        **kwargs
            Arguments of :class:`Parameter`. For a parameter that exists they are compared with its own (unknown
            dimensions of a shape are filled in from either side).

        Raises
        ------
        AssertionError
            The parameter exists with another value of some argument.
        """
        name = self.prefix + name
        parameter = self._get_impl(name)
        if parameter is None:
            parameter = Parameter(name, **kwargs)
            self._params[name] = parameter
            return parameter
        for key, wanted in kwargs.items():
            existing = getattr(parameter, key, None)
            if existing is None:
                setattr(parameter, key, wanted)
                continue
            if key == "shape" and wanted is not None:
                merged = _merge_shapes((wanted,) if isinstance(wanted, int) else wanted, existing)
                if merged is not None:
                    parameter._shape = merged
                    continue
            elif key == "dtype" and wanted is not None and np.dtype(wanted) == np.dtype(existing):
                continue
            if wanted is not None and wanted != existing:
                raise AssertionError(
                    f"Parameter '{name}' exists with {key}={existing!r}, but {key}={wanted!r} was asked for."
                )
        return parameter

    def get_constant(self, name: str, value: Any = None) -> Parameter:
        """The constant ``prefix + name``: from here, from the shared dictionary, or new with ``value``.

        Raises
        ------
        KeyError
            There is none and no value was given.
        AssertionError
            It exists with another value, or is no constant.
        """
        name = self.prefix + name
        parameter = self._get_impl(name)
        if parameter is None:
            if value is None:
                raise KeyError(f"no constant is named '{name}'; pass its value to create it.")
            parameter = Constant(name, value)
            self._params[name] = parameter
        elif value is not None:
            if not isinstance(parameter, Constant):
                raise AssertionError(f"Parameter '{name}' exists but is not a constant.")
            value = value.asnumpy() if isinstance(value, ndarray.NDArray) else np.asarray(value)
            if parameter.shape != value.shape or not (parameter.value.asnumpy() == value).all():
                raise AssertionError(f"Constant '{name}' exists with another value than the one given.")
        return parameter

    def update(self, other: Any) -> None:
        """Take over all parameters of ``other`` (a mapping of full names).

        Raises
        ------
        AssertionError
            A name stands for different parameters here and there.
        """
        for key, parameter in other.items():
            if self._params.get(key, parameter) is not parameter:
                raise AssertionError(
                    f"cannot merge the dictionaries: '{key}' stands for a different Parameter in each of them. Give "
                    "the blocks different prefixes."
                )
        self._params.update(other.items())

    def initialize(
        self,
        init: Any = initializer.Uniform(),  # noqa: B008 (MXNet's shared default; initializers keep no state)
        ctx: Context | Sequence[Context] | None = None,
        verbose: bool = False,
        force_reinit: bool = False,
    ) -> None:
        """Initialize all parameters; those with an ``init`` of their own use that one.

        Parameters
        ----------
        init : str or Initializer
            For parameters without their own.
        ctx : Context or list of Context, optional
            Where copies go.
        verbose : bool
            Log what each parameter is filled with.
        force_reinit : bool
            Initialize again what has values already.
        """
        if verbose:
            init = initializer.create(init)
            init.set_verbosity(verbose=verbose)
        for parameter in self.values():
            parameter.initialize(None, ctx, init, force_reinit=force_reinit)

    def zero_grad(self) -> None:
        """Set all gradients to 0."""
        for parameter in self.values():
            parameter.zero_grad()

    def reset_ctx(self, ctx: Context | Sequence[Context] | None) -> None:
        """Move all parameters to other contexts."""
        for parameter in self.values():
            parameter.reset_ctx(ctx)

    def list_ctx(self) -> list[Context]:
        """Every context that some parameter is on."""
        return list({ctx for parameter in self.values() for ctx in parameter.list_ctx()})

    def setattr(self, name: str, value: Any) -> None:
        """Set an attribute of all parameters, for example ``grad_req`` or ``lr_mult``."""
        for parameter in self.values():
            setattr(parameter, name, value)

    def save(self, filename: str, strip_prefix: str = "") -> None:
        """Write all values to a ``.params`` file.

        Parameters
        ----------
        filename : str
            Path of the file.
        strip_prefix : str
            Cut off the front of every name; all names must start with it.
        """
        values = {}
        for parameter in self.values():
            if not parameter.name.startswith(strip_prefix):
                raise ValueError(
                    f"cannot strip the prefix '{strip_prefix}' from Parameter '{parameter.name}', whose name does not "
                    "start with it. Either the block shares parameters of another block, or its children were created "
                    "outside `with self.name_scope()`."
                )
            values[parameter.name[len(strip_prefix) :]] = parameter._reduce()
        ndarray.save(filename, values)

    def load(
        self,
        filename: str,
        ctx: Any = None,
        allow_missing: bool = False,
        ignore_extra: bool = False,
        restore_prefix: str = "",
        cast_dtype: bool = False,
        dtype_source: str = "current",
    ) -> None:
        """Read values from a ``.params`` file.

        Parameters
        ----------
        filename : str
            Path of the file.
        ctx : Context or list of Context, optional
            Where to put parameters that are not initialized yet.
        allow_missing : bool
            Leave parameters alone that the file does not have.
        ignore_extra : bool
            Skip arrays of the file that are not here.
        restore_prefix : str
            Put before every name of the file.
        cast_dtype : bool
            Convert where types differ, to the type of the parameter or of the file as ``dtype_source`` says.
        dtype_source : {'current', 'saved'}
            Whose type wins.
        """
        if restore_prefix:
            for name in self.keys():
                if not name.startswith(restore_prefix):
                    raise AssertionError(
                        f"restore_prefix is '{restore_prefix}', but Parameter '{name}' does not start with it."
                    )
        self.load_dict(
            ndarray.load(filename), ctx, allow_missing, ignore_extra, restore_prefix, filename, cast_dtype, dtype_source
        )

    def load_dict(
        self,
        param_dict: Any,
        ctx: Any = None,
        allow_missing: bool = False,
        ignore_extra: bool = False,
        restore_prefix: str = "",
        filename: str | None = None,
        cast_dtype: bool = False,
        dtype_source: str = "current",
    ) -> None:
        """Set values from arrays by name, as :meth:`load` does; ``arg:`` and ``aux:`` before names are dropped."""
        pairs: Iterable[tuple[str, Any]] = param_dict
        if isinstance(param_dict, dict):
            pairs = [(name[4:] if name[:4] in ("arg:", "aux:") else name, array) for name, array in param_dict.items()]
        arrays = {restore_prefix + name: array for name, array in pairs}
        source = f"file '{filename}'" if filename else "param_dict"
        advice = "Source and target networks must have the same prefix."
        skip = len(restore_prefix)
        if not allow_missing:
            for name in self.keys():
                if name not in arrays:
                    raise AssertionError(
                        f"Parameter '{name[skip:]}' is missing in {source}, which has {_brief_print_list(arrays)}. Set "
                        f"allow_missing=True to leave it as it is. {advice}"
                    )
        for name, array in arrays.items():
            if name in self._params:
                self._params[name]._load_init(array, ctx, cast_dtype=cast_dtype, dtype_source=dtype_source)
            elif not ignore_extra:
                raise AssertionError(
                    f"'{name[skip:]}' in {source} is no parameter here; there are {_brief_print_list(self._params)}. "
                    f"Set ignore_extra=True to skip it. {advice}"
                )


def _merge_shapes(wanted: Sequence[int], existing: Sequence[int]) -> tuple[int, ...] | None:
    """Fill unknown dimensions of either shape from the other; ``None`` if they contradict."""
    if len(wanted) != len(existing):
        return None
    merged = []
    for new, old in zip(wanted, existing):
        if new != old and new > 0 and old > 0:
            return None
        merged.append(new if new > 0 else old)
    return tuple(merged)
