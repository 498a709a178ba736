"""Arrays of storage type row_sparse and csr: parts, classes of results, refusals, gradients, files."""

from __future__ import annotations

import gc
import pickle
import struct

import numpy as np
import pytest

import mxcore as mx
from mxcore import autograd, gluon, nd, operators
from mxcore.ndarray import sparse, storage_types
from mxcore.ndarray.sparse import CSRNDArray, RowSparseNDArray
from mxcore.spec import FileFormatError, MXCoreError, OutOfDeviceMemory, ParameterError
from mxcore.testing.engine_seeded import SeededEngine

VALUES = np.array([[0.5, 0, 0.25], [0, 0, 0], [0.1, 0.2, 0.3]], "float32")


def dense():
    return nd.array(VALUES)


def rows():
    return dense().tostype("row_sparse")


def csr():
    return dense().tostype("csr")


BY_LETTER = {"d": dense, "r": rows, "c": csr}


def letter(x):
    return x.stype[0]


# -- parts ------------------------------------------------------------------------------------------------------------


def test_parts_of_a_csr_matrix():
    x = csr()
    assert isinstance(x, CSRNDArray) and isinstance(x, nd.NDArray) and x.stype == "csr"
    assert x.indptr.asnumpy().tolist() == [0, 2, 2, 5]
    assert x.indices.asnumpy().tolist() == [0, 2, 0, 1, 2]
    np.testing.assert_array_equal(x.data.asnumpy(), VALUES[VALUES != 0])
    assert x.indptr.dtype == x.indices.dtype == np.int64 and x._num_aux == 2
    assert repr(x) == "\n<CSRNDArray 3x3 @cpu(0)>"
    np.testing.assert_array_equal(x.asnumpy(), VALUES)


def test_parts_of_rows():
    x = rows()
    assert isinstance(x, RowSparseNDArray) and x.stype == "row_sparse"
    assert x.indices.asnumpy().tolist() == [0, 2] and x.indices.dtype == np.int64
    np.testing.assert_array_equal(x.data.asnumpy(), VALUES[[0, 2]])
    x[:] = 0
    assert x.indices.shape == (0,) and x.data.shape == (0, 3)


def test_given_parts_are_kept_until_the_array_is_written():
    x = sparse.csr_matrix(([1, 0, 2], [2, 0, 1], [0, 2, 3]), shape=(2, 3))
    assert x.data.asnumpy().tolist() == [1, 0, 2] and x.indices.asnumpy().tolist() == [2, 0, 1]
    assert x.detach().data.asnumpy().tolist() == [1, 0, 2]
    assert nd.array(x).data.asnumpy().tolist() == [1, 0, 2]
    x[:] = x * 1
    assert x.data.asnumpy().tolist() == [1, 2] and x.indices.asnumpy().tolist() == [2, 1]
    before = len(sparse._given)
    y = sparse.row_sparse_array(([[0, 0]], [1]), shape=(3, 2))
    assert y.indices.asnumpy().tolist() == [1] and len(sparse._given) == before + 1
    del y
    gc.collect()
    assert len(sparse._given) == before


# -- making them ------------------------------------------------------------------------------------------------------


def test_forms_of_csr_matrix():
    want = [[0, 1, 0], [2, 0, 3]]
    for x in (
        sparse.csr_matrix(want),
        sparse.csr_matrix(np.array(want, "float64")),
        sparse.csr_matrix(nd.array(want)),
        sparse.csr_matrix(([1, 2, 3], [1, 0, 2], [0, 1, 3])),
        sparse.csr_matrix((nd.array([1, 2, 3]), nd.array([1, 0, 2], dtype="int64"), [0, 1, 3]), shape=(2, 3)),
        sparse.csr_matrix(([1, 2, 1, 2], ([0, 1, 1, 1], [1, 0, 2, 2])), shape=(2, 3)),
        sparse.csr_matrix(sparse.csr_matrix(want)),
    ):
        assert x.asnumpy().tolist() == want and type(x) is CSRNDArray
        x.check_format()
    assert sparse.csr_matrix(np.array(want, "float64")).dtype == np.float64
    assert sparse.csr_matrix(want).dtype == np.float32
    assert sparse.csr_matrix((2, 3), dtype="int32").asnumpy().tolist() == [[0, 0, 0], [0, 0, 0]]


def test_forms_of_row_sparse_array():
    want = [[0, 0], [1, 2], [0, 0], [3, 4]]
    for x in (
        sparse.row_sparse_array(want),
        sparse.row_sparse_array(([[1, 2], [3, 4]], [1, 3])),
        sparse.row_sparse_array((np.array([[1, 2], [3, 4]]), nd.array([1, 3])), shape=(4, 2), dtype="int32"),
        sparse.row_sparse_array(sparse.row_sparse_array(want)),
    ):
        assert x.asnumpy().tolist() == want and type(x) is RowSparseNDArray
    assert sparse.row_sparse_array((2, 3, 4)).shape == (2, 3, 4)
    assert sparse.row_sparse_array((2, 3)).shape == (2, 3)
    assert sparse.row_sparse_array((np.ones((1, 2, 2)), [1]), shape=(3, 2, 2)).asnumpy()[1].tolist() == [[1, 1], [1, 1]]


def test_scipy_both_ways():
    scipy = pytest.importorskip("scipy.sparse")
    source = scipy.csr_matrix(([1.0, 2, 3, 4, 5, 6, 1], [0, 2, 2, 0, 1, 2, 1], [0, 2, 3, 7]), shape=(3, 3))
    for x in (nd.array(source), sparse.array(source), sparse.csr_matrix(source)):
        assert x.dtype == np.float64 and x.indices.asnumpy().tolist() == [0, 2, 2, 0, 1, 2]
        assert (x.asscipy() != source).nnz == 0
    assert nd.array(scipy.coo_matrix(source), dtype="float32").dtype == np.float32


def test_zeros_and_empty():
    for stype, cls in (("csr", CSRNDArray), ("row_sparse", RowSparseNDArray), ("default", nd.NDArray)):
        assert type(nd.zeros((2, 3), stype=stype)) is cls
        assert type(sparse.zeros(stype, (2, 3), dtype="int32")) is cls
        assert nd.empty((2, 3), stype=stype).shape == (2, 3)
    assert sparse.empty("csr", (2, 3)).asnumpy().tolist() == [[0, 0, 0], [0, 0, 0]]


@pytest.mark.parametrize(
    "make,words",
    [
        (lambda: nd.zeros((2, 2), stype="coo"), "unknown storage type 'coo'"),
        (lambda: sparse.zeros("csr", (2, 2, 2)), "must have 2 axes"),
        (lambda: nd.ones(3).tostype("csr"), "must have 2 axes"),
        (lambda: dense().tostype("coo"), "stype"),
        (lambda: csr().tostype("row_sparse"), "cast_storage from csr to row_sparse"),
        (lambda: rows().tostype("csr"), "cast_storage from row_sparse to csr"),
        (lambda: nd.cast_storage(rows(), "csr"), "cast_storage from row_sparse to csr"),
        (lambda: sparse.csr_matrix(dense(), shape=(3, 2)), "shape mismatch"),
        (lambda: sparse.csr_matrix((2, 2), shape=(3, 2)), "shape mismatch"),
        (lambda: sparse.row_sparse_array((2, 2), shape=(3, 2)), "shape mismatch"),
        (lambda: sparse.csr_matrix((1, 2, 3, 4)), "2 or 3 elements, not 4"),
        (lambda: sparse.csr_matrix(([], [], [0])), "shape must be given"),
        (lambda: sparse.csr_matrix(([1], ([5], [0])), shape=(2, 2)), "outside of shape"),
        (lambda: sparse.row_sparse_array(([[1, 2]], [0, 1]), shape=(3, 2)), r"data must have shape \(2, 2\)"),
        (lambda: sparse.csr_matrix(rows()), "cannot be made csr"),
        (lambda: sparse.array(dense()), "Use tostype"),
    ],
)
def test_refuses_to_make(make, words):
    with pytest.raises(ValueError, match=words):
        make()


@pytest.mark.parametrize(
    "make,words",
    [
        (lambda: sparse.csr_matrix(([7, 8, 9], [0, 2, 1], [0, 5, 2, 3]), shape=(3, 4)), "indptr"),
        (lambda: sparse.csr_matrix(([7, 8, 9], [2, 1, 1], [0, 2, 2, 3]), shape=(3, 4)), "rise in each row"),
        (lambda: sparse.csr_matrix(([7, 8, 9], [1, 2, 1], [0, 2, 2, 4]), shape=(3, 4)), "indptr"),
        (lambda: sparse.csr_matrix(([7, 8, 9], [0, 2, 4], [0, 2, 2, 3]), shape=(3, 4)), "from 0 to 3"),
        (lambda: sparse.row_sparse_array(([[1, 2], [3, 4]], [1, 4]), shape=(3, 2)), "from 0 to 2"),
        (lambda: sparse.row_sparse_array(([[1, 2], [3, 4]], [1, 0]), shape=(3, 2)), "rise"),
    ],
)
def test_check_format_finds_unsound_parts(make, words):
    x = make()
    with pytest.raises(MXCoreError, match=words):
        x.check_format()


# -- classes of results -----------------------------------------------------------------------------------------------


def test_every_operator_of_the_table_exists():
    assert [name for name in storage_types.RULES if not operators.known(name)] == []


#: What MXNet 1.9.1 gave for two arrays of equal shape: operator, then a word of three letters for each result.
TWO = {
    "elemwise_add": "rr:r cc:c rd:d dr:d cd:d dc:d rc:d cr:d",
    "elemwise_mul": "rr:r cc:c rd:r dr:r cd:c dc:c rc:d cr:d",
    "broadcast_add": "rr:d cc:d cd:d rd:d",
    "broadcast_mul": "rr:d cc:d cd:c dc:d rd:d",
    "dot": "cd:d dc:c rd:d dr:d cr:d cc:d",
    "_maximum": "rr:r cc:c rc:d",
}


@pytest.mark.parametrize("name", TWO)
def test_storage_type_of_two(name):
    function = getattr(nd, name, None) or getattr(nd._internal, name)
    for word in TWO[name].split():
        kinds, want = word.split(":")
        y = function(*(BY_LETTER[k]() for k in kinds))
        assert letter(y) == want, word
        plain = function(dense(), dense())
        np.testing.assert_array_equal(y.asnumpy(), plain.asnumpy())


@pytest.mark.parametrize("kind", "rc")
def test_storage_type_of_one(kind):
    x = BY_LETTER[kind]()
    for name in ("square", "sqrt", "abs", "sign", "sin", "tanh", "relu", "expm1", "log1p", "floor", "zeros_like"):
        assert letter(getattr(nd, name)(x)) == letter(getattr(x, name)()) == kind
    for name in ("exp", "cos", "ones_like", "sum", "transpose", "sigmoid"):
        assert letter(getattr(nd, name)(x)) == "d"
    np.testing.assert_allclose(nd.exp(x).asnumpy(), np.exp(VALUES), rtol=1e-6)
    assert [letter(y) for y in (x * 2, x / 2, 2 * x, -x, abs(x), x + 0, x - 0, x.copy(), x.astype("int32"))] == [
        kind
    ] * 9
    assert [letter(y) for y in (x + 1, 1 - x, x**2, 1 / x.tostype("default"), x == x, x > x)] == ["d"] * 6
    assert [letter(x == n) for n in (0, 1)] == ["d", kind] and [letter(x > n) for n in (-1, 0)] == ["d", kind]
    assert letter(nd.clip(x, -0.1, 0.2)) == kind
    assert letter(nd.add_n(x, x)) == ("r" if kind == "r" else "d") and letter(nd.add_n(x, dense())) == "d"
    np.testing.assert_array_equal((x == 0).asnumpy(), VALUES == 0)


def test_infix_of_mixed_classes():
    for a in "drc":
        for b in "drc":
            x, y = BY_LETTER[a](), BY_LETTER[b]()
            for result, want in ((x + y, VALUES + VALUES), (x - y, VALUES * 0), (x * y, VALUES * VALUES)):
                np.testing.assert_array_equal(result.asnumpy(), want)
            assert letter(x + y) == (a if a == b else "d")
    assert letter(rows() * dense()) == "r" and letter(dense() * rows()) == "d" and letter(csr() * dense()) == "c"
    row = nd.array([[1.0, 2, 3]])
    assert letter(csr() * row) == "c" and letter(rows() * row) == "d"
    x = rows()
    x += dense()
    assert type(x) is RowSparseNDArray
    np.testing.assert_array_equal(x.asnumpy(), 2 * VALUES)


def test_functions_of_the_namespace():
    assert letter(sparse.add(csr(), csr())) == "c" and letter(sparse.multiply(dense(), rows())) == "r"
    np.testing.assert_array_equal(sparse.subtract(1, rows()).asnumpy(), 1 - VALUES)
    np.testing.assert_array_equal(sparse.divide(rows(), 2).asnumpy(), VALUES / 2)
    assert letter(sparse.square(rows())) == "r"
    with pytest.raises(TypeError, match="at least one"):
        sparse.add(1, 2)


def test_dot_storage_types():
    assert letter(nd.dot(csr(), dense(), transpose_a=True)) == "r"
    assert letter(nd.dot(csr(), dense(), transpose_a=True, forward_stype="default")) == "d"
    assert letter(nd.dot(dense(), csr(), transpose_b=True)) == "c"
    np.testing.assert_allclose(nd.dot(csr(), rows(), transpose_a=True).asnumpy(), VALUES.T @ VALUES, rtol=1e-6)


def test_retain():
    y = sparse.retain(rows(), nd.array([1, 2]))
    assert letter(y) == "r" and y.asnumpy()[0].any() == 0
    np.testing.assert_array_equal(y.asnumpy()[2], VALUES[2])
    np.testing.assert_array_equal(rows().retain(nd.array([0])).asnumpy()[2], [0, 0, 0])


# -- indexing and refusals --------------------------------------------------------------------------------------------


def test_rows_of_a_csr_matrix():
    x = csr()
    for key, want in ((0, VALUES[:1]), (-1, VALUES[2:]), (slice(1, 3), VALUES[1:]), (slice(-2, None), VALUES[1:])):
        assert letter(x[key]) == "c"
        np.testing.assert_array_equal(x[key].asnumpy(), want)
    assert x[:] is x
    assert [y.shape for y in x] == [(1, 3)] * 3


@pytest.mark.parametrize(
    "act,kind,words",
    [
        (lambda: csr()[5], IndexError, "out of bounds"),
        (lambda: csr()[0:3:2], ValueError, "step"),
        (lambda: csr()[0, 1], ValueError, "Multi-dimension"),
        (lambda: csr()[[0]], ValueError, "indexed with list"),
        (lambda: rows()[0], IndexError, "by int"),
        (lambda: rows()[0:1], IndexError, r"only supports \[:\]"),
        (lambda: csr().__setitem__(0, dense()), TypeError, r"only supports \[:\]"),
        (lambda: rows().__setitem__(slice(0, 1), dense()), ValueError, "a slice cannot be assigned"),
        (lambda: csr().__setitem__(slice(None), 1), ValueError, "a number cannot be assigned"),
        (lambda: rows().__setitem__(slice(None), [[1]]), TypeError, "not supported"),
        (lambda: rows().copyto(csr()), TypeError, "storage type 'csr'"),
        (lambda: rows().size, NotImplementedError, "ambiguous"),
        (lambda: rows().asscalar(), NotImplementedError, "tostype"),
        (lambda: bool(csr()), ValueError, "ambiguous"),
        (lambda: rows().reshape((9,)), MXCoreError, "not supported for sparse"),
        (lambda: rows()._at(0), MXCoreError, "not supported for sparse"),
    ],
)
def test_refusals(act, kind, words):
    with pytest.raises(kind, match=words):
        act()


def test_assignment_and_copies():
    for kind in "rc":
        x = BY_LETTER[kind]()
        for value in (dense() * 2, BY_LETTER[kind]() * 2, VALUES * 2):
            x[:] = 0 * x
            x[:] = value
            np.testing.assert_array_equal(x.asnumpy(), 2 * VALUES)
        target = nd.zeros((3, 3))
        assert x.copyto(target) is target
        np.testing.assert_array_equal(target.asnumpy(), 2 * VALUES)
        target[:] = x
        for other in (
            x.copyto(mx.cpu(1)),
            x.as_in_context(mx.cpu(1)),
            pickle.loads(pickle.dumps(x)),
            x.tostype(x.stype),
        ):
            assert type(other) is type(x)
            np.testing.assert_array_equal(other.asnumpy(), x.asnumpy())
        assert x.astype("float32", copy=False) is x
    x = rows()
    x[:] = 2
    assert x.asnumpy().tolist() == [[2.0] * 3] * 3


# -- autograd ---------------------------------------------------------------------------------------------------------


def test_gradients_have_the_storage_type_asked_for():
    for kind in "drc":
        x = BY_LETTER[kind]()
        for stype in (None, "default", "row_sparse", "csr"):
            x.attach_grad(stype=stype)
            assert x.grad.stype == (stype or x.stype) and x.detach().stype == x.stype
            with autograd.record():
                y = (x * x).sum()
            y.backward()
            assert x.grad.stype == (stype or x.stype)
            np.testing.assert_allclose(x.grad.asnumpy(), 2 * VALUES)
    x.attach_grad("add")
    for _ in range(2):
        with autograd.record():
            y = nd.dot(x, dense())
        y.backward()
    assert letter(x.grad) == "c"
    np.testing.assert_allclose(x.grad.asnumpy(), 2 * np.ones((3, 3)) @ VALUES.T, rtol=1e-6)


def test_gradient_of_a_weight_under_csr_data():
    w = nd.ones((3, 2))
    w.attach_grad(stype="row_sparse")
    data = sparse.csr_matrix(([2.0, 3.0], [0, 2], [0, 1, 2]), shape=(2, 3))
    with autograd.record():
        y = nd.dot(data, w)
    y.backward()
    assert w.grad.indices.asnumpy().tolist() == [0, 2] and w.grad.asnumpy().tolist() == [[2, 2], [0, 0], [3, 3]]


@pytest.mark.parametrize("name", ["sgd", "adam", "adagrad", "ftrl"])
def test_lazy_updates_change_only_rows_with_a_gradient(name):
    net = gluon.nn.Embedding(6, 2, sparse_grad=True)
    net.initialize()
    trainer = gluon.Trainer(net.collect_params(), name, {"learning_rate": 0.1, "wd": 0.1})
    before = net.weight.data().asnumpy()
    with autograd.record():
        loss = (net(nd.array([1, 4])) ** 2).sum()
    loss.backward()
    assert net.weight.grad().indices.asnumpy().tolist() == [1, 4]
    trainer.step(1)
    after = net.weight.data().asnumpy()
    assert np.flatnonzero((before != after).any(axis=1)).tolist() == [1, 4]


def test_lazy_update_equals_the_update_of_these_rows():
    w, g, m = nd.ones((4, 2)), sparse.row_sparse_array(([[1, 2], [0, 0]], [1, 3]), shape=(4, 2)), nd.ones((4, 2)) * 0.5
    want_w, want_m = nd.ones((2, 2)), nd.ones((2, 2)) * 0.5
    attributes = {"lr": 0.1, "wd": 0.1, "momentum": 0.9}
    nd.sgd_mom_update(want_w, nd.array([[1, 2], [0, 0]]), want_m, out=want_w, **attributes)
    fresh = nd.sgd_mom_update(w, g, m.copy(), **attributes)
    assert w.asnumpy().tolist() == np.ones((4, 2)).tolist() and letter(fresh) == "d"
    nd.sgd_mom_update(w, g, m, out=w, **attributes)
    np.testing.assert_array_equal(w.asnumpy()[[1, 3]], want_w.asnumpy())
    np.testing.assert_array_equal(fresh.asnumpy(), w.asnumpy())
    np.testing.assert_array_equal(m.asnumpy()[[1, 3]], want_m.asnumpy())
    assert w.asnumpy()[[0, 2]].tolist() == [[1, 1], [1, 1]] and m.asnumpy()[0].tolist() == [0.5, 0.5]
    nd.sgd_update(w, g, out=w, lr=0.1, wd=0.1, lazy_update=False)
    np.testing.assert_allclose(w.asnumpy()[0], [0.99, 0.99], rtol=1e-6)


# -- other engines, files ---------------------------------------------------------------------------------------------


def test_deferred_engine_gives_the_same():
    def program():
        x, w = csr(), nd.ones((3, 2))
        w.attach_grad(stype="row_sparse")
        r = rows() * 2 + rows()
        with autograd.record():
            y = (nd.dot(x, w) * 3).sum()
        y.backward()
        r[:] = r * 0.5
        nd.sgd_update(w, w.grad, out=w, lr=0.1, wd=0.5)
        kinds = "".join(map(letter, (x, r, w.grad, x[1:], r.retain(nd.array([0])))))
        return [y.asnumpy(), w.asnumpy(), r.asnumpy(), w.grad.indices.asnumpy(), x[1:].data.asnumpy()], kinds

    want, kinds = program()
    for order in range(5):
        with mx.use(engine=SeededEngine(order)):
            got, got_kinds = program()
        assert got_kinds == kinds
        for a, b in zip(got, want):
            np.testing.assert_array_equal(a, b)


#: What MXNet 1.9.1 wrote for [csr [[0, 2], [3, 0]] float32, row_sparse [[0], [5]] int32].
FROM_MXNET = bytes.fromhex(
    "120100000000000000000000000000000200000000000000c9fa93f902000000010000000200000000000000020000000200000000000000"
    "0200000000000000010000000000000000000000060000000100000003000000000000000600000001000000020000000000000000000040"
    "0000404000000000000000000100000000000000020000000000000001000000000000000000000000000000c9fa93f90100000002000000"
    "0100000000000000010000000000000002000000020000000000000001000000000000000100000000000000040000000600000001000000"
    "01000000000000000500000001000000000000000000000000000000"
)


def test_files_are_those_of_mxnet(tmp_path):
    x, y = nd.load_frombuffer(FROM_MXNET)
    assert type(x) is CSRNDArray and x.asnumpy().tolist() == [[0, 2], [3, 0]]
    assert type(y) is RowSparseNDArray and y.dtype == np.int32 and y.asnumpy().tolist() == [[0], [5]]
    nd.save(tmp_path / "x", [x, y])
    assert (tmp_path / "x").read_bytes() == FROM_MXNET


def test_files_keep_stored_zeros(tmp_path):
    x = sparse.csr_matrix(([1, 0], [0, 1], [0, 1, 2]), shape=(2, 3))
    nd.save(tmp_path / "x", {"x": x})
    assert nd.load(tmp_path / "x")["x"].data.asnumpy().tolist() == [1, 0]


def test_damaged_sparse_records_are_refused():
    for n in range(len(FROM_MXNET)):
        with pytest.raises(FileFormatError):
            nd.load_frombuffer(FROM_MXNET[:n])
    # Bits of lengths, aux dtypes and indices: loading may succeed only with arrays of sound format.
    refused = 0
    for at in range(24, len(FROM_MXNET) - 8):
        for bit in range(8):
            content = bytearray(FROM_MXNET)
            content[at] ^= 1 << bit
            try:
                arrays = nd.load_frombuffer(bytes(content))
            except (FileFormatError, OutOfDeviceMemory):
                refused += 1
            except MXCoreError as e:
                assert "bfloat16" in str(e)
            else:
                assert len(arrays) == 2
    assert refused > 1000


def test_a_sparse_record_too_large_for_a_dense_array_says_so():
    huge = struct.pack("<IiiqiqqiiiiiqiiqQ", 0xF993FAC9, 2, 1, 0, 2, 1 << 40, 1 << 40, 1, 0, 0, 6, 1, 0, 6, 1, 0, 0)
    with pytest.raises(FileFormatError, match="indptr of array 0"):
        nd.load_frombuffer(struct.pack("<QQQ", 0x112, 0, 1) + huge)
    huge = struct.pack("<Iii2qi2qiiiiiq", 0xF993FAC9, 1, 2, 0, 1 << 40, 2, 1 << 40, 1 << 40, 1, 0, 0, 6, 1, 0)
    with pytest.raises(OutOfDeviceMemory, match="held as a dense one"):
        nd.load_frombuffer(struct.pack("<QQQ", 0x112, 0, 1) + huge + struct.pack("<Q", 0))


def test_errors_are_those_of_mxnet_code_too():
    with pytest.raises(ParameterError):
        nd.zeros((2, 2), stype="coo")
    with pytest.raises(mx.base.MXNetError):
        sparse.retain(rows(), nd.array([7])).wait_to_read()
