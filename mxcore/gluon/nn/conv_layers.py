"""Convolutions, transposed convolutions, pooling and padding.

Layouts name axes: ``N`` samples, ``C`` channels, ``D``, ``H``, ``W`` depth, height, width.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ...base import numeric_types
from .._shape_inference import convolution, deconvolution
from ..block import HybridBlock
from ..parameter import ParameterDict
from .activations import Activation

__all__ = [
    "Conv1D",
    "Conv2D",
    "Conv3D",
    "Conv1DTranspose",
    "Conv2DTranspose",
    "Conv3DTranspose",
    "MaxPool1D",
    "MaxPool2D",
    "MaxPool3D",
    "AvgPool1D",
    "AvgPool2D",
    "AvgPool3D",
    "GlobalMaxPool1D",
    "GlobalMaxPool2D",
    "GlobalMaxPool3D",
    "GlobalAvgPool1D",
    "GlobalAvgPool2D",
    "GlobalAvgPool3D",
    "ReflectionPad2D",
]

Size = int | Sequence[int]

#: Layouts by number of spatial axes.
_CONV_LAYOUTS = {1: ("NCW",), 2: ("NCHW", "NHWC"), 3: ("NCDHW", "NDHWC")}
_POOL_LAYOUTS = {1: ("NCW", "NWC"), 2: ("NCHW", "NHWC"), 3: ("NCDHW", "NDHWC")}


def _sizes(value: Size, count: int, what: str) -> tuple[int, ...]:
    """One number per spatial axis."""
    if isinstance(value, numeric_types):
        return (value,) * count
    if len(value) != count:
        raise AssertionError(f"{what} must be a number or {count} of them, got {value!r}.")
    return tuple(value)


def _check_layout(layout: str, allowed: tuple[str, ...], name: str) -> None:
    if layout not in allowed:
        raise AssertionError(f"{name} takes layout {' or '.join(map(repr, allowed))}, got {layout!r}.")


class _Conv(HybridBlock):
    """What all convolutions share; ``kernel_size`` is a tuple here."""

    def __init__(
        self,
        channels: int,
        kernel_size: Sequence[int],
        strides: Size,
        padding: Size,
        dilation: Size,
        groups: int,
        layout: str,
        in_channels: int = 0,
        activation: str | None = None,
        use_bias: bool = True,
        weight_initializer: Any = None,
        bias_initializer: Any = "zeros",
        op_name: str = "Convolution",
        adj: Size | None = None,
        prefix: str | None = None,
        params: ParameterDict | None = None,
    ) -> None:
        super().__init__(prefix=prefix, params=params)
        count = len(kernel_size)
        self._channels = channels
        self._in_channels = in_channels
        self._op_name = op_name
        self._kwargs: dict[str, Any] = {
            "kernel": tuple(kernel_size),
            "stride": _sizes(strides, count, "strides"),
            "dilate": _sizes(dilation, count, "dilation"),
            "pad": _sizes(padding, count, "padding"),
            "num_filter": channels,
            "num_group": groups,
            "no_bias": not use_bias,
            "layout": layout,
        }
        if adj is not None:
            self._kwargs["adj"] = _sizes(adj, count, "output_padding")
        data_shape = tuple(in_channels if axis == "C" else 0 for axis in layout)
        rule = deconvolution if op_name == "Deconvolution" else convolution
        shapes = rule(data_shape, **self._kwargs)
        with self.name_scope():
            self.weight = self.params.get(
                "weight", shape=shapes["weight"], init=weight_initializer, allow_deferred_init=True
            )
            self.bias = None
            if use_bias:
                self.bias = self.params.get(
                    "bias", shape=shapes["bias"], init=bias_initializer, allow_deferred_init=True
                )
            self.act = None if activation is None else Activation(activation, prefix=activation + "_")

    def hybrid_forward(self, F: Any, x: Any, weight: Any, bias: Any = None) -> Any:
        operator = getattr(F, self._op_name)
        if bias is None:
            out = operator(x, weight, name="fwd", **self._kwargs)
        else:
            out = operator(x, weight, bias, name="fwd", **self._kwargs)
        return out if self.act is None else self.act(out)

    def _alias(self) -> str:
        return "conv"

    def __repr__(self) -> str:
        kwargs = self._kwargs
        count = len(kwargs["kernel"])
        text = f"kernel_size={kwargs['kernel']}, stride={kwargs['stride']}"
        if kwargs["pad"] != (0,) * count:
            text += f", padding={kwargs['pad']}"
        if kwargs["dilate"] != (1,) * count:
            text += f", dilation={kwargs['dilate']}"
        if kwargs["num_group"] != 1:
            text += f", groups={kwargs['num_group']}"
        if self.bias is None:
            text += ", bias=False"
        if self.act:
            text += f", {self.act}"
        shape = self.weight.shape
        return f"{type(self).__name__}({shape[1] or None} -> {shape[0]}, {text})"


class Conv1D(_Conv):
    """Convolution along one axis (time series, text): ``(N, C, W)`` to ``(N, channels, out)``.

    ``out = floor((W + 2 * padding - dilation * (kernel_size - 1) - 1) / stride) + 1``.

    Parameters
    ----------
    channels : int
        Number of filters.
    kernel_size, strides, padding, dilation : int or tuple of int
        Of the window, per spatial axis.
    groups : int
        Channels are cut into as many groups, each with its own filters.
    layout : str
        Order of axes.
    activation : str, optional
        Name of an activation function; none by default.
    use_bias : bool
        Add a bias.
    weight_initializer, bias_initializer : str or Initializer, optional
        How to fill weight and bias.
    in_channels : int
        Number of input channels; 0: found out at the first forward pass.
    prefix, params
        See :class:`~mxcore.gluon.Block`.
    """

    def __init__(
        self,
        channels: int,
        kernel_size: Size,
        strides: Size = 1,
        padding: Size = 0,
        dilation: Size = 1,
        groups: int = 1,
        layout: str = "NCW",
        activation: str | None = None,
        use_bias: bool = True,
        weight_initializer: Any = None,
        bias_initializer: Any = "zeros",
        in_channels: int = 0,
        **kwargs: Any,
    ) -> None:
        _check_layout(layout, _CONV_LAYOUTS[1], "Conv1D")
        super().__init__(
            channels,
            _sizes(kernel_size, 1, "kernel_size"),
            strides,
            padding,
            dilation,
            groups,
            layout,
            in_channels,
            activation,
            use_bias,
            weight_initializer,
            bias_initializer,
            op_name=kwargs.pop("op_name", "Convolution"),
            **kwargs,
        )


class Conv2D(_Conv):
    """Convolution over images: ``(N, C, H, W)`` to ``(N, channels, out_H, out_W)``.

    Parameters are those of :class:`Conv1D`; layout ``'NCHW'`` or ``'NHWC'``.

    Examples
    --------
    >>> import mxcore as mx
    >>> layer = mx.gluon.nn.Conv2D(8, kernel_size=3, padding=1)
    >>> layer.initialize()
    >>> layer(mx.nd.ones((2, 3, 5, 5))).shape
    (2, 8, 5, 5)
    >>> layer
    Conv2D(3 -> 8, kernel_size=(3, 3), stride=(1, 1), padding=(1, 1))
    """

    def __init__(
        self,
        channels: int,
        kernel_size: Size,
        strides: Size = (1, 1),
        padding: Size = (0, 0),
        dilation: Size = (1, 1),
        groups: int = 1,
        layout: str = "NCHW",
        activation: str | None = None,
        use_bias: bool = True,
        weight_initializer: Any = None,
        bias_initializer: Any = "zeros",
        in_channels: int = 0,
        **kwargs: Any,
    ) -> None:
        _check_layout(layout, _CONV_LAYOUTS[2], "Conv2D")
        super().__init__(
            channels,
            _sizes(kernel_size, 2, "kernel_size"),
            strides,
            padding,
            dilation,
            groups,
            layout,
            in_channels,
            activation,
            use_bias,
            weight_initializer,
            bias_initializer,
            op_name=kwargs.pop("op_name", "Convolution"),
            **kwargs,
        )


class Conv3D(_Conv):
    """Convolution over volumes: ``(N, C, D, H, W)`` to ``(N, channels, out_D, out_H, out_W)``.

    Parameters are those of :class:`Conv1D`; layout ``'NCDHW'`` or ``'NDHWC'``.
    """

    def __init__(
        self,
        channels: int,
        kernel_size: Size,
        strides: Size = (1, 1, 1),
        padding: Size = (0, 0, 0),
        dilation: Size = (1, 1, 1),
        groups: int = 1,
        layout: str = "NCDHW",
        activation: str | None = None,
        use_bias: bool = True,
        weight_initializer: Any = None,
        bias_initializer: Any = "zeros",
        in_channels: int = 0,
        **kwargs: Any,
    ) -> None:
        _check_layout(layout, _CONV_LAYOUTS[3], "Conv3D")
        super().__init__(
            channels,
            _sizes(kernel_size, 3, "kernel_size"),
            strides,
            padding,
            dilation,
            groups,
            layout,
            in_channels,
            activation,
            use_bias,
            weight_initializer,
            bias_initializer,
            op_name=kwargs.pop("op_name", "Convolution"),
            **kwargs,
        )


class Conv1DTranspose(_Conv):
    """Transposed convolution along one axis: the gradient of :class:`Conv1D` as a layer.

    ``out = (W - 1) * stride - 2 * padding + dilation * (kernel_size - 1) + output_padding + 1``.

    Parameters are those of :class:`Conv1D`, and ``output_padding`` after ``padding``: added to one side of the output.
    """

    def __init__(
        self,
        channels: int,
        kernel_size: Size,
        strides: Size = 1,
        padding: Size = 0,
        output_padding: Size = 0,
        dilation: Size = 1,
        groups: int = 1,
        layout: str = "NCW",
        activation: str | None = None,
        use_bias: bool = True,
        weight_initializer: Any = None,
        bias_initializer: Any = "zeros",
        in_channels: int = 0,
        **kwargs: Any,
    ) -> None:
        _check_layout(layout, _CONV_LAYOUTS[1], "Conv1DTranspose")
        super().__init__(
            channels,
            _sizes(kernel_size, 1, "kernel_size"),
            strides,
            padding,
            dilation,
            groups,
            layout,
            in_channels,
            activation,
            use_bias,
            weight_initializer,
            bias_initializer,
            op_name=kwargs.pop("op_name", "Deconvolution"),
            adj=output_padding,
            **kwargs,
        )
        self.outpad = self._kwargs["adj"]


class Conv2DTranspose(_Conv):
    """Transposed convolution over images; see :class:`Conv1DTranspose`. Layout ``'NCHW'`` or ``'NHWC'``."""

    def __init__(
        self,
        channels: int,
        kernel_size: Size,
        strides: Size = (1, 1),
        padding: Size = (0, 0),
        output_padding: Size = (0, 0),
        dilation: Size = (1, 1),
        groups: int = 1,
        layout: str = "NCHW",
        activation: str | None = None,
        use_bias: bool = True,
        weight_initializer: Any = None,
        bias_initializer: Any = "zeros",
        in_channels: int = 0,
        **kwargs: Any,
    ) -> None:
        _check_layout(layout, _CONV_LAYOUTS[2], "Conv2DTranspose")
        super().__init__(
            channels,
            _sizes(kernel_size, 2, "kernel_size"),
            strides,
            padding,
            dilation,
            groups,
            layout,
            in_channels,
            activation,
            use_bias,
            weight_initializer,
            bias_initializer,
            op_name=kwargs.pop("op_name", "Deconvolution"),
            adj=output_padding,
            **kwargs,
        )
        self.outpad = self._kwargs["adj"]


class Conv3DTranspose(_Conv):
    """Transposed convolution over volumes; see :class:`Conv1DTranspose`. Layout ``'NCDHW'`` or ``'NDHWC'``."""

    def __init__(
        self,
        channels: int,
        kernel_size: Size,
        strides: Size = (1, 1, 1),
        padding: Size = (0, 0, 0),
        output_padding: Size = (0, 0, 0),
        dilation: Size = (1, 1, 1),
        groups: int = 1,
        layout: str = "NCDHW",
        activation: str | None = None,
        use_bias: bool = True,
        weight_initializer: Any = None,
        bias_initializer: Any = "zeros",
        in_channels: int = 0,
        **kwargs: Any,
    ) -> None:
        _check_layout(layout, _CONV_LAYOUTS[3], "Conv3DTranspose")
        super().__init__(
            channels,
            _sizes(kernel_size, 3, "kernel_size"),
            strides,
            padding,
            dilation,
            groups,
            layout,
            in_channels,
            activation,
            use_bias,
            weight_initializer,
            bias_initializer,
            op_name=kwargs.pop("op_name", "Deconvolution"),
            adj=output_padding,
            **kwargs,
        )
        self.outpad = self._kwargs["adj"]


class _Pooling(HybridBlock):
    """What all poolings share; ``pool_size`` is a tuple here."""

    def __init__(
        self,
        pool_size: Sequence[int],
        strides: Size | None,
        padding: Size,
        ceil_mode: bool,
        global_pool: bool,
        pool_type: str,
        layout: str,
        count_include_pad: bool | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        count = len(pool_size)
        self._kwargs: dict[str, Any] = {
            "kernel": tuple(pool_size),
            "stride": _sizes(pool_size if strides is None else strides, count, "strides"),
            "pad": _sizes(padding, count, "padding"),
            "global_pool": global_pool,
            "pool_type": pool_type,
            "layout": layout,
            "pooling_convention": "full" if ceil_mode else "valid",
        }
        if count_include_pad is not None:
            self._kwargs["count_include_pad"] = count_include_pad

    def _alias(self) -> str:
        return "pool"

    def hybrid_forward(self, F: Any, x: Any) -> Any:
        return F.Pooling(x, name="fwd", **self._kwargs)

    def __repr__(self) -> str:
        kwargs = self._kwargs
        return (
            f"{type(self).__name__}(size={kwargs['kernel']}, stride={kwargs['stride']}, padding={kwargs['pad']}, "
            f"ceil_mode={kwargs['pooling_convention'] == 'full'}, global_pool={kwargs['global_pool']}, "
            f"pool_type={kwargs['pool_type']}, layout={kwargs['layout']})"
        )


def _pool_window(pool_size: Size, layout: str, ndim: int, name: str) -> tuple[int, ...]:
    _check_layout(layout, _POOL_LAYOUTS[ndim], name)
    return _sizes(pool_size, ndim, "pool_size")


class MaxPool1D(_Pooling):
    """Largest value in each window along one axis.

    Parameters
    ----------
    pool_size : int or tuple of int
        Size of the window.
    strides : int or tuple of int, optional
        Step of the window; by default its size.
    padding : int or tuple of int
        Added to both sides.
    layout : str
        Order of axes.
    ceil_mode : bool
        Count windows that only partly fit.
    """

    def __init__(
        self,
        pool_size: Size = 2,
        strides: Size | None = None,
        padding: Size = 0,
        layout: str = "NCW",
        ceil_mode: bool = False,
        **kwargs: Any,
    ) -> None:
        window = _pool_window(pool_size, layout, 1, "MaxPool1D")
        super().__init__(window, strides, padding, ceil_mode, False, "max", layout, **kwargs)


class MaxPool2D(_Pooling):
    """Largest value in each window of an image; parameters as for :class:`MaxPool1D`.

    Examples
    --------
    >>> import mxcore as mx
    >>> mx.gluon.nn.MaxPool2D(2, 2)(mx.nd.ones((1, 3, 4, 4))).shape
    (1, 3, 2, 2)
    """

    def __init__(
        self,
        pool_size: Size = (2, 2),
        strides: Size | None = None,
        padding: Size = 0,
        layout: str = "NCHW",
        ceil_mode: bool = False,
        **kwargs: Any,
    ) -> None:
        window = _pool_window(pool_size, layout, 2, "MaxPool2D")
        super().__init__(window, strides, padding, ceil_mode, False, "max", layout, **kwargs)


class MaxPool3D(_Pooling):
    """Largest value in each window of a volume; as :class:`MaxPool1D`, but ``ceil_mode`` comes before ``layout``."""

    def __init__(
        self,
        pool_size: Size = (2, 2, 2),
        strides: Size | None = None,
        padding: Size = 0,
        ceil_mode: bool = False,
        layout: str = "NCDHW",
        **kwargs: Any,
    ) -> None:
        window = _pool_window(pool_size, layout, 3, "MaxPool3D")
        super().__init__(window, strides, padding, ceil_mode, False, "max", layout, **kwargs)


class AvgPool1D(_Pooling):
    """Mean of each window along one axis.

    Parameters
    ----------
    pool_size, strides, padding, layout, ceil_mode
        As for :class:`MaxPool1D`.
    count_include_pad : bool
        Whether padding counts as values.
    """

    def __init__(
        self,
        pool_size: Size = 2,
        strides: Size | None = None,
        padding: Size = 0,
        layout: str = "NCW",
        ceil_mode: bool = False,
        count_include_pad: bool = True,
        **kwargs: Any,
    ) -> None:
        window = _pool_window(pool_size, layout, 1, "AvgPool1D")
        super().__init__(window, strides, padding, ceil_mode, False, "avg", layout, count_include_pad, **kwargs)


class AvgPool2D(_Pooling):
    """Mean of each window of an image; parameters as for :class:`AvgPool1D`, ``ceil_mode`` before ``layout``."""

    def __init__(
        self,
        pool_size: Size = (2, 2),
        strides: Size | None = None,
        padding: Size = 0,
        ceil_mode: bool = False,
        layout: str = "NCHW",
        count_include_pad: bool = True,
        **kwargs: Any,
    ) -> None:
        window = _pool_window(pool_size, layout, 2, "AvgPool2D")
        super().__init__(window, strides, padding, ceil_mode, False, "avg", layout, count_include_pad, **kwargs)


class AvgPool3D(_Pooling):
    """Mean of each window of a volume; parameters as for :class:`AvgPool1D`, ``ceil_mode`` before ``layout``."""

    def __init__(
        self,
        pool_size: Size = (2, 2, 2),
        strides: Size | None = None,
        padding: Size = 0,
        ceil_mode: bool = False,
        layout: str = "NCDHW",
        count_include_pad: bool = True,
        **kwargs: Any,
    ) -> None:
        window = _pool_window(pool_size, layout, 3, "AvgPool3D")
        super().__init__(window, strides, padding, ceil_mode, False, "avg", layout, count_include_pad, **kwargs)


class GlobalMaxPool1D(_Pooling):
    """Largest value along the spatial axis: ``(N, C, W)`` to ``(N, C, 1)``.

    Parameters
    ----------
    layout : str
        Order of axes: channels second or last.
    """

    def __init__(self, layout: str = "NCW", **kwargs: Any) -> None:
        window = _pool_window(1, layout, 1, "GlobalMaxPool1D")
        super().__init__(window, None, 0, True, True, "max", layout, **kwargs)


class GlobalMaxPool2D(_Pooling):
    """Largest value of an image: ``(N, C, H, W)`` to ``(N, C, 1, 1)``; see :class:`GlobalMaxPool1D`."""

    def __init__(self, layout: str = "NCHW", **kwargs: Any) -> None:
        window = _pool_window(1, layout, 2, "GlobalMaxPool2D")
        super().__init__(window, None, 0, True, True, "max", layout, **kwargs)


class GlobalMaxPool3D(_Pooling):
    """Largest value of a volume: ``(N, C, D, H, W)`` to ``(N, C, 1, 1, 1)``; see :class:`GlobalMaxPool1D`."""

    def __init__(self, layout: str = "NCDHW", **kwargs: Any) -> None:
        window = _pool_window(1, layout, 3, "GlobalMaxPool3D")
        super().__init__(window, None, 0, True, True, "max", layout, **kwargs)


class GlobalAvgPool1D(_Pooling):
    """Mean along the spatial axis: ``(N, C, W)`` to ``(N, C, 1)``; see :class:`GlobalMaxPool1D`."""

    def __init__(self, layout: str = "NCW", **kwargs: Any) -> None:
        window = _pool_window(1, layout, 1, "GlobalAvgPool1D")
        super().__init__(window, None, 0, True, True, "avg", layout, **kwargs)


class GlobalAvgPool2D(_Pooling):
    """Mean of an image: ``(N, C, H, W)`` to ``(N, C, 1, 1)``; see :class:`GlobalMaxPool1D`."""

    def __init__(self, layout: str = "NCHW", **kwargs: Any) -> None:
        window = _pool_window(1, layout, 2, "GlobalAvgPool2D")
        super().__init__(window, None, 0, True, True, "avg", layout, **kwargs)


class GlobalAvgPool3D(_Pooling):
    """Mean of a volume: ``(N, C, D, H, W)`` to ``(N, C, 1, 1, 1)``; see :class:`GlobalMaxPool1D`."""

    def __init__(self, layout: str = "NCDHW", **kwargs: Any) -> None:
        window = _pool_window(1, layout, 3, "GlobalAvgPool3D")
        super().__init__(window, None, 0, True, True, "avg", layout, **kwargs)


class ReflectionPad2D(HybridBlock):
    """Pads images ``(N, C, H, W)`` with their mirror image at the border.

    Parameters
    ----------
    padding : int or tuple of 8 int
        Width on all sides of ``H`` and ``W``, or before and after for every axis.
    """

    def __init__(self, padding: Size = 0, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        if isinstance(padding, numeric_types):
            padding = (0, 0, 0, 0, padding, padding, padding, padding)
        self._padding = _sizes(padding, 8, "padding of ReflectionPad2D")

    def hybrid_forward(self, F: Any, x: Any) -> Any:
        return F.pad(x, mode="reflect", pad_width=self._padding)
