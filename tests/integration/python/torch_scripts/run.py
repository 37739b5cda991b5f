"""Runs scripts one after the other in one job, each as a program of its own: the checks are their names."""
import os
import pathlib
import runpy

import checks
import torch

import horovod.torch as hvd

SCRIPTS = pathlib.Path(__file__).resolve().parent / "scripts"


def running(path):
    """A check that runs a script and then leaves the job, as the end of a program does."""

    def run():
        if path.stem == "adasum":
            checks.needs_adasum()
        hvd.shutdown()
        try:
            runpy.run_path(str(path), run_name="__main__")
        finally:
            hvd.shutdown()
            hvd.init()

    run.__name__ = path.stem
    return run


if __name__ == "__main__":
    for script in sorted(SCRIPTS.glob("*.py")):
        checks.check(running(script))
    os.chdir(SCRIPTS)
    checks.run_checks(hvd, lambda: torch.manual_seed(1))
