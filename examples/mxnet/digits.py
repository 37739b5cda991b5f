"""Trains the network of ../digits on images of handwritten digits, in Gluon of MXNet 1.9.1:

    python3 digits.py
    horovodrun -np 2 python3 digits.py

Each rank takes its share of every batch, and the gradients are averaged over all. So any number of
ranks computes the same result. [horovod] marks the distributed parts.
"""
import argparse
import pathlib
import sys

import mxnet as mx
import numpy
from mxnet import autograd, gluon

import horovod.mxnet as hvd

DATA = pathlib.Path(__file__).resolve().parents[1] / "digits" / "digits.csv"
SEED = 20240229


def parse_arguments():
    """Parses the command line."""
    parser = argparse.ArgumentParser(description="Trains a small network on handwritten digits.")
    parser.add_argument("--epochs", type=int, default=30)
    parser.add_argument("--batch", type=int, default=96, help="images a step, of all ranks together")
    parser.add_argument("--data", type=pathlib.Path, default=DATA, help="digits.csv")
    return parser.parse_args()


def load(path):
    """Returns ((images, digits) to train with, the same held back): holds back every fifth image."""
    rows = numpy.loadtxt(path, delimiter=",", dtype="float32")
    images, digits = rows[:, :64] / 16, rows[:, 64]
    is_held_back = numpy.arange(len(rows)) % 5 == 0
    return (images[~is_held_back], digits[~is_held_back]), (images[is_held_back], digits[is_held_back])


def train_epoch(epoch, net, trainer, images, digits, batch):
    """Makes one pass over the training set; returns (loss, accuracy) of all ranks."""
    order = numpy.random.RandomState(SEED + epoch).permutation(len(images))
    loss_of = gluon.loss.SoftmaxCrossEntropyLoss()
    totals = numpy.zeros(3)
    for begin in range(0, len(order), batch):
        chosen = order[begin:begin + batch]
        mine = numpy.array_split(chosen, hvd.size())[hvd.rank()]  # [horovod] my share of the batch
        labels = mx.nd.array(digits[mine])
        with autograd.record():
            output = net(mx.nd.array(images[mine]))
            losses = loss_of(output, labels)
        losses.backward()
        trainer.step(len(chosen) / hvd.size())  # [horovod] images a rank; the trainer divides by the ranks
        n_right = (output.argmax(axis=1) == labels).sum().asscalar()
        totals += losses.sum().asscalar(), n_right, len(mine)
    if epoch == 0:
        print(f"digits: rank {hvd.rank()} of {hvd.size()} trains on {totals[2]:.0f} of {len(images)} images")
    loss, n_right, n_images = hvd.allreduce(mx.nd.array(totals, dtype="float64"), op=hvd.Sum, name="totals").asnumpy()  # [horovod]
    return loss / n_images, n_right / n_images


def main():
    """Trains, and prints the accuracy on the held-back images."""
    arguments = parse_arguments()
    sys.stdout.reconfigure(line_buffering=True)
    (images, digits), held_back = load(arguments.data)
    hvd.init()  # [horovod] join the other ranks
    mx.random.seed(SEED)
    net = gluon.nn.HybridSequential()
    net.add(gluon.nn.Dense(64, activation="relu"), gluon.nn.Dense(10))
    net.initialize(mx.init.Xavier())
    net.hybridize()
    hvd.broadcast_parameters(net.collect_params(), root_rank=0)  # [horovod] weights follow in the first forward pass
    trainer = hvd.DistributedTrainer(net.collect_params(), "sgd", {"learning_rate": 0.05, "momentum": 0.9})  # [horovod]
    for epoch in range(arguments.epochs):
        loss, accuracy = train_epoch(epoch, net, trainer, images, digits, arguments.batch)
        if hvd.rank() == 0:  # [horovod] one rank prints
            print(f"digits: epoch {epoch + 1} loss {loss:.7f} accuracy {accuracy:.4f}")
    if hvd.rank() == 0:
        accuracy = (net(mx.nd.array(held_back[0])).argmax(axis=1).asnumpy() == held_back[1]).mean()
        print(f"digits: accuracy {accuracy:.4f} on {len(held_back[1])} held-back images")


if __name__ == "__main__":
    main()
