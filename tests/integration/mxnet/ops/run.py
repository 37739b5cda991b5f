"""All checks of horovod.mxnet, in one job: each rank runs this program."""
import os

import collectives  # noqa: F401
import training  # noqa: F401
import parameters  # noqa: F401  (last: its jobs end and begin anew)
import mxnet
from checks import run_checks

import horovod.mxnet as hvd

if __name__ == "__main__":
    os.environ["HOROVOD_TIMELINE"] = "DYNAMIC"
    run_checks(hvd, lambda: mxnet.random.seed(1), ["horovod_mxnet_api.json"])
