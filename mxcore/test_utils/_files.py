"""Data sets for tests, from local files."""

from __future__ import annotations

import bz2
import logging
import os
import zipfile
from typing import Any

import numpy as np

from .. import io as _io


def download(
    url: str, fname: str | None = None, dirname: str | None = None, overwrite: bool = False, retries: int = 5
) -> str:
    """Fetch a file unless it is there, and return its path.

    Parameters
    ----------
    url : str
        Where it is.
    fname : str, optional
        What to call it; the last part of the address by default.
    dirname : str, optional
        Where to put it.
    overwrite : bool
        Fetch it even if it is there.
    retries : int
        How often to try again.
    """
    from ..gluon import utils

    if retries < 0:
        raise AssertionError(f"Number of retries should be at least 0, got {retries}.")
    name = fname or url.split("/")[-1]
    path = os.path.join(dirname, name) if dirname is not None else name
    if os.path.dirname(path):
        os.makedirs(os.path.dirname(path), exist_ok=True)
    if not overwrite and os.path.exists(path):
        logging.info("%s exists, skipping download", path)
        return path
    return utils.download(url, path=path, overwrite=overwrite, retries=retries)


def get_zip_data(data_dir: str, url: str, data_origin_name: str) -> None:
    """Fetch a zip archive into `data_dir` and unpack it there, unless it is there."""
    path = os.path.join(data_dir, data_origin_name)
    if not os.path.exists(path):
        download(url, dirname=data_dir, overwrite=False)
        with zipfile.ZipFile(path) as archive:
            archive.extractall(path=data_dir)


def get_bz2_data(data_dir: str, data_name: str, url: str, data_origin_name: str) -> None:
    """Fetch a bzip2 file into `data_dir` and unpack it to `data_name`, unless that is there."""
    target, packed = os.path.join(data_dir, data_name), os.path.join(data_dir, data_origin_name)
    if not os.path.exists(target):
        download(url, fname=data_origin_name, dirname=data_dir, overwrite=False)
        with bz2.BZ2File(packed, "rb") as source, open(target, "wb") as out:
            out.writelines(source)
        os.remove(packed)


_MNIST_FILES = (
    "train-images-idx3-ubyte",
    "train-labels-idx1-ubyte",
    "t10k-images-idx3-ubyte",
    "t10k-labels-idx1-ubyte",
)


def get_mnist(root: str | None = None) -> dict[str, np.ndarray]:
    """Return MNIST from local files.

    Parameters
    ----------
    root : str, optional
        Folder of the IDX files; ``data`` or the dataset folder of :class:`gluon.data.vision.MNIST` by default.

    Returns
    -------
    dict
        ``train_data``, ``test_data`` ``(N, 1, 28, 28)`` float32 of 0..1; ``train_label``, ``test_label`` int8.
    """
    from ..gluon.data.vision import MNIST

    if root is None and os.path.isdir("data"):
        root = "data"
    result = {}
    for part, train in (("train", True), ("test", False)):
        data = MNIST(root=root, train=train)
        images = data._data.asnumpy().transpose(0, 3, 1, 2)
        result[f"{part}_data"] = images.astype(np.float32) / 255
        result[f"{part}_label"] = data._label.astype(np.int8)
    return result


def get_mnist_ubyte() -> None:
    """Raise ``FileNotFoundError`` unless the four files of MNIST lie unpacked in the folder ``data``."""
    missing = [name for name in _MNIST_FILES if not os.path.exists(os.path.join("data", name))]
    if missing:
        raise FileNotFoundError(
            f"MNIST: {', '.join(missing)} missing in {os.path.abspath('data')}. This version reads local files and "
            f"does not download: put the unpacked files there."
        )


def get_mnist_iterator(
    batch_size: int, input_shape: tuple[int, ...], num_parts: int = 1, part_index: int = 0
) -> tuple[Any, Any]:
    """Return iterators of MNIST's training and test set, from the files in the folder ``data``."""
    get_mnist_ubyte()
    images, labels = ("data/{}-images-idx3-ubyte", "data/{}-labels-idx1-ubyte")
    train, test = (
        _io.MNISTIter(
            image=images.format(part),
            label=labels.format(part),
            input_shape=input_shape,
            batch_size=batch_size,
            shuffle=part == "train",
            flat=len(input_shape) != 3,
            num_parts=num_parts,
            part_index=part_index,
        )
        for part in ("train", "t10k")
    )
    return train, test
