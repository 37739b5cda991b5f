"""The functions of Horovod's extension for PyTorch that scripts and forks call, over the one extension of this package."""
from horovod.common.operations import poll, synchronize

horovod_torch_poll = poll


def horovod_torch_wait_and_clear(handle):
    """Waits for a handle; the result is in the output that the caller passed."""
    synchronize(handle)


def horovod_torch_reset():
    """Does nothing: the next init() drops abandoned handles."""
