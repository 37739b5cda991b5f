"""All checks of the collectives, in one job: each rank runs this program."""
import os

import allreduces  # noqa: F401
import errors  # noqa: F401
import gradients  # noqa: F401
import others  # noqa: F401
from checks import run_checks

if __name__ == "__main__":
    os.environ["HOROVOD_DYNAMIC_PROCESS_SETS"] = "1"
    run_checks()
