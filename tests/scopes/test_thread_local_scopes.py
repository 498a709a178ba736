"""Scopes belong to threads: AttrScope, NameManager, block scopes and the switches of NumPy semantics."""

from __future__ import annotations

import threading

import pytest

import mxcore as mx
from mxcore import util
from mxcore.attribute import AttrScope
from mxcore.base import MXNetError
from mxcore.gluon import block, nn
from mxcore.name import NameManager, Prefix


def in_a_thread(fn):
    """Return what ``fn()`` returns in a new thread, or raise what it raises."""
    got: dict[str, object] = {}

    def run():
        try:
            got["value"] = fn()
        except BaseException as error:
            got["error"] = error

    thread = threading.Thread(target=run)
    thread.start()
    thread.join()
    if "error" in got:
        raise got["error"]
    return got["value"]


@pytest.fixture(autouse=True)
def restored():
    before = AttrScope.current, NameManager.current, util._NumpyArrayScope._current
    yield
    AttrScope.current, NameManager.current, util._NumpyArrayScope._current = before


@pytest.mark.parametrize("cls, other", [(AttrScope, lambda: AttrScope(a="1")), (NameManager, lambda: Prefix("p_"))])
def test_current_is_set_per_thread(cls, other):
    mine = cls.current = other()
    assert cls.current is mine and cls._current.value is mine

    def elsewhere():
        first = cls.current
        assert first is not mine and type(first) is cls
        theirs = cls.current = other()
        assert cls.current is theirs
        with other() as inner:
            assert cls.current is inner
        assert cls.current is theirs

    in_a_thread(elsewhere)
    assert cls.current is mine
    with other() as inner:
        assert cls.current is inner
        cls.current = other()
    assert cls.current is mine


def test_functions_and_subclasses_see_the_same_scope():
    with mx.name.Prefix("p_") as names:
        assert mx.name.current() is names and NameManager.current is names and Prefix.current is names
    with mx.AttrScope(a="1") as scope:
        assert mx.attribute.current() is scope
    assert AttrScope._current is not NameManager._current


def test_a_set_attr_scope_is_inherited_by_inner_ones():
    AttrScope.current = AttrScope(a="1", b="2")
    with mx.AttrScope(b="3") as scope:
        assert scope.get(None) == {"a": "1", "b": "3"}


def test_a_set_name_manager_names_blocks():
    NameManager.current = NameManager()
    assert nn.Dense(2).name == "dense0"
    NameManager.current.get(None, "dense")
    assert nn.Dense(2).name == "dense2"
    assert in_a_thread(lambda: nn.Dense(2).name) == "dense0"


class Named:
    def __init__(self, prefix):
        self.prefix = prefix
        self._empty_prefix = False


def test_block_scopes_set_the_name_manager_of_their_thread():
    with block._BlockScope(Named("outer_")):
        assert NameManager.current.get(None, "x") == "outer_x0"
        assert in_a_thread(lambda: block._BlockScope.create(None, None, "x")[0]) == "x0_"
        assert in_a_thread(lambda: NameManager.current.get(None, "x")) == "x0"
    assert block._BlockScope.create("given", None, "hint")[0] == "given"


def test_np_array_scopes():
    assert not mx.is_np_array()
    on, off = util._NumpyArrayScope(True), util._NumpyArrayScope(False)
    assert on._is_np_array and not off._is_np_array
    with mx.np_array(False) as scope:
        assert util._NumpyArrayScope._current.value is scope and not mx.is_np_array()
        with mx.np_array(False):
            pass
        assert util._NumpyArrayScope._current.value is scope
        assert in_a_thread(lambda: getattr(util._NumpyArrayScope._current, "value", None)) is None
    assert not mx.is_np_array()


def test_np_array_reads_the_scope_of_the_thread():
    util._NumpyArrayScope._current.value = util._NumpyArrayScope(True)
    try:
        assert mx.is_np_array() and not in_a_thread(mx.is_np_array)
    finally:
        del util._NumpyArrayScope._current.value


def test_current_np_scope_may_be_replaced():
    util._NumpyArrayScope._current = util._NumpyArrayScope(True)
    assert util._NumpyArrayScope._current._is_np_array
    with mx.np_array(False):
        assert not mx.is_np_array()


@pytest.mark.parametrize(
    "turn_on, what",
    [
        (lambda: mx.np_array().__enter__(), "np_array"),
        (lambda: mx.np_shape().__enter__(), "set_np_shape"),
        (lambda: mx.set_np_shape(True), "set_np_shape"),
        (lambda: util.set_np(), "set_np"),
    ],
)
def test_numpy_semantics_cannot_be_turned_on(turn_on, what):
    with pytest.raises(MXNetError, match=rf"NumPy semantics \({what}\) are not part of this version"):
        turn_on()
    assert not mx.is_np_array() and not mx.is_np_shape()


def test_numpy_semantics_can_be_turned_off():
    util.reset_np()
    util.set_np(shape=False, array=False)
    assert mx.set_np_shape(0) is False
    with mx.np_shape(False):
        assert not mx.is_np_shape()
