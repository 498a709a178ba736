"""The compute threads of the NumPy library: same results for any number, errors, nesting, forks."""

from __future__ import annotations

import os
import threading

import numpy as np
import pytest

from mxcore.oplib import threads
from mxcore.oplib.threads import Team, blas, elementwise, matmul


@pytest.fixture(params=[1, 2, 3])
def team(request, monkeypatch):
    made = Team(request.param)
    monkeypatch.setattr(threads, "_team", made)
    return made


def test_every_piece_runs_once(team):
    seen: list[tuple[int, int]] = []
    team.parallel_for(10, 3, lambda a, b: seen.append((a, b)))
    assert sorted(seen) == [(0, 3), (3, 6), (6, 9), (9, 10)]
    team.parallel_for(0, 3, lambda a, b: seen.append((a, b)))
    assert len(seen) == 4


@pytest.mark.parametrize("shape", [(3, 4, 5), (64, 784, 512), (512, 64, 784), (130, 300, 129), (1024, 16, 300)])
@pytest.mark.parametrize("transposed", ["", "a", "b", "ab"])
def test_products(shape, transposed, monkeypatch):
    m, k, n = shape
    rng = np.random.default_rng(0)
    a = rng.standard_normal((k, m)).T if "a" in transposed else rng.standard_normal((m, k))
    b = rng.standard_normal((n, k)).T if "b" in transposed else rng.standard_normal((k, n))
    a, b = a.astype("float32", order="K"), b.astype("float32", order="K")
    results = []
    for count in (2, 3):
        monkeypatch.setattr(threads, "_team", Team(count))
        results.append(matmul(a, b))
        out = np.empty((m, n), np.float32)
        assert matmul(a, b, out=out) is out
        results.append(out)
    want = a.astype(np.float64) @ b.astype(np.float64)
    np.testing.assert_allclose(results[0], want, rtol=1e-4, atol=1e-3)
    for r in results[1:]:
        np.testing.assert_array_equal(r, results[0], err_msg="the number of threads changed the result")


def test_elementwise_covers_large_arrays(team):
    x = np.arange(1 << 19, dtype=np.float32).reshape(1 << 9, -1)
    y = np.empty_like(x)
    elementwise(lambda a, b: np.add(a, 1, out=b), x, y)
    np.testing.assert_array_equal(y, x + 1)


def test_the_earliest_error_is_raised_and_the_team_works_on(team):
    def fn(a, b):
        if a in (2, 4):
            raise ValueError(f"piece {a}")

    with pytest.raises(ValueError, match="piece 2|piece 4"):
        team.parallel_for(6, 1, fn)
    seen = []
    team.parallel_for(6, 1, lambda a, b: seen.append(a))
    assert sorted(seen) == list(range(6))


def test_nested_and_concurrent_calls_finish(team):
    counts = [0] * 8
    lock = threading.Lock()

    def outer(a, b):
        team.parallel_for(5, 1, lambda i, j, k=a: bump(k))

    def bump(k):
        with lock:
            counts[k] += 1

    callers = [threading.Thread(target=lambda: team.parallel_for(8, 1, outer)) for _ in range(3)]
    for c in callers:
        c.start()
    for c in callers:
        c.join(30)
    assert not any(c.is_alive() for c in callers)
    assert counts == [15] * 8


def test_blas_gets_its_threads_back():
    if not blas.found:
        pytest.skip("this NumPy carries no OpenBLAS")
    before = blas._get()
    with blas, blas:
        assert blas._get() == 1
    assert blas._get() == before


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
@pytest.mark.filterwarnings("ignore:.*multi-threaded.*fork:DeprecationWarning")
def test_a_forked_child_has_a_team_of_its_own(monkeypatch):
    monkeypatch.setattr(threads, "_team", Team(2))
    a = np.ones((600, 600), np.float32)
    matmul(a, a)
    child = os.fork()
    if child == 0:
        threads._team = Team(2)
        os._exit(0 if matmul(a, a)[0, 0] == 600 else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
