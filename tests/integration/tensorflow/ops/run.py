"""All checks of horovod.tensorflow, in one job: each rank runs this program."""
import os
import pathlib

import job
import tensorflow

import horovod.tensorflow as hvd

if __name__ == "__main__":
    os.environ["HOROVOD_TIMELINE"] = "DYNAMIC"
    job.run(pathlib.Path(__file__).parent, hvd, tensorflow.random.set_seed)
