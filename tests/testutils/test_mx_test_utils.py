"""The helpers of mx.test_utils: they pass what is right and catch what is wrong."""

from __future__ import annotations

import os
import sys

import numpy as np
import pytest

import mxcore as mx
from mxcore import test_utils as tu


def test_star_import_brings_what_suites_rely_on():
    names: dict = {}
    exec("from mxcore.test_utils import *", names)
    for name in ("np", "os", "array", "rnd", "Context", "assert_almost_equal", "rand_ndarray", "compare_optimizer"):
        assert name in names, name


def test_assert_almost_equal_accepts_and_rejects():
    a = mx.nd.array([1.0, 2.0])
    tu.assert_almost_equal(a, np.array([1.0, 2.0001], np.float32))
    tu.assert_almost_equal(a, a.asnumpy().astype(np.float64) + 1e-5)
    tu.assert_almost_equal(1.0, 1.0)
    tu.assert_almost_equal(np.nan, np.nan, equal_nan=True)
    with pytest.raises(AssertionError, match="nan"):
        tu.assert_almost_equal(np.array([np.nan]), np.array([1.0]))
    with pytest.raises(AssertionError):
        tu.assert_almost_equal(np.array([True, False]), np.array([True, True]))


def test_the_message_says_how_much_and_where():
    b = np.zeros((2, 3), np.float32)
    a = b.copy()
    a[1, 2], a[0, 1] = 5, 1
    with pytest.raises(AssertionError) as error:
        tu.assert_almost_equal(a, b, rtol=0, atol=0.5, names=("left", "right"))
    text = str(error.value)
    assert "Error 10.000000 exceeds tolerance rtol=0.000000e+00, atol=5.000000e-01 (mismatch 33.333333%)" in text
    assert "Location of maximum error: (1, 2), left=5.00000000, right=0.00000000" in text
    assert "2: (0, 1), left=1.00000000" in text
    with pytest.raises(AssertionError, match=r"a.shape = \(2, 3\) and b.shape = \(1, 3\) are not equal"):
        tu.assert_almost_equal(a, a[:1], use_broadcast=False)


def test_tolerances_follow_the_wider_dtype():
    assert tu.get_tols(np.ones(1, np.float16), np.ones(1, np.float64), None, None) == (1e-2, 1e-1)
    assert tu.get_tols(np.ones(1, np.int32), np.ones(1, np.int32), None, None) == (0, 0)
    assert tu.get_tols(np.ones(1, np.float32), 1.0, {np.dtype(np.float32): 0.5}, 0.1) == (0.5, 0.1)
    assert tu.get_rtol() == 1e-5 and tu.get_atol(0.3) == 0.3 and tu.get_etol() == 0


def test_with_err_allows_a_share_of_mismatches():
    a, b = np.zeros(10), np.zeros(10)
    a[0] = 1
    tu.assert_almost_equal_with_err(a, b, etol=0.1)
    with pytest.raises(AssertionError):
        tu.assert_almost_equal_with_err(a, b, etol=0.05)
    with pytest.raises(AssertionError):
        tu.assert_almost_equal_with_err(a, b)
    tu.assert_almost_equal_ignore_nan(np.array([np.nan, 1]), np.array([3, 1]))


def test_same_and_same_array():
    a = mx.nd.ones((3, 2))
    assert tu.same(a, np.ones((3, 2))) and not tu.same(a, np.zeros((3, 2)))
    assert tu.same_array(a, a[:]) and not tu.same_array(a, a.copy())
    assert (a.asnumpy() == 1).all()


def test_assert_exception_and_retry():
    tu.assert_exception(int, ValueError, "x")
    with pytest.raises(AssertionError, match="int did not raise"):
        tu.assert_exception(int, ValueError, "3")
    attempts = []

    @tu.retry(3)
    def sometimes():
        attempts.append(1)
        assert len(attempts) == 3

    sometimes()
    assert len(attempts) == 3

    @tu.retry(2)
    def never():
        raise AssertionError("always")

    with pytest.raises(AssertionError, match="always"):
        never()


def test_environment_restores(monkeypatch):
    monkeypatch.setenv("MXCORE_A", "before")
    monkeypatch.delenv("MXCORE_B", raising=False)
    with pytest.raises(KeyError), tu.environment({"MXCORE_A": None, "MXCORE_B": "2"}):
        assert "MXCORE_A" not in os.environ and os.environ["MXCORE_B"] == "2"
        raise KeyError
    assert os.environ["MXCORE_A"] == "before" and "MXCORE_B" not in os.environ
    with pytest.raises(AssertionError, match="one dict arg or two args"), tu.environment("A"):
        pass


def test_discard_stderr(capfd):
    with tu.discard_stderr():
        os.write(2, b"lost")
    sys.stderr.flush()
    os.write(2, b"seen")
    assert capfd.readouterr().err == "seen"


def test_random_shapes_and_arrays():
    assert all(1 <= n <= 4 for n in tu.rand_shape_nd(50, 4))
    assert 0 in tu.rand_shape_nd(200, 3, allow_zero_size=True)
    assert len(tu.rand_shape_2d()) == 2 and len(tu.rand_shape_3d(2, 2, 2)) == 3
    a, scalar = tu.random_arrays((2, 3), ())
    assert a.shape == (2, 3) and a.dtype == np.float32 and scalar.shape == ()
    assert tu.rand_ndarray((2, 3)).shape == (2, 3)
    assert np.dtype(tu.rand_ndarray((2,), dtype="float64").dtype) == np.float64
    assert tu.rand_ndarray((2, 3), "csr").stype == "csr"
    rows, (values, indices) = tu.rand_sparse_ndarray((5, 2), "row_sparse", rsp_indices=[1, 4], data_init=3)
    assert rows.asnumpy()[[1, 4]].tolist() == values.tolist() == [[3, 3], [3, 3]] and list(indices) == [1, 4]
    law = tu.rand_ndarray((5, 64), "csr", density=0.15, distribution="powerlaw")
    assert np.diff(law.indptr.asnumpy()).tolist()[:4] == [2, 4, 8, 16]
    assert sorted(tu.random_sample([1, 2, 3], 3)) == [1, 2, 3]


def test_matrices():
    for matrix in tu.new_matrix_with_real_eigvals_nd((3, 4, 4)):
        assert np.abs(np.linalg.eigvals(matrix).imag).max() < 1e-9
    symmetric = tu.new_sym_matrix_with_real_eigvals_nd((5, 5))
    np.testing.assert_allclose(symmetric, symmetric.T, atol=1e-9)
    assert tu.create_2d_tensor(3, 2).asnumpy().tolist() == [[0, 0], [1, 1], [2, 2]]
    assert tu.create_vector(3).asnumpy().tolist() == [0, 1, 2]
    assert tu.get_identity_mat_batch(2).asnumpy().tolist() == [[[1, 0], [0, 1]]] * 2


def test_numpy_references():
    a = np.arange(24.0).reshape(2, 3, 4)
    np.testing.assert_array_equal(tu.np_reduce(a, (0, 2), True, np.sum), a.sum((0, 2), keepdims=True))
    np.testing.assert_array_equal(tu.np_reduce(a, None, False, np.max), a.max())
    np.testing.assert_array_equal(tu.collapse_sum_like(a, (3, 1)), a.sum((0, 2)).reshape(3, 1))
    assert tu.collapse_sum_like(a, (0,)).shape == (0,)
    with pytest.raises(AssertionError, match="does not broadcast"):
        tu.collapse_sum_like(a, (2, 4))
    np.testing.assert_array_equal(tu.assign_each2(a, a, lambda x, y: x + y), 2 * a)


def test_generators_are_judged():
    buckets, probs = tu.gen_buckets_probs_with_ppf(lambda p: p, 5)
    rng = np.random.RandomState(0)
    tu.verify_generator(rng.uniform.__self__.random_sample, buckets, probs, nsamples=20000)
    with pytest.raises(AssertionError, match="Generator test fails"):
        tu.verify_generator(lambda n: rng.random_sample(n) ** 1.2, buckets, probs, nsamples=20000)
    tu.verify_generator(lambda n: rng.randint(0, 3, n), [0, 1, 2], [1 / 3] * 3, nsamples=20000)
    assert tu.mean_check(lambda n: rng.normal(1, 2, n), 1, 2, 10000)
    assert not tu.mean_check(lambda n: rng.normal(1.2, 2, n), 1, 2, 10000)
    assert tu.var_check(lambda n: rng.normal(1, 2, n), 2, 10000)
    assert not tu.var_check(lambda n: rng.normal(1, 2.2, n), 2, 10000)


def test_compare_optimizer_sees_a_difference():
    sgd = mx.optimizer.SGD
    tu.compare_optimizer(sgd(learning_rate=0.1), sgd(learning_rate=0.1), (3, 2), np.float32)
    with pytest.raises(AssertionError):
        tu.compare_optimizer(sgd(learning_rate=0.1), sgd(learning_rate=0.2), (3, 2), np.float32)
    tu.compare_optimizer(sgd(momentum=0.9), sgd(momentum=0.9), [(3, 2), (4,)], np.float32, ntensors=2)


# A symbol of one function, as far as the checks look: two arguments, out = 2 * x * y.


class FakeExecutor:
    def __init__(self, args, args_grad, grad_req, wrong):
        self.arg_dict, self.aux_dict = dict(args), {}
        self.arg_arrays = list(self.arg_dict.values())
        self.grad_dict = dict(args_grad or {})
        self.grad_arrays = [self.grad_dict.get(k) for k in self.arg_dict]
        self.grad_req, self.wrong = grad_req, wrong
        dtype = self.arg_arrays[0].dtype
        self.outputs = [mx.nd.zeros(self.arg_arrays[0].shape, dtype=dtype)]

    @property
    def output_dict(self):
        return {"out": self.outputs[0]}

    def forward(self, is_train=False):
        self.outputs[0][:] = 2 * self.arg_dict["x"] * self.arg_dict["y"]

    def backward(self, out_grads=None):
        for name, other in (("x", "y"), ("y", "x")):
            grad = 2 * self.arg_dict[other] * out_grads[0] * (1 + self.wrong)
            request = self.grad_req if isinstance(self.grad_req, str) else self.grad_req[name]
            if request == "add":
                self.grad_dict[name][:] = self.grad_dict[name] + grad
            elif request == "write":
                self.grad_dict[name][:] = grad


class FakeSymbol:
    def __init__(self, wrong=0.0):
        self.wrong = wrong

    def list_arguments(self):
        return ["x", "y"]

    def list_outputs(self):
        return ["out"]

    def list_auxiliary_states(self):
        return []

    def bind(self, ctx, args, args_grad=None, aux_states=None, grad_req="write"):
        return FakeExecutor(args, args_grad, grad_req, self.wrong)

    def simple_bind(self, grad_req="write", ctx=None, type_dict=None, **shapes):
        dtype = (type_dict or {}).get("x", np.float32)
        args = {k: mx.nd.zeros(shapes[k], dtype=dtype) for k in ("x", "y")}
        grads = {k: mx.nd.zeros(shapes[k], dtype=dtype) for k in ("x", "y")}
        return FakeExecutor(args, grads, grad_req, self.wrong)


X, Y, G = np.array([1.0, 2.0]), np.array([3.0, -1.0]), np.array([0.5, 4.0])


def test_simple_forward():
    np.testing.assert_allclose(tu.simple_forward(FakeSymbol(), x=X, y=Y), 2 * X * Y)


def test_check_symbolic_forward():
    tu.check_symbolic_forward(FakeSymbol(), [X, Y], [2 * X * Y])
    tu.check_symbolic_forward(FakeSymbol(), {"y": Y, "x": X}, {"out": 2 * X * Y}, dtype=np.float64)
    with pytest.raises(AssertionError, match="EXPECTED_out"):
        tu.check_symbolic_forward(FakeSymbol(), [X, Y], [2 * X * Y + 1])
    with pytest.raises(ValueError, match="keys of the given values do not match"):
        tu.check_symbolic_forward(FakeSymbol(), {"x": X}, [X])


@pytest.mark.parametrize("grad_req", ["write", "add", "null", {"x": "add", "y": "write"}])
def test_check_symbolic_backward(grad_req):
    expected = [2 * Y * G, 2 * X * G]
    tu.check_symbolic_backward(FakeSymbol(), [X, Y], [G], expected, grad_req=grad_req)
    if grad_req != "null":
        with pytest.raises(AssertionError, match="BACKWARD_x"):
            tu.check_symbolic_backward(FakeSymbol(0.1), [X, Y], [G], expected, grad_req=grad_req)


def test_numeric_grad_finds_the_gradient_and_puts_arguments_back():
    executor = FakeSymbol().bind(mx.cpu(), {"x": mx.nd.array(X, dtype="float64"), "y": mx.nd.array(Y, dtype="float64")})
    grads = tu.numeric_grad(executor, {"x": X.copy(), "y": Y.copy()}, eps=1e-3, dtype=np.float64)
    np.testing.assert_allclose(grads["x"], 2 * Y, rtol=1e-6)
    np.testing.assert_allclose(grads["y"], 2 * X, rtol=1e-6)
    np.testing.assert_array_equal(executor.arg_dict["x"].asnumpy(), X)


def test_check_consistency_compares_dtypes():
    contexts = [
        {"ctx": mx.cpu(), "x": (3,), "y": (3,), "type_dict": {"x": dtype}} for dtype in (np.float64, np.float32)
    ]
    truth = tu.check_consistency(FakeSymbol(), contexts)
    assert np.dtype(truth["out"].dtype) == np.float64
    with pytest.raises(AssertionError):
        tu.check_consistency([FakeSymbol(), FakeSymbol(0.3)], contexts)


def test_check_speed_returns_seconds():
    assert 0 < tu.check_speed(FakeSymbol(), N=2, typ="forward", x=(2,), y=(2,)) < 5
    with pytest.raises(ValueError, match="typ can only be"):
        tu.check_speed(FakeSymbol(), typ="backward")


def test_missing_mnist_is_explained(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(FileNotFoundError, match=r"train-images-idx3-ubyte.* does not download: put the unpacked files"):
        tu.get_mnist_ubyte()


def test_download_of_a_file_that_is_there(tmp_path):
    (tmp_path / "x.txt").write_text("kept")
    assert tu.download("http://nowhere.invalid/x.txt", dirname=str(tmp_path)) == str(tmp_path / "x.txt")
    source = tmp_path / "source.txt"
    source.write_text("fetched")
    tu.download(source.as_uri(), fname="copy.txt", dirname=str(tmp_path / "new"))
    assert (tmp_path / "new" / "copy.txt").read_text() == "fetched"


def test_default_context_can_be_set():
    try:
        tu.set_default_context(mx.cpu(3))
        assert tu.default_context() == mx.cpu(3) and mx.nd.ones((1,)).context == mx.cpu(3)
    finally:
        tu.set_default_context(mx.cpu(0))


def test_dummy_iter_repeats_the_first_batch():
    dummy = tu.DummyIter(mx.io.NDArrayIter(np.arange(4), batch_size=2))
    assert all(next(dummy).data[0].asnumpy().tolist() == [0, 1] for _ in range(5))
