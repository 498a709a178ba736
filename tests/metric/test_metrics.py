"""Metrics against MXNet 1.9.1, SciPy-free closed forms, and each other."""

from __future__ import annotations

import json
import math
from pathlib import Path

import numpy as np
import pytest

import mxcore as mx
from mxcore import metric

# Three batches, with the values of real MXNet 1.9.1 after each; reset_local() comes after the second.
REFERENCE = json.loads((Path(__file__).parent / "mxnet_1_9_1.json").read_text())


def label_of(case):
    return "-".join([case["name"], case["data"], *(f"{k}={v}" for k, v in case["args"].items())])


@pytest.mark.parametrize("case", REFERENCE["cases"], ids=label_of)
def test_values_equal_mxnet(case):
    m = metric.create(case["name"], **case["args"])
    for i, (label, pred) in enumerate(REFERENCE["data"][case["data"]]):
        m.update([mx.nd.array(label)], [mx.nd.array(pred)])
        local, overall = case["values"][i]
        assert m.get()[1] == pytest.approx(local, rel=2e-6)
        if case["args"] != {"average": "micro"} or case["name"] != "pearsonr":  # where MXNet's global value stays 0
            assert m.get_global()[1] == pytest.approx(overall, rel=2e-6)
        if i == 1:
            m.reset_local()
    assert m.get()[0] == case["reported"]
    assert m.get_config() == case["config"]


def test_micro_pearson_is_the_correlation_of_all_values():
    m = metric.create("pearsonr", average="micro")
    labels, preds = [], []
    for label, pred in REFERENCE["data"]["regression"]:
        m.update([mx.nd.array(label)], [mx.nd.array(pred)])
        labels.append(np.array(label).ravel())
        preds.append(np.array(pred).ravel())
        expected = np.corrcoef(np.concatenate(labels), np.concatenate(preds))[0, 1]
        assert m.get()[1] == m.get_global()[1] == pytest.approx(expected, rel=1e-6)
    m.reset()
    assert math.isnan(m.get()[1])


@pytest.mark.parametrize("name", ["acc", "f1", "mcc", "pearsonr", "pcc", "nll_loss", "loss", "mae", "ce"])
def test_config_makes_the_same_metric(name):
    m = metric.create(name)
    again = metric.create(json.dumps(m.get_config()))
    assert type(again) is type(m) and again.get_config() == m.get_config()


def test_composite_config_and_values():
    m = metric.create(["acc", metric.F1(average="micro")])
    m.update([mx.nd.array([0, 1])], [mx.nd.array([[0.9, 0.1], [0.2, 0.8]])])
    assert m.get() == (["accuracy", "f1"], [1.0, 1.0])
    assert m.get_name_value() == [("accuracy", 1.0), ("f1", 1.0)]
    assert str(m) == "EvalMetric: {'accuracy': 1.0, 'f1': 1.0}"
    again = metric.create(json.dumps(m.get_config()))
    assert [type(child).__name__ for child in again.metrics] == ["Accuracy", "F1"]
    m.reset()
    assert all(math.isnan(value) for value in m.get()[1])
    assert isinstance(m.get_metric(5), ValueError)
    assert isinstance(m.get_metric(0), metric.Accuracy)


def test_accuracy_of_class_labels_and_of_2d_labels():
    m = metric.Accuracy()
    m.update([mx.nd.array([1, 2, 3])], [mx.nd.array([1, 2, 0])])
    assert m.get() == ("accuracy", 2 / 3)
    m.reset()
    pred = mx.nd.array([[0.3, 0.7], [0, 1.0], [0.4, 0.6], [0.8, 0.2]])
    m.update([mx.nd.array([[0, 1], [1, 0]])], [pred])
    assert m.get() == ("accuracy", 0.75)


def test_single_arrays_need_no_lists():
    m = metric.MSE()
    m.update(mx.nd.array([1.0, 2.0]), mx.nd.array([1.0, 4.0]))
    assert m.get() == ("mse", 2.0)


def test_update_dict_picks_names():
    m = metric.Accuracy(output_names=["fc_output"], label_names=["y"])
    arrays = {"fc_output": mx.nd.array([[0, 1.0]]), "other_output": mx.nd.array([0])}
    m.update_dict({"y": mx.nd.array([1]), "z": mx.nd.array([0])}, arrays)
    assert m.get() == ("accuracy", 1.0)


def test_custom_metrics():
    m = metric.create(lambda label, pred: (np.abs(label - pred).sum(), label.size))
    assert m.name == "custom(<lambda>)"
    m.update([mx.nd.array([1, 2])], [mx.nd.array([1, 4])])
    assert m.get()[1] == 1.0

    def worst(label, pred):
        return np.abs(label - pred).max()

    m = metric.np(worst)
    m.update([mx.nd.array([1, 2])], [mx.nd.array([1, 4])])
    assert m.get() == ("worst", 2.0)
    with pytest.raises(NotImplementedError, match="cannot be serialized"):
        m.get_config()
    with pytest.raises(ValueError, match="Shape of labels 0 does not match shape of predictions 1"):
        m.update([], [mx.nd.array([1])])
    metric.np(worst, allow_extra_outputs=True).update([], [mx.nd.array([1])])


@pytest.mark.parametrize(
    "act, error, message",
    [
        (lambda: metric.TopKAccuracy(top_k=1), AssertionError, "Please use Accuracy if top_k is no more than 1"),
        (
            lambda: metric.F1().update([mx.nd.array([0, 1, 2])], [mx.nd.ones((3, 3))]),
            ValueError,
            "F1 currently only supports binary classification.",
        ),
        (
            lambda: metric.Accuracy().update([mx.nd.array([0])], []),
            ValueError,
            "Shape of labels 1 does not match shape of predictions 0",
        ),
        (
            lambda: metric.PearsonCorrelation().update([mx.nd.ones((2, 1))], [mx.nd.ones((2, 2))]),
            ValueError,
            r"Shape of labels \(2, 1\) does not match shape of predictions \(2, 2\)",
        ),
        (
            lambda: metric.create("akkuracy"),
            AssertionError,
            "akkuracy is not registered as a metric; known: .*accuracy",
        ),
    ],
)
def test_misuse_is_explained(act, error, message):
    with pytest.raises(error, match=message):
        act()


def test_pcc_grows_with_the_classes():
    m = metric.PCC()
    m.update([mx.nd.array([0, 1])], [mx.nd.array([0, 1])])
    m.update([mx.nd.array([4, 2, 3])], [mx.nd.array([4, 2, 3])])
    assert m.k == 5
    assert m.get() == ("pcc", 1.0)


def test_top_k_of_few_classes_counts_every_sample():
    m = metric.TopKAccuracy(top_k=5)
    m.update([mx.nd.array([0, 2])], [mx.nd.array([[0.1, 0.2, 0.7], [0.1, 0.2, 0.7]])])
    assert m.get() == ("top_k_accuracy_5", 1.0)


def test_running_sums_are_float64_whatever_numpy():
    import mxcore as mx

    metric = mx.metric.MSE()
    label, zero = mx.nd.full((100, 1), 0.1), mx.nd.zeros((100, 1))
    for _ in range(20000):
        metric.update([zero], [label])
    _, value = metric.get()
    assert isinstance(value, float) and abs(value - 0.01) < 1e-8
