"""Trains a ResNet-18 of Keras with random images by fit(); picture.py starts it on two ranks, for the timeline of a step."""
import keras
import numpy

import horovod.keras as hvd

BATCH, IMAGE, CLASSES = 4, 64, 1000
BLOCKS = [64, 64, 128, 128, 256, 256, 512, 512]  # channels
STEPS, EPOCHS = 2, 3


def convolution(images, channels, width, stride):
    """A convolution with normalisation."""
    images = keras.layers.Conv2D(channels, width, stride, padding="same", use_bias=False)(images)
    return keras.layers.BatchNormalization()(images)


def network():
    images = entry = keras.Input((IMAGE, IMAGE, 3))
    images = keras.layers.ReLU()(convolution(images, 64, 7, 2))
    images = keras.layers.MaxPooling2D(3, 2, padding="same")(images)
    for channels in BLOCKS:
        stride = 1 if images.shape[-1] == channels else 2
        body = convolution(keras.layers.ReLU()(convolution(images, channels, 3, stride)), channels, 3, 1)
        shortcut = images if stride == 1 else convolution(images, channels, 1, stride)
        images = keras.layers.ReLU()(keras.layers.add([body, shortcut]))
    return keras.Model(entry, keras.layers.Dense(CLASSES)(keras.layers.GlobalAveragePooling2D()(images)))


def main():
    hvd.init()
    keras.utils.set_random_seed(hvd.rank())
    model = network()
    model.compile(hvd.DistributedOptimizer(keras.optimizers.SGD(0.01)), keras.losses.SparseCategoricalCrossentropy(from_logits=True),
                  jit_compile=False)
    images = numpy.random.uniform(size=(BATCH * STEPS, IMAGE, IMAGE, 3)).astype("float32")
    classes = numpy.random.randint(CLASSES, size=BATCH * STEPS)
    model.fit(images, classes, batch_size=BATCH, epochs=EPOCHS, verbose=0,
              callbacks=[hvd.callbacks.BroadcastGlobalVariablesCallback(0)])


if __name__ == "__main__":
    main()
