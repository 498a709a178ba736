"""Arithmetic of windows: from shapes and attributes of convolution, deconvolution and pooling to complete geometry.

Pure functions of tuples, without arrays and without records, so that inference and kernels share one meaning of
strides left out, conventions of rounding and layouts not said. Errors name the family of the operator
(``Convolution``, ``Deconvolution``, ``Pooling``); whoever knows the operator's own name puts
that in place of it with :func:`named`.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any

from ..spec.errors import ParameterError, ShapeError

Ints = tuple[int, ...]

# The layout by number of spatial axes, where none is said.
_LAYOUTS = {1: "NCW", 2: "NCHW", 3: "NCDHW"}


def spatial_axes(layout: str) -> Ints:
    """Return which axes of ``layout`` are spatial."""
    return tuple(axis for axis, name in enumerate(layout) if name in "DHW")


def named(name: str, e: ShapeError) -> ShapeError:
    """Return an error of this module under the operator's own name."""
    return ShapeError(f"operator '{name}': {str(e).partition(': ')[2]}", **{**e.fields, "operator": name})


def _layout(layout: str | None, n: int) -> str:
    return layout or _LAYOUTS.get(n, "NC" + "?" * n)


# ---------------------------------------------------------------------------------------------------------------
# Convolution and its transpose


@functools.lru_cache(maxsize=4096)
def geometry(kernel: Ints, stride: Ints, dilate: Ints, pad: Ints, num_group: int, layout: str | None) -> dict[str, Any]:
    """Return the keywords of a convolution with everything that was left out filled in."""
    n = len(kernel)
    return {
        "kernel": kernel,
        "stride": stride or (1,) * n,
        "dilate": dilate or (1,) * n,
        "pad": pad or (0,) * n,
        "num_group": num_group,
        "layout": _layout(layout, n),
    }


def _misfit(
    operator: str, data: Sequence[int], weight: Sequence[int], layout: str, why: str, **attributes: Any
) -> ShapeError:
    given = ", ".join(f"{name}={value}" for name, value in attributes.items())
    return ShapeError(
        f"{operator}: data {tuple(data)} ({layout}) and weight {tuple(weight)} with {given}: {why}",
        operator=operator,
        shapes=[tuple(data), tuple(weight)],
    )


def _wrong_axes(data: Sequence[int], kernel: Ints, layout: str) -> str | None:
    n = len(kernel)
    if len(data) != n + 2 or len(layout) != n + 2:
        return f"a kernel of {n} axes needs data of {n + 2} axes and a layout of as many letters."
    return None


def _weight_shape(filters: int, channels: int, kernel: Ints, layout: str) -> Ints:
    return (filters, channels, *kernel) if layout[1] == "C" else (filters, *kernel, channels)


def convolution_output_shape(
    data_shape: Sequence[int],
    weight_shape: Sequence[int],
    *,
    kernel: Ints,
    stride: Ints,
    dilate: Ints,
    pad: Ints,
    num_group: int,
    layout: str,
) -> Ints:
    """Return the shape of a convolution's result.

    Raises
    ------
    ShapeError
        When the shapes and attributes do not fit together; says which of them and why.

    Examples
    --------
    >>> convolution_output_shape((1, 3, 8, 8), (4, 3, 3, 3), **geometry((3, 3), (2, 2), (), (1, 1), 1, None))
    (1, 4, 4, 4)
    """

    def fail(why: str) -> ShapeError:
        how = {"kernel": kernel, "stride": stride, "dilate": dilate, "pad": pad, "num_group": num_group}
        return _misfit("Convolution", data_shape, weight_shape, layout, why, **how)

    wrong = _wrong_axes(data_shape, kernel, layout)
    if wrong:
        raise fail(wrong)
    channel = layout.index("C")
    channels, filters = data_shape[channel], weight_shape[0]
    if channels % num_group or filters % num_group:
        raise fail(f"{channels} channels and {filters} filters must both divide by num_group.")
    expected = _weight_shape(filters, channels // num_group, kernel, layout)
    if tuple(weight_shape) != expected:
        raise fail(f"the weight must have shape {expected}.")
    shape = list(data_shape)
    shape[channel] = filters
    for axis, k, s, d, p in zip(spatial_axes(layout), kernel, stride, dilate, pad):
        if min(k, s, d) < 1 or p < 0:
            raise fail("kernel, stride and dilate must be at least 1 and pad at least 0.")
        extent, padded = d * (k - 1) + 1, shape[axis] + 2 * p
        if extent > padded:
            raise fail(f"the kernel spans {extent} positions of axis {axis}, which has {padded} with its pad.")
        shape[axis] = (padded - extent) // s + 1
    return tuple(shape)


def deconvolution_output_shape(
    data_shape: Sequence[int],
    weight_shape: Sequence[int],
    *,
    kernel: Ints,
    stride: Ints,
    dilate: Ints,
    pad: Ints,
    adj: Ints,
    target_shape: Ints,
    num_group: int,
    layout: str,
) -> tuple[Ints, Ints]:
    """Return the output shape of a deconvolution and the ``pad`` to compute it with.

    A ``target_shape`` with any non-zero entry replaces ``pad`` and ``adj`` by what leads to it.

    Raises
    ------
    ShapeError
        When the shapes and attributes do not fit together; says which of them and why.
    """

    def fail(why: str) -> ShapeError:
        how = {"kernel": kernel, "stride": stride, "dilate": dilate, "pad": pad}
        how |= {"adj": adj, "target_shape": target_shape}
        return _misfit("Deconvolution", data_shape, weight_shape, layout, why, **how, num_group=num_group)

    wrong = _wrong_axes(data_shape, kernel, layout)
    if wrong:
        raise fail(wrong)
    channel = layout.index("C")
    channels = data_shape[channel]
    per_group = weight_shape[1] if layout[1] == "C" else weight_shape[-1]
    expected = _weight_shape(channels, per_group, kernel, layout)
    if tuple(weight_shape) != expected:
        raise fail(f"the weight must have shape {expected}.")
    if channels % num_group:
        raise fail(f"{channels} channels must divide by num_group.")
    shape = list(data_shape)
    shape[channel] = per_group * num_group
    pads = []
    to_target = any(target_shape)
    for i, (axis, k, s, d) in enumerate(zip(spatial_axes(layout), kernel, stride, dilate)):
        if min(k, s, d) < 1:
            raise fail("kernel, stride and dilate must be at least 1.")
        full = s * (shape[axis] - 1) + d * (k - 1) + 1
        if to_target:
            excess = full - target_shape[i]
            if excess < 0:
                raise fail(f"target_shape is larger than {full}, the most that axis {axis} can reach.")
            p, a = (excess + 1) // 2, excess % 2
        else:
            p, a = pad[i], adj[i]
        if a > s - 1:
            raise fail(f"adj must be smaller than the stride, but axis {axis} has {a} and {s}.")
        shape[axis] = full - 2 * p + a
        if shape[axis] < 1:
            raise fail(f"axis {axis} would have {shape[axis]} positions; use less pad.")
        pads.append(p)
    return tuple(shape), tuple(pads)


def deconvolution_geometry(x_shape: Any, w_shape: Any, adj: Any, target_shape: Any, **a: Any) -> Any:
    """Return the result's shape, and the keywords of the convolution that a deconvolution is the transpose of."""
    full = geometry(**a)
    n = len(full["kernel"])
    shape, pads = deconvolution_output_shape(
        x_shape, w_shape, adj=adj or (0,) * n, target_shape=target_shape or (0,) * n, **full
    )
    return shape, {**full, "pad": pads}


def bilinear_upsampling(scale: int) -> dict[str, Any]:
    """Return kernel, stride and pad of the deconvolution that upsamples by ``scale``."""
    return {"kernel": (2 * scale - scale % 2,) * 2, "stride": (scale,) * 2, "pad": (scale // 2,) * 2}


# ---------------------------------------------------------------------------------------------------------------
# Pooling


@functools.lru_cache(maxsize=4096)
def pooling_geometry(
    ndim: int,
    kernel: Ints,
    pool_type: str,
    global_pool: bool,
    pooling_convention: str,
    stride: Ints,
    pad: Ints,
    p_value: int | None,
    count_include_pad: bool | None,
    layout: str | None,
) -> dict[str, Any]:
    """Return the keywords of a pooling with everything that was left out filled in."""
    n = ndim - 2
    return {
        "kernel": kernel or (1,) * n,
        "pool_type": pool_type,
        "global_pool": global_pool,
        # MXNet ignores entries beyond the spatial axes.
        "stride": stride[:n] or (1,) * n,
        "pad": pad[:n] or (0,) * n,
        "pooling_convention": pooling_convention,
        "count_include_pad": count_include_pad,
        "p_value": p_value,
        "layout": _layout(layout, n),
    }


def pooling_output_shape(
    data_shape: Sequence[int],
    *,
    kernel: Ints,
    pool_type: str = "max",
    global_pool: bool = False,
    stride: Ints = (),
    pad: Ints = (),
    pooling_convention: str = "valid",
    layout: str,
    **_: Any,
) -> Ints:
    """Return the shape of the result of a pooling.

    Raises
    ------
    ShapeError
        When the data has other axes than ``layout``, or the kernel exceeds the padded data.
    ParameterError
        When ``pooling_convention`` is not known.
    """
    axes = spatial_axes(layout)
    if len(data_shape) != len(layout):
        raise ShapeError(
            f"Pooling: data of shape {tuple(data_shape)} has {len(data_shape)} axes, but layout {layout!r} "
            f"has {len(layout)}. Give data with axes {layout}.",
            operator="Pooling",
            shapes=[tuple(data_shape)],
        )
    shape = list(data_shape)
    if global_pool:
        for axis in axes:
            shape[axis] = 1
        return tuple(shape)
    if pooling_convention not in ("valid", "full", "same"):
        raise ParameterError(
            f"Pooling: pooling_convention={pooling_convention!r} is not one of 'valid', 'full', 'same'.",
            operator="Pooling",
        )
    if pooling_convention == "same" and (len(axes) != 1 or any(pad)):
        raise ShapeError(
            f"Pooling: pooling_convention='same' needs one spatial axis and no pad, but data is "
            f"{tuple(data_shape)} and pad={pad}. Use 'valid' or 'full' with an explicit pad.",
            operator="Pooling",
            shapes=[tuple(data_shape)],
        )
    for axis, k, s, p in zip(axes, kernel, stride, pad):
        padded = shape[axis] + 2 * p
        if k > padded or k < 1 or s < 1:
            raise ShapeError(
                f"Pooling: kernel={kernel} with stride={stride} does not fit data of shape {tuple(data_shape)} "
                f"({layout}): axis {axis} has {shape[axis]} positions, {padded} with pad={pad}. "
                f"Use a smaller kernel, more pad, or larger data.",
                operator="Pooling",
                shapes=[tuple(data_shape)],
            )
        if pooling_convention == "valid":
            shape[axis] = 1 + (padded - k) // s
        elif pooling_convention == "full":
            shape[axis] = 1 - (k - padded) // s
        else:
            shape[axis] = -(-padded // s)
    return tuple(shape)
