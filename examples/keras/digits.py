"""Trains the network of ../digits on images of handwritten digits, with `fit` of Keras 3:

    python3 digits.py
    horovodrun -np 2 python3 digits.py

Each rank takes its share of every batch, and the gradients are averaged over all. So any number of
ranks that divides the batch computes the same result. [horovod] marks the distributed parts.
"""
import argparse
import pathlib
import sys

import keras
import numpy

import horovod.keras as hvd

DATA = pathlib.Path(__file__).resolve().parents[1] / "digits" / "digits.csv"
SEED = 20240229


def parse_arguments():
    """Parses the command line."""
    parser = argparse.ArgumentParser(description="Trains a small network on handwritten digits.")
    parser.add_argument("--epochs", type=int, default=30)
    parser.add_argument("--batch", type=int, default=96, help="images a step, of all ranks together")
    parser.add_argument("--data", type=pathlib.Path, default=DATA, help="digits.csv")
    parser.add_argument("--checkpoint", type=pathlib.Path, help="file (.keras) to save to after each epoch, and to go on from")
    return parser.parse_args()


def load(path):
    """Returns ((images, digits) to train with, the same held back): holds back every fifth image."""
    rows = numpy.loadtxt(path, delimiter=",", dtype="float32")
    images, digits = rows[:, :64] / 16, rows[:, 64].astype("int64")
    is_held_back = numpy.arange(len(rows)) % 5 == 0
    return (images[~is_held_back], digits[~is_held_back]), (images[is_held_back], digits[is_held_back])


class Share(keras.utils.PyDataset):
    """This rank's share of each batch, in an order that all ranks draw alike. Every rank has the same number of batches."""

    def __init__(self, images, digits, batch):
        super().__init__()
        self.images, self.digits, self.batch = images, digits, batch
        self.draw(0)

    def draw(self, epoch, _=None):
        """Draws the order of an epoch by its number. Keras may call on_epoch_end() before the first epoch, so that is no place for it."""
        self.order = numpy.random.RandomState(SEED + epoch).permutation(len(self.images))

    def __len__(self):
        return len(self.images) // self.batch

    def __getitem__(self, step):
        chosen = self.order[step * self.batch:(step + 1) * self.batch]
        mine = chosen[hvd.rank()::hvd.size()]  # [horovod] my share of the batch
        return self.images[mine], self.digits[mine]


class Report(keras.callbacks.Callback):
    """Prints what an epoch achieved."""

    def on_epoch_end(self, epoch, logs=None):
        """Prints the averages over the ranks, which the callback before this one has put into logs."""
        print(f"digits: epoch {epoch + 1} loss {logs['loss']:.7f} accuracy {logs['accuracy']:.4f}")


def make_model():
    """Returns a compiled network with random weights."""
    model = keras.Sequential([keras.Input((64,)), keras.layers.Dense(64, activation="relu"), keras.layers.Dense(10)])
    optimizer = hvd.DistributedOptimizer(keras.optimizers.SGD(0.05, momentum=0.9))  # [horovod] averages gradients over the ranks
    model.compile(optimizer, keras.losses.SparseCategoricalCrossentropy(from_logits=True), metrics=["accuracy"])
    return model


def main():
    """Trains, and prints the accuracy on the held-back images."""
    arguments = parse_arguments()
    sys.stdout.reconfigure(line_buffering=True)
    (images, digits), held_back = load(arguments.data)
    hvd.init()  # [horovod] join the other ranks
    keras.utils.set_random_seed(SEED)
    is_root = hvd.rank() == 0  # [horovod] one rank loads, saves and prints
    is_resumed = is_root and arguments.checkpoint is not None and arguments.checkpoint.exists()
    model = hvd.load_model(arguments.checkpoint) if is_resumed else make_model()
    n_steps = len(images) // arguments.batch  # of an epoch
    first = int(hvd.broadcast(int(model.optimizer.iterations) // n_steps, root_rank=0, name="first"))  # [horovod]
    if is_resumed:
        print(f"digits: resuming after epoch {first}")
    share = Share(images, digits, arguments.batch)
    print(f"digits: rank {hvd.rank()} of {hvd.size()} trains on {n_steps * len(share[0][0])} of {len(images)} images")
    callbacks = [keras.callbacks.LambdaCallback(on_epoch_begin=share.draw),
                 hvd.callbacks.BroadcastGlobalVariablesCallback(0),  # [horovod] begin with the state of rank 0
                 hvd.callbacks.MetricAverageCallback()]  # [horovod] loss and accuracy of all ranks
    if is_root:
        callbacks += [Report()] + ([keras.callbacks.ModelCheckpoint(arguments.checkpoint)] if arguments.checkpoint else [])
    model.fit(share, epochs=arguments.epochs, initial_epoch=first, callbacks=callbacks, shuffle=False, verbose=0)
    if is_root:
        _, accuracy = model.evaluate(*held_back, batch_size=len(held_back[0]), verbose=0)
        print(f"digits: accuracy {accuracy:.4f} on {len(held_back[0])} held-back images")


if __name__ == "__main__":
    main()
