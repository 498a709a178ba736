"""Blocks: layers and models as trees that know their children and parameters.

A :class:`Block` is run by :meth:`Block.forward`. A :class:`HybridBlock` is written once for arrays and for graphs,
as ``hybrid_forward(F, x, *args, **params)``; in this version it always runs imperatively, with ``F`` the
:mod:`mxcore.ndarray` module, whether or not :meth:`Block.hybridize` was called.
"""

from __future__ import annotations

import json
import re
import threading
import warnings
from collections import OrderedDict
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from .. import autograd, initializer, ndarray
from .. import name as _name
from ..base import MXNetError
from ..context import Context, current_context
from ..ndarray import NDArray
from ..spec.errors import ParameterError
from ._shape_inference import InferringNamespace, Probe, UnknownArray, running
from .parameter import Parameter, ParameterDict
from .utils import HookHandle, _brief_print_list, _indent, shape_is_known

__all__ = ["Block", "HybridBlock"]


class _BlockScope:
    """Names the blocks that are created inside ``with block.name_scope()``."""

    _current = threading.local()

    def __init__(self, block: Block) -> None:
        self._block = block
        self._counter: dict[str, int] = {}
        self._entered: list[tuple[Any, Any]] = []

    @staticmethod
    def create(prefix: str | None, params: ParameterDict | None, hint: str) -> tuple[str, ParameterDict]:
        """Prefix and parameter dictionary of a new block: ``hint`` and a number, counted by the parent."""
        scope = getattr(_BlockScope._current, "value", None)
        if scope is None:
            if prefix is None:
                prefix = _name.current().get(None, hint) + "_"
            if params is None:
                return prefix, ParameterDict(prefix)
            return prefix, ParameterDict(params.prefix, params)
        parent = scope._block
        if prefix is None:
            count = scope._counter.get(hint, 0)
            scope._counter[hint] = count + 1
            prefix = f"{hint}{count}_"
        if params is None:
            params = ParameterDict(parent.params.prefix + prefix, parent.params._shared)
        else:
            params = ParameterDict(params.prefix, params)
        return parent.prefix + prefix, params

    def __enter__(self) -> _BlockScope:
        if self._block._empty_prefix:
            return self
        names = _name.Prefix(self._block.prefix)
        names.__enter__()
        self._entered.append((getattr(_BlockScope._current, "value", None), names))
        _BlockScope._current.value = self
        return self

    def __exit__(self, *exc_info: Any) -> None:
        if self._block._empty_prefix:
            return
        outer, names = self._entered.pop()
        names.__exit__(*exc_info)
        _BlockScope._current.value = outer


class Block:
    """A layer or model: children, parameters, and a ``forward`` to define.

    Blocks assigned to attributes become children and parameters assigned to attributes become its parameters;
    blocks in lists and dictionaries do not (see :meth:`register_child`).

    Parameters
    ----------
    prefix : str, optional
        Put before the names of its parameters and children. By default the class name in lower case and a number.
    params : ParameterDict, optional
        Share these parameters: the new block uses those it finds there by name, under their prefix.

    Examples
    --------
    >>> import mxcore as mx
    >>> from mxcore.gluon import nn
    >>> class Net(mx.gluon.Block):
    ...     def __init__(self, **kwargs):
    ...         super().__init__(**kwargs)
    ...         with self.name_scope():
    ...             self.hidden = nn.Dense(4, activation="relu")
    ...             self.output = nn.Dense(2)
    ...
    ...     def forward(self, x):
    ...         return self.output(self.hidden(x))
    >>> net = Net(prefix="net_")
    >>> net.initialize()
    >>> net(mx.nd.ones((3, 5))).shape
    (3, 2)
    >>> list(net.collect_params(".*weight"))
    ['net_dense0_weight', 'net_dense1_weight']
    """

    def __init__(self, prefix: str | None = None, params: ParameterDict | None = None) -> None:
        self._empty_prefix = prefix == ""
        self._prefix, self._params = _BlockScope.create(prefix, params, self._alias())
        self._name = self._prefix.removesuffix("_")
        self._scope = _BlockScope(self)
        self._children: OrderedDict[str, Block] = OrderedDict()
        self._reg_params: dict[str, Parameter] = {}
        self._forward_hooks: OrderedDict[int, Callable] = OrderedDict()
        self._forward_pre_hooks: OrderedDict[int, Callable] = OrderedDict()

    def __repr__(self) -> str:
        return _repr_of(self, ((key, value) for key, value in self.__dict__.items() if isinstance(value, Block)))

    def __setattr__(self, name: str, value: Any) -> None:
        existing = getattr(self, name, None)
        if isinstance(existing, (Parameter, Block)) and not isinstance(value, type(existing)):
            raise TypeError(
                f"attribute '{name}' of {type(self).__name__} is a {type(existing)} and cannot become a {type(value)}."
            )
        if isinstance(value, Block):
            self.register_child(value, name)
        elif isinstance(value, Parameter):
            if name in self._reg_params:
                raise AssertionError(
                    f"attribute '{name}' of {type(self).__name__} already holds a Parameter and cannot be given "
                    "another. To share parameters between blocks, pass `params` when the block is made."
                )
            self._reg_params[name] = value
        super().__setattr__(name, value)

    def _alias(self) -> str:
        """What names of such blocks start with."""
        return type(self).__name__.lower()

    # -- names, children, parameters -------------------------------------------------------------------------

    @property
    def prefix(self) -> str:
        """Put before the names of its parameters and children."""
        return self._prefix

    @property
    def name(self) -> str:
        """The prefix without the underscore at its end."""
        return self._name

    def name_scope(self) -> _BlockScope:
        """Context manager: blocks and parameters made inside get names that start with this block's prefix."""
        return self._scope

    @property
    def params(self) -> ParameterDict:
        """Its own parameters, without those of its children."""
        return self._params

    def collect_params(self, select: str | None = None) -> ParameterDict:
        """Parameters of this block and of all below it.

        Parameters
        ----------
        select : str, optional
            Regular expression; only names that it matches from their start are taken.

        Returns
        -------
        ParameterDict
            By full name. Warns of blocks that hide in lists or dictionaries and are therefore left out.
        """
        self._warn_of_unregistered_blocks()
        collected = ParameterDict(self._params.prefix)
        if select:
            matches = re.compile(select).match
            collected.update({name: value for name, value in self.params.items() if matches(name)})
        else:
            collected.update(self.params)
        for child in self._children.values():
            collected.update(child.collect_params(select=select))
        return collected

    def _warn_of_unregistered_blocks(self) -> None:
        children = set(self._children.values())

        def holds_stranger(value: Any) -> bool:
            if isinstance(value, dict):
                value = value.values()
            elif not isinstance(value, (list, tuple)):
                return isinstance(value, Block) and value not in children
            return any(holds_stranger(item) for item in value)

        for key, value in self.__dict__.items():
            if key != "_children" and isinstance(value, (list, tuple, dict)) and holds_stranger(value):
                warnings.warn(
                    f"{type(self).__name__}.{key} holds Blocks that are not registered, so their parameters are left "
                    "out. Call register_child() for each, or keep them in nn.Sequential or nn.HybridSequential.",
                    stacklevel=3,
                )

    def _collect_params_with_prefix(self, prefix: str = "") -> dict[str, Parameter]:
        """Parameters by structural name: attribute names joined by dots."""
        if prefix:
            prefix += "."
        collected = {prefix + key: value for key, value in self._reg_params.items()}
        for name, child in self._children.items():
            collected.update(child._collect_params_with_prefix(prefix + name))
        return collected

    def register_child(self, block: Block, name: str | None = None) -> None:
        """Make ``block`` a child, named ``name`` or by its number."""
        self._children[str(len(self._children)) if name is None else name] = block

    def register_forward_pre_hook(self, hook: Callable[[Block, tuple[Any, ...]], None]) -> HookHandle:
        """Call ``hook(block, inputs)`` before every forward pass; the handle detaches it."""
        handle = HookHandle()
        handle.attach(self._forward_pre_hooks, hook)
        return handle

    def register_forward_hook(self, hook: Callable[[Block, tuple[Any, ...], Any], None]) -> HookHandle:
        """Call ``hook(block, inputs, output)`` after every forward pass; the handle detaches it."""
        handle = HookHandle()
        handle.attach(self._forward_hooks, hook)
        return handle

    def register_op_hook(self, callback: Callable[[str, str, Any], None], monitor_all: bool = False) -> None:
        """Call back with the output of every operator of a hybridized graph. Not available: there are no graphs yet."""
        raise MXNetError(
            f"register_op_hook on '{self.name}' watches the operators of a graph, and this version of mxcore runs "
            "blocks imperatively. Use register_forward_hook() to see the outputs of blocks."
        )

    def apply(self, fn: Callable[[Block], Any]) -> Block:
        """Call ``fn`` on every block below and then on this one; returns this block."""
        for child in self._children.values():
            child.apply(fn)
        fn(self)
        return self

    # -- parameters as a whole -------------------------------------------------------------------------------

    def initialize(
        self,
        init: Any = initializer.Uniform(),  # noqa: B008 (MXNet's shared default; initializers keep no state)
        ctx: Context | Sequence[Context] | None = None,
        verbose: bool = False,
        force_reinit: bool = False,
    ) -> None:
        """Initialize all parameters of this block and below; see :meth:`ParameterDict.initialize`."""
        self.collect_params().initialize(init, ctx, verbose, force_reinit)

    def cast(self, dtype: Any) -> None:
        """Convert all parameters of this block and below to another type."""
        for child in self._children.values():
            child.cast(dtype)
        for parameter in self.params.values():
            parameter.cast(dtype)

    def save_parameters(self, filename: str, deduplicate: bool = False) -> None:
        """Write all parameters to a ``.params`` file under structural names (``features.0.weight``).

        Parameters
        ----------
        filename : str
            Path of the file.
        deduplicate : bool
            Write a parameter that is used in several places only once.
        """
        params = self._collect_params_with_prefix()
        if deduplicate:
            last_name = {parameter: name for name, parameter in params.items()}
            params = {name: parameter for parameter, name in last_name.items()}
        ndarray.save(filename, {name: parameter._reduce() for name, parameter in params.items()})

    def load_parameters(
        self,
        filename: str,
        ctx: Context | Sequence[Context] | None = None,
        allow_missing: bool = False,
        ignore_extra: bool = False,
        cast_dtype: bool = False,
        dtype_source: str = "current",
    ) -> None:
        """Read parameters from a file that :meth:`save_parameters`, ``export`` or ``ParameterDict.save`` wrote.

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
        cast_dtype : bool
            Convert where types differ, to the type of the parameter or of the file as ``dtype_source`` says.
        dtype_source : {'current', 'saved'}
            Whose type wins.

        Raises
        ------
        AssertionError
            A parameter is missing in the file, or shapes or types differ.
        ValueError
            The file has an array that is no parameter here.
        """
        loaded = ndarray.load(filename)
        params = self._collect_params_with_prefix()
        if not loaded and not params:
            return
        if not isinstance(loaded, dict):
            if loaded:
                raise ValueError(f"file '{filename}' holds {len(loaded)} arrays without names, so no parameters.")
            loaded = {}
        if not any("." in name for name in loaded) and not loaded.keys() <= params.keys():
            # Written by ParameterDict.save or export: full names, our prefix stripped or not.
            self.collect_params().load(
                filename,
                ctx,
                allow_missing,
                ignore_extra,
                self.prefix,
                cast_dtype=cast_dtype,
                dtype_source=dtype_source,
            )
            return
        if not allow_missing:
            found = {params[name] for name in loaded if name in params}
            for name, parameter in params.items():
                if parameter not in found:
                    raise AssertionError(
                        f"Parameter '{name}' is missing in file '{filename}', which has {_brief_print_list(loaded)}. "
                        "Set allow_missing=True to leave it as it is."
                    )
        for name, array in loaded.items():
            if name in params:
                params[name]._load_init(array, ctx, cast_dtype=cast_dtype, dtype_source=dtype_source)
            elif not ignore_extra:
                raise ValueError(
                    f"'{name}' in file '{filename}' is no Parameter of this block, which has "
                    f"{_brief_print_list(params)}. Set ignore_extra=True to skip it."
                )

    def save_params(self, filename: str) -> None:
        """Deprecated; see :meth:`save_parameters`."""
        warnings.warn("save_params is deprecated; use save_parameters.", stacklevel=2)
        try:
            self.collect_params().save(filename, strip_prefix=self.prefix)
        except ValueError as error:
            raise ValueError(f"{error} save_params is deprecated; save_parameters does not have this limit.") from error

    def load_params(
        self, filename: str, ctx: Any = None, allow_missing: bool = False, ignore_extra: bool = False
    ) -> None:
        """Deprecated; see :meth:`load_parameters`."""
        warnings.warn("load_params is deprecated; use load_parameters.", stacklevel=2)
        self.load_parameters(filename, ctx, allow_missing, ignore_extra)

    def save(self, prefix: str) -> None:
        """Write names and structure to ``prefix-model.json`` and values to ``prefix-model.params``."""
        model: dict[str, Any] = {}
        _describe(self, [0], model)
        with open(prefix + "-model.json", "w", encoding="utf-8") as file:
            json.dump(model, file)
        self.save_parameters(prefix + "-model.params")

    def load(self, prefix: str) -> None:
        """Restore what :meth:`save` wrote, into a block of the same structure.

        Graphs that MXNet saved with hybridized blocks are not read: blocks run their own ``hybrid_forward``.
        """
        with open(prefix + "-model.json", encoding="utf-8") as file:
            model = json.load(file)
        _rename(self, [0], model)
        self.load_parameters(prefix + "-model.params")

    # -- running ---------------------------------------------------------------------------------------------

    def hybridize(self, active: bool = True, **kwargs: Any) -> None:
        """Hybridize every :class:`HybridBlock` below; see :meth:`HybridBlock.hybridize`."""
        for child in self._children.values():
            child.hybridize(active, **kwargs)

    def __call__(self, *args: Any) -> Any:
        # On the path of every layer of every batch: nothing here but hooks and forward.
        if self._forward_pre_hooks:
            for hook in list(self._forward_pre_hooks.values()):
                hook(self, args)
        out = self.forward(*args)
        if self._forward_hooks:
            for hook in list(self._forward_hooks.values()):
                hook(self, args, out)
        return out

    def forward(self, *args: Any) -> Any:
        """Compute the output; to be defined by subclasses."""
        raise NotImplementedError(f"{type(self).__name__} does not define forward().")

    def summary(self, *inputs: Any) -> None:
        """Run ``inputs`` through and print a table of layers, output shapes and parameter counts.

        The block must be initialized and not hybridized.
        """
        _print_summary(self, inputs)


class HybridBlock(Block):
    """A block written once for arrays and for graphs: define ``hybrid_forward(F, x, *args, **params)``.

    ``F`` offers the operators and ``params`` the block's own parameters as arrays. Children must be HybridBlocks.
    Parameters whose shapes are unknown are initialized in the first forward pass, as soon as an operator
    determines their shape (:mod:`mxcore.gluon._shape_inference` says which do).

    Parameters
    ----------
    prefix, params
        See :class:`Block`.

    Examples
    --------
    >>> import mxcore as mx
    >>> class Scale(mx.gluon.HybridBlock):
    ...     def __init__(self, **kwargs):
    ...         super().__init__(**kwargs)
    ...         self.factor = self.params.get("factor", shape=(3,), init="ones")
    ...
    ...     def hybrid_forward(self, F, x, factor):
    ...         return F.broadcast_mul(x, factor)
    >>> scale = Scale()
    >>> scale.initialize()
    >>> scale(mx.nd.ones((2, 3))).shape
    (2, 3)
    """

    def __init__(self, prefix: str | None = None, params: ParameterDict | None = None) -> None:
        super().__init__(prefix=prefix, params=params)
        self._active = False
        self._flags: list[tuple[str, Any]] = []
        self._backend_opts: dict[str, Any] = {}
        self._in_format: Any = None

    def register_child(self, block: Block, name: str | None = None) -> None:
        """Make ``block``, a HybridBlock, a child."""
        if not isinstance(block, HybridBlock):
            raise ValueError(
                f"children of a HybridBlock must be HybridBlocks, but {block!r} is a {type(block)}. Derive it from "
                "HybridBlock (use nn.HybridSequential instead of nn.Sequential), or make the parent a Block."
            )
        super().register_child(block, name)
        self._in_format = None

    def hybridize(
        self,
        active: bool = True,
        backend: str | None = None,
        clear: bool = True,
        static_alloc: bool = False,
        static_shape: bool = False,
        inline_limit: int = 2,
        forward_bulk_size: int | None = None,
        backward_bulk_size: int | None = None,
        **kwargs: Any,
    ) -> None:
        """Ask for a graph of this block instead of imperative calls.

        This version runs imperatively all the same and gives the same results; what a graph would demand of the
        inputs is checked: arrays or nested lists of arrays, all on one context, structured as in the first call.

        Parameters
        ----------
        active : bool
            Switch on or off.
        backend : str, optional
            A graph partitioner. None exists, so naming one is an error.
        clear : bool
            Forget how earlier inputs were structured.
        static_alloc, static_shape : bool
            Plan memory ahead; ``static_shape`` needs ``static_alloc``.
        inline_limit, forward_bulk_size, backward_bulk_size : int, optional
            How many operators are inlined or run in bulk.
        **kwargs
            Options of the backend.
        """
        if backend is not None:
            raise MXNetError(
                f"hybridize of '{self.name}': there is no graph backend '{backend}', because this version of mxcore "
                "has no graph partitioning. Leave backend out."
            )
        if static_shape and not static_alloc:
            raise ParameterError(
                f"hybridize of '{self.name}': static_shape=True needs static_alloc=True.", operator="CachedOp"
            )
        if kwargs:
            self._backend_opts = kwargs
        self._active = active
        self._flags = [("static_alloc", static_alloc), ("static_shape", static_shape), ("inline_limit", inline_limit)]
        for key, value in (("forward_bulk_size", forward_bulk_size), ("backward_bulk_size", backward_bulk_size)):
            if value is not None:
                self._flags.append((key, value))
        if clear:
            self._in_format = None
        super().hybridize(
            active,
            static_alloc=static_alloc,
            static_shape=static_shape,
            inline_limit=inline_limit,
            forward_bulk_size=forward_bulk_size,
            backward_bulk_size=backward_bulk_size,
        )

    def optimize_for(
        self,
        x: Any,
        *args: Any,
        backend: str | None = None,
        clear: bool = False,
        static_alloc: bool = False,
        static_shape: bool = False,
        inline_limit: int = 2,
        forward_bulk_size: int | None = None,
        backward_bulk_size: int | None = None,
        **kwargs: Any,
    ) -> None:
        """Partition the graph for a backend. Not available: there are no graph backends yet."""
        if not backend:
            raise ValueError(f"optimize_for of '{self.name}' needs the name of a backend.")
        self.hybridize(
            True,
            backend,
            clear,
            static_alloc,
            static_shape,
            inline_limit,
            forward_bulk_size,
            backward_bulk_size,
            **kwargs,
        )

    def export(self, path: str, epoch: int = 0, remove_amp_cast: bool = True) -> None:
        """Write graph and parameters for deployment. Not available: there are no graphs yet."""
        raise MXNetError(
            f"export of '{self.name}' to '{path}' writes the block's graph, and this version of mxcore has no graphs "
            "(mxcore.symbol). Use save_parameters() to keep the values."
        )

    def infer_shape(self, *args: Any) -> None:
        """Fill in unknown parameter shapes, here and below, from inputs; costs a forward pass."""
        self._probe(args)

    def infer_type(self, *args: Any) -> None:
        """Set parameter types, here and below, from the types of inputs. Costs a forward pass."""
        for parameter, dtype in self._probe(args).dtypes.items():
            if np.dtype(parameter.dtype) != np.dtype(dtype):
                parameter.dtype = dtype

    def _probe(self, args: tuple[Any, ...]) -> Probe:
        outer, running.mode = running.mode, Probe()
        try:
            with autograd.pause():
                self.forward(*args)
            return running.mode
        finally:
            running.mode = outer

    def _infer_dtype(self, dtype: Any) -> Any:
        """The type its parameters need for inputs of type ``dtype``; ``None``: the type they have."""
        return dtype

    def forward(self, x: Any, *args: Any) -> Any:
        """Run ``hybrid_forward`` with this block's parameters on the context of the first array."""
        # On the path of every layer of every batch, so the usual case is written out in one piece.
        ctx = x._ctx if isinstance(x, NDArray) else self._first_context(x, args)
        mode = running.mode
        if mode is None:
            if self._active:
                return self._forward_hybridized(x, args)
        elif mode != "hybrid":
            return self._forward_probe(mode, ctx, x, args)
        params = {}
        for name, parameter in self._reg_params.items():
            arrays = parameter._data
            if arrays is None:
                if parameter._deferred_init:
                    return self._forward_deferred(ctx, x, args)
                parameter.data(ctx)  # raises
            elif len(arrays) == 1 and parameter._ctx_list[0] is ctx and parameter._stype == "default":
                params[name] = arrays[0]
            else:
                params[name] = parameter.data(ctx)
        if ctx is not current_context():
            with ctx:
                return self.hybrid_forward(ndarray, x, *args, **params)
        if params or args:
            return self.hybrid_forward(ndarray, x, *args, **params)
        return self.hybrid_forward(ndarray, x)

    def _forward_hybridized(self, x: Any, args: tuple[Any, ...]) -> Any:
        """Run as the outermost hybridized block: what a graph would demand of the inputs is checked here only."""
        self._check_graph_inputs((x, *args))
        running.mode = "hybrid"
        try:
            return HybridBlock.forward(self, x, *args)
        finally:
            running.mode = None

    def _forward_deferred(self, ctx: Context, x: Any, args: tuple[Any, ...]) -> Any:
        """First forward pass: initialize parameters as their shapes become known."""

        def make(parameter: Parameter) -> Any:
            parameter._finish_deferred_init()
            return parameter.data(ctx)

        params = {}
        namespace: Any = ndarray
        for name, parameter in self._reg_params.items():
            if parameter._data is None and parameter._deferred_init and not shape_is_known(parameter.shape):
                params[name] = UnknownArray(parameter, make)
                namespace = InferringNamespace(ndarray)
            else:
                params[name] = make(parameter)
        with ctx:
            return self.hybrid_forward(namespace, x, *args, **params)

    def _forward_probe(self, probe: Probe, ctx: Context, x: Any, args: tuple[Any, ...]) -> Any:
        dtype = next((array.dtype for array in _arrays_in((x, *args))), None)

        def make(parameter: Parameter) -> Any:
            wanted = self._infer_dtype(dtype)
            return probe.array(parameter, ctx, parameter.dtype if wanted is None else wanted)

        params = {}
        namespace: Any = ndarray
        for name, parameter in self._reg_params.items():
            if shape_is_known(parameter.shape):
                params[name] = make(parameter)
            else:
                params[name] = UnknownArray(parameter, make)
                namespace = InferringNamespace(ndarray)
        with ctx:
            return self.hybrid_forward(namespace, x, *args, **params)

    def _first_context(self, x: Any, args: tuple[Any, ...]) -> Context:
        for array in _arrays_in((x, *args)):
            return array.ctx
        kinds = ", ".join(type(value).__name__ for value in (x, *args))
        raise ValueError(f"'{self.name}' needs at least one NDArray among its inputs, got {kinds}.")

    def _check_graph_inputs(self, args: tuple[Any, ...]) -> None:
        """What a graph would demand: arrays only, on one context, structured as in the first call."""
        if len(args) == 1 and self._in_format == _ONE_ARRAY and isinstance(args[0], NDArray):
            return
        structure = _structure(args, self.name)
        if len({array.ctx for array in _arrays_in(args)}) > 1:
            contexts = ", ".join(str(array.ctx) for array in _arrays_in(args))
            raise ValueError(
                f"inputs of '{self.name}', which is hybridized, must be on one context, but are on {contexts}."
            )
        if self._in_format is None:
            self._in_format = structure
        elif _without_missing(structure) != _without_missing(self._in_format):
            raise ValueError(
                f"'{self.name}' is hybridized and was first called with inputs structured as {self._in_format} (0 is "
                f"an array, -1 is None), now with {structure}. Call hybridize() again to change the structure."
            )

    def hybrid_forward(self, F: Any, x: Any, *args: Any, **kwargs: Any) -> Any:
        """Compute the output with the operators of ``F``; to be defined by subclasses.

        Parameters
        ----------
        F : module
            Where operators are: :mod:`mxcore.ndarray`.
        x : NDArray
            First input.
        *args : NDArray
            Further inputs.
        **kwargs : NDArray
            The block's own parameters, by attribute name.
        """
        raise NotImplementedError(f"{type(self).__name__} does not define hybrid_forward().")


# -- structure of inputs -------------------------------------------------------------------------------------------

_ONE_ARRAY = [0]


def _arrays_in(value: Any) -> Iterator[Any]:
    """All arrays in nested lists and tuples, in order."""
    if isinstance(value, NDArray):
        yield value
    elif isinstance(value, (list, tuple)):
        for item in value:
            yield from _arrays_in(item)


def _structure(value: Any, name: str) -> Any:
    """The nesting of inputs: 0 for an array, -1 for None, lists for lists and tuples."""
    if isinstance(value, NDArray):
        return 0
    if value is None:
        return -1
    if isinstance(value, (list, tuple)):
        return [_structure(item, name) for item in value]
    raise ValueError(
        f"inputs of '{name}', which is hybridized, must be NDArrays or nested lists of them, got {value!r} of type "
        f"{type(value)}. Make it an NDArray or an attribute of the block."
    )


def _without_missing(structure: list[Any]) -> list[Any]:
    """A structure without the None at its end: leaving an optional input out is the same as passing None."""
    count = len(structure)
    while count and structure[count - 1] == -1:
        count -= 1
    return structure[:count]


# -- describing blocks ---------------------------------------------------------------------------------------------


def _repr_of(block: Block, children: Any) -> str:
    """``Name(`` and one indented line per child ``)``."""
    lines = "\n".join(f"  ({key}): {_indent(repr(child), 2)}" for key, child in children)
    return f"{type(block).__name__}(\n{lines}\n)"


def _describe(block: Block, counter: list[int], structure: dict[str, Any]) -> None:
    """Add a block and its children to the structure that :meth:`Block.save` writes (MXNet's format)."""
    model: dict[str, Any] = {"orig_name": block.name}
    structure[type(block).__name__.lower() + str(counter[0])] = model
    if isinstance(block, HybridBlock):
        model["hybridized"] = False  # Meaning: no graph is saved with it.
    children: dict[str, str] = {}
    model["children"] = children
    for key, child in block._children.items():
        counter[0] += 1
        children[child.name] = key
        _describe(child, counter, model)


def _rename(block: Block, counter: list[int], structure: dict[str, Any]) -> None:
    """Give a block and its children the names that :meth:`Block.save` found."""
    key = type(block).__name__.lower() + str(counter[0])
    if key not in structure:
        known = ", ".join(name for name, value in structure.items() if isinstance(value, dict) and "orig_name" in value)
        raise ValueError(
            f"the saved model has no block '{key}' at this place, but {known or 'none'}: structures differ."
        )
    model = structure[key]
    block._name = model["orig_name"]
    if isinstance(block, HybridBlock) and model.get("hybridized"):
        block._active = True
    params = block.params._params
    for old_name in list(params):
        params[f"{block.name}_{old_name[len(block.params.prefix) :]}"] = params.pop(old_name)
    for child in block._children.values():
        counter[0] += 1
        _rename(child, counter, model)
    for old_key in list(block._children):
        child = block._children.pop(old_key)
        block._children[model["children"][child.name]] = child


def _shapes_text(value: Any) -> str:
    def shapes(value: Any) -> Any:
        if isinstance(value, (list, tuple)):
            return [shapes(item) for item in value]
        return value.shape if isinstance(value, NDArray) else value

    found = shapes(value)
    return str(found)[1:-1] if isinstance(found, list) else str(found)


def _print_summary(block: Block, inputs: tuple[Any, ...]) -> None:
    from .nn.basic_layers import HybridSequential, Sequential

    # Layer, shape of its output, and how many parameters: all, trainable, counted before.
    rows: list[tuple[str, str, tuple[int, int, int]]] = [("Input", _shapes_text(inputs), (0, 0, 0))]
    counted: set[Parameter] = set()
    handles: list[HookHandle] = []

    def note(layer: Block, _: Any, output: Any) -> None:
        total = trainable = shared = 0
        for parameter in layer.params.values():
            size = parameter.data().size
            total += size
            trainable += 0 if parameter.grad_req == "null" else size
            shared += size if parameter in counted else 0
            counted.add(parameter)
        rows.append((f"{type(layer).__name__}-{len(rows)}", _shapes_text(output), (total, trainable, shared)))

    def watch(layer: Block) -> None:
        if isinstance(layer, HybridBlock) and layer._active:
            raise AssertionError(f"'{layer.name}' is hybridized; summary() needs hybridize(False) first.")
        if not isinstance(layer, (Sequential, HybridSequential)):
            handles.append(layer.register_forward_hook(note))

    try:
        block.apply(watch)
        block(*inputs)
    finally:
        for handle in handles:
            handle.detach()
    line = "{:>20}  {:>42} {:>15}"
    total, trainable, shared = (sum(counts) for counts in zip(*(row[2] for row in rows)))
    print("-" * 80)
    print(line.format("Layer (type)", "Output Shape", "Param #"))
    print("=" * 80)
    for layer, shape, counts in rows:
        print(line.format(layer, shape, counts[0]))
    print("=" * 80)
    print("Parameters in forward computation graph, duplicate included")
    print(f"   Total params: {total}")
    print(f"   Trainable params: {trainable}")
    print(f"   Non-trainable params: {total - trainable}")
    print(f"Shared params in forward computation graph: {shared}")
    print(f"Unique parameters in model: {total - shared}")
    print("-" * 80)
