"""The updater: an optimizer with the states of the parameters that it has met.

A trainer, a module or a kvstore calls ``updater(index, grad, weight)``; states come into being at the first call.
"""

from __future__ import annotations

import pickle
from typing import Any

from .. import ndarray as nd
from ._base import Optimizer

_NDArray = nd.NDArray


def _as_classic(array: Any, allow_np: bool) -> Any:
    """Return `array` as an ``nd`` array: the update rules are written with the operators of ``nd``."""
    if type(array) is _NDArray:
        return array
    convert = getattr(array, "as_nd_ndarray", None)
    classic = array if convert is None else convert()
    if classic is not array and not allow_np:
        raise ValueError("Converting np.ndarray to mx.nd.NDArray is not allowed")
    return classic


class Updater:
    """Apply an optimizer to parameters told apart by index.

    Parameters
    ----------
    optimizer : Optimizer
        What to apply.
    """

    def __init__(self, optimizer: Optimizer) -> None:
        self.optimizer = optimizer
        self.states: dict[Any, Any] = {}
        self.states_synced: dict[Any, bool] = {}
        self.aggregate_updates = optimizer.aggregate_num > 0

    def __call__(self, index: Any, grad: Any, weight: Any) -> None:
        """Update one parameter, or lists of parameters, in place.

        Parameters
        ----------
        index : int or str, or list of them
            Keys of the states.
        grad, weight : NDArray or list of NDArray
            Gradients and the weights to change.
        """
        optimizer = self.optimizer
        allow_np = getattr(optimizer, "allow_np_array", True)  # pickles of older optimizers lack it
        if isinstance(index, (list, tuple)):
            indices: Any = [i.decode() if isinstance(i, bytes) else i for i in index]
            grads: Any = [_as_classic(g, allow_np) for g in grad]
            weights: Any = [_as_classic(w, allow_np) for w in weight]
        else:
            indices = (index.decode() if isinstance(index, bytes) else index,)
            grads = (_as_classic(grad, allow_np),)
            weights = (_as_classic(weight, allow_np),)
        if weights:
            optimizer._set_current_context(weights[0].context.device_id)
        states, synced = self.states, self.states_synced
        for i, w in zip(indices, weights):
            if i not in states:
                states[i] = optimizer.create_state_multi_precision(i, w)
                synced[i] = True
            elif not synced[i]:
                states[i] = self.sync_state_context(states[i], w.context)
                synced[i] = True
        if self.aggregate_updates:
            self._update_in_groups(indices, grads, weights)
        else:
            update = optimizer.update_multi_precision
            for i, w, g in zip(indices, weights, grads):
                update(i, w, g, states[i])

    def _update_in_groups(self, indices: Any, grads: Any, weights: Any) -> None:
        """Hand over lists of one dtype, at most ``aggregate_num`` long."""
        by_dtype: dict[Any, list[tuple[Any, Any, Any]]] = {}
        for i, w, g in zip(indices, weights, grads):
            by_dtype.setdefault(w.dtype, []).append((i, w, g))
        size = self.optimizer.aggregate_num
        for members in by_dtype.values():
            for start in range(0, len(members), size):
                some_indices, some_weights, some_grads = zip(*members[start : start + size])
                some_states = [self.states[i] for i in some_indices]
                self.optimizer.update_multi_precision(some_indices, some_weights, some_grads, some_states)

    def sync_state_context(self, state: Any, context: Any) -> Any:
        """Return `state` on device `context`; arrays that are there already are not copied."""
        if isinstance(state, _NDArray):
            return state.as_in_context(context)
        if isinstance(state, (tuple, list)):
            return type(state)(self.sync_state_context(part, context) for part in state)
        return state

    def set_states(self, states: bytes) -> None:
        """Take over states written by :meth:`get_states`, and the optimizer if it was written too.

        Notes
        -----
        The format is MXNet's: a pickle. Loading a pickle runs code of its author, so load trusted data only.
        """
        loaded = pickle.loads(states)
        if isinstance(loaded, tuple) and len(loaded) == 2:
            self.states, self.optimizer = loaded
        else:
            self.states = loaded
        self.aggregate_updates = self.optimizer.aggregate_num > 0
        self.states_synced = dict.fromkeys(self.states, False)

    def get_states(self, dump_optimizer: bool = False) -> bytes:
        """Return the states as bytes (a pickle), with the optimizer itself if `dump_optimizer`; blocks until ready."""
        return pickle.dumps((self.states, self.optimizer) if dump_optimizer else self.states)


def get_updater(optimizer: Optimizer) -> Updater:
    """Return an :class:`Updater` of `optimizer`, the callable ``updater(index, grad, weight)``."""
    return Updater(optimizer)
