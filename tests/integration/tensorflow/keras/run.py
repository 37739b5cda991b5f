"""All checks of horovod.keras and horovod.tensorflow.keras, in one job: each rank runs this program."""
import pathlib

import job
import tensorflow

import horovod.tensorflow as hvd

if __name__ == "__main__":
    job.run(pathlib.Path(__file__).parent, hvd, tensorflow.random.set_seed)
