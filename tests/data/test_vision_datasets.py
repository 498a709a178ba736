"""Image datasets from files in their publishers' formats."""

from __future__ import annotations

import gzip
import struct

import numpy as np
import pytest

import mxcore as mx
from mxcore.gluon.data import vision
from mxcore.spec.errors import FileFormatError


def write_idx(path, array, magic=None):
    opener = gzip.open if str(path).endswith(".gz") else open
    with opener(path, "wb") as file:
        file.write(struct.pack(">I", 0x0800 | array.ndim if magic is None else magic))
        file.write(struct.pack(f">{array.ndim}I", *array.shape))
        file.write(array.astype(np.uint8).tobytes())


@pytest.mark.parametrize("suffix", ["", ".gz"])
@pytest.mark.parametrize("kind", [vision.MNIST, vision.FashionMNIST])
def test_mnist_from_local_files(tmp_path, suffix, kind):
    images = np.random.randint(0, 256, (4, 28, 28))
    for prefix, count in (("train", 4), ("t10k", 2)):
        write_idx(tmp_path / f"{prefix}-images-idx3-ubyte{suffix}", images[:count])
        write_idx(tmp_path / f"{prefix}-labels-idx1-ubyte{suffix}", np.arange(count) + 5)
    train, test = kind(root=str(tmp_path)), kind(root=str(tmp_path), train=False)
    assert len(train) == 4 and len(test) == 2
    image, label = train[3]
    assert image.shape == (28, 28, 1) and np.dtype(image.dtype) == np.uint8
    assert label == 8 and label.dtype == np.int32
    np.testing.assert_array_equal(image.asnumpy()[..., 0], images[3])
    assert kind(root=str(tmp_path), transform=lambda x, y: (x.shape, y + 1))[0] == ((28, 28, 1), 6)
    batch = next(iter(mx.gluon.data.DataLoader(train.transform_first(vision.transforms.ToTensor()), 4)))
    assert batch[0].shape == (4, 1, 28, 28) and batch[1].asnumpy().tolist() == [5, 6, 7, 8]


def test_missing_files_are_named(tmp_path):
    with pytest.raises(
        FileNotFoundError, match=r"MNIST: found none of train-labels-idx1-ubyte.gz, .* does not download"
    ):
        vision.MNIST(root=str(tmp_path))
    with pytest.raises(FileNotFoundError, match=r"CIFAR10: found none of data_batch_1.bin in .*cifar"):
        vision.CIFAR10(root=str(tmp_path))


def test_default_root_is_mxnets(monkeypatch, tmp_path):
    monkeypatch.setenv("MXNET_HOME", str(tmp_path))
    with pytest.raises(FileNotFoundError, match=str(tmp_path / "datasets" / "mnist")):
        vision.MNIST()


def test_broken_idx_files_are_refused(tmp_path):
    from mxcore.io._idx import read_idx

    path = tmp_path / "x"
    path.write_bytes(b"PK\x03\x04")
    with pytest.raises(FileFormatError, match="is no IDX file of bytes: it starts with 504b0304"):
        read_idx(str(path))
    path.write_bytes(struct.pack(">II", 0x0803, 5))
    with pytest.raises(FileFormatError, match="truncated: it ends within its header"):
        read_idx(str(path))
    path.write_bytes(struct.pack(">II", 0x0801, 5) + b"abc")
    with pytest.raises(FileFormatError, match=r"holds 3 bytes of data, but its header says shape \(5,\)"):
        read_idx(str(path))
    packed = tmp_path / "x.gz"
    packed.write_bytes(gzip.compress(struct.pack(">II", 0x0801, 5) + b"abcde")[:-6])
    with pytest.raises(FileFormatError, match="is no whole gzip file"):
        read_idx(str(packed))


def test_images_and_labels_that_do_not_belong_together(tmp_path):
    write_idx(tmp_path / "train-images-idx3-ubyte", np.zeros((3, 28, 28)))
    write_idx(tmp_path / "train-labels-idx1-ubyte", np.zeros(2))
    with pytest.raises(FileFormatError, match="do not belong together"):
        vision.MNIST(root=str(tmp_path))


def test_cifar10_and_100(tmp_path):
    pixels = np.random.randint(0, 256, (2, 3, 32, 32), dtype=np.uint8)
    ten = tmp_path / "ten" / "cifar-10-batches-bin"  # as the archive unpacks
    hundred = tmp_path / "hundred"
    ten.mkdir(parents=True)
    hundred.mkdir()
    labels = np.array([[3], [7]], np.uint8)
    rows = np.concatenate([labels, pixels.reshape(2, -1)], axis=1)
    for name in [f"data_batch_{i}.bin" for i in range(1, 6)] + ["test_batch.bin"]:
        (ten / name).write_bytes(rows.tobytes())
    train = vision.CIFAR10(root=str(tmp_path / "ten"))
    assert len(train) == 10 and len(vision.CIFAR10(root=str(ten), train=False)) == 2
    image, label = train[1]
    assert image.shape == (32, 32, 3) and label == 7 and label.dtype == np.int32
    np.testing.assert_array_equal(image.asnumpy(), pixels[1].transpose(1, 2, 0))
    coarse_fine = np.array([[1, 50], [2, 60]], np.uint8)
    (hundred / "train.bin").write_bytes(np.concatenate([coarse_fine, pixels.reshape(2, -1)], axis=1).tobytes())
    assert vision.CIFAR100(root=str(hundred))[1][1] == 2
    assert vision.CIFAR100(root=str(hundred), fine_label=True)[1][1] == 60
    (hundred / "test.bin").write_bytes(b"x" * 100)
    with pytest.raises(FileFormatError, match="100 bytes, which is no multiple of the 3074 bytes"):
        vision.CIFAR100(root=str(hundred), train=False)


def test_image_folder(tmp_path):
    pil = pytest.importorskip("PIL.Image")
    for i, name in enumerate(("cats", "dogs")):
        (tmp_path / name).mkdir()
        pil.fromarray(np.full((4, 5, 3), 10 * i, np.uint8)).save(tmp_path / name / "a.png")
    dataset = vision.ImageFolderDataset(str(tmp_path))
    assert dataset.synsets == ["cats", "dogs"] and len(dataset) == 2
    image, label = dataset[1]
    assert image.shape == (4, 5, 3) and label == 1 and (image.asnumpy() == 10).all()
    assert vision.ImageFolderDataset(str(tmp_path), flag=0)[0][0].shape == (4, 5, 1)
    (tmp_path / "notes.txt").write_text("")
    (tmp_path / "cats" / "b.gif").write_text("")
    with pytest.warns(UserWarning, match="Ignoring .*(notes.txt, which is not a directory|of type .gif)"):
        assert len(vision.ImageFolderDataset(str(tmp_path), transform=lambda x, y: y)) == 2


def test_image_folder_without_pillow(tmp_path, monkeypatch):
    import sys

    (tmp_path / "cats").mkdir()
    (tmp_path / "cats" / "a.png").write_bytes(b"")
    monkeypatch.setitem(sys.modules, "PIL", None)
    with pytest.raises(
        ImportError, match=r"needs Pillow, which is not installed. Install it with: pip install mxcore\[image\]"
    ):
        vision.ImageFolderDataset(str(tmp_path))[0]
