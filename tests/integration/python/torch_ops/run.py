"""All checks of the collectives, in one job: each rank runs this program."""
import os

import allreduces  # noqa: F401
import below  # noqa: F401
import contract  # noqa: F401
import differing  # noqa: F401
import errors  # noqa: F401
import forms  # noqa: F401
import gradients  # noqa: F401
import older  # noqa: F401
import others  # noqa: F401
import packed  # noqa: F401
import beginnings  # noqa: F401  (last: its jobs end and begin anew)
import torch
from checks import run_checks

import horovod.torch as hvd

if __name__ == "__main__":
    os.environ["HOROVOD_TIMELINE"] = "DYNAMIC"
    run_checks(hvd, lambda: torch.manual_seed(1))
