"""Data-parallel training: every worker computes gradients, an allreduce averages them.

Nothing is imported here before it is used: `horovod.torch` needs PyTorch alone, `horovod.numpy` nothing,
`horovod.run` what starts processes.
"""

__all__ = ["run", "runtime_version", "__version__"]

# Scripts and packages compare it: the version of Horovod whose interface this is. The package's own is runtime_version.
__version__ = "0.28.1"


def __getattr__(name):
    """`run`, `runtime_version` and `_core`, the C extension, on first use."""
    if name == "run":
        from horovod.runner import run  # pylint: disable=import-outside-toplevel
        return run
    if name == "runtime_version":
        from horovod import _core  # pylint: disable=import-outside-toplevel
        return _core.version()
    if name == "_core":
        from horovod.common.library import load  # pylint: disable=import-outside-toplevel
        return load()
    raise AttributeError(f"module 'horovod' has no attribute '{name}'")
