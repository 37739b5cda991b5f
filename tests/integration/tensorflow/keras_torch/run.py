"""All checks of horovod.keras with PyTorch under Keras, in one job: each rank runs this program."""
import pathlib

import job
import keras

import horovod.keras as hvd

if __name__ == "__main__":
    job.run(pathlib.Path(__file__).parent, hvd, keras.utils.set_random_seed)
