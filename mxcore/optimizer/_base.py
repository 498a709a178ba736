"""The optimizer contract: what a training loop, a trainer and a kvstore ask of an optimizer.

An optimizer is called with an index, a weight, its gradient and its state, and changes weight and state in place.
Learning rate and weight decay of a parameter are the optimizer's own, times the parameter's multipliers. Updates are
counted per index and per device; ``num_update``, the largest count, is what a learning-rate schedule is asked with.

How updates are called is MXNet's: with ``aggregate_num == 0`` one parameter at a time; with ``aggregate_num > 0``
:class:`~mxcore.optimizer.Updater` hands lists of up to that many parameters to ``update_multi_precision``.
"""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from .. import ndarray as nd

float16 = np.dtype(np.float16)


def zeros_state(weight: Any, keep_stype: bool = True) -> Any:
    """Return zeros with the shape, device and dtype of `weight`, and its storage type if `keep_stype`."""
    if keep_stype and weight.stype != "default":
        return nd.zeros(weight.shape, ctx=weight.context, dtype=weight.dtype, stype=weight.stype)
    return nd.zeros(weight.shape, ctx=weight.context, dtype=weight.dtype)


def aggregation_size(default: int) -> int:
    """Return how many parameters one update call takes: ``MXNET_OPTIMIZER_AGGREGATION_SIZE`` or `default`."""
    text = os.environ.get("MXNET_OPTIMIZER_AGGREGATION_SIZE")
    return default if text is None else int(text)


class Optimizer:
    """Base of the optimizers.

    Parameters
    ----------
    rescale_grad : float
        Factor on every gradient, usually ``1 / batch_size``.
    param_idx2name : dict of int to str, optional
        Names of the indices; names decide the default weight decay (only ``_weight`` and ``_gamma`` decay).
    wd : float
        Weight decay, the factor of ``0.5 * |weight|^2`` in the loss.
    clip_gradient : float, optional
        Bound of each element of the rescaled gradient.
    learning_rate : float, optional
        0.01 by default; overrides the base rate of `lr_scheduler`.
    lr_scheduler : LRScheduler, optional
        From ``num_update`` to the learning rate.
    sym : Symbol, optional
        Its attributes ``__lr_mult__`` and ``__wd_mult__`` become multipliers.
    begin_num_update : int
        First count of updates.
    multi_precision : bool
        Keep a float32 copy of float16 weights and update that.
    param_dict : dict of int to Parameter, optional
        Parameters whose ``lr_mult`` and ``wd_mult`` count, before any other multiplier.
    """

    opt_registry: dict[str, type[Optimizer]] = {}  # noqa: RUF012  (one table for all, part of MXNet's interface)

    def __init__(
        self,
        rescale_grad: float = 1.0,
        param_idx2name: dict[Any, str] | None = None,
        wd: float = 0.0,
        clip_gradient: float | None = None,
        learning_rate: float | None = None,
        lr_scheduler: Any = None,
        sym: Any = None,
        begin_num_update: int = 0,
        multi_precision: bool = False,
        param_dict: dict[Any, Any] | None = None,
    ) -> None:
        if learning_rate is None:
            if lr_scheduler is None:
                learning_rate = 0.01
        elif lr_scheduler is not None and lr_scheduler.base_lr != learning_rate:
            # MXNet prints the warning object; users rely on no warning being raised here.
            print(UserWarning("learning_rate of the optimizer replaces base_lr of its lr_scheduler."))
            lr_scheduler.base_lr = learning_rate
        if param_idx2name is None:
            param_idx2name = {}
        if not isinstance(param_idx2name, dict):
            raise AssertionError("param_idx2name should be a dict of param indexes to names.")
        self.rescale_grad = rescale_grad
        self.lr_scheduler = lr_scheduler
        self.lr: Any = learning_rate
        self.wd = wd
        self.lr_mult: dict[Any, float] = {}
        self.wd_mult: dict[Any, float] = {}
        self.begin_num_update = begin_num_update
        self.num_update = begin_num_update
        self._all_index_update_counts: dict[int, dict[Any, int]] = {0: {}}
        self._index_update_count = self._all_index_update_counts[0]
        self.clip_gradient = clip_gradient
        self.multi_precision = multi_precision
        self.aggregate_num = 0
        self.idx2name = param_idx2name.copy()
        self.sym_info: tuple[Any, ...] = (sym.attr_dict(), sym.list_arguments()) if sym is not None else ()
        self.param_dict = param_dict if param_dict else {}
        self.allow_np_array = True
        self.set_lr_mult({})
        self.set_wd_mult({})

    # -- registry ---------------------------------------------------------------------------------------------------

    @staticmethod
    def register(klass: type[Optimizer]) -> type[Optimizer]:
        """Class decorator: make an optimizer known by its lower-case name. A second class of a name warns and wins."""
        if not isinstance(klass, type):
            raise AssertionError(f"register: {klass!r} is not a class.")
        name = klass.__name__.lower()
        known = Optimizer.opt_registry.get(name)
        if known is not None:
            warnings.warn(
                f"New optimizer {klass.__module__}.{klass.__name__} is overriding existing optimizer "
                f"{known.__module__}.{known.__name__}",
                stacklevel=2,
            )
        Optimizer.opt_registry[name] = klass
        return klass

    @staticmethod
    def create_optimizer(name: str, **kwargs: Any) -> Optimizer:
        """Return a new optimizer of the registered class `name` (case does not matter).

        Raises
        ------
        ValueError
            If no class of that name is registered.

        Examples
        --------
        >>> from mxcore import optimizer
        >>> optimizer.create("sgd", learning_rate=0.5).learning_rate
        0.5
        """
        klass = Optimizer.opt_registry.get(name.lower())
        if klass is None:
            raise ValueError(
                f"Cannot find optimizer {name}: registered are {', '.join(sorted(Optimizer.opt_registry))}. "
                f"Register your own class with mx.optimizer.register."
            )
        return klass(**kwargs)

    # -- state and update, for subclasses ----------------------------------------------------------------------------

    def create_state(self, index: Any, weight: Any) -> Any:
        """Return the state of parameter `index`: None, an array or a tuple of arrays."""
        return None

    def create_state_multi_precision(self, index: Any, weight: Any) -> Any:
        """Return the state, with the float32 copy of a float16 weight if ``multi_precision`` is on."""
        if weight.dtype == float16:
            if self.multi_precision:
                master = weight.astype("float32")
                return self._with_master(master, self.create_state(index, master))
            warnings.warn(
                "Accumulating with float16 in optimizer can lead to poor accuracy or slow convergence. "
                f"Consider using multi_precision=True option of the {type(self).__name__} optimizer",
                stacklevel=2,
            )
        return self.create_state(index, weight)

    def _with_master(self, master: Any, state: Any) -> tuple[Any, Any]:
        return (master, state)

    def update(self, index: Any, weight: Any, grad: Any, state: Any) -> None:
        """Change `weight` and `state` in place by one step along `grad`; does not block."""
        raise NotImplementedError()

    def update_multi_precision(self, index: Any, weight: Any, grad: Any, state: Any) -> None:
        """Like :meth:`update`, through the float32 copy if there is one."""
        if self.multi_precision and weight.dtype == float16:
            master, inner = state
            self.update(index, master, grad.astype("float32"), inner)
            nd.cast(master, dtype=weight.dtype, out=weight)
        else:
            self.update(index, weight, grad, state)

    # -- learning rate and multipliers -------------------------------------------------------------------------------

    @property
    def learning_rate(self) -> float:
        """The rate before multipliers, at the present number of updates."""
        return self.lr if self.lr_scheduler is None else self.lr_scheduler(self.num_update)

    def set_learning_rate(self, lr: float) -> None:
        """Set the learning rate.

        Raises
        ------
        UserWarning
            If a schedule decides the rate (raised, as MXNet does).
        """
        if self.lr_scheduler is not None:
            raise UserWarning(
                "The LRScheduler of this optimizer decides its learning rate; set_learning_rate works only on an "
                "optimizer without one. Change lr_scheduler.base_lr instead."
            )
        self.lr = lr

    def set_lr_scale(self, args_lrscale: Any) -> None:
        """[Deprecated] Raises ``DeprecationWarning``; use :meth:`set_lr_mult`."""
        raise DeprecationWarning("set_lr_scale is gone: use set_lr_mult.")

    def _symbol_multipliers(self, attribute: str) -> dict[Any, float]:
        if not self.sym_info:
            return {}
        attributes, names = self.sym_info
        return {name: float(attributes[name][attribute]) for name in names if attribute in attributes.get(name, ())}

    def set_lr_mult(self, args_lr_mult: dict[Any, float]) -> None:
        """Replace the learning-rate multipliers, by index or name; the symbol's own count where none is given."""
        self.lr_mult = self._symbol_multipliers("__lr_mult__")
        self.lr_mult.update(args_lr_mult)

    _decaying: tuple[str, ...] = ("_weight", "_gamma")

    def set_wd_mult(self, args_wd_mult: dict[Any, float]) -> None:
        """Replace the weight-decay multipliers, by index or name.

        Names known from ``param_idx2name`` that end in neither ``_weight`` nor ``_gamma`` start with 0.
        """
        self.wd_mult = {name: 0.0 for name in self.idx2name.values() if not name.endswith(self._decaying)}
        self.wd_mult.update(self._symbol_multipliers("__wd_mult__"))
        self.wd_mult.update(args_wd_mult)

    # -- counts ------------------------------------------------------------------------------------------------------

    def _set_current_context(self, device_id: int) -> None:
        counts = self._all_index_update_counts.get(device_id)
        if counts is None:
            counts = self._all_index_update_counts[device_id] = {}
        self._index_update_count = counts

    def _update_count(self, index: Any) -> None:
        """Count one update of `index`, or of each of a list of indices."""
        counts = self._index_update_count
        for i in index if isinstance(index, (list, tuple)) else (index,):
            count = counts.get(i, self.begin_num_update) + 1
            counts[i] = count
            if count > self.num_update:
                self.num_update = count

    def _get_lr(self, index: Any) -> float:
        return self._get_lrs((index,))[0]

    def _get_lrs(self, indices: Sequence[Any]) -> list[float]:
        lr = self.lr if self.lr_scheduler is None else self.lr_scheduler(self.num_update)
        params, mults, names = self.param_dict, self.lr_mult, self.idx2name
        return [
            lr * params[i].lr_mult
            if i in params
            else lr * mults[i]
            if i in mults
            else lr * mults.get(names[i], 1.0)
            if i in names
            else lr
            for i in indices
        ]

    def _get_wd(self, index: Any) -> float:
        return self._get_wds((index,))[0]

    def _get_wds(self, indices: Sequence[Any]) -> list[float]:
        wd = self.wd
        params, mults, names = self.param_dict, self.wd_mult, self.idx2name
        return [
            wd * params[i].wd_mult
            if i in params
            else wd * mults[i]
            if i in mults
            else wd * mults.get(names[i], 1.0)
            if i in names
            else wd
            for i in indices
        ]

    def _begin(self, index: Any) -> tuple[float, float]:
        """Count the update of one parameter and return its learning rate and weight decay."""
        self._update_count(index)
        return self._get_lr(index), self._get_wd(index)

    # -- gradients, for optimizers written in array operations --------------------------------------------------------

    def _rescaled(self, grad: Any) -> Any:
        return grad if self.rescale_grad == 1 else grad * self.rescale_grad

    def _clipped(self, grad: Any) -> Any:
        return grad if self.clip_gradient is None else nd.clip(grad, -self.clip_gradient, self.clip_gradient)

    @property
    def _clip(self) -> float:
        """The bound as the update operators take it: negative means none."""
        return self.clip_gradient or -1.0

    # -- pickling ----------------------------------------------------------------------------------------------------

    def __getstate__(self) -> dict[str, Any]:
        state = self.__dict__.copy()
        del state["param_dict"]  # holds parameters, which do not travel with an optimizer
        return state

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__ = state
        self.param_dict = {}


register: Callable[..., Any] = Optimizer.register
create: Callable[..., Optimizer] = Optimizer.create_optimizer
