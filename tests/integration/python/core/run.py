"""All checks without a framework, in one job: each rank runs this program."""
import arrays  # noqa: F401
import jobs  # noqa: F401
import modules  # noqa: F401
import tools  # noqa: F401
import beginnings  # noqa: F401  (last: its jobs end and begin anew)
from checks import run_checks

import horovod.numpy as hvd

if __name__ == "__main__":
    run_checks(hvd)
