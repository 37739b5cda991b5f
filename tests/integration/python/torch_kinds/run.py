"""All checks of the kinds of tensors, in one job: each rank runs this program."""
import elements  # noqa: F401
import kinds  # noqa: F401
import torch
from checks import run_checks

import horovod.torch as hvd

if __name__ == "__main__":
    run_checks(hvd, lambda: torch.manual_seed(1))
