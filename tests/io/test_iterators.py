"""Data iterators: arrays in memory, files, wrappers."""

from __future__ import annotations

import struct

import numpy as np
import pytest

import mxcore as mx
from mxcore import io
from mxcore.spec.errors import FileFormatError, ParameterError


def values(batches):
    return [batch.data[0].asnumpy().tolist() for batch in batches]


def test_desc_is_a_pair_with_attributes():
    desc = io.DataDesc("x", (2, 3), dtype="int32", layout="TN")
    assert desc == ("x", (2, 3)) and desc.dtype == "int32" and desc.layout == "TN"
    assert repr(desc) == "DataDesc[x,(2, 3),int32,TN]"
    assert [io.DataDesc.get_batch_axis(layout) for layout in (None, "NCHW", "TNC", "C")] == [0, 0, 1, -1]
    assert io.DataDesc.get_list([("a", (1,))], [("a", "int8")])[0].dtype == "int8"
    assert io.DataDesc.get_list([("a", (1,))], None)[0].dtype is np.float32


def test_batch_text_and_checks():
    batch = io.DataBatch([mx.nd.ones((2, 3))])
    assert str(batch) == "DataBatch: data shapes: [(2, 3)] label shapes: None"
    batch = io.DataBatch([mx.nd.ones((2, 3))], [mx.nd.ones((4, 5))])
    assert str(batch) == "DataBatch: data shapes: [(2, 3)] label shapes: [(4, 5)]"
    with pytest.raises(AssertionError, match="Data must be list of NDArrays"):
        io.DataBatch(mx.nd.ones((1,)))


def test_pad_fills_up_from_the_start():
    batches = io.NDArrayIter(np.arange(5), np.arange(5) * 10, batch_size=2)
    for _ in range(2):
        read = list(batches)
        assert values(read) == [[0, 1], [2, 3], [4, 0]]
        assert [batch.pad for batch in read] == [0, 0, 1]
        assert read[2].label[0].asnumpy().tolist() == [40, 0]
        batches.reset()


def test_pad_of_a_batch_longer_than_the_data():
    (batch,) = io.NDArrayIter(np.arange(3), batch_size=8)
    assert batch.data[0].asnumpy().tolist() == [0, 1, 2, 0, 1, 2, 0, 1] and batch.pad == 5


def test_discard_drops_the_rest():
    assert values(io.NDArrayIter(np.arange(5), batch_size=2, last_batch_handle="discard")) == [[0, 1], [2, 3]]


def test_roll_over_joins_the_rest_with_the_next_epoch():
    batches = io.NDArrayIter(np.arange(5), np.arange(5), batch_size=2, last_batch_handle="roll_over")
    assert values(batches) == [[0, 1], [2, 3]]
    batches.reset()
    first = batches.next()
    assert first.data[0].asnumpy().tolist() == [4, 0] == first.label[0].asnumpy().tolist()
    assert values(batches) == [[1, 2], [3, 4]]
    batches.reset()
    assert values(batches) == [[0, 1], [2, 3]]
    batches.hard_reset()
    assert batches.next().data[0].asnumpy().tolist() == [0, 1]


def test_names_descriptions_and_conversion():
    batches = io.NDArrayIter({"b": np.ones((4, 3)), "a": mx.nd.ones((4, 2), dtype="int32")}, np.zeros(4), 2)
    assert [desc.name for desc in batches.provide_data] == ["a", "b"]
    assert [desc.shape for desc in batches.provide_data] == [(2, 2), (2, 3)]
    assert [np.dtype(desc.dtype).name for desc in batches.provide_data] == ["int32", "float32"]
    assert batches.provide_label[0] == ("softmax_label", (2,))
    several = io.NDArrayIter([np.ones(2), np.ones(2)])
    assert [desc.name for desc in several.provide_data] == ["_0_data", "_1_data"]
    assert several.next().label == []


def test_rows_on_another_axis():
    batches = io.NDArrayIter(np.arange(12).reshape(2, 6), batch_size=4, layout="TN")
    assert batches.provide_data[0].shape == (2, 4)
    assert values(batches) == [[[0, 1, 2, 3], [6, 7, 8, 9]], [[4, 5, 0, 1], [10, 11, 6, 7]]]
    shuffled = io.NDArrayIter(np.arange(12).reshape(2, 6), batch_size=6, layout="TN", shuffle=True).next().data[0]
    first, second = shuffled.asnumpy()
    assert (second - first == 6).all() and sorted(first) == list(range(6))


def test_shuffle_permutes_data_and_labels_alike():
    np.random.seed(1)
    batches = io.NDArrayIter(np.arange(20), np.arange(20), 5, shuffle=True)
    for _ in range(2):
        read = list(batches)
        data = np.concatenate([batch.data[0].asnumpy() for batch in read])
        labels = np.concatenate([batch.label[0].asnumpy() for batch in read])
        assert (data == labels).all() and sorted(data) == list(range(20)) and (data != np.arange(20)).any()
        batches.reset()
    assert np.dtype(io.NDArrayIter(mx.nd.ones((4,), dtype="uint8"), shuffle=True).next().data[0].dtype) == np.uint8


def test_wrong_sources_are_refused():
    with pytest.raises(TypeError, match=r"Input must be NDArray.* not int"):
        io.NDArrayIter(3)
    with pytest.raises(TypeError, match=r"Invalid type .* for x, should be NDArray"):
        io.NDArrayIter({"x": object()})
    with pytest.raises(AssertionError, match="data must not be None"):
        io.NDArrayIter(None)
    with pytest.raises(AssertionError, match="must not be an empty list"):
        io.NDArrayIter([])


def test_resize_iter_goes_round():
    inner = io.NDArrayIter(np.arange(4), batch_size=2)
    batches = io.ResizeIter(inner, 5)
    assert values(batches) == [[0, 1], [2, 3], [0, 1], [2, 3], [0, 1]]
    batches.reset()
    assert len(list(batches)) == 5
    assert batches.provide_data == inner.provide_data and batches.batch_size == 2
    keeping = io.ResizeIter(io.NDArrayIter(np.arange(4), batch_size=2), 1, reset_internal=False)
    assert values(keeping) == [[0, 1]]
    keeping.reset()
    assert values(keeping) == [[2, 3]]


def test_prefetching_joins_and_renames():
    def one(scale):
        return io.NDArrayIter(np.arange(6) * scale, np.arange(6), 2)

    batches = io.PrefetchingIter([one(1), one(10)], [{"data": "a"}, {"data": "b"}], [{"softmax_label": "x"}] * 2)
    assert [desc.name for desc in batches.provide_data] == ["a", "b"]
    assert [desc.name for desc in batches.provide_label] == ["x", "x"]
    for _ in range(2):
        read = list(batches)
        assert [batch.data[1].asnumpy().tolist() for batch in read] == [[0, 10], [20, 30], [40, 50]]
        assert len(read[0].label) == 2
        assert not batches.iter_next()
        batches.reset()
    batches.iter_next()
    assert batches.getdata()[0].asnumpy().tolist() == [0, 1] and batches.getpad() == 0
    uneven = io.PrefetchingIter([one(1), io.NDArrayIter(np.arange(2), batch_size=2)])
    uneven.next()
    with pytest.raises(AssertionError, match="Number of entry mismatches between iterators"):
        uneven.next()


def test_prefetching_passes_an_error_on():
    class Broken(io.NDArrayIter):
        def next(self):
            raise KeyError("no file")

    with pytest.raises(KeyError, match="no file"):
        io.PrefetchingIter(Broken(np.arange(2), batch_size=2)).next()


@pytest.fixture
def csv(tmp_path):
    path = tmp_path / "data.csv"
    path.write_text("1,2,3\n2,3,4\n3,4,5\n4,5,6\n")
    return str(path)


def epoch(batches):
    read = [(batch.data[0].asnumpy()[:, 0].tolist(), batch.pad, batch.index.tolist()) for batch in batches]
    batches.reset()
    return read


def test_csv_round_batch_equals_mxnet(csv):
    batches = io.CSVIter(data_csv=csv, data_shape=(3,), batch_size=3)
    assert batches.provide_data == [("data", (3, 3))] and batches.provide_label == [("softmax_label", (3,))]
    # What real MXNet 1.9.1 gives for this file.
    assert epoch(batches) == [([1, 2, 3], 0, [0, 1, 2]), ([4, 1, 2], 2, [3, 0, 1])]
    assert epoch(batches) == [([3, 4, 1], 1, [2, 3, 0])]
    assert epoch(batches) == [([2, 3, 4], 0, [1, 2, 3])]


def test_csv_without_round_batch_equals_mxnet(csv):
    batches = io.CSVIter(data_csv=csv, data_shape=(3,), batch_size=3, round_batch=False)
    for _ in range(2):
        assert epoch(batches) == [([1, 2, 3], 0, [0, 1, 2]), ([4, 2, 3], 2, [3, 1, 2])]


def test_csv_dtype_shape_labels_and_folders(tmp_path):
    (tmp_path / "d").mkdir()
    for name in ("a", "b"):
        (tmp_path / "d" / name).write_text(f"{2**40},2,3,4\n")
    (tmp_path / "l").write_text("1,2\n3,4\n")
    batches = io.CSVIter(
        data_csv=str(tmp_path / "d"),
        data_shape=(2, 2),
        label_csv=str(tmp_path / "l"),
        label_shape=(2,),
        batch_size=2,
        dtype="int64",
    )
    batch = batches.next()
    assert batch.data[0].shape == (2, 2, 2) and np.dtype(batch.data[0].dtype) == np.int64
    assert batch.data[0].asnumpy()[1, 0, 0] == 2**40
    assert batch.label[0].asnumpy().tolist() == [[1, 2], [3, 4]]


def test_csv_errors(csv, tmp_path):
    with pytest.raises(FileFormatError, match=r"rows of .* have 3 values, which do not fill the shape \(2,\)"):
        io.CSVIter(data_csv=csv, data_shape=(2,), batch_size=1)
    with pytest.raises(ParameterError, match="number of input must be bigger than batch size"):
        io.CSVIter(data_csv=csv, data_shape=(3,), batch_size=5)
    bad = tmp_path / "bad.csv"
    bad.write_text("1,x,3\n")
    with pytest.raises(FileFormatError, match="is no table of float32 values"):
        io.CSVIter(data_csv=str(bad), data_shape=(3,), batch_size=1)
    with pytest.raises(FileFormatError, match="has 1 labels for 4 rows"):
        (tmp_path / "l").write_text("1\n")
        io.CSVIter(data_csv=csv, data_shape=(3,), batch_size=1, label_csv=str(tmp_path / "l"))


def write_mnist(folder, count=5):
    images = (np.arange(count * 784) % 251).astype(np.uint8)
    (folder / "im").write_bytes(struct.pack(">IIII", 2051, count, 28, 28) + images.tobytes())
    (folder / "lb").write_bytes(struct.pack(">II", 2049, count) + bytes(range(count)))
    return {"image": str(folder / "im"), "label": str(folder / "lb")}


def test_mnist_iter(tmp_path):
    files = write_mnist(tmp_path)
    batches = io.MNISTIter(**files, batch_size=2, shuffle=False)
    assert batches.provide_data == [("data", (2, 1, 28, 28))] and batches.provide_label == [("softmax_label", (2,))]
    read = list(batches)
    assert [batch.label[0].asnumpy().tolist() for batch in read] == [[0, 1], [2, 3]]  # the fifth is dropped
    np.testing.assert_array_equal(read[0].data[0].asnumpy()[0, 0, 0, :3] * 256, [0, 1, 2])
    batches.reset()
    batches.iter_next()
    assert batches.getlabel().asnumpy().tolist() == [0, 1]
    assert io.MNISTIter(**files, batch_size=2, flat=True).provide_data[0].shape == (2, 784)
    second = io.MNISTIter(**files, batch_size=2, shuffle=False, num_parts=2, part_index=1)
    assert [batch.label[0].asnumpy().tolist() for batch in second] == [[2, 3]]
    orders = [list(io.MNISTIter(**files, batch_size=5, seed=s).next().label[0].asnumpy()) for s in (1, 1, 2)]
    assert orders[0] == orders[1] != orders[2]


def test_debug_skip_load_repeats(tmp_path):
    batches = io.MNISTIter(**write_mnist(tmp_path), batch_size=2, shuffle=False)
    batches.next()
    batches.debug_skip_load()
    assert [batches.next().label[0].asnumpy().tolist() for _ in range(4)] == [[0, 1]] * 4
