"""``foreach``, ``while_loop`` and ``cond`` of ``mx.nd.contrib``: control flow in Python over NDArrays.

The functions given are run as they are, step by step, so autograd records whatever they do.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from ..dispatch.functions import call
from ..spec.errors import ParameterError, ShapeError
from .creation import zeros
from .ndarray import NDArray

__all__ = ["cond", "foreach", "while_loop"]


def _leaves(value: Any, what: str) -> list[NDArray]:
    """Return the arrays in nested lists or tuples, in order.

    Raises
    ------
    AssertionError
        If there is anything else.
    """
    if isinstance(value, NDArray):
        return [value]
    if not isinstance(value, list | tuple):
        raise AssertionError(f"{what} must be (nested) list of NDArray, but got {value} of type {type(value)}.")
    return [leaf for part in value for leaf in _leaves(part, what)]


def _map(fn: Callable[[NDArray], Any], value: Any) -> Any:
    """Return ``fn`` of every array, in lists nested like ``value``."""
    return fn(value) if isinstance(value, NDArray) else [_map(fn, part) for part in value]


def _regrouped(leaves: Sequence[Any], like: Any) -> Any:
    """Return ``leaves`` in lists nested like ``like``."""
    rest = iter(leaves)
    return _map(lambda _: next(rest), like)


def _listed(value: Any) -> Any:
    return value if isinstance(value, list | tuple) else [value]


def _python(value: Any, kind: type, name: str) -> Any:
    """Return an array of one element, or any other value, as a Python ``kind``. Blocks."""
    if isinstance(value, NDArray):
        value = value.asscalar()
    try:
        return kind(value)
    except Exception as e:
        raise ParameterError(f"Cannot convert {name} to python {kind.__name__}: it is {value!r}.") from e


def foreach(body: Callable[[Any, Any], Any], data: Any, init_states: Any, name: Any = None) -> tuple[Any, Any]:
    """Call ``body`` on every slice of ``data`` along axis 0, handing states on from each call to the next.

    Parameters
    ----------
    body : callable
        ``body(slices, states) -> (outputs, new states)``, each an NDArray or nested lists of them.
    data : NDArray or nested list of NDArray
        As many slices are taken as the first array has.
    init_states : NDArray or nested list of NDArray
        States for the first call.
    name : str, optional
        Without effect: it names a node of a graph, and here is none.

    Returns
    -------
    outputs : NDArray or nested list of NDArray
        Outputs of all calls, stacked along a new axis 0.
    states : NDArray or nested list of NDArray
        What the last call returned.

    Raises
    ------
    AssertionError
        If data, states or outputs hold anything but NDArrays.
    ParameterError
        If there is no slice, or the number of outputs changes.

    Examples
    --------
    >>> import mxcore as mx
    >>> data, total = mx.nd.array([[1, 2], [3, 4]]), mx.nd.zeros((2,))
    >>> sums, total = mx.nd.contrib.foreach(lambda x, s: (x + s, x + s), data, total)
    >>> sums.asnumpy().tolist(), total.asnumpy().tolist()
    ([[1.0, 2.0], [4.0, 6.0]], [4.0, 6.0])
    """
    arrays = _leaves(data, "foreach input")
    _leaves(init_states, "foreach states")
    count = arrays[0].shape[0] if arrays else 0
    if not count:
        raise ParameterError(
            f"foreach needs at least one slice, but data has {'none along axis 0' if arrays else 'no array'}: "
            "without a call of body the structure of its outputs is not known."
        )
    states, outputs, steps = init_states, None, []
    for i in range(count):
        outputs, states = body(_map(lambda x, i=i: x[i], data), states)  # type: ignore[misc]
        steps.append(_leaves(outputs, "foreach output"))
        _same_length(steps[0], steps[-1], i, "foreach output")
    return _regrouped([call("stack", items, cls=NDArray) for items in zip(*steps)], outputs), states


def _same_length(first: Sequence[NDArray], items: Sequence[NDArray], step: int, what: str) -> None:
    if len(items) != len(first):
        raise ParameterError(
            f"Number of elements in {what} should be the same in each step, but step 0 has {len(first)} and "
            f"step {step} has {len(items)}."
        )


def while_loop(
    cond: Callable[..., Any],
    func: Callable[..., Any],
    loop_vars: Any,
    max_iterations: Any = None,
    name: Any = None,
) -> tuple[Any, Any]:
    """Call ``func`` on the loop variables as long as ``cond`` of them is true.

    Parameters
    ----------
    cond : callable
        ``cond(*loop_vars)`` -> NDArray of one element, or a Python truth value.
    func : callable
        ``func(*loop_vars) -> (step outputs, new loop variables)``, each an NDArray, nested lists of them or None.
    loop_vars : NDArray or nested list of NDArray
        Loop variables for the first call.
    max_iterations : int
        Most calls of ``func``.
    name : str, optional
        Without effect: it names a node of a graph, and here is none.

    Returns
    -------
    outputs : NDArray or nested list of NDArray
        Step outputs stacked along a new axis 0 and filled up with zeros to the length ``max_iterations``. ``[]``
        without a call.
    loop_vars : NDArray or nested list of NDArray
        Loop variables at the end.

    Raises
    ------
    ParameterError
        If ``max_iterations`` or loop variables are missing, ``cond`` gives no truth value, or the number of outputs
        or loop variables changes.
    ShapeError
        If the shape of an output changes.
    AssertionError
        If outputs hold anything but NDArrays.

    Notes
    -----
    Every value of ``cond`` is waited for.

    Examples
    --------
    >>> import mxcore as mx
    >>> squares, i = mx.nd.contrib.while_loop(
    ...     lambda i: i < 3, lambda i: (i * i, i + 1), mx.nd.array([1]), max_iterations=4
    ... )
    >>> squares.asnumpy().tolist(), i.asnumpy().tolist()
    ([[1.0], [4.0], [0.0], [0.0]], [3.0])
    """
    if max_iterations is None:
        raise ParameterError("max_iterations should be specified: it is the most that while_loop calls func.")
    limit = _python(max_iterations, int, "max_iteration")
    if len(loop_vars) == 0:
        raise ParameterError("loop_vars should contain at least one element.")
    single = isinstance(loop_vars, NDArray)
    variables = _listed(loop_vars)
    outputs: Any = None
    steps: list[list[NDArray]] = []
    while len(steps) < limit and _python(cond(*variables), bool, "Return value of cond"):
        outputs, changed = func(*variables)
        outputs = [] if outputs is None else outputs
        changed = [] if changed is None else changed
        changed = list(changed) if isinstance(changed, tuple) else _listed(changed)
        if len(changed) != len(variables):
            raise ParameterError(
                f"The length of loop_vars should be consistent during the loop, but it went from {len(variables)} "
                f"to {len(changed)} in step {len(steps)}."
            )
        variables = changed
        steps.append(_leaves(outputs, "while output"))
        _same_length(steps[0], steps[-1], len(steps) - 1, "step_output")
    stacked = [_stacked(i, items, limit) for i, items in enumerate(zip(*steps), 1)]
    return _regrouped(stacked, outputs) if steps else [], variables[0] if single else variables


def _stacked(position: int, items: Sequence[NDArray], length: int) -> NDArray:
    """Return one output of all steps, filled up with zeros to ``length`` along axis 0."""
    first = items[0]
    if any(x.shape != first.shape for x in items):
        lines = [f"Shapes of {position}-th elements in step_outputs are inconsistent, which are:"]
        lines += [f"  Step {step}, shape is {x.shape}" for step, x in enumerate(items)]
        raise ShapeError("\n".join(lines), shapes=[x.shape for x in items])
    y = call("stack", items, cls=NDArray)
    if len(items) == length:
        return y
    rest = zeros((length - len(items), *first.shape), ctx=first.context, dtype=first.dtype)
    return call("concat", [y, rest], {"dim": 0}, cls=NDArray)


def cond(pred: Any, then_func: Callable[[], Any], else_func: Callable[[], Any], name: Any = None) -> Any:
    """Call one of two functions.

    Parameters
    ----------
    pred : NDArray
        One element, or a Python truth value. It is waited for.
    then_func, else_func : callable
        Called without arguments, the first if ``pred`` is true.
    name : str, optional
        Without effect: it names a node of a graph, and here is none.

    Returns
    -------
    NDArray or nested list of NDArray
        What the function returned.

    Raises
    ------
    ParameterError
        If ``pred`` has no truth value.
    ValueError
        If ``pred`` is an NDArray of several elements.

    Examples
    --------
    >>> import mxcore as mx
    >>> a, b = mx.nd.array([1]), mx.nd.array([2])
    >>> mx.nd.contrib.cond(a < b, lambda: a + b, lambda: a - b).asnumpy().tolist()
    [3.0]
    """
    return then_func() if _python(pred, bool, "pred") else else_func()
