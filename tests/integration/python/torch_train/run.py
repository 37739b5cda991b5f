"""All checks of what trains, in one job: each rank runs this program."""
import optimizers  # noqa: F401
import sparse  # noqa: F401
import derived  # noqa: F401
import normalisation  # noqa: F401
import exchange  # noqa: F401
import flat  # noqa: F401
import adasum  # noqa: F401
import agreement  # noqa: F401
import copies  # noqa: F401
import companions  # noqa: F401  (last: its jobs end and begin anew)
import torch
from checks import run_checks

import horovod.torch as hvd

if __name__ == "__main__":
    run_checks(hvd, lambda: torch.manual_seed(1))
