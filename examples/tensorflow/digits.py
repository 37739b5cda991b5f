"""Trains the network of ../digits on images of handwritten digits, in the graph style of TensorFlow 1:

    python3 digits.py
    horovodrun -np 2 python3 digits.py

Each rank takes its share of every batch, and the gradients are averaged over all. So any number of
ranks computes the same result. [horovod] marks the distributed parts.
"""
import argparse
import pathlib
import sys

import numpy
import tensorflow.compat.v1 as tf

import horovod.tensorflow as hvd

DATA = pathlib.Path(__file__).resolve().parents[1] / "digits" / "digits.csv"
SEED = 20240229


def parse_arguments():
    """Parses the command line."""
    parser = argparse.ArgumentParser(description="Trains a small network on handwritten digits.")
    parser.add_argument("--epochs", type=int, default=30)
    parser.add_argument("--batch", type=int, default=96, help="images a step, of all ranks together")
    parser.add_argument("--data", type=pathlib.Path, default=DATA, help="digits.csv")
    parser.add_argument("--checkpoint", help="folder to save to after each epoch, and to go on from")
    return parser.parse_args()


def load(path):
    """Returns ((images, digits) to train with, the same held back): holds back every fifth image."""
    rows = numpy.loadtxt(path, delimiter=",", dtype="float32")
    images, digits = rows[:, :64] / 16, rows[:, 64].astype("int64")
    is_held_back = numpy.arange(len(rows)) % 5 == 0
    return (images[~is_held_back], digits[~is_held_back]), (images[is_held_back], digits[is_held_back])


class Network:
    """The graph: 64 pixels, 64 rectified units, 10 digits; what trains it and what counts."""

    def __init__(self):
        self.images = tf.placeholder(tf.float32, [None, 64], name="images")
        self.digits = tf.placeholder(tf.int64, [None], name="digits")
        self.divisor = tf.placeholder(tf.float32, [], name="divisor")
        hidden = tf.nn.relu(layer(self.images, 64, "hidden"))
        output = layer(hidden, 10, "output")
        loss = tf.reduce_sum(tf.nn.sparse_softmax_cross_entropy_with_logits(labels=self.digits, logits=output))
        n_right = tf.reduce_sum(tf.cast(tf.equal(tf.argmax(output, 1), self.digits), tf.float32))
        self.counts = tf.stack([loss, n_right, tf.cast(tf.shape(self.digits)[0], tf.float32)])
        self.step = tf.train.get_or_create_global_step()
        optimizer = hvd.DistributedOptimizer(tf.train.AdagradOptimizer(0.1))  # [horovod] averages gradients over the ranks
        self.train = optimizer.minimize(loss / self.divisor, global_step=self.step)
        self.totals = tf.placeholder(tf.float64, [3], name="totals")
        self.totals_of_all = hvd.allreduce(self.totals, op=hvd.Sum, name="totals_of_all")  # [horovod]

    def feed(self, images, digits, divisor=1.0):
        """Returns the values of the placeholders for some images."""
        return {self.images: images, self.digits: digits, self.divisor: divisor}


def layer(inputs, n_units, name):
    """Returns a fully connected layer."""
    n_inputs = inputs.shape[1]
    with tf.variable_scope(name):
        weights = tf.get_variable("weights", [n_inputs, n_units], initializer=tf.glorot_uniform_initializer(seed=SEED))
        return tf.matmul(inputs, weights) + tf.get_variable("biases", [n_units], initializer=tf.zeros_initializer())


def value_of(session, *arguments):
    """Returns what a session computes without its hooks, so that no checkpoint is due."""
    return session.run_step_fn(lambda step_context: step_context.session.run(*arguments))


def train_epoch(epoch, network, session, images, digits, batch):
    """Makes one pass over the training set; returns (loss, accuracy) of all ranks."""
    order = numpy.random.RandomState(SEED + epoch).permutation(len(images))
    totals = numpy.zeros(3)
    for begin in range(0, len(order), batch):
        chosen = order[begin:begin + batch]
        mine = numpy.array_split(chosen, hvd.size())[hvd.rank()]  # [horovod] my share of the batch
        # The average over the ranks of sums divided by len(chosen) / size is the mean over the batch.
        feed = network.feed(images[mine], digits[mine], len(chosen) / hvd.size())
        counts, _ = session.run([network.counts, network.train], feed)
        totals += counts
    if epoch == 0:
        print(f"digits: rank {hvd.rank()} of {hvd.size()} trains on {totals[2]:.0f} of {len(images)} images")
    loss, n_right, n_images = value_of(session, network.totals_of_all, {network.totals: totals})
    return loss / n_images, n_right / n_images


def main():
    """Trains, and prints the accuracy on the held-back images."""
    arguments = parse_arguments()
    sys.stdout.reconfigure(line_buffering=True)
    (images, digits), held_back = load(arguments.data)
    n_steps = -(-len(images) // arguments.batch)  # of an epoch
    hvd.init()  # [horovod] join the other ranks
    tf.disable_eager_execution()
    tf.logging.set_verbosity(tf.logging.ERROR)
    network = Network()
    config = tf.ConfigProto(intra_op_parallelism_threads=1)
    config.gpu_options.visible_device_list = str(hvd.local_rank())  # [horovod] a GPU for each rank, if there are any
    hooks = [hvd.BroadcastGlobalVariablesHook(0)]  # [horovod] begin with the state of rank 0
    folder = arguments.checkpoint if hvd.rank() == 0 else None  # [horovod] one rank saves and loads
    with tf.train.MonitoredTrainingSession(checkpoint_dir=folder, save_checkpoint_steps=n_steps, save_summaries_steps=None,
                                           save_summaries_secs=None, log_step_count_steps=None, hooks=hooks,
                                           config=config) as session:
        first = value_of(session, network.step) // n_steps
        if first and hvd.rank() == 0:
            print(f"digits: resuming after epoch {first}")
        for epoch in range(first, arguments.epochs):
            loss, accuracy = train_epoch(epoch, network, session, images, digits, arguments.batch)
            if hvd.rank() == 0:  # [horovod] one rank prints
                print(f"digits: epoch {epoch + 1} loss {loss:.7f} accuracy {accuracy:.4f}")
        if hvd.rank() == 0:
            _, n_right, n_images = value_of(session, network.counts, network.feed(*held_back))
            print(f"digits: accuracy {n_right / n_images:.4f} on {n_images:.0f} held-back images")


if __name__ == "__main__":
    main()
