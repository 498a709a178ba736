"""The image datasets of MXNet, read from local files, and images in folders.

Files are looked for in `root`, under the names their publishers gave them. Nothing is downloaded in this version: a
missing file is an error that names it.
"""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from .... import ndarray as nd
from ....base import data_dir
from ....image import imread
from ....io._idx import read_idx
from ....spec.errors import FileFormatError
from ..dataset import Dataset, _DownloadedDataset

__all__ = ["MNIST", "FashionMNIST", "CIFAR10", "CIFAR100", "ImageFolderDataset"]


def _find(owner: str, root: str, names: Sequence[str], homepage: str) -> str:
    """Return the path of the first of `names` that exists in `root` or a folder one level below it."""
    folders = [root]
    if os.path.isdir(root):
        folders += [entry.path for entry in os.scandir(root) if entry.is_dir()]
    for folder in folders:
        for name in names:
            path = os.path.join(folder, name)
            if os.path.isfile(path):
                return path
    raise FileNotFoundError(
        f"{owner}: found none of {', '.join(names)} in {root}. This version reads local files and does not download: "
        f"get the files from {homepage} and put them there, or pass root=."
    )


class MNIST(_DownloadedDataset):
    """Handwritten digits: images ``(28, 28, 1)`` uint8 and labels 0..9, 60000 for training and 10000 for testing.

    Parameters
    ----------
    root : str
        Folder of the files ``train-images-idx3-ubyte``, ``train-labels-idx1-ubyte``, ``t10k-images-idx3-ubyte`` and
        ``t10k-labels-idx1-ubyte``, with or without ``.gz``.
    train : bool
        Training or test set.
    transform : callable, optional
        ``transform(data, label)`` of each sample.
    """

    _homepage = "http://yann.lecun.com/exdb/mnist"

    def __init__(
        self,
        root: str | None = None,
        train: bool = True,
        transform: Callable[..., Any] | None = None,
    ) -> None:
        self._train = train
        super().__init__(os.path.join(data_dir(), "datasets", self._folder) if root is None else root, transform)

    _folder = "mnist"

    def _read(self, kind: str) -> np.ndarray:
        name = f"{'train' if self._train else 't10k'}-{kind}-ubyte"
        return read_idx(_find(type(self).__name__, self._root, (f"{name}.gz", name), self._homepage))

    def _get_data(self) -> None:
        labels, images = self._read("labels-idx1"), self._read("images-idx3")
        if len(labels) != len(images) or images.ndim != 3:
            raise FileFormatError(
                f"{type(self).__name__}: {self._root} holds labels of shape {labels.shape} for images of shape "
                f"{images.shape}; the files do not belong together."
            )
        self._data = nd.array(images[..., None], dtype="uint8")
        self._label = labels.astype(np.int32)


class FashionMNIST(MNIST):
    """Pictures of clothes in the format of :class:`MNIST`, with labels 0..9.

    Parameters
    ----------
    root, train, transform
        As for :class:`MNIST`.
    """

    _homepage = "https://github.com/zalandoresearch/fashion-mnist"
    _folder = "fashion-mnist"


class CIFAR10(_DownloadedDataset):
    """Photographs ``(32, 32, 3)`` uint8 of ten classes, 50000 for training and 10000 for testing.

    Parameters
    ----------
    root : str
        Folder of the binary version's files, ``data_batch_1.bin`` to ``data_batch_5.bin`` and ``test_batch.bin``, or
        of the folder that its archive unpacks to.
    train : bool
        Training or test set.
    transform : callable, optional
        ``transform(data, label)`` of each sample.
    """

    _homepage = "https://www.cs.toronto.edu/~kriz/cifar.html (the binary version, unpacked)"
    _folder = "cifar10"
    _label_bytes = 1
    _train_files: tuple[str, ...] = tuple(f"data_batch_{i}.bin" for i in range(1, 6))
    _test_files: tuple[str, ...] = ("test_batch.bin",)

    def __init__(
        self, root: str | None = None, train: bool = True, transform: Callable[..., Any] | None = None
    ) -> None:
        self._train = train
        super().__init__(os.path.join(data_dir(), "datasets", self._folder) if root is None else root, transform)

    def _label_column(self) -> int:
        return 0

    def _read_batch(self, filename: str) -> tuple[np.ndarray, np.ndarray]:
        data = np.fromfile(filename, dtype=np.uint8)
        row = 3072 + self._label_bytes
        if data.size == 0 or data.size % row:
            raise FileFormatError(
                f"{filename} has {data.size} bytes, which is no multiple of the {row} bytes of a {type(self).__name__} "
                f"sample."
            )
        data = data.reshape(-1, row)
        images = data[:, self._label_bytes :].reshape(-1, 3, 32, 32).transpose(0, 2, 3, 1)
        return images, data[:, self._label_column()].astype(np.int32)

    def _get_data(self) -> None:
        names = self._train_files if self._train else self._test_files
        paths = [_find(type(self).__name__, self._root, (name,), self._homepage) for name in names]
        images, labels = zip(*(self._read_batch(path) for path in paths))
        self._data = nd.array(np.concatenate(images), dtype="uint8")
        self._label = np.concatenate(labels)


class CIFAR100(CIFAR10):
    """Photographs ``(32, 32, 3)`` uint8 of 100 classes in 20 groups, 50000 for training and 10000 for testing.

    Parameters
    ----------
    root : str
        Folder of ``train.bin`` and ``test.bin``, or of the folder that the archive unpacks to.
    fine_label : bool
        Labels are the 100 classes, or the 20 groups.
    train : bool
        Training or test set.
    transform : callable, optional
        ``transform(data, label)`` of each sample.
    """

    _folder = "cifar100"
    _label_bytes = 2
    _train_files = ("train.bin",)
    _test_files = ("test.bin",)

    def __init__(
        self,
        root: str | None = None,
        fine_label: bool = False,
        train: bool = True,
        transform: Callable[..., Any] | None = None,
    ) -> None:
        self._fine_label = fine_label
        super().__init__(root, train, transform)

    def _label_column(self) -> int:
        return int(self._fine_label)


class ImageFolderDataset(Dataset):
    """Images in folders, one folder for each class; reading one needs Pillow (``pip install mxcore[image]``).

    Parameters
    ----------
    root : str
        Folder of the class folders. Classes are numbered in the order of their names.
    flag : int
        1 reads colour ``(H, W, 3)``, 0 reads grey ``(H, W, 1)``.
    transform : callable, optional
        ``transform(data, label)`` of each sample.

    Attributes
    ----------
    synsets : list of str
        Class names.
    items : list of (str, int)
        Path and label of each image.
    """

    def __init__(self, root: str, flag: int = 1, transform: Callable[..., Any] | None = None) -> None:
        self._root = os.path.expanduser(root)
        self._flag = flag
        self._transform = transform
        self._exts = [".jpg", ".jpeg", ".png"]
        self._list_images(self._root)

    def _list_images(self, root: str) -> None:
        self.synsets: list[str] = []
        self.items: list[tuple[str, int]] = []
        for folder in sorted(os.listdir(root)):
            path = os.path.join(root, folder)
            if not os.path.isdir(path):
                warnings.warn(f"Ignoring {path}, which is not a directory.", stacklevel=3)
                continue
            label = len(self.synsets)
            self.synsets.append(folder)
            for name in sorted(os.listdir(path)):
                filename = os.path.join(path, name)
                ext = os.path.splitext(name)[1]
                if ext.lower() not in self._exts:
                    warnings.warn(
                        f"Ignoring {filename} of type {ext}. Only support {', '.join(self._exts)}", stacklevel=3
                    )
                    continue
                self.items.append((filename, label))

    def __getitem__(self, idx: int) -> Any:
        filename, label = self.items[idx]
        image = imread(filename, self._flag)
        return (image, label) if self._transform is None else self._transform(image, label)

    def __len__(self) -> int:
        return len(self.items)
