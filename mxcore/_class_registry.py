"""Factories of named classes: ``create("name", ...)`` for initializers, metrics and whoever else asks.

One table per base class maps lower-case names to classes. A description of an instance is one of: the instance,
a name, ``'["name", {arguments}]'`` (what ``dumps`` of an initializer writes), or a dictionary that holds the name
under the factory's nickname. MXNet offers these functions as ``mx.registry``; the room ``mxcore.registry`` is the
plug board for backends and has nothing to do with them.
"""

from __future__ import annotations

import json
import warnings
from collections.abc import Callable
from typing import Any, TypeVar

_Class = TypeVar("_Class", bound=type)

_REGISTRY: dict[type, dict[str, type]] = {}


def _table(base_class: type) -> dict[str, type]:
    return _REGISTRY.setdefault(base_class, {})


def get_registry(base_class: type) -> dict[str, type]:
    """Return a copy of the name-to-class table of `base_class`.

    Examples
    --------
    >>> class Shape: ...
    >>> register = get_register_func(Shape, "shape")
    >>> @register
    ... class Circle(Shape): ...
    >>> sorted(get_registry(Shape))
    ['circle']
    """
    return dict(_table(base_class))


def get_register_func(base_class: type, nickname: str) -> Callable[..., Any]:
    """Return ``register(klass, name=None)``, which enters a subclass of `base_class` under its lower-case name.

    Parameters
    ----------
    base_class : type
        Root of the classes that may be registered.
    nickname : str
        What such a class is called in messages and in dictionary descriptions.

    Returns
    -------
    callable
        Usable as a class decorator. Taking a name that is in use replaces the class and warns (``UserWarning``).
    """
    table = _table(base_class)

    def register(klass: _Class, name: str | None = None) -> _Class:
        if not (isinstance(klass, type) and issubclass(klass, base_class)):
            # AssertionError is what MXNet raises here and what its users catch.
            raise AssertionError(
                f"register: {klass!r} cannot be a {nickname}; derive the class from {base_class.__name__}."
            )
        key = (klass.__name__ if name is None else name).lower()
        known = table.get(key)
        if known is not None:
            warnings.warn(
                f"New {nickname} {klass.__module__}.{klass.__name__} registered with name {key} replaces "
                f"{known.__module__}.{known.__name__}.",
                UserWarning,
                stacklevel=2,
            )
        table[key] = klass
        return klass

    register.__doc__ = f"Register a {nickname} class under its lower-case name (or under `name`)."
    return register


def get_alias_func(base_class: type, nickname: str) -> Callable[..., Any]:
    """Return ``alias(*names)``, a class decorator that registers the class under further names.

    Parameters
    ----------
    base_class, nickname
        As for :func:`get_register_func`.
    """
    register = get_register_func(base_class, nickname)

    def alias(*aliases: str) -> Callable[[_Class], _Class]:
        """Register the decorated class under each of `aliases`."""

        def enter(klass: _Class) -> _Class:
            for name in aliases:
                register(klass, name)
            return klass

        return enter

    return alias


def get_create_func(base_class: type, nickname: str) -> Callable[..., Any]:
    """Return ``create(description, *args, **kwargs)``, which makes an instance from its description.

    Parameters
    ----------
    base_class, nickname
        As for :func:`get_register_func`.

    Returns
    -------
    callable
        An instance given as description comes back as it is.

    Examples
    --------
    >>> class Rule: ...
    >>> @get_register_func(Rule, "rule")
    ... class Scale(Rule):
    ...     def __init__(self, by=1):
    ...         self.by = by
    >>> create = get_create_func(Rule, "rule")
    >>> create("scale", by=3).by, create('["scale", {"by": 4}]').by, create(rule="scale").by
    (3, 4, 1)
    """
    table = _table(base_class)

    def create(*args: Any, **kwargs: Any) -> Any:
        if args:
            what, args = args[0], args[1:]
        else:
            what = kwargs.pop(nickname)
        if isinstance(what, base_class):
            if args or kwargs:
                raise AssertionError(
                    f"create: the {nickname} is an instance already, so further arguments are invalid; "
                    f"pass its name to have one made with them."
                )
            return what
        if isinstance(what, dict):
            return create(**what)
        if not isinstance(what, str):
            raise AssertionError(
                f"create: a {nickname} is described by a name, a JSON string, a dict or an instance of "
                f"{base_class.__name__}, not by {type(what).__name__}."
            )
        if what.startswith(("[", "{")):
            if args or kwargs:
                raise AssertionError(f"create: a {nickname} given as JSON takes no further arguments.")
            config = json.loads(what)
            if isinstance(config, dict):
                return create(**config)
            name, kwargs = config
            return create(name, **kwargs)
        klass = table.get(what.lower())
        if klass is None:
            raise AssertionError(
                f"{what.lower()} is not registered as a {nickname}; known: {', '.join(sorted(table))}. "
                f"Please register with {nickname}.register first."
            )
        return klass(*args, **kwargs)

    create.__doc__ = f"Create a {nickname} from its name, JSON or dict; an instance is returned as it is."
    return create
