"""Helpers: splitting, clipping, downloading."""

from __future__ import annotations

import hashlib
import pickle
import warnings

import numpy as np
import pytest

import mxcore as mx
from mxcore import nd
from mxcore.gluon import nn, utils


@pytest.mark.parametrize("axis,count,even", [(0, 4, True), (1, 3, True), (1, 4, False), (0, 5, False)])
def test_split_data(axis, count, even):
    x = np.arange(8 * 9).reshape(8, 9).astype("float32")
    pieces = utils.split_data(nd.array(x), count, axis, even)
    expected = np.array_split(x, count, axis)
    assert len(pieces) == count
    for piece, wanted in zip(pieces, expected):
        np.testing.assert_array_equal(piece.asnumpy(), wanted)


def test_uneven_split_is_refused():
    with pytest.raises(ValueError, match=r"shape \(8, 9\) evenly into 4 slices along axis 1, because 9"):
        utils.split_data(nd.zeros((8, 9)), 4, 1)


def test_split_and_load():
    pieces = utils.split_and_load(np.arange(6).reshape(3, 2), [mx.cpu(0), mx.cpu(1)], even_split=False)
    assert [p.ctx for p in pieces] == [mx.cpu(0), mx.cpu(1)]
    assert [p.asnumpy().tolist() for p in pieces] == [[[0, 1], [2, 3]], [[4, 5]]]
    x = nd.ones((2,))
    assert utils.split_and_load(x, [mx.cpu(0)]) == [x]


@pytest.mark.parametrize("check", [True, False])
def test_clip_global_norm(check):
    arrays = [nd.ones((3, 3)), nd.ones((4, 4), ctx=mx.cpu(1))]
    norm = utils.clip_global_norm(arrays, 1.0, check_isfinite=check)
    assert norm == 5.0
    assert isinstance(norm, nd.NDArray) is not check
    for array in arrays:
        np.testing.assert_allclose(array.asnumpy(), np.full(array.shape, 0.2), rtol=1e-6)
    utils.clip_global_norm(arrays, 10.0, check_isfinite=check)  # small enough: unchanged
    np.testing.assert_allclose(arrays[0].asnumpy(), np.full((3, 3), 0.2), rtol=1e-6)


def test_clip_warns_of_nan_only_if_asked():
    with pytest.warns(UserWarning, match="global norm of the arrays is nan"):
        utils.clip_global_norm([nd.array([1.0, np.nan])], 2.0)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        utils.clip_global_norm([nd.array([1.0, np.nan])], 2.0, check_isfinite=False)
    with pytest.raises(AssertionError, match="at least one array"):
        utils.clip_global_norm([], 1.0)


def test_shape_is_known():
    assert utils.shape_is_known((1, 2))
    assert not any(utils.shape_is_known(shape) for shape in (None, (), (0, 2), (2, -1)))


def test_brief_list_of_names():
    assert utils._brief_print_list("ab") == "'a', 'b'"
    assert utils._brief_print_list("abcdefghij") == "'a', 'b', 'c', ..., 'g', 'h', 'i', 'j'"


def test_hook_handle_holds_one_hook_and_travels():
    layer = nn.Flatten()
    handle = layer.register_forward_hook(print)
    with pytest.raises(AssertionError, match="already holds a hook"):
        handle.attach(layer._forward_hooks, print)
    copy = pickle.loads(pickle.dumps(handle))
    copy.detach()  # of the copied table
    assert list(layer._forward_hooks.values()) == [print]


# -- files -----------------------------------------------------------------------------------------------------------


@pytest.fixture
def source(tmp_path):
    file = tmp_path / "source" / "data.bin"
    file.parent.mkdir()
    file.write_bytes(b"0123456789")
    return file


def sha1(content):
    return hashlib.sha1(content).hexdigest()


def test_download(tmp_path, source):
    target = tmp_path / "new" / "x.bin"
    assert utils.download(source.as_uri(), str(target), sha1_hash=sha1(b"0123456789")) == str(target)
    assert target.read_bytes() == b"0123456789"
    assert [p.name for p in target.parent.iterdir()] == ["x.bin"]  # nothing left over
    source.write_bytes(b"changed")
    utils.download(source.as_uri(), str(target))
    assert target.read_bytes() == b"0123456789"  # it is there already
    utils.download(source.as_uri(), str(target), overwrite=True)
    assert target.read_bytes() == b"changed"
    folder = tmp_path / "folder"
    folder.mkdir()
    assert utils.download(source.as_uri(), str(folder)) == str(folder / "data.bin")


def test_download_with_another_hash(tmp_path, source):
    target = str(tmp_path / "x.bin")
    with pytest.raises(mx.MXNetError, match="does not have the SHA-1 0000"):
        utils.download(source.as_uri(), target, sha1_hash="0000")
    assert not utils.check_sha1(target, "0000") and utils.check_sha1(target, sha1(b"0123456789"))


def test_download_that_fails_says_what_to_do(tmp_path):
    missing = (tmp_path / "missing").as_uri()
    with pytest.raises(mx.MXNetError, match=r"could not download .*missing to .*x.bin in 2 attempts.*put the file at"):
        utils.download(missing, str(tmp_path / "x.bin"), retries=1)
    assert list(tmp_path.iterdir()) == []
    with pytest.raises(AssertionError, match="cannot tell a file name"):
        utils.download("http://host/")
    with pytest.raises(AssertionError, match="retries must be 0 or more"):
        utils.download(missing, retries=-1)


def test_replace_file_cleans_up(tmp_path):
    src = tmp_path / "a"
    src.write_text("x")
    with pytest.raises(OSError, match="could not move"):
        utils.replace_file(str(src), str(tmp_path / "no" / "b"))
    assert not src.exists()


def test_repository_address(monkeypatch):
    monkeypatch.setenv("MXNET_GLUON_REPO", "http://here")
    assert utils._get_repo_file_url("gluon/dataset", "f.gz") == "http://here/gluon/dataset/f.gz"
