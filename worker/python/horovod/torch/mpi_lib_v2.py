"""What scripts and forks call of the extension that Horovod builds for PyTorch: here there is one for every framework."""
from horovod.common.operations import poll, synchronize

horovod_torch_poll = poll


def horovod_torch_wait_and_clear(handle):
    """Waits for a handle, whose result is where it was asked for."""
    synchronize(handle)


def horovod_torch_reset():
    """Nothing: handles that nobody waits for are given up by the next init()."""
