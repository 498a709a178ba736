"""``Context.default_ctx`` is this thread's current context: read, set, and changed by ``with``."""

from __future__ import annotations

import copy
import pickle
import threading

import pytest

import mxcore as mx
from mxcore.context import Context
from mxcore.test_utils import set_default_context


@pytest.fixture(autouse=True)
def restored():
    before = Context.default_ctx
    yield
    Context.default_ctx = before


def in_a_thread(fn):
    got = []
    thread = threading.Thread(target=lambda: got.append(fn()))
    thread.start()
    thread.join()
    return got[0]


def test_setting_it_is_for_this_thread():
    set_default_context(mx.cpu(3))
    assert mx.current_context() == Context.default_ctx == mx.nd.ones(1).context == mx.cpu(3)

    def elsewhere():
        first = Context.default_ctx
        Context.default_ctx = mx.gpu(11)
        return first, mx.current_context()

    assert in_a_thread(elsewhere) == (mx.cpu(0), mx.gpu(11))
    assert Context.default_ctx == mx.cpu(3)


def test_with_changes_it():
    with mx.cpu(1):
        assert Context.default_ctx == mx.cpu(1)
        with mx.cpu(2):
            assert Context.default_ctx == mx.cpu(2)
            assert in_a_thread(lambda: Context.default_ctx) == mx.cpu(0)
        assert Context.default_ctx == mx.cpu(1)
    assert Context.default_ctx == mx.cpu(0)


def test_setting_it_inside_with_lasts_until_the_end():
    Context.default_ctx = mx.cpu(4)
    with mx.cpu(1):
        Context.default_ctx = mx.cpu(2)
        assert mx.current_context() == mx.cpu(2)
    assert mx.current_context() == mx.cpu(4)


def test_an_error_inside_with_ends_it():
    with pytest.raises(KeyError), mx.cpu(1):
        raise KeyError
    assert mx.current_context() == mx.cpu(0)


def test_only_contexts_can_be_set():
    with pytest.raises(TypeError, match=r"Context.default_ctx must be a Context but got 'cpu'"):
        Context.default_ctx = "cpu"
    assert Context.default_ctx == mx.cpu(0)


def test_contexts_are_still_one_object_each():
    ctx = mx.cpu(3)
    assert mx.Context("cpu", 3) is ctx and pickle.loads(pickle.dumps(ctx)) is ctx and copy.deepcopy(ctx) is ctx
