"""Checks of symbols and hybrid blocks: against NumPy, numeric gradients, other devices, and themselves hybridized."""

from __future__ import annotations

import time
import traceback
from collections import OrderedDict
from collections.abc import Callable, Sequence
from importlib import import_module
from typing import Any

import numpy as np

from .. import ndarray as nd
from ..context import Context
from ..ndarray import array
from ._compare import _to_numpy, assert_almost_equal, default_numeric_eps, get_tolerance, get_tols
from ._context import default_context

_FLOATS = (np.float16, np.float32, np.float64)


def _check_dtype(dtype: Any, or_asnumpy: bool) -> None:
    if not (or_asnumpy and isinstance(dtype, str) and dtype == "asnumpy") and dtype not in _FLOATS:
        raise AssertionError(f"dtype must be float16, float32 or float64, not {dtype!r}.")


def _as_nd(value: Any, ctx: Context, dtype: Any) -> Any:
    if not isinstance(value, np.ndarray):
        return value
    as_it_is = isinstance(dtype, str) and dtype == "asnumpy"
    return nd.array(value, ctx=ctx, dtype=value.dtype if as_it_is else dtype)


def _named(names: Sequence[str], values: Any, what: str) -> dict[str, Any]:
    if isinstance(values, dict):
        if set(values) != set(names):
            raise ValueError(
                f"Symbol {what} and keys of the given values do not match. symbol {what}: {sorted(names)}, "
                f"keys: {sorted(values)}"
            )
        return dict(values)
    return dict(zip(names, values))


def _parse_location(sym: Any, location: Any, ctx: Context, dtype: Any) -> dict[str, Any]:
    named = _named(sym.list_arguments(), location, "arguments")
    return OrderedDict((k, _as_nd(named[k], ctx, dtype)) for k in sorted(named))


def _parse_aux_states(sym: Any, aux_states: Any, ctx: Context, dtype: Any) -> dict[str, Any] | None:
    if aux_states is None:
        return None
    named = _named(sym.list_auxiliary_states(), aux_states, "auxiliary states")
    return {k: _as_nd(np.asarray(_to_numpy(v)), ctx, dtype) for k, v in named.items()}


def simple_forward(sym: Any, ctx: Context | None = None, is_train: bool = False, **inputs: Any) -> Any:
    """Return the outputs of a symbol for NumPy inputs given by name, as NumPy arrays (or the only one)."""
    executor = sym.bind(ctx or default_context(), args={k: array(v) for k, v in inputs.items()})
    executor.forward(is_train=is_train)
    outputs = [x.asnumpy() for x in executor.outputs]
    return outputs[0] if len(outputs) == 1 else outputs


def numeric_grad(
    executor: Any,
    location: dict[str, Any],
    aux_states: dict[str, Any] | None = None,
    eps: float = 1e-4,
    use_forward_train: bool = True,
    dtype: Any = np.float32,
) -> dict[str, np.ndarray]:
    """Return central differences of the sum of the executor's first output, by the name of the argument.

    Parameters
    ----------
    executor : Executor
        Its arguments are overwritten and put back.
    location : dict of str to numpy.ndarray
        Where to differentiate; only floating-point arguments are moved.
    aux_states : dict of str to numpy.ndarray, optional
        Auxiliary states, put back before every forward.
    eps : float
        Distance of the two points.
    use_forward_train : bool
        Mode of the forward passes.
    dtype : dtype
        Of the result.
    """
    _check_dtype(dtype, False)
    for name, value in location.items():
        executor.arg_dict[name][:] = nd.array(value, dtype=dtype)

    def total(name: str, values: np.ndarray) -> float:
        executor.arg_dict[name][:] = nd.array(values, dtype=dtype)
        for key, state in (aux_states or {}).items():
            executor.aux_dict[key][:] = nd.array(state, dtype=dtype)
        executor.forward(is_train=use_forward_train)
        return executor.outputs[0].asnumpy().sum(dtype=np.float64)

    grads = {}
    for name, value in location.items():
        values = np.array(value, order="C")
        grad = grads[name] = np.zeros(values.shape, dtype=dtype)
        if values.dtype.kind != "f":
            continue
        flat, flat_grad = values.reshape(-1), grad.reshape(-1)
        for i in range(flat.size):
            here = flat[i]
            flat[i] = here + eps / 2
            above = total(name, values)
            flat[i] = here - eps / 2
            flat_grad[i] = (above - total(name, values)) / eps
            flat[i] = here
        executor.arg_dict[name][:] = nd.array(values, dtype=dtype)
    return grads


def _assert_grad(kind: str, expected: Any, got: Any, before: Any, name: str, tols: Any, labels: Any, nan: bool) -> None:
    """Compare a gradient the way its request asks: written, added to what was there, or left alone."""
    if kind == "write":
        pass
    elif kind == "add":
        got = _to_numpy(got) - before
    elif kind == "null":
        expected = before
    else:
        raise ValueError(f"Invalid grad_req {kind} for argument {name}")
    assert_almost_equal(expected, got, tols[0], tols[1], names=labels, equal_nan=nan)


def check_numeric_gradient(
    sym: Any,
    location: Any,
    aux_states: Any = None,
    numeric_eps: Any = None,
    rtol: Any = None,
    atol: Any = None,
    grad_nodes: Any = None,
    use_forward_train: bool = True,
    ctx: Context | None = None,
    grad_stype_dict: dict[str, str] | None = None,
    dtype: Any = np.float32,
) -> None:
    """Compare the gradients of a symbol with central differences.

    Parameters
    ----------
    sym : Symbol
        One output; its sum, weighted at random, is differentiated.
    location : list or dict of numpy.ndarray
        Values of the arguments, in order or by name.
    aux_states : list or dict of numpy.ndarray, optional
        Values of the auxiliary states.
    numeric_eps : float or dict, optional
        Step of the differences.
    rtol, atol : float or dict, optional
        Tolerances.
    grad_nodes : list of str or dict of str to str, optional
        Arguments to differentiate by, with their gradient requests; all with 'write' by default.
    use_forward_train : bool
        Mode of the forward passes.
    ctx : Context, optional
        Where to compute.
    grad_stype_dict : dict, optional
        Storage types of gradients; only 'default' is served so far.
    dtype : dtype
        Of all values.

    Raises
    ------
    AssertionError
        If a gradient differs.
    """
    _check_dtype(dtype, False)
    ctx = ctx or default_context()
    location = _parse_location(sym, location, ctx, dtype)
    location_npy = {k: v.asnumpy() for k, v in location.items()}
    aux_states = _parse_aux_states(sym, aux_states, ctx, dtype)
    aux_npy = None if aux_states is None else {k: v.asnumpy() for k, v in aux_states.items()}
    if grad_nodes is None:
        grad_nodes = sym.list_arguments()
    grad_req = dict(grad_nodes) if isinstance(grad_nodes, dict) else dict.fromkeys(grad_nodes, "write")
    _, out_shapes, _ = sym.infer_shape(**{k: v.shape for k, v in location.items()})

    symbol = import_module("..symbol", __package__)

    proj = symbol.Variable("__random_proj")
    if hasattr(sym, "as_nd_ndarray") and type(sym) is not symbol.Symbol:
        out = (sym * proj.as_np_ndarray()).as_nd_ndarray()
    else:
        out = sym * proj
    out = symbol.make_loss(out)
    location["__random_proj"] = nd.array(np.random.rand(*out_shapes[0]) + 0.1, ctx=ctx, dtype=dtype)
    before = {k: np.random.normal(0, 0.01, size=location[k].shape) for k in [*grad_req, "__random_proj"]}
    stypes = grad_stype_dict or {}
    args_grad = {k: nd.array(v, ctx=ctx, dtype=dtype).tostype(stypes.get(k, "default")) for k, v in before.items()}
    executor = out.bind(ctx, grad_req=grad_req, args=location, args_grad=args_grad, aux_states=aux_states)
    if len(executor.arg_arrays) != len(location):
        raise ValueError(
            f"Executor arg_arrays and location len do not match. Got {len(executor.arg_arrays)} inputs and "
            f"{len(location)} locations"
        )
    executor.forward(is_train=True)
    eps = get_tolerance(executor.outputs[0], numeric_eps, default_numeric_eps())
    executor.backward()
    grads = {k: executor.grad_dict[k].asnumpy() for k in grad_req}
    differences = numeric_grad(executor, location_npy, aux_npy, eps, use_forward_train, dtype)
    for name, kind in grad_req.items():
        labels = (f"NUMERICAL_{name}", f"BACKWARD_{name}")
        _assert_grad(kind, differences[name], grads[name], before[name], name, (rtol, atol), labels, False)


def check_symbolic_forward(
    sym: Any,
    location: Any,
    expected: Any,
    rtol: Any = None,
    atol: Any = None,
    aux_states: Any = None,
    ctx: Context | None = None,
    equal_nan: bool = False,
    dtype: Any = np.float32,
) -> list[Any]:
    """Compare the outputs of a symbol with NumPy values and return them.

    Parameters
    ----------
    sym : Symbol
        What to run, in inference mode.
    location, aux_states : list or dict of numpy.ndarray
        Values of arguments and auxiliary states.
    expected : list or dict of numpy.ndarray
        The outputs, in order or by name.
    rtol, atol, equal_nan
        As for :func:`assert_almost_equal`.
    ctx : Context, optional
        Where to compute.
    dtype : dtype or 'asnumpy'
        Of all values, or each as it is given.
    """
    _check_dtype(dtype, True)
    ctx = ctx or default_context()
    location = _parse_location(sym, location, ctx, dtype)
    aux_states = _parse_aux_states(sym, aux_states, ctx, dtype)
    if isinstance(expected, dict):
        expected = [expected[k] for k in sym.list_outputs()]
    args_grad = {k: nd.zeros(v.shape, ctx=ctx, dtype=v.dtype) for k, v in location.items()}
    executor = sym.bind(ctx=ctx, args=location, args_grad=args_grad, aux_states=aux_states)
    executor.forward(is_train=False)
    for name, want, got in zip(sym.list_outputs(), expected, executor.outputs):
        assert_almost_equal(want, got, rtol, atol, (f"EXPECTED_{name}", f"FORWARD_{name}"), equal_nan=equal_nan)
    return executor.outputs


def check_symbolic_backward(
    sym: Any,
    location: Any,
    out_grads: Any,
    expected: Any,
    rtol: Any = None,
    atol: Any = None,
    aux_states: Any = None,
    grad_req: Any = "write",
    ctx: Context | None = None,
    grad_stypes: dict[str, str] | None = None,
    equal_nan: bool = False,
    dtype: Any = np.float32,
) -> dict[str, Any]:
    """Compare the gradients of a symbol with NumPy values and return them.

    Parameters
    ----------
    sym : Symbol
        What to run, in training mode.
    location, aux_states : list or dict of numpy.ndarray
        Values of arguments and auxiliary states.
    out_grads : list or dict of numpy.ndarray, or None
        Gradients of the outputs.
    expected : list or dict of numpy.ndarray
        Gradients of the arguments, in order or by name.
    rtol, atol, equal_nan
        As for :func:`assert_almost_equal`.
    grad_req : str, list or dict
        Requests of the gradients.
    ctx : Context, optional
        Where to compute.
    grad_stypes : dict, optional
        Storage types of gradients; only 'default' is served so far.
    dtype : dtype or 'asnumpy'
        Of all values, or each as it is given.
    """
    _check_dtype(dtype, True)
    ctx = ctx or default_context()
    location = _parse_location(sym, location, ctx, dtype)
    aux_states = _parse_aux_states(sym, aux_states, ctx, dtype)
    names = sym.list_arguments()
    if isinstance(expected, (list, tuple)):
        expected = dict(zip(names, expected))
    before = {k: np.random.normal(size=expected[k].shape).astype(expected[k].dtype) for k in sorted(expected)}
    stypes = {k: stype or "default" for k, stype in (grad_stypes or {}).items()}
    args_grad = {k: _as_nd(v, ctx, dtype).tostype(stypes.get(k, "default")) for k, v in before.items()}
    if isinstance(grad_req, str):
        grad_req = dict.fromkeys(names, grad_req)
    elif isinstance(grad_req, (list, tuple)):
        grad_req = dict(zip(names, grad_req))
    executor = sym.bind(ctx=ctx, args=location, args_grad=args_grad, aux_states=aux_states, grad_req=grad_req)
    executor.forward(is_train=True)
    if isinstance(out_grads, dict):
        out_grads = {k: _as_nd(v, ctx, dtype) for k, v in out_grads.items()}
    elif out_grads is not None:
        out_grads = [_as_nd(v, ctx, dtype) for v in out_grads]
    executor.backward(out_grads)
    for name, want in expected.items():
        labels = (f"EXPECTED_{name}", f"BACKWARD_{name}")
        _assert_grad(grad_req[name], want, args_grad[name], before[name], name, (rtol, atol), labels, equal_nan)
    return args_grad


def check_speed(
    sym: Any,
    location: dict[str, Any] | None = None,
    ctx: Context | None = None,
    N: int = 20,
    grad_req: Any = None,
    typ: str = "whole",
    **kwargs: Any,
) -> float:
    """Return the mean seconds of one forward and backward pass (`typ` 'whole') or one forward pass ('forward')."""
    if typ not in ("whole", "forward"):
        raise ValueError('typ can only be "whole" or "forward".')
    ctx = ctx or default_context()
    shapes = kwargs if location is None else {k: v.shape for k, v in location.items()}
    executor = sym.simple_bind(grad_req=grad_req or "write", ctx=ctx, **shapes)
    if location is None:
        location = {k: np.random.normal(size=v.shape, scale=1.0) for k, v in executor.arg_dict.items()}
    for name, value in location.items():
        executor.arg_dict[name][:] = value.astype(executor.arg_dict[name].dtype)

    def once() -> None:
        executor.forward(is_train=typ == "whole")
        if typ == "whole":
            executor.backward(out_grads=executor.outputs)

    once()
    nd.waitall()
    start = time.perf_counter()
    for _ in range(N):
        once()
    nd.waitall()
    return (time.perf_counter() - start) / N


def check_consistency(
    sym: Any,
    ctx_list: list[dict[str, Any]],
    scale: float = 1.0,
    grad_req: Any = "write",
    arg_params: dict[str, Any] | None = None,
    aux_params: dict[str, Any] | None = None,
    rtol: Any = None,
    atol: Any = None,
    raise_on_err: bool = True,
    ground_truth: dict[str, Any] | None = None,
    equal_nan: bool = False,
    use_uniform: bool = False,
    rand_type: Any = np.float64,
) -> dict[str, Any]:
    """Compare a symbol's outputs and gradients across contexts and dtypes; the widest dtype is the reference.

    Parameters
    ----------
    sym : Symbol or list of Symbol
        One for all, or one for each entry of `ctx_list`.
    ctx_list : list of dict
        Arguments of ``simple_bind``: ``ctx``, ``type_dict`` and shapes.
    scale : float
        Scale of the random arguments.
    grad_req : str or dict
        Requests of the gradients.
    arg_params, aux_params : dict, optional
        Values to use instead of random ones.
    rtol, atol, equal_nan
        As for :func:`assert_almost_equal`.
    raise_on_err : bool
        Raise at a difference, or print it.
    ground_truth : dict, optional
        Outputs and gradients to compare with.
    use_uniform : bool
        Uniform or normal random arguments.
    rand_type : dtype
        Of the random arguments before casting.

    Returns
    -------
    dict
        The reference.
    """
    if len(ctx_list) < 2:
        raise AssertionError("check_consistency compares at least two contexts.")
    syms = list(sym) if isinstance(sym, (list, tuple)) else [sym] * len(ctx_list)
    if len(syms) != len(ctx_list):
        raise AssertionError(f"check_consistency got {len(syms)} symbols for {len(ctx_list)} contexts.")
    output_names, arg_names = syms[0].list_outputs(), syms[0].list_arguments()
    executors = []
    for one, ctx in zip(syms, ctx_list):
        if one.list_arguments() != arg_names or one.list_outputs() != output_names:
            raise AssertionError("check_consistency: the symbols differ in arguments or outputs.")
        executors.append(one.simple_bind(grad_req=grad_req, **ctx))
    arg_params = {} if arg_params is None else arg_params
    aux_params = {} if aux_params is None else aux_params
    for name, value in sorted(executors[0].arg_dict.items()):
        if name not in arg_params:
            if use_uniform:
                drawn = np.random.uniform(low=-0.92 * scale, high=0.92 * scale, size=value.shape)
            else:
                drawn = np.random.normal(size=value.shape, scale=scale)
            arg_params[name] = drawn.astype(rand_type)
    for name in executors[0].aux_dict:
        aux_params.setdefault(name, 0)
    for executor in executors:
        for name, value in executor.arg_dict.items():
            value[:] = arg_params[name]
        for name, value in executor.aux_dict.items():
            value[:] = aux_params[name]
        if grad_req == "add":
            for value in executor.grad_arrays:
                value[:] = np.zeros(value.shape, dtype=value.dtype)
    dtypes = [np.dtype(executor.outputs[0].dtype) for executor in executors]
    reference = max(range(len(dtypes)), key=lambda i: (dtypes[i].itemsize, -i))
    for executor in executors:
        executor.forward(is_train=False)

    def compare(what: str, names: list[str], arrays_of: Callable[[Any], list[Any]], truth: dict[str, Any]) -> None:
        for i, executor in enumerate(executors):
            if i == reference and ground_truth is None:
                continue
            for name, got in zip(names, arrays_of(executor)):
                want = truth[name]
                if want is None or got is None:
                    if want is not got:
                        raise AssertionError(f"check_consistency: only one of the contexts has a gradient of {name}.")
                    continue
                try:
                    narrow = min((dtypes[i], dtypes[reference]), key=lambda d: d.itemsize)
                    rt, at = rtol, atol
                    if narrow.kind == "f":
                        rt, at = get_tols(np.zeros((), narrow), np.zeros((), narrow), rtol, atol)
                    assert_almost_equal(got, want, rtol=rt, atol=at, equal_nan=equal_nan)
                except AssertionError:
                    print(f"{what} Err: ctx {i} vs ctx {reference} at {name}")
                    traceback.print_exc()
                    if raise_on_err:
                        raise

    def truth_now() -> dict[str, Any]:
        if ground_truth is not None:
            return ground_truth
        truth = dict(executors[reference].output_dict)
        if grad_req != "null":
            truth.update(executors[reference].grad_dict)
        return truth

    compare("Predict", output_names, lambda executor: executor.outputs, truth_now())
    if grad_req == "null":
        return truth_now()
    for executor in executors:
        executor.forward(is_train=True)
    narrowest = [
        min((np.dtype(executor.outputs[k].dtype) for executor in executors), key=lambda d: d.itemsize)
        for k in range(len(output_names))
    ]
    golden = [out.astype(d).asnumpy() for out, d in zip(executors[0].outputs, narrowest)]
    for executor in executors:
        ctx = executor.outputs[0].context
        executor.backward([nd.array(g, ctx=ctx, dtype=out.dtype) for g, out in zip(golden, executor.outputs)])
    compare("Train", output_names + arg_names, lambda executor: executor.outputs + executor.grad_arrays, truth_now())
    return truth_now()


def same_symbol_structure(sym1: Any, sym2: Any) -> bool:
    """Return whether two symbols consist of the same operators in the same order."""
    import json

    nodes1, nodes2 = (json.loads(sym.tojson())["nodes"] for sym in (sym1, sym2))
    return all(node1["op"] == node2["op"] for node1, node2 in zip(nodes1, nodes2))


def check_gluon_hybridize_consistency(
    net_builder: Callable[..., Any],
    data_l: list[Any],
    numpy_func: Callable[..., Any] | None = None,
    test_grad: bool = True,
    rtol: float = 1e-4,
    atol: float = 1e-4,
) -> None:
    """Compare a block with itself hybridized, outputs and gradients of the inputs, under NumPy semantics.

    Parameters
    ----------
    net_builder : callable
        ``net_builder(prefix=...)`` returns the block.
    data_l : list
        The inputs.
    numpy_func : callable, optional
        The same function of NumPy arrays.
    test_grad : bool
        Compare gradients too.
    rtol, atol : float
        Tolerances.
    """
    from .. import autograd, initializer, util

    class _Fixed(initializer.Initializer):
        def __init__(self, values: dict[str, np.ndarray]) -> None:
            super().__init__()
            self._values = values

        def _init_weight(self, name: str, arr: Any) -> None:
            arr[()] = self._values[name]

    def check() -> None:
        first_out: Any = None
        first_grads: list[np.ndarray] | None = None
        params: Any = None
        for hybridize in (False, True):
            for with_grad in (False, True) if test_grad else (False,):
                net = net_builder(prefix="net_")
                net.initialize() if params is None else net.initialize(params)
                if hybridize:
                    net.hybridize()
                inputs = [value.copy() for value in data_l]
                if with_grad:
                    for value in inputs:
                        value.attach_grad()
                    with autograd.record():
                        out = net(*inputs)
                    out.backward(out)
                else:
                    out = net(*inputs)
                if params is None:
                    params = _Fixed({k: v.data().asnumpy() for k, v in net.collect_params().items()})
                if first_out is None:
                    first_out = out.asnumpy()
                else:
                    assert_almost_equal(out.asnumpy(), first_out, rtol=rtol, atol=atol)
                if with_grad:
                    grads = [value.grad.asnumpy() for value in inputs]
                    if first_grads is None:
                        first_grads = grads
                    for grad, first in zip(grads, first_grads):
                        assert_almost_equal(grad, first, rtol=rtol, atol=atol)
        if numpy_func is not None:
            expected = numpy_func(*[value.asnumpy() for value in data_l])
            assert_almost_equal(first_out, expected, rtol=rtol, atol=atol)

    # Where there are mx.np arrays, the check runs under their semantics.
    use_np = getattr(util, "use_np", None)
    (check if use_np is None else use_np(check))()
