"""Measures how many images a second a network trains on, with random images:

    python3 synthetic.py --model MobileNetV2
    horovodrun -np 2 python3 synthetic.py --model ResNet50 --batch-size 8

The flags are those of Horovod's synthetic benchmark for TensorFlow 2, and the lines that it prints
have the same form. --image-size, --use-adasum and --jit-compile are additions.
"""
import argparse
import os
import statistics
import time

import keras
import tensorflow as tf

import horovod.tensorflow as hvd


def parse_arguments():
    """Parses the command line."""
    parser = argparse.ArgumentParser(description="Trains a network with random images and prints the speed.")
    parser.add_argument("--fp16-allreduce", action="store_true", help="send gradients in half precision")
    parser.add_argument("--model", default="ResNet50", help="a network of keras.applications")
    parser.add_argument("--batch-size", type=int, default=32, help="images a rank and step")
    parser.add_argument("--num-warmup-batches", type=int, default=10)
    parser.add_argument("--num-batches-per-iter", type=int, default=10)
    parser.add_argument("--num-iters", type=int, default=10)
    parser.add_argument("--no-cuda", action="store_true", help="train on the CPU even if there is a GPU")
    parser.add_argument("--use-adasum", action="store_true", help="reduce with Adasum")
    parser.add_argument("--image-size", type=int, default=224)
    parser.add_argument("--jit-compile", action="store_true", help="compile the step with XLA")
    return parser.parse_args()


def choose_device(arguments):
    """Gives this rank a GPU or its share of the processors; returns "GPU" or "CPU"."""
    gpus = [] if arguments.no_cuda else tf.config.list_physical_devices("GPU")
    if gpus:
        tf.config.set_visible_devices(gpus[hvd.local_rank()], "GPU")
        tf.config.experimental.set_memory_growth(gpus[hvd.local_rank()], True)
        return "GPU"
    tf.config.set_visible_devices([], "GPU")
    tf.config.threading.set_intra_op_parallelism_threads(max(1, (os.cpu_count() or 1) // hvd.local_size()))
    return "CPU"


def make_model(arguments):
    """Returns a network with random weights for 1,000 classes."""
    shape = (arguments.image_size, arguments.image_size, 3)
    make = getattr(keras.applications, arguments.model, None)
    if not callable(make):
        raise SystemExit(f"synthetic: keras.applications has no {arguments.model}")
    return make(weights=None, input_shape=shape, classes=1000)


def make_step(arguments, model, optimizer, images, classes):
    """Returns a function that trains with the images once, as one graph."""
    compression = hvd.Compression.fp16 if arguments.fp16_allreduce else hvd.Compression.none
    reduction = hvd.Adasum if arguments.use_adasum else hvd.Average

    @tf.function(jit_compile=arguments.jit_compile)
    def step():
        with tf.GradientTape() as tape:
            probabilities = model(images, training=True)
            loss = tf.reduce_mean(keras.losses.sparse_categorical_crossentropy(classes, probabilities))
        tape = hvd.DistributedGradientTape(tape, compression=compression, op=reduction)
        gradients = tape.gradient(loss, model.trainable_variables)
        optimizer.apply_gradients(zip(gradients, model.trainable_variables))
        return loss

    return step


def say(text):
    """Prints on rank 0."""
    if hvd.rank() == 0:
        print(text, flush=True)


def measure(arguments, device, step):
    """Returns the images a second and rank of each iteration."""
    say("Running warmup...")
    for _ in range(arguments.num_warmup_batches):
        step()
    say("Running benchmark...")
    speeds = []
    for i in range(arguments.num_iters):
        begin = time.perf_counter()
        for _ in range(arguments.num_batches_per_iter):
            loss = step()
        loss.numpy()  # the last step has ended
        seconds = time.perf_counter() - begin
        speeds.append(arguments.batch_size * arguments.num_batches_per_iter / seconds)
        say(f"Iter #{i}: {speeds[-1]:.1f} img/sec per {device}")
    return speeds


def main():
    """Measures, and prints the mean and 1.96 standard deviations."""
    arguments = parse_arguments()
    hvd.init()
    device = choose_device(arguments)
    keras.utils.set_random_seed(hvd.rank())
    model = make_model(arguments)
    optimizer = keras.optimizers.SGD(0.01 if arguments.use_adasum else 0.01 * hvd.size())
    optimizer.build(model.trainable_variables)
    hvd.broadcast_variables(model.variables + optimizer.variables, root_rank=0)
    images = tf.random.uniform([arguments.batch_size, arguments.image_size, arguments.image_size, 3])
    classes = tf.random.uniform([arguments.batch_size], maxval=1000, dtype=tf.int64)
    step = make_step(arguments, model, optimizer, images, classes)
    say(f"Model: {arguments.model}")
    say(f"Batch size: {arguments.batch_size}")
    say(f"Number of {device}s: {hvd.size()}")
    speeds = measure(arguments, device, step)
    mean, spread = statistics.mean(speeds), 1.96 * statistics.pstdev(speeds)
    say(f"Img/sec per {device}: {mean:.1f} +-{spread:.1f}")
    say(f"Total img/sec on {hvd.size()} {device}(s): {hvd.size() * mean:.1f} +-{hvd.size() * spread:.1f}")


if __name__ == "__main__":
    main()
