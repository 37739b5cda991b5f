"""A rank that ends in a way of its own; the way is the argument. What it prints is what is tested.

before      uses Horovod before init and after shutdown
pending     ends with operations that nobody waited for
"""
import sys

import torch

import horovod.torch as hvd


def attempt(what, function, *arguments):
    """Prints which exception the call raises."""
    try:
        function(*arguments)
        print(what, "nothing", flush=True)
    except Exception as error:  # printed
        print(what, type(error).__name__, error, flush=True)


def before():
    """Every function says that Horovod is not initialised."""
    for time in ("before", "after"):
        attempt(f"{time} size", hvd.size)
        attempt(f"{time} rank", hvd.rank)
        attempt(f"{time} allreduce", hvd.allreduce, torch.ones(2))
        attempt(f"{time} allreduce_", hvd.allreduce_, torch.ones(2))
        attempt(f"{time} allgather", hvd.allgather, torch.ones(2))
        attempt(f"{time} broadcast", hvd.broadcast, torch.ones(2), 0)
        attempt(f"{time} alltoall", hvd.alltoall, torch.ones(2))
        attempt(f"{time} reducescatter", hvd.reducescatter, torch.ones(2))
        attempt(f"{time} join", hvd.join)
        attempt(f"{time} barrier", hvd.barrier)
        if time == "before":
            hvd.init()
            handle = hvd.allreduce_async(torch.ones(2), op=hvd.Sum) if hvd.size() == 1 else None
            hvd.shutdown()
            if handle is not None:
                attempt("pending synchronize", hvd.synchronize, handle)


def pending():
    """Some operations can never end, others were never asked about."""
    hvd.init()
    for step in range(50):
        hvd.allreduce_async_(torch.ones(100), name=f"common.{step}")
    hvd.allreduce_async_(torch.ones(100), name=f"alone.{hvd.rank()}")
    hvd.allgather_async(torch.ones(100), name="gathered")
    print("ends", flush=True)


if __name__ == "__main__":
    {"before": before, "pending": pending}[sys.argv[1]]()
