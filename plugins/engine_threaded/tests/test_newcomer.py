"""What somebody who came new to the engines fell over; each once a defect."""

from __future__ import annotations

import functools
import gc
import os
import subprocess
import sys
import textwrap
import threading
import weakref

import numpy as np
import pytest
from mxcore_engine_threaded.costs import CostTable
from mxcore_engine_threaded.engine import ThreadedEngine, ThreadedEnginePerDevice

import mxcore as mx
from mxcore import autograd, nd
from mxcore.spec import EngineError
from mxcore.testing.engine_conformance import within


@pytest.fixture
def engine():
    engine = ThreadedEngine(workers=2)
    yield engine
    engine.shutdown()


def run(code: str, **environment: str) -> str:
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(code)],
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def wait_for(event):
    event.wait()


@pytest.mark.parametrize(
    ("cheap", "blocking"),
    [
        (lambda log, event: lambda: log.append(1), lambda log, event: lambda: event.wait()),
        (
            lambda log, event: functools.partial(log.append, 1),
            lambda log, event: functools.partial(wait_for, event),
        ),
        (lambda log, event: log.clear, lambda log, event: event.wait),
    ],
    ids=["lambdas", "partials", "builtins"],
)
def test_another_function_is_not_known_to_be_cheap(engine, cheap, blocking):
    x, log, event = engine.new_variable(), [], threading.Event()
    for _ in range(60):
        engine.push(cheap(log, event), writes=[x])
    engine.wait_for_all()
    within(lambda: engine.push(blocking(log, event), writes=[x]), 10)
    event.set()
    within(lambda: engine.wait_for_variable(x))


def test_a_push_of_none_is_refused(engine):
    x = engine.new_variable()
    with pytest.raises(EngineError, match="push of 'work': the function is None"):
        engine.push(None, writes=[x], name="work")
    assert (x.version, x.flags) == (0, 0)


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="needs named pipes")
def test_costs_never_replace_what_is_no_file(tmp_path, caplog):
    path = tmp_path / "costs"
    os.mkfifo(path)
    table = CostTable(path)
    for _ in range(20):
        table.estimate(("a",)).record(1000)
    assert table.save() is False
    assert path.is_fifo()
    assert "it is not a regular file" in caplog.text


def test_work_pending_at_exit_is_finished():
    code = """
        import time
        from mxcore_engine_threaded.engine import ThreadedEngine
        engine = ThreadedEngine(workers=2)
        x = engine.new_variable()
        for _ in range(3):
            engine.push(lambda: (time.sleep(0.02), print("done", flush=True)), writes=[x])
    """
    assert run(code) == "done\n" * 3


def test_explain_may_be_the_first_thing_asked():
    assert "threaded" in run("import mxcore as mx; print(mx.engine.explain())", MXCORE_ENGINE="threaded")


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_a_forked_child_computes_the_same_bits():
    code = """
        import hashlib, os
        import mxcore as mx
        mx.random.seed(1)
        a = mx.nd.random.normal(shape=(600, 600))
        digest = lambda: hashlib.sha1(mx.nd.dot(a, a).asnumpy().tobytes()).hexdigest()
        print(digest(), flush=True)
        pid = os.fork()
        if not pid:
            print(digest(), flush=True)
            os._exit(0)
        os.waitpid(pid, 0)
    """
    first, second = run(code, MXCORE_ENGINE="threaded_per_device").split()
    assert first == second


@pytest.mark.parametrize("other", ["naive", "threaded"])
def test_what_failed_stays_failed_and_heals_under_another_engine(other):
    one = ThreadedEnginePerDevice(workers=2)
    with mx.use(engine=one):
        for heal in (lambda f: f.__setitem__(slice(None), 1), lambda f: nd.zeros((3, 3)).copyto(f)):
            f = nd.linalg.inverse(nd.zeros((3, 3)))
            with mx.use(engine=other):
                with pytest.raises(mx.MXNetError, match="Singular|singular"):
                    (f + 1).asnumpy()
                with pytest.raises(mx.MXNetError, match="Singular|singular"):
                    f.sum().asnumpy()
                heal(f)
                assert np.isfinite(f.asnumpy()).all()
                assert np.isfinite((f + 1).asnumpy()).all()
    one.shutdown()


def test_an_error_nobody_reads_lets_go_of_the_arrays():
    one = ThreadedEnginePerDevice(workers=2)
    with mx.use(engine=one):
        x = nd.ones((100, 100))
        raw = weakref.ref(x)
        f = nd.take(x, nd.array([2000]), mode="raise")
        del f, x
        gc.collect()
        assert raw() is None
        with pytest.raises(mx.MXNetError, match="out of bounds"):
            mx.nd.waitall()
    one.shutdown()


@pytest.mark.parametrize("name", ["naive", "threaded"])
def test_an_error_in_a_users_backward_is_an_mxnet_error(name):
    class Bad(autograd.Function):
        def forward(self, x):
            return x * 2

        def backward(self, dy):
            raise ValueError("my bug")

    with mx.use(engine=name):
        x = nd.ones(3)
        x.attach_grad()
        with autograd.record():
            y = Bad()(x)
        with pytest.raises(mx.MXNetError, match="my bug") as caught:
            y.backward()
        assert isinstance(caught.value.__cause__, ValueError)


@pytest.mark.parametrize("name", ["naive", "threaded"])
def test_a_gradient_left_by_an_interrupt_is_not_added(name):
    with mx.use(engine=name):
        x = nd.ones(3)
        x.attach_grad()
        x._tape.g = np.full(3, 7.0, "float32")  # as an interrupted delivery leaves it
        with autograd.record():
            y = (x * 2).sum()
        y.backward()
        assert x.grad.asnumpy().tolist() == [2, 2, 2]
