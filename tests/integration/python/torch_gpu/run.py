"""All checks of tensors on a GPU, in one job: each rank runs this program, over the doubles of CUDA and NCCL."""
import gpu  # (first: it restarts the program)
import checks
import collectives  # noqa: F401
import streams  # noqa: F401
import trained  # noqa: F401
import torch

import horovod.torch as hvd


def without_findings(function):
    """The check, which fails, too, if the doubles have found a race or a misuse."""

    def checked():
        gpu.forget()
        function()
        gpu.settle()
        found, text = gpu.findings()
        gpu.forget()
        assert found == 0, f"{found} findings, the latest: {text}"

    checked.__name__ = function.__name__
    return checked


if __name__ == "__main__":
    checks.CHECKS[:] = map(without_findings, checks.CHECKS)
    with gpu.present():
        checks.run_checks(hvd, lambda: torch.manual_seed(1))
