"""The Trainer: one optimizer over a set of parameters, on one context or several.

With several contexts the gradients of a parameter are added up first. By default the sum then updates the copy on
the first context, which is copied to the others, so there is one set of optimizer states (``update_on_kvstore``);
otherwise every context gets the sum and updates its own copy.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from typing import Any

from .. import autograd, ndarray
from .. import optimizer as opt
from .._files import replacing
from ..base import MXNetError
from ..context import Context
from .parameter import Parameter, ParameterDict

__all__ = ["Trainer"]

#: Stores of one process, all served by :class:`_DeviceStore`.
_LOCAL_STORES = ("local", "device", "local_allreduce_cpu", "local_allreduce_device", "local_update_cpu", "nccl")
#: Above this many elements in one parameter, store 'local' leaves updates to the contexts (as MXNet does).
_BIG_PARAMETER = 16 * 1024 * 1024


class _ArrayParameter(Parameter):
    """A bare array with an attached gradient, seen as a parameter; updates write to the array itself."""

    def __init__(self, name: str, array: Any) -> None:
        super().__init__(name, shape=array.shape, dtype=array.dtype)
        self._data = [array]
        self._ctx_list = [array.ctx]
        self._ctx_map = {(array.ctx.device_typeid & 1, array.ctx.device_id): 0}

    @property
    def _grad(self) -> list[Any] | None:
        # Read anew every time: attach_grad() on the array makes a new gradient.
        if self._data is None or self._data[0].grad is None:
            return None
        return [self._data[0].grad]

    @_grad.setter
    def _grad(self, value: Any) -> None:
        """The array owns its gradient; :class:`Parameter` has nothing to set."""


class _DeviceStore:
    """Adds up gradients over contexts in this process; part of the KVStore contract that the Trainer needs."""

    rank = 0
    num_workers = 1

    def __init__(self, kind: str) -> None:
        self.type = kind
        self._updater: Any = None
        self._stored: dict[Any, Any] = {}

    def is_capable(self, capability: str) -> bool:
        """It can run the optimizer."""
        return capability.lower() == "optimizer"

    def set_optimizer(self, optimizer: Any) -> None:
        """Update with this optimizer where values are kept."""
        self._updater = opt.get_updater(optimizer)

    def broadcast(self, key: Any, value: Any, out: Sequence[Any], priority: int = 0) -> None:
        """Keep ``value`` and copy it to every other array of ``out``."""
        self._stored[key] = value
        _copy_to_all(value, out)

    def pushpull(self, key: Any, value: Sequence[Any], out: Sequence[Any] | None = None, priority: int = 0) -> None:
        """Add up ``value``; write the sum, or the value updated with it, to every array of ``out``."""
        with autograd.pause():
            total = value[0]
            if len(value) > 1:
                total = ndarray.add_n(*(array.as_in_context(total.ctx) for array in value))
            if self._updater is not None:
                stored = self._stored[key]
                self._updater(key, total, stored)
                total = stored
        _copy_to_all(total, value if out is None else out)

    def save_optimizer_states(self, fname: str, dump_optimizer: bool = False) -> None:
        """Write the updater's states."""
        states = self._updater.get_states(dump_optimizer)
        with replacing(fname) as file:
            file.write(states)

    def load_optimizer_states(self, fname: str) -> None:
        """Read the updater's states."""
        with open(fname, "rb") as file:
            self._updater.set_states(file.read())


def _copy_to_all(value: Any, out: Sequence[Any]) -> None:
    with autograd.pause():  # Writing parameters is no part of what the caller may be recording.
        for array in out:
            if array is not value:
                array[:] = value.as_in_context(array.ctx)


class Trainer:
    """Applies an optimizer to parameters, with the gradients that backward left.

    Parameters
    ----------
    params : ParameterDict, dict or list of Parameter, or list of NDArray
        What to train. NDArrays need attached gradients and are updated in place.
    optimizer : str or Optimizer
        Name or instance.
    optimizer_params : dict, optional
        Arguments of the optimizer, if it is given by name.
    kvstore : str, KVStore or None
        How gradients are combined when there are several contexts: ``'device'`` and ``'local'`` add them up in this
        process. Unused with one context, unless it is a KVStore object.
    compression_params : dict, optional
        Gradient compression; only stores given as objects may offer it.
    update_on_kvstore : bool, optional
        Update where values are kept, or every copy by itself. By default environment variable
        ``MXNET_UPDATE_ON_KVSTORE`` decides, and it is yes.

    Raises
    ------
    ValueError
        ``params`` holds something that cannot be trained.

    Examples
    --------
    >>> import mxcore as mx
    >>> w = mx.nd.array([1.0])
    >>> w.attach_grad()
    >>> trainer = mx.gluon.Trainer([w], "sgd", {"learning_rate": 0.5})
    >>> with mx.autograd.record():
    ...     loss = w * w
    >>> loss.backward()
    >>> trainer.step(batch_size=1)
    >>> w.asscalar().item()
    0.0
    """

    def __init__(
        self,
        params: Any,
        optimizer: Any,
        optimizer_params: dict[str, Any] | None = None,
        kvstore: Any = "device",
        compression_params: dict[str, Any] | None = None,
        update_on_kvstore: bool | None = None,
    ) -> None:
        self._params = _as_parameters(params)
        self._param2idx = {parameter.name: index for index, parameter in enumerate(self._params)}
        for parameter in self._params:
            parameter._set_trainer(self)
        self._contains_sparse_weight = any(parameter._stype != "default" for parameter in self._params)
        self._contains_sparse_grad = any(parameter._grad_stype != "default" for parameter in self._params)
        self._compression_params = compression_params
        self._contexts = self._check_contexts()
        self._init_optimizer(optimizer, optimizer_params or {})
        self._scale = self._optimizer.rescale_grad
        self._kvstore_params = {"kvstore": kvstore, "update_on_kvstore": update_on_kvstore}
        self._kvstore: Any = None
        self._reset_kvstore()

    # -- optimizer -------------------------------------------------------------------------------------------

    @property
    def optimizer(self) -> Any:
        """The optimizer."""
        return self._optimizer

    @property
    def learning_rate(self) -> float:
        """The optimizer's learning rate now."""
        return self._optimizer.learning_rate

    def set_learning_rate(self, lr: float) -> None:
        """Set the optimizer's learning rate."""
        self._optimizer.set_learning_rate(lr)

    def _init_optimizer(self, optimizer: Any, optimizer_params: dict[str, Any]) -> None:
        # The very parameters, not copies: changing lr_mult or wd_mult of one takes effect.
        by_index = dict(enumerate(self._params))
        if isinstance(optimizer, opt.Optimizer):
            if optimizer_params:
                raise AssertionError(
                    "optimizer_params were given together with an Optimizer instance, which has its own. Leave them "
                    "out, or name the optimizer by a string."
                )
            self._optimizer = optimizer
            self._optimizer.param_dict = by_index
        else:
            self._optimizer = opt.create(optimizer, param_dict=by_index, **optimizer_params)
        self._updaters = [opt.get_updater(self._optimizer) for _ in self._contexts]

    def _check_contexts(self) -> list[Context]:
        contexts: list[Context] | None = None
        for parameter in self._params:
            own = parameter.list_ctx()
            if contexts is not None and contexts != own:
                raise AssertionError(
                    f"all Parameters must be on the same contexts, but Parameter '{parameter.name}' is on {own} and "
                    f"those before it on {contexts}. Initialize them together, or call reset_ctx()."
                )
            contexts = own
        return contexts or []

    # -- store -----------------------------------------------------------------------------------------------

    def _reset_kvstore(self) -> None:
        """Forget the store; the next step makes a new one from the values then."""
        if self._kvstore and "dist" in self._kvstore.type:
            raise MXNetError("values kept by a distributed kvstore cannot be replaced while training.")
        self._kv_initialized = False
        self._kvstore = None
        self._distributed = False
        self._update_on_kvstore: bool | None = None
        self._params_to_init = list(self._params)

    def _init_kvstore(self) -> None:
        wanted, on_store = self._kvstore_params["kvstore"], self._kvstore_params["update_on_kvstore"]
        store: Any = None
        if isinstance(wanted, str):
            if wanted not in _LOCAL_STORES:
                raise MXNetError(
                    f"there is no kvstore '{wanted}' in this version of mxcore: a Trainer takes "
                    f"{', '.join(_LOCAL_STORES)}, None, or an object with the KVStore contract."
                )
            if len(self._contexts) > 1:
                store = _DeviceStore(wanted)
        elif wanted is not None:
            store = wanted
        if self._contains_sparse_weight and not hasattr(store, "row_sparse_pull"):
            sparse = next(parameter for parameter in self._params if parameter._stype != "default")
            raise MXNetError(
                f"Parameter '{sparse.name}' has storage type '{sparse._stype}', whose rows a kvstore must keep, and "
                "this version of mxcore has none that does. Use stype='default'."
            )
        if store is None:
            self._update_on_kvstore = None
        else:
            self._update_on_kvstore = self._decide_update_on_kvstore(store, on_store)
            self._distributed = "dist" in store.type
            if self._compression_params:
                if not hasattr(store, "set_gradient_compression"):
                    raise MXNetError(
                        f"kvstore '{store.type}' does not compress gradients. Leave compression_params out."
                    )
                store.set_gradient_compression(self._compression_params)
            if self._update_on_kvstore:
                store.set_optimizer(self._optimizer)
        self._kvstore = store
        self._kv_initialized = True

    def _decide_update_on_kvstore(self, store: Any, wanted: bool | None) -> bool:
        """Where updates run: as asked, else as the environment says, if the store can."""
        on_store = wanted
        if self._contains_sparse_weight:
            if wanted is False:
                raise ValueError(
                    "parameters with sparse storage are updated on the kvstore; update_on_kvstore=False cannot be."
                )
            on_store = True
        elif wanted is None:
            on_store = bool(int(os.environ.get("MXNET_UPDATE_ON_KVSTORE", "1"))) and not self._contains_sparse_grad
            if store.type == "local":
                on_store = on_store and max(p.data(self._contexts[0]).size for p in self._params) <= _BIG_PARAMETER
        is_capable = getattr(store, "is_capable", None)
        capable = is_capable("optimizer") if is_capable else hasattr(store, "set_optimizer")
        if on_store and not capable:
            if wanted:
                raise ValueError(f"{type(store)} cannot run an optimizer. Set update_on_kvstore=False.")
            on_store = False
        return bool(on_store)

    def _init_params(self) -> None:
        """Hand parameters to the store, except those that have no value yet."""
        waiting = []
        if self._kvstore:
            for parameter in self._params_to_init:
                if parameter._deferred_init:
                    waiting.append(parameter)
                    continue
                arrays = parameter._check_and_get(parameter._data, list)
                index = self._param2idx[parameter.name]
                if parameter._stype != "default":
                    self._kvstore.init(index, arrays[0])
                else:
                    self._kvstore.broadcast(index, arrays[0], arrays)
        self._params_to_init = waiting

    def _prepare(self) -> None:
        if not self._kv_initialized:
            self._init_kvstore()
        if self._params_to_init:
            self._init_params()

    def _row_sparse_pull(self, parameter: Parameter, out: Any, row_id: Any, full_idx: bool = False) -> None:
        """Have the store write rows ``row_id`` of a sparse parameter to ``out``."""
        self._prepare()
        index = self._param2idx[parameter.name]
        self._kvstore.row_sparse_pull(index, out=out, row_ids=row_id, priority=-index)

    # -- training --------------------------------------------------------------------------------------------

    def step(self, batch_size: float, ignore_stale_grad: bool = False) -> None:
        """Update all parameters once: add up gradients over contexts, divide by ``batch_size``, run the optimizer.

        Parameters
        ----------
        batch_size : int
            Gradients are divided by it. 1 if the loss is a mean over the batch already.
        ignore_stale_grad : bool
            Skip parameters whose gradient backward has not renewed since the last step, instead of raising.

        Raises
        ------
        UserWarning
            A gradient is stale (raised as an error, as in MXNet).
        """
        self._check_and_rescale_grad(self._scale / batch_size)
        if not self._kv_initialized or self._params_to_init:
            self._prepare()
        if self._kvstore is not None:
            self._allreduce_grads()
        self._update(ignore_stale_grad)

    def allreduce_grads(self) -> None:
        """Only add up gradients over contexts: for changing them before :meth:`update`."""
        self._prepare()
        self._refuse_if_on_store("allreduce_grads()")
        self._allreduce_grads()

    def update(self, batch_size: float, ignore_stale_grad: bool = False) -> None:
        """Only run the optimizer, after :meth:`allreduce_grads`; arguments as for :meth:`step`."""
        self._prepare()
        self._refuse_if_on_store("update()")
        self._check_and_rescale_grad(self._scale / batch_size)
        self._update(ignore_stale_grad)

    def _refuse_if_on_store(self, call: str) -> None:
        if self._kvstore is not None and self._update_on_kvstore:
            raise AssertionError(
                f"{call} is not possible while parameters are updated on the kvstore. Make the Trainer with "
                "update_on_kvstore=False, or call step()."
            )

    def _check_and_rescale_grad(self, scale: float) -> None:
        if (
            self._update_on_kvstore
            and self._distributed
            and self._kv_initialized
            and self._optimizer.rescale_grad != scale
        ):
            raise UserWarning(
                f"the batch size changed (gradients would be scaled by {scale}, not {self._optimizer.rescale_grad}), "
                "which a distributed kvstore that runs the optimizer does not notice. Keep it, or set "
                "update_on_kvstore=False."
            )
        self._optimizer.rescale_grad = scale

    def _allreduce_grads(self) -> None:
        if self._kvstore is None:
            return
        for index, parameter in enumerate(self._params):
            if parameter.grad_req != "null":
                out = {"out": parameter.list_data()} if self._update_on_kvstore else {}
                self._kvstore.pushpull(index, parameter.list_grad(), priority=-index, **out)

    def _update(self, ignore_stale_grad: bool = False) -> None:
        # Per batch and parameter: plain loops, one call of the updater per context.
        on_store = self._kvstore is not None and self._update_on_kvstore
        updates: list[tuple[list[int], list[Any], list[Any]]] = [([], [], []) for _ in self._updaters]
        for index, parameter in enumerate(self._params):
            gradients = parameter._grad
            if gradients is None:
                if parameter._data is None and parameter.grad_req != "null":
                    parameter._check_and_get(None, list)  # raises: not initialized
                continue
            for (indices, grads, arrays), array, gradient in zip(updates, parameter._data or (), gradients):
                fresh = array._fresh_grad
                if not fresh:
                    if ignore_stale_grad:
                        continue
                    raise UserWarning(
                        f"the gradient of Parameter '{parameter.name}' on {array.ctx} was not renewed by backward "
                        "since the last step. Maybe the model did not use this Parameter, or backward was not called. "
                        "If that is meant, pass ignore_stale_grad=True to skip such Parameters."
                    )
                if not on_store:
                    indices.append(index)
                    grads.append(gradient)
                    arrays.append(array)
        if on_store:
            return
        for updater, (indices, grads, arrays) in zip(self._updaters, updates):
            if indices:
                updater(indices, grads, arrays)
                for array in arrays:
                    array._fresh_grad = False

    # -- files -----------------------------------------------------------------------------------------------

    def save_states(self, fname: str) -> None:
        """Write optimizer and states (momentum, ...) to a file."""
        self._prepare()
        if self._update_on_kvstore:
            if self._params_to_init:
                names = ", ".join(parameter.name for parameter in self._params_to_init)
                raise AssertionError(f"states cannot be saved while Parameters have no value yet: {names}.")
            self._kvstore.save_optimizer_states(fname, dump_optimizer=True)
        else:
            states = self._updaters[0].get_states(dump_optimizer=True)
            with replacing(fname) as file:
                file.write(states)

    def load_states(self, fname: str) -> None:
        """Read what :meth:`save_states` wrote. The file may run code when read (a pickle): only load what you trust."""
        self._prepare()
        if self._update_on_kvstore:
            self._kvstore.load_optimizer_states(fname)
            self._optimizer = self._kvstore._updater.optimizer
        else:
            with open(fname, "rb") as file:
                states = file.read()
            for updater in self._updaters:
                updater.set_states(states)
                updater.optimizer = self._updaters[0].optimizer
            self._optimizer = self._updaters[0].optimizer
        self._optimizer.param_dict = dict(enumerate(self._params))


def _as_parameters(params: Any) -> list[Parameter]:
    """What a Trainer was given, as a list; dictionaries in the order of their keys."""
    if isinstance(params, (dict, ParameterDict)):
        params = [params[key] for key in sorted(params.keys())]
    if not isinstance(params, (list, tuple)):
        raise ValueError(f"a Trainer takes a list or dict of Parameters or NDArrays, got {type(params)}.")
    return list(_checked(params))


def _checked(params: Iterable[Any]) -> Iterable[Parameter]:
    for index, parameter in enumerate(params):
        if isinstance(parameter, ndarray.NDArray):
            if parameter.grad is None:
                raise ValueError(
                    f"array {index} given to the Trainer has no gradient. Call attach_grad() on it before recording."
                )
            yield _ArrayParameter(f"array{index}", parameter)
        elif isinstance(parameter, Parameter):
            yield parameter
        else:
            raise ValueError(f"a Trainer takes Parameters or NDArrays, got a list with a {type(parameter)}.")
