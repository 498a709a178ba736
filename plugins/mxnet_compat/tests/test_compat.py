"""``import mxnet`` is mxcore, object for object."""

from __future__ import annotations

import importlib
import pathlib
import pickle
import subprocess
import sys

import mxnet
import pytest

import mxcore

SOURCE = pathlib.Path(__file__).resolve().parent.parent / "src"


def test_same_module_objects():
    assert mxnet is mxcore
    for name in (
        "ndarray",
        "ndarray.ndarray",
        "autograd",
        "gluon",
        "gluon.nn",
        "gluon.data",
        "optimizer",
        "base",
        "metric",
    ):
        ours = importlib.import_module(f"mxcore.{name}")
        assert importlib.import_module(f"mxnet.{name}") is ours
        assert ours.__name__ == ours.__spec__.name == f"mxcore.{name}"


def test_names_and_versions():
    from mxnet import gluon, nd  # noqa: F401
    from mxnet.gluon import nn  # noqa: F401

    assert tuple(int(n) for n in mxnet.__version__.split(".")) >= (1, 9)
    assert mxnet.mxcore_version != mxnet.__version__
    assert issubclass(mxnet.MXNetError, RuntimeError) and mxnet.base.MXNetError is mxnet.MXNetError


def test_pickles_that_name_mxnet_load():
    x = mxnet.nd.array([1, 2])
    data = pickle.dumps(x, 0).replace(b"mxcore.ndarray.ndarray", b"mxnet.ndarray.ndarray")
    assert b"mxnet.ndarray.ndarray" in data
    assert pickle.loads(data).asnumpy().tolist() == [1, 2]


def test_a_missing_part_is_an_import_error_that_names_it():
    with pytest.raises(ModuleNotFoundError, match=r"No module named 'mxnet.rtc': this part of MXNet is not in mxcore"):
        importlib.import_module("mxnet.rtc")


def test_real_mxnet_beside_it_is_refused(tmp_path):
    (tmp_path / "mxnet").mkdir()
    (tmp_path / "mxnet" / "libinfo.py").write_text("")
    done = subprocess.run(
        [
            sys.executable,
            "-c",
            f"import sys; sys.path[:0] = [{str(SOURCE)!r}]; sys.path.append({str(tmp_path)!r}); import mxnet",
        ],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 1
    assert f"a real MXNet is installed in {tmp_path / 'mxnet'}" in done.stderr
    assert "pip uninstall mxnet" in done.stderr
