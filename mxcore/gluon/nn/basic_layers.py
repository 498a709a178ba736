"""Containers, dense and embedding layers, dropout, normalization, and functions as layers."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np

from ... import ndarray
from ..block import Block, HybridBlock, _repr_of
from ..parameter import ParameterDict
from .activations import Activation

__all__ = [
    "Sequential",
    "HybridSequential",
    "Dense",
    "Dropout",
    "Embedding",
    "BatchNorm",
    "BatchNormReLU",
    "InstanceNorm",
    "LayerNorm",
    "GroupNorm",
    "Flatten",
    "Lambda",
    "HybridLambda",
]


class _Stack(Block):
    """What the two sequential containers share."""

    def add(self, *blocks: Block) -> None:
        """Put blocks on top of the stack."""
        for block in blocks:
            self.register_child(block)

    def __repr__(self) -> str:
        return _repr_of(self, self._children.items())

    def __getitem__(self, key: Any) -> Any:
        layers = list(self._children.values())[key]
        if not isinstance(layers, list):
            return layers
        part = type(self)(prefix=self._prefix)
        with part.name_scope():
            part.add(*layers)
        return part

    def __len__(self) -> int:
        return len(self._children)

    def __bool__(self) -> bool:
        return True  # A stack without layers still is a block.


class Sequential(_Stack):
    """Runs blocks one after another.

    Parameters
    ----------
    prefix, params
        See :class:`~mxcore.gluon.Block`.

    Examples
    --------
    >>> import mxcore as mx
    >>> from mxcore.gluon import nn
    >>> net = nn.Sequential(prefix="net_")
    >>> with net.name_scope():
    ...     net.add(nn.Dense(4, activation="relu"), nn.Dense(2))
    >>> net.initialize()
    >>> net(mx.nd.ones((3, 5))).shape
    (3, 2)
    >>> net
    Sequential(
      (0): Dense(5 -> 4, Activation(relu))
      (1): Dense(4 -> 2, linear)
    )
    """

    def forward(self, x: Any) -> Any:
        """Run ``x`` through all blocks."""
        for block in self._children.values():
            x = block(x)
        return x

    def hybridize(self, active: bool = True, **kwargs: Any) -> None:
        """Hybridize the children; warns if all could be hybridized as one."""
        if self._children and all(isinstance(child, HybridBlock) for child in self._children.values()):
            warnings.warn(
                f"all children of Sequential '{self.prefix}' are HybridBlocks; HybridSequential would hybridize them "
                "as one and be faster.",
                stacklevel=2,
            )
        super().hybridize(active, **kwargs)


class HybridSequential(_Stack, HybridBlock):
    """Runs HybridBlocks one after another, and can be hybridized as a whole.

    Parameters
    ----------
    prefix, params
        See :class:`~mxcore.gluon.Block`.
    """

    def hybrid_forward(self, F: Any, x: Any) -> Any:
        for block in self._children.values():
            x = block(x)
        return x


class Dense(HybridBlock):
    """Fully connected layer: ``activation(x . weight^T + bias)``.

    Parameters
    ----------
    units : int
        Size of the output.
    activation : str, optional
        Name of an activation function; none by default.
    use_bias : bool
        Add a bias.
    flatten : bool
        Collapse all axes of the input but the first, so the output is ``(N, units)``. Otherwise the layer works on
        the last axis: ``(..., in_units)`` becomes ``(..., units)``.
    dtype : str or numpy.dtype
        Type of the parameters.
    weight_initializer, bias_initializer : str or Initializer, optional
        How to fill weight ``(units, in_units)`` and bias ``(units,)``.
    in_units : int
        Size of the input; 0: found out at the first forward pass.
    prefix, params
        See :class:`~mxcore.gluon.Block`.

    Examples
    --------
    >>> import mxcore as mx
    >>> layer = mx.gluon.nn.Dense(2, in_units=3)
    >>> layer.initialize()
    >>> layer(mx.nd.ones((4, 3))).shape
    (4, 2)
    >>> layer
    Dense(3 -> 2, linear)
    """

    def __init__(
        self,
        units: int,
        activation: str | None = None,
        use_bias: bool = True,
        flatten: bool = True,
        dtype: Any = "float32",
        weight_initializer: Any = None,
        bias_initializer: Any = "zeros",
        in_units: int = 0,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self._flatten = flatten
        self._units = units
        self._in_units = in_units
        with self.name_scope():
            self.weight = self.params.get(
                "weight", shape=(units, in_units), init=weight_initializer, dtype=dtype, allow_deferred_init=True
            )
            self.bias = None
            if use_bias:
                self.bias = self.params.get(
                    "bias", shape=(units,), init=bias_initializer, dtype=dtype, allow_deferred_init=True
                )
            self.act = None if activation is None else Activation(activation, prefix=activation + "_")

    def hybrid_forward(self, F: Any, x: Any, weight: Any, bias: Any = None) -> Any:
        out = F.FullyConnected(
            x, weight, bias, no_bias=bias is None, num_hidden=self._units, flatten=self._flatten, name="fwd"
        )
        return out if self.act is None else self.act(out)

    def __repr__(self) -> str:
        units, in_units = self.weight.shape
        return f"{type(self).__name__}({in_units or None} -> {units}, {self.act or 'linear'})"


class Dropout(HybridBlock):
    """Sets a random part of the input to zero while training, and scales up the rest.

    Parameters
    ----------
    rate : float
        The part that is dropped, from 0 to 1.
    axes : tuple of int
        Axes along which all elements share their fate.
    """

    def __init__(self, rate: float, axes: tuple[int, ...] = (), **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self._rate = rate
        self._axes = axes

    def hybrid_forward(self, F: Any, x: Any) -> Any:
        if self._rate > 0:
            return F.Dropout(x, p=self._rate, axes=self._axes, name="fwd", cudnn_off=False)
        return F.identity(x)

    def __repr__(self) -> str:
        return f"{type(self).__name__}(p = {self._rate}, axes={self._axes})"


class _BatchNorm(HybridBlock):
    """What BatchNorm and BatchNormReLU share."""

    #: Whether a ReLU follows, and the operator that does both.
    fuse_relu = False

    def __init__(
        self,
        axis: int = 1,
        momentum: float = 0.9,
        epsilon: float = 1e-5,
        center: bool = True,
        scale: bool = True,
        use_global_stats: bool = False,
        beta_initializer: Any = "zeros",
        gamma_initializer: Any = "ones",
        running_mean_initializer: Any = "zeros",
        running_variance_initializer: Any = "ones",
        in_channels: int = 0,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self._kwargs = {
            "axis": axis,
            "eps": epsilon,
            "momentum": momentum,
            "fix_gamma": not scale,
            "use_global_stats": use_global_stats,
        }
        if in_channels != 0:
            self.in_channels = in_channels

        def parameter(name: str, init: Any, learned: bool) -> Any:
            return self.params.get(
                name,
                grad_req="write" if learned else "null",
                shape=(in_channels,),
                init=init,
                allow_deferred_init=True,
                differentiable=learned,
            )

        self.gamma = parameter("gamma", gamma_initializer, scale)
        self.beta = parameter("beta", beta_initializer, center)
        self.running_mean = parameter("running_mean", running_mean_initializer, False)
        self.running_var = parameter("running_var", running_variance_initializer, False)

    def cast(self, dtype: Any) -> None:
        """Convert all parameters; half precision leaves them in single, which the operator needs."""
        super().cast(self._infer_dtype(dtype))

    def _infer_dtype(self, dtype: Any) -> Any:
        return "float32" if np.dtype(dtype) == np.float16 else dtype

    def hybrid_forward(self, F: Any, x: Any, gamma: Any, beta: Any, running_mean: Any, running_var: Any) -> Any:
        operator = F.contrib.BatchNormWithReLU if self.fuse_relu else F.BatchNorm
        return operator(x, gamma, beta, running_mean, running_var, name="fwd", **self._kwargs)

    def __repr__(self) -> str:
        content = ", ".join(f"{key}={value!r}" for key, value in self._kwargs.items())
        return f"{type(self).__name__}({content}, in_channels={self.gamma.shape[0] or None})"


class BatchNorm(_BatchNorm):
    """Batch normalization (Ioffe and Szegedy 2014): each channel gets mean 0 and variance 1 over the batch.

    Statistics of the batch are used while training, moving averages (which training updates in place) otherwise.

    Parameters
    ----------
    axis : int
        The axis of channels: 1 for ``NCHW``, 3 for ``NHWC``.
    momentum : float
        How much of the moving averages is kept at each step.
    epsilon : float
        Added to the variance.
    center, scale : bool
        Add ``beta``; multiply by ``gamma``.
    use_global_stats : bool
        Use moving averages in training too.
    beta_initializer, gamma_initializer, running_mean_initializer, running_variance_initializer : str or Initializer
        First values.
    in_channels : int
        Number of channels; 0: found out at the first forward pass.
    prefix, params
        See :class:`~mxcore.gluon.Block`.
    """


class BatchNormReLU(_BatchNorm):
    """:class:`BatchNorm` followed by a rectified linear unit, in one operator. Parameters are the same."""

    fuse_relu = True


class Embedding(HybridBlock):
    """Turns whole numbers into vectors: input of any shape ``(...)`` becomes ``(..., output_dim)``.

    Parameters
    ----------
    input_dim : int
        How many different numbers there are.
    output_dim : int
        Size of a vector.
    dtype : str or numpy.dtype
        Type of the vectors.
    weight_initializer : str or Initializer, optional
        How to fill the weight ``(input_dim, output_dim)``.
    sparse_grad : bool
        Ask for a gradient that holds only the rows that were used.
    prefix, params
        See :class:`~mxcore.gluon.Block`.
    """

    def __init__(
        self,
        input_dim: int,
        output_dim: int,
        dtype: Any = "float32",
        weight_initializer: Any = None,
        sparse_grad: bool = False,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self._kwargs = {"input_dim": input_dim, "output_dim": output_dim, "dtype": dtype, "sparse_grad": sparse_grad}
        self.weight = self.params.get(
            "weight",
            shape=(input_dim, output_dim),
            init=weight_initializer,
            dtype=dtype,
            allow_deferred_init=True,
            grad_stype="row_sparse" if sparse_grad else "default",
        )

    def _infer_dtype(self, dtype: Any) -> Any:
        return None  # The input is indices; the weight keeps its own type.

    def hybrid_forward(self, F: Any, x: Any, weight: Any) -> Any:
        return F.Embedding(x, weight, name="fwd", **self._kwargs)

    def __repr__(self) -> str:
        kwargs = self._kwargs
        return f"{type(self).__name__}({kwargs['input_dim']} -> {kwargs['output_dim']}, {kwargs['dtype']})"


class Flatten(HybridBlock):
    """Collapses all axes but the first: ``(N, ...)`` becomes ``(N, size of the rest)``."""

    def hybrid_forward(self, F: Any, x: Any) -> Any:
        return F.flatten(x)

    def __repr__(self) -> str:
        return type(self).__name__


class _ScaleAndShift(HybridBlock):
    """What the normalizations without moving averages share: ``gamma``, ``beta`` and how they are shown."""

    def __init__(
        self,
        size: int,
        kwargs: dict[str, Any],
        beta_initializer: Any,
        gamma_initializer: Any,
        prefix: str | None,
        params: ParameterDict | None,
    ) -> None:
        super().__init__(prefix=prefix, params=params)
        self._kwargs = kwargs
        self._epsilon = kwargs["eps"]
        self._center = kwargs["center"]
        self._scale = kwargs["scale"]
        self.gamma = self.params.get(
            "gamma",
            grad_req="write" if self._scale else "null",
            shape=(size,),
            init=gamma_initializer,
            allow_deferred_init=True,
        )
        self.beta = self.params.get(
            "beta",
            grad_req="write" if self._center else "null",
            shape=(size,),
            init=beta_initializer,
            allow_deferred_init=True,
        )

    def __repr__(self) -> str:
        content = ", ".join(f"{key}={value!r}" for key, value in self._kwargs.items())
        return f"{type(self).__name__}({content}, in_channels={self.gamma.shape[0]})"


class InstanceNorm(_ScaleAndShift):
    """Instance normalization (Ulyanov et al., arXiv:1607.08022): each channel of each sample by itself.

    Parameters
    ----------
    axis : int
        The axis of channels.
    epsilon : float
        Added to the variance.
    center, scale : bool
        Learn ``beta``; learn ``gamma``.
    beta_initializer, gamma_initializer : str or Initializer
        First values.
    in_channels : int
        Number of channels; 0: found out at the first forward pass.
    prefix, params
        See :class:`~mxcore.gluon.Block`.
    """

    def __init__(
        self,
        axis: int = 1,
        epsilon: float = 1e-5,
        center: bool = True,
        scale: bool = False,
        beta_initializer: Any = "zeros",
        gamma_initializer: Any = "ones",
        in_channels: int = 0,
        prefix: str | None = None,
        params: ParameterDict | None = None,
    ) -> None:
        kwargs = {"eps": epsilon, "axis": axis, "center": center, "scale": scale}
        super().__init__(in_channels, kwargs, beta_initializer, gamma_initializer, prefix, params)
        self._axis = axis

    def hybrid_forward(self, F: Any, x: Any, gamma: Any, beta: Any) -> Any:
        if self._axis == 1:
            return F.InstanceNorm(x, gamma, beta, name="fwd", eps=self._epsilon)
        out = F.InstanceNorm(F.swapaxes(x, 1, self._axis), gamma, beta, name="fwd", eps=self._epsilon)
        return F.swapaxes(out, 1, self._axis)


class LayerNorm(_ScaleAndShift):
    """Layer normalization (Ba et al., arXiv:1607.06450): mean 0 and variance 1 along one axis.

    Parameters
    ----------
    axis : int
        The axis that is normalized.
    epsilon : float
        Added to the variance.
    center, scale : bool
        Learn ``beta``; learn ``gamma``.
    beta_initializer, gamma_initializer : str or Initializer
        First values.
    in_channels : int
        Size of the axis; 0: found out at the first forward pass.
    prefix, params
        See :class:`~mxcore.gluon.Block`.

    Examples
    --------
    >>> import mxcore as mx
    >>> layer = mx.gluon.nn.LayerNorm()
    >>> layer.initialize()
    >>> layer(mx.nd.array([[1, 2, 3, 4, 5]])).asnumpy().round(3).tolist()
    [[-1.4140000343322754, -0.7070000171661377, 0.0, 0.7070000171661377, 1.4140000343322754]]
    """

    def __init__(
        self,
        axis: int = -1,
        epsilon: float = 1e-5,
        center: bool = True,
        scale: bool = True,
        beta_initializer: Any = "zeros",
        gamma_initializer: Any = "ones",
        in_channels: int = 0,
        prefix: str | None = None,
        params: ParameterDict | None = None,
    ) -> None:
        kwargs = {"eps": epsilon, "axis": axis, "center": center, "scale": scale}
        super().__init__(in_channels, kwargs, beta_initializer, gamma_initializer, prefix, params)
        self._axis = axis

    def hybrid_forward(self, F: Any, data: Any, gamma: Any, beta: Any) -> Any:
        return F.LayerNorm(data, gamma=gamma, beta=beta, axis=self._axis, eps=self._epsilon)


class GroupNorm(_ScaleAndShift):
    """Group normalization (Wu and He, arXiv:1803.08494): groups of channels of each sample.

    Parameters
    ----------
    num_groups : int
        How many groups axis 1 is cut into.
    epsilon : float
        Added to the variance.
    center, scale : bool
        Learn ``beta``; learn ``gamma``, both of shape ``(num_groups,)``.
    beta_initializer, gamma_initializer : str or Initializer
        First values.
    prefix, params
        See :class:`~mxcore.gluon.Block`.
    """

    def __init__(
        self,
        num_groups: int = 1,
        epsilon: float = 1e-5,
        center: bool = True,
        scale: bool = True,
        beta_initializer: Any = "zeros",
        gamma_initializer: Any = "ones",
        prefix: str | None = None,
        params: ParameterDict | None = None,
    ) -> None:
        kwargs = {"eps": epsilon, "num_groups": num_groups, "center": center, "scale": scale}
        super().__init__(num_groups, kwargs, beta_initializer, gamma_initializer, prefix, params)
        self._num_groups = num_groups

    def hybrid_forward(self, F: Any, data: Any, gamma: Any, beta: Any) -> Any:
        return F.GroupNorm(data, gamma=gamma, beta=beta, num_groups=self._num_groups, eps=self._epsilon)

    def __repr__(self) -> str:
        content = ", ".join(f"{key}={value!r}" for key, value in self._kwargs.items())
        return f"{type(self).__name__}({content})"


def _unusable(function: Any) -> ValueError:
    return ValueError(
        f"a lambda layer takes the name of an operator or a function, got {function!r} ({type(function)})."
    )


class Lambda(Block):
    """A function as a block.

    Parameters
    ----------
    function : str or callable
        Name of an operator in :mod:`mxcore.ndarray`, or ``function(*args)``.
    prefix : str, optional
        See :class:`~mxcore.gluon.Block`.

    Examples
    --------
    >>> import mxcore as mx
    >>> mx.gluon.nn.Lambda(lambda x: x * 2)(mx.nd.ones((2,))).asnumpy().tolist()
    [2.0, 2.0]
    """

    def __init__(self, function: str | Callable[..., Any], prefix: str | None = None) -> None:
        super().__init__(prefix=prefix)
        if isinstance(function, str):
            self._func_impl: Callable[..., Any] = _operator_named(function)
        elif callable(function):
            self._func_impl = function
        else:
            raise _unusable(function)

    def forward(self, *args: Any) -> Any:
        """Call the function."""
        return self._func_impl(*args)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self._func_impl.__name__})"


class HybridLambda(HybridBlock):
    """A function of ``F`` as a HybridBlock.

    Parameters
    ----------
    function : str or callable
        Name of an operator, or ``function(F, x, *args)``.
    prefix : str, optional
        See :class:`~mxcore.gluon.Block`.
    """

    def __init__(self, function: str | Callable[..., Any], prefix: str | None = None) -> None:
        super().__init__(prefix=prefix)
        if isinstance(function, str):
            _operator_named(function)
            self._func: Callable[..., Any] = lambda F, *args: getattr(F, function)(*args)
            self._func_name = function
        elif callable(function):
            self._func = function
            self._func_name = function.__name__
        else:
            raise _unusable(function)

    def hybrid_forward(self, F: Any, x: Any, *args: Any) -> Any:
        return self._func(F, x, *args)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self._func_name})"


def _operator_named(name: str) -> Callable[..., Any]:
    if not hasattr(ndarray, name):
        raise AssertionError(f"there is no operator '{name}' in mxcore.ndarray for a lambda layer.")
    return getattr(ndarray, name)
